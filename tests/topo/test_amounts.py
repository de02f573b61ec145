"""Sums with gaps, by laws that hold for any amounts; shares as they are written, beside exact decimals."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from topo.amounts import Range, Sum, Verdict, percent

amounts = st.one_of(st.none(), st.integers(0, 10_000).map(float), st.tuples(st.integers(0, 99), st.integers(0, 99)))
items = st.lists(amounts, max_size=6)


def added(values: list[object]) -> Sum:
    """Add up numbers, ranges and unknowns."""
    ranges = [Range(min(v), max(v)) if isinstance(v, tuple) else v for v in values]
    return Sum.of((value, f"item {number}") for number, value in enumerate(ranges))  # type: ignore[misc]


@given(items, items)
def test_a_sum_of_sums_is_the_sum_of_all_items(one: list[object], other: list[object]) -> None:
    both, whole = added(one) + added(other), added([*one, *other])
    assert both.bounds == whole.bounds
    assert len(both.missing) == len(whole.missing) == sum(value is None for value in [*one, *other])


@given(items)
def test_what_is_unknown_is_said_and_never_zero(values: list[object]) -> None:
    total = added(values)
    unknown = [value is None for value in values]
    known = added([value for value in values if value is not None]).bounds or [0, 0]
    assert str(total).startswith("at least ") == (any(unknown) and known[1] > 0)
    assert (str(total) == "unknown") == (any(unknown) and known[1] == 0), "at least 0 says nothing"
    assert (total.known is None) == (bool(values) and all(unknown))
    assert (total.middle is None) == any(unknown)


@given(items, st.floats(0, 1e5))
def test_verdicts_by_the_bounds(values: list[object], limit: float) -> None:
    """With an unknown item no limit is known to hold; whatever the unknown amounts are, an excess stays one."""
    verdict, known = added(values).against(limit), added([value for value in values if value is not None])
    low, high = known.bounds or [0, 0]
    if None in values:
        assert verdict == (Verdict.EXCEEDED if low > limit else Verdict.CANNOT_TELL)
        assert added([1e9 if value is None else value for value in values]).against(limit) is Verdict.EXCEEDED
    else:
        expected = Verdict.HOLDS if high <= limit else Verdict.EXCEEDED if low > limit else Verdict.CANNOT_TELL
        assert verdict is expected


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
