"""Classes of flows on one route: opened with the first flow, closed with the last, each with a heap of its flows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.fluid.state import State


@inner
def _enlarge(state: State, link: int) -> None:
    """Move the members of a resource to a room of twice the size."""
    now, links = state.now, state.links
    first, room = links[link].first, links[link].room
    links[link].first = now[0].members
    links[link].room = 2 * room
    now[0].members += 2 * room
    for place in range(room):
        state.members[links[link].first + place] = state.members[first + place]


@inlined
def first_hop(now: Records, slot: int) -> int:
    """Return the first hop of a class; the numbers before those of classes are for aggregates."""
    return (slot - now[0].aggregates) << now[0].shift  # type: ignore[no-any-return]


@inlined
def touch(state: State, slot: int) -> None:
    """Note that a unit wins or loses flows, or changes its rate, at this instant."""
    if not state.classes[slot].touched:
        state.classes[slot].touched = True
        state.touched[state.now[0].touched] = slot
        state.now[0].touched += 1


@inlined
def add_member(state: State, link: int, weight: float, slot: int, hop: int) -> int:
    """Add a unit to those that cross a resource; return its place there."""
    links, members = state.links, state.members
    if links[link].count == links[link].room:
        _enlarge(state, link)
    at = links[link].first + links[link].count
    members[at].weight = weight
    members[at].slot = slot
    members[at].hop = hop
    links[link].count += 1
    return links[link].count - 1  # type: ignore[no-any-return]


@inlined
def remove_member(state: State, link: int, place: int) -> None:
    """Remove a unit from those that cross a resource; the last takes its place."""
    links, members = state.links, state.members
    links[link].count -= 1
    last = links[link].first + links[link].count
    at = links[link].first + place
    if at != last:
        members[at] = members[last]
        if members[at].slot >= len(state.aggregates):
            state.hops[members[at].hop].place = place
        else:
            state.shares[members[at].hop].place = place


@inlined
def open_class(state: State, route: int) -> int:
    """Take a slot for a route on which the first flow begins to move; return it."""
    now, links, routes = state.now, state.links, state.routes
    rates, classes, hops = state.rates, state.classes, state.hops
    now[0].spare -= 1
    slot = state.spare[now[0].spare]
    routes[route].slot = slot
    rates[slot].rate = 0.0
    rates[slot].limit = -1
    rates[slot].free = 0
    classes[slot].flows = 0
    classes[slot].solved = 0
    classes[slot].served = 0.0
    classes[slot].since = now[0].time
    classes[slot].drawn = now[0].time
    classes[slot].route = route
    classes[slot].first = -1
    classes[slot].hops = routes[route].hops
    first = routes[route].first
    hop = first_hop(now, slot)
    for place in range(classes[slot].hops):
        link = state.route_link[first + place] * len(state.lane_weight)
        if links[link].laned:
            link += routes[route].lane
        hops[hop + place].link = link
        hops[hop + place].use = state.route_use[first + place] if len(state.route_use) > 0 else 1.0
    return slot  # type: ignore[no-any-return]


@inlined
def settle(classes: Records, slot: int, rate: float, time: float) -> None:
    """Bring the account of a class up to a time until which its flows moved at a rate."""
    if classes[slot].since != time:
        classes[slot].served += rate * (time - classes[slot].since)
        classes[slot].since = time


@inner
def merge_heaps(moves: Records, a: int, b: int) -> int:
    """Join two skew heaps of flows by due and place; return the root (Sleator and Tarjan, 1986)."""
    if a < 0 or b < 0:
        return max(a, b)
    if moves[b].due < moves[a].due or (moves[b].due == moves[a].due and b < a):
        a, b = b, a
    root = a
    while True:
        c = moves[a].right
        moves[a].right = moves[a].left
        if c < 0:
            moves[a].left = b
            return root
        if moves[b].due < moves[c].due or (moves[b].due == moves[c].due and b < c):
            b, c = c, b
        moves[a].left = c
        a = c


@inner
def widen_bins(now: Records, bins: NDArray[np.float64], time: float) -> None:
    """Join neighbouring bins of the timeline until they reach a time."""
    n_bins = bins.shape[1]
    while time > now[0].bin_s * n_bins:
        for link in range(bins.shape[0]):
            for at in range(n_bins // 2):
                bins[link, at] = bins[link, 2 * at] + bins[link, 2 * at + 1]
            for at in range(n_bins // 2, n_bins):
                bins[link, at] = 0.0
        now[0].bin_s *= 2.0


@inner
def accumulate(
    now: Records, classes: Records, hops: Records, bins: NDArray[np.float64], slot: int, rate: float
) -> None:
    """Add what a class has moved since it was last added to the timeline."""
    time = now[0].time
    since = classes[slot].drawn
    classes[slot].drawn = time
    load = rate * classes[slot].solved
    if load == 0.0 or since >= time:
        return
    widen_bins(now, bins, time)
    width = now[0].bin_s
    first = first_hop(now, slot)
    for at in range(int(since / width), min(int(time / width), bins.shape[1] - 1) + 1):
        part = min(time, (at + 1) * width) - max(since, at * width)
        if part > 0.0:
            for hop in range(first, first + classes[slot].hops):
                bins[hops[hop].link, at] += load * hops[hop].use * part
