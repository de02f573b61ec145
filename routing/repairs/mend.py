"""Mends the paths to destinations that lost a cable, entry by entry, and leaves all other entries as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.tables import NO_PATH

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]
Numbers = NDArray[np.uint8]

FAR = 1 << 30
"""Hops where no path leads, and the rank that a destination lets everything arrive with."""


class Ground(NamedTuple):
    """Cables as they were and as they are; channels are named by sending port."""

    port_offset: Int32s
    whole: Int32s
    """(P,) node at the other end of each cable, of those that are down too."""
    peer: Int32s
    """(P,) port at the other end of each cable that is up, -1 where none is."""
    node: Int32s
    """(P,) node at the other end of each cable that is up, -1 where none is."""
    rank: Int32s
    """(P,) position of each channel between switches in an order that every path climbs; -1 for other ports."""
    scale: Floats
    """(P,) the fastest rate over that of the channel."""
    component: Int32s
    """(S,) switches of one number are connected by cables that are up."""
    falling: Int32s
    """(C,) the channels between switches that are up, from the highest rank to the lowest."""
    ordered: bool
    """Whether paths must climb; if not, lanes are to free them of credit loops afterwards."""
    other: bool
    """Whether the order is not the one of the old entries: those whose paths do not climb it are replaced, too."""


class Survey(NamedTuple):
    """The tree of entries towards one destination, and scratch for its repair."""

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


@kernel
def empty_survey(n: int) -> Survey:
    """Return a survey of n switches, to be filled."""
    return Survey(
        depth=np.empty(n, np.int32),
        cut=np.empty(n, np.bool_),
        label=np.empty(n, np.int32),
        nearest=np.empty(n, np.int32),
        size=np.zeros(1, np.int32),
        onward=np.empty(n, np.int32),
        flow=np.empty(n),
        stack=np.empty(n, np.int32),
        hops=np.empty(n, np.int32),
        near=np.empty(n, np.int32),
        due=np.empty(n, np.int32),
        need=np.empty(n, np.int32),
    )


@inner
def survey_tree(ground: Ground, far: Int32s, number: Numbers, home: int, found: Survey) -> None:
    """Follow the entries of all switches towards the destination that hangs on a switch.

    Parameters
    ----------
    ground : Ground
    far : (P,) int32
        Node at the other end of each cable: ``ground.whole`` or ``ground.node``.
    number : (S,) uint8
        Entry of each switch.
    home : int
    found : Survey, out
    """
    n = len(number)
    depth, onward, stack = found.depth, found.onward, found.stack
    for here in range(n):
        first = ground.port_offset[here]
        port = first + number[here] - 1
        fits = 0 < number[here] != NO_PATH and port < ground.port_offset[here + 1] and 0 <= far[port] < n
        onward[here] = port if fits and here != home else -1
        depth[here] = -2
    depth[home] = 0
    found.cut[home] = False
    found.label[home] = FAR
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
            climbs = not ground.ordered or ground.rank[port] < found.label[then]
            found.cut[here] = found.cut[then] or ground.node[port] < 0 or (ground.other and not climbs)
            found.label[here] = (ground.rank[port] if ground.ordered else FAR) if climbs else -1
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
def add_tree(far: Int32s, tree: Survey, sources: Floats, weight: float, load: Floats) -> None:
    """Add what the sources at each switch send to the destination of a tree to the load of the channels."""
    for here in range(len(sources)):
        tree.flow[here] = sources[here]
    for i in range(tree.size[0] - 1, 0, -1):
        here = tree.nearest[i]
        port = tree.onward[here]
        load[port] += weight * tree.flow[here]
        tree.flow[far[port]] += tree.flow[here]


@kernel
def sum_load(ground: Ground, number: Numbers, homes: Int32s, weight: Floats, sources: Floats) -> Floats:
    """Return (P,) what all sources send to some destinations over each channel of the whole fabric.

    Parameters
    ----------
    number : (n, S) uint8
        Entries by destination and switch.
    homes : (n,) int32
        The switch that each destination hangs on.
    weight : (n,) float64
    sources : (S,) float64
    """
    tree, load = empty_survey(number.shape[1]), np.zeros(len(ground.rank))
    for i in range(len(homes)):
        survey_tree(ground, ground.whole, number[i], homes[i], tree)
        add_tree(ground.whole, tree, sources, weight[i], load)
    return load


@kernel
def mend_trees(
    ground: Ground,
    old: Numbers,
    homes: Int32s,
    weight: Floats,
    sources: NDArray[np.float64],
    load: Floats,
    rounds: int,
    new: Numbers,
) -> NDArray[np.bool_]:
    """Lead the packets that meet a cable which is down over others, with as few entries changed as is found.

    Parameters
    ----------
    ground : Ground
    old : (n, S) uint8
        Entries from before, by destination that is affected and switch.
    homes : (n,) int32
        The switch that each destination hangs on.
    weight : (n,) float64
    sources : (2, S) float64
        Hosts at each switch before, and now.
    load : (P,) float64, in and out
        Of the old tables on the whole fabric; of the new ones at the end.
    rounds : int
        How often each is chosen anew, the others being known.
    new : (n, S) uint8, in and out
        The old entries; those that change are replaced.

    Returns
    -------
    (n, S) bool
        The switches that had a path, that cables still connect with the destination, and that have none in the order.
    """
    n = old.shape[1]
    tree, now, lost = empty_survey(n), empty_survey(n), np.zeros((len(homes), n), np.bool_)
    cut, old_label, settled = np.empty(n, np.int32), np.empty(n, np.int32), np.ones(len(homes), np.bool_)
    for turn in range(rounds):
        for i in range(len(homes)):
            home = homes[i]
            if not settled[i]:
                continue
            survey_tree(ground, ground.whole, old[i], home, tree)
            count = 0
            for place in range(1, tree.size[0]):
                here = tree.nearest[place]
                stays = ground.component[here] == ground.component[home]
                if tree.cut[here] and stays:
                    cut[count] = here
                    count += 1
                gone = sources[0, here] - (0.0 if tree.cut[here] else sources[1, here])
                if turn == 0:
                    _add_path(ground, ground.whole, old[i], here, home, -weight[i] * gone, load)
                elif tree.cut[here] and stays:
                    _add_path(ground, ground.node, new[i], here, home, -weight[i] * sources[1, here], load)
                if not stays:
                    tree.cut[here] = False
                    tree.depth[here] = -1
            new[i] = old[i]
            old_label[:] = tree.label
            if _mend(ground, home, load, sources[1], weight[i], tree, new[i]):
                for here in cut[:count]:
                    _add_path(ground, ground.node, new[i], here, home, weight[i] * sources[1, here], load)
                continue
            settled[i] = False
            # Others than those that were cut may have changed, too.
            survey_tree(ground, ground.whole, old[i], home, tree)
            for here in tree.nearest[1 : tree.size[0]]:
                if not tree.cut[here]:
                    _add_path(ground, ground.whole, old[i], here, home, -weight[i] * sources[1, here], load)
            survey_tree(ground, ground.node, new[i], home, now)
            add_tree(ground.node, now, sources[1], weight[i], load)
            for here in range(n):
                had = tree.depth[here] >= 0 and ground.component[here] == ground.component[home]
                lost[i, here] = had and (now.depth[here] < 0 or now.label[here] < 0 <= old_label[here])
                if lost[i, here]:
                    new[i, here] = NO_PATH
    return lost


@inner
def _add_path(ground: Ground, far: Int32s, number: Numbers, here: int, home: int, weight: float, load: Floats) -> None:
    """Add what a switch sends to a destination to the load of the channels on its path."""
    while here != home and weight != 0.0:
        port = ground.port_offset[here] + number[here] - 1
        load[port] += weight
        here = far[port]


@inner
def _mend(
    ground: Ground, home: int, load: Floats, sources: Floats, weight: float, tree: Survey, number: Numbers
) -> bool:
    """Give each switch whose path is cut another one, nearest first; return whether all have one, and no other changed.

    The survey is of the old entries. What those that are cut send is no part of the load: it is counted as they find
    their paths.
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
            if ground.node[port] >= 0:  # its next switch is cut, too
                need[ground.node[port]] = max(need[ground.node[port]], ground.rank[port])
    for here in range(n):
        if depth[here] < 0:
            hops[here], label[here] = FAR, -1
    for i in range(tree.size[0]):
        here = tree.nearest[i]
        if cut[here]:
            for port in range(ground.port_offset[here], ground.port_offset[here + 1]):
                there = ground.node[port]
                if 0 <= there < n and hops[there] < FAR and ground.rank[port] < label[there]:
                    near[here] = min(near[here], hops[there] + 1)
            if near[here] < FAR:
                due[here] = _due(ground, tree, here)
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
                port = _choose(ground, home, tree, load, number, here)
                hops[here] = hops[ground.node[port]] + 1
                label[here] = ground.rank[port] if ground.ordered else FAR
                if ground.node[onward[here]] >= 0 and ground.ordered and not ground.other:  # packets may still find it
                    label[here] = min(label[here], ground.rank[onward[here]])
                number[here] = port - ground.port_offset[here] + 1
                cut[here] = False
                waiting -= 1
                there = here
                while there != home:
                    flow[there] += weight * sources[here]
                    there = ground.node[ground.port_offset[there] + number[there] - 1]
                for out in range(ground.port_offset[here], ground.port_offset[here + 1]):
                    back = ground.peer[out]
                    other = ground.node[out]
                    if 0 <= other < n and cut[other] and ground.rank[back] < label[here]:
                        near[other] = min(near[other], hops[here] + 1)
                        due[other] = _due(ground, tree, other)
    if waiting > 0 and ground.ordered:
        _pin(ground, home, tree, number)
    return waiting == 0


@inner
def _due(ground: Ground, tree: Survey, here: int) -> int:
    """Hops at which a switch is served: its old entry, if its cable is up, waits until the next switch can be."""
    return int(max(tree.near[here], tree.depth[here] if ground.node[tree.onward[here]] >= 0 else 0))


@inner
def _choose(ground: Ground, home: int, tree: Survey, load: Floats, number: Numbers, here: int) -> int:
    """Return the channel that a switch takes: its old one if that serves, else the one where it meets the fewest."""
    hops, label, n = tree.hops, tree.label, len(number)
    old = tree.onward[here]
    there = ground.node[old]
    most = max(tree.near[here], tree.depth[here])
    if there >= 0 and hops[there] < most and ground.rank[old] < label[there]:
        return int(old)
    best, best_enough, best_rank, least = -1, False, -1, np.inf
    for port in range(ground.port_offset[here], ground.port_offset[here + 1]):
        there = ground.node[port]
        if not 0 <= there < n or hops[there] != tree.near[here] - 1 or ground.rank[port] >= label[there]:
            continue
        # Those who enter it now shall be able to go on doing so.
        enough = not ground.ordered or ground.rank[port] > tree.need[here]
        rank = 0 if enough else ground.rank[port]
        meets = load[port] * ground.scale[port]
        while there != home:
            onward = ground.port_offset[there] + number[there] - 1
            meets += (load[onward] + tree.flow[there]) * ground.scale[onward]
            there = ground.node[onward]
        better = enough > best_enough or (enough == best_enough and (rank, -meets) > (best_rank, -least))
        if best < 0 or better:
            best, best_enough, best_rank, least = port, enough, rank, meets
    return best


@inner
def _pin(ground: Ground, home: int, tree: Survey, number: Numbers) -> None:
    """Connect the switches that are still cut, over others that take channels of higher rank for it.

    Channels are taken by falling rank, so that each switch gets the one of highest rank from which a path leads on.
    """
    best, label = tree.near, tree.due
    best[:] = -1
    label[:] = -1
    label[home] = FAR
    for port in ground.falling:
        back = ground.peer[port]
        here = ground.node[back]
        if here != home and best[here] < 0 and ground.rank[port] < label[ground.node[port]]:
            best[here] = port
            label[here] = ground.rank[port]
    for i in range(tree.size[0]):
        here = tree.nearest[i]
        if not tree.cut[here]:
            continue
        entered = -1
        while best[here] >= 0 and here != home and (tree.cut[here] or entered >= tree.label[here]):
            port = best[here]
            number[here] = port - ground.port_offset[here] + 1
            tree.cut[here] = False
            tree.label[here] = entered = ground.rank[port]
            here = ground.node[port]
