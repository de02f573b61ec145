"""Legal paths to one switch: who can go where without breaking the order of channels."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

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
def hops_to(target: int, first: Int32s, receiver: Int32s, hops: Int32s, order: Int32s) -> int:
    """Write hops to a target, -1 where no cable leads, and the switches that have them, nearest first."""
    hops[:] = -1
    hops[target] = 0
    order[0] = target
    head, tail = 0, 1
    while head < tail:
        switch = order[head]
        head += 1
        for channel in range(first[switch], first[switch + 1]):
            other = receiver[channel]
            if hops[other] < 0:
                hops[other] = hops[switch] + 1
                order[tail] = other
                tail += 1
    return tail


@njit(cache=True, nogil=True)
def legal_choices(
    target: int,
    first: Int32s,
    sender: Int32s,
    receiver: Int32s,
    reverse: Int32s,
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
    Switches are reached breadth first, each by the highest channel that makes its path shortest. Who cannot be reached
    so, because those nearer have named channels too low, can be if they name higher ones (`_most_permissive`): along
    one such path they are made to, and the search begins again. Then come all channels that lead a step nearer; those
    that would shut out a neighbour who is a step farther are dropped. Any combination of the channels that remain is
    legal.

    Parameters
    ----------
    target : int
        Switch to reach.
    first, sender, receiver, reverse, rank, falling, run
        As in `routing.order.channel_order.ChannelOrder`.
    hops : (S,) int32, out
        Channels to the target, -1 where no legal path leads.
    order : (S,) int32, out
        Switches that reach the target, nearest first; it starts with the target itself.
    choice : (C,) int32, out
    ways : (S,) int32, out
        The channels of switch s are ``choice[first[s] : first[s] + ways[s]]``, in ascending order.
    scratch : (6, S) int32

    Returns
    -------
    int
        Switches in ``order``.
    """
    # None of them is negative: seen as unsigned, an index needs no look whether it counts from the end. A third faster.
    first, receiver, reverse = first.view(np.uint32), receiver.view(np.uint32), reverse.view(np.uint32)
    n = len(first) - 1
    label, need, lowest = scratch[0], scratch[1], scratch[2]
    pinned, permissive, spare = scratch[3], scratch[4], scratch[5]
    pinned[:] = -1
    count = _reach(target, first, receiver, reverse, rank, pinned, hops, order, label)
    if count < n and _most_permissive(target, sender, receiver, rank, falling, run, permissive, spare) > count:
        while True:
            lost = -1
            for switch in range(n):
                if hops[switch] < 0 and permissive[switch] >= 0:
                    lost = switch
                    break
            if lost < 0:
                break
            while lost != target:
                pinned[lost] = permissive[lost]
                lost = receiver[permissive[lost]]
            count = _reach(target, first, receiver, reverse, rank, pinned, hops, order, label)

    need[:] = -1
    ways[target] = 0
    for i in range(1, count):
        here = order[i]
        size = first[here]
        low, high = 1 << 30, -1
        if pinned[here] >= 0:
            choice[size] = pinned[here]
            size += 1
            low = high = rank[pinned[here]]
            need[receiver[pinned[here]]] = max(need[receiver[pinned[here]]], high)
        else:
            near = hops[here] - 1
            for channel in range(first[here], first[here + 1]):
                there = receiver[channel]
                if hops[there] == near and rank[channel] < label[there]:
                    choice[size] = channel
                    size += 1
                    low = min(low, rank[channel])
                    need[there] = max(need[there], rank[channel])
        ways[here] = size - first[here]
        lowest[here] = low
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
def _reach(
    target: int,
    first: Int32s,
    receiver: Int32s,
    reverse: Int32s,
    rank: Int32s,
    pinned: Int32s,
    hops: Int32s,
    order: Int32s,
    label: Int32s,
) -> int:
    """Reach switches breadth first; `label` is the highest rank with which each can leave on a shortest path.

    Pinned switches are reached only over the channel that they are pinned to.
    """
    hops[:] = -1
    hops[target] = 0
    label[target] = 1 << 30
    order[0] = target
    head, tail = 0, 1
    while head < tail:
        there = order[head]
        head += 1
        limit, far = label[there], hops[there] + 1
        for back in range(first[there], first[there + 1]):
            here, channel = receiver[back], reverse[back]
            if rank[channel] >= limit or (pinned[here] >= 0 and pinned[here] != channel):
                continue
            if hops[here] < 0:
                hops[here] = far
                label[here] = rank[channel]
                order[tail] = here
                tail += 1
            elif hops[here] == far and label[here] < rank[channel]:
                label[here] = rank[channel]
    return tail


@njit(cache=True, nogil=True)
def _most_permissive(
    target: int,
    sender: Int32s,
    receiver: Int32s,
    rank: Int32s,
    falling: Int32s,
    run: Int32s,
    onward: Int32s,
    label: Int32s,
) -> int:
    """Let each switch take the channel of highest rank from which a legal path leads on; return how many have one.

    Channels are taken by falling rank, so that all which may follow one have been looked at before.
    """
    onward[:] = -1
    label[:] = -1
    label[target] = 1 << 30
    count = 1
    for r in range(len(run) - 1):
        here = sender[falling[run[r]]]
        if here == target or onward[here] >= 0:
            continue
        for k in range(run[r], run[r + 1]):
            if rank[falling[k]] < label[receiver[falling[k]]]:
                onward[here] = falling[k]
                label[here] = rank[falling[k]]
                count += 1
                break
    return count
