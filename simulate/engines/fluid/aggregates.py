"""Aggregates: many classes with one bottleneck, which have one rate and one clock.

The classes that one link holds back form an *aggregate* when they are many. To the solver it is one unit, as a class
is; its number is that of its link. Its clock counts the bytes that a flow would have moved since the aggregate formed,
and a heap orders its classes by the clock at which their first flow ends. A *share* is what the aggregate takes of one
link: one member, however many classes it stands for. So an event at a bottleneck of n classes costs O(log n), not O(n).

A new rate of an aggregate changes its load on every link that its classes cross: thousands, where its link joins two
zones, almost all of them far from full. A link is *unsaturated* when it is proven not to fill: only aggregates cross
it, it holds none of them back, and each share s has a reserve rate g_s above the rate of its aggregate, such that

    sum over shares of weight_s * g_s <= capacity.

While no aggregate is faster than its reserve rates the link cannot be full, and the solver skips it. It is looked at
again when an aggregate comes to a reserve rate, when the sum exceeds the capacity, or when a class alone enters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from simulate.engines.base import Records
from simulate.engines.compile import inlined, inner
from simulate.engines.fluid.flow_classes import (
    accumulate,
    add_member,
    first_hop,
    remove_member,
    settle,
    touch,
    widen_bins,
)
from simulate.engines.fluid.state import State

SETTLED, AGGREGATED = 0, 3
"""`free` of a unit that has its rate; and of a class in an aggregate: its `limit` is the aggregate, and `served` counts
beyond the aggregate's clock."""

UNSATURATED = 1.25
"""A link may become unsaturated when this times its load is at most its capacity."""

CLOSE = 1.05
"""Least ratio of a reserve rate to the rate of its aggregate."""

KEPT_BACK = 1e-6
"""Share of the capacity that is never reserved: more than rounding can add to a sum of reservations."""


@inlined
def _meld(class_heap: Records, a: int, b: int) -> int:
    """Join two pairing heaps of classes by key and slot; return the root (Fredman and others, 1986)."""
    if class_heap[b].key < class_heap[a].key or (class_heap[b].key == class_heap[a].key and b < a):
        a, b = b, a
    child = class_heap[a].child
    class_heap[b].next = child
    class_heap[b].prev = a
    if child >= 0:
        class_heap[child].prev = b
    class_heap[a].child = b
    class_heap[a].next = -1
    class_heap[a].prev = -1
    return a


@inner
def _pair(class_heap: Records, first: int) -> int:
    """Join the heaps in a list of siblings; return the root, -1 for none."""
    done: Any = np.int64(-1)
    one: Any
    while first >= 0:
        one, other = first, class_heap[first].next
        first = -1
        if other >= 0:
            first = class_heap[other].next
            one = _meld(class_heap, one, other)
        class_heap[one].next = done
        done = one
    root: Any = np.int64(-1)
    while done >= 0:
        following = class_heap[done].next
        root = done if root < 0 else _meld(class_heap, root, done)
        done = following
    if root >= 0:
        class_heap[root].next = -1
        class_heap[root].prev = -1
    return root  # type: ignore[no-any-return]


@inner
def queue_class(classes: Records, class_heap: Records, moves: Records, aggregate: int, slot: int) -> None:
    """Put a class into the heap of its aggregate."""
    class_heap[slot].key = moves[classes[slot].first].due - classes[slot].served
    class_heap[slot].queued = True
    class_heap[slot].child = -1
    class_heap[slot].next = -1
    class_heap[slot].prev = -1
    root = classes[aggregate].first
    classes[aggregate].first = _meld(class_heap, root, slot) if root >= 0 else slot


@inner
def unqueue_class(classes: Records, class_heap: Records, aggregate: int, slot: int) -> None:
    """Take a class out of the heap of its aggregate."""
    class_heap[slot].queued = False
    below = _pair(class_heap, class_heap[slot].child)
    if classes[aggregate].first == slot:
        classes[aggregate].first = below
        return
    before, after = class_heap[slot].prev, class_heap[slot].next
    if class_heap[before].child == slot:
        class_heap[before].child = after
    else:
        class_heap[before].next = after
    if after >= 0:
        class_heap[after].prev = before
    if below >= 0:
        classes[aggregate].first = _meld(class_heap, classes[aggregate].first, below)


@inlined
def _list_share(aggregates: Records, shares: Records, share: int, unsaturated: bool) -> None:
    """Put a share at the front of the near list of its aggregate, or the far one where its link is unsaturated."""
    aggregate = shares[share].aggregate
    head = aggregates[aggregate].far if unsaturated else aggregates[aggregate].near
    shares[share].next = head
    shares[share].prev = -1
    if head >= 0:
        shares[head].prev = share
    if unsaturated:
        aggregates[aggregate].far = share
    else:
        aggregates[aggregate].near = share


@inlined
def _unlist_share(aggregates: Records, shares: Records, share: int, unsaturated: bool) -> None:
    """Take a share out of its list."""
    aggregate, before, after = shares[share].aggregate, shares[share].prev, shares[share].next
    if after >= 0:
        shares[after].prev = before
    if before >= 0:
        shares[before].next = after
    elif unsaturated:
        aggregates[aggregate].far = after
    else:
        aggregates[aggregate].near = after


@inner
def tighten(state: State, link: int) -> None:
    """Mark a link as one that may be full; it is added to the seeds, for the solver to look at."""
    links, members = state.links, state.members
    links[link].unsaturated = False
    links[link].stamp = 0
    state.seeds[state.now[0].seeds] = link
    state.now[0].seeds += 1
    for at in range(links[link].first, links[link].first + links[link].count):
        _unlist_share(state.aggregates, state.shares, members[at].hop, True)
        _list_share(state.aggregates, state.shares, members[at].hop, False)


@inlined
def _tighten_others(state: State, link: int) -> None:
    """Tighten the other lanes of a resource when one of them is entered: they get less of it."""
    n_lanes = len(state.lane_weight)
    if n_lanes > 1:
        for lane in range(link // n_lanes * n_lanes, (link // n_lanes + 1) * n_lanes):
            if state.links[lane].unsaturated and lane != link:
                tighten(state, lane)


@inner
def relax(state: State, link: int) -> None:
    """Mark a link as unsaturated if it is no bottleneck, and only aggregates cross it, on one lane, and take little."""
    links, members, rates, aggregates, shares = state.links, state.members, state.rates, state.aggregates, state.shares
    first = links[link].first
    last = first + links[link].count
    used = 0.0
    for at in range(first, last):
        if members[at].slot >= len(aggregates) or members[at].slot == link:
            return
        used += members[at].weight * rates[members[at].slot].rate
    if links[link].unsaturated or first == last or used * UNSATURATED > links[link].capacity:
        return
    n_lanes = len(state.lane_weight)
    for lane in range(link // n_lanes * n_lanes, (link // n_lanes + 1) * n_lanes):
        if links[lane].count > 0 and lane != link:
            return
    links[link].unsaturated = True
    rise = 0.5 + 0.5 * links[link].capacity / used
    reserved = 0.0
    for at in range(first, last):
        aggregate, share = members[at].slot, members[at].hop
        shares[share].reserve_rate = rise * rates[aggregate].rate
        aggregates[aggregate].rate_cap = min(aggregates[aggregate].rate_cap, shares[share].reserve_rate)
        reserved += members[at].weight * shares[share].reserve_rate
        _unlist_share(aggregates, shares, share, False)
        _list_share(aggregates, shares, share, True)
    aggregates[link].reserved = reserved


@inner
def raise_rate_cap(state: State, aggregate: int) -> None:
    """Tighten the links on which a free aggregate has reached its reserve rate, and find its next rate cap."""
    aggregates, shares = state.aggregates, state.shares
    most = aggregates[aggregate].rate_cap
    rate_cap = np.inf
    share = aggregates[aggregate].far
    while share >= 0:
        following = shares[share].next
        if shares[share].reserve_rate <= most:
            tighten(state, shares[share].link)
        else:
            rate_cap = min(rate_cap, shares[share].reserve_rate)
        share = following
    aggregates[aggregate].rate_cap = rate_cap


@inner
def _reserve(state: State, share: int, more: float) -> None:
    """Reserve some of an unsaturated link for what has been added to the weight of a share."""
    links, aggregates, shares = state.links, state.aggregates, state.shares
    link, aggregate = shares[share].link, shares[share].aggregate
    reserve_rate, most = shares[share].reserve_rate, links[link].capacity * (1.0 - KEPT_BACK)
    if reserve_rate == 0.0:
        rate = state.rates[aggregate].rate
        reserve_rate = min(max(0.0, most - aggregates[link].reserved) / (2.0 * more), 2.0 * rate)
        shares[share].reserve_rate = reserve_rate
        aggregates[aggregate].rate_cap = min(aggregates[aggregate].rate_cap, reserve_rate)
        if reserve_rate <= CLOSE * rate:
            most = -1.0
    aggregates[link].reserved += more * reserve_rate
    if aggregates[link].reserved > most:
        tighten(state, link)


@inner
def _find_share(state: State, link: int, aggregate: int) -> int:
    """Return the share of an aggregate on a link, -1 for none, by the shorter of their lists."""
    links, members, aggregates, shares = state.links, state.members, state.aggregates, state.shares
    if link == aggregate:
        return aggregates[link].own  # type: ignore[no-any-return]
    if links[link].count <= aggregates[aggregate].shares:
        for at in range(links[link].first, links[link].first + links[link].count):
            if members[at].slot == aggregate:
                return members[at].hop  # type: ignore[no-any-return]
        return -1
    share = aggregates[aggregate].far if links[link].unsaturated else aggregates[aggregate].near
    while share >= 0 and shares[share].link != link:
        share = shares[share].next
    return share  # type: ignore[no-any-return]


@inner
def _add_share(state: State, link: int, aggregate: int) -> int:
    """Return a new share of an aggregate on a link."""
    now, aggregates, shares = state.now, state.aggregates, state.shares
    _tighten_others(state, link)
    share = now[0].spare_share
    if share >= 0:
        now[0].spare_share = shares[share].next
    else:
        share = now[0].shares
        now[0].shares += 1
    shares[share].reserve_rate = 0.0
    shares[share].link = link
    shares[share].aggregate = aggregate
    shares[share].count = 0
    shares[share].first = -1
    shares[share].drawn = state.classes[aggregate].served
    shares[share].place = add_member(state, link, 0.0, aggregate, share)
    aggregates[aggregate].shares += 1
    if link == aggregate:
        aggregates[link].own = share
    _list_share(aggregates, shares, share, state.links[link].unsaturated)
    return share  # type: ignore[no-any-return]


@inner
def _drop_share(state: State, share: int) -> None:
    """Give back a share to which no class belongs any more."""
    now, links, aggregates, shares = state.now, state.links, state.aggregates, state.shares
    link, aggregate = shares[share].link, shares[share].aggregate
    _unlist_share(aggregates, shares, share, links[link].unsaturated)
    remove_member(state, link, shares[share].place)
    aggregates[aggregate].shares -= 1
    if link == aggregate:
        aggregates[link].own = -1
    shares[share].next = now[0].spare_share
    now[0].spare_share = share
    if links[link].count == 0:
        links[link].unsaturated = False


@inlined
def weigh_share(state: State, share: int, more: float) -> None:
    """Add to the weight of a share of an aggregate whose clock is settled."""
    link = state.shares[share].link
    if state.bins.shape[1] > 0:
        _draw_share(state, share)
    state.members[state.links[link].first + state.shares[share].place].weight += more
    if state.links[link].unsaturated:
        if more > 0.0:
            _reserve(state, share, more)
        else:
            state.aggregates[link].reserved += more * state.shares[share].reserve_rate


@inner
def join_aggregate(state: State, slot: int, aggregate: int) -> None:
    """Add a class that is no member of its links to an aggregate; the accounts of both are settled."""
    now, classes, hops, shares, siblings = state.now, state.classes, state.hops, state.shares, state.siblings
    if classes[aggregate].flows == 0:
        state.rates[aggregate].limit = aggregate
        classes[aggregate].served = 0.0
        classes[aggregate].since = now[0].time
        classes[aggregate].first = -1
        state.aggregates[aggregate].rate_cap = np.inf
        if state.links[aggregate].unsaturated:
            tighten(state, aggregate)
    classes[aggregate].flows += 1
    now[0].aggregated += 1
    state.rates[slot].free = AGGREGATED
    state.rates[slot].limit = aggregate
    first = first_hop(now, slot)
    for hop in range(first, first + classes[slot].hops):
        share = _find_share(state, hops[hop].link, aggregate)
        if share < 0:
            share = _add_share(state, hops[hop].link, aggregate)
        head = shares[share].first
        hops[hop].place = share
        siblings[hop].next = head
        siblings[hop].prev = -1
        if head >= 0:
            siblings[head].prev = hop
        shares[share].first = hop
        shares[share].count += 1
        weigh_share(state, share, hops[hop].use * classes[slot].solved)
    classes[slot].served -= classes[aggregate].served
    queue_class(classes, state.class_heap, state.moves, aggregate, slot)
    touch(state, slot)
    touch(state, aggregate)


@inner
def leave_aggregate(state: State, slot: int) -> None:
    """Take a class out of its aggregate, whose clock is settled; it is no member of its links then."""
    now, classes, hops, shares, siblings = state.now, state.classes, state.hops, state.shares, state.siblings
    aggregate = state.rates[slot].limit
    first = first_hop(now, slot)
    for hop in range(first, first + classes[slot].hops):
        share = hops[hop].place
        before, after = siblings[hop].prev, siblings[hop].next
        if after >= 0:
            siblings[after].prev = before
        if before >= 0:
            siblings[before].next = after
        else:
            shares[share].first = after
        shares[share].count -= 1
        weigh_share(state, share, -hops[hop].use * classes[slot].solved)
        if shares[share].count == 0:
            _drop_share(state, share)
    if state.class_heap[slot].queued:
        unqueue_class(classes, state.class_heap, aggregate, slot)
    classes[aggregate].flows -= 1
    now[0].aggregated -= 1
    classes[slot].served += classes[aggregate].served
    classes[slot].since = now[0].time
    classes[slot].drawn = now[0].time
    touch(state, slot)
    touch(state, aggregate)


@inlined
def enter_alone(state: State, slot: int) -> None:
    """Make a class a member of its links, as a unit of its own."""
    links, hops = state.links, state.hops
    first = first_hop(state.now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        link = hops[hop].link
        if state.now[0].aggregated > 0:
            if links[link].unsaturated:
                tighten(state, link)
            _tighten_others(state, link)
        weight = hops[hop].use * state.classes[slot].solved
        hops[hop].place = add_member(state, link, weight, slot, hop)


@inlined
def leave_alone(state: State, slot: int) -> None:
    """Take a class that is a unit of its own from its links."""
    first = first_hop(state.now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        remove_member(state, state.hops[hop].link, state.hops[hop].place)


@inner
def find_aggregate(state: State, slot: int) -> int:
    """Return the slowest aggregate on the way of a class, -1 where there is none."""
    result: Any = np.int64(-1)
    first = first_hop(state.now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        link = state.hops[hop].link
        if state.classes[link].flows > 0 and (result < 0 or state.rates[link].rate < state.rates[result].rate):
            result = np.int64(link)
    return result  # type: ignore[no-any-return]


@inner
def gather(state: State, link: int) -> None:
    """Make the classes that a link holds back join its aggregate, after a solve."""
    now, links, members, rates, classes = state.now, state.links, state.members, state.rates, state.classes
    if classes[link].flows > 0:
        settle(classes, link, rates[link].rate, now[0].time)
    at = 0
    while at < links[link].count:
        slot = np.int64(members[links[link].first + at].slot)
        if slot < len(state.aggregates) or rates[slot].limit != link or rates[slot].free != SETTLED:
            at += 1
            continue
        rate = rates[slot].rate
        settle(classes, slot, rate, now[0].time)
        if state.bins.shape[1] > 0:
            accumulate(now, classes, state.hops, state.bins, slot, rate)
        leave_alone(state, slot)
        if classes[link].flows == 0:
            rates[link].rate = rate
            rates[link].free = SETTLED
        join_aggregate(state, slot, link)


@inner
def _draw_share(state: State, share: int) -> None:
    """Add what a share has moved since it was last drawn to the bin that is now, as is all of that."""
    now, shares, bins = state.now, state.shares, state.bins
    aggregate, link = shares[share].aggregate, shares[share].link
    clock = state.classes[aggregate].served + state.rates[aggregate].rate * (
        now[0].time - state.classes[aggregate].since
    )
    weight = state.members[state.links[link].first + shares[share].place].weight
    bins[link, min(int(now[0].time / now[0].bin_s), bins.shape[1] - 1)] += (clock - shares[share].drawn) * weight
    shares[share].drawn = clock


@inner
def draw_aggregates(state: State, time: float) -> None:
    """Bring what aggregates move in the timeline from now to a later time until which no rate changes."""
    now, bins = state.now, state.bins
    widen_bins(now, bins, time)
    since, width, last = now[0].time, now[0].bin_s, bins.shape[1] - 1
    for aggregate in range(len(state.aggregates)):
        if state.classes[aggregate].flows == 0:
            continue
        for head in (state.aggregates[aggregate].near, state.aggregates[aggregate].far):
            share = head
            while share >= 0:
                _draw_share(state, share)
                link = state.shares[share].link
                load = state.members[state.links[link].first + state.shares[share].place].weight
                load *= state.rates[aggregate].rate
                for at in range(min(int(since / width), last), min(int(time / width), last) + 1):
                    part = min(time, (at + 1) * width) - max(since, at * width)
                    if part > 0.0:
                        bins[link, at] += load * part
                state.shares[share].drawn += state.rates[aggregate].rate * (time - since)
                share = state.shares[share].next
