"""Scenes as SVG: plain shapes with a tooltip each; no script, no font, no time stamp. By CairoSVG as PNG and PDF."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from topo import palette
from topo.drawing.scene import (
    LINE,
    NAME_HEIGHT,
    NAME_WIDTH,
    Area,
    Cell,
    Fan,
    Hosts,
    Scene,
    Stroke,
    text_width,
)
from topo.drawing.wiring import line
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Role
from topo.hostlist import compress

HOT, MOST_HOT = 1.5, 120
"""Links of a fan above so many times the mean are drawn as lines of their own, but no more than so many."""

LEGEND_LINE, LEGEND_GAP = 18.0, 14.0
MARK = {"dot": 14.0, "line": 22.0, "dashes": 22.0, "area": 22.0, "box": 16.0, "": 0.0}
"""Of the legend: height of a line, room between words, width of each mark."""
SHARP = 2.0
"""Pixels of a PNG for each unit of the drawing, for screens and paper of today."""
MOST_PIXELS = 16_000
"""Along the longer side of a PNG: Cairo has no larger surfaces, and viewers get slow before that."""
SIZE = re.compile(r'<svg[^>]* width="(\d+)" height="(\d+)"')
Mark = tuple[str, str, str]
"""Of a legend: shape, colour, words."""

WIDER = 1.17
"""How much wider than Helvetica the fonts are that some systems have in its place, such as DejaVu Sans."""
_Loads = NDArray[np.int64]

UNPRINTABLE = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold, not even escaped."""


class Shades:
    """Colours of the links of one subnet: by how busy they are, or by speed where no load is known.

    ``load`` is (P,) pairs, bytes or flows (``unit``) over each channel: a link is as busy as its busier channel, a slow
    one the busier for it, beside the mean of the links between switches that carry any. With ``marked`` any load at all
    is the most that there can be. ``speeds`` are the rates of links between switches in the whole drawing in Gb/s,
    fastest first.
    """

    def __init__(
        self, fabric: Fabric, load: _Loads | None, speeds: Sequence[float], unit: str = "pairs", *, marked: bool = False
    ) -> None:
        self.load = load
        self.unit = unit
        self.rate = fabric.rate_gbps[fabric.links].min(axis=1)
        self._ports = fabric.links
        self._speeds = list(speeds)
        if load is None:
            return
        between = fabric.is_inner
        busy = np.zeros(fabric.n_ports)
        busy[between] = load[between] / fabric.rate_gbps[between] * fabric.rate_gbps[between].max(initial=1.0)
        if marked:
            busy[busy > 0] = np.inf
        busier = busy[fabric.links].max(axis=1)
        used = busier[np.isfinite(busier) & (busier > 0)]
        self._busy = busier / (used.mean() if len(used) else 1.0)

    def busy(self, links: Sequence[int], *, mean: bool = False) -> float:
        """Return the load of the busiest of some links, or of all, in times of the mean; 1 where no load is known."""
        if self.load is None:
            return 1.0
        busy = self._busy[list(links)]
        return float(busy.mean() if mean else busy.max())

    def of(self, links: Sequence[int], *, mean: bool = False) -> str:
        """Return the colour of links that are drawn as one: by the busiest, or by all of them, or by the slowest."""
        if self.load is None:
            rate = float(self.rate[list(links)].min())
            place = self._speeds.index(rate) if rate in self._speeds else 0
            return palette.SPEED_SHADES[min(place, len(palette.SPEED_SHADES) - 1)]
        busy = self.busy(links, mean=mean)
        return next(colour for most, colour, _ in palette.LOADS if busy <= most)

    def words(self, links: Sequence[int]) -> str:
        """Say how fast links are, and how busy where that is known."""
        rates = sorted(set(self.rate[list(links)].tolist()))
        speed = " to ".join(f"{rate:g}" for rate in dict.fromkeys([rates[0], rates[-1]])) + " Gb/s"
        if self.load is None:
            return speed
        loads = self.load[self._ports[list(links)]].max(axis=1)
        least, most = int(loads.min()), int(loads.max())
        return f"{speed}, {f'{least:,} to ' if least < most else ''}{most:,} {self.unit}"


def element(name: str, *inside: str, **attributes: object) -> str:
    """Return an element, with ``stroke_width`` for the attribute ``stroke-width``, and ``class_`` for ``class``.

    Attributes are escaped here, what is inside must be already.
    """
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    return f"<{name}{given}>{''.join(inside)}</{name}>" if inside else f"<{name}{given}/>"


def text(x: float, y: float, words: str, kind: str = "", **attributes: object) -> str:
    """Return a line of text that begins at a point, or is centred there when its class says so."""
    return element("text", clean(words), x=x, y=y, **({"class": kind} if kind else {}), **attributes)


def clean(words: str) -> str:
    """Escape text for the inside of an element or an attribute."""
    return escape(UNPRINTABLE.sub("\ufffd", words))


def _value(value: object) -> str:
    return f"{round(value, 1):g}" if isinstance(value, float) else clean(str(value))


def tooltip(words: str) -> str:
    """Return a tooltip, which screen readers tell too."""
    return element("title", clean(words))


def told(words: str, *inside: str) -> str:
    """Return elements with a tooltip."""
    return element("g", tooltip(words), *inside)


def scene_svg(scene: Scene, fabric: Fabric, shades: Shades) -> str:
    """Return a scene as SVG elements, what lies behind first."""
    parts = [_area(area) for area in scene.areas]
    for fan in scene.fans:
        parts += _fan(fan, fabric, shades)
    parts += [_stroke(stroke, fabric, shades) for stroke in scene.strokes]
    parts += [_hosts(hosts) for hosts in scene.hosts]
    parts += [_cell(cell, fabric) for cell in scene.cells]
    parts += [text(*area.text_at, area.text, "l o" if area.faint else "z o") for area in scene.areas if area.text]
    parts += _labels(scene, shades)
    parts += [text(caption.x, caption.y + 4, caption.text, "l") for caption in scene.captions]
    return "\n".join(parts)


def _labels(scene: Scene, shades: Shades) -> list[str]:
    """Return the labels of fans and strokes; one that would lie on another is left to the tooltip."""
    loaded = shades.load is not None
    rise = LINE / 2 if loaded else 0.0  # two lines stand where one would
    labels = [(fan.at[0], fan.at[1] - rise, fan.label) for fan in scene.fans]
    labels += [(fan.at[0], fan.at[1] + LINE - rise, shades.words(fan.links)) for fan in scene.fans if loaded]
    labels += [(stroke.at[0], stroke.at[1] + 4, stroke.label) for stroke in scene.strokes if stroke.label]
    taken = [
        (area.x + 7, area.y + 3, area.x + 7 + WIDER * text_width(area.text, 12), area.y + 18)
        for area in scene.areas
        if not area.faint
    ]
    shown = []
    for x, y, words in labels:
        half = WIDER * text_width(words, 10) / 2
        left, top, right, bottom = x - half, y - 9, x + half, y + 3
        if any(left < box[2] and box[0] < right and top < box[3] and box[1] < bottom for box in taken):
            continue
        taken.append((left, top, right, bottom))
        shown.append(text(x, y, words, "b"))
    return shown


def _area(area: Area) -> str:
    shade = {"fill": "#eef1f4", "stroke": "#d5dbe1"} if area.faint else {"fill": palette.GROUND, "stroke": palette.EDGE}
    return element("rect", x=area.x, y=area.y, width=area.width, height=area.height, rx=6, **shade)


def _fan(fan: Fan, fabric: Fabric, shades: Shades) -> list[str]:
    """Draw a fan, and its busiest links as lines of their own where loads are known."""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in fan.corners)
    about = tooltip(f"{fan.label}; {shades.words(fan.links)}")
    area = element("polygon", about, points=points, fill=palette.PLAIN, opacity="0.13")
    busy = [(shades.busy(links), start, end, links) for links, start, end in fan.spokes]
    hot = sorted((spoke for spoke in busy if spoke[0] > HOT), key=lambda spoke: (-spoke[0], spoke[3]))[:MOST_HOT]
    return [area, *(_stroke(Stroke(line(start, end), links), fabric, shades) for _, start, end, links in sorted(hot))]


def _stroke(stroke: Stroke, fabric: Fabric, shades: Shades) -> str:
    count = len(stroke.links)
    ends = {tuple(sorted(pair)) for pair in fabric.port_node[fabric.links[list(stroke.links)]].tolist()}
    common = set.intersection(*map(set, ends))
    where = f"{len(ends)} pairs of switches"
    if len(ends) == 1:
        where = " – ".join(fabric.label(node) for node in min(ends))
    elif common:
        where = f"{fabric.label(min(common))} to {len(ends)} switches"
    about = tooltip(f"{where}: {plural(count, 'link')}; {shades.words(stroke.links)}")
    wide = 2.0 + min(count, 30) / 15 if stroke.end else 1.0 + 0.5 * min(count - 1, 6)
    shade = shades.of(stroke.links, mean=stroke.end)
    return element("path", about, class_="k", d=stroke.path, stroke=shade, stroke_width=wide)


def _cell(cell: Cell, fabric: Fabric) -> str:
    role = Role(int(fabric.role[cell.switches[0]]))
    about = ", ".join(filter(None, (role.name.lower(), fabric.model_of(cell.switches[0]))))
    names = ", ".join(fabric.label(switch) for switch in cell.switches)
    x, y = cell.middle
    rises = [LINE * (place - (len(cell.text) - 1) / 2) + 3.5 for place in range(len(cell.text))]
    words = [text(x, y + rise, part, "m") for rise, part in zip(rises, cell.text, strict=True)]
    if cell.upright:
        words = [element("g", *words, transform=f"rotate(-90 {_value(x)} {_value(y)})")]
    size = {"x": cell.x, "y": cell.y, "width": cell.width, "height": cell.height, "rx": 3}
    box = element("rect", **size, fill=palette.SWITCHES.get(role, palette.OTHER_SWITCH), stroke="#7b8794")
    return told(f"{names} ({about})", box, *words)


def _hosts(hosts: Hosts) -> str:
    width = 2 * (hosts.x - hosts.start) + hosts.width + 2
    ground = {"x": hosts.start - 1, "y": hosts.y - 2, "height": hosts.height + 3, "width": width}
    inside = [element("rect", class_="w", **ground)]
    by_role: dict[Role, list[int]] = {}
    for place, port in enumerate(hosts.ports if hosts.pitch else ()):
        by_role.setdefault(port.role, []).append(place)
    for role, places in by_role.items():
        shade = palette.HOSTS.get(role, palette.PLAIN)
        if hosts.named:
            inside += [_named_host(hosts, place, shade) for place in places]
            continue
        spots = (divmod(place, hosts.columns) for place in places)
        middles = [(hosts.start + hosts.pitch * (at + 0.5), hosts.y + hosts.pitch * (row + 0.5)) for row, at in spots]
        dots = "".join(f"M{_value(x)} {_value(y)}h0" for x, y in middles)
        inside.append(element("path", class_="h", d=dots, stroke=shade, stroke_width=hosts.pitch * 0.8))
    for number, ((role, name), count) in enumerate(hosts.counts.items() if not hosts.pitch else ()):
        x, y = hosts.x + hosts.width / 2, hosts.y + LINE * (number + 0.7)
        inside.append(text(x, y, f"{count:,} {name}", "m", style=f"fill:{palette.HOSTS.get(role, palette.PLAIN)}"))
    spelled = compress(Counter(port.host for port in hosts.ports))
    spelled = spelled if len(spelled) <= 400 else f"{spelled[:400]}…"
    return told(f"{plural(len(hosts.ports), 'server port')}: {spelled}", *inside)


def _named_host(hosts: Hosts, place: int, shade: str) -> str:
    row, column = divmod(place, hosts.columns)
    x, y = hosts.start + column * NAME_WIDTH, hosts.y + row * NAME_HEIGHT
    name = hosts.ports[place].host
    shown = name if len(name) <= 10 else f"{name[:9]}…"
    size = {"x": x + 1, "y": y + 1, "width": NAME_WIDTH - 4, "height": NAME_HEIGHT - 4, "rx": 7}
    box = element("rect", **size, fill=palette.PAPER, stroke=shade)
    return told(hosts.ports[place].adapter, box, text(x + NAME_WIDTH / 2 - 1, y + NAME_HEIGHT / 2 + 2.5, shown, "m"))


def format_legend(
    x: float,
    y: float,
    width: float,
    roles: Collection[Role],
    speeds: Sequence[float],
    *,
    loaded: bool,
    marked: tuple[str, str] | None,
    fans: bool,
) -> tuple[str, float]:
    """Return what colours and lines mean as SVG, wrapped to a width, and how high it is.

    ``roles`` are those of hosts, ``speeds`` the rates of links between switches in Gb/s, fastest first. Colours of
    links tell their load if ``loaded``, else their speed; with ``marked`` those with any load are the first, all others
    the second. ``fans`` are bundles of links.
    """
    hosts = {role.name.lower(): shade for role, shade in palette.HOSTS.items() if role in roles}
    groups: list[list[Mark]] = [[("dot", shade, f"port of a {name} server") for name, shade in hosts.items()]]
    if marked:
        groups.append([("line", palette.LOADS[-1][1], marked[0]), ("line", palette.UNUSED, marked[1])])
    elif loaded:
        head = ("", "", "load of a link (its busier direction), in times of the mean:")
        groups.append([head, *(("line", shade, words) for _, shade, words in palette.LOADS)])
    elif len(speeds) > 1:
        shades = zip(speeds, palette.SPEED_SHADES, strict=False)
        groups.append([("line", shade, f"{rate:g} Gb/s") for rate, shade in shades])
    if fans:
        mean = f" in the colour of their mean; links above {HOT:g} times the mean on top"
        more = f", those {marked[0]} on top" if marked else mean if loaded else ""
        groups.append([("area", palette.PLAIN, f"many links, one end for each switch{more}")])
    return format_marks(x, y, width, groups)


def format_marks(x: float, y: float, width: float, groups: Sequence[Sequence[Mark]]) -> tuple[str, float]:
    """Return marks with their words, wrapped to a width group by group, and their height."""
    parts, left, top = [], x, y
    for group in groups:
        rooms = [MARK[shape] + WIDER * text_width(words, 11) + LEGEND_GAP for shape, _, words in group]
        if left > x and left + sum(rooms) > x + width:
            left, top = x, top + LEGEND_LINE
        for (shape, shade, words), room in zip(group, rooms, strict=True):
            if left > x and left + room - LEGEND_GAP > x + width:
                left, top = x, top + LEGEND_LINE
            parts += [*_mark(shape, shade, left, top), text(left + MARK[shape], top + 12, words, "l")]
            left += room
        left += LEGEND_GAP
    return element("g", *parts), top + LEGEND_LINE - y


def _mark(shape: str, shade: str, x: float, y: float) -> list[str]:
    if shape == "dot":
        return [element("circle", cx=x + 5, cy=y + 8, r=4, fill=shade)]
    if shape in ("line", "dashes"):
        dashes = {"stroke_dasharray": "5 3"} if shape == "dashes" else {}
        return [element("path", d=f"M{x:.1f} {y + 8:.1f}h16", stroke=shade, stroke_width=4, **dashes)]
    if shape == "box":
        return [element("rect", x=x, y=y + 3, width=10, height=10, fill=shade)]
    if shape == "area":
        return [element("rect", x=x, y=y + 3, width=16, height=10, fill=shade, opacity="0.2")]
    return []


def as_kind(svg: str, suffix: str) -> bytes:
    """Return a drawing as a file with this suffix; HeddleError for others, and if the library Cairo is missing."""
    if suffix not in (".svg", ".png", ".pdf"):
        raise HeddleError(f"found a picture of the kind {suffix!r}; expected .svg, .png or .pdf")
    if suffix == ".svg":
        return svg.encode()
    try:
        import cairosvg
    except OSError:  # a package of Python that opens a library of the system
        raise HeddleError("PNG and PDF need the library Cairo: apt-get install libcairo2") from None
    # CairoSVG would paint the white around letters over the letters.
    plain = re.sub(r"paint-order:stroke;[^}]*", "", svg).encode()
    if suffix == ".pdf":
        return bytes(cairosvg.svg2pdf(bytestring=plain))
    size = SIZE.search(svg)
    longer = max(map(int, size.groups())) if size else MOST_PIXELS
    return bytes(cairosvg.svg2png(bytestring=plain, scale=min(SHARP, MOST_PIXELS / longer)))
