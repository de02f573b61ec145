"""What a cluster draws: servers, switches and the optics in their ports, typically and at most.

A server's figure holds its adapters and their ends of the cables: it is measured at the socket. A switch's typical
figure is without optics, so the powered end of each cable that sits in a switch is added.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from costmodel.parts import NETWORK, SERVER_ROLES, Line, cite, columns, line_columns
from topo.hardware.catalog import Catalog
from topo.table import Shown, Table


@dataclass(frozen=True)
class PowerLine:
    """A line of the bill and what one piece of it draws; None is unknown."""

    line: Line
    typical_w: float | None
    max_w: float | None
    source: str


@dataclass(frozen=True)
class Power(Shown):
    """What all parts draw together. Sums hold what is known; `gaps` names the rest."""

    lines: tuple[PowerLine, ...]

    def _brief(self) -> str:
        return f"{self.total_w:,.0f} W"

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
            f"{row.line}: {what} power unknown"
            for row in self.lines
            for what, watts in (("typical", row.typical_w), ("maximal", row.max_w))
            if watts is None
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and gaps as plain values, as ``plan.json`` has them."""
        names = ("network_w", "servers_w", "total_w", "max_w")
        return {name: getattr(self, name) for name in names} | {"gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table."""
        # What cables draw at most is in the most of their switches: no figure of their own, which is not 0.
        rows = ((row.typical_w, row.max_w or None, row.source) for row in self.lines)
        units = {"each, typically": "W", "each, at most": "W"}
        more = columns(("each, typically", "each, at most", "source"), rows, units)
        return Table("power", (*line_columns([row.line for row in self.lines]), *more))


def power_line(line: Line, catalog: Catalog) -> PowerLine | None:
    """Look up what a line of a bill draws; None for parts that draw nothing of their own."""
    if line.kind in ("cable", "optic"):
        return _cable(line, catalog)
    if line.kind not in ("switch", "node"):
        return None
    model = (catalog.switches if line.kind == "switch" else catalog.nodes).get(line.item)
    if model is None:
        return PowerLine(line, None, None, "")
    sources = [model.sources[name] for name in ("power_typical_w", "power_max_w") if name in model.sources]
    return PowerLine(line, model.power_typical_w, model.power_max_w, "; ".join(dict.fromkeys(map(cite, sources))))


def _cable(line: Line, catalog: Catalog) -> PowerLine:
    ends = sum(role not in SERVER_ROLES for role in line.place.split(" - "))
    model = catalog.cables.get(line.item)
    optical = (cable for cable in catalog.cables.values() if cable.kind == "AOC" and str(cable.speed) == line.item)
    candidates = [model] if model else optical
    known = [(cable.power_end_w, cable.sources["power_end_w"]) for cable in candidates if cable.power_end_w is not None]
    if not known:
        return PowerLine(line, None, None, "")
    watts, source = max(known, key=lambda pair: pair[0])
    note = "" if model else "taken to be optical: "
    # The most that a switch draws holds its optics already.
    return PowerLine(line, ends * watts, 0.0, note + cite(source))
