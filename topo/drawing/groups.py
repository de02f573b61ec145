"""Groups on a circle: Dragonfly and Dragonfly+. A group is a row of switches, or its leaves below its spines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import cos, pi, sin

import numpy as np

from topo.drawing.scene import Area, Cell, HostPort, Hosts, Point, Scene, Stroke, cable_pairs, host_ports, seat, short
from topo.drawing.wiring import line
from topo.fabric import Fabric

LETTER, ACROSS = 6.0, 8
"""Width of a letter; boxes of a row whose labels read across, more have them upright."""
PAD, HEAD, ARCS, GAP = 10.0, 20.0, 24.0, 34.0


def lay_groups(fabric: Fabric) -> Scene:
    """Return a picture of groups, which are the zones of the fabric; links between groups cross the circle."""
    ports = host_ports(fabric)
    n = fabric.n_switches
    longest = LETTER * max(len(short(fabric.label(switch))) for switch in range(n)) + 10
    blocks = [_block(fabric, np.flatnonzero(fabric.zone[:n] == zone).tolist(), longest) for zone in _zones(fabric)]
    hosts = [[_hosts(cell, ports) for cell in cells] for cells in blocks]
    width = max(cell.x + cell.width for cells in blocks for cell in cells) + PAD
    below = max(item.y + item.height for items in hosts for item in items) + PAD
    corners = _circle(len(blocks), width, below)
    scene = Scene(width=max(x for x, _ in corners) + width, height=max(y for _, y in corners) + below)
    place: dict[int, Cell] = {}
    for (x, y), zone, cells in zip(corners, _zones(fabric), blocks, strict=True):
        scene.areas.append(Area(x, y, width, below, f"group {zone}"))
        moved = [replace(cell, x=cell.x + x, y=cell.y + y) for cell in cells]
        place.update((cell.switches[0], cell) for cell in moved)
        scene.cells += moved
        scene.hosts += [item for cell in moved if (item := _hosts(cell, ports)).ports]
    pairs = cable_pairs(fabric)
    for inside in (False, True):  # what crosses the circle lies behind
        scene.strokes += [
            _stroke(place[a], place[b], links, inside=inside)
            for (a, b), links in pairs.items()
            if bool(fabric.zone[a] == fabric.zone[b]) == inside
        ]
    return scene


def _circle(count: int, width: float, height: float) -> list[Point]:
    """Return the upper left corners of blocks around an ellipse, as small as it can be without overlaps."""
    around, tall = width / 2, height / 2
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


def _zones(fabric: Fabric) -> list[int]:
    return [int(zone) for zone in np.unique(fabric.zone[: fabric.n_switches])]


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
            Cell((switch,), start + place * (wide + gap), y, wide, tall, (short(fabric.label(switch)),), upright)
            for place, switch in enumerate(row)
        ]
    return cells


def _hosts(cell: Cell, ports: Sequence[Sequence[HostPort]]) -> Hosts:
    return seat(cell, ports[cell.switches[0]], named=False)


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
