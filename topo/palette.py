"""Colours of every picture: drawings of fabrics and charts of simulations; colour-blind readers can tell them apart."""

from __future__ import annotations

from topo.fabric import Role

INK, QUIET, PLAIN, UNUSED = "#1d232a", "#4a535e", "#5b6673", "#c3c9d0"
"""Of text, of text beside it, of links of which nothing is known, of links that carry nothing."""
PAPER, GROUND, EDGE = "#ffffff", "#f7f8fa", "#c9d0d7"
"""Behind everything, behind what belongs together, and around it."""

HOSTS = {Role.COMPUTE: "#3978b8", Role.STORAGE: "#c77d0a", Role.MANAGEMENT: "#717880"}
"""Of hosts by what they are for."""
SWITCHES = {Role.LEAF: "#e4efdf", Role.SPINE: "#e1e8f5", Role.CORE: "#efe4f4", Role.JOINT: "#fae8c8"}
"""Fill of switches by role; others have `SWITCH`."""
SWITCH = "#eceff2"

SPEEDS = (PLAIN, "#0f7b6c", "#8e5bb5", "#b0742a")
"""Of links, from the fastest of a drawing down; slower ones than the fourth look like it."""
LOADS: tuple[tuple[float, str, str], ...] = (
    (0.0, UNUSED, "unused"),
    (0.5, "#2b6cb0", "below half"),
    (0.9, "#6fa8d6", "0.5 to 0.9"),
    (1.1, PLAIN, "0.9 to 1.1, even"),
    (1.5, "#e6a117", "1.1 to 1.5"),
    (3.0, "#dd5c0c", "1.5 to 3"),
    (float("inf"), "#a50f15", "above 3 times"),
)
"""Of links by their load: up to how many times the mean, the colour, and its words."""

SERIES = ("#3978b8", "#c77d0a", "#0f7b6c", "#a50f15", "#8e5bb5", "#717880", "#6fa8d6", "#e6a117", "#b0742a", INK)
"""Of lines and bars of a chart, in order."""
