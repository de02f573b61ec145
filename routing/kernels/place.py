"""Moves destinations one after the other to the legal channels where their flows meet the fewest others.

Flows that meet
---------------
Two flows *meet* when they share a channel, unless they go to the same destination. What slows a random matching of
hosts down is how many others a flow meets on its way, each counted once: if two flows share a channel and then the
next one too, they met once. So what a flow meets is the sum over its channels of the flows there, less those that came
along over the channel before. (The load of the most loaded channel alone says little about the average: Hoefler,
Schneider and Lumsdaine, Cluster 2008.)

Given everything else, the cheapest tree to a destination is found nearest switch first, each taking the way on which
it meets the fewest flows: Dijkstra's algorithm as in SSSP routing (Hoefler et al., HOTI 2009), but with the flows of
the destination itself taken away beforehand, repeatedly, and among legal channels only. That alone spreads the last
steps to a destination over many channels that its neighbours would want to themselves. So trees are tried too that
gather above the destination and descend in one line: from the switches where most flows turn downwards, those with the
fewest flows around.

Shifts
------
Consecutive hosts of a leaf often send to consecutive destinations at the same time. Destinations that stand near in the
order of placement therefore count extra on the first channel from each leaf.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from routing.kernels.legal import legal_choices

__all__ = ["Goals", "Net", "improve_placement"]

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ways = NDArray[np.uint8]

_NO_WAY = 255
"""As in the tables: at the target itself, and where no cable leads to it."""

_ASTRAY = 1e15
"""Cost of leaving the line of descent: far above all flows, so that only those leave it who must."""


class Net(NamedTuple):
    """Channels and sources; the first five as in `routing.channel_order.ChannelOrder`."""

    first: Int32s
    sender: Int32s
    receiver: Int32s
    rank: Int32s
    falling: Int32s
    top: int
    scale: Floats
    """(C,) the fastest rate over that of the channel."""
    sources: Floats
    """(S,) weight of the sources at each switch."""
    leaves: Int32s
    """Switches with hosts."""


class Goals(NamedTuple):
    """D destinations in the order in which they are placed."""

    switch: Int32s
    lid: Int32s
    weight: Floats
    window: int
    """Destinations before and after that stand near."""
    nearness: float
    """Extra weight of those."""


class _Tree(NamedTuple):
    """Legal paths to one switch (see `legal_choices`), and the way that each switch takes."""

    hops: Int32s
    order: Int32s
    start: Int32s
    choice: Int32s
    down: Bools
    """(S,) whether a switch has no way up."""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the target."""
    met: Floats
    """(S,) flows met by one that starts there."""
    flow: Floats
    """(S,) weight of the sources behind each switch, its own included."""
    clean: Bools
    """(S,) whether the way keeps to the line of descent."""


class _Traffic(NamedTuple):
    """What is placed."""

    load: Floats
    """(C,) flows."""
    joint: Floats
    """(C, W) those that go on over channel w of the receiver."""
    near: Floats
    """(C,) extra flows of destinations that stand near."""


@njit(cache=True, nogil=True)
def _meets(net: Net, traffic: _Traffic, channel: int, onward: int) -> float:
    """Flows met on a channel and not again on the one that follows."""
    flows = traffic.load[channel]
    if onward >= 0:
        flows -= traffic.joint[channel, onward - net.first[net.receiver[channel]]]
    return float(flows * net.scale[channel] + traffic.near[channel])


@njit(cache=True, nogil=True)
def _prepare(net: Net, tree: _Tree, target: int, scratch: Int32s) -> tuple[int, int]:
    """Find the legal paths to a target; return the switches there are, and how far most flows turn from it."""
    count = legal_choices(
        target, net.first, net.sender, net.receiver, net.rank, net.falling,
        tree.hops, tree.order, tree.start, tree.choice, scratch,
    )  # fmt: skip
    turn = scratch[0]
    turning = np.zeros(tree.hops[tree.order[count - 1]] + 1)
    tree.onward[target] = -1
    tree.met[target] = 0.0
    tree.down[target] = True
    tree.clean[target] = True
    turn[target] = 0
    for i in range(1, count):
        here = tree.order[i]
        channel = tree.choice[tree.start[i]]
        tree.down[here] = net.rank[channel] >= net.top
        turn[here] = tree.hops[here] if tree.down[here] else turn[net.receiver[channel]]
        if not tree.down[here]:
            turning[turn[here]] += net.sources[here]
    return count, int(np.argmax(turning))


@njit(cache=True, nogil=True)
def _gather(net: Net, tree: _Tree, traffic: _Traffic, count: int) -> float:
    """Sum the sources behind each switch; return the flows that they all meet."""
    for i in range(count):
        tree.flow[tree.order[i]] = net.sources[tree.order[i]]
    total = 0.0
    for i in range(count - 1, 0, -1):
        here = tree.order[i]
        channel = tree.onward[here]
        there = net.receiver[channel]
        tree.flow[there] += tree.flow[here]
        total += tree.flow[here] * _meets(net, traffic, channel, tree.onward[there])
    return total


@njit(cache=True, nogil=True)
def _add(net: Net, tree: _Tree, traffic: _Traffic, count: int, weight: float) -> None:
    """Add the flows of a gathered tree, or take them away when the weight is negative."""
    for i in range(1, count):
        here = tree.order[i]
        channel = tree.onward[here]
        there = net.receiver[channel]
        flows = tree.flow[here] * weight
        traffic.load[channel] += flows
        if tree.onward[there] >= 0:
            traffic.joint[channel, tree.onward[there] - net.first[there]] += flows


@njit(cache=True, nogil=True)
def _stand_near(net: Net, goals: Goals, way: Ways, near: Floats, goal: int, sign: float) -> None:
    """Add a destination to those that stand near, or take it away."""
    lid, extra = goals.lid[goal], sign * goals.weight[goal] * goals.nearness
    for here in net.leaves:
        if way[here, lid] != _NO_WAY:
            near[net.first[here] + way[here, lid]] += net.sources[here] * extra


@njit(cache=True, nogil=True)
def _choose_freely(net: Net, tree: _Tree, traffic: _Traffic, count: int) -> None:
    """Let each switch take the way on which it meets the fewest flows."""
    for i in range(1, count):
        here = tree.order[i]
        best, way = np.inf, -1
        for k in range(tree.start[i], tree.start[i + 1]):
            channel = tree.choice[k]
            there = net.receiver[channel]
            met = tree.met[there] + _meets(net, traffic, channel, tree.onward[there])
            if met < best:
                best, way = met, channel
        tree.met[here] = best
        tree.onward[here] = way


@njit(cache=True, nogil=True)
def _choose_in_line(net: Net, tree: _Tree, traffic: _Traffic, count: int, line: Bools) -> None:
    """Choose likewise, but keep to a line of descent wherever that is possible."""
    for i in range(1, count):
        here = tree.order[i]
        down = tree.down[here]
        clean = False
        for k in range(tree.start[i], tree.start[i + 1]):
            clean |= line[tree.choice[k]] if down else tree.clean[net.receiver[tree.choice[k]]]
        best, way = np.inf, -1
        for k in range(tree.start[i], tree.start[i + 1]):
            channel = tree.choice[k]
            there = net.receiver[channel]
            if clean and not (line[channel] if down else tree.clean[there]):
                continue
            met = tree.met[there] + _meets(net, traffic, channel, tree.onward[there])
            if down and not line[channel]:
                met += _ASTRAY
            if met < best:
                best, way = met, channel
        tree.met[here] = best
        tree.onward[here] = way
        tree.clean[here] = clean


@njit(cache=True, nogil=True)
def _rate_turns(net: Net, tree: _Tree, traffic: _Traffic, count: int, turn: int, rating: Floats) -> None:
    """Rate the switches where flows may turn downwards, `turn` hops from the target: by the flows above and below."""
    climbing, channels = np.zeros(len(rating)), np.zeros(len(rating))
    rating[:] = np.inf
    for i in range(1, count):
        here = tree.order[i]
        if tree.hops[here] == turn + 1 and not tree.down[here]:
            for k in range(tree.start[i], tree.start[i + 1]):
                channel = tree.choice[k]
                climbing[net.receiver[channel]] += traffic.load[channel] * net.scale[channel]
                channels[net.receiver[channel]] += 1
    for i in range(1, count):
        here = tree.order[i]
        if tree.hops[here] == turn and channels[here] > 0:
            rating[here] = tree.met[here] + climbing[here] / channels[here]


@njit(cache=True, nogil=True)
def _draw_line(net: Net, tree: _Tree, line: Bools, top: int, drawn: bool) -> None:
    """Mark the way from a switch down to the target, or wipe it out."""
    switch = top
    while tree.onward[switch] >= 0:
        line[tree.onward[switch]] = drawn
        switch = net.receiver[tree.onward[switch]]


@njit(cache=True, nogil=True)
def _take_ways(net: Net, tree: _Tree, way: Ways, lid: int, count: int) -> None:
    """Read the tree of a destination from the tables."""
    for i in range(1, count):
        here = tree.order[i]
        tree.onward[here] = net.first[here] + way[here, lid]


@njit(cache=True, nogil=True)
def improve_placement(net: Net, goals: Goals, rounds: int, lines: int, way: Ways) -> int:
    """Place every destination anew, in turn, where that makes its flows meet fewer others.

    Parameters
    ----------
    net, goals
    rounds : int
        How often each destination has its turn.
    lines : int
        Lines of descent that are tried for each.
    way : (S, T) uint8, in and out
        By switch and LID: which of its channels a switch takes. Legal ways for all destinations.

    Returns
    -------
    int
        Times that a destination was moved.
    """
    n, n_channels, n_goals = len(net.sources), len(net.receiver), len(goals.lid)
    tree = _Tree(
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n + 1, np.int32), np.empty(n_channels, np.int32),
        np.empty(n, np.bool_), np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n, np.bool_),
    )  # fmt: skip
    widest = 0
    for switch in range(n):
        widest = max(widest, net.first[switch + 1] - net.first[switch])
    traffic = _Traffic(np.zeros(n_channels), np.zeros((n_channels, widest)), np.zeros(n_channels))
    scratch = np.empty((4, n), np.int32)
    line = np.zeros(n_channels, np.bool_)
    rating = np.empty(n)
    kept = np.empty(n, np.int32)
    target = count = turn = -1
    for goal in range(n_goals):
        if goals.switch[goal] != target:
            target = goals.switch[goal]
            count, turn = _prepare(net, tree, target, scratch)
        _take_ways(net, tree, way, goals.lid[goal], count)
        _gather(net, tree, traffic, count)
        _add(net, tree, traffic, count, goals.weight[goal])
    moved = 0
    for _ in range(rounds):
        traffic.near[:] = 0.0
        for goal in range(min(goals.window, n_goals)):
            _stand_near(net, goals, way, traffic.near, goal, 1.0)
        for goal in range(n_goals):
            if goals.switch[goal] != target:
                target = goals.switch[goal]
                count, turn = _prepare(net, tree, target, scratch)
            if goal + goals.window < n_goals:
                _stand_near(net, goals, way, traffic.near, goal + goals.window, 1.0)
            if goal - goals.window > 0:
                _stand_near(net, goals, way, traffic.near, goal - goals.window - 1, -1.0)
            _stand_near(net, goals, way, traffic.near, goal, -1.0)
            lid, weight = goals.lid[goal], goals.weight[goal]
            _take_ways(net, tree, way, lid, count)
            _gather(net, tree, traffic, count)
            _add(net, tree, traffic, count, -weight)
            fewest = _gather(net, tree, traffic, count)
            kept[:] = tree.onward
            better = False
            for trial in range(1 + lines):
                top = -1
                if trial == 0:
                    _choose_freely(net, tree, traffic, count)
                else:
                    if trial == 1:
                        _rate_turns(net, tree, traffic, count, turn, rating)
                    top = int(np.argmin(rating))
                    if rating[top] == np.inf:
                        break
                    rating[top] = np.inf
                    _draw_line(net, tree, line, top, True)
                    _choose_in_line(net, tree, traffic, count, line)
                    _draw_line(net, tree, line, top, False)
                total = _gather(net, tree, traffic, count)
                if total < fewest:
                    fewest = total
                    kept[:] = tree.onward
                    better = True
            tree.onward[:] = kept
            _gather(net, tree, traffic, count)
            _add(net, tree, traffic, count, weight)
            if better:
                moved += 1
                for i in range(1, count):
                    here = tree.order[i]
                    way[here, lid] = tree.onward[here] - net.first[here]
            _stand_near(net, goals, way, traffic.near, goal, 1.0)
    return moved
