"""Max-min fair rates, solved again only where an event has touched them.

Rates are max-min fair when each class has a bottleneck: a full resource on which no class is faster (Bertsekas and
Gallager, Data Networks, 6.5.2). Water-filling finds them: resources fill in the order of their *level*, the rate that
what they have left gives to each class without a rate; a resource that fills gives its level to those classes.

After an event only some classes need a new rate. They are *free*; all others are *settled*, and what they take is
fixed. Water-filling runs over the free ones alone, and a settled class becomes free when, at the level now reached,

* it is faster than a resource on its route that fills: it must give way; or
* the resource that it names as its bottleneck would not be full at its rate: it can rise.

Both are seen in ascending order of levels, before any class is frozen above them, so no class is solved twice and the
result is that of solving all. Equal levels are compared with a tolerance: a tie decided either way is still fair.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from simulate.kernels.state import N_STAMP, State

__all__ = ["FREE", "FROZEN", "SETTLED", "TIE", "push", "pop", "solve"]

SETTLED, FREE, FROZEN = 0, 1, 2

TIE = 1e-12
"""Relative difference below which two levels are one."""


@njit(cache=True, nogil=True)
def push(keys: NDArray[np.float64], items: NDArray[np.int32], size: int, key: float, item: int) -> int:
    """Add an item to a binary heap; return its new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] <= key:
            break
        keys[at] = keys[parent]
        items[at] = items[parent]
        at = parent
    keys[at] = key
    items[at] = item
    return size + 1


@njit(cache=True, nogil=True)
def pop(keys: NDArray[np.float64], items: NDArray[np.int32], size: int) -> int:
    """Remove the first item of a binary heap; return its new size."""
    size -= 1
    key, item = keys[size], items[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[at] = keys[child]
        items[at] = items[child]
        at = child
    keys[at] = key
    items[at] = item
    return size


@njit(cache=True, nogil=True)
def _weigh(state: State, link: int) -> float:
    """Sum a resource's members into `fixed` and `free`; return the least rate that names it as bottleneck."""
    links, classes, shift = state.links, state.classes, state.shift
    fixed = 0.0
    free = 0.0
    own = np.inf
    first = links.offset[link]
    for at in range(first, first + links.count[link]):
        slot = links.member[at] >> shift
        if classes.free[slot] == FREE:
            free += links.weight[at]
        else:
            rate = classes.rate[slot]
            fixed += links.weight[at] * rate
            if classes.free[slot] == SETTLED and classes.limit[slot] == link and rate < own:
                own = rate
    links.fixed[link] = fixed
    links.free[link] = free
    return own


@njit(cache=True, nogil=True)
def _level(state: State, link: int) -> float:
    links = state.links
    if links.free[link] <= 0.0:
        return np.inf
    return max(0.0, links.capacity[link] - links.fixed[link]) / links.free[link]


@njit(cache=True, nogil=True)
def _look(state: State, link: int, n_heap: int, n_watched: int) -> tuple[int, int]:
    """Look at a resource for the first time in this solve."""
    links = state.links
    links.seen[link] = state.count[N_STAMP]
    own = _weigh(state, link)
    links.watched[link] = own < np.inf
    key = min(_level(state, link), own)
    links.key[link] = key
    if key < np.inf:
        n_heap = push(state.heap_key, state.heap_link, n_heap, key, link)
    return n_heap, n_watched + (own < np.inf)


@njit(cache=True, nogil=True)
def _release(state: State, slot: int, n_freed: int, n_heap: int, n_watched: int) -> tuple[int, int, int]:
    """Make a settled class free, and look at every resource on its route."""
    links, classes = state.links, state.classes
    rate = classes.rate[slot]
    classes.before[slot] = rate
    classes.free[slot] = FREE
    state.freed[n_freed] = slot
    first = slot << state.shift
    for hop in range(first, first + classes.hops[slot]):
        link = classes.resource[hop]
        if links.seen[link] != state.count[N_STAMP]:
            n_heap, n_watched = _look(state, link, n_heap, n_watched)
            continue
        weight = classes.use[hop] * classes.flows[slot]
        links.fixed[link] -= weight * rate
        links.free[link] += weight
        level = _level(state, link)
        if level < links.key[link]:
            links.key[link] = level
            n_heap = push(state.heap_key, state.heap_link, n_heap, level, link)
    return n_freed + 1, n_heap, n_watched


@njit(cache=True, nogil=True)
def _freeze(state: State, link: int, level: float) -> int:
    """Give every free class on a resource its rate; return how many there were."""
    links, classes = state.links, state.classes
    n_frozen = 0
    first = links.offset[link]
    for at in range(first, first + links.count[link]):
        slot = links.member[at] >> state.shift
        if classes.free[slot] != FREE:
            continue
        classes.free[slot] = FROZEN
        classes.rate[slot] = level
        classes.limit[slot] = link
        n_frozen += 1
        begin = slot << state.shift
        for hop in range(begin, begin + classes.hops[slot]):
            other = classes.resource[hop]
            weight = classes.use[hop] * classes.flows[slot]
            links.fixed[other] += weight * level
            links.free[other] -= weight
    return n_frozen


@njit(cache=True, nogil=True)
def solve(state: State, n_freed: int, n_seeds: int) -> int:
    """Make the rates max-min fair again.

    Parameters
    ----------
    n_freed
        Classes that are new or have another number of flows: the first so many of ``state.freed``, marked `FREE`.
    n_seeds
        The resources that these, and the classes that have gone, cross: the first so many of ``state.seed``.

    Returns
    -------
    int
        Length of ``state.freed`` now: the classes that were solved, left marked, with their old rate in `before`.
    """
    links, classes = state.links, state.classes
    keys, items = state.heap_key, state.heap_link
    state.count[N_STAMP] += 1
    n_heap = 0
    n_watched = 0
    for at in range(n_seeds):
        link = state.seed[at]
        if links.seen[link] != state.count[N_STAMP]:
            n_heap, n_watched = _look(state, link, n_heap, n_watched)
    n_frozen = 0
    while n_heap > 0 and (n_frozen < n_freed or n_watched > 0):
        key, link = keys[0], items[0]
        n_heap = pop(keys, items, n_heap)
        if key != links.key[link]:
            continue  # a lower entry has replaced this one
        own = _weigh(state, link)
        level = _level(state, link)
        if links.watched[link] and own == np.inf:
            links.watched[link] = False
            n_watched -= 1
        at_level = min(level, own)
        links.key[link] = at_level
        if at_level == np.inf:
            continue
        if n_heap > 0 and at_level > key and at_level > keys[0]:
            n_heap = push(keys, items, n_heap, at_level, link)  # it has risen since it was pushed
            continue
        links.key[link] = np.inf
        first = links.offset[link]
        last = first + links.count[link]
        n_before = n_freed
        if level <= own * (1.0 + TIE):
            for at in range(first, last):
                slot = links.member[at] >> state.shift
                if classes.free[slot] == SETTLED and classes.rate[slot] > level * (1.0 + TIE):
                    n_freed, n_heap, n_watched = _release(state, slot, n_freed, n_heap, n_watched)
            if n_freed == n_before:
                n_frozen += _freeze(state, link, level)
        elif links.free[link] > 0.0 or links.fixed[link] < links.capacity[link] * (1.0 - TIE):
            for at in range(first, last):
                slot = links.member[at] >> state.shift
                if classes.free[slot] == SETTLED and classes.limit[slot] == link:
                    n_freed, n_heap, n_watched = _release(state, slot, n_freed, n_heap, n_watched)
        if n_freed == n_before and links.watched[link]:
            links.watched[link] = False
            n_watched -= 1
    return n_freed
