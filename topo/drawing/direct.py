"""Layouts of direct networks: groups of switches on a circle, and switches on grids.

A group of a Dragonfly is a row of switches, of a Dragonfly+ its leaves below its spines. Tori, HyperX and Slim Fly are
grids: the last two coordinates are a layer, and layers stand side by side. A link to a neighbour is a line, one along a
row or column an arc. What would cross the picture from edge to edge, or from layer to layer at the same place, is drawn
as two short ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import cos, pi, prod, sin
from typing import NamedTuple

import numpy as np

from topo.drawing.scene import (
    Area,
    Caption,
    Cell,
    Point,
    Scene,
    Stroke,
    cable_pairs,
    host_ports,
    longest_label,
    place_hosts,
)
from topo.drawing.wiring import line
from topo.fabric import Fabric
from topo.shapes.base import GridStyle

ACROSS = 8
"""Boxes of a row whose labels read across; more have them upright."""
PAD, HEAD, ARCS, GAP = 10.0, 20.0, 24.0, 34.0


def lay_groups(fabric: Fabric) -> Scene:
    """Return a picture of groups, which are the zones of the fabric; links between groups cross the circle."""
    ports = host_ports(fabric)
    n = fabric.n_switches
    longest = longest_label(fabric, range(n)) + 10
    zones = np.unique(fabric.zone[:n]).tolist()
    blocks = [_block(fabric, np.flatnonzero(fabric.zone[:n] == zone).tolist(), longest) for zone in zones]
    hosts = [[place_hosts(cell, ports[cell.switches[0]]) for cell in cells] for cells in blocks]
    width = max(cell.x + cell.width for cells in blocks for cell in cells) + PAD
    below = max(item.y + item.height for items in hosts for item in items) + PAD
    corners = _circle(len(blocks), width, below)
    scene = Scene(width=max(x for x, _ in corners) + width, height=max(y for _, y in corners) + below)
    place: dict[int, Cell] = {}
    for (x, y), zone, cells in zip(corners, zones, blocks, strict=True):
        scene.areas.append(Area(x, y, width, below, f"group {zone}"))
        moved = [replace(cell, x=cell.x + x, y=cell.y + y) for cell in cells]
        place.update((cell.switches[0], cell) for cell in moved)
        scene.cells += moved
        scene.hosts += [place_hosts(cell, mine) for cell in moved if (mine := ports[cell.switches[0]])]
    pairs = cable_pairs(fabric)
    for inside in (False, True):  # what crosses the circle lies behind
        some = [pair for pair in pairs if bool(fabric.zone[pair[0]] == fabric.zone[pair[1]]) == inside]
        scene.strokes += [_stroke(place[a], place[b], pairs[a, b], inside=inside) for a, b in some]
    return scene


def _circle(count: int, width: float, height: float) -> list[Point]:
    """Return the upper left corners of blocks around an ellipse, as small as it can be without overlaps.

    It is at most twice as wide as high: many switches in a row would make a picture too wide for any page.
    """
    around, tall = width / 2, max(height, width / 2) / 2
    while True:
        turns = [2 * pi * number / count - pi / 2 for number in range(count)]
        corners = [(around * (1 + cos(turn)), tall * (1 + sin(turn))) for turn in turns]
        if count == 1 or all(
            abs(x - corners[number - 1][0]) >= width + GAP or abs(y - corners[number - 1][1]) >= height + GAP
            for number, (x, y) in enumerate(corners)
        ):
            left, top = (min(corner[axis] for corner in corners) for axis in (0, 1))
            return [(x - left, y - top) for x, y in corners]
        around, tall = around * 1.08, tall * 1.08


def arc(x: float, y: float, to_x: float, to_y: float, lift: float) -> str:
    """Return SVG path data of an arc that rises by ``lift`` to the left of its way."""
    length = ((to_x - x) ** 2 + (to_y - y) ** 2) ** 0.5 or 1.0
    bend_x = (x + to_x) / 2 + 2 * lift * (to_y - y) / length
    bend_y = (y + to_y) / 2 - 2 * lift * (to_x - x) / length
    return f"M{x:.1f} {y:.1f}Q{bend_x:.1f} {bend_y:.1f} {to_x:.1f} {to_y:.1f}"


def _block(fabric: Fabric, switches: Sequence[int], longest: float) -> list[Cell]:
    """Return the boxes of a group, its upper left corner at (0, 0)."""
    levels = sorted({int(fabric.level[switch]) for switch in switches}, reverse=True)
    rows = [[switch for switch in switches if fabric.level[switch] == level] for level in levels]
    upright = max(map(len, rows)) > ACROSS
    wide, tall, gap = (17.0, longest, 4.0) if upright else (longest, 22.0, 10.0)
    full = max(map(len, rows)) * (wide + gap) - gap
    cells = []
    for number, row in enumerate(rows):
        start = PAD + (full - len(row) * (wide + gap) + gap) / 2
        y = HEAD + ARCS + number * (tall + 2 * ARCS)
        cells += [
            Cell.of(fabric, switch, start + place * (wide + gap), y, (wide, tall), upright=upright)
            for place, switch in enumerate(row)
        ]
    return cells


def _stroke(a: Cell, b: Cell, links: Sequence[int], *, inside: bool) -> Stroke:
    """Link two boxes: by an arc within a row of a group, else straight."""
    if not inside:
        return Stroke(line(a.middle, b.middle), tuple(links))
    if a.y == b.y:
        left, right = sorted((a, b), key=lambda cell: cell.x)
        lift = ARCS / 2 * (1 + (right.x - left.x) / (8 * (left.width + 10)))
        return Stroke(arc(left.middle[0], left.y, right.middle[0], right.y, lift), tuple(links))
    high, low = sorted((a, b), key=lambda cell: cell.y)
    return Stroke(line((high.middle[0], high.y + high.height), (low.middle[0], low.y)), tuple(links))


TALL, LAYER_PAD, LAYER_HEAD, LAYER_GAP, END, BEND = 22.0, 26.0, 22.0, 60.0, 16.0, 3.5
PAGE = 900.0
"""What is as wide can be read on a page; layers go into further rows where no lines join them."""


class Pitch(NamedTuple):
    """Distances of boxes, and how longer links are drawn."""

    across: float
    down: float
    hosts: float
    """Height of the hosts below a box."""
    style: GridStyle


def lay_grid(fabric: Fabric, sizes: Sequence[int], style: GridStyle) -> Scene:
    """Return a picture of switches that are numbered as the places of a grid, its last coordinate fastest.

    ``sizes`` are switches along each dimension; ``style`` says how links over more than one place are drawn.
    """
    rows, columns = (1, *sizes)[-2:]
    layers = prod(sizes) // (rows * columns)
    ports = host_ports(fabric)
    wide = longest_label(fabric, range(fabric.n_switches)) + 10
    hosts = max(place_hosts(Cell((0,), 0.0, 0.0, wide, TALL, ()), mine).height for mine in ports)
    across, down = (24 + 2 * BEND * rows, 18 + 2 * BEND * columns) if style.arcs else (42, 40)
    pitch = Pitch(wide + across, TALL + hosts + down, hosts, style)
    width, height = columns * pitch.across + 2 * LAYER_PAD, rows * pitch.down + LAYER_PAD + LAYER_HEAD
    scene = Scene()
    across = layers if style.lines else max(1, int((PAGE + LAYER_GAP) // (width + LAYER_GAP)))
    for which in range(layers):
        left, top = which % across * (width + LAYER_GAP), which // across * (height + LAYER_GAP)
        scene.areas.append(Area(left, top, width, height, f"{style.layer} {which}" if layers > 1 else ""))
        for place in range(rows * columns):
            switch = which * rows * columns + place
            x = left + LAYER_PAD + place % columns * pitch.across + (pitch.across - wide) / 2
            y = top + LAYER_HEAD + LAYER_PAD / 2 + place // columns * pitch.down + (pitch.down - TALL - hosts) / 2
            scene.cells.append(Cell.of(fabric, switch, x, y, (wide, TALL)))
    scene.hosts = [place_hosts(cell, mine) for cell, mine in zip(scene.cells, ports, strict=True) if mine]
    for (a, b), links in cable_pairs(fabric).items():
        first, second, apart = scene.cells[a], scene.cells[b], b // (rows * columns) - a // (rows * columns)
        if apart == layers - 1 > 1 and not style.lines:  # the layer after the last one is the first
            first, second = second, first
        paths = _paths(first, second, pitch, between=bool(apart))
        scene.strokes += [Stroke(path, tuple(links), end=len(paths) > 1) for path in paths]
    scene.width = max(area.x + area.width for area in scene.areas)
    scene.height = max(area.y + area.height for area in scene.areas)
    if any(stroke.end for stroke in scene.strokes):
        words = "short ends: straight ones lead to the other edge, slanted ones to the same place in the next layer"
        scene.captions.append(Caption(0.0, scene.height + 16, words))
        scene.height += 24
    return scene


def _paths(a: Cell, b: Cell, pitch: Pitch, *, between: bool) -> list[str]:
    """Link boxes of two layers, or of a row or column, the first one left of or above the second."""
    (ax, ay), (bx, by) = a.middle, b.middle
    if between and pitch.style.lines:
        return [line((a.x + a.width, ay), (b.x, by))]
    if between:
        right, low, slant = a.x + a.width, b.y + TALL, 0.7 * END
        return [line((right, a.y), (right + slant, a.y - slant)), line((b.x, low), (b.x - slant, low + slant))]
    if a.y == b.y:
        steps = (bx - ax) / pitch.across
        if steps < 1.5:
            return [line((a.x + a.width, ay), (b.x, by))]
        if pitch.style.arcs:
            return [arc(ax, a.y, bx, b.y, BEND * steps)]
        return [line((a.x, ay), (a.x - END, ay)), line((b.x + b.width, by), (b.x + b.width + END, by))]
    steps = (by - ay) / pitch.down
    if steps < 1.5:
        return [line((ax, a.y + TALL), (bx, b.y))]
    if pitch.style.arcs:
        return [arc(a.x, ay, b.x, by, -BEND * steps)]
    return [line((ax, a.y), (ax, a.y - END)), line((bx, b.y + TALL), (bx, b.y + TALL + pitch.hosts + END))]
