"""What lies beside OpenSM's files: which goes where, and what must be true before and after."""

from __future__ import annotations

from topo.builder import GUID_PREFIX
from topo.fabric import Fabric

PLANNED = """\
The GUIDs in these files are **planned ones**, which no hardware has: they show how the fabric shall be. Once the cables
are in, make the files again from what is really there:

    ibnetdiscover > real.ibnetdiscover
    plan route real.ibnetdiscover -o OUT
"""

DISCOVERED = """\
The tables are for the GUIDs that were discovered. A switch that is replaced has another GUID, and gets no routes from
these files.
"""

TEXT = """\
# OpenSM's files for {name}

{guids}
## Install

On the host that runs OpenSM:

    install -d {directory} {cache}
    install -m 644 opensm.conf lfts *_guids partitions.conf qos-policy.conf node-name-map {directory}/
    systemctl stop opensm
    install -m 644 guid2lid {cache}/
    systemctl start opensm

Or, to sweep once and watch: `opensm -F {directory}/opensm.conf -o -f stdout -D 0x43`.

The log must say `file tables configured on all switches`. That proves little, since OpenSM believes whatever the tables
say. Let Heddle judge what is really loaded:

    ibnetdiscover > real.ibnetdiscover
    dump_fts > real.lfts
    plan verify real.ibnetdiscover real.lfts

## What is what

| file | goes to | what it is |
| --- | --- | --- |
| `opensm.conf` | `{directory}` | options: engine `file`, and no fallback |
| `lfts` | `{directory}` | forwarding tables; entries name port GUIDs, so they hold under other LIDs too |
| `guid2lid` | `{cache}` | LIDs of the plan; OpenSM rewrites it, so stop OpenSM first |
| `root_guids` | `{directory}` | switches at the top, for the engines `updn` and `ftree`, if ever |
| `cn_guids`, `io_guids` | `{directory}` | ports of compute and of storage hosts, likewise |
| `partitions.conf` | `{directory}` | one partition, everybody a full member |
| `qos-policy.conf` | `{directory}` | service levels of paths; read when `opensm.conf` has `qos TRUE` |
| `node-name-map` | `{directory}` | names of nodes, also for `ibnetdiscover --node-name-map` |

| `heddle-repair*` | see below | mends the tables when cables or switches fail |

## When cables or switches fail

These tables do not heal by themselves. `plan repair` mends them; to have that done whenever OpenSM finds a change, put
the folder that this one is in to `{directory}/plan`, `log_flags 0x43` into the options of OpenSM, and

    install -m 755 heddle-repair {directory}/
    install -m 644 heddle-repair.* /etc/systemd/system/
    systemctl enable --now heddle-repair.path heddle-repair.timer

OpenSM then lists the fabric after each sweep, and the script takes that list, mends the tables, proves them, and has
them loaded. Where that cannot be proven nothing is loaded, and `/var/lib/heddle/report` says why.
"""

CLASSES = """
## Traffic classes

| class | service level | lane | weight | whose traffic |
| --- | --- | --- | --- | --- |
{rows}
Hosts that ask OpenSM for a path are told the service level. Applications that do not ask set it themselves, as NCCL
does with `NCCL_IB_SL`.
"""

LEVELS = """
## Service levels of paths

These tables are free of credit loops only on {lanes} lanes: each path has its service level, which `qos-policy.conf`
tells whoever asks OpenSM for the path (librdmacm, IPoIB). An application that does not ask, or sets one level for all
(NCCL with `NCCL_IB_SL`), can close a credit loop with others, and the fabric can deadlock. Where that cannot be ruled
out, route with an engine that needs one lane. To judge them on their lanes:

    plan verify real.ibnetdiscover real.lfts --lanes opensm.conf --policy qos-policy.conf
"""


def format_readme(fabric: Fabric, directory: str, cache: str, path_lanes: int = 1) -> str:
    """Return the text, in Markdown; ``path_lanes`` are the lanes that paths need to be free of credit loops."""
    planned = bool((fabric.node_guid >> 56 == GUID_PREFIX >> 56).any())
    text = TEXT.format(name=fabric.name, guids=PLANNED if planned else DISCOVERED, directory=directory, cache=cache)
    rows = ""
    for item in fabric.traffic:
        whose = ", ".join(role.name.lower() for role in item.roles) or "applications that set the level"
        rows += f"| {item.name} | {item.sl} | {item.vl} | {item.weight} | {whose} |\n"
    if path_lanes > 1:
        text += LEVELS.format(lanes=path_lanes)
    return text + CLASSES.format(rows=rows) if rows else text
