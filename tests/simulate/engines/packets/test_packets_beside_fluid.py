"""Packets beside fluid flows, and beside an incast: the figures of docs/validation/packets.md."""

from pathlib import Path

import numpy as np
import pytest

import simulate
from helpers.presets import read_preset, routed
from helpers.random_fabrics import draw
from routing.engines.base import route
from simulate import Flows, Network, PacketModel, Packets, play

INPUTS = ("fifo", "voq")
MODELS = tuple(PacketModel(inputs=inputs) for inputs in INPUTS)
FABRIC = read_preset("fire-flyer-2").fabric


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "validation" / "packets.md").read_text(encoding="utf-8")


def permutation(seed: int, *models: PacketModel) -> list[float]:
    """Times of packets over those of fluid flows, by model."""
    fabric = draw(seed)
    net, ends = Network.of(route(fabric)), fabric.ends(role="compute")
    flows = Flows.of(ends, np.random.default_rng(seed).permutation(ends), 2.0**20)
    fluid_s = play(net, flows).makespan_s
    return [play(net, flows, engine=model).makespan_s / fluid_s for model in models]


def test_the_slowest_permutation_waits_for_full_buffers(page: str) -> None:
    found = permutation(12, *MODELS, PacketModel(buffer_bytes=1 << 22))
    assert f"| permutations, most | {found[0]:.2f} | {found[1]:.2f} |" in page
    assert found[2] == pytest.approx(1, rel=5e-3)


@pytest.mark.slow
@pytest.mark.nightly
def test_permutations_take_the_times_of_the_page(page: str) -> None:
    found = np.array([permutation(seed, *MODELS) for seed in range(40)])
    for name, row in (("least", found.min(0)), ("median", np.sort(found, axis=0)[20]), ("most", found.max(0))):
        assert f"| permutations, {name} | {row[0]:.2f} | {row[1]:.2f} |" in page


@pytest.mark.slow
@pytest.mark.nightly
def test_hfreduce_takes_the_times_of_the_page(page: str) -> None:
    text = "jobs: [{name: a, kind: gpu-collective, algorithm: hfreduce, size: 32 MiB, ranks: 4}]"
    workload, net = simulate.parse_workload(text, FABRIC), Network.of(routed(FABRIC))
    fluid_s = play(net, workload).makespan_s
    found = [play(net, workload, engine=model).makespan_s / fluid_s for model in MODELS]
    assert f"| HFReduce, 32 MiB | {found[0]:.2f} | {found[1]:.2f} |" in page


@pytest.mark.slow
def test_an_incast_takes_what_the_page_says(page: str) -> None:
    """As in the fifth notebook, draw by draw: first the lanes, then the routing."""
    tables = routed(FABRIC)
    shared, apart = Network.of(tables, lane_weights=1), Network.of(tables)
    zone, storage = FABRIC.ends(role="compute", zone=0), FABRIC.ends(role="storage", zone=0)
    servers = zone[np.unique(simulate.traffic.leaf_of(FABRIC, zone), return_index=True)[1]][:16]
    rng = np.random.default_rng(0)
    allreduce = simulate.allreduce(servers, "8 MiB").flows(FABRIC)
    senders = np.concatenate([rng.permutation(storage)[:8] for _ in servers])
    reads = Flows.of(senders, np.repeat(servers, 8), 1e9, sl=2)

    def took(net: Network, inputs: str, *beside: Flows) -> float:
        engine = Packets(net, PacketModel(inputs=inputs))
        for flows in beside:
            engine.begin_all(flows)
        left = set(engine.begin_all(allreduce))
        while left:
            left -= {ended.flow for ended in engine.advance()}
        return engine.now_s

    own, one = (
        # Two packets of the allreduce to one of storage: weights of 96 and 64, of 64 bytes each.
        [round(150 * took(net, inputs) / took(net, inputs, reads)) for inputs in INPUTS]
        for net in (apart, shared)
    )
    said = (
        f"{own[0]} % (`fifo`) and {own[1]} % (`voq`) of its weighted share on its own lane, "
        f"and {one[0]} % and {one[1]} % on a shared one"
    )
    assert said in " ".join(page.split())

    incast = Flows.of(rng.choice(storage, 32, replace=False), zone[5], 1e6)
    others = Flows.of(zone, rng.permutation(zone), 4e5)
    both = simulate.traffic.concatenate([incast, others])
    for window, flight in ((0, "whole"), (None, "by windows")):
        for inputs in INPUTS:
            for adaptive, routing in ((False, "static"), (True, "adaptive")):
                model = PacketModel(inputs=inputs, adaptive=adaptive, window_packets=window)
                outcome, alone = (play(shared, flows, engine=model) for flows in (both, others))
                longer = outcome.duration_s[len(incast) :] / np.maximum(alone.duration_s, 1e-9)
                stalled, slowed = simulate.find_saturation(outcome).tree.sum(), (longer > 1.1).sum()
                assert f"| {flight} | {inputs} | {routing} | {stalled} | {slowed} |" in page
