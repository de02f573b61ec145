"""The engine `jobs`: any topology, complete, without credit loops on one lane, and even for jobs as they are placed.

One search by one score (`routing.search`): all pairs, shifts, and all-to-alls of jobs on every k-th host, on hosts in a
row, on one host of each leaf count, each in units of what the links carry. It begins with tables that are complete:

- on a tree, destination-modulo routing by closed form; where its shifts are free of contention, nothing is better, and
  it is handed out as it is;
- where trees are joined, the closed form under the order of `routing.order.joined`. What crosses from zone to zone is
  dealt on by some cables from leaf to leaf, so that a job on every k-th host meets all cables and not every k-th; paths
  within a zone, whose shifts meet nowhere, stay as they are;
- elsewhere closed forms under several orders of channels, one of them grown for plain shortest paths.

The start with the best score is searched from, first for all classes of traffic, then mainly for the fullest link.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.engines import dfsssp
from routing.engines.fat_tree import closed_form
from routing.engines.start import Start, closed_in_a_row, keeps, start_of
from routing.order.channel_order import order_channels, port_numbers, taken_channels, with_ranks
from routing.order.destinations import empty_tables, finish_tables
from routing.order.joined import zones_of
from routing.order.legal import ChannelOrder
from routing.order.turn_order import Wish, grow_channel_order, two_sided_order
from routing.search.problem import WEIGHTS, pose
from routing.search.search import Found, TableSearch
from routing.tables import NO_PATH, RoutingTables
from topo.fabric import Fabric, Role, frozen

SKEWS = (0, 1, 3, 7)
"""Cables by which crossing traffic is dealt on from leaf to leaf: none, and steps without a factor in common with the
number of cables on most switches, so that no stride of a job comes back to the same cable."""

MOST_DETOUR = 2
"""Links that a path may have beyond the shortest where there is no tree: one detour in bipartite wiring."""

FULLEST = WEIGHTS | {"pairs": 25.0}
"""Weights of the second search: the fullest link counts nine tenths."""


class Begin(NamedTuple):
    """Tables to begin with."""

    order: ChannelOrder
    """Ranks that all paths climb."""
    next_hop: NDArray[np.uint8]
    """(T, S) index of the channel that each switch takes among its own, by LID."""
    kept: NDArray[np.bool_] | None = None
    """(S, S) whether the entry of a switch for what hangs on another stays."""


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None) -> RoutingTables:
    """Forwarding tables of any fabric, for jobs as schedulers place them.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane.
    """
    lids, lft = empty_tables(fabric, lid)
    start = start_of(fabric, lids, lft.shape[::-1])
    if not len(start.order.sender):
        return finish_tables(start.dests, lft, lids, "jobs")
    found = _search(start)
    return finish_tables(start.dests, port_numbers(start.order, found.next_hop), lids, "jobs")


def _search(start: Start) -> Found:
    """Return the tables that a search from the best start ends with."""
    fabric, order = start.fabric, start.order
    search = TableSearch(pose(fabric, start.lids, order, start.dests, start.ranks), order)
    begins = list(_begins(start, search))
    worth = [search.weigh(begin.order, begin.next_hop) for begin in begins]
    least = min(found.missing for found in worth)
    places = sorted(
        (place for place in range(len(begins)) if worth[place].missing == least), key=lambda i: worth[i].score
    )
    if start.tree and worth[places[0]].worst_shift <= 1:
        return worth[places[0]]
    detour = 0 if start.tree else MOST_DETOUR
    tried = [
        (search.improve(begins[i].order, begins[i].next_hop, detour=detour, kept=begins[i].kept), begins[i])
        for i in (places[:1] if start.tree or start.forms else places)
    ]
    best, begin = min(tried, key=lambda one: one[0].score)
    return search.weighted(FULLEST).improve(best.order, best.next_hop, detour=detour, kept=begin.kept)


def _begins(start: Start, search: TableSearch) -> Iterator[Begin]:
    """Yield tables to begin with."""
    if start.tree:
        yield Begin(start.order, start.closed)
        if (row := closed_in_a_row(start)) is not None:
            yield Begin(start.order, row)
    for form in start.forms:
        kept = form.kept[:, None] == np.where(form.kept >= 0, form.kept, -2) if keeps(form.kept) else None
        for skew in SKEWS:
            yield Begin(form.order, _dealt(start, form.order, form.next_hop, skew), kept)
    if not start.tree and not start.forms:
        for order in _orders(start, search):
            next_hop = np.full(start.closed.shape, NO_PATH, np.uint8)
            closed_form(order, start.dests, start.climbs, start.own, next_hop)
            yield Begin(order, next_hop)


def _orders(start: Start, search: TableSearch) -> Iterator[ChannelOrder]:
    """Yield the orders of channels that are worth a try where there is no tree."""
    order, level = start.order, start.level
    yield order
    # Leaves without hosts that are linked to others join zones: whoever crosses them has climbed and then descends.
    flat = level[order.sender] == level[order.receiver]
    joining = np.isin(np.arange(len(level)), order.sender[flat]) & (start.hosts == 0)
    if joining.any():
        other = order_channels(start.fabric, np.where(joining, level.max() + 1, level))
        rank = np.zeros((len(level), 256), np.int32)  # by switch and port, since its channels are in another order
        rank[other.sender, other.number] = other.rank
        yield with_ranks(order, rank[order.sender, order.number])
    if (sides := two_sided_order(order)) is not None:
        yield sides
    plain = dfsssp.route(start.fabric, start.lids, lanes=1)
    yield grow_channel_order(order, start.hosts, Wish(*search.taken_turns(taken_channels(order, plain.lft))))


def _dealt(start: Start, order: ChannelOrder, next_hop: NDArray[np.uint8], skew: int) -> NDArray[np.uint8]:
    """Return tables by which what crosses from zone to zone is dealt on by some cables from leaf to leaf."""
    dests, zones = start.dests, zones_of(start.fabric, start.order, start.level)
    if not skew or zones is None:
        return next_hop
    leaf = np.unique(dests.switch, return_inverse=True)[1]
    turn = (dests.turn + skew * leaf) % np.maximum(zones.width, 1)  # none where a switch has no uplinks
    count = np.where(dests.role < Role.AGGREGATION, turn, dests.count).astype(np.int32)
    other = np.full_like(next_hop, NO_PATH)
    dealt = replace(dests, count=count, turn=count.copy())
    closed_form(order, dealt, start.climbs, start.own, other, turns=zones.turns)
    home = zones.zone[dests.switch][:, None]
    crosses = (zones.zone != home) & (home >= 0)
    result = next_hop.copy()
    result[dests.lid] = np.where(crosses, other[dests.lid], next_hop[dests.lid])
    return frozen(result)
