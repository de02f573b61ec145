"""What jobs ask of leaves, against the same by hand: adapter by adapter, and cut by cut."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import costmodel
from costmodel.optimise import search
from costmodel.optimise.demand import JobDemand, ServingDemand, required_factor
from costmodel.optimise.problem import Problem, place
from topo.budget import Budget
from topo.catalog.load import load_catalog
from topo.fabric import Role
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
    given_needs["between_rails"] = draw(st.sampled_from([0.0, 1.0]))
    needs = costmodel.Needs.model_validate(given_needs)
    problem = Problem(needs, CATALOG)
    leaves = draw(st.integers(2, 6))
    free = np.array(draw(st.lists(st.integers(0, 300), min_size=leaves, max_size=leaves)))
    free[0] += max(problem.ports - free.sum(), 0)
    return problem, place(each_adapter(problem.groups), free), leaves


def across(demand, inside):
    """Gb/s that must cross between a part of the containers and the others."""
    if isinstance(demand, JobDemand):
        gbps = demand.gbps.toarray()
        return demand.share * np.minimum(gbps[:, inside].sum(axis=1), gbps[:, ~inside].sum(axis=1)).sum()
    out, back = demand.takes[inside].sum() + demand.gives[~inside].sum(), demand.gives[inside].sum()
    return max(demand.need - min(out, back + demand.takes[~inside].sum()), 0.0)


@given(problems())
def test_the_demand_of_jobs_is_that_of_their_adapters(given_problem):
    """Adapter by adapter: the halves with the most and the least on a set of leaves, of each rail or of all."""
    problem, placement, leaves = given_problem
    speed, nodes = problem.options[0].speed, problem.needs.job.nodes
    adapters = []
    for rail, on in placement:
        for number, leaf in enumerate(on.tolist()):
            row = slower(rail.speed, speed).gbps * (np.arange(leaves) == leaf)
            adapters.append((rail.name, rail.first + number, 0 if problem.needs.between_rails else rail.device, row))
    count = problem.groups[0].count
    starts = range(0, count - nodes + 1, nodes) if nodes > 1 else ()
    jobs = [[each for each in adapters if each[0] == "gpu" and each[1] in range(first, first + nodes)]
            for first in starts]  # fmt: skip
    if problem.needs.job.with_storage and problem.needs.nodes.get("storage") and jobs:
        jobs.append([each for each in adapters if each[0] == "storage"])
    rails = [np.array([row for *_, part, row in job if part == rail])
             for job in jobs for rail in {part for *_, part, _ in job}]  # fmt: skip
    found = problem.demands(placement, leaves, speed)
    if problem.needs.job.alone or not jobs:
        return
    for inside in combinations(range(leaves), leaves // 2):
        asked = 0.0
        for rail in rails:
            on = np.sort(rail[:, list(inside)].sum(axis=1))
            half = len(on) // 2
            asked += on[len(on) - half :].sum() - on[:half].sum()
        assert across(found[0], np.isin(np.arange(leaves), inside)) == pytest.approx(asked)
        order = np.array([*inside, *sorted(set(range(leaves)) - set(inside))])
        assert found[0].crossing(order)[leaves // 2 - 1] == pytest.approx(asked)


@given(problems(), st.booleans())
def test_no_cut_is_missed_and_none_is_made_up(given_problem, in_pairs):
    """The factor is that of some cut, and no cut requires a larger one."""
    problem, placement, leaves = given_problem
    of = np.arange(leaves) // 2 if in_pairs else np.arange(leaves)
    n = int(of.max()) + 1
    for demand in problem.demands(placement, leaves, problem.options[0].speed):
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
    problem, placement, leaves = given_problem
    for demand in problem.demands(placement, leaves, problem.options[0].speed):
        for order in demand.worst_orders:
            assert sorted(order) == list(range(demand.containers))


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
    demand = problem.demands(placement, 1300, problem.options[0].speed)[0]
    assert demand.gbps.shape[0] >= 8192 and demand.gbps.nnz < 10_000
    assert required_factor([demand], 200.0) > 0


def test_a_leaf_with_more_than_half_of_a_job_sends_out_what_the_others_have() -> None:
    """On leaves of at most 30 a job of 40 has 10 elsewhere, which leave both sides; on leaves of 20 all of it does."""
    job = JobDemand(csr_array(np.array([[30.0, 10.0]])), share=0.5)
    assert [job.leaving(most) for most in (20.0, 30.0, 40.0)] == [20.0, 10.0, 0.0]


@given(problems(), st.integers(1, 40))
def test_no_placement_leaves_less_than_the_bound_on_all_leaves(given_problem, most):
    """The sum over leaves of what must leave each, beside the bound of the same servers on one leaf."""
    problem, placement, leaves = given_problem
    speed = problem.options[0].speed
    fullest = np.bincount(np.concatenate([on for _, on in placement])).max() * speed.gbps
    together = problem.demands([(rail, np.zeros_like(on)) for rail, on in placement], 1, speed)
    for bound, demand in zip(together, problem.demands(placement, leaves, speed), strict=True):
        leaving = sum(across(demand, np.arange(leaves) == leaf) for leaf in range(leaves))
        assert bound.leaving(max(fullest, most * speed.gbps)) <= leaving + 1e-6


def test_the_leaves_of_a_unit_stand_together_where_units_are_cut() -> None:
    """Two units of two rails, leaves by rail: a unit sends all out, a rail nothing."""
    units = JobDemand(csr_array(np.array([[30.0, 30.0, 0.0, 0.0], [0.0, 0.0, 30.0, 30.0]])), share=1.0)
    assert units.crossing(np.array([0, 2, 1, 3])).tolist() == [30.0, 60.0, 30.0, 0.0]
    assert units.crossing(np.array([0, 1, 2, 3])).tolist() == [30.0, 0.0, 30.0, 0.0]
    assert required_factor([units], 1.0, cut="mesh") == 60 / 4
    assert units.leaving(30.0) == 120.0 and units.leaving(31.0) == 4 * 29.0


@given(problems(), st.booleans())
def test_what_storage_must_send_is_counted_adapter_by_adapter(given_problem, in_part):
    """A rate in proportion to the storage adapters that are here, or the share of what each of them has."""
    problem, placement, leaves = given_problem
    speed, storage = problem.options[0].speed, [each for each in placement if each[0].role == Role.STORAGE]
    if in_part and storage:
        placement.remove(storage.pop())
    gives, takes, part, full = np.zeros(leaves), np.zeros(leaves), 0.0, 0.0
    for rail, on in placement:
        for leaf in on:
            (gives if rail.role == Role.STORAGE else takes)[leaf] += slower(rail.speed, speed).gbps
            part += rail.speed.gbps * (rail.role == Role.STORAGE)
    for group in problem.groups:
        full += group.speed.gbps * group.adapters * group.count * (group.role == Role.STORAGE)
    found = [each for each in problem.demands(placement, leaves, speed) if isinstance(each, ServingDemand)]
    assert len(found) == bool(storage)
    for demand in found:
        need = 240 * part / full if problem.needs.bandwidth.storage.gbps else gives.sum()
        assert demand.need == pytest.approx(need)
        assert (demand.gives.tolist(), demand.takes.tolist()) == (gives.tolist(), takes.tolist())


@pytest.mark.parametrize(("part", "asked"), [(0.0, [0.0]), (0.25, [0.0, 800.0]), (1.0, [3_200.0])])
def test_what_must_cross_between_rails_is_a_part_of_what_jobs_ask(part: float, asked: list[float]) -> None:
    """Four servers with an adapter of 200 Gb/s on each of eight leaves: half of the leaves have half of each server."""
    nodes = {"gpu": {"model": "dgx-a100", "count": 4}}
    given_needs = {"name": "a", "nodes": nodes, "job": {"nodes": 4}, "switches": ["QM8700"], "between_rails": part}
    problem = Problem(costmodel.Needs.model_validate(given_needs), CATALOG)
    placement = [(rail, np.full(4, leaf)) for leaf, rail in enumerate(each_adapter(problem.groups))]
    found = problem.demands(placement, 8, problem.options[0].speed)
    assert [across(demand, np.arange(8) < 4) for demand in found] == pytest.approx(asked)
