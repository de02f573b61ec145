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

from routing.machine_code import inlined, inner, kernel
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
    rail: Int32s
    """(D,) which of the G rows of `source` is of each destination."""
    source: Floats
    """(U, G, S) weight of the sources at each switch."""
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
    met: Floats
    """(K,) sum over channels and destinations of the square of what goes to one destination alone, as Q has it."""
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
    unit: Floats
    """(U,) the least flow of each dense sample."""
    adds: Floats
    """(C, U) what each flow of a dense sample costs on a channel, at least, and in `takes`, what it saves there, at
    most: by the flow, as convex functions have it, from what `unit` costs and saves."""
    takes: Floats
    slope: Floats
    """(C, U) what the next flow would cost, were it infinitely small: between the two."""
    way: Floats
    """(S, U) sum of `slope` on the path of each switch, without what flows to the same destination add to it, where
    `summed` says that it is known: as it was when first asked for, whatever moves to this destination since."""
    summed: Bools
    offer: Int32s
    """(W,) channels that may gain, and `gain`, how much: at most, and exactly where `sure`."""
    gain: Floats
    sure: Bools


def new_state(samples: Samples, count: int, channels: int, widest: int) -> State:
    """Return what the kernels work in, for a number of samples; ``widest`` is the most channels of a switch."""
    n, k = samples.source.shape[2], count
    longest = int(np.diff(samples.indptr).max(initial=0))
    return State(
        load=np.zeros((channels, k), np.float32),
        met=np.zeros(k),
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
        unit=np.array([_least(samples.source[u]) * _least(samples.weight[u]) for u in range(len(samples.source))]),
        adds=np.empty((channels, len(samples.source))),
        takes=np.empty((channels, len(samples.source))),
        slope=np.empty((channels, len(samples.source))),
        way=np.zeros((n, len(samples.source))),
        summed=np.empty(n, np.bool_),
        offer=np.empty(widest, np.int32),
        gain=np.empty(widest),
        sure=np.empty(widest, np.bool_),
    )


def _least(weights: Floats) -> float:
    """Return the least weight that is not 0; 1 where there is none."""
    return float(weights.min(where=weights > 0, initial=np.inf)) if weights.any() else 1.0


@inlined
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


@inlined
def _sum_listed(samples: Samples, turns: Turns, state: State, dest: int) -> None:
    """Sum what each sample that lists its flows sends to a destination over each switch."""
    receiver, own, home = turns.order.receiver, state.own, samples.switch[dest]
    for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
        here = samples.sender[i]
        if state.depth[here] >= 0:
            while here != home:
                own[here, samples.sample[i]] += samples.flow[i]
                here = receiver[state.onward[here]]


@inlined
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
def add_up_loads(
    samples: Samples, turns: Turns, used: Int32s, state: State, next_hop: NextHops, dests: Int64s, sign: int
) -> int:
    """Add the loads of tables to some destinations to those that there are, or take them away.

    Parameters
    ----------
    used : (C, W) int32, in and out
        Destinations whose tree takes each turn.
    next_hop : (T, S) uint8
        Index of the channel that each switch takes among its own, by LID.
    dests : (n,) int64
    sign : int
        1, or -1 to take them away.

    Returns
    -------
    int
        Pairs of a switch and one of these destinations without a path.
    """
    indptr, receiver, own, load = turns.order.indptr, turns.order.receiver, state.own, state.load
    missing, dense = 0, len(samples.source)
    for dest in dests:
        count = recall(samples, turns, state, next_hop, dest)
        missing += len(state.depth) - count
        home = samples.switch[dest]
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            channel = state.onward[here]
            there = receiver[channel]
            if there != home:
                used[channel, state.onward[there] - indptr[there]] += sign
            for u in range(dense):
                own[here, u] += samples.source[u, samples.rail[dest], here] * samples.weight[u, dest]
                flow, own[here, u] = own[here, u], 0.0
                own[there, u] += flow
                load[channel, u] += sign * flow
                state.met[u] += sign * samples.slow[channel] * flow * flow
        own[home, :dense] = 0.0
        _sum_listed(samples, turns, state, dest)
        for i in range(samples.indptr[dest], samples.indptr[dest + 1]):
            here, k = samples.sender[i], samples.sample[i]
            if state.depth[here] >= 0:
                while here != home and own[here, k] > 0.0:
                    channel, flow = state.onward[here], own[here, k]
                    load[channel, k] += sign * flow
                    state.met[k] += sign * samples.slow[channel] * flow * flow
                    own[here, k] = 0.0
                    here = receiver[channel]
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
            flow = state.own[here, 0] + samples.source[0, samples.rail[dest], here] * samples.weight[0, dest]
            if there != samples.switch[dest]:
                flows[channel, state.onward[there] - indptr[there]] += flow
                state.own[there, 0] += np.float32(flow)
            state.own[here, 0] = 0.0


@kernel
def find_crowds(samples: Samples, turns: Turns, state: State, load: Floats, next_hop: NextHops, crowd: Floats) -> None:
    """Return in (D,) ``crowd`` the fullest channel, by its (C,) load, that all pairs take to each destination."""
    indptr, receiver, seen = turns.order.indptr, turns.order.receiver, state.settled
    for dest in range(len(samples.lid)):
        lid = samples.lid[dest]
        crowd[dest], seen[:], seen[samples.switch[dest]] = 0.0, False, True
        for source in range(len(seen)):
            here = source
            while (
                samples.source[0, samples.rail[dest], source] > 0.0
                and not seen[here]
                and next_hop[lid, here] != NO_PATH
            ):
                seen[here] = True
                channel = indptr[here] + next_hop[lid, here]
                crowd[dest] = max(crowd[dest], load[channel])
                here = receiver[channel]


@kernel
def sum_terms(samples: Samples, state: State, square: Floats, high: Floats) -> None:
    """Return Q and P of each sample in ``square`` and ``high``, from its loads."""
    for k in range(len(square)):
        square[k], high[k] = -state.met[k], 0.0
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
    moves, gained = 0, 0.0
    for channel in range(len(state.load)):
        _weigh(samples, terms, state, channel)
    for dest in dests:
        count = recall(samples, turns, state, next_hop, dest)
        _begin(samples, turns, bounds, state, dest, count)
        home = samples.switch[dest]
        state.summed[:] = False
        state.way[home], state.summed[home] = 0.0, True
        for i in range(count - 1, 0, -1):
            here = state.nearest[i]
            size = _gather(samples, state, dest, here)
            if turns.order.indptr[here + 1] - turns.order.indptr[here] > 1:
                best, gain = _best(samples, turns, bounds, terms, state, dest, here, size)
                if best >= 0:
                    _adopt(samples, turns, bounds, terms, state, next_hop, dest, here, best, size)
                    moves += 1
                    gained += gain
            for j in range(size):
                state.place[state.items[j]] = -1
            _hand_on(samples, turns, state, here)
        _clear_own(samples, turns, state, dest, count)
    return moves, gained


@inlined
def _begin(samples: Samples, turns: Turns, bounds: Allowed, state: State, dest: int, count: int) -> None:
    """Lay the flows to a destination on the switches that they begin at."""
    home, first = samples.switch[dest], samples.indptr[dest]
    for i in range(count - 1, 0, -1):
        here = state.nearest[i]
        for u in range(len(samples.source)):
            state.own[here, u] += samples.source[u, samples.rail[dest], here] * samples.weight[u, dest]
            state.own[turns.order.receiver[state.onward[here]], u] += state.own[here, u]
    _sum_listed(samples, turns, state, dest)
    state.settled[:], state.head[:], state.child[:] = False, -1, -1
    for here in range(len(state.depth)):
        state.room[here] = bounds.hops[home, here] + bounds.detour - state.depth[here]
        for u in range(len(samples.source)):
            state.dense[u, here] = samples.source[u, samples.rail[dest], here] * samples.weight[u, dest]
    for i in range(samples.indptr[dest + 1] - first):
        here = samples.sender[first + i]
        state.following[i] = state.head[here]
        if state.head[here] < 0:
            state.tail[here] = i
        state.head[here] = i


@inlined
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


@inlined
def _power(x: float, doublings: int) -> float:
    """Return x to the power of 2^doublings."""
    if doublings == DOUBLINGS:  # written out, since a loop of unknown length costs several times as much
        x *= x
        x *= x
        return x * x
    for _ in range(doublings):
        x *= x
    return x


@inlined
def _weigh(samples: Samples, terms: Terms, state: State, channel: int) -> None:
    """Note what flows of dense samples cost and save on a channel."""
    slow = samples.slow[channel]
    for u in range(len(samples.source)):
        load, unit, doublings = state.load[channel, u] * 1.0, state.unit[u], samples.doublings[u]
        now, met = _power(load * slow, doublings), 2.0 * terms.square[u] * slow * load
        state.adds[channel, u] = met + terms.high[u] / unit * (_power((load + unit) * slow, doublings) - now)
        less = _power(max(load - unit, 0.0) * slow, doublings)
        state.takes[channel, u] = met + terms.high[u] / unit * (now - less)
        state.slope[channel, u] = met
        if load > 0.0:
            state.slope[channel, u] += terms.high[u] * 2.0**doublings * now / load


@inlined
def _sum_way(samples: Samples, turns: Turns, terms: Terms, state: State, here: int) -> None:
    """Sum what flows of dense samples cost from a switch to the destination."""
    receiver, length, at = turns.order.receiver, 0, here
    while not state.summed[at]:
        state.slot[length] = at
        length += 1
        at = receiver[state.onward[at]]
    for i in range(length - 1, -1, -1):
        at = state.slot[i]
        via = state.onward[at]
        there = receiver[via]
        for u in range(len(samples.source)):
            met = 2.0 * terms.square[u] * samples.slow[via] * state.own[at, u]
            state.way[at, u] = state.way[there, u] + state.slope[via, u] - met
        state.summed[at] = True


@inlined
def _promises(
    samples: Samples, turns: Turns, bounds: Allowed, terms: Terms, state: State, home: int, here: int, size: int
) -> int:
    """Note in ``state.offer`` the channels that may gain; return how many.

    What listed samples save on each channel of the old path is noted in ``state.saved``, from 1 on.
    Dense samples save at most what `takes` says of the channel that is left and `slope` of the rest of both ways: what
    these share cancels out. The others save at most what they cost on the old path beyond an empty one.
    """
    indptr, receiver, now, slow = turns.order.indptr, turns.order.receiver, state.onward[here], samples.slow
    dense, bound = 0, -terms.least
    _sum_way(samples, turns, terms, state, receiver[now])
    while dense < size and state.items[dense] < len(samples.source):
        u = state.items[dense]
        met = 2.0 * terms.square[u] * slow[now] * state.own[here, u]
        bound += state.amount[dense] * (state.takes[now, u] - met + state.way[receiver[now], u])
        dense += 1
    length, at = 0, here
    while at != home:
        total = 0.0
        for j in range(dense, size):
            total += _saved(samples, terms, state, state.onward[at], at, j)
        state.saved[length + 1], bound = total, bound + total
        length, at = length + 1, receiver[state.onward[at]]
    shortest = bounds.hops[home, here]
    for j in range(dense, size):
        k = state.items[j]
        bound -= shortest * terms.high[k] * _power(state.amount[j], samples.doublings[k])
    if bound <= 0.0:
        return 0
    offers = 0
    for channel in range(indptr[here], indptr[here + 1]):
        there, total = receiver[channel], 0.0
        if channel == now or state.depth[there] < 0 or bounds.hops[home, there] + 1 - shortest > bounds.detour:
            continue
        _sum_way(samples, turns, terms, state, there)
        for j in range(dense):
            u = state.items[j]
            total += state.amount[j] * (state.adds[channel, u] + state.way[there, u])
        if total < bound and not _is_barred(turns, bounds, state, here, home, channel):
            state.offer[offers], state.gain[offers], state.sure[offers] = channel, bound + terms.least - total, False
            offers += 1
    return offers


@inlined
def _saved(samples: Samples, terms: Terms, state: State, channel: int, here: int, j: int) -> float:
    """Return what it saves to take the flow of a sample, the j-th of those that are moved, off the channel it takes."""
    k, flow, slow = state.items[j], state.amount[j], samples.slow[channel]
    load, doublings = state.load[channel, k] * 1.0, samples.doublings[k]
    before, after = _power(load * slow, doublings), _power(max(load - flow, 0.0) * slow, doublings)
    met = 2.0 * terms.square[k] * slow * flow * (load - state.own[here, k])
    return float(met + terms.high[k] * (before - after))


@inlined
def _added(samples: Samples, terms: Terms, state: State, channel: int, here: int, size: int, most: float) -> float:
    """Return what it costs to add the flows to a channel.

    Infinite where one may not be so full. ``here`` sends on the channel; what it sends to the destination does not meet
    what is moved, and is not counted where the channel is not the one that it takes (-1). Every flow that is added
    costs something, so the rest is not looked at once the sum is ``most``.
    """
    slow, dense, total = samples.slow[channel], len(samples.source), 0.0
    for j in range(size):
        k, flow = state.items[j], state.amount[j]
        load = state.load[channel, k] * 1.0
        others = load - state.own[here, k] if here >= 0 else load
        after = (load + flow) * slow
        if k < dense and after > terms.most[k]:
            return np.inf
        doublings = samples.doublings[k]
        total += 2.0 * terms.square[k] * slow * flow * others
        total += terms.high[k] * (_power(after, doublings) - _power(load * slow, doublings))
        if total >= most:
            break
    return total


@inlined
def _best(
    samples: Samples,
    turns: Turns,
    bounds: Allowed,
    terms: Terms,
    state: State,
    dest: int,
    here: int,
    size: int,
) -> tuple[int, float]:
    """Return the legal channel that gains most for what is behind a switch, and how much; -1 if none gains."""
    receiver, home = turns.order.receiver, samples.switch[dest]
    if len(bounds.kept) and bounds.kept[here, home]:
        return -1, 0.0
    offers = _promises(samples, turns, bounds, terms, state, home, here, size)
    if not offers:
        return -1, 0.0
    length, at = 0, here
    state.saved[0] = 0.0
    while at != home:
        via, total = state.onward[at], state.saved[length] + state.saved[length + 1]
        state.position[at] = length
        for j in range(size):
            if state.items[j] >= len(samples.source):
                break
            total += _saved(samples, terms, state, via, at, j)
        state.saved[length + 1] = total
        length += 1
        at = receiver[via]
    state.position[home] = length
    found = -1
    while offers > 0 and found < 0:
        best = 0
        for j in range(1, offers):
            if state.gain[j] > state.gain[best]:
                best = j
        channel, dropped = state.offer[best], False
        if state.sure[best]:
            dropped = not _is_legal(turns, bounds, state, here, home, channel)
            found = -1 if dropped else best
        else:
            state.gain[best] = _gain(samples, turns, bounds, terms, state, here, channel, size)
            state.sure[best], dropped = True, state.gain[best] <= terms.least
        if dropped:
            offers -= 1
            state.offer[best], state.gain[best] = state.offer[offers], state.gain[offers]
            state.sure[best] = state.sure[offers]
    at = here
    while at != home:
        state.position[at] = -1
        at = receiver[state.onward[at]]
    state.position[home] = -1
    return (state.offer[found], state.gain[found]) if found >= 0 else (-1, 0.0)


@inlined
def _gain(
    samples: Samples, turns: Turns, bounds: Allowed, terms: Terms, state: State, here: int, channel: int, size: int
) -> float:
    """Return what it gains to move all that is behind a switch to a channel; 0 where paths would get too long."""
    receiver = turns.order.receiver
    there, grows = receiver[channel], 1
    while state.position[there] < 0:
        there, grows = receiver[state.onward[there]], grows + 1
    meets = state.position[there]
    if meets == 0 or grows - meets > max(state.room[here], 0):
        return 0.0
    left, via, sender = state.saved[meets] - terms.least, channel, -1
    while left > 0.0:  # what is added only grows on the way
        left -= _added(samples, terms, state, via, sender, size, left)
        sender = receiver[via]
        if state.position[sender] >= 0:
            break
        via = state.onward[sender]
    return float(left + terms.least) if left > 0.0 else 0.0


@inlined
def _is_barred(turns: Turns, bounds: Allowed, state: State, here: int, home: int, channel: int) -> bool:
    """Whether a turn that a move brings is known to be illegal."""
    there = turns.order.receiver[channel]
    barred = there != home and _cannot_rise(turns, bounds, channel, state.onward[there])
    child = state.child[here]
    while child >= 0 and not barred:
        barred = _cannot_rise(turns, bounds, state.onward[child], channel)
        child = state.sibling[child]
    return bool(barred)


@inlined
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
    terms: Terms,
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
                own = state.own[at, k] * 1.0
                left = own + sign * state.amount[j]
                left = left if left > 1e-6 * state.amount[j] else 0.0  # no rest of rounding
                state.met[k] += samples.slow[via] * (left * left - own * own)
                state.own[at, k] = left
            _weigh(samples, terms, state, via)
            at = receiver[via]
            state.room[here] -= np.int32(sign)
        if sign < 0:
            state.onward[here] = channel
            next_hop[samples.lid[dest], here] = channel - indptr[here]


@inlined
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
