"""Colours and letters of every picture: drawings and charts; colour-blind readers can tell the colours apart."""

from __future__ import annotations

from topo.fabric import Role

INK, QUIET, PLAIN, UNUSED = "#1d232a", "#4a535e", "#5b6673", "#c3c9d0"
"""Of text, of text beside it, of links of which nothing is known, of links that carry nothing."""
PAPER, GROUND, EDGE = "#ffffff", "#f7f8fa", "#c9d0d7"
"""Behind everything, behind what belongs together, and around it."""

HOSTS = {Role.COMPUTE: "#3978b8", Role.STORAGE: "#c77d0a", Role.MANAGEMENT: "#717880"}
"""Of hosts by what they are for."""
SWITCHES = {Role.LEAF: "#e4efdf", Role.SPINE: "#e1e8f5", Role.CORE: "#efe4f4", Role.JOINT: "#fae8c8"}
"""Fill of switches by role; others have `OTHER_SWITCH`."""
OTHER_SWITCH = "#eceff2"

DEVICES = HOSTS | {Role.LEAF: "#0f7b6c", Role.SPINE: "#8e5bb5", Role.CORE: "#4b2e6f", Role.JOINT: "#c2527f"}
"""Of what stands in racks; others are `PLAIN`."""

SPEED_SHADES = (PLAIN, "#0f7b6c", "#8e5bb5", "#b0742a")
"""Of links, from the fastest of a drawing down; slower ones than the fourth look like it."""
LOADS: tuple[tuple[float, str, str], ...] = (
    (0.0, UNUSED, "unused"),
    (0.5, "#2b6cb0", "to 0.5"),
    (0.8, "#6fa8d6", "0.5 to 0.8"),
    (1.2, PLAIN, "0.8 to 1.2, even"),
    (1.5, "#e6a117", "1.2 to 1.5"),
    (3.0, "#dd5c0c", "1.5 to 3"),
    (float("inf"), "#a50f15", "above 3"),
)
"""Of links by their load: up to how many times the mean, the colour, and its words.

A perfect k-ary tree of three levels is even: all to all, its upper links carry 1 - 1/k of the traffic and its lower
ones 1 - 1/k^2, which for k = 2 is 0.8 and 1.2 times the mean, and nearer to it for more.
"""

HEAT = ("#eef3f8", "#a9c8e6", "#5b97cf", "#2b6cb0", "#12304f")
"""Of cells of a heat map, from 0 to 1."""

SERIES = ("#3978b8", "#c77d0a", "#0f7b6c", "#a50f15", "#8e5bb5", "#717880", "#6fa8d6", "#e6a117", "#b0742a", INK)
"""Of lines and bars of a chart, in order."""

STYLE = "".join(
    f".heddle {selector}{{{rules}}}"
    for selector, rules in {
        "text": f"font-family:Helvetica,Arial,sans-serif;font-size:10px;fill:{INK}",
        ".t": "font-size:19px;font-weight:bold",
        ".s": f"font-size:12px;fill:{QUIET}",
        ".z": f"font-size:12px;font-weight:bold;fill:{QUIET}",
        ".l": f"font-size:11px;fill:{QUIET}",
        ".m": "text-anchor:middle",
        ".b": "text-anchor:middle",
        ".e": f"text-anchor:end;fill:{QUIET}",
        ".b,.heddle .o": f"paint-order:stroke;stroke:{PAPER};stroke-width:4px;stroke-linejoin:round",
        ".w": f"fill:{GROUND}",
        ".h": "fill:none;stroke-linecap:round",
        ".k": "fill:none",
        ".f": f"fill:{GROUND};stroke:{QUIET}",
        ".q": f"stroke:{EDGE}",
        ".p": "image-rendering:pixelated",
        ".v": f"fill:{PAPER};stroke:{EDGE}",
    }.items()
)
"""Classes of text and shapes, for nothing but our drawings on the page of a notebook."""
