"""How tables get better: destinations are rerouted, flows that meet in shifts parted, and full channels relieved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.engines.relieve import Limits, relieve_peaks
from routing.engines.reroute import reroute
from routing.engines.shifts import part_shifts
from routing.engines.start import Start, nothing_kept
from routing.order.destinations import Destinations
from routing.order.legal import ChannelOrder
from routing.order.traffic import Dests, Net, empty_tree, sum_loads
from routing.order.turns import fixed_turns
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

DETOUR, WORTH, WORTH_ON_TREE = 2, 0.98, 0.95
"""Switches that a path may pass beyond the shortest one; and what share of the peak must be left for that or for more
lanes to be worth it, or on a tree for any move, since shifts meet least with the closed form. Labels tip what is just
worth it."""

ROLE_WEIGHT = 0.3
"""Where hosts have several roles, what flows to the same role count more: storage spreads over all spines before it
evens out what compute left uneven."""

SHARES, SHIFT_ROUNDS, SHIFT_EFFORT = (0.0, 1.0, 0.25), 12, 600_000_000
"""Share of shifts in the traffic for which flows of shifts are parted and relieved, one time after the other (at first
those of the worst shifts alone); how often each is looked at, at most, and what bounds it: ranks squared times channels
of a switch (1 s)."""

EARLY_ROUNDS = 4
"""How often before candidates are compared, at most: more would cost the fullest link."""


class Work(NamedTuple):
    """What all candidates are made from."""

    net: Net
    dests: Dests
    reliefs: list[tuple[Net, Dests, NDArray[np.bool_], int, float]]
    """Whose flows are taken off peaks, one after the other: channels, destinations, channels that are relieved, detour,
    and the share of the peak that must be left."""
    stride: int
    effort: int


def work_of(
    fabric: Fabric,
    order: ChannelOrder,
    dests: Destinations,
    hosts: NDArray[np.int64],
    nodes: NDArray[np.int64],
    tree: bool,
) -> Work:
    """Return what candidates are made from, for an order of the same channels each."""
    size = len(dests.lid) * len(order.sender)
    at_port = _port_weights(fabric)
    sending = np.zeros(fabric.n_switches)
    np.add.at(sending, fabric.port_node[: fabric.first_adapter_port], at_port[: fabric.first_adapter_port])
    receiving = at_port[fabric.port_offset[dests.switch] + np.maximum(dests.port, 1) - 1]
    net = _net(order, sending, nodes, AGGREGATION)
    weighted = _dests(dests, hosts, receiving, AGGREGATION, not tree)
    anywhere, fast = frozen(np.ones(len(net.scale), bool)), frozen(net.scale == 1.0)
    worth, detours = (WORTH_ON_TREE, WORTH_ON_TREE) if tree else (1.0, WORTH)
    each = _hosts_only(net, weighted, hosts)
    reliefs = [(net, weighted, anywhere, 0, worth), (*each, fast, 0, worth)]
    if not order.slack:  # where every turn is legal, all paths are to be shortest ones
        reliefs.append((*each, fast, DETOUR, detours))
    if nodes.any():  # also as if they were hosts, though the hosts have the last word
        as_hosts = _net(order, sending, nodes, HOST), _dests(dests, hosts, receiving, HOST, not tree)
        reliefs.insert(0, (*as_hosts, anywhere, 0, worth))
        # In the end paths to aggregation nodes alone: they turn at few leaves, and hosts are as well off as before.
        to_nodes = weighted._replace(weight=frozen(np.where(weighted.weight == AGGREGATION, 1.0, 0.0)))
        reliefs.append((net._replace(sources=frozen((hosts + nodes).astype(float))), to_nodes, anywhere, 0, 1.0))
    return Work(net, weighted, reliefs, 1 + size // MOST_EFFORT, RELIEF_EFFORT // len(order.sender))


def improve(
    start: Start,
    work: Work,
    order: ChannelOrder,
    kept: NDArray[np.int32],
    begin: NDArray[np.uint8],
    rounds: tuple[int, int],
    share: float,
) -> tuple[float, NDArray[np.uint8]]:
    """Return how full channels are, the less the better, and those taken once all is rerouted, parted and relieved."""
    next_hop, net = begin.copy(), work.net._replace(order=order, kept=kept)
    dests = work.dests._replace(shift_weight=float(round(share * work.dests.shift_weight)))
    reroute(net, dests, rounds[0], work.stride, next_hop)
    next_hop = part(start, net, work.dests, None, rounds[1], SHARES[-1], next_hop)
    peak = relieve(work, order, kept, next_hop)
    return peak * float(np.square(sum_loads(net, work.dests, empty_tree(net), next_hop)).sum()), next_hop


def relieve(work: Work, order: ChannelOrder, kept: NDArray[np.int32], next_hop: NDArray[np.uint8]) -> float:
    """Take flows off the fullest channels; return how full those are in the end."""
    turns = fixed_turns(order)
    for net, dests, fullest, detour, worth in work.reliefs:
        net, limits = net._replace(order=order, kept=kept), Limits(detour, work.effort, worth)
        peak = relieve_peaks(net, dests, fullest, limits, turns, next_hop.copy(), next_hop)
    return peak


def part(
    start: Start,
    net: Net,
    dests: Dests,
    ranks: NDArray[np.int32] | None,
    rounds: int,
    share: float,
    next_hop: NDArray[np.uint8],
) -> NDArray[np.uint8]:
    """Return channels taken on which fewer flows of shifts meet."""
    if rounds == 0 or not len(start.ranks):
        return next_hop
    ranks = start.ranks if ranks is None else ranks
    rank = np.full(len(next_hop), -1, np.int32)
    rank[start.lids[ranks]] = np.arange(len(ranks))
    home, n = start.fabric.end_switch[ranks], start.fabric.n_switches
    begin = np.zeros((2, n), np.int32)
    begin[0, home[::-1]] = np.arange(len(ranks))[::-1]  # those of one switch stand together
    begin[1] = begin[0] + np.bincount(home, minlength=n)
    next_hop = next_hop.copy()
    part_shifts(net, dests, frozen(rank[dests.lid]), frozen(begin), rounds if share else 0, share, next_hop)
    return next_hop


def shift_rounds(start: Start) -> int:
    """Return how often there is time to look at each flow of all shifts."""
    channels_each = -(-len(start.order.sender) // start.fabric.n_switches)
    return round(SHIFT_EFFORT / max(len(start.ranks) ** 2 * channels_each, 1))


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
        kept=nothing_kept(hosts),
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
        shift_weight=float(hosts.sum() / neighbours),
        shift_everywhere=bool(everywhere),
        segment=frozen(np.append(np.flatnonzero(np.diff(role, prepend=-1)), len(role)).astype(np.int32)),
        role_weight=ROLE_WEIGHT if several else 0.0,
    )
