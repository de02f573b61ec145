"""``cable-book.html``: what the crew that pulls the cables prints: rack by rack, then bundle by bundle.

The floor comes first, with the cables in its trays. Each rack has its front and, device by device from the top, every
cable that is plugged in there with its label, and where the other end is. Each bundle lists its cables with their
labels. Without a floor plan there are neither racks nor bundles, and the book goes device by device. Labels and numbers
are those of ``cables.csv``; a cable that carries several links is one plug, and bears the label of the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from plan.export.base import Export
from plan.export.cable_schedule import HEADER, rows_of
from plan.pipeline import COMPILE, PLACE
from plan.render.html import render_page
from topo import Cabling, Catalog, Fabric, Layout, draw_each_rack, draw_floor

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
        floor="" if layout is None else draw_floor(fabrics, layout, cablings, title=name, bare=True).svg,
        bundles=[
            (bundle, of_it[0]["a_rack"], of_it[0]["b_rack"], _parts(of_it), _cables(of_it)) for bundle, of_it in bundles
        ],
        parts=[(part, length, count, catalog.describe(part)) for part, length, count in _parts(rows)],
        cables=len(_cables(rows)),
    )


def _cables(rows: Iterable[Row]) -> list[Row]:
    """Return a line of each cable: that of its first link."""
    cables: dict[object, Row] = {}
    for row in rows:
        cables.setdefault(row["cable_id"], row)
    return list(cables.values())


def _parts(rows: Iterable[Row]) -> list[tuple[str, str, int]]:
    """Return part, length and number of the cables of some lines."""
    counts = Counter((str(row["part_number"]), str(row["length_m"])) for row in _cables(rows))
    return [(*what, count) for what, count in sorted(counts.items())]


def _racks(fabrics: Sequence[Fabric], layout: Layout) -> Iterable[Rack]:
    """Yield every rack with what stands in it, as yet without cables."""
    fronts = draw_each_rack(fabrics, layout)
    for rack, watts in enumerate(layout.power_by_rack()):
        place = f"row {layout.row[rack] + 1}, place {layout.column[rack] + 1}"
        yield Rack(layout.rack_name(rack), f"{place}; {watts} W at most", fronts[rack].svg)


CABLE_BOOK = Export("cable-book", "every cable to print: racks with their elevations, bundles, labels",
                    "browsers (HTML5)", (*COMPILE, *PLACE), {"cable-book.html": lambda plan, subnet: format_cable_book(
                        plan.name, rows_of(plan), plan.planned.catalog, plan.fabrics, plan.layout,
                        plan.cablings or ())})  # fmt: skip
