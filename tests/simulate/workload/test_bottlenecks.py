"""What held jobs back: parts that add up, and capacities whose effect is known."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from helpers.fluids import hosts, routed
from helpers.presets import routed_lab
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import Flows, Network, find_bottlenecks, parse_workload, play, preset
from simulate.engines.critical_path import critical_segments
from simulate.workload.play import Simulation, job_results
from topo.errors import HeddleError

ROUTED = routed_lab()
HOSTS = ROUTED.fabric.ends(role="compute")


def simulated(flows: Flows, network: Network) -> Simulation:
    """Flows as a workload of one job with a start."""
    job = {"name": "all", "kind": "collective", "rank": "adapter", "collective": "broadcast", "size": "1 MB"}
    workload = replace(parse_workload({"jobs": [job]}, network.fabric), flows=flows, job=np.zeros(len(flows), np.int32))
    outcome = play(network, flows)
    return Simulation(workload, outcome, job_results(workload, outcome))


def random_flows(seed: int) -> Flows:
    rng = np.random.default_rng(seed)
    n = 60
    src, dst = rng.choice(HOSTS, (2, n))
    waiter = np.arange(1, n)[rng.random(n - 1) < 0.6]
    return Flows.of(
        src,
        dst,
        rng.choice([0, 1e6, 3e6], n),
        start_s=rng.choice([0, 0, 1e-4], n),
        delay_s=rng.choice([0, 0, 2e-5], n),
        rendezvous=rng.random(n) < 0.3,
        after=(waiter, (waiter * rng.random(len(waiter))).astype(int)),
    )


@pytest.mark.parametrize("order", ["peer", "adapter", "none"])
@pytest.mark.parametrize("seed", range(8))
def test_segments_follow_each_other_from_the_start_to_the_end(seed: int, order: str) -> None:
    flows = random_flows(seed).in_order(order)  # type: ignore[arg-type]
    simulation = simulated(flows, Network.of(ROUTED, latency_s=2e-6, hop_latency_s=0))
    segments = critical_segments(simulation.outcome)

    assert segments[0].begin_s == 0.0
    assert segments[-1].end_s == simulation.makespan_s
    for one, following in pairwise(segments):
        assert one.end_s == following.begin_s
    for segment in segments:
        assert segment.begin_s < segment.end_s
        assert (segment.resource >= 0) == (segment.what not in ("latency", "computation and delays"))


def test_the_full_link_decides_and_others_do_not() -> None:
    flows = Flows.of(HOSTS[1:4], HOSTS[0], 1e9)  # three into one, on one leaf
    found = find_bottlenecks(simulated(flows, Network.of(ROUTED, host_gbps=100, latency_s=0)))

    assert found.path.to_dict()["what"] == ["leaf to compute"]
    assert found.path.to_dict()["time"] == pytest.approx([0.24])
    assert found.capacities.to_dict()["1 % more saves (%)"] == pytest.approx([100 / 101])
    assert found.capacities.to_dict()["1 % less costs (%)"] == pytest.approx([100 / 99])
    assert len(found.sharing) == 0


def test_a_shared_link_between_switches_has_its_price() -> None:
    fabric = grow_tree((2, 3), (1, 1), (1, 1))  # three leaves of two hosts, and one link from each up to the spine
    network = Network.of(Routed(fabric, routed(fabric)), latency_s=0)
    first, second, third, fourth, fifth, _ = hosts(network)
    found = find_bottlenecks(simulated(Flows.of([first, second], [third, fifth], 25e9), network))

    assert found.path.to_dict()["what"] == ["leaf to spine"]
    assert found.sharing.to_dict()["on paths"] == pytest.approx([2.0])
    assert found.sharing.to_dict()["saved if not shared"] == pytest.approx([1.0])
    both = find_bottlenecks(simulated(Flows.of([first, second], [third, fourth], 25e9), network))
    assert both.sharing.to_dict()["saved if not shared"] == pytest.approx([0.0])  # they meet on the link down, too


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hfreduce", "training-experts", "parameter-servers-hierarchical"])
def test_times_add_up_and_capacities_do_no_harm_together(name: str) -> None:
    simulation = play(ROUTED, preset(name, ROUTED.fabric))
    found = find_bottlenecks(simulation)
    path = found.path.to_dict()
    for job in simulation.jobs:
        mine = [time_s for time_s, of in zip(path["time"], path["job"], strict=True) if of == job.name]
        assert sum(mine) == pytest.approx(job.time_s)


def test_storage_acts_as_it_is_played() -> None:
    job = {"name": "reads", "kind": "storage", "batches": 1, "batch": 1, "ranks": 1, "role": "compute"}
    simulation = play(ROUTED, parse_workload({"jobs": [job]}, ROUTED.fabric))
    with pytest.raises(HeddleError, match="beside storage jobs"):
        find_bottlenecks(simulation)
