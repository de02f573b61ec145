"""Moves destinations one after the other to the legal channels where their flows meet the fewest others.

Flows that meet
---------------
Two flows *meet* when they share a channel, unless they go to the same destination. What slows a random matching of
hosts down is how many others a flow meets on its way, each counted once: if two flows share a channel and then the
next one too, they met once. So what a flow meets is the sum over its channels of the flows there, less those that go on
with it. (The load of the most loaded channel alone says little about the average: Hoefler, Schneider and Lumsdaine,
Cluster 2008.)

Given everything else, the best tree to a destination is found nearest switch first, each taking the way on which it
meets the fewest flows. That is Dijkstra's algorithm as in SSSP routing (Hoefler et al., HOTI 2009), but among legal
channels only, with the destination's own flows taken away beforehand, and repeatedly, from a start that is good
already: SSSP places each destination once, and what comes first cannot know what will come later.

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
Ways = NDArray[np.uint8]

_NO_WAY = 255
"""As in the tables: at the target itself, and where no cable leads to it."""


class Net(NamedTuple):
    """Channels and sources; the first six as in `routing.channel_order.ChannelOrder`."""

    first: Int32s
    sender: Int32s
    receiver: Int32s
    rank: Int32s
    falling: Int32s
    run: Int32s
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
    choice: Int32s
    ways: Int32s
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the target."""
    met: Floats
    """(S,) flows met by one that starts there."""
    flow: Floats
    """(S,) weight of the sources behind each switch, its own included."""


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
def _find(net: Net, tree: _Tree, target: int, scratch: Int32s) -> int:
    """Find the legal paths to a target; return how many switches have one."""
    tree.onward[target] = -1
    tree.met[target] = 0.0
    return legal_choices(
        target, net.first, net.sender, net.receiver, net.rank, net.falling, net.run,
        tree.hops, tree.order, tree.choice, tree.ways, scratch,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _recall(net: Net, tree: _Tree, way: Ways, lid: int, count: int) -> None:
    """Take the tree of a destination from the tables."""
    for i in range(1, count):
        here = tree.order[i]
        tree.onward[here] = net.first[here] + way[here, lid]


@njit(cache=True, nogil=True)
def _choose(net: Net, tree: _Tree, traffic: _Traffic, count: int) -> None:
    """Let each switch take the way on which it meets the fewest flows."""
    for i in range(1, count):
        here = tree.order[i]
        best, way = np.inf, -1
        for k in range(net.first[here], net.first[here] + tree.ways[here]):
            channel = tree.choice[k]
            there = net.receiver[channel]
            met = tree.met[there] + _meets(net, traffic, channel, tree.onward[there])
            if met < best:
                best, way = met, channel
        tree.met[here] = best
        tree.onward[here] = way


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
    if 0 <= goal < len(goals.lid):
        lid, extra = goals.lid[goal], sign * goals.weight[goal] * goals.nearness
        for here in net.leaves:
            if way[here, lid] != _NO_WAY:
                near[net.first[here] + way[here, lid]] += net.sources[here] * extra


@njit(cache=True, nogil=True)
def improve_placement(net: Net, goals: Goals, rounds: int, way: Ways) -> int:
    """Place every destination anew, in turn, where that makes its flows meet fewer others.

    Parameters
    ----------
    net, goals
    rounds : int
        How often each destination has its turn.
    way : (S, T) uint8, in and out
        By switch and LID: which of its channels a switch takes. Legal ways for all destinations.

    Returns
    -------
    int
        Times that a destination was moved.
    """
    n, n_channels, n_goals = len(net.sources), len(net.receiver), len(goals.lid)
    tree = _Tree(
        np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n_channels, np.int32), np.empty(n, np.int32),
        np.empty(n, np.int32), np.empty(n), np.empty(n),
    )  # fmt: skip
    widest = 0
    for switch in range(n):
        widest = max(widest, net.first[switch + 1] - net.first[switch])
    traffic = _Traffic(np.zeros(n_channels), np.zeros((n_channels, widest)), np.zeros(n_channels))
    scratch = np.empty((4, n), np.int32)
    kept = np.empty(n, np.int32)
    target = count = -1
    for goal in range(n_goals):
        if goals.switch[goal] != target:
            target = goals.switch[goal]
            count = _find(net, tree, target, scratch)
        _recall(net, tree, way, goals.lid[goal], count)
        _gather(net, tree, traffic, count)
        _add(net, tree, traffic, count, goals.weight[goal])
    moved = 0
    for _ in range(rounds):
        traffic.near[:] = 0.0
        for goal in range(goals.window):
            _stand_near(net, goals, way, traffic.near, goal, 1.0)
        for goal in range(n_goals):
            if goals.switch[goal] != target:
                target = goals.switch[goal]
                count = _find(net, tree, target, scratch)
            _stand_near(net, goals, way, traffic.near, goal + goals.window, 1.0)
            _stand_near(net, goals, way, traffic.near, goal - goals.window - 1, -1.0)
            _stand_near(net, goals, way, traffic.near, goal, -1.0)
            lid, weight = goals.lid[goal], goals.weight[goal]
            _recall(net, tree, way, lid, count)
            _gather(net, tree, traffic, count)
            _add(net, tree, traffic, count, -weight)
            before = _gather(net, tree, traffic, count)
            kept[:] = tree.onward
            _choose(net, tree, traffic, count)
            if _gather(net, tree, traffic, count) < before:
                moved += 1
                for i in range(1, count):
                    here = tree.order[i]
                    way[here, lid] = tree.onward[here] - net.first[here]
            else:
                tree.onward[:] = kept
                _gather(net, tree, traffic, count)
            _add(net, tree, traffic, count, weight)
            _stand_near(net, goals, way, traffic.near, goal, 1.0)
    return moved
