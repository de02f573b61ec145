"""Grids: tori, HyperX and Slim Fly. The last two coordinates are a layer, layers stand side by side.

A link to a neighbour is a line, one along a row or column an arc. What would cross the picture from edge to edge, or
from layer to layer at the same place, is drawn as two short ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from topo.drawing.groups import arc
from topo.drawing.scene import Area, Caption, Cell, Point, Scene, Stroke, cable_pairs, host_ports, seat, short
from topo.drawing.wiring import line
from topo.fabric import Fabric

LETTER, TALL, PAD, HEAD, LAYER_GAP, END, BEND = 6.0, 22.0, 26.0, 22.0, 60.0, 16.0, 3.5
LAYERS_ACROSS = 4


@dataclass(frozen=True)
class Pitch:
    """Distances of boxes, and how links are drawn that are longer."""

    across: float
    down: float
    hosts: float
    """Height of the hosts below a box."""
    arcs: bool
    lines: bool


def lay_grid(fabric: Fabric, sizes: Sequence[int], *, arcs: bool, lines: bool, layer: str = "layer") -> Scene:
    """Return a picture of switches that are numbered as the places of a grid, its last coordinate fastest.

    Parameters
    ----------
    sizes : sequence of int
        Switches along each dimension.
    arcs : bool
        Whether links over more than one place of a row or column are arcs; else they are two short ends.
    lines : bool
        Whether links between layers are lines; else they are two short ends.
    layer : str
        What a layer is called.
    """
    rows, columns = (1, *sizes)[-2:]
    layers = prod(sizes) // (rows * columns)
    ports = host_ports(fabric)
    wide = LETTER * max(len(short(fabric.label(switch))) for switch in range(fabric.n_switches)) + 10
    hosts = max(seat(Cell((0,), 0.0, 0.0, wide, TALL, ()), mine, named=False).height for mine in ports)
    pitch = Pitch(
        across=wide + (24 + 2 * BEND * rows if arcs else 42),
        down=TALL + hosts + (18 + 2 * BEND * columns if arcs else 40),
        hosts=hosts,
        arcs=arcs,
        lines=lines,
    )
    width, height = columns * pitch.across + 2 * PAD, rows * pitch.down + PAD + HEAD
    scene = Scene()
    for which in range(layers):
        left, top = which % LAYERS_ACROSS * (width + LAYER_GAP), which // LAYERS_ACROSS * (height + LAYER_GAP)
        scene.areas.append(Area(left, top, width, height, f"{layer} {which}" if layers > 1 else ""))
        for place in range(rows * columns):
            switch = which * rows * columns + place
            x = left + PAD + place % columns * pitch.across + (pitch.across - wide) / 2
            y = top + HEAD + PAD / 2 + place // columns * pitch.down + (pitch.down - TALL - hosts) / 2
            scene.cells.append(Cell((switch,), x, y, wide, TALL, (short(fabric.label(switch)),)))
    seated = (seat(cell, mine, named=False) for cell, mine in zip(scene.cells, ports, strict=True))
    scene.hosts = [item for item in seated if item.ports]
    for (a, b), links in cable_pairs(fabric).items():
        same = a // (rows * columns) == b // (rows * columns)
        paths = (
            _within(scene.cells[a], scene.cells[b], pitch) if same else _between(scene.cells[a], scene.cells[b], pitch)
        )
        scene.strokes += [Stroke(path, tuple(links), end=len(paths) > 1) for path in paths]
    scene.width = max(area.x + area.width for area in scene.areas)
    scene.height = max(area.y + area.height for area in scene.areas)
    if any(stroke.end for stroke in scene.strokes):
        words = "short ends: straight ones lead to the other edge, slanted ones to the same place in the next layer"
        scene.captions.append(Caption(0.0, scene.height + 16, words))
        scene.height += 24
    return scene


def _between(a: Cell, b: Cell, pitch: Pitch) -> list[str]:
    """Link boxes of two layers."""
    if pitch.lines:
        return [line((a.x + a.width, a.middle[1]), (b.x, b.middle[1]))]
    start, stop = (a.x + a.width, a.y), (b.x, b.y + TALL)
    slant = 0.7 * END
    return [line(start, _by(start, slant, -slant)), line(stop, _by(stop, -slant, slant))]


def _within(a: Cell, b: Cell, pitch: Pitch) -> list[str]:
    """Link two boxes of a row or column, the first one left of or above the second."""
    (ax, ay), (bx, by) = a.middle, b.middle
    if a.y == b.y:
        steps = (bx - ax) / pitch.across
        if steps < 1.5:
            return [line((a.x + a.width, ay), (b.x, by))]
        if pitch.arcs:
            return [arc(ax, a.y, bx, b.y, BEND * steps)]
        return [line((a.x, ay), (a.x - END, ay)), line((b.x + b.width, by), (b.x + b.width + END, by))]
    steps = (by - ay) / pitch.down
    if steps < 1.5:
        return [line((ax, a.y + TALL), (bx, b.y))]
    if pitch.arcs:
        return [arc(a.x, ay, b.x, by, -BEND * steps)]
    return [line((ax, a.y), (ax, a.y - END)), line((bx, b.y + TALL), (bx, b.y + TALL + pitch.hosts + END))]


def _by(point: Point, across: float, down: float) -> Point:
    return point[0] + across, point[1] + down
