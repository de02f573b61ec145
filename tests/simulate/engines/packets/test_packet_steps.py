"""Packets step by step, in SimPy, inside servers, and beside fluid flows where nothing blocks."""

from dataclasses import replace

import numpy as np
import pytest

import simulate
from helpers.packets import RATE, SLOT_S, line, network
from helpers.presets import read_preset, routed
from simulate import Flows, NetworkEnvironment, PacketModel, Packets, play
from topo.errors import HeddleError


def test_steps_give_the_times_of_a_batch() -> None:
    net, rng = network(line(5, 5)), np.random.default_rng(1)
    src, dst = rng.integers(2, 12, (2, 60))
    after = (np.arange(20, 60), rng.integers(0, 20, 40))
    flows = Flows.of(src, dst, rng.integers(1, 50_000, 60), delay_s=rng.random(60) * 1e-6, after=after)
    batch = Packets(net).play(flows)
    engine, found = Packets(net), {}
    engine.begin_all(flows)
    while np.isfinite(engine.next_event_s):
        # Stopping anywhere changes nothing.
        for ended in engine.advance(engine.now_s + rng.random() * 1e-6):
            found[ended.flow] = (ended.start_s, ended.finish_s, ended.bottleneck)
    assert [found[flow] for flow in range(60)] == list(
        zip(batch.start_s.tolist(), batch.finish_s.tolist(), batch.bottleneck.tolist(), strict=True)
    )
    assert engine.loads() == pytest.approx(batch.resource_bytes)
    assert engine.n_hops == batch.congestion.hops


def test_places_of_flows_that_have_ended_are_used_again() -> None:
    engine = Packets(network(line(2)))
    for number in range(1000):
        assert engine.begin(1, 2, 4096) == number
        (ended,) = engine.advance()
        assert ended.flow == number
    assert len(engine._state.flows) == 256
    assert engine.now_s == pytest.approx(1000 * 1.2 * SLOT_S, rel=1e-3)


def test_processes_wait_for_packets_as_for_flows() -> None:
    net = network(line(3))
    flows = simulate.allreduce([1, 2, 3], "1 MiB").flows(net.fabric)
    env = NetworkEnvironment(net, make=PacketModel())
    env.run(until=env.play(flows))
    assert env.now == pytest.approx(play(net, flows, engine="packets").makespan_s, rel=1e-3)
    assert env.outcome().congestion is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["allreduce", "ring"])
def test_where_nothing_blocks_packets_take_the_time_of_fluid_flows(name: str) -> None:
    fabric = read_preset("fire-flyer-2").fabric
    text = {
        "allreduce": "{kind: collective, rank: adapter, collective: allreduce, size: 16 MiB, ranks: 32}",
        "ring": "{kind: gpu-collective, algorithm: ring, size: 4 MiB, ranks: 4}",
    }[name]
    workload = simulate.parse_workload(f"jobs: [{{name: a, {text[1:]}]", fabric)
    net = simulate.Network.of(routed(fabric), hop_latency_s=150e-9, latency_s=0)
    fluid, packets = (play(net, workload, engine=engine) for engine in ("fluid", "packets"))
    assert packets.makespan_s == pytest.approx(fluid.makespan_s, rel=0.05)


@pytest.mark.slow
def test_clients_of_storage_run_on_packets() -> None:
    fabric = read_preset("fire-flyer-2").fabric
    text = """
jobs:
- {name: reads, kind: storage, ranks: 4, batches: 2, batch: 8}
- {name: sum, kind: collective, rank: adapter, collective: allreduce, size: 1 MiB, ranks: 8}
"""
    workload = simulate.parse_workload(text, fabric)
    net = simulate.Network.of(routed(fabric), hop_latency_s=150e-9, latency_s=0)
    found = [play(net, workload, engine=engine) for engine in ("fluid", "packets", "packets")]
    assert found[1].makespan_s == pytest.approx(found[0].makespan_s, rel=0.1)
    assert found[1].outcome.finish_s.tobytes() == found[2].outcome.finish_s.tobytes()
    assert found[1].to_dict()["packets"]["model"] == PacketModel().label


def test_a_slow_link_behind_a_fast_one_and_in_front_of_it() -> None:
    net = network(line(2, 2), hop_s=1e-9)
    capacity = net.capacity_bytes_s.copy()
    trunk = np.flatnonzero((net.fabric.peer_node < 2) & (net.fabric.port_node < 2))
    capacity[trunk] /= 4
    slow = replace(net, capacity_bytes_s=capacity)
    one = Packets(slow).play(Flows.of(2, 4, 4096)).makespan_s
    # Into the slow link at once; out of it only when the tail can follow.
    assert one == pytest.approx(3e-9 + 4 * SLOT_S, rel=2e-3)
    many = Packets(slow).play(Flows.of(2, 4, 4096 * 100)).makespan_s
    assert many == pytest.approx(400 * SLOT_S, rel=5e-3)


def test_wrong_figures_are_refused() -> None:
    for name, value in {"packet_bytes": 100, "inputs": "lifo", "buffer_bytes": 4095, "credit_s": -1.0}.items():
        with pytest.raises(HeddleError, match=f"found {name}"):
            PacketModel(**{name: value})
    with pytest.raises(HeddleError, match="high-priority table"):
        Packets(network(line(2)), PacketModel(high=((3, 64),)))
    with pytest.raises(HeddleError, match="expected one of fluid, packets"):
        play(network(line(2)), Flows.of(1, 2, 1), engine="flits")
    engine = Packets(network(line(2)))
    engine.begin(1, 2, RATE)
    engine.advance(1e-6)
    for begin in (
        lambda: engine.begin(1, 2, 1, at_s=0.0),
        lambda: engine.begin(1, 9, 1),
        lambda: engine.begin(1, 2, -1),
    ):
        with pytest.raises(HeddleError):
            begin()
