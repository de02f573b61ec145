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
    run: Int32s,
    hops: Int32s,
    order: Int32s,
    choice: Int32s,
    ways: Int32s,
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
    first, sender, receiver, rank, falling, run
        As in `routing.channel_order.ChannelOrder`.
    hops : (S,) int32, out
        Channels to the target, -1 where no legal path leads.
    order : (S,) int32, out
        Switches that reach the target, nearest first; it starts with the target itself.
    choice : (C,) int32, out
    ways : (S,) int32, out
        The channels of switch s are ``choice[first[s] : first[s] + ways[s]]``, in ascending order.
    scratch : (4, S) int32

    Returns
    -------
    int
        Switches in ``order``.
    """
    label, relied, via, need = scratch[0], scratch[1], scratch[2], scratch[3]
    hops[:] = -1
    relied[:] = 0
    hops[target] = 0
    label[target] = 1 << 30
    relied[target] = 1
    for r in range(len(run) - 1):
        here = sender[falling[run[r]]]
        if relied[here] > 0:
            continue
        nearest, after = hops[here] - 1 if hops[here] >= 0 else 1 << 30, -1
        level = rank[falling[run[r]]]
        for k in range(run[r], run[r + 1]):
            there = receiver[falling[k]]
            if 0 <= hops[there] < nearest and level < label[there]:
                nearest, after = hops[there], there
        if after >= 0:
            if hops[here] >= 0:
                relied[via[here]] -= 1
            hops[here] = nearest + 1
            label[here] = level
            via[here] = after
            relied[after] += 1

    count = _sort_by_distance(hops, order, via)
    lowest = relied
    need[:] = -1
    ways[target] = 0
    for i in range(1, count):
        here = order[i]
        nearer = hops[here] - 1
        size = first[here]
        low, high = 1 << 30, -1
        for channel in range(first[here], first[here + 1]):
            there = receiver[channel]
            if hops[there] == nearer and rank[channel] < label[there]:
                choice[size] = channel
                size += 1
                low = min(low, rank[channel])
                high = max(high, rank[channel])
                need[there] = max(need[there], rank[channel])
        ways[here] = size - first[here]
        lowest[here] = low
        label[here] = high
    for i in range(1, count):
        here = order[i]
        if lowest[here] <= need[here]:
            size = first[here]
            for k in range(first[here], first[here] + ways[here]):
                if rank[choice[k]] > need[here]:
                    choice[size] = choice[k]
                    size += 1
            ways[here] = size - first[here]
    return count


@njit(cache=True, nogil=True)
def _sort_by_distance(hops: Int32s, order: Int32s, slot: Int32s) -> int:
    """Write the switches that have a distance to `order`, nearest first; return how many."""
    slot[:] = 0
    farthest = 0
    for distance in hops:
        if distance >= 0:
            slot[distance] += 1
            farthest = max(farthest, distance)
    total = 0
    for distance in range(farthest + 1):
        total += slot[distance]
        slot[distance] = total - slot[distance]
    for switch in range(len(hops)):
        if hops[switch] >= 0:
            order[slot[hops[switch]]] = switch
            slot[hops[switch]] += 1
    return total
