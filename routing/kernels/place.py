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
from routing.kernels.traffic import (
    NO_WAY,
    Goals,
    Net,
    Traffic,
    Tree,
    add_flows,
    empty_tree,
    recall_tree,
    sum_flows,
    sum_traffic,
)

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Ways = NDArray[np.uint8]


class Legal(NamedTuple):
    """All legal ways to one switch (see `legal_choices`), and the best tree among them."""

    known: Int32s
    """(2,) the switch, and how many have a way to it."""
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
    """(S,) channel of the best tree."""
    met: Floats
    """(S,) flows met by one that starts there and takes it."""
    scratch: Int32s
    """(6, S)."""


@njit(cache=True, nogil=True)
def _empty_legal(net: Net) -> Legal:
    n, n_channels = len(net.sources), len(net.receiver)
    return Legal(
        known=np.full(2, -1, np.int32),
        hops=np.empty(n, np.int32),
        order=np.empty(n, np.int32),
        choice=np.empty(n_channels, np.int32),
        ways=np.empty(n, np.int32),
        entry=np.empty(n_channels, np.int32),
        entries=np.empty(n, np.int32),
        onward=np.empty(n, np.int32),
        met=np.empty(n),
        scratch=np.empty((6, n), np.int32),
    )


@njit(cache=True, nogil=True)
def _find(net: Net, legal: Legal, target: int) -> None:
    """Find the legal ways to a switch, unless they are known."""
    if legal.known[0] == target:
        return
    count = legal_choices(
        target, net.first, net.sender, net.receiver, net.reverse, net.rank, net.falling, net.run,
        legal.hops, legal.order, legal.choice, legal.ways, legal.scratch,
    )  # fmt: skip
    legal.entries[:] = 0
    for i in range(1, count):
        here = legal.order[i]
        for k in range(net.first[here], net.first[here] + legal.ways[here]):
            there = net.receiver[legal.choice[k]]
            legal.entry[net.first[there] + legal.entries[there]] = net.reverse[legal.choice[k]]
            legal.entries[there] += 1
    legal.known[0], legal.known[1] = target, count


@njit(cache=True, nogil=True)
def _met(net: Net, tree: Tree, traffic: Traffic) -> float:
    """Flows that all sources of a tree meet."""
    total = 0.0
    for i in range(1, tree.size[0]):
        here = tree.order[i]
        channel = tree.onward[here]
        there, back = net.receiver[channel], net.reverse[channel]
        flows = traffic.price[back]
        if tree.onward[there] >= 0:
            flows -= traffic.joint[tree.onward[there], back - net.first[there]]
        total += tree.flow[here] * flows
    return total


@njit(cache=True, nogil=True)
def _choose(net: Net, legal: Legal, tree: Tree, traffic: Traffic) -> float:
    """Let each switch take the legal way on which it meets the fewest flows, its old one if that is as good.

    Returns the flows that all sources meet.
    """
    for i in range(1, legal.known[1]):
        legal.met[legal.order[i]] = np.inf
    target = legal.known[0]
    legal.met[target] = 0.0
    legal.onward[target] = -1
    total = 0.0
    for i in range(legal.known[1]):
        there = legal.order[i]
        before = net.first[there]
        onward = legal.onward[there]
        total += net.sources[there] * legal.met[there]
        for k in range(before, before + legal.entries[there]):
            back = legal.entry[k]
            here = net.receiver[back]
            met = legal.met[there] + traffic.price[back]
            if onward >= 0:
                met -= traffic.joint[onward, back - before]
            if met < legal.met[here]:
                legal.met[here] = met
                legal.onward[here] = net.reverse[back]
            elif met == legal.met[here] and net.reverse[back] == tree.onward[here]:
                legal.onward[here] = net.reverse[back]
    return total


@njit(cache=True, nogil=True)
def _adopt(net: Net, legal: Legal, tree: Tree, way: Ways, lid: int) -> None:
    """Make the best tree the destination's own."""
    tree.size[0] = legal.known[1]
    tree.order[:] = legal.order
    tree.onward[:] = legal.onward
    for i in range(1, tree.size[0]):
        here = tree.order[i]
        way[lid, here] = tree.onward[here] - net.first[here]
    sum_flows(net, tree)


@njit(cache=True, nogil=True)
def _stand_near(net: Net, goals: Goals, way: Ways, price: Floats, goal: int, sign: float) -> None:
    """Add a destination to those that stand near, or take it away."""
    lid, extra = goals.lid[goal], sign * goals.weight[goal] * goals.nearness
    for here in net.leaves:
        if way[lid, here] != NO_WAY:
            price[net.reverse[net.first[here] + way[lid, here]]] += net.sources[here] * extra


@njit(cache=True, nogil=True)
def improve_placement(net: Net, goals: Goals, rounds: int, stride: int, way: Ways) -> float:
    """Place destinations anew, in turn, where that makes their flows meet fewer others.

    Parameters
    ----------
    net, goals
    rounds : int
        How often.
    stride : int
        Which of them: each, every second, every third, ...
    way : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. They form a tree to each destination.

    Returns
    -------
    float
        Sum of the squares of all loads, slow channels scaled up: the lower, the better are the tables. Where it would
        have risen, nothing was placed anew.
    """
    tree, legal = empty_tree(net), _empty_legal(net)
    traffic = sum_traffic(net, goals, tree, way)
    before, start = float((traffic.price**2).sum()), way.copy()
    for _ in range(rounds):
        for role in range(len(goals.segment) - 1):
            _place_role(net, goals, legal, tree, traffic, way, goals.segment[role], goals.segment[role + 1], stride)
    after = float((traffic.price**2).sum())
    if after > before:  # where the start was perfect, each gain is another's loss
        way[:] = start
        return before
    return after


@njit(cache=True, nogil=True)
def _place_role(
    net: Net, goals: Goals, legal: Legal, tree: Tree, traffic: Traffic, way: Ways, begin: int, end: int, stride: int
) -> None:
    """Place the destinations of one role."""
    if goals.kinship > 0.0:
        _weigh_kin(net, goals, tree, traffic, way, begin, end, goals.kinship)
    for goal in range(begin, min(begin + goals.window, end)):
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(begin, end):
        weight, extra = goals.weight[goal], goals.weight[goal] * goals.kinship
        if goal + goals.window < end:
            _stand_near(net, goals, way, traffic.price, goal + goals.window, 1.0)
        if goal - goals.window > begin:
            _stand_near(net, goals, way, traffic.price, goal - goals.window - 1, -1.0)
        if goal % stride > 0:
            continue
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
        recall_tree(net, goals, tree, way, goal)
        add_flows(net, tree, traffic, -weight, -extra)
        _find(net, legal, goals.switch[goal])
        if _choose(net, legal, tree, traffic) < _met(net, tree, traffic):
            _adopt(net, legal, tree, way, goals.lid[goal])
        add_flows(net, tree, traffic, weight, extra)
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(max(end - goals.window - 1, begin), end):
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
    if goals.kinship > 0.0:
        _weigh_kin(net, goals, tree, traffic, way, begin, end, -goals.kinship)


@njit(cache=True, nogil=True)
def _weigh_kin(
    net: Net, goals: Goals, tree: Tree, traffic: Traffic, way: Ways, begin: int, end: int, kinship: float
) -> None:
    """Let the flows to destinations of one role count more."""
    for goal in range(begin, end):
        recall_tree(net, goals, tree, way, goal)
        add_flows(net, tree, traffic, 0.0, goals.weight[goal] * kinship)
