"""BiGraph: two sides of switches, each linked to all of the other side, hosts on both.

EFLOPS (Dong et al., HPCA 2020): hosts on opposite sides have exactly one shortest path, and no path has more than three
switches. Under halving-doubling with its rank mapping each flow has a link of its own (`simulate.traffic.placement`).
"""

from __future__ import annotations

from collections.abc import Sequence
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


class BiGraph(SpecModel):
    """Two sides, fully linked to each other."""

    shape: Literal["bigraph"]
    switch: SwitchName
    """Model of every switch."""
    side: Annotated[int, Field(ge=1, le=127)]
    """Switches of each side."""
    parallel: Annotated[int, Field(ge=1, le=127)] = 1
    """Links between each two switches of opposite sides."""


def compile_bigraph(shape: BiGraph, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a BiGraph; side 0 and side 1 are its zones, and all switches are leaves.

    Raises
    ------
    DesignError
        When ports run out.
    """
    ports = switch_ports(catalog, shape.switch)
    across = shape.side * shape.parallel
    down = ports.radix - across
    if down < 1:
        raise DesignError(
            f"{shape.side} switches of the other side x {shape.parallel} links = {across} ports, and a {shape.switch} "
            f"has {ports.radix}: at most {(ports.radix - 1) // shape.parallel} switches a side leave a port for hosts"
        )
    rails = [rail for group in groups for rail in each_adapter(group)]
    refuse_overflow(rails, 2 * shape.side, down)
    builder = FabricBuilder(name)
    sides = [
        add_switches(builder, ports, shape.side, f"{word}", role=Role.LEAF, level=1, zone=side)
        for side, word in enumerate(("lower", "upper"))
    ]
    seat(builder, [*sides[0], *sides[1]], np.full(2 * shape.side, down), rails, ports.speed)
    for a, lower in enumerate(sides[0]):
        for b, upper in enumerate(sides[1]):
            for link in range(shape.parallel):
                port = down + 1 + link
                builder.link(lower, port + b * shape.parallel, upper, port + a * shape.parallel, ports.speed)
    return (builder.build(),)
