"""Moves flows that meet others in shift permutations, one switch's flows to one destination at a time.

In shift s rank i sends to rank i + s, modulo the number of ranks, so each pair of ranks belongs to one shift. The flows
of all shifts can be counted by channel and shift, at the price of counting the pairs once; and what a move alters of
them is a window of a row for each leaf whose flows move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.traffic import Dests, Net, Tree, empty_tree, recall_tree

Floats = NDArray[np.float64]
Int32s = NDArray[np.int32]
NextHops = NDArray[np.uint8]

CROWD = 8
"""How much more flows count that would be as many on a channel as in the worst of all shifts, were one to join them."""

SETTLED = 5
"""Rounds end once one moves less than a fifth of the most that one moved: what follows is worth little."""

COUNT, PART, LOWER, SWAP, RESTORE = range(5)
"""Steps. Flows are counted; all are parted; those that are in the worst of all shifts take channels on which none is as
bad, first where there is room, then on full ones, too; and flows leave those that are too full since."""

PATIENCE, RARE = 3, 0.003
"""How often full channels are taken in vain; and in what part of all cases, by channel and shift, as many flows as in
the worst of all may be and still be an exception, for whose sake others are moved."""


class Meetings(NamedTuple):
    """Flows of all shifts, and what the search for better paths works on."""

    rank: Int32s
    """(D,) rank of each destination, -1 for those that have none."""
    begin: Int32s
    """(2, S) the ranks at switch s are ``begin[0, s]`` to ``begin[1, s] - 1``."""
    share: float
    """Share of shift permutations in the traffic that is planned for; the rest is random permutations."""
    flows: NDArray[np.uint16]
    """(C, n) by channel and shift."""
    crowd: NDArray[np.uint16]
    """(1,) flows that no other one should join."""
    full: NDArray[np.bool_]
    """(C,) whether a channel has as many flows as the worst of all shifts, or in the last step, is too full."""
    load: Floats
    """(R + 1, C) pairs of ranks by role of the destination, and in the last row all of them."""
    peak: Floats
    """(R + 1,) that of the fullest channel, slow channels scaled up."""
    own: Floats
    """(C,) pairs to the destination in question."""
    entered: Int32s
    """(S,) the highest rank of a channel over which each switch is entered."""
    behind: Int32s
    """(3, S) leaves whose flows pass a switch: the first and the last of each, and after each leaf the next, or -1."""


@kernel
def part_shifts(
    net: Net, dests: Dests, rank: Int32s, begin: Int32s, rounds: int, share: float, next_hop: NextHops
) -> None:
    """Let each switch take, to one destination after the other, the channel on which its flows meet the fewest others.

    Where they would be as many as in the worst of all shifts, each counts more. In the end flows of the worst shifts
    alone take another channel, for as long as that makes the worst better. No path gets longer, and no channel fuller
    than the fullest was, nor so with flows to one role.

    Parameters
    ----------
    net, dests
    rank : (D,) int32
        Rank of each destination, -1 for those that have none.
    begin : (2, S) int32
        The ranks at switch s are ``begin[0, s]`` to ``begin[1, s] - 1``.
    rounds : int
        How often, at most.
    share : float
        Share of shift permutations in the traffic that is planned for; the rest is random permutations. In ``rounds``
        of 0, flows of the worst shifts alone are moved.
    next_hop : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. Legal paths, before and afterwards.
    """
    n_switches, n_channels, roles = len(net.sources), len(net.order.receiver), len(dests.segment) - 1
    tree = empty_tree(net)
    m = Meetings(
        rank,
        begin,
        share,
        np.zeros((n_channels, begin.max()), np.uint16),
        np.zeros(1, np.uint16),
        np.zeros(n_channels, np.bool_),
        np.zeros((roles + 1, n_channels)),
        np.full(roles + 1, np.inf),
        np.zeros(n_channels),
        np.empty(n_switches, np.int32),
        np.empty((3, n_switches), np.int32),
    )
    _visit_all(net, dests, m, tree, COUNT, next_hop)
    for row in range(roles + 1):
        m.peak[row] = (m.load[row] * net.scale).max()
    least = 1
    for _ in range(rounds):
        moved = _visit_all(net, dests, m, tree, PART, next_hop)
        if moved < least:
            break
        least = max(least, moved // SETTLED)
    while _is_rare(m) and _visit_all(net, dests, m, tree, LOWER, next_hop):
        pass
    _swap(net, dests, m, tree, next_hop)


@kernel
def _swap(net: Net, dests: Dests, m: Meetings, tree: Tree, next_hop: NextHops) -> None:
    """Let flows of the worst shifts take the place of others for as long as that makes the worst better."""
    fits, least, in_vain = next_hop.copy(), m.flows.max(), 0
    while in_vain < PATIENCE and _is_rare(m) and _visit_all(net, dests, m, tree, SWAP, next_hop):
        while _visit_all(net, dests, m, tree, RESTORE, next_hop):
            pass
        in_vain += 1
        if not m.full.any() and m.flows.max() < least:  # nothing has moved since it was found what is full
            least, in_vain = m.flows.max(), 0
            fits[:] = next_hop
    next_hop[:] = fits


@kernel
def _is_rare(m: Meetings) -> bool:
    """Whether few channels have as many flows as the worst of all shifts, in few shifts."""
    worst, used, cases = m.flows.max(), 0, 0
    for channel in range(len(m.flows)):
        for shift in range(m.flows.shape[1]):
            used += m.flows[channel, shift] > 0
            cases += m.flows[channel, shift] == worst
    return bool(worst > 1 and cases <= RARE * used)


@kernel
def _visit_all(net: Net, dests: Dests, m: Meetings, tree: Tree, step: int, next_hop: NextHops) -> int:
    """Take a step with the flows to each destination; return how many took another channel."""
    moved, worst = 0, int(m.flows.max())
    m.crowd[:] = max(worst - 1, 1)
    for channel in range(len(m.full)):
        if step == RESTORE:
            m.full[channel] = (m.load[:, channel] * net.scale[channel] > m.peak).any()
        elif step > PART:
            m.full[channel] = m.flows[channel].max() == worst
    for role in range(len(dests.segment) - 1):
        for dest in range(dests.segment[role], dests.segment[role + 1]):
            if m.rank[dest] >= 0:
                moved += _visit(net, dests, m, tree, dest, role, step, next_hop)
    return moved


@inner
def _visit(net: Net, dests: Dests, m: Meetings, tree: Tree, dest: int, role: int, step: int, next_hop: NextHops) -> int:
    """Count the flows to a destination, or let switches choose their channels; return how many took another one."""
    order = net.order
    recall_tree(net, dests, tree, next_hop, dest)
    target, moved = tree.nearest[0], 0
    if step > PART:
        concerned = False
        for i in range(1, tree.size[0]):
            concerned |= m.full[tree.onward[tree.nearest[i]]]
        if not concerned:
            return 0
    m.entered[:] = -1
    m.own[:] = 0.0
    m.behind[:2] = -1
    for i in range(1, tree.size[0]):
        switch = tree.nearest[i]
        ranks = m.begin[1, switch] - m.begin[0, switch]
        if ranks > 0:
            _append(m, switch, switch, switch)
            if step == COUNT:
                _add(net, m, tree, switch, tree.onward[switch], dest, role, 1)
                continue
        channel = tree.onward[switch]
        while ranks > 0 and channel >= 0:
            m.own[channel] += ranks
            channel = tree.onward[order.receiver[channel]]
    if step == COUNT:
        return 0
    for i in range(tree.size[0] - 1, 0, -1):  # the farthest first, so that all who send over a switch have chosen
        switch = tree.nearest[i]
        taken = tree.onward[switch]
        if m.behind[0, switch] >= 0:
            if net.kept[switch] < 0 or net.kept[switch] != net.kept[target]:
                taken = _choose(net, m, tree, switch, dest, role, step)
            if order.receiver[taken] != target:
                _append(m, order.receiver[taken], m.behind[0, switch], m.behind[1, switch])
        if taken != tree.onward[switch]:
            moved += 1
            next_hop[dests.lid[dest], switch] = taken - order.indptr[switch]
            tree.onward[switch] = taken
        m.entered[order.receiver[taken]] = max(m.entered[order.receiver[taken]], order.rank[taken])
    if moved:
        tree.size[0] = 0
    return moved


@inner
def _append(m: Meetings, switch: int, first: int, last: int) -> None:
    """Let the flows of some leaves pass a switch."""
    if m.behind[0, switch] < 0:
        m.behind[0, switch] = first
    else:
        m.behind[2, m.behind[1, switch]] = first
    m.behind[1, switch] = last


@inner
def _choose(net: Net, m: Meetings, tree: Tree, switch: int, dest: int, role: int, step: int) -> int:
    """Return the channel on which a switch's flows to a destination meet the fewest, and let them take it."""
    order, old = net.order, tree.onward[switch]
    if step in (LOWER, SWAP) and not _joins(net, m, tree, switch, old, dest, m.crowd[0] + 1):
        return int(old)
    if step == RESTORE and _fits(net, m, tree, 0, old, role):
        return int(old)
    best, least = int(old), -1.0
    for out in range(order.indptr[switch], order.indptr[switch + 1]):
        after = order.receiver[out]
        if (
            out == old
            or tree.depth[after] < 0
            or tree.depth[after] >= tree.depth[switch]
            or order.rank[out] + order.slack <= m.entered[switch]
            or (tree.onward[after] >= 0 and order.rank[out] >= order.rank[tree.onward[after]] + order.slack)
        ):
            continue
        if least < 0.0:
            flows = _add(net, m, tree, switch, old, dest, role, -1)
            least = _met(net, m, tree, switch, flows, old, dest, np.inf) if step == PART else np.inf
        if _fits(net, m, tree, 0 if step == SWAP else flows, out, role) and (
            step == PART or not _joins(net, m, tree, switch, out, dest, m.crowd[0] + (step == RESTORE))
        ):
            met = _met(net, m, tree, switch, flows, out, dest, least)
            if met < least:
                best, least = int(out), met
    if least >= 0.0:
        _add(net, m, tree, switch, best, dest, role, 1)
    return best


@inner
def _add(net: Net, m: Meetings, tree: Tree, switch: int, channel: int, dest: int, role: int, sign: int) -> int:
    """Add the flows that pass a switch to a path; return how many."""
    n, total = m.flows.shape[1], 0
    while channel >= 0:
        leaf, total = m.behind[0, switch], 0
        while leaf >= 0:
            first, last = m.rank[dest] - m.begin[1, leaf] + 1, m.rank[dest] - m.begin[0, leaf]
            for shift in range(np.uint64(max(first, 0)), np.uint64(max(last + 1, 0))):
                m.flows[channel, shift] = np.int64(m.flows[channel, shift]) + sign
            for shift in range(np.uint64(min(first, 0) + n), np.uint64(min(last + 1, 0) + n)):
                m.flows[channel, shift] = np.int64(m.flows[channel, shift]) + sign
            total += last + 1 - first
            leaf = m.behind[2, leaf] if leaf != m.behind[1, switch] else -1
        m.load[role, channel] += sign * total
        m.load[-1, channel] += sign * total
        m.own[channel] += sign * total
        channel = tree.onward[net.order.receiver[channel]]
    return total


@inner
def _met(net: Net, m: Meetings, tree: Tree, switch: int, flows: int, channel: int, dest: int, limit: float) -> float:
    """Return how many others the flows that pass a switch meet on a path, or what is beyond a limit.

    Slow channels count more.
    """
    n, total, crowd = m.flows.shape[1], 0.0, m.crowd[0]
    while channel >= 0 and total < limit:
        leaf, met = m.behind[0, switch], 0
        while leaf >= 0:
            first, last = m.rank[dest] - m.begin[1, leaf] + 1, m.rank[dest] - m.begin[0, leaf]
            for shift in range(np.uint64(max(first, 0)), np.uint64(max(last + 1, 0))):
                met += m.flows[channel, shift] * (1 + CROWD * (m.flows[channel, shift] >= crowd))
            for shift in range(np.uint64(min(first, 0) + n), np.uint64(min(last + 1, 0) + n)):
                met += m.flows[channel, shift] * (1 + CROWD * (m.flows[channel, shift] >= crowd))
            leaf = m.behind[2, leaf] if leaf != m.behind[1, switch] else -1
        random = flows * (m.load[-1, channel] - m.own[channel]) / n
        total += (m.share * met + (1 - m.share) * random) * (net.scale[channel] * net.scale[channel])
        channel = tree.onward[net.order.receiver[channel]]
    return total


@inner
def _joins(net: Net, m: Meetings, tree: Tree, switch: int, channel: int, dest: int, crowd: int) -> bool:
    """Whether flows that pass a switch are with as many on some channel of a path, in some shift."""
    n = m.flows.shape[1]
    while channel >= 0:
        leaf = m.behind[0, switch]
        while leaf >= 0:
            first, last = m.rank[dest] - m.begin[1, leaf] + 1, m.rank[dest] - m.begin[0, leaf]
            for shift in range(np.uint64(max(first, 0)), np.uint64(max(last + 1, 0))):
                if m.flows[channel, shift] >= crowd:
                    return True
            for shift in range(np.uint64(min(first, 0) + n), np.uint64(min(last + 1, 0) + n)):
                if m.flows[channel, shift] >= crowd:
                    return True
            leaf = m.behind[2, leaf] if leaf != m.behind[1, switch] else -1
        channel = tree.onward[net.order.receiver[channel]]
    return False


@inner
def _fits(net: Net, m: Meetings, tree: Tree, flows: int, channel: int, role: int) -> bool:
    """Whether a path has room for flows to a role."""
    while channel >= 0:
        for row in (role, -1):
            if (m.load[row, channel] + flows) * net.scale[channel] > m.peak[row]:
                return False
        channel = tree.onward[net.order.receiver[channel]]
    return True
