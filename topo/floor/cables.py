"""Which cable each link takes: copper as far as it is made, then active optical, then transceivers and fibre.

A cage takes one plug for all ports in it, so cages that links connect are decided on together: two links between the
same two cages are one cable, links from one cage to several small ones are a splitter, and everything else is fibres
between transceivers, one transceiver a cage and one fibre a link.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog
from topo.catalog.models import CableModel
from topo.errors import DesignError, Fault
from topo.fabric import Fabric, Kind, freeze_arrays
from topo.floor.panels import PLUG_LANES, Panel, panels
from topo.floor.racks import Layout, route_lengths
from topo.graphs import components
from topo.speeds import SPEEDS, WIDTHS, LinkSpeed
from topo.table import Column, Shown, Table

ROUND_TO_M = 5
"""Fibre is ordered in steps of this length, where the catalog lists no lengths."""
WHOLE = ("TP", "DAC", "ACC", "AOC")
"""Kinds of cables with both ends, in the order in which they are taken."""


@dataclass(frozen=True)
class CablePart:
    """What one link takes: a cable with both ends, or a fibre between two transceivers."""

    kind: str
    """``DAC``, ``AOC``, ``fibre``, ``AOC-splitter`` and the like, or ``unknown`` where the catalog has nothing."""
    item: str
    """Model of the cable, or a description of the fibre; the speed where nothing is known."""
    length_m: float | None
    pieces: int = 1
    """Fibres side by side that one link takes."""


@dataclass(frozen=True)
class Cabling(Shown):
    """The cables of one subnet. L links, P ports; cables and cages are numbered over all subnets of a cluster."""

    parts: tuple[CablePart, ...]
    part: NDArray[np.int32]
    """(L,) index into `parts` of each link, -1 for links that need no cable."""
    cable: NDArray[np.int32]
    """(L,) number of the cable that each link is in, -1 likewise; links that share a cable have the same."""
    route_m: NDArray[np.float64]
    """(L,) length that each link needs."""
    optics: tuple[str, ...]
    """Models of transceivers."""
    optic: NDArray[np.int32]
    """(P,) index into `optics` of the transceiver in the cage of each port, -1 where there is none."""
    cage: NDArray[np.int32]
    """(P,) number of the cage of each port: ports of one cage share its transceiver."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def optic_of(self, port: int) -> str:
        """Return the model of the transceiver that a port's cage holds; empty where there is none."""
        return self.optics[self.optic[port]] if self.optic[port] >= 0 else ""

    @property
    def table(self) -> Table:
        """The parts, and how many pieces and links are of each; transceivers last."""
        links = np.bincount(self.part[self.part >= 0], minlength=len(self.parts)).tolist()
        pieces = [
            part.pieces * len(set(self.cable[self.part == index].tolist())) for index, part in enumerate(self.parts)
        ]
        caged = [len(set(self.cage[self.optic == index].tolist())) for index in range(len(self.optics))]
        none: list[Any] = [None] * len(self.optics)
        return Table(
            "cables",
            (
                Column("kind", [*(part.kind for part in self.parts), *["optic"] * len(none)]),
                Column("item", [*(part.item for part in self.parts), *self.optics]),
                Column("length", [*(part.length_m for part in self.parts), *none], "m"),
                Column("pieces", [*pieces, *caged]),
                Column("links", [*links, *none]),
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
    protocols = [_protocol(fabric, catalog) for fabric in fabrics]
    fronts = panels(fabrics, catalog)
    routes = [route_lengths(fabric, subnet, layout) for subnet, fabric in enumerate(fabrics)]
    parts: list[dict[CablePart, int]] = [{} for _ in fabrics]
    part, cable = ([np.full(len(fabric.links), -1, np.int32) for fabric in fabrics] for _ in range(2))
    optics: dict[str, int] = {}
    optic = [np.full(fabric.n_ports, -1, np.int32) for fabric in fabrics]
    numbered = 0
    faults: list[Fault] = []
    for joined in _joined_cages(fabrics, fronts, catalog):
        longest = max(joined, key=lambda link: float(routes[link[0]][link[1]]))
        route_m = float(routes[longest[0]][longest[1]])
        found = offers(_signature(joined, fabrics, fronts), protocols[longest[0]])
        chosen = next((offer for offer in found if offer.reach_m >= route_m), None)
        if chosen is None:
            fabric = fabrics[longest[0]]
            a, b = fabric.links[longest[1]].tolist()
            text = (
                f"{fabric.port_label(a)} to {fabric.port_label(b)} needs {route_m:.1f} m, and no {_speed(fabric, a)} "
                "cable or transceiver of the catalog reaches that far: bring the racks nearer, or add one that does"
            )
            faults.append(Fault(text))
            continue
        together: dict[object, list[Link]] = {}  # links that are in one cable, by what they share
        for subnet, link in joined:
            shared: object = (subnet, link) if chosen.part.kind == "unknown" else 0
            if chosen.optics:
                at = sorted(int(fronts[subnet].plug[port]) for port in fabrics[subnet].links[link].tolist())
                shared = at[0] if chosen.part.kind == "fibre-splitter" else tuple(at)
            together.setdefault(shared, []).append((subnet, link))
        for number, inside in enumerate(together.values(), numbered):
            farthest = max(float(routes[subnet][link]) for subnet, link in inside)
            for subnet, link in inside:
                item, ports = chosen.part, fabrics[subnet].links[link].tolist()
                if chosen.optics:
                    item = chosen.fibre(farthest, _speed(fabrics[subnet], ports[0]))
                    for port in ports:
                        model = chosen.optics[fronts[subnet].connector[port], int(fronts[subnet].plugs[port])]
                        optic[subnet][port] = optics.setdefault(model, len(optics))
                part[subnet][link] = parts[subnet].setdefault(item, len(parts[subnet]))
                cable[subnet][link] = number
        numbered += len(together)
    if faults:
        raise DesignError(faults=faults)
    return tuple(
        Cabling(tuple(parts[n]), part[n], cable[n], routes[n], tuple(optics), optic[n], fronts[n].cage)
        for n in range(len(fabrics))
    )


Link = tuple[int, int]
"""Subnet and link."""


def _joined_cages(fabrics: Sequence[Fabric], fronts: Sequence[Panel], catalog: Catalog) -> Iterator[list[Link]]:
    """Yield the links between cages that links connect with one another, in order of the first of them."""
    own = [np.flatnonzero(~backplane(fabric, catalog)) for fabric in fabrics]
    ends = [front.cage[fabric.links[mine]] for fabric, front, mine in zip(fabrics, fronts, own, strict=True)]
    a, b = np.concatenate([*ends, np.empty((0, 2), np.int32)]).T
    size = int(max(a.max(initial=-1), b.max(initial=-1))) + 1
    group = components(size, a, b)
    joined: dict[int, list[Link]] = {}
    links = ((subnet, link) for subnet, mine in enumerate(own) for link in mine.tolist())
    for link, number in zip(links, group[a].tolist(), strict=True):
        joined.setdefault(number, []).append(link)
    yield from joined.values()


@dataclass(frozen=True)
class _Signature:
    """What decides which cables fit some joined cages."""

    speeds: frozenset[LinkSpeed]
    """Of their links."""
    cages: frozenset[tuple[str, int]]
    """Connector of each cage, and fibres that a transceiver in it takes."""
    ends: tuple[tuple[str, int], ...]
    """Connector and number of ports of the ends of the one cable that could hold all links: two cages, or the one that
    a splitter begins at and one of its legs; empty where it takes several."""
    splitter: bool
    halves: bool
    """Whether some plug of a fibre holds two links to different plugs, or half a link."""
    crossed: bool
    """Whether some link is half of a plug at both its ends, each shared with another link: no fibre has such ends."""


def _signature(joined: Sequence[Link], fabrics: Sequence[Fabric], fronts: Sequence[Panel]) -> _Signature:
    ends: list[list[int]] = []
    about: dict[int, tuple[str, int, int]] = {}
    speeds = set()
    plugs: list[tuple[int, int]] = []
    for subnet, link in joined:
        fabric, front = fabrics[subnet], fronts[subnet]
        pair = fabric.links[link].tolist()
        ends.append([int(front.cage[port]) for port in pair])
        speeds.add(_speed(fabric, pair[0]))
        low_plug, high_plug = sorted(int(front.plug[port]) for port in pair)
        plugs.append((low_plug, high_plug))
        for port in pair:
            about[int(front.cage[port])] = front.connector[port], int(front.ports[port]), int(front.plugs[port])
    beside, between = Counter(plug for pair in plugs for plug in pair), Counter(plugs)
    crossed = any(min(beside[a], beside[b]) > count for (a, b), count in between.items())
    half = any(speed.width < PLUG_LANES for speed in speeds)
    halves = any(max(beside[a], beside[b]) > count or (half and count == 1) for (a, b), count in between.items())
    # The widest cage is where a splitter would begin, and each of the others must hold no other link then.
    low, *others = sorted(about, key=lambda cage: (-about[cage][1], cage))
    one_cable: tuple[tuple[str, int], ...] = ()
    splitter = False
    if others:
        held, far = about[low][1], about[others[0]][1]
        plain = len(others) == 1 and len(joined) == held == far
        alike = {about[cage][:2] for cage in others}
        star = all(low in pair for pair in ends) and len(joined) == len(others) <= held
        splitter = not plain and star and held > 1 and len(alike) == 1 and far == 1
        one_cable = (about[low][:2], about[others[0]][:2]) if plain or splitter else ()
    cages = frozenset((name, fibres) for name, _, fibres in about.values())
    return _Signature(frozenset(speeds), cages, one_cable, splitter, halves, crossed)


@dataclass(frozen=True)
class _Offer:
    """A cable, or transceivers with fibre between them, for links of joined cages."""

    reach_m: float
    part: CablePart
    """The cable; a fibre of the full reach for transceivers."""
    optics: dict[tuple[str, int], str]
    """Transceiver of each kind of cage; empty for a cable."""
    fibres: tuple[CableModel, ...] = ()
    """Fibres that fit, by length."""

    def fibre(self, route_m: float, speed: LinkSpeed) -> CablePart:
        """Return the shortest fibre for a link."""
        pieces = max(speed.width // PLUG_LANES, 1)
        for model in self.fibres:
            if model.length_m is not None and model.length_m >= route_m:
                return CablePart(self.part.kind, model.name, model.length_m, pieces)
        length = min(-(-route_m // ROUND_TO_M) * ROUND_TO_M, self.reach_m)
        return CablePart(self.part.kind, self.part.item, float(length), pieces)


def _protocol(fabric: Fabric, catalog: Catalog) -> str:
    """Return the protocol of the switches of a fabric; empty where the catalog does not tell."""
    models = (fabric.models[model] for model in fabric.model[: fabric.n_switches].tolist() if model >= 0)
    return next((catalog.switches[name].protocol for name in models if name in catalog.switches), "")


def _offers(catalog: Catalog, wanted: _Signature, protocol: str) -> list[_Offer]:
    """List what fits, copper first, each kind by length; one part of unknown reach when nothing does."""
    made = (cable for cable in catalog.cables.values() if cable.protocol in (None, protocol))
    by_length = sorted(made, key=lambda c: (c.length_m or c.reach_m or 0.0, c.name))
    offers: list[_Offer] = []
    speed = next(iter(wanted.speeds))
    if wanted.ends and len(wanted.speeds) == 1:
        (near, held), (far, _) = wanted.ends
        suffix = "-splitter" if wanted.splitter else ""
        offers = [
            _Offer(cable.length_m, CablePart(cable.kind, cable.name, cable.length_m), {})
            for kind in WHOLE
            for cable in by_length
            if cable.kind == kind + suffix
            and cable.length_m is not None
            and cable.speed == _together(speed, held)
            and (not wanted.splitter or cable.legs == held)
            and _fits(cable, near, far, either_way=not suffix)
        ]
    if len(wanted.speeds) == 1 and not wanted.crossed:
        offers += _fibre_offers(by_length, wanted, speed)
    text = " and ".join(sorted(map(str, wanted.speeds))) + ("-splitter" if wanted.splitter and wanted.halves else "")
    text += ", split at both ends" if wanted.crossed else ""
    return offers or [_Offer(float("inf"), CablePart("unknown", text, None), {})]


def _together(speed: LinkSpeed, links: int) -> LinkSpeed | None:
    """Speed of a cable's end that holds several links."""
    width = speed.width * links
    return LinkSpeed(width, speed.generation) if width in WIDTHS else None


def _fits(cable: CableModel, near: str, far: str, *, either_way: bool) -> bool:
    """Whether a cable's ends fit two cages; what has no known connector fits."""
    ends = [(cable.connector, cable.far_connector or cable.connector)]
    ends += [ends[0][::-1]] if either_way else []
    return any(all(not a or not b or a == b for a, b in zip(pair, (near, far), strict=True)) for pair in ends)


def _fibre_offers(by_length: Sequence[CableModel], wanted: _Signature, speed: LinkSpeed) -> list[_Offer]:
    """List the kinds of fibre for which every cage has a transceiver, by reach."""
    suffix = "-splitter" if wanted.halves else ""
    whole = LinkSpeed(PLUG_LANES, speed.generation)  # what one plug carries
    optics = [c for c in by_length if c.kind == "optic" and c.reach_m and c.speed in (whole, speed)]
    offers = []
    for medium in dict.fromkeys(optic.fibre for optic in optics):
        fibres = tuple(c for c in by_length if c.kind == "fibre" + suffix and c.fibre == medium)
        if suffix and not fibres:
            continue
        mine = [optic for optic in optics if optic.fibre == medium]
        for reach in sorted({optic.reach_m or 0.0 for optic in mine}):
            enough = [optic for optic in mine if (optic.reach_m or 0.0) >= reach]
            models = {cage: next((c for c in enough if _sits(c, *cage)), None) for cage in wanted.cages}
            found = {cage: optic for cage, optic in models.items() if optic is not None}
            if len(found) == len(models):
                names = {cage: optic.name for cage, optic in found.items()}
                most = min(optic.reach_m or 0.0 for optic in found.values())
                offers.append(_Offer(most, CablePart("fibre" + suffix, medium or "fibre", most), names, fibres))
    return sorted(offers, key=lambda offer: offer.reach_m)


def _sits(optic: CableModel, connector: str, plugs: int) -> bool:
    """Whether a transceiver fits a cage and takes as many fibres."""
    return optic.ports == plugs and (not connector or not optic.connector or connector == optic.connector)


def _speed(fabric: Fabric, port: int) -> LinkSpeed:
    """Speed of a link, which both ends agree on."""
    return LinkSpeed(int(fabric.width[port]), SPEEDS[fabric.speed[port]])
