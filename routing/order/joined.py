"""An order of channels for fat-trees that are joined at their leaves, as the zones of Fire-Flyer 2 are.

A path from zone to zone climbs twice: to a spine of its own zone and down to a *border* leaf, across, and from a border
leaf of the other zone up and down again. An order by levels allows one climb. If both climbs were simply allowed,
packets that arrive in a zone would wait for those that leave it: both come down to border leaves. In the other zone
it is the same, and a loop closes.

So channels rank in the order in which a path takes them (`Phase`), and a channel is of one phase only. One zone, the
*middle*, needs no rule: it has its climb and descent between leaving the others and arriving in them. In every other
zone,

- climbs from border leaves come late, for packets that arrive and for their own hosts' packets within the zone; what
  their hosts send to other zones leaves over their own cables;
- of the channels from spines down to a border leaf, a few are reserved for packets that leave the zone: as many as the
  leaf has cables to other zones, but no more than its hosts leave free, and one at least.

Spines of the middle zone reach each other over one leaf, the *pivot*, whose channels rank between climb and descent; it
costs hosts no path. In the other zones they do so over border leaves. A switch that hangs below a leaf, such as
the root of a slow subtree, climbs before all others and is reached after all others.

A spine without a cable to any border leaf takes a step back first, down to a leaf, and climbs again.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import with_ranks
from routing.order.legal import ChannelOrder
from topo.fabric import Fabric, Frozen, Role
from topo.graphs import turns_in_groups

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Phase(IntEnum):
    """What a channel is for, in the order of a path."""

    STEP_BACK = auto()
    CLIMB_FROM_BELOW = auto()
    CLIMB = auto()
    LEAVE = auto()
    CROSS = auto()
    ENTER_MIDDLE = auto()
    CLIMB_MIDDLE = auto()
    TO_PIVOT = auto()
    FROM_PIVOT = auto()
    DESCEND_MIDDLE = auto()
    CROSS_FROM_MIDDLE = auto()
    ARRIVE = auto()
    CLIMB_FROM_BORDER = auto()
    DESCEND = auto()
    DESCEND_BELOW = auto()


@dataclass(frozen=True, eq=False)
class Zones(Frozen):
    """Zones, and what joins them."""

    zone: NDArray[np.int32]  # (S,) zone of each switch, -1 for those that join zones
    border: Ints  # (S,) the same for leaves that are linked to other zones or to what joins them, -1 for all others
    gate: Ints  # (S,) the first switch in another zone, or in none, that each such leaf is linked to
    width: int  # most switches above such a leaf
    turns: NDArray[np.int32]
    """(2, S) zone, -1 for leaves without hosts where zones meet, which only pass on what arrives; and the number of
    each switch among those of its zone and level that hold no border; -1 for others, and where a zone has one border
    leaf only."""


def zones_of(fabric: Fabric, order: ChannelOrder, level: Ints, hosts: Ints) -> Zones | None:
    """Return the zones of a fabric with these channels, (S,) levels and (S,) hosts.

    None for one zone, or with switches in none.
    """
    n = fabric.n_switches
    joint = fabric.role[:n] == Role.JOINT
    zone = np.where(joint, -1, fabric.zone[:n])
    outside = zone[order.sender] != zone[order.receiver]
    if not outside.any() or ((zone < 0) & ~joint).any():
        return None
    border = np.full(n, -1)
    border[order.sender[outside]] = zone[order.sender[outside]]
    gate = np.full(n, n)
    np.minimum.at(gate, order.sender[outside], order.receiver[outside])
    up = ~outside & (border[order.sender] >= 0)
    links = np.unique(order.sender[up].astype(np.int64) * n + order.receiver[up])
    several = np.bincount(border[border >= 0], minlength=zone.max() + 1) > 1
    turning = np.flatnonzero((border < 0) & ~joint & several[zone])
    kind = zone[turning] * (level.max() + 1) + level[turning]
    turns = np.full((2, n), -1)
    turns[0] = np.where((border >= 0) & (hosts == 0), -1, zone)
    turns[1, turning] = turns_in_groups(kind)
    width = int(np.bincount(links // n, minlength=1).max())
    return Zones(zone.astype(np.int32), border, gate, width, turns.astype(np.int32))


def order_joined_zones(order: ChannelOrder, level: Ints, hosts: Ints, zones: Zones, used: Ints) -> ChannelOrder:
    """Return the same channels with ranks for zones that are joined.

    Whether every pair has a legal path must be looked at: with zones of more than two levels, or when a path must pass
    through a third zone, some have none. ``used`` is (S, S) how much each switch hands over to hosts of each other:
    where that is least, channels are reserved.
    """
    n, zone = len(level), zones.zone.astype(np.int64)
    near, far = zone[order.sender], zone[order.receiver]
    inside, border = near == far, zones.border >= 0
    position = np.empty(n, np.int64)
    position[np.lexsort((np.arange(n), level))] = np.arange(n)
    up = inside & (position[order.receiver] > position[order.sender])
    down = inside & ~up
    middle = int(np.argmax(np.bincount(zone[border], hosts[border])))
    climbs = up & (near == middle)
    phase = np.full(len(near), Phase.ARRIVE)
    phase[far < 0] = Phase.CROSS
    phase[far == middle] = Phase.ENTER_MIDDLE
    phase[(near == middle) & (far < 0)] = Phase.CROSS_FROM_MIDDLE
    phase[up] = np.where(border[order.sender[up]], Phase.CLIMB_FROM_BORDER, Phase.CLIMB)
    phase[down] = Phase.DESCEND
    phase[climbs] = Phase.CLIMB_MIDDLE
    phase[down & (near == middle)] = Phase.DESCEND_MIDDLE
    links = np.unique(order.sender[climbs].astype(np.int64) * n + order.receiver[climbs])
    pivot = int(np.argmax(np.bincount(links // n, minlength=1)))
    phase[up & (order.sender == pivot)] = Phase.FROM_PIVOT
    phase[down & (order.receiver == pivot)] = Phase.TO_PIVOT
    below = level < np.bincount(level[border]).argmax()
    phase[up & below[order.sender]] = Phase.CLIMB_FROM_BELOW
    phase[down & below[order.receiver]] = Phase.DESCEND_BELOW
    cables = np.bincount(order.sender[near != far], minlength=n)
    phase[_leaving(order, phase == Phase.DESCEND, border & (zone != middle), hosts, cables, used)] = Phase.LEAVE
    back = _steps_back(order, phase, border, hosts)
    phase[back] = Phase.STEP_BACK
    # What arrives reaches such a spine in the same way, if it hangs on no border leaf at all.
    reached = np.isin(order.sender[back], order.receiver[phase == Phase.CLIMB_FROM_BORDER])
    phase[order.reverse[back[~reached]]] = Phase.DESCEND_BELOW
    step = np.where(up, position[order.sender], 2 * n - position[order.sender])
    key = phase * 4 * n + np.where(inside, step, 0)
    return with_ranks(order, np.searchsorted(np.unique(key), key).astype(np.int32))


def _steps_back(order: ChannelOrder, phase: Ints, border: Bools, hosts: Ints) -> Ints:
    """Return for each spine that could leave its zone nowhere a channel down to a leaf that can do without it."""
    n = len(hosts)
    down = phase == Phase.DESCEND
    stuck = np.isin(np.arange(n), order.sender[down]) & ~np.isin(np.arange(n), order.sender[phase == Phase.LEAVE])
    leaves = np.zeros(n, bool)  # from which a spine is reached that can leave
    leaves[order.sender[(phase == Phase.CLIMB) & ~stuck[order.receiver]]] = True
    free = np.bincount(order.receiver[down], minlength=n) - hosts
    steps = []
    for spine in np.flatnonzero(stuck).tolist():
        channels = np.arange(order.indptr[spine], order.indptr[spine + 1])
        channels = channels[down[channels] & leaves[order.receiver[channels]] & ~border[order.receiver[channels]]]
        if len(channels):
            steps.append(channels[np.argmax(free[order.receiver[channels]])])
            free[order.receiver[steps[-1]]] -= 1
    return np.array(steps, np.int64)


def _leaving(order: ChannelOrder, down: Bools, guarded: Bools, hosts: Ints, cables: Ints, used: Ints) -> Ints:
    """Return the channels down to guarded leaves that are reserved for what leaves their zone.

    ``down`` marks the channels that lead down, ``guarded`` the border leaves with the rule; ``cables`` are those of
    each switch to other zones, ``used`` as in `order_joined_zones`.
    """
    n = len(hosts)
    reserved = np.zeros((n, n), bool)  # by spine and leaf
    wired = np.zeros((n, n), bool)
    wired[order.sender[down], order.receiver[down]] = True
    for leaf in sorted(np.flatnonzero(guarded).tolist(), key=lambda leaf: (-hosts[leaf], leaf)):
        spines = np.flatnonzero(wired[:, leaf])
        few = min(cables[leaf], max(len(spines) - hosts[leaf], 1)) if hosts[leaf] else len(spines)
        reserved[spines[np.lexsort((reserved[spines].sum(axis=1), used[spines, leaf]))[:few]], leaf] = True
    # Spines without one could send nothing of their own to other zones: give each one where it costs least.
    wired[:, ~guarded] = False
    for spine in np.flatnonzero(wired.any(axis=1) & ~reserved.any(axis=1)).tolist():
        free = wired.sum(axis=0) - reserved.sum(axis=0)
        leaves = np.flatnonzero(wired[spine] & (free > 1))
        if len(leaves):
            reserved[spine, leaves[np.lexsort(((hosts - free)[leaves], used[spine, leaves]))[0]]] = True
    return np.flatnonzero(down & reserved[order.sender, order.receiver])
