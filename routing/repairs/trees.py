"""Repairs the paths to destinations that lost a cable, entry by entry, and leaves all other entries as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel, making
from routing.tables import NO_PATH

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Numbers = NDArray[np.uint8]

FAR = 1 << 30
"""Hops of a switch without a path; as a rank, that of a destination, which may be entered over any channel."""


class RepairNet(NamedTuple):
    """The cables before and after failures; channels are named by sending port."""

    port_offset: Int32s
    whole: Int32s
    """(P,) node at the other end of each cable, including those that are down."""
    peer: Int32s
    """(P,) port at the other end of each cable that is up, -1 where none is."""
    node: Int32s
    """(P,) node at the other end of each cable that is up, -1 where none is."""
    rank: Int32s
    """(P,) position of each channel between switches in an order that every path climbs; -1 for other ports."""
    scale: Floats
    """(P,) the fastest rate over that of the channel."""
    component: Int32s
    """(S,) number of the connected component, over cables that are up."""
    falling: Int32s
    """(C,) the channels between switches that are up, from the highest rank to the lowest."""
    ordered: bool
    """Whether the ranks along a path must rise; if not, lanes break credit loops afterwards."""
    other: bool
    """Whether this is another order than that of the old entries: paths that do not rise in it are replaced, too."""


class TreeScan(NamedTuple):
    """The tree of entries towards one destination, and work space for its repair."""

    depth: Int32s
    """(S,) channels to the destination, -1 where entries do not lead there."""
    cut: NDArray[np.bool_]
    """(S,) whether a cable on the way is down."""
    label: Int32s
    """(S,) rank of the channel that a switch takes: it may be entered over channels of lower rank. -1 where the rest
    of its path does not climb, or it has none."""
    nearest: Int32s
    """(S,) the switches that have a path, nearest first; their number is in ``size``."""
    size: Int32s
    """(1,)"""
    onward: Int32s
    """(S,) channel that each switch takes; -1 at the destination and where there is none."""
    flow: Floats
    stack: Int32s
    hops: Int32s
    near: Int32s
    due: Int32s
    need: Int32s


@making
def empty_scan(n: int) -> TreeScan:
    """Return a scan of n switches, to be filled."""
    return TreeScan(
        depth=np.empty(n, np.int32), cut=np.empty(n, np.bool_), label=np.empty(n, np.int32),
        nearest=np.empty(n, np.int32), size=np.zeros(1, np.int32), onward=np.empty(n, np.int32), flow=np.empty(n),
        stack=np.empty(n, np.int32), hops=np.empty(n, np.int32), near=np.empty(n, np.int32),
        due=np.empty(n, np.int32), need=np.empty(n, np.int32),
    )  # fmt: skip


@inner
def scan_tree(net: RepairNet, far: Int32s, number: Numbers, dest_switch: int, found: TreeScan) -> None:
    """Follow the entries, ``number``, of all switches towards a destination, over ``net.whole`` or ``net.node``."""
    n = len(number)
    depth, onward, stack = found.depth, found.onward, found.stack
    for here in range(n):
        first = net.port_offset[here]
        port = first + number[here] - 1
        fits = 0 < number[here] != NO_PATH and port < net.port_offset[here + 1] and 0 <= far[port] < n
        onward[here] = port if fits and here != dest_switch else -1
        depth[here] = -2
    depth[dest_switch] = 0
    found.cut[dest_switch] = False
    found.label[dest_switch] = FAR
    for start in range(n):
        top, here = 0, start
        while depth[here] == -2:
            depth[here] = -3
            stack[top] = here
            top += 1
            if onward[here] < 0:
                break
            here = far[onward[here]]
        for i in range(top - 1, -1, -1):
            here = stack[i]
            port = onward[here]
            behind = -1 if port < 0 else depth[far[port]]
            if behind < 0:  # it ends there, or goes in a circle
                depth[here] = -1
                found.cut[here] = False
                found.label[here] = -1
                continue
            then = far[port]
            depth[here] = behind + 1
            climbs = not net.ordered or net.rank[port] < found.label[then]
            found.cut[here] = found.cut[then] or net.node[port] < 0 or (net.other and not climbs)
            found.label[here] = (net.rank[port] if net.ordered else FAR) if climbs else -1
    count = found.stack  # the places of each depth, then their ends
    count[:] = 0
    total = 0
    for here in range(n):
        if depth[here] >= 0:
            count[depth[here]] += 1
            total += 1
    place = 0
    for i in range(n):
        place += count[i]
        count[i] = place - count[i]
    for here in range(n):
        if depth[here] >= 0:
            found.nearest[count[depth[here]]] = here
            count[depth[here]] += 1
    found.size[0] = total


@inner
def add_tree(far: Int32s, tree: TreeScan, sources: Floats, weight: float, load: Floats) -> None:
    """Add what the sources at each switch send to the destination of a tree to the load of the channels."""
    for here in range(len(sources)):
        tree.flow[here] = sources[here]
    for i in range(tree.size[0] - 1, 0, -1):
        here = tree.nearest[i]
        port = tree.onward[here]
        load[port] += weight * tree.flow[here]
        tree.flow[far[port]] += tree.flow[here]


@kernel
def sum_load(net: RepairNet, number: Numbers, dest_switches: Int32s, weight: Floats, sources: Floats) -> Floats:
    """Return (P,) the load of each channel of the whole fabric, from (S,) sources to n destinations.

    ``number`` has (n, S) entries, ``dest_switches`` the switch that each destination hangs on, ``weight`` its weight.
    """
    tree, load = empty_scan(number.shape[1]), np.zeros(len(net.rank))
    for i in range(len(dest_switches)):
        scan_tree(net, net.whole, number[i], dest_switches[i], tree)
        add_tree(net.whole, tree, sources, weight[i], load)
    return load


@kernel
def repair_trees(
    net: RepairNet,
    old: Numbers,
    dest_switches: Int32s,
    weight: Floats,
    sources: NDArray[np.float64],
    load: Floats,
    new: Numbers,
) -> NDArray[np.bool_]:
    """Route the packets that would meet a dead cable over others, with as few changed entries as the search finds.

    Parameters
    ----------
    net : RepairNet
    old : (n, S) uint8
        Entries from before, by destination that is affected and switch.
    dest_switches : (n,) int32
        The switch that each destination hangs on.
    weight : (n,) float64
    sources : (2, S) float64
        Hosts at each switch before, and now.
    load : (P,) float64, in and out
        Of the old tables on the whole fabric; of the new ones at the end.
    new : (n, S) uint8, in and out
        The old entries; those that change are replaced.

    Returns
    -------
    (n, S) bool
        The switches that had a path, that cables still connect with the destination, and that have none in the order.
    """
    n = old.shape[1]
    tree, now, lost = empty_scan(n), empty_scan(n), np.zeros((len(dest_switches), n), np.bool_)
    cut, old_label = np.empty(n, np.int32), np.empty(n, np.int32)
    for i in range(len(dest_switches)):
        dest_switch = dest_switches[i]
        scan_tree(net, net.whole, old[i], dest_switch, tree)
        count = 0
        for place in range(1, tree.size[0]):
            here = tree.nearest[place]
            stays = net.component[here] == net.component[dest_switch]
            if tree.cut[here] and stays:
                cut[count] = here
                count += 1
            gone = sources[0, here] - (0.0 if tree.cut[here] else sources[1, here])
            _add_path(net, net.whole, old[i], here, dest_switch, -weight[i] * gone, load)
            if not stays:
                tree.cut[here] = False
                tree.depth[here] = -1
        for here in range(n):
            new[i, here], old_label[here] = old[i, here], tree.label[here]
        if _repair(net, dest_switch, load, sources[1], weight[i], tree, new[i]):
            for here in cut[:count]:
                _add_path(net, net.node, new[i], here, dest_switch, weight[i] * sources[1, here], load)
            continue
        # Others than those that were cut may have changed, too.
        scan_tree(net, net.whole, old[i], dest_switch, tree)
        for here in tree.nearest[1 : tree.size[0]]:
            if not tree.cut[here]:
                _add_path(net, net.whole, old[i], here, dest_switch, -weight[i] * sources[1, here], load)
        scan_tree(net, net.node, new[i], dest_switch, now)
        add_tree(net.node, now, sources[1], weight[i], load)
        for here in range(n):
            had = tree.depth[here] >= 0 and net.component[here] == net.component[dest_switch]
            lost[i, here] = had and (now.depth[here] < 0 or now.label[here] < 0 <= old_label[here])
            if lost[i, here]:
                new[i, here] = NO_PATH
    return lost


@inner
def _add_path(net: RepairNet, far: Int32s, number: Numbers, here: int, dest: int, weight: float, load: Floats) -> None:
    """Add what a switch sends to a destination to the load of the channels on its path."""
    while here != dest and weight != 0.0:
        port = net.port_offset[here] + number[here] - 1
        load[port] += weight
        here = far[port]


@inner
def _repair(
    net: RepairNet, dest_switch: int, load: Floats, sources: Floats, weight: float, tree: TreeScan, number: Numbers
) -> bool:
    """Give each cut switch another path, nearest first; return whether all have one and no other entry changed.

    The scan is of the old entries. What the cut ones send is counted in the load as they find their paths.
    """
    n = len(number)
    depth, cut, label, hops, onward = tree.depth, tree.cut, tree.label, tree.hops, tree.onward
    near, due, need, flow = tree.near, tree.due, tree.need, tree.flow
    need[:] = -1
    waiting = 0
    flow[:] = 0.0
    for i in range(tree.size[0]):
        here = tree.nearest[i]
        port = onward[here]
        hops[here] = depth[here]
        if cut[here]:
            hops[here], label[here], near[here], due[here] = FAR, -1, FAR, FAR
            waiting += 1
            if net.node[port] >= 0:  # its next switch is cut, too
                need[net.node[port]] = max(need[net.node[port]], net.rank[port])
    for here in range(n):
        if depth[here] < 0:
            hops[here], label[here] = FAR, -1
    for i in range(tree.size[0]):
        here = tree.nearest[i]
        if cut[here]:
            for port in range(net.port_offset[here], net.port_offset[here + 1]):
                there = net.node[port]
                if 0 <= there < n and hops[there] < FAR and net.rank[port] < label[there]:
                    near[here] = min(near[here], hops[there] + 1)
            if near[here] < FAR:
                due[here] = _due(net, tree, here)
    while waiting > 0:
        level = FAR
        for i in range(tree.size[0]):
            if cut[tree.nearest[i]]:
                level = min(level, due[tree.nearest[i]])
        if level == FAR:
            break
        for i in range(tree.size[0]):
            here = tree.nearest[i]
            if cut[here] and due[here] <= level:
                port = _choose(net, dest_switch, tree, load, number, here)
                hops[here] = hops[net.node[port]] + 1
                label[here] = net.rank[port] if net.ordered else FAR
                if net.node[onward[here]] >= 0 and net.ordered and not net.other:  # packets may still find it
                    label[here] = min(label[here], net.rank[onward[here]])
                number[here] = port - net.port_offset[here] + 1
                cut[here] = False
                waiting -= 1
                there = here
                while there != dest_switch:
                    flow[there] += weight * sources[here]
                    there = net.node[net.port_offset[there] + number[there] - 1]
                for out in range(net.port_offset[here], net.port_offset[here + 1]):
                    back = net.peer[out]
                    other = net.node[out]
                    if 0 <= other < n and cut[other] and net.rank[back] < label[here]:
                        near[other] = min(near[other], hops[here] + 1)
                        due[other] = _due(net, tree, other)
    if waiting > 0 and net.ordered:
        _pin(net, dest_switch, tree, number)
    return waiting == 0


@inner
def _due(net: RepairNet, tree: TreeScan, here: int) -> int:
    """Hops at which a switch is served: its old entry, if its cable is up, waits until the next switch can be."""
    return int(max(tree.near[here], tree.depth[here] if net.node[tree.onward[here]] >= 0 else 0))


@inner
def _choose(net: RepairNet, dest_switch: int, tree: TreeScan, load: Floats, number: Numbers, here: int) -> int:
    """Return the channel that a switch takes: its old one if that can be used, else the one with the least load."""
    hops, label, n = tree.hops, tree.label, len(number)
    old = tree.onward[here]
    there = net.node[old]
    most = max(tree.near[here], tree.depth[here])
    if there >= 0 and hops[there] < most and net.rank[old] < label[there]:
        return int(old)
    best, best_enough, best_rank, least = -1, False, -1, np.inf
    for port in range(net.port_offset[here], net.port_offset[here + 1]):
        there = net.node[port]
        if not 0 <= there < n or hops[there] != tree.near[here] - 1 or net.rank[port] >= label[there]:
            continue
        # Those who enter it now shall be able to go on doing so.
        enough = not net.ordered or net.rank[port] > tree.need[here]
        rank = 0 if enough else net.rank[port]
        meets = load[port] * net.scale[port]
        while there != dest_switch:
            onward = net.port_offset[there] + number[there] - 1
            meets += (load[onward] + tree.flow[there]) * net.scale[onward]
            there = net.node[onward]
        better = enough > best_enough or (enough == best_enough and (rank, -meets) > (best_rank, -least))
        if best < 0 or better:
            best, best_enough, best_rank, least = port, enough, rank, meets
    return best


@inner
def _pin(net: RepairNet, dest_switch: int, tree: TreeScan, number: Numbers) -> None:
    """Connect the switches that are still cut, by changing entries of other switches to channels of higher rank.

    Channels are taken by falling rank, so that each switch gets the one of highest rank from which a path leads on.
    """
    best, label = tree.near, tree.due
    best[:] = -1
    label[:] = -1
    label[dest_switch] = FAR
    for port in net.falling:
        back = net.peer[port]
        here = net.node[back]
        if here != dest_switch and best[here] < 0 and net.rank[port] < label[net.node[port]]:
            best[here] = port
            label[here] = net.rank[port]
    for i in range(tree.size[0]):
        here = tree.nearest[i]
        if not tree.cut[here]:
            continue
        entered = -1
        while best[here] >= 0 and here != dest_switch and (tree.cut[here] or entered >= tree.label[here]):
            port = best[here]
            number[here] = port - net.port_offset[here] + 1
            tree.cut[here] = False
            tree.label[here] = entered = net.rank[port]
            here = net.node[port]
