"""What a search for tables starts from: the channels in order, the destinations, and closed forms."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.engines.fat_tree import NOWHERE, climb_limit, closed_form
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import Destinations, destinations_of, in_a_row, stagger, turned_in_zones
from routing.order.joined import Zones, order_joined_zones, zones_of
from routing.order.legal import ChannelOrder
from routing.tables import NO_PATH, tree_order
from topo.fabric import Fabric, Role, frozen


class Begin(NamedTuple):
    """Tables to begin with."""

    order: ChannelOrder
    """Ranks that all paths climb."""
    next_hop: NDArray[np.uint8]
    """(T, S) index of the channel that each switch takes among its own, by LID."""
    kept: NDArray[np.bool_] | None = None
    """(S, S) whether the entry of a switch for what hangs on another stays."""


class Start(NamedTuple):
    """What searches start from."""

    fabric: Fabric
    lids: NDArray[np.uint16]
    """(E,) those of its end ports."""
    order: ChannelOrder
    dests: Destinations
    level: NDArray[np.int64]
    own: NDArray[np.int32]
    """(C,) index of each channel among its sender's."""
    hosts: NDArray[np.int64]
    """(S,) host ports."""
    ranks: NDArray[np.int32]
    """(n,) adapters' ports that have LIDs, along the tree."""
    climbs: NDArray[np.int64]
    """(S,) levels for the closed form."""
    tree: bool
    """Whether the closed form connects all over shortest paths."""
    closed: NDArray[np.uint8]
    """(T, S) what it takes there."""
    zones: Zones | None
    forms: tuple[Begin, ...] = ()
    """Closed forms for zones that are joined, each under an order of its own. They keep paths inside a zone where no
    flows of shifts meet within any."""

    @property
    def may_keep(self) -> bool:
        """Whether forms for its zones may keep paths: those between hosts of a zone lead over one switch.

        Where a cable joins two switches of a zone that have hosts, the shortest leads over none.
        """
        if self.zones is None:
            return False
        zone, hosts, sender, receiver = self.zones.zone, self.hosts, self.order.sender, self.order.receiver
        inside = (zone[sender] == zone[receiver]) & (zone[sender] >= 0)
        return not (inside & (hosts[sender] > 0) & (hosts[receiver] > 0)).any()

    @property
    def size(self) -> int:
        """Destinations times channels, which bounds what there is time for."""
        return len(self.dests.lid) * len(self.order.sender)


def start_of(fabric: Fabric, lids: NDArray[np.uint16], shape: tuple[int, ...]) -> Start:
    """Return what searches start from, but for what `with_forms` adds; the closed form is (T, S)."""
    level, n = switch_levels(fabric), fabric.n_switches
    dests, order = destinations_of(fabric, lids, level), order_channels(fabric, level)
    own = frozen((np.arange(len(order.sender)) - order.indptr[order.sender]).astype(np.int32))
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=n)
    ranks = tree_order(fabric, fabric.ends()[lids[fabric.ends()] > 0])
    tree, closed = False, np.full(shape, NO_PATH, np.uint8)
    if (np.abs(level[order.sender] - level[order.receiver]) == 1).all():
        tree = closed_form(order, dests, level, own, closed, climb_limit(fabric, level)) == NOWHERE
    # What crosses from zone to zone is no choice of a climb within one.
    climbs, zones = np.where(fabric.role[:n] == Role.JOINT, 0, level), zones_of(fabric, order, level, hosts)
    return Start(fabric, lids, order, dests, level, own, hosts, ranks, climbs, tree, closed, zones)


def with_forms(start: Start) -> Start:
    """Return a start with closed forms for its zones, if it has any, and turns that are spread at their borders."""
    zones, order, dests, level, hosts = start.zones, start.order, start.dests, start.level, start.hosts
    if zones is None:
        return start
    closed = partial(closed_form, level=start.climbs, number=start.own)
    empty = np.full_like(start.closed, NO_PATH)
    staggered = partial(stagger, border=zones.border, gate=zones.gate, width=zones.width)
    width = _uplinks_of_leaves(order, level, hosts, zones.zone[order.sender] == zones.zone[order.receiver])
    straight = in_a_row(dests, width, closed=False)
    slipped, back = turned_in_zones(dests, width, zones.zone)
    ways = [(staggered(dests),), (staggered(slipped),), (back,), (staggered(straight), straight)]
    may_keep, one_zone = start.may_keep, frozen(zones.zone[:, None] == np.where(zones.zone >= 0, zones.zone, -2))

    def form(each: Destinations) -> Begin:
        plain, next_hop = empty.copy(), empty.copy()
        closed(order, each, next_hop=plain)
        joined = order_joined_zones(order, level, hosts, zones, _descents(order, each, plain))
        closed(joined, each, next_hop=next_hop, turns=zones.turns)
        kept = may_keep and _alone(joined, each, zones.zone, next_hop)
        return Begin(joined, next_hop, one_zone if kept else None)

    # What else hosts in a row are worth, other orders give as well.
    first, *others = (map(form, way) for way in ways)
    in_turn = [next((one for one in way if one.kept is not None), None) for way in others if may_keep]
    forms = (next(first), *filter(None, in_turn))
    return start._replace(dests=ways[0][0], forms=forms)


def closed_in_a_row(start: Start) -> NDArray[np.uint8] | None:
    """Return the closed form by which hosts in a row, whatever their roles, take the uplinks of a leaf in turn.

    None where that is what the other closed form does.
    """
    order, level, dests = start.order, start.level, start.dests
    row = in_a_row(dests, _uplinks_of_leaves(order, level, start.hosts), closed=True)
    if np.array_equal(row.count, dests.count) and np.array_equal(row.turn, dests.turn):
        return None
    next_hop = np.full(start.closed.shape, NO_PATH, np.uint8)
    closed_form(order, row, level, start.own, next_hop)
    return next_hop


def _uplinks_of_leaves(
    order: ChannelOrder, level: NDArray[np.int64], hosts: NDArray[np.int64], where: NDArray[np.bool_] | bool = True
) -> int:
    """Return how many channels lead up from the leaf of most hosts, of those that count."""
    up = (level[order.receiver] > level[order.sender]) & where
    return max(int(np.bincount(np.bincount(order.sender[up], minlength=len(level)), hosts).argmax()), 1)


def _descents(order: ChannelOrder, dests: Destinations, next_hop: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return (S, S) over which switch hosts are reached: how many entries lead to hosts of each over each other."""
    n = len(order.indptr) - 1
    used = np.zeros((n, n), np.int64)
    hosts = dests.role < Role.AGGREGATION
    taken = next_hop[dests.lid[hosts]].astype(np.int64)  # (hosts, switches)
    of_role = np.bincount(dests.role[hosts])[dests.role[hosts]]
    row, switch = np.nonzero(taken != NO_PATH)
    np.add.at(used, (order.receiver[order.indptr[switch] + taken[row, switch]], dests.switch[hosts][row]), of_role[row])
    return used


def _alone(order: ChannelOrder, dests: Destinations, zone: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> bool:
    """Whether hosts reach each other within a zone over one switch, and over channels to each that lead to no other."""
    hosts = dests.role < Role.AGGREGATION
    home = dests.switch[hosts]
    leaves = np.unique(home)
    for number in np.unique(zone[leaves]):
        mine, sources = np.flatnonzero(zone[home] == number), leaves[zone[leaves] == number]
        reached = next_hop[dests.lid[hosts][mine]]
        row, source = np.nonzero(sources != home[mine][:, None])
        if (reached[:, sources] == NO_PATH).sum() > len(mine):  # each has none at its own leaf
            return False
        first = reached[row, sources[source]]
        above = order.receiver[order.indptr[sources[source]] + first.astype(np.int64)]
        last = reached[row, above]
        if (last == NO_PATH).any():
            return False
        channel = order.indptr[above] + last.astype(np.int64)
        if (order.receiver[channel] != home[mine][row]).any():
            return False
        pairs = np.unique(channel * len(mine) + row)
        if (np.bincount(pairs // len(mine)) > 1).any():
            return False
    return True
