"""Plays flows: what ends and begins at one instant is handled at once, then the rates are solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.engines.compile import inlined, inner, kernel
from simulate.engines.fluid.aggregates import (
    AGGREGATED,
    SETTLED,
    draw_aggregates,
    enter_alone,
    find_aggregate,
    gather,
    join_aggregate,
    leave_aggregate,
    leave_alone,
    queue_class,
    relax,
    unqueue_class,
    weigh_share,
)
from simulate.engines.fluid.event_queue import ends_until, next_begin, next_end, schedule_begin, set_end, take_begin
from simulate.engines.fluid.flow_classes import accumulate, first_hop, merge_heaps, open_class, settle, touch
from simulate.engines.fluid.lanes import share_lanes
from simulate.engines.fluid.maxmin import FREE, TIE, free, solve
from simulate.engines.fluid.state import State

CLOCK_TIE = 1e-13
"""Events this close together, relative to the time, are one instant: rounding of the clock, and a little more."""


@inlined
def _end_flows(state: State, slot: int, limit: int, goal: float, n_ready: int) -> int:
    """End the flows of a class until its account comes to a goal; return how many flows are ready to begin."""
    moves, classes = state.moves, state.classes
    flow = classes[slot].first
    while flow >= 0 and moves[flow].due <= goal:
        classes[slot].first = merge_heaps(moves, moves[flow].left, moves[flow].right)
        classes[slot].flows -= 1
        state.limit[flow] = limit // len(state.lane_weight)
        n_ready = _finish(state, flow, n_ready)
        flow = classes[slot].first
    touch(state, slot)
    return n_ready


@inner
def _end_aggregate(state: State, aggregate: int, until: float, n_ready: int) -> int:
    """End the flows of an aggregate that end at this instant; return how many flows are ready to begin."""
    classes, class_heap = state.classes, state.class_heap
    slot = classes[aggregate].first
    classes[aggregate].served = class_heap[slot].key
    classes[aggregate].since = state.now[0].time
    goal = class_heap[slot].key + state.rates[aggregate].rate * (until - state.now[0].time)
    touch(state, aggregate)
    while slot >= 0 and class_heap[slot].key <= goal:
        unqueue_class(classes, class_heap, aggregate, slot)
        n_ready = _end_flows(state, slot, aggregate, goal + classes[slot].served, n_ready)
        slot = classes[aggregate].first
    return n_ready


@inlined
def _finish(state: State, flow: int, n_ready: int) -> int:
    """Record the end of a flow, and make those ready that waited only for it; return how many are ready."""
    now, waits, number = state.now, state.waits, state.connection[flow]
    if number >= 0:
        state.connections[number].moving = -1
        _list_turn(state, number)
    state.end[flow] = now[0].time
    state.done[now[0].done] = flow
    now[0].done += 1
    for at in range(waits[flow].first, waits[flow].first + waits[flow].count):
        follower = state.next_flow[at]
        waits[follower].waits -= 1
        if waits[follower].waits == 0:
            state.ready[n_ready] = follower
            n_ready += 1
    return n_ready


@inlined
def _list_turn(state: State, number: int) -> None:
    """Look at a connection when all that could move on it at this instant is known."""
    if not state.connections[number].listed:
        state.connections[number].listed = True
        state.turns[state.now[0].turns] = number
        state.now[0].turns += 1


@inlined
def _take_turn(state: State) -> int:
    """Remove the next flow that may move on a listed connection; return it, or -1 when there is none."""
    now, moves, connections = state.now, state.moves, state.connections
    while now[0].turns > 0:
        now[0].turns -= 1
        number = state.turns[now[0].turns]
        connections[number].listed = False
        flow = connections[number].first
        if connections[number].moving < 0 and flow >= 0:
            connections[number].first = merge_heaps(moves, moves[flow].left, moves[flow].right)
            connections[number].moving = flow
            return flow  # type: ignore[no-any-return]
    return -1


@inlined
def _see(state: State, slot: int) -> None:
    """Add the links of a class or aggregate to the seeds."""
    if slot < state.now[0].aggregates:
        share = state.aggregates[slot].near
        while share >= 0:
            state.seeds[state.now[0].seeds] = state.shares[share].link
            state.now[0].seeds += 1
            share = state.shares[share].next
        return
    first = first_hop(state.now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        if not state.links[state.hops[hop].link].unsaturated:
            state.seeds[state.now[0].seeds] = state.hops[hop].link
            state.now[0].seeds += 1


@inlined
def _close(state: State, slot: int) -> None:
    """Give back the slot of a class whose last flow has ended."""
    state.routes[state.classes[slot].route].slot = -1
    state.spare[state.now[0].spare] = slot
    state.now[0].spare += 1


@inner
def _weigh_aggregated(state: State, slot: int, n_freed: int) -> int:
    """Give a class in an aggregate, or a new one that crosses its link, its weight; return the length of `freed`."""
    now, rates, classes, hops, class_heap = state.now, state.rates, state.classes, state.hops, state.class_heap
    more = classes[slot].flows - classes[slot].solved
    aggregate = find_aggregate(state, slot) if classes[slot].solved == 0 else rates[slot].limit
    if more != 0:
        n_freed = free(state, aggregate, n_freed)
        if classes[slot].flows == 0:
            leave_aggregate(state, slot)
            _see(state, slot)
            _close(state, slot)
            return n_freed
        was_new = classes[slot].solved == 0
        classes[slot].solved = classes[slot].flows
        if was_new:
            join_aggregate(state, slot, aggregate)
        else:
            first = first_hop(now, slot)
            for hop in range(first, first + classes[slot].hops):
                weigh_share(state, hops[hop].place, hops[hop].use * more)
        _see(state, slot)
    if (
        not class_heap[slot].queued
        or class_heap[slot].key != state.moves[classes[slot].first].due - classes[slot].served
    ):
        if class_heap[slot].queued:
            unqueue_class(classes, class_heap, aggregate, slot)
        queue_class(classes, class_heap, state.moves, aggregate, slot)
        touch(state, aggregate)
    return n_freed


@inlined
def _weigh_touched(state: State) -> int:
    """Give the touched classes their new weights, and free them; return the length of `freed`."""
    now, links, members, hops = state.now, state.links, state.members, state.hops
    rates, classes, freed, seeds, bins = state.rates, state.classes, state.freed, state.seeds, state.bins
    # A plain 0 is a type of its own to Numba: what is called with it would be compiled twice.
    n_freed: Any = np.int64(0)
    for at in range(now[0].touched):
        slot = np.int64(state.touched[at])  # another type would compile twice what is called
        if slot < now[0].aggregates:
            continue
        is_new = classes[slot].solved == 0
        if now[0].aggregated > 0 and (rates[slot].free == AGGREGATED or (is_new and find_aggregate(state, slot) >= 0)):
            n_freed = _weigh_aggregated(state, slot, n_freed)
            continue
        if classes[slot].flows == classes[slot].solved:
            continue
        if bins.shape[1] > 0:
            accumulate(now, classes, hops, bins, slot, rates[slot].rate)
        classes[slot].solved = classes[slot].flows
        if is_new:
            enter_alone(state, slot)
        first = first_hop(now, slot)
        for hop in range(first, first + classes[slot].hops):
            seeds[now[0].seeds] = hops[hop].link
            now[0].seeds += 1
            if not is_new and classes[slot].flows > 0:
                at_link = links[hops[hop].link].first + hops[hop].place
                members[at_link].weight = hops[hop].use * classes[slot].flows
        if classes[slot].flows == 0:
            leave_alone(state, slot)
            _close(state, slot)
        else:
            classes[slot].before = rates[slot].rate
            rates[slot].free = FREE
            freed[n_freed] = slot
            n_freed += 1
    return n_freed  # type: ignore[no-any-return]


@inlined
def _solve(state: State) -> None:
    """Solve what the touched classes have changed, and say when the first flow of each unit ends now."""
    now, hops, rates, classes, touched = state.now, state.hops, state.rates, state.classes, state.touched
    freed, seeds, bins, time = state.freed, state.seeds, state.bins, state.now[0].time
    now[0].seeds = 0
    now[0].gathering = 0
    n_freed = _weigh_touched(state)
    n_rounds: Any = np.int64(0)
    first_seed: Any = np.int64(0)
    while first_seed < now[0].seeds or n_freed > 0:
        n_looked_at = now[0].seeds
        if now[0].laned:
            now[0].stamp += 1
            now[0].seeds = share_lanes(state, n_looked_at, now[0].stamp, n_rounds)
            if n_rounds > 0:
                first_seed = n_looked_at  # those before have other rates now, but fair ones
            if first_seed == now[0].seeds and n_freed == 0:
                break
        n_freed = solve(state, n_freed, first_seed)
        if now[0].aggregated > 0:
            for at in range(now[0].seeds):
                relax(state, seeds[at])
        n_changed = now[0].seeds - n_looked_at if now[0].laned else 0
        for at in range(n_changed):  # lanes whose parts are perhaps not there yet, and what wants something else now
            seeds[at] = seeds[n_looked_at + at]
        now[0].seeds = n_changed
        first_seed = 0
        for at in range(n_freed):
            slot = freed[at]
            rates[slot].free = SETTLED
            before = classes[slot].before
            if now[0].laned:
                _see(state, slot)
            if abs(rates[slot].rate - before) <= TIE * before:
                rates[slot].rate = before
                continue
            if slot >= now[0].aggregates and bins.shape[1] > 0:
                accumulate(now, classes, hops, bins, slot, before)
            settle(classes, slot, before, time)
            touch(state, slot)
        n_freed = 0
        n_rounds += 1
    for at in range(now[0].gathering):
        gather(state, np.int64(state.gathering[at]))
        share = state.aggregates[state.gathering[at]].near
        while share >= 0:
            following = state.shares[share].next
            relax(state, state.shares[share].link)
            share = following
    for at in range(now[0].touched):
        slot = touched[at]
        classes[slot].touched = False
        ending = np.inf
        if classes[slot].flows > 0 and rates[slot].free != AGGREGATED:
            first = classes[slot].first
            due = state.moves[first].due if slot >= now[0].aggregates else state.class_heap[first].key
            ending = classes[slot].since + max(0.0, due - classes[slot].served) / rates[slot].rate
        set_end(state, slot, ending)
    now[0].touched = 0


@kernel
def pass_time(state: State, time: float) -> None:
    """Go on to a time before which nothing happens."""
    now = state.now
    if state.bins.shape[1] > 0 and int(time / now[0].bin_s) != int(now[0].time / now[0].bin_s):
        draw_aggregates(state, time)
    now[0].time = time


@kernel
def schedule_roots(state: State, flows: NDArray[np.int64]) -> None:
    """Schedule flows that wait for no other; best in the order in which they begin."""
    for flow in flows:
        state.begin[flow] = max(state.now[0].time, state.earliest[flow]) + state.delay[flow]
        due = state.begin[flow] + state.routes[state.flow_route[flow]].latency
        schedule_begin(state, flow, due)


@kernel
def next_time(state: State) -> float:
    """Return the time of the next event, infinite when nothing moves and nothing is scheduled."""
    return _next_time(state)  # type: ignore[no-any-return]


@inlined
def _next_time(state: State) -> float:
    ending = next_end(state.now, state.ends, state.blocks, state.tops, state.roots, state.stale, state.is_stale)
    return min(ending, next_begin(state))  # type: ignore[no-any-return]


@kernel
def accumulate_all(state: State) -> None:
    """Bring the timeline up to now."""
    draw_aggregates(state, state.now[0].time)
    for route in range(len(state.routes)):
        slot = state.routes[route].slot
        if slot >= 0 and state.routes[route].hops > 0 and state.rates[slot].free != AGGREGATED:
            accumulate(state.now, state.classes, state.hops, state.bins, slot, state.rates[slot].rate)


@kernel
def advance(state: State, until: float, max_events: int, stop_at_end: bool) -> bool:
    """Play events in order until a time, at most so many instants; return whether events until then may be left.

    `stop_at_end` says whether to return after the first instant at which a flow ends.
    """
    now, moves, routes, rates, classes = state.now, state.moves, state.routes, state.rates, state.classes
    begin, size, connections = state.begin, state.size, state.connections
    for _ in range(max_events):
        time = _next_time(state)
        if time > until or time == np.inf:
            return False
        time = max(time, now[0].time)
        if now[0].aggregated > 0 and state.bins.shape[1] > 0:
            pass_time(state, time)
        now[0].time = time
        now[0].events += 1
        n_done = now[0].done
        tie = time + CLOCK_TIE * time

        n_ready = np.int64(0)
        for at in range(ends_until(state, tie)):
            slot = state.freed[at]
            if slot < now[0].aggregates:
                n_ready = _end_aggregate(state, slot, tie, n_ready)
                continue
            account = moves[classes[slot].first].due
            classes[slot].served = account
            classes[slot].since = time
            goal = account + rates[slot].rate * (tie - time)
            n_ready = _end_flows(state, slot, rates[slot].limit, goal, n_ready)
        while True:
            if n_ready > 0:
                n_ready -= 1
                flow = state.ready[n_ready]
                begin[flow] = max(time, state.earliest[flow]) + state.delay[flow]
                due = begin[flow] + routes[state.flow_route[flow]].latency
                if due > time:
                    schedule_begin(state, flow, due)
                    continue
            else:
                flow = take_begin(state, tie)
                if flow < 0:
                    flow = _take_turn(state)
                if flow < 0:
                    break
            number = state.connection[flow]
            if number >= 0 and connections[number].moving != flow:
                moves[flow].due = now[0].events
                moves[flow].left = -1
                moves[flow].right = -1
                connections[number].first = merge_heaps(moves, connections[number].first, flow)
                _list_turn(state, number)
                continue
            route = state.flow_route[flow]
            if size[flow] == 0.0 or routes[route].hops == 0:
                n_ready = _finish(state, flow, n_ready)
                continue
            slot = routes[route].slot
            if slot < 0:
                slot = open_class(state, route)
            served = 0.0
            if rates[slot].free == AGGREGATED:
                aggregate = rates[slot].limit
                settle(classes, aggregate, rates[aggregate].rate, time)
                served = classes[aggregate].served
            else:
                settle(classes, slot, rates[slot].rate, time)
            moves[flow].due = served + classes[slot].served + size[flow]
            moves[flow].left = -1
            moves[flow].right = -1
            classes[slot].first = merge_heaps(moves, classes[slot].first, flow)
            classes[slot].flows += 1
            touch(state, slot)

        _solve(state)
        if stop_at_end and now[0].done > n_done:
            return True
    return True
