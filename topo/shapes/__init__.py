"""Families of topologies, one module each: what the spec may say of it, and the function that compiles it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from topo.shapes.tree_size import FatTree
from topo.shapes.zones import Zones

__all__ = ["Shape"]

Shape = Annotated[FatTree | Zones, Field(discriminator="shape")]
"""Any family, told apart by its key ``shape``."""
