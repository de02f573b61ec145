"""Price lists: what an item costs, as a range, with its source; what has no price is a gap, never zero.

A list may hold an item once for each currency. ``unit`` is the currency of Table III of the Fire-Flyer paper, whose
worth is not printed; a switch in it comes with all its links, a node with its adapters (column ``includes``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topo.errors import Finding, SpecError
from topo.formats.bounded import read_text
from topo.formats.csv_rows import Row, parse_rows

__all__ = ["NOTHING", "Price", "PriceList", "Range", "parse_prices", "read_prices"]

COLUMNS = ("item", "low", "high", "currency", "includes", "source", "date", "confidence")
MAX_BYTES = 4_000_000


@dataclass(frozen=True)
class Range:
    """An amount that is known to lie between two bounds."""

    low: float
    high: float

    def __add__(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: float) -> Range:
        return Range(self.low * factor, self.high * factor)

    @property
    def middle(self) -> float:
        """The middle of the range: what one number has to stand for it."""
        return (self.low + self.high) / 2

    def __str__(self) -> str:
        return f"{self.low:,.0f}" if self.low == self.high else f"{self.low:,.0f} to {self.high:,.0f}"


NOTHING = Range(0.0, 0.0)


@dataclass(frozen=True)
class Price:
    """What one piece of an item costs."""

    item: str
    """Model or part number, as in the catalog."""
    amount: Range
    currency: str
    includes: tuple[str, ...]
    """Kinds of parts that come with it: ``cable`` with a switch, ``adapter`` with a node."""
    source: str
    date: str
    """When the price was seen, as precisely as it is known; empty when it is not."""
    confidence: str


@dataclass(frozen=True)
class PriceList:
    """Prices by item and currency."""

    prices: tuple[Price, ...]

    def find(self, item: str, currency: str) -> Price | None:
        """Return the price of an item, or None where there is a gap."""
        return next((price for price in self.prices if (price.item, price.currency) == (item, currency)), None)

    @property
    def currencies(self) -> tuple[str, ...]:
        """Currencies of the list, sorted."""
        return tuple(sorted({price.currency for price in self.prices}))

    def overridden(self, by: PriceList) -> PriceList:
        """Return this list with the prices of another in place of its own, item by item and currency by currency."""
        theirs = {(price.item, price.currency) for price in by.prices}
        kept = [price for price in self.prices if (price.item, price.currency) not in theirs]
        return PriceList((*by.prices, *kept))


def read_prices(path: Path) -> PriceList:
    """Read a price list; see `parse_prices`."""
    return parse_prices(read_text(path, MAX_BYTES), str(path))


def parse_prices(text: str, path: str) -> PriceList:
    """Parse a price list in CSV with the columns ``item,low,high,currency,includes,source,date,confidence``.

    ``high`` may be empty (the price is one number); ``includes`` holds kinds of parts with ``;`` between.

    Raises
    ------
    SpecError
        With a finding for each price that is no number, negative or upside down, has no currency, or comes twice.
    """
    findings: list[Finding] = []
    prices = [_price(row, findings) for row in parse_rows(text, path, COLUMNS)]
    findings.extend(_twice(prices, path))
    if findings:
        raise SpecError(findings)
    return PriceList(tuple(prices))


def _price(row: Row, findings: list[Finding]) -> Price:
    low, high = row.number("low", findings), row.number("high", findings)
    if not row["low"]:
        findings.append(row.finding("low", f"the price of {row['item'] or 'an item'}", "Leave the row out if unknown."))
    if not row["item"]:
        findings.append(row.finding("item", "a model or part number"))
    if not row["currency"]:
        findings.append(row.finding("currency", f"the currency of the price of {row['item']}, such as USD"))
    if low is not None and high is not None and high < low:
        findings.append(row.finding("high", f"{row['low']} or more for {row['item']}"))
    low = 0.0 if low is None else low
    return Price(
        item=row["item"],
        amount=Range(low, low if high is None else high),
        currency=row["currency"],
        includes=tuple(kind.strip() for kind in row["includes"].split(";") if kind.strip()),
        source=row["source"],
        date=row["date"],
        confidence=row["confidence"],
    )


def _twice(prices: Sequence[Price], path: str) -> list[Finding]:
    seen: set[tuple[str, str]] = set()
    findings = []
    for price in prices:
        key = (price.item, price.currency)
        if key in seen:
            findings.append(Finding(path, f"{price.item} twice in {price.currency}", "one row an item and currency"))
        seen.add(key)
    return findings
