"""What a plan draws: servers, switches and the optics in their ports, typically and at most.

A server's figure holds its adapters and their ends of the cables: it is measured at the socket. A switch's typical
figure is without optics, so the powered end of each cable that sits in a switch is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.bill import SERVER_ROLES, SPARE, Bill, Line, PartKind
from topo.formats.catalog_csv import Source
from topo.hardware.catalog import Catalog
from topo.hardware.models import CableModel, HardwareModel

NETWORK: tuple[PartKind, ...] = ("switch", "cable", "fibre", "optic")


@dataclass(frozen=True)
class PowerLine:
    """A line of the bill and what one piece of it draws; None is unknown."""

    line: Line
    typical_w: float | None
    max_w: float | None
    source: str


@dataclass(frozen=True)
class Power:
    """What all parts draw together. Sums hold what is known; `gaps` names the rest."""

    lines: tuple[PowerLine, ...]

    @property
    def network_w(self) -> float:
        """Switches and their optics, typically."""
        return sum(row.line.count * (row.typical_w or 0.0) for row in self.lines if row.line.kind in NETWORK)

    @property
    def servers_w(self) -> float:
        """Servers, typically."""
        return sum(row.line.count * (row.typical_w or 0.0) for row in self.lines if row.line.kind not in NETWORK)

    @property
    def total_w(self) -> float:
        """Everything, typically."""
        return self.network_w + self.servers_w

    @property
    def max_w(self) -> float | None:
        """Everything, at most; None where that of any part is unknown."""
        known = [row.line.count * row.max_w for row in self.lines if row.max_w is not None]
        return sum(known) if len(known) == len(self.lines) else None

    @property
    def gaps(self) -> tuple[str, ...]:
        """What the sums lack, in words."""
        return tuple(
            f"{row.line.count:,} x {row.line.item} ({row.line.kind}, {row.line.place}): {what} power unknown"
            for row in self.lines
            for what, watts in (("typical", row.typical_w), ("maximal", row.max_w))
            if watts is None
        )

    def to_json(self) -> dict[str, Any]:
        """Return the figures of ``plan.json``."""
        return {
            "network_w": self.network_w,
            "servers_w": self.servers_w,
            "total_w": self.total_w,
            "max_w": self.max_w,
            "gaps": list(self.gaps),
        }


def power_of(bill: Bill, catalog: Catalog) -> Power:
    """Look up what each line of a bill draws; spare parts lie on a shelf.

    A cable whose length is not known yet is taken to be optical, since copper ends at 2 m: each of its ends in a switch
    draws what the thirstiest optical cable of its speed does.
    """
    lines = []
    for line in bill.lines:
        if line.place == SPARE:
            continue
        if line.kind == "switch":
            lines.append(_of_model(line, catalog.switches))
        elif line.kind == "node":
            lines.append(_of_model(line, catalog.nodes))
        elif line.kind in ("cable", "optic"):
            lines.append(_of_cable(line, catalog))
    return Power(tuple(lines))


def _of_model(line: Line, models: Mapping[str, HardwareModel]) -> PowerLine:
    model = models.get(line.item)
    if model is None:
        return PowerLine(line, None, None, "")
    typical, most = getattr(model, "power_typical_w", None), getattr(model, "power_max_w", None)
    cited = dict.fromkeys(
        _cite(model.sources[name]) for name in ("power_typical_w", "power_max_w") if name in model.sources
    )
    return PowerLine(line, typical, most, "; ".join(cited))


def _of_cable(line: Line, catalog: Catalog) -> PowerLine:
    ends = sum(role not in SERVER_ROLES for role in line.place.split(" - "))
    model = catalog.cables.get(line.item)
    candidates = [model] if model else _optical(line.item, catalog)
    known = [(cable.power_end_w, cable.sources["power_end_w"]) for cable in candidates if cable.power_end_w is not None]
    if not known:
        return PowerLine(line, None, None, "")
    watts, source = max(known, key=lambda pair: pair[0])
    if line.kind == "optic":  # two a link, of which those in servers are in the servers' power
        watts /= 2
    note = "" if model else "taken to be optical: "
    # The most that a switch draws holds its optics already.
    return PowerLine(line, ends * watts, 0.0, note + _cite(source))


def _optical(speed: str, catalog: Catalog) -> list[CableModel]:
    return [model for model in catalog.cables.values() if model.kind == "AOC" and str(model.speed) == speed]


def _cite(source: Source) -> str:
    return f"{source.text} [{source.date}, {source.confidence}]"
