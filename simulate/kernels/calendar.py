"""What happens next: ends of classes in a tree of minima, begins of flows in a queue and a heap."""

from __future__ import annotations

import numpy as np
from numba import njit

from simulate.kernels.state import BLOCK, CLOCK_TIE, N_QUEUE_HEAD, N_QUEUE_TAIL, N_TIMERS, Calendar, State

__all__ = ["ends_until", "next_begin", "next_end", "schedule", "set_end", "take_begin", "tie_at"]


@njit(cache=True, nogil=True)
def tie_at(state: State, time: float) -> float:
    """Return the time until which events are simultaneous with one at a time."""
    return time + max(state.clock[CLOCK_TIE], 1e-13 * time)  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def set_end(calendar: Calendar, slot: int, time: float) -> None:
    """Say when the first flow of a class ends."""
    calendar.end[slot] = time
    block = slot // BLOCK
    if not calendar.stale[block]:
        calendar.stale[block] = True
        calendar.stale_list[calendar.stale_count[0]] = block
        calendar.stale_count[0] += 1


@njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def next_end(calendar: Calendar) -> float:
    """Return the time at which the first flow of all ends, infinite when none moves."""
    for at in range(calendar.stale_count[0]):
        block = calendar.stale_list[at]
        calendar.stale[block] = False
        least = np.inf
        for slot in range(block * BLOCK, (block + 1) * BLOCK):
            least = min(least, calendar.end[slot])
        calendar.block[block] = least
    for at in range(calendar.stale_count[0]):
        top = calendar.stale_list[at] // BLOCK
        if at > 0 and top == calendar.stale_list[at - 1] // BLOCK:
            continue
        least = np.inf
        for block in range(top * BLOCK, (top + 1) * BLOCK):
            least = min(least, calendar.block[block])
        calendar.top[top] = least
    calendar.stale_count[0] = 0
    least = np.inf
    for top in range(len(calendar.top)):
        least = min(least, calendar.top[top])
    return least


@njit(cache=True, nogil=True)
def ends_until(state: State, time: float) -> int:
    """Write the classes with an end until a time into ``touched_list``, in order of slots; return how many."""
    calendar, classes = state.calendar, state.classes
    found = 0
    for top in range(len(calendar.top)):
        if calendar.top[top] > time:
            continue
        for block in range(top * BLOCK, (top + 1) * BLOCK):
            if calendar.block[block] > time:
                continue
            for slot in range(block * BLOCK, (block + 1) * BLOCK):
                if calendar.end[slot] <= time:
                    classes.touched_list[found] = slot
                    classes.touched[slot] = True
                    found += 1
    return found


@njit(cache=True, nogil=True)
def schedule(state: State, flow: int) -> None:
    """Put a flow down to begin at its ``arrive``."""
    time = state.moving.arrive[flow]
    calendar, count = state.calendar, state.count
    size = len(calendar.queue)
    head, tail = count[N_QUEUE_HEAD], count[N_QUEUE_TAIL]
    if head == tail or state.moving.arrive[calendar.queue[(tail - 1) % size]] <= time:
        calendar.queue[tail % size] = flow
        count[N_QUEUE_TAIL] += 1
        return
    at = count[N_TIMERS]
    count[N_TIMERS] += 1
    heap, arrive = calendar.timer, state.moving.arrive
    while at > 0 and arrive[heap[(at - 1) >> 1]] > time:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = flow


@njit(cache=True, nogil=True)
def next_begin(state: State) -> float:
    """Return the time at which the next scheduled flow begins to move, infinite when none is."""
    calendar, count, arrive = state.calendar, state.count, state.moving.arrive
    time = np.inf
    if count[N_QUEUE_HEAD] < count[N_QUEUE_TAIL]:
        time = arrive[calendar.queue[count[N_QUEUE_HEAD] % len(calendar.queue)]]
    if count[N_TIMERS] > 0:
        time = min(time, arrive[calendar.timer[0]])
    return time


@njit(cache=True, nogil=True)
def take_begin(state: State, time: float) -> int:
    """Remove the next flow that is scheduled until a time; return it, or -1 when there is none."""
    calendar, count, arrive = state.calendar, state.count, state.moving.arrive
    queued = np.inf
    if count[N_QUEUE_HEAD] < count[N_QUEUE_TAIL]:
        queued = arrive[calendar.queue[count[N_QUEUE_HEAD] % len(calendar.queue)]]
    if count[N_TIMERS] == 0 or queued <= arrive[calendar.timer[0]]:
        if queued > time:
            return -1
        count[N_QUEUE_HEAD] += 1
        return calendar.queue[(count[N_QUEUE_HEAD] - 1) % len(calendar.queue)]  # type: ignore[no-any-return]
    heap = calendar.timer
    first = heap[0]
    if arrive[first] > time:
        return -1
    count[N_TIMERS] -= 1
    size = count[N_TIMERS]
    flow = heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and arrive[heap[child + 1]] < arrive[heap[child]]:
            child += 1
        if arrive[heap[child]] >= arrive[flow]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = flow
    return first  # type: ignore[no-any-return]
