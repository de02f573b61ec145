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

from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray

from routing.kernels.legal import ChannelOrder
from routing.order.channel_order import with_ranks
from topo.fabric import Fabric, Role

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


def order_joined_zones(fabric: Fabric, order: ChannelOrder, level: Ints, hosts: Ints) -> ChannelOrder | None:
    """Return the same channels with ranks for zones that are joined, or None where the fabric has no such zones.

    Whether every pair has a legal path must be looked at: with zones of more than two levels, or when a path must pass
    through a third zone, some have none.

    Parameters
    ----------
    fabric : Fabric
        With the zones of its switches.
    order : ChannelOrder
        Its channels.
    level : (S,) int
        Level of each switch.
    hosts : (S,) int
        Host ports at each switch.
    """
    n = fabric.n_switches
    zone = np.where(fabric.role[:n] == Role.JOINT, -1, fabric.zone[:n]).astype(np.int64)
    near, far = zone[order.sender], zone[order.receiver]
    if (near == far).all() or ((zone < 0) & (fabric.role[:n] != Role.JOINT)).any():
        return None
    inside, border = near == far, np.zeros(n, bool)
    border[order.sender[near != far]] = True
    border &= zone >= 0
    position = np.empty(n, np.int64)
    position[np.lexsort((np.arange(n), level))] = np.arange(n)
    up = inside & (position[order.receiver] > position[order.sender])
    down = inside & ~up
    at_border = np.bincount(zone[border], hosts[border], zone.max() + 1)
    middle = int(np.argmax(at_border))
    phase = np.full(len(near), Phase.ARRIVE)
    phase[far < 0] = Phase.CROSS
    phase[far == middle] = Phase.ENTER_MIDDLE
    phase[(near == middle) & (far < 0)] = Phase.CROSS_FROM_MIDDLE
    phase[up] = np.where(border[order.sender[up]], Phase.CLIMB_FROM_BORDER, Phase.CLIMB)
    phase[down] = Phase.DESCEND
    phase[up & (near == middle)] = Phase.CLIMB_MIDDLE
    phase[down & (near == middle)] = Phase.DESCEND_MIDDLE
    links = np.unique(order.sender[up & (near == middle)].astype(np.int64) * n + order.receiver[up & (near == middle)])
    pivot = int(np.argmax(np.bincount(links // n, minlength=n)))
    phase[up & (order.sender == pivot)] = Phase.FROM_PIVOT
    phase[down & (order.receiver == pivot)] = Phase.TO_PIVOT
    below = level < np.bincount(level[border]).argmax()
    phase[up & below[order.sender]] = Phase.CLIMB_FROM_BELOW
    phase[down & below[order.receiver]] = Phase.DESCEND_BELOW
    cables = np.bincount(order.sender[near != far], minlength=n)
    phase[_leaving(order, phase == Phase.DESCEND, border & (zone != middle), hosts, cables)] = Phase.LEAVE
    phase[_steps_back(order, phase, border, hosts)] = Phase.STEP_BACK
    step = np.where(up, position[order.sender], 2 * n - position[order.sender])
    key = phase * 4 * n + np.where(inside, step, 0)
    return with_ranks(order, np.searchsorted(np.unique(key), key).astype(np.int32))


def _steps_back(order: ChannelOrder, phase: Ints, border: Bools, hosts: Ints) -> Ints:
    """Return for each spine that could leave its zone nowhere a channel down to a leaf that can do without it."""
    n = len(hosts)
    down = phase == Phase.DESCEND
    stuck = np.zeros(n, bool)
    stuck[order.sender[down]] = True
    stuck[order.sender[(phase == Phase.LEAVE)]] = False
    leaves = np.zeros(n, bool)  # from which a spine is reached that can leave
    climb = phase == Phase.CLIMB
    leaves[order.sender[climb & ~stuck[order.receiver]]] = True
    free = np.bincount(order.receiver[down], minlength=n) - hosts
    steps = []
    for spine in np.flatnonzero(stuck).tolist():
        channels = np.arange(order.indptr[spine], order.indptr[spine + 1])
        channels = channels[down[channels] & leaves[order.receiver[channels]] & ~border[order.receiver[channels]]]
        if len(channels):
            steps.append(channels[np.argmax(free[order.receiver[channels]])])
            free[order.receiver[steps[-1]]] -= 1
    return np.array(steps, np.int64)


def _leaving(order: ChannelOrder, down: Bools, guarded: Bools, hosts: Ints, cables: Ints) -> Ints:
    """Return the channels down to guarded leaves that are reserved for what leaves their zone.

    Parameters
    ----------
    down : (C,) bool
        Channels that lead down.
    guarded : (S,) bool
        Border leaves with the rule.
    hosts, cables : (S,) int
        Host ports of each leaf, and its cables to other zones.
    """
    n = len(hosts)
    reserved = np.zeros((n, n), bool)  # by spine and leaf
    wired = np.zeros((n, n), bool)
    wired[order.sender[down], order.receiver[down]] = True
    for leaf in sorted(np.flatnonzero(guarded).tolist(), key=lambda leaf: (-hosts[leaf], leaf)):
        spines = np.flatnonzero(wired[:, leaf])
        few = min(cables[leaf], max(len(spines) - hosts[leaf], 1)) if hosts[leaf] else len(spines)
        reserved[spines[np.argsort(reserved[spines].sum(axis=1), kind="stable")[:few]], leaf] = True
    # Spines without one could send nothing of their own to other zones: give each one where it costs least.
    wired[:, ~guarded] = False
    for spine in np.flatnonzero(wired.any(axis=1) & ~reserved.any(axis=1)).tolist():
        free = wired.sum(axis=0) - reserved.sum(axis=0)
        leaves = np.flatnonzero(wired[spine] & (free > 1))
        if len(leaves):
            reserved[spine, leaves[np.argmax((free - hosts)[leaves])]] = True
    return np.flatnonzero(down & reserved[order.sender, order.receiver])
