"""The bill of materials: every part of a plan, counted from its fabrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from topo.catalog import Catalog
from topo.fabric import Fabric, Kind, Role
from topo.speeds import SPEEDS

__all__ = ["SERVER_ROLES", "Bill", "Line", "PartKind", "backplane", "make_bill"]

PartKind = Literal["switch", "node", "adapter", "cable", "optic", "rack"]
Part = tuple[PartKind, str, str]
"""Kind, item and place of a line."""
KINDS: tuple[PartKind, ...] = ("switch", "node", "adapter", "cable", "optic", "rack")
SERVER_ROLES = tuple(role.name.lower() for role in (Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT))
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


def make_bill(fabrics: Sequence[Fabric], catalog: Catalog) -> Bill:
    """Count the parts of all subnets; a server with adapters in several of them is one server.

    Chips of a frame switch are bought by the frame, and the links between them are its backplane. Cables are counted by
    speed and by what they connect; how long each is, and so which part, only a floor plan tells.
    """
    parts: Counter[Part] = Counter()
    servers: dict[str, tuple[str, str]] = {}
    for fabric in fabrics:
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
        parts.update(_cables(fabric, roles, backplane(fabric, catalog)))
    for model_name, role in servers.values():
        parts["node", model_name, role] += 1
    parts = _by_the_frame(parts, catalog)
    ordered = sorted(parts.items(), key=lambda part: (KINDS.index(part[0][0]), part[0][1], part[0][2]))
    return Bill(tuple(Line(kind, item, count, place) for (kind, item, place), count in ordered))


def backplane(fabric: Fabric, catalog: Catalog) -> NDArray[np.bool_]:
    """Return (L,) bool: links that need no cable, between the chips of one frame or to an aggregation node."""
    in_frame = np.array([name in catalog.switches and catalog.switches[name].chips > 1 for name in fabric.models], bool)
    framed = np.zeros(fabric.n_nodes, bool)
    known = fabric.model >= 0
    framed[known] = in_frame[fabric.model[known]]
    a, b = fabric.port_node[fabric.links].T
    same_frame = framed[a] & framed[b] & (fabric.model[a] == fabric.model[b]) & (fabric.zone[a] == fabric.zone[b])
    inside = (fabric.kind[a] == Kind.AGGREGATION) | (fabric.kind[b] == Kind.AGGREGATION)
    return np.asarray(same_frame | inside)


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


def _cables(fabric: Fabric, roles: Sequence[str], inside: NDArray[np.bool_]) -> Counter[Part]:
    """Count the cables of a fabric by speed and by the roles of their ends, the one nearer to the hosts first."""
    links = fabric.links[~inside]
    ends = fabric.port_node[links]
    ends = np.take_along_axis(ends, np.argsort(fabric.level[ends], axis=1, kind="stable"), axis=1)
    width = fabric.width[links].min(axis=1).tolist()
    speed = fabric.speed[links].min(axis=1).tolist()
    return Counter(
        ("cable", f"{lanes}x{SPEEDS[generation]}", f"{roles[low]} - {roles[high]}")
        for lanes, generation, (low, high) in zip(width, speed, ends.tolist(), strict=True)
    )
