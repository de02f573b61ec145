"""The one move of the search: all that is behind a switch on its way to a destination takes another channel.

Tables to one destination form a tree over the switches. In it the traffic of a *sample* k that is behind switch s is a
flow f, and `move_flows` moves it from the path that s has to one that begins with another channel. Loads change only up
to the switch where the two paths meet. With x the load of a channel c in units of its own rate, the move changes

    sum over k of  a_k * Q_k + b_k * P_k
    Q_k = sum over c of r_c * (x^2 - sum over d of x_d^2),    P_k = sum over c of x^p

where r_c is the rate of the channel by the fastest, so that Q_k adds up how long flows wait for each other, and x_d
is what goes to destination d: flows to one destination do not meet each other. The coefficients stay as they
are during a sweep over all destinations, so that what moves gain adds up, and no sweep makes the sum larger. A high
power p makes P_k the fullest channel.

A move is legal when its new turns, from each channel into s and from the new channel onward, rise in the order of
channels. The order may be amended for that (`routing.order.turns`): then turns follow the traffic, no path ever closes
a loop, and turns that no path takes any more are given up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.turns import ALLOWED, CLOSED, UNKNOWN, Turns, allow_turn
from routing.tables import NO_PATH

Int16s = NDArray[np.int16]
Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]
NextHops = NDArray[np.uint8]

DOUBLINGS = 3
"""Doublings of the power that stands for the fullest channel in samples that list their flows: 8, since one flow more
is a large step there."""

AS_THEY_ARE, AMENDED, ANY = 0, 1, 2
"""Turns that are legal: those that rise in the order of channels, those that can rise in one, and all."""


class Samples(NamedTuple):
    """K samples of traffic to D destinations: the first U are dense, the others lists of flows by destination."""

    switch: Int32s
    """(D,) the switch that each destination hangs on, or is."""
    lid: Int32s
    """(D,) LID."""
    source: Floats
    """(U, S) weight of the sources at each switch."""
    weight: Floats
    """(U, D) weight of each destination: flow (s, d) of sample u is the product of both."""
    indptr: Int64s
    """(D + 1,) flows to destination d are ``indptr[d]`` to ``indptr[d + 1] - 1``."""
    sender: Int32s
    """(F,) switch that each flow begins at."""
    sample: Int32s
    """(F,) sample that it belongs to."""
    flow: Singles
    """(F,) how much it is, in units of a host's link."""
    doublings: NDArray[np.uint8]
    """(K,) the power p of each sample is 2 to this."""
    slow: Floats
    """(C,) the fastest rate over that of the channel."""


class Terms(NamedTuple):
    """What a sweep lowers."""

    square: Floats
    """(K,) coefficient a_k."""
    high: Floats
    """(K,) coefficient b_k."""
    most: Floats
    """(U,) load of a channel, by its rate, that no move may exceed."""
    least: float
    """What a move must gain."""


class Allowed(NamedTuple):
    """Which paths may be taken."""

    hops: Int16s
    """(S, S) links from each switch to each other, whatever the order of channels; -1 where no cable leads."""
    detour: int
    """Links that a path may have beyond the shortest."""
    used: Int32s
    """(C, W) destinations whose tree takes the turn from a channel to channel w of its receiver."""
    kept: Bools
    """(S, S) whether the entry of a switch for destinations of another stays; 0 x 0 where none does."""
    turns: int
    """`AS_THEY_ARE`, `AMENDED` or `ANY`."""


class State(NamedTuple):
    """Loads, and the tree of the destination that is being looked at."""

    load: Singles
    """(C, K) flow of each sample over each channel."""
    own: Singles
    """(S, K) flow of each sample to the destination that leaves each switch."""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the destination."""
    depth: Int32s
    """(S,) channels to the destination; -1 where none lead."""
    nearest: Int32s
    """(S,) switches that reach it, nearest first."""
    slot: Int32s
    """(S + 2,) scratch."""
    room: Int32s
    """(S,) links by which the paths of a switch and of all behind it may grow."""
    settled: Bools
    """(S,) switches that have been looked at."""
    dense: Floats
    """(U, S) flow behind each switch."""
    head: Int32s
    """(S,) first and, in `tail`, last of the flows that are listed behind each switch; -1 where there is none."""
    tail: Int32s
    following: Int32s
    """(F_d,) the next one."""
    child: Int32s
    """(S,) a switch that goes over each switch, and in `sibling` the next one of these; -1 where there is none."""
    sibling: Int32s
    items: Int32s
    """(K,) samples with flow behind the switch that is looked at, and `amount`, how much."""
    amount: Floats
    place: Int32s
    """(K,) where a sample stands among these; -1 where it does not."""
    position: Int32s
    """(S,) links from the switch to each one on its path; -1 for others."""
    saved: Floats
    """(S + 1,) what is saved up to there."""
    stamp: Int64s
    """(C,) and `added`: what the flows cost on a channel, known where the stamp is that of the switch."""
    added: Floats
    offer: Int32s
    """(W,) channels that would gain, and `gain`, how much."""
    gain: Floats


def new_state(samples: Samples, count: int, channels: int, widest: int) -> State:
    """Return what the kernels work in, for a number of samples; ``widest`` is the most channels of a switch."""
    n, k = samples.source.shape[1], count
    longest = int(np.diff(samples.indptr).max(initial=0))
    return State(
        load=np.zeros((channels, k), np.float32),
        own=np.zeros((n, k), np.float32),
        onward=np.empty(n, np.int32),
        depth=np.empty(n, np.int32),
        nearest=np.empty(n, np.int32),
        slot=np.empty(n + 2, np.int32),
        room=np.empty(n, np.int32),
        settled=np.zeros(n, np.bool_),
        dense=np.zeros((len(samples.source), n)),
        head=np.full(n, -1, np.int32),
        tail=np.full(n, -1, np.int32),
        following=np.empty(longest, np.int32),
        child=np.full(n, -1, np.int32),
        sibling=np.full(n, -1, np.int32),
        items=np.empty(k, np.int32),
        amount=np.empty(k),
        place=np.full(k, -1, np.int32),
        position=np.full(n, -1, np.int32),
        saved=np.empty(n + 1),
        stamp=np.zeros(channels, np.int64),
        added=np.empty(channels),
        offer=np.empty(widest, np.int32),
        gain=np.empty(widest),
    )


@inner
def recall(samples: Samples, turns: Turns, state: State, next_hop: NextHops, dest: int) -> int:
    """Take the tree of a destination from the tables; return how many switches reach it.

    A switch whose entries lead round in a circle, or to one without an entry, does not.
    """
    indptr, receiver = turns.order.indptr, turns.order.receiver
    depth, slot, stack = state.depth, state.slot, state.nearest
    n, lid, home = len(depth), samples.lid[dest], samples.switch[dest]
    depth[:] = -1
    slot[:] = 0
    depth[home], slot[0] = 0, 1
    state.onward[home] = -1
    for begin in range(n):
        here, length = begin, 0
        while depth[here] == -1 and next_hop[lid, here] != NO_PATH:
            depth[here] = -2
            stack[length] = here
            length += 1
            state.onward[here] = indptr[here] + next_hop[lid, here]
            here = receiver[state.onward[here]]
        after = depth[here]
        for i in range(length - 1, -1, -1):
            after = after + 1 if after >= 0 else -3
            depth[stack[i]] = after
            if after >= 0:
                slot[after] += 1
    total = 0
    for distance in range(n + 1):
        total, slot[distance] = total + slot[distance], total
    for here in range(n):
        if depth[here] >= 0:
            state.nearest[slot[depth[here]]] = here
            slot[depth[here]] += 1
        else:
            depth[here] = -1
    return total


@inner
def _sum_own(samples: Samples, turns: Turns, state: State, dest: int, count: int) -> None:
    """Sum what each sample sends to a destination over each switch."""
    receiver, own, dense = turns.order.receiver, state.own, len(samples.source)
    home = samples.switch[dest]
    for u in range(dense):
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            own[here, u] += samples.source[u, here] * samples.weight[u, dest]
            own[receiver[state.onward[here]], u] += own[here, u]
    for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
        here = samples.sender[i]
        if state.depth[here] >= 0:
            while here != home:
                own[here, samples.sample[i]] += samples.flow[i]
                here = receiver[state.onward[here]]


@inner
def _clear_own(samples: Samples, turns: Turns, state: State, dest: int, count: int) -> None:
    """Forget it again, in as little time."""
    receiver, own = turns.order.receiver, state.own
    home = samples.switch[dest]
    own[:, : len(samples.source)] = 0.0
    for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
        here = samples.sender[i]
        if state.depth[here] >= 0:
            while here != home:
                own[here, samples.sample[i]] = 0.0
                here = receiver[state.onward[here]]


@kernel
def add_up_loads(samples: Samples, turns: Turns, used: Int32s, state: State, next_hop: NextHops, met: Floats) -> int:
    """Sum the loads of tables anew.

    Parameters
    ----------
    used : (C, W) int32, out
        Destinations whose tree takes each turn; 0 x 0 to leave them out.
    next_hop : (T, S) uint8
        Index of the channel that each switch takes among its own, by LID.
    met : (K,) float64, out
        Sum over channels and destinations of the square of what goes to one destination alone.

    Returns
    -------
    int
        Pairs of a switch and a destination without a path.
    """
    indptr, receiver = turns.order.indptr, turns.order.receiver
    state.load[:], state.own[:], met[:], used[:] = 0.0, 0.0, 0.0, 0
    missing, dense = 0, len(samples.source)
    for dest in range(len(samples.lid)):
        count = recall(samples, turns, state, next_hop, dest)
        missing += len(state.depth) - count
        home = samples.switch[dest]
        for i in range(1, count):
            channel = state.onward[state.nearest[i]]
            there = receiver[channel]
            if len(used) and there != home:
                used[channel, state.onward[there] - indptr[there]] += 1
        _sum_own(samples, turns, state, dest, count)
        for u in range(dense):
            for i in range(1, count):
                here = state.nearest[i]
                channel, flow = state.onward[here], state.own[here, u]
                state.load[channel, u] += flow
                met[u] += samples.slow[channel] * flow * flow
        for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
            here, k = samples.sender[i], samples.sample[i]
            if state.depth[here] >= 0:
                while here != home and state.own[here, k] > 0.0:
                    channel, flow = state.onward[here], state.own[here, k]
                    state.load[channel, k] += flow
                    met[k] += samples.slow[channel] * flow * flow
                    state.own[here, k] = 0.0
                    here = receiver[channel]
        state.own[:, :dense] = 0.0
    return missing


@kernel
def sum_turns(samples: Samples, turns: Turns, state: State, next_hop: NextHops, flows: Floats) -> None:
    """Sum the flows of all pairs, the first sample, in each turn: (C, W), from a channel to one of its receiver."""
    indptr, receiver = turns.order.indptr, turns.order.receiver
    for dest in range(len(samples.lid)):
        count = recall(samples, turns, state, next_hop, dest)
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            channel, there = state.onward[here], receiver[state.onward[here]]
            flow = state.own[here, 0] + samples.source[0, here] * samples.weight[0, dest]
            if there != samples.switch[dest]:
                flows[channel, state.onward[there] - indptr[there]] += flow
                state.own[there, 0] += np.float32(flow)
            state.own[here, 0] = 0.0


@kernel
def find_crowds(samples: Samples, turns: Turns, state: State, next_hop: NextHops, crowd: Floats) -> None:
    """Return in (D,) ``crowd`` the fullest channel, by its rate, that all pairs take to each destination.

    Loads are those that were summed last.
    """
    receiver = turns.order.receiver
    for dest in range(len(samples.lid)):
        count = recall(samples, turns, state, next_hop, dest)
        crowd[dest], state.room[:] = 0.0, 0
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            channel = state.onward[here]
            if state.room[here] or samples.source[0, here] > 0.0:
                state.room[receiver[channel]] = 1
                crowd[dest] = max(crowd[dest], state.load[channel, 0] * samples.slow[channel])


@kernel
def sum_terms(samples: Samples, state: State, met: Floats, square: Floats, high: Floats) -> None:
    """Return Q and P of each sample in ``square`` and ``high``, from its loads."""
    for k in range(len(square)):
        square[k], high[k] = -met[k], 0.0
    for c in range(len(state.load)):
        for k in range(len(square)):
            x = state.load[c, k] * samples.slow[c]
            square[k] += x * state.load[c, k]
            for _ in range(samples.doublings[k]):
                x *= x
            high[k] += x


@kernel
def move_flows(
    samples: Samples, turns: Turns, bounds: Allowed, terms: Terms, state: State, next_hop: NextHops, dests: Int64s
) -> tuple[int, float]:
    """Offer every switch every channel for some destinations, one after the other; farthest switches first.

    Returns
    -------
    tuple of int and float
        Moves that were made, and by how much they lower what `Terms` weighs.
    """
    moves, gained, tick = 0, 0.0, 0
    for stamp in state.stamp:
        tick = max(tick, int(stamp))
    for dest in dests:
        count = recall(samples, turns, state, next_hop, dest)
        _begin(samples, turns, bounds, state, dest, count)
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            size = _gather(samples, state, dest, here)
            if turns.order.indptr[here + 1] - turns.order.indptr[here] > 1:
                tick += 1
                best, gain = _best(samples, turns, bounds, terms, state, dest, here, size, tick)
                if best >= 0:
                    _adopt(samples, turns, bounds, state, next_hop, dest, here, best, size)
                    moves += 1
                    gained += gain
            for j in range(size):
                state.place[state.items[j]] = -1
            _hand_on(samples, turns, state, here)
        _clear_own(samples, turns, state, dest, count)
    return moves, gained


@inner
def _begin(samples: Samples, turns: Turns, bounds: Allowed, state: State, dest: int, count: int) -> None:
    """Lay the flows to a destination on the switches that they begin at."""
    _sum_own(samples, turns, state, dest, count)
    home, first = samples.switch[dest], samples.indptr[dest]
    state.settled[:], state.head[:], state.child[:] = False, -1, -1
    for here in range(len(state.depth)):
        state.room[here] = bounds.hops[home, here] + bounds.detour - state.depth[here]
        for u in range(len(samples.source)):
            state.dense[u, here] = samples.source[u, here] * samples.weight[u, dest]
    for i in range(samples.indptr[dest + 1] - first):
        here = samples.sender[first + i]
        state.following[i] = state.head[here]
        if state.head[here] < 0:
            state.tail[here] = i
        state.head[here] = i


@inner
def _gather(samples: Samples, state: State, dest: int, here: int) -> int:
    """List the samples with flow behind a switch, and how much it is; return how many."""
    size, first = 0, samples.indptr[dest]
    for u in range(len(samples.source)):
        if state.dense[u, here] > 0.0:
            state.items[size], state.amount[size] = u, state.dense[u, here]
            size += 1
    i = state.head[here]
    while i >= 0:
        k = samples.sample[first + i]
        if state.place[k] < 0:
            state.place[k], state.items[size], state.amount[size] = size, k, 0.0
            size += 1
        state.amount[state.place[k]] += samples.flow[first + i]
        i = state.following[i]
    return size


@inner
def _power(x: float, doublings: int) -> float:
    """Return x to the power of 2^doublings."""
    if doublings == DOUBLINGS:  # written out, since a loop of unknown length costs several times as much
        x *= x
        x *= x
        return x * x
    for _ in range(doublings):
        x *= x
    return x


@inner
def _cost(
    samples: Samples,
    terms: Terms,
    state: State,
    channel: int,
    here: int,
    size: int,
    sign: float,
    most: float,
) -> float:
    """Return what it costs to add the flows to a channel (sign 1) or to take them off it (-1).

    Infinite where one may not be so full. ``here`` sends on the channel; what it sends to the destination does not meet
    what is moved, and is not counted where the channel is not the one that it takes (-1). Every flow that is added
    costs something, so the rest is not looked at once the sum is ``most``.
    """
    slow, dense, total = samples.slow[channel], len(samples.source), 0.0
    for j in range(size):
        k, flow = state.items[j], state.amount[j]
        load = state.load[channel, k] * 1.0
        others = load - state.own[here, k] if here >= 0 else load
        before = load * slow
        after = max(before + sign * flow * slow, 0.0)
        if sign > 0 and k < dense and after > terms.most[k]:
            return np.inf
        total += 2.0 * sign * terms.square[k] * slow * flow * others
        doublings = samples.doublings[k]
        total += terms.high[k] * (_power(after, doublings) - _power(before, doublings))
        if total >= most:
            break
    return total


@inner
def _best(
    samples: Samples,
    turns: Turns,
    bounds: Allowed,
    terms: Terms,
    state: State,
    dest: int,
    here: int,
    size: int,
    tick: int,
) -> tuple[int, float]:
    """Return the legal channel that gains most for what is behind a switch, and how much; -1 if none gains."""
    indptr, receiver = turns.order.indptr, turns.order.receiver
    home, now = samples.switch[dest], state.onward[here]
    if len(bounds.kept) and bounds.kept[here, home]:
        return -1, 0.0
    offers = 0
    for channel in range(indptr[here], indptr[here + 1]):
        there = receiver[channel]
        longer = bounds.hops[home, there] + 1 - bounds.hops[home, here]
        if channel == now or state.depth[there] < 0 or longer > bounds.detour:
            continue
        if not _is_barred(turns, bounds, state, here, home, channel):
            state.offer[offers] = channel
            offers += 1
    if not offers:
        return -1, 0.0
    length, at = 0, here
    state.saved[0] = 0.0
    while at != home:
        via = state.onward[at]
        state.position[at] = length
        state.saved[length + 1] = state.saved[length] + _cost(samples, terms, state, via, at, size, -1.0, np.inf)
        length += 1
        at = receiver[via]
    state.position[home] = length
    limit, tried, offers = -terms.least, offers, 0
    for channel in state.offer[:tried]:
        there, grows = receiver[channel], 1
        while state.position[there] < 0:
            there, grows = receiver[state.onward[there]], grows + 1
        meets = state.position[there]
        if meets == 0 or grows - meets > max(state.room[here], 0):
            continue
        total, via, sender, enough = 0.0, channel, -1, limit - state.saved[meets]
        while total < enough:  # what is added only grows on the way
            if state.stamp[via] != tick:
                state.added[via] = _cost(samples, terms, state, via, sender, size, 1.0, enough)
                state.stamp[via] = tick if state.added[via] < enough else 0  # else not all was looked at
            total += state.added[via]
            sender = receiver[via]
            if state.position[sender] >= 0:
                break
            via = state.onward[sender]
        total += state.saved[meets]
        if total < limit:
            state.offer[offers], state.gain[offers] = channel, total
            offers += 1
            if bounds.turns != AMENDED:  # it can be taken, so others must gain more
                limit = total
    at = here
    while at != home:
        state.position[at] = -1
        at = receiver[state.onward[at]]
    state.position[home] = -1
    while offers > 0:
        best = 0
        for j in range(1, offers):
            if state.gain[j] < state.gain[best]:
                best = j
        channel, gain = state.offer[best], state.gain[best]
        if _is_legal(turns, bounds, state, here, home, channel):
            return channel, -gain
        offers -= 1
        state.offer[best], state.gain[best] = state.offer[offers], state.gain[offers]
    return -1, 0.0


@inner
def _is_barred(turns: Turns, bounds: Allowed, state: State, here: int, home: int, channel: int) -> bool:
    """Whether a turn that a move brings is known to be illegal."""
    there = turns.order.receiver[channel]
    barred = there != home and _cannot_rise(turns, bounds, channel, state.onward[there])
    child = state.child[here]
    while child >= 0 and not barred:
        barred = _cannot_rise(turns, bounds, state.onward[child], channel)
        child = state.sibling[child]
    return bool(barred)


@inner
def _cannot_rise(turns: Turns, bounds: Allowed, x: int, y: int) -> bool:
    if bounds.turns == AMENDED:
        return bool(turns.state[x, y - turns.order.indptr[turns.order.sender[y]]] == CLOSED)
    return bool(bounds.turns == AS_THEY_ARE and turns.rank[x] > turns.rank[y])


@inner
def _is_legal(turns: Turns, bounds: Allowed, state: State, here: int, home: int, channel: int) -> bool:
    """Whether all turns that a move brings, none of them barred, can rise; those that can do so from now on."""
    if bounds.turns != AMENDED:
        return True
    there = turns.order.receiver[channel]
    legal = there == home or allow_turn(turns, channel, state.onward[there])
    child = state.child[here]
    while child >= 0 and legal:
        legal = allow_turn(turns, state.onward[child], channel)
        child = state.sibling[child]
    if not legal:
        # What was allowed for nothing is given up.
        if there != home:
            _give_up(turns, bounds, channel, state.onward[there])
        child = state.child[here]
        while child >= 0:
            _give_up(turns, bounds, state.onward[child], channel)
            child = state.sibling[child]
    return bool(legal)


@inner
def _give_up(turns: Turns, bounds: Allowed, x: int, y: int) -> None:
    """Give up a turn that nothing takes."""
    index = y - turns.order.indptr[turns.order.sender[y]]
    if bounds.used[x, index] == 0 and turns.state[x, index] == ALLOWED:
        turns.state[x, index] = UNKNOWN


@inner
def _count(turns: Turns, bounds: Allowed, state: State, here: int, home: int, channel: int, more: int) -> None:
    """Count a destination in the turns into a channel of a switch and out of it, or count it no more (-1)."""
    indptr, there = turns.order.indptr, turns.order.receiver[channel]
    if there != home:
        onward = state.onward[there]
        bounds.used[channel, onward - indptr[there]] += more
        _give_up(turns, bounds, channel, onward)
    child = state.child[here]
    while child >= 0:
        bounds.used[state.onward[child], channel - indptr[here]] += more
        _give_up(turns, bounds, state.onward[child], channel)
        child = state.sibling[child]


@inner
def _adopt(
    samples: Samples,
    turns: Turns,
    bounds: Allowed,
    state: State,
    next_hop: NextHops,
    dest: int,
    here: int,
    channel: int,
    size: int,
) -> None:
    """Move what is behind a switch."""
    indptr, receiver = turns.order.indptr, turns.order.receiver
    home = samples.switch[dest]
    _count(turns, bounds, state, here, home, channel, 1)
    _count(turns, bounds, state, here, home, state.onward[here], -1)
    for sign in (-1.0, 1.0):
        at = here
        while at != home:
            via = state.onward[at]
            for j in range(size):
                k = state.items[j]
                state.load[via, k] += sign * state.amount[j]
                left = state.own[at, k] + sign * state.amount[j]
                state.own[at, k] = left if left > 1e-6 * state.amount[j] else 0.0  # no rest of rounding
            at = receiver[via]
            state.room[here] -= np.int32(sign)
        if sign < 0:
            state.onward[here] = channel
            next_hop[samples.lid[dest], here] = channel - indptr[here]


@inner
def _hand_on(samples: Samples, turns: Turns, state: State, here: int) -> None:
    """Settle a switch: what is behind it is behind the next one on its way that is not settled."""
    receiver = turns.order.receiver
    there = receiver[state.onward[here]]
    state.sibling[here], state.child[there] = state.child[there], here
    state.settled[here] = True
    while state.settled[there]:
        there = receiver[state.onward[there]]
    state.room[there] = min(state.room[there], state.room[here])
    for u in range(len(samples.source)):
        state.dense[u, there] += state.dense[u, here]
    if state.head[here] >= 0:
        if state.head[there] < 0:
            state.head[there], state.tail[there] = state.head[here], state.tail[here]
        else:
            state.following[state.tail[here]] = state.head[there]
            state.head[there] = state.head[here]


@kernel
def reopen(turns: Turns) -> None:
    """Let turns be tried again that would have closed a loop: others may have been given up since."""
    for x in range(len(turns.state)):
        for w in range(turns.state.shape[1]):
            if turns.state[x, w] == CLOSED:
                turns.state[x, w] = UNKNOWN


@kernel
def allow_used(turns: Turns, used: Int32s) -> None:
    """Allow the turns that tables take. All of them rise in the ranks that there are."""
    for x in range(len(used)):
        for w in range(used.shape[1]):
            turns.state[x, w] = ALLOWED if used[x, w] > 0 else UNKNOWN
