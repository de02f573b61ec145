"""Trees of paths to destinations, and the traffic that all of them add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Ways = NDArray[np.uint8]

NO_WAY = 255
"""As in the tables: at the target itself, and where no cable leads to it."""


class Net(NamedTuple):
    """Channels and sources; the first seven as in `routing.order.channel_order.ChannelOrder`."""

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


class Tree(NamedTuple):
    """The way that each switch takes to one destination."""

    size: Int32s
    """(1,) switches that have one, the target included."""
    order: Int32s
    """(S,) those switches, nearest first."""
    depth: Int32s
    """(S,) channels to the target; -1 where there is no way."""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the target."""
    flow: Floats
    """(S,) weight of the sources behind each switch, its own included."""
    slot: Int32s
    """(S,) scratch."""


class Traffic(NamedTuple):
    """What is placed. Rows are by reverse channel, so that those into one switch stand together."""

    price: Floats
    """(C,) flows, slow channels scaled up, and extra ones of destinations that stand near."""
    joint: Floats
    """(C, W) of the flows that a channel carries on, scaled: those that came in over the reverse of channel w."""


@njit(cache=True, nogil=True)
def empty_tree(net: Net) -> Tree:
    """Return a tree to be filled."""
    n = len(net.sources)
    return Tree(
        size=np.zeros(1, np.int32),
        order=np.empty(n, np.int32),
        depth=np.empty(n, np.int32),
        onward=np.empty(n, np.int32),
        flow=np.empty(n),
        slot=np.empty(n + 1, np.int32),
    )


@njit(cache=True, nogil=True)
def recall_tree(net: Net, goals: Goals, tree: Tree, way: Ways, goal: int) -> None:
    """Take the tree of a destination from the tables, and sum its flows."""
    target, lid = goals.switch[goal], goals.lid[goal]
    # Trees to one switch are much alike: the order of the last one may do.
    if tree.size[0] == 0 or tree.order[0] != target or not _follow_order(net, tree, way, lid):
        _follow_ways(net, tree, way, target, lid)
    sum_flows(net, tree)


@njit(cache=True, nogil=True)
def _follow_order(net: Net, tree: Tree, way: Ways, lid: int) -> bool:
    """Fill the tree in the order that it has; return whether every switch comes after the one that it sends to."""
    tree.depth[:] = -1
    tree.depth[tree.order[0]] = 0
    for i in range(1, tree.size[0]):
        here = tree.order[i]
        if way[lid, here] == NO_WAY:
            return False
        tree.onward[here] = net.first[here] + way[lid, here]
        after = tree.depth[net.receiver[tree.onward[here]]]
        if after < 0:
            return False
        tree.depth[here] = after + 1
    return True


@njit(cache=True, nogil=True)
def _follow_ways(net: Net, tree: Tree, way: Ways, target: int, lid: int) -> None:
    """Fill the tree and its order, following the way of each switch until one is met whose depth is known."""
    depth, slot = tree.depth, tree.slot
    depth[:] = -1
    depth[target] = 0
    tree.onward[target] = -1
    slot[:] = 0
    for start in range(len(net.sources)):
        switch, length = start, 0
        while depth[switch] < 0 and way[lid, switch] != NO_WAY:
            tree.order[length] = switch
            length += 1
            tree.onward[switch] = net.first[switch] + way[lid, switch]
            switch = net.receiver[tree.onward[switch]]
        if depth[switch] >= 0:
            for i in range(length):
                depth[tree.order[i]] = depth[switch] + length - i
                slot[depth[switch] + length - i] += 1
    total = 1
    for distance in range(1, len(slot)):
        if slot[distance] == 0:
            break
        total += slot[distance]
        slot[distance] = total - slot[distance]
    tree.order[0] = target
    for switch in range(len(depth)):
        if depth[switch] > 0:
            tree.order[slot[depth[switch]]] = switch
            slot[depth[switch]] += 1
    tree.size[0] = total


@njit(cache=True, nogil=True)
def sum_flows(net: Net, tree: Tree) -> None:
    """Sum the sources behind each switch."""
    for i in range(tree.size[0]):
        tree.flow[tree.order[i]] = net.sources[tree.order[i]]
    for i in range(tree.size[0] - 1, 0, -1):
        here = tree.order[i]
        tree.flow[net.receiver[tree.onward[here]]] += tree.flow[here]


@njit(cache=True, nogil=True)
def add_flows(net: Net, tree: Tree, traffic: Traffic, weight: float, extra: float) -> None:
    """Add a destination's flows, or with a negative weight take them away; the extra weight counts for prices only."""
    for i in range(1, tree.size[0]):
        here = tree.order[i]
        channel = tree.onward[here]
        there, back = net.receiver[channel], net.reverse[channel]
        flows = tree.flow[here] * weight * net.scale[channel]
        traffic.price[back] += flows + tree.flow[here] * extra * net.scale[channel]
        if tree.onward[there] >= 0:
            traffic.joint[tree.onward[there], back - net.first[there]] += flows


@njit(cache=True, nogil=True)
def sum_traffic(net: Net, goals: Goals, tree: Tree, way: Ways) -> Traffic:
    """Return the traffic of all destinations."""
    widest = 0
    for switch in range(len(net.sources)):
        widest = max(widest, net.first[switch + 1] - net.first[switch])
    traffic = Traffic(np.zeros(len(net.receiver)), np.zeros((len(net.receiver), widest)))
    for goal in range(len(goals.lid)):
        recall_tree(net, goals, tree, way, goal)
        add_flows(net, tree, traffic, goals.weight[goal], 0.0)
    return traffic
