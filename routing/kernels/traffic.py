"""Trees of paths to destinations, and the traffic that all of them add up to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from routing.kernels.legal import legal_choices

__all__ = [
    "NO_WAY",
    "Goals",
    "Net",
    "Traffic",
    "Tree",
    "add_flows",
    "empty_tree",
    "recall_tree",
    "sum_flows",
    "sum_traffic",
]

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Ways = NDArray[np.uint8]

NO_WAY = 255
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


class Tree(NamedTuple):
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
    scratch: Int32s
    """(6, S)."""


class Traffic(NamedTuple):
    """What is placed. Rows are by reverse channel, so that those into one switch stand together."""

    price: Floats
    """(C,) flows, slow channels scaled up, and extra ones of destinations that stand near."""
    joint: Floats
    """(C, W) of the flows that a channel carries on, scaled: those that came in over the reverse of channel w."""


@njit(cache=True, nogil=True)
def find_tree(net: Net, tree: Tree, target: int) -> int:
    """Find the legal paths to a target; return how many switches have one."""
    count = legal_choices(
        target, net.first, net.sender, net.receiver, net.reverse, net.rank, net.falling, net.run,
        tree.hops, tree.order, tree.choice, tree.ways, tree.scratch,
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
def sum_flows(net: Net, tree: Tree, count: int) -> None:
    """Sum the sources behind each switch."""
    for i in range(count):
        tree.flow[tree.order[i]] = net.sources[tree.order[i]]
    for i in range(count - 1, 0, -1):
        here = tree.order[i]
        tree.flow[net.receiver[tree.onward[here]]] += tree.flow[here]


@njit(cache=True, nogil=True)
def recall_tree(net: Net, goals: Goals, tree: Tree, way: Ways, goal: int, count: int) -> int:
    """Take the tree of a destination from the tables, and sum its flows; return how many switches are in it."""
    target, lid = goals.switch[goal], goals.lid[goal]
    if count == 0 or tree.order[0] != target:
        count = find_tree(net, tree, target)
    for i in range(1, count):
        here = tree.order[i]
        tree.onward[here] = net.first[here] + way[here, lid]
    sum_flows(net, tree, count)
    return count


@njit(cache=True, nogil=True)
def add_flows(net: Net, tree: Tree, traffic: Traffic, count: int, weight: float, extra: float) -> None:
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
def empty_tree(net: Net) -> Tree:
    """Return a tree to be filled."""
    n, n_channels = len(net.sources), len(net.receiver)
    return Tree(
        hops=np.empty(n, np.int32),
        order=np.empty(n, np.int32),
        choice=np.empty(n_channels, np.int32),
        ways=np.empty(n, np.int32),
        entry=np.empty(n_channels, np.int32),
        entries=np.empty(n, np.int32),
        onward=np.empty(n, np.int32),
        met=np.empty(n),
        flow=np.empty(n),
        scratch=np.empty((6, n), np.int32),
    )


@njit(cache=True, nogil=True)
def sum_traffic(net: Net, goals: Goals, tree: Tree, way: Ways) -> Traffic:
    """Return the traffic of all destinations."""
    widest = 0
    for switch in range(len(net.sources)):
        widest = max(widest, net.first[switch + 1] - net.first[switch])
    traffic = Traffic(np.zeros(len(net.receiver)), np.zeros((len(net.receiver), widest)))
    count = 0
    for goal in range(len(goals.lid)):
        count = recall_tree(net, goals, tree, way, goal, count)
        add_flows(net, tree, traffic, count, goals.weight[goal], 0.0)
    return traffic
