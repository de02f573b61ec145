"""Which jobs tables are made for: each host's place on its leaf, and what all of them weigh."""

import numpy as np
import pytest

from helpers.clusters import tree
from routing.engines.start import start_of
from routing.order.destinations import empty_tables
from routing.search import problem
from topo.fabric import Fabric

LEAVES, HOSTS = 4, 13  # no k-th host is on the same place of each leaf for k up to 12
OTHERS = 11 + (2 + 3 + 4) + 4


def jobs_of(fabric: Fabric) -> list[tuple[list[int], float]]:
    """Destinations of each job, and its weight; the destination's switch sends nothing over a link."""
    lids, lft = empty_tables(fabric, None)
    start = start_of(fabric, lids, lft.shape[::-1])
    posed = problem.pose(fabric, lids, start.order, start.dests, start.ranks)
    dest = np.repeat(np.arange(len(posed.samples.lid)), np.diff(posed.samples.indptr))
    return [
        (np.unique(dest[posed.samples.sample == k]).tolist(), posed.weights[k])
        for k, name in enumerate(posed.names)
        if name == "jobs"
    ]


def on_one_host_of_each_leaf(fabric: Fabric, jobs: list[tuple[list[int], float]]) -> list[tuple[list[int], float]]:
    """Those with a host on each leaf, and not two; hosts are numbered along the tree, leaf by leaf."""
    return [(job, weight) for job, weight in jobs if [dest // HOSTS for dest in job] == list(range(LEAVES))]


def test_each_place_on_the_leaves_is_a_job_and_all_weigh_as_much_as_four() -> None:
    fabric = tree(LEAVES * HOSTS, leaves=LEAVES, spines=4)
    jobs = jobs_of(fabric)
    ours = on_one_host_of_each_leaf(fabric, jobs)
    assert sorted(dest % HOSTS for job, _ in ours for dest in job) == sorted(list(range(HOSTS)) * LEAVES)
    assert all(len({dest % HOSTS for dest in job}) == 1 for job, _ in ours)
    others = {weight for job, weight in jobs if (job, weight) not in ours}
    assert len(jobs) == HOSTS + OTHERS
    assert len(others) == 1
    assert sum(weight for _, weight in ours) == pytest.approx(4 * others.pop())


def test_a_job_on_small_leaves_weighs_as_much_as_any() -> None:
    jobs = jobs_of(tree(3 * 8, leaves=8, spines=4))
    assert len({round(weight, 12) for _, weight in jobs}) == 1


def test_four_places_stand_for_all_where_not_all_flows_may_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = tree(LEAVES * HOSTS, leaves=LEAVES, spines=4)
    monkeypatch.setattr(problem, "MOST_FLOWS", 8 * LEAVES * HOSTS * LEAVES - 1)
    jobs = jobs_of(fabric)
    ours = on_one_host_of_each_leaf(fabric, jobs)
    assert sorted({dest % HOSTS for job, _ in ours for dest in job}) == [0, 4, 8, 12]
    assert len(jobs) == 4 + OTHERS, "no other job is left out for them"
    assert len({round(weight, 12) for _, weight in jobs}) == 1


def test_all_jobs_fit_where_each_place_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight times hosts times leaves bounds all flows."""
    monkeypatch.setattr(problem, "MOST_FLOWS", 8 * LEAVES * HOSTS * LEAVES)
    assert len(jobs_of(tree(LEAVES * HOSTS, leaves=LEAVES, spines=4))) == HOSTS + OTHERS
