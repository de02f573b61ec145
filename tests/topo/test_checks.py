"""Cures of limits, by putting them in."""

from hypothesis import example, given
from hypothesis import strategies as st

from topo.amounts import Range, Sum, Verdict
from topo.checks import Check

amounts = st.one_of(st.none(), st.integers(0, 10_000).map(float), st.tuples(st.integers(0, 99), st.integers(0, 99)))
items = st.lists(amounts, max_size=6)


def added(values: list[object]) -> Sum:
    """Add up numbers, ranges and unknowns."""
    ranges = [Range(min(v), max(v)) if isinstance(v, tuple) else v for v in values]
    return Sum.of((value, f"item {number}") for number, value in enumerate(ranges))  # type: ignore[misc]


@given(st.lists(st.none() | st.floats(0, 10_000), max_size=6) | items, st.integers(1, 30_000), st.integers(0, 2))
@example([1234.56], 1_000, 1)
def test_the_cure_of_a_limit_cures_and_what_is_too_much_is_the_difference(
    values: list[object], limit: int, decimals: int
) -> None:
    amount = added(values)
    check = Check.of("power", amount, limit, "budget.power", unit="W", decimals=decimals)
    assert check.verdict is amount.against(limit)
    assert bool(check.excess) == (check.verdict is Verdict.EXCEEDED)
    assert (check.cures == ()) == (check.verdict is Verdict.HOLDS)
    if check.excess:
        low = float(check.excess.removeprefix("at least ").split()[0].replace(",", ""))
        assert abs(low - ((amount.bounds or [0])[0] - limit)) <= 0.5 * 10.0**-decimals + 1e-6
    for cure in check.cures:
        if cure.value is None:
            assert amount.missing and cure.text
        else:
            least = float(str(cure.value).removesuffix(" W"))
            assert amount.against(least) is Verdict.HOLDS
            assert amount.against(least - 1) is not Verdict.HOLDS, "the least that holds"
            assert str(cure) in check.reason
