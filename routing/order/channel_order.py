"""An order of all channels between switches that makes credit loops impossible.

A path is *legal* when the ranks of its channels rise. Packets then only wait for channels of higher rank, so no set of
legal paths has a cycle of dependencies (Dally and Seitz, IEEE Trans. Computers C-36(5), 1987), whatever an engine
chooses among them, and one virtual lane is enough.

Switches are sorted by level. A channel to a later switch goes *up*, one to an earlier switch goes *down*; up channels
rank by their sender, and all down channels above all up channels, in the opposite order. That is up*/down* routing
(Autonet, Schroeder et al. 1991): any path that climbs and then descends is legal, so every shortest path between
hosts on the leaves of a tree is.

It connects two switches only if something is above both. Spines of a two-level tree and cores of a three-level tree
have nothing above them, yet management hosts and SHARP aggregation nodes hang on them. So the *peaks*, switches without
an up channel, are joined by a *turning tree* of links (in a fat-tree: a leaf, its spines, and one cable from these to
each core). Its channels rank between up and down: first towards its root, then away from it. Any switch climbs to a
peak, goes along the tree to the right peak, and descends, so every pair in a connected fabric has a legal path. What
is lost are a few turns at single cables of the tree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.order.dependencies import dependency_graph, order_by_key
from routing.order.legal import ChannelOrder, breadth_first
from routing.tables import NO_PATH
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Role, frozen
from topo.graphs import components

Ints = NDArray[np.int32]

MAX_ROOTS = 64
"""Switches of a component that are tried as root of its turning tree: those nearest to hosts above the leaves, or else
some of the lowest. As many of all are tried as root of a spanning tree (`routing.order.turn_order`)."""


def switch_levels(fabric: Fabric) -> NDArray[np.int64]:
    """Return (S,) the level of each switch: those of the fabric, or found from its wiring where some are not known.

    A switch that has cables up neither itself nor over another hangs below those of its level that have some, as the
    switch of a slow subtree does below leaves: it gets a level below theirs, and all others one more.
    """
    n = fabric.n_switches
    known = fabric if (fabric.level[:n] > 0).all() else find_levels(fabric)
    level = known.level[:n].astype(np.int64)
    joint = known.role[:n] == Role.JOINT
    a, b = fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]
    rises = np.zeros(n, bool)
    rises[a[(level[b] > level[a]) & ~joint[b]]] = True
    hangs = (level[a] == level[b]) & rises[b] & ~rises[a] & ~joint[a]
    hangs[hangs] &= level[a[hangs]] == 1
    if not hangs.any():
        return level
    level += 1
    level[a[hangs]] -= 1
    return level


def order_channels(fabric: Fabric, level: NDArray[np.int64], *, join_peaks: bool = True) -> ChannelOrder:
    """Rank the channels of any fabric, by the (S,) levels of its switches.

    Turning trees join what has nothing above, if ``join_peaks``; if not, some switches cannot reach each other.
    """
    n = fabric.n_switches
    ports = fabric.inner
    sender, receiver = fabric.port_node[ports], fabric.peer_node[ports]
    plane = _planes(level, sender, receiver)[receiver]
    ports = ports[np.lexsort((np.minimum(ports, fabric.peer[ports]), receiver, plane, sender))]
    sender, receiver = frozen(fabric.port_node[ports]), frozen(fabric.peer_node[ports])
    indptr = frozen(np.searchsorted(sender, np.arange(n + 1)).astype(np.int32))
    height = np.empty(n, np.int64)  # position by level
    height[np.lexsort((np.arange(n), level))] = np.arange(n)
    up = height[receiver] > height[sender]
    at = np.empty(fabric.n_ports, np.int32)
    at[ports] = np.arange(len(ports))
    reverse = at[fabric.peer[ports]]
    rank = np.where(up, height[sender], 4 * n - height[sender]).astype(np.int32)
    links = _turning_trees(fabric, indptr, sender, receiver, up) if join_peaks else []
    for position, (parent, child) in enumerate(links):
        # Parallel cables of a link belong to the tree like the first.
        outward = indptr[parent] + np.flatnonzero(receiver[indptr[parent] : indptr[parent + 1]] == child)
        rank[outward] = 2 * n + position
        rank[reverse[outward]] = 2 * n - 1 - position
    number, rate_gbps = frozen(fabric.port_number[ports]), frozen(fabric.rate_gbps[ports])
    none = frozen(np.zeros(0, np.int32))
    order = ChannelOrder(indptr, sender, receiver, frozen(reverse), number, rate_gbps, none, none, none)
    return with_ranks(order, rank)


def with_ranks(order: ChannelOrder, rank: Ints) -> ChannelOrder:
    """Return an order of the same channels with other ranks."""
    sender = order.sender
    channels = np.lexsort((np.arange(len(rank)), sender, -rank)).astype(np.int32)
    ties = np.flatnonzero((np.diff(rank[channels], prepend=-1) != 0) | (np.diff(sender[channels], prepend=-1) != 0))
    tie_indptr = frozen(np.append(ties, len(channels)).astype(np.int32))
    return order._replace(rank=frozen(rank), by_rank_desc=frozen(channels), tie_indptr=tie_indptr)


def rising_order(fabric: Fabric, depends: NDArray[np.uint64]) -> ChannelOrder:
    """Return the order nearest to up and down in which all paths rise that make some dependencies without a cycle.

    Dependencies are (P, words), as `routing.pairs.PairWalk` has them of one lane.
    """
    order = order_channels(fabric, switch_levels(fabric))
    port = fabric.port_offset[order.sender] + order.number - 1
    key = np.zeros(fabric.n_ports, np.int32)
    key[port] = order.rank
    indptr, then = dependency_graph(frozen(depends), fabric.port_offset, fabric.peer_node)
    return with_ranks(order, order_by_key(indptr, then, fabric.inner, key)[port])


def taken_channels(order: ChannelOrder, lft: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return (T, S) which of its channels each entry of a switch names; `NO_PATH` where it names none."""
    found = np.empty(lft.shape[::-1], np.uint8)
    for switch in range(len(lft)):
        index = np.full(NO_PATH + 1, NO_PATH, np.uint8)
        mine = order.number[order.indptr[switch] : order.indptr[switch + 1]]
        index[mine] = np.arange(len(mine))
        found[:, switch] = index[lft[switch]]
    return found


def port_numbers(order: ChannelOrder, next_hop: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return (S, T) the port of each channel, by switch and LID: what `taken_channels` takes."""
    lft = np.empty(next_hop.shape[::-1], np.uint8)
    for switch in range(len(lft)):
        number = np.full(NO_PATH + 1, NO_PATH, np.uint8)
        mine = order.number[order.indptr[switch] : order.indptr[switch + 1]]
        number[: len(mine)] = mine
        lft[switch] = number[next_hop[:, switch]]
    return lft


def write_ports(
    order: ChannelOrder, before: NDArray[np.uint8], after: NDArray[np.uint8], lft: NDArray[np.uint8]
) -> None:
    """Write the ports of channels that differ, (T, S) as `taken_channels` returns them, to (S, T) tables."""
    lid, switch = np.nonzero(after != before)
    lft[switch, lid] = order.number[order.indptr[switch] + after[lid, switch]]


def hops_from(root: int, indptr: Ints, receiver: Ints) -> Ints:
    """Return (S,) hops from a switch, -1 where no cable leads."""
    hops = np.empty(len(indptr) - 1, np.int32)
    breadth_first(root, indptr, receiver, hops, np.empty_like(hops))
    return hops


def _planes(level: NDArray[np.int64], sender: Ints, receiver: Ints) -> NDArray[np.int64]:
    """Return (S,) the plane of each switch, numbered within its level."""
    n = len(level)
    plane = np.zeros(n, np.int64)
    for lowest in np.unique(level).tolist():
        inside = (level[sender] >= lowest) & (level[receiver] >= lowest)
        here = level == lowest
        plane[here] = components(n, sender[inside], receiver[inside])[here]
    return plane


def _turning_trees(
    fabric: Fabric, indptr: Ints, sender: Ints, receiver: Ints, up: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Return the links (parent, child) of each component's turning tree, each parent's own link before them."""
    n = fabric.n_switches
    has_up = np.zeros(n, bool)
    has_up[sender[up]] = True
    component = components(n, sender, receiver)
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=n)
    lowest = np.bincount(receiver[up], minlength=n) == 0
    trees: list[tuple[int, int]] = []
    for number in range(component.max(initial=-1) + 1):
        members = np.flatnonzero(component == number)
        peaks = members[~has_up[members]]
        if len(peaks) < 2:
            continue
        # Switches above leaves that hold hosts are joined as well: their hosts shall not climb to a peak and back.
        odd = members[(hosts[members] > 0) & ~lowest[members]]
        if len(odd):
            near = hops_from(int(odd[0]), indptr, receiver)
            roots = members[np.argsort(near[members], kind="stable")][:MAX_ROOTS]
        else:
            roots = members[lowest[members]]
            roots = roots[:: len(roots) // MAX_ROOTS + 1]
        trees += _turning_tree(indptr, receiver, roots, np.union1d(peaks, odd), hosts)
    return trees


def _turning_tree(
    indptr: Ints, receiver: Ints, roots: NDArray[np.int64], terminals: NDArray[np.int64], hosts: NDArray[np.int64]
) -> list[tuple[int, int]]:
    """Return links (parent, child) of a shallow tree with few inner switches that holds the terminals, root first."""

    def score(root: int) -> tuple[int, ...]:
        reach = hops_from(root, indptr, receiver)[terminals]
        return int(reach.sum()), int(hosts[root]), int(indptr[root] - indptr[root + 1]), root

    distance = hops_from(min(roots.tolist(), key=score), indptr, receiver)
    members = set(terminals.tolist())
    layers: list[list[tuple[int, int]]] = []
    for depth in range(int(distance[terminals].max()), 0, -1):
        children = sorted(switch for switch in members if distance[switch] == depth)
        offers: dict[int, list[int]] = {}
        for child in children:
            for parent in sorted(set(receiver[indptr[child] : indptr[child + 1]].tolist())):
                if distance[parent] == depth - 1:
                    offers.setdefault(parent, []).append(child)
        layers.append(_cover(children, offers, members))
        members.update(parent for parent, _ in layers[-1])
    return [link for links in reversed(layers) for link in links]


def _cover(children: list[int], offers: dict[int, list[int]], members: set[int]) -> list[tuple[int, int]]:
    """Link each child to one of the parents that offer to take it: to as few as a greedy cover finds."""
    links: list[tuple[int, int]] = []
    waiting = set(children)
    while waiting:
        parent = min(offers, key=lambda one: (-len(waiting.intersection(offers[one])), one not in members, one))
        links += [(parent, child) for child in offers.pop(parent) if child in waiting]
        waiting.difference_update(child for _, child in links)
    return sorted(links)
