"""The cost of a bill in one currency: sums of price ranges, with the parts that have no price."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from costmodel.parts import KINDS, LINE_COLUMNS, NETWORK, RACKS, SERVERS, SPARE, Line, PartKind, add_up, asked, cite
from topo.amounts import Range, Sum, sums_to_dict
from topo.catalog.load import Catalog, series_of
from topo.catalog.models import CONFIDENCE, Price
from topo.catalog.tables import MODEL_NAME
from topo.errors import plural
from topo.speeds import is_link_speed, parse_link_speed
from topo.table import Shown, Table

UNITS = "units"
"""The relative units of Table III of An et al., "Fire-Flyer AI-HPC", SC'24. The price of a switch includes its links,
that of a node its adapters. The paper prints no unit prices; 3 units a switch is inferred from its totals: 350 / 122 =
2.87, 600 / 200 = 3.00 and 4,000 / 1,320 = 3.03."""

BARE_SPEED = re.compile(r" x \d+x[A-Z]+ \(cable\)$")
"""End of a part that is a cable of unknown length: its item is its speed."""
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
    """Kind of the part whose price includes this one: ``switch``, ``node``, or ``device``, whatever has a port for
    management; empty for a part with its own price."""
    source: str
    """Source of the price, with date and confidence."""
    note: str = ""
    """What the price holds: of a server its adapters, of an adapter perhaps nothing, as the server's may hold it."""

    @property
    def amount(self) -> Range | None:
        """Price of all parts of the line: count * unit price."""
        return None if self.unit_price is None else self.unit_price * self.line.count

    @property
    def is_gap(self) -> bool:
        """Whether the price is unknown, and missing in the total."""
        return self.unit_price is None and not self.included

    @property
    def origin(self) -> str:
        """What the price holds and where it comes from, or that there is none, in words."""
        source = f"comes with the {self.included}" if self.included else self.source or "no price known: a gap"
        return f"{self.note}: {source}" if self.note else source

    @property
    def trust(self) -> str:
        """How sure the price is: the marks of its sources (`topo.catalog.models.CONFIDENCE`)."""
        return ", ".join(dict.fromkeys(re.findall(r", ([\w-]+)\](?:;|$)", self.source)))

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain values."""
        price = self.unit_price and [self.unit_price.low, self.unit_price.high]
        return asdict(self.line) | {"unit_price": price, "included": self.included, "note": self.note}


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
    idle: tuple[str, ...] = ()
    """Prices of speeds that price none of the cables, each once in words."""

    def _brief(self) -> str:
        return self.table.title.removeprefix("cost: ")

    def of(self, *kinds: PartKind) -> Sum:
        """Return the sum of the lines of these kinds; of all lines when none is given."""
        of_them = (row for row in self.lines if not kinds or row.line.kind in kinds)
        return add_up((row.line, row.amount) for row in of_them if not row.included)

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
    def spares(self) -> Sum:
        """Spare parts, which are in the other sums."""
        return add_up((row.line, row.amount) for row in self.lines if row.line.place == SPARE and not row.included)

    def priced(self, *kinds: PartKind) -> tuple[int, int]:
        """Return how many pieces of these kinds have a price, of how many; those that come with others do not count."""
        mine = [row for row in self.lines if (not kinds or row.line.kind in kinds) and not row.included]
        return sum(row.line.count for row in mine if not row.is_gap), sum(row.line.count for row in mine)

    @property
    def sums(self) -> str:
        """All sums in words; those of nothing are left out."""
        found = {name: self.of(*kinds) for name, kinds in SUMS.items()}
        return ", ".join(f"{name} {amount}" for name, amount in found.items() if amount != Sum())

    @property
    def coverage(self) -> str:
        """How many pieces of each sum have a price, and which prices count nowhere; empty where all have and all do."""
        words = {"servers": "servers and adapters"}
        found = {words.get(name, name): self.priced(*kinds) for name, kinds in SUMS.items()}
        said = [f"{priced:,} of {pieces:,} ({name})" for name, (priced, pieces) in found.items() if priced < pieces]
        return "; ".join([*([f"parts with a price: {', '.join(said)}"] if said else []), *self.idle])

    @property
    def gaps(self) -> tuple[str, ...]:
        """The parts without a price, each once with its count."""
        return tuple(
            f"{part}: no price in {self.unit}{NO_LENGTH if BARE_SPEED.search(part) else ''}"
            for part in self.total.missing
        )

    @property
    def legend(self) -> str:
        """What the marks of trust in the table mean; empty where nothing has a price."""
        marks = dict.fromkeys(mark for row in self.lines for mark in row.trust.split(", ") if mark)
        return f"trust: {'; '.join(f'{mark} {CONFIDENCE[mark]}' for mark in marks)}" if marks else ""

    @property
    def asked(self) -> str:
        """Which figures would make the price known, by table and column: missing ones, else that of the widest range.

        Empty where nothing is missing, and no price is a range.
        """
        table = "prices.csv (`plan cost --skeleton` writes the rows)"
        wanted = asked(dict.fromkeys(KINDS, ("price", table)), (row.line for row in self.lines if row.is_gap))
        held = f"`adapters_included` of {', '.join(self.doubtful)} in nodes.csv" if self.doubtful else ""
        amounts = [(row.amount.high - row.amount.low, number) for number, row in enumerate(self.lines) if row.amount]
        width, number = max(amounts, default=(0.0, 0))
        wide = f"one price of {self.lines[number].line.item}, of which all cost {self.lines[number].amount}"
        return ", and ".join(filter(None, (wanted or (wide if width else ""), held)))

    @property
    def doubtful(self) -> tuple[str, ...]:
        """Models of servers whose price may hold their adapters or not, since `adapters_included` is unknown."""
        doubt = (row.line.place for row in self.lines if row.line.kind == "adapter" and row.note)
        return tuple(dict.fromkeys(doubt))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and the gaps as plain values: ``cost`` of ``plan.json``."""
        sums = {name: self.of(*kinds) for name, kinds in SUMS.items()}
        priced = {name: list(self.priced(*kinds)) for name, kinds in SUMS.items()}
        return {"unit": self.unit, **sums_to_dict(sums), "priced": priced, "gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table; amounts are empty where the price is unknown."""

        def each(row: PricedLine) -> str:
            price = f"with the {row.included}" if row.included else "no price"
            if one := row.unit_price:  # with its cents, or it would not make the amount
                price = f"{one:{',.2f' if one.low % 1 or one.high % 1 else ',.0f'}}"
            return f"{price}, {row.note}" if row.note else price

        prices = (
            (each, "each", self.unit),
            (lambda row: row.amount and str(row.amount), "all", self.unit),
            (lambda row: row.trust or None, "trust"),
        )
        lacking = f"; no price for {plural(len(self.gaps), 'kind')} of parts" if self.gaps else ""
        total = str(self.total)  # where it is unknown, what is known of its parts
        title = f"cost: {self.sums if total == 'unknown' else total} {self.unit}{lacking}"
        return Table.of(title, self.lines, *LINE_COLUMNS, *prices, (lambda row: row.source or None, "source"))


def price_gaps(cost: Cost) -> Table:
    """Return the rows of ``prices.csv`` that would price what has no price, to be filled in; a fibre by its series.

    Examples
    --------
    >>> import costmodel, topo
    >>> cost = costmodel.bill(topo.preset("dgx-b300-xdr")).price("USD")
    >>> [row[0] for row in costmodel.price_gaps(cost).rows()][:4]
    ['dgx-b300', 'MCA4K50-X001', 'MCA4K50-X01A', 'MFP7E30']
    """
    wanted: Counter[str] = Counter()
    for line in (row.line for row in cost.lines if row.is_gap and MODEL_NAME.fullmatch(row.line.item)):
        wanted[series_of(line.item) if line.kind == "fibre" else line.item] += line.count
    rows = [(name, cost.unit, "", "", f"{count} of them", "", "", "own") for name, count in wanted.items()]
    names = ("model", "currency", "low", "high", "note", "source", "date", "confidence")
    return Table.of_rows("prices to fill in", names, rows)


def price_lines(lines: Sequence[Line], catalog: Catalog, unit: str) -> tuple[PricedLine, ...]:
    """Look up the lines of a bill in one currency.

    Of the adapters of a server as many come with it as its price holds: those of its own model first. A line of which
    some come with the server, and some are bought, becomes two.
    """
    return tuple(row for line, held in zip(lines, _held(lines, catalog, unit), strict=True)
                 for row in _price_line(line, held, catalog, unit))  # fmt: skip


def _price_line(line: Line, held: int | None, catalog: Catalog, unit: str) -> Iterator[PricedLine]:
    """Yield the lines that one becomes, of which ``held`` pieces come with a server; None for unknown."""
    if unit == UNITS and line.kind in ("cable", "fibre", "optic"):
        yield PricedLine(line, None, "switch", "")
        return
    if held:
        yield PricedLine(replace(line, count=held), None, "node", "")
        line = replace(line, count=line.count - held)
    _, price = find_price(line, catalog, unit)
    if price is None:
        if line.count:
            managing = line.item in catalog.hcas and catalog.hcas[line.item].device == "bmc"
            yield PricedLine(line, None, "device" if managing else "", "")
        return
    source = "; ".join(cite(point.source, point.note) for point in price.points)
    if line.kind == "node" and line.item in catalog.nodes:
        number = catalog.nodes[line.item].adapters_included
        note = "adapters in it or not" if number is None else f"with {plural(number, 'adapter')}"
        yield PricedLine(line, Range(price.low, price.high), "", source, note)
    elif line.count:
        low, note = (0.0, "or with the node") if held is None else (price.low, "")
        yield PricedLine(line, Range(low, price.high), "", source, note)


def find_price(line: Line, catalog: Catalog, unit: str) -> tuple[str, Price | None]:
    """Return the price of a part with the name that has it: its own, of its series, or of the speed of a cable.

    The owner's price of a speed goes before one of the model that is not the owner's.
    """
    model = catalog.cables.get(line.item)
    names = [line.item] if model is None else [line.item, series_of(line.item)]
    found = next(((name, price) for name in names if (price := catalog.price(name, unit))), ("", None))
    speed = str(model.speed) if model is not None and line.kind == "cable" else ""
    price = catalog.price(speed, unit)
    return (speed, price) if price and (found[1] is None or (price.is_own and not found[1].is_own)) else found


def idle_prices(lines: Sequence[Line], catalog: Catalog, unit: str) -> tuple[str, ...]:
    """Return which prices of speeds price none of a bill's cables, in words: of their speeds, and of their generations.

    That of another generation is for other clusters: ``4xHDR`` beside cables of NDR.
    """
    cables = [line for line in lines if line.kind in ("cable", "optic")]
    models = ((line, catalog.cables.get(line.item)) for line in cables)
    speeds = {str(model.speed) if model else line.item for line, model in models}
    counted = {find_price(line, catalog, unit)[0] for line in cables}
    alike: dict[str, list[str]] = {}
    for speed in filter(is_link_speed, sorted(speeds)):
        alike.setdefault(parse_link_speed(speed).generation, []).append(speed)
    priced = [name for name in catalog.prices if is_link_speed(name) and catalog.price(name, unit)]
    return tuple(
        f"the price of {speed} counts nowhere: "
        + ("its cables have prices of their own, or are transceivers with fibres" if speed in speeds
           else f"the cables here are of {' and '.join(here)}")
        for speed in priced
        if speed not in counted and (here := alike.get(parse_link_speed(speed).generation))
    )  # fmt: skip


def _held(lines: Sequence[Line], catalog: Catalog, unit: str) -> list[int | None]:
    """Return how many pieces of each line come with the servers of the bill; None where the price may hold them or not.

    In the paper's units the price of a server holds its adapters, where its model does not say how many.
    """
    servers = Counter[str]()
    for line in lines:
        servers[line.item] += line.count if line.kind == "node" else 0
    found: list[int | None] = [0] * len(lines)
    left: dict[str, int] = {}
    mine = [at for at, line in enumerate(lines) if line.kind == "adapter" and line.place in catalog.nodes]

    def others_last(at: int) -> tuple[bool, bool]:
        model = catalog.nodes[lines[at].place]
        return lines[at].item != model.adapter_model, lines[at].item != model.storage_adapter_model

    for at in sorted(mine, key=others_last):
        line = lines[at]
        number = catalog.nodes[line.place].adapters_included
        if number is None:
            doubtful = servers[line.place] and catalog.price(line.place, unit)
            found[at] = line.count if unit == UNITS else None if doubtful else 0
        else:
            room = left.setdefault(line.place, number * servers[line.place])
            found[at] = min(line.count, room)
            left[line.place] -= min(line.count, room)
    return found
