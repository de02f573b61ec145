"""Which cable each link takes: copper as far as it is made, then active optical, then transceivers and fibre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.errors import DesignError
from topo.fabric import Fabric, Kind, frozen
from topo.hardware.catalog import Catalog
from topo.hardware.models import HcaModel, SwitchModel
from topo.hardware.speeds import SPEEDS, LinkSpeed, slower
from topo.room.racks import Layout, route_lengths
from topo.table import Column, Shown, Table

ROUND_TO_M = 5
"""Fibre is ordered in steps of this length."""


@dataclass(frozen=True)
class CablePart:
    """What one link takes: a cable with both ends, or a fibre between two transceivers."""

    kind: str
    """``DAC``, ``AOC``, ``fibre``, ``AOC-splitter`` and the like, or ``unknown`` where the catalog has nothing."""
    item: str
    """Model of the cable, or a description of the fibre; the speed where nothing is known."""
    length_m: float | None
    optic: str = ""
    """Model of the transceiver at each end of a fibre."""


@dataclass(frozen=True)
class Cabling(Shown):
    """The cables of one subnet. L links."""

    parts: tuple[CablePart, ...]
    part: NDArray[np.int32]
    """(L,) index into `parts` of each link, -1 for links that need no cable."""
    cable: NDArray[np.int32]
    """(L,) number of the cable that each link is in, -1 likewise; the two legs of a splitter are in the same one."""
    route_m: NDArray[np.float64]
    """(L,) length that each link needs."""

    def to_dict(self) -> dict[str, Any]:
        """Return the parts with their counts as plain values."""
        return self.table.to_dict()

    @property
    def table(self) -> Table:
        """The parts, and how many cables and links are of each."""
        cables = [len(set(self.cable[self.part == part].tolist())) for part in range(len(self.parts))]
        return Table(
            "cables",
            (
                Column("kind", [part.kind for part in self.parts]),
                Column("item", [part.item for part in self.parts]),
                Column("length", [part.length_m for part in self.parts], "m"),
                Column("transceiver", [part.optic or None for part in self.parts]),
                Column("cables", cables),
                Column("links", np.bincount(self.part[self.part >= 0], minlength=len(self.parts)).tolist()),
            ),
        )


def backplane(fabric: Fabric, catalog: Catalog) -> NDArray[np.bool_]:
    """Return (L,) bool: links that need no cable, between the chips of one frame or to an aggregation node.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("fire-flyer-2-frames")
    >>> int(topo.backplane(cluster.fabric, cluster.catalog).sum())
    1600
    """
    in_frame = np.array([name in catalog.switches and catalog.switches[name].chips > 1 for name in fabric.models], bool)
    framed = np.zeros(fabric.n_nodes, bool)
    known = fabric.model >= 0
    framed[known] = in_frame[fabric.model[known]]
    a, b = fabric.port_node[fabric.links].T
    same_frame = framed[a] & framed[b] & (fabric.model[a] == fabric.model[b]) & (fabric.zone[a] == fabric.zone[b])
    inside = (fabric.kind[a] == Kind.AGGREGATION) | (fabric.kind[b] == Kind.AGGREGATION)
    return np.asarray(same_frame | inside)


def choose_cables(fabrics: Sequence[Fabric], layout: Layout, catalog: Catalog) -> tuple[Cabling, ...]:
    """Choose the shortest cable that reaches for every link of all subnets, copper before optical.

    Raises
    ------
    DesignError
        When a link is longer than any cable or transceiver of its speed and connectors reaches; the message names it.
    """
    offers = cache(partial(_offers, catalog))
    result = []
    for subnet, fabric in enumerate(fabrics):
        route_m = route_lengths(fabric, subnet, layout)
        cage = split_cages(fabric, catalog)
        connector = [_connector(name, catalog) for name in fabric.models]
        parts: dict[CablePart, int] = {}
        part = np.full(len(fabric.links), -1, np.int32)
        cable = np.full(len(fabric.links), -1, np.int32)
        for number, links in enumerate(cable_legs(fabric, catalog)):
            longest = max(links, key=lambda link: float(route_m[link]))
            a, b = fabric.links[longest].tolist()
            speed = slower(*(LinkSpeed(int(fabric.width[port]), SPEEDS[fabric.speed[port]]) for port in (a, b)))
            models = [int(fabric.model[fabric.port_node[port]]) for port in (a, b)]
            plugs = frozenset(connector[model] for model in models if model >= 0 and connector[model])
            halves = int(cage[a] >= 0) + int(cage[b] >= 0)
            # A splitter and a cable of two halves have the width of the cage; a lone half leaves a leg free.
            whole = LinkSpeed(2 * speed.width, speed.generation) if halves == 1 or len(links) > 1 else speed
            found = offers(whole, plugs, "-splitter" if halves == 1 else "")
            chosen = _shortest(found, float(route_m[longest]))
            if chosen is None:
                raise DesignError(
                    f"{fabric.port_label(a)} to {fabric.port_label(b)} needs {route_m[longest]:.1f} m, and no {speed} "
                    "cable or transceiver of the catalog reaches that far: bring the racks nearer, or add one that does"
                )
            part[links] = parts.setdefault(chosen, len(parts))
            cable[links] = number
        result.append(Cabling(tuple(parts), frozen(part), frozen(cable), route_m))
    return tuple(result)


def split_cages(fabric: Fabric, catalog: Catalog) -> NDArray[np.int32]:
    """Number the cages that hold two halves of a port.

    A switch with more ports than its chip has whole ones has the first of them split: ports 1 and 2 are the halves of
    its first cage, and so on.

    Returns
    -------
    (P,) int32
        Cage of each port, the same for both halves; -1 for whole ports.
    """
    cage = np.full(fabric.n_ports, -1, np.int32)
    cages = 0
    for node in range(fabric.n_switches):
        model = catalog.switches.get(fabric.models[fabric.model[node]]) if fabric.model[node] >= 0 else None
        if model is None or not model.split_radix:
            continue
        first, end = int(fabric.port_offset[node]), int(fabric.port_offset[node + 1])
        halves = 2 * max(end - first - (model.chip_radix or model.radix), 0)
        cage[first : first + halves] = cages + np.arange(halves) // 2
        cages += halves // 2
    return frozen(cage)


def cable_legs(fabric: Fabric, catalog: Catalog) -> list[list[int]]:
    """Return the links in each cable, in order of the first: one, or two where they share the cage of a split port.

    Two halves that lead from one cage to another one are still a plain cable; it carries both.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("lab-20")
    >>> legs = topo.cable_legs(cluster.fabric, cluster.catalog)
    >>> len(legs), legs[0]
    (62, [0])
    """
    cage = split_cages(fabric, catalog)
    cables: dict[tuple[int, int], list[int]] = {}
    for link in np.flatnonzero(~backplane(fabric, catalog)).tolist():
        a, b = cage[fabric.links[link]].tolist()
        shared = (min(a, b), max(a, b)) if a >= 0 and b >= 0 else (-1, max(a, b)) if max(a, b) >= 0 else (-2, link)
        cables.setdefault(shared, []).append(link)
    return list(cables.values())


def _connector(model: str, catalog: Catalog) -> str:
    hardware: SwitchModel | HcaModel | None = catalog.switches.get(model) or catalog.hcas.get(model)
    return hardware.connector or "" if hardware else ""


def _offers(catalog: Catalog, speed: LinkSpeed, plugs: frozenset[str], suffix: str) -> list[CablePart]:
    """List what fits both ends, copper first, each kind by length; one part of unknown reach when nothing does.

    ``suffix`` is ``-splitter`` for cables with two legs, else empty.
    """
    fitting = sorted(
        (c for c in catalog.cables.values() if c.speed == speed and (not c.connector or plugs <= {c.connector})),
        key=lambda cable: (cable.length_m or cable.reach_m or 0.0, cable.name),
    )
    offers = [
        CablePart(kind, cable.name, cable.length_m)
        for kind in (f"DAC{suffix}", f"AOC{suffix}")
        for cable in fitting
        if cable.kind == kind and cable.length_m is not None
    ]
    optics = (cable for cable in fitting if cable.kind == "optic" and cable.reach_m and not suffix)
    offers += [CablePart("fibre", optic.fibre or "fibre", optic.reach_m, optic.name) for optic in optics]
    return offers or [CablePart("unknown", f"{speed}{suffix}", None)]


def _shortest(offers: Sequence[CablePart], route_m: float) -> CablePart | None:
    for part in offers:
        if part.length_m is None:
            return part
        if part.length_m >= route_m:
            if part.kind != "fibre":
                return part
            length = float(min(-(-route_m // ROUND_TO_M) * ROUND_TO_M, part.length_m))
            return CablePart("fibre", part.item, length, part.optic)
    return None
