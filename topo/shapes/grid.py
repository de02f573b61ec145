"""HyperX and tori: switches on a grid, linked along each of its dimensions.

Ahn et al., "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC'09: in a HyperX each switch
is linked to all others on its line, in a torus to its two neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.catalog.load import Catalog
from topo.fabric import Fabric
from topo.shapes.base import GridStyle, HostGroup, ShapeModel, SwitchPorts, add_switches, attach_alike, link_in_order
from topo.spec.base import SwitchName

Sizes = Annotated[tuple[Annotated[int, Field(ge=2, le=100)], ...], Field(min_length=1, max_length=6, strict=False)]


class Grid(ShapeModel):
    """Switches on a grid."""

    switch: SwitchName
    """Model of every switch."""
    sizes: Sizes
    """Switches along each dimension."""
    hosts: Annotated[int, Field(ge=1, le=254)]
    """Host ports of a switch."""
    parallel: Annotated[int, Field(ge=1, le=100)] = 1
    """Links between each two switches that are linked."""

    @property
    def arrangement(self) -> str:
        """Layers of a grid."""
        return f"{type(self).__name__.lower()} {'x'.join(map(str, self.sizes))}"

    def on_line(self, size: int) -> list[tuple[int, int]]:
        """Return the places on a line of ``size`` switches that are linked."""
        raise NotImplementedError

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile the grid; see `ShapeModel.compile`."""
        ports = SwitchPorts(catalog, self.switch)
        degree = self.parallel * sum(2 * len(self.on_line(size)) // size for size in self.sizes)
        advice = f"Take at most {max(ports.radix - degree, 0)} hosts a switch"
        ports.require(self.hosts + degree, f"{self.hosts} hosts + {degree} links", advice)
        builder = self.builder(name)
        keys = add_switches(builder, ports, prod(self.sizes), "leaf")
        attach_alike(builder, keys, self.hosts, groups, ports.speed)
        index = np.array(keys).reshape(self.sizes)
        pairs = (
            (line[a], line[b])
            for dimension, size in enumerate(self.sizes)
            for line in np.moveaxis(index, dimension, -1).reshape(-1, size).tolist()
            for a, b in self.on_line(size)
            for _ in range(self.parallel)
        )
        link_in_order(builder, pairs, self.hosts + 1, ports.speed)
        return (builder.build(),)


class HyperX(Grid):
    """A grid in which all switches of a line are linked to each other."""

    shape: Literal["hyperx"]

    def on_line(self, size: int) -> list[tuple[int, int]]:
        """Return all pairs."""
        return list(combinations(range(size), 2))


class Torus(Grid):
    """A grid in which each switch is linked to its neighbours, the last of a line to the first."""

    shape: Literal["torus"]
    grid = GridStyle(arcs=False)

    def on_line(self, size: int) -> list[tuple[int, int]]:
        """Return neighbours, and the ends of the line."""
        return [(step, step + 1) for step in range(size - 1)] + ([(size - 1, 0)] if size > 2 else [])
