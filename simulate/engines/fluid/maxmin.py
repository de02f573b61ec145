"""Max-min fair rates, solved again only where an event has changed them.

Rates are max-min fair when each class has a bottleneck: a full resource on which no class is faster (Bertsekas and
Gallager, Data Networks, 6.5.2). Water-filling finds them. The *level* of a resource is what it has left, divided by the
classes on it that have no rate yet. The resource with the lowest level fills first and gives that level to these
classes; then the levels of the others are computed again. Three flows, of which the first crosses both resources:

    x1 + x2 <= 10    level 10 / 2 = 5: fills first, x1 = x2 = 5
    x1 + x3 <= 25    level 25 / 2 = 12.5, then (25 - 5) / 1 = 20: x3 = 20

After an event only some classes need a new rate. They are *free*; all others are *settled*, and their load is fixed.
Water-filling runs over the free ones alone, and a settled class becomes free when, at the level now reached,

* it is faster than a resource on its route that fills, or that lanes have made smaller: it must slow down; or
* the resource that it names as its bottleneck would not be full at its rate: it can speed up.

Levels are visited in ascending order, so both are found before any class is frozen at a higher level: no class is
solved twice, and the rates are those of solving all. Equal levels are compared with a tolerance: a tie decided either
way is still fair.

A unit is a class or an aggregate (`simulate.engines.fluid.aggregates`). When another link saturates, the classes
crossing it move to that link's aggregate. On a tie the aggregate's own link wins, so that classes do not oscillate.
Unsaturated links are skipped until the level reaches the *rate cap* of a free aggregate, its least reserve rate.
"""

from __future__ import annotations

import numpy as np

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.fluid.aggregates import enter_alone, join_aggregate, leave_aggregate, raise_rate_cap
from simulate.engines.fluid.flow_classes import first_hop, settle
from simulate.engines.fluid.state import State

SETTLED, FREE, FROZEN = 0, 1, 2

TIE = 1e-12
"""Relative difference below which two levels are one."""


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
def _weigh(links: Records, members: Records, rates: Records, link: int) -> tuple[float, float, float]:
    """Weigh what crosses a resource.

    Returns
    -------
    tuple
        Its level: the rate that what it has left gives to each free class, infinite when there is none. The least rate
        of settled classes that name it as their bottleneck, infinite when none does. What it has left.
    """
    capacity = links[link].capacity
    left = capacity
    free = 0.0
    own = np.inf
    first = links[link].first
    for at in range(first, first + links[link].count):
        slot = members[at].slot
        if rates[slot].free == FREE:
            free += members[at].weight
        else:
            rate = rates[slot].rate
            left -= members[at].weight * rate
            if rates[slot].limit == link and rates[slot].free == SETTLED:
                own = min(own, rate)
    if left < -TIE * capacity:  # it has become smaller, and classes faster than its mean rate must give way
        total = 0.0
        for at in range(first, first + links[link].count):
            total += members[at].weight
        return capacity / total, own, left
    return max(0.0, left) / free if free > 0.0 else np.inf, own, left


@inlined
def _look(state: State, n_heap: int, link: int) -> int:
    """Look at a resource for the first time in a solve; return the new size of the heap."""
    links, members, rates, classes = state.links, state.members, state.rates, state.classes
    if links[link].count == 0:
        links[link].watched = False
        return n_heap
    first = links[link].first
    slot = members[first].slot
    if links[link].count == 1 and rates[slot].free == FREE and slot >= len(state.aggregates):
        # Of the resources that a free class has for itself only the least can be its bottleneck.
        links[link].watched = False
        key = links[link].capacity / members[first].weight
        if key < classes[slot].alone:
            classes[slot].alone = key
        else:
            key = np.inf
    else:
        level, own, left = _weigh(links, members, rates, link)
        links[link].watched = own < np.inf or left < -TIE * links[link].capacity
        key = min(level, own)
    links[link].key = key
    if key < np.inf:
        n_heap = _push(state.heap, n_heap, key, link)
    return n_heap


@inlined
def _come_to(state: State, n_heap: int, stamp: int, rate: float, link: int) -> tuple[int, int]:
    """Look at a resource on the way of a unit that has become free.

    The level of one already looked at becomes a mean of what it was and the rate of the unit, so the lesser of the two
    is low enough as its key.

    Returns
    -------
    tuple
        New size of the heap; 1 when the resource is looked at for the first time and watched.
    """
    links = state.links
    if links[link].stamp != stamp:
        links[link].stamp = stamp
        n_heap = _look(state, n_heap, link)
        return n_heap, links[link].watched
    if rate < links[link].key:
        links[link].key = rate
        n_heap = _push(state.heap, n_heap, rate, link)
    return n_heap, 0


@inlined
def _release_class(state: State, n_heap: int, stamp: int, slot: int) -> tuple[int, int]:
    """Look at every resource on the way of a class that is now free; return as `_come_to`."""
    n_watched = 0
    first, rate = first_hop(state.now, slot), state.rates[slot].rate
    for hop in range(first, first + state.classes[slot].hops):
        n_heap, n_new = _come_to(state, n_heap, stamp, rate, state.hops[hop].link)
        n_watched += n_new
    return n_heap, n_watched


@inner
def _release_aggregate(state: State, n_heap: int, stamp: int, aggregate: int) -> tuple[int, int]:
    """Look at every near resource of an aggregate that is now free, and put down its rate cap; return as `_come_to`."""
    rate = state.rates[aggregate].rate
    settle(state.classes, aggregate, rate, state.now[0].time)
    n_watched = 0
    link, share = aggregate, state.aggregates[aggregate].near  # its own link first
    while True:
        n_heap, n_new = _come_to(state, n_heap, stamp, rate, link)
        n_watched += n_new
        if share >= 0 and state.shares[share].link == aggregate:
            share = state.shares[share].next
        if share < 0:
            break
        link, share = state.shares[share].link, state.shares[share].next
    if state.aggregates[aggregate].rate_cap < np.inf:
        n_heap = _push(state.heap, n_heap, state.aggregates[aggregate].rate_cap, -1 - aggregate)
    return n_heap, n_watched


@inner
def _tied(state: State, link: int, level: float) -> int:
    """Return a free aggregate on a link whose own link fills at the same level, -1 for none."""
    links, members, rates = state.links, state.members, state.rates
    for at in range(links[link].first, links[link].first + links[link].count):
        slot = members[at].slot
        if slot >= len(state.aggregates) or slot == link or rates[slot].free != FREE:
            continue
        if _weigh(links, members, rates, slot)[0] <= level * (1.0 + TIE):
            return slot  # type: ignore[no-any-return]
    return -1


@inner
def _take_over(state: State, link: int, level: float, share: int, n_freed: int) -> tuple[int, int]:
    """Give the classes of a free aggregate that cross another link its level; they leave the aggregate.

    Returns
    -------
    tuple
        Length of `freed` now; how many units were frozen.
    """
    now, rates, classes, hops, shares = state.now, state.rates, state.classes, state.hops, state.shares
    aggregate, time = shares[share].aggregate, now[0].time
    settle(classes, aggregate, rates[aggregate].rate, time)
    n_frozen = 0
    left = shares[share].count
    while left > 0:
        slot = (shares[share].first >> now[0].shift) + now[0].aggregates
        first = first_hop(now, slot)
        for hop in range(first, first + classes[slot].hops):
            left -= hops[hop].link == link
        leave_aggregate(state, slot)
        if classes[link].flows > 0:
            settle(classes, link, classes[link].before if rates[link].free == FROZEN else rates[link].rate, time)
            join_aggregate(state, slot, link)
            if now[0].laned:  # what its lane wants of the link that held it back is now known
                for hop in range(first, first + classes[slot].hops):
                    state.seeds[now[0].seeds] = hops[hop].link
                    now[0].seeds += 1
            continue
        classes[slot].before = rates[aggregate].rate
        enter_alone(state, slot)
        rates[slot].free = FROZEN
        rates[slot].rate = level
        rates[slot].limit = link
        state.freed[n_freed] = slot
        n_freed += 1
        n_frozen += 1
    if classes[aggregate].flows == 0:
        rates[aggregate].free = FROZEN
        n_frozen += 1
    return n_freed, n_frozen


@inlined
def _freeze(state: State, link: int, level: float, n_freed: int) -> tuple[int, int]:
    """Give every free class on a resource its rate, and every aggregate; return as `_take_over`."""
    now, links, members, rates = state.now, state.links, state.members, state.rates
    n_aggregates = now[0].aggregates
    n_frozen = 0
    n_alone = 0
    at = 0
    while at < links[link].count:
        here = links[link].first + at
        slot = members[here].slot
        if rates[slot].free == FREE:
            if slot < n_aggregates and slot != link:
                n_freed, n_new = _take_over(state, link, level, members[here].hop, n_freed)
                n_frozen += n_new
                n_alone += n_new
                continue  # its share has gone, and another member is here
            rates[slot].free = FROZEN
            rates[slot].rate = level
            rates[slot].limit = link
            n_frozen += 1
            n_alone += slot != link  # the aggregate of the link has gathered its classes
        at += 1
    is_aggregate = n_alone >= now[0].aggregate_from or (
        n_alone > 0 and now[0].aggregated > 0 and state.classes[link].flows > 0
    )
    if n_aggregates > 0 and is_aggregate and now[0].gathering < n_aggregates:
        state.gathering[now[0].gathering] = link
        now[0].gathering += 1
    return n_freed, n_frozen


@inlined
def solve(state: State, n_freed: int, first_seed: int, stamp: int) -> int:
    """Make the rates max-min fair again.

    Parameters
    ----------
    n_freed
        The first so many of ``freed`` are units that are new or have another number of flows, already marked `FREE`;
        more are added. ``seeds`` has, from `first_seed` on, the resources that these, and the classes that have gone,
        cross, and those whose capacity has changed; those that are unsaturated no longer are added.
    stamp
        A number that no solve before has had.

    Returns
    -------
    int
        Length of ``freed`` now: the units that were solved, left marked, with their old rate in ``before``.
    """
    now, links, members, rates, classes = state.now, state.links, state.members, state.rates, state.classes
    heap, freed, seeds, n_aggregates = state.heap, state.freed, state.seeds, len(state.aggregates)
    n_heap = np.int64(0)
    n_watched = np.int64(0)
    n_frozen = np.int64(0)
    for at in range(n_freed):
        if freed[at] < n_aggregates:
            if classes[freed[at]].flows == 0:
                rates[freed[at]].free = FROZEN
                n_frozen += 1
            else:
                n_heap, n_new = _release_aggregate(state, n_heap, stamp, freed[at])
                n_watched += n_new
    at_seed = np.int64(first_seed)
    while True:
        while at_seed < now[0].seeds:
            link = seeds[at_seed]
            at_seed += 1
            if links[link].stamp != stamp:
                links[link].stamp = stamp
                n_heap = _look(state, n_heap, link)
                n_watched += links[link].watched
        if n_heap == 0 or (n_frozen >= n_freed and n_watched == 0):
            return n_freed
        key, link = heap[0].key, heap[0].link
        n_heap = _pop(heap, n_heap)
        if link < 0:
            aggregate = -1 - link
            if rates[aggregate].free == FREE and key == state.aggregates[aggregate].rate_cap:
                raise_rate_cap(state, aggregate)
                if state.aggregates[aggregate].rate_cap < np.inf:
                    n_heap = _push(heap, n_heap, state.aggregates[aggregate].rate_cap, link)
            continue
        if key != links[link].key:
            continue  # a lower entry has replaced this one
        level, own, left = _weigh(links, members, rates, link)
        if links[link].watched and own == np.inf and left >= -TIE * links[link].capacity:
            links[link].watched = False
            n_watched -= 1
        key_now = min(level, own)
        links[link].key = key_now
        if key_now == np.inf:
            continue
        if n_heap > 0 and key_now > key and key_now > heap[0].key * (1.0 + TIE * (key < 0.0)):
            n_heap = _push(heap, n_heap, key_now, link)  # it has risen since it was pushed
            continue
        n_before = n_freed
        fills = level <= own * (1.0 + TIE)
        links[link].key = 0.0 if fills else np.inf
        if fills or level < np.inf or left > links[link].capacity * TIE:
            for at in range(links[link].first, links[link].first + links[link].count):
                slot = members[at].slot
                if rates[slot].free != SETTLED:
                    continue
                # A faster class must give way to a resource that fills; one that a resource held back can rise.
                if (rates[slot].rate > level * (1.0 + TIE)) if fills else (rates[slot].limit == link):
                    freed[n_freed] = slot
                    n_freed += 1
                    classes[slot].before = rates[slot].rate
                    classes[slot].alone = np.inf
                    rates[slot].free = FREE
                    if slot < n_aggregates:
                        n_heap, n_new = _release_aggregate(state, n_heap, stamp, slot)
                    else:
                        n_heap, n_new = _release_class(state, n_heap, stamp, slot)
                    n_watched += n_new
        if n_freed > n_before:
            if fills:  # it fills later, at a level between this one and the rates of those that give way
                links[link].key = level
                n_heap = _push(heap, n_heap, level, link)
            continue
        if fills:
            tied = _tied(state, link, level) if now[0].aggregated > 0 and key >= 0.0 else np.int64(-1)
            if tied >= 0:
                links[link].key = level
                n_heap = _push(heap, n_heap, level, link)
                links[tied].key = -1.0
                n_heap = _push(heap, n_heap, -1.0, tied)
                continue
            n_freed, n_new = _freeze(state, link, level, n_freed)
            n_frozen += n_new
        links[link].key = np.inf
        if links[link].watched:
            links[link].watched = False
            n_watched -= 1
