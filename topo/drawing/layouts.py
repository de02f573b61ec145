"""Which layout a fabric is drawn in."""

from __future__ import annotations

import numpy as np

from topo.drawing.bands import lay_bands
from topo.drawing.grids import lay_grid
from topo.drawing.groups import lay_groups
from topo.drawing.scene import Scene
from topo.fabric import Fabric


def lay_out(fabric: Fabric) -> Scene:
    """Lay a subnet out as its arrangement says."""
    kind, _, sizes = fabric.arrangement.partition(" ")
    if kind == "sides":
        return _sides(fabric)
    if kind == "groups":
        return lay_groups(fabric)
    if sizes:
        grid = [int(size) for size in sizes.split("x")]
        halves = kind == "slim-fly"
        return lay_grid(fabric, grid, arcs=kind != "torus", lines=halves, layer="half" if halves else "layer")
    return lay_bands(fabric)


def _sides(fabric: Fabric) -> Scene:
    """Draw the two sides of a BiGraph above each other, hosts outside."""
    level = 1 + fabric.zone[: fabric.n_switches].astype(np.int64)
    names = {1: "lower side", 2: "upper side"}
    return lay_bands(fabric, level=level, zoned=False, hosts_above={2}, level_names=names)
