"""What happens next: when classes end, as a tree of minima; when flows begin, as a queue and a heap.

The leaves of the tree are the ends of the classes, by slot; each node is the minimum of `BLOCK` children. An end that
comes earlier lowers the minima above it at once. One that comes later makes its block *stale*, and stale blocks are
computed again only when the next end is asked for: a class whose end moves several times at one instant costs once.

Flows mostly are scheduled in the order in which they begin. These stand in a queue, the others in a binary heap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Floats, Int32s, Records
from simulate.engines.compile import inlined, scanning
from simulate.engines.fluid.state import BLOCK, State


@inlined
def set_end(state: State, slot: int, time: float) -> None:
    """Set the time at which the first flow of a class ends."""
    now, blocks, tops, roots = state.now, state.blocks, state.tops, state.roots
    before = state.ends[slot]
    state.ends[slot] = time
    block = slot // BLOCK
    if time < blocks[block]:
        blocks[block] = time
        top = block // BLOCK
        tops[top] = min(tops[top], time)
        roots[top // BLOCK] = min(roots[top // BLOCK], time)
    elif before == blocks[block] and time > before and not state.is_stale[block]:
        state.is_stale[block] = True
        state.stale[now[0].stale] = block
        now[0].stale += 1


@inlined
def _renew(minima: Floats, parts: Floats, stale: Int32s, n_stale: int, width: int) -> None:
    """Compute the minima above stale blocks again, one level up; each minimum spans `width` blocks."""
    for at in range(n_stale):
        whole = stale[at] // width
        if at > 0 and whole == stale[at - 1] // width:
            continue
        least = np.inf
        for part in range(whole * BLOCK, min((whole + 1) * BLOCK, len(parts))):
            least = min(least, parts[part])
        minima[whole] = least


@scanning
def next_end(
    now: Records, ends: Floats, blocks: Floats, tops: Floats, roots: Floats,
    stale: Int32s, is_stale: NDArray[np.bool_],
) -> float:  # fmt: skip
    """Return the time at which the first flow of all ends, infinite when none moves."""
    for at in range(now[0].stale):
        block = stale[at]
        is_stale[block] = False
        least = np.inf
        for slot in range(block * BLOCK, (block + 1) * BLOCK):
            least = min(least, ends[slot])
        blocks[block] = least
    _renew(tops, blocks, stale, now[0].stale, BLOCK)
    _renew(roots, tops, stale, now[0].stale, BLOCK * BLOCK)
    now[0].stale = 0
    least = np.inf
    for root in range(len(roots)):
        least = min(least, roots[root])
    return least


@inlined
def ends_until(state: State, time: float) -> int:
    """Write the slots of classes that end by a time into ``freed``, in order; return how many there are."""
    ends, blocks, tops, roots = state.ends, state.blocks, state.tops, state.roots
    n = 0
    for root in range(len(roots)):
        if roots[root] > time:
            continue
        for top in range(root * BLOCK, min((root + 1) * BLOCK, len(tops))):
            if tops[top] > time:
                continue
            for block in range(top * BLOCK, (top + 1) * BLOCK):
                if blocks[block] > time:
                    continue
                for slot in range(block * BLOCK, (block + 1) * BLOCK):
                    if ends[slot] <= time:
                        state.freed[n] = slot
                        n += 1
    return n


@inlined
def schedule_begin(state: State, flow: int, time: float) -> None:
    """Schedule when a flow begins to move."""
    now, moves, queue, timer = state.now, state.moves, state.queue, state.timer
    moves[flow].due = time
    head, tail = now[0].queue_head, now[0].queue_tail
    if head == tail or moves[queue[(tail - 1) % len(queue)]].due <= time:
        queue[tail % len(queue)] = flow
        now[0].queue_tail += 1
        return
    at = now[0].timers
    now[0].timers += 1
    while at > 0 and moves[timer[(at - 1) >> 1]].due > time:
        timer[at] = timer[(at - 1) >> 1]
        at = (at - 1) >> 1
    timer[at] = flow


@inlined
def next_begin(state: State) -> float:
    """Return the time at which the next scheduled flow begins to move, infinite when none is."""
    now, moves, queue = state.now, state.moves, state.queue
    time = np.inf
    if now[0].queue_head < now[0].queue_tail:
        time = moves[queue[now[0].queue_head % len(queue)]].due
    if now[0].timers > 0:
        time = min(time, moves[state.timer[0]].due)
    return time


@inlined
def take_begin(state: State, time: float) -> int:
    """Remove the next flow that is scheduled by a time, of two at one time the queued one; return it, or -1."""
    now, moves, queue, timer = state.now, state.moves, state.queue, state.timer
    queued = np.inf
    if now[0].queue_head < now[0].queue_tail:
        queued = moves[queue[now[0].queue_head % len(queue)]].due
    if now[0].timers == 0 or queued <= moves[timer[0]].due:
        if queued > time:
            return -1
        now[0].queue_head += 1
        return queue[(now[0].queue_head - 1) % len(queue)]  # type: ignore[no-any-return]
    first = timer[0]
    if moves[first].due > time:
        return -1
    now[0].timers -= 1
    size = now[0].timers
    flow = timer[size]
    due = moves[flow].due
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and moves[timer[child + 1]].due < moves[timer[child]].due:
            child += 1
        if moves[timer[child]].due >= due:
            break
        timer[at] = timer[child]
        at = child
    timer[at] = flow
    return first  # type: ignore[no-any-return]
