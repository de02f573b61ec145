"""What jobs ask of leaves, against the same by hand: adapter by adapter, and cut by cut."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import costmodel
from costmodel.optimise import search
from costmodel.optimise.demand import JobDemand, required_factor
from costmodel.optimise.problem import Problem, place
from topo.budget import Budget
from topo.catalog.load import load_catalog
from topo.shapes.base import each_adapter
from topo.speeds import slower

CATALOG = load_catalog([])


@st.composite
def problems(draw):
    """Needs of a few servers, and leaves on which all of their adapters hang."""
    count = draw(st.integers(1, 24))
    nodes = {"gpu": {"model": draw(st.sampled_from(["pcie-a100", "dgx-a100"])), "count": count}}
    if draw(st.booleans()):
        nodes["storage"] = {"model": "storage-3fs", "count": draw(st.integers(1, 6))}
    job = {"nodes": draw(st.integers(1, count)), "bisection": 1.0}
    job |= {"alone": draw(st.booleans()), "with_storage": draw(st.booleans())}
    bandwidth = {"compute": 0.5} | ({"storage": draw(st.sampled_from([1.0, "30 GB/s"]))} if "storage" in nodes else {})
    given_needs = {"name": "a", "nodes": nodes, "job": job, "bandwidth": bandwidth, "switches": ["QM8700"]}
    needs = costmodel.Needs.model_validate(given_needs)
    problem = Problem(needs, CATALOG)
    leaves = draw(st.integers(2, 6))
    free = np.array(draw(st.lists(st.integers(0, 300), min_size=leaves, max_size=leaves)))
    free[0] += max(problem.ports - free.sum(), 0)
    return problem, place(each_adapter(problem.groups), free)


def across(demand, inside):
    """Gb/s that must cross between a part of the containers and the others."""
    if isinstance(demand, JobDemand):
        gbps = demand.gbps.toarray()
        within = gbps[:, inside].sum(axis=1)
        return sum(
            demand.share * min(a, b, half)
            for a, b, half in zip(within, gbps.sum(axis=1) - within, demand.half, strict=True)
        )
    out, back = demand.takes[inside].sum() + demand.gives[~inside].sum(), demand.gives[inside].sum()
    return max(demand.need - min(out, back + demand.takes[~inside].sum()), 0.0)


@given(problems())
def test_the_demand_of_jobs_is_that_of_their_adapters(given_problem):
    problem, placement = given_problem
    speed, nodes = problem.options[0].speed, problem.needs.job.nodes
    leaf_of = {}  # of each adapter, by the number of its server
    for rail, counts in placement:
        for number, leaf in enumerate(np.repeat(np.arange(len(counts)), counts).tolist()):
            leaf_of[rail.name, rail.device, rail.first + number] = leaf, slower(rail.speed, speed).gbps
    jobs = [range(start, start + nodes) for start in range(0, problem.groups[0].count - nodes + 1, nodes)]
    rows = np.zeros((len(jobs), len(placement[0][1])))
    for (group, _, number), (leaf, gbps) in leaf_of.items():
        for row, job in enumerate(jobs):
            rows[row, leaf] += gbps if group == "gpu" and number in job else 0
    expected = rows[rows.sum(axis=1) > 0] if nodes > 1 else rows[:0]
    found = problem.demands(placement, speed)
    if not problem.needs.job.alone and len(found) > 1:
        assert np.array_equal(found[0].gbps.toarray()[: len(expected)], expected)
    for demand in (each for each in found if isinstance(each, JobDemand)):
        assert np.allclose(demand.half, demand.gbps.sum(axis=1) / 2, atol=100)  # of one adapter
        assert 0 < demand.share <= 1


@given(problems(), st.booleans())
def test_no_cut_is_missed_and_none_is_made_up(given_problem, in_pairs):
    """The factor is that of some cut, and no cut requires a larger one."""
    problem, placement = given_problem
    leaves = len(placement[0][1])
    of = np.arange(leaves) // 2 if in_pairs else np.arange(leaves)
    n = int(of.max()) + 1
    for demand in problem.demands(placement, problem.options[0].speed):
        parts = demand.aggregate(of)
        cuts = [
            (k, across(parts, np.isin(np.arange(n), chosen)))
            for k in range(1, n + 1)
            for chosen in combinations(range(n), k)
        ]

        def asked(links, cuts=cuts, n=n):
            return [max(0.0, lack) / links(k) if links(k) else 0.0 for k, lack in cuts if k < n]

        out, mesh = asked(lambda k: min(k, n - k)), asked(lambda k: k * (n - k))
        if cuts[-1][1] > 0:  # adapters give or take less than is needed, whatever the cut
            assert required_factor([demand], 1.0, of) == np.inf
            continue
        for kind, worst in (("out", out), ("mesh", mesh)):
            found = required_factor([demand], 1.0, of, cut=kind)
            assert min((abs(found - each) for each in [0.0, *worst]), default=0) < 1e-6
            assert found <= max(worst, default=0.0) + 1e-6
        assert required_factor([demand], 1.0, of, cut="mean") <= max(mesh, default=0.0) + 1e-6


@given(problems())
def test_containers_are_ordered_once_each(given_problem):
    problem, placement = given_problem
    for demand in problem.demands(placement, problem.options[0].speed):
        assert sorted(demand.worst_order) == list(range(demand.containers))


def test_the_budget_of_a_search_ends_it(monkeypatch):
    monkeypatch.setattr(search, "SEARCH_CPU", Budget(-1, "s", "", "", "x"))
    found = costmodel.optimise(costmodel.read_needs("fire-flyer-2"))
    assert found.winner is None and "the budget x of -1 s is used up" in found.certificate


@pytest.mark.slow
def test_eight_thousand_jobs_cost_no_more_than_one():
    """Rows of jobs are sparse: 8,192 jobs on 1,300 leaves are 85 MB otherwise, for each of thousands of designs."""
    nodes = {"gpu": {"model": "pcie-a100", "count": 49_152}}
    needs = {"name": "a", "nodes": nodes, "job": {"nodes": 6}, "switches": ["QM8700"]}
    problem = Problem(costmodel.Needs.model_validate(needs), CATALOG)
    placement = place(each_adapter(problem.groups), np.full(1300, 40))
    demand = problem.demands(placement, problem.options[0].speed)[0]
    assert demand.gbps.shape[0] >= 8192 and demand.gbps.nnz < 10_000
    assert required_factor([demand], 200.0) > 0


def test_a_leaf_with_more_than_half_of_a_job_sends_out_what_the_others_have() -> None:
    """On leaves of at most 30 a job of 40 has 10 elsewhere, which leave both sides; on leaves of 20 all of it does."""
    job = JobDemand(csr_array(np.array([[30.0, 10.0]])), np.array([20.0]), share=0.5)
    assert [job.leaving(most) for most in (20.0, 30.0, 40.0)] == [20.0, 10.0, 0.0]
