"""An order of all channels between switches that makes credit loops impossible.

A path is *legal* when the ranks of its channels rise. Packets then only wait for channels of higher rank, so no set of
legal paths has a cycle of dependencies (Dally and Seitz, IEEE Trans. Computers C-36(5), 1987), whatever an engine
chooses among them, and one virtual lane is enough.

How channels are ranked
-----------------------
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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from routing.kernels.legal import breadth_first
from topo.fabric import Fabric, Kind, freeze_arrays
from topo.levels import find_levels

Ints = NDArray[np.int32]

MAX_ROOTS = 64
"""Switches of a component that are tried as root of its turning tree: those nearest to hosts above the leaves, or else
some of the lowest."""


@dataclass(frozen=True, eq=False)
class ChannelOrder:
    """The C channels between different switches, grouped by sender, then by plane, receiver and port.

    Switches of one level are in one *plane* when switches of that level and above link them: the spines of one index in
    all pods of a three-level tree, for instance. Every leaf thus sees its planes in the same order.
    """

    first: Ints
    """(S + 1,) channels of switch s are ``first[s]`` to ``first[s + 1] - 1``."""
    sender: Ints
    """(C,) switch that sends."""
    receiver: Ints
    """(C,) switch that receives."""
    reverse: Ints
    """(C,) the other channel of each link."""
    number: Ints
    """(C,) number of the sending port on its switch."""
    rate_gbps: NDArray[np.float64]
    """(C,) Gb/s of data."""
    rank: Ints
    """(C,) ranks; those along a legal path rise."""
    falling: Ints
    """(C,) channels by falling rank, those of one sender together."""
    run: Ints
    """(R + 1,) ``falling[run[i] : run[i + 1]]`` are the channels of one sender that have the same rank."""
    top: int
    """Ranks below are of channels that go up, ranks from here on of those in turning trees or going down."""

    def __post_init__(self) -> None:
        freeze_arrays(self)


def switch_levels(fabric: Fabric) -> NDArray[np.int64]:
    """Return (S,) the level of each switch: those of the fabric, or found from its wiring where some are not known."""
    n = fabric.n_switches
    known = fabric if (fabric.level[:n] > 0).all() else find_levels(fabric)
    return known.level[:n].astype(np.int64)


def order_channels(fabric: Fabric, level: NDArray[np.int64], *, join_peaks: bool = True) -> ChannelOrder:
    """Rank the channels of a fabric.

    Parameters
    ----------
    fabric : Fabric
        Any: trees, meshes, several components.
    level : (S,) int
        Level of each switch.
    join_peaks : bool
        Whether turning trees join what has nothing above; if not, some switches cannot reach each other.
    """
    n = fabric.n_switches
    ports = np.flatnonzero(
        (fabric.port_node < n)
        & (fabric.peer_node >= 0)
        & (fabric.peer_node < n)
        & (fabric.peer_node != fabric.port_node)
    )
    sender, receiver = fabric.port_node[ports], fabric.peer_node[ports]
    ports = ports[np.lexsort((ports, receiver, _planes(level, sender, receiver)[receiver], sender))]
    sender, receiver = fabric.port_node[ports], fabric.peer_node[ports]
    first = np.searchsorted(sender, np.arange(n + 1)).astype(np.int32)
    place = np.empty(n, np.int64)
    place[np.lexsort((np.arange(n), level))] = np.arange(n)
    up = place[receiver] > place[sender]
    at = np.empty(fabric.n_ports, np.int32)
    at[ports] = np.arange(len(ports))
    reverse = at[fabric.peer[ports]]
    rank = np.where(up, place[sender], 4 * n - place[sender]).astype(np.int32)
    links = _turning_trees(fabric, first, sender, receiver, up) if join_peaks else []
    for position, (parent, child) in enumerate(links):
        # Parallel cables of a link belong to the tree like the first.
        outward = first[parent] + np.flatnonzero(receiver[first[parent] : first[parent + 1]] == child)
        rank[outward] = 2 * n + position
        rank[reverse[outward]] = 2 * n - 1 - position
    falling = np.lexsort((np.arange(len(rank)), sender, -rank)).astype(np.int32)
    starts = np.flatnonzero((np.diff(rank[falling], prepend=-1) != 0) | (np.diff(sender[falling], prepend=-1) != 0))
    return ChannelOrder(
        first=first,
        sender=sender,
        receiver=receiver,
        reverse=reverse,
        number=fabric.port_number[ports],
        rate_gbps=fabric.rate_gbps[ports],
        rank=rank,
        falling=falling,
        run=np.append(starts, len(falling)).astype(np.int32),
        top=n,
    )


def _planes(level: NDArray[np.int64], sender: Ints, receiver: Ints) -> NDArray[np.int64]:
    """Return (S,) the plane of each switch, numbered within its level."""
    n = len(level)
    plane = np.zeros(n, np.int64)
    for lowest in np.unique(level).tolist():
        inside = (level[sender] >= lowest) & (level[receiver] >= lowest)
        graph = csr_matrix((np.ones(int(inside.sum()), np.int8), (sender[inside], receiver[inside])), shape=(n, n))
        here = level == lowest
        plane[here] = connected_components(graph, directed=False)[1][here]
    return plane


def _turning_trees(
    fabric: Fabric, first: Ints, sender: Ints, receiver: Ints, up: NDArray[np.bool_]
) -> list[tuple[int, int]]:
    """Return the links (parent, child) of each component's turning tree, each parent's own link before them."""
    n = fabric.n_switches
    has_up = np.zeros(n, bool)
    has_up[sender[up]] = True
    graph = csr_matrix((np.ones(len(sender), np.int8), (sender, receiver)), shape=(n, n))
    count, component = connected_components(graph, directed=False)
    hosts = np.bincount(
        fabric.end_switch[(fabric.kind[fabric.end_node] == Kind.HCA) & (fabric.end_switch >= 0)], minlength=n
    )
    lowest = np.bincount(receiver[up], minlength=n) == 0
    trees: list[tuple[int, int]] = []
    for number in range(count):
        members = np.flatnonzero(component == number)
        peaks = members[~has_up[members]]
        if len(peaks) < 2:
            continue
        # Switches above leaves that hold hosts are joined as well: their hosts shall not climb to a peak and back.
        odd = members[(hosts[members] > 0) & ~lowest[members]]
        if len(odd):
            near, _ = breadth_first(int(odd[0]), first, receiver)
            roots = members[np.argsort(near[members], kind="stable")][:MAX_ROOTS]
        else:
            roots = members[lowest[members]]
            roots = roots[:: len(roots) // MAX_ROOTS + 1]
        trees += _turning_tree(first, receiver, roots, np.union1d(peaks, odd), hosts)
    return trees


def _turning_tree(
    first: Ints, receiver: Ints, roots: NDArray[np.int64], terminals: NDArray[np.int64], hosts: NDArray[np.int64]
) -> list[tuple[int, int]]:
    """Return links (parent, child) of a shallow tree with few inner switches that holds the terminals, root first."""
    scores = []
    for root in roots.tolist():
        reach = breadth_first(root, first, receiver)[0][terminals]
        scores.append((int(reach.sum()), int(hosts[root]), root))
    distance, _ = breadth_first(min(scores)[-1], first, receiver)
    members = set(terminals.tolist())
    layers: list[list[tuple[int, int]]] = []
    for depth in range(int(distance[terminals].max()), 0, -1):
        children = sorted(switch for switch in members if distance[switch] == depth)
        offers: dict[int, list[int]] = {}
        for child in children:
            for parent in sorted(set(receiver[first[child] : first[child + 1]].tolist())):
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
