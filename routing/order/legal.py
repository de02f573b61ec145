"""Legal paths to one switch: the channels that a table may name without breaking the order of channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel, making

Int32s = NDArray[np.int32]


class ChannelOrder(NamedTuple):
    """The C channels between different switches, grouped by sender, then by plane, receiver and port.

    Switches of one level are in one *plane* when switches of that level and above link them: the spines of one index in
    all pods of a three-level tree, for instance. Every leaf thus sees its planes in the same order. All arrays are
    read-only, and kernels take the whole tuple.
    """

    indptr: Int32s  # (S + 1,) channels of switch s are ``indptr[s]`` to ``indptr[s + 1] - 1``
    sender: Int32s  # (C,) switch that sends
    receiver: Int32s  # (C,) switch that receives
    reverse: Int32s  # (C,) the other channel of each link
    number: Int32s  # (C,) number of the sending port on its switch
    rate_gbps: NDArray[np.float64]  # (C,) Gb/s of data
    rank: Int32s  # (C,) ranks; those along a legal path rise
    by_rank_desc: Int32s  # (C,) channels from the highest rank to the lowest, those of one sender together
    tie_indptr: Int32s
    """(R + 1,) ``by_rank_desc[tie_indptr[i] : tie_indptr[i + 1]]`` are the channels of one sender with one rank."""


class LegalPaths(NamedTuple):
    """All legal paths to one switch, as `legal_choices` finds them."""

    hops: Int32s  # (S,) channels to the target, -1 where no legal path leads
    nearest: Int32s  # (S,) switches that reach the target, nearest first; it starts with the target itself
    choice: Int32s
    n_choices: Int32s
    """(S,) the channels of switch s are ``choice[indptr[s] : indptr[s] + n_choices[s]]``, in ascending order."""
    label: Int32s  # (S,) the highest rank with which each switch can leave on a shortest path
    pinned: Int32s  # (S,) the only channel that a switch may take, -1 where it has a choice
    scratch: Int32s  # (4, S)


@making
def empty_paths(order: ChannelOrder) -> LegalPaths:
    """Return legal paths to be filled."""
    room = np.empty((9, len(order.indptr) - 1), np.int32)
    choice = np.empty(len(order.receiver), np.int32)
    return LegalPaths(room[0], room[1], choice, room[2], room[3], room[4], room[5:])


@kernel
def breadth_first(root: int, indptr: Int32s, neighbour: Int32s, hops: Int32s, nearest: Int32s) -> int:
    """Search a graph in CSR form breadth first; return how many nodes are reached.

    Those are written to ``nearest``, nearest first, and to ``hops`` the edges from the root, -1 where none lead.
    """
    hops[:] = -1
    hops[root] = 0
    nearest[0] = root
    head, tail = 0, 1
    while head < tail:
        node = nearest[head]
        head += 1
        for edge in range(indptr[node], indptr[node + 1]):
            other = neighbour[edge]
            if hops[other] < 0:
                hops[other] = hops[node] + 1
                nearest[tail] = other
                tail += 1
    return tail


@inner
def legal_choices(target: int, order: ChannelOrder, paths: LegalPaths) -> int:
    """Find the channels among which each switch may choose freely on legal paths to a target.

    A table names one channel a switch, and a switch may only be entered by channels that rank below the one it names.
    Switches are reached breadth first, each by the highest channel that makes its path shortest. A switch that cannot
    be reached so, because those nearer have named channels of too low a rank, may be reachable if they name higher ones
    (`_most_permissive`): the switches along one such path are pinned to those, and the search begins again. Then come
    all channels that lead a step nearer; those that would shut out a neighbour one step farther are dropped. Any
    combination of the channels that remain is legal. It fills ``paths``, and returns how many switches are reached.
    """
    # No index is negative: as unsigned ones they need no test whether they count from the end. A third faster.
    indptr, receiver = order.indptr.view(np.uint32), order.receiver.view(np.uint32)
    rank, hops, nearest = order.rank, paths.hops, paths.nearest
    choice, n_choices, label, pinned = paths.choice, paths.n_choices, paths.label, paths.pinned
    n = len(indptr) - 1
    need, lowest, permissive = paths.scratch[0], paths.scratch[1], paths.scratch[2]
    pinned[:] = -1
    count = _reach(target, order, paths)
    if count < n and _most_permissive(target, order, permissive, paths.scratch[3]) > count:
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
            count = _reach(target, order, paths)

    need[:] = -1
    n_choices[target] = 0
    for i in range(1, count):
        here = nearest[i]
        size = indptr[here]
        low, high = 1 << 30, -1
        if pinned[here] >= 0:
            choice[size] = pinned[here]
            size += 1
            low = high = rank[pinned[here]]
            need[receiver[pinned[here]]] = max(need[receiver[pinned[here]]], high)
        else:
            near = hops[here] - 1
            for channel in range(indptr[here], indptr[here + 1]):
                there = receiver[channel]
                if hops[there] == near and rank[channel] < label[there]:
                    choice[size] = channel
                    size += 1
                    low = min(low, rank[channel])
                    need[there] = max(need[there], rank[channel])
        n_choices[here] = size - indptr[here]
        lowest[here] = low
    for i in range(1, count):
        here = nearest[i]
        if lowest[here] <= need[here]:
            size = indptr[here]
            for k in range(indptr[here], indptr[here] + n_choices[here]):
                if rank[choice[k]] > need[here]:
                    choice[size] = choice[k]
                    size += 1
            n_choices[here] = size - indptr[here]
    return count


@inner
def _reach(target: int, order: ChannelOrder, paths: LegalPaths) -> int:
    """Reach switches breadth first, a pinned one only over the channel that it is pinned to; return how many."""
    indptr, receiver = order.indptr.view(np.uint32), order.receiver.view(np.uint32)
    reverse, rank = order.reverse.view(np.uint32), order.rank
    hops, nearest, label, pinned = paths.hops, paths.nearest, paths.label, paths.pinned
    hops[:] = -1
    hops[target] = 0
    label[target] = 1 << 30
    nearest[0] = target
    head, tail = 0, 1
    while head < tail:
        there = nearest[head]
        head += 1
        limit, far = label[there], hops[there] + 1
        for back in range(indptr[there], indptr[there + 1]):
            here, channel = receiver[back], reverse[back]
            if rank[channel] >= limit or (pinned[here] >= 0 and pinned[here] != channel):
                continue
            if hops[here] < 0:
                hops[here] = far
                label[here] = rank[channel]
                nearest[tail] = here
                tail += 1
            elif hops[here] == far and label[here] < rank[channel]:
                label[here] = rank[channel]
    return tail


@inner
def _most_permissive(target: int, order: ChannelOrder, next_hop: Int32s, label: Int32s) -> int:
    """Let each switch take the channel of highest rank from which a legal path leads on; return how many have one.

    Channels are taken by falling rank, so that all which may follow one have been looked at before.
    """
    channels, ties, rank = order.by_rank_desc, order.tie_indptr, order.rank
    next_hop[:] = -1
    label[:] = -1
    label[target] = 1 << 30
    count = 1
    for tie in range(len(ties) - 1):
        here = order.sender[channels[ties[tie]]]
        if here == target or next_hop[here] >= 0:
            continue
        for k in range(ties[tie], ties[tie + 1]):
            if rank[channels[k]] < label[order.receiver[channels[k]]]:
                next_hop[here] = channels[k]
                label[here] = rank[channels[k]]
                count += 1
                break
    return count
