"""Figures of hashed paths: laws, a count by hand, and what is refused."""

import numpy as np
import pytest

import routing
import topo
from routing.hashed import SPRAY, Hashed
from routing.quality.figures import fair_rates, permutations
from routing.studies import hashed_rates, measure_hashed
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
