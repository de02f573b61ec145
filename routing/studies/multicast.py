"""Multicast trees of a live fabric: every member is reached once, and no packet goes round.

A switch sends a multicast packet out of every port of its entry but the one that it came by. So the entries of a group
serve all members, each once, exactly where the cables that they name on both ends form one tree over the switches with
entries. An end that is named alone leads packets out and none back, or into a switch that drops them.

`parse_mcfdbs` reads OpenSM's ``opensm.mcfdbs``, whose ports are hexadecimal; ibdiagnet's file of that name has the same
form as far as public readers tell::

    Switch 0x0c42a103004b7000
    LID    : Out Port(s)
    0xC001 : 0x001  0x010

`plan_trees` makes trees for a plan: each as flat as can be, all together such that cables carry few of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from routing.names import find_ends
from routing.order.channel_order import hops_from
from routing.studies.adaptive.far import SWITCH, switch_numbers
from routing.tables import switch_graph
from topo.errors import FormatError, HeddleError, plural
from topo.fabric import Fabric
from topo.files.text import numbered_lines, read_lines
from topo.graphs import components
from topo.table import Brief, Record, Shown, Table

ENTRY = re.compile(r"0x([0-9a-f]{1,4})\s*:((?:\s+0x[0-9a-f]{1,3})*)\s*", re.IGNORECASE)
FIRST_LID, LAST_LID = 0xC000, 0xFFFE
"""Multicast LIDs (InfiniBand Architecture Specification, volume 1, 4.1.3)."""


@dataclass(frozen=True)
class MulticastGroup(Record):
    """What the entries of one multicast LID give."""

    mlid: int
    switches: int
    """Switches with an entry."""
    members: int
    """Adapter ports that are sent to."""
    depth: int
    """Most switches on a path between two members; 0 where there is no tree."""
    one_sided: int
    """Ports to a switch that does not name the cable's other end."""
    parts: int
    """Trees, or parts with loops, into which the switches fall; 1 serves all members."""
    loops: int
    """Cables too many for a tree: packets go round for ever."""
    unplugged: int
    """Ports without a cable."""
    example: str
    """The first thing wrong."""

    _derived = ("holds",)

    @property
    def holds(self) -> bool:
        """Whether every member gets each packet once."""
        return not self.one_sided and not self.loops and self.parts < 2


@dataclass(frozen=True)
class MulticastStudy(Shown):
    """All multicast groups of a fabric."""

    groups: tuple[MulticastGroup, ...]
    most_per_switch: int
    """Entries of the switch that has most: switches hold so many at least."""
    notes: tuple[str, ...] = ()
    """What was left out of what was read."""

    def _brief(self) -> str:
        bad = sum(not group.holds for group in self.groups)
        return f"{plural(len(self.groups), 'multicast group')}, {bad} of them no tree"

    @property
    def holds(self) -> bool:
        """Whether every group is a tree."""
        return all(group.holds for group in self.groups)

    @property
    def table(self) -> Table:
        """The groups, those first that do not hold."""
        rows = sorted(self.groups, key=lambda group: (group.holds, group.mlid))
        return Table.of(
            "multicast groups",
            rows,
            (lambda row: f"0x{row.mlid:04x}", "LID"),
            (lambda row: "holds" if row.holds else "fails", ""),
            *("switches", "members", "depth", ("one_sided", "one-sided"), "parts", "loops", "unplugged"),
            ("example", "for example"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the groups as plain values, ready for JSON."""
        groups = [group.to_dict() for group in self.groups]
        return {"holds": self.holds, "most_per_switch": self.most_per_switch, "groups": groups}


def read_mcfdbs(path: str | Path, fabric: Fabric) -> MulticastStudy:
    """Study the multicast groups of a file; see `parse_mcfdbs`.

    Examples
    --------
    >>> import tempfile, topo
    >>> from pathlib import Path
    >>> from routing.studies import read_mcfdbs
    >>> fabric, path = topo.preset("lab-20").fabric, Path(tempfile.mkdtemp(), "opensm.mcfdbs")
    >>> _ = path.write_text(f"Switch 0x{int(fabric.node_guid[0]):x}{chr(10)}0xC001 : 0x001 0x002")
    >>> read_mcfdbs(path, fabric).groups[0].depth
    1
    """
    return parse_mcfdbs(read_lines(path), fabric, str(path))


def parse_mcfdbs(text: str | Iterable[str], fabric: Fabric, path: str = "") -> MulticastStudy:
    """Study the multicast groups of a dump.

    Parameters
    ----------
    text : str or iterable of str
        The file, or its lines.
    fabric : Fabric
        Of what was dumped.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        With the line: no switch above an entry, a LID that is none of multicast, a port that the switch does not have,
        or a line of another form; and for a file without a switch of the fabric.

    Examples
    --------
    >>> import topo
    >>> from routing.studies import parse_mcfdbs
    >>> fabric = topo.preset("lab-20").fabric
    >>> study = parse_mcfdbs([f"Switch 0x{int(fabric.node_guid[0]):x}", "0xC001 : 0x001 0x002"], fabric)
    >>> study.holds, study.groups[0].members
    (True, 2)
    """
    number_of = switch_numbers(fabric)
    entries: dict[int, set[int]] = {}
    seen, unknown, here = set[int](), 0, None
    for line_number, line in numbered_lines(text, path):
        words = line.strip()
        if start := SWITCH.fullmatch(words):
            here = number_of.get(int(start[1], 16), -1)
            seen.add(here)
            unknown += here < 0
        elif entry := ENTRY.fullmatch(words):
            mlid, numbers = int(entry[1], 16), [int(port, 16) for port in entry[2].split()]
            if here is None or not FIRST_LID <= mlid <= LAST_LID:
                expected = f"a LID from 0x{FIRST_LID:04x} to 0x{LAST_LID:04x}, below the switch that has the entry"
                raise FormatError(f"found {words[:60]!r}; expected {expected}", path, line_number)
            if here < 0:
                continue
            first, last = fabric.port_offset[here : here + 2].tolist()
            if numbers and max(numbers) > last - first:
                expected = f"ports up to {last - first}, in hexadecimal"
                raise FormatError(f"found {words[:60]!r}; expected {expected}", path, line_number)
            entries.setdefault(mlid, set()).update(first + number - 1 for number in numbers if number)
        elif not words.lower().startswith("lid"):
            raise FormatError(f"found {words[:60]!r}; expected a switch or an entry", path, line_number)
    if not seen - {-1}:
        raise FormatError("holds no multicast table of any switch of this fabric", path)
    groups = tuple(_study(fabric, mlid, np.array(sorted(ports), np.int64)) for mlid, ports in sorted(entries.items()))
    count = np.zeros(fabric.n_switches, np.int64)
    for ports in entries.values():
        count[np.unique(fabric.port_node[sorted(ports)])] += 1
    notes = (f"{plural(unknown, 'switch', 'switches')} of the dump that the fabric does not have",) if unknown else ()
    return MulticastStudy(groups, int(count.max(initial=0)), notes)


def _study(fabric: Fabric, mlid: int, ports: NDArray[np.int64]) -> MulticastGroup:
    """Return what the ports of a group give."""
    n = fabric.n_switches
    peer, to = fabric.peer[ports], fabric.peer_node[ports]
    inside = (peer >= 0) & (to < n)
    mutual = inside & np.isin(peer, ports)
    low = ports[mutual & (peer > ports)]
    switches = np.unique(fabric.port_node[ports])
    part = components(n, fabric.port_node[low], fabric.peer_node[low])[switches]
    parts = len(np.unique(part))
    loops = len(low) - (len(switches) - parts)
    one_sided, dark = ports[inside & ~mutual], ports[peer < 0]
    example = ""
    if len(one_sided):
        example = f"{fabric.channel_label(int(one_sided[0]))}, which does not answer"
    elif loops:
        example = f"{fabric.channel_label(_on_circle(fabric, low))} and others form a circle"
    elif parts > 1:
        apart = switches[part != part[0]][0]
        example = f"{fabric.label(int(switches[0]))} does not reach {fabric.label(int(apart))}"
    elif len(dark):
        example = f"{fabric.port_label(int(dark[0]))} has no cable"
    return MulticastGroup(
        mlid,
        switches=len(switches),
        members=int(((peer >= 0) & (to >= n)).sum()),
        depth=0 if loops or parts > 1 or len(one_sided) else _depth(fabric, low, ports[(peer >= 0) & (to >= n)]),
        one_sided=len(one_sided),
        parts=parts,
        loops=loops,
        unplugged=len(dark),
        example=example,
    )


def _on_circle(fabric: Fabric, cables: NDArray[np.int64]) -> int:
    """Return the first of some cables that form no tree whose ends the others join as well."""
    for at, port in enumerate(cables.tolist()):
        rest = np.delete(cables, at)
        part = components(fabric.n_switches, fabric.port_node[rest], fabric.peer_node[rest])
        if part[fabric.port_node[port]] == part[fabric.peer_node[port]]:
            return int(port)
    raise AssertionError("cables without a circle")


def _depth(fabric: Fabric, cables: NDArray[np.int64], members: NDArray[np.int64]) -> int:
    """Return the most switches between two members of a tree: twice breadth first, from any and from the farthest."""
    homes, depth = np.unique(fabric.port_node[members]), 0
    ends = fabric.port_node[cables], fabric.peer_node[cables]
    tree = csr_array((np.ones(len(cables)), ends), shape=(fabric.n_switches, fabric.n_switches))
    start = homes[:1]
    for _ in range(2 if len(homes) else 0):
        hops = dijkstra(tree, directed=False, unweighted=True, indices=start)[0, homes]
        start, depth = homes[[hops.argmax()]], 1 + int(hops.max())
    return depth


class Tree(NamedTuple):
    """The tree of a planned multicast group."""

    name: str
    mlid: int
    root: int
    """The switch at its top."""
    height: int
    """Most cables between that and a switch with members: no switch has fewer."""
    ports: frozenset[int]
    """Ports out of which switches send: both ends of each cable between them, and one to each member."""


@dataclass(frozen=True, eq=False)
class MulticastPlan(Brief):
    """Trees for groups of hosts."""

    fabric: Fabric
    trees: tuple[Tree, ...]
    fullest: int
    """Trees over the cable between switches that carries most."""
    least: int
    """What some cable carries in any plan: the groups that leave a switch with members, over its cables."""

    def _brief(self) -> str:
        return f"{plural(len(self.trees), 'tree')}, {self.fullest} over the fullest cable, at least {self.least}"

    @property
    def text(self) -> str:
        """The trees in the form of ``opensm.mcfdbs``, with the names of switches and groups."""
        fabric, by_switch = self.fabric, dict[int, dict[int, list[int]]]()
        for tree in self.trees:
            for port in sorted(tree.ports):
                mine = by_switch.setdefault(int(fabric.port_node[port]), {})
                mine.setdefault(tree.mlid, []).append(int(fabric.port_number[port]))
        lines = ["# Trees for people and for plan verify --multicast: no subnet manager loads multicast tables."]
        lines += [f"# 0x{tree.mlid:04X} {tree.name}: root {fabric.label(tree.root)}" for tree in self.trees]
        for switch, entries in sorted(by_switch.items()):
            lines += [f"# {fabric.label(switch)}", f"Switch 0x{int(fabric.node_guid[switch]):016x}"]
            lines.append("LID    : Out Port(s)")
            lines += [
                f"0x{mlid:04X} : {'  '.join(f'0x{number:03x}' for number in numbers)}"
                for mlid, numbers in entries.items()
            ]
        return "\n".join(lines) + "\n"


def plan_trees(fabric: Fabric, groups: Mapping[str, Sequence[int | str] | NDArray[np.integer]]) -> MulticastPlan:
    """Plan a tree for each of some groups of hosts.

    Each has its root where it is flattest, at the switch from which the farthest member's is nearest. Of such roots,
    and of the cables towards them, those are taken that carry fewest trees so far; large groups choose first.

    Parameters
    ----------
    fabric : Fabric
    groups : mapping
        End ports of each group by its name, by index or as `routing.find_end` takes names.

    Raises
    ------
    HeddleError
        When there is no such end port, or no cables lead to one from the others of its group.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> plan = routing.studies.plan_trees(fabric, {"all": fabric.ends(), "two": ["gpu00", "gpu08"]})
    >>> routing.studies.parse_mcfdbs(plan.text, fabric).holds, plan.fullest
    (True, 1)
    >>> [fabric.label(tree.root) for tree in plan.trees]
    ['spine0', 'spine1']
    """
    members = {name: find_ends(fabric, ends) for name, ends in groups.items()}
    mlid = {name: FIRST_LID + number for number, name in enumerate(members)}
    if len(mlid) > LAST_LID - FIRST_LID:
        raise HeddleError(f"found {len(mlid):,} groups; expected at most {LAST_LID - FIRST_LID:,}, one for each LID")
    graph = switch_graph(fabric)
    hops = np.stack([hops_from(root, *graph) for root in range(fabric.n_switches)])
    carried, trees, leaving = np.zeros(fabric.n_ports, np.int64), list[Tree](), np.zeros(fabric.n_switches, np.int64)
    for name in sorted(members, key=lambda name: (-len(members[name]), name)):
        homes = np.unique(fabric.end_switch[members[name]])
        height = hops[:, homes].max(axis=1, initial=0)
        if (homes < 0).any() or (hops[:, homes].min(axis=1) < 0).all():
            raise HeddleError(f"group {name}: found no cables between some of its members; expected one network")
        height[hops[:, homes].min(axis=1) < 0] = fabric.n_switches
        flat = np.flatnonzero(height == height.min()).tolist()
        grown = {root: _grow(fabric, hops[root], homes, carried) for root in flat}
        busy = {root: carried[fabric.port_node == root].sum() for root in flat}
        full = {root: carried[cables] for root, cables in grown.items()}
        root = min(flat, key=lambda root: (full[root].max(initial=0), len(full[root]), full[root].sum(), busy[root]))
        cables = np.array(grown[root], np.int64)
        leaving[homes] += len(homes) > 1
        carried[cables] += 1
        carried[fabric.peer[cables]] += 1
        ends = fabric.peer[fabric.port_of(members[name])]
        ports = frozenset([*cables.tolist(), *fabric.peer[cables].tolist(), *ends.tolist()])
        trees.append(Tree(name, mlid[name], root, int(height.min()), ports))
    width = np.bincount(fabric.port_node[fabric.inner], minlength=fabric.n_switches).clip(1)
    least, ordered = int(np.ceil(leaving / width).max(initial=0)), tuple(sorted(trees, key=lambda tree: tree.mlid))
    return MulticastPlan(fabric, ordered, int(carried.max(initial=0)), least)


def _grow(fabric: Fabric, hops: NDArray[np.int32], homes: NDArray[np.int32], carried: NDArray[np.int64]) -> list[int]:
    """Return the ports, one for each cable, by which switches hang on those that are a hop nearer to a root."""
    inside, cables = set(homes.tolist()), []
    waiting = sorted(inside, key=lambda switch: -hops[switch])
    for here in waiting:  # it grows by switches that are nearer than those before
        if not hops[here]:
            continue
        nearer = [port for port in fabric.ports_of(here) if fabric.peer[port] >= 0 and (
            there := fabric.peer_node[port]) < fabric.n_switches and hops[there] == hops[here] - 1]  # fmt: skip
        port = min(nearer, key=lambda port: (carried[port], int(fabric.peer_node[port]) not in inside, port))
        cables.append(port)
        there = int(fabric.peer_node[port])
        if there not in inside:
            inside.add(there)
            place = next((at for at, other in enumerate(waiting) if hops[other] < hops[there]), len(waiting))
            waiting.insert(place, there)
    return cables
