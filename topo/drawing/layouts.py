"""Which layout a fabric is drawn in."""

from __future__ import annotations

import numpy as np

from topo.drawing.bands import lay_bands
from topo.drawing.grids import lay_grid
from topo.drawing.groups import lay_groups
from topo.drawing.scene import Scene
from topo.fabric import Fabric
from topo.shapes import Shape
from topo.shapes.bigraph import BiGraph
from topo.shapes.dragonfly import Dragonfly, DragonflyPlus
from topo.shapes.hyperx import HyperX, Torus
from topo.shapes.slim_fly import SlimFly


def lay_out(fabric: Fabric, network: Shape | None) -> Scene:
    """Lay a subnet out as its shape asks for: groups, grids, sides; everything else in bands."""
    match network:
        case BiGraph():
            return _sides(fabric)
        case Dragonfly() | DragonflyPlus():
            return lay_groups(fabric)
        case HyperX():
            return lay_grid(fabric, network.sizes, arcs=True, lines=False)
        case Torus():
            return lay_grid(fabric, network.sizes, arcs=False, lines=False)
        case SlimFly():
            return lay_grid(fabric, (2, network.q, network.q), arcs=True, lines=True, layer="half")
    return lay_bands(fabric)


def _sides(fabric: Fabric) -> Scene:
    """Draw the two sides of a BiGraph above each other, hosts outside."""
    level = 1 + fabric.zone[: fabric.n_switches].astype(np.int64)
    names = {1: "lower side", 2: "upper side"}
    return lay_bands(fabric, level=level, zoned=False, hosts_above={2}, level_names=names)
