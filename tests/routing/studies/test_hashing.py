"""Figures of hashed paths: laws, a count by hand, and what is refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

import routing
import topo
from helpers.strategies import examples
from routing.hashed import SPRAY, Hashed
from routing.quality.figures import fair_rates, permutations
from routing.studies import hashed_rates, measure_hashed
from routing.studies.hashing import fill
from topo.errors import HeddleError


def test_where_each_pair_has_one_shortest_path_the_rates_are_those_of_tables() -> None:
    """One spine with one cable to each leaf: hashes have no choice, nor have tables."""
    network = {"shape": "fat-tree", "switch": "QM8700", "levels": 2, "leaves": 4, "spines": 1, "parallel": 1,
               "oversubscription": 5}  # fmt: skip
    fabric = topo.parse(
        {"name": "one", "nodes": {"gpu": {"model": "pcie-a100", "count": 16}}, "network": network}
    ).fabric
    ends = fabric.ends()
    phases = permutations(len(ends), 5, np.random.default_rng(1))
    mean, least = fair_rates(routing.route(fabric), ends, phases)
    for queue_pairs in (SPRAY, 1, 3):
        rates = [hashed_rates(Hashed(fabric, queue_pairs), ends, partners) for partners in phases]
        assert [rate.mean() for rate in rates] == pytest.approx(mean)
        assert [rate.min() for rate in rates] == pytest.approx(least)


def test_spraying_beats_queue_pairs_and_percentiles_are_in_order() -> None:
    fabric = topo.preset("lab-20").fabric
    few, many, spread = (measure_hashed(Hashed(fabric, k)) for k in (1, 8, SPRAY))
    for one, more, most in zip(few.rows, many.rows, spread.rows, strict=True):
        assert one.mean_p5 <= one.mean <= one.mean_p95 <= 1 + 1e-9 and one.least <= one.mean
        assert one.mean <= more.mean + 1e-9 <= most.mean + 2e-9 and most.mean == pytest.approx(1)
    assert few.to_dict()["engine"] == "ECMP, 1 queue pair a connection"
    assert few.table.columns[0].values == ["random halves", "random permutations", "shifts"]


def test_hosts_without_a_path_or_a_cable_are_told() -> None:
    fabric = topo.preset("lab-20").fabric
    ends = fabric.ends()
    cut = fabric.without(np.flatnonzero(fabric.level[fabric.port_node] == 2))
    with pytest.raises(HeddleError, match="no links lead from gpu"):
        measure_hashed(Hashed(cut))
    with pytest.raises(HeddleError, match="expected at least two"):
        measure_hashed(Hashed(fabric.without(fabric.port_of(ends[1:]))))


@st.composite
def water(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    """Shares of flows on channels, each flow on one at least, and capacities."""
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    parts = np.array(draw(st.lists(st.lists(st.sampled_from([0, 0, 1, 2, 3]), min_size=m, max_size=m), min_size=n,
                                   max_size=n)), float)  # fmt: skip
    parts[parts.sum(axis=1) == 0, 0] = 1
    return parts, np.array(draw(st.lists(st.integers(1, 9), min_size=m, max_size=m)), float)


@examples(60)
@given(case=water())
def test_rates_are_max_min_fair_by_a_linear_program(case: tuple[np.ndarray, np.ndarray]) -> None:  # type: ignore[type-arg]
    parts, capacity = case
    flow, channel = np.nonzero(parts)
    rates = fill(flow, channel, parts[flow, channel], capacity, len(parts))
    assert (parts.T @ rates <= capacity * (1 + 1e-9)).all()
    for one in range(len(parts)):  # no flow can have more unless one that has no more than it has less
        kept = [(rate if rate <= rates[one] and other != one else 0, None) for other, rate in enumerate(rates)]
        best = linprog(-np.eye(len(parts))[one], parts.T, capacity, bounds=kept)
        assert -best.fun == pytest.approx(rates[one], rel=1e-6)
