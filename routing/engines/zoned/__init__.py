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
arrivals. The spines of compute hosts are turned a little from leaf to leaf (`compute_pattern`) until each border leaf
has a spine that none of its own hosts uses, and these are spread over the spines by an assignment problem; then the
rule costs no balance at all, only the freedom of choice: departures to one border leaf hang on one spine, and losing
it or its cable moves them all. Where leaves hold more hosts than there are spines to spare, hosts on such a spine are
reached from border leaves over another one, and that is the cost (`docs/zoned.md` has figures).

How it is balanced
------------------
In a zone, host i of the role with most hosts is reached over uplink i modulo the uplinks of a leaf (destination-
modulo as Zahavi 2010). Hosts of a leaf are consecutive, so a shift permutation of the compute hosts never puts two
flows on a link. The other roles are spread one by one, each evenly over all uplinks (the aim of Gliksberg et al. 2018)
and, within that, over those that no other host of the same leaf is reached over (`within._spread_role`). Departures are
spread over the exits and spines in the same way; joints spread arrivals over their links so that each carries the same
number of pairs, and enter at the destination's own leaf where they can.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.zoned.between import fill_arrivals, fill_departures, fill_joints
from routing.engines.zoned.within import choose_spines, compute_pattern, fill_zone, widen
from routing.order.zones import Zone, zones_of
from routing.tables import NO_PATH, RoutingTables, assign_lids
from topo.errors import RoutingError
from topo.fabric import Fabric, Role


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
        Complete between all adapters, on one lane. Packets from and to switches, which are management alone, close no
        credit loop either, but some may lack a path in zones that miss links: a spine without a channel for departures
        cannot send to other zones, and one without a link to its zone's turning leaf (`within`) is reached by what it
        is linked to.

    Raises
    ------
    RoutingError
        When the fabric is not made of such zones, or misses so many links that two leaves of a zone share no spine.
    """
    lids = assign_lids(fabric) if lid is None else lid
    zones, joints = zones_of(fabric)
    onward = _links_of_joints(zones, len(joints))
    lft = np.full((fabric.n_switches, int(lids.max(initial=0)) + 1), NO_PATH, np.uint8)
    departing, targets, climbs = [], [], []
    for number, zone in enumerate(zones):
        restricted = number > 0
        pattern, channels = compute_pattern(zone, restricted=restricted)
        target = choose_spines(zone, pattern, channels if restricted else None, lids)
        channels = widen(zone, target, channels)
        targets.append(target)
        departing.append(channels)
        climbs.append(fill_zone(fabric, lft, zone, target, channels, restricted=restricted))
    for far, target in enumerate(targets):
        pairs = np.zeros((len(joints), len(target.lid)), np.int64)
        for near, zone in enumerate(zones):
            if near != far:
                pairs += fill_departures(lft, zone, target, departing[near], onward[:, far], restricted=near > 0)
        fill_arrivals(lft, zones[far], target, joints, pairs, *climbs[far])
    fill_joints(lft, zones, joints, departing, lids)
    _fill_odd_hosts(fabric, lft, lids)
    switches = np.arange(fabric.n_switches)
    lft[switches, lids[switches]] = 0
    return RoutingTables(lids, lft, engine="zoned")


def _links_of_joints(zones: list[Zone], n_joints: int) -> NDArray[np.int64]:
    """Return (joints, zones) how many links a joint has to a zone; refuse zones that no joint links."""
    links = np.zeros((n_joints, len(zones)), np.int64)
    for number, zone in enumerate(zones):
        np.add.at(links[:, number], [exit_.joint for exit_ in zone.exits], 1)
    for a in range(len(zones)):
        for b in range(a):
            if not (links[:, a] * links[:, b]).any():
                raise RoutingError(f"no joint links zone {b} and zone {a}: their hosts cannot reach each other")
    return links


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
