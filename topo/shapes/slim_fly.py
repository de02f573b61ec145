"""Slim Fly: switches linked as a McKay-Miller-Siran graph, so that any two are at most two links apart.

Besta and Hoefler, "Slim Fly: A Cost Effective Low-Diameter Network Topology", SC'14, section II-B. For a prime power
q = 4w + d with d in (-1, 0, 1) there are 2q^2 switches with (3q - d) / 2 links each. Switches (0, x, y) and (0, x, y')
are linked when y - y' is in X, (1, m, c) and (1, m, c') when c - c' is in X', and (0, x, y) and (1, m, c) when
y = mx + c, in the field of q elements.
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
from topo.shapes.galois import FiniteField, prime_powers
from topo.shapes.hosts import HostGroup, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.spec.base import SpecModel, SwitchName


class SlimFly(SpecModel):
    """A Slim Fly over the field of q elements."""

    shape: Literal["slim-fly"]
    switch: SwitchName
    """Model of every switch."""
    q: Annotated[int, Field(ge=3, le=61)]
    """A power of a prime; there are 2q^2 switches."""
    hosts: Annotated[int, Field(ge=1, le=254)] | None = None
    """Host ports of a switch; half of its links, rounded up, when left out."""


def compile_slim_fly(shape: SlimFly, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a Slim Fly.

    Raises
    ------
    DesignError
        When q is no power of a prime, or ports run out.
    """
    ports = switch_ports(catalog, shape.switch)
    q = shape.q
    powers = [power for power in prime_powers(64) if power > 2]
    if q not in powers:
        near = sorted(powers, key=lambda power: (abs(power - q), power))[:2]
        raise DesignError(f"q = {q} is no power of a prime: {' or '.join(map(str, sorted(near)))} would do")
    field = FiniteField(q)
    own, other = _generators(field)
    links = len(own) + q
    hosts = shape.hosts or -(-links // 2)
    if hosts + links > ports.radix:
        raise DesignError(
            f"q = {q} gives each switch {links} links, and with {hosts} hosts {hosts + links} ports; a {shape.switch} "
            f"has {ports.radix}: take a smaller q, or fewer hosts"
        )
    rails = [rail for group in groups for rail in each_adapter(group)]
    refuse_overflow(rails, 2 * q * q, hosts)
    builder = FabricBuilder(name)
    keys = add_switches(builder, ports, 2 * q * q, "leaf", role=Role.LEAF, level=1)
    seat(builder, keys, np.full(len(keys), hosts), rails, ports.speed)
    next_port = [hosts + 1] * len(keys)

    def link(a: int, b: int) -> None:
        builder.link(keys[a], next_port[a], keys[b], next_port[b], ports.speed)
        next_port[a] += 1
        next_port[b] += 1

    for half, differences in enumerate((own, other)):
        for row in range(q):
            for y in range(q):
                for step in sorted(differences):
                    if y < field.add[y, step]:
                        link(half * q * q + row * q + y, half * q * q + row * q + int(field.add[y, step]))
    for x in range(q):
        for m in range(q):
            for c in range(q):
                link(x * q + int(field.add[field.times[m, x], c]), q * q + m * q + c)
    return (builder.build(),)


def _generators(field: FiniteField) -> tuple[set[int], set[int]]:
    """Return X and X': even and odd powers of a primitive element, as the form of q asks for (SC'14, section II-B)."""
    q, xi = field.q, field.powers()
    if q % 4 != 3:  # q = 4w + 1, and q = 4w, where both hold 1 = xi^(q - 1)
        return {xi[k] for k in range(0, q - 1, 2)}, {xi[k % (q - 1)] for k in range(1, q, 2)}
    w = (q + 1) // 4  # q = 4w - 1: both sets must be closed under negation
    own = {xi[k] for k in [*range(0, 2 * w - 1, 2), *range(2 * w - 1, 4 * w - 2, 2)]}
    return own, {xi[k % (q - 1)] for k in [*range(1, 2 * w, 2), *range(2 * w, 4 * w - 1, 2)]}
