"""The order of channels of joined zones, on zones that nobody drew."""

from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.zones import random_zones
from routing.engines import balanced
from routing.order.channel_order import order_channels, switch_levels
from routing.order.joined import order_joined_zones
from routing.routed import Routed
from topo.fabric import Fabric, Role

SEEDS = range(24)


def zones_of(fabric: Fabric) -> int:
    zone = fabric.zone[: fabric.n_switches]
    return len(np.unique(zone[zone >= 0]))


@pytest.mark.parametrize("seed", SEEDS)
def test_every_packet_arrives_without_a_loop_and_more_at_a_time_than_on_shortest_paths(seed: int) -> None:
    """Whatever the cabling, packets of switches included; OpenSM's default engine deadlocks on most of these."""
    fabric = random_zones(seed)
    routed = Routed(fabric, balanced.route(fabric))
    proof = routing.prove(routed, "all")
    assert (proof.missing - proof.disconnected, proof.credit_loops) == (0, 0)
    ours = routing.measure(routed, samples=60, max_shifts=60)
    shortest = routing.measure(routing.route(fabric, "minhop"), samples=60, max_shifts=60)
    assert ours.ebb > 0.97 * shortest.ebb
    assert ours.max_load < 1.12 * shortest.max_load


@pytest.mark.slow
def test_it_is_better_in_the_mean() -> None:
    ratios = []
    for seed in SEEDS:
        fabric = random_zones(seed)
        ours = routing.measure(routing.route(fabric, "balanced"), samples=40, max_shifts=1)
        ratios.append(ours.ebb / routing.measure(routing.route(fabric, "minhop"), samples=40, max_shifts=1).ebb)
    assert np.mean(ratios) > 1.05


def test_auto_measures_where_two_engines_fit() -> None:
    """`zoned` spreads by the order of a dump, which says nothing here; with the better tables comes the reason."""
    fabric = random_zones(5)
    assert zones_of(fabric) > 1
    routed = routing.route(fabric, "auto")
    assert routed.tables.engine == "balanced"
    assert "ahead of `zoned` in" in routed.why and "bisection" in routed.why


def test_a_fabric_of_one_zone_has_no_such_order() -> None:
    fabric = random_zones(5)
    n = fabric.n_switches
    level = switch_levels(fabric)
    order, hosts = order_channels(fabric, level), np.ones(n, np.int64)
    assert order_joined_zones(fabric, order, level, hosts) is not None
    one = replace(
        fabric, zone=np.zeros_like(fabric.zone), role=np.where(fabric.role == Role.JOINT, Role.CORE, fabric.role)
    )
    assert order_joined_zones(one, order, level, hosts) is None
