"""Legal paths to one switch: who can go where without breaking the order of channels."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["breadth_first", "legal_choices"]

Int32s = NDArray[np.int32]


@njit(cache=True, nogil=True)
def breadth_first(root: int, first: Int32s, receiver: Int32s) -> tuple[Int32s, Int32s]:
    """Return (S,) hops from a switch and (S,) the channel that first leads to each; -1 where none does."""
    n = len(first) - 1
    distance = np.full(n, -1, np.int32)
    entry = np.full(n, -1, np.int32)
    queue = np.empty(n, np.int32)
    distance[root] = 0
    queue[0] = root
    head, tail = 0, 1
    while head < tail:
        switch = queue[head]
        head += 1
        for channel in range(first[switch], first[switch + 1]):
            other = receiver[channel]
            if distance[other] < 0:
                distance[other] = distance[switch] + 1
                entry[other] = channel
                queue[tail] = other
                tail += 1
    return distance, entry


@njit(cache=True, nogil=True)
def legal_choices(
    target: int,
    first: Int32s,
    sender: Int32s,
    receiver: Int32s,
    rank: Int32s,
    falling: Int32s,
    hops: Int32s,
    order: Int32s,
    start: Int32s,
    choice: Int32s,
    scratch: Int32s,
) -> int:
    """Find the channels among which each switch may choose freely on legal paths to a target.

    A table names one channel a switch, and a switch may only be entered by channels that rank below the one it names.
    Channels are taken by falling rank, and a switch first takes the highest that leads on: the most permissive. A
    shorter way of lower rank replaces it as long as no other switch relies on it. That gives every switch a distance
    and, since all those that can reach the target legally do, completeness. Then come all channels that lead a step
    nearer; those that would shut out a neighbour who is a step farther are dropped. Any combination of the channels
    that remain is legal.

    Parameters
    ----------
    target : int
        Switch to reach.
    first, sender, receiver, rank, falling
        As in `routing.channel_order.ChannelOrder`.
    hops : (S,) int32, out
        Channels to the target, -1 where no legal path leads.
    order : (S,) int32, out
        Switches that reach the target, nearest first; it starts with the target itself.
    start : (S + 1,) int32, out
        ``choice[start[i]:start[i + 1]]`` are the channels of ``order[i]``.
    choice : (C,) int32, out
    scratch : (4, S) int32

    Returns
    -------
    int
        Switches in ``order``.
    """
    n = len(first) - 1
    label, relied, via, need = scratch[0], scratch[1], scratch[2], scratch[3]
    hops[:] = -1
    relied[:] = 0
    hops[target] = 0
    label[target] = 1 << 30
    for channel in falling:
        here, there = sender[channel], receiver[channel]
        if here == target or hops[there] < 0 or rank[channel] >= label[there]:
            continue
        if hops[here] >= 0:
            if hops[there] + 1 >= hops[here] or relied[here] > 0:
                continue
            relied[via[here]] -= 1
        hops[here] = hops[there] + 1
        label[here] = rank[channel]
        via[here] = there
        relied[there] += 1

    # Sort by distance, counting.
    count = 0
    for switch in range(n):
        via[switch] = 0
    farthest = 0
    for switch in range(n):
        if hops[switch] >= 0:
            count += 1
            via[hops[switch]] += 1
            farthest = max(farthest, hops[switch])
    total = 0
    for distance in range(farthest + 1):
        total += via[distance]
        via[distance] = total - via[distance]
    for switch in range(n):
        if hops[switch] >= 0:
            order[via[hops[switch]]] = switch
            via[hops[switch]] += 1

    for i in range(1, count):
        here = order[i]
        label[here] = -1
        for channel in range(first[here], first[here + 1]):
            there = receiver[channel]
            if hops[there] == hops[here] - 1 and label[here] < rank[channel] < label[there]:
                label[here] = rank[channel]
    need[:] = -1
    for i in range(1, count):
        here = order[i]
        for channel in range(first[here], first[here + 1]):
            there = receiver[channel]
            if hops[there] == hops[here] - 1 and need[there] < rank[channel] < label[there]:
                need[there] = rank[channel]
    size = 0
    start[0] = 0
    start[1] = 0
    for i in range(1, count):
        here = order[i]
        for channel in range(first[here], first[here + 1]):
            there = receiver[channel]
            if hops[there] == hops[here] - 1 and need[here] < rank[channel] < label[there]:
                choice[size] = channel
                size += 1
        start[i + 1] = size
    return count
