"""Traffic on hashed paths, seed by seed: laws of the fluid engine and of the figures over seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import simulate
import topo
from helpers.strategies import examples
from routing.hashed import SPRAY, Hashed
from routing.quality.figures import permutations
from routing.studies.hashing import fill
from simulate.workload import DRAWS, percentiles
from topo.errors import HeddleError
from topo.fabric import Fabric

NETWORK = {"shape": "fat-tree", "switch": "QM8700", "leaves": 4, "spines": 4}


def tree() -> Fabric:
    return topo.parse(
        {"name": "tree", "nodes": {"gpu": {"model": "storage-3fs", "count": 32}}, "network": NETWORK}
    ).fabric


def permuted(fabric: Fabric, seed: int, size: float = 1e9) -> simulate.Flows:
    ends = fabric.ends()
    (partners,) = permutations(len(ends), 1, np.random.default_rng(seed))
    sends = partners >= 0
    return simulate.Flows.of(ends[sends], ends[partners[sends]], size)


def bandwidths_only(hashed: Hashed) -> simulate.Network:
    return simulate.Network.of(hashed, latency_s=0)


@examples(20)
@given(seed=st.integers(0, 1000), queue_pairs=st.sampled_from([SPRAY, 1, 2, 3, 8]))
def test_the_first_flow_ends_as_max_min_fair_rates_over_parts_of_links_say(seed: int, queue_pairs: int) -> None:
    """Until something ends, the engine must move flows at the rates of the plain water-filling."""
    fabric = tree()
    network, flows = bandwidths_only(Hashed(fabric, queue_pairs, seed)), permuted(fabric, seed)
    routes = network.routes(flows.src, flows.dst, flows.sl)
    offset = routes.offset
    flow = np.repeat(np.arange(len(flows)), np.diff(offset)[routes.route])
    at = np.concatenate([np.arange(offset[route], offset[route + 1]) for route in routes.route])
    rates = fill(flow, routes.resource[at], routes.use[at], network.capacity_bytes_s, len(flows))
    outcome = simulate.play(network, flows)
    assert outcome.finish_s.min() == pytest.approx(1e9 / rates.max())
    assert outcome.resource_bytes.sum() == pytest.approx((routes.use[at] * 1e9).sum())
    assert outcome.lane_bytes.sum() == pytest.approx(outcome.resource_bytes[: fabric.n_ports].sum())
    used = outcome.resource_bytes <= network.capacity_bytes_s * outcome.makespan_s * (1 + 1e-9)
    assert used.all()  # nothing carries more than it can


@pytest.mark.slow
def test_more_queue_pairs_never_lower_the_median_on_random_permutations() -> None:
    """The median over seeds and permutations of what the job gets, its bytes by its time, from 1 queue pair to many."""
    fabric = tree()
    medians = []
    for queue_pairs in (1, 4, 16, 64, SPRAY):
        times = [
            simulate.play(bandwidths_only(Hashed(fabric, queue_pairs, seed)), permuted(fabric, seed)).makespan_s
            for seed in range(40)
        ]
        medians.append(percentiles(times)[0])
    assert medians == sorted(medians, reverse=True)
    own = 1e9 / (fabric.rate_gbps[fabric.port_of(fabric.ends()[:1])][0] / 8 * 1e9)
    assert medians[0] > 1.5 * own and medians[-1] == pytest.approx(own)


def test_other_seeds_leave_the_median_in_its_interval() -> None:
    """Of 20 draws the median is between the 6th and the 15th of 20 others, but for 4 of 100 such pairs.

    The ranks are those of a distribution-free interval: P(6th <= median <= 15th) = 1 - 2 P(B(20, 1/2) <= 5) = 0.9586.
    """
    fabric = tree()
    flows, network = permuted(fabric, 5), bandwidths_only(Hashed(tree()))
    sets = [np.sort(simulate.play_draws(network, flows, seed=1000 * turn).makespan_s) for turn in range(6)]
    assert DRAWS == 20
    outside = sum(not one[5] <= percentiles(other)[0] <= one[14] for one in sets for other in sets)
    assert outside <= 4


def test_the_simulation_of_the_median_seed_is_one_of_the_draws() -> None:
    fabric = topo.preset("lab-20").fabric
    workload = simulate.preset("all-to-all", fabric)
    found = simulate.play_draws(Hashed(fabric, 2), workload, draws=5, seed=7)
    assert found.seeds == (7, 8, 9, 10, 11)
    again = simulate.play(Hashed(fabric, 2, found.median), workload)
    assert again.makespan_s == percentiles(found.makespan_s)[0] == np.sort(found.makespan_s)[2]
    figures = found.to_dict()["figures"]
    assert figures["all"]["makespan_s"]["median"] == again.makespan_s
    assert set(found.table.columns[0].values) == {"all", "all-to-all"}


def test_spraying_has_one_draw_and_tables_none() -> None:
    fabric = topo.preset("lab-20").fabric
    flows = permuted(fabric, 0)
    assert simulate.play_draws(Hashed(fabric, SPRAY), flows).seeds == (0,)
    with pytest.raises(HeddleError, match="forwarding tables"):
        simulate.play_draws(simulate.Network.of(routing.route(fabric)), flows)
    with pytest.raises(HeddleError, match="draws"):
        simulate.play_draws(Hashed(fabric), flows, draws=0)


def test_lanes_are_refused_on_hashed_paths() -> None:
    fabric = topo.preset("lab-20").fabric
    with pytest.raises(HeddleError, match="lanes that hashed paths have"):
        simulate.Network.of(Hashed(fabric), lane_weights=[1, 2])


def test_a_pair_without_a_path_is_told_by_name() -> None:
    fabric = topo.preset("lab-20").fabric
    cut = fabric.without(np.flatnonzero(fabric.port_node == 0))
    with pytest.raises(HeddleError, match="no links lead from"):
        simulate.play(Hashed(cut), permuted(fabric, 0))
