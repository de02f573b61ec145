"""Takes flows off the most loaded channels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.kernels.machine_code import kernel
from routing.kernels.traffic import (
    Dests,
    Net,
    Traffic,
    Tree,
    add_flows,
    empty_tree,
    recall_tree,
    sum_traffic,
)

NextHops = NDArray[np.uint8]


@kernel
def relieve_peaks(net: Net, dests: Dests, moves: int, next_hop: NextHops) -> int:
    """Move one switch's flows to one destination at a time off the most loaded channel.

    Parameters
    ----------
    net, dests
    moves : int
        Most moves.
    next_hop : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. Legal paths, and no longer afterwards.

    Returns
    -------
    int
        Moves that were made; fewer when the peak cannot be lowered.
    """
    tree = empty_tree(net)
    traffic = sum_traffic(net, dests, tree, next_hop)
    for move in range(moves):
        if not _relieve(net, dests, tree, traffic, next_hop):
            return move
    return moves


@kernel
def _relieve(net: Net, dests: Dests, tree: Tree, traffic: Traffic, next_hop: NextHops) -> bool:
    """Take one switch's flows to one destination off the most loaded channel; return whether that was possible.

    Of all such moves it makes the one that leaves the least peak on the channels concerned.
    """
    indptr, sender, receiver, reverse, rank = (
        net.order.indptr,
        net.order.sender,
        net.order.receiver,
        net.order.reverse,
        net.order.rank,
    )
    n = len(net.sources)
    full = int(np.argmax(traffic.load))
    channel = reverse[full]
    here, peak = sender[channel], traffic.load[full]
    over = np.empty(n, np.bool_)
    entered = np.empty(n, np.int32)
    best, best_dest, best_switch, best_channel = peak, -1, -1, -1
    for dest in range(len(dests.lid)):
        if next_hop[dests.lid[dest], here] != channel - indptr[here]:
            continue
        recall_tree(net, dests, tree, next_hop, dest)
        # Switches that send over it, and the highest rank of a channel over which each is entered.
        over[:] = False
        over[here] = True
        entered[:] = -1
        for i in range(1, tree.size[0]):
            switch = tree.nearest[i]
            after = receiver[tree.onward[switch]]
            over[switch] |= over[after]
            entered[after] = max(entered[after], rank[tree.onward[switch]])
        for i in range(1, tree.size[0]):
            switch = tree.nearest[i]
            flows = tree.flow[switch] * dests.weight[dest]
            if not over[switch] or flows == 0.0:
                continue
            for channel_out in range(indptr[switch], indptr[switch + 1]):
                after = receiver[channel_out]
                if (
                    tree.depth[after] < 0
                    or tree.depth[after] >= tree.depth[switch]
                    or over[after]
                    or channel_out == channel
                    or rank[channel_out] <= entered[switch]
                    or (tree.onward[after] >= 0 and rank[channel_out] >= rank[tree.onward[after]])
                ):
                    continue
                left = max(_peak(net, tree, traffic, channel_out, flows), peak - flows * net.scale[channel])
                if left < best:
                    best, best_dest, best_switch, best_channel = left, dest, switch, channel_out
    if best_dest < 0:
        return False
    recall_tree(net, dests, tree, next_hop, best_dest)
    add_flows(net, tree, traffic, -dests.weight[best_dest], 0.0)
    next_hop[dests.lid[best_dest], best_switch] = best_channel - indptr[best_switch]
    recall_tree(net, dests, tree, next_hop, best_dest)
    add_flows(net, tree, traffic, dests.weight[best_dest], 0.0)
    return True


@kernel
def _peak(net: Net, tree: Tree, traffic: Traffic, channel: int, flows: float) -> float:
    """Highest load on the path from a channel to the target once more flows take it."""
    receiver, reverse = net.order.receiver, net.order.reverse
    peak = 0.0
    while channel >= 0:
        peak = max(peak, traffic.load[reverse[channel]] + flows * net.scale[channel])
        channel = tree.onward[receiver[channel]]
    return peak
