"""Trees as bands: a level each, zones and pods side by side, joints and cables between zones below.

Switches keep a box of their own as long as a level fits on a wide page; where it does not, the switches of one kind in
one pod become one box.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from topo.drawing.scene import (
    Area,
    Caption,
    Cell,
    Hosts,
    Scene,
    cable_pairs,
    find_rails,
    host_ports,
    longest_label,
    place_hosts,
    short,
    text_width,
)
from topo.drawing.wiring import LANE, BoxRow, connect
from topo.fabric import Fabric, Role
from topo.graphs import components

WIDE_PAGE = 1_800.0
"""Pixels that a level may take for its boxes to have labels across; above, they read upwards."""
MOST_BOXES = 140
"""Boxes of a level; above, a row is one box."""
MOST_STACKS = 12
"""Of these boxes side by side with labels across; where there are more, labels read upwards."""
STACK_LETTERS, STACK_WIDTH = 24, 144.0
"""Letters of their labels, and the room for them."""
STEM = re.compile(r"[0-9]*(?:/.*| 0x[0-9a-f]{16})?$", re.DOTALL)
"""What tells switches of one kind apart in their labels: a number, the place of a chip in a frame, or a GUID."""
MOST_ROWS = 4
"""Rows of a level in one pod; where names tell more apart, they have no system, and are not looked at."""
NAMED_HOSTS = 48
"""Hosts of a fabric that are drawn with their names."""

RAIL = 20.0
"""Height of the numbers of rails below leaves."""
LEFT, TOP = 96.0, 26.0
LEVEL_GAP, ROW_GAP, POD_GAP, ZONE_PAD, ZONE_GAP = 92.0, 22.0, 26.0, 18.0, 40.0

PLURALS = {Role.LEAF: "leaves", Role.SPINE: "spines", Role.CORE: "cores", Role.JOINT: "joints"}


@dataclass(frozen=True)
class Style:
    """How boxes look."""

    width: float
    height: float
    gap: float
    upright: bool = False
    stacked: bool = False
    """Whether a row is one box."""

    def span(self, rows: Sequence[BoxRow]) -> float:
        """Width of rows side by side."""
        boxes = sum(1 if self.stacked else len(row.switches) for row in rows)
        return boxes * self.width + (boxes - len(rows)) * self.gap + (len(rows) - 1) * ROW_GAP


def lay_bands(fabric: Fabric) -> Scene:
    """Return a picture of a tree, of several that are joined, or of two sides, one above the other, hosts outside."""
    n = fabric.n_switches
    if not n:
        return Scene(0.0, 20.0, captions=[Caption(0.0, 10.0, "no switches")])
    level, zone = fabric.level[:n].astype(np.int64), fabric.zone[:n].astype(np.int64)
    sides = fabric.arrangement == "sides"
    rows = _rows(fabric, 1 + zone, 0 * zone) if sides else _rows(fabric, level, zone)
    inside, joints = [row for row in rows if row.level], [row for row in rows if not row.level]
    style = _style(fabric, inside)
    scene = Scene()
    right = _columns(scene, fabric, inside, style)
    y = _stack(scene, fabric, inside, style, sides=sides) + ZONE_PAD
    for row in _by_level(inside)[0]:
        row.under = y + 6
    if joints:
        joint_style = _style(fabric, joints)
        _center(fabric, joints, (LEFT + right) / 2, joint_style)
        for row in joints:
            row.cells = [replace(cell, y=y + LEVEL_GAP) for cell in row.cells]
            scene.cells += row.cells
        y += LEVEL_GAP + joint_style.height
        scene.captions.append(Caption(0, y - joint_style.height / 2, PLURALS[Role.JOINT]))
    lane = connect(scene, fabric, rows, y + LANE)
    scene.width, scene.height = right + 8, max(y, lane) + 8
    return scene


def _rows(fabric: Fabric, level: NDArray[np.int64], zone: NDArray[np.int64]) -> list[BoxRow]:
    """Group the switches by zone, pod, level, and what their names begin with."""
    joint = fabric.role[: fabric.n_switches] == Role.JOINT
    pod = _pods(fabric, level, zone)
    found: dict[tuple[int, int, int], dict[str, list[int]]] = {}
    for switch in range(fabric.n_switches):
        key = (-1, -1, 0) if joint[switch] else (int(zone[switch]), int(pod[switch]), max(int(level[switch]), 1))
        stem = STEM.sub("", fabric.label(switch))
        found.setdefault(key, {}).setdefault(stem, []).append(switch)
    rows = []
    for key, stems in sorted(found.items()):
        if len(stems) > MOST_ROWS:
            stems = {"": sorted(switch for members in stems.values() for switch in members)}
        rows += [BoxRow(*key, members) for members in stems.values()]
    return rows


def _pods(fabric: Fabric, level: NDArray[np.int64], zone: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (S,) the pod of each switch in its zone: leaves and spines that hang together.

    Switches above all pods are in none, -1; others beside them (no leaf, no spine) stand together after the last.
    """
    n = fabric.n_switches
    role = fabric.role[:n]
    member = np.isin(role, (Role.LEAF, Role.SPINE))
    pairs = [(a, b) for a, b in cable_pairs(fabric) if member[a] and member[b] and zone[a] == zone[b]]
    a, b = np.array(pairs, np.int64).reshape(-1, 2).T
    part = components(n, a, b)
    part[member & ~np.isin(part, part[role == Role.SPINE])] = n  # leaves without a spine stand together, last
    pod = np.full(n, -1, np.int64)
    for number in np.unique(zone).tolist():
        here = (zone == number) & member
        pod[here] = np.unique(part[here], return_inverse=True)[1]
        if here.any():
            pod[(zone == number) & ~member & (level <= level[here].max())] = pod[here].max() + 1
    return pod


def _style(fabric: Fabric, rows: Sequence[BoxRow]) -> Style:
    """Choose boxes that are as large as the fullest level allows."""
    boxes: Counter[int] = Counter()
    for row in rows:
        boxes[row.level] += len(row.switches)
    most = max(boxes.values())
    longest = longest_label(fabric, (switch for row in rows for switch in row.switches)) + 12
    across = max(longest, 132.0 if most <= 8 else 0.0)
    if most * (across + 10) <= WIDE_PAGE:
        return Style(across, 26.0, 10.0)
    if most <= MOST_BOXES:
        return Style(17.0, min(longest, 140.0), 4.0, upright=True)
    if max(Counter(row.level for row in rows).values()) <= MOST_STACKS:
        return Style(STACK_WIDTH, 40.0, 12.0, stacked=True)
    return Style(34.0, STACK_WIDTH, 12.0, upright=True, stacked=True)


def _columns(scene: Scene, fabric: Fabric, rows: Sequence[BoxRow], style: Style) -> float:
    """Put all boxes into columns of zones and pods, as high as the page; return where the last column ends."""
    x = LEFT
    zones = sorted({row.zone for row in rows})
    for zone in zones:
        mine = [row for row in rows if row.zone == zone]
        pods = sorted({row.pod for row in mine if row.pod >= 0})
        start, x = x, x + ZONE_PAD
        for pod in pods:
            bands = _by_level([row for row in mine if row.pod == pod])
            width = max(map(style.span, bands))
            for band in bands:
                _center(fabric, band, x + width / 2, style)
            if len(pods) > 1:
                scene.areas.append(Area(x - 8, 0.0, width + 16, 0.0, f"pod {pod}", faint=True))
            x += width + POD_GAP
        bands = _by_level([row for row in mine if row.pod < 0])
        x = max([x - POD_GAP if pods else x, *(start + ZONE_PAD + style.span(band) for band in bands)])
        for band in bands:
            _center(fabric, band, (start + ZONE_PAD + x) / 2, style)
        x += ZONE_PAD
        name = f"zone {zone}" if len(zones) > 1 and zone >= 0 else ""
        scene.areas.append(Area(start, 0.0, x - start, 0.0, name))
        x += ZONE_GAP
    scene.areas.sort(key=lambda area: area.faint)
    return x - ZONE_GAP


def _by_level(rows: Sequence[BoxRow]) -> list[list[BoxRow]]:
    return [[row for row in rows if row.level == level] for level in sorted({row.level for row in rows})]


def _center(fabric: Fabric, rows: Sequence[BoxRow], middle: float, style: Style) -> None:
    x = middle - style.span(rows) / 2
    for row in rows:
        row.cells = _boxes(fabric, row, x, style)
        x += style.span([row]) + ROW_GAP


def _boxes(fabric: Fabric, row: BoxRow, x: float, style: Style) -> list[Cell]:
    """Return the boxes of a row from left to right, at the top of the page."""
    if style.stacked:
        names = [fabric.label(row.switches[end]) for end in (0, -1)]
        what = PLURALS.get(Role(int(fabric.role[row.switches[0]])), "switches") if len(row.switches) > 1 else ""
        span = short(" – ".join(names) if what else names[0], STACK_LETTERS)
        text = (f"{len(row.switches)} {what}", span) if what else (span,)
        return [Cell(tuple(row.switches), x, 0.0, style.width, style.height, text, style.upright)]
    step, size = style.width + style.gap, (style.width, style.height)
    return [
        Cell.of(fabric, switch, x + place * step, 0.0, size, upright=style.upright)
        for place, switch in enumerate(row.switches)
    ]


def _stack(scene: Scene, fabric: Fabric, rows: Sequence[BoxRow], style: Style, *, sides: bool) -> float:
    """Put the levels below each other, highest first, and hang hosts on them; return where the last one ends."""
    ports = host_ports(fabric)
    named = not style.upright and not style.stacked and sum(map(len, ports)) <= NAMED_HOSTS

    def hang(cell: Cell, *, above: bool) -> Hosts:
        mine = [port for switch in cell.switches for port in ports[switch]]
        return place_hosts(cell, mine, named=named, above=above)

    y, top_of_pods, rails = TOP, 0.0, find_rails(fabric)
    for band in reversed(_by_level(rows)):
        if not top_of_pods and any(row.pod >= 0 for row in band):
            top_of_pods = y - TOP + 4
        room = max(hang(cell, above=False).height for row in band for cell in row.cells)
        room += 8 if room else 0
        above = sides and band[0].level == 2
        bars = [] if sides else _rail_bars(band, rails, y + style.height + room)
        at = y + room if above else y
        for row in band:
            row.cells = [replace(cell, y=at) for cell in row.cells]
            row.under = at + style.height + (0 if above else room)
            scene.cells += row.cells
            scene.hosts += [item for cell in row.cells if (item := hang(cell, above=above)).ports]
        scene.captions.append(Caption(0, at + style.height / 2, _name(fabric, band, sides=sides)))
        if room:
            scene.captions.append(Caption(0, y + room / 2 + (0 if above else style.height), "server ports"))
        if bars:
            scene.areas += [bar for bar, _ in bars]
            scene.captions += [Caption(0, y + style.height + room + RAIL / 2, "rails"), *(name for _, name in bars)]
            room += RAIL
            for row in band:
                row.under += RAIL
        y += style.height + room + LEVEL_GAP
    end = y - LEVEL_GAP
    for place, area in enumerate(scene.areas):
        if not area.height:
            top = top_of_pods if area.faint else 0.0
            scene.areas[place] = replace(area, y=top, height=end + ZONE_PAD - (2 if area.faint else 0) - top)
    return end


def _rail_bars(band: Sequence[BoxRow], rails: NDArray[np.int64], y: float) -> list[tuple[Area, Caption]]:
    """Return a bar with its number below each leaf of a rail, one below those side by side that are the same rail."""
    bars = []
    cells = [(cell, set(rails[list(cell.switches)].tolist())) for row in band for cell in row.cells]
    for of, members in groupby(cells, lambda one: one[1]):
        mine, (rail, *others) = [cell for cell, _ in members], of
        if rail >= 0 and not others:
            left, right = mine[0].x, mine[-1].x + mine[-1].width
            name = Caption((left + right - text_width(str(rail), 11)) / 2, y + RAIL / 2, str(rail))
            bars.append((Area(left, y + 2, right - left, RAIL - 4, "", faint=True), name))
    return bars


def _name(fabric: Fabric, band: Sequence[BoxRow], *, sides: bool) -> str:
    if sides:
        return {1: "lower side", 2: "upper side"}.get(band[0].level, "switches")
    roles = Counter(int(fabric.role[switch]) for row in band for switch in row.switches)
    return PLURALS.get(Role(roles.most_common(1)[0][0]), "switches")
