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
    """Channels and sources; the first seven as in `routing.channel_order.ChannelOrder`."""

    first: Int32s
    sender: Int32s
    receiver: Int32s
    reverse: Int32s
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
    segment: Int32s
    """(R + 1,) the destinations of role i are ``segment[i]`` to ``segment[i + 1] - 1``."""
    kinship: float
    """Extra weight of flows to the role that is placed."""


class _Tree(NamedTuple):
    """Legal paths to one switch (see `legal_choices`), and the way that each switch takes."""

    hops: Int32s
    order: Int32s
    choice: Int32s
    ways: Int32s
    entry: Int32s
    """(C,) the same choices by receiver: reverses of the channels over which switch s may be entered, from
    ``entry[first[s]]`` on."""
    entries: Int32s
    """(S,) how many those are."""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the target."""
    met: Floats
    """(S,) flows met by one that starts there."""
    flow: Floats
    """(S,) weight of the sources behind each switch, its own included."""


class _Traffic(NamedTuple):
    """What is placed. Rows are by reverse channel, so that those into one switch stand together."""

    price: Floats
    """(C,) flows, slow channels scaled up, and extra ones of destinations that stand near."""
    joint: Floats
    """(C, W) of the flows that a channel carries on, scaled: those that came in over the reverse of channel w."""


@njit(cache=True, nogil=True)
def _find(net: Net, tree: _Tree, target: int, scratch: Int32s) -> int:
    """Find the legal paths to a target; return how many switches have one."""
    count = legal_choices(
        target, net.first, net.sender, net.receiver, net.reverse, net.rank, net.falling, net.run,
        tree.hops, tree.order, tree.choice, tree.ways, scratch,
    )  # fmt: skip
    tree.entries[:] = 0
    for i in range(1, count):
        here = tree.order[i]
        for k in range(net.first[here], net.first[here] + tree.ways[here]):
            there = net.receiver[tree.choice[k]]
            tree.entry[net.first[there] + tree.entries[there]] = net.reverse[tree.choice[k]]
            tree.entries[there] += 1
    tree.onward[target] = -1
    return count


@njit(cache=True, nogil=True)
def _sum_flows(net: Net, tree: _Tree, count: int) -> None:
    """Sum the sources behind each switch."""
    for i in range(count):
        tree.flow[tree.order[i]] = net.sources[tree.order[i]]
    for i in range(count - 1, 0, -1):
        here = tree.order[i]
        tree.flow[net.receiver[tree.onward[here]]] += tree.flow[here]


@njit(cache=True, nogil=True)
def _recall(net: Net, goals: Goals, tree: _Tree, way: Ways, goal: int, count: int, scratch: Int32s) -> int:
    """Take the tree of a destination from the tables, and sum its flows; return how many switches are in it."""
    target, lid = goals.switch[goal], goals.lid[goal]
    if count == 0 or tree.order[0] != target:
        count = _find(net, tree, target, scratch)
    for i in range(1, count):
        here = tree.order[i]
        tree.onward[here] = net.first[here] + way[here, lid]
    _sum_flows(net, tree, count)
    return count


@njit(cache=True, nogil=True)
def _add(net: Net, tree: _Tree, traffic: _Traffic, count: int, weight: float, extra: float) -> None:
    """Add a destination's flows, or with a negative weight take them away; the extra weight counts for prices only."""
    for i in range(1, count):
        here = tree.order[i]
        channel = tree.onward[here]
        there, back = net.receiver[channel], net.reverse[channel]
        flows = tree.flow[here] * weight * net.scale[channel]
        traffic.price[back] += flows + tree.flow[here] * extra * net.scale[channel]
        if tree.onward[there] >= 0:
            traffic.joint[tree.onward[there], back - net.first[there]] += flows


@njit(cache=True, nogil=True)
def _met(net: Net, tree: _Tree, traffic: _Traffic, count: int) -> float:
    """Flows that all sources of a tree meet."""
    total = 0.0
    for i in range(1, count):
        here = tree.order[i]
        channel = tree.onward[here]
        there, back = net.receiver[channel], net.reverse[channel]
        flows = traffic.price[back]
        if tree.onward[there] >= 0:
            flows -= traffic.joint[tree.onward[there], back - net.first[there]]
        total += tree.flow[here] * flows
    return total


@njit(cache=True, nogil=True)
def _choose(net: Net, tree: _Tree, traffic: _Traffic, count: int, old: Int32s) -> float:
    """Let each switch take the way on which it meets the fewest flows, its old one if that is as good.

    Returns the flows that all sources meet.
    """
    for i in range(1, count):
        tree.met[tree.order[i]] = np.inf
    tree.met[tree.order[0]] = 0.0
    total = 0.0
    for i in range(count):
        there = tree.order[i]
        before = net.first[there]
        onward = tree.onward[there]
        total += net.sources[there] * tree.met[there]
        for k in range(before, before + tree.entries[there]):
            back = tree.entry[k]
            here = net.receiver[back]
            met = tree.met[there] + traffic.price[back]
            if onward >= 0:
                met -= traffic.joint[onward, back - before]
            if met < tree.met[here]:
                tree.met[here] = met
                tree.onward[here] = net.reverse[back]
            elif met == tree.met[here] and net.reverse[back] == old[here]:
                tree.onward[here] = net.reverse[back]
    return total


@njit(cache=True, nogil=True)
def _stand_near(net: Net, goals: Goals, way: Ways, price: Floats, goal: int, sign: float) -> None:
    """Add a destination to those that stand near, or take it away."""
    lid, extra = goals.lid[goal], sign * goals.weight[goal] * goals.nearness
    for here in net.leaves:
        if way[here, lid] != _NO_WAY:
            price[net.reverse[net.first[here] + way[here, lid]]] += net.sources[here] * extra


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
        np.empty(n_channels, np.int32), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n), np.empty(n),
    )  # fmt: skip
    widest = 0
    for switch in range(n):
        widest = max(widest, net.first[switch + 1] - net.first[switch])
    traffic = _Traffic(np.zeros(n_channels), np.zeros((n_channels, widest)))
    scratch = np.empty((5, n), np.int32)
    count = 0
    for goal in range(n_goals):
        count = _recall(net, goals, tree, way, goal, count, scratch)
        _add(net, tree, traffic, count, goals.weight[goal], 0.0)
    moved = 0
    for _ in range(rounds):
        for role in range(len(goals.segment) - 1):
            moved += _place_role(net, goals, tree, traffic, way, goals.segment[role], goals.segment[role + 1], scratch)
    return moved


@njit(cache=True, nogil=True)
def _place_role(
    net: Net, goals: Goals, tree: _Tree, traffic: _Traffic, way: Ways, begin: int, end: int, scratch: Int32s
) -> int:
    """Place the destinations of one role, and return how often one was moved."""
    old = np.empty(len(net.sources), np.int32)
    count, moved = 0, 0
    for goal in range(begin, end):
        count = _recall(net, goals, tree, way, goal, count, scratch)
        _add(net, tree, traffic, count, 0.0, goals.weight[goal] * goals.kinship)
    for goal in range(begin, min(begin + goals.window, end)):
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(begin, end):
        lid, weight, extra = goals.lid[goal], goals.weight[goal], goals.weight[goal] * goals.kinship
        if goal + goals.window < end:
            _stand_near(net, goals, way, traffic.price, goal + goals.window, 1.0)
        if goal - goals.window > begin:
            _stand_near(net, goals, way, traffic.price, goal - goals.window - 1, -1.0)
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
        count = _recall(net, goals, tree, way, goal, count, scratch)
        _add(net, tree, traffic, count, -weight, -extra)
        before = _met(net, tree, traffic, count)
        old[:] = tree.onward
        if _choose(net, tree, traffic, count, old) < before:
            moved += 1
            for i in range(1, count):
                here = tree.order[i]
                way[here, lid] = tree.onward[here] - net.first[here]
            _sum_flows(net, tree, count)
        else:
            tree.onward[:] = old
        _add(net, tree, traffic, count, weight, extra)
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(max(end - goals.window - 1, begin), end):
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
    for goal in range(begin, end):
        count = _recall(net, goals, tree, way, goal, count, scratch)
        _add(net, tree, traffic, count, 0.0, -goals.weight[goal] * goals.kinship)
    return moved
