"""What tables give to the halves that the worst cut divides: never more than the cut, and why it is less."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import costmodel
import routing
import topo
from helpers.networks import HDR, Plain, plain, plain_wide
from helpers.strategies import examples
from plan import finalists
from plan.finalists import judge_finalists, play_worst_halves

NEEDS = {
    "name": "pod",
    "nodes": {"gpu": {"model": "pcie-a100", "count": 99}},
    "job": {"nodes": 99, "bisection": 0.33, "alone": True},
    "switches": ["QM8700"],
    "families": ["fat-tree"],
}


@pytest.mark.slow
@given(st.integers(0, 100_000), st.sampled_from(["minhop", "balanced"]))
@examples(20)
def test_tables_give_the_worst_halves_no_more_than_the_cut(seed: int, engine: str) -> None:
    fabric = plain(seed).fabric()
    found = costmodel.bisection([fabric])
    if 0 < found.share < 1:
        share, why = play_worst_halves(routing.route(fabric, engine), [fabric.ends()], found)
        assert 0 < share <= found.share * (1 + 1e-6)
        assert bool(why) == (share < found.share * (1 - 1e-6))


@pytest.mark.slow
@given(st.integers(0, 100_000))
@examples(20)
def test_servers_with_several_adapters_get_no_more_over_the_halves_that_are_named(seed: int) -> None:
    network = plain_wide(seed)
    fabric = network.fabric()
    found = costmodel.bisection([fabric])
    if not 0 < found.share < 1:
        return
    one, other, apart = found.cut.halves(fabric, fabric.ends())
    names = [[fabric.label(node) for node in fabric.end_node[half].tolist()] for half in (one, other)]
    pairs = [[name.split() for name in pair] for pair in zip(*names, strict=True)]
    assert all(first != second and device == to for (first, device), (second, to) in pairs)
    assert len({*one.tolist(), *other.tolist()}) == 2 * len(one)
    assert 200 * apart == pytest.approx(found.cut.asked_gbps)
    share, _ = play_worst_halves(routing.route(fabric, "minhop"), [fabric.ends()], found)
    assert 0 < share <= found.share * (1 + 1e-6)


def two_leaves() -> tuple[topo.Fabric, costmodel.Bisection]:
    """Two leaves of four servers, joined by two cables: half of the rate for each."""
    fabric = Plain(2, ((0, 1, HDR), (0, 1, HDR)), (4, 4)).fabric()
    return fabric, costmodel.bisection([fabric])


def test_a_play_above_the_cut_is_an_error_of_heddle() -> None:
    fabric, found = two_leaves()
    assert found.share == 0.5
    tables = routing.route(fabric, "balanced")
    assert play_worst_halves(tables, [fabric.ends()], found) == (pytest.approx(0.5), "")
    less = replace(found, cut=replace(found.cut, leaves_gbps=300.0))
    with pytest.raises(RuntimeError, match=r"played 0\.5000.* over a cut that carries 0\.3750"):
        play_worst_halves(tables, [fabric.ends()], less)


def test_tables_that_use_one_of_two_cables_are_told_apart_from_the_cut() -> None:
    fabric, found = two_leaves()
    routed = routing.route(fabric, "minhop")
    lft = routed.tables.lft.copy()
    lft[lft == 2] = 1  # ports 1 and 2 of a switch have the cables, the servers those from 3 on
    one_cable = replace(routed, tables=replace(routed.tables, lft=lft))
    share, why = play_worst_halves(one_cable, [fabric.ends()], found)
    assert share == pytest.approx(0.25)
    assert "where the cut allows 50.0%" in why
    assert ":1 would have to carry 4.0 times its rate, and 2.0 times if all links of the cut" in why
    assert "`balanced` 50.0%" in why


@pytest.mark.slow
def test_random_halves_of_a_job_on_one_unit_of_rails_send_within_their_rails() -> None:
    """The halves are of servers, and the first adapter sends to the first of the partner: on leaves that both have."""
    nodes = {"gpu": {"model": "dgx-h100", "count": 14}}
    asked = {"name": "unit", "nodes": nodes, "job": {"nodes": 14}, "switches": ["QM9700"], "families": ["rail"]}
    asked["between_rails"] = 0
    needs = costmodel.Needs.model_validate({**asked, "currency": "USD", "quotes": {"QM9700": 30_000, "4xNDR": 900}})
    found = costmodel.optimise(needs)
    assert (found.winner.name, found.winner.price) == ("rails, 1 unit of 14: 1 spine x 1 of QM9700", 378_000)
    (finalist,) = judge_finalists([found.winner], needs)
    assert (finalist.jobs, finalist.worst_halves) == (pytest.approx(1.0), None)


@pytest.mark.slow
def test_a_finalist_is_held_against_its_own_cut() -> None:
    needs = costmodel.Needs.model_validate(NEEDS)
    winner = costmodel.optimise(needs).winner
    assert winner is not None
    (finalist,) = judge_finalists([winner], needs)
    assert finalist.proven
    assert finalist.worst_halves is not None
    assert 0 < finalist.worst_halves <= winner.job_bisection.share
    assert np.isfinite(finalist.jobs)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("alone", [False, True])
def test_a_job_has_all_adapters_of_its_servers(size: int, alone: bool) -> None:
    nodes = {"gpu": {"model": "dgx-h100", "count": 7}, "store": {"model": "storage-3fs", "count": 1}}
    fabric = topo.parse({"name": "x", "nodes": nodes, "network": {"shape": "fat-tree", "switch": "QM9700"}}).fabric
    mine: dict[str, set[int]] = {}
    for end in fabric.ends(role="compute").tolist():
        mine.setdefault(fabric.server_of(fabric.end_node[end]), set()).add(end)
    servers = sorted(mine)
    needs = costmodel.Needs.model_validate(NEEDS | {"job": {"nodes": size, "bisection": 0.33, "alone": alone}})
    groups = finalists._jobs(fabric, needs)
    assert len(groups) == (7 // size if alone else 1)
    storage = set(fabric.ends(role="storage").tolist())
    assert all(set(group.pop("the storage").tolist()) == storage for group in groups)
    jobs = [(name, set(ends.tolist())) for group in groups for name, ends in group.items()]
    assert len(jobs) == 7 // size
    for number, (name, ends) in enumerate(jobs):
        members = servers[number * size : (number + 1) * size]
        assert ends == set().union(*(mine[server] for server in members))
        assert name == f"{members[0]} to {members[-1]}"


def test_a_network_without_jobs_takes_nothing_from_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalists, "_jobs", lambda *_: [])
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 4}},
        "network": {"shape": "fat-tree", "switch": "QM8700"},
    }
    found = finalists._judge("x", spec, costmodel.Needs.model_validate(NEEDS), costmodel.Bisection(1.0, 1.0))
    assert (found.jobs, found.worst_job, found.worst_halves) == (1.0, "", None)
