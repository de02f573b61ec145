"""Shortest paths chosen as OpenSM's plain engines choose them: by destinations counted at each port, or by weight."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from routing.kernels.legal import hops_to, legal_choices

Int32s = NDArray[np.int32]


@njit(cache=True, nogil=True)
def count_ports(
    first: Int32s,
    sender: Int32s,
    receiver: Int32s,
    reverse: Int32s,
    rank: Int32s,
    falling: Int32s,
    run: Int32s,
    number: Int32s,
    legal: bool,
    switch: Int32s,
    lid: Int32s,
    counts: NDArray[np.bool_],
    lft: NDArray[np.uint8],
) -> None:
    """Give each destination, at each switch, the port on a shortest path that has the fewest destinations.

    Parameters
    ----------
    first, sender, receiver, reverse, rank, falling, run, number
        As in `routing.order.channel_order.ChannelOrder`.
    legal : bool
        Whether paths must be legal: the shortest of those then.
    switch, lid : (D,) int32
        Destinations in order of service.
    counts : (D,) bool
        Which of them count.
    lft : (S, T) uint8, out
    """
    n = len(first) - 1
    hops, order, ways = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    choice = np.empty(len(receiver), np.int32)
    scratch = np.empty((6, n), np.int32)
    served = np.zeros(len(receiver), np.int64)
    target, count = -1, 0
    for d in range(len(lid)):
        if switch[d] != target:
            target = switch[d]
            if legal:
                count = legal_choices(
                    target, first, sender, receiver, reverse, rank, falling, run, hops, order, choice, ways, scratch
                )
            else:
                count = hops_to(target, first, receiver, hops, order)
        for i in range(1, count):
            here = order[i]
            best = -1
            if legal:
                for k in range(first[here], first[here] + ways[here]):
                    channel = choice[k]
                    if best < 0 or (served[channel], number[channel]) < (served[best], number[best]):
                        best = channel
            else:
                for channel in range(first[here], first[here + 1]):
                    if hops[receiver[channel]] == hops[here] - 1 and (
                        best < 0 or (served[channel], number[channel]) < (served[best], number[best])
                    ):
                        best = channel
            lft[here, lid[d]] = number[best]
            served[best] += counts[d]


@njit(cache=True, nogil=True)
def weigh_paths(
    first: Int32s,
    receiver: Int32s,
    number: Int32s,
    sources: NDArray[np.int64],
    switch: Int32s,
    lid: Int32s,
    counts: NDArray[np.bool_],
    lft: NDArray[np.uint8],
) -> None:
    """Give each destination the shortest paths of least weight; weights are the paths placed so far (SSSP).

    Parameters
    ----------
    first, receiver, number
        As in `routing.order.channel_order.ChannelOrder`.
    sources : (S,) int64
        End ports at each switch that send.
    switch, lid, counts
        As in `count_ports`; destinations that do not count add no weight.
    lft : (S, T) uint8, out
    """
    n = len(first) - 1
    hops, order, onward = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    weight = np.zeros(len(receiver), np.int64)
    cost, flow = np.zeros(n, np.int64), np.zeros(n, np.int64)
    target, count = -1, 0
    for d in range(len(lid)):
        if switch[d] != target:
            target = switch[d]
            count = hops_to(target, first, receiver, hops, order)
        cost[target] = 0
        flow[target] = 0
        for i in range(1, count):
            here = order[i]
            flow[here] = sources[here]
            onward[here] = -1
            for channel in range(first[here], first[here + 1]):
                there = receiver[channel]
                if hops[there] == hops[here] - 1:
                    total = cost[there] + weight[channel]
                    if onward[here] < 0 or total < cost[here]:
                        cost[here] = total
                        onward[here] = channel
            lft[here, lid[d]] = number[onward[here]]
        if counts[d]:
            for i in range(count - 1, 0, -1):
                here = order[i]
                weight[onward[here]] += flow[here]
                flow[receiver[onward[here]]] += flow[here]
