r"""The engine `zoned`: two-level fat-trees joined at their leaves, complete and without credit loops on one lane.

What stock engines of OpenSM cannot do
--------------------------------------
A path between zones goes up to a spine, down to a *border leaf*, over a joint, and up and down again. Up/down engines
refuse the second climb and lose every pair between zones; engines that allow any turn deadlock.

Why nothing can deadlock here
-----------------------------
Packets wait for channels along their paths; a set of paths is free of deadlock when its channel dependency graph has
no cycle (Dally and Seitz, 1987). In each zone we tell apart

- ``U``: uplinks of interior leaves, ``UB``: uplinks of border leaves (leaves with links to joints),
- ``DEP``: channels from a spine to a border leaf that carry what *leaves* the zone there, ``D``: all other channels
  from a spine to a leaf,
- ``OUT``: border leaf to joint, ``IN``: joint to border leaf.

and allow only these dependencies::

    U -> D          U -> DEP -> OUT          IN -> UB -> D          (own hosts of a border leaf) -> OUT, UB

so that the channels of all zones can be numbered U < DEP < OUT < IN < UB < D, and every path climbs in that order. The
two rules that make it so:

1. A border leaf sends what leaves the zone over its own links to joints, never over another border leaf.
2. From a border leaf no path enters a channel of ``DEP``: what has arrived never waits for what leaves. A border leaf
   that holds hosts is therefore reached from other border leaves over spines that carry no departures to it.

One zone may be spared rule 2 (number its channels between the OUT of the other zones and their IN): arrivals that wait
for departures in a single zone close no cycle, since the other zones' arrivals wait for no departure. The first zone is
the one that is spared, and it is where joints reach each other.

What that costs
---------------
Border leaves without hosts (placement ``border``): nothing; every channel into them is ``DEP``, with no host behind.
Border leaves with hosts (``spread``): each link to a joint needs one spine whose channel to that leaf is closed to
arrivals. The spines of compute hosts are turned a little from leaf to leaf (`_compute_pattern`) until each border leaf
has a spine that none of its own hosts uses, and these are dealt over the spines by an assignment problem; then the
rule costs no balance at all, only the freedom of choice: departures to one border leaf hang on one spine, and losing
it or its cable moves them all. Where leaves hold more hosts than there are spines to spare, hosts on such a spine are
reached from border leaves over another one, and that is the cost (`docs/zoned.md` has figures).

How it is balanced
------------------
In a zone, host i of a role is reached over uplink i modulo the uplinks of a leaf, role by role, each role going on
where the last one ended (destination-modulo as Zahavi 2010; per role as Gliksberg et al. 2018). Hosts of a leaf are
consecutive, so a shift permutation of the compute hosts never puts two flows on a link. Departures are dealt over the
exits and spines in the same way; joints deal arrivals over their links so that each carries the same number of pairs,
and enter at the destination's own leaf where they can.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from routing.tables import NO_PATH, RoutingTables, assign_lids
from routing.zones import Exit, Zone, zones_of
from topo.errors import RoutingError
from topo.fabric import Fabric, Role

__all__ = ["route"]

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


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None) -> RoutingTables:
    """Forwarding tables of one or more two-level fat-trees that are joined at their leaves.

    Parameters
    ----------
    fabric : Fabric
        With zones and the roles leaf, spine and joint filled in.
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.

    Returns
    -------
    RoutingTables
        Complete for every LID, on one lane.

    Raises
    ------
    RoutingError
        When the fabric is not made of such zones, or misses so many links that two leaves of a zone share no spine.
    """
    lids = assign_lids(fabric) if lid is None else lid
    zones, joints = zones_of(fabric)
    reach = _reach(zones, len(joints))
    lft = np.full((fabric.n_switches, int(lids.max(initial=0)) + 1), NO_PATH, np.uint8)
    departing = []
    targets = []
    for number, zone in enumerate(zones):
        pattern, channels = _compute_pattern(zone, restricted=number > 0)
        departing.append(channels)
        targets.append(_targets(fabric, zone, pattern, channels if number > 0 else None, lids))
    for number, zone in enumerate(zones):
        _fill_zone(fabric, lft, zone, targets[number], departing[number], restricted=number > 0)
    for far, goal in enumerate(targets):
        pairs = np.zeros((len(joints), len(goal.lid)), np.int64)
        for near, zone in enumerate(zones):
            if near != far:
                pairs += _fill_departures(lft, zone, goal, departing[near], reach[:, far], restricted=near > 0)
        _fill_arrivals(lft, zones[far], goal, joints, pairs)
    _fill_joints(lft, zones, joints, departing, lids)
    _fill_odd_hosts(fabric, lft, lids)
    switches = np.arange(fabric.n_switches)
    lft[switches, lids[switches]] = 0
    return RoutingTables(lids, lft, engine="zoned")


def _reach(zones: list[Zone], n_joints: int) -> Bools:
    """Return (joints, zones) whether a joint is linked to a zone; refuse zones that no joint links."""
    reach = np.zeros((n_joints, len(zones)), bool)
    for number, zone in enumerate(zones):
        reach[[exit_.joint for exit_ in zone.exits], number] = True
    for a in range(len(zones)):
        for b in range(a):
            if not (reach[:, a] & reach[:, b]).any():
                raise RoutingError(f"no joint links zone {b} and zone {a}: their hosts cannot reach each other")
    return reach


# --- within a zone --------------------------------------------------------------------------------------------------


def _compute_pattern(zone: Zone, *, restricted: bool) -> tuple[Ints, Bools]:
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
    """Deal departure spines to exits: spread over all spines, on channels that no host of the leaf uses.

    Returns the (L, K) channels and the cost of the assignment.
    """
    departing = np.zeros(used.shape, bool)
    empty = zone.border & (zone.hosts_on_leaf == 0)
    departing[empty] = zone.linked[empty]
    leaves = np.array([exit_.leaf for exit_ in zone.exits if not empty[exit_.leaf]], np.int64)
    if not len(leaves):
        return departing, 0
    rounds = -(-len(leaves) // used.shape[1])
    cost = np.where(used, CLOSED, 0) + np.where(zone.linked, 0, CLOSED * CLOSED)
    again = np.repeat(np.arange(rounds), used.shape[1])  # a spine's second exit costs a little more than its first
    rows, columns = linear_sum_assignment(np.tile(cost, rounds)[leaves] + again)
    spines = columns % used.shape[1]
    departing[leaves[rows], spines] = zone.linked[leaves[rows], spines]
    return departing, int(cost[leaves[rows], spines].sum() + again[columns].sum())


def _targets(fabric: Fabric, zone: Zone, pattern: Ints, closed: Bools | None, lids: NDArray[np.uint16]) -> Targets:
    """Place every target of a zone on a spine, role by role."""
    n_leaves, n_spines = zone.linked.shape
    parallel = max(int(zone.up.count.max(initial=1)), 1)
    uplinks = n_spines * parallel
    switch_role = int(Role.SWITCH)
    leaf = np.concatenate([zone.host_leaf, np.arange(n_leaves), np.full(n_spines, -1)])
    role = np.concatenate([zone.host_role, np.full(n_leaves + n_spines, switch_role)])
    uplink = np.concatenate([pattern, np.full(n_leaves, -1), np.arange(n_spines)])
    forbidden = ~zone.linked if closed is None else ~zone.linked | closed
    next_uplink = int(np.count_nonzero(pattern >= 0))
    for kind in np.unique(role[uplink < 0]).tolist():
        members = np.flatnonzero((role == kind) & (uplink < 0))
        uplink[members] = (next_uplink + np.arange(len(members))) % uplinks
        next_uplink += len(members)
        _swap_off(uplink, members, leaf, forbidden, n_spines)
    ends = np.concatenate([zone.hosts, zone.leaves, zone.spines])  # the end port of a switch is its id
    return Targets(
        lid=lids[ends].astype(np.int64),
        leaf=leaf,
        port=np.concatenate([zone.host_port, np.zeros(n_leaves + n_spines, np.int64)]),
        role=role,
        spine=uplink % n_spines,
        turn=uplink // n_spines,
    )


def _swap_off(uplink: Ints, members: Ints, leaf: Ints, forbidden: Bools, n_spines: int) -> None:
    """Exchange uplinks among members of a role until none is reached over a forbidden channel, where that can be.

    An exchange keeps each spine's number of destinations. One that keeps hosts of a leaf on different spines is
    preferred; where none helps the host stays, and `_fill_zone` sends it another way where it must.
    """
    for host in members.tolist():
        if not forbidden[leaf[host], uplink[host] % n_spines]:
            continue
        mine, theirs = uplink[host] % n_spines, uplink[members] % n_spines
        fits = ~forbidden[leaf[host], theirs] & ~forbidden[leaf[members], mine]
        if not fits.any():
            continue
        at_home = np.bincount(theirs[leaf[members] == leaf[host]], minlength=n_spines)
        over_mine = np.zeros(len(forbidden), np.int64)
        np.add.at(over_mine, leaf[members[theirs == mine]], 1)
        crowding = at_home[theirs] + over_mine[leaf[members]]
        other = members[np.flatnonzero(fits)[np.argmin(crowding[fits])]]
        uplink[host], uplink[other] = uplink[other], uplink[host]


def _fill_zone(
    fabric: Fabric, lft: NDArray[np.uint8], zone: Zone, targets: Targets, departing: Bools, *, restricted: bool
) -> None:
    """Fill the tables of a zone's switches for its own targets."""
    n_spines = len(zone.spines)
    on_leaf = np.flatnonzero(targets.leaf >= 0)
    goal = targets.leaf[on_leaf]
    for leaf, switch in enumerate(zone.leaves.tolist()):
        enterable = zone.linked[goal] & zone.linked[leaf]  # (targets, spines)
        if restricted and zone.border[leaf]:
            enterable &= ~departing[goal]
        spine = _least_used(targets.spine[on_leaf], enterable, goal == leaf)
        ports = zone.up.pick(np.full(len(spine), leaf), spine, targets.turn[on_leaf])
        stuck = (spine < 0) & (goal != leaf)
        ports[stuck] = [_around(zone, leaf, int(place)) for place in goal[stuck]]
        ports[goal == leaf] = targets.port[on_leaf][goal == leaf]
        lost = goal[(ports == 0) & (goal != leaf)]
        if len(lost):
            raise RoutingError(
                f"{fabric.label(switch)} and {fabric.label(int(zone.leaves[lost[0]]))} share no spine "
                "that a path may take: the engine `zoned` cannot route between them; take `balanced`"
            )
        _set(lft, switch, targets.lid[on_leaf], ports)
        _set(lft, switch, targets.lid[-n_spines:], zone.up.port[leaf, :, 0])
    nth = _nth_of_its_kind(targets.leaf[on_leaf] * n_spines + targets.spine[on_leaf])
    turning = _turning_leaf(zone)
    for spine, switch in enumerate(zone.spines.tolist()):
        ports = zone.down.pick(np.full(len(goal), spine), goal, nth)
        if turning >= 0:
            to_turn = int(zone.down.port[spine, turning, 0])
            ports[ports == 0] = to_turn
            lft[switch, targets.lid[-n_spines:]] = to_turn
        _set(lft, switch, targets.lid[on_leaf], ports)


def _turning_leaf(zone: Zone) -> int:
    """Choose the one leaf over which spines reach each other, -1 if none is linked to all.

    Only switch LIDs need it. A border leaf is taken where there is one: what it sends up never departs, so the turn
    spine -> leaf -> spine adds no dependency on departures; and with a single turning leaf turns cannot chain.
    """
    whole = np.flatnonzero(zone.linked.all(axis=1))
    border = whole[zone.border[whole]]
    return int(border[0]) if len(border) else int(whole[0]) if len(whole) else -1


def _around(zone: Zone, leaf: int, goal: int) -> int:
    """Port to a joint that two border leaves share, 0 if they share none."""
    joints = {exit_.joint for exit_ in zone.exits if exit_.leaf == goal}
    return next((exit_.leaf_port for exit_ in zone.exits if exit_.leaf == leaf and exit_.joint in joints), 0)


def _least_used(wanted: Ints, allowed: Bools, skip: Bools) -> Ints:
    """Keep the wanted spine where it is allowed; elsewhere take the allowed one that is used least; -1 if none is."""
    choice = np.where(allowed[np.arange(len(wanted)), wanted], wanted, -1)
    used = np.bincount(choice[(choice >= 0) & ~skip], minlength=allowed.shape[1])
    for target in np.flatnonzero((choice < 0) & ~skip).tolist():
        fits = np.flatnonzero(allowed[target])
        if len(fits):
            choice[target] = fits[np.argmin(used[fits])]
            used[choice[target]] += 1
    return choice


def _nth_of_its_kind(kind: Ints) -> Ints:
    """Return for each element how many equal ones come before it."""
    order = np.argsort(kind, kind="stable")
    starts = np.flatnonzero(np.diff(kind[order], prepend=-1))
    nth = np.empty(len(kind), np.int64)
    nth[order] = np.arange(len(kind)) - np.repeat(starts, np.diff(starts, append=len(kind)))
    return nth


def _set(lft: NDArray[np.uint8], switch: int, lids: Ints, ports: Ints) -> None:
    """Write the entries whose port is known (not 0)."""
    known = ports > 0
    lft[switch, lids[known]] = ports[known]


# --- between zones --------------------------------------------------------------------------------------------------


def _fill_departures(
    lft: NDArray[np.uint8], zone: Zone, targets: Targets, departing: Bools, reaching: Bools, *, restricted: bool
) -> Ints:
    """Fill a zone's tables for the targets of another one; return (joints, T) source hosts that reach each joint."""
    n_leaves, n_spines = zone.linked.shape
    exits = [exit_ for exit_ in zone.exits if reaching[exit_.joint]]
    exit_leaf = np.array([exit_.leaf for exit_ in exits], np.int64)
    n_targets = len(targets.lid)
    chosen, spine = _deal_exits(targets.role, exit_leaf, departing)
    at_border = np.full((n_leaves, n_targets), -1, np.int64)  # exit that a border leaf takes
    nth = _nth_of_its_kind(targets.role)
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
        _set(lft, switch, targets.lid, np.where(over[index] >= 0, ports, 0))
    leads_out = (over >= 0).T  # (targets, spines)
    joint_of = np.array([exit_.joint for exit_ in exits], np.int64)
    port_of = np.array([exit_.leaf_port for exit_ in exits], np.int64)
    pairs = np.zeros((len(reaching), n_targets), np.int64)
    hosts = zone.hosts_on_leaf
    everything = np.arange(n_targets)
    for leaf, switch in enumerate(zone.leaves.tolist()):
        if at_border[leaf, 0] >= 0:
            last = at_border[leaf]
            _set(lft, switch, targets.lid, port_of[last])
        else:
            up = _least_used(spine, leads_out & zone.linked[leaf], np.zeros(n_targets, bool))
            if (up < 0).any():
                raise RoutingError("a leaf has no spine left that leads out of its zone: take the engine `balanced`")
            _set(lft, switch, targets.lid, zone.up.pick(np.full(n_targets, leaf), up, nth // n_spines))
            last = at_border[over[up, everything], everything]
        pairs[joint_of[last], everything] += hosts[leaf]
    return pairs


def _deal_exits(role: Ints, exit_leaf: Ints, departing: Bools) -> tuple[Ints, Ints]:
    """Deal targets over exits role by role, and those of a border leaf over the spines that depart to it.

    Returns the exit and the spine of each target.
    """
    chosen = np.empty(len(role), np.int64)
    spine = np.empty(len(role), np.int64)
    next_exit = 0
    for kind in np.unique(role).tolist():
        members = np.flatnonzero(role == kind)
        chosen[members] = (next_exit + np.arange(len(members))) % len(exit_leaf)
        next_exit += len(members)
    for leaf in np.unique(exit_leaf).tolist():
        members = np.flatnonzero(exit_leaf[chosen] == leaf)
        spines = np.flatnonzero(departing[leaf])
        spine[members] = spines[np.arange(len(members)) % len(spines)]
    return chosen, spine


def _fill_arrivals(lft: NDArray[np.uint8], zone: Zone, targets: Targets, joints: Ints, pairs: Ints) -> None:
    """Fill the joints' tables for the targets of a zone, so that each of a joint's links carries as many pairs.

    Targets of one role with as many sources are alike: each link gets the same number of them, first those that hang
    on the leaf it leads to.
    """
    for joint, switch in enumerate(joints.tolist()):
        entries = [exit_ for exit_ in zone.exits if exit_.joint == joint]
        if not entries:
            continue
        leaf = np.array([entry.leaf for entry in entries], np.int64)
        port = np.array([entry.joint_port for entry in entries], np.int64)
        carried = np.zeros(len(entries), np.int64)
        alike = np.stack([targets.role, -pairs[joint]], axis=1)
        for kind in np.unique(alike, axis=0):
            members = np.flatnonzero((alike == kind).all(axis=1))
            link = _deal_entries(members, targets, leaf, carried)
            carried += np.bincount(link, minlength=len(entries)) * -kind[1]
            lft[switch, targets.lid[members]] = port[link]


def _deal_entries(members: Ints, targets: Targets, entry_leaf: Ints, carried: Ints) -> Ints:
    """Give each entry as many members, the least loaded ones one more; at home first. Return the entry of each."""
    n_entries = len(entry_leaf)
    quota = np.full(n_entries, len(members) // n_entries)
    quota[np.argsort(carried, kind="stable")[: len(members) % n_entries]] += 1
    is_switch = targets.port[members] == 0
    link = np.full(len(members), -1, np.int64)
    for entry in range(n_entries):
        home = np.flatnonzero((targets.leaf[members] == entry_leaf[entry]) & (link < 0))
        home = home if is_switch.any() else home[: quota[entry]]  # a border leaf's own LID always goes straight in
        link[home] = entry
        quota[entry] = max(quota[entry] - len(home), 0)
    rest = np.flatnonzero(link < 0)
    slots = np.repeat(np.arange(n_entries), quota)
    # Round-robin over the slots, so that neighbours arrive on different leaves.
    slots = slots[np.argsort(_nth_of_its_kind(slots), kind="stable")]
    link[rest] = slots[np.arange(len(rest)) % max(len(slots), 1)] if len(slots) else np.arange(len(rest)) % n_entries
    return link


# --- joints and what hangs on odd places ------------------------------------------------------------------------------


def _fill_joints(
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
                ways = [leaf for leaf in sorted(direct) if departing[number][leaf, spine]]
                ways = ways or [leaf for leaf in sorted(own) if departing[number][leaf, spine] and number > 0]
                if ways:
                    lft[zone.spines[spine], lid] = zone.down.port[spine, ways[joint % len(ways)], 0]
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


def _fill_odd_hosts(fabric: Fabric, lft: NDArray[np.uint8], lids: NDArray[np.uint16]) -> None:
    """Route hosts on spines and joints as the switch that they hang on."""
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    switch = fabric.end_switch[ends]
    odd = ends[(switch >= 0) & (fabric.role[np.maximum(switch, 0)] != Role.LEAF)]
    for end in odd.tolist():
        at = int(fabric.end_switch[end])
        lft[:, lids[end]] = lft[:, lids[at]]
        port = fabric.peer[end - fabric.n_switches + fabric.first_adapter_port]
        lft[at, lids[end]] = fabric.port_number[port]
