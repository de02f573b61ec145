"""Moves the flows of a demand to channels that are less full, along an order of channels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel

Int32s = NDArray[np.int32]
Floats = NDArray[np.float64]


class DemandNet(NamedTuple):
    """Channels, and the demand."""

    offset: Int32s
    """`port_offset` of the fabric."""
    node: Int32s
    """`port_node` of the fabric."""
    peer: Int32s
    """`peer` of the fabric."""
    position: Int32s
    """(P,) place of each channel between switches in an order; -1 for what no path may take."""
    rising: bool
    """Whether paths may only rise in the order."""
    scale: Floats
    """(P,) the fastest rate over that of the channel."""
    home: Int32s
    """(D,) switch of each destination."""
    lid: Int32s
    """(D,) its LID."""
    row: Int32s
    """(D,) its row of ``weight``."""
    weight: Floats
    """(R, S) demand from the hosts of each switch."""


@inner
def _recall(net: DemandNet, by_lid: NDArray[np.uint8], d: int, onward: Int32s, depth: Int32s, order: Int32s) -> int:
    """Find the channel that each switch takes to a destination; return how many switches arrive, nearest first."""
    n, lid, last = len(depth), net.lid[d], net.offset[len(depth)]
    depth[:] = -1
    onward[:] = -1
    depth[net.home[d]] = 0
    order[0] = net.home[d]
    count, i = 1, 0
    while i < count:
        there = order[i]
        i += 1
        for own in range(net.offset[there], net.offset[there + 1]):
            channel = net.peer[own]
            if channel < 0 or channel >= last:
                continue
            here = net.node[channel]
            if depth[here] < 0 and by_lid[lid, here] == channel - net.offset[here] + 1 and count < n:
                depth[here] = depth[there] + 1
                onward[here] = channel
                order[count] = here
                count += 1
    return count


@kernel
def load_of_demand(net: DemandNet, by_lid: NDArray[np.uint8], begin: int, end: int, load: Floats) -> None:
    """Add the flows to some destinations to the (P,) load of channels, slow ones scaled up."""
    n = len(by_lid[0])
    onward, depth, order = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    flow = np.empty(n)
    for d in range(begin, end):
        count = _recall(net, by_lid, d, onward, depth, order)
        flow[:] = net.weight[net.row[d]]
        for i in range(count - 1, 0, -1):
            here = order[i]
            load[onward[here]] += flow[here] * net.scale[onward[here]]
            flow[net.node[net.peer[onward[here]]]] += flow[here]


@kernel
def move_demand(net: DemandNet, by_lid: NDArray[np.uint8], begin: int, end: int, load: Floats, full: float) -> int:
    """Let switches send to some destinations over other channels where that lowers the sum of eighth powers of loads.

    Only paths over a full channel are moved. None gets longer, and all rise in the order of channels.

    Parameters
    ----------
    net : DemandNet
    by_lid : (T, S) uint8, in and out
        Output ports by LID and switch.
    begin, end : int
        Destinations.
    load : (P,) float64, in and out
        Of all destinations.
    full : float
        Load from which on a channel is full.

    Returns
    -------
    int
        Moves that were made.
    """
    n = len(by_lid[0])
    onward, depth, order = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    entered, flow, fullest = np.empty(n, np.int32), np.empty(n), np.empty(n)
    moves = 0
    for d in range(begin, end):
        lid, home = net.lid[d], net.home[d]
        count = _recall(net, by_lid, d, onward, depth, order)
        flow[:] = net.weight[net.row[d]]
        entered[:] = -1
        fullest[home] = 0.0
        for i in range(count - 1, 0, -1):
            here = order[i]
            there = net.node[net.peer[onward[here]]]
            flow[there] += flow[here]
            entered[there] = max(entered[there], net.position[onward[here]])
        for i in range(1, count):
            here = order[i]
            fullest[here] = max(load[onward[here]], fullest[net.node[net.peer[onward[here]]]])
            if flow[here] <= 0.0 or fullest[here] < full or net.position[onward[here]] < 0:
                continue
            best, taken = -1e-9 * _eighth(load[onward[here]]), -1
            for channel in range(net.offset[here], net.offset[here + 1]):
                if channel == onward[here] or (net.rising and net.position[channel] <= entered[here]):
                    continue
                gain = _change(net, onward, depth, load, here, channel, home, flow[here])
                if gain < best:
                    best, taken = gain, channel
            if taken < 0:
                continue
            _shift(net, onward, load, onward[here], home, -flow[here])
            _shift(net, onward, load, taken, home, flow[here])
            # Flows behind and before this switch change with it.
            old = net.node[net.peer[onward[here]]]
            new = net.node[net.peer[taken]]
            _carry(net, onward, flow, old, home, -flow[here])
            _carry(net, onward, flow, new, home, flow[here])
            onward[here] = taken
            by_lid[lid, here] = taken - net.offset[here] + 1
            entered[new] = max(entered[new], net.position[taken])
            fullest[here] = max(load[taken], fullest[new])
            moves += 1
    return moves


@inner
def _power(load: float, more: float) -> float:
    """Return how much the eighth power of a load rises with a flow."""
    return _eighth(load + more) - _eighth(load)


@inner
def _eighth(value: float) -> float:
    """Return the eighth power, in products: `**` rounds otherwise where it is interpreted."""
    square = value * value
    fourth = square * square
    return fourth * fourth


@inner
def _change(
    net: DemandNet, onward: Int32s, depth: Int32s, load: Floats, here: int, channel: int, home: int, flow: float
) -> float:
    """Return by how much the sum of eighth powers changes if a switch takes another channel; infinity if it may not."""
    n, far = len(depth), net.peer[channel]
    if far < 0 or far >= net.offset[n] or net.position[channel] < 0:
        return np.inf
    # The old path without the flow and the new one with it; where they meet, nothing changes.
    hops, switch, before = 1, net.node[far], net.position[channel]
    if switch == here:
        return np.inf
    total = _power(load[channel], flow * net.scale[channel])
    while switch != home:
        step = onward[switch]
        hops += 1
        if depth[switch] < 0 or hops > depth[here] or switch == here:
            return np.inf
        if net.rising and net.position[step] <= before:
            return np.inf
        before = net.position[step]
        total += _power(load[step], flow * net.scale[step])
        switch = net.node[net.peer[step]]
    step, switch = onward[here], here
    while True:
        shared = _on_path(net, onward, channel, home, step)
        amount = flow * net.scale[step]
        if shared:
            total -= _power(load[step], amount)
        else:
            total += _power(load[step], -amount)
        switch = net.node[net.peer[step]]
        if switch == home:
            return total
        step = onward[switch]


@inner
def _on_path(net: DemandNet, onward: Int32s, channel: int, home: int, wanted: int) -> bool:
    """Whether a channel is on the path that begins with another."""
    while channel != wanted:
        switch = net.node[net.peer[channel]]
        if switch == home:
            return False
        channel = onward[switch]
    return True


@inner
def _shift(net: DemandNet, onward: Int32s, load: Floats, channel: int, home: int, flow: float) -> None:
    """Add a flow to all channels of the path that begins with one."""
    while True:
        load[channel] += flow * net.scale[channel]
        switch = net.node[net.peer[channel]]
        if switch == home:
            return
        channel = onward[switch]


@inner
def _carry(net: DemandNet, onward: Int32s, flow: Floats, switch: int, home: int, amount: float) -> None:
    """Add to the flow of all switches from one to the destination's."""
    while True:
        flow[switch] += amount
        if switch == home:
            return
        switch = net.node[net.peer[onward[switch]]]
