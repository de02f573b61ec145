"""The engine `balanced`: any topology, complete, without credit loops on one lane, and evenly loaded.

Only legal paths of a `routing.channel_order` are used, so nothing can deadlock whatever is chosen among them, and every
pair that cables connect has a path. The choice starts from the closed form of the engine `fat-tree`, which is the best
there is where the fabric is a whole tree, and is then improved: destinations are taken up one by one, by role and in
order of the tree, and put down where their flows meet the fewest others (`routing.kernels.place`). Slow links count by
their rate, so a slow subtree keeps its routes without slowing down anything else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.channel_order import ChannelOrder, order_channels, switch_levels
from routing.destinations import Destinations, destinations_of, empty_tables, finish_tables
from routing.engines.fat_tree import closed_form
from routing.kernels.place import Goals, Net, improve_placement
from routing.tables import NO_PATH, RoutingTables
from topo.fabric import Fabric, Kind, Role, frozen

__all__ = ["route"]

HOST, AGGREGATION, SWITCH = 256.0, 64.0, 1.0
"""Weight of a host's port, of a SHARP aggregation node and of a switch itself, as source and as destination: what
hosts send to each other decides, and whole numbers add up exactly."""

ROUNDS = 2
"""The first round brings most of the gain, the second a little, more hardly any."""

LARGE = 2_000_000_000
"""Destinations times channels from which on a round takes longer than a subnet manager likes to wait (10 s)."""

KINSHIP = 2.0
"""Where hosts have several roles, what flows to the same role count more: storage spreads over all spines before it
evens out what compute left uneven."""

NEARNESS = 0.05
"""Share of shift permutations in the traffic that is planned for; the rest is random permutations."""


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, rounds: int | None = None) -> RoutingTables:
    """Forwarding tables of any fabric.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    rounds : int, optional
        How often each destination is placed anew; `ROUNDS` times when left out, once on the largest fabrics.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane.
    """
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    lids, lft = empty_tables(fabric, lid)
    goals = destinations_of(fabric, lids, level)
    own = frozen((np.arange(len(order.sender)) - order.first[order.sender]).astype(np.int32))
    closed_form(order, goals, level, own, lft)
    if rounds is None:
        rounds = ROUNDS if len(goals.lid) * len(order.sender) <= LARGE else 1
    if len(order.sender):
        hosts = _count(fabric, Kind.HCA)
        improve_placement(_net(fabric, order, hosts), _goals(goals, hosts), rounds, lft)
    for switch in range(fabric.n_switches):
        number = np.full(NO_PATH + 1, NO_PATH, np.uint8)
        mine = order.number[order.first[switch] : order.first[switch + 1]]
        number[: len(mine)] = mine
        lft[switch] = number[lft[switch]]
    return finish_tables(goals, lft, lids, "balanced")


def _count(fabric: Fabric, kind: Kind) -> NDArray[np.int64]:
    """Return (S,) the ports of a kind of adapter at each switch."""
    of_kind = (fabric.kind[fabric.end_node] == kind) & (fabric.end_switch >= 0)
    return np.bincount(fabric.end_switch[of_kind], minlength=fabric.n_switches)


def _net(fabric: Fabric, order: ChannelOrder, hosts: NDArray[np.int64]) -> Net:
    return Net(
        first=order.first,
        sender=order.sender,
        receiver=order.receiver,
        rank=order.rank,
        falling=order.falling,
        run=order.run,
        reverse=order.reverse,
        scale=frozen(order.rate_gbps.max() / order.rate_gbps),
        sources=frozen(HOST * hosts + AGGREGATION * _count(fabric, Kind.AGGREGATION) + SWITCH),
        leaves=frozen(np.flatnonzero(hosts).astype(np.int32)),
    )


def _goals(goals: Destinations, hosts: NDArray[np.int64]) -> Goals:
    turn = np.argsort(goals.index)
    role = goals.role[turn]
    weight = np.select([goals.port == 0, goals.role == Role.AGGREGATION], [SWITCH, AGGREGATION], HOST)
    window = max(int(hosts.max(initial=0)), 1)
    several = len(np.unique(role[role <= Role.MANAGEMENT])) > 1
    return Goals(
        switch=frozen(goals.switch[turn]),
        lid=frozen(goals.lid[turn]),
        weight=frozen(weight[turn]),
        window=window,
        nearness=float(round(NEARNESS * hosts.sum() / window)),
        segment=frozen(np.append(np.flatnonzero(np.diff(role, prepend=-1)), len(role)).astype(np.int32)),
        kinship=KINSHIP if several else 0.0,
    )
