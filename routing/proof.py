"""Proves routing tables: every pair walked, every channel dependency judged, and the evidence kept.

A credit loop is a cycle of the channel dependency graph: channels whose packets can all wait for room in the next.
Without a cycle there is no deadlock (Dally and Seitz, IEEE Trans. Computers C-36(5), 1987), and an order of the
channels in which every path only goes up is the certificate for that: `check_certificate` needs nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from routing.names import find_ends
from routing.order.dependencies import dependency_graph, topological_order
from routing.pairs import PairDests, PairWalk, PathTables, empty_walk, follow_lost, walk_pairs
from routing.routed import Routed
from routing.tables import MAX_DATA_VLS, EndpointSet, RoutingTables, delivery_channels, switch_graph, walk
from routing.trace import Trace, trace
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Frozen, Role, frozen
from topo.table import Shown, Table

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_EXAMPLES = 10
CYCLE_STARTS = 32
"""Channels from which a shortest cycle is looked for, inside the smallest component that holds one."""


@dataclass(frozen=True)
class ChannelClass:
    """Load of all channels between switches of two levels, by pairs to destinations of one role or of all."""

    level: int
    """Level of the sending switch."""
    next_level: int
    """Level of the receiving switch."""
    role: Role | None
    """Role of the destinations; None for all of them."""
    channels: int
    """Channels there are."""
    used: int
    """Channels that carry any."""
    max: int
    """Pairs over the most loaded."""
    mean: float
    """Pairs over a used one."""

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        figures = {name: getattr(self, name) for name in ("channels", "used", "max", "mean")}
        return {"levels": [self.level, self.next_level], "role": role_name(self.role), **figures}


def role_name(role: Role | None) -> str:
    """Return the name of a role of destinations; ``all`` for all of them."""
    return "all" if role is None else role.name.lower()


def load_table(classes: Sequence[ChannelClass], each_lid: str = "") -> Table:
    """Return the load of classes of channels as a table; ``each_lid`` is `Proof.each_lid`."""
    return Table.of(
        f"pairs over the channels between switches{each_lid}",
        classes,
        *(("level", "from level"), ("next_level", "to level")),
        (lambda item: role_name(item.role), "destinations"),
        *("channels", "used", ("mean", "mean", "", ",.0f"), "max"),
    )


@dataclass(frozen=True, eq=False)
class Proof(Frozen, Shown):
    """What is true of tables on a fabric of P ports, for all ordered pairs of different end ports of a set."""

    endpoints: str
    """Name of the set of end ports; ``chosen`` when they were given one by one."""
    ends: NDArray[np.int32]
    """(n,) the end ports."""
    pairs: int
    """Ordered pairs of different end ports, once for each LID of the destination, as all counts of pairs here."""
    lids: int
    """LIDs of a host port."""
    missing: int
    """Pairs whose packets do not arrive."""
    disconnected: int
    """Those of the missing pairs that no tables could deliver: the cables hold no path."""
    examples: tuple[Trace, ...]
    """Missing pairs, no two for the same reason at the same switch, at most ten."""
    hops: NDArray[np.int64]
    """(max_hops + 1,) delivered pairs by the number of switches on their path."""
    stretch: int
    """Most switches that a path has beyond the shortest that the cables hold."""
    virtual_lanes: tuple[int, ...]
    """Virtual lanes that delivered pairs use, in ascending order."""
    credit_loops: int
    """Channels that lie on credit loops (in strongly connected components of the dependency graph), lanes summed."""
    loop: tuple[int, ...]
    """Channels of one short credit loop in order, each waiting for the next and the last for the first."""
    undelivered_loops: int
    """Further channels that lie on credit loops once packets that do not arrive count too: these hold channels until a
    switch drops them."""
    undelivered_loop: tuple[int, ...]
    """Channels of one short credit loop that takes such packets, in order."""
    order: NDArray[np.int32]
    """(lanes, P) position of each channel between switches in a topological order of its lane's dependency graph;
    -1 where the lane does not use it, and on and behind loops; lanes as in ``virtual_lanes``. Channels to and from
    adapters need none: they begin or end each path that they are on."""
    depends: NDArray[np.uint64]
    """(lanes, P, words) the dependencies: bit p of a channel between switches says that some pair goes on to output
    port p of the next switch, bit 0 that some uses the channel; lanes as in ``virtual_lanes``."""
    load: NDArray[np.int64]
    """(P,) delivered pairs over each channel."""
    load_by_role: dict[Role, NDArray[np.int64]]
    """(P,) the same by role of the destination."""
    classes: tuple[ChannelClass, ...]
    """Load by level and role."""

    def _brief(self) -> str:
        return (
            f"{'holds' if self.holds else 'fails'}: {plural(self.pairs, 'pair')}, {self.missing:,} missing, "
            f"{plural(self.credit_loops, 'channel')} in credit loops"
        )

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.load_table)

    @property
    def lost(self) -> int:
        """Pairs whose packets do not arrive although cables connect them."""
        return self.missing - self.disconnected

    @property
    def lanes(self) -> int:
        """Virtual lanes that are used."""
        return len(self.virtual_lanes)

    @property
    def max_hops(self) -> int:
        """Switches on the longest path."""
        return len(self.hops) - 1

    @property
    def each_lid(self) -> str:
        """What follows a count of pairs for a person, where ports have several LIDs."""
        return f", once for each of {self.lids} LIDs" if self.lids > 1 else ""

    @property
    def max_load(self) -> int:
        """Pairs over the most loaded channel between switches."""
        return max((item.max for item in self.classes if item.role is None), default=0)

    @property
    def holds(self) -> bool:
        """Whether there are pairs, every one arrives, and no lane has a credit loop."""
        return self.missing == 0 < self.pairs and self.credit_loops == 0

    @property
    def table(self) -> Table:
        """What the proof found: pairs, loops, lanes, path lengths."""
        figures = {
            "pairs": self.pairs,
            "missing pairs": self.missing,
            "of these disconnected": self.disconnected,
            "channels in credit loops": self.credit_loops,
            "further ones by undelivered packets": self.undelivered_loops,
            "lanes": self.lanes,
            "switches on the longest path": self.max_hops,
        }
        verdict = "the proof holds" if self.holds else "the proof fails"
        return Table.of_rows(verdict, ("figure", "value"), figures.items())

    @property
    def load_table(self) -> Table:
        """Pairs over the channels between switches, by level and by role of the destination."""
        return load_table(self.classes, self.each_lid)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON; ``load`` is of channels between switches."""
        total = [item for item in self.classes if item.role is None]
        used = sum(item.used for item in total)
        carried = sum(item.mean * item.used for item in total)
        counts = ("pairs", "missing", "disconnected", "credit_loops", "undelivered_loops")
        return {
            **{name: getattr(self, name) for name in (*counts, "lanes", "max_hops", "stretch")},
            "hops": {str(length): int(count) for length, count in enumerate(self.hops) if count},
            "load": {
                "max": self.max_load,
                "mean": carried / used if used else 0.0,
                "classes": [item.to_dict() for item in self.classes],
            },
        }


def prove(routed: Routed, endpoints: EndpointSet | Sequence[int | str] | NDArray[np.integer] = "hca") -> Proof:
    """Walk every ordered pair of different end ports, and judge the channel dependencies that those paths make.

    Paths are judged on the lanes that the tables give them, those to all LIDs of a port together.

    Parameters
    ----------
    routed : Routed
        The tables may hold anything, so long as they are of the shape of the fabric.
    endpoints : str or (n,) int or str
        A set of `select_endpoints`, or end ports one by one, as `find_ends` takes them.

    Returns
    -------
    Proof
        Pairs that do not arrive are counted as missing, and add to no load; the credit loops that their packets close
        are counted apart.

    Raises
    ------
    HeddleError
        When the tables are not of this fabric, or there is no such set or end port.

    Examples
    --------
    >>> import topo, routing
    >>> proof = routing.prove(routing.route(topo.preset("lab-20").fabric))
    >>> proof.holds, proof.pairs, proof.missing, proof.credit_loops, proof.max_hops
    (True, 462, 0, 0, 3)
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    check_shape(fabric, tables)
    ends = find_ends(routed, endpoints)
    n_switches, top = fabric.n_switches, tables.lft.shape[1]

    senders = ends[fabric.end_switch[ends] >= 0]
    attached = np.bincount(fabric.end_switch[senders], minlength=n_switches).astype(np.int32)
    dests, lid = tables.entries_of(senders)
    turn = np.argsort(fabric.end_switch[dests], kind="stable")
    dests, lid = dests[turn], lid[turn]
    dest_role = fabric.role[fabric.end_node[dests]]
    roles = np.unique(dest_role)
    indptr, neighbour = switch_graph(fabric)
    lanes_of = tables.sl2vl if tables.path_sl is not None else tables.sl2vl[:1]
    path_tables = PathTables(
        fabric.port_offset,
        fabric.peer_node,
        tables.lft,
        frozen(np.zeros((1, top), np.uint8)) if tables.path_sl is None else tables.path_sl,
        frozen(np.array(tables.sl2vl, np.uint8)),
    )
    n_lanes = 1 + max((lane for lane in lanes_of if lane < MAX_DATA_VLS), default=0)
    walk = empty_walk(fabric, len(roles), n_lanes, len(dests))
    walk_pairs(
        path_tables,
        PairDests(
            frozen(lid),
            frozen(fabric.end_switch[dests]),
            frozen(delivery_channels(fabric, dests)),
            frozen(np.searchsorted(roles, dest_role).astype(np.int32)),
        ),
        frozen(attached),
        indptr,
        neighbour,
        walk,
    )
    load, histogram = walk.load, walk.histogram
    missing, stretch, lanes = walk.totals.tolist()
    _add_injection(fabric, senders, dests, np.searchsorted(roles, dest_role), walk, load)
    wanted, _ = tables.lids_of(ends)
    pairs = len(wanted) * (len(ends) - 1)
    unheard = pairs - len(dests) * (len(senders) - 1)
    examples = _examples(routed, ends, dests, lid, walk) if missing or unheard else ()
    virtual_lanes = tuple(lane for lane in range(len(walk.depends)) if lanes >> lane & 1)
    judged = [judge_dependencies(fabric, walk.depends[lane]) for lane in virtual_lanes]
    looping = np.zeros((len(walk.depends), fabric.n_ports), bool)
    for lane, (on_loop, _, _) in zip(virtual_lanes, judged, strict=True):
        looping[lane] = on_loop
    further = _judge_lost(fabric, tables, path_tables, ends, attached, walk, looping) if missing or unheard else (0, ())
    load_by_role = {Role(role): frozen(load[i]) for i, role in enumerate(roles)}
    total = load.sum(axis=0)
    return Proof(
        endpoints=endpoints if isinstance(endpoints, str) else "chosen",
        ends=ends,
        pairs=pairs,
        lids=1 << tables.lmc,
        missing=missing + unheard,
        disconnected=pairs - _connected_pairs(fabric, attached, wanted),
        examples=examples,
        hops=np.trim_zeros(histogram, "b") if histogram.any() else histogram[:1],
        stretch=stretch,
        virtual_lanes=virtual_lanes,
        credit_loops=int(looping.sum()),
        loop=next((loop for _, loop, _ in judged if loop), ()),
        undelivered_loops=further[0],
        undelivered_loop=further[1],
        order=np.array([order for _, _, order in judged], np.int32).reshape(len(judged), fabric.n_ports),
        depends=walk.depends[list(virtual_lanes)],
        load=total,
        load_by_role=load_by_role,
        classes=_classes(fabric, total, load_by_role),
    )


def prove_order(routed: Routed, hence: str, instead: str) -> Proof:
    """Return the proof for the widest set of end ports, of all or of adapters, with an order of channels on one lane.

    Parameters
    ----------
    routed : Routed
    hence, instead : str
        What cannot be done without an order, and what else to use, for the message.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes.
    """
    proof = prove(routed, "all")
    if proof.credit_loops:
        proof = prove(routed, "adapters")
    if proof.credit_loops or len(proof.virtual_lanes) > 1:
        raise RoutingError(
            f"the tables of {routed.tables.maker} are not free of credit loops on one lane, so that {hence}; "
            f"use another engine, such as `balanced`, {instead}"
        )
    return proof


def check_certificate(routed: Routed, proof: Proof) -> bool:
    """Whether the positions in ``proof.order`` rise along every delivered path, each on its lane.

    It walks the paths anew, all switches to a block of destinations at a time, and uses nothing else of the proof:
    when it says yes, no order of events can close a credit loop.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> routing.check_certificate(routed, routing.prove(routed))
    True
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    dest_switch = fabric.end_switch[proof.ends]
    sources = np.unique(dest_switch[dest_switch >= 0])
    dests, lids = tables.entries_of(proof.ends[dest_switch >= 0])
    lane_of_level = np.array([*tables.sl2vl, *[MAX_DATA_VLS] * 240])
    # One row more than the proof has, for lanes that it does not know: nothing rises there.
    order = np.vstack([proof.order, np.full((1, fabric.n_ports), -1)])
    row_of_lane = np.full(MAX_DATA_VLS + 1, len(proof.order))
    row_of_lane[list(proof.virtual_lanes)] = np.arange(len(proof.order))
    for start in range(0, len(dests), 256):
        block, lid = dests[start : start + 256], lids[start : start + 256].astype(np.int64)
        node, to = (axis.ravel() for axis in np.meshgrid(sources, np.arange(len(block)), indexing="ij"))
        lane = lane_of_level[np.zeros_like(node) if tables.path_sl is None else tables.path_sl[node, lid[to]]]
        node, to, row = node[lane < MAX_DATA_VLS], to[lane < MAX_DATA_VLS], row_of_lane[lane[lane < MAX_DATA_VLS]]
        last, rises = np.full(len(node), -1, np.int64), np.ones(len(node), bool)

        def visit(packet: NDArray[np.intp], port: NDArray[np.integer], row=row, last=last, rises=rises) -> None:  # type: ignore[no-untyped-def]
            packet, port = packet[fabric.is_inner[port]], port[fabric.is_inner[port]]
            position = order[row[packet], port]
            rises[packet] &= position > last[packet]
            last[packet] = position

        arrives = walk(routed.fabric, routed.tables.lft, node, block[to], lid[to], visit)
        if (arrives & ~rises).any():
            return False
    return True


def check_shape(fabric: Fabric, tables: RoutingTables) -> None:
    """Raise RoutingError when tables are not of the shape of a fabric."""
    switches = plural(fabric.n_switches, "switch", "switches")
    expected = f"the fabric has {switches} and {plural(fabric.n_end_ports, 'end port')}"
    if tables.lft.ndim != 2 or len(tables.lft) != fabric.n_switches or tables.lid.shape != (fabric.n_end_ports,):
        found = f"tables for {plural(len(tables.lft), 'switch', 'switches')} and {plural(len(tables.lid), 'end port')}"
        raise RoutingError(f"found {found}; {expected}: these are the tables of another fabric")
    if tables.path_sl is not None and tables.path_sl.shape != tables.lft.shape:
        raise RoutingError(f"service levels of shape {tables.path_sl.shape}; the tables have {tables.lft.shape}")
    if len(tables.sl2vl) != 16 or not all(0 <= lane < 16 for lane in tables.sl2vl):
        raise RoutingError(f"found the lanes {tables.sl2vl} for service levels; expected 16 numbers from 0 to 15")


def _connected_pairs(fabric: Fabric, attached: NDArray[np.int32], dests: NDArray[np.int32]) -> int:
    """Pairs between which the cables hold a path; ``attached`` counts sources a switch, ``dests`` are once a LID."""
    component = fabric.switch_part
    sources = np.bincount(component, weights=attached).astype(np.int64)
    dest_switch = fabric.end_switch[dests]
    return int((sources[component[dest_switch[dest_switch >= 0]]] - 1).sum())


def _add_injection(
    fabric: Fabric,
    senders: NDArray[np.int32],
    dests: NDArray[np.int32],
    dest_role: NDArray[np.intp],
    walk: PairWalk,
    load: NDArray[np.int64],
) -> None:
    """Add the load of channels that adapters send on: what their switch delivers, less the pair with themselves."""
    for ends, amount in ((senders, walk.delivered[:, fabric.end_switch[senders]]), (dests[walk.own], None)):
        adapter = ends >= fabric.n_switches
        port = fabric.first_adapter_port + ends[adapter] - fabric.n_switches
        if amount is None:
            load[dest_role[walk.own][adapter], port] -= 1
        else:
            load[:, port] += amount[:, adapter]


def _examples(
    routed: Routed,
    ends: NDArray[np.int32],
    dests: NDArray[np.int32],
    lid: NDArray[np.int32],
    walk: PairWalk,
) -> tuple[Trace, ...]:
    """Trace one pair for each place and reason of a fault, and one for each kind of end port that cannot be named."""
    fabric, tables = Routed.given(routed).fabric, routed.tables
    pairs: list[tuple[int, int, int]] = []
    every, lids = tables.lids_of(ends)
    for unheard in (fabric.end_switch[every] < 0, lids >= tables.lft.shape[1]):
        for index in np.flatnonzero(unheard)[:1]:
            source = next((other for other in ends if other != every[index]), None)
            if source is not None:
                pairs.append((int(source), int(every[index]), int(lids[index])))
    # One of each reason first, so that a flood of one kind does not hide another.
    switch, fault = np.nonzero(walk.fault_dest >= 0)
    turn = np.zeros(len(fault), np.int64)
    for kind in np.unique(fault):
        turn[fault == kind] = np.arange(np.count_nonzero(fault == kind))
    for i in np.lexsort((fault, turn))[: MAX_EXAMPLES - len(pairs)]:
        index, at = walk.fault_dest[switch[i], fault[i]], walk.fault_source[switch[i], fault[i]]
        source = next(other for other in ends if fabric.end_switch[other] == at and other != dests[index])
        pairs.append((int(source), int(dests[index]), int(lid[index])))
    return tuple(trace(routed, *pair) for pair in pairs)


def judge_dependencies(
    fabric: Fabric, depends: NDArray[np.uint64], apart: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.bool_], tuple[int, ...], NDArray[np.int32]]:
    """Return which channels lie on credit loops of one lane, one short loop, and the order of all other channels.

    Dependencies are as `routing.pairs.PairWalk` has them.

    The loop begins at a channel that is not set ``apart``.
    """
    used = frozen((depends[:, 0] & np.uint64(1)).astype(bool))
    indptr, then = (frozen(part) for part in dependency_graph(frozen(depends), fabric.port_offset, fabric.peer_node))
    order = topological_order(indptr, then, used)
    if not (used & (order < 0)).any():
        return np.zeros(len(used), bool), (), order
    from scipy.sparse import csr_matrix  # which takes long to import, and most tables have no loop
    from scipy.sparse.csgraph import connected_components

    graph = csr_matrix((np.ones(len(then), np.uint8), then, indptr), shape=(len(used), len(used)))
    _, component = connected_components(graph, connection="strong")
    size = np.bincount(component)
    # A cable of a switch to itself may wait for itself.
    looping = (size[component] > 1) | (graph.diagonal() > 0)
    known = looping if apart is None else looping & ~apart
    if not known.any():
        return looping, (), order
    smallest = np.flatnonzero(known & (size[component] == size[component[known]].min()))
    starts = smallest[:: max(1, len(smallest) // CYCLE_STARTS)]
    cycles = [_shortest_cycle(graph, np.flatnonzero(component == component[start]), start) for start in starts]
    return looping, min(cycles, key=len), order


def _judge_lost(
    fabric: Fabric,
    tables: RoutingTables,
    path_tables: PathTables,
    ends: NDArray[np.int32],
    attached: NDArray[np.int32],
    walk: PairWalk,
    looping: NDArray[np.bool_],
) -> tuple[int, tuple[int, ...]]:
    """Return how many channels more than the (lanes, P) looping ones packets that are lost put on loops, and a loop."""
    depends = walk.depends.copy()
    dests, lid = tables.entries_of(ends)
    dest_switch = fabric.end_switch[dests]
    at = np.where(dest_switch < 0, -2, delivery_channels(fabric, dests)).astype(np.int32)
    parts = (lid, dest_switch, at, np.zeros(len(dests), np.int32))
    unused = empty_walk(fabric, 1, 1, 0)
    follow_lost(path_tables, PairDests(*(frozen(part) for part in parts)), frozen(attached), unused, depends)
    count, loops = 0, []
    for lane in np.flatnonzero((depends != walk.depends).any(axis=(1, 2))):
        on_loop, loop, _ = judge_dependencies(fabric, depends[lane], apart=looping[lane])
        count += int((on_loop & ~looping[lane]).sum())
        loops += [loop] if loop else []
    return count, min(loops, key=len, default=())


def _shortest_cycle(graph: csr_matrix, members: NDArray[np.intp], start: int) -> tuple[int, ...]:
    """Return the channels of a shortest cycle through one of the members of a strongly connected component."""
    from scipy.sparse.csgraph import breadth_first_order

    inside, root = graph[members][:, members], int(np.searchsorted(members, start))
    reached, before = breadth_first_order(inside, root)
    closing = np.zeros(len(members), bool)
    closing[inside[:, [root]].nonzero()[0]] = True
    step = int(reached[np.argmax(closing[reached])])
    cycle = [step]
    while step != root:
        step = int(before[step])
        cycle.append(step)
    return tuple(int(members[step]) for step in reversed(cycle))


def _classes(
    fabric: Fabric, load: NDArray[np.int64], load_by_role: dict[Role, NDArray[np.int64]]
) -> tuple[ChannelClass, ...]:
    ports = fabric.inner
    level, next_level = fabric.level[fabric.port_node[ports]], fabric.level[fabric.peer_node[ports]]
    found = []
    for near, far in sorted(set(zip(level.tolist(), next_level.tolist(), strict=True))):
        inside = ports[(level == near) & (next_level == far)]
        for role, carried in [(None, load), *load_by_role.items()]:
            part = carried[inside]
            used = int(np.count_nonzero(part))
            mean = float(part.sum() / used) if used else 0.0
            found.append(ChannelClass(near, far, role, len(inside), used, int(part.max()), mean))
    return tuple(found)
