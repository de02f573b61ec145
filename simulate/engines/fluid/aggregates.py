"""Crowds: many classes behind one link, which have one rate and one clock.

A *crowd* is what one link holds back when that is many classes. It is a unit of the solver like a class, with the
number of its link. Its clock of virtual time is what a flow that was there from the beginning has moved: all that
changes with its rate. Which of its classes ends next is known in virtual time, in a heap. A *share* is what a crowd
takes of one link: one member, however many classes it stands for. So an event behind a bottleneck costs O(log n), not
O(n).

A crowd that gets another rate alters what it takes of every link on the way of its classes: of thousands, where the
link joins two zones. Almost all are far from full, and stay so. A link that only crowds cross, and that holds none
back, may be *roomy*: some of its capacity is reserved for each share, its weight times a *guard* above the rate of the
crowd. While what is reserved is no more than the capacity, and no crowd is faster than its guards, the link cannot be
full, and nobody looks at it. When either ends, or a class alone comes, it is roomy no longer.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from simulate.engines.fluid.state import Records, State

CROWDED = 3
"""What `free` says of a class in a crowd; its limit is the crowd, and its account of bytes lacks the crowd's clock."""

ROOMY = 1.25
"""A link becomes roomy when its crowds take less than its capacity over this."""

CLOSE = 1.05
"""A guard must be at least so many times the rate of its crowd."""

KEPT_BACK = 1e-6
"""Part of the capacity that is never reserved: more than sums of reservations can drift."""


@inlined
def _meld(herd: Records, a: int, b: int) -> int:
    """Join two pairing heaps of classes by key and slot; return the root (Fredman and others, 1986)."""
    if herd[b].key < herd[a].key or (herd[b].key == herd[a].key and b < a):
        a, b = b, a
    child = herd[a].child
    herd[b].next = child
    herd[b].prev = a
    if child >= 0:
        herd[child].prev = b
    herd[a].child = b
    herd[a].next = -1
    herd[a].prev = -1
    return a


@inner
def _pair(herd: Records, first: int) -> int:
    """Join the heaps in a list of siblings; return the root, -1 for none."""
    done: Any = np.int64(-1)
    one: Any
    while first >= 0:
        one, other = first, herd[first].next
        first = -1
        if other >= 0:
            first = herd[other].next
            one = _meld(herd, one, other)
        herd[one].next = done
        done = one
    root: Any = np.int64(-1)
    while done >= 0:
        following = herd[done].next
        root = done if root < 0 else _meld(herd, root, done)
        done = following
    if root >= 0:
        herd[root].next = -1
        herd[root].prev = -1
    return root  # type: ignore[no-any-return]


@inner
def queue_class(classes: Records, herd: Records, moves: Records, crowd: int, slot: int) -> None:
    """Put a class into the heap of its crowd."""
    herd[slot].key = moves[classes[slot].first].due - classes[slot].served
    herd[slot].queued = True
    herd[slot].child = -1
    herd[slot].next = -1
    herd[slot].prev = -1
    root = classes[crowd].first
    classes[crowd].first = _meld(herd, root, slot) if root >= 0 else slot


@inner
def unqueue_class(classes: Records, herd: Records, crowd: int, slot: int) -> None:
    """Take a class out of the heap of its crowd."""
    herd[slot].queued = False
    below = _pair(herd, herd[slot].child)
    if classes[crowd].first == slot:
        classes[crowd].first = below
        return
    before, after = herd[slot].prev, herd[slot].next
    if herd[before].child == slot:
        herd[before].child = after
    else:
        herd[before].next = after
    if after >= 0:
        herd[after].prev = before
    if below >= 0:
        classes[crowd].first = _meld(herd, classes[crowd].first, below)


@inlined
def _list_share(crowds: Records, shares: Records, share: int, roomy: bool) -> None:
    """Put a share at the front of the near list of its crowd, or the far one where its link is roomy."""
    crowd = shares[share].crowd
    head = crowds[crowd].far if roomy else crowds[crowd].near
    shares[share].next = head
    shares[share].prev = -1
    if head >= 0:
        shares[head].prev = share
    if roomy:
        crowds[crowd].far = share
    else:
        crowds[crowd].near = share


@inlined
def _unlist_share(crowds: Records, shares: Records, share: int, roomy: bool) -> None:
    """Take a share out of its list."""
    crowd, before, after = shares[share].crowd, shares[share].prev, shares[share].next
    if after >= 0:
        shares[after].prev = before
    if before >= 0:
        shares[before].next = after
    elif roomy:
        crowds[crowd].far = after
    else:
        crowds[crowd].near = after


@inner
def tighten(state: State, link: int) -> None:
    """Make a link roomy no longer; it is added to the seeds, to be looked at."""
    links, members = state.links, state.members
    links[link].roomy = False
    state.seeds[state.now[0].seeds] = link
    state.now[0].seeds += 1
    for at in range(links[link].first, links[link].first + links[link].count):
        _unlist_share(state.crowds, state.shares, members[at].hop, True)
        _list_share(state.crowds, state.shares, members[at].hop, False)


@inlined
def _tighten_others(state: State, link: int) -> None:
    """Make the other lanes of a resource roomy no longer when one of them is entered: they get less of it."""
    n_lanes = len(state.lane_weight)
    if n_lanes > 1:
        for lane in range(link // n_lanes * n_lanes, (link // n_lanes + 1) * n_lanes):
            if state.links[lane].roomy and lane != link:
                tighten(state, lane)


@inner
def relax(state: State, link: int) -> None:
    """Make a link roomy that holds nobody back, where only crowds cross it, on one lane, and take little."""
    links, members, rates, crowds, shares = state.links, state.members, state.rates, state.crowds, state.shares
    first = links[link].first
    last = first + links[link].count
    used = 0.0
    for at in range(first, last):
        if members[at].slot >= len(crowds) or members[at].slot == link:
            return
        used += members[at].weight * rates[members[at].slot].rate
    if links[link].roomy or first == last or used * ROOMY > links[link].capacity:
        return
    n_lanes = len(state.lane_weight)
    for lane in range(link // n_lanes * n_lanes, (link // n_lanes + 1) * n_lanes):
        if links[lane].count > 0 and lane != link:
            return
    links[link].roomy = True
    rise = 0.5 + 0.5 * links[link].capacity / used
    reserved = 0.0
    for at in range(first, last):
        crowd, share = members[at].slot, members[at].hop
        shares[share].guard = rise * rates[crowd].rate
        crowds[crowd].ceiling = min(crowds[crowd].ceiling, shares[share].guard)
        reserved += members[at].weight * shares[share].guard
        _unlist_share(crowds, shares, share, False)
        _list_share(crowds, shares, share, True)
    crowds[link].reserved = reserved


@inner
def raise_ceiling(state: State, crowd: int) -> None:
    """Tighten the links whose guards a free crowd has come to, and find its next ceiling."""
    crowds, shares = state.crowds, state.shares
    most = crowds[crowd].ceiling
    ceiling = np.inf
    share = crowds[crowd].far
    while share >= 0:
        following = shares[share].next
        if shares[share].guard <= most:
            tighten(state, shares[share].link)
        else:
            ceiling = min(ceiling, shares[share].guard)
        share = following
    crowds[crowd].ceiling = ceiling


@inner
def _reserve(state: State, share: int, more: float) -> None:
    """Reserve some of a roomy link for what has been added to the weight of a share."""
    links, crowds, shares = state.links, state.crowds, state.shares
    link, crowd = shares[share].link, shares[share].crowd
    guard, most = shares[share].guard, links[link].capacity * (1.0 - KEPT_BACK)
    if guard == 0.0:
        rate = state.rates[crowd].rate
        guard = min(max(0.0, most - crowds[link].reserved) / (2.0 * more), 2.0 * rate)
        shares[share].guard = guard
        crowds[crowd].ceiling = min(crowds[crowd].ceiling, guard)
        if guard <= CLOSE * rate:
            most = -1.0
    crowds[link].reserved += more * guard
    if crowds[link].reserved > most:
        tighten(state, link)


@inner
def _find_share(state: State, link: int, crowd: int) -> int:
    """Return the share of a crowd on a link, -1 for none, by the shorter of their lists."""
    links, members, crowds, shares = state.links, state.members, state.crowds, state.shares
    if link == crowd:
        return crowds[link].own  # type: ignore[no-any-return]
    if links[link].count <= crowds[crowd].shares:
        for at in range(links[link].first, links[link].first + links[link].count):
            if members[at].slot == crowd:
                return members[at].hop  # type: ignore[no-any-return]
        return -1
    share = crowds[crowd].far if links[link].roomy else crowds[crowd].near
    while share >= 0 and shares[share].link != link:
        share = shares[share].next
    return share  # type: ignore[no-any-return]


@inner
def _add_share(state: State, link: int, crowd: int) -> int:
    """Return a new share of a crowd on a link."""
    now, crowds, shares = state.now, state.crowds, state.shares
    _tighten_others(state, link)
    share = now[0].spare_share
    if share >= 0:
        now[0].spare_share = shares[share].next
    else:
        share = now[0].shares
        now[0].shares += 1
    shares[share].guard = 0.0
    shares[share].link = link
    shares[share].crowd = crowd
    shares[share].count = 0
    shares[share].first = -1
    shares[share].drawn = state.classes[crowd].served
    shares[share].place = add_member(now, state.links, state.members, link, 0.0, crowd, share)
    crowds[crowd].shares += 1
    if link == crowd:
        crowds[link].own = share
    _list_share(crowds, shares, share, state.links[link].roomy)
    return share  # type: ignore[no-any-return]


@inner
def _drop_share(state: State, share: int) -> None:
    """Give back a share to which no class belongs any more."""
    now, links, crowds, shares = state.now, state.links, state.crowds, state.shares
    link, crowd = shares[share].link, shares[share].crowd
    _unlist_share(crowds, shares, share, links[link].roomy)
    remove_member(links, state.members, state.hops, shares, len(crowds), link, shares[share].place)
    crowds[crowd].shares -= 1
    if link == crowd:
        crowds[link].own = -1
    shares[share].next = now[0].spare_share
    now[0].spare_share = share
    if links[link].count == 0:
        links[link].roomy = False


@inlined
def weigh_share(state: State, share: int, more: float) -> None:
    """Add to the weight of a share of a crowd whose clock is settled."""
    link = state.shares[share].link
    if state.bins.shape[1] > 0:
        _draw_share(state, share)
    state.members[state.links[link].first + state.shares[share].place].weight += more
    if state.links[link].roomy:
        if more > 0.0:
            _reserve(state, share, more)
        else:
            state.crowds[link].reserved += more * state.shares[share].guard


@inner
def join_crowd(state: State, slot: int, crowd: int) -> None:
    """Add a class that is no member of its links to a crowd; the accounts of both are settled."""
    now, classes, hops, shares, kin = state.now, state.classes, state.hops, state.shares, state.kin
    if classes[crowd].flows == 0:
        state.rates[crowd].limit = crowd
        classes[crowd].served = 0.0
        classes[crowd].since = now[0].time
        classes[crowd].first = -1
        state.crowds[crowd].ceiling = np.inf
        if state.links[crowd].roomy:
            tighten(state, crowd)
    classes[crowd].flows += 1
    now[0].crowded += 1
    state.rates[slot].free = CROWDED
    state.rates[slot].limit = crowd
    first = first_hop(now, slot)
    for hop in range(first, first + classes[slot].hops):
        share = _find_share(state, hops[hop].link, crowd)
        if share < 0:
            share = _add_share(state, hops[hop].link, crowd)
        head = shares[share].first
        hops[hop].place = share
        kin[hop].next = head
        kin[hop].prev = -1
        if head >= 0:
            kin[head].prev = hop
        shares[share].first = hop
        shares[share].count += 1
        weigh_share(state, share, hops[hop].use * classes[slot].solved)
    classes[slot].served -= classes[crowd].served
    queue_class(classes, state.herd, state.moves, crowd, slot)
    touch(now, classes, state.touched, slot)
    touch(now, classes, state.touched, crowd)


@inner
def leave_crowd(state: State, slot: int) -> None:
    """Take a class out of its crowd, whose clock is settled; it is no member of its links then."""
    now, classes, hops, shares, kin = state.now, state.classes, state.hops, state.shares, state.kin
    crowd = state.rates[slot].limit
    first = first_hop(now, slot)
    for hop in range(first, first + classes[slot].hops):
        share = hops[hop].place
        before, after = kin[hop].prev, kin[hop].next
        if after >= 0:
            kin[after].prev = before
        if before >= 0:
            kin[before].next = after
        else:
            shares[share].first = after
        shares[share].count -= 1
        weigh_share(state, share, -hops[hop].use * classes[slot].solved)
        if shares[share].count == 0:
            _drop_share(state, share)
    if state.herd[slot].queued:
        unqueue_class(classes, state.herd, crowd, slot)
    classes[crowd].flows -= 1
    now[0].crowded -= 1
    classes[slot].served += classes[crowd].served
    classes[slot].since = now[0].time
    classes[slot].drawn = now[0].time
    touch(now, classes, state.touched, slot)
    touch(now, classes, state.touched, crowd)


@inlined
def enter_alone(state: State, slot: int) -> None:
    """Make a class a member of its links, as a unit of its own."""
    now, links, hops = state.now, state.links, state.hops
    first = first_hop(now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        link = hops[hop].link
        if state.now[0].crowded > 0:
            if links[link].roomy:
                tighten(state, link)
            _tighten_others(state, link)
        weight = hops[hop].use * state.classes[slot].solved
        hops[hop].place = add_member(now, links, state.members, link, weight, slot, hop)


@inlined
def leave_alone(state: State, slot: int) -> None:
    """Take a class that is a unit of its own from its links."""
    first = first_hop(state.now, slot)
    for hop in range(first, first + state.classes[slot].hops):
        link, place = state.hops[hop].link, state.hops[hop].place
        remove_member(state.links, state.members, state.hops, state.shares, len(state.crowds), link, place)


@inner
def find_crowd(state: State, slot: int) -> int:
    """Return the slowest crowd on the way of a class, -1 where there is none."""
    result: Any = np.int64(-1)
    if state.now[0].crowded > 0:
        first = first_hop(state.now, slot)
        for hop in range(first, first + state.classes[slot].hops):
            link = state.hops[hop].link
            if state.classes[link].flows > 0 and (result < 0 or state.rates[link].rate < state.rates[result].rate):
                result = np.int64(link)
    return result  # type: ignore[no-any-return]


@inner
def gather(state: State, link: int, settled: int) -> None:
    """Make the classes that a link holds back join its crowd, after a solve; `settled` says which have a rate."""
    now, links, members, rates, classes = state.now, state.links, state.members, state.rates, state.classes
    if classes[link].flows > 0:
        settle(classes, link, rates[link].rate, now[0].time)
    at = 0
    while at < links[link].count:
        slot = np.int64(members[links[link].first + at].slot)
        if slot < len(state.crowds) or rates[slot].limit != link or rates[slot].free != settled:
            at += 1
            continue
        rate = rates[slot].rate
        settle(classes, slot, rate, now[0].time)
        if state.bins.shape[1] > 0:
            accumulate(now, classes, state.hops, state.bins, slot, rate)
        leave_alone(state, slot)
        if classes[link].flows == 0:
            rates[link].rate = rate
            rates[link].free = settled
        join_crowd(state, slot, link)


@inner
def _draw_share(state: State, share: int) -> None:
    """Add what a share has moved since it was last drawn to the bin that is now, as is all of that."""
    now, shares, bins = state.now, state.shares, state.bins
    crowd, link = shares[share].crowd, shares[share].link
    clock = state.classes[crowd].served + state.rates[crowd].rate * (now[0].time - state.classes[crowd].since)
    weight = state.members[state.links[link].first + shares[share].place].weight
    bins[link, min(int(now[0].time / now[0].bin_s), bins.shape[1] - 1)] += (clock - shares[share].drawn) * weight
    shares[share].drawn = clock


@inner
def draw_crowds(state: State, time: float) -> None:
    """Bring what crowds move in the timeline from now to a later time until which no rate changes."""
    now, bins = state.now, state.bins
    widen_bins(now, bins, time)
    since, width, last = now[0].time, now[0].bin_s, bins.shape[1] - 1
    for crowd in range(len(state.crowds)):
        if state.classes[crowd].flows == 0:
            continue
        for head in (state.crowds[crowd].near, state.crowds[crowd].far):
            share = head
            while share >= 0:
                _draw_share(state, share)
                link = state.shares[share].link
                load = state.members[state.links[link].first + state.shares[share].place].weight
                load *= state.rates[crowd].rate
                for at in range(min(int(since / width), last), min(int(time / width), last) + 1):
                    part = min(time, (at + 1) * width) - max(since, at * width)
                    if part > 0.0:
                        bins[link, at] += load * part
                state.shares[share].drawn += state.rates[crowd].rate * (time - since)
                share = state.shares[share].next
