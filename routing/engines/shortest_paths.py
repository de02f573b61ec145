"""Shortest paths chosen as OpenSM's plain engines choose them: by destinations counted at each port, or by weight."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel
from routing.order.legal import ChannelOrder, breadth_first, empty_paths, legal_choices

Int32s = NDArray[np.int32]


@kernel
def count_ports(
    order: ChannelOrder,
    legal: bool,
    switch: Int32s,
    lid: Int32s,
    counts: NDArray[np.bool_],
    lft: NDArray[np.uint8],
) -> None:
    """Give each destination, at each switch, the port on a shortest path that has the fewest destinations.

    Parameters
    ----------
    order : ChannelOrder
    legal : bool
        Whether paths must be legal: the shortest of those then.
    switch, lid : (D,) int32
        Destinations in order of service.
    counts : (D,) bool
        Which of them count.
    lft : (S, T) uint8, out
    """
    indptr, receiver, number = order.indptr, order.receiver, order.number
    paths = empty_paths(order)
    hops, choice = paths.hops, paths.choice
    served = np.zeros(len(receiver), np.int64)
    target, count = -1, 0
    for d in range(len(lid)):
        if switch[d] != target:
            target = switch[d]
            if legal:
                count = legal_choices(target, order, paths)
            else:
                count = breadth_first(target, indptr, receiver, hops, paths.nearest)
        for i in range(1, count):
            here = paths.nearest[i]
            best = -1
            if legal:
                for k in range(indptr[here], indptr[here] + paths.n_choices[here]):
                    channel = choice[k]
                    if best < 0 or (served[channel], number[channel]) < (served[best], number[best]):
                        best = channel
            else:
                for channel in range(indptr[here], indptr[here + 1]):
                    if hops[receiver[channel]] == hops[here] - 1 and (
                        best < 0 or (served[channel], number[channel]) < (served[best], number[best])
                    ):
                        best = channel
            lft[here, lid[d]] = number[best]
            served[best] += counts[d]


@kernel
def weigh_paths(
    order: ChannelOrder,
    sources: NDArray[np.int64],
    switch: Int32s,
    lid: Int32s,
    counts: NDArray[np.bool_],
    lft: NDArray[np.uint8],
) -> None:
    """Give each destination the shortest paths of least weight; weights count the paths chosen so far (SSSP).

    Parameters
    ----------
    order : ChannelOrder
    sources : (S,) int64
        End ports at each switch that send.
    switch, lid, counts
        As in `count_ports`; destinations that do not count add no weight.
    lft : (S, T) uint8, out
    """
    indptr, receiver, number = order.indptr, order.receiver, order.number
    n = len(indptr) - 1
    hops, nearest, next_hop = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    weight = np.zeros(len(receiver), np.int64)
    cost, flow = np.zeros(n, np.int64), np.zeros(n, np.int64)
    target, count = -1, 0
    for d in range(len(lid)):
        if switch[d] != target:
            target = switch[d]
            count = breadth_first(target, indptr, receiver, hops, nearest)
        cost[target] = 0
        flow[target] = 0
        for i in range(1, count):
            here = nearest[i]
            flow[here] = sources[here]
            next_hop[here] = -1
            for channel in range(indptr[here], indptr[here + 1]):
                there = receiver[channel]
                if hops[there] == hops[here] - 1:
                    total = cost[there] + weight[channel]
                    if next_hop[here] < 0 or total < cost[here]:
                        cost[here] = total
                        next_hop[here] = channel
            lft[here, lid[d]] = number[next_hop[here]]
        if counts[d]:
            for i in range(count - 1, 0, -1):
                here = nearest[i]
                weight[next_hop[here]] += flow[here]
                flow[receiver[next_hop[here]]] += flow[here]
