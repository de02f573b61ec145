"""Parts of a cluster: the lines of a bill, and their kinds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from topo.amounts import listed
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


def recalled(what: str, rows: Iterable[Any]) -> str:
    """Say which rows, with a ``line`` and a ``source``, have a figure that no text confirms; empty for none."""
    items = dict.fromkeys(row.line.item for row in rows if ", R]" in row.source)
    return f"; {what} recalled, confirmed in no text: {listed(list(items))}" if items else ""


def cite(source: Source, note: str = "") -> str:
    """Return a source as text, with date and confidence."""
    return f"{source.text}{f' ({note})' if note else ''} [{source.date}, {source.confidence}]"
