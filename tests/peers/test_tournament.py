"""Random fabrics, routed by us and by a real OpenSM: the same by day, others at night (benchmarks/tournament.py)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.benchmarks import load
from helpers.strategies import examples

tournament = load("tournament")


@pytest.mark.slow
@pytest.mark.peer("ibsim", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")
@examples(1)
@given(st.integers(0, 1 << 30))
def test_what_we_hand_out_is_complete_and_free_of_loops_beside_any_engine(seed: int) -> None:
    game = tournament.play(seed, limit_s=60)
    ours, *others = game["engines"]
    assert (ours["missing"], ours["loops"]) == (0, 0), game
    assert len(others) == 5
    assert any(row.get("missing") == 0 for row in others), game


def played(**figures: float) -> dict:
    row = {"missing": 0, "loops": 0, **dict.fromkeys(tournament.FIGURES, 1.0)}
    others = [{"engine": "a", **row}, {"engine": "b", **row, "loops": 3, "fullest link": 0.5}]
    others += [{"engine": "c", **row, "missing": 1, "fullest link": 0.1}, {"engine": "d", "failure": "no"}]
    return {"seed": 1, "fabric": "f-1", "engines": [{"engine": "ours", **row, **figures}, *others]}


def test_figures_are_compared_with_the_best_complete_engine_of_each_kind() -> None:
    found = {(item.figure, item.safe): item for item in tournament.results(played(bisection=0.5))}
    assert found["bisection", True].lead == pytest.approx(-0.5)
    assert found["fullest link", True].lead == 0
    assert (found["fullest link", False].by, found["fullest link", False].lead) == ("b", pytest.approx(-0.5))
    better = {item.figure: item.lead for item in tournament.results(played(**{"fullest link": 0.8})) if item.safe}
    assert better["fullest link"] == pytest.approx(0.2)


def test_the_report_counts_and_names_the_worst() -> None:
    lines = list(
        tournament.report([played(bisection=0.5), played(), {"fabric": "g-2", "failure": "no way", "engines": []}])
    )
    assert "| bisection | 2 | 0 | 1 | 1 | 1 |" in lines
    assert "| f-1 | bisection | 0.5 | 1 | a | -50.0% |" in lines
    assert lines[-1] == "\ng-2 is not routed: no way"
