"""HyperX and tori: switches on a grid, linked along each of its dimensions.

Ahn et al., "HyperX: Topology, Routing, and Packaging of Efficient Large-Scale Networks", SC'09: in a HyperX each switch
is linked to all others on its line, in a torus to its two neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.shapes.hosts import HostGroup, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.spec.base import SpecModel, SwitchName

Sizes = Annotated[tuple[Annotated[int, Field(ge=2, le=100)], ...], Field(min_length=1, max_length=6, strict=False)]


class Grid(SpecModel):
    """Switches on a grid."""

    switch: SwitchName
    """Model of every switch."""
    sizes: Sizes
    """Switches along each dimension."""
    hosts: Annotated[int, Field(ge=1, le=254)]
    """Host ports of a switch."""
    parallel: Annotated[int, Field(ge=1, le=100)] = 1
    """Links between each two switches that are linked."""


class HyperX(Grid):
    """A grid in which all switches of a line are linked to each other."""

    shape: Literal["hyperx"]


class Torus(Grid):
    """A grid in which each switch is linked to its neighbours, the last of a line to the first."""

    shape: Literal["torus"]


def compile_grid(shape: HyperX | Torus, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a HyperX or a torus.

    Raises
    ------
    DesignError
        When ports run out.
    """
    ports = switch_ports(catalog, shape.switch)
    degree = shape.parallel * sum(_degree(size, all_linked=isinstance(shape, HyperX)) for size in shape.sizes)
    if shape.hosts + degree > ports.radix:
        raise DesignError(
            f"{shape.hosts} hosts + {degree} links = {shape.hosts + degree} ports, and a {shape.switch} has "
            f"{ports.radix}: at most {max(ports.radix - degree, 0)} hosts a switch close"
        )
    rails = [rail for group in groups for rail in each_adapter(group)]
    n = prod(shape.sizes)
    refuse_overflow(rails, n, shape.hosts)
    builder = FabricBuilder(name)
    keys = add_switches(builder, ports, n, "leaf", role=Role.LEAF, level=1)
    seat(builder, keys, np.full(n, shape.hosts), rails, ports.speed)
    next_port = [shape.hosts + 1] * n
    for a, b in _lines(shape):
        for _ in range(shape.parallel):
            builder.link(keys[a], next_port[a], keys[b], next_port[b], ports.speed)
            next_port[a] += 1
            next_port[b] += 1
    return (builder.build(),)


def _degree(size: int, *, all_linked: bool) -> int:
    return size - 1 if all_linked or size == 2 else 2


def _lines(shape: HyperX | Torus) -> Iterator[tuple[int, int]]:
    """Yield the pairs of switches that are linked, dimension by dimension."""
    index = np.arange(prod(shape.sizes)).reshape(shape.sizes)
    for dimension, size in enumerate(shape.sizes):
        others = [range(other) if d != dimension else range(1) for d, other in enumerate(shape.sizes)]
        for place in product(*others):
            line = [int(index[(*place[:dimension], step, *place[dimension + 1 :])]) for step in range(size)]
            if isinstance(shape, HyperX):
                yield from ((line[a], line[b]) for a in range(size) for b in range(a + 1, size))
            else:
                yield from ((line[step], line[step + 1]) for step in range(size - 1))
                if size > 2:
                    yield line[-1], line[0]
