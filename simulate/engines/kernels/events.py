"""Plays flows: what ends and begins at one instant is handled at once, then the rates are solved."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulate.engines.kernels.compile import kernel
from simulate.engines.kernels.event_queue import ends_until, next_begin, next_end, schedule, set_end, take_begin
from simulate.engines.kernels.flow_classes import accumulate, close_class, merge_heaps, open_class, settle
from simulate.engines.kernels.lanes import share_lanes
from simulate.engines.kernels.maxmin import FREE, SETTLED, TIE, solve
from simulate.engines.kernels.state import Records, State

CLOCK_TIE = 1e-13
"""Events this close together, relative to the time, are one instant: rounding of the clock, and a little more."""


@kernel
def _end_flows(state: State, slot: int, until: float, n_ready: int) -> int:
    """End the flows of a class that end at this instant; return how many flows are ready to begin."""
    now, moves, rates, classes = state.now, state.moves, state.rates, state.classes
    flow = classes[slot].first
    classes[slot].served = moves[flow].due
    classes[slot].since = now[0].time
    goal = moves[flow].due + rates[slot].rate * (until - now[0].time)
    while flow >= 0 and moves[flow].due <= goal:
        classes[slot].first = merge_heaps(moves, moves[flow].left, moves[flow].right)
        classes[slot].flows -= 1
        state.limit[flow] = rates[slot].limit // len(state.lane_weight)
        n_ready = _finish(now, state.waits, state.next_flow, state.end, state.ready, state.done, flow, n_ready)
        if state.connection[flow] >= 0:
            state.connections[state.connection[flow]].moving = -1
            _list_turn(now, state.connections, state.turns, state.connection[flow])
        flow = classes[slot].first
    return n_ready


@kernel
def _finish(
    now: Records,
    waits: Records,
    next_flow: NDArray[np.int32],
    end: NDArray[np.float64],
    ready: NDArray[np.int32],
    done: NDArray[np.int32],
    flow: int,
    n_ready: int,
) -> int:
    """Record the end of a flow, and make those ready that waited only for it; return how many are ready."""
    end[flow] = now[0].time
    done[now[0].done] = flow
    now[0].done += 1
    for at in range(waits[flow].first, waits[flow].first + waits[flow].count):
        follower = next_flow[at]
        waits[follower].waits -= 1
        if waits[follower].waits == 0:
            ready[n_ready] = follower
            n_ready += 1
    return n_ready


@kernel
def _list_turn(now: Records, connections: Records, turns: NDArray[np.int32], number: int) -> None:
    """Look at a connection when all that could move on it at this instant is known."""
    if not connections[number].listed:
        connections[number].listed = True
        turns[now[0].turns] = number
        now[0].turns += 1


@kernel
def _take_turn(now: Records, moves: Records, connections: Records, turns: NDArray[np.int32]) -> int:
    """Remove the next flow that may move on a listed connection; return it, or -1 when there is none."""
    while now[0].turns > 0:
        now[0].turns -= 1
        number = turns[now[0].turns]
        connections[number].listed = False
        flow = connections[number].first
        if connections[number].moving < 0 and flow >= 0:
            connections[number].first = merge_heaps(moves, moves[flow].left, moves[flow].right)
            connections[number].moving = flow
            return flow  # type: ignore[no-any-return]
    return -1


@kernel
def _solve(state: State, n_touched: int) -> None:
    """Solve what the touched classes have changed, and say when the first flow of each class ends now."""
    now, links, members, hops = state.now, state.links, state.members, state.hops
    rates, classes, moves, touched = state.rates, state.classes, state.moves, state.touched
    freed, seeds, heap, bins, lane_weight = state.freed, state.seeds, state.heap, state.bins, state.lane_weight
    time = now[0].time
    shift = now[0].shift
    # A plain 0 is a type of its own to Numba: what is called with it would be compiled twice.
    n_freed: Any = np.int64(0)
    n_seeds: Any = np.int64(0)
    for at in range(n_touched):
        slot = touched[at]
        if classes[slot].flows == classes[slot].solved:
            continue
        if bins.shape[1] > 0:
            accumulate(now, classes, hops, bins, slot, rates[slot].rate)
        weighs_else = classes[slot].flows > 1 or (classes[slot].flows == 1 and classes[slot].solved > 0)
        classes[slot].solved = classes[slot].flows
        for hop in range(slot << shift, (slot << shift) + classes[slot].hops):
            seeds[n_seeds] = hops[hop].link
            n_seeds += 1
            if weighs_else:
                at_link = links[hops[hop].link].first + hops[hop].place
                members[at_link].weight = hops[hop].use * classes[slot].flows
        if classes[slot].flows == 0:
            close_class(now, links, members, state.routes, classes, hops, state.spare, slot)
        else:
            classes[slot].before = rates[slot].rate
            classes[slot].alone = np.inf
            rates[slot].free = FREE
            freed[n_freed] = slot
            n_freed += 1
    if n_seeds > 0:
        now[0].solves += 1
    n_rounds = 0
    first_seed = 0
    n_changed = 0
    while first_seed < n_seeds:
        if len(lane_weight) > 1:
            now[0].stamp += 1
            n_looked_at = n_seeds
            n_seeds = share_lanes(
                links, members, rates, state.capacity, lane_weight, state.wants, seeds, n_seeds, now[0].stamp, n_rounds
            )
            n_changed = n_seeds - n_looked_at
            if n_rounds > 0:
                first_seed = n_looked_at  # those before have other rates now, but fair ones
            if first_seed == n_seeds:
                break
        now[0].stamp += 1
        n_freed = solve(
            links, members, rates, classes, hops, heap, freed, n_freed, seeds, first_seed, n_seeds, now[0].stamp, shift
        )
        for at in range(n_changed):  # perhaps not all of their way
            seeds[at] = seeds[n_seeds - n_changed + at]
        n_seeds = n_changed
        first_seed = 0
        for at in range(n_freed):
            slot = freed[at]
            rates[slot].free = SETTLED
            before = classes[slot].before
            if len(lane_weight) > 1:
                for hop in range(slot << shift, (slot << shift) + classes[slot].hops):
                    seeds[n_seeds] = hops[hop].link
                    n_seeds += 1
            if abs(rates[slot].rate - before) <= TIE * before:
                rates[slot].rate = before
                continue
            if bins.shape[1] > 0:
                accumulate(now, classes, hops, bins, slot, before)
            settle(classes, slot, before, time)
            if not classes[slot].touched:
                classes[slot].touched = True
                touched[n_touched] = slot
                n_touched += 1
        n_freed = 0
        n_rounds += 1
    for at in range(n_touched):
        slot = touched[at]
        classes[slot].touched = False
        ending = np.inf
        if classes[slot].flows > 0:
            left = max(0.0, moves[classes[slot].first].due - classes[slot].served)
            ending = classes[slot].since + left / rates[slot].rate
        set_end(now, state.ends, state.blocks, state.tops, state.stale, state.is_stale, slot, ending)


@kernel
def schedule_roots(state: State, flows: NDArray[np.int64]) -> None:
    """Schedule flows that wait for no other; best in the order in which they begin."""
    now, moves = state.now, state.moves
    for flow in flows:
        state.begin[flow] = max(now[0].time, state.earliest[flow]) + state.delay[flow]
        due = state.begin[flow] + state.routes[state.flow_route[flow]].latency
        schedule(now, moves, state.queue, state.timer, flow, due)


@kernel
def link_followers(
    state: State, places: NDArray[np.int64], dep_offset: NDArray[np.int64], dep: NDArray[np.int32], first: int
) -> None:
    """Write which flows wait for each flow, from `first` on in ``next_flow``; dependencies are as in `Flows`."""
    waits = state.waits
    for flow in range(len(places)):
        waits[places[flow]].waits = dep_offset[flow + 1] - dep_offset[flow]
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            waits[places[dep[edge]]].count += 1
    for flow in range(len(places)):
        first += waits[places[flow]].count
        waits[places[flow]].first = first  # behind the last, from which it comes down to the first
    for flow in range(len(places) - 1, -1, -1):
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            awaited = places[dep[edge]]
            waits[awaited].first -= 1
            state.next_flow[waits[awaited].first] = places[flow]


@kernel
def next_time(state: State) -> float:
    """Return the time of the next event, infinite when nothing moves and nothing is scheduled."""
    ending = next_end(state.now, state.ends, state.blocks, state.tops, state.stale, state.is_stale)
    return min(ending, next_begin(state.now, state.moves, state.queue, state.timer))  # type: ignore[no-any-return]


@kernel
def accumulate_all(state: State) -> None:
    """Bring the timeline up to now."""
    for route in range(len(state.routes)):
        slot = state.routes[route].slot
        if slot >= 0 and state.routes[route].hops > 0:
            accumulate(state.now, state.classes, state.hops, state.bins, slot, state.rates[slot].rate)


@kernel
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
    now, links, members = state.now, state.links, state.members
    rates, classes, hops, spare = state.rates, state.classes, state.hops, state.spare
    routes, route_link, route_use = state.routes, state.route_link, state.route_use
    flow_route, size, earliest, delay = state.flow_route, state.size, state.earliest, state.delay
    waits, next_flow = state.waits, state.next_flow
    begin, end, moves = state.begin, state.end, state.moves
    ends, blocks, tops, stale, is_stale = state.ends, state.blocks, state.tops, state.stale, state.is_stale
    queue, timer, touched, ready, done = state.queue, state.timer, state.touched, state.ready, state.done
    connection, connections, turns = state.connection, state.connections, state.turns
    n_lanes = len(state.lane_weight)
    for _ in range(max_events):
        time = min(next_end(now, ends, blocks, tops, stale, is_stale), next_begin(now, moves, queue, timer))
        if time > until or time == np.inf:
            return False
        time = max(time, now[0].time)
        now[0].time = time
        now[0].events += 1
        n_done = now[0].done
        tie = time + max(now[0].tie, CLOCK_TIE * time)

        n_ready = np.int64(0)
        n_touched = ends_until(ends, blocks, tops, touched, tie)
        for at in range(n_touched):
            slot = touched[at]
            classes[slot].touched = True
            n_ready = _end_flows(state, slot, tie, n_ready)
        while True:
            if n_ready > 0:
                n_ready -= 1
                flow = ready[n_ready]
                begin[flow] = max(time, earliest[flow]) + delay[flow]
                due = begin[flow] + routes[flow_route[flow]].latency
                if due > time:
                    schedule(now, moves, queue, timer, flow, due)
                    continue
            else:
                flow = take_begin(now, moves, queue, timer, tie)
                if flow < 0:
                    flow = _take_turn(now, moves, connections, turns)
                if flow < 0:
                    break
            number = connection[flow]
            if number >= 0 and connections[number].moving != flow:
                moves[flow].due = now[0].events
                moves[flow].left = -1
                moves[flow].right = -1
                connections[number].first = merge_heaps(moves, connections[number].first, flow)
                _list_turn(now, connections, turns, number)
                continue
            route = flow_route[flow]
            if size[flow] == 0.0 or routes[route].hops == 0:
                n_ready = _finish(now, waits, next_flow, end, ready, done, flow, n_ready)
                if number >= 0:
                    connections[number].moving = -1
                    _list_turn(now, connections, turns, number)
                continue
            slot = routes[route].slot
            if slot < 0:
                slot = open_class(
                    now, links, members, routes, route_link, route_use, rates, classes, hops, spare, n_lanes, route
                )
            settle(classes, slot, rates[slot].rate, time)
            moves[flow].due = classes[slot].served + size[flow]
            moves[flow].left = -1
            moves[flow].right = -1
            classes[slot].first = merge_heaps(moves, classes[slot].first, flow)
            classes[slot].flows += 1
            if not classes[slot].touched:
                classes[slot].touched = True
                touched[n_touched] = slot
                n_touched += 1

        _solve(state, n_touched)
        if stop_at_end and now[0].done > n_done:
            return True
    return True
