"""Draws fabrics as SVG: where every switch is, what links them, and how busy the links are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topo import palette
from topo.cluster import Cluster
from topo.counts import count
from topo.drawing.bands import lay_bands
from topo.drawing.direct import lay_grid, lay_groups
from topo.drawing.scene import Scene
from topo.drawing.svg import Shades, as_kind, clean, element, format_legend, scene_svg, text
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Kind, Role
from topo.hostlist import compress
from topo.shapes.base import GRID_STYLES, GridStyle
from topo.table import Brief

MARGIN = 24.0
"""White around the picture."""
HEAD, HEADLINE = 62.0, 26.0
"""Height of the title, and of a subnet's."""
LEAST_WIDTH = 760.0

Loads = NDArray[np.int64] | Sequence[NDArray[np.int64] | None]


@dataclass(frozen=True)
class Drawing(Brief):
    """A picture. A notebook shows it, a browser opens what `save` writes."""

    svg: str
    """The same text for the same input."""

    def _brief(self) -> str:
        return plural(len(self.svg), "character") + " of SVG"

    def as_kind(self, suffix: str) -> bytes:
        """Return the picture as a file that ends in ``.svg``, ``.png`` or ``.pdf``; HeddleError for any other."""
        return as_kind(self.svg, suffix)

    def save(self, path: str | Path) -> None:
        """Write the picture to a file that ends in ``.svg``, ``.png`` or ``.pdf``."""
        Path(path).write_bytes(self.as_kind(Path(path).suffix.lower()))

    def _repr_svg_(self) -> str:
        return self.svg


def draw(
    what: Cluster | Fabric | Sequence[Fabric],
    loads: Loads | None = None,
    *,
    title: str | None = None,
    unit: str = "pairs",
    marked: tuple[str, str] | None = None,
) -> Drawing:
    """Draw a fabric, or all subnets of a cluster, those that are alike once.

    Parameters
    ----------
    what : Cluster, Fabric or sequence of Fabric
        The subnets. Each is arranged as its `Fabric.arrangement` says: levels and zones, sides, groups or grids.
    loads : (P,) int64, or one for each subnet, optional
        Load of each channel; the links are coloured by it. None for a subnet of which it is not known.
    title : str, optional
        What the title says; the name of the cluster or fabric when left out.
    unit : str
        What the load counts: pairs of end ports, or bytes.
    marked : (str, str), optional
        Links with any load are marked, however much it is: what that means, and what all others are, such as
        ``("not as planned", "as planned")``.

    Returns
    -------
    Drawing
        SVG, with what everything is where the mouse rests on it.

    Examples
    --------
    >>> import topo
    >>> drawing = topo.draw(topo.preset("lab-20"))
    >>> drawing.svg[:4], "leaf0" in drawing.svg
    ('<svg', True)
    """
    if isinstance(what, Cluster):
        title, what = title or what.name, what.fabrics
    fabrics = [Fabric.given(one) for one in (what if isinstance(what, Sequence) else [what])]
    name = title if title is not None else fabrics[0].name
    given = [loads] if isinstance(loads, np.ndarray) else list(loads or [None] * len(fabrics))
    if len(given) != len(fabrics):
        each = plural(len(fabrics), "subnet")
        raise HeddleError(f"found loads {loads!r:.60}; expected an array for each of {each}")
    for fabric, load in zip(fabrics, given, strict=True):
        if load is not None and not (np.shape(load) == (fabric.n_ports,) and (np.isfinite(load) & (load >= 0)).all()):
            expected = f"an array with the load of each of its {fabric.n_ports:,} channels, 0 or more"
            raise HeddleError(f"{fabric.name}: found loads {load!r:.60}; expected {expected}")
    rates = (fabric.rate_gbps[fabric.inner_links].min(axis=1).tolist() for fabric in fabrics)
    speeds = sorted({rate for each in rates for rate in each}, reverse=True)
    parts: list[str] = []
    y, width, fans = MARGIN + HEAD, LEAST_WIDTH, False
    for members in _alike(fabrics, given):
        fabric, load = fabrics[members[0]], given[members[0]]
        scene = lay_out(fabric)
        if len(fabrics) > 1:
            names = compress(fabrics[member].name for member in members)
            words = f"{names}: {_sum_up([fabric])}{' each' if len(members) > 1 else ''}"
            parts.append(text(MARGIN, y + 12, words, "z"))
            y += HEADLINE
        inside = scene_svg(scene, fabric, Shades(fabric, load, speeds, unit, marked=marked is not None))
        parts.append(element("g", "\n", inside, "\n", transform=f"translate({MARGIN:g} {y:.1f})"))
        y += scene.height + MARGIN
        width, fans = max(width, scene.width), fans or bool(scene.fans)
    roles = {Role(role) for fabric in fabrics for role in np.unique(fabric.role[fabric.n_switches :]).tolist()}
    loaded = any(load is not None for load in given)
    legend, tall = format_legend(MARGIN, y, width, roles, speeds, loaded=loaded, marked=marked, fans=fans)
    return frame(name, _sum_up(fabrics), [*parts, legend], width, y + tall)


def frame(name: str, about: str, parts: Sequence[str], width: float, bottom: float, *, bare: bool = False) -> Drawing:
    """Return elements as a picture with its title.

    A bare one is part of a page that has `palette.STYLE`: it has no margin, and its title is for screen readers.
    """
    edge = 0.0 if bare else MARGIN
    wide, high = width + 2 * edge, bottom + edge
    head = [element("title", clean(name)), *([element("desc", clean(about))] if about else [])]
    head += [] if bare else [element("style", palette.STYLE)]
    head.append(element("rect", width="100%", height="100%", fill=palette.PAPER))
    if not bare:
        head += [text(MARGIN, MARGIN + 18, name, "t"), text(MARGIN, MARGIN + 38, about, "s")]
    root = {"xmlns": "http://www.w3.org/2000/svg", "class": "heddle", "role": "img",
            "aria-label": f"{name}: {about}" if about else name, "width": f"{wide:.0f}", "height": f"{high:.0f}",
            "viewBox": f"0 0 {wide:.0f} {high:.0f}"}  # fmt: skip
    return Drawing(element("svg", "\n".join(["", *head, *parts, ""]), **root) + "\n")


def lay_out(fabric: Fabric) -> Scene:
    """Lay a subnet out as its arrangement says.

    Returns
    -------
    Scene
        With its upper left corner at (0, 0); lengths are those of an SVG at full size.

    Examples
    --------
    >>> import topo
    >>> scene = topo.lay_out(topo.preset("lab-20").fabric)
    >>> [cell.text for cell in scene.cells][:2]
    [('spine0',), ('spine1',)]
    """
    kind, _, sizes = fabric.arrangement.partition(" ")
    if kind == "groups":
        return lay_groups(fabric)
    if sizes:
        return lay_grid(fabric, [int(size) for size in sizes.split("x")], GRID_STYLES.get(kind, GridStyle()))
    return lay_bands(fabric)


CABLED = ("kind", "role", "level", "zone", "port_offset", "peer", "width", "speed")
"""Arrays of a fabric that a picture shows."""


def _alike(fabrics: Sequence[Fabric], loads: Sequence[NDArray[np.int64] | None]) -> list[list[int]]:
    """Return the subnets by number, those of equal cabling and load together."""
    groups: dict[tuple[bytes, ...], list[int]] = {}
    for number, (fabric, load) in enumerate(zip(fabrics, loads, strict=True)):
        arrays = [getattr(fabric, name) for name in CABLED] + ([] if load is None else [load])
        groups.setdefault(tuple(array.tobytes() for array in arrays), []).append(number)
    return list(groups.values())


def _sum_up(fabrics: Sequence[Fabric]) -> str:
    """Say what there is: ``122 switches (80 leaves, 40 spines, 2 joints), 1,380 servers, 3,200 links``."""
    counts = count(fabrics)
    tiers = {"leaf": "leaves", "spine": "spines", "core": "cores", "joint": "joints"}
    found = {name: getattr(counts, name) for name in tiers}
    kinds = [plural(number, name, tiers[name]) for name, number in found.items() if number]
    servers = counts.gpu_nodes + counts.storage_nodes + counts.management_nodes
    adapters = sum(int(np.count_nonzero(fabric.kind == Kind.HCA)) for fabric in fabrics)
    subnets = f"{plural(len(fabrics), 'subnet')}, " if len(fabrics) > 1 else ""
    of = f" ({', '.join(kinds)})" if kinds else ""
    return (
        f"{subnets}{plural(counts.switches, 'switch', 'switches')}{of}, {plural(servers, 'server')}, "
        f"{plural(adapters, 'adapter')}, {plural(counts.links, 'link')}"
    )
