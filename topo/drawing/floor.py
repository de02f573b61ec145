"""Draws the floor with its racks and trays from above, and the front of each rack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from topo import palette
from topo.drawing import HEAD, LEAST_WIDTH, MARGIN, Drawing, frame
from topo.drawing.scene import text_width
from topo.drawing.svg import WIDER, Mark, element, format_marks, text, told, tooltip
from topo.errors import plural
from topo.fabric import Fabric, Kind, Role
from topo.floor.cables import Cabling, fill_trays
from topo.floor.racks import Device, Layout, rack_name
from topo.hostlist import compress

UNIT, FRONT, SCALE = 13.0, 190.0, 22.0
"""Of a rack's front: height of a unit, width, and room for the numbers of units beside it."""
RACK, DEEP, GAP = 54.0, 48.0, 12.0
"""Of a rack from above: width, depth, and room beside it, where cables cross to the next row."""
AISLE = 26.0
"""Room between two rows, where the tray of the second is."""
THICK = 10.0
"""Width of the fullest tray."""
RACKS_ACROSS = 6
"""Fronts on a page: as many as a landscape A3 has room for at 96 pixels an inch (420 mm, 1,587 pixels)."""
INDEX_LINE, INDEX_ROOM = 18.0, 640.0
"""Of the index: height of a line, and room for names of devices."""
ROW_NAME = 40.0
"""Room for the name of a row."""


def draw_floor(
    fabrics: Sequence[Fabric],
    layout: Layout,
    cablings: Sequence[Cabling],
    *,
    title: str | None = None,
    bare: bool = False,
) -> Drawing:
    """Draw the floor from above: every rack with what stands in it, and how many cables lie in the trays.

    Parameters
    ----------
    fabrics, layout, cablings
        Those of a cluster.
    title : str, optional
        Of what the floor is; the name of the first fabric when left out.
    bare : bool
        Whether it is part of a page that has `palette.STYLE`: without title and margin.

    Returns
    -------
    Drawing
        SVG that is not to scale; a rack is an element with its number as ``data-rack``.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("dgx-h100-48")
    >>> drawing = topo.draw_floor(cluster.fabrics, cluster.layout, cluster.cablings)
    >>> drawing.svg.count("data-rack"), "R01-01" in drawing.svg
    (11, True)
    """
    trays = fill_trays(fabrics, layout, cablings)
    fullest = int(max(trays.along.max(initial=0), trays.across.max(initial=0)))
    columns, rows = int(layout.column.max(initial=0)) + 1, int(layout.row.max(initial=0)) + 1
    edge, top, step = (GAP, 0.0, RACK + GAP) if bare else (MARGIN, MARGIN + HEAD, RACK + GAP)
    left = edge + ROW_NAME
    parts: list[str] = []

    def at(row: int, column: int) -> tuple[float, float]:
        return left + column * step, top + row * (DEEP + AISLE) + AISLE

    for way, counts in (("", trays.along), ("across", trays.across)):
        for row, column in np.argwhere(counts).tolist():
            x, y = at(row, column)
            cables, wide = int(counts[row, column]), THICK * (counts[row, column] / fullest) ** 0.5
            # A tray leads from the middle of a rack to that of the next; cables cross in the gap before a rack.
            begin, leads = (-GAP / 2, f"v{DEEP + AISLE:.1f}") if way else (RACK / 2, f"h{step:.1f}")
            line = f"M{x + begin:.1f} {y - AISLE / 2:.1f}{leads}"
            ends = [(row, column), (row + 1, column) if way else (row, column + 1)]
            words = f"{' to '.join(rack_name(*end) for end in ends)}: {plural(cables, 'cable')} {way}".rstrip()
            shade, pale = (palette.LOADS[-1][1], {}) if cables == fullest else (palette.PLAIN, {"opacity": "0.55"})
            thick = float(max(wide, 0.8))
            parts.append(told(words, element("path", class_="k", d=line, stroke=shade, stroke_width=thick, **pale)))
    for rack in _racks(fabrics, layout):
        place = at(int(layout.row[rack.number]), int(layout.column[rack.number]))
        parts.append(_rack_from_above(rack, layout.floor.rack_units, *place))
    parts += [text(edge, at(row, 0)[1] + DEEP / 2 + 4, f"row {row + 1}", "l") for row in range(rows)]
    y = top + rows * (DEEP + AISLE) + 16
    legend = [*_role_marks(fabrics), ("line", palette.PLAIN, "cables in a tray: the wider, the more")]
    if fullest:
        legend.append(("line", palette.LOADS[-1][1], f"the fullest: {plural(fullest, 'cable')}"))
    width = max(LEAST_WIDTH, left - edge + columns * step)
    marks, tall = format_marks(edge, y, width - edge, [legend])
    about = (
        f"{plural(layout.n_racks, 'rack')} of {layout.floor.rack_units} units in {plural(rows, 'row')}, "
        f"{plural(len(layout.devices), 'device')}; {layout.floor.rack_width:g} m from rack to rack, "
        f"{layout.floor.row_pitch:g} m from row to row, drawn not to scale"
    )
    return frame(f"{title or fabrics[0].name}: floor", about, [*parts, marks], width, y + tall, bare=bare)


def draw_racks(fabrics: Sequence[Fabric], layout: Layout, *, title: str | None = None) -> tuple[Drawing, ...]:
    """Draw the front of every rack, row by row, each device with its name and model, on pages that can be printed.

    Parameters
    ----------
    fabrics, layout
        Those of a cluster.
    title : str, optional
        Whose racks they are; the name of the first fabric when left out.

    Returns
    -------
    tuple of Drawing
        Pages of `RACKS_ACROSS` racks of one row at most: each is as wide as a landscape A3 at 96 pixels an inch, and
        also readable on A4.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("dgx-h100-48")
    >>> pages = topo.draw_racks(cluster.fabrics, cluster.layout)
    >>> len(pages), "QM9700" in pages[0].svg
    (3, True)
    """
    step, high = SCALE + FRONT + 2 * GAP, layout.floor.rack_units * UNIT + 64
    fronts = [_front(rack, layout.floor.rack_units) for rack in _racks(fabrics, layout)]
    pages = rack_pages(layout)
    drawings = []
    for number, racks in enumerate(pages, 1):
        parts = [
            element("g", fronts[rack], transform=f"translate({MARGIN + place * step:.1f} {MARGIN + HEAD:.1f})")
            for place, rack in enumerate(racks)
        ]
        width, bottom = max(LEAST_WIDTH, len(racks) * step), MARGIN + HEAD + high
        marks, tall = format_marks(MARGIN, bottom, width, [_role_marks(fabrics)])
        about = (
            f"{_span(layout, racks)}, page {number} of {len(pages)}; {plural(layout.n_racks, 'rack')} of "
            f"{layout.floor.rack_units} units, {plural(len(layout.devices), 'device')}"
        )
        drawings.append(frame(f"{title or fabrics[0].name}: racks", about, [*parts, marks], width, bottom + tall))
    return tuple(drawings)


def draw_rack_index(layout: Layout, files: Sequence[str], title: str) -> Drawing:
    """Draw the index of the pages of `draw_racks`: which racks, and what in them, are in which file.

    Parameters
    ----------
    layout : Layout
        Where everything stands.
    files : sequence of str
        A name for each page. It is a link, for a browser that opens the index beside the pages.
    title : str
        Whose racks they are.

    Examples
    --------
    >>> import topo
    >>> layout = topo.preset("dgx-h100-48").layout
    >>> "leaf[00" in topo.draw_rack_index(layout, ["a.svg", "b.svg", "c.svg"], "racks").svg
    True
    """
    left = MARGIN + max(WIDER * text_width(file, 11) for file in files) + 2 * GAP
    parts = []
    for number, (file, racks) in enumerate(zip(files, rack_pages(layout), strict=True)):
        y = MARGIN + HEAD + INDEX_LINE * (number + 0.5)
        names = compress(layout.devices[one].name for one in np.flatnonzero(np.isin(layout.rack, racks)).tolist())
        parts += [
            element("a", text(MARGIN, y, file, "l"), href=quote(file)),
            text(left, y, _span(layout, racks), "l"),
            text(left + FRONT, y, _fitted(names, INDEX_ROOM), "l"),
        ]
    about = f"{plural(layout.n_racks, 'rack')} of {layout.floor.rack_units} units on {plural(len(files), 'page')}"
    bottom = MARGIN + HEAD + INDEX_LINE * len(files)
    return frame(f"{title}: racks", about, parts, left + FRONT + WIDER * INDEX_ROOM, bottom)


def _span(layout: Layout, racks: Sequence[int]) -> str:
    """Return the racks of a page: ``R01-01 to R01-06``."""
    return " to ".join(dict.fromkeys(layout.rack_name(rack) for rack in (racks[0], racks[-1])))


def rack_pages(layout: Layout) -> list[list[int]]:
    """Return the racks on each page of `draw_racks`: a row begins a page, and its pages are equally full."""
    pages = []
    for row in np.unique(layout.row).tolist():
        racks = np.flatnonzero(layout.row == row)
        racks = racks[np.argsort(layout.column[racks])]
        pages += [part.tolist() for part in np.array_split(racks, -(-len(racks) // RACKS_ACROSS))]
    return pages


def draw_each_rack(fabrics: Sequence[Fabric], layout: Layout) -> list[Drawing]:
    """Draw the front of each rack as a picture of its own, for a page that has `palette.STYLE`.

    Returns
    -------
    list of Drawing
        By number of the rack; see `Layout.rack_name`.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("dgx-h100-48")
    >>> len(topo.draw_each_rack(cluster.fabrics, cluster.layout))
    11
    """
    width, height = SCALE + FRONT + 4, layout.floor.rack_units * UNIT + 40
    return [
        frame(f"front of rack {rack.name}", "", [_front(rack, layout.floor.rack_units)], width, height, bare=True)
        for rack in _racks(fabrics, layout)
    ]


class _Rack(NamedTuple):
    """A rack and what stands in it."""

    number: int
    name: str
    devices: list[tuple[Device, int, str]]
    """Each with its lowest unit and its colour."""
    about: str
    """Units in use, and what it draws of what it may."""


def _racks(fabrics: Sequence[Fabric], layout: Layout) -> list[_Rack]:
    shades, units = _shades(fabrics, layout), layout.floor.rack_units
    limit = f" of {layout.floor.most_power:,.0f}" if layout.floor.most_power else ""
    racks = []
    for number, (inside, watts) in enumerate(zip(layout.inside, layout.power_by_rack(), strict=True)):
        devices = [(layout.devices[at], int(layout.unit[at]), str(shades[at])) for at in inside]
        used = sum(device.rack_units for device, _, _ in devices)
        power = "power unknown" if watts.known is None else f"{watts}{limit} W"
        racks.append(_Rack(number, layout.rack_name(number), devices, f"{used} of {units} units; {power}"))
    return racks


def _front(rack: _Rack, units: int) -> str:
    """Return the front of a rack as SVG elements, with its name above; unit 1 is at the foot."""
    parts = [
        text(SCALE, 12, rack.name, "z"),
        text(SCALE, 26, rack.about, "l"),
        element("rect", class_="f", x=SCALE, y=34.0, width=FRONT, height=units * UNIT),
    ]
    numbered = [1, *range(5, units + 1, 5)]
    parts += [text(SCALE - 4, 34 + (units - unit + 1) * UNIT - 3, str(unit), "e") for unit in numbered]
    for stands, lowest, shade in rack.devices:
        if not stands.rack_units:
            continue
        high, last = stands.rack_units * UNIT, lowest + stands.rack_units - 1
        y = 34 + (units - last) * UNIT
        box = element("rect", class_="v", x=SCALE + 2, y=y + 1, width=FRONT - 4, height=high - 2, rx=2)
        mark = element("rect", x=SCALE + 2, y=y + 1, width=5, height=high - 2, fill=shade)
        room = (FRONT - 18) / WIDER
        words = [text(SCALE + 10, y + high / 2 + 3.5, _fitted(stands.name, room))]
        if stands.model and text_width(f"{stands.name}  {stands.model}") <= room:
            words.append(text(SCALE + FRONT - 6, y + high / 2 + 3.5, stands.model, "e"))
        place = f"U{lowest}" if last == lowest else f"U{lowest} to U{last}"
        draws = "power unknown" if stands.planned_w is None else f"{stands.planned_w:,.0f} W"
        if stands.max_w is None and stands.planned_w is not None:
            draws += " typically"
        about = f"{stands.name} ({stands.model or 'model unknown'}), {place}, {draws}"
        parts.append(told(about, box, mark, *words))
    return element("g", *parts, data_rack=rack.number)


def _rack_from_above(rack: _Rack, units: int, x: float, y: float) -> str:
    """Return a rack: its name, and below it what it holds, unit by unit, the lowest on the left."""
    names = compress(device.name for device, _, _ in rack.devices)
    parts = [
        tooltip(f"{rack.name}: {rack.about}; {names if len(names) <= 400 else f'{names[:400]}…'}"),
        element("rect", class_="f", x=x, y=y, width=RACK, height=DEEP, rx=3),
        element("rect", class_="v", x=x + 4, y=y + 22, width=RACK - 8, height=DEEP - 26),
    ]
    scale = (RACK - 8) / units
    for device, lowest, shade in rack.devices:
        left, wide = x + 4 + (lowest - 1) * scale, device.rack_units * scale
        parts.append(element("rect", x=left, y=y + 22, width=wide, height=DEEP - 26, fill=shade))
    return element("g", *parts, text(x + RACK / 2, y + 14, rack.name, "m"), data_rack=rack.number)


def _fitted(words: str, room: float) -> str:
    """Return as many letters as fit, with a mark where some are left out."""
    if text_width(words) <= room:
        return words
    while words and text_width(words + "…") > room:
        words = words[:-1]
    return words + "…"


def _shades(fabrics: Sequence[Fabric], layout: Layout) -> NDArray[np.str_]:
    """Return (D,) the colour of each device, by what its nodes are for; its management port says nothing of that."""
    shades = np.full(len(layout.devices), palette.PLAIN, "<U7")
    for fabric, device in zip(fabrics, layout.node_device, strict=True):
        own = fabric.kind != Kind.DEVICE
        for role in np.unique(fabric.role[own]).tolist():
            shades[device[own & (fabric.role == role)]] = palette.DEVICES.get(Role(role), palette.PLAIN)
    return shades


def _role_marks(fabrics: Sequence[Fabric]) -> list[Mark]:
    """Return what the colours of devices mean, for the legend."""
    roles = {role for fabric in fabrics for role in np.unique(fabric.role[fabric.kind != Kind.DEVICE]).tolist()}
    return [("box", shade, role.name.lower()) for role, shade in palette.DEVICES.items() if int(role) in roles]
