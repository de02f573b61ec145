"""What a bill costs: sums of ranges, which name what has no price."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from costmodel.parts import NETWORK, SERVERS, Line, PartKind, cite, columns, line_columns
from topo.amounts import Range, Sum, sums_to_dict
from topo.catalog.load import Catalog
from topo.errors import plural
from topo.table import Shown, Table

UNITS = "units"
"""The relative units of Table III of An et al., "Fire-Flyer AI-HPC", SC'24. A switch in them comes with all its links
(350 / 122, 600 / 200 and 4,000 / 1,320 are 2.87, 3.00 and 3.03 a switch: inferred, the paper prints no price a piece),
a node with its adapters."""

BARE_SPEED = re.compile(r"\d+x[A-Z]+")
"""Item of a cable whose part is not known."""
NO_LENGTH = ", since its length is unknown without `floor:` in the spec"


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

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values."""
        price = self.unit_price and [self.unit_price.low, self.unit_price.high]
        return asdict(self.line) | {"unit_price": price, "included": self.included}


@dataclass(frozen=True)
class Cost(Shown):
    """A bill in one currency."""

    unit: str
    """Currency, or `UNITS`."""
    lines: tuple[PricedLine, ...]

    def _brief(self) -> str:
        return self.table.title.removeprefix("cost: ")

    def of(self, *kinds: PartKind) -> Sum:
        """Return the sum of the lines of some kinds; of all without any."""
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

    @property
    def gaps(self) -> tuple[str, ...]:
        """What the total lacks, each part once, in words."""
        lacking: Counter[tuple[str, str]] = Counter()
        for row in self.lines:
            if row.is_gap:
                lacking[row.line.kind, row.line.item] += row.line.count
        return tuple(
            f"{count:,} x {item} ({kind}): no price in {self.unit}{NO_LENGTH if BARE_SPEED.fullmatch(item) else ''}"
            for (kind, item), count in lacking.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and the gaps, as ``plan.json`` has them."""
        sums = {name: getattr(self, name) for name in ("network", "servers", "total")}
        return {"unit": self.unit, **sums_to_dict(sums), "gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table; amounts are empty where there is no price."""
        names = ("each", "all", "source")
        rows = (
            (
                f"with the {row.included}" if row.included else "no price" if row.is_gap else str(row.unit_price),
                None if row.amount is None else str(row.amount),
                row.source or None,
            )
            for row in self.lines
        )
        more = columns(names, rows, dict.fromkeys(names[:2], self.unit))
        lacking = f"; no price for {plural(len(self.gaps), 'part')}" if self.gaps else ""
        title = f"cost: {self.total} {self.unit}{lacking}"
        return Table(title, (*line_columns([row.line for row in self.lines]), *more))


def price_line(line: Line, catalog: Catalog, unit: str) -> PricedLine:
    """Look up one line of a bill in one currency."""
    comes_with = _comes_with(line, catalog, unit)
    price = None if comes_with else catalog.price(line.item, unit)
    if price is None:
        return PricedLine(line, None, comes_with, "")
    source = "; ".join(cite(point.source, point.note) for point in price.points)
    return PricedLine(line, Range(price.low, price.high), "", source)


def _comes_with(line: Line, catalog: Catalog, unit: str) -> str:
    """Return the kind of part whose price holds this line already, or nothing."""
    if unit == UNITS and line.kind in ("cable", "fibre", "optic"):
        return "switch"
    if line.kind == "adapter" and line.place in catalog.nodes:
        included = unit == UNITS or catalog.nodes[line.place].adapters_included
        return "node" if included else ""
    return ""
