"""Random fabrics, routed by us and by a real OpenSM (benchmarks/opensm/tournament.py): others at night."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.benchmarks import load
from helpers.strategies import examples

tournament = load("opensm/tournament")


@pytest.mark.slow
@pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")
@examples(1)
@given(st.integers(0, 1 << 30))
def test_what_we_hand_out_is_complete_and_free_of_loops_beside_any_engine(seed: int) -> None:
    game = tournament.play(seed, limit_s=60)
    ours, *others = game["engines"]
    for row in (ours, game.get("wide", ours)):
        assert (row["missing"], row["loops"]) == (0, 0), game
    assert len(others) == 5
    assert any(row.get("missing") == 0 for row in others), game


def played(**figures: float) -> dict:
    row = {"missing": 0, "loops": 0, **dict.fromkeys(tournament.FIGURES, 1.0)}
    others = [{"engine": "a", **row}, {"engine": "b", **row, "loops": 3, "fullest link": 0.5}]
    others += [{"engine": "c", **row, "missing": 1, "fullest link": 0.1}, {"engine": "d", "failure": "no"}]
    wide = {"engine": "ours", "lanes": 2, **row, "fullest link": 0.4}
    return {"seed": 1, "fabric": "f-1", "engines": [{"engine": "ours", **row, **figures}, *others], "wide": wide}


def leads(game: dict) -> dict[tuple[str, bool, bool], tuple[str, float]]:
    return {
        (item.figure, item.beside.safe, item.beside.wide): (item.by, pytest.approx(item.lead))
        for item in tournament.results(game)
    }


def test_figures_are_compared_with_the_best_complete_engine_of_each_kind() -> None:
    found = leads(played(bisection=0.5))
    assert found["bisection", True, False] == ("a", -0.5)
    assert found["fullest link", True, False] == ("a", 0)
    assert found["fullest link", False, False] == ("b", -0.5)
    assert found["fullest link", False, True] == ("b", 0.2)
    assert leads(played(**{"fullest link": 0.8}))["fullest link", True, False] == ("a", 0.2)


def test_one_engine_beats_ours_if_it_is_behind_in_nothing() -> None:
    def beaten(**figures: float) -> list[bool]:
        return [tournament.is_beaten(played(**figures), beside) for beside in tournament.BESIDE]

    assert beaten() == [False, True, False]  # b, with loops and half the fullest link, but not beside ours on lanes
    assert beaten(bisection=0.9) == [True, True, False]
    assert beaten(bisection=0.9, shifts=1.1) == [False, False, False]


def test_the_report_counts_and_names_the_worst() -> None:
    lines = list(
        tournament.report([played(bisection=0.5), played(), {"fabric": "g-2", "failure": "no way", "engines": []}])
    )
    assert "| bisection | 2 | 0 | 1 | 1 | 1 |" in lines
    assert "| f-1 | bisection | 0.5 | 1 | a | -50.0% |" in lines
    assert "\nLanes that ours take of up to 8: 2 on 2 fabrics." in lines
    assert lines[-1] == "\ng-2 is not routed: no way"
