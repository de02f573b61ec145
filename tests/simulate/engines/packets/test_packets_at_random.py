"""Packets on fabrics drawn at random: nothing is lost, nothing is too fast, and what is safe never deadlocks."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.random_fabrics import draw
from routing.engines.base import route
from simulate import Flows, Network, PacketModel, play

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 12, 20, 27, 30, 35, 46, 49])
def test_packets_beside_fluid_flows_on_any_fabric(seed: int) -> None:
    fabric, rng = draw(seed), np.random.default_rng(seed)
    network, ends = Network.of(route(fabric), hop_latency_s=150e-9, latency_s=0), fabric.ends(role="compute")
    flows = Flows.of(ends, rng.permutation(ends), rng.integers(1, 300_000, len(ends)))
    fluid = play(network, flows)
    least_s = (fluid.resource_bytes / network.capacity_bytes_s).max()
    model = PacketModel(buffer_bytes=int(rng.integers(2, 9)) * 4096)
    for options in ({"inputs": "fifo"}, {}, {"window_packets": 16}):
        outcome = play(network, flows, engine=replace(model, **options))
        assert outcome.makespan_s > 0.999 * least_s
        assert outcome.resource_bytes == pytest.approx(fluid.resource_bytes)
        # The longest flow alone, at the least.
        own_s = flows.size_bytes / network.capacity_bytes_s[: fabric.n_ports][fabric.peer >= 0].max()
        assert np.all(outcome.duration_s[flows.src != flows.dst] > 0.999 * own_s[flows.src != flows.dst])
    # With room for all who pass, output queues come near to fair rates.
    roomy = play(network, flows, engine=PacketModel(buffer_bytes=64 * 4096))
    assert roomy.makespan_s < 1.2 * fluid.makespan_s
    for inputs in ("fifo", "voq"):
        outcome = play(network, flows, engine=replace(model, adaptive=True, inputs=inputs))
        assert outcome.congestion is not None
        of_hosts = fabric.first_adapter_port + ends - fabric.n_switches
        assert outcome.resource_bytes[of_hosts].sum() == flows.size_bytes[flows.src != flows.dst].sum()
        assert np.all(outcome.finish_s[flows.src != flows.dst] > 0)
