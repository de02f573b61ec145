"""Parts of a cluster: lines of a bill, and the kinds that they are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from topo.catalog.models import Source
from topo.fabric import Role
from topo.table import Column

PartKind = Literal["switch", "node", "adapter", "cable", "fibre", "optic", "rack"]
KINDS: tuple[PartKind, ...] = ("switch", "node", "adapter", "cable", "fibre", "optic", "rack")
NETWORK: tuple[PartKind, ...] = ("switch", "cable", "fibre", "optic")
SERVERS: tuple[PartKind, ...] = ("node", "adapter")
SERVER_ROLES = tuple(role.name.lower() for role in (Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT))
SPARE = "spare"
"""Place of parts that are bought and not used yet."""
UNKNOWN = "unknown"
"""Item of a part whose model the fabric does not tell."""


@dataclass(frozen=True)
class Line:
    """One row of the bill."""

    kind: PartKind
    item: str
    """Model in the catalog; of a cable whose length is not known yet, its speed, such as ``4xHDR``."""
    count: int
    place: str
    """Where it goes: a switch, a server or a transceiver in one by its role, an adapter by its server's model, a cable
    by the roles of its ends."""

    def __str__(self) -> str:
        return f"{self.count:,} x {self.item} ({self.kind}, {self.place})"


def line_columns(lines: Sequence[Line]) -> tuple[Column, ...]:
    """Return the columns that every table of parts begins with."""
    return tuple(Column(name, [getattr(line, name) for line in lines]) for name in ("kind", "item", "place", "count"))


def columns(
    names: Sequence[str],
    rows: Iterable[Sequence[Any]],
    units: dict[str, str] | None = None,
    digits: dict[str, str] | None = None,
) -> list[Column]:
    """Return the columns of rows of values, with the units and formats of some."""
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    return [
        Column(name, each, (units or {}).get(name, ""), (digits or {}).get(name, ""))
        for name, each in zip(names, values, strict=True)
    ]


def cite(source: Source, note: str = "") -> str:
    """Return a source as text, with its date and confidence."""
    return f"{source.text}{f' ({note})' if note else ''} [{source.date}, {source.confidence}]"
