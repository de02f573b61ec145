"""The cost of a bill in one currency: sums of price ranges, with the parts that have no price."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from costmodel.parts import KINDS, LINE_COLUMNS, NETWORK, RACKS, SERVERS, Line, PartKind, cite
from topo.amounts import Range, Sum, sums_to_dict
from topo.catalog.load import Catalog
from topo.errors import plural
from topo.table import Shown, Table

UNITS = "units"
"""The relative units of Table III of An et al., "Fire-Flyer AI-HPC", SC'24. The price of a switch includes its links,
that of a node its adapters. The paper prints no unit prices; 3 units a switch is inferred from its totals: 350 / 122 =
2.87, 600 / 200 = 3.00 and 4,000 / 1,320 = 3.03."""

BARE_SPEED = re.compile(r"\d+x[A-Z]+")
"""Item of a cable of unknown length: its speed."""
NO_LENGTH = ", since its length is unknown without `floor:` in the spec"

SUMS = {"network": NETWORK, "servers": SERVERS, "racks": RACKS, "total": KINDS}
"""Kinds of parts of each sum: the total is that of the others."""


@dataclass(frozen=True)
class PricedLine:
    """A line of the bill with its price."""

    line: Line
    unit_price: Range | None
    """Price of one part; None where it is unknown, or where `included` names the part whose price includes it."""
    included: str
    """Kind of the part whose price includes this one: ``switch`` or ``node``; empty for a part with its own price."""
    source: str
    """Source of the price, with date and confidence."""

    @property
    def amount(self) -> Range | None:
        """Price of all parts of the line: count * unit price."""
        return None if self.unit_price is None else self.unit_price * self.line.count

    @property
    def is_gap(self) -> bool:
        """Whether the price is unknown, and missing in the total."""
        return self.unit_price is None and not self.included

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values."""
        price = self.unit_price and [self.unit_price.low, self.unit_price.high]
        return asdict(self.line) | {"unit_price": price, "included": self.included}


@dataclass(frozen=True)
class Cost(Shown):
    """The cost of a bill in one currency.

    Examples
    --------
    >>> import costmodel, topo
    >>> cost = costmodel.bill(topo.preset("fire-flyer-2")).price("units")
    >>> print(cost.network, cost.servers, cost.total, sep="; ")
    366; at least 10,800; at least 11,166
    """

    unit: str
    """Currency, or ``units``."""
    lines: tuple[PricedLine, ...]

    def _brief(self) -> str:
        return self.table.title.removeprefix("cost: ")

    def of(self, *kinds: PartKind) -> Sum:
        """Return the sum of the lines of these kinds; of all lines when none is given."""
        of_them = (row for row in self.lines if not kinds or row.line.kind in kinds)
        return Sum.of((row.amount, str(row.line)) for row in of_them if not row.included)

    @property
    def network(self) -> Sum:
        """Switches, cables and optics."""
        return self.of(*NETWORK)

    @property
    def servers(self) -> Sum:
        """Servers and their adapters."""
        return self.of(*SERVERS)

    @property
    def total(self) -> Sum:
        """Everything."""
        return self.of()

    def priced(self, *kinds: PartKind) -> tuple[int, int]:
        """Return how many pieces of these kinds have a price, of how many; those that come with others do not count."""
        mine = [row for row in self.lines if (not kinds or row.line.kind in kinds) and not row.included]
        return sum(row.line.count for row in mine if not row.is_gap), sum(row.line.count for row in mine)

    @property
    def sums(self) -> str:
        """All sums in words; those of nothing are left out."""
        return ", ".join(f"{name} {self.told(name)}" for name, kinds in SUMS.items() if self.of(*kinds) != Sum())

    def told(self, what: str) -> str:
        """Return one of `SUMS` in words.

        It is "unknown" where half of the switches or of the servers or more have no price, as far as they belong to it:
        what is known would be read as the price of all.
        """
        amount, kinds = self.of(*SUMS[what]), SUMS[what]
        main = [self.priced(kind) for kind in kinds if kind in ("switch", "node")]
        return str(amount) if all(2 * priced > pieces for priced, pieces in main if pieces) else "unknown"

    @property
    def coverage(self) -> str:
        """How many pieces of each sum have a price, in words; empty where all have."""
        found = {name: self.priced(*kinds) for name, kinds in SUMS.items()}
        said = [f"{priced:,} of {pieces:,} ({name})" for name, (priced, pieces) in found.items() if priced < pieces]
        return f"parts with a price: {', '.join(said)}" if said else ""

    @property
    def gaps(self) -> tuple[str, ...]:
        """The parts without a price, each once with its count."""
        lacking: Counter[tuple[str, str]] = Counter()
        for row in self.lines:
            if row.is_gap:
                lacking[row.line.kind, row.line.item] += row.line.count
        return tuple(
            f"{count:,} x {item} ({kind}): no price in {self.unit}{NO_LENGTH if BARE_SPEED.fullmatch(item) else ''}"
            for (kind, item), count in lacking.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and the gaps as plain values: ``cost`` of ``plan.json``."""
        sums = {name: self.of(*kinds) for name, kinds in SUMS.items()}
        priced = {name: list(self.priced(*kinds)) for name, kinds in SUMS.items()}
        return {"unit": self.unit, **sums_to_dict(sums), "priced": priced, "gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table; amounts are empty where the price is unknown."""

        def each(row: PricedLine) -> str:
            return f"with the {row.included}" if row.included else "no price" if row.is_gap else str(row.unit_price)

        def text(amount: Range | None) -> str | None:
            return None if amount is None else str(amount)

        prices = ((each, "each", self.unit), (lambda row: text(row.amount), "all", self.unit))
        lacking = f"; no price for {plural(len(self.gaps), 'part')}" if self.gaps else ""
        total = self.told("total")  # where it is unknown, what is known of its parts
        title = f"cost: {self.sums if total == 'unknown' else total} {self.unit}{lacking}"
        return Table.of(title, self.lines, *LINE_COLUMNS, *prices, (lambda row: row.source or None, "source"))


def price_line(line: Line, catalog: Catalog, unit: str) -> PricedLine:
    """Look up one line of a bill in one currency."""
    comes_with = _comes_with(line, catalog, unit)
    model = catalog.cables.get(line.item)
    by_speed = str(model.speed) if model is not None and line.kind == "cable" else line.item
    price = None if comes_with else catalog.price(line.item, unit) or catalog.price(by_speed, unit)
    if price is None:
        return PricedLine(line, None, comes_with, "")
    source = "; ".join(cite(point.source, point.note) for point in price.points)
    return PricedLine(line, Range(price.low, price.high), "", source)


def _comes_with(line: Line, catalog: Catalog, unit: str) -> str:
    """Return the kind of the part whose price includes this line; empty for none."""
    if unit == UNITS and line.kind in ("cable", "fibre", "optic"):
        return "switch"
    if line.kind == "adapter" and line.place in catalog.nodes:
        included = unit == UNITS or catalog.nodes[line.place].adapters_included
        return "node" if included else ""
    return ""
