"""Takes flows off the most loaded channels."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from routing.kernels.traffic import (
    Goals,
    Net,
    Traffic,
    Tree,
    add_flows,
    empty_tree,
    recall_tree,
    sum_traffic,
)

Ways = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def relieve_peaks(net: Net, goals: Goals, moves: int, way: Ways) -> int:
    """Move one switch's flows to one destination at a time off the most loaded channel.

    Parameters
    ----------
    net, goals
    moves : int
        Most moves.
    way : (T, S) uint8, in and out
        By LID and switch: which of its channels a switch takes. Legal paths, and no longer afterwards.

    Returns
    -------
    int
        Moves that were made; fewer when the peak cannot be lowered.
    """
    tree = empty_tree(net)
    traffic = sum_traffic(net, goals, tree, way)
    for move in range(moves):
        if not _relieve(net, goals, tree, traffic, way):
            return move
    return moves


@njit(cache=True, nogil=True)
def _relieve(net: Net, goals: Goals, tree: Tree, traffic: Traffic, way: Ways) -> bool:
    """Take one switch's flows to one destination off the most loaded channel; return whether that was possible.

    Of all such moves it makes the one that leaves the least peak on the channels concerned.
    """
    n = len(net.sources)
    full = int(np.argmax(traffic.price))
    channel = net.reverse[full]
    here, peak = net.sender[channel], traffic.price[full]
    over = np.empty(n, np.bool_)
    entered = np.empty(n, np.int32)
    best, best_goal, best_switch, best_way = peak, -1, -1, -1
    for goal in range(len(goals.lid)):
        if way[goals.lid[goal], here] != channel - net.first[here]:
            continue
        recall_tree(net, goals, tree, way, goal)
        # Switches that send over it, and the highest rank of a channel over which each is entered.
        over[:] = False
        over[here] = True
        entered[:] = -1
        for i in range(1, tree.size[0]):
            switch = tree.order[i]
            after = net.receiver[tree.onward[switch]]
            over[switch] |= over[after]
            entered[after] = max(entered[after], net.rank[tree.onward[switch]])
        for i in range(1, tree.size[0]):
            switch = tree.order[i]
            flows = tree.flow[switch] * goals.weight[goal]
            if not over[switch] or flows == 0.0:
                continue
            for way_out in range(net.first[switch], net.first[switch + 1]):
                after = net.receiver[way_out]
                if (
                    tree.depth[after] < 0
                    or tree.depth[after] >= tree.depth[switch]
                    or over[after]
                    or way_out == channel
                    or net.rank[way_out] <= entered[switch]
                    or (tree.onward[after] >= 0 and net.rank[way_out] >= net.rank[tree.onward[after]])
                ):
                    continue
                left = max(_peak(net, tree, traffic, way_out, flows), peak - flows * net.scale[channel])
                if left < best:
                    best, best_goal, best_switch, best_way = left, goal, switch, way_out
    if best_goal < 0:
        return False
    recall_tree(net, goals, tree, way, best_goal)
    add_flows(net, tree, traffic, -goals.weight[best_goal], 0.0)
    way[goals.lid[best_goal], best_switch] = best_way - net.first[best_switch]
    recall_tree(net, goals, tree, way, best_goal)
    add_flows(net, tree, traffic, goals.weight[best_goal], 0.0)
    return True


@njit(cache=True, nogil=True)
def _peak(net: Net, tree: Tree, traffic: Traffic, channel: int, flows: float) -> float:
    """Highest load on the way from a channel to the target once more flows take it."""
    peak = 0.0
    while channel >= 0:
        peak = max(peak, traffic.price[net.reverse[channel]] + flows * net.scale[channel])
        channel = tree.onward[net.receiver[channel]]
    return peak
