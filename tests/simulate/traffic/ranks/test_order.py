"""Rank orders: as good as trying all of them, counted by other code, simulated, and the same under other labels."""

from functools import cache
from itertools import permutations

import numpy as np
import pytest

import routing
import simulate
from helpers.presets import routed_lab
from helpers.random_fabrics import draw
from helpers.relabel import relabelled
from helpers.strategies import nightly
from helpers.twins import twin
from simulate.engines.fluid.engine import Fluid
from simulate.traffic.ranks.order import JobPaths, nearest_first, order_ranks
from simulate.traffic.ranks.pattern import PATTERNS, Pattern, pattern_of
from topo.errors import HeddleError

LITTLE = 2_000_000
"""Effort that finds the best order of eight nodes."""


@cache
def routed_draw(seed: int) -> routing.Routed:
    """The random fabric of a seed, routed once for all patterns."""
    return routing.route(draw(seed), "balanced")


def job(routed: routing.Routed, n: int, rng: np.random.Generator) -> np.ndarray:
    """End ports of n nodes, as many rails as the first of them has."""
    ports = list(simulate.traffic.rails_of_hosts(routed.fabric).values())
    rails = len(ports[rng.integers(len(ports))])
    fit = [ends for ends in ports if len(ends) == rails]
    return np.array([fit[at] for at in rng.permutation(len(fit))[:n]])


def least_time(paths: JobPaths, pattern: Pattern, size_bytes: float) -> float:
    """The time of the best order, by trying all: steps as dense matrices of loads."""
    n = paths.n
    crossed = np.zeros((n * n, len(paths.cost)), np.float32)
    for pair in range(n * n):
        np.add.at(crossed[pair], paths.channel[paths.offset[pair] : paths.offset[pair + 1]], 1)
    crossed *= paths.cost / paths.cost.max()
    crossed = np.unique(crossed, axis=1)
    orders = np.array(list(permutations(range(n))))
    if pattern.algorithm in ("ring", "all-to-all"):  # shifted by one, the steps are the same
        orders = orders[orders[:, 0] == 0]
    total = np.zeros(len(orders))
    for step in range(pattern.n_steps):
        flows = np.flatnonzero(pattern.step == step)
        load = sum(crossed[orders[:, pattern.src[f]] * n + orders[:, pattern.dst[f]]] for f in flows)
        total += np.max(load, axis=1) * pattern.share[step] * pattern.times[step]
    return float(total.min() * paths.cost.max() * size_bytes / paths.rails)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", PATTERNS)
@pytest.mark.parametrize("seed", [seed if seed < 6 else nightly(seed) for seed in range(15)])
def test_as_good_as_trying_all_orders(seed: int, algorithm: str) -> None:
    routed = routed_draw(seed)
    ends = job(routed, 6, np.random.default_rng(seed))
    if len(ends) < 2:
        pytest.skip("too few nodes alike")
    network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
    found = order_ranks(network, ends, algorithm, size_bytes=1e6, effort=LITTLE)
    paths, pattern = JobPaths.of(network, ends), pattern_of(algorithm, len(ends))
    best = least_time(paths, pattern, 1e6)
    assert found.after.time_s == pytest.approx(best, rel=1e-5)
    assert found.bound_s <= best * (1 + 1e-5)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("algorithm", PATTERNS)
@pytest.mark.parametrize("name", ["qdr-directors", "edr-frames", "a100-superpod"])
def test_as_good_as_trying_all_orders_of_eight(name: str, algorithm: str) -> None:
    routed = routing.route(twin(name), "balanced")
    network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
    for seed in range(3):
        ends = job(routed, 8, np.random.default_rng(seed))
        found = order_ranks(network, ends, algorithm, size_bytes=1e6, effort=LITTLE)
        best = least_time(JobPaths.of(network, ends), pattern_of(algorithm, 8), 1e6)
        assert found.after.time_s == pytest.approx(best, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(0, 28, 4), nightly(28)])
def test_loads_are_those_that_the_judge_of_routings_counts(seed: int) -> None:
    routed = routed_draw(seed)
    ends = job(routed, 9, np.random.default_rng(seed))[:, :1]
    if len(ends) < 2:
        pytest.skip("too few nodes alike")
    network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
    for algorithm in ("ring", "halving-doubling", "all-to-all"):
        found = order_ranks(network, ends, algorithm, effort=100_000)
        pattern = pattern_of(algorithm, len(ends))
        partners = np.full((pattern.n_steps, len(ends)), -1, np.int32)
        partners[pattern.step, pattern.src] = pattern.dst
        for loads, order in ((found.before, np.arange(len(ends))), (found.after, found.order)):
            counted, _, lost = routing.quality.congestion(routed, ends[order, 0].astype(np.int32), partners)
            assert counted.tolist() == loads.fullest.tolist()
            assert not lost.any()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", PATTERNS)
@pytest.mark.parametrize("seed", [0, 4, 9])
def test_the_time_is_that_of_the_fluid(seed: int, algorithm: str) -> None:
    routed = routed_draw(seed)
    ends = job(routed, 7, np.random.default_rng(seed))
    network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
    found = order_ranks(network, ends, algorithm, size_bytes=1e9, effort=100_000)
    pattern, placed = pattern_of(algorithm, len(ends)), ends[found.order]
    for step in range(pattern.n_steps):
        flows = pattern.step == step
        src, dst = placed[pattern.src[flows]].ravel(), placed[pattern.dst[flows]].ravel()
        sizes = np.full(len(src), pattern.share[step] * 1e9 / ends.shape[1])
        outcome = Fluid(network).play(simulate.Flows.of(src, dst, sizes))
        assert outcome.makespan_s == pytest.approx(found.after.step_s[step])


@pytest.mark.slow
def test_other_labels_change_nothing() -> None:
    routed = routed_draw(3)
    fabric = routed.fabric
    ends = job(routed, 8, np.random.default_rng(0))
    other = relabelled(fabric, np.random.default_rng(1), ports=False)
    new_end = np.argsort(other.end)
    lid, lft = routed.tables.lid[other.end], routed.tables.lft[other.node[: fabric.n_switches]]
    again = routing.Routed(other.fabric, routing.RoutingTables(lid, lft))
    for algorithm in PATTERNS:
        one, two = (
            order_ranks(simulate.Network.of(which, lane_weights=1, latency_s=0), places, algorithm, effort=LITTLE)
            for which, places in ((routed, ends), (again, new_end[ends]))
        )
        assert one.order.tolist() == two.order.tolist()
        assert one.after.time_s == two.after.time_s


def test_a_job_of_a_whole_lab() -> None:
    routed = routed_lab()
    hosts = routed.fabric.ends(role="compute")
    network = simulate.Network.of(routed, latency_s=0)
    mixed = np.random.default_rng(0).permutation(hosts)
    for algorithm in PATTERNS:
        found = order_ranks(network, mixed, algorithm, effort=LITTLE)
        assert sorted(found.order.tolist()) == list(range(len(hosts)))
        assert found.bound_s <= found.after.time_s <= found.before.time_s
        assert found.names[0] == routed.fabric.hosts[routed.fabric.host[routed.fabric.end_node[mixed[found.order[0]]]]]


def test_what_is_best_already_stays_as_it_is() -> None:
    routed = routed_lab()
    hosts = routed.fabric.ends(role="compute")
    assert order_ranks(simulate.Network.of(routed, latency_s=0), hosts, "ring").order.tolist() == list(
        range(len(hosts))
    )


def test_nearest_first_goes_from_leaf_to_leaf() -> None:
    leaf = np.array([0, 1, 2, 0, 1, 2])
    lengths = np.where(leaf[:, None] == leaf, 2, 4)
    assert leaf[nearest_first(lengths)].tolist() == [0, 0, 1, 1, 2, 2]


def test_a_node_twice_is_refused() -> None:
    routed = routed_lab()
    with pytest.raises(HeddleError, match="twice"):
        order_ranks(simulate.Network.of(routed, latency_s=0), [5, 6, 5], "ring")
