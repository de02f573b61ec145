"""Between zones: how what leaves a zone is spread over its exits, and what arrives over the links of the joints."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.zoned.within import Targets, least_used, nth_of_its_kind, write
from routing.order.zones import Exit, Zone
from routing.tables import NO_PATH
from topo.errors import RoutingError
from topo.fabric import Role

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def fill_departures(
    lft: NDArray[np.uint8], zone: Zone, targets: Targets, departing: Bools, onward: Ints, *, restricted: bool
) -> Ints:
    """Fill a zone's tables for the targets of another one; return (joints, T) source hosts that reach each joint.

    ``onward`` are the links that each joint has to the other zone.
    """
    n_leaves, n_spines = zone.linked.shape
    exits = [exit_ for exit_ in zone.exits if onward[exit_.joint]]
    exit_leaf = np.array([exit_.leaf for exit_ in exits], np.int64)
    n_targets = len(targets.lid)
    joint_of = np.array([exit_.joint for exit_ in exits], np.int64)
    # A joint that lost links to the other zone gets less: its links there shall not carry more than those that lead in.
    share = np.minimum(1.0, onward[joint_of] / np.bincount(joint_of, minlength=len(onward))[joint_of])
    chosen, spine = _spread_exits(targets.role, exit_leaf, share, departing)
    at_border = np.full((n_leaves, n_targets), -1, np.int64)  # exit that a border leaf takes
    nth = nth_of_its_kind(targets.role)
    for leaf in np.unique(exit_leaf).tolist():
        own = np.flatnonzero(exit_leaf == leaf)
        at_border[leaf] = np.where(exit_leaf[chosen] == leaf, chosen, own[nth % len(own)])
    stranded = zone.border & ~np.isin(np.arange(n_leaves), exit_leaf)
    if stranded.any() and restricted:
        raise RoutingError("a border leaf has no link to a joint that reaches every zone: take the engine `balanced`")
    # Where each spine sends a target: to its exit, or to another border leaf that it may depart to.
    over = np.full((n_spines, n_targets), -1, np.int64)
    for index, switch in enumerate(zone.spines.tolist()):
        ok = departing[exit_leaf[chosen], index]
        own = np.unique(exit_leaf[departing[exit_leaf, index]])
        over[index] = np.where(ok, exit_leaf[chosen], own[nth % len(own)] if len(own) else -1)
        ports = zone.down.pick(np.full(n_targets, index), np.maximum(over[index], 0), nth)
        write(lft, switch, targets.lid, np.where(over[index] >= 0, ports, 0))
    leads_out = (over >= 0).T  # (targets, spines)
    port_of = np.array([exit_.leaf_port for exit_ in exits], np.int64)
    pairs = np.zeros((len(onward), n_targets), np.int64)
    hosts = zone.hosts_on_leaf
    everything = np.arange(n_targets)
    # What spines carry of leaves that are linked to those they should take; the others take what carries least.
    carried = np.zeros(n_spines, np.int64)
    for leaf in np.flatnonzero(at_border[:, 0] < 0).tolist():
        kept = (leads_out & zone.linked[leaf])[everything, spine]
        carried += hosts[leaf] * np.bincount(spine[kept], minlength=n_spines)
    for leaf, switch in enumerate(zone.leaves.tolist()):
        if at_border[leaf, 0] >= 0:
            last = at_border[leaf]
            write(lft, switch, targets.lid, port_of[last])
        else:
            usable = leads_out & zone.linked[leaf]
            up = least_used(spine, usable, np.zeros(n_targets, bool), np.full(n_targets, hosts[leaf]), carried)
            if (up < 0).any():
                raise RoutingError("a leaf has no spine left that leads out of its zone: take the engine `balanced`")
            write(lft, switch, targets.lid, zone.up.pick(np.full(n_targets, leaf), up, nth // n_spines))
            last = at_border[over[up, everything], everything]
        pairs[joint_of[last], everything] += hosts[leaf]
    return pairs


def _spread_exits(role: Ints, exit_leaf: Ints, share: NDArray[np.float64], departing: Bools) -> tuple[Ints, Ints]:
    """Spread targets over exits by their shares, role by role, each to the least used spine that departs to its leaf.

    Returns the exit and the spine of each target.
    """
    chosen = np.empty(len(role), np.int64)
    spine = np.zeros(len(role), np.int64)
    # Exit i has its k-th turn at time k / share: with equal shares they take turns.
    times = (np.arange(len(role))[:, None] + 1) / share
    sequence = np.argsort(times, axis=None, kind="stable")[: len(role)] % len(share)
    next_exit = 0
    carried = np.zeros(departing.shape[1], np.int64)
    for kind in np.unique(role).tolist():
        members = np.flatnonzero(role == kind)
        chosen[members] = sequence[next_exit : next_exit + len(members)]
        next_exit += len(members)
        of_kind = np.zeros_like(carried)
        for member in members.tolist():
            may = np.flatnonzero(departing[exit_leaf[chosen[member]]])
            if len(may):
                spine[member] = may[np.lexsort((carried[may], of_kind[may]))[0]]
                of_kind[spine[member]] += 1
                carried[spine[member]] += 1
    return chosen, spine


def fill_arrivals(
    lft: NDArray[np.uint8],
    zone: Zone,
    targets: Targets,
    joints: Ints,
    pairs: Ints,
    climbs: Bools,
    around: Bools,
) -> None:
    """Fill the joints' tables for the targets of a zone, so that each of a joint's links carries as many pairs.

    Targets of one role with as many sources are alike: each link gets the same number of them, first those that hang
    on the leaf it leads to. ``climbs`` and ``around`` are what `fill_zone` returns: what arrives must not leave again,
    so it enters at a leaf that reaches it over a spine, and at home when some leaf comes over the joints itself.
    """
    for joint, switch in enumerate(joints.tolist()):
        entries = [exit_ for exit_ in zone.exits if exit_.joint == joint]
        if not entries:
            continue
        leaf = np.array([entry.leaf for entry in entries], np.int64)
        port = np.array([entry.joint_port for entry in entries], np.int64)
        home = targets.leaf == leaf[:, None]  # (entries, targets)
        at_home = home.any(axis=0) & (around | (targets.role == Role.SWITCH))
        may = np.where(at_home, home, climbs[leaf])
        carried = np.zeros(len(entries), np.int64)
        alike = np.stack([targets.role, -pairs[joint]], axis=1)
        for kind in np.unique(alike, axis=0):
            members = np.flatnonzero((alike == kind).all(axis=1) & may.any(axis=0))
            link = _spread_entries(home[:, members], may[:, members], carried)
            carried += np.bincount(link, minlength=len(entries)) * -kind[1]
            lft[switch, targets.lid[members]] = port[link]


def _spread_entries(home: Bools, may: Bools, carried: Ints) -> Ints:
    """Give each entry as many members, the least loaded ones one more; at home first. Return the entry of each.

    Parameters
    ----------
    home, may : (entries, members) bool
        Whether an entry leads to the member's own leaf, and whether the member may take it at all.
    carried : (entries,) int64
        What each entry carries already.
    """
    n_entries, n_members = may.shape
    quota = np.full(n_entries, n_members // n_entries)
    quota[np.argsort(carried, kind="stable")[: n_members % n_entries]] += 1
    link = np.full(n_members, -1, np.int64)
    bound = np.flatnonzero(may.sum(axis=0) == 1)
    link[bound] = may[:, bound].argmax(axis=0)
    quota -= np.bincount(link[bound], minlength=n_entries)
    for entry in range(n_entries):
        own = np.flatnonzero(home[entry] & (link < 0))[: max(quota[entry], 0)]
        link[own] = entry
        quota[entry] -= len(own)
    for member in np.flatnonzero(link < 0).tolist():  # the entry with most room left: neighbours take different links
        link[member] = np.argmax(np.where(may[:, member], quota, np.iinfo(np.int64).min))
        quota[link[member]] -= 1
    return link


def fill_joints(
    lft: NDArray[np.uint8],
    zones: list[Zone],
    joints: Ints,
    departing: list[Bools],
    lids: NDArray[np.uint16],
) -> None:
    """Fill all tables for the LIDs of the joints; they reach each other over the first zone, which is spared rule 2."""
    for joint, switch in enumerate(joints.tolist()):
        lid = int(lids[switch])
        for number, zone in enumerate(zones):
            direct = {exit_.leaf: exit_ for exit_ in zone.exits if exit_.joint == joint}
            own: dict[int, Exit] = {exit_.leaf: exit_ for exit_ in zone.exits}
            for spine in range(len(zone.spines)):
                departures = [leaf for leaf in sorted(direct) if departing[number][leaf, spine]]
                departures = departures or [
                    leaf for leaf in sorted(own) if departing[number][leaf, spine] and number > 0
                ]
                if departures:
                    lft[zone.spines[spine], lid] = zone.down.port[spine, departures[joint % len(departures)], 0]
            for leaf in range(len(zone.leaves)):
                if leaf in direct:
                    lft[zone.leaves[leaf], lid] = direct[leaf].leaf_port
                elif leaf in own and number > 0:
                    lft[zone.leaves[leaf], lid] = own[leaf].leaf_port
                else:
                    leads = np.flatnonzero(zone.linked[leaf] & (lft[zone.spines, lid] != NO_PATH))
                    if len(leads):
                        lft[zone.leaves[leaf], lid] = zone.up.port[leaf, leads[leaf % len(leads)], 0]
        for other, from_switch in enumerate(joints.tolist()):
            if other == joint:
                continue
            entries = [exit_ for exit_ in zones[0].exits if exit_.joint == other]
            shared = [e for e in entries if any(x.joint == joint and x.leaf == e.leaf for x in zones[0].exits)]
            if entries:
                lft[from_switch, lid] = (shared or entries)[0].joint_port
