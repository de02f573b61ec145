"""Trees of paths to destinations, and the traffic that all of them add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import ChannelOrder
from routing.tables import NO_PATH

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
NextHops = NDArray[np.uint8]


class Net(NamedTuple):
    """Channels and sources."""

    order: ChannelOrder
    scale: Floats
    """(C,) the fastest rate over that of the channel."""
    sources: Floats
    """(S,) weight of the sources at each switch."""


class Dests(NamedTuple):
    """D destinations."""

    switch: Int32s
    lid: Int32s
    weight: Floats


class Tree(NamedTuple):
    """The channel that each switch takes to one destination."""

    size: Int32s
    """(1,) switches that have a path, the target included."""
    nearest: Int32s
    """(S,) those switches, nearest first."""
    depth: Int32s
    """(S,) channels to the target; -1 where there is no next_hop."""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the target."""
    flow: Floats
    """(S,) weight of the sources behind each switch, its own included."""
    slot: Int32s
    """(S,) scratch."""


@kernel
def empty_tree(net: Net) -> Tree:
    """Return a tree to be filled."""
    n = len(net.sources)
    return Tree(
        size=np.zeros(1, np.int32),
        nearest=np.empty(n, np.int32),
        depth=np.empty(n, np.int32),
        onward=np.empty(n, np.int32),
        flow=np.empty(n),
        slot=np.empty(n + 1, np.int32),
    )


@inner
def recall_tree(net: Net, dests: Dests, tree: Tree, next_hop: NextHops, dest: int) -> None:
    """Take the tree of a destination from the tables, and sum its flows."""
    target, lid = dests.switch[dest], dests.lid[dest]
    # Trees to one switch are much alike: the order of the last one may do.
    if tree.size[0] == 0 or tree.nearest[0] != target or not _follow_order(net, tree, next_hop, lid):
        _follow_tables(net, tree, next_hop, target, lid)
    sum_flows(net, tree)


@inner
def _follow_order(net: Net, tree: Tree, next_hop: NextHops, lid: int) -> bool:
    """Fill the tree in the order that it has; return whether that is still the nearest first."""
    indptr, receiver = net.order.indptr, net.order.receiver
    tree.depth[:] = -1
    tree.depth[tree.nearest[0]] = 0
    for i in range(1, tree.size[0]):
        here = tree.nearest[i]
        if next_hop[lid, here] == NO_PATH:
            return False
        tree.onward[here] = indptr[here] + next_hop[lid, here]
        after = tree.depth[receiver[tree.onward[here]]]
        if after < 0 or after + 1 < tree.depth[tree.nearest[i - 1]]:
            return False
        tree.depth[here] = after + 1
    return True


@inner
def _follow_tables(net: Net, tree: Tree, next_hop: NextHops, target: int, lid: int) -> None:
    """Fill the tree and its order, following the next hops from each switch until one is met whose depth is known."""
    indptr, receiver = net.order.indptr, net.order.receiver
    depth, slot = tree.depth, tree.slot
    depth[:] = -1
    depth[target] = 0
    tree.onward[target] = -1
    slot[:] = 0
    for start in range(len(net.sources)):
        switch, length = start, 0
        while depth[switch] < 0 and next_hop[lid, switch] != NO_PATH:
            tree.nearest[length] = switch
            length += 1
            tree.onward[switch] = indptr[switch] + next_hop[lid, switch]
            switch = receiver[tree.onward[switch]]
        if depth[switch] >= 0:
            for i in range(length):
                depth[tree.nearest[i]] = depth[switch] + length - i
                slot[depth[switch] + length - i] += 1
    total = 1
    for distance in range(1, len(slot)):
        if slot[distance] == 0:
            break
        total += slot[distance]
        slot[distance] = total - slot[distance]
    tree.nearest[0] = target
    for switch in range(len(depth)):
        if depth[switch] > 0:
            tree.nearest[slot[depth[switch]]] = switch
            slot[depth[switch]] += 1
    tree.size[0] = total


@inner
def sum_flows(net: Net, tree: Tree) -> None:
    """Sum the sources behind each switch."""
    receiver = net.order.receiver
    for i in range(tree.size[0]):
        tree.flow[tree.nearest[i]] = net.sources[tree.nearest[i]]
    for i in range(tree.size[0] - 1, 0, -1):
        here = tree.nearest[i]
        tree.flow[receiver[tree.onward[here]]] += tree.flow[here]


@kernel
def sum_loads(net: Net, dests: Dests, tree: Tree, next_hop: NextHops) -> Floats:
    """Return (C,) the flows over each channel to all destinations of some weight, slow channels scaled up."""
    load = np.zeros(len(net.order.receiver))
    for dest in range(len(dests.lid)):
        if dests.weight[dest] > 0.0:
            recall_tree(net, dests, tree, next_hop, dest)
            for i in range(1, tree.size[0]):
                channel = tree.onward[tree.nearest[i]]
                load[channel] += tree.flow[tree.nearest[i]] * dests.weight[dest] * net.scale[channel]
    return load
