"""Proves the adaptive tables of live switches: every packet arrives and nothing deadlocks, whatever ports they choose.

A switch may take the static port of a destination or any port of its group, so the dependencies of all of them together
are judged. Where they have no cycle, nothing can deadlock (Dally and Seitz). InfiniBand switches keep a packet on the
lane of its service level, so that there is no lane to escape to unless a map from lane to lane says so, and no such map
is read here: a cycle of all choices counts, also where the static ports alone have none (Duato's condition).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.names import end_label
from routing.order.channel_order import rising_order
from routing.order.legal import ChannelOrder
from routing.proof import judge_dependencies
from routing.studies.adaptive.groups import (
    ARRIVES,
    UNSEEN,
    Choices,
    Outcome,
    blocks,
    by_switch,
    follow,
    port_groups,
)
from routing.studies.adaptive.tables import AdaptiveTables, LidState
from routing.tables import NO_PATH, EndpointSet, delivery_channels, select_endpoints
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, frozen
from topo.table import Shown, Table

KINDS = {
    "lost": "pairs that some choice of ports loses",
    "loops": "channels in credit loops, all choices together",
    "undefined": "entries whose group has no port",
    "unplugged": "ports of groups without a cable",
    "outside": "entries whose static port is not in their group",
    "mixed": "destinations that are adaptive on some switches only",
    "uneven": "entries with other ports than another destination on the same switch",
    "narrow": "entries without all ports that would be safe and as short",
}
"""What may be wrong: the first two decide the verdict, the others cost bandwidth, or say that tables are half done."""


@dataclass(frozen=True)
class GroupFault:
    """How often something is wrong, and the first place."""

    kind: str
    """A key of `KINDS`."""
    count: int
    example: str


@dataclass(frozen=True)
class AdaptiveProof(Shown):
    """What is true of adaptive tables, for all ordered pairs of different end ports of a set."""

    tables: AdaptiveTables
    pairs: int
    faults: tuple[GroupFault, ...]
    """What is wrong; see `KINDS`."""
    verdict: bool | None
    """Whether every packet arrives and no lane can deadlock, whatever the switches choose. None: the dump does not say
    which private table a packet meets, and it holds for some and not for all; or it leaves switches out. A private
    table without any entry is taken for one that no packet meets."""
    ports: float
    """Mean number of ports that a switch may take, between switches, towards another switch with end ports."""
    max_hops: int
    """Most switches that a packet which arrives may pass."""
    max_load: float
    """Pairs over the fullest channel between switches, where each switch splits its flows evenly over its choices."""
    fullest: float
    """The same with each link counted by its rate: twice where it has half that of the fastest."""
    static_loops: int
    """Channels in credit loops of the static ports alone."""

    def _brief(self) -> str:
        return f"{self.answer}: {plural(self.pairs, 'pair')}, {', '.join(f'{f.count:,} {f.kind}' for f in self.faults)}"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.fault_table)

    def count(self, kind: str) -> int:
        """Return how often something of `KINDS` is wrong."""
        return sum(fault.count for fault in self.faults if fault.kind == kind)

    @property
    def holds(self) -> bool:
        """Whether the verdict is that it holds: cannot tell is not enough."""
        return self.verdict is True

    @property
    def answer(self) -> str:
        """The verdict in words."""
        return {True: "holds", False: "fails", None: "cannot tell"}[self.verdict]

    @property
    def table(self) -> Table:
        """The figures."""
        figures = {
            "pairs": self.pairs,
            "lost by some choice": self.count("lost"),
            "channels in credit loops": self.count("loops"),
            "the same of static ports": self.static_loops,
            "ports to choose from, mean": f"{self.ports:.2f}",
            "most switches passed": self.max_hops,
            "fullest link, pairs": f"{self.max_load:,.0f}",
        }
        title = f"adaptive routing, whatever port a switch takes: {self.answer}"
        return Table.of_rows(title, ("figure", "value"), figures.items())

    @property
    def fault_table(self) -> Table:
        """What is wrong, with the first place of each."""
        what = (lambda fault: KINDS[fault.kind], "what")
        columns = (what, ("count", "how many"), ("example", "for example"))
        return Table.of("what is wrong with groups of ports", self.faults, *columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict, the figures and the faults as plain values, ready for JSON."""
        faults = [vars(fault) | {"what": KINDS[fault.kind]} for fault in self.faults]
        figures = {name: getattr(self, name) for name in ("ports", "max_hops", "max_load", "static_loops")}
        return {"verdict": self.answer, "pairs": self.pairs, "faults": faults, **figures}


@dataclass(frozen=True, eq=False)
class _Query:
    """What is asked of tables: (D,) destinations, those on one switch together, and the sources of packets to each."""

    fabric: Fabric
    ends: NDArray[np.int32]
    lid: NDArray[np.int32]
    home: NDArray[np.int32]
    exit: NDArray[np.int32]
    sources: NDArray[np.int32]
    """(S,) of all packets; a destination sends none to itself."""

    def choices(self, tables: AdaptiveTables, numbers: Sequence[int], block: slice) -> Choices:
        """Return what a block of destinations allows, by any of some private tables."""
        home, lid = self.home[block], self.lid[block]
        sources = np.tile(self.sources, (len(home), 1))
        sources[np.arange(len(home)), home] -= 1
        allowed = np.zeros((len(home), self.fabric.n_ports), bool)
        stuck = np.zeros((len(home), self.fabric.n_switches), bool)
        for number in numbers:
            by_one = tables.allowed(self.fabric, number, lid)
            stuck |= tables.stuck(self.fabric, number, lid, by_one)
            allowed |= by_one
        return Choices(frozen(allowed), frozen(home), frozen(self.exit[block]), frozen(sources), frozen(stuck))


def prove_adaptive(fabric: Fabric, tables: AdaptiveTables, endpoints: EndpointSet = "hca") -> AdaptiveProof:
    """Follow packets between all end ports out of every port that switches may take, and judge what waits for what.

    Parameters
    ----------
    fabric : Fabric
    tables : AdaptiveTables
        As `read_far` returns them, for this fabric.
    endpoints : str
        A set of `routing.tables.select_endpoints`; those without a cable are left out.

    Raises
    ------
    RoutingError
        When fewer than two end ports have a LID, or the tables are not of this fabric.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> tables = routing.studies.adaptive.legal_tables(routed)
    >>> routing.studies.adaptive.prove_adaptive(routed.fabric, tables).table.title
    'adaptive routing, whatever port a switch takes: holds'
    """
    asked = _query(fabric, tables, endpoints)
    numbers = _used(tables)
    alone = [_follow_all(asked, tables, [number]) for number in numbers]
    lost, found, states = alone[0] if len(numbers) == 1 else _follow_all(asked, tables, numbers)
    looping, loop, _ = judge_dependencies(fabric, found.depends)
    verdicts = [not missed and not judge_dependencies(fabric, part.depends)[0].any() for missed, part, _ in alone]
    blank = bool((tables.state == LidState.ABSENT).all(axis=(0, 2)).any())  # a switch that the dump leaves out
    untold = any(verdicts) or (blank and not looping.any())
    verdict = True if not lost and not looping.any() else None if untold else False
    without_groups = replace(tables, group=np.full_like(tables.group, -1))
    static = _follow_all(asked, without_groups, numbers)[1]
    order = None if looping.any() else rising_order(fabric, found.depends)
    compared, ports = _compare_groups(asked, tables, order, states)
    faults = [
        GroupFault("lost", lost, _lost_example(asked, tables, states)),
        GroupFault("loops", int(looping.sum()), " > ".join(fabric.channel_label(port) for port in loop)),
        *_entries(asked, tables),
        *compared,
    ]
    inner, rate = fabric.inner, fabric.rate_gbps[fabric.inner]
    return AdaptiveProof(
        tables=tables,
        pairs=len(asked.lid) * (int(asked.sources.sum()) - 1),
        faults=tuple(fault for fault in faults if fault.count),
        verdict=verdict,
        ports=ports,
        max_hops=int(np.flatnonzero(found.hops).max(initial=0)),
        max_load=float(found.load[inner].max(initial=0)),
        fullest=float((found.load[inner] * (rate.max(initial=0) / rate)).max(initial=0)),
        static_loops=int(judge_dependencies(fabric, static.depends)[0].sum()),
    )


def _query(fabric: Fabric, tables: AdaptiveTables, endpoints: EndpointSet) -> _Query:
    plain = tables.static()
    if tables.lft.shape[1] != fabric.n_switches or len(tables.lid) != fabric.n_end_ports:
        raise RoutingError("found adaptive tables of another fabric; expected as many switches and end ports as it has")
    ends = select_endpoints(fabric, plain, endpoints)
    ends = ends[fabric.end_switch[ends] >= 0]
    if len(ends) < 2:
        raise RoutingError(f"found {plural(len(ends), 'end port')} with a LID ({endpoints}); expected at least two")
    sources = np.bincount(fabric.end_switch[ends], minlength=fabric.n_switches).astype(np.int32)
    dests, lid = plain.lids_of(ends)
    turn = np.argsort(fabric.end_switch[dests], kind="stable")
    dests, lid = dests[turn], lid[turn]
    return _Query(fabric, dests, lid, fabric.end_switch[dests], delivery_channels(fabric, dests), sources)


def _used(tables: AdaptiveTables) -> list[int]:
    """Return the private tables in which some switch has an entry: no packet gets anywhere by another."""
    used: list[int] = np.flatnonzero((tables.state != LidState.ABSENT).any(axis=(1, 2))).tolist()
    return used or [0]


def _follow_all(
    asked: _Query, tables: AdaptiveTables, numbers: Sequence[int]
) -> tuple[int, Outcome, NDArray[np.uint8]]:
    """Return what `follow` does where switches may take what any of some private tables allow."""
    return follow(asked.fabric, len(asked.lid), lambda block: asked.choices(tables, numbers, block))


def _lost_example(asked: _Query, tables: AdaptiveTables, states: NDArray[np.uint8]) -> str:
    """Return one way of a packet that is lost: switch by switch, and how it ends."""
    fabric = asked.fabric
    short = (states != ARRIVES) & (asked.sources > 0)
    short[np.arange(len(states)), asked.home] &= asked.sources[asked.home] > 1
    if not short.any():
        return ""
    dest, here = np.argwhere(short)[0].tolist()
    given = asked.choices(tables, _used(tables), slice(dest, dest + 1))
    allowed, stuck = given.allowed[0], given.stuck[0]
    path: list[int] = []
    while here not in path:
        path.append(here)
        ports = [port for port in fabric.ports_of(here) if allowed[port]]
        ending = [port for port in ports if fabric.peer_node[port] >= fabric.n_switches and port != asked.exit[dest]]
        onward = [int(fabric.peer_node[port]) for port in ports if fabric.peer_node[port] < fabric.n_switches]
        bad = [there for there in onward if states[dest, there] != ARRIVES]
        if ending:
            end = f"handed to {fabric.label(int(fabric.peer_node[ending[0]]))}"
        elif not ports:
            end = "no port"
        elif stuck[here]:
            end = "no port by one of its private tables, or a static one without a cable"
        elif bad:
            here, end = bad[0], "round about"
            continue
        break
    names = " > ".join(fabric.label(switch) for switch in path)
    return f"to {end_label(fabric, int(asked.ends[dest]))}: {names}, {end}"


def _entries(asked: _Query, tables: AdaptiveTables) -> list[GroupFault]:
    """Return what is wrong with entries and groups by themselves."""
    fabric, known = asked.fabric, np.flatnonzero(asked.lid < tables.lft.shape[2])
    lid, ends = asked.lid[known], asked.ends[known]
    state, group, port = tables.state[:, :, lid], tables.group[:, :, lid], tables.lft[:, :, lid]
    adaptive = ~np.isin(state, (LidState.STATIC, LidState.ABSENT))
    reach = np.append(tables.members, np.zeros((1, tables.members.shape[1]), bool), axis=0)  # the last row: no group
    empty = adaptive & ~np.asarray(reach.any(axis=1))[group]
    outside = adaptive & ~empty & (port != NO_PATH) & ~reach[group, np.minimum(port, tables.members.shape[1] - 1)]
    other = np.arange(fabric.n_switches)[:, None] != fabric.end_switch[ends]
    there = other & (state != LidState.ABSENT)
    mixed = (adaptive & there).any(axis=(0, 1)) & (~adaptive & there).any(axis=(0, 1))

    def first(where: NDArray[np.bool_]) -> str:
        if not where.any():
            return ""
        _, switch, dest = np.argwhere(where)[0].tolist()
        return _entry_label(asked, switch, known[dest])

    user = np.full(len(tables.members), -1, np.int64)
    entry = np.nonzero(tables.group >= 0)
    user[tables.group[entry]] = entry[1]
    row, number = np.nonzero(tables.members)
    used = user[row] >= 0
    row, number = row[used], number[used]
    dark = fabric.peer[fabric.port_offset[user[row]] + number - 1] < 0
    dark_example = ""
    if dark.any():
        one = int(np.argmax(dark))
        dark_example = f"{fabric.label(int(user[row[one]]))} port {number[one]}, group {tables.number[row[one]]}"
    one_mixed = end_label(fabric, int(ends[np.argmax(mixed)])) if mixed.any() else ""
    return [
        GroupFault("undefined", int(empty.sum()), first(empty)),
        GroupFault("unplugged", int(dark.sum()), dark_example),
        GroupFault("outside", int(outside.sum()), first(outside)),
        GroupFault("mixed", int(mixed.sum()), one_mixed),
    ]


def _compare_groups(
    asked: _Query, tables: AdaptiveTables, order: ChannelOrder | None, states: NDArray[np.uint8]
) -> tuple[list[GroupFault], float]:
    """Return what groups lack beside those of others, and the mean number of ports between switches.

    An order of all channels, in which all choices rise, says which further ports would be safe; without one, none is.
    """
    fabric, n = asked.fabric, asked.fabric.n_switches
    begin, targets = fabric.port_offset[: n + 1], np.unique(asked.home).astype(np.int32)
    wanted = np.zeros((len(targets), begin[-1]), bool)
    if order is not None:
        wanted[:, begin[order.sender] + order.number - 1] = port_groups(order, frozen(targets), True)
    chosen = choosers = 0
    found, example = Counter[str](), {"uneven": "", "narrow": ""}
    last, alike = -1, np.zeros(begin[-1], bool)
    numbers = _used(tables)
    for block in blocks(len(asked.lid)):
        by_any = reduce(np.logical_or, (tables.allowed(fabric, number, asked.lid[block]) for number in numbers))
        allowed = by_any[:, : begin[-1]] & fabric.is_inner[: begin[-1]]
        home, state = asked.home[block], states[block]
        matters = (state != UNSEEN) & (np.arange(n) != home[:, None])
        count = by_switch(allowed, begin)
        chosen += int(count[matters].sum())
        choosers += int(np.count_nonzero(matters & (count > 0)))
        first = allowed[np.searchsorted(home, home)]  # destinations on one switch follow one another
        first[home == last] = alike
        last, alike = int(home[-1]), first[-1]
        safe = wanted[np.searchsorted(targets, home)]
        lacks = by_switch(safe & ~allowed, begin)
        for kind, wrong in (("uneven", by_switch(allowed ^ first, begin) > 0), ("narrow", lacks > 0)):
            places = np.argwhere(matters & wrong)
            found[kind] += len(places)
            if len(places) and not example[kind]:
                row, switch = places[0].tolist()
                example[kind] = _entry_label(asked, switch, block.start + row)
                if kind == "narrow":
                    wide = by_switch(safe[row : row + 1], begin)[0, switch]
                    example[kind] += f": lacks {lacks[row, switch]} of {wide} ports"
    return [GroupFault(kind, found[kind], example[kind]) for kind in example], chosen / choosers if choosers else 0.0


def _entry_label(asked: _Query, switch: int, dest: int) -> str:
    return f"{asked.fabric.label(switch)} to {end_label(asked.fabric, int(asked.ends[dest]))}"
