"""Which cable each link takes: copper as far as it is made, then active optical, then transceivers and fibre."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.catalog import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Kind, frozen
from topo.hardware import CableModel, HcaModel, SwitchModel
from topo.racks import Layout, route_lengths
from topo.speeds import SPEEDS, LinkSpeed

__all__ = ["CablePart", "Cabling", "backplane", "choose_cables"]

ROUND_TO_M = 5
"""Fibre is ordered in steps of this length."""


@dataclass(frozen=True)
class CablePart:
    """What one link takes: a cable with both ends, or a fibre between two transceivers."""

    kind: str
    """``DAC``, ``AOC``, ``fibre``, or ``unknown`` where the catalog has nothing of this speed."""
    item: str
    """Model of the cable, or a description of the fibre; the speed where nothing is known."""
    length_m: float | None
    optic: str = ""
    """Model of the transceiver at each end of a fibre."""


@dataclass(frozen=True)
class Cabling:
    """The cables of one subnet. L links."""

    parts: tuple[CablePart, ...]
    part: NDArray[np.int32]
    """(L,) index into `parts` of each link, -1 for links that need no cable."""
    route_m: NDArray[np.float64]
    """(L,) length that each link needs."""


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


def choose_cables(fabrics: Sequence[Fabric], layout: Layout, catalog: Catalog) -> tuple[Cabling, ...]:
    """Choose the shortest cable that reaches for every link of all subnets, copper before optical.

    Raises
    ------
    DesignError
        When a link is longer than any cable or transceiver of its speed and connectors reaches; the message names it.
    """
    result = []
    for subnet, fabric in enumerate(fabrics):
        route_m = route_lengths(fabric, subnet, layout)
        sort_of_link, offers = _offers(fabric, catalog)
        parts: dict[CablePart, int] = {}
        part = np.full(len(fabric.links), -1, np.int32)
        for link in np.flatnonzero(~backplane(fabric, catalog)).tolist():
            chosen = _shortest(offers[sort_of_link[link]], float(route_m[link]))
            if chosen is None:
                a, b = fabric.links[link].tolist()
                speed = LinkSpeed(int(fabric.width[a]), SPEEDS[fabric.speed[a]])
                raise DesignError(
                    f"{fabric.port_label(a)} to {fabric.port_label(b)} needs {route_m[link]:.1f} m, and no {speed} "
                    "cable or transceiver of the catalog reaches that far: bring the racks nearer, or add one that does"
                )
            part[link] = parts.setdefault(chosen, len(parts))
        result.append(Cabling(tuple(parts), frozen(part), route_m))
    return tuple(result)


def _offers(fabric: Fabric, catalog: Catalog) -> tuple[list[int], list[list[CablePart]]]:
    """Return, for links of each sort (speed and connectors), what the catalog offers; and the sort of each link."""
    connector = [_connector(name, catalog) for name in fabric.models]
    sorts: dict[tuple[LinkSpeed, frozenset[str]], int] = {}
    sort_of_link: list[int] = []
    offers: list[list[CablePart]] = []
    for a, b in fabric.links.tolist():
        speed = LinkSpeed(
            int(min(fabric.width[a], fabric.width[b])), SPEEDS[min(int(fabric.speed[a]), int(fabric.speed[b]))]
        )
        models = [int(fabric.model[fabric.port_node[port]]) for port in (a, b)]
        plugs = frozenset(connector[model] for model in models if model >= 0 and connector[model])
        if (speed, plugs) not in sorts:
            sorts[speed, plugs] = len(offers)
            offers.append(_offers_of(speed, plugs, catalog))
        sort_of_link.append(sorts[speed, plugs])
    return sort_of_link, offers


def _connector(model: str, catalog: Catalog) -> str:
    hardware: SwitchModel | HcaModel | None = catalog.switches.get(model) or catalog.hcas.get(model)
    return hardware.connector or "" if hardware else ""


def _offers_of(speed: LinkSpeed, plugs: frozenset[str], catalog: Catalog) -> list[CablePart]:
    """List what fits both ends, copper first, each kind by length; one part of unknown reach when nothing does."""
    fitting = [
        cable
        for cable in catalog.cables.values()
        if cable.speed == speed and (cable.connector is None or not plugs or plugs == {cable.connector})
    ]
    offers = [
        CablePart(kind, cable.name, cable.length_m)
        for kind in ("DAC", "AOC")
        for cable in sorted(fitting, key=_by_length)
        if cable.kind == kind and cable.length_m is not None
    ]
    optics = sorted((cable for cable in fitting if cable.kind == "optic" and cable.reach_m), key=_by_length)
    offers += [CablePart("fibre", optic.fibre or "fibre", optic.reach_m, optic.name) for optic in optics]
    return offers or [CablePart("unknown", str(speed), None)]


def _by_length(cable: CableModel) -> tuple[float, str]:
    return (cable.length_m or cable.reach_m or 0.0, cable.name)


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
