"""``cables.csv`` and ``cable-book.html``: every cable with both its ends, for the crew that pulls it.

Labels follow ANSI/TIA-606: rack, rack unit and port of the near end, then of the far end, so the two ends differ.
A line is a link, or one of the parallel fibres of a link, which have numbers and labels of their own. The links in one
cable, as the legs of a splitter, are lines with one cable's number, and ports of one cage (``11/1`` and ``11/2``) share
its transceiver. Cables of one pair of racks are one bundle. Without a floor plan there are no racks, units, bundles and
lengths, each link is a cable, and the book goes device by device instead of rack by rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import NamedTuple

import numpy as np

import topo
from plan.export.base import Export
from plan.pipeline import COMPILE, PLACE, Plan
from plan.render.html import render_page
from topo import Cabling, Catalog, Fabric, Layout, Panel, Role

HEADER = (
    "cable_id", "a_rack", "a_u", "a_device", "a_port", "b_rack", "b_u", "b_device", "b_port", "type", "part_number",
    "length_m", "rate_gbps", "bundle", "label_a", "label_b", "a_port_guid", "b_port_guid", "role", "a_transceiver",
    "b_transceiver",
)  # fmt: skip


class End(NamedTuple):
    """One end of a cable; the schedule is sorted by the first three of the end nearer to the hosts."""

    device: str
    adapter: str
    """Adapter of a server, empty at a switch."""
    number: int
    port: str
    """The port as it is printed on the device: ``21``, ``11/1``, ``bmc``."""
    optic: str
    """Transceiver in its cage, empty where there is none."""
    guid: str
    rack: int
    """-1 without a floor plan."""
    rack_name: str
    unit: int

    @property
    def label(self) -> str:
        """Rack, unit and port; the device where it is at no unit."""
        return f"{self.rack_name}-{self.unit:02d}:{self.port}" if self.unit else f"{self.device}:{self.port}"


def cable_rows(
    fabrics: Sequence[Fabric], catalog: Catalog, layout: Layout | None = None, cablings: Sequence[Cabling] | None = None
) -> Iterator[tuple[str | int, ...]]:
    """Yield the lines of the schedule of all subnets, sorted by device and port of the end nearer to the hosts."""
    lines: list[tuple[End, End, tuple[int, ...], list[str], str, str]] = []
    for subnet, (fabric, front) in enumerate(zip(fabrics, topo.panels(fabrics, catalog), strict=True)):
        cabling = None if cablings is None else cablings[subnet]
        for link in np.flatnonzero(~topo.backplane(fabric, catalog)).tolist():
            ports = sorted(fabric.links[link].tolist(), key=lambda port: (fabric.level[fabric.port_node[port]], port))
            a, b = (_end(fabric, subnet, port, front, layout, cabling) for port in ports)
            nodes = fabric.port_node[ports]
            role = " - ".join(Role(role).name.lower() for role in fabric.role[nodes].tolist())
            if (nodes < fabric.n_switches).all() and -1 not in fabric.zone[nodes] and np.ptp(fabric.zone[nodes]):
                role += " between zones"  # as the groups of a dragonfly are, too
            # The legs of a splitter share the number of a cable; without a floor plan each link is a cable.
            number: tuple[int, ...]
            number, what, pieces = (subnet, link), ["", "", ""], 1
            if cabling is not None:
                part = cabling.parts[cabling.part[link]]
                number, pieces = (-1, int(cabling.cable[link])), part.pieces
                what = [part.kind, part.item, "" if part.length_m is None else f"{part.length_m:g}"]
            what.append(f"{fabric.rate_gbps[ports].min():g}")
            marks = [f".{piece}" for piece in range(1, pieces + 1)] if pieces > 1 else [""]
            lines += [(a, b, (*number, piece), what, role, mark) for piece, mark in enumerate(marks)]
    lines.sort(key=lambda line: line[0][:3])
    pairs = [tuple(sorted((a.rack, b.rack))) for a, b, *_ in lines]
    apart = sorted({pair for pair in pairs if pair[0] != pair[1]})
    bundle = {pair: f"B{number:0{len(str(len(apart)))}d}" for number, pair in enumerate(apart, start=1)}
    numbers = {number: at for at, number in enumerate(dict.fromkeys(line[2] for line in lines), start=1)}
    for (a, b, number, what, role, piece), pair in zip(lines, pairs, strict=True):
        near, far = f"{a.label}{piece}", f"{b.label}{piece}"
        yield (
            f"C{numbers[number]:0{len(str(len(numbers)))}d}",
            *(text for end in (a, b) for text in (end.rack_name, end.unit or "", end.device, end.port)),
            *(*what, bundle.get(pair, ""), f"{near}/{far}", f"{far}/{near}"),
            *(a.guid, b.guid, role, a.optic, b.optic),
        )


def _end(fabric: Fabric, subnet: int, port: int, front: Panel, layout: Layout | None, cabling: Cabling | None) -> End:
    node = int(fabric.port_node[port])
    rack, unit, name = -1, 0, ""
    if layout is not None:
        _, rack, unit = layout.stand_of(subnet, node)
        name = layout.rack_name(rack)
    return End(
        device=fabric.server_of(node),
        adapter=fabric.names[node].partition(" ")[2] if fabric.host[node] >= 0 else "",
        number=int(fabric.port_number[port]),
        port=front.labels[port],
        optic=cabling.optic_of(port) if cabling else "",
        guid=f"0x{int(fabric.port_guid[port]):016x}",
        rack=rack,
        rack_name=name,
        unit=unit,
    )


def rows_of(plan: Plan) -> Iterator[tuple[str | int, ...]]:
    """Return the rows of the schedule of a plan."""
    return cable_rows(plan.fabrics, plan.planned.catalog, plan.layout, plan.cablings)


CABLES = Export("cables", "every cable with both its ends, for the crew that pulls it", "any reader of CSV (RFC 4180)",
                (*COMPILE, *PLACE),
                {"cables.csv": lambda plan, subnet: topo.format_csv(HEADER, rows_of(plan))})  # fmt: skip


Row = dict[str, str | int]
"""A line of the schedule by the names of its columns."""


@dataclass
class Plug:
    """One end of a cable, where it is plugged in."""

    row: Row
    label: str
    optic: str
    """Transceiver that it goes into; those of several ports in one cage are one."""
    ports: list[str]
    far: list[str]
    """Device and port of the other end of each link in it."""


@dataclass
class Rack:
    """A page of the book: a rack, or one device where there are no racks."""

    name: str
    about: str = ""
    front: str = ""
    """SVG of what stands in it."""
    devices: dict[tuple[int, str], dict[str, Plug]] = field(default_factory=dict)
    """Of each device, by lowest unit and name, its plugs by the number of the cable."""


def format_cable_book(
    name: str,
    schedule: Iterable[tuple[str | int, ...]],
    catalog: Catalog,
    fabrics: Sequence[Fabric] = (),
    layout: Layout | None = None,
    cablings: Sequence[Cabling] = (),
) -> str:
    """Return the page of a cluster's schedule, of a cluster with a floor plan with its racks."""
    rows: list[Row] = [dict(zip(HEADER, cells, strict=True)) for cells in schedule]
    racks = {} if layout is None else {rack.name: rack for rack in _racks(fabrics, layout)}
    for row in rows:
        for near, far in (("a", "b"), ("b", "a")):
            device, cable = str(row[f"{near}_device"]), str(row["cable_id"])
            place = str(row[f"{near}_rack"]) or device
            rack = racks.setdefault(place, Rack(place))
            plugs = rack.devices.setdefault((int(row[f"{near}_u"] or 0), device), {})
            plug = plugs.setdefault(
                cable, Plug(row, str(row[f"label_{near}"]), str(row[f"{near}_transceiver"]), [], [])
            )
            plug.ports.append(str(row[f"{near}_port"]))
            plug.far.append(f"{row[f'{far}_device']} {row[f'{far}_port']}")
    for rack in racks.values():
        rack.devices = dict(sorted(rack.devices.items(), key=lambda item: (-item[0][0], item[0][1])))
    bundled = sorted((row for row in rows if row["bundle"]), key=lambda row: str(row["bundle"]))
    bundles = [(bundle, list(of_it)) for bundle, of_it in groupby(bundled, key=lambda row: row["bundle"])]
    return render_page(
        "plan.export",
        "cable_book.html",
        "cable_book.css",
        name=name,
        racks=list(racks.values()),
        floor="" if layout is None else topo.draw_floor(fabrics, layout, cablings, title=name, bare=True).svg,
        bundles=[
            (bundle, of_it[0]["a_rack"], of_it[0]["b_rack"], _parts(of_it), _cables(of_it)) for bundle, of_it in bundles
        ],
        parts=[(part, length, count, catalog.describe(part)) for part, length, count in _parts(rows)],
        cables=len(_cables(rows)),
    )


def _cables(rows: Iterable[Row]) -> list[Row]:
    cables: dict[object, Row] = {}
    for row in rows:
        cables.setdefault(row["cable_id"], row)
    return list(cables.values())


def _parts(rows: Iterable[Row]) -> list[tuple[str, str, int]]:
    counts = Counter((str(row["part_number"]), str(row["length_m"])) for row in _cables(rows))
    return [(*what, count) for what, count in sorted(counts.items())]


def _racks(fabrics: Sequence[Fabric], layout: Layout) -> Iterable[Rack]:
    """Yield every rack with what stands in it, as yet without cables."""
    fronts = topo.draw_each_rack(fabrics, layout)
    for rack, watts in enumerate(layout.power_by_rack()):
        place = f"row {layout.row[rack] + 1}, place {layout.column[rack] + 1}"
        yield Rack(layout.rack_name(rack), f"{place}; {watts} W at most", fronts[rack].svg)


CABLE_BOOK = Export("cable-book", "every cable to print: racks with their elevations, bundles, labels",
                    "browsers (HTML5)", (*COMPILE, *PLACE), {"cable-book.html": lambda plan, subnet: format_cable_book(
                        plan.name, rows_of(plan), plan.planned.catalog, plan.fabrics, plan.layout,
                        plan.cablings or ())})  # fmt: skip
