from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.capacity import bisection, flow_gbps, storage_gbps
from helpers.clusters import tree, zoned
from helpers.strategies import fabrics
from topo.fabric import Fabric, Kind
from topo.hardware.speeds import SPEEDS


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


def test_fire_flyer_2() -> None:
    fabric = zoned()
    assert bisection([fabric], 600, with_storage=True) == 1.0
    assert bisection([fabric]) == 20 / 600  # 20 joint ports a zone carry what 600 GPU nodes send
    assert storage_gbps([fabric]) == 360 * 200.0  # 9 TB/s


@pytest.mark.parametrize(("taper", "share"), [(1.0, 1.0), (3.0, 1 / 3)])
def test_a_full_tapered_tree(taper: float, share: float) -> None:
    # 8 leaves full of hosts: half of them send over the uplinks of 4 leaves.
    down = 20 if taper == 1 else 30
    assert bisection([tree(8 * down, oversubscription=taper)]) == pytest.approx(share)


def test_a_job_on_one_leaf_needs_no_uplink() -> None:
    assert bisection([tree(20, leaves=1, oversubscription=3.0)]) == 1.0
    assert bisection([tree(20)], 1) == 1.0


def test_planes_add_up() -> None:
    plane = tree(240, oversubscription=3.0)
    assert bisection([plane, plane]) == bisection([plane])


def halves_by_networkx(fabric: Fabric, hosts: list[int]) -> float:
    """What the first half of some adapters can send to the last half, each of so many, the one in the middle silent."""
    half = len(hosts) // 2
    graph = nx.DiGraph()
    for a, b in fabric.port_node[fabric.links].tolist():
        for ends in ((a, b), (b, a)):
            known = graph.get_edge_data(*ends, {"capacity": 0})["capacity"]
            graph.add_edge(*ends, capacity=known + 1)
    for number in range(half):
        graph.add_edge("source", hosts[number])
        graph.add_edge(hosts[-1 - number], "sink")
    return float(nx.maximum_flow_value(graph, "source", "sink")) / half


@given(
    hosts=st.integers(3, 60),
    job=st.integers(2, 61),
    ratio=st.sampled_from([1.0, 3.0, 7 / 3, 9.0]),
    leaves=st.integers(3, 5),
)
def test_jobs_of_any_size_even_and_odd(hosts: int, job: int, ratio: float, leaves: int) -> None:
    """The worst of the jobs that stand side by side, each by a flow that networkx finds on unit links."""
    fabric = tree(hosts, leaves=leaves, oversubscription=ratio)
    adapters = np.flatnonzero(fabric.kind == Kind.HCA).tolist()
    size = min(job, hosts)
    worst = min(
        halves_by_networkx(fabric, adapters[start : start + size]) for start in range(0, hosts - size + 1, size)
    )
    assert bisection([fabric], job) == pytest.approx(worst)


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
    assert bisection([fabric], 16) == 1.0
    assert bisection([fabric.without(uplinks[1:])], 16) == (4 + 1) / 8


def test_odd_rates_are_counted_in_fractions() -> None:
    fabric = tree(2, leaves=1)
    slow = replace(fabric, speed=np.full_like(fabric.speed, SPEEDS.index("FDR")))
    one, other = (fabric.end_node[end] == np.arange(fabric.n_nodes) for end in fabric.ends())
    assert flow_gbps(slow, one, other) == pytest.approx(slow.rate_gbps[0], abs=0.02)
    assert slow.rate_gbps[0] % 1 > 0.1


def test_an_adapter_without_a_cable_asks_for_nothing() -> None:
    fabric = tree(20, leaves=1)
    assert bisection([fabric.without(fabric.port_of(fabric.ends()[:1]))]) == 1.0
