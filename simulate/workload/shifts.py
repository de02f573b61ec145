"""What shifts put on the channels of tables: the loads of all together, and bounds for any single one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel


@kernel
def bound_shifts(
    port_offset: NDArray[np.int32],
    peer: NDArray[np.int32],
    peer_node: NDArray[np.int32],
    lft: NDArray[np.uint8],
    lid: NDArray[np.uint16],
    own: NDArray[np.int32],
    home: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    size: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Follow the tables from each group of ranks below one switch to each rank.

    Parameters
    ----------
    port_offset, peer, peer_node, lft
        As in `topo.fabric.Fabric` and `routing.tables.RoutingTables`.
    lid, own : (n,)
        LID and port of each rank.
    home, first, last, size : (G,)
        Switch of each group, its lowest and highest rank, and how many there are.

    Returns
    -------
    load : (P,) int64
        Messages from each rank to each other one over each channel of a switch; -1 everywhere where the tables do not
        connect two of them.
    bound : (P,) int32
        No shift has more messages over a channel. If the sources of what crosses it are among ranks a to b, those of a
        shift go to b - a + 1 ranks in a row, so it is the most of the channel's destinations that are among so many.
    """
    n, n_ports, n_switches = len(lid), len(peer), len(lft)
    load = np.zeros(n_ports, np.int64)
    low = np.full(n_ports, n, np.int32)
    high = np.full(n_ports, -1, np.int32)
    bound = np.zeros(n_ports, np.int32)
    crossed = np.zeros((n_switches, n), np.bool_)
    # What a step brings to a switch: how many messages, of ranks between which; what met there goes on as one.
    now, then = np.empty(n_switches, np.int32), np.empty(n_switches, np.int32)
    met = np.full(n_switches, -1, np.int64)
    count = np.zeros((2, n_switches), np.int64)
    least, most = np.zeros((2, n_switches), np.int32), np.zeros((2, n_switches), np.int32)
    step = 0
    for rank in range(n):
        n_now = 0
        for group in range(len(home)):
            sources = size[group] - (peer_node[own[rank]] == home[group])  # nobody sends to itself
            if sources:
                now[n_now] = home[group]
                n_now += 1
                count[step % 2, home[group]] = sources
                least[step % 2, home[group]], most[step % 2, home[group]] = first[group], last[group]
        for hop in range(n_switches + 1):
            if not n_now:
                break
            side, other, n_then = step % 2, (step + 1) % 2, 0
            step += 1
            for at in range(n_now):
                switch = now[at]
                entry = lft[switch, lid[rank]]
                if hop == n_switches or entry == 0 or entry > port_offset[switch + 1] - port_offset[switch]:
                    return np.full(n_ports, -1, np.int64), bound
                port = port_offset[switch] + entry - 1
                load[port] += count[side, switch]
                low[port] = min(low[port], least[side, switch])
                high[port] = max(high[port], most[side, switch])
                crossed[switch, rank] = True
                if peer[port] == own[rank]:
                    continue
                onward = peer_node[port]
                if not 0 <= onward < n_switches:
                    return np.full(n_ports, -1, np.int64), bound
                if met[onward] == step:
                    count[other, onward] += count[side, switch]
                    least[other, onward] = min(least[other, onward], least[side, switch])
                    most[other, onward] = max(most[other, onward], most[side, switch])
                else:
                    met[onward] = step
                    then[n_then] = onward
                    n_then += 1
                    count[other, onward] = count[side, switch]
                    least[other, onward], most[other, onward] = least[side, switch], most[side, switch]
            now, then, n_now = then, now, n_then
    row = np.empty(n, np.int32)
    for switch in range(n_switches):
        start = np.zeros(257, np.int32)
        for rank in range(n):
            start[int(lft[switch, lid[rank]]) + 1] += crossed[switch, rank]
        start = np.cumsum(start)
        fill = start.copy()
        for rank in range(n):
            if crossed[switch, rank]:
                entry = lft[switch, lid[rank]]
                row[fill[entry]] = rank
                fill[entry] += 1
        for port in range(port_offset[switch], port_offset[switch + 1]):
            entry = port - port_offset[switch] + 1
            reached = row[start[entry] : start[entry + 1]]
            width, k, ahead = high[port] - low[port] + 1, len(reached), 0
            for here in range(k):
                while ahead < here + k and (reached[ahead % k] - reached[here]) % n < width:
                    ahead += 1
                bound[port] = max(bound[port], ahead - here)
    return load, bound
