"""Texts in the folder of OpenSM files: its README, and units of systemd that keep the tables."""

from __future__ import annotations

import shlex

from routing.routed import Routed
from topo.ports import lacks_manager

PLANNED = """\
The GUIDs in these files are **planned ones**, which no hardware has. When the cables are installed, make the files
again from the real fabric:
"""

ADOPT = """
    ibnetdiscover > real.ibnetdiscover
    plan diff SPEC real.ibnetdiscover --subnet {subnet} --adopt NEW

NEW is a folder of its own: the plan stays as it is. Names and roles are those of the plan. Without the spec, use `plan
route real.ibnetdiscover -o NEW`.
"""

ROUTE = """
    ibnetdiscover > real.ibnetdiscover
    plan route real.ibnetdiscover -o OUT

These are the {caveat}. `plan diff --adopt` refuses a dump of such switches. So there is
nothing to install here: the files show what a subnet manager would be given.
"""

DISCOVERED = """\
The tables use the GUIDs of the real fabric, and are for the cables that the parent of this folder has: after `plan diff
--adopt`, those of the plan. Until the fabric is cabled so, load those of `plan repair .. --now real.ibnetdiscover -o
NEW` instead. If you replace a switch, the new one has another GUID and gets no routes from these files.
"""

NO_HOST = """
No host but compute servers can run OpenSM here: {why}. A server that runs a job and the subnet manager does both worse.
Give a management server a port in this network, or reserve a compute server for OpenSM.
"""

INSTALL = """
## Install

On the host that runs OpenSM, save `/etc/opensm` and `{cache}` first: these files replace yours. If your `opensm.conf`
has keys, priorities or prefixes of your own, or your `partitions.conf` has partitions, copy them into these files.

    install -d {directory} {cache}
    install -m 644 opensm.conf lfts *_guids partitions.conf qos-policy.conf node-name-map {directory}/
    systemctl stop opensm
    install -m 644 guid2lid {cache}/
    systemctl start opensm

Or, to sweep once and watch: `opensm -F {directory}/opensm.conf -o -f stdout -D 0x43`.

The log must contain `file tables configured on all switches`. This proves little, because OpenSM does not check the
tables. Let Heddle verify the tables that are loaded:

    ibnetdiscover > real.ibnetdiscover
    dump_fts > real.lfts
    plan verify real.ibnetdiscover real.lfts
"""

FILES = """
## Files

| file | goes to | content |
| --- | --- | --- |
| `opensm.conf` | `{directory}` | options: engine `file`, and no fallback |
| `lfts` | `{directory}` | forwarding tables; entries name port GUIDs, and stay valid with other LIDs |
| `guid2lid` | `{cache}` | LIDs of the plan; stop OpenSM first, because it rewrites this file |
| `root_guids` | `{directory}` | switches at the top, only for the engines `updn` and `ftree` |
| `cn_guids`, `io_guids` | `{directory}` | ports of compute and of storage hosts, for the same engines |
| `partitions.conf` | `{directory}` | one partition, in which every port is a full member |
| `qos-policy.conf` | `{directory}` | service levels of paths; read when `opensm.conf` has `qos TRUE` |
| `node-name-map` | `{directory}` | names of nodes, also for `ibnetdiscover --node-name-map` |
| `heddle-keep*` | see below | keep the tables when cables or switches fail |
"""

KEEP = """
## When cables or switches fail

OpenSM does not repair these tables; `plan keep` does. To run it whenever OpenSM detects a change, copy the parent of
this folder to `{directory}/plan`, add `log_flags 0x43` to the options of OpenSM (and `force_log_flush TRUE` to follow
its log), and run

    ln -s "$(command -v plan)" /usr/local/bin/plan
    install -m 644 heddle-keep* /etc/systemd/system/
    systemctl enable --now heddle-keep.path heddle-keep.timer

OpenSM then lists the fabric after each sweep. `plan keep` reads this list and the tables in the switches, repairs them,
lets OpenSM load them stage by stage, and reads back that it has. `systemctl status heddle-keep` shows what is left to
do. `heddle-keeper.service` is the alternative: it stays in memory and answers faster. Enable one of the two.
"""

CLASSES = """
## Traffic classes

| class | service level | lane | weight | whose traffic |
| --- | --- | --- | --- | --- |
{rows}
Hosts that ask OpenSM for a path receive the service level. Applications that do not ask must set it themselves; NCCL
uses `NCCL_IB_SL`.
"""

LEVELS = """
## Service levels of paths

These tables are free of credit loops only on {lanes} lanes: each path has a service level, which applications that
ask OpenSM for the path receive from `qos-policy.conf` (librdmacm, IPoIB). An application that does not ask, or sets
one level for all paths (NCCL with `NCCL_IB_SL`), can close a credit loop with others, and the fabric can deadlock. If
you cannot exclude this, use an engine that needs one lane. To verify the tables on their lanes:

    plan verify real.ibnetdiscover real.lfts --lanes opensm.conf --policy qos-policy.conf
"""


def format_readme(routed: Routed, directory: str, cache: str, path_lanes: int = 1) -> str:
    """Return the text, in Markdown; ``path_lanes`` are the lanes that paths need to be free of credit loops."""
    fabric = routed.fabric
    adopt = ADOPT.format(subnet=shlex.quote(fabric.name))
    planned = PLANNED + (ROUTE.format(caveat=fabric.caveat) if fabric.caveat else adopt)
    guids = planned if fabric.is_planned else DISCOVERED
    why = lacks_manager(fabric) if fabric.is_planned else ""  # a dump does not say what its hosts are for
    guids += NO_HOST.format(why=why) if why else ""
    parts = (FILES,) if fabric.caveat else (INSTALL, FILES, KEEP)
    text = f"# OpenSM's files for {fabric.name}\n\n{guids}{''.join(parts).format(directory=directory, cache=cache)}"
    rows = ""
    for item in fabric.traffic:
        whose = ", ".join(role.name.lower() for role in item.roles) or "applications that set the level"
        rows += f"| {item.name} | {item.sl} | {item.vl} | {item.weight} | {whose} |\n"
    if path_lanes > 1:
        text += LEVELS.format(lanes=path_lanes)
    return text + CLASSES.format(rows=rows) if rows else text


# Units of systemd that run `plan keep` whenever OpenSM has found a change, or that keep it running. OpenSM writes
# opensm-subnet.lst after each sweep (log_flags 0x43), a trap's too. The timer is for what was missed, and for what
# failed. The resident keeper takes the place of both.
NOW = "/var/log/opensm-subnet.lst"

# systemd looks for programs in /usr/local/bin, where the README puts a link to `plan`, and in /usr/sbin.
COMMAND = "/usr/bin/env plan keep {directory}/plan --now {now} --load {directory}/lfts"

ONCE = """\
[Unit]
Description=Keep OpenSM's tables as good as what is up allows
After=opensm.service

[Service]
Type=oneshot
ExecStart={command}
"""

PATH_UNIT = """\
[Unit]
Description=Keep OpenSM's tables after each sweep

[Path]
PathChanged={now}

[Install]
WantedBy=multi-user.target
"""

TIMER = """\
[Unit]
Description=Keep OpenSM's tables, should a sweep have been missed or a pass have failed

[Timer]
OnBootSec=10min
OnUnitInactiveSec=10min
Unit=heddle-keep.service

[Install]
WantedBy=timers.target
"""

RESIDENT = """\
[Unit]
Description=Keep OpenSM's tables as good as what is up allows, from memory
After=opensm.service

[Service]
ExecStart={command} --every 60
Restart=always
RestartSec=60

[Install]
WantedBy=multi-user.target
"""


def keeper_files(directory: str) -> dict[str, str]:
    """Return the units by name; ``directory`` is where the files of a plan will be installed."""
    command = COMMAND.format(directory=directory, now=NOW)
    return {
        "heddle-keep.service": ONCE.format(command=command),
        "heddle-keep.path": PATH_UNIT.format(now=NOW),
        "heddle-keep.timer": TIMER,
        "heddle-keeper.service": RESIDENT.format(command=command),
    }
