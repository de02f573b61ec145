"""Tables on no more lanes than these."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import Case, cases, examples, past_switch_0_on_lane_5, ring, tree
from routing.lanes import fit
from routing.lanes.fit import fit_lanes
from routing.proof import prove
from routing.routed import Routed
from topo.errors import RoutingError


def test_on_one_lane_tables_keep_their_loops() -> None:
    case = past_switch_0_on_lane_5(ring())
    tables = fit_lanes(case.fabric, case.tables, 1)
    assert (tables.path_sl, set(tables.sl2vl)) == (None, {0})
    assert (
        prove(Routed(case.fabric, tables)).credit_loops == prove(Routed(ring().fabric, ring().tables)).credit_loops > 0
    )


@pytest.mark.parametrize("lanes", [2, 8])
def test_on_several_lanes_loops_are_broken(lanes: int) -> None:
    case = ring(4)
    proof = prove(Routed(case.fabric, fit_lanes(case.fabric, case.tables, lanes)))
    assert (proof.credit_loops, proof.lanes) == (0, 2)


def test_levels_that_fit_stay_and_tables_without_loops_get_none() -> None:
    case = past_switch_0_on_lane_5(ring())
    assert fit_lanes(case.fabric, case.tables, 2) is case.tables
    whole = tree(3)
    assert fit_lanes(whole.fabric, whole.tables, 8).path_sl is None


def test_too_few_lanes_are_refused_with_their_number() -> None:
    case = ring(8)
    with pytest.raises(RoutingError, match="need 4 lanes to be free of credit loops, and there are 3"):
        fit_lanes(case.fabric, case.tables, 3)
    three = replace(case.tables, path_sl=np.arange(case.tables.lft.size, dtype=np.uint8).reshape(8, -1) % 3)
    with pytest.raises(RoutingError, match=r"need 3 lanes .*, and there are 2"):
        fit_lanes(case.fabric, replace(three, sl2vl=(0, 1, 2, *[0] * 13)), 2)


@given(case=cases(corrupt=False, lanes=False, connected=True), effort=st.integers(1, 200))
@examples(30)
def test_a_search_that_is_interrupted_often_ends_as_one_that_is_not(case: Case, effort: int) -> None:
    whole = fit_lanes(case.fabric, case.tables, 16)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fit, "EFFORT", effort)
        pieces = fit_lanes(case.fabric, case.tables, 16)
    assert pieces.sl2vl == whole.sl2vl
    assert (pieces.path_sl is None) == (whole.path_sl is None)
    assert whole.path_sl is None or (pieces.path_sl == whole.path_sl).all()
    assert prove(Routed(case.fabric, whole), "adapters").credit_loops == 0


def test_a_search_beyond_its_bound_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    case = ring(12)
    monkeypatch.setattr(fit, "EFFORT", 10)
    with pytest.raises(RoutingError, match=r"given up after [\d,]+ steps: .* need more than 1 lanes"):
        fit.break_loops(case.fabric, case.tables, 8, most_steps=20)


def test_tables_that_lead_nowhere_do_not_keep_the_search_busy() -> None:
    case = ring(6)
    lft = np.where(case.tables.lft == 0, 0, 1).astype(np.uint8)  # round and round, past every host
    tables = fit_lanes(case.fabric, replace(case.tables, lft=lft), 8)
    assert tables.path_sl is None or tables.path_sl.max() < 8
