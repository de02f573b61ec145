"""Packets that choose their ports, and sources that slow down."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.packets import SLOT_S, line, network, steady
from helpers.zones import random_zones
from routing.engines.base import route
from simulate import Flows, Network, PacketModel, play
from simulate.engines import CongestionControl
from topo.cluster import preset
from topo.errors import RoutingError

ADAPTIVE = PacketModel(adaptive=True)


@pytest.fixture(scope="module")
def lab() -> Network:
    return Network.of(route(preset("lab-20").fabric), hop_latency_s=150e-9, latency_s=0)


def test_flows_on_one_uplink_spread_over_all(lab: Network) -> None:
    hosts, n = lab.fabric.ends(role="compute"), 8
    far = hosts[lab.fabric.end_switch[hosts] != lab.fabric.end_switch[hosts[0]]]
    flows = Flows.of(hosts[:n], far[:n], 400 * 4096)
    for model in (ADAPTIVE, replace(ADAPTIVE, inputs="fifo"), replace(ADAPTIVE, flowlet_s=1e-6)):
        outcome = play(lab, flows, engine=model)
        assert outcome.makespan_s < 1.5 * 400 * SLOT_S
        # All bytes have crossed the ports of their sources and targets, and as many the links between.
        assert outcome.resource_bytes.sum() == 4 * flows.size_bytes.sum()
    by_packet = play(lab, flows, engine=ADAPTIVE)
    used = [item for item in by_packet.link_classes if item.sender.name == "LEAF" and item.receiver.name == "SPINE"]
    assert used[0].used == 20
    again = play(lab, flows, engine=ADAPTIVE)
    assert again.finish_s.tobytes() == by_packet.finish_s.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 5, 10])
def test_legal_ports_deliver_everything_on_joined_zones(seed: int) -> None:
    fabric = random_zones(seed)
    net, ends = Network.of(route(fabric), hop_latency_s=150e-9, latency_s=0), fabric.ends(role="compute")
    for inputs in ("fifo", "voq"):
        for turn in range(4):
            rng = np.random.default_rng(turn)
            dst = np.concatenate([rng.permutation(ends) for _ in range(3)])
            outcome = play(
                net,
                Flows.of(np.tile(ends, 3), dst, 50_000),
                engine=replace(ADAPTIVE, inputs=inputs, buffer_bytes=2 * 4096, seed=turn),
            )
            assert np.all(outcome.finish_s[outcome.flows.src != outcome.flows.dst] > 0)


def test_tables_with_loops_have_no_order_of_ports() -> None:
    fabric = random_zones(2)
    with pytest.raises(RoutingError, match="credit loops"):
        play(route(fabric, "minhop"), Flows.of([], [], 1), engine=ADAPTIVE)


def test_congestion_control_frees_the_victim_and_keeps_the_port_busy() -> None:
    # Those of the hot port slow down until the victim finds room in the buffers of the trunk.
    flows = Flows.of([2, 3, 4, 5, 6, 7], [8, 8, 8, 9, 8, 8], 1e9)
    controlled = PacketModel(window_packets=0, control=CongestionControl(mark_at=2))
    rates = steady(network(line(4, 4)), controlled, flows, 24_000)
    assert rates[3] > 0.2
    assert rates[[0, 1, 2, 4, 5]].sum() > 0.8
