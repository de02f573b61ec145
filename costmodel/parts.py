"""Parts of a cluster: the lines of a bill, and their kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from topo.amounts import Range, Sum, listed
from topo.catalog.models import Source
from topo.table import Brief

PartKind = Literal["switch", "node", "adapter", "cable", "fibre", "optic", "rack"]
KINDS: tuple[PartKind, ...] = ("switch", "node", "adapter", "cable", "fibre", "optic", "rack")
NETWORK: tuple[PartKind, ...] = ("switch", "cable", "fibre", "optic")
SERVERS: tuple[PartKind, ...] = ("node", "adapter")
RACKS: tuple[PartKind, ...] = ("rack",)
SPARE = "spare"
"""Place of spare parts."""
UNKNOWN = "unknown"
"""Item of a part whose model is unknown."""


@dataclass(frozen=True)
class Line(Brief):
    """One line of a bill: equal parts at one kind of place.

    Examples
    --------
    >>> from costmodel import Line
    >>> print(Line("switch", "QM8700", 40, "leaf"))
    40 x QM8700 (switch, leaf)
    """

    kind: PartKind
    item: str
    """Model in the catalog; the speed of a cable of unknown length, such as ``4xHDR``."""
    count: int
    place: str
    """Role of a switch, of a server, or of the device that holds a transceiver; model of the server of an adapter;
    roles of the ends of a cable, such as ``leaf - spine``; ``spare``."""
    switches: tuple[str, ...] = ()
    """Models of the switches that the ends of a cable, or a transceiver, are in: one model for each such end."""

    def _brief(self) -> str:
        return str(self)

    def __str__(self) -> str:
        return f"{self.count:,} x {self.item} ({self.kind}, {self.place})"


LINE_COLUMNS = tuple((f"line.{name}", name) for name in ("kind", "item", "place", "count"))
"""First columns of a table of lines with their price or their power, for `Table.of`."""


def add_up(amounts: Iterable[tuple[Line, Range | float | None]]) -> Sum:
    """Add up amounts of lines; those of one item that have none are missing once, with their count.

    Where half of the switches or of the servers or more have no amount, the sum is mostly unknown: what is known of it
    would be read as that of all.

    >>> print(add_up([(Line("switch", "QM8700", 2, "leaf"), 6.0), (Line("switch", "QM9700", 2, "spine"), None)]))
    unknown
    """
    given = list(amounts)
    pieces, lacking = Counter[PartKind](), Counter[tuple[PartKind, str]]()
    for line, amount in given:
        pieces[line.kind] += line.count
        if amount is None:
            lacking[line.kind, line.item] += line.count
    found = Sum.of((amount, "") for _, amount in given)
    main: tuple[PartKind, ...] = ("switch", "node")
    mostly = any(0 < pieces[kind] <= 2 * sum(n for (of, _), n in lacking.items() if of == kind) for kind in main)
    return Sum(found.known, tuple(f"{n:,} x {item} ({kind})" for (kind, item), n in lacking.items()), mostly)


def asked(what: Mapping[PartKind, tuple[str, str]], lines: Iterable[Line], *, named: bool = True) -> str:
    """Say which figures a catalog lacks, by column and table, where ``named`` of which parts; empty for none.

    >>> asked({"node": ("power_max_w", "nodes.csv")}, [Line("node", "pcie-a100", 3, "compute")])
    '`power_max_w` of 3 x pcie-a100 in nodes.csv'
    """
    parts: dict[tuple[str, str], Counter[str]] = {}
    for line in sorted(lines, key=lambda line: line.kind != "node"):  # servers are dearest, and draw most
        if line.kind in what:
            parts.setdefault(what[line.kind], Counter())[line.item] += line.count
    each = [f"`{column}` {f'of {of} ' if named else ''}in {table}"
            for (column, table), found in parts.items()
            for of in [listed(f"{number:,} x {item}" for item, number in found.items())]]  # fmt: skip
    return ", and ".join(each)


def is_recalled(source: str) -> bool:
    """Return whether a source, as `cite` writes it, is a recollection that no text confirms."""
    return ", R]" in source


def recalled(what: str, cited: Iterable[tuple[Line, Range | None, str]], unit: str = "", scale: float = 1.0) -> str:
    """Say of which lines, each with the amount and source of a figure, no text confirms it; empty for none.

    What adds nothing is left out. With a ``unit`` it says how much of the sum these are, times ``scale``.
    """
    found = [
        (line, amount) for line, amount, source in cited if is_recalled(source) and (amount is None or amount.high)
    ]
    if not found:
        return ""
    known = sum((amount for _, amount in found if amount is not None), Range(0.0, 0.0)) * scale
    much = f"{known:,.{1 if scale < 1 else 0}f} {unit} of the " if unit else ""
    return f"{much}{what} recalled, confirmed in no text: {listed(list(dict.fromkeys(line.item for line, _ in found)))}"


def cite(source: Source, note: str = "") -> str:
    """Return a source as text, with date and confidence."""
    return f"{source.text}{f' ({note})' if note else ''} [{source.date}, {source.confidence}]"
