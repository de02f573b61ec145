"""Takes load off the fullest channels of repaired tables, with few entries changed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import taken_channels, write_ports
from routing.order.turns import Turns, fixed_turns, note_turns
from routing.repairs.basis import HOST, RepairBasis, destinations, hosts_at
from routing.repairs.channels import Channels
from routing.repairs.peaks import Limits, relieve_peaks
from routing.repairs.traffic import Dests, Net
from routing.tables import NO_PATH
from topo.fabric import Fabric, frozen

EFFORT = 500_000_000
"""Bound on the time: trees examined, times channels."""
DETOURS = (0, 4)
"""Channels by which paths may become longer; the second where the first does not suffice."""
LESS = 0.98
"""The last attempt aims at this share of the old load of the fullest channel."""


def take_off_peaks(
    basis: RepairBasis, left: Fabric, rank: NDArray[np.int32], spare: int, lft: NDArray[np.uint8]
) -> NDArray[np.int32]:
    """Move flows, within the entries that may still change, until no channel is fuller than the fullest one was before.

    Where the order leaves no other path, further turns are allowed.

    Parameters
    ----------
    basis : RepairBasis
    left : Fabric
        The fabric after failures.
    rank : (P,) int32
        Position of each channel in an order that all paths climb, before and afterwards.
    spare : int
        Most entries that may differ from the old tables beyond those that do already.
    lft : (S, T) uint8, in and out
        Complete tables for what is left.

    Returns
    -------
    (P,) int32
        Position of each channel in an order that all paths climb afterwards.
    """
    whole, tables, channels = basis.routed.fabric, basis.routed.tables, Channels.of(left)
    order = channels.order._replace(rank=frozen(rank[channels.port]))
    dest_switches, weight, lids = destinations(left, tables)
    hosts, were = hosts_at(left), hosts_at(whole)
    scale = np.divide(whole.rate_gbps[whole.inner].max(), whole.rate_gbps[whole.inner])
    enough = (basis.load[whole.inner] * scale).max() * (hosts.sum() / were.sum()) ** 2
    net = Net(
        order=order,
        scale=frozen(whole.rate_gbps[whole.inner].max() / order.rate_gbps),
        sources=frozen(hosts),
    )
    dests = Dests(
        switch=frozen(dest_switches),
        lid=frozen(lids),
        weight=frozen(np.where(weight < HOST / (1 << tables.lmc), 0.0, weight)),
    )
    next_hop = taken_channels(order, lft)
    repaired, old = next_hop.copy(), taken_channels(order, tables.lft)
    effort = EFFORT // max(len(channels.port), 1)
    most = np.count_nonzero(repaired != old) + spare

    def relieve(turns: Turns, detour: int, goal: float, *, goes_on: bool) -> float:
        """Move flows; return the load of the fullest channel."""
        left_over = int(most - np.count_nonzero(next_hop != old))
        limits = Limits(detour, effort, goal, left_over, goes_on)
        return relieve_peaks(net, dests, limits, turns, old, next_hop)

    def suffices(turns: Turns) -> bool:
        """Move flows, over longer paths only if need be; return whether no channel exceeds the limit."""
        return any(relieve(turns, detour, enough, goes_on=True) <= enough for detour in DETOURS)

    if suffices(fixed := fixed_turns(order)):
        relieve(fixed, 0, LESS * enough, goes_on=False)
    else:
        turns = channels.growing(basis, rank)
        taken = (np.where(one[lids] == NO_PATH, -1, order.indptr[:-1] + one[lids]) for one in (old, next_hop))
        note_turns(turns, *(frozen(one.astype(np.int32)) for one in taken))
        suffices(turns)
        if not np.array_equal(turns.rank, channels.start(rank)):
            rank = channels.ranks(turns.rank)
    write_ports(order, repaired, next_hop, lft)
    return rank
