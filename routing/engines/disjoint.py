"""Trees to one destination that share few cables, and how many cables paths to one destination share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel
from routing.order.legal import ChannelOrder, empty_paths, legal_choices

Int32s = NDArray[np.int32]

LINK, SWITCH = 16, 1
"""Cost of a shared cable, and of a shared switch on the way."""


class LidNet(NamedTuple):
    """Channels, and D destinations with several LIDs, those of one switch together and of one role there."""

    order: ChannelOrder
    offset: Int32s
    """`port_offset` of the fabric."""
    at: Int32s
    """(P,) channel of each port, -1 for those that lead to no other switch."""
    sources: Int32s
    """(S,) sources at each switch."""
    dest_switch: Int32s
    """(D,) switch of each destination."""
    lid: Int32s
    """(D,) lowest LID."""
    partner: Int32s
    """(D, LIDs) the destination whose paths to its lowest LID go where those to each LID should, for balance."""


@inner
def _channel(net: LidNet, by_lid: NDArray[np.uint8], lid: int, switch: int) -> int:
    """Return the channel that a switch takes to a LID; -1 where it takes none to another switch."""
    number = by_lid[lid, switch]
    if number == 0 or number > net.offset[switch + 1] - net.offset[switch]:
        return -1
    return int(net.at[net.offset[switch] + number - 1])


@kernel
def add_trees(
    net: LidNet, by_lid: NDArray[np.uint8], begin: int, end: int, detour: int, load: NDArray[np.int64]
) -> None:
    """Fill in the paths to all LIDs of some destinations but the lowest, on as few cables of those before as may be.

    Where the partner's paths do, they are taken as they are. Else a switch takes a shortest legal path, or if no other
    sends through it a longer one that shares fewer cables; among those that share alike the partner's next step, and
    then the least loaded.

    Parameters
    ----------
    net : LidNet
    by_lid : (T, S) uint8, in and out
        Output ports by LID and switch.
    begin, end : int
        Destinations.
    detour : int
        Switches that a path may have beyond the shortest legal one.
    load : (LIDs, C) int64, in and out
        Pairs over each channel; at first as if all took the paths of their partners.
    """
    order, paths = net.order, empty_paths(net.order)
    n, width = len(net.sources), net.partner.shape[1]
    onward, depth, inside = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    marks, passed = np.zeros(len(order.sender), np.int64), np.zeros(n, np.int64)
    used = np.zeros(len(order.sender), np.int64)  # pairs with this destination over each channel so far
    stamp, count, last = 0, 0, -1
    for d in range(begin, end):
        dest_switch = net.dest_switch[d]
        if dest_switch != last:
            count, last = legal_choices(dest_switch, order, paths), dest_switch
        used[:] = 0
        for k in range(1, width):
            for source in range(n):
                _add_load(net, by_lid, net.lid[d] + k - 1, source, dest_switch, net.sources[source], used)
            like, lid, shared, worth = net.lid[net.partner[d, k]], net.lid[d], 0, 0
            onward[:] = -1
            inside[:] = 0
            depth[dest_switch] = 0
            for i in range(1, count):
                here = paths.nearest[i]
                stamp += 1
                _mark(net, by_lid, lid, k, here, dest_switch, stamp, marks, passed)
                if net.sources[here]:
                    shared += net.sources[here] * _shared_by(net, by_lid, like, here, dest_switch, stamp, marks, passed)
                own, best, least = _channel(net, by_lid, like, here), -1, 1 << 60
                for c in range(order.indptr[here], order.indptr[here] + paths.n_choices[here]):
                    channel = paths.choice[c]
                    if net.sources[here]:
                        cost = _shared(order, onward, channel, dest_switch, stamp, marks, passed)
                    else:
                        cost = _pairs_on(order, onward, channel, dest_switch, used)
                    cost = 2 * cost + (channel != own)
                    if cost < least or (cost == least and load[k, channel] < load[k, best]):
                        best, least = channel, cost
                onward[here] = best
                depth[here] = depth[order.receiver[best]] + 1
                inside[order.receiver[best]] += 1
            for i in range(1, count):
                here = paths.nearest[i]
                if not net.sources[here] or not shared:
                    continue
                stamp += 1
                _mark(net, by_lid, lid, k, here, dest_switch, stamp, marks, passed)
                least = _shared(order, onward, onward[here], dest_switch, stamp, marks, passed)
                for channel in range(order.indptr[here], order.indptr[here + 1]):
                    there = order.receiver[channel]
                    if inside[here] or least < LINK or depth[there] >= depth[here] + detour:
                        continue
                    if there != dest_switch and (onward[there] < 0 or order.rank[channel] >= order.rank[onward[there]]):
                        continue
                    cost = _shared(order, onward, channel, dest_switch, stamp, marks, passed)
                    if cost // LINK < least // LINK:
                        inside[order.receiver[onward[here]]] -= 1
                        inside[there] += 1
                        onward[here], least = channel, cost
                worth += net.sources[here] * least
            by_lid[lid + k] = by_lid[like]
            if shared > worth:
                for i in range(1, count):
                    here = paths.nearest[i]
                    _add_load(net, by_lid, like, here, dest_switch, -net.sources[here], load[k])
                    by_lid[lid + k, here] = order.number[onward[here]]
                for i in range(1, count):
                    here = paths.nearest[i]
                    _add_load(net, by_lid, lid + k, here, dest_switch, net.sources[here], load[k])
            by_lid[lid + k, dest_switch] = by_lid[lid, dest_switch]


@kernel
def compare_trees(net: LidNet, by_lid: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.float64]:
    """Return (n, n) what paths to the lowest LIDs of some destinations at one switch share, summed over sources."""
    size, n, dest_switch = end - begin, len(net.sources), net.dest_switch[begin]
    cost = np.zeros((size, size))
    marks, passed, stamp = np.zeros(len(net.order.sender), np.int64), np.zeros(n, np.int64), 0
    for one in range(size):
        for source in range(n):
            if not net.sources[source] or source == dest_switch:
                continue
            stamp += 1
            _mark(net, by_lid, net.lid[begin + one], 1, source, dest_switch, stamp, marks, passed)
            for other in range(size):
                lid = net.lid[begin + other]
                shared = _shared_by(net, by_lid, lid, source, dest_switch, stamp, marks, passed)
                cost[one, other] += net.sources[source] * shared
    return cost


@inner
def _shared_by(
    net: LidNet, by_lid: NDArray[np.uint8], lid: int, switch: int, dest_switch: int, stamp: int,
    marks: NDArray[np.int64], passed: NDArray[np.int64],
) -> int:  # fmt: skip
    """Return what the path of a switch to a LID shares with those that are stamped."""
    cost, hops = 0, 0
    while switch != dest_switch and hops < len(passed):
        channel = _channel(net, by_lid, lid, switch)
        if channel < 0:
            break
        switch = net.order.receiver[channel]
        cost += LINK * (marks[channel] == stamp) + SWITCH * (switch != dest_switch and passed[switch] == stamp)
        hops += 1
    return cost


@inner
def _add_load(
    net: LidNet,
    by_lid: NDArray[np.uint8],
    lid: int,
    switch: int,
    dest_switch: int,
    amount: int,
    load: NDArray[np.int64],
) -> None:
    """Add the pairs of a switch with a LID to the (C,) load of channels."""
    hops = 0
    while amount and switch != dest_switch and hops < len(net.sources):
        channel = _channel(net, by_lid, lid, switch)
        if channel < 0:
            return
        load[channel] += amount
        switch = net.order.receiver[channel]
        hops += 1


@inner
def _mark(
    net: LidNet, by_lid: NDArray[np.uint8], lid: int, count: int, here: int, dest_switch: int, stamp: int,
    marks: NDArray[np.int64], passed: NDArray[np.int64],
) -> None:  # fmt: skip
    """Stamp the cables and switches of the paths from a switch to some LIDs of a destination."""
    for k in range(count):
        switch, hops = here, 0
        while switch != dest_switch and hops < len(passed):
            channel = _channel(net, by_lid, lid + k, switch)
            if channel < 0:
                break
            marks[channel] = stamp
            marks[net.order.reverse[channel]] = stamp
            switch = net.order.receiver[channel]
            passed[switch] = stamp
            hops += 1


@inner
def _shared(
    order: ChannelOrder, onward: Int32s, channel: int, dest_switch: int, stamp: int,
    marks: NDArray[np.int64], passed: NDArray[np.int64],
) -> int:  # fmt: skip
    """Return what the path that begins with a channel shares with those that are stamped."""
    cost = 0
    while True:
        cost += LINK * int(marks[channel] == stamp)
        switch = order.receiver[channel]
        if switch == dest_switch:
            return cost
        cost += SWITCH * int(passed[switch] == stamp)
        channel = onward[switch]


@inner
def _pairs_on(order: ChannelOrder, onward: Int32s, channel: int, dest_switch: int, used: NDArray[np.int64]) -> int:
    """Return how many pairs use the channels of the path that begins with one."""
    pairs = int(used[channel])
    while order.receiver[channel] != dest_switch:
        channel = onward[order.receiver[channel]]
        pairs += int(used[channel])
    return pairs


@kernel
def count_shared(net: LidNet, by_lid: NDArray[np.uint8], begin: int, end: int) -> NDArray[np.float64]:
    """Return what paths to all LIDs of some destinations share, where all arrive at another switch.

    Pairs, pairs that share no cable, and the sum over pairs of different cables by cables.
    """
    total, width = np.zeros(3), net.partner.shape[1]
    marks, n = np.zeros(len(net.order.sender), np.int64), len(net.sources)
    stamp = 0
    for d in range(begin, end):
        for source in range(n):
            if not net.sources[source] or source == net.dest_switch[d]:
                continue
            stamp += 1
            cables, different, arrives = 0, 0, True
            for k in range(width):
                switch, hops = source, 0
                while switch != net.dest_switch[d] and hops <= n:
                    channel = _channel(net, by_lid, net.lid[d] + k, switch)
                    if channel < 0:
                        break
                    cables += 1
                    different += marks[channel] != stamp
                    marks[channel] = stamp
                    marks[net.order.reverse[channel]] = stamp
                    switch = net.order.receiver[channel]
                    hops += 1
                arrives &= switch == net.dest_switch[d]
            if arrives:
                total[0] += net.sources[source]
                total[1] += net.sources[source] * (different == cables)
                total[2] += net.sources[source] * different / cables
    return total
