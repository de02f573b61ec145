"""The order of channels of joined zones, on zones that nobody drew."""

from dataclasses import replace

import numpy as np
import pytest

import routing
from helpers.zones import random_zones
from routing.engines import balanced
from routing.order.channel_order import order_channels, switch_levels
from routing.order.joined import zones_of
from routing.routed import Routed
from topo.fabric import Role

SEEDS = range(24)


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


def test_a_fabric_of_one_zone_has_nothing_to_join() -> None:
    fabric = random_zones(5)
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    assert zones_of(fabric, order, level) is not None
    one = replace(
        fabric, zone=np.zeros_like(fabric.zone), role=np.where(fabric.role == Role.JOINT, Role.CORE, fabric.role)
    )
    assert zones_of(one, order, level) is None
