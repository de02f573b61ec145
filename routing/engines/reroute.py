"""Reroutes destinations one after the other over the legal channels where their flows meet the fewest others.

Flows that meet
---------------
Two flows *meet* when they share a channel, unless they go to the same destination. What slows a random matching of
hosts down is how many others a flow meets on its path, each counted once: if two flows share a channel and then the
next one too, they met once. So what a flow meets is the sum over its channels of the flows there, less those that go on
with it. (The load of the most loaded channel alone says little about the average: Hoefler, Schneider and Lumsdaine,
Cluster 2008.)

Given everything else, the best tree to a destination is found nearest switch first, each taking the channel from which
on it meets the fewest flows. That is Dijkstra's algorithm as in SSSP routing (Hoefler et al., HOTI 2009), but among
legal channels only, with the destination's own flows taken away beforehand, and repeatedly, from a start that is good
already: SSSP places each destination once, and what comes first cannot know what will come later.

Shifts
------
Consecutive hosts of a leaf often send to consecutive destinations at the same time. The neighbours of a destination
in the order of rerouting therefore count extra: in a tree on the first channel from each leaf, elsewhere on all that
they use.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import LegalPaths, empty_paths, legal_choices
from routing.order.traffic import (
    Dests,
    Net,
    Traffic,
    Tree,
    add_flows,
    empty_tree,
    recall_tree,
    sum_flows,
    sum_traffic,
)
from routing.tables import NO_PATH

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
NextHops = NDArray[np.uint8]


class Choices(NamedTuple):
    """All legal paths to one switch, and the best tree among them."""

    known: Int32s
    """(2,) the switch, and how many have a path to it."""
    paths: LegalPaths
    entry: Int32s
    """(C,) the same choices by receiver: reverses of the channels over which switch s may be entered, from
    ``entry[indptr[s]]`` on."""
    entries: Int32s
    """(S,) how many those are."""
    onward: Int32s
    """(S,) channel of the best tree."""
    met: Floats
    """(S,) flows met by one that starts there and takes it."""


@kernel
def _no_choices(net: Net) -> Choices:
    n, n_channels = len(net.sources), len(net.order.receiver)
    return Choices(
        known=np.full(2, -1, np.int32),
        paths=empty_paths(net.order),
        entry=np.empty(n_channels, np.int32),
        entries=np.empty(n, np.int32),
        onward=np.empty(n, np.int32),
        met=np.empty(n),
    )


@inner
def _find(net: Net, choices: Choices, target: int) -> None:
    """Find the legal paths to a switch, unless they are known."""
    if choices.known[0] == target:
        return
    order, paths = net.order, choices.paths
    count = legal_choices(target, order, paths)
    choices.entries[:] = 0
    for i in range(1, count):
        here = paths.nearest[i]
        for k in range(order.indptr[here], order.indptr[here] + paths.n_choices[here]):
            there = order.receiver[paths.choice[k]]
            choices.entry[order.indptr[there] + choices.entries[there]] = order.reverse[paths.choice[k]]
            choices.entries[there] += 1
    choices.known[0], choices.known[1] = target, count


@inner
def _met(net: Net, tree: Tree, traffic: Traffic) -> float:
    """Flows that all sources of a tree meet."""
    indptr, receiver, reverse = net.order.indptr, net.order.receiver, net.order.reverse
    total = 0.0
    for i in range(1, tree.size[0]):
        here = tree.nearest[i]
        channel = tree.onward[here]
        there, back = receiver[channel], reverse[channel]
        flows = traffic.load[back]
        if tree.onward[there] >= 0:
            flows -= traffic.turn_load[tree.onward[there], back - indptr[there]]
        total += tree.flow[here] * flows
    return total


@inner
def _choose(net: Net, choices: Choices, tree: Tree, traffic: Traffic) -> float:
    """Let each switch take the legal channel from which on it meets the fewest flows, its old one if that is as good.

    Returns the flows that all sources meet.
    """
    indptr, receiver, reverse = net.order.indptr, net.order.receiver, net.order.reverse
    nearest, taken, least = choices.paths.nearest, choices.onward, choices.met
    for i in range(1, choices.known[1]):
        least[nearest[i]] = np.inf
    target = choices.known[0]
    least[target] = 0.0
    taken[target] = -1
    total = 0.0
    for i in range(choices.known[1]):
        there = nearest[i]
        before = indptr[there]
        onward = taken[there]
        total += net.sources[there] * least[there]
        for k in range(before, before + choices.entries[there]):
            back = choices.entry[k]
            here = receiver[back]
            if net.kept[here] >= 0 and net.kept[here] == net.kept[target] and reverse[back] != tree.onward[here]:
                continue
            met = least[there] + traffic.load[back]
            if onward >= 0:
                met -= traffic.turn_load[onward, back - before]
            if met < least[here]:
                least[here] = met
                taken[here] = reverse[back]
            elif met == least[here] and reverse[back] == tree.onward[here]:
                taken[here] = reverse[back]
    return total


@inner
def _adopt(net: Net, choices: Choices, tree: Tree, next_hop: NextHops, lid: int) -> None:
    """Make the best tree the destination's own."""
    tree.size[0] = choices.known[1]
    for here in range(len(tree.onward)):
        tree.nearest[here], tree.onward[here] = choices.paths.nearest[here], choices.onward[here]
    for i in range(1, tree.size[0]):
        here = tree.nearest[i]
        next_hop[lid, here] = tree.onward[here] - net.order.indptr[here]
    sum_flows(net, tree)


@inner
def _weigh_neighbour(
    net: Net, dests: Dests, tree: Tree, traffic: Traffic, next_hop: NextHops, dest: int, sign: float
) -> None:
    """Add the extra weight of a neighbour, or take it away."""
    extra = sign * dests.weight[dest] * dests.shift_weight
    if dests.shift_everywhere:
        recall_tree(net, dests, tree, next_hop, dest)
        add_flows(net, tree, traffic, 0.0, extra)
        return
    indptr, reverse, lid = net.order.indptr, net.order.reverse, dests.lid[dest]
    for here in net.leaves:
        if next_hop[lid, here] != NO_PATH:
            traffic.load[reverse[indptr[here] + next_hop[lid, here]]] += net.sources[here] * extra


@kernel
def reroute(net: Net, dests: Dests, rounds: int, stride: int, next_hop: NextHops) -> float:
    """Reroute destinations in turn where that makes their flows meet fewer others.

    Parameters
    ----------
    net, dests
    rounds : int
        How often.
    stride : int
        Which of them: each, every second, every third, ...
    next_hop : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. They form a tree to each destination.

    Returns
    -------
    float
        Sum of the squares of all loads, slow channels scaled up: the lower, the better are the tables. Where it would
        have risen, nothing is rerouted.
    """
    tree, choices = empty_tree(net), _no_choices(net)
    traffic = sum_traffic(net, dests, tree, next_hop)
    before, start = _sum_of_squares(traffic.load), next_hop.copy()
    for _ in range(rounds):
        for role in range(len(dests.segment) - 1):
            _reroute_role(net, dests, choices, tree, traffic, next_hop, role, stride)
    after = _sum_of_squares(traffic.load)
    if after > before:  # where the start was perfect, each gain is another's loss
        next_hop[:] = start
        return before
    return after


@inner
def _sum_of_squares(values: Floats) -> float:
    """Add in the order of the array, as NumPy's own sum does not."""
    total = 0.0
    for value in values:
        total += value * value
    return total


@inner
def _reroute_role(
    net: Net,
    dests: Dests,
    choices: Choices,
    tree: Tree,
    traffic: Traffic,
    next_hop: NextHops,
    role: int,
    stride: int,
) -> None:
    """Reroute the destinations of one role."""
    begin, end = dests.segment[role], dests.segment[role + 1]
    if dests.role_weight > 0.0:
        _weigh_role(net, dests, tree, traffic, next_hop, role, dests.role_weight)
    for dest in range(begin, min(begin + dests.neighbours, end)):
        _weigh_neighbour(net, dests, tree, traffic, next_hop, dest, 1.0)
    for dest in range(begin, end):
        weight, extra = dests.weight[dest], dests.weight[dest] * dests.role_weight
        if dest + dests.neighbours < end:
            _weigh_neighbour(net, dests, tree, traffic, next_hop, dest + dests.neighbours, 1.0)
        if dest - dests.neighbours > begin:
            _weigh_neighbour(net, dests, tree, traffic, next_hop, dest - dests.neighbours - 1, -1.0)
        if dest % stride > 0:
            continue
        _weigh_neighbour(net, dests, tree, traffic, next_hop, dest, -1.0)
        recall_tree(net, dests, tree, next_hop, dest)
        add_flows(net, tree, traffic, -weight, -extra)
        _find(net, choices, dests.switch[dest])
        if _choose(net, choices, tree, traffic) < _met(net, tree, traffic):
            _adopt(net, choices, tree, next_hop, dests.lid[dest])
        add_flows(net, tree, traffic, weight, extra)
        _weigh_neighbour(net, dests, tree, traffic, next_hop, dest, 1.0)
    for dest in range(max(end - dests.neighbours - 1, begin), end):
        _weigh_neighbour(net, dests, tree, traffic, next_hop, dest, -1.0)
    if dests.role_weight > 0.0:
        _weigh_role(net, dests, tree, traffic, next_hop, role, -dests.role_weight)


@inner
def _weigh_role(
    net: Net, dests: Dests, tree: Tree, traffic: Traffic, next_hop: NextHops, role: int, role_weight: float
) -> None:
    """Let the flows to destinations of one role count more."""
    for dest in range(dests.segment[role], dests.segment[role + 1]):
        recall_tree(net, dests, tree, next_hop, dest)
        add_flows(net, tree, traffic, 0.0, dests.weight[dest] * role_weight)
