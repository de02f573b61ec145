"""The engine `balanced`: any topology, complete, without credit loops on one lane, and evenly loaded.

1. Only legal paths of an order of channels are used (`routing.order.channel_order`), so nothing can deadlock whatever
   is chosen among them, and every pair that cables connect has a path. Zones that are joined have an order of their own
   (`routing.order.joined`). Elsewhere, where the fabric is no tree, several orders are grown
   (`routing.order.turn_order`), and the one with the best tables is kept.
2. The choice starts from the closed form of the engine `fat-tree`: where the fabric is a whole tree, nothing is better.
3. Destinations are taken up one by one, by role and in order of the tree, and put down where their flows meet the
   fewest others (`routing.kernels.reroute`). Slow links count by their rate, so a slow subtree keeps its routes without
   slowing down anything else.
4. The load of the fullest channels is reduced (`routing.kernels.relieve`), over detours if need be and worth it.

Where the order bars shortest paths and more lanes are allowed, those of the engine `shortest` are taken instead if
their fullest link is less full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from routing.engines import shortest
from routing.engines.fat_tree import NOWHERE, climb_limit, closed_form
from routing.kernels.legal import ChannelOrder
from routing.kernels.relieve import relieve_peaks
from routing.kernels.reroute import reroute
from routing.kernels.traffic import Dests, Net
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import Destinations, destinations_of, empty_tables, finish_tables
from routing.order.joined import order_joined_zones
from routing.order.turn_order import grow_channel_order, two_sided_order
from routing.proof import prove
from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, Role, frozen

HOST, AGGREGATION, SWITCH = 256.0, 64.0, 1.0
"""Weight of a host's port, of a SHARP aggregation node and of a switch itself, as source and as destination: what
hosts send to each other decides, and whole numbers add up exactly. Hosts with slower links than others weigh less."""

ROUNDS, ROUND_EFFORT, MOST_EFFORT = 2, 400_000_000, 8_000_000_000
"""How often each destination is placed anew: the first round brings most of the gain, the second a little; more wear
off what the closed form did for shifts. Where there is no tree it did little, and there are twice as many rounds.
Destinations times channels bound the time: beyond the first bound (2 s) there is one round, beyond the second
(half a minute) every second destination is left where it is."""

RELIEF_EFFORT = 400_000_000
"""What bounds the time for peaks: trees that are looked at, times channels."""

TRIALS, TRIAL_EFFORT = 8, 1_000_000_000
"""Grown orders that are tried, and what bounds them: channels squared times ports of a switch (10 s)."""

DETOUR, WORTH = 2, 0.95
"""Switches that a path may pass beyond the shortest one; and what share of the peak must be left for that to be worth
it, and on a tree for any move, since shifts meet least with the closed form."""

ROLE_WEIGHT = 0.3
"""Where hosts have several roles, what flows to the same role count more: storage spreads over all spines before it
evens out what compute left uneven."""

SHIFT_WEIGHT = 0.1
"""Share of shift permutations in the traffic that is planned for; the rest is random permutations."""


def route(
    fabric: Fabric,
    lid: NDArray[np.uint16] | None = None,
    *,
    rng: np.random.Generator | None = None,
    lanes: int = 1,
) -> RoutingTables:
    """Forwarding tables of any fabric.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    rng : numpy.random.Generator, optional
        For the order in which turns are tried where the fabric is no tree; of seed 0 when left out.
    lanes : int
        Data lanes that the tables may need.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane unless more are allowed and worth it.
    """
    level = switch_levels(fabric)
    lids, lft = empty_tables(fabric, lid)
    dests = destinations_of(fabric, lids, level)
    order = order_channels(fabric, level)
    if len(order.sender):
        order, next_hop = _place(fabric, order, dests, level, rng or np.random.default_rng(0), lft.shape[::-1])
        for switch in range(fabric.n_switches):
            number = np.full(NO_PATH + 1, NO_PATH, np.uint8)
            mine = order.number[order.indptr[switch] : order.indptr[switch + 1]]
            number[: len(mine)] = mine
            lft[switch] = number[next_hop[:, switch]]
    tables = finish_tables(dests, lft, lids, "balanced")
    return _on_lanes(fabric, tables, lanes) if lanes > 1 else tables


def _on_lanes(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return tables on several lanes where these make detours and a fuller link than those; else these."""
    proof, inner = prove(Routed(fabric, tables)), fabric.inner
    if proof.stretch == 0:
        return tables
    try:
        others = shortest.route(fabric, tables.lid, lanes=lanes)
    except RoutingError:  # more lanes would be needed
        return tables
    if prove(Routed(fabric, others)).load[inner].max() >= proof.load[inner].max():
        return tables
    return replace(others, engine=tables.engine)


def _place(
    fabric: Fabric,
    order: ChannelOrder,
    dests: Destinations,
    level: NDArray[np.int64],
    rng: np.random.Generator,
    shape: tuple[int, ...],
) -> tuple[ChannelOrder, NDArray[np.uint8]]:
    """Return an order and (T, S) which of its channels each switch takes to each LID: a tree lies together."""
    work = len(dests.lid) * len(order.sender)
    hosts, nodes = _count(fabric, Kind.HCA), _count(fabric, Kind.AGGREGATION)
    at_port = _port_weights(fabric)
    sending = np.zeros(fabric.n_switches)
    np.add.at(sending, fabric.port_node[: fabric.first_adapter_port], at_port[: fabric.first_adapter_port])
    receiving = at_port[fabric.port_offset[dests.switch] + np.maximum(dests.port, 1) - 1]
    own = frozen((np.arange(len(order.sender)) - order.indptr[order.sender]).astype(np.int32))
    start = np.full(shape, NO_PATH, np.uint8)
    tree = (np.abs(level[order.sender] - level[order.receiver]) == 1).all() and (
        closed_form(order, dests, level, own, start, climb_limit(fabric, level)) == NOWHERE
    )
    # What crosses from zone to zone is no choice of a climb within one.
    climbs = np.where(fabric.role[: fabric.n_switches] == Role.JOINT, 0, level)
    joined = None
    if len(np.unique(fabric.zone[: fabric.n_switches])) > 1:
        joined = order_joined_zones(fabric, order, level, hosts)
    net = _net(order, sending, nodes, AGGREGATION)
    weighted = _dests(dests, hosts, receiving, AGGREGATION, not tree)
    # What is relieved, with which channels, detour and share of the peak that a move must take off: SHARP aggregation
    # nodes also as if they were hosts, though the hosts have the last word.
    anywhere, fast = frozen(np.ones(len(net.scale), bool)), frozen(net.scale == 1.0)
    worth = WORTH if tree else 1.0
    as_hosts = _net(order, sending, nodes, HOST), _dests(dests, hosts, receiving, HOST, not tree)
    each = _hosts_only(net, weighted, hosts)
    reliefs = [
        *([(*as_hosts, anywhere, 0, worth)] if nodes.any() else []),
        (net, weighted, anywhere, 0, worth),
        (*each, fast, 0, worth),
        (*each, fast, DETOUR, WORTH),
    ]
    rounds = min(ROUNDS if tree else 2 * ROUNDS, max(1, ROUND_EFFORT // work))
    stride, effort = 1 + work // MOST_EFFORT, RELIEF_EFFORT // len(order.sender)
    results: list[tuple[int, float, int, ChannelOrder, NDArray[np.uint8]]] = []
    for one in chain([joined] if joined else [], _orders(fabric, order, level, hosts, tree, rng)):
        if tree and one is order:
            next_hop = start
        else:
            next_hop = np.full(shape, NO_PATH, np.uint8)
            closed_form(one, dests, climbs, own, next_hop)
        squares = reroute(net._replace(order=one), weighted, rounds, stride, next_hop)
        lost = int(np.count_nonzero(next_hop[dests.lid] == NO_PATH)) - len(dests.lid)  # each has none at its own switch
        for there, these, fullest, detour, least in reliefs:
            peak = relieve_peaks(there._replace(order=one), these, fullest, detour, effort, least, next_hop)
        results.append((lost, squares * peak, len(results), one, next_hop))
        if lost == 0 and one is joined and not tree:
            break
    return min(results)[-2:]


def _orders(
    fabric: Fabric,
    order: ChannelOrder,
    level: NDArray[np.int64],
    hosts: NDArray[np.int64],
    tree: bool,
    rng: np.random.Generator,
) -> Iterator[ChannelOrder]:
    """Yield the orders of channels that are worth a try: the one by levels, and where there is no tree, others."""
    yield order
    if tree:
        return
    # Leaves without hosts that are linked to others join zones: whoever crosses them has climbed and then descends.
    flat = level[order.sender] == level[order.receiver]
    joining = np.isin(np.arange(len(level)), order.sender[flat]) & (hosts == 0)
    if joining.any():
        yield order_channels(fabric, np.where(joining, level.max() + 1, level))
    if (sides := two_sided_order(order)) is not None:
        yield sides
    effort = len(order.sender) ** 2 * int(np.diff(order.indptr).max())
    for trial in range(min(TRIALS, TRIAL_EFFORT // effort)):
        yield grow_channel_order(order, hosts, rng, shuffle=trial > 0)


def _count(fabric: Fabric, kind: Kind) -> NDArray[np.int64]:
    """Return (S,) the ports of a kind of adapter at each switch."""
    return np.bincount(fabric.end_switch[fabric.ends(kind=kind)], minlength=fabric.n_switches)


def _port_weights(fabric: Fabric) -> NDArray[np.float64]:
    """Return (P,) the weight of a host at each port of a switch, by its rate; 0 at other ports."""
    holds = (fabric.kind[fabric.port_node] == Kind.SWITCH) & (fabric.peer_node >= 0)
    holds[holds] = fabric.kind[fabric.peer_node[holds]] == Kind.HCA
    rate = np.where(holds, fabric.rate_gbps, 0.0)
    weights: NDArray[np.float64] = np.rint(HOST * rate / max(rate.max(initial=0.0), 1.0))
    return weights


def _net(order: ChannelOrder, hosts: NDArray[np.float64], nodes: NDArray[np.int64], weight: float) -> Net:
    """Return what the kernels need of the fabric; hosts weigh so much at each switch, and each aggregation node."""
    return Net(
        order=order,
        scale=frozen(order.rate_gbps.max() / order.rate_gbps),
        sources=frozen(hosts + weight * nodes + SWITCH),
        leaves=frozen(np.flatnonzero(hosts).astype(np.int32)),
    )


def _hosts_only(net: Net, dests: Dests, hosts: NDArray[np.int64]) -> tuple[Net, Dests]:
    """Return both with each host counted once, whatever its link is."""
    each = frozen((dests.weight > AGGREGATION).astype(np.float64))
    return net._replace(sources=frozen(hosts.astype(np.float64))), dests._replace(weight=each)


def _dests(
    dests: Destinations, hosts: NDArray[np.int64], own: NDArray[np.float64], weight: float, everywhere: bool
) -> Dests:
    """Return what the kernels need of the destinations; hosts have weights of their own, aggregation nodes this one."""
    turn = np.argsort(dests.index)
    role = dests.role[turn]
    weights = np.select([dests.port == 0, dests.role == Role.AGGREGATION], [SWITCH, weight], own)
    neighbours = max(int(hosts.max(initial=0)), 1)
    several = len(np.unique(role[role <= Role.MANAGEMENT])) > 1
    return Dests(
        switch=frozen(dests.switch[turn]),
        lid=frozen(dests.lid[turn]),
        weight=frozen(weights[turn]),
        neighbours=neighbours,
        shift_weight=float(round(SHIFT_WEIGHT * hosts.sum() / neighbours)),
        shift_everywhere=bool(everywhere),
        segment=frozen(np.append(np.flatnonzero(np.diff(role, prepend=-1)), len(role)).astype(np.int32)),
        role_weight=ROLE_WEIGHT if several else 0.0,
    )
