"""Max-min fair rates, solved again only where an event has touched them.

Rates are max-min fair when each class has a bottleneck: a full resource on which no class is faster (Bertsekas and
Gallager, Data Networks, 6.5.2). Water-filling finds them: resources fill in the order of their *level*, the rate that
what they have left gives to each class without a rate; a resource that fills gives its level to those classes.

After an event only some classes need a new rate. They are *free*; all others are *settled*, and what they take is
fixed. Water-filling runs over the free ones alone, and a settled class becomes free when, at the level now reached,

* it is faster than a resource on its route that fills, or that lanes have made smaller: it must give way; or
* the resource that it names as its bottleneck would not be full at its rate: it can rise.

Both are seen in ascending order of levels, before any class is frozen above them, so no class is solved twice and the
result is that of solving all. Equal levels are compared with a tolerance: a tie decided either way is still fair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.engines.kernels.compile import inlined, kernel
from simulate.engines.kernels.state import Records

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
def _look(
    links: Records, members: Records, rates: Records, classes: Records, heap: Records, n_heap: int, link: int
) -> int:
    """Look at a resource for the first time in a solve; return the new size of the heap."""
    if links[link].count == 0:
        links[link].watched = False
        return n_heap
    first = links[link].first
    slot = members[first].slot
    if links[link].count == 1 and rates[slot].free == FREE:
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
        n_heap = _push(heap, n_heap, key, link)
    return n_heap


@inlined
def _release(
    links: Records,
    members: Records,
    rates: Records,
    classes: Records,
    hops: Records,
    heap: Records,
    n_heap: int,
    stamp: int,
    first_hop: int,
    slot: int,
) -> tuple[int, int]:
    """Make a settled class free, and look at every resource on its route.

    The level of one already looked at becomes a mean of what it was and the rate of the class, so the lesser of the two
    is low enough as its key.

    Returns
    -------
    tuple
        New size of the heap; resources looked at for the first time that are watched.
    """
    rate = rates[slot].rate
    classes[slot].before = rate
    classes[slot].alone = np.inf
    rates[slot].free = FREE
    n_watched = 0
    for hop in range(first_hop, first_hop + classes[slot].hops):
        link = hops[hop].link
        if links[link].stamp != stamp:
            links[link].stamp = stamp
            n_heap = _look(links, members, rates, classes, heap, n_heap, link)
            n_watched += links[link].watched
            continue
        if rate < links[link].key:
            links[link].key = rate
            n_heap = _push(heap, n_heap, rate, link)
    return n_heap, n_watched


@inlined
def _freeze(links: Records, members: Records, rates: Records, link: int, level: float) -> int:
    """Give every free class on a resource its rate; return how many there were."""
    n_frozen = 0
    first = links[link].first
    for at in range(first, first + links[link].count):
        slot = members[at].slot
        if rates[slot].free == FREE:
            rates[slot].free = FROZEN
            rates[slot].rate = level
            rates[slot].limit = link
            n_frozen += 1
    return n_frozen


@kernel
def solve(
    links: Records,
    members: Records,
    rates: Records,
    classes: Records,
    hops: Records,
    heap: Records,
    freed: NDArray[np.int32],
    n_freed: int,
    seeds: NDArray[np.int32],
    first_seed: int,
    n_seeds: int,
    stamp: int,
    shift: int,
) -> int:
    """Make the rates max-min fair again.

    Parameters
    ----------
    freed, n_freed
        Classes that are new or have another number of flows, already marked `FREE`; more are added.
    seeds, first_seed, n_seeds
        The resources that these, and the classes that have gone, cross, and those whose capacity has changed.
    stamp
        A number that no solve before has had.

    Returns
    -------
    int
        Length of `freed` now: the classes that were solved, left marked, with their old rate in ``before``.
    """
    n_heap = np.int64(0)
    n_watched = np.int64(0)
    for at in range(first_seed, n_seeds):
        link = seeds[at]
        if links[link].stamp != stamp:
            links[link].stamp = stamp
            n_heap = _look(links, members, rates, classes, heap, n_heap, link)
            n_watched += links[link].watched
    n_frozen = 0
    while n_heap > 0 and (n_frozen < n_freed or n_watched > 0):
        key, link = heap[0].key, heap[0].link
        n_heap = _pop(heap, n_heap)
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
        if n_heap > 0 and key_now > key and key_now > heap[0].key:
            n_heap = _push(heap, n_heap, key_now, link)  # it has risen since it was pushed
            continue
        first = links[link].first
        last = first + links[link].count
        n_before = n_freed
        fills = level <= own * (1.0 + TIE)
        links[link].key = 0.0 if fills else np.inf
        if fills or level < np.inf or left > links[link].capacity * TIE:
            for at in range(first, last):
                slot = members[at].slot
                if rates[slot].free != SETTLED:
                    continue
                # A faster class must give way to a resource that fills; one that a resource held back can rise.
                if (rates[slot].rate > level * (1.0 + TIE)) if fills else (rates[slot].limit == link):
                    freed[n_freed] = slot
                    n_freed += 1
                    n_heap, n_new = _release(
                        links, members, rates, classes, hops, heap, n_heap, stamp, slot << shift, slot
                    )
                    n_watched += n_new
        if n_freed > n_before:
            if fills:  # it fills later, at a level between this one and the rates of those that give way
                links[link].key = level
                n_heap = _push(heap, n_heap, level, link)
            continue
        links[link].key = np.inf
        if fills:
            n_frozen += _freeze(links, members, rates, link, level)
        if links[link].watched:
            links[link].watched = False
            n_watched -= 1
    return n_freed
