"""Subnets side by side: each path as it was, none from one to another, and planes as good as rails."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo

MODELS = st.sampled_from(["storage-3fs", "dgx-a100", "pcie-a100"])


def planes_of(model: str, count: int, planes: int) -> list[routing.Routed]:
    network = {"shape": "planes", "planes": planes, "tree": {"switch": "QM8700"}}
    cluster = topo.parse({"name": "p", "nodes": {"gpu": {"model": model, "count": count}}, "network": network})
    return [routing.route(plane, "minhop") for plane in cluster.fabrics]


def paths(routed: routing.Routed) -> dict[tuple[str, str], list[str]]:
    """Names of the channels of every path there is."""
    fabric = routed.fabric
    ends = fabric.ends()
    found = {}
    for a in ends:
        for b in ends:
            trace = routing.trace(routed, int(a), int(b))
            if a != b and trace.fault is None:
                key = tuple(fabric.names[fabric.end_node[end]] for end in (a, b))
                found[key] = [fabric.channel_label(port) for port in trace.channels]
    return found


@pytest.mark.slow
@given(MODELS, st.integers(2, 25), st.sampled_from([1, 2]))
def test_each_path_is_as_it_was_and_there_are_no_more(model: str, count: int, planes: int) -> None:
    if model == "pcie-a100":
        planes = 1
    alone = planes_of(model, min(count, 6), planes)
    together = routing.studies.side_by_side(alone, "all")
    expected: dict[tuple[str, str], list[str]] = {}
    for plane in alone:
        expected |= paths(plane)
    assert paths(together) == expected
    assert len(together.fabric.hosts) == min(count, 6)
    rails = simulate.traffic.rails_of_hosts(together.fabric)
    assert {len(ends) for ends in rails.values()} == {sum(len(p.fabric.ends()) for p in alone) // min(count, 6)}
    assert np.array_equal(
        np.sort(together.fabric.node_guid), np.sort(np.concatenate([p.fabric.node_guid for p in alone]))
    )


@pytest.mark.parametrize("collective", ["allreduce", "all-to-all"])
def test_planes_play_as_rails_do(collective) -> None:
    def time(routed: routing.Routed) -> float:
        model = topo.load_catalog().node("dgx-a100")
        servers = simulate.traffic.Servers(
            model, routed.fabric, np.stack([*simulate.traffic.rails_of_hosts(routed.fabric).values()])
        )
        network = simulate.Network.of(routed, devices=servers.devices, latency_s=0)
        flows = simulate.traffic.nccl_collective(servers, collective, 2**27).flows
        return simulate.play(network, flows).makespan_s

    nodes = {"gpu": {"model": "dgx-a100", "count": 4}}
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM8700"}}
    rails = topo.parse({"name": "r", "nodes": nodes, "network": network})
    planes = routing.studies.side_by_side(planes_of("dgx-a100", 4, 8), "p")
    assert time(planes) == pytest.approx(time(routing.route(rails.fabric)))
