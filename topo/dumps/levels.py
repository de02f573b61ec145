"""Levels, zones and joints of a fabric from its wiring alone: no name, model or GUID is looked at.

**Levels** are those that leave the fewest cables, those of hosts (level 0) too, between levels that are not adjacent:

1. Leaves are the switches with HCAs (aggregation nodes do not count), except those with more cables to other leaves
   than HCAs: management hosts that hang on a spine do not make it a leaf. Others are as high as they are far from them.
2. One kind of switch at a time moves to the level that leaves fewest of its cables astray, until none can do better. So
   a misplugged cable from a leaf to a core does not pull the core down.
3. An empty leaf is now two levels too high. A core connects spines that have no leaf in common, so a switch is a leaf
   if it is wired at least half like some leaf, and more so than like another switch at its level, or if it has no more
   cables down than a leaf has up and the spines it knows have leaves in common (all but a quarter of their pairs). The
   same holds at every level. After each such find all is measured and moved again.

Switches that the wiring cannot tell apart are of one *kind* (`refine_colours`); what is said of one is done to all of
its kind, and kinds break ties: labels decide nothing. A fabric that would keep over a tenth of its HCAs above the
leaves is no tree, nor is a very tall one: then every switch with HCAs is a leaf, others are as high as they are far.

**Zones** are fat-trees that share no spine. Leaves belong together when they have more than half of the switches above
them in common: a border leaf may have most of its cables to joints, but these are few. A switch of level 2 without a
cable further up, over a quarter of whose leaves belong elsewhere than the rest, may be a joint. Zones are what the
other switches are connected to over cables between adjacent levels, less the odd cable of a spine to a leaf that
belongs elsewhere, as long as each has leaves and spines; joints are those that have leaves in two of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Kind, Role
from topo.graphs import components, mix, refine_colours

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

UNKNOWN = -1

MOST_HCAS_AT_LEAVES = 0.9
"""Share of the HCAs that hang on leaves in anything that is called a tree here."""

TALLEST = 16
"""Levels of anything that is called a tree here; eight is what OpenSM's ftree takes."""

HIGHEST = 127
"""Level of what is as high or higher: levels are kept in a byte."""

MISPLUGGED = 0.05
"""Share of the cables that may be taken for misplugged; if more are odd, they are meant so."""

ALMOST_ALL = 0.75
"""Of the pairs of spines below a core of a tree of two pods nearly half have a leaf in common, below an empty leaf of
any tree all have; of a spine's leaves all are in its zone, of a joint's no more than half. Faults blur both."""


@dataclass(frozen=True)
class Wiring:
    """What is plugged into the S switches."""

    cables: csr_array
    """(S, S) number of cables between two switches; those of a switch to itself are left out."""
    hcas: Ints
    """(S,) ports of HCAs."""
    kind: Ints
    """(S,) number of the kind of each switch: equal where the wiring cannot tell switches apart."""


def find_levels(fabric: Fabric) -> Fabric:
    """Return the fabric with level, zone and role of its switches, and the zone of its adapters, found from the wiring.

    Level 1 gets the role of leaf, 2 of spine, anything above of core; joints theirs, zone -1, and the level above the
    leaves that they join. An adapter is in the zone of its switches, -1 when those differ. A switch from which no HCA
    can be reached keeps level and zone -1. Roles of adapters stay as they are.

    Notes
    -----
    O(cables x radix) in time, but for the pairs of leaves with a spine in common, of which a two-level tree has as many
    as the square of its leaves.
    """
    wiring = _wiring(fabric)
    level = _levels(wiring)
    zone, joint = _zones(wiring, level)
    roles = np.array([Role.SWITCH, Role.SWITCH, Role.LEAF, Role.SPINE, Role.CORE], np.uint8)[np.clip(level + 1, 0, 4)]
    roles[joint] = Role.JOINT
    n = fabric.n_switches
    return replace(
        fabric,
        level=np.concatenate([level, fabric.level[n:]]).astype(np.int8),
        zone=np.concatenate([zone, _zones_of_adapters(fabric, zone)]).astype(np.int16),
        role=np.concatenate([roles, fabric.role[n:]]),
    )


def _wiring(fabric: Fabric) -> Wiring:
    n = fabric.n_switches
    near, far = fabric.port_node, fabric.peer_node
    ones = np.ones(len(fabric.inner), np.int64)
    from scipy.sparse import coo_array  # which takes long to import, and a spec knows its levels

    cables = coo_array((ones, (near[fabric.inner], far[fabric.inner])), shape=(n, n)).tocsr()  # adds up parallel cables
    below = (fabric.kind[near] == Kind.HCA) & (far >= 0) & (far < n)
    hcas = np.bincount(far[below], minlength=n).astype(np.int64)
    sender = np.repeat(np.arange(n), np.diff(cables.indptr))
    colour = refine_colours(mix(hcas.astype(np.uint64)), sender, cables.indices, mix(cables.data.astype(np.uint64)))
    return Wiring(cables, hcas, np.unique(colour, return_inverse=True)[1])


def _levels(wiring: Wiring) -> Ints:
    leaf, tree = _leaves(wiring)
    anchored = np.where(leaf, 1, UNKNOWN)
    level = _climb(wiring.cables, anchored)
    if not tree or level.max(initial=0) > TALLEST:
        return np.minimum(level, HIGHEST)
    level = _settle(wiring, level)
    while (empty := _empty(wiring, level) & (anchored == UNKNOWN)).any():
        anchored[empty] = level[empty] - 2
        level = _settle(wiring, _climb(wiring.cables, anchored))
    return level


def _leaves(wiring: Wiring) -> tuple[Bools, bool]:
    """Return the leaves, and whether they are those of a tree."""
    hcas = wiring.hcas
    if not hcas.any():  # a frame on the bench: its leaves are what has ports left for hosts
        degree = wiring.cables.sum(axis=1)
        linked = degree[degree > 0]
        return (degree > 0) & (2 * degree <= min(linked, default=0) + max(linked, default=0)), True
    leaf = hcas > 0
    while True:
        astray = np.where(leaf, wiring.cables @ leaf.astype(np.int64) - hcas, 0)
        if astray.max() <= 0:
            break
        leaf[wiring.kind == wiring.kind[astray == astray.max()].min()] = False
    if hcas[leaf].sum() < MOST_HCAS_AT_LEAVES * hcas.sum():
        return hcas > 0, False
    return leaf, True


def _climb(cables: csr_array, anchored: Ints) -> Ints:
    """Return levels by distance from the anchored switches; -1 where there is no path to one."""
    level = anchored.copy()
    height = 1
    while (level == height).any():
        reached = cables @ (level == height).astype(np.int64) > 0
        level[reached & (level == UNKNOWN)] = height + 1
        height += 1
    return level


def _settle(wiring: Wiring, level: Ints) -> Ints:
    """Move kinds of switches one by one to the level that leaves fewest cables astray, by what that saves."""
    _, one, of = np.unique(wiring.kind, return_index=True, return_inverse=True)
    near, far = wiring.cables[one].tocoo().coords
    other = of[far] != near  # cables within a kind are astray wherever it is
    from scipy.sparse import csr_array

    back = csr_array((wiring.cables[one].data[other], (of[far[other]], near[other])), shape=(len(one), len(one)))
    of_kind = level[one]
    height = int(level.max(initial=0)) + 1
    known = np.flatnonzero(of_kind > 0)
    to = np.zeros((len(one), height + 2), np.int64)  # cables to each level
    to[:, 0] = wiring.hcas[one]
    for at in range(1, height + 1):
        to[:, at] = (of_kind == at) @ back
    while len(known):
        kept = to[known, :-2] + to[known, 2:]  # on levels 1, 2, ...
        saved = kept.max(axis=1) - kept[np.arange(len(known)), of_kind[known] - 1]
        row = int(np.argmax(saved))
        if saved[row] == 0:
            break
        kind = known[row]
        near = slice(back.indptr[kind], back.indptr[kind + 1])
        ends, count = back.indices[near], back.data[near]
        to[ends, of_kind[kind]] -= count
        of_kind[kind] = int(np.flatnonzero(kept[row] == kept[row].max())[-1]) + 1  # whether it is empty shows later
        to[ends, of_kind[kind]] += count
    return of_kind[of]


def _empty(wiring: Wiring, level: Ints) -> Bools:
    """Return the switches that are taken for two levels higher than they are: those of the lowest such level."""
    found = np.zeros(len(level), np.bool_)
    for height in range(1, int(level.max(initial=0)) - 1):
        above = level == height + 1
        up = wiring.cables[level == height][:, above].tocsr()
        suspects = np.flatnonzero((level == height + 2) & (wiring.hcas == 0))
        down = wiring.cables[suspects][:, above].tocsr()
        modest = down.sum(axis=1) <= up.sum(axis=1).max(initial=0)
        like_here, like_there = _likeness(down, up), _likeness(down, down)
        np.fill_diagonal(like_there, 0)
        best = like_here.max(axis=1, initial=0)
        alike = (best >= 0.5) & (best > like_there.max(axis=1, initial=0))
        linked, known = (up > 0).astype(np.int64), (down > 0).astype(np.int64)
        bare = linked.sum(axis=0) == 0  # with nothing below that is known yet
        below, of_bare = known.sum(axis=1), known @ bare
        sharing = known.multiply(known @ ((linked.T @ linked) > 0).astype(np.int64)).sum(axis=1) - (below - of_bare)
        common = modest & (sharing >= ALMOST_ALL * below * (below - 1))
        # The last case is a whole pod without hosts: its spines know no leaf but those that know no other spine.
        found[suspects] = (below > 0) & (alike | common | (of_bare == below))
        if found.any():
            break
    return np.isin(wiring.kind, wiring.kind[found])


def _likeness(a: csr_array, b: csr_array) -> NDArray[np.float64]:
    """Return, for each row of a and of b, how many of the columns that either knows both know."""
    a, b = (a > 0).astype(np.float64), (b > 0).astype(np.float64)
    both = (a @ b.T).toarray()
    either = a.sum(axis=1)[:, None] + b.sum(axis=1)[None, :] - both
    return np.asarray(both / np.maximum(either, 1))


def _zones(wiring: Wiring, level: Ints) -> tuple[Ints, Bools]:
    """Return the zone of each switch, and which are joints."""
    cables = wiring.cables
    joint = np.zeros(len(level), np.bool_)
    leaves, spines = np.flatnonzero(level == 1), np.flatnonzero(level == 2)
    group = np.full(len(level), UNKNOWN)
    group[leaves] = _groups_of_leaves(cables[leaves][:, spines].tocsr(), wiring.hcas[leaves] > 0, wiring.kind[leaves])
    members = np.zeros((len(leaves), group.max(initial=0) + 1), np.int64)
    members[np.arange(len(leaves)), group[leaves]] = 1
    of_group = (cables[spines][:, leaves] > 0).astype(np.int64) @ members  # leaves that a spine knows, by their group
    group[spines] = of_group.argmax(axis=1)
    at_home = of_group.max(axis=1, initial=0) > ALMOST_ALL * of_group.sum(axis=1)
    higher = cables[spines][:, np.flatnonzero(level > 2)].sum(axis=1)
    suspects = spines[~at_home & (higher <= (1 - ALMOST_ALL) * cables[spines].sum(axis=1))]

    a, b = cables.nonzero()
    usable = (level[a] != UNKNOWN) & (np.abs(level[a] - level[b]) == 1) & ~np.isin(a, suspects) & ~np.isin(b, suspects)
    home = np.isin(np.arange(len(level)), spines[at_home])
    astray = usable & ((home[a] & (level[b] == 1)) | (home[b] & (level[a] == 1))) & (group[a] != group[b])
    if np.count_nonzero(astray) <= MISPLUGGED * np.count_nonzero(usable):
        usable &= ~astray
    part = components(len(level), a[usable], b[usable]).astype(np.int64)
    whole = np.zeros(part.max(initial=0) + 1, np.bool_)  # has leaves and spines
    whole[np.intersect1d(part[leaves], part[np.setdiff1d(spines, suspects)])] = True
    if np.count_nonzero(whole) < 2 or np.count_nonzero(whole[part[leaves]]) <= len(leaves) / 2:
        return np.where(level == UNKNOWN, UNKNOWN, 0), joint
    zone = np.where(whole[part], part, UNKNOWN)
    for suspect in suspects.tolist():
        near = zone[cables.indices[cables.indptr[suspect] : cables.indptr[suspect + 1]]]
        joint[suspect] = len(np.unique(near[near != UNKNOWN])) > 1
    return _spread(wiring, zone, level, joint), joint


def _groups_of_leaves(up: csr_array, housed: Bools, kind: Ints) -> Ints:
    """Return the group of each leaf: leaves that have most of the switches above them in common with another of it.

    A leaf without HCAs joins the group that it is most like, and brings none together: it may be the border of a zone.
    """
    n, linked = len(housed), (up > 0).astype(np.int64)
    shared, degree = linked @ linked.T, linked.sum(axis=1)
    a, b = shared.nonzero()
    alike = np.asarray(shared[a, b]).ravel() / np.minimum(degree[a], degree[b])
    close = (alike > 0.5) & (a != b)
    a, b, alike = a[close], b[close], alike[close]
    order = np.lexsort((kind[b], -alike))  # of the leaves with HCAs that an empty one is like, the likest
    guest = order[(~housed[a] & housed[b])[order]]
    guest = guest[np.unique(a[guest], return_index=True)[1]]
    placed = housed.copy()
    placed[a[guest]] = True
    used = (housed[a] & housed[b]) | (~placed[a] & ~placed[b])  # the latter: a zone in which nothing is housed yet
    used[guest] = True
    return components(n, a[used], b[used]).astype(np.int64)


def _spread(wiring: Wiring, zone: Ints, level: Ints, joint: Bools) -> Ints:
    """Number the zones from 0, and put each switch without one into that of most of its cables, on a tie by kind."""
    known = np.unique(zone[zone != UNKNOWN])
    zone = np.where(zone == UNKNOWN, UNKNOWN, np.searchsorted(known, zone))
    waiting = (zone == UNKNOWN) & ~joint & (level != UNKNOWN)
    in_turn = np.argsort([wiring.kind[zone == index].min() for index in range(len(known))], kind="stable")
    while waiting.any():
        votes = np.stack([wiring.cables @ (zone == index).astype(np.int64) for index in in_turn], axis=1)
        ready = waiting & (votes.max(axis=1) > 0)
        if not ready.any():
            break
        zone[ready] = in_turn[votes[ready].argmax(axis=1)]
        waiting &= ~ready
    return zone


def _zones_of_adapters(fabric: Fabric, zone: Ints) -> Ints:
    n = fabric.n_switches
    lowest, highest = np.full(fabric.n_nodes, np.iinfo(np.int64).max), np.full(fabric.n_nodes, UNKNOWN)
    ports = np.arange(fabric.first_adapter_port, fabric.n_ports)
    ports = ports[(fabric.peer_node[ports] >= 0) & (fabric.peer_node[ports] < n)]
    node, seen = fabric.port_node[ports], zone[fabric.peer_node[ports]]
    np.minimum.at(lowest, node, seen)
    np.maximum.at(highest, node, seen)
    return np.where(lowest == highest, highest, UNKNOWN)[n:]
