"""SHARP against what it promises: the buffer once up and once down, whatever the ranks; over nodes that dumps name."""

import numpy as np
import pytest

import routing
import simulate
import topo
from helpers import twins
from helpers.clusters import tree
from simulate.traffic.collectives.trees import aggregation_tree, depths
from topo.errors import HeddleError
from topo.fabric import Kind

SIZE = 64e6
RATE = 25e9


@pytest.fixture(scope="module")
def network() -> simulate.Network:
    return simulate.Network.of(routing.route(tree(80, leaves=4, spines=4)), latency_s=0)


def sharp(hosts: np.ndarray) -> simulate.Collective:
    return simulate.collective("allreduce", hosts, SIZE, "sharp", every_switch=True)


@pytest.mark.parametrize("seed", range(4))
def test_every_rank_and_link_of_the_tree_carries_the_buffer_once_each_way(network, seed) -> None:
    rng = np.random.default_rng(seed)
    fabric = network.fabric
    hosts = rng.permutation(fabric.ends(role="compute"))[: rng.integers(1, 80)]
    parent, ends = aggregation_tree(fabric, hosts, every_switch=True)
    outcome = simulate.play(network, sharp(hosts))
    joined = np.flatnonzero(parent >= 0)

    assert (parent < 0).sum() == 1 and (parent[: len(hosts)] >= len(hosts)).all()
    assert (ends[parent[: len(hosts)]] == fabric.end_switch[hosts]).all()
    assert depths(parent).max() <= 2  # of two levels the root is a spine, or the leaf of all ranks
    carried = outcome.resource_bytes[: fabric.n_ports]
    assert carried[carried > 0] == pytest.approx(SIZE)
    assert (carried > 0).sum() == 2 * len(joined)
    assert SIZE / RATE <= outcome.makespan_s <= SIZE / RATE * (1 + 5 / 64)


@pytest.mark.slow
def test_the_time_does_not_grow_with_the_ranks_and_beats_a_ring(network) -> None:
    hosts = network.fabric.ends(role="compute")
    times = [simulate.play(network, sharp(hosts[:n])).makespan_s for n in (40, 80)]

    assert times[0] == pytest.approx(times[1])
    assert simulate.play(network, simulate.allreduce(hosts, SIZE)).makespan_s > 1.8 * times[1]


@pytest.mark.slow
def test_the_order_of_the_ranks_does_not_matter(network) -> None:
    hosts = network.fabric.ends(role="compute")[::3]
    times = [simulate.play(network, sharp(order)).makespan_s for order in (hosts, hosts[::-1])]
    assert times[0] == pytest.approx(times[1])


@pytest.mark.slow
def test_a_dump_names_the_switches_that_add() -> None:
    fabric = topo.read_fabric(twins.path("ndr-pod"))
    hosts = fabric.ends()[:40]
    parent, ends = aggregation_tree(fabric, hosts)
    able = set(fabric.end_switch[fabric.ends(kind=Kind.AGGREGATION)].tolist())

    assert {*ends[len(hosts) :].tolist()} <= able
    outcome = simulate.play(routing.route(fabric), simulate.allreduce(hosts, SIZE, "sharp"))
    own = outcome.resource_bytes[fabric.port_of(hosts)]
    assert own == pytest.approx(SIZE)
    assert len(parent) == len(ends)


def test_a_spec_names_none_and_is_refused(network) -> None:
    hosts = network.fabric.ends(role="compute")[:4]
    with pytest.raises(HeddleError, match=r"^1 leaf of the ranks, such as .*, has no aggregation node"):
        simulate.play(network, simulate.allreduce(hosts, SIZE, "sharp"))
