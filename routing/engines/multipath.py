"""Several LIDs a port (LMC): tables that lead to each on paths of its own.

All paths of tables without credit loops rise in some order of the channels (`routing.proof`). Here the order is the one
that comes closest to up and down, and the paths to further LIDs rise in it as well: so nothing can deadlock, whichever
LIDs are used at a time. Each path takes cables that those to the LIDs before it do not, as far as legal paths have
them. Where several would do, a destination goes the way of its neighbour on the same switch, so that the tables of each
LID for itself are as well balanced as those of the lowest.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from routing.engines.balanced import MOST_DETOUR
from routing.engines.disjoint import LidNet, add_trees, compare_trees
from routing.order.channel_order import order_channels, rising_order, switch_levels
from routing.order.legal import ChannelOrder
from routing.proof import Proof, prove, prove_order
from routing.routed import Routed
from routing.tables import NO_PATH, RoutingTables
from topo.fabric import Fabric, frozen

BLOCK = 50_000_000
"""Destinations times channels per call of a kernel, between which Python handles signals."""


def add_lids(routed: Routed, lmc: int) -> Routed:
    """Return a fabric with 2^lmc LIDs a port of an adapter, and paths to each.

    Parameters
    ----------
    routed : Routed
        Free of credit loops on one lane, with one LID a port and room for more (`routing.tables.assign_lids`).
    lmc : int
        LID mask control, from 1.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric, lmc=1)
    >>> routing.prove(routed).holds, routing.studies.measure_lids(routed).disjointness
    (True, 1.0)
    """
    fabric, tables = routed.fabric, routed.tables
    proof = prove_order(routed, "there are no safe paths to more LIDs", "--lanes 1, or --lmc 0")
    order = legal_order(fabric, proof)
    ends = fabric.ends(kind=None)
    ends = ends[(ends >= fabric.n_switches) & (tables.lid[ends] > 0)]
    ends = ends[np.lexsort((fabric.role[fabric.end_node[ends]], fabric.end_switch[ends]))]
    tables = replace(tables, lmc=lmc)
    net = lid_net(fabric, tables, order, ends)
    by_lid = np.full((tables.lft.shape[1] + (1 << lmc) - 1, fabric.n_switches), NO_PATH, np.uint8)
    by_lid[: tables.lft.shape[1]] = tables.lft.T
    net = _with_partners(net, by_lid, fabric.role[fabric.end_node[ends]])
    load = np.zeros((1 << lmc, len(order.sender)), np.int64)
    load[:, net.at[fabric.inner]] = prove(routed).load[fabric.inner]
    for begin, end in blocks_of(net):
        add_trees(net, by_lid, begin, end, MOST_DETOUR, load)
    return replace(routed, tables=replace(tables, lft=frozen(by_lid.T)))


def legal_order(fabric: Fabric, proof: Proof) -> ChannelOrder:
    """Return the order of channels nearest to up and down in which all paths rise: of a proof on one lane, no loops."""
    if len(proof.depends):
        return rising_order(fabric, proof.depends[0])
    return order_channels(fabric, switch_levels(fabric))


def lid_net(fabric: Fabric, tables: RoutingTables, order: ChannelOrder, ends: NDArray[np.int32]) -> LidNet:
    """Return what the kernels need, with each destination its own partner."""
    at = np.full(fabric.n_ports, -1, np.int32)
    at[fabric.port_offset[order.sender] + order.number - 1] = np.arange(len(order.sender))
    partner = np.repeat(np.arange(len(ends), dtype=np.int32)[:, None], 1 << tables.lmc, axis=1)
    return LidNet(
        order=order,
        offset=fabric.port_offset,
        at=frozen(at),
        sources=frozen(np.bincount(fabric.end_switch[fabric.ends()], minlength=fabric.n_switches).astype(np.int32)),
        dest_switch=frozen(fabric.end_switch[ends]),
        lid=frozen(tables.lid[ends].astype(np.int32)),
        partner=frozen(partner),
    )


def _with_partners(net: LidNet, by_lid: NDArray[np.uint8], role: NDArray[np.uint8]) -> LidNet:
    """Return what the kernels need with partners of the same role, whose paths share least with those before.

    Each destination is the partner of one other for each LID, so that all paths like a partner's are balanced as those
    to the lowest LIDs are.
    """
    from scipy.optimize import linear_sum_assignment  # it takes a tenth of a second, and few ask

    partner = net.partner.copy()
    alike = net.dest_switch.astype(np.int64) * 256 + role
    bounds = np.flatnonzero(np.diff(alike, prepend=-1, append=-1)).tolist()
    for begin, end in pairwise(bounds):
        cost = compare_trees(net, by_lid, begin, end)
        total = cost.copy()
        for number in range(1, partner.shape[1]):
            chosen = linear_sum_assignment(total)[1]
            partner[begin:end, number] = begin + chosen
            total += cost[chosen]
    return net._replace(partner=frozen(partner))


def blocks_of(net: LidNet) -> list[tuple[int, int]]:
    """Return the destinations of each call of a kernel."""
    step = max(1, BLOCK // max(len(net.order.sender) * net.partner.shape[1], 1))
    return [(begin, min(begin + step, len(net.lid))) for begin in range(0, len(net.lid), step)]
