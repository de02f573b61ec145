"""Walks every pair of end ports through the forwarding tables, one tree of switches a destination.

All paths to one LID form a forest over the switches, since a table names one output port. So the pairs are never
walked one by one: each switch that has sources is followed until it meets a switch that is known already, and then
the numbers of sources are summed from the far switches to the near ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

NO_ENTRY, NO_SUCH_PORT, UNPLUGGED, LOOP, WRONG_END, NO_LANE, DETACHED = range(7)
N_FAULTS = 7
_NO_PATH = 255
_ON_WALK = -1
_LOST = 0
_DATA_LANES = 15

Int32s = NDArray[np.int32]


@njit(cache=True, nogil=True)
def _distances(home: int, first: Int32s, neighbour: Int32s, distance: Int32s, queue: Int32s) -> None:
    """Breadth-first hops from one switch to all others; -1 where no cable leads."""
    distance[:] = -1
    distance[home] = 0
    queue[0] = home
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        for i in range(first[node], first[node + 1]):
            other = neighbour[i]
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                queue[tail] = other
                tail += 1


@njit(cache=True, nogil=True)
def walk_pairs(
    port_offset: Int32s,
    peer_node: Int32s,
    lft: NDArray[np.uint8],
    path_sl: NDArray[np.uint8],
    sl2vl: NDArray[np.uint8],
    sources: Int32s,
    attached: Int32s,
    dest_lid: Int32s,
    dest_switch: Int32s,
    dest_port: Int32s,
    dest_role: Int32s,
    first_neighbour: Int32s,
    neighbour: Int32s,
    n_roles: int,
    n_lanes: int,
    n_words: int,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int64],
    NDArray[np.bool_],
    NDArray[np.uint64],
    NDArray[np.int64],
    int,
    int,
    int,
    Int32s,
    Int32s,
]:
    """Follow all pairs to the given destinations.

    Parameters
    ----------
    port_offset, peer_node
        As in `topo.fabric.Fabric`.
    lft, path_sl : (S, T) uint8
        Forwarding tables and service levels; ``path_sl`` is (1, T) when all switches share it.
    sl2vl : (16,) uint8
    sources : (n,) int32
        Switches that sources hang on.
    attached : (S,) int32
        Sources at each switch; every destination is a source too, and never sends to itself.
    dest_lid, dest_switch, dest_port, dest_role : (D,) int32
        Of each destination: its LID (below T), its switch, the channel that must hand it over (-1: port 0 of the
        switch), index of its role. Those of one switch should stand together.
    first_neighbour, neighbour
        Adjacency of switches, as CSR.
    n_roles, n_lanes, n_words
        Extents of the results.

    Returns
    -------
    load : (n_roles, P) int64
        Delivered pairs over each channel that a switch sends on.
    delivered : (n_roles, S) int64
        Destinations that each switch with sources reaches.
    own : (D,) bool
        Whether ``delivered`` counts a destination for the switch that it hangs on.
    depends : (n_lanes, P, n_words) uint64
        Bit p of a channel between switches: some pair goes on to a channel between switches on output port p of the
        next switch; bit 0: some pair uses the channel.
    histogram : (S + 1,) int64
        Delivered pairs by number of switches on the path.
    missing, stretch, lanes : int
        Pairs not delivered; most switches beyond the shortest path; virtual lanes used, as bits.
    fault_dest, fault_source : (S, N_FAULTS) int32
        First destination (index), and a source's switch, that each kind of fault at a switch costs; -1 none.

    Notes
    -----
    O(D x switches on the paths); no pair costs anything of its own.
    """
    n_switches = len(lft)
    n_dest = len(dest_lid)
    n_ports = len(peer_node)
    load = np.zeros((n_roles, n_ports), np.int64)
    delivered = np.zeros((n_roles, n_switches), np.int64)
    own = np.zeros(n_dest, np.bool_)
    depends = np.zeros((n_lanes, n_ports, n_words), np.uint64)
    histogram = np.zeros(n_switches + 1, np.int64)
    fault_dest = np.full((n_switches, N_FAULTS), -1, np.int32)
    fault_source = np.full((n_switches, N_FAULTS), -1, np.int32)
    missing = 0
    stretch = 0
    lanes_used = 0

    seen = np.full(n_switches, -1, np.int32)
    hops = np.zeros(n_switches, np.int32)
    flow = np.zeros(n_switches, np.int32)
    lanes = np.zeros(n_switches, np.int32)
    out = np.zeros(n_switches, np.int32)
    stack = np.zeros(n_switches, np.int32)
    order = np.zeros(n_switches, np.int32)
    distance = np.zeros(n_switches, np.int32)
    last_home = -1
    one_sl = path_sl.shape[0] == 1

    for d in range(n_dest):
        lid, home, goal, role = dest_lid[d], dest_switch[d], dest_port[d], dest_role[d]
        if home != last_home:
            _distances(home, first_neighbour, neighbour, distance, stack)
            last_home = home
        placed = 0
        for source in sources:
            count = attached[source] - (1 if source == home else 0)
            if count == 0:
                continue
            if seen[source] != d:
                node = source
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
                    number = lft[node, lid]
                    if number == _NO_PATH:
                        fault = NO_ENTRY
                    elif number == 0:
                        out[node] = -1
                        if node != home or goal >= 0:
                            fault = WRONG_END
                    elif number > port_offset[node + 1] - port_offset[node]:
                        fault = NO_SUCH_PORT
                    else:
                        port = port_offset[node] + number - 1
                        out[node] = port
                        following = peer_node[port]
                        if following < 0:
                            fault = UNPLUGGED
                        elif following >= n_switches:
                            if port != goal:
                                fault = WRONG_END
                        elif seen[following] != d:
                            node = following
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
                        order[placed] = node
                        placed += 1
            sl = path_sl[0 if one_sl else source, lid]
            lane = int(sl2vl[sl]) if sl < 16 else _DATA_LANES
            if hops[source] == _LOST or lane >= _DATA_LANES:
                if hops[source] != _LOST and fault_dest[source, NO_LANE] < 0:
                    fault_dest[source, NO_LANE] = d
                    fault_source[source, NO_LANE] = source
                missing += count
                continue
            flow[source] += count
            lanes[source] |= 1 << lane
            lanes_used |= 1 << lane
            histogram[hops[source]] += count
            delivered[role, source] += 1
            stretch = max(stretch, hops[source] - distance[source] - 1)
            if source == home:
                own[d] = True

        for i in range(placed - 1, -1, -1):  # far switches first
            node = order[i]
            port = out[node]
            if flow[node] == 0 or port < 0:
                continue
            load[role, port] += flow[node]
            if hops[node] == 1:
                continue
            following = peer_node[port]
            flow[following] += flow[node]
            lanes[following] |= lanes[node]
            # The last switch hands the packet to an end port, which waits for nobody.
            number = out[following] - port_offset[following] + 1 if hops[following] > 1 else 0
            for lane in range(n_lanes):
                if lanes[node] >> lane & 1:
                    depends[lane, port, 0] |= np.uint64(1)
                    depends[lane, port, number >> 6] |= np.uint64(1) << np.uint64(number & 63)
    return (
        load,
        delivered,
        own,
        depends,
        histogram,
        missing,
        stretch,
        lanes_used,
        fault_dest,
        fault_source,
    )
