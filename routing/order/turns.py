"""Grows an order of channels turn by turn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import ChannelOrder, breadth_first

Int32s = NDArray[np.int32]
Bools = NDArray[np.bool_]


UNKNOWN, ALLOWED, CLOSED = 0, 1, 2
NEITHER, AFTER, BEFORE = 0, 1, 2


class Turns(NamedTuple):
    """Ranks of channels, and the turns that they must allow."""

    order: ChannelOrder  # the channels; its ranks do not count here
    rank: Int32s  # (C,) a permutation, changed in place
    state: NDArray[np.uint8]
    """(C, W) of the turn from a channel to channel w of its receiver: `UNKNOWN`, `ALLOWED` (it must rise), or `CLOSED`
    since it would close a loop, now and ever after. Changed in place."""
    seen: NDArray[np.uint8]  # (C,) scratch, all `NEITHER`
    queue: Int32s  # (2 * C + 1,) scratch


def no_turns(order: ChannelOrder, rank: Int32s) -> Turns:
    """Return ranks of the channels, which are changed in place, and no turns yet."""
    size, widest = len(rank), int(np.diff(order.indptr).max(initial=0))
    state = np.zeros((size, widest), np.uint8)
    return Turns(order, rank, state, np.zeros(size, np.uint8), np.empty(2 * size + 1, np.int32))


@inner
def allow_turn(turns: Turns, x: int, y: int) -> bool:
    """Allow the turn from channel x to channel y unless that closes a loop; return whether it is allowed."""
    index = y - turns.order.indptr[turns.order.sender[y]]
    if turns.state[x, index] == UNKNOWN:
        rises = turns.rank[x] < turns.rank[y] or _let_rise(turns, x, y)
        turns.state[x, index] = ALLOWED if rises else CLOSED
    return bool(turns.state[x, index] == ALLOWED)


@inner
def _let_rise(turns: Turns, x: int, y: int) -> bool:
    """Let channel y rank above channel x, unless the turns that are allowed lead from y to x; return whether it does.

    The order is kept up to date as Pearce and Kelly do (ACM J. Experimental Algorithmics 11, 2006): only channels that
    rank between the two are looked at. What follows y and what precedes x are sought in turn, the one with fewer to
    look at first: most turns close a loop, and the two meet long before one of them has found all.
    """
    rank, queue, seen, size = turns.rank, turns.queue, turns.seen, len(turns.rank)
    queue[0], queue[size], seen[y], seen[x] = y, x, AFTER, BEFORE
    after, before, i, j, loop = 1, 1, 0, 0, False
    while (i < after or j < before) and not loop:
        if j == before or (i < after and after - i <= before - j):
            found, loop = _follow(turns, queue[i], rank[x], after)
            after, i = after + found, i + 1
        else:
            found, loop = _precede(turns, queue[size + j], rank[y], size + before)
            before, j = before + found, j + 1
    for k in range(after):
        seen[queue[k]] = NEITHER
    for k in range(before):
        seen[queue[size + k]] = NEITHER
    if loop:
        return False
    # Those before x take the lowest of the ranks that all of them have, those after y the rest, in their old order.
    total = after + before
    for k in range(before):
        queue[after + k] = queue[size + k]
    _sort_by_rank(rank, queue, 0, after)
    _sort_by_rank(rank, queue, after, total)
    earlier, later = after, 0
    for k in range(total):
        if later == after or (earlier < total and rank[queue[earlier]] < rank[queue[later]]):
            queue[size + k] = rank[queue[earlier]]
            earlier += 1
        else:
            queue[size + k] = rank[queue[later]]
            later += 1
    for k in range(total):
        rank[queue[(after + k) % total]] = queue[size + k]
    return True


@inner
def _sort_by_rank(rank: Int32s, queue: Int32s, begin: int, end: int) -> None:
    """Sort a part of the queue. Shell's sort: what NumPy sorts with takes a second to compile.

    The gaps are 1, 4, 13, 40 and so on (Knuth, The Art of Computer Programming, 5.2.1).
    """
    gap = 1
    while gap < end - begin:
        gap = 3 * gap + 1
    while gap > 1:
        gap //= 3
        for i in range(begin + gap, end):
            channel, j = queue[i], i
            while j >= begin + gap and rank[queue[j - gap]] > rank[channel]:
                queue[j] = queue[j - gap]
                j -= gap
            queue[j] = channel


@inner
def _follow(turns: Turns, channel: int, highest: int, end: int) -> tuple[int, bool]:
    """Queue and mark what follows a channel at once and ranks no higher; return how many, and whether x is reached.

    That is so where it meets what precedes x.
    """
    # No index is negative: as unsigned ones they need no test whether they count from the end.
    indptr, receiver = turns.order.indptr.view(np.uint32), turns.order.receiver.view(np.uint32)
    queue, seen, rank, state = turns.queue.view(np.uint32), turns.seen, turns.rank, turns.state
    here, total = np.uint32(channel), end
    begin = indptr[receiver[here]]
    for then in range(begin, indptr[receiver[here] + np.uint32(1)]):
        if state[here, then - begin] == ALLOWED and seen[then] != AFTER and rank[then] <= highest:
            if seen[then] == BEFORE:
                return total - end, True
            seen[then] = AFTER
            queue[total] = then
            total += 1
    return total - end, False


@inner
def _precede(turns: Turns, channel: int, lowest: int, end: int) -> tuple[int, bool]:
    """Queue and mark what precedes a channel at once and ranks no lower, in the same way."""
    indptr, sender = turns.order.indptr.view(np.uint32), turns.order.sender.view(np.uint32)
    reverse = turns.order.reverse.view(np.uint32)
    queue, seen, rank, state = turns.queue.view(np.uint32), turns.seen, turns.rank, turns.state
    here, total = np.uint32(channel), end
    begin = indptr[sender[here]]
    for out in range(begin, indptr[sender[here] + np.uint32(1)]):
        then = reverse[out]
        if state[then, here - begin] == ALLOWED and seen[then] != BEFORE and rank[then] >= lowest:
            if seen[then] == AFTER:
                return total - end, True
            seen[then] = BEFORE
            queue[total] = then
            total += 1
    return total - end, False


@kernel
def _connect(turns: Turns, target: int, hops: Int32s, nearest: Int32s, next_hop: Int32s, taken: Int32s) -> None:
    """Give as many switches as can be a shortest path to a target, over channels that few others took.

    Among the channels whose turn the order allows as it is, it takes the least used one; if there is none, the least
    used one that can be allowed.
    """
    indptr, receiver = turns.order.indptr, turns.order.receiver
    count = breadth_first(target, indptr, receiver, hops, nearest)
    next_hop[target] = -1
    tried = np.zeros(turns.state.shape[1], np.bool_)
    for i in range(1, count):
        here = nearest[i]
        begin, end = indptr[here], indptr[here + 1]
        tried[:] = False
        next_hop[here] = -1
        free = True
        while next_hop[here] < 0:
            best = -1
            for channel in range(begin, end):
                there = receiver[channel]
                if tried[channel - begin] or hops[there] != hops[here] - 1:
                    continue
                if there != target and (
                    next_hop[there] < 0 or (free and turns.rank[channel] > turns.rank[next_hop[there]])
                ):
                    continue
                if best < 0 or taken[channel] < taken[best]:
                    best = channel
            if best < 0 and not free:
                break
            if best < 0:
                free = False
            elif receiver[best] == target or allow_turn(turns, best, next_hop[receiver[best]]):
                next_hop[here] = best
                taken[best] += 1
            else:
                tried[best - begin] = True


@kernel
def grow_order(turns: Turns, targets: Int32s) -> None:
    """Make as many shortest paths to (n,) targets legal as an order of channels can hold, greedily.

    First every switch gets one path to each target in turn, as far as that can be. Then all other turns on shortest
    paths are offered, so that there is a choice. Turns that are allowed at the start stay so, here and below: what they
    connect stays connected.
    """
    indptr, receiver = turns.order.indptr, turns.order.receiver
    n = len(indptr) - 1
    hops, nearest, next_hop = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    taken = np.zeros(len(receiver), np.int32)
    for target in targets:
        _connect(turns, target, hops, nearest, next_hop, taken)
    for target in targets:
        count = breadth_first(target, indptr, receiver, hops, nearest)
        for i in range(1, count):
            here = nearest[i]
            for channel in range(indptr[here], indptr[here + 1]):
                there = receiver[channel]
                if hops[there] == hops[here] - 1:
                    for then in range(indptr[there], indptr[there + 1]):
                        if hops[receiver[then]] == hops[there] - 1:
                            allow_turn(turns, channel, then)


@kernel
def offer_turns(turns: Turns, first: Int32s, then: Int32s) -> None:
    """Allow as many of some turns, (n,) each from a first channel to the then next, as the order can hold, in order."""
    for i in range(len(first)):
        allow_turn(turns, first[i], then[i])


@kernel
def note_turns(turns: Turns, one: Int32s, other: Int32s) -> None:
    """Mark the turns that packets take under any mixture of two tables, as far as the ranks rise.

    Both are (n, S): the channel that each switch takes to each of some destinations, -1 where there is none.
    """
    for i in range(len(one)):
        for here in range(one.shape[1]):
            for channel in (one[i, here], other[i, here]):
                if channel < 0:
                    continue
                there = turns.order.receiver[channel]
                for then in (one[i, there], other[i, there]):
                    if then >= 0 and turns.rank[channel] < turns.rank[then]:
                        turns.state[channel, then - turns.order.indptr[there]] = ALLOWED


@kernel
def extend_order(turns: Turns, onward: Int32s, homes: Int32s, missing: Bools) -> int:
    """Connect switches that no rising path leads from, over turns that are allowed for it; return how many remain.

    Turns that are allowed already come first, then the channel that the switch has, then those into the switch where
    most have been allowed: as long as all turns that no order foresees are at one switch, they close no loop.

    ``onward``, (n, S), is the channel that each switch takes to each of some destinations, which hang on the (n,)
    ``homes``; of a ``missing`` switch, which is to be connected, that it took before, or -1. Both are changed in place.
    """
    indptr, receiver = turns.order.indptr, turns.order.receiver
    popular, left = np.diff(indptr), 0
    tried = np.zeros(turns.state.shape[1], np.bool_)
    for i in range(len(onward)):
        found = True
        while found:
            found = False
            before = missing[i].copy()  # nearest first
            for here in np.flatnonzero(before):
                tried[:] = False
                while missing[i, here]:
                    best, liking = -1, -1
                    for channel in range(indptr[here], indptr[here + 1]):
                        there = receiver[channel]
                        then = onward[i, there]
                        if tried[channel - indptr[here]] or before[there] or (then < 0 and there != homes[i]):
                            continue
                        like = popular[there]
                        if channel == onward[i, here]:
                            like += 1 << 28
                        if there == homes[i] or turns.state[channel, then - indptr[there]] == ALLOWED:
                            like += 1 << 29
                        if like > liking:
                            best, liking = channel, like
                    if best < 0:
                        break
                    tried[best - indptr[here]] = True
                    there = receiver[best]
                    if there == homes[i] or allow_turn(turns, best, onward[i, there]):
                        onward[i, here] = best
                        missing[i, here] = False
                        popular[there] += len(receiver)
                        found = True
        left += missing[i].sum()
    return left
