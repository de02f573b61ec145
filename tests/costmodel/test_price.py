from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.price import Price, PriceList, Range, parse_prices, read_prices
from topo.errors import SpecError

HEADER = "item,low,high,currency,includes,source,date,confidence\n"


def messages(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse_prices(HEADER + text, "prices.csv")
    return [str(finding) for finding in caught.value.findings]


def test_a_row_is_a_range_with_its_source() -> None:
    (price,) = parse_prices(HEADER + 'QM8700,14000,18720,USD,cable; transceiver,"a list, undated",,low\n', "p").prices
    assert price == Price("QM8700", Range(14000, 18720), "USD", ("cable", "transceiver"), "a list, undated", "", "low")


def test_one_number_is_a_range_of_no_width() -> None:
    (price,) = parse_prices(HEADER + "x,3,,unit,,,,\n", "p").prices
    assert price.amount == Range(3, 3)
    assert str(price.amount) == "3"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("QM8700,-5,,USD,,,,", "prices.csv:2: low: found '-5'; expected a number, 0 or more"),
        ("QM8700,nan,,USD,,,,", "prices.csv:2: low: found 'nan'; expected a number, 0 or more"),
        ("QM8700,1e999,,USD,,,,", "prices.csv:2: low: found '1e999'; expected a number, 0 or more"),
        ("QM8700,cheap,,USD,,,,", "prices.csv:2: low: found 'cheap'; expected a number, 0 or more"),
        ("QM8700,5,,,,,,", "prices.csv:2: currency: found ''; expected the currency of the price of QM8700"),
        ("QM8700,,,USD,,,,", "prices.csv:2: low: found ''; expected the price of QM8700"),
        ("QM8700,5,4,USD,,,,", "prices.csv:2: high: found '4'; expected 5 or more for QM8700"),
        (",5,,USD,,,,", "prices.csv:2: item: found ''; expected a model or part number"),
    ],
)
def test_a_bad_price_is_refused_with_its_item(row: str, said: str) -> None:
    (message,) = messages(row + "\n")
    assert message.startswith(said)


def test_all_bad_rows_are_named_at_once() -> None:
    assert len(messages("a,-1,,USD,,,,\nb,1,,,,,,\nc,1,,USD,,,,\nc,2,,USD,,,,\n")) == 3


def test_a_column_is_missing_or_misspelt() -> None:
    with pytest.raises(SpecError, match=r"no column currency"):
        parse_prices("item,low,high,currancy,includes,source,date,confidence\n", "p")
    with pytest.raises(SpecError, match=r"Did you mean 'currency'"):
        parse_prices("item,low,high,currancy,includes,source,date,confidence\n", "p")


def test_a_list_of_ones_own_goes_before() -> None:
    ours = parse_prices(HEADER + "a,1,,USD,,,,\nb,2,,USD,,,,\na,3,,EUR,,,,\n", "ours")
    theirs = parse_prices(HEADER + "a,9,,USD,,quote 17,,\n", "theirs")
    merged = ours.overridden(theirs)
    assert [merged.find(*key).amount.low for key in (("a", "USD"), ("b", "USD"), ("a", "EUR"))] == [9, 2, 3]  # type: ignore[union-attr]
    assert merged.find("c", "USD") is None
    assert merged.currencies == ("EUR", "USD")


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e9)), min_size=1, max_size=8), st.integers(0, 1000))
def test_ranges_add_up_bound_by_bound(pairs: list[tuple[float, float]], count: int) -> None:
    ranges = [Range(min(pair), max(pair)) for pair in pairs]
    total = sum((part * count for part in ranges), Range(0, 0))
    assert total.low == pytest.approx(count * sum(part.low for part in ranges))
    assert total.high == pytest.approx(count * sum(part.high for part in ranges))
    assert total.low <= total.high


def test_the_shipped_list_is_sound_and_names_its_sources(repository: Path) -> None:
    prices = read_prices(repository / "configs" / "catalog" / "prices.csv")
    assert isinstance(prices, PriceList)
    assert all(price.source and price.confidence for price in prices.prices)
