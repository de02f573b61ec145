"""Selection of the cable of each link: copper where it reaches, then active optical, then transceivers and fibre.

A cage takes one plug for all its ports, so linked cages are decided together: two links between the same two cages are
one cable, links from one cage to several small ones are a splitter, and anything else is fibre between transceivers,
one transceiver for each cage and one fibre for each link.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topo.catalog.devices import list_frames
from topo.catalog.load import Catalog
from topo.catalog.models import CableModel
from topo.errors import DesignError, Finding, plural
from topo.fabric import Fabric, Frozen
from topo.floor.panels import PLUG_LANES, Panel, panels
from topo.floor.racks import Layout, route_lengths
from topo.graphs import components
from topo.speeds import SPEEDS, LinkSpeed
from topo.table import Brief, Shown, Table

ROUND_TO_M = 5
"""Step of lengths in which fibre is ordered if the catalog lists none."""
WHOLE = ("TP", "DAC", "ACC", "AOC")
"""Kinds of cables with fixed ends, in order of preference."""


@dataclass(frozen=True)
class CablePart:
    """The cable of a link: one with fixed ends, or a fibre between two transceivers."""

    kind: str
    """``DAC``, ``AOC``, ``fibre``, ``AOC-splitter`` and the like, or ``unknown`` where the catalog has nothing."""
    item: str
    """Model of the cable, or a description of the fibre; the speed where nothing is known."""
    length_m: float | None
    pieces: int = 1
    """Parallel fibres of one link."""


@dataclass(frozen=True)
class Cabling(Frozen, Shown):
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

    def optic_of(self, port: int) -> str:
        """Return the model of the transceiver that a port's cage holds; empty where there is none."""
        return self.optics[self.optic[port]] if self.optic[port] >= 0 else ""

    @property
    def table(self) -> Table:
        """The parts, and how many pieces and links are of each; transceivers last."""
        rows: list[tuple[Any, ...]] = []
        for index, part in enumerate(self.parts):
            cables = self.cable[self.part == index].tolist()
            rows.append((part.kind, part.item, part.length_m, part.pieces * len(set(cables)), len(cables)))
        for index, model in enumerate(self.optics):
            rows.append(("optic", model, None, len(set(self.cage[self.optic == index].tolist())), None))
        return Table.of_rows("cables", ("kind", "item", "length", "pieces", "links"), rows, units=("", "", "m"))


def backplane(fabric: Fabric, catalog: Catalog) -> NDArray[np.bool_]:
    """Return (L,) bool, whether a link needs no cable: between chips of one frame, or to an aggregation node.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("fire-flyer-2-frames")
    >>> int(topo.backplane(cluster.fabric, cluster.catalog).sum())
    1600
    """
    number: dict[str, int] = {}
    frame = np.full(fabric.n_nodes, -1)
    for node, name in list_frames(fabric, 0, catalog).items():
        frame[node] = number.setdefault(name, len(number))
    a, b = frame[fabric.port_node[fabric.links]].T
    return np.asarray((a == b) & (a >= 0) | fabric.is_internal)


def choose_cables(fabrics: Sequence[Fabric], layout: Layout, catalog: Catalog) -> tuple[Cabling, ...]:
    """Choose for every link of all subnets the shortest cable that is long enough, copper before optical.

    A DesignError names each link that no cable or transceiver of the right speed and connectors reaches.
    """
    offers = cache(partial(_offers, catalog))
    protocols = [catalog.protocol_of(fabric) for fabric in fabrics]
    fronts = panels(fabrics, catalog)
    routes = [route_lengths(fabric, subnet, layout) for subnet, fabric in enumerate(fabrics)]
    parts: list[dict[CablePart, int]] = [{} for _ in fabrics]
    part, cable = ([np.full(len(fabric.links), -1, np.int32) for fabric in fabrics] for _ in range(2))
    optics: dict[str, int] = {}
    optic = [np.full(fabric.n_ports, -1, np.int32) for fabric in fabrics]
    numbered = 0
    too_far: list[Finding] = []
    for joined in _joined_cages(fabrics, fronts, catalog):
        subnet, link = max(joined, key=lambda link: float(routes[link[0]][link[1]]))
        route_m = float(routes[subnet][link])
        found = offers(_signature(joined, fabrics, fronts), protocols[subnet])
        chosen = next((offer for offer in found if offer.reach_m >= route_m), None)
        if chosen is None:
            fabric = fabrics[subnet]
            a, b = fabric.links[link].tolist()
            text = (
                f"{fabric.port_label(a)} to {fabric.port_label(b)} needs {route_m:.1f} m, and no {_speed(fabric, a)} "
                "cable or transceiver of the catalog reaches that far: bring the racks nearer, or add one that does"
            )
            too_far.append(Finding("", text))
            continue
        together = defaultdict[object, list[Link]](list)  # links that share a cable, by what they share
        for subnet, link in joined:
            shared: object = (subnet, link) if chosen.part.kind == "unknown" else 0
            if chosen.optics:
                at = sorted(int(fronts[subnet].plug[port]) for port in fabrics[subnet].links[link].tolist())
                shared = at[0] if chosen.part.kind == "fibre-splitter" else tuple(at)
            together[shared].append((subnet, link))
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
    if too_far:
        raise DesignError(too_far)
    return tuple(
        Cabling(tuple(parts[n]), part[n], cable[n], routes[n], tuple(optics), optic[n], fronts[n].cage)
        for n in range(len(fabrics))
    )


Link = tuple[int, int]
"""Subnet and link."""


def _joined_cages(fabrics: Sequence[Fabric], fronts: Sequence[Panel], catalog: Catalog) -> Iterator[list[Link]]:
    """Yield the links of each connected component of cages, in order of their first link."""
    own = [np.flatnonzero(~backplane(fabric, catalog)) for fabric in fabrics]
    ends = [front.cage[fabric.links[mine]] for fabric, front, mine in zip(fabrics, fronts, own, strict=True)]
    cages = np.concatenate([*ends, np.empty((0, 2), np.int32)])
    a, b = cages.T
    group = components(int(cages.max(initial=-1)) + 1, a, b)
    joined = defaultdict[int, list[Link]](list)
    links = ((subnet, link) for subnet, mine in enumerate(own) for link in mine.tolist())
    for link, number in zip(links, group[a].tolist(), strict=True):
        joined[number].append(link)
    yield from joined.values()


@dataclass(frozen=True)
class _Signature:
    """The properties of linked cages that decide which cables fit."""

    speeds: frozenset[LinkSpeed]
    """Speeds of their links."""
    cages: frozenset[tuple[str, int]]
    """Connector of each cage, and number of fibres of a transceiver in it."""
    ends: tuple[tuple[str, int], ...]
    """Connector and number of ports at both ends of a single cable for all links, or at the trunk and a leg of a
    splitter; empty where one cable is not enough."""
    splitter: bool
    halves: bool
    """Whether some plug holds two links to different plugs, or half a link."""
    crossed: bool
    """Whether some link shares its plugs at both ends with different links, for which no fibre exists."""


def _signature(joined: Sequence[Link], fabrics: Sequence[Fabric], fronts: Sequence[Panel]) -> _Signature:
    ends: list[list[int]] = []
    about: dict[int, tuple[str, int, int]] = {}
    speeds = set()
    plugs: list[tuple[int, ...]] = []
    for subnet, link in joined:
        fabric, front = fabrics[subnet], fronts[subnet]
        pair = fabric.links[link].tolist()
        ends.append([int(front.cage[port]) for port in pair])
        speeds.add(_speed(fabric, pair[0]))
        plugs.append(tuple(sorted(int(front.plug[port]) for port in pair)))
        for port in pair:
            about[int(front.cage[port])] = front.connector[port], int(front.ports[port]), int(front.plugs[port])
    beside, between = Counter(plug for pair in plugs for plug in pair), Counter(plugs)
    crossed = any(min(beside[a], beside[b]) > count for (a, b), count in between.items())
    half = any(speed.width < PLUG_LANES for speed in speeds)
    halves = any(max(beside[a], beside[b]) > count or (half and count == 1) for (a, b), count in between.items())
    # The trunk of a splitter would be in the widest cage; each other cage must then hold a single link.
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
    """A cable, or transceivers with fibre between them, for the links of linked cages."""

    reach_m: float
    part: CablePart
    """The cable, or for transceivers a fibre of the full reach."""
    optics: dict[tuple[str, int], str]
    """Transceiver of each kind of cage; empty for a cable."""
    fibres: tuple[CableModel, ...] = ()
    """Matching fibres, by length."""

    def fibre(self, route_m: float, speed: LinkSpeed) -> CablePart:
        """Return the shortest fibre that is long enough for a link."""
        pieces = max(speed.width // PLUG_LANES, 1)
        for model in self.fibres:
            if model.length_m is not None and model.length_m >= route_m:
                return CablePart(self.part.kind, model.name, model.length_m, pieces)
        length = min(-(-route_m // ROUND_TO_M) * ROUND_TO_M, self.reach_m)
        return CablePart(self.part.kind, self.part.item, float(length), pieces)


def _offers(catalog: Catalog, wanted: _Signature, protocol: str) -> list[_Offer]:
    """List the offers that fit, copper first, each kind by length; if none fits, a part of unknown reach."""
    made = [cable for cable in catalog.cables.values() if cable.protocol in (None, protocol)]
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
            and cable.speed
            and (cable.speed.width, cable.speed.generation) == (speed.width * held, speed.generation)
            and (not wanted.splitter or cable.legs == held)
            and _fits(cable, near, far, either_way=not suffix)
        ]
    if len(wanted.speeds) == 1 and not wanted.crossed:
        offers += _fibre_offers(by_length, wanted, speed)
    text = " and ".join(sorted(map(str, wanted.speeds))) + ("-splitter" if wanted.splitter and wanted.halves else "")
    text += ", split at both ends" if wanted.crossed else ""
    text += " in one cage" if len(wanted.speeds) > 1 else ""
    made_for = {end for cable in made if cable.speed and cable.speed.generation == speed.generation
                for end in (cable.connector, cable.far_connector or cable.connector)}  # fmt: skip
    other = sorted({name for name, _ in wanted.cages if name} - made_for)
    text += f" in {' and '.join(other)} (no row in cables.csv)" if other and None not in made_for else ""
    return offers or [_Offer(float("inf"), CablePart("unknown", text, None), {})]


def _fits(cable: CableModel, near: str, far: str, *, either_way: bool) -> bool:
    """Whether the ends of a cable fit two cages; an unknown connector fits anything."""
    ends = [(cable.connector, cable.far_connector or cable.connector)]
    ends += [ends[0][::-1]] if either_way else []
    return any(all(not a or not b or a == b for a, b in zip(pair, (near, far), strict=True)) for pair in ends)


def _fibre_offers(by_length: Sequence[CableModel], wanted: _Signature, speed: LinkSpeed) -> list[_Offer]:
    """List the offers of fibre with a transceiver for every cage, by reach."""
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
    """Whether a transceiver fits a cage and its number of fibres."""
    return optic.ports == plugs and (not connector or not optic.connector or connector == optic.connector)


def _speed(fabric: Fabric, port: int) -> LinkSpeed:
    """Return the speed of the link in a port."""
    return LinkSpeed(int(fabric.width[port]), SPEEDS[fabric.speed[port]])


@dataclass(frozen=True)
class Trays(Frozen, Brief):
    """Number of cables in each tray segment above R rows of C racks.

    A cable between rows runs along the row with the lower number, and crosses at the column of its other end.
    """

    along: NDArray[np.int64]
    """(R, C - 1) along each row, between adjacent columns."""
    across: NDArray[np.int64]
    """(R - 1, C) across, between adjacent rows."""

    def _brief(self) -> str:
        return f"{plural(len(self.along), 'row')}, at most {plural(int(self.along.max(initial=0)), 'cable')} above one"


def fill_trays(fabrics: Sequence[Fabric], layout: Layout, cablings: Sequence[Cabling]) -> Trays:
    """Count the cables in each tray segment; cables within a rack are in none.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("fire-flyer-2")
    >>> trays = topo.fill_trays(cluster.fabrics, cluster.layout, cluster.cablings)
    >>> trays.along.shape, int(trays.along.max())
    ((7, 25), 446)
    """
    ends = []
    for number, (fabric, cabling) in enumerate(zip(fabrics, cablings, strict=True)):
        racks = np.sort(layout.rack[layout.node_device[number][fabric.port_node[fabric.links]]], axis=1)
        own = cabling.cable >= 0
        ends.append(np.column_stack([cabling.cable[own], racks[own]]))
    _, a, b = np.unique(np.concatenate([*ends, np.empty((0, 3), np.int64)]), axis=0).T.astype(np.int64)
    a, b = np.where(layout.row[a] <= layout.row[b], (a, b), (b, a))
    rows, columns = int(layout.row.max(initial=0)) + 1, int(layout.column.max(initial=0)) + 1
    along, across = np.zeros((rows, columns), np.int64), np.zeros((rows, columns), np.int64)
    left, right = np.sort([layout.column[a], layout.column[b]], axis=0)
    for piece, row, column, step in (
        (along, layout.row[a], left, 1),
        (along, layout.row[a], right, -1),
        (across, layout.row[a], layout.column[b], 1),
        (across, layout.row[b], layout.column[b], -1),
    ):
        np.add.at(piece, (row, column), step)
    return Trays(np.cumsum(along, axis=1)[:, :-1], np.cumsum(across, axis=0)[:-1])
