"""The order of channels of joined zones, on zones that nobody drew."""

from dataclasses import replace

import numpy as np
import pytest

import routing
import topo
from helpers.zones import random_zones
from routing.engines import balanced
from routing.order.channel_order import ChannelOrder, order_channels, switch_levels
from routing.order.joined import order_joined_zones, zones_of
from routing.routed import Routed
from topo.fabric import Role

SEEDS = range(24)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_every_packet_arrives_without_a_loop_and_more_at_a_time_than_on_shortest_paths(seed: int) -> None:
    """Whatever the cabling, packets of switches included; OpenSM's default engine deadlocks on most of these."""
    fabric = random_zones(seed)
    routed = Routed(fabric, balanced.route(fabric))
    proof = routing.prove(routed, "all")
    assert (proof.lost, proof.credit_loops) == (0, 0)
    ours = routing.measure(routed, samples=60, max_shifts=60)
    shortest = routing.measure(routing.route(fabric, "minhop"), samples=60, max_shifts=60)
    assert ours.ebb > 0.97 * shortest.ebb
    assert ours.max_load < 1.12 * shortest.max_load


@pytest.mark.nightly
def test_it_is_better_in_the_mean() -> None:
    ratios = []
    for seed in SEEDS[::2]:
        fabric = random_zones(seed)
        ours = routing.measure(routing.route(fabric, "balanced"), samples=40, max_shifts=1)
        ratios.append(ours.ebb / routing.measure(routing.route(fabric, "minhop"), samples=40, max_shifts=1).ebb)
    assert np.mean(ratios) > 1.05


def test_a_fabric_of_one_zone_has_nothing_to_join() -> None:
    fabric = random_zones(5)
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=fabric.n_switches)
    assert zones_of(fabric, order, level, hosts) is not None
    one = replace(
        fabric, zone=np.zeros_like(fabric.zone), role=np.where(fabric.role == Role.JOINT, Role.CORE, fabric.role)
    )
    assert zones_of(one, order, level, hosts) is None


@pytest.mark.parametrize("zone", [0, 1])
@pytest.mark.parametrize("lost", [1, 2])
def test_spines_that_lost_their_cable_to_the_border_leaf_still_reach_the_other_zone(lost: int, zone: int) -> None:
    """Judged by walking every channel whose rank is higher than that of the one before."""
    spec = {
        "name": "gathered",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 48}},
        "network": {
            "shape": "zones",
            "zones": 2,
            "tree": {"switch": "QM8700", "leaves": 5, "spines": 4},
            "joints": {"switch": "QM8700", "count": 2, "ports": 4},
        },
    }
    fabric = topo.parse(spec).fabric
    names = [fabric.label(node) for node in range(fabric.n_switches)]
    first = fabric.port_offset[names.index("joint0")]
    border = next(node for node in fabric.peer_node[first : first + 4].tolist() if fabric.zone[node] == zone)
    spines = np.flatnonzero((fabric.role == Role.SPINE) & (fabric.zone == zone))
    fabric = fabric.without(np.flatnonzero((fabric.port_node == border) & np.isin(fabric.peer_node, spines[:lost])))
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    n = fabric.n_switches
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=n)
    zones = zones_of(fabric, order, level, hosts)
    assert zones is not None
    joined = order_joined_zones(order, level, hosts, zones, np.zeros((n, n), np.int64))
    others = np.flatnonzero((fabric.role[:n] == Role.LEAF) & (fabric.zone[:n] == 1 - zone)).tolist()
    for spine in spines.tolist():
        assert set(others) <= climbed(joined, spine)


def climbed(order: ChannelOrder, start: int) -> set[int]:
    """The switches to which a path of rising ranks leads."""
    best = {start: {-1}}
    waiting = [(start, -1)]
    while waiting:
        at, rank = waiting.pop()
        for channel in range(order.indptr[at], order.indptr[at + 1]):
            to, next_rank = int(order.receiver[channel]), int(order.rank[channel])
            if next_rank > rank and next_rank not in best.setdefault(to, set()):
                best[to].add(next_rank)
                waiting.append((to, next_rank))
    return set(best)
