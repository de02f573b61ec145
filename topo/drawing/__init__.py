"""Draws a cluster as SVG: where every switch is, what links them, and how busy the links are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topo.counts import count
from topo.drawing.layouts import lay_out
from topo.drawing.legend import format_legend
from topo.drawing.shades import Shades
from topo.drawing.svg import STYLE, clean, element, scene_svg, text
from topo.fabric import Fabric, Kind, Role
from topo.hostlist import compress

EDGE = 24.0
"""White around the picture."""
HEAD, HEADLINE = 62.0, 26.0
"""Height of the title, and of a subnet's."""
LEAST_WIDTH = 760.0


def format_drawing(
    name: str,
    fabrics: Sequence[Fabric],
    loads: Sequence[NDArray[np.int64] | None] | None = None,
    unit: str = "pairs",
) -> str:
    """Return a drawing of all subnets of a cluster, those that are alike once.

    Parameters
    ----------
    name : str
        What the title says.
    fabrics : sequence of Fabric
        The subnets.
    loads : sequence of (P,) int64 or None, optional
        Load of each channel of each subnet; the links are coloured by it.
    unit : str
        What the load counts: pairs of end ports, or bytes.

    Returns
    -------
    str
        SVG, the same bytes for the same input.
    """
    given = list(loads) if loads is not None else [None] * len(fabrics)
    speeds = sorted({rate for fabric in fabrics for rate in _rates(fabric)}, reverse=True)
    parts: list[str] = []
    y, width, fans = EDGE + HEAD, LEAST_WIDTH, False
    for members in _alike(fabrics, given):
        fabric, load = fabrics[members[0]], given[members[0]]
        scene = lay_out(fabric)
        if len(fabrics) > 1:
            names = compress(fabrics[member].name for member in members)
            parts.append(text(EDGE, y + 12, f"{names}: {_sum_up([fabric])}{' each' if len(members) > 1 else ''}", "z"))
            y += HEADLINE
        inside = scene_svg(scene, fabric, Shades(fabric, load, speeds, unit))
        parts.append(element("g", {"transform": f"translate({EDGE:g} {y:.1f})"}, "\n", inside, "\n"))
        y += scene.height + EDGE
        width, fans = max(width, scene.width), fans or bool(scene.fans)
    roles = {Role(role) for fabric in fabrics for role in np.unique(fabric.role[fabric.n_switches :]).tolist()}
    loaded = any(load is not None for load in given)
    legend, tall = format_legend(EDGE, y, width, roles, speeds, loaded=loaded, fans=fans)
    wide, high = width + 2 * EDGE, y + tall + EDGE
    about = _sum_up(fabrics)
    head = [
        element("title", {"id": "title"}, clean(name)),
        element("desc", {"id": "desc"}, clean(about)),
        element("style", {}, STYLE),
        element("rect", {"width": "100%", "height": "100%", "fill": "#fff"}),
        text(EDGE, EDGE + 18, name, "t"),
        text(EDGE, EDGE + 38, about, "s"),
    ]
    root = {
        "xmlns": "http://www.w3.org/2000/svg",
        "role": "img",
        "aria-labelledby": "title desc",
        "width": f"{wide:.0f}",
        "height": f"{high:.0f}",
        "viewBox": f"0 0 {wide:.0f} {high:.0f}",
    }
    return element("svg", root, "\n".join(["", *head, *parts, legend, ""])) + "\n"


def _alike(fabrics: Sequence[Fabric], loads: Sequence[NDArray[np.int64] | None]) -> list[list[int]]:
    """Return the subnets by number, those of equal cabling and load together."""
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for number, (fabric, load) in enumerate(zip(fabrics, loads, strict=True)):
        arrays = (
            fabric.kind,
            fabric.role,
            fabric.level,
            fabric.zone,
            fabric.port_offset,
            fabric.peer,
            fabric.width,
            fabric.speed,
        )
        key = (*(array.tobytes() for array in arrays), b"" if load is None else load.tobytes())
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def _rates(fabric: Fabric) -> list[float]:
    """Rates of the links between switches."""
    between = (fabric.port_node[fabric.links] < fabric.n_switches).all(axis=1)
    return [float(rate) for rate in np.unique(fabric.rate_gbps[fabric.links[between]].min(axis=1))]


def _sum_up(fabrics: Sequence[Fabric]) -> str:
    """Say what there is: ``122 switches (80 leaves, 40 spines, 2 joints), 1,380 servers, 3,200 links``."""
    counts = count(fabrics)
    tiers = {"leaf": "leaves", "spine": "spines", "core": "cores", "joint": "joints"}
    found = {name: getattr(counts, name) for name in tiers}
    kinds = [f"{number:,} {tiers[name] if number > 1 else name}" for name, number in found.items() if number]
    servers = counts.gpu_nodes + counts.storage_nodes + counts.management_nodes
    adapters = sum(int(np.count_nonzero(fabric.kind == Kind.HCA)) for fabric in fabrics)
    subnets = f"{len(fabrics)} subnets, " if len(fabrics) > 1 else ""
    return (
        f"{subnets}{counts.switches:,} switches{_in_brackets(kinds)}, {servers:,} servers, "
        f"{adapters:,} adapters, {counts.links:,} links"
    )


def _in_brackets(words: Sequence[str]) -> str:
    return f" ({', '.join(words)})" if words else ""
