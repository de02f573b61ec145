"""The bill of materials: every part of a plan, counted from its fabrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Kind, Role
from topo.hardware.catalog import Catalog
from topo.hardware.speeds import SPEEDS
from topo.room.cables import Cabling, backplane
from topo.room.racks import Layout
from topo.spec.purchase import Spares

PartKind = Literal["switch", "node", "adapter", "cable", "fibre", "optic", "rack"]
Part = tuple[PartKind, str, str]
"""Kind, item and place of a line."""
KINDS: tuple[PartKind, ...] = ("switch", "node", "adapter", "cable", "fibre", "optic", "rack")
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
    """Where it goes: a switch or server by its role, an adapter by its server's model, a cable by its ends' roles."""


@dataclass(frozen=True)
class Bill:
    """All parts, each line with its count; totals are computed, never stored."""

    lines: tuple[Line, ...]

    def of(self, kind: PartKind) -> tuple[Line, ...]:
        """Lines of one kind."""
        return tuple(line for line in self.lines if line.kind == kind)

    def count(self, kind: PartKind) -> int:
        """Pieces of one kind."""
        return sum(line.count for line in self.of(kind))


def make_bill(
    fabrics: Sequence[Fabric],
    catalog: Catalog,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
) -> Bill:
    """Count the parts of all subnets; a server with adapters in several of them is one server.

    Chips of a frame switch are bought by the frame, and the links between them are its backplane. Without a layout and
    its cablings, cables are counted by speed: how long each is, and so which part, only a floor plan tells.
    """
    parts: Counter[Part] = Counter()
    servers: dict[str, tuple[str, str]] = {}
    for subnet, fabric in enumerate(fabrics):
        roles = [Role(role).name.lower() for role in fabric.role.tolist()]
        models = [fabric.models[model] if model >= 0 else UNKNOWN for model in fabric.model.tolist()]
        for node in range(fabric.n_nodes):
            if fabric.kind[node] == Kind.SWITCH:
                parts["switch", models[node], roles[node]] += 1
            elif fabric.kind[node] == Kind.HCA:
                host = int(fabric.host[node])
                model = int(fabric.host_model[host]) if host >= 0 else -1
                server = fabric.models[model] if model >= 0 else UNKNOWN
                parts["adapter", models[node], server] += 1
                if host >= 0:
                    servers[fabric.hosts[host]] = (server, roles[node])
        if cablings is None:
            parts.update(_links_by_speed(fabric, roles, ~backplane(fabric, catalog)))
        else:
            parts.update(_cables(fabric, roles, cablings[subnet]))
    for model_name, role in servers.values():
        parts["node", model_name, role] += 1
    parts = _by_the_frame(parts, catalog)
    if layout is not None:
        parts["rack", f"rack of {layout.floor.rack_units} units", "room"] = layout.n_racks
        parts["rack", "power distribution unit", "two a rack, one a feed"] = 2 * layout.n_racks
    ordered = sorted(parts.items(), key=lambda part: (KINDS.index(part[0][0]), part[0][1], part[0][2]))
    return Bill(tuple(Line(kind, item, count, place) for (kind, item, place), count in ordered))


def with_spares(bill: Bill, spares: Spares) -> Bill:
    """Add spare parts, each item's share of those in use rounded up."""
    share = {"switch": spares.switches, "adapter": spares.adapters}
    share |= dict.fromkeys(("cable", "fibre", "optic"), spares.cables)
    in_use: Counter[tuple[PartKind, str]] = Counter()
    for line in bill.lines:
        if share.get(line.kind):
            in_use[line.kind, line.item] += line.count
    # 7 % of 100 is 7.000000000000001 in binary; nobody means an eighth.
    extra = [
        Line(kind, item, ceil(round(count * share[kind], 9)), SPARE) for (kind, item), count in sorted(in_use.items())
    ]
    return Bill((*bill.lines, *extra))


def _by_the_frame(parts: Counter[Part], catalog: Catalog) -> Counter[Part]:
    """Put whole frames in place of their chips."""
    chips: Counter[str] = Counter()
    result: Counter[Part] = Counter()
    for (kind, item, place), count in parts.items():
        if kind == "switch" and item in catalog.switches and catalog.switches[item].chips > 1:
            chips[item] += count
        else:
            result[kind, item, place] = count
    for item, count in chips.items():
        result["switch", item, "frame"] = -(-count // catalog.switches[item].chips)
    return result


def _link_places(fabric: Fabric, roles: Sequence[str]) -> list[str]:
    """Name what each link connects, the end nearer to the hosts first: ``leaf - spine``."""
    ends = fabric.port_node[fabric.links]
    ends = np.take_along_axis(ends, np.argsort(fabric.level[ends], axis=1, kind="stable"), axis=1)
    return [f"{roles[low]} - {roles[high]}" for low, high in ends.tolist()]


def _links_by_speed(fabric: Fabric, roles: Sequence[str], is_cable: NDArray[np.bool_]) -> Counter[Part]:
    places = _link_places(fabric, roles)
    width = fabric.width[fabric.links].min(axis=1).tolist()
    speed = fabric.speed[fabric.links].min(axis=1).tolist()
    return Counter(
        ("cable", f"{width[link]}x{SPEEDS[speed[link]]}", places[link]) for link in np.flatnonzero(is_cable).tolist()
    )


def _cables(fabric: Fabric, roles: Sequence[str], cabling: Cabling) -> Counter[Part]:
    parts: Counter[Part] = Counter()
    counted: set[int] = set()
    for place, index, cable in zip(
        _link_places(fabric, roles), cabling.part.tolist(), cabling.cable.tolist(), strict=True
    ):
        if index >= 0 and cable not in counted:  # the second leg of a splitter is in a cable that was counted
            counted.add(cable)
            part = cabling.parts[index]
            if part.kind == "fibre":
                parts["fibre", f"{part.item}, {part.length_m:g} m", place] += 1
                parts["optic", part.optic, place] += 2
            else:
                parts["cable", part.item, place] += 1
    return parts
