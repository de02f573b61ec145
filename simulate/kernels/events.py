"""Plays flows: what ends and begins at one instant is handled at once, then the rates are solved."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simulate.kernels.calendar import ends_until, next_begin, next_end, schedule, set_end, take_begin, tie_at
from simulate.kernels.maxmin import FREE, SETTLED, TIE, solve
from simulate.kernels.state import (
    CLOCK_TIME,
    N_DONE,
    N_EVENTS,
    N_FREE_SLOTS,
    N_SOLVES,
    State,
)

__all__ = ["advance", "next_time", "schedule_roots"]


@njit(cache=True, nogil=True)
def _meld(state: State, a: int, b: int) -> int:
    """Join two skew heaps of flows by `goal` (Sleator and Tarjan, 1986); return the root."""
    moving = state.moving
    if a < 0 or b < 0:
        return max(a, b)
    if moving.goal[b] < moving.goal[a]:
        a, b = b, a
    root = a
    while True:
        c = moving.right[a]
        moving.right[a] = moving.left[a]
        if c < 0:
            moving.left[a] = b
            return root
        if moving.goal[b] < moving.goal[c]:
            b, c = c, b
        moving.left[a] = c
        a = c


@njit(cache=True, nogil=True)
def _open(state: State, route: int, time: float) -> int:
    """Take a slot for a route on which the first flow begins to move; return it."""
    links, routes, classes = state.links, state.routes, state.classes
    state.count[N_FREE_SLOTS] -= 1
    slot = classes.spare[state.count[N_FREE_SLOTS]]
    routes.slot[route] = slot
    classes.route[slot] = route
    classes.lane[slot] = routes.lane[route]
    classes.flows[slot] = 0
    classes.solved[slot] = 0
    classes.rate[slot] = 0.0
    classes.limit[slot] = -1
    classes.served[slot] = 0.0
    classes.since[slot] = time
    classes.drawn[slot] = time
    classes.first[slot] = -1
    begin = routes.offset[route]
    classes.hops[slot] = routes.offset[route + 1] - begin
    for place in range(classes.hops[slot]):
        hop = (slot << state.shift) + place
        link = routes.resource[begin + place]
        classes.resource[hop] = link
        classes.use[hop] = routes.use[begin + place] if len(routes.use) > 0 else 1.0
        classes.place[hop] = links.count[link]
        links.member[links.offset[link] + links.count[link]] = hop
        links.count[link] += 1
    return slot  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def _close(state: State, slot: int) -> None:
    """Give back the slot of a class whose last flow has ended."""
    links, classes = state.links, state.classes
    begin = slot << state.shift
    for hop in range(begin, begin + classes.hops[slot]):
        link = classes.resource[hop]
        place = classes.place[hop]
        links.count[link] -= 1
        first = links.offset[link]
        moved = links.member[first + links.count[link]]
        links.member[first + place] = moved
        links.weight[first + place] = links.weight[first + links.count[link]]
        classes.place[moved] = place
    state.routes.slot[classes.route[slot]] = -1
    classes.spare[state.count[N_FREE_SLOTS]] = slot
    state.count[N_FREE_SLOTS] += 1


@njit(cache=True, nogil=True)
def _settle(state: State, slot: int, rate: float, time: float) -> None:
    """Bring the account of a class up to a time until which its flows moved at a rate."""
    classes = state.classes
    classes.served[slot] += rate * (time - classes.since[slot])
    classes.since[slot] = time


@njit(cache=True, nogil=True)
def _draw(state: State, slot: int, rate: float, time: float) -> None:
    """Add what a class has moved since it was last drawn to the timeline."""
    classes, bins = state.classes, state.bins
    since = classes.drawn[slot]
    classes.drawn[slot] = time
    load = rate * classes.solved[slot]
    n_bins = bins.shape[1]
    if load == 0.0 or since >= time:
        return
    while time > state.bin_s[0] * n_bins:
        for link in range(bins.shape[0]):
            for at in range(n_bins // 2):
                bins[link, at] = bins[link, 2 * at] + bins[link, 2 * at + 1]
            bins[link, n_bins // 2 :] = 0.0
        state.bin_s[0] *= 2.0
    width = state.bin_s[0]
    begin = classes.resource[slot << state.shift :][: classes.hops[slot]]
    use = classes.use[slot << state.shift :][: classes.hops[slot]]
    for at in range(int(since / width), min(int(time / width), n_bins - 1) + 1):
        part = min(time, (at + 1) * width) - max(since, at * width)
        if part > 0.0:
            for place in range(len(begin)):
                bins[begin[place], at] += load * use[place] * part


@njit(cache=True, nogil=True)
def _begin_moving(state: State, flow: int, time: float, n_touched: int) -> int:
    """Add a flow to the class of its route."""
    classes, moving = state.classes, state.moving
    route = moving.route[flow]
    slot = state.routes.slot[route]
    if slot < 0:
        slot = _open(state, route, time)
    elif classes.since[slot] != time:
        _settle(state, slot, classes.rate[slot], time)
    moving.goal[flow] = classes.served[slot] + moving.size[flow]
    moving.left[flow] = -1
    moving.right[flow] = -1
    classes.first[slot] = _meld(state, classes.first[slot], flow)
    classes.flows[slot] += 1
    if not classes.touched[slot]:
        classes.touched[slot] = True
        classes.touched_list[n_touched] = slot
        n_touched += 1
    return n_touched


@njit(cache=True, nogil=True)
def _make_ready(state: State, flow: int, time: float) -> bool:
    """Begin a flow whose dependencies have ended; return whether its bytes move at once, otherwise schedule it."""
    moving = state.moving
    begin = max(time, moving.earliest[flow]) + moving.delay[flow]
    moving.begin[flow] = begin
    moving.arrive[flow] = begin + state.routes.latency[moving.route[flow]]
    if moving.arrive[flow] <= time:
        return True
    schedule(state, flow)
    return False


@njit(cache=True, nogil=True)
def schedule_roots(state: State, flows: NDArray[np.int64]) -> None:
    """Schedule flows that wait for no other; best in the order in which they begin."""
    moving = state.moving
    for flow in flows:
        moving.begin[flow] = max(state.clock[CLOCK_TIME], moving.earliest[flow]) + moving.delay[flow]
        moving.arrive[flow] = moving.begin[flow] + state.routes.latency[moving.route[flow]]
        schedule(state, flow)


@njit(cache=True, nogil=True)
def _finish(state: State, flow: int, limit: int, time: float, n_ready: int) -> int:
    """Record the end of a flow, and add those that waited only for it to ``state.ready``."""
    moving = state.moving
    moving.end[flow] = time
    moving.limit[flow] = limit
    state.done[state.count[N_DONE]] = flow
    state.count[N_DONE] += 1
    for at in range(moving.next_offset[flow], moving.next_offset[flow + 1]):
        follower = moving.next[at]
        moving.waits[follower] -= 1
        if moving.waits[follower] == 0:
            state.ready[n_ready] = follower
            n_ready += 1
    return n_ready


@njit(cache=True, nogil=True)
def _end_class_flows(state: State, slot: int, time: float, n_ready: int) -> int:
    """End the flows of a class that end at this instant."""
    classes, moving = state.classes, state.moving
    flow = classes.first[slot]
    classes.served[slot] = moving.goal[flow]
    classes.since[slot] = time
    horizon = moving.goal[flow] + classes.rate[slot] * (tie_at(state, time) - time)
    while flow >= 0 and moving.goal[flow] <= horizon:
        classes.first[slot] = _meld(state, moving.left[flow], moving.right[flow])
        classes.flows[slot] -= 1
        n_ready = _finish(state, flow, classes.limit[slot], time, n_ready)
        flow = classes.first[slot]
    return n_ready


@njit(cache=True, nogil=True)
def _instant(state: State, time: float) -> int:
    """Handle all that ends and begins at one instant; return how many classes it touched."""
    moving, routes = state.moving, state.routes
    until = tie_at(state, time)
    n_ready = 0
    n_touched = ends_until(state, until)
    for at in range(n_touched):
        n_ready = _end_class_flows(state, state.classes.touched_list[at], time, n_ready)
    while True:
        if n_ready > 0:
            n_ready -= 1
            flow = state.ready[n_ready]
            if not _make_ready(state, flow, time):
                continue
        else:
            flow = take_begin(state, until)
            if flow < 0:
                return n_touched
        route = moving.route[flow]
        if moving.size[flow] == 0.0 or routes.offset[route] == routes.offset[route + 1]:
            n_ready = _finish(state, flow, -1, time, n_ready)
        else:
            n_touched = _begin_moving(state, flow, time, n_touched)


@njit(cache=True, nogil=True)
def _solve_touched(state: State, time: float, n_touched: int) -> None:
    """Solve what the touched classes have changed, and say when the first flow of each class ends now."""
    links, classes, calendar = state.links, state.classes, state.calendar
    n_freed = 0
    n_seeds = 0
    for at in range(n_touched):
        slot = classes.touched_list[at]
        if classes.flows[slot] == classes.solved[slot]:
            continue
        if state.bins.shape[1] > 0:
            _draw(state, slot, classes.rate[slot], time)
        classes.solved[slot] = classes.flows[slot]
        begin = slot << state.shift
        for hop in range(begin, begin + classes.hops[slot]):
            link = classes.resource[hop]
            links.weight[links.offset[link] + classes.place[hop]] = classes.use[hop] * classes.flows[slot]
            state.seed[n_seeds] = link
            n_seeds += 1
        if classes.flows[slot] == 0:
            _close(state, slot)
        else:
            classes.before[slot] = classes.rate[slot]
            classes.free[slot] = FREE
            state.freed[n_freed] = slot
            n_freed += 1
    if n_seeds > 0:
        state.count[N_SOLVES] += 1
        n_freed = solve(state, n_freed, n_seeds)
        for at in range(n_freed):
            slot = state.freed[at]
            classes.free[slot] = SETTLED
            before, rate = classes.before[slot], classes.rate[slot]
            if abs(rate - before) <= TIE * before:
                classes.rate[slot] = before
                continue
            if state.bins.shape[1] > 0:
                _draw(state, slot, before, time)
            if not classes.touched[slot]:
                classes.touched[slot] = True
                classes.touched_list[n_touched] = slot
                n_touched += 1
            if classes.since[slot] != time:
                _settle(state, slot, before, time)
    for at in range(n_touched):
        slot = classes.touched_list[at]
        classes.touched[slot] = False
        if classes.flows[slot] == 0:
            set_end(calendar, slot, np.inf)
        else:
            left = max(0.0, state.moving.goal[classes.first[slot]] - classes.served[slot])
            set_end(calendar, slot, classes.since[slot] + left / classes.rate[slot])


@njit(cache=True, nogil=True)
def next_time(state: State) -> float:
    """Return the time of the next event, infinite when nothing moves and nothing is scheduled."""
    return min(next_end(state.calendar), next_begin(state))  # type: ignore[no-any-return]


@njit(cache=True, nogil=True)
def advance(state: State, until: float, max_events: int, stop_at_end: bool) -> bool:
    """Play events in order.

    Parameters
    ----------
    until
        Seconds; later events are left for the next call.
    max_events
        Instants to play at most.
    stop_at_end
        Whether to return after the first instant at which a flow ends.

    Returns
    -------
    bool
        Whether events until `until` may be left.
    """
    for _ in range(max_events):
        time = next_time(state)
        if time > until or time == np.inf:
            return False
        time = max(time, state.clock[CLOCK_TIME])
        state.clock[CLOCK_TIME] = time
        state.count[N_EVENTS] += 1
        n_done = state.count[N_DONE]
        n_touched = _instant(state, time)
        _solve_touched(state, time, n_touched)
        if stop_at_end and state.count[N_DONE] > n_done:
            return True
    return True
