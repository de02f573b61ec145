"""Slim Fly: switches linked as a McKay-Miller-Siran graph, so that any two are at most two links apart.

Besta and Hoefler, "Slim Fly: A Cost Effective Low-Diameter Network Topology", SC'14, section II-B. For a prime power
q = 4w + d with d in (-1, 0, 1) there are 2q^2 switches with (3q - d) / 2 links each. Switches (0, x, y) and (0, x, y')
are linked when y - y' is in X, (1, m, c) and (1, m, c') when c - c' is in X', and (0, x, y) and (1, m, c) when
y = mx + c. Here q is a prime, so that arithmetic modulo q is the field.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hosts import HostGroup, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.spec_model import SpecModel
from topo.spec_names import SwitchName

__all__ = ["SlimFly", "compile_slim_fly"]


class SlimFly(SpecModel):
    """A Slim Fly over the field of q elements."""

    shape: Literal["slim-fly"]
    switch: SwitchName
    """Model of every switch."""
    q: Annotated[int, Field(ge=3, le=61)]
    """A prime; there are 2q^2 switches."""
    hosts: Annotated[int, Field(ge=1, le=254)] | None = None
    """Host ports of a switch; half of its links, rounded up, when left out."""


def compile_slim_fly(shape: SlimFly, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a Slim Fly.

    Raises
    ------
    DesignError
        When q is no prime of the right form, or ports run out.
    """
    ports = switch_ports(catalog, shape.switch)
    q = shape.q
    if not _is_prime(q):
        primes = sorted((p for p in range(3, 62) if _is_prime(p)), key=lambda p: (abs(p - q), p))
        raise DesignError(f"q = {q} is not a prime: {' or '.join(map(str, sorted(primes[:2])))} would do")
    own, other = _generators(q)
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
                    if y < (y + step) % q:
                        link(half * q * q + row * q + y, half * q * q + row * q + (y + step) % q)
    for x in range(q):
        for m in range(q):
            for c in range(q):
                link(x * q + (m * x + c) % q, q * q + m * q + c)
    return (builder.build(),)


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _generators(q: int) -> tuple[set[int], set[int]]:
    """Return X and X': even and odd powers of a primitive element, as the form of q asks for (SC'14, section II-B)."""
    xi = next(e for e in range(2, q) if len({pow(e, k, q) for k in range(q - 1)}) == q - 1)
    if q % 4 == 1:
        own = {pow(xi, k, q) for k in range(0, q - 1, 2)}
        other = {pow(xi, k, q) for k in range(1, q - 1, 2)}
    else:  # q = 4w - 1: both sets must be closed under negation
        w = (q + 1) // 4
        own = {pow(xi, k, q) for k in [*range(0, 2 * w - 1, 2), *range(2 * w - 1, 4 * w - 2, 2)]}
        other = {pow(xi, k, q) for k in [*range(1, 2 * w, 2), *range(2 * w, 4 * w - 1, 2)]}
    return own, other
