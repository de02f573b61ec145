"""What a bill costs: ranges that go through to the total, and gaps where nobody gives a price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costmodel.bill import Bill, Line, PartKind
from topo.hardware.catalog import Catalog

UNITS = "units"
"""The relative units of Table III of An et al., "Fire-Flyer AI-HPC", SC'24. A switch in them comes with all its links
(350 / 122, 600 / 200 and 4,000 / 1,320 are 2.87, 3.00 and 3.03 a switch: inferred, the paper prints no price a piece),
a node with its adapters."""

NETWORK: tuple[PartKind, ...] = ("switch", "cable", "fibre", "optic")
SERVERS: tuple[PartKind, ...] = ("node", "adapter")


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
class PricedLine:
    """A line of the bill with its price."""

    line: Line
    unit_price: Range | None
    """Of one piece; None where there is no price, which is a gap unless `included` says what it comes with."""
    included: str
    """What the piece comes with, at no price of its own: ``switch`` or ``node``."""
    source: str
    """Where the price comes from, with date and confidence."""

    @property
    def amount(self) -> Range | None:
        """Of all pieces."""
        return None if self.unit_price is None else self.unit_price * self.line.count

    @property
    def is_gap(self) -> bool:
        """Whether the total lacks this line."""
        return self.unit_price is None and not self.included


@dataclass(frozen=True)
class Cost:
    """A bill in one currency."""

    unit: str
    """Currency, or `UNITS`."""
    lines: tuple[PricedLine, ...]

    def of(self, *kinds: PartKind) -> Range:
        """Sum of the lines of some kinds that have a price."""
        amounts = (priced.amount for priced in self.lines if priced.line.kind in kinds)
        return sum((amount for amount in amounts if amount is not None), NOTHING)

    @property
    def network(self) -> Range:
        """Switches, cables and optics."""
        return self.of(*NETWORK)

    @property
    def servers(self) -> Range:
        """Servers and their adapters."""
        return self.of(*SERVERS)

    @property
    def total(self) -> Range:
        """Everything that has a price; see `gaps` for what has none."""
        return sum((priced.amount for priced in self.lines if priced.amount is not None), NOTHING)

    @property
    def gaps(self) -> tuple[str, ...]:
        """What the total lacks, in words."""
        return tuple(
            f"{line.count:,} x {line.item} ({line.kind}, {line.place}): no price in {self.unit}"
            for line in (priced.line for priced in self.lines if priced.is_gap)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures of ``plan.json``: middles of the ranges, the ranges themselves, and the gaps."""
        parts = {"network": self.network, "servers": self.servers, "total": self.total}
        return {
            "unit": self.unit,
            **{name: amount.middle for name, amount in parts.items()},
            "ranges": {name: [amount.low, amount.high] for name, amount in parts.items()},
            "gaps": list(self.gaps),
        }


def price_bill(bill: Bill, catalog: Catalog, unit: str = UNITS) -> Cost:
    """Look up every line of a bill in one currency."""
    return Cost(unit, tuple(_price_line(line, catalog, unit) for line in bill.lines))


def _price_line(line: Line, catalog: Catalog, unit: str) -> PricedLine:
    comes_with = _comes_with(line, catalog, unit)
    price = None if comes_with else catalog.price(line.item, unit)
    if price is None:
        return PricedLine(line, None, comes_with, "")
    cited = [(point.source, point.note) for point in price.points]
    source = "; ".join(
        f"{source.text}{f' ({note})' if note else ''} [{source.date}, {source.confidence}]" for source, note in cited
    )
    return PricedLine(line, Range(price.low, price.high), "", source)


def _comes_with(line: Line, catalog: Catalog, unit: str) -> str:
    """Return the kind of part whose price holds this line already, or nothing."""
    if unit == UNITS and line.kind in ("cable", "fibre", "optic"):
        return "switch"
    if line.kind == "adapter" and line.place in catalog.nodes:
        included = unit == UNITS or catalog.nodes[line.place].adapters_included
        return "node" if included else ""
    return ""
