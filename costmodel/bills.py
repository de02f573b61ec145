"""The bill of materials: every part of a cluster, counted from its fabrics."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from costmodel.parts import KINDS, SPARE, UNKNOWN, Line, PartKind
from costmodel.power import Power, power_lines
from costmodel.price import UNITS, Cost, idle_prices, price_lines
from topo.catalog.load import Catalog
from topo.cluster import Cluster
from topo.cluster_spec import Spares
from topo.errors import HeddleError
from topo.fabric import Fabric, Kind, Role
from topo.floor.cables import Cabling, backplane
from topo.floor.racks import PDU, Layout
from topo.speeds import is_link_speed, parse_link_speed, speed_name
from topo.table import Shown, Table

Part = tuple[PartKind, str, str, tuple[str, ...]]
"""Kind, item, place and models of switches of a line of the bill."""


@dataclass(frozen=True)
class Bill(Shown):
    """Bill of materials: lines of parts with their counts.

    Examples
    --------
    >>> import costmodel, topo
    >>> parts = costmodel.bill(topo.preset("lab-20"))
    >>> parts
    <Bill 4 x switch, 20 x node, 22 x adapter, 62 x cable>
    >>> parts.of("switch").count("switch")
    4
    """

    lines: tuple[Line, ...]
    catalog: Catalog
    """Catalog with the prices and the power of the parts."""

    def _brief(self) -> str:
        return ", ".join(f"{self.count(kind):,} x {kind}" for kind in KINDS if self.count(kind))

    def of(self, *kinds: PartKind) -> Bill:
        """Return the bill of these kinds of parts only."""
        return replace(self, lines=tuple(line for line in self.lines if line.kind in kinds))

    def count(self, kind: PartKind) -> int:
        """Return the number of parts of one kind."""
        return sum(line.count for line in self.lines if line.kind == kind)

    @property
    def _by_place(self) -> tuple[Line, ...]:
        """The lines whatever models of switches their ends are in: a price does not depend on these."""
        counts: Counter[Line] = Counter()
        for line in self.lines:
            counts[replace(line, count=0, switches=())] += line.count
        return tuple(replace(line, count=count) for line, count in counts.items())

    def beyond(self, other: Bill) -> Bill:
        """Return the parts to buy for this bill when those of another are at hand; a part may change its place."""
        had = Counter({replace(line, count=0): line.count for line in other.lines})
        wanted = Counter({replace(line, count=0): line.count for line in self.lines})
        elsewhere: Counter[tuple[PartKind, str]] = Counter()
        for line, count in (had - wanted).items():
            elsewhere[line.kind, line.item] += count
        lines = []
        for line in self.lines:
            more = max(line.count - had[replace(line, count=0)], 0)
            count = max(more - elsewhere[line.kind, line.item], 0)
            elsewhere[line.kind, line.item] -= more - count
            if count:
                lines.append(replace(line, count=count))
        return replace(self, lines=tuple(lines))

    @cached_property
    def currency(self) -> str:
        """Default currency: the first in which all switches have a price; ``USD`` where there are none, or no switches.

        The order is ``USD``, the other currencies by name, and ``units``, in which no shop sells.
        """
        switches = {line.item for line in self.lines if line.kind == "switch"}
        others = {name for model in switches for name in self.catalog.prices.get(model, ())}
        names = ("USD", *sorted(others - {UNITS}), UNITS) if switches else ()
        return next((name for name in names if all(self.catalog.price(each, name) for each in switches)), "USD")

    def price(self, currency: str | None = None) -> Cost:
        """Look up the price of every line.

        Parameters
        ----------
        currency : str, optional
            ``USD``, ``EUR``, ..., or ``units``: the relative units of the Fire-Flyer paper, in which a switch includes
            its links. By default `Bill.currency`.

        Returns
        -------
        Cost
            The bill in that currency; `Cost.gaps` lists the parts without a price.

        Raises
        ------
        HeddleError
            When the currency is neither ``units`` nor a code of three capital letters.

        Examples
        --------
        >>> import costmodel, topo
        >>> cost = costmodel.bill(topo.preset("fire-flyer-2")).price("USD")
        >>> print(cost.network)
        2,588,120 to 3,259,620
        >>> cost.gaps[0]
        '1,200 x pcie-a100 (node): no price in USD'
        """
        currency = self.currency if currency is None else currency
        if currency != UNITS and not re.fullmatch("[A-Z]{3}", currency):
            raise HeddleError(f"found the currency {currency!r}; expected {UNITS}, or a code such as USD or EUR")
        lines = self._by_place
        return Cost(currency, price_lines(lines, self.catalog, currency), idle_prices(lines, self.catalog, currency))

    @cached_property
    def power(self) -> Power:
        """Power of the parts in use, in W; spare parts draw none.

        A cable of unknown length is assumed to be optical, because copper reaches 2 m only. Each of its ends in a
        switch then draws as much as the end of the optical cable of its speed with the highest power.

        Examples
        --------
        >>> import costmodel, topo
        >>> power = costmodel.bill(topo.preset("lab-20")).power
        >>> print(power.network_w, power.planned_w, sep=", ")
        1,459, at least 44,960
        """
        return Power(power_lines([line for line in self.lines if line.place != SPARE], self.catalog))

    def with_spares(self, spares: Spares) -> Bill:
        """Return the bill with spare parts: ceil(count * share) of each item in use."""
        share = {"switch": spares.switches, "adapter": spares.adapters}
        share |= dict.fromkeys(("cable", "fibre", "optic"), spares.cables)
        in_use: Counter[tuple[PartKind, str]] = Counter()
        for line in self.lines:
            if share.get(line.kind):
                in_use[line.kind, line.item] += line.count
        # 0.07 * 100 is 7.000000000000001 in binary: without `round` its ceiling would be 8.
        extra = [
            Line(kind, item, ceil(round(count * share[kind], 9)), SPARE)
            for (kind, item), count in sorted(in_use.items())
        ]
        return replace(self, lines=(*self.lines, *extra))

    @property
    def table(self) -> Table:
        """The lines as a table."""
        return Table.of("bill of materials", self._by_place, "kind", "item", "place", "count")

    @property
    def cable_table(self) -> Table:
        """Cables in use by kind and length in m; by speed where the spec has no floor plan."""
        counted: Counter[tuple[str, float | None]] = Counter()
        for line in self.lines:
            if line.kind not in ("cable", "fibre") or line.place == SPARE:
                continue
            model, (item, _, length) = self.catalog.cables.get(line.item), line.item.rpartition(", ")
            if model is not None:
                speed = self._named(str(model.speed), line) if model.speed else model.fibre or ""
                counted[f"{model.kind} {speed}".strip(), model.length_m] += line.count
            elif line.kind == "fibre":
                counted[f"fibre {item}", float(length.removesuffix(" m"))] += line.count
            else:
                counted[self._named(line.item, line), None] += line.count
        ordered = sorted(counted, key=lambda key: (key[0], key[1] or 0.0))
        rows = [(*key, counted[key]) for key in ordered]
        return Table.of_rows("cables", ("kind", "length", "cables"), rows, units=("", "m"))

    def _named(self, speed: str, line: Line) -> str:
        """Return the speed of cables, with its name in Ethernet where all their switches are of that."""
        protocols = {self.catalog.switches[name].protocol for name in line.switches if name in self.catalog.switches}
        return parse_link_speed(speed).as_ethernet if protocols == {"ethernet"} and is_link_speed(speed) else speed

    def to_dict(self) -> dict[str, Any]:
        """Return the lines as plain values."""
        return {"lines": [asdict(line) for line in self.lines]}


def bill(cluster: Cluster) -> Bill:
    """Count the parts of a cluster, including the spares of its spec.

    With a floor plan each cable is the shortest part of the catalog that reaches. Without one lengths are unknown, and
    cables are counted by speed.

    Parameters
    ----------
    cluster : topo.Cluster
        The cluster.

    Returns
    -------
    Bill
        A line for each kind, item and place.

    Raises
    ------
    topo.DesignError
        When the design cannot be built, the floor is too small, or no cable reaches.

    Examples
    --------
    >>> import costmodel, topo
    >>> parts = costmodel.bill(topo.preset("lab-20"))
    >>> parts.count("switch"), parts.count("node")
    (4, 20)
    """
    parts = make_bill(Cluster.given(cluster).fabrics, cluster.catalog, cluster.layout, cluster.cablings)
    return parts.with_spares(cluster.spec.spares)


def make_bill(
    fabrics: Sequence[Fabric],
    catalog: Catalog,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
) -> Bill:
    """Count the parts of all subnets. A server with adapters in several subnets is counted once.

    A frame switch is counted as whole frames; the links between its chips are its backplane, and no cables.
    """
    parts: Counter[Part] = Counter()
    servers: dict[str, tuple[str, str]] = {}
    counted: set[tuple[str, int]] = set()
    for subnet, fabric in enumerate(fabrics):
        words = {int(role): role.name.lower() for role in Role}
        roles = [words[role] for role in fabric.role.tolist()]
        names = np.array([*fabric.models, UNKNOWN], object)
        models = names[fabric.model].tolist()
        switches, adapters = (np.flatnonzero(fabric.kind == kind).tolist() for kind in (Kind.SWITCH, Kind.HCA))
        parts.update(("switch", models[node], roles[node], ()) for node in switches)
        of_host = names[[*fabric.host_model.tolist(), -1]].tolist()  # what sits in no server has -1
        host = fabric.host.tolist()
        parts.update(("adapter", models[node], of_host[host[node]], ()) for node in adapters)
        inside = (node for node in adapters if host[node] >= 0)
        servers.update((fabric.hosts[host[node]], (of_host[host[node]], roles[node])) for node in inside)
        cabling = None if cablings is None else cablings[subnet]
        parts.update(_cables(fabric, roles, models, catalog, cabling, counted))
    for model_name, role in servers.values():
        parts["node", model_name, role, ()] += 1
    parts = _by_the_frame(parts, catalog)
    if layout is not None:
        sure = ", at most" if layout.alone else ""  # devices of unknown power stand alone
        parts["rack", f"rack-{layout.floor.rack_units}", f"room{sure}", ()] = layout.n_racks
        pdus = layout.floor.pdus
        parts["rack", PDU, f"{pdus} a rack, one a feed{sure}", ()] = pdus * layout.n_racks
    ordered = sorted(parts.items(), key=lambda part: (KINDS.index(part[0][0]), *part[0][1:]))
    return Bill(tuple(Line(*part[:2], count, *part[2:]) for part, count in ordered), catalog)


def _by_the_frame(parts: Counter[Part], catalog: Catalog) -> Counter[Part]:
    """Replace the chips of frame switches by ceil(chips / chips of a frame) frames."""
    chips: Counter[str] = Counter()
    result: Counter[Part] = Counter()
    for part, count in parts.items():
        kind, item, *_ = part
        if kind == "switch" and item in catalog.switches and catalog.switches[item].chips > 1:
            chips[item] += count
        else:
            result[part] = count
    for item, count in chips.items():
        result["switch", item, "frame", ()] = -(-count // catalog.switches[item].chips)
    return result


def _cables(
    fabric: Fabric,
    roles: Sequence[str],
    models: Sequence[str],
    catalog: Catalog,
    cabling: Cabling | None,
    counted: set[tuple[str, int]],
) -> Counter[Part]:
    """Count cables, fibres and transceivers; the place of a cable is the roles of its ends, such as ``leaf - spine``.

    Without a cabling each link is one cable of its speed. Links can share a cable and ports a cage, also across
    subnets, so ``counted`` collects the numbers of cables and cages that have been counted.
    """
    ends = fabric.port_node[fabric.links]
    ends = np.take_along_axis(ends, np.argsort(fabric.level[ends], axis=1, kind="stable"), axis=1)

    def place(low: int, high: int) -> tuple[str, tuple[str, ...]]:
        return f"{roles[low]} - {roles[high]}", tuple(models[end] for end in (low, high) if end < fabric.n_switches)

    parts: Counter[Part] = Counter()
    if cabling is None:
        kind = (fabric.role.astype(np.int64) << 17) + (fabric.model.astype(np.int64) + 1 << 1)
        kinds, kind = np.unique(kind + (np.arange(fabric.n_nodes) < fabric.n_switches), return_inverse=True)
        width, speed = (of[fabric.links].min(axis=1).astype(np.int64) for of in (fabric.width, fabric.speed))
        alike = (kind[ends[:, 0]] * len(kinds) + kind[ends[:, 1]] << 16) + (width << 8) + speed
        bought = np.flatnonzero(~backplane(fabric, catalog))
        _, first, count = np.unique(alike[bought], return_index=True, return_counts=True)
        for link, number in zip(bought[first].tolist(), count.tolist(), strict=True):
            parts["cable", speed_name(int(width[link]), int(speed[link])), *place(*ends[link].tolist())] += number
        return parts
    places = (place(*pair) for pair in ends.tolist())
    for (where, switches), index, cable in zip(places, cabling.part.tolist(), cabling.cable.tolist(), strict=True):
        if cable < 0 or ("cable", cable) in counted:
            continue
        counted.add(("cable", cable))
        part = cabling.parts[index]
        if part.kind.startswith("fibre"):
            listed = part.item in catalog.cables
            parts["fibre", part.item if listed else f"{part.item}, {part.length_m:g} m", where, ()] += part.pieces
        else:
            parts["cable", part.item, where, switches] += 1
    for port in np.flatnonzero(cabling.optic >= 0).tolist():
        cage = int(cabling.cage[port])
        if ("cage", cage) not in counted:
            counted.add(("cage", cage))
            node = int(fabric.port_node[port])
            inside_of = (models[node],) if node < fabric.n_switches else ()
            parts["optic", cabling.optic_of(port), roles[node], inside_of] += 1
    return parts
