"""What colours and lines of a drawing mean."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from topo.drawing.shades import LOAD_SHADES, PLAIN, SPEED_SHADES
from topo.drawing.svg import HOST_SHADES, HOT, element, text
from topo.fabric import Role

LETTER, LINE, GAP = 5.1, 18.0, 14.0
ROOM = {"dot": 14.0, "line": 22.0, "area": 22.0, "": 0.0}
"""Width of each mark."""


def format_legend(
    x: float, y: float, width: float, roles: Collection[Role], speeds: Sequence[float], *, loaded: bool, fans: bool
) -> tuple[str, float]:
    """Return the legend as SVG, wrapped to a width, and how high it is.

    Parameters
    ----------
    roles : collection of Role
        Those of the hosts.
    speeds : sequence of float
        Rates of links between switches in Gb/s, fastest first.
    loaded : bool
        Whether colours of links tell their load, not their speed.
    fans : bool
        Whether links are bundled.
    """
    groups: list[list[tuple[str, str, str]]] = [  # shape, colour, words
        [("dot", shade, f"{role.name.lower()} host") for role, shade in HOST_SHADES.items() if role in roles]
    ]
    if loaded:
        head = ("", "", "load of a link, its busier direction, beside the mean of its subnet:")
        groups.append([head, *(("line", shade, words) for _, shade, words in LOAD_SHADES)])
    elif len(speeds) > 1:
        groups.append([("line", shade, f"{rate:g} Gb/s") for rate, shade in zip(speeds, SPEED_SHADES, strict=False)])
    if fans:
        more = f" in the colour of their mean; links above {HOT:g} times the mean on top" if loaded else ""
        groups.append([("area", PLAIN, f"many links, one end for each switch{more}")])
    parts, left, top = [], x, y
    for group in groups:
        rooms = [ROOM[shape] + LETTER * len(words) + GAP for shape, _, words in group]
        if left > x and left + sum(rooms) > x + width:
            left, top = x, top + LINE
        for (shape, shade, words), room in zip(group, rooms, strict=True):
            if left > x and left + room - GAP > x + width:
                left, top = x, top + LINE
            parts += [*_mark(shape, shade, left, top), text(left + ROOM[shape], top + 12, words, "l")]
            left += room
        left += GAP
    return element("g", {}, *parts), top + LINE - y


def _mark(shape: str, shade: str, x: float, y: float) -> list[str]:
    if shape == "dot":
        return [element("circle", {"cx": x + 5, "cy": y + 8, "r": 4, "fill": shade})]
    if shape == "line":
        return [element("path", {"d": f"M{x:.1f} {y + 8:.1f}h16", "stroke": shade, "stroke-width": 4})]
    if shape == "area":
        return [element("rect", {"x": x, "y": y + 3, "width": 16, "height": 10, "fill": shade, "opacity": "0.2"})]
    return []
