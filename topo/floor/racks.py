"""The floor: racks in rows, the position of each device, and the length of each cable along the trays.

Devices are sorted so that neighbours in the network are close on the floor: servers by leaf, each switch at the median
of its neighbours, as in Sugiyama's layered drawings. The sequence is divided into racks, which fill row by row, every
other row in reverse, so that consecutive racks are adjacent. Of switches that stand in for one another at most half,
rounded up, stand in one rack: the next ones take the rack beside it. Leaves of servers with one adapter, and servers
of a group that serves the others, are spread alike over racks that have room.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from operator import add, sub
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from topo.amounts import Range, Sum, Verdict, listed
from topo.catalog.devices import list_frames
from topo.catalog.load import Catalog
from topo.checks import Check
from topo.errors import DesignError, Finding, did_you_mean, plural
from topo.fabric import Fabric, Kind, Role, frozen
from topo.spec.base import SpecModel, mismatch, spelled
from topo.spec.units import Metres, Watts
from topo.table import Shown, Table

RACK_UNIT_M = 0.04445
"""1.75 inches (EIA-310)."""

SIDE_M = 0.2
"""Distance from a port to the cable manager at the side of the rack: half of a 19-inch front, rounded down."""

LEADING_ZEROS = re.compile(r"(?<!\d)0+(?=\d)")

PDU = "pdu"
"""A power distribution unit in the bill: one for each feed of a rack, of no height, behind its devices."""

RackPosition = Annotated[
    str, *spelled(r"R[0-9]{2,4}-[0-9]{2,4}( U[0-9]{1,3})?", "a rack, and a unit, such as R01-03 U40")
]
"""A rack by row and place, both from 1, and perhaps the lowest unit that a device takes there."""


class Feeds(SpecModel):
    """The feeds of a rack, which share what it draws."""

    count: Annotated[int, Field(ge=1, le=8)] = 2
    """Feeds of each rack, each with a power distribution unit."""
    power: Annotated[Watts, Field(gt=0)]
    """Power of one feed, such as ``17 kW``."""
    spare: Annotated[int, Field(ge=0, le=7, validate_default=True)] = 1
    """Feeds that may fail while all devices keep their power."""

    @field_validator("spare")
    @classmethod
    def _some_give_power(cls, spare: int, info: ValidationInfo) -> int:
        count = info.data.get("count", spare + 1)
        if spare >= count:
            fewer = f"fewer than the {plural(count, 'feed')} of a rack, such as `spare: {count - 1}`"
            raise mismatch(fewer, f"{plural(spare, 'spare feed')} (`spare` is 1 where it is left out)")
        return spare


class FloorPlan(SpecModel):
    """The room for servers and switches; trays run above the racks along the rows, and across them."""

    rows: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Rows of racks, filled evenly; as many as make the room about square when left out."""
    racks_per_row: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Most racks in a row; as many as make the room about square when left out."""
    rack_units: Annotated[int, Field(ge=1, le=100)] = 42
    """Height of a rack in units of 44.45 mm."""
    rack_power: Watts | None = None
    """Maximum power of a rack, such as ``30 kW``; a device whose maximum is unknown makes this undecided."""
    rack_typical_power: Watts | None = None
    """Typical power of a rack: what its cooling takes away, where that follows the mean."""
    feeds: Feeds | None = None
    """Power feeds of each rack; a rack may draw at most the power of those that are not spare."""
    switches: Literal["servers", "middle", "end"] = "servers"
    """Where switches stand: beside the servers, or in racks of their own in the middle or at the end of each row."""
    stand_ins: Literal["apart", "together"] = "apart"
    """Switches that stand in for one another: at most half of them in a rack, or side by side, with shorter cables."""
    fixed: dict[str, RackPosition] = Field(default_factory=dict)
    """Positions of devices by name, such as ``leaf0: R01-03 U40``; `racks_per_row` must be given. Numbers may have
    other digits, since ``leaf0`` is ``leaf00`` in a plan with more leaves."""
    rack_width: Metres = 0.6
    """From the middle of a rack to that of the next."""
    row_pitch: Metres = 2.4
    """From the front of a row to that of the next: a rack and an aisle."""
    tray_height: Metres = 0.5
    """From the top of a rack to the tray."""
    slack: Metres = 0.5
    """Spare length at each end of a cable that leaves its rack."""
    rack_slack: Metres = 0.0
    """Spare length at each end of a cable within a rack."""

    @property
    def pdus(self) -> int:
        """Power distribution units of a rack: one a feed, two where the feeds are not stated."""
        return self.feeds.count if self.feeds else 2

    @property
    def most_power(self) -> float | None:
        """W that a rack may draw at most, by its own limit and that of its feeds; None where neither is given."""
        fed = (self.feeds.count - self.feeds.spare) * self.feeds.power if self.feeds else None
        return min((limit for limit in (self.rack_power, fed) if limit is not None), default=None)


@dataclass(frozen=True)
class Device:
    """A unit in a rack: a server, a switch, or a frame with all its chips."""

    name: str
    model: str
    rack_units: int
    typical_w: float | None
    """Typical power; None if unknown."""
    max_w: float | None
    """Maximum power; None if unknown."""

    @property
    def planned_w(self) -> float | None:
        """The least that planning has to allow: the maximum, or the typical power if that is unknown."""
        return self.typical_w if self.max_w is None else self.max_w

    def reserve_w(self, limit: int) -> float | None:
        """Return the W to reserve of the maximum (0) or of the typical power (1) of a rack; None if unknown."""
        return (self.planned_w, self.max_w if self.typical_w is None else self.typical_w)[limit]


@dataclass(frozen=True)
class Layout(Shown):
    """Positions of D devices in R racks."""

    floor: FloorPlan
    devices: tuple[Device, ...]
    node_device: tuple[NDArray[np.int32], ...]
    """For each subnet (N,) the index into `devices` of each node."""
    rack: NDArray[np.int32]
    """(D,) rack of each device, from 0."""
    unit: NDArray[np.int32]
    """(D,) lowest rack unit of each device, from 1."""
    row: NDArray[np.int32]
    """(R,) row of each rack, from 0."""
    column: NDArray[np.int32]
    """(R,) place of each rack in its row, from 0."""

    @property
    def n_racks(self) -> int:
        """Racks in use."""
        return len(self.row)

    @property
    def alone(self) -> tuple[int, ...]:
        """Devices in a rack of their own because the racks have a limit of power and theirs is unknown."""
        limits = self.floor.most_power, self.floor.rack_typical_power
        stated = [at for at, limit in enumerate(limits) if limit is not None]
        reserved = ([device.reserve_w(at) for at in stated] for device in self.devices)
        return tuple(number for number, watts in enumerate(reserved) if None in watts)

    def why_alone(self, catalog: Catalog) -> str:
        """Return which models have a rack for each device since their power is unknown, and where to give it."""
        models = Counter(self.devices[number].model for number in self.alone)
        said = ", ".join(f"{number:,} x {model}" for model, number in models.items())
        where = f"`power_max_w` in {' and '.join(catalog.tables_of(models))} of a `catalog` of your own"
        return f"power of {said} is unknown, so each has a rack of its own ({where})" if models else ""

    @property
    def inside(self) -> list[list[int]]:
        """The devices of each rack, the lowest first."""
        inside: list[list[int]] = [[] for _ in range(self.n_racks)]
        for device in np.lexsort((self.unit, self.rack)).tolist():
            inside[self.rack[device]].append(device)
        return inside

    @property
    def pinned(self) -> FloorPlan:
        """The floor with every device fixed where it stands, for a spec of a larger cluster."""
        stated = self.floor.racks_per_row or _per_row(self.n_racks, self.floor)
        per_row = max(stated, int(self.column.max(initial=0)) + 1)
        places = zip(self.devices, self.rack.tolist(), self.unit.tolist(), strict=True)
        stand = (place for place in places if place[0].model != PDU)
        fixed = {device.name: f"{self.rack_name(rack)} U{unit}" for device, rack, unit in stand}
        return self.floor.model_copy(update={"racks_per_row": per_row, "fixed": fixed})

    def rack_name(self, rack: int) -> str:
        """Name of a rack by row and place: ``R02-11``, both from 1."""
        return rack_name(self.row[rack], self.column[rack])

    @property
    def pdu_names(self) -> tuple[str, ...]:
        """Names of the power distribution units of all racks: ``R02-11-pdu1`` is the first of rack ``R02-11``."""
        racks = map(self.rack_name, range(self.n_racks))
        return tuple(f"{rack}-{PDU}{number}" for rack in racks for number in range(1, self.floor.pdus + 1))

    def stand_of(self, subnet: int, node: int) -> tuple[Device, int, int]:
        """Return the device of a node, its rack, and its lowest unit there: 0 for a PDU, which is at none."""
        at = int(self.node_device[subnet][node])
        device = self.devices[at]
        return device, int(self.rack[at]), int(self.unit[at]) if device.rack_units else 0

    def power_by_rack(self) -> list[Sum]:
        """Return the maximum power of each rack in W; a device of unknown maximum counts its typical power at least."""
        racks = [Sum()] * self.n_racks
        for device, rack in zip(self.devices, self.rack.tolist(), strict=True):
            racks[rack] += Sum.of([(device.planned_w, device.name)])
            if device.max_w is None and device.planned_w is not None:
                racks[rack] += Sum(None, (device.name,))
        return racks

    def typical_by_rack(self) -> list[Sum]:
        """Return the typical power of each rack in W; where that of a device is unknown, from 0 to its maximum."""
        racks = [Sum()] * self.n_racks
        for device, rack in zip(self.devices, self.rack.tolist(), strict=True):
            bounds = None if device.max_w is None else Range(0.0, device.max_w)
            racks[rack] += Sum.of([(bounds if device.typical_w is None else device.typical_w, device.name)])
        return racks

    @property
    def checks(self) -> tuple[Check, ...]:
        """Verdicts on the power of the racks: one for each limit that the floor states."""
        models = {device.model: device for device in self.devices}
        typical = sorted(name for name, one in models.items() if one.max_w is None and one.typical_w is not None)
        unknown = sorted(name for name, one in models.items() if one.planned_w is None)
        basis = f", typical power where the maximum is unknown: {listed(typical)}" if typical else ""
        lacking = f"; power of {listed(unknown)} unknown" if unknown else ""
        fed = self.floor.rack_power is None or self.floor.most_power != self.floor.rack_power
        found = []
        for what, key, limit, racks, how, column in (
            ("rack power", "feeds.power" if fed else "rack_power", self.floor.most_power, self.power_by_rack(),
             f"at maximum power{basis}", "power_max_w"),
            ("typical rack power", "rack_typical_power", self.floor.rack_typical_power, self.typical_by_rack(),
             "typically", "power_typical_w"),
        ):  # fmt: skip
            if limit is not None:
                fullest = max(racks, key=lambda rack: rack.known.high if rack.known else 0.0, default=Sum())
                if any(rack.missing for rack in racks):
                    fullest = Sum(fullest.known, (*(typical if what == "rack power" else ()), *unknown))
                note = f" in the fullest rack {how}{lacking}"
                ask = f"`{column}` of {listed(fullest.missing)}" if fullest.missing else ""
                check = Check.of(what, fullest, limit, f"floor.{key}", unit="W", note=note, ask=ask, shared=False)
                found.append(replace(check, verdict=Verdict.all_of(rack.against(limit) for rack in racks)))
        return tuple(found)

    @property
    def table(self) -> Table:
        """The devices by rack, from the lowest unit up."""
        names = ("rack", "lowest unit", "units", "device", "model", "power, typically", "power, at most")
        rows = []
        for at in (device for inside in self.inside for device in inside):
            one, rack = self.devices[at], self.rack_name(int(self.rack[at]))
            rows.append((rack, int(self.unit[at]), one.rack_units, one.name, one.model, one.typical_w, one.max_w))
        title = f"{plural(len(rows), 'device')} in {plural(self.n_racks, 'rack')}"
        return Table.of_rows(title, names, rows, units=("",) * 5 + ("W", "W"))


def place_devices(fabrics: Sequence[Fabric], catalog: Catalog, floor: FloorPlan) -> Layout:
    """Place every device of all subnets in a rack.

    DesignError for a device without a known height or that fits in no rack, and for a floor with too few racks.
    """
    devices, node_device = _devices(fabrics, catalog, floor)
    order = _order(fabrics, devices, node_device)
    stand_ins = _stand_ins(fabrics, node_device) if floor.stand_ins == "apart" else []
    switch = np.zeros(len(devices), bool)
    for fabric, mine in zip(fabrics, node_device, strict=True):
        switch[mine[: fabric.n_switches]] = True
    filling = _fill(devices, order, switch, floor, stand_ins)
    for wish in _wishes(fabrics, node_device) if floor.stand_ins == "apart" else []:
        filling.spread(wish, switch)
    place, unit = filling.place, filling.unit
    used, filled = np.unique(place[: len(order)], return_inverse=True)
    rack = np.concatenate([filled, np.zeros(len(devices) - len(order), filled.dtype)])
    racks = int(used.max(initial=-1)) + 1
    per_row = _per_row(racks, floor)
    row, column = _position(used, per_row)
    number = {rack_name(row[at], column[at]): at for at in range(len(used))}
    for index, device in enumerate(devices[len(order) :], len(order)):  # the lowest unit: no cable is too short
        rack[index], unit[index] = number.get(device.name.rpartition("-")[0], 0), 1
    layout = Layout(
        floor, tuple(devices), tuple(map(frozen, node_device)), frozen(rack.astype(np.int32)), frozen(unit), row, column
    )
    if floor.rows is not None and racks > floor.rows * per_row:
        unknown = layout.why_alone(catalog)
        lower = f"higher racks, more power for each, {'`stand_ins: together`, ' if stand_ins else ''}or "
        raise DesignError(
            f"{unknown and f'{unknown}: '}{racks} racks are needed, and the room has {floor.rows} rows x {per_row} = "
            f"{floor.rows * per_row}: short of {racks - floor.rows * per_row}. "
            f"{'Give that power, or take ' if unknown else f'Take {lower}'}a larger room, such as "
            f"`rows: {-(-racks // per_row)}`"
        )
    return layout


def route_lengths(fabric: Fabric, subnet: int, layout: Layout) -> NDArray[np.float64]:
    """Return (L,) metres of cable that each link needs.

    Within a rack a cable runs through the cable manager at the side; between racks up to the tray, along and across the
    trays, and down. The slack of both ends is added.
    """
    floor = layout.floor
    a, b = layout.node_device[subnet][fabric.port_node[fabric.links]].T
    rack_a, rack_b = layout.rack[a], layout.rack[b]
    across = floor.row_pitch * np.abs(layout.row[rack_a] - layout.row[rack_b])
    along = floor.rack_width * np.abs(layout.column[rack_a] - layout.column[rack_b])
    up = [RACK_UNIT_M * (floor.rack_units - layout.unit[end]) + floor.tray_height for end in (a, b)]
    within = RACK_UNIT_M * np.abs(layout.unit[a] - layout.unit[b]) + 2 * floor.rack_slack
    return frozen(2 * SIDE_M + np.where(rack_a == rack_b, within, up[0] + up[1] + along + across + 2 * floor.slack))


def _devices(
    fabrics: Sequence[Fabric], catalog: Catalog, floor: FloorPlan
) -> tuple[list[Device], list[NDArray[np.int32]]]:
    """List the devices, servers and then switches by subnet, PDUs last, and the device of each node.

    A frame is one device; the management port of a switch is at the switch.
    """
    devices: list[Device] = []
    index: dict[tuple[int, str], int] = {}  # by subnet, -1 for servers, and name
    node_device: list[NDArray[np.int32]] = []
    findings: dict[str, Finding] = {}  # by model: one device of each is enough to name
    for subnet, fabric in enumerate(fabrics):
        mine, frames = np.empty(fabric.n_nodes, np.int32), list_frames(fabric, subnet, catalog)
        for node in [*range(fabric.n_switches, fabric.n_nodes), *range(fabric.n_switches)]:
            if fabric.kind[node] == Kind.DEVICE:
                continue
            if fabric.host[node] >= 0:
                model, key = fabric.server_model_of(node), (-1, fabric.server_of(node))
            elif fabric.kind[node] == Kind.SWITCH:
                model, key = fabric.model_of(node), (subnet, frames.get(node) or fabric.label(node))
            else:
                raise DesignError(f"{fabric.names[node]} sits in no server: only planned fabrics can be put in racks")
            if key not in index:
                index[key] = len(devices)
                try:
                    devices.append(make_device(key[1], model, catalog, floor))
                except DesignError as error:
                    findings.setdefault(model, error.findings[0])
            mine[node] = index[key]
        node_device.append(mine)
    if findings:
        raise DesignError(dict.fromkeys(findings.values()))
    number = {device.name: at for at, device in enumerate(devices)}
    for fabric, mine in zip(fabrics, node_device, strict=True):
        for node in np.flatnonzero(fabric.kind == Kind.DEVICE).tolist():
            name = fabric.server_of(node)
            if number.setdefault(name, len(devices)) == len(devices):
                devices.append(Device(name, PDU, 0, 0.0, 0.0))
            mine[node] = number[name]
    return devices, node_device


def _wanted(model: str, catalog: Catalog) -> str:
    """Say where to give the height of a model, and what else is unknown of it: power, and any price."""
    hardware = catalog.device(model)
    if hardware is None:
        return ": give a model of the catalog"
    (table,) = catalog.tables_of([model])
    more = [f"`{name}`" for name in ("power_max_w", "power_typical_w") if getattr(hardware, name) is None]
    more += [] if model in catalog.prices else ["a price (prices.csv)"]
    also = f"; limits also need {', '.join(more)}, unknown so far" if more else ""
    return f": give `rack_units` of {model} in {table} of a `catalog` of your own{also}"


def make_device(name: str, model: str, catalog: Catalog, floor: FloorPlan) -> Device:
    """Return a device with its height and power from the catalog.

    DesignError if its height is unknown, or it exceeds the height or power of a rack.
    """
    hardware = catalog.device(model)
    if hardware is None or hardware.rack_units is None:
        raise DesignError(f"{name} ({model or 'of no known model'}) has no height{_wanted(model, catalog)}")
    if hardware.rack_units > floor.rack_units:
        height = f"is {hardware.rack_units} rack units high, and a rack has {floor.rack_units}"
        raise DesignError(f"{name} ({model}) {height}")
    device = Device(name, model, hardware.rack_units, hardware.power_typical_w, hardware.power_max_w)
    for limit, watts in ((floor.most_power, device.planned_w), (floor.rack_typical_power, device.typical_w)):
        if limit is not None and watts is not None and watts > limit:
            raise DesignError(f"{name} ({model}) draws {watts:,.0f} W, and a rack may draw {limit:,.0f} W")
    return device


def _order(
    fabrics: Sequence[Fabric], devices: Sequence[Device], node_device: Sequence[NDArray[np.int32]]
) -> NDArray[np.int64]:
    """Return the devices but PDUs in the order of their positions; ports for management move none."""
    position = np.full(len(devices), np.nan)
    servers = _servers_in_order(fabrics, node_device)
    heights = np.array([devices[server].rack_units for server in servers], np.float64)
    position[servers] = np.cumsum(heights) - heights / 2
    ends = [np.empty((0, 2), np.int32)]
    for fabric, mine in zip(fabrics, node_device, strict=True):
        nodes = fabric.port_node[fabric.links]
        ends.append(mine[nodes[(fabric.kind[nodes] != Kind.DEVICE).all(axis=1)]])
    links = np.concatenate(ends)
    links = np.concatenate([links, links[:, ::-1]])
    while True:  # breadth first from the servers
        known = np.isnan(position[links[:, 0]]) & ~np.isnan(position[links[:, 1]])
        if not known.any():
            break
        device, neighbour = links[known].T
        by_place = np.lexsort((position[neighbour], device))
        reached, first, count = np.unique(device[by_place], return_index=True, return_counts=True)
        position[reached] = position[neighbour[by_place[first + count // 2]]]
    stands = [at for at, device in enumerate(devices) if device.model != PDU]
    return np.argsort(position[stands], kind="stable")  # devices without links come last


def _servers_in_order(fabrics: Sequence[Fabric], node_device: Sequence[NDArray[np.int32]]) -> list[int]:
    """List the servers by switch and port. Servers attached to several zones are spread over these in turn."""
    attached: dict[int, list[tuple[int, int, int]]] = {}
    for subnet, fabric in enumerate(fabrics):
        for node in np.flatnonzero(fabric.host >= 0).tolist():
            peers = fabric.peer[fabric.ports_of(node)].tolist()
            at = [(subnet, int(fabric.zone[node]), peer) for peer in peers if peer >= 0]
            attached.setdefault(int(node_device[subnet][node]), []).extend(at)
    key: dict[int, tuple[int, int]] = {}
    turn = Counter[tuple[int, ...]]()
    for server, at in attached.items():
        first = min((subnet for subnet, _, _ in at), default=len(fabrics))
        zones = tuple(sorted({zone for subnet, zone, _ in at if subnet == first}))
        zone = zones[turn[zones] % len(zones)] if zones else None
        turn[zones] += 1
        key[server] = first, min((peer for *place, peer in at if place == [first, zone]), default=server)
    return sorted(attached, key=lambda server: key[server])


def _stand_ins(fabrics: Sequence[Fabric], node_device: Sequence[NDArray[np.int32]]) -> list[tuple[int, ...]]:
    """List the sets of switches that stand in for one another: those of one role that a device leads up to.

    They are the leaves of a server in a network, or in all, the spines of a leaf, the joints of a zone, and the leaves
    of a zone at a joint.
    """
    led = defaultdict[tuple[object, ...], set[int]](set)
    for subnet, (fabric, mine) in enumerate(zip(fabrics, node_device, strict=True)):
        at = fabric.port_node[fabric.links]
        for a, b in np.unique(np.concatenate([at, at[:, ::-1]]), axis=0).tolist():
            if b >= fabric.n_switches:
                continue
            below, end = int(mine[a]), int(mine[b])
            if a >= fabric.n_switches:
                led[below, subnet].add(end)
                led[below,].add(end)
            elif fabric.role[a] == Role.JOINT:
                led[below, "leaves", int(fabric.zone[b])].add(end)
            elif fabric.role[b] == Role.JOINT:
                led[subnet, "joints", int(fabric.zone[a])].add(end)
            elif fabric.level[a] < fabric.level[b]:
                led[below, "above", int(fabric.role[b])].add(end)
    return sorted({tuple(sorted(ends)) for ends in led.values() if len(ends) > 1})


def _wishes(fabrics: Sequence[Fabric], node_device: Sequence[NDArray[np.int32]]) -> list[tuple[int, ...]]:
    """List sets of devices of which half should be left when a rack fails, where that takes no further rack.

    They are the leaves of a network in which servers have one adapter, and the servers of a group that do not compute.
    """
    groups = defaultdict[tuple[str, str], set[int]](set)
    for fabric, mine in zip(fabrics, node_device, strict=True):
        own, ends = defaultdict[int, set[int]](set), fabric.ends()
        for node, leaf in zip(fabric.end_node[ends].tolist(), fabric.end_switch[ends].tolist(), strict=True):
            own[int(mine[node])].add(int(mine[leaf]))
            if fabric.role[node] != Role.COMPUTE:
                groups["servers", fabric.server_of(node).rstrip("0123456789")].add(int(mine[node]))
        groups["leaves", fabric.name] = {leaf for leaves in own.values() if len(leaves) == 1 for leaf in leaves}
    return [tuple(sorted(devices)) for _, devices in sorted(groups.items()) if len(devices) > 1]


def _fill(
    devices: Sequence[Device],
    order: NDArray[np.int64],
    switch: NDArray[np.bool_],
    floor: FloorPlan,
    stand_ins: Sequence[tuple[int, ...]],
) -> _Filling:
    """Divide the order into racks by height and power, from the last one where that takes fewer of them.

    A single rack may hold all ``stand_ins``: it would take everything with it anyway.
    """
    fixed = _fixed(devices, floor)
    free = [index for index in order.tolist() if index not in fixed]
    apart = [[index for index in free if switch[index] == own] for own in (False, True)]
    groups = [free] if floor.switches == "servers" else apart
    needed = [bool(group) * 1 for group in groups]
    # More racks until all fit: fixed devices occupy units. Racks of switches are added last, since servers move them.
    while True:
        for turn in (1, -1):
            filling = _Filling(devices, floor, fixed, stand_ins if sum(needed) > 1 else [])
            places = zip(groups, _places(needed, floor), strict=True)
            left = [filling.take(group[::turn], mine[::turn]) for group, mine in places]
            if not any(left):
                return filling
        short = next(number for number, rest in enumerate(left) if rest)
        needed[short] += max(-(-sum(devices[index].rack_units for index in left[short]) // floor.rack_units), 1)


class _Filling:
    """Racks as they are filled."""

    def __init__(
        self,
        devices: Sequence[Device],
        floor: FloorPlan,
        fixed: dict[int, tuple[int, int | None]],
        stand_ins: Sequence[tuple[int, ...]],
    ) -> None:
        self.devices, self.floor, self.fixed = devices, floor, fixed
        self.sets = defaultdict[int, list[tuple[int, ...]]](list)
        """By switch, the sets of stand-ins that it is in."""
        for stands in stand_ins:
            for index in stands:
                self.sets[index].append(stands)
        self.inside = Counter[tuple[int, tuple[int, ...]]]()
        """By rack and set, how many of the set stand there."""
        self.place = np.zeros(len(devices), np.int64)
        self.unit = np.zeros(len(devices), np.int32)
        self.taken = defaultdict[int, dict[int, int]](dict)
        """By rack and unit, the device there."""
        limits = enumerate((floor.most_power, floor.rack_typical_power))
        self.limits = {at: limit for at, limit in limits if limit is not None}
        self.drawn = defaultdict[int, list[float]](lambda: [0.0] * len(self.limits))
        """By rack, the W reserved of each limit."""
        for index, (place, unit) in sorted(fixed.items(), key=lambda item: item[1][1] is None):
            device = devices[index]
            lowest = unit or self.lowest(index, place, 1)
            row, column = _position(np.array([place]), floor.racks_per_row or 1)
            rack, height = f"rack {rack_name(row[0], column[0])}", device.rack_units
            if lowest is None or lowest + max(height, 1) - 1 > floor.rack_units:
                raise DesignError(f"{device.name} is {height} units high, and {rack} has no room for it there")
            for other in (self.taken[place].get(at) for at in range(lowest, lowest + height)):
                if other is not None:
                    raise DesignError(f"{device.name} and {devices[other].name} are fixed on the same units of {rack}")
            if not self.can_power(index, place):
                most = " and ".join(f"{limit:,.0f} W" for limit in self.limits.values())
                raise DesignError(f"the devices fixed in {rack} draw more than the {most} of a rack")
            self.put(index, place, lowest)

    def take(self, group: Sequence[int], places: Sequence[int]) -> list[int]:
        """Place devices in racks one after another; return those that do not fit.

        One that has too many stand-ins in a rack goes first into the next.
        """
        left = list(group)
        for place in places:
            waiting, above = [], 1
            for number, index in enumerate(left):
                if self.has_half(index, place):
                    waiting.append(index)
                    continue
                unit = self.lowest(index, place, above)
                if unit is None or not self.can_power(index, place):
                    waiting += left[number:]
                    break
                self.put(index, place, unit)
                above = unit + self.devices[index].rack_units
            left = waiting
        return left

    def has_half(self, index: int, place: int) -> bool:
        """Whether half of some stand-ins of a device are in a rack already."""
        return any(self.inside[place, stands] >= -(-len(stands) // 2) for stands in self.sets[index])

    def spread(self, wish: Sequence[int], switch: NDArray[np.bool_]) -> None:
        """Move what is more than half of a set in a rack to the nearest racks with room; no other device moves.

        Where switches have racks of their own, a device stays among its kind.
        """
        members, half, own = list(wish), -(-len(wish) // 2), self.floor.switches != "servers"
        used = sorted({place for place, taken in self.taken.items() for other in taken.values()
                       if not own or switch[other] == switch[wish[0]]})  # fmt: skip
        for index in reversed([index for index in wish if index not in self.fixed]):
            here = int(self.place[index])
            if np.count_nonzero(self.place[members] == here) <= half:
                continue
            for place in sorted(used, key=lambda other: abs(other - here)):
                unit = self.lowest(index, place, 1)
                room = np.count_nonzero(self.place[members] == place) < half and not self.has_half(index, place)
                if room and unit is not None and self.can_power(index, place):
                    for at in [at for at, other in self.taken[here].items() if other == index]:
                        del self.taken[here][at]
                    self.inside.subtract((here, stands) for stands in self.sets[index])
                    self.drawn[here] = list(map(sub, self.drawn[here], self.draws(index)))
                    self.put(index, place, unit)
                    break

    def lowest(self, index: int, place: int, above: int) -> int | None:
        """Return the lowest free unit from ``above`` on where a device fits, None if nowhere; height 0 always fits."""
        height = self.devices[index].rack_units
        if not height:
            return min(above, self.floor.rack_units)
        walls = [above - 1, *sorted(unit for unit in self.taken[place] if unit >= above), self.floor.rack_units + 1]
        return next((low + 1 for low, high in pairwise(walls) if high - low > height), None)

    def can_power(self, index: int, place: int) -> bool:
        reserved = zip(self.limits.values(), self.drawn[place], self.draws(index), strict=True)
        return all(not drawn or drawn + draw <= most for most, drawn, draw in reserved)

    def draws(self, index: int) -> list[float]:
        """Return the power to reserve for a device of each limit: all of it if unknown, so that it stands alone."""
        reserved = ((limit, self.devices[index].reserve_w(at)) for at, limit in self.limits.items())
        return [limit if watts is None else watts for limit, watts in reserved]

    def put(self, index: int, place: int, unit: int) -> None:
        self.place[index], self.unit[index] = place, unit
        self.inside.update((place, stands) for stands in self.sets[index])
        self.taken[place].update(dict.fromkeys(range(unit, unit + self.devices[index].rack_units), index))
        self.drawn[place] = list(map(add, self.drawn[place], self.draws(index)))


def _fixed(devices: Sequence[Device], floor: FloorPlan) -> dict[int, tuple[int, int | None]]:
    """Return rack and unit of each device with a fixed position; None is any unit."""
    if floor.fixed and floor.racks_per_row is None:
        raise DesignError("positions are fixed, which move with the length of a row: give `racks_per_row`")
    per_row = floor.racks_per_row or 1
    index = {device.name: number for number, device in enumerate(devices)}
    without_zeros = {LEADING_ZEROS.sub("", name): number for name, number in index.items()}
    fixed: dict[int, tuple[int, int | None]] = {}
    for name, text in floor.fixed.items():
        number = index.get(name, without_zeros.get(LEADING_ZEROS.sub("", name)))
        if number is None:
            raise DesignError(f"{name} has a fixed position, and there is no such device. {did_you_mean(name, index)}")
        rack, _, unit = text.partition(" U")
        row, column = (int(part) - 1 for part in rack[1:].split("-"))
        inside = 0 <= row < (floor.rows or row + 1) and 0 <= column < per_row
        if not inside or unit == "0":
            room = f"{floor.rows or 'any'} rows of {per_row} racks"
            raise DesignError(f"{name} is fixed at {text}, which does not exist: {room}, from R01-01 U1 on")
        fixed[number] = row * per_row + (per_row - 1 - column if row % 2 else column), int(unit) if unit else None
    return fixed


def _places(needed: Sequence[int], floor: FloorPlan) -> list[list[int]]:
    """Return the racks of each group: of all devices, or of servers and of switches."""
    racks = sum(needed)
    per_row, length = _per_row(racks, floor), _per_row(racks, floor, even=True)
    rows = []
    for number, left in enumerate(range(racks, 0, -length)):  # rows fill every other one in reverse, from one side
        first = number * per_row + (per_row - length if number % 2 else 0)
        rows.append(range(first, first + min(left, length)))
    places = list(chain(*rows))
    if len(needed) == 1:
        return [places]
    own: list[int] = []
    for number, row in enumerate(rows):
        # Equal numbers in each row; the remainder goes to the first rows.
        count = min(-(-(needed[1] - len(own)) // (len(rows) - number)), len(row))
        first = (len(row) - count) // 2 if floor.switches == "middle" else 0 if number % 2 else len(row) - count
        own += row[first : first + count]
    return [[place for place in places if place not in {*own}], own]


def _per_row(racks: int, floor: FloorPlan, *, even: bool = False) -> int:
    """Return the racks in a row: an equal part where the rows are given, or so that the floor is about square.

    Rows with fixed devices are as long as given, since places count from their end; ``even``: as much as is filled.
    """
    if floor.racks_per_row is not None and (floor.rows is None or (floor.fixed and not even)):
        return floor.racks_per_row
    if floor.rows is not None:
        per_row = min(-(-racks // floor.rows), floor.racks_per_row or racks)
    else:
        per_row = round((racks * floor.row_pitch / floor.rack_width) ** 0.5)
    return max(per_row, 1)


def _position(places: NDArray[np.int64], per_row: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return row and column of racks that fill every other row in reverse."""
    row, column = np.divmod(places.astype(np.int32), np.int32(per_row))
    return frozen(row), frozen(np.where(row % 2, per_row - 1 - column, column).astype(np.int32))


def rack_name(row: int | np.integer[Any], column: int | np.integer[Any]) -> str:
    """Name of a rack by row and place, both from 0."""
    return f"R{row + 1:02d}-{column + 1:02d}"
