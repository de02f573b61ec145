"""The power of a cluster in W: servers, switches and the optics in their ports, typical and planned.

The power of a server is measured at the socket, and includes its adapters and the cable ends in them. The typical power
of a switch excludes optics, so each powered cable end in a switch is added, at its one figure, which is its maximum
where a source tells; the maximum of a switch includes a full set of optics.
The planned power is the sum of the maxima. A part whose maximum is unknown draws at least its typical power, so the sum
is then known from below only, and no limit is known to hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from costmodel.parts import LINE_COLUMNS, NETWORK, SERVERS, Line, PartKind, add_up, asked, cite, is_recalled, recalled
from topo.amounts import Range, Sum, listed, sums_to_dict
from topo.catalog.load import Catalog
from topo.catalog.models import Source
from topo.table import Shown, Table


@dataclass(frozen=True)
class PowerLine:
    """A line of the bill with the power of one part; None is unknown."""

    line: Line
    typical_w: float | None
    max_w: float | None
    most_w: float | None
    """What it adds to the maximum of the cluster: `max_w`, less the ends that the maximum of a switch includes."""
    typical_source: str
    max_source: str

    @property
    def source(self) -> str:
        """Sources of both figures, with date and confidence."""
        return "; ".join(dict.fromkeys(filter(None, (self.typical_source, self.max_source))))


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

    def of(self, *kinds: PartKind, most: bool = False) -> Sum:
        """Return the typical power of these kinds of parts in W, or their maximum; of all parts when none is given."""
        of_them = (row for row in self.lines if not kinds or row.line.kind in kinds)
        return add_up((row.line, _range(row.most_w if most else row.typical_w, row.line)) for row in of_them)

    @property
    def network_w(self) -> Sum:
        """Typical power of switches and the optics in them."""
        return self.of(*NETWORK)

    @property
    def servers_w(self) -> Sum:
        """Typical power of servers."""
        return self.of(*SERVERS)

    @property
    def total_w(self) -> Sum:
        """Typical power of all parts."""
        return self.of()

    def told(self, *, most: bool = False) -> str:
        """Return the power of the network, of the servers and of both in kW, typically or at most, in words."""
        named = {"network": NETWORK, "servers": SERVERS, "total": ()}
        return f"{', '.join(f'{name} {self.of(*kinds, most=most) * 1e-3:,.1f}' for name, kinds in named.items())} kW"

    @property
    def optics_note(self) -> str:
        """Says that the typical power has cable ends at their maximum; empty where none draws any."""
        ends = self.of("cable", "optic").known
        return "cable ends in switches at their maximum" if ends and ends.high else ""

    @property
    def planned_w(self) -> Sum:
        """Maximum power of all parts. One of unknown maximum counts its typical power, and makes this "at least"."""
        allowed = ((row.line, row.typical_w if row.most_w is None else row.most_w) for row in self.lines)
        planned = add_up((line, _range(watts, line)) for line, watts in allowed)
        return replace(planned, missing=planned.missing + self.by_typical)

    @property
    def bounded_w(self) -> Sum:
        """Typical power of all parts in bounds: where it is unknown, from 0 to the maximum.

        Examples
        --------
        >>> import costmodel, topo
        >>> power = costmodel.bill(topo.preset("lab-20")).power  # two servers are known by their maximum only
        >>> print(power.total_w, power.bounded_w, sep="; ")
        at least 42,859; 42,859 to 44,459
        """
        return add_up((row.line, _bounds(row)) for row in self.lines)

    @property
    def by_typical(self) -> tuple[str, ...]:
        """Parts whose maximum is unknown, so that their typical power is counted."""
        unknown = (row.line for row in self.lines if row.most_w is None and row.typical_w is not None)
        return add_up((line, None) for line in unknown).missing

    def recalled(self, *kinds: PartKind, typical: bool) -> str:
        """Say of which of these parts, of all when none is given, the figure that a limit counts is recalled.

        Of all parts it says how many kW these come to.
        """
        rows = [row for row in self.lines if not kinds or row.line.kind in kinds]
        mean = [row.typical_w is not None if typical else row.most_w is None for row in rows]
        cited = ((row.line, _range(row.typical_w if its else row.most_w, row.line),
                  row.typical_source if its else row.max_source)
                 for row, its in zip(rows, mean, strict=True))  # fmt: skip
        return recalled("power", cited, "" if kinds else "kW", 1e-3)

    @property
    def cautious_w(self) -> Sum:
        """Typical power of all parts, of those where it is recalled the maximum: unknown where that is recalled too."""
        return add_up(
            (row.line, _range(None if is_recalled(row.max_source) else row.most_w, row.line)
             if is_recalled(row.typical_source) else _bounds(row))
            for row in self.lines
        )  # fmt: skip

    def asked(self, *, typical: bool, named: bool = True) -> str:
        """Return which figures (where ``named``, of which parts) would make the typical power known, or the maximum."""
        name = "power_typical_w" if typical else "power_max_w"
        end = ("power_end_w", "cables.csv")
        lines = (row.line for row in self.lines if (row.typical_w if typical else row.most_w) is None)
        return asked({"switch": (name, "switches.csv"), "node": (name, "nodes.csv"), "cable": end, "optic": end}, lines,
                     named=named)  # fmt: skip

    @property
    def basis(self) -> str:
        """What the planned power counts: the maximum of all parts, or the typical power of some, in words."""
        if not self.by_typical:
            return "at maximum power"
        return f"at maximum power, typical power where the maximum is unknown: {listed(self.by_typical)}"

    @property
    def gaps(self) -> tuple[str, ...]:
        """The parts whose power is unknown, in words."""
        words = {(True, True): "", (True, False): "typical ", (False, True): "maximum "}
        unknown = [(row.line, (row.typical_w is None, row.most_w is None)) for row in self.lines]
        return tuple(
            f"{part}: {word}power unknown"
            for which, word in words.items()
            for part in add_up((line, None) for line, found in unknown if found == which).missing
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the sums and gaps as plain values: ``power`` of ``plan.json``."""
        names = ("network_w", "servers_w", "total_w", "planned_w")
        sums = {name: getattr(self, name) for name in names}
        sums |= {"network_max_w": self.of(*NETWORK, most=True), "servers_max_w": self.of(*SERVERS, most=True)}
        return {**sums_to_dict(sums), "planned_by_typical": list(self.by_typical), "gaps": list(self.gaps)}

    @property
    def table(self) -> Table:
        """The lines as a table."""
        title = f"power: {self.planned_w} W planned {self.basis}"
        each = (
            ("typical_w", "each, typically", "W"),
            ("max_w", "each, at most", "W"),
            ("most_w", "each, in the maximum of all", "W"),
        )
        return Table.of(title, self.lines, *LINE_COLUMNS, *each, "source")


def power_lines(lines: Sequence[Line], catalog: Catalog) -> tuple[PowerLine, ...]:
    """Look up the power of the lines of a bill; parts without power of their own are omitted."""
    boxes = [_box(line, catalog) for line in lines if line.kind in ("switch", "node")]
    return (*boxes, *(_cable(line, catalog) for line in lines if line.kind in ("cable", "optic")))


def _range(watts: float | None, line: Line) -> Range | None:
    """Return the power of all pieces of a line, None where it is unknown."""
    return None if watts is None else Range(watts * line.count, watts * line.count)


def _bounds(row: PowerLine) -> Range | None:
    if row.typical_w is None and row.max_w is not None:
        return Range(0.0, row.max_w * row.line.count)
    return _range(row.typical_w, row.line)


def _box(line: Line, catalog: Catalog) -> PowerLine:
    model = (catalog.switches if line.kind == "switch" else catalog.nodes).get(line.item)
    if model is None:
        return PowerLine(line, None, None, None, "", "")
    said = (cite(model.sources[name]) if name in model.sources else "" for name in ("power_typical_w", "power_max_w"))
    return PowerLine(line, model.power_typical_w, model.power_max_w, model.power_max_w, *said)


def _cable(line: Line, catalog: Catalog) -> PowerLine:
    """Look up the power of the ends of a cable that are in switches; that of a transceiver there is one end."""
    switches = [catalog.switches.get(name) for name in line.switches]
    apart = sum(switch is None or switch.power_max_w is None for switch in switches)
    known = end_power(line.item, catalog)
    if not switches:
        return PowerLine(line, 0.0, 0.0, 0.0, *["in the power of the server"] * 2)
    if known is None:
        return PowerLine(line, None, None, None if apart else 0.0, "", "" if apart else "in the maximum of the switch")
    watts, source = known
    note = "" if line.item in catalog.cables else "taken to be optical: "
    ends = f"; {len(switches)} ends" if len(switches) > 1 else ""
    inside = "" if apart else "; in the maximum of the switch"
    each = len(switches) * watts
    return PowerLine(line, each, each, apart * watts, *[f"{note}{cite(source)}{ends}{inside}"] * 2)


def end_power(item: str, catalog: Catalog) -> tuple[float, Source] | None:
    """Return the power of one end of a cable in W, with its source; None if unknown.

    ``item`` is a model, or a speed such as ``4xHDR``, for which the optical cable with the highest power is taken.
    """
    model = catalog.cables.get(item)
    optical = (cable for cable in catalog.cables.values() if cable.kind == "AOC" and str(cable.speed) == item)
    candidates = [model] if model else optical
    known = [(cable.power_end_w, cable.sources["power_end_w"]) for cable in candidates if cable.power_end_w is not None]
    return max(known, key=lambda pair: pair[0], default=None)
