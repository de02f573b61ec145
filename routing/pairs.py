"""Walks every pair of end ports through the forwarding tables, one forest of switches a destination.

All paths to one LID form a forest over the switches, since a table names one output port. So the pairs are never
walked one by one: each switch that has sources is followed until it meets a switch that is known already, and then
the numbers of sources are summed from the far switches to the near ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel, making
from routing.order.legal import breadth_first
from routing.tables import MAX_DATA_VLS, NO_PATH
from topo.fabric import Fabric

NO_ENTRY, NO_SUCH_PORT, UNPLUGGED, LOOP, WRONG_END, NO_LANE, DETACHED = range(7)
N_FAULTS = 7
_ON_WALK = -1
_LOST = 0

Int32s = NDArray[np.int32]


class PathTables(NamedTuple):
    """The inputs that decide a path; the first two as in `topo.fabric.Fabric`."""

    port_offset: Int32s
    peer_node: Int32s
    lft: NDArray[np.uint8]  # (S, T) forwarding tables
    path_sl: NDArray[np.uint8]  # (S, T) service levels; (1, T) when all switches share them
    sl2vl: NDArray[np.uint8]  # (16,) virtual lane of each service level


class PairDests(NamedTuple):
    """D destinations; those of one switch should stand together."""

    lid: Int32s  # below T
    switch: Int32s
    port: Int32s  # the channel that must hand packets over; -1: port 0 of the switch
    role: Int32s  # index of the role


class PairWalk(NamedTuple):
    """Sums over all pairs."""

    load: NDArray[np.int64]  # (roles, P) delivered pairs over each channel that a switch sends on
    delivered: NDArray[np.int64]  # (roles, S) destinations that each switch with sources reaches
    own: NDArray[np.bool_]  # (D,) whether ``delivered`` counts a destination for the switch that it hangs on
    depends: NDArray[np.uint64]
    """(lanes, P, words) bit p of a channel between switches: some pair goes on to a channel between switches on output
    port p of the next switch; bit 0: some pair uses the channel."""
    histogram: NDArray[np.int64]  # (S + 1,) delivered pairs by number of switches on the path
    fault_dest: Int32s  # (S, N_FAULTS) first destination (index) that each kind of fault at a switch costs; -1 none
    fault_source: Int32s  # (S, N_FAULTS) the switch of a source that it costs
    totals: NDArray[np.int64]
    """(3,) pairs not delivered; most switches beyond the shortest path; virtual lanes used, as bits."""


def empty_walk(fabric: Fabric, n_roles: int, n_lanes: int, n_dests: int) -> PairWalk:
    """Return sums over no pairs."""
    n_switches, n_ports = fabric.n_switches, fabric.n_ports
    n_words = 1 + (fabric.most_ports >> 6)
    load, delivered = np.zeros((n_roles, n_ports), np.int64), np.zeros((n_roles, n_switches), np.int64)
    own = np.zeros(n_dests, np.bool_)
    depends, histogram = np.zeros((n_lanes, n_ports, n_words), np.uint64), np.zeros(n_switches + 1, np.int64)
    fault_dest, fault_source = np.full((2, n_switches, N_FAULTS), -1, np.int32)
    totals = np.zeros(3, np.int64)
    return PairWalk(load, delivered, own, depends, histogram, fault_dest, fault_source, totals)


class _Forest(NamedTuple):
    """Paths to one destination; (S,) each but for ``sources``."""

    seen: Int32s  # the last destination for which a switch was followed
    sources: Int32s  # (n,) switches with sources
    hops: Int32s  # switches to the destination, itself included; `_LOST` or `_ON_WALK`
    flow: Int32s
    lanes: Int32s  # lanes on which the flow is, as bits
    out: Int32s  # channel taken, -1 for port 0
    stack: Int32s
    far: Int32s  # switches with a path, each after the one that it sends to


@kernel
def walk_pairs(
    tables: PathTables, dests: PairDests, attached: Int32s, indptr: Int32s, neighbour: Int32s, walk: PairWalk
) -> None:
    """Follow all pairs to the given destinations, and add them to a walk, `empty_walk` at first.

    ``attached`` is (S,) the sources at each switch, of which every destination is one, and never sends to itself;
    ``indptr`` and ``neighbour`` are the graph of switches as CSR. O(D x switches on the paths).
    """
    forest, distance = _empty_forest(attached), np.zeros(len(attached), np.int32)
    last_dest_switch = -1
    for d in range(len(dests.lid)):
        dest_switch = dests.switch[d]
        if dest_switch != last_dest_switch:
            breadth_first(dest_switch, indptr, neighbour, distance, forest.stack)
            last_dest_switch = dest_switch
        placed = _find_paths(tables, dests, d, attached, forest, walk)
        _count_pairs(tables, dests, d, attached, distance, forest, walk)
        _sum_flows(tables, dests.role[d], forest, placed, walk)


@making
def _empty_forest(attached: Int32s) -> _Forest:
    """Return room for paths, and the switches with sources."""
    n_sources = 0
    room = np.empty((8, len(attached)), np.int32)
    for switch in range(len(attached)):
        room[0, switch] = -1
        if attached[switch]:
            room[1, n_sources] = switch
            n_sources += 1
    return _Forest(room[0], room[1, :n_sources], room[2], room[3], room[4], room[5], room[6], room[7])


@inner
def _find_paths(tables: PathTables, dests: PairDests, d: int, attached: Int32s, forest: _Forest, walk: PairWalk) -> int:
    """Find the paths of all sources to one destination; return how many switches have one."""
    # No index is negative: as unsigned ones they need no test whether they count from the end.
    lft, port_offset, peer_node = tables.lft, tables.port_offset.view(np.uint32), tables.peer_node
    seen, hops, flow, lanes = forest.seen, forest.hops, forest.flow, forest.lanes
    out, stack, far = forest.out, forest.stack.view(np.uint32), forest.far
    fault_dest, fault_source = walk.fault_dest, walk.fault_source
    lid, dest_switch, last = np.uint32(dests.lid[d]), dests.switch[d], dests.port[d]
    n_switches = len(lft)
    placed = 0
    for source in forest.sources:
        if seen[source] == d or (source == dest_switch and attached[source] == 1):
            continue
        node = np.uint32(source)
        depth = 0
        while True:  # until delivered, lost, or at a switch that is known
            seen[node] = d
            hops[node] = _ON_WALK
            flow[node] = 0
            lanes[node] = 0
            stack[depth] = node
            depth += 1
            fault = -1
            known = 0  # switches from the end of this walk to the destination
            number = np.uint32(lft[node, lid])
            if number == NO_PATH:
                fault = NO_ENTRY
            elif number == 0:
                out[node] = -1
                if node != dest_switch or last >= 0:
                    fault = WRONG_END
            elif number > port_offset[node + np.uint32(1)] - port_offset[node]:
                fault = NO_SUCH_PORT
            else:
                port = port_offset[node] + number - np.uint32(1)
                out[node] = port
                following = peer_node[port]
                if following < 0:
                    fault = UNPLUGGED
                elif following >= n_switches:
                    if port != last:
                        fault = WRONG_END
                elif seen[np.uint32(following)] != d:
                    node = np.uint32(following)
                    continue
                elif hops[following] == _ON_WALK:
                    fault = LOOP
                else:
                    known = hops[following]
                    if known == _LOST:
                        known = -1
            break
        if fault >= 0:
            if fault_dest[node, fault] < 0:
                fault_dest[node, fault] = d
                fault_source[node, fault] = source
            known = -1
        for i in range(depth - 1, -1, -1):
            node = stack[i]
            if known < 0:
                hops[node] = _LOST
            else:
                known += 1
                hops[node] = known
                far[placed] = node
                placed += 1
    return placed


@inner
def _count_pairs(
    tables: PathTables, dests: PairDests, d: int, attached: Int32s, distance: Int32s, forest: _Forest, walk: PairWalk
) -> None:
    """Count the pairs of one destination, and let their flows begin at the switches of the sources."""
    path_sl, sl2vl = tables.path_sl, tables.sl2vl
    hops, flow, lanes = forest.hops, forest.flow, forest.lanes
    histogram, delivered = walk.histogram, walk.delivered[dests.role[d]]
    lid, dest_switch = dests.lid[d], dests.switch[d]
    one_sl = path_sl.shape[0] == 1
    missing, stretch, lanes_used = 0, 0, 0
    for source in forest.sources:
        count = attached[source] - (1 if source == dest_switch else 0)
        if count == 0:
            continue
        sl = path_sl[0 if one_sl else source, lid]
        lane = int(sl2vl[sl]) if sl < 16 else MAX_DATA_VLS
        if hops[source] == _LOST or lane >= MAX_DATA_VLS:
            if hops[source] != _LOST and walk.fault_dest[source, NO_LANE] < 0:
                walk.fault_dest[source, NO_LANE] = d
                walk.fault_source[source, NO_LANE] = source
            missing += count
            continue
        flow[source] += count
        lanes[source] |= 1 << lane
        lanes_used |= 1 << lane
        histogram[hops[source]] += count
        delivered[source] += 1
        stretch = max(stretch, hops[source] - distance[source] - 1)
        if source == dest_switch:
            walk.own[d] = True
    walk.totals[0] += missing
    walk.totals[1] = max(walk.totals[1], stretch)
    walk.totals[2] |= lanes_used


@inner
def _sum_flows(tables: PathTables, role: int, forest: _Forest, placed: int, walk: PairWalk) -> None:
    """Add the flows to one destination to the load of channels and to their dependencies, far switches first."""
    # No index is negative: as unsigned ones they need no test whether they count from the end.
    port_offset, peer_node = tables.port_offset.view(np.uint32), tables.peer_node.view(np.uint32)
    hops, flow, lanes, out, far = forest.hops, forest.flow, forest.lanes, forest.out, forest.far.view(np.uint32)
    load, depends = walk.load[role], walk.depends
    for i in range(placed - 1, -1, -1):
        node = far[i]
        if flow[node] == 0 or out[node] < 0:
            continue
        port = np.uint32(out[node])
        load[port] += flow[node]
        if hops[node] == 1:
            continue
        following = peer_node[port]
        flow[following] += flow[node]
        lanes[following] |= lanes[node]
        # The last switch hands the packet to an end port, which waits for nobody.
        number = (
            np.uint32(out[following]) + np.uint32(1) - port_offset[following] if hops[following] > 1 else np.uint32(0)
        )
        for lane in range(len(depends)):
            if lanes[node] >> lane & 1:
                depends[lane, port, 0] |= np.uint64(1)
                depends[lane, port, number >> np.uint32(6)] |= np.uint64(1) << np.uint64(number & np.uint32(63))


@kernel
def follow_lost(
    tables: PathTables, dests: PairDests, attached: Int32s, unused: PairWalk, depends: NDArray[np.uint64]
) -> None:
    """Add the dependencies of packets that do not arrive: they hold channels too, until a switch drops them.

    As `walk_pairs`, but a destination that hangs on no switch has the switch -1 and the port -2; ``unused`` takes the
    faults that are found again, ``depends`` is as in `PairWalk`.
    """
    forest = _empty_forest(attached)
    for d in range(len(dests.lid)):
        _find_paths(tables, dests, d, attached, forest, unused)
        for source in forest.sources:
            if attached[source] == (1 if source == dests.switch[d] else 0) or forest.hops[source] != _LOST:
                continue
            sl = tables.path_sl[0 if tables.path_sl.shape[0] == 1 else source, dests.lid[d]]
            lane = int(tables.sl2vl[sl]) if sl < 16 else MAX_DATA_VLS
            if lane < MAX_DATA_VLS:
                _follow(tables, dests.lid[d], int(source), lane, forest.lanes, depends[lane])


@inner
def _follow(tables: PathTables, lid: int, node: int, lane: int, lanes: Int32s, depends: NDArray[np.uint64]) -> None:
    """Follow one packet until it is dropped, or at a switch from which another one of this lane was followed."""
    before = -1
    while True:
        number = int(tables.lft[node, lid])
        if number == 0 or number > tables.port_offset[node + 1] - tables.port_offset[node]:
            return
        port = tables.port_offset[node] + number - 1
        following = tables.peer_node[port]
        if following < 0 or following >= len(tables.lft):
            return
        depends[port, 0] |= np.uint64(1)
        if before >= 0:
            depends[before, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
        if lanes[node] >> lane & 1:
            return
        lanes[node] |= 1 << lane
        node, before = following, port
