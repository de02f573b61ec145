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

import numpy as np
from numba import njit
from numpy.typing import NDArray

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

__all__ = ["improve_placement"]

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Ways = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def _met(net: Net, tree: Tree, traffic: Traffic, count: int) -> float:
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
def _choose(net: Net, tree: Tree, traffic: Traffic, count: int, old: Int32s) -> float:
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
        if way[here, lid] != NO_WAY:
            price[net.reverse[net.first[here] + way[here, lid]]] += net.sources[here] * extra


@njit(cache=True, nogil=True)
def improve_placement(net: Net, goals: Goals, rounds: int, way: Ways) -> float:
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
    float
        Sum of the squares of all loads, slow channels scaled up: the lower, the better are the tables.
    """
    tree = empty_tree(net)
    traffic = sum_traffic(net, goals, tree, way)
    for _ in range(rounds):
        for role in range(len(goals.segment) - 1):
            _place_role(net, goals, tree, traffic, way, goals.segment[role], goals.segment[role + 1])
    return float((traffic.price**2).sum())


@njit(cache=True, nogil=True)
def _place_role(net: Net, goals: Goals, tree: Tree, traffic: Traffic, way: Ways, begin: int, end: int) -> None:
    """Place the destinations of one role."""
    old = np.empty(len(net.sources), np.int32)
    count = 0
    for goal in range(begin, end):
        count = recall_tree(net, goals, tree, way, goal, count)
        add_flows(net, tree, traffic, count, 0.0, goals.weight[goal] * goals.kinship)
    for goal in range(begin, min(begin + goals.window, end)):
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(begin, end):
        lid, weight, extra = goals.lid[goal], goals.weight[goal], goals.weight[goal] * goals.kinship
        if goal + goals.window < end:
            _stand_near(net, goals, way, traffic.price, goal + goals.window, 1.0)
        if goal - goals.window > begin:
            _stand_near(net, goals, way, traffic.price, goal - goals.window - 1, -1.0)
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
        count = recall_tree(net, goals, tree, way, goal, count)
        add_flows(net, tree, traffic, count, -weight, -extra)
        before = _met(net, tree, traffic, count)
        old[:] = tree.onward
        if _choose(net, tree, traffic, count, old) < before:
            for i in range(1, count):
                here = tree.order[i]
                way[here, lid] = tree.onward[here] - net.first[here]
            sum_flows(net, tree, count)
        else:
            tree.onward[:] = old
        add_flows(net, tree, traffic, count, weight, extra)
        _stand_near(net, goals, way, traffic.price, goal, 1.0)
    for goal in range(max(end - goals.window - 1, begin), end):
        _stand_near(net, goals, way, traffic.price, goal, -1.0)
    for goal in range(begin, end):
        count = recall_tree(net, goals, tree, way, goal, count)
        add_flows(net, tree, traffic, count, 0.0, -goals.weight[goal] * goals.kinship)
