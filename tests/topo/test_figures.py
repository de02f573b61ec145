"""Figures as they are written, beside exact decimals."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from topo.figures import percent


@given(st.floats(0, 1), st.floats(0, 1))
def test_no_share_is_shown_on_the_other_side_of_what_it_is(share: float, other: float) -> None:
    """By exact decimals: near to the share, a bound on its side, never nothing or all, apart from one beside it."""
    exact, tenth = Decimal(share) * 100, Decimal("0.1")
    shown = percent(share)
    if shown.startswith("under"):
        assert share > 0 and exact < tenth
    elif shown.startswith("over"):
        assert exact > 100 - tenth and share < 1
    else:
        assert abs(Decimal(shown[:-1]) - exact) <= tenth / 2
        assert (shown == "0.0%") == (share == 0)
        assert (shown == "100.0%") == (share > 1 - 1e-9)
    slack = Decimal("1e-7")
    least, most = (Decimal(percent(share, bound=bound)[:-1]) for bound in ("least", "most"))
    assert exact - tenth - slack <= least <= exact + slack
    assert exact - slack <= most <= exact + tenth + slack
    one, two = percent(share, beside=other), percent(other, beside=share)
    if abs(share - other) > 1e-6 and not {one[0], two[0]} & {"u", "o"}:
        assert (float(one[:-1]) < float(two[:-1])) == (share < other)
