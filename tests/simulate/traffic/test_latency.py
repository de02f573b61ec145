"""Latencies: which message takes which, what was measured, and laws that hold for both engines and any latency."""

import json
from dataclasses import replace
from html import unescape
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo
from helpers.presets import read_preset, routed_lab
from helpers.strategies import examples, slow_but
from helpers.trees import grow_tree
from simulate import Network, play
from simulate.traffic import Servers, nccl_collective
from simulate.traffic.flows import Flows
from simulate.traffic.latency import PUBLISHED, PUBLISHED_LEAST, PUBLISHED_MOST, Latencies

LAB = read_preset("lab-20")
ROUTED = routed_lab()
HOSTS = ROUTED.fabric.ends(role="compute")
ALGORITHMS = ("ring", "halving-doubling", "double-binary-tree")


def dgx(count: int) -> tuple[routing.Routed, Servers]:
    """So many DGX A100 on one rail-optimised tree."""
    nodes = {"gpu": {"model": "dgx-a100", "count": count}}
    network = {"shape": "rail", "unit_nodes": count, "tree": {"switch": "QM8790"}}
    cluster = topo.parse({"name": "c", "nodes": nodes, "network": network})
    ends = np.stack([*simulate.traffic.rails_of_hosts(cluster.fabric).values()])
    return routing.route(cluster.fabric), Servers(cluster.catalog.node("dgx-a100"), cluster.fabric, ends)


@pytest.mark.parametrize("engine", ["fluid", "packets"])
def test_each_way_takes_its_own(engine: str) -> None:
    """Empty messages: only latency is left of them."""
    servers = Servers(LAB.catalog.node("pcie-a100"), LAB.fabric, HOSTS[:2], operations=(1.0,), nvlink=True)
    latencies = Latencies(host_s=1e-6, gpu_s=2e-6, pcie_s=4e-6, nvlink_s=8e-6)
    network = Network.of(ROUTED, latency_s=latencies, hop_latency_s=0, devices=servers.devices)
    memory, over_host, adapter = servers.memory(1.0), servers.gpu_over_host, servers.gpu_at_adapter[:, :, 0]
    nvlink = servers.gpu_over_nvlink
    took = {
        1e-6: [(HOSTS[0], HOSTS[1]), (memory[0], memory[1])],
        2e-6: [(adapter[0, 3], adapter[1, 5])],
        4e-6: [(over_host[0, 0], over_host[0, 7]), (over_host[0, 1], memory[0]), (memory[0], over_host[0, 1])],
        8e-6: [(nvlink[0, 0], nvlink[0, 1])],
        0.0: [(memory[0], servers.processor[0]), (HOSTS[0], HOSTS[0])],
    }
    for time_s, pairs in took.items():
        for src, dst in pairs:
            found = play(network, Flows.of([src], [dst], 0), engine=engine).makespan_s
            assert found == pytest.approx(time_s, abs=2e-9), (src, dst)


def test_defaults_lie_within_what_is_published() -> None:
    assert all(
        low <= value <= high for low, value, high in zip(PUBLISHED_LEAST, PUBLISHED, PUBLISHED_MOST, strict=True)
    )
    assert all(value > 0 for value in PUBLISHED)


@pytest.mark.parametrize(("count", "measured_s"), [(2, 32.6e-6), (4, 42.03e-6), (8, 51.38e-6), (16, 61.68e-6)])
def test_small_allreduces_take_what_was_measured(count: int, measured_s: float) -> None:
    """8 bytes, NCCL 2.8.4 on servers of 8 A100 (ABCI 2.0, aistabci/abci2.0benchmark)."""
    routed, servers = dgx(count)
    network = Network.of(routed, devices=servers.tuned_devices)
    tree, ring = (
        play(network, nccl_collective(servers, "allreduce", 8, algorithm).flows).makespan_s
        for algorithm in ("tree", "ring")
    )
    assert measured_s / 1.5 < tree < measured_s
    assert tree < ring


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["fluid", "packets"])
def test_trees_win_where_messages_are_small_and_rings_where_they_are_large(engine: str) -> None:
    def best(size: float) -> str:
        times = {
            name: play(ROUTED, simulate.allreduce(HOSTS, size, name), engine=engine).makespan_s for name in ALGORITHMS
        }
        return min(times, key=times.__getitem__), times

    small, times = best(8)
    assert small != "ring"
    assert times["double-binary-tree"] < times["ring"]
    _, times = best(1 << 26)
    assert times["ring"] < times["double-binary-tree"]


@pytest.mark.parametrize("engine", ["fluid", "packets"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", [8, 4096, 1 << 20])
def test_more_latency_never_speeds_up_a_collective(engine: str, algorithm: str, size: int) -> None:
    task = simulate.allreduce(HOSTS, size, algorithm)
    steps = [(0, 0), (1e-6, 0), (1e-6, 1e-7), (1e-6, 4e-7), (5e-6, 4e-7), (2e-5, 4e-7)]
    times = [
        play(Network.of(ROUTED, latency_s=message, hop_latency_s=hop), task, engine=engine).makespan_s
        for message, hop in steps
    ]
    # Ports of trees are shared, so that the law need not hold: where packets of several messages meet, another order of
    # arrivals saves a little of the waits.
    slack = 0.02 if (engine, algorithm) == ("packets", "double-binary-tree") else 1e-3
    assert all(low <= high * (1 + slack) for low, high in pairwise(times)), times
    assert times[0] < times[-1]


GPUS = Servers(LAB.catalog.node("pcie-a100"), LAB.fabric, HOSTS[:3])


def without_contention(seed: int) -> tuple[Network, Flows]:
    """Messages between random hosts and GPUs, each of which waits for all before it that use a part of its way.

    So no two that share a part move at once, and every message has the rate of its way. Other waits and computations
    between them are drawn at random.
    """
    rng = np.random.default_rng(seed)
    hop_s = rng.choice([0.0, 1e-7, 5e-7], ROUTED.fabric.n_ports)
    latency = Latencies(*rng.choice([0.0, 1e-6, 1e-5], 4).tolist())
    network = Network.of(ROUTED, latency_s=latency, hop_latency_s=hop_s, devices=GPUS.devices)
    n = 40
    between = rng.integers(0, len(GPUS) * GPUS.gpus, (n, 2))
    ends = np.where(rng.random((n, 1)) < 0.5, np.stack(GPUS.between(*between.T), 1), rng.choice(HOSTS, (n, 2)))
    size = rng.choice([8, 4096, 1e5, 3e6], n)
    routes = network.routes(ends[:, 0], ends[:, 1], np.zeros(n, np.int8))
    last: dict[int, int] = {}
    waits: list[tuple[int, int]] = []
    for flow, route in enumerate(routes.route.tolist()):
        parts = routes.resource[routes.offset[route] : routes.offset[route + 1]].tolist()
        waits += [(flow, last[part]) for part in parts if part in last]
        last |= dict.fromkeys(parts, flow)
        if flow and rng.random() < 0.5:
            waits.append((flow, int(rng.integers(flow))))
    after = np.unique(waits, axis=0).T
    delay = rng.choice([0.0, 1e-6], n)
    return network, Flows.of(*ends.T, size, delay_s=delay, rendezvous=rng.random(n) < 0.3, after=(after[0], after[1]))


@pytest.mark.parametrize("engine", ["fluid", "packets"])
@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_more_latency_never_speeds_up_without_contention(engine: str, seed: int) -> None:
    """A theorem: each end is then the longest of sums of latencies, and of times that no latency changes.

    Packets round each time to ticks, and wait for the last byte of a packet at each part inside a server.
    """
    network, flows = without_contention(seed)
    rng = np.random.default_rng(seed)
    once = play(network, flows, engine=engine).finish_s
    hop_s = network.hop_latency_s + rng.choice([0.0, 0.0, 5e-7], len(network.hop_latency_s))
    latency = Latencies(*(np.array(network.latency_s) + rng.choice([0.0, 3e-6], 4)).tolist())
    more = play(replace(network, latency_s=latency, hop_latency_s=hop_s), flows, engine=engine).finish_s
    slack = 1e-12 if engine == "fluid" else 1e-3
    assert np.all(more >= once * (1 - slack))
    assert np.any(more > once)


@given(st.lists(st.tuples(st.integers(1, 15), st.integers(1, 10**6), st.floats(0, 1e-4)), min_size=1, max_size=30))
@examples(100)
def test_more_latency_never_speeds_up_the_last_of_flows_to_one_host(drawn: list[tuple[int, int, float]]) -> None:
    """A theorem too: the port of the host never rests while a flow is there, however it is shared."""
    src, size, start_s = (np.array(column) for column in zip(*drawn, strict=True))
    flows = Flows.of(HOSTS[src], HOSTS[0], size, start_s=start_s)
    times = [
        play(Network.of(ROUTED, latency_s=latency, hop_latency_s=hop), flows).makespan_s
        for latency, hop in ((0, 0), (1e-6, 0), (1e-6, 1e-7), (2e-5, 3e-6))
    ]
    assert all(low <= high * (1 + 1e-12) for low, high in pairwise(times))


def test_where_flows_share_more_latency_may_speed_up() -> None:
    """An anomaly as Graham's (1966): what is late leaves its part of a link to what is on the critical path.

    A flow over 2 links and one over 6 share the port of the receiver; only the former has something to do after it.
    With h a link and C the time of a flow alone, it ends at 6 h + 2 (C - 4 h): each h makes all end 2 h earlier.
    """
    fabric = grow_tree((2, 2, 2), (1, 1, 1), (1, 1, 1))
    routed, ends = routing.route(fabric), fabric.ends()
    size, rate, compute_s = 25e6, 25e9, 5e-3
    near, far, to = int(ends[1]), int(ends[-1]), int(ends[0])
    flows = Flows.of([near, far, to], [to, to, to], [size, size, 0], delay_s=[0, 0, compute_s], after=(2, 0))
    for hop_s in (0.0, 1e-5, 2e-5, 1e-4):
        network = Network.of(routed, latency_s=0, hop_latency_s=hop_s)
        links = np.diff(network.routes(flows.src[:2], flows.dst[:2], flows.sl[:2]).offset)
        assert links.tolist() == [2, 6]
        expected = 2 * size / rate - 2 * hop_s + compute_s
        assert play(network, flows).makespan_s == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(12))
def test_without_contention_packets_and_fluid_flows_agree(seed: int) -> None:
    network, flows = without_contention(seed)
    fluid, packets = (play(network, flows, engine=engine) for engine in ("fluid", "packets"))
    assert packets.makespan_s == pytest.approx(fluid.makespan_s, rel=0.05)


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
@pytest.mark.parametrize("size", [8, 1000, 1 << 16, 1 << 24])
def test_collectives_without_contention_agree(algorithm: str, size: int) -> None:
    task = simulate.allreduce(HOSTS, size, algorithm)
    fluid, packets = (play(ROUTED, task, engine=engine).makespan_s for engine in ("fluid", "packets"))
    assert packets == pytest.approx(fluid, rel=0.05)


def test_chunks_of_a_pipeline_take_each_latency_once() -> None:
    """n chunks over k links in a row: k times the latency and a chunk, and then the others one behind another."""
    n, chunk, latency_s, rate = 16, 1e5, 50e-6, 25e9
    hosts = HOSTS[:4]
    task = simulate.collective("broadcast", hosts, n * chunk, "ring", chunks=n)
    network = Network.of(ROUTED, latency_s=latency_s, hop_latency_s=0)
    expected = 3 * (latency_s + chunk / rate) + (n - 1) * chunk / rate
    assert play(network, task).makespan_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("engine", ["fluid", "packets"])
def test_caveats_are_part_of_every_form_of_a_result(engine: str) -> None:
    task = simulate.allreduce(HOSTS, 1 << 20)
    workload = simulate.preset("allreduce", ROUTED.fabric)
    for network, said in (
        (Network.of(ROUTED), "10 m for each of 62 cables"),
        (Network.of(ROUTED, latency_s=0), "zero"),
    ):
        for traffic in (task, workload):
            found = play(network, traffic, engine=engine)
            outcome = getattr(found, "outcome", found)
            assert any(said in caveat for caveat in outcome.caveats)
            assert {*outcome.caveats} <= {*found.caveats}
            assert found.to_dict()["caveats"] == list(found.caveats)
            assert all(caveat.partition(":")[0] in repr(found) for caveat in found.caveats)
            for form in (unescape(found._repr_html_()), json.dumps(found.to_dict(), ensure_ascii=False)):
                assert all(caveat in form for caveat in found.caveats)
