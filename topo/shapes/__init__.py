"""Families of topologies: what a spec may say of each, and how it is compiled."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topo.shapes.fat_tree import FatTree
from topo.shapes.grid import HyperX, Torus
from topo.shapes.groups import BiGraph, Dragonfly, DragonflyPlus
from topo.shapes.pgft import KaryTree, Pgft
from topo.shapes.rail import Planes, Rail
from topo.shapes.slim_fly import SlimFly
from topo.shapes.zones import Zones

Shape = Annotated[
    BiGraph | Dragonfly | DragonflyPlus | FatTree | HyperX | KaryTree | Pgft | Planes | Rail | SlimFly | Torus | Zones,
    Field(discriminator="shape"),
]
"""Any family, told apart by its key ``shape``."""
