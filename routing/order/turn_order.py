"""Orders of channels for graphs that are no trees, and for trees that are joined in unforeseen ways.

An order by levels (`routing.order.channel_order`) makes every path legal that climbs and then descends. In a mesh, a
BiGraph or a dragonfly few shortest paths do. Here an order is grown instead: all turns along a spanning tree, which
connects everything, are allowed, and then turns are added one after the other, each unless it would close a loop of
dependencies: first those that most flows take in good tables over shortest paths, whatever loops these have, then any
on shortest paths. The aim is that of Nue (Domke, Hoefler and Matsuoka, HPDC 2016), which also routes inside the channel
dependency graph; but since the outcome is an order, destinations can be balanced afterwards as freely as in a tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import MAX_ROOTS, hops_from, with_ranks
from routing.order.legal import ChannelOrder, breadth_first
from routing.order.turns import ALLOWED, Turns, grow_order, no_turns, offer_turns
from topo.fabric import frozen


class Wish(NamedTuple):
    """Turns that packets would take if all were allowed."""

    first: NDArray[np.int64]  # (n,) channel before each turn
    then: NDArray[np.int64]  # (n,) channel after it
    flows: NDArray[np.float64]  # (n,) flows that take it


def grow_channel_order(order: ChannelOrder, hosts: NDArray[np.int64], wish: Wish) -> ChannelOrder:
    """Return another order of the same channels, which allows the turns that most flows would take, and others.

    After what is wished, shortest paths to switches with any of the (S,) host ports are served first.
    """
    busy = np.argsort(-wish.flows, kind="stable")
    turns = _tree_turns(order, np.argsort(np.argsort(order.rank, kind="stable")))
    offer_turns(turns, frozen(wish.first[busy].astype(np.int32)), frozen(wish.then[busy].astype(np.int32)))
    grow_order(turns, frozen(np.argsort(hosts == 0, kind="stable").astype(np.int32)))
    return with_ranks(order, turns.rank)


def regrow_channel_order(
    order: ChannelOrder, start: NDArray[np.integer], first: NDArray[np.int32], then: NDArray[np.int32]
) -> ChannelOrder:
    """Return another order of the same channels, which connects all that they connect and holds most of some turns.

    It begins with (C,) ranks, a permutation. Turns are (n,) pairs of channels, the most important first.
    """
    turns = _tree_turns(order, start)
    offer_turns(turns, frozen(first), frozen(then))
    return with_ranks(order, turns.rank)


def two_sided_order(order: ChannelOrder) -> ChannelOrder | None:
    """Return an order that balances a BiGraph as well as its shortest paths can be; None where the fabric is none.

    Two hosts of one side meet at a switch of the other side. Let half of the channels from side 0 to side 1, as many at
    each switch, rank below all channels from side 1 to side 0, and the other half above them. What side 0 sends itself
    begins on the lower half, what side 1 sends itself ends on the upper half, and what goes to the other side takes its
    one link. With n switches of h hosts a side, spread evenly, every channel carries ``h**2 * (1 + 2 * (n - 1) / n)``
    pairs, which is what all shortest paths come to for each channel (`tests/routing/engines/test_balanced.py`).
    """
    n = len(order.indptr) - 1
    depth = hops_from(0, order.indptr, order.receiver)
    side = depth % 2
    links = np.unique(order.sender.astype(np.int64) * n + order.receiver)
    if (depth < 0).any() or (side[order.sender] == side[order.receiver]).any():
        return None
    sizes = np.bincount(side, minlength=2)
    if sizes.min() < 2 or len(links) < 2 * sizes.prod():
        return None
    position = np.where(side, np.cumsum(side), np.cumsum(1 - side)) - 1  # among the switches of its side
    cables = np.diff(order.indptr)[order.sender]
    turn = np.arange(len(order.sender)) - order.indptr[order.sender] - position[order.sender] * cables // sizes[1]
    early = turn % cables < cables // 2
    rank = np.where(side[order.sender] == 1, 1, np.where(early, 0, 2)).astype(np.int32)
    return with_ranks(order, np.argsort(np.lexsort((np.arange(len(rank)), rank))).astype(np.int32))


def _tree_turns(order: ChannelOrder, start: NDArray[np.integer]) -> Turns:
    """Return ranks that allow all turns along a shallow spanning tree of each component, and no others.

    The channels of a tree exchange theirs to that end; ``start`` is a permutation, and so are the ranks.
    """
    n, turns = len(order.indptr) - 1, no_turns(order, start.astype(np.int32))
    rank, state = turns.rank, turns.state
    depth = np.full(n, -1, np.int64)
    outward = np.zeros(0, np.int64)
    while (depth < 0).any():
        reached = hops_from(int(np.argmin(depth)), order.indptr, order.receiver)
        members = np.flatnonzero(reached >= 0)
        tried = members[:: len(members) // MAX_ROOTS + 1]
        root = min(tried.tolist(), key=lambda one: int(hops_from(one, order.indptr, order.receiver).max()))
        distance, entry = _spanning_tree(root, order)
        depth[members] = distance[members]
        outward = np.concatenate([outward, entry])
    outward = outward[np.argsort(depth[order.receiver[outward]], kind="stable")]
    in_turn = np.concatenate([order.reverse[outward][::-1], outward])
    rank[in_turn] = np.sort(rank[in_turn])
    for channel in in_turn.tolist():
        here = order.receiver[channel]
        then = in_turn[(order.sender[in_turn] == here) & (in_turn != order.reverse[channel])]
        state[channel, then[rank[then] > rank[channel]] - order.indptr[here]] = ALLOWED
    return turns


def _spanning_tree(root: int, order: ChannelOrder) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return (S,) hops from a switch, and by receiver the channels over which a breadth-first search reaches others."""
    hops, nearest = np.empty((2, len(order.indptr) - 1), np.int32)
    count = breadth_first(root, order.indptr, order.receiver, hops, nearest)
    position = np.full(len(hops), count)
    position[nearest[:count]] = np.arange(count)
    leads = np.flatnonzero((hops[order.sender] >= 0) & (hops[order.receiver] == hops[order.sender] + 1))
    leads = leads[np.lexsort((leads, position[order.sender[leads]], order.receiver[leads]))]
    return hops, leads[np.diff(order.receiver[leads], prepend=-1) != 0]
