"""Families of topologies, one module each: what the spec may say of it, and the function that compiles it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topo.shapes.bigraph import BiGraph
from topo.shapes.dragonfly import Dragonfly, DragonflyPlus
from topo.shapes.hyperx import HyperX, Torus
from topo.shapes.pgft import KaryTree, Pgft
from topo.shapes.planes import Planes
from topo.shapes.rail import Rail
from topo.shapes.slim_fly import SlimFly
from topo.shapes.tree_size import FatTree
from topo.shapes.zones import Zones

Shape = Annotated[
    BiGraph | Dragonfly | DragonflyPlus | FatTree | HyperX | KaryTree | Pgft | Planes | Rail | SlimFly | Torus | Zones,
    Field(discriminator="shape"),
]
"""Any family, told apart by its key ``shape``."""
