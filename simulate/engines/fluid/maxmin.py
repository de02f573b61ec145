"""Max-min fair rates, solved again only where an event has changed them.

Rates are max-min fair when each class has a bottleneck: a full resource on which no class is faster (Bertsekas and
Gallager, Data Networks, 6.5.2). Here each unit, a class or an aggregate (`simulate.engines.fluid.aggregates`), names
its bottleneck, and most keep theirs when flows begin or end. Of a link the units that name it are its *own*; its
*level* is their rate, of what the others leave:

    level = (capacity - sum over others of weight * rate) / (sum over own units of weight)

One of the others that is faster than the level becomes an own unit. Three flows, of which the first crosses both links:

    x1 + x2 <= 10    level 10 / 2 = 5: x1 = x2 = 5
    x1 + x3 <= 25    level (25 - 5) / 1 = 20: x3 = 20

A new level changes the load of all other links on the way of the own units. Such a link is looked at next when it has
own units too, or is full now. When none is left to look at, each link is full of units that it holds back or has room
to spare, so the rates are fair, and there are no others that are. Unsaturated links are skipped until an aggregate
comes to its *rate cap*, its least reserve rate.

This ends, in whatever order links are looked at (Charny, Clark and Jain, "Congestion control with explicit rate
indication", 1995): no level is below the least of capacity / weight over all links, so the link that has it gets it for
good when it is looked at, and then the same holds of the other links with what is left of them. The lowest level comes
first, since a link bears on those of higher level alone; so few are looked at twice.
"""

from __future__ import annotations

import numpy as np

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.fluid.aggregates import (
    SETTLED,
    enter_alone,
    join_aggregate,
    leave_aggregate,
    raise_rate_cap,
)
from simulate.engines.fluid.flow_classes import first_hop, settle
from simulate.engines.fluid.state import QUEUED, WEIGHED, State

FREE = 1
"""`free` of a unit whose rate may change at this instant."""

TIE = 1e-12
"""Relative difference below which two levels are one. It grows with the links looked at, so that rounding cannot keep
levels in motion."""

NEAR_FULL = 1e-9
"""Share of the capacity that a link must have left not to be looked at: its load is a sum of changes, and rounded."""


@inlined
def _push(heap: Records, size: int, key: float, link: int) -> int:
    """Add an entry to a binary heap; return its new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent].key <= key:
            break
        heap[at].key = heap[parent].key
        heap[at].link = heap[parent].link
        at = parent
    heap[at].key = key
    heap[at].link = link
    return size + 1


@inlined
def _pop(heap: Records, size: int) -> int:
    """Remove the first entry of a binary heap; return its new size."""
    size -= 1
    key, link = heap[size].key, heap[size].link
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1].key < heap[child].key:
            child += 1
        if heap[child].key >= key:
            break
        heap[at].key = heap[child].key
        heap[at].link = heap[child].link
        at = child
    heap[at].key = key
    heap[at].link = link
    return size


@inlined
def _weigh(state: State, link: int) -> None:
    """Add up the load of a link, and find its level; without own units that of its fastest, and a little more.

    So of two links that fill together, the one that was the bottleneck stays it.
    """
    links, members, rates = state.links, state.members, state.rates
    load = 0.0
    own = -1.0
    most = 0.0
    first = links[link].first
    for at in range(first, first + links[link].count):
        slot = members[at].slot
        rate = rates[slot].rate
        load += members[at].weight * rate
        most = max(most, rate)
        if rates[slot].limit == link:
            own = rate
    links[link].load = load
    links[link].limits = own >= 0.0
    links[link].stamp = WEIGHED
    state.levels[link] = own if own >= 0.0 else most * (1.0 + NEAR_FULL)


@inlined
def _queue(state: State, n_heap: int, link: int) -> int:
    """Put a weighed link into the heap if it may be a bottleneck now; return the new size."""
    links = state.links
    if links[link].stamp == QUEUED:
        return n_heap
    if not links[link].limits:
        if links[link].load <= links[link].capacity * (1.0 - NEAR_FULL):
            return n_heap
        _weigh(state, link)
    links[link].stamp = QUEUED
    return _push(state.heap, n_heap, state.levels[link], link)  # type: ignore[no-any-return]


@inlined
def _shift(state: State, n_heap: int, link: int, more: float) -> int:
    """Add to the load of a link what a unit takes now that it has another rate; return as `_queue`."""
    if state.links[link].stamp == 0:
        _weigh(state, link)
    else:
        state.links[link].load += more
    return _queue(state, n_heap, link)  # type: ignore[no-any-return]


@inlined
def free(state: State, slot: int, n_freed: int) -> int:
    """Keep the rate that a unit had, before it first changes; return the length of ``freed``."""
    if state.rates[slot].free != SETTLED:
        return n_freed
    classes, rate = state.classes, state.rates[slot].rate
    settle(classes, slot, rate, state.now[0].time)
    classes[slot].before = rate
    state.rates[slot].free = FREE
    state.freed[n_freed] = slot
    return n_freed + 1


@inlined
def _place(state: State, n_heap: int, slot: int) -> int:
    """Give a new class what the first link to stop it has, as rates are now; return the new size of the heap."""
    links, rates, hops, solved = state.links, state.rates, state.hops, state.classes[slot].solved
    first = first_hop(state.now, slot)
    last = first + state.classes[slot].hops
    least, limit = np.inf, np.int64(-1)
    for hop in range(first, last):
        link = hops[hop].link
        rate = state.levels[link]
        if not links[link].limits:
            rate = max(0.0, links[link].capacity - links[link].load) / (hops[hop].use * solved)
        if rate < least:
            least, limit = rate, np.int64(link)
    rates[slot].rate = least
    rates[slot].limit = limit
    links[limit].limits = True
    state.levels[limit] = least
    for hop in range(first, last):
        link = hops[hop].link
        links[link].load += hops[hop].use * solved * least
        if links[link].count > 1:
            n_heap = _queue(state, n_heap, link)
    return n_heap


@inner
def _change(state: State, n_heap: int, link: int, slot: int, level: float) -> int:
    """Give an own unit of a link its new rate; return the new size of the heap."""
    rates, hops, shares, aggregates = state.rates, state.hops, state.shares, state.aggregates
    more = level - rates[slot].rate
    rates[slot].rate = level
    if slot < len(aggregates):
        while aggregates[slot].rate_cap <= level:
            raise_rate_cap(state, slot)
        share = aggregates[slot].near
        while share >= 0:
            other = shares[share].link
            if other != link:
                weight = state.members[state.links[other].first + shares[share].place].weight
                n_heap = _shift(state, n_heap, other, weight * more)
            share = shares[share].next
        return n_heap
    first = first_hop(state.now, slot)
    more *= state.classes[slot].solved
    for hop in range(first, first + state.classes[slot].hops):
        if hops[hop].link != link:
            n_heap = _shift(state, n_heap, hops[hop].link, hops[hop].use * more)
    return n_heap


@inner
def _take_over(state: State, n_heap: int, link: int, share: int, n_freed: int) -> tuple[int, int]:
    """Make a link the bottleneck of those classes of an aggregate that cross it; return the sizes of heap and freed."""
    now, rates, classes, hops, shares = state.now, state.rates, state.classes, state.hops, state.shares
    aggregate = shares[share].aggregate
    rate = rates[aggregate].rate
    n_freed = free(state, aggregate, n_freed)
    if classes[link].flows > 0:
        n_freed = free(state, link, n_freed)
    left = shares[share].count
    while left > 0:
        slot = (shares[share].first >> now[0].shift) + now[0].aggregates
        leave_aggregate(state, slot)
        more = 0.0
        if classes[link].flows > 0:
            join_aggregate(state, slot, link)
            more = (rates[link].rate - rate) * classes[slot].solved
        else:
            enter_alone(state, slot)
            classes[slot].before = classes[aggregate].before
            rates[slot].free = FREE
            rates[slot].rate = rate
            rates[slot].limit = link
            state.freed[n_freed] = slot
            n_freed += 1
        first = first_hop(now, slot)
        for hop in range(first, first + classes[slot].hops):
            other = hops[hop].link
            if other == link:
                left -= 1
            elif not state.links[other].unsaturated:
                n_heap = _shift(state, n_heap, other, hops[hop].use * more)
    return n_heap, n_freed


@inlined
def _note_gathering(state: State, link: int, n_alone: int) -> None:
    """Note that the classes alone that a link holds back are to be an aggregate, or to join that of the link."""
    now, n_aggregates = state.now, len(state.aggregates)
    is_aggregate = n_alone >= now[0].aggregate_from or (
        n_alone > 0 and now[0].aggregated > 0 and state.classes[link].flows > 0
    )
    if n_aggregates > 0 and is_aggregate and now[0].gathering < n_aggregates:
        state.gathering[now[0].gathering] = link
        now[0].gathering += 1


@inlined
def _look(state: State, n_heap: int, link: int, key: float, n_freed: int, tie: float) -> tuple[int, int]:
    """Compute the level of a link, and give it to its own units; return as `_take_over`."""
    now, links, members, rates = state.now, state.links, state.members, state.rates
    capacity = links[link].capacity
    while True:
        left = capacity
        own = 0.0
        most = -1.0
        fastest, place = np.int64(-1), np.int64(-1)
        n_alone = 0
        first = links[link].first
        last = first + links[link].count
        for at in range(first, last):
            slot = members[at].slot
            rate = rates[slot].rate
            if rates[slot].limit == link:
                own += members[at].weight
                n_alone += slot >= now[0].aggregates
            else:
                left -= members[at].weight * rate
                if rate > most:
                    most = rate
                    fastest, place = np.int64(slot), np.int64(at)
        if own == 0.0 and left >= -tie * capacity:
            links[link].load = capacity - left
            links[link].limits = False
            links[link].stamp = WEIGHED
            return n_heap, n_freed
        level = left / own if own > 0.0 else -1.0
        if most <= level * (1.0 + tie):
            break
        if fastest < now[0].aggregates:
            n_heap, n_freed = _take_over(state, n_heap, link, members[place].hop, n_freed)
        else:
            n_freed = free(state, fastest, n_freed)
            rates[fastest].limit = link
    if n_heap > 0 and level > key and level > state.heap[0].key:  # links of lower level come first
        return _push(state.heap, n_heap, level, link), n_freed
    links[link].load = capacity
    links[link].limits = True
    links[link].stamp = WEIGHED
    state.levels[link] = level
    for at in range(first, last):
        slot = members[at].slot
        if rates[slot].limit == link and abs(level - rates[slot].rate) > tie * rates[slot].rate:
            n_freed = free(state, slot, n_freed)
            n_heap = _change(state, n_heap, link, slot, level)
    _note_gathering(state, link, n_alone)
    return n_heap, n_freed


@inlined
def solve(state: State, n_freed: int, first_seed: int) -> int:
    """Make the rates max-min fair again; return the length of ``freed`` then.

    Its first `n_freed` are units that are new or have another number of flows, already marked `FREE`; units whose rate
    may be another are added, left marked, with their old rate in ``before``. ``seeds`` has, from `first_seed` on, the
    resources that the first, and the classes that have gone, cross, and those whose capacity has changed; those that
    are unsaturated no longer are added.
    """
    heap, freed, seeds, n_links = state.heap, state.freed, state.seeds, len(state.links)
    n_heap = np.int64(0)
    for at in range(first_seed, state.now[0].seeds):
        if state.links[seeds[at]].stamp != QUEUED:
            _weigh(state, seeds[at])
            n_heap = _queue(state, n_heap, seeds[at])
    for at in range(n_freed):
        if state.rates[freed[at]].limit < 0:
            n_heap = _place(state, n_heap, freed[at])
    n_looks = 0
    while n_heap > 0:
        key, link = heap[0].key, heap[0].link
        n_heap = _pop(heap, n_heap)
        n_looks += 1
        n_heap, n_freed = _look(state, n_heap, link, key, n_freed, TIE * (1.0 + n_looks // n_links))
    return n_freed
