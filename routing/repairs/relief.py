"""Takes load off the fullest channels of repaired tables, with few entries changed."""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from routing.engines.balanced import MOST_DETOUR
from routing.order.channel_order import order_channels, switch_levels, taken_channels, with_ranks, write_ports
from routing.order.legal import ChannelOrder
from routing.repairs.basis import HOST, Channels, RepairBasis, destinations, hosts_at
from routing.search.move import AMENDED, AS_THEY_ARE
from routing.search.problem import Dense, assemble
from routing.search.search import TableSearch
from topo.fabric import Fabric, frozen

WAYS = (AS_THEY_ARE, 0), (AMENDED, MOST_DETOUR)
"""Turns that moves may take at each price, and links that paths may have beyond the shortest."""

HALVINGS = 8
"""Prices that are tried: by the last one, an entry costs next to nothing."""

EFFORT = 1 << 24
"""Destinations times channels that are looked at, each of 16 times: some five seconds in all, as in
`routing.search.search`, since repairs are waited for."""


def take_off_peaks(
    basis: RepairBasis, left: Fabric, rank: NDArray[np.int32], spare: int, lft: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """Move flows off full channels, each entry at a price, until the fullest one is no fuller than before the failure.

    The price begins with what the failure costs for each entry that it changes: (J after - J before) / entries, with J
    the score of all pairs (`routing.search`). It is halved as long as that leaves the fullest channel too full, and
    spare entries: at most ``spare`` may differ from the old tables beyond those that do already. If the order leaves no
    other path, further turns are allowed, and detours. ``lft`` is (S, T), complete tables for what is left, in and out.
    ``rank``, and what is returned, are positions of channels in an order that all paths climb, before and afterwards.
    """
    whole, tables, channels = basis.routed.fabric, basis.routed.tables, Channels.of(left)
    order = with_ranks(channels.order, frozen(channels.start(rank)))
    of_whole = order_channels(whole, switch_levels(whole))
    were = _all_pairs(basis, left, of_whole).weigh(of_whole, taken_channels(of_whole, tables.lft), 1.0)
    search, repaired = _all_pairs(basis, left, order), taken_channels(order, lft)
    found = search.weigh(order, repaired, 1.0)
    price = (found.score - were.score) / max(int((tables.lft != lft).sum()), 1)
    held = channels.growing(basis, rank).state.astype(np.int32)  # old paths are taken while entries change
    fuller = np.nextafter(were.fullest, np.inf)
    for halved, (turns, detour) in product(range(HALVINGS if price > 0 else 0), WAYS):
        if found.fullest < fuller:
            break
        other = search.improve(
            found.order, found.next_hop, turns=turns, detour=detour, high=1.0, least=price / 2**halved,
            full=fuller, effort=EFFORT, held=held,
        )  # fmt: skip
        if np.count_nonzero(other.next_hop != repaired) <= spare:
            found = other
    write_ports(order, repaired, found.next_hop, lft)
    same = np.array_equal(found.order.rank, order.rank)
    return rank if same else channels.ranks(found.order.rank)


def _all_pairs(basis: RepairBasis, left: Fabric, order: ChannelOrder) -> TableSearch:
    """Return the search for the pairs of hosts that are left, over some channels."""
    tables = basis.routed.tables
    dest_switches, weight, lids = destinations(left, tables)
    receives = np.where(weight < HOST / (1 << tables.lmc), 0.0, weight)
    pairs = Dense("pairs", hosts_at(left), receives, 1.0)
    return TableSearch(assemble(order, dest_switches.astype(np.int32), lids, [pairs], [], {"pairs": 1.0}), order)
