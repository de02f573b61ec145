"""Takes flows off the most loaded channels, over detours where nothing else helps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import breadth_first
from routing.order.turns import CLOSED, Turns, allow_turn
from routing.repairs.traffic import Dests, Net, Tree, empty_tree, recall_tree, sum_loads

Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
NextHops = NDArray[np.uint8]

FIRST_STEP, LAST_STEP = 0.08, 0.0002
"""Share by which the peak is to sink at once; it is halved each time that cannot be done, down to the last."""


class Limits(NamedTuple):
    """How far the search goes."""

    detour: int
    """Switches that a path may pass beyond those of the shortest one."""
    effort: int
    """Most trees that are looked at."""
    enough: float
    """Load of a channel that need not sink further."""
    spare: int
    """Most entries that may differ from those before, beyond those that do already."""
    goes_on: bool
    """Whether channels beside one that stays too full are relieved, too: they may take its flows afterwards."""


class Tries(NamedTuple):
    """What the search for a lower peak works on."""

    load: Floats
    """(C,) flows over each channel, slow channels scaled up."""
    target: Int32s
    """(1,) switch to which those lead."""
    hops: Int32s
    """(S,) fewest channels to it."""
    over: NDArray[np.bool_]
    """(S,) whether a switch sends over the channel in question."""
    entered: Int32s
    """(S,) the highest rank of a channel over which each is entered."""
    spare: Int32s
    """(S,) channels by which the path of each may grow, for the sake of those that send over it."""
    left: NDArray[np.int64]
    """(1,) entries that may still come to differ."""


@kernel
def relieve_peaks(
    net: Net,
    dests: Dests,
    limits: Limits,
    turns: Turns,
    before: NextHops,
    next_hop: NextHops,
) -> float:
    """Move one switch's flows to one destination at a time off channels that carry more than others need to.

    Parameters
    ----------
    net, dests
    limits : Limits
    turns : Turns
        The order that paths climb. If it knows the turns that they take, others are allowed where nothing else helps;
        if it knows none (`fixed_turns`), it stays.
    before : (T, S) uint8
        The entries from which few are to differ.
    next_hop : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. Legal paths, before and afterwards.

    Returns
    -------
    float
        Flows over the most loaded channel, in the end.
    """
    n = len(net.sources)
    tree = empty_tree(net)
    tries = Tries(
        sum_loads(net, dests, tree, next_hop),
        np.full(1, -1, np.int32),
        np.empty(n, np.int32),
        np.empty(n, np.bool_),
        np.empty(n, np.int32),
        np.empty(n, np.int32),
        np.full(1, limits.spare, np.int64),
    )
    load, effort = tries.load, limits.effort
    peak, step = load.max(), FIRST_STEP
    while step > LAST_STEP and effort > 0 and peak > limits.enough:
        effort -= 1
        target = max(peak * (1 - step), limits.enough)
        full = np.flatnonzero(load > target)
        stuck, less = False, 0.0
        for channel in full[np.argsort(-load[full], kind="mergesort")]:
            less += load[channel]
            for more in range(1 + (len(turns.state) > 0)):
                effort -= _relieve(
                    net, dests, tree, tries, channel, target, limits.detour, turns, more, before, next_hop
                )
            less -= load[channel]
            if load[channel] > target:
                stuck = True
                if not limits.goes_on:
                    break
        if stuck and not (limits.goes_on and less > LAST_STEP * peak):
            step /= 2
        peak = load.max()
    return float(peak)


@inner
def _relieve(
    net: Net,
    dests: Dests,
    tree: Tree,
    tries: Tries,
    channel: int,
    target: float,
    detour: int,
    turns: Turns,
    more: int,
    before: NextHops,
    next_hop: NextHops,
) -> int:
    """Take flows off a channel until no more than the target is left, without filling another beyond it.

    Returns how many trees were looked at. With ``more``, turns may be allowed for it.
    """
    order, load = net.order, tries.load
    here, looked = order.sender[channel], 0
    for dest in range(len(dests.lid)):
        if load[channel] <= target:
            break
        lid, weight = dests.lid[dest], dests.weight[dest]
        if weight == 0.0 or next_hop[lid, here] != channel - order.indptr[here]:
            continue
        recall_tree(net, dests, tree, next_hop, dest)
        while True:
            looked += 1
            _look_behind(net, tree, tries, channel, detour, turns.rank)
            switch, out = _best_move(net, tree, tries, channel, target, turns, more, before[lid], weight)
            if switch < 0:
                break
            if _let_climb(tree, turns, out):
                flows = tree.flow[switch] * weight
                _add(net, tree, load, tree.onward[switch], -flows)
                _add(net, tree, load, out, flows)
                same = order.indptr[switch] + before[lid, switch]
                tries.left[0] += int(tree.onward[switch] != same) - int(out != same)
                next_hop[lid, switch] = out - order.indptr[switch]
                tree.size[0] = 0
                break
    return looked


@inner
def _best_move(
    net: Net,
    tree: Tree,
    tries: Tries,
    channel: int,
    target: float,
    turns: Turns,
    more: int,
    before: NDArray[np.uint8],
    weight: float,
) -> tuple[int, int]:
    """Return which switch is to take which channel instead, so that squares of loads grow least; -1 where none can."""
    order, load = net.order, tries.load
    best, best_switch, best_channel = np.inf, -1, -1
    for i in range(1, tree.size[0]):
        switch = tree.nearest[i]
        flows = tree.flow[switch] * weight
        if not tries.over[switch] or flows == 0.0:
            continue
        same = order.indptr[switch] + before[switch]
        may = tries.left[0] > 0 or tree.onward[switch] != same
        _add(net, tree, load, tree.onward[switch], -flows)
        less = _squares(net, tree, load, tree.onward[switch], flows)
        for out in range(order.indptr[switch], order.indptr[switch + 1]):
            after = order.receiver[out]
            if (
                tree.depth[after] < 0
                or tree.depth[after] + 1 > tree.depth[switch] + tries.spare[switch]
                or tries.over[after]
                or out == channel
                or not (may or out == same)
                or not (_climbs(tree, tries, turns, switch, out) or (more and _could_climb(tree, turns, out)))
            ):
                continue
            grows = _squares(net, tree, load, out, flows) - less
            if grows < best and _peak(net, tree, load, out, flows) <= target:
                best, best_switch, best_channel = grows, switch, out
        _add(net, tree, load, tree.onward[switch], flows)
    return best_switch, best_channel


@inner
def _climbs(tree: Tree, tries: Tries, turns: Turns, switch: int, out: int) -> bool:
    """Whether paths over a switch climb the order if it takes another channel."""
    then, rank = tree.onward[turns.order.receiver[out]], turns.rank[out]
    return bool(rank > tries.entered[switch] and (then < 0 or rank < turns.rank[then]))


@inner
def _could_climb(tree: Tree, turns: Turns, out: int) -> bool:
    """Whether no turn is known to close a loop that paths would make if the sender of a channel takes it."""
    order = turns.order
    here, then = order.sender[out], tree.onward[order.receiver[out]]
    if then >= 0 and turns.state[out, then - order.indptr[order.receiver[out]]] == CLOSED:
        return False
    for back in range(order.indptr[here], order.indptr[here + 1]):
        into, before = order.reverse[back], order.receiver[back]
        enters = tree.depth[before] > 0 and tree.onward[before] == into
        if enters and turns.state[into, out - order.indptr[here]] == CLOSED:
            return False
    return True


@inner
def _let_climb(tree: Tree, turns: Turns, out: int) -> bool:
    """Allow the turns that paths make once the sender of a channel takes it; return whether none closes a loop."""
    order = turns.order
    here, then = order.sender[out], tree.onward[order.receiver[out]]
    if not len(turns.state):  # they climb
        return True
    if then >= 0 and not allow_turn(turns, out, then):
        return False
    for back in range(order.indptr[here], order.indptr[here + 1]):
        into, before = order.reverse[back], order.receiver[back]
        if tree.depth[before] > 0 and tree.onward[before] == into and not allow_turn(turns, into, out):
            return False
    return True


@inner
def _look_behind(net: Net, tree: Tree, tries: Tries, channel: int, detour: int, rank: Int32s) -> None:
    """Find who sends over a channel, the ranks with which switches are entered, and how much longer paths may be."""
    order = net.order
    here = order.sender[channel]
    if tries.target[0] != tree.nearest[0]:
        tries.target[0] = tree.nearest[0]
        breadth_first(tree.nearest[0], order.indptr, order.receiver, tries.hops, tree.slot)
    tries.over[:] = False
    tries.over[here] = True
    tries.entered[:] = -1
    tries.spare[:] = 1 << 30
    for i in range(1, tree.size[0]):
        switch = tree.nearest[i]
        after = order.receiver[tree.onward[switch]]
        tries.over[switch] |= tries.over[after]
        tries.entered[after] = max(tries.entered[after], rank[tree.onward[switch]])
    for i in range(tree.size[0] - 1, 0, -1):
        switch = tree.nearest[i]
        after = order.receiver[tree.onward[switch]]
        own = max(tries.hops[switch] + detour - tree.depth[switch], 0)
        tries.spare[switch] = min(tries.spare[switch], own)
        tries.spare[after] = min(tries.spare[after], tries.spare[switch])


@inner
def _peak(net: Net, tree: Tree, load: Floats, channel: int, flows: float) -> float:
    """Highest load on the path from a channel to the target once more flows take it."""
    peak = 0.0
    while channel >= 0:
        peak = max(peak, load[channel] + flows * net.scale[channel])
        channel = tree.onward[net.order.receiver[channel]]
    return peak


@inner
def _squares(net: Net, tree: Tree, load: Floats, channel: int, flows: float) -> float:
    """By how much the squares of loads grow on the path from a channel to the target once more flows take it."""
    total = 0.0
    while channel >= 0:
        more = flows * net.scale[channel]
        total += (2 * load[channel] + more) * more
        channel = tree.onward[net.order.receiver[channel]]
    return total


@inner
def _add(net: Net, tree: Tree, load: Floats, channel: int, flows: float) -> None:
    """Add flows to the path from a channel to the target."""
    while channel >= 0:
        load[channel] += flows * net.scale[channel]
        channel = tree.onward[net.order.receiver[channel]]
