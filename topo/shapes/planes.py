"""Multi-plane networks: as many separate fat-trees as a node has adapters, or a part of them; each is its own subnet.

DeepSeek-V3 runs on eight planes (arXiv 2505.09343, section 5.1: adapter r of each node in plane r, each plane two
levels of 64-port switches); Fire-Flyer's authors plan four planes of 128 x 400G for 32,768 GPUs (SC'24, section IX).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric
from topo.hardware.catalog import Catalog
from topo.shapes.fat_tree import grow_tree
from topo.shapes.hosts import HostGroup
from topo.shapes.tree_size import FatTree
from topo.spec.base import SpecModel


class Planes(SpecModel):
    """Equal fat-trees side by side that nothing connects; adapter r of a node hangs in plane r modulo the planes."""

    shape: Literal["planes"]
    planes: Annotated[int, Field(ge=1, le=64)]
    """Number of planes."""
    tree: FatTree
    """What each plane is."""


def compile_planes(shape: Planes, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile each plane into a subnet.

    Raises
    ------
    DesignError
        When adapters do not divide over planes, or a plane does not close.
    """
    for group in groups:
        if group.adapters % shape.planes:
            raise DesignError(
                f"{group.name} ({group.model}) has {group.adapters} adapters, which do not divide over {shape.planes} "
                f"planes: {', '.join(str(n) for n in range(1, group.adapters + 1) if group.adapters % n == 0)} would do"
            )
    fabrics = []
    for plane in range(shape.planes):
        rails = [
            replace(group, device=device) for group in groups for device in range(plane, group.adapters, shape.planes)
        ]
        builder = FabricBuilder(f"{name}-plane{plane}")
        grow_tree(builder, shape.tree, rails, catalog, prefix=f"p{plane}-")
        fabrics.append(builder.build())
    return tuple(fabrics)
