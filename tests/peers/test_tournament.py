"""Random fabrics, routed by us and by a real OpenSM (benchmarks/opensm/tournament.py): others at night."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.benchmarks import load
from helpers.random_fabrics import FAMILIES, WIDER, draw
from helpers.strategies import examples
from routing.candidates import Candidate

tournament = load("opensm/tournament")


@pytest.mark.slow
@pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")
@examples(1)
@given(st.integers(0, 1 << 30))
def test_what_we_hand_out_is_complete_and_free_of_loops_beside_any_engine(seed: int) -> None:
    game = tournament.play(seed, limit_s=60)
    for row in (game.ours, game.wide):
        assert (row.refusal, row.missing, row.credit_loops) == ("", 0, 0), game
    assert len(game.theirs) == 5
    assert tournament.complete(game.theirs), game
    assert tournament.Game.of(game.to_dict()) == game


def test_the_wider_families_have_hosts_that_reach_each_other() -> None:
    first = len(FAMILIES)
    for seed, family in enumerate(WIDER[first:], first):
        fabric = draw(seed, WIDER)
        assert fabric.name == f"{family.__name__}-{seed}"
        assert len(fabric.ends()) >= 4
        assert routing.prove(routing.route(fabric, "minhop")).lost == 0


def played(**figures: float) -> tournament.Game:  # type: ignore[name-defined]
    row = Candidate("a", fullest=1.0, halves=1.0, shifts=1.0, jobs=1.0, slowest_job=1.0)
    others = [row, replace(row, engine="b", credit_loops=3, fullest=0.5)]
    others += [replace(row, engine="c", missing=1, fullest=0.1), Candidate("d", "no")]
    wide = replace(row, engine="ours", lanes=2, fullest=0.4)
    return tournament.Game(1, "f-1", replace(row, engine="ours", **figures), wide, tuple(others))


def shares(**figures: float) -> dict[tuple[str, int], tuple[str, float]]:
    game = played(**figures)
    return {
        (found.figure.name, at): (found.best.engine, pytest.approx(found.share))
        for at, beside in enumerate(tournament.BESIDE)
        for found in tournament.results(game, beside)
    }


def test_figures_are_compared_with_the_best_complete_engine_of_each_kind() -> None:
    found = shares(halves=0.5)
    assert found["halves", 0] == ("a", 0.5)
    assert found["fullest link", 0] == ("a", 1)
    assert found["fullest link", 1] == ("b", 0.5)
    assert found["fullest link", 2] == ("b", 1.25)
    assert shares(fullest=0.8)["fullest link", 0] == ("a", 1.25)


def test_the_report_counts_and_names_all_losses() -> None:
    refused = Candidate("auto", "no way")
    lines = list(tournament.report([played(halves=0.5), played(), tournament.Game(2, "g-2", refused, refused, ())]))
    assert "| halves | 2 | 0 | 1 | 1 | 1 | 0.71 | 0.50 |" in lines
    assert "| f-1 | halves | 0.500 | 1.000 | a | 0.50 |" in lines
    assert "\nLanes that ours take of up to 8: 2 on 2 fabrics." in lines
    assert lines[-1] == "\ng-2: no way"
