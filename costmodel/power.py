"""The power of a cluster in W: servers, switches and the optics in their ports, typical and planned.

The power of a server is measured at the socket, and includes its adapters and the cable ends in them. The typical power
of a switch excludes optics, so each powered cable end in a switch is added; its maximum includes a full set of optics.
The planned power of a part is its maximum, or its typical power where the maximum is unknown.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.parts import LINE_COLUMNS, NETWORK, SERVER_ROLES, Line, cite
from topo.amounts import Sum, listed, sums_to_dict
from topo.catalog.load import Catalog
from topo.catalog.models import Source
from topo.table import Shown, Table


@dataclass(frozen=True)
class PowerLine:
    """A line of the bill with the power of one part; None is unknown."""

    line: Line
    typical_w: float | None
    max_w: float | None
    """For a cable without the ends that the maximum of a switch includes."""
    source: str

    @property
    def planned_w(self) -> float | None:
        """The maximum, or the typical power where the maximum is unknown."""
        return self.typical_w if self.max_w is None else self.max_w


@dataclass(frozen=True)
class Power(Shown):
    """The power of all parts in W; each sum lists the parts whose power is unknown.

    Examples
    --------
    >>> import costmodel, topo
    >>> power = costmodel.bill(topo.preset("lab-20")).power
    >>> print(power.network_w, power.servers_w, power.total_w, sep="; ")
    1,459; at least 41,400; at least 42,859
    """

    lines: tuple[PowerLine, ...]

    def _brief(self) -> str:
        return f"{self.total_w} W"

    def _typically(self, *, network: bool) -> Sum:
        of_them = (row for row in self.lines if (row.line.kind in NETWORK) == network)
        return Sum.of((_all(row.typical_w, row.line), str(row.line)) for row in of_them)

    @property
    def network_w(self) -> Sum:
        """Typical power of switches and the optics in them."""
        return self._typically(network=True)

    @property
    def servers_w(self) -> Sum:
        """Typical power of servers."""
        return self._typically(network=False)

    @property
    def total_w(self) -> Sum:
        """Typical power of all parts."""
        return self.network_w + self.servers_w

    @property
    def planned_w(self) -> Sum:
        """Planned power of all parts: the maximum of each, or its typical power where that is unknown."""
        return Sum.of((_all(row.planned_w, row.line), str(row.line)) for row in self.lines)

    @property
    def by_typical(self) -> tuple[str, ...]:
        """Parts whose maximum is unknown, so that their typical power is planned."""
        return tuple(str(row.line) for row in self.lines if row.max_w is None and row.typical_w is not None)

    @property
    def basis(self) -> str:
        """Whether the planned power is the maximum of all parts, or the typical power of some, in words."""
        if not self.by_typical:
            return "at maximum power"
        return f"at maximum power; typical power (the maximum is unknown) of {listed(self.by_typical)}"

    @property
    def gaps(self) -> tuple[str, ...]:
        """The parts whose power is unknown, in words."""
        words = {(True, True): "", (True, False): "typical ", (False, True): "maximum "}
        unknown = ((row.line, (row.typical_w is None, row.max_w is None)) for row in self.lines)
        return tuple(f"{line}: {words[which]}power unknown" for line, which in unknown if any(which))

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and gaps as plain values: ``power`` of ``plan.json``."""
        names = ("network_w", "servers_w", "total_w", "planned_w")
        sums = {name: getattr(self, name) for name in names}
        return {**sums_to_dict(sums), "planned_by_typical": list(self.by_typical), "gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table."""
        title = f"power: {self.planned_w} W planned {self.basis}"
        each = (("typical_w", "each, typically", "W"), ("max_w", "each, at most", "W"))
        return Table.of(title, self.lines, *LINE_COLUMNS, *each, "source")


def power_lines(lines: Sequence[Line], catalog: Catalog) -> tuple[PowerLine, ...]:
    """Look up the power of the lines of a bill; parts without power of their own are omitted."""
    boxes = [_box(line, catalog) for line in lines if line.kind in ("switch", "node")]
    known = {row.line.place for row in boxes if row.line.kind == "switch"}
    known -= {row.line.place for row in boxes if row.line.kind == "switch" and row.max_w is None}
    return (*boxes, *(_cable(line, catalog, known) for line in lines if line.kind in ("cable", "optic")))


def _all(watts: float | None, line: Line) -> float | None:
    return None if watts is None else watts * line.count


def _box(line: Line, catalog: Catalog) -> PowerLine:
    model = (catalog.switches if line.kind == "switch" else catalog.nodes).get(line.item)
    if model is None:
        return PowerLine(line, None, None, "")
    sources = [model.sources[name] for name in ("power_typical_w", "power_max_w") if name in model.sources]
    return PowerLine(line, model.power_typical_w, model.power_max_w, "; ".join(dict.fromkeys(map(cite, sources))))


def _cable(line: Line, catalog: Catalog, included: Collection[str]) -> PowerLine:
    """Look up the power of the ends of a cable that are in switches.

    ``included`` are the roles of switches whose maximum is known: it includes their optics.
    """
    roles = [role for role in line.place.split(" - ") if role not in SERVER_ROLES]
    apart = sum(role not in included for role in roles)
    known = end_power(line.item, catalog)
    if known is None:
        return PowerLine(line, None if roles else 0.0, None if apart else 0.0, "")
    watts, source = known
    note = "" if line.item in catalog.cables else "taken to be optical: "
    return PowerLine(line, len(roles) * watts, apart * watts, note + cite(source))


def end_power(item: str, catalog: Catalog) -> tuple[float, Source] | None:
    """Return the power of one end of a cable in W, with its source; None if unknown.

    ``item`` is a model, or a speed such as ``4xHDR``, for which the optical cable with the highest power is taken.
    """
    model = catalog.cables.get(item)
    optical = (cable for cable in catalog.cables.values() if cable.kind == "AOC" and str(cable.speed) == item)
    candidates = [model] if model else optical
    known = [(cable.power_end_w, cable.sources["power_end_w"]) for cable in candidates if cable.power_end_w is not None]
    return max(known, key=lambda pair: pair[0], default=None)
