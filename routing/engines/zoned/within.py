"""Within a zone: which spine each target is reached over, and the tables of the zone's switches for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from routing.order.zones import Zone
from topo.errors import RoutingError
from topo.fabric import Fabric, Role

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

CLOSED = 1_000
"""Cost of closing a channel that a host's path uses, far above any number of spines."""


@dataclass(frozen=True)
class Targets:
    """What has a LID in a zone: T host ports, then leaves, then spines."""

    lid: Ints
    leaf: Ints
    """(T,) index of the leaf that each hangs on or is, -1 for spines."""
    port: Ints
    """(T,) port of that leaf, 0 for the leaf itself."""
    role: Ints
    spine: Ints
    """(T,) index of the spine over which each is reached within the zone."""
    turn: Ints
    """(T,) which of parallel links to take."""


def compute_pattern(zone: Zone, *, restricted: bool) -> tuple[Ints, Bools]:
    """Choose the uplink of each compute host, and the channels that departures take.

    Host i of leaf l gets uplink ``i + skip * l`` modulo the uplinks U. Any skip of at most U minus the hosts of a leaf
    keeps consecutive hosts on different uplinks; the smallest one is taken that balances best and closes fewest
    channels in use.

    Returns
    -------
    uplink : (H,) int64
        Uplink (spine and parallel link) of each host of the role with most hosts, -1 for the others.
    departing : (L, K) bool
        Channels from spines into border leaves that carry departures.
    """
    n_leaves, n_spines = zone.linked.shape
    if not n_spines:
        raise RoutingError("a zone has no spine: the engine `zoned` takes zones of two levels; take `balanced`")
    parallel = max(int(zone.up.count.max(initial=1)), 1)
    uplinks = n_spines * parallel
    uplink = np.full(len(zone.hosts), -1, np.int64)
    roles = np.bincount(zone.host_role) if len(zone.hosts) else np.zeros(1, np.int64)
    first = np.flatnonzero(zone.host_role == int(roles.argmax()))
    leaf = zone.host_leaf[first]
    dense = int(np.bincount(leaf, minlength=1).max(initial=0))
    best: tuple[int, int, int] | None = None
    departing = np.zeros((n_leaves, n_spines), bool)
    for skip in range(max(uplinks - dense, 0) + 1):
        tried = (np.arange(len(first)) + skip * leaf) % uplinks
        used = np.zeros((n_leaves, n_spines), bool)
        used[leaf, tried % n_spines] = True
        channels, closed = _departing(zone, used)
        spread = int(np.ptp(np.bincount(tried, minlength=uplinks))) if len(first) else 0
        rank = (max(spread, 1), closed if restricted else 0, skip)
        if best is None or rank < best:
            best, departing = rank, channels
            uplink[first] = tried
        if not restricted:
            break
    return uplink, departing if restricted else zone.linked & zone.border[:, None]


def _departing(zone: Zone, used: Bools) -> tuple[Bools, int]:
    """Assign departure spines to exits: spread over all spines, on channels that no host of the leaf uses.

    Returns the (L, K) channels and the cost of the assignment.
    """
    departing = np.zeros(used.shape, bool)
    # No host behind it, or no other border leaf to reach it from: nobody misses the channels.
    empty = zone.border & ((zone.hosts_on_leaf == 0) | (np.count_nonzero(zone.border) == 1))
    departing[empty] = zone.linked[empty]
    joints = {exit_.joint for exit_ in zone.exits}
    for leaf in np.flatnonzero(empty).tolist():
        if joints - {exit_.joint for exit_ in zone.exits if exit_.leaf == leaf}:
            # Its own LID cannot be had over every joint: other border leaves keep one channel in.
            departing[leaf, np.flatnonzero(zone.linked[leaf])[-1:]] = np.count_nonzero(zone.border) == 1
    if not zone.hosts_on_leaf[~zone.border].any():  # every host leaves over its own leaf
        return departing, 0
    # A spine for each exit of a leaf, but no more than the leaf's hosts leave unused, and one at least.
    exits = np.bincount([exit_.leaf for exit_ in zone.exits], minlength=len(used))
    wanted = np.clip(exits, 0, np.maximum((zone.linked & ~used).sum(axis=1), 1))
    leaves = np.repeat(np.arange(len(used)), np.where(empty, 0, wanted))
    if not len(leaves):
        return departing, 0
    rounds = -(-len(leaves) // used.shape[1])
    cost = np.where(used, CLOSED, 0) + np.where(zone.linked, 0, CLOSED * CLOSED)
    again = np.repeat(np.arange(rounds), used.shape[1])  # a spine's second exit costs a little more than its first
    rows, columns = linear_sum_assignment(np.tile(cost, rounds)[leaves] + again)
    spines = columns % used.shape[1]
    departing[leaves[rows], spines] = zone.linked[leaves[rows], spines]
    return departing, int(cost[leaves[rows], spines].sum() + again[columns].sum())


def choose_spines(zone: Zone, pattern: Ints, closed: Bools | None, lids: NDArray[np.uint16]) -> Targets:
    """Choose the spine over which each target of a zone is reached, role by role."""
    n_leaves, n_spines = zone.linked.shape
    parallel = max(int(zone.up.count.max(initial=1)), 1)
    switch_role = int(Role.SWITCH)
    leaf = np.concatenate([zone.host_leaf, np.arange(n_leaves), np.full(n_spines, -1)])
    role = np.concatenate([zone.host_role, np.full(n_leaves + n_spines, switch_role)])
    uplink = np.concatenate([pattern, np.full(n_leaves, -1), np.arange(n_spines)])
    forbidden = np.tile(~zone.linked if closed is None else ~zone.linked | closed, parallel)
    for kind in np.unique(role[uplink < 0]).tolist():
        _spread_role(uplink, np.flatnonzero((role == kind) & (uplink < 0)), leaf, forbidden)
    ends = np.concatenate([zone.hosts, zone.leaves, zone.spines])  # the end port of a switch is its id
    return Targets(
        lid=lids[ends].astype(np.int64),
        leaf=leaf,
        port=np.concatenate([zone.host_port, np.zeros(n_leaves + n_spines, np.int64)]),
        role=role,
        spine=uplink % n_spines,
        turn=uplink // n_spines,
    )


def widen(zone: Zone, targets: Targets, departing: Bools) -> Bools:
    """Let departures take every channel into a border leaf that none of its own targets is reached over.

    A spine that is left without a channel that leads out gets one at the leaf where it closes the channel to the fewest
    targets, so that the spine's own packets (its LID is an end port) can leave too.
    """
    used = np.zeros(departing.shape, np.int64)
    on_leaf = targets.leaf >= 0
    np.add.at(used, (targets.leaf[on_leaf], targets.spine[on_leaf]), 1)
    enterable = zone.linked & zone.border[:, None]
    wide: Bools = departing | (enterable & (used == 0))
    shut = (wide == zone.linked).all(axis=1) & zone.border
    wide[shut] = departing[shut]
    for spine in np.flatnonzero(~wide.any(axis=0)).tolist():
        spare = np.flatnonzero(enterable[:, spine] & ((enterable & ~wide).sum(axis=1) > 1))
        if len(spare):
            wide[spare[np.argmin(used[spare, spine])], spine] = True
    return wide


def _spread_role(uplink: Ints, members: Ints, leaf: Ints, forbidden: Bools) -> None:
    """Give each member of a role an uplink: all uplinks as many, and hosts of one leaf different ones where they can.

    One member of each leaf at a time is assigned by an assignment problem: no uplink may have more of the role than an
    even spread so far has at most; within that, members keep off what is forbidden, then off uplinks over which others
    of their leaf are reached, then off those with most targets. What stays on a forbidden one is sent over another
    spine where it must be (`fill_zone`).
    """
    n_uplinks = forbidden.shape[1]
    nth = nth_of_its_kind(leaf[members])
    of_role = np.zeros(n_uplinks, np.int64)
    for turn in range(int(nth.max(initial=-1)) + 1):
        now = members[nth == turn]
        placed = np.flatnonzero((uplink >= 0) & (leaf >= 0))
        at_leaf = np.zeros(forbidden.shape, np.int64)
        np.add.at(at_leaf, (leaf[placed], uplink[placed]), 1)
        total = at_leaf.sum(axis=0)
        alike = members[nth < turn]
        np.add.at(at_leaf, (leaf[alike], uplink[alike]), 1)  # those of the same role count twice
        room = -(-(int(of_role.sum()) + len(now)) // n_uplinks) - of_role
        slot = np.repeat(np.arange(n_uplinks), room)
        cost = CLOSED * (CLOSED * forbidden[leaf[now]] + at_leaf[leaf[now]]) + (total - total.min())
        rows, columns = linear_sum_assignment(cost[:, slot])
        uplink[now[rows]] = slot[columns]
        of_role += np.bincount(slot[columns], minlength=n_uplinks)


def fill_zone(
    fabric: Fabric, lft: NDArray[np.uint8], zone: Zone, targets: Targets, departing: Bools, *, restricted: bool
) -> tuple[Bools, Bools]:
    """Fill the tables of a zone's switches for its own targets.

    Where the rule leaves a border leaf no spine to another one, it goes around over a joint that both have.

    Returns
    -------
    climbs : (L, T) bool
        Whether a leaf reaches a target over a spine, or is the one it hangs on.
    around : (T,) bool
        Whether some leaf reaches the target over a joint.
    """
    climbs: Bools = np.ones((len(zone.leaves), len(targets.lid)), bool)
    n_spines = len(zone.spines)
    on_leaf = np.flatnonzero(targets.leaf >= 0)
    home = targets.leaf[on_leaf]
    turning = _turning_leaf(zone, restricted=restricted)
    weight = np.where(targets.role[on_leaf] == Role.SWITCH, 1, len(home))  # what goes to switches is no burden
    for leaf, switch in enumerate(zone.leaves.tolist()):
        enterable = zone.linked[home] & zone.linked[leaf]  # (targets, spines)
        if restricted and zone.border[leaf]:
            enterable &= ~departing[home]
        spine = least_used(targets.spine[on_leaf], enterable, home == leaf, weight)
        ports = zone.up.pick(np.full(len(spine), leaf), spine, targets.turn[on_leaf])
        stuck = (spine < 0) & (home != leaf)
        climbs[leaf, on_leaf[stuck]] = False
        ports[stuck] = [_around(zone, leaf, int(index)) if restricted else 0 for index in home[stuck]]
        ports[home == leaf] = targets.port[on_leaf][home == leaf]
        lost = home[(ports == 0) & (home != leaf)]
        if len(lost):
            raise RoutingError(
                f"{fabric.label(switch)} and {fabric.label(int(zone.leaves[lost[0]]))} share no spine "
                "that a path may take: the engine `zoned` cannot route between them; take `balanced`"
            )
        write(lft, switch, targets.lid[on_leaf], ports)
        ports = zone.up.port[leaf, :, 0].copy()
        detour = zone.linked[leaf] & (departing if restricted else zone.linked)[turning]
        if detour.any() and not (restricted and zone.border[leaf]):
            ports[(ports == 0) & zone.linked[turning]] = zone.up.port[leaf, int(np.argmax(detour)), 0]
        write(lft, switch, targets.lid[-n_spines:], ports)
    nth = nth_of_its_kind(targets.leaf[on_leaf] * n_spines + targets.spine[on_leaf])
    for index, switch in enumerate(zone.spines.tolist()):
        ports = zone.down.pick(np.full(len(home), index), home, nth)
        to_turn = zone.down.port[index, turning, 0]
        ports[(ports == 0) & climbs[turning, on_leaf]] = to_turn
        write(lft, switch, targets.lid[-n_spines:], np.full(n_spines, to_turn))
        write(lft, switch, targets.lid[on_leaf], ports)
    return climbs, np.asarray(~climbs.all(axis=0))


def _turning_leaf(zone: Zone, *, restricted: bool) -> int:
    """Choose the one leaf over which spines reach each other, and leaves that they have no link to.

    Only packets from switches need it. With a single turning leaf turns cannot chain. Under the rule it is a border
    leaf: what that sends up never departs, while arrivals that came down to another leaf would wait for what departs
    from there. Of several the one with most links is taken; a spine that has none to it reaches what it is linked to.
    """
    may = np.flatnonzero(zone.border) if restricted else np.arange(len(zone.leaves))
    spines = np.count_nonzero(zone.linked[may], axis=1)
    return int(may[np.lexsort((~zone.border[may], -spines))[0]])


def _around(zone: Zone, leaf: int, target_leaf: int) -> int:
    """Port to a joint that two border leaves share, 0 if they share none."""
    joints = {exit_.joint for exit_ in zone.exits if exit_.leaf == target_leaf}
    return next((exit_.leaf_port for exit_ in zone.exits if exit_.leaf == leaf and exit_.joint in joints), 0)


def least_used(wanted: Ints, allowed: Bools, skip: Bools, weight: Ints, carried: Ints | None = None) -> Ints:
    """Keep the wanted spine where it is allowed; elsewhere take the allowed one that carries least; -1 if none is.

    Parameters
    ----------
    wanted, weight : (T,) int64
        Spine and weight of each target.
    allowed : (T, K) bool
    skip : (T,) bool
        Targets that need no spine.
    carried : (K,) int64, in and out
        What each spine carries already; what is kept here when left out.
    """
    choice = np.where(allowed[np.arange(len(wanted)), wanted], wanted, -1)
    kept = (choice >= 0) & ~skip
    used = np.bincount(choice[kept], minlength=allowed.shape[1])
    if carried is None:
        carried = np.zeros(allowed.shape[1], np.int64)
        np.add.at(carried, choice[kept], weight[kept])
    for target in np.flatnonzero((choice < 0) & ~skip).tolist():
        fits = np.flatnonzero(allowed[target])
        if len(fits):
            choice[target] = fits[np.lexsort((used[fits], carried[fits]))[0]]
            used[choice[target]] += 1
            carried[choice[target]] += weight[target]
    return choice


def nth_of_its_kind(kind: Ints) -> Ints:
    """Return for each element how many equal ones come before it."""
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
    nth = np.empty(len(kind), np.int64)
    nth[order] = np.arange(len(kind)) - np.repeat(starts, np.diff(starts, append=len(kind)))
    return nth


def write(lft: NDArray[np.uint8], switch: int, lids: Ints, ports: Ints) -> None:
    """Write the entries whose port is known (not 0)."""
    known = ports > 0
    lft[switch, lids[known]] = ports[known]
