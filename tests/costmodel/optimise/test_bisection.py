from dataclasses import replace
from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimise import bisection as module
from costmodel.optimise.bisection import Bisection, bisection, flow_gbps, serving_gbps
from helpers.clusters import tree, zoned
from helpers.strategies import HDR, examples, fabrics
from topo.builder import FabricBuilder
from topo.fabric import Fabric, Kind, Role
from topo.speeds import SPEEDS


@given(fabrics(), st.data())
def test_flow_is_what_networkx_finds(fabric: Fabric, data: st.DataObject) -> None:
    adapters = np.flatnonzero(fabric.kind == Kind.HCA).tolist()
    side = data.draw(st.lists(st.booleans(), min_size=len(adapters), max_size=len(adapters)))
    sources, sinks = np.zeros(fabric.n_nodes, bool), np.zeros(fabric.n_nodes, bool)
    graph = nx.DiGraph([("source", "sink", {"capacity": 0.0})])
    for node, is_source in zip(adapters, side, strict=True):
        (sources if is_source else sinks)[node] = True
        graph.add_edge(*(("source", node) if is_source else (node, "sink")))  # no capacity is an infinite one
    for a, b in fabric.links.tolist():
        for here, there in ((a, b), (b, a)):
            ends = int(fabric.port_node[here]), int(fabric.port_node[there])
            known = graph.get_edge_data(*ends, {"capacity": 0.0})["capacity"]
            if ends[0] != ends[1]:
                graph.add_edge(*ends, capacity=known + min(fabric.rate_gbps[a], fabric.rate_gbps[b]))
    assert flow_gbps(fabric, sources, sinks) == pytest.approx(nx.maximum_flow_value(graph, "source", "sink"))


@pytest.mark.slow
def test_fire_flyer_2() -> None:
    fabric = zoned()
    assert bisection([fabric], 600, with_storage=True).share == 1.0
    assert bisection([fabric]).share == 20 / 600  # 20 joint ports a zone carry what 600 GPU nodes send
    assert serving_gbps([fabric]) == 360 * 200.0  # 9 TB/s


@pytest.mark.parametrize(("taper", "share"), [(1.0, 1.0), (3.0, 1 / 3)])
def test_a_full_tapered_tree(taper: float, share: float) -> None:
    # 8 leaves full of hosts: half of them send over the uplinks of 4 leaves.
    down = 20 if taper == 1 else 30
    assert bisection([tree(8 * down, oversubscription=taper)]) == Bisection(pytest.approx(share), pytest.approx(share))


def test_a_job_on_one_leaf_needs_no_uplink() -> None:
    assert bisection([tree(20, leaves=1, oversubscription=3.0)]) == Bisection(1.0, 1.0)
    assert bisection([tree(20)], 1) == Bisection(1.0, 1.0)


def test_planes_add_up() -> None:
    plane = tree(240, oversubscription=3.0)
    assert bisection([plane, plane]) == bisection([plane])


def flow_between(fabric: Fabric, senders: list[int], receivers: list[int]) -> float:
    """What some adapters can send to as many others on links of equal rate, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["source", "sink"])
    for a, b in fabric.port_node[fabric.links].tolist():
        for ends in ((a, b), (b, a)):
            known = graph.get_edge_data(*ends, {"capacity": 0})["capacity"]
            graph.add_edge(*ends, capacity=known + 1)
    graph.add_edges_from(("source", node) for node in senders)
    graph.add_edges_from((node, "sink") for node in receivers)
    return float(nx.maximum_flow_value(graph, "source", "sink"))


def worst_halves(fabric: Fabric, job: list[int]) -> float:
    """The least that any half of a job can send to any other half: all of them are tried."""
    half = len(job) // 2
    return min(
        flow_between(fabric, list(some), list(others)) / half
        for some in combinations(job, half)
        for others in combinations(sorted(set(job) - set(some)), half)
    )


def anything(seed: int) -> Fabric:
    """A few switches linked at random, with a few servers on some of them; what is not linked cannot be reached."""
    draw = np.random.default_rng(seed)
    n, hosts = int(draw.integers(1, 6)), int(draw.integers(2, 8))
    builder = FabricBuilder("any")
    switches = [builder.switch(f"s{i}", model="m", radix=40, role=Role.LEAF, level=1) for i in range(n)]
    port = [1] * n
    for _ in range(int(draw.integers(0, 3 * n)) if n > 1 else 0):
        a, b = draw.choice(n, 2, replace=False)
        builder.link(switches[a], port[a], switches[b], port[b], HDR)
        port[a], port[b] = port[a] + 1, port[b] + 1
    for host in range(hosts):
        at = int(draw.integers(0, n))
        key = builder.adapter(f"host{host}", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
        builder.link(key, 1, switches[at], port[at], HDR)
        port[at] += 1
    return builder.build()


@pytest.mark.slow
@given(st.integers(0, 100_000))
@examples(30)
def test_the_exact_cut_is_that_of_all_halves_and_a_descent_is_never_below_it(seed: int) -> None:
    fabric = anything(seed)
    jobs = np.flatnonzero(fabric.kind == Kind.HCA).tolist()
    exact = bisection([fabric])
    assert exact.exact
    assert exact.share == pytest.approx(worst_halves(fabric, jobs))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_ENUMERATED", -1)
        bound, proven = bisection([fabric], prove=False), bisection([fabric])
        patch.setattr(module, "least_share", lambda *_: (1.0, 0.0))
        spectral = bisection([fabric])
    assert bound.share >= exact.share - 1e-9
    assert (proven.share, proven.least) == (pytest.approx(exact.share), pytest.approx(exact.share))
    assert spectral.least <= exact.share + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_jobs_at_once_of_several_rates_are_proven_as_all_sets_of_switches_have_it(seed: int) -> None:
    fabric, draw = anything(seed), np.random.default_rng(seed)
    speed = fabric.speed.copy()
    speed[fabric.ends()[draw.random(len(fabric.ends())) < 0.4]] = SPEEDS.index("EDR")
    fabric = replace(fabric, speed=speed)
    for job in (None, 2, {3: 0.5, 2: 0.5}):
        exact = bisection([fabric], job)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MOST_ENUMERATED", -1)
            proven = bisection([fabric], job)
        assert exact.exact
        assert (proven.share, proven.least) == (pytest.approx(exact.share), pytest.approx(exact.share, abs=1e-5))


@given(st.integers(0, 100_000), st.integers(2, 4))
@examples(15)
def test_jobs_at_once_get_no_more_than_the_worst_of_them_alone(seed: int, job: int) -> None:
    fabric = anything(seed)
    if len(fabric.ends()) >= job:
        alone, at_once = (bisection([fabric], job, alone=alone) for alone in (True, False))
        assert at_once.share <= alone.share + 1e-9


@given(st.integers(0, 100_000))
@examples(15)
def test_a_cable_more_carries_no_less(seed: int) -> None:
    fabric = anything(seed)
    if len(fabric.inner_links):
        less = fabric.without(fabric.inner_links[:1, 0])
        assert bisection([less]).share <= bisection([fabric]).share + 1e-9


@pytest.mark.parametrize("slow_end", [0, 1])
def test_a_link_carries_what_its_slower_end_can(slow_end: int) -> None:
    fabric = tree(2, leaves=1)
    speed = fabric.speed.copy()
    speed[fabric.links[0, slow_end]] = SPEEDS.index("EDR")
    one, other = (fabric.end_node[end] == np.arange(fabric.n_nodes) for end in fabric.ends())
    assert flow_gbps(fabric, one, other) == 200.0
    assert flow_gbps(replace(fabric, speed=speed), one, other) == 100.0


def test_the_worst_of_the_jobs_counts() -> None:
    """Hosts 0 to 15 hang on one leaf; of hosts 16 to 31 four hang there, and a single cable leads to the others."""
    fabric = tree(40, leaves=2, spines=2)
    uplinks = fabric.inner[fabric.port_node[fabric.inner] == 1]
    assert bisection([fabric], 16).share == 1.0
    cut = fabric.without(uplinks[1:])
    assert bisection([cut], 16, alone=True).share == (4 + 1) / 8
    at_once = bisection([cut], 16)
    assert at_once.share == (4 + 1) / 8  # the first job, which needs no uplink, does not make up for the second
    assert at_once.worst == "gpu16 to gpu31"


def test_odd_rates_are_counted_in_fractions() -> None:
    fabric = tree(2, leaves=1)
    slow = replace(fabric, speed=np.full_like(fabric.speed, SPEEDS.index("FDR")))
    one, other = (fabric.end_node[end] == np.arange(fabric.n_nodes) for end in fabric.ends())
    assert flow_gbps(slow, one, other) == pytest.approx(slow.rate_gbps[0], abs=0.02)
    assert slow.rate_gbps[0] % 1 > 0.1


def test_an_adapter_without_a_cable_asks_for_nothing() -> None:
    fabric = tree(20, leaves=1)
    assert bisection([fabric.without(fabric.port_of(fabric.ends()[:1]))]).share == 1.0
