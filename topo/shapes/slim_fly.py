"""Slim Fly: switches linked as a McKay-Miller-Siran graph, so that any two are at most two links apart.

Besta and Hoefler, "Slim Fly: A Cost Effective Low-Diameter Network Topology", SC'14, section II-B. For a prime power
q = 4w + d with d in (-1, 0, 1) there are 2q^2 switches with (3q - d) / 2 links each. Switches (0, x, y) and (0, x, y')
are linked when y - y' is in X, (1, m, c) and (1, m, c') when c - c' is in X', and (0, x, y) and (1, m, c) when
y = mx + c, in the field of q elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.catalog.load import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric
from topo.shapes.base import (
    GridStyle,
    HostGroup,
    ShapeModel,
    SwitchPorts,
    add_switches,
    attach_alike,
    link_in_order,
    numbers,
)
from topo.spec.base import SwitchName


class SlimFly(ShapeModel):
    """A Slim Fly over the field of q elements."""

    shape: Literal["slim-fly"]
    grid = GridStyle(lines=True, layer="half")
    switch: SwitchName
    """Model of every switch."""
    q: Annotated[int, Field(ge=3, le=61)]
    """A power of a prime; there are 2q^2 switches."""
    hosts: Annotated[int, Field(ge=1, le=254)] | None = None
    """Host ports of a switch; half of its links, rounded up, when left out."""

    @property
    def arrangement(self) -> str:
        """Two halves of a grid, with lines between them."""
        return f"slim-fly 2x{self.q}x{self.q}"

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a Slim Fly; see `ShapeModel.compile`."""
        ports, q = SwitchPorts(catalog, self.switch), self.q
        powers = [power for power in range(3, 65) if prime_power(power)]
        if q not in powers:
            near = sorted(sorted(powers, key=lambda power: (abs(power - q), power))[:2])
            raise DesignError(f"q = {q} is not a power of a prime: {numbers(near)} would do")
        field = FiniteField(q)
        links = len(_generators(field)[0]) + q
        hosts = self.hosts or -(-links // 2)
        ports.require(hosts + links, f"q = {q}: {links} links + {hosts} hosts", "Take a smaller q, or fewer hosts")
        builder = self.builder(name)
        keys = add_switches(builder, ports, 2 * q * q, "leaf")
        attach_alike(builder, keys, hosts, groups, ports.speed)
        link_in_order(builder, ((keys[a], keys[b]) for a, b in _links(field)), hosts + 1, ports.speed)
        return (builder.build(),)


def _links(field: FiniteField) -> Iterator[tuple[int, int]]:
    """Yield the pairs of switches that are linked; (half, x, y) is number half q^2 + x q + y."""
    q = field.q
    for half, differences in enumerate(_generators(field)):
        for row, y, step in product(range(q), range(q), sorted(differences)):
            other = int(field.add[y, step])
            if y < other:
                yield (half * q + row) * q + y, (half * q + row) * q + other
    for x, m, c in product(range(q), repeat=3):
        yield x * q + int(field.add[field.times[m, x], c]), (q + m) * q + c


def _generators(field: FiniteField) -> tuple[set[int], set[int]]:
    """Return X and X': even and odd powers of a primitive element, as the form of q asks for (SC'14, section II-B)."""
    q, xi = field.q, field.powers()
    if q % 4 != 3:  # q = 4w + 1, and q = 4w, where both hold 1 = xi^(q - 1)
        return {xi[k] for k in range(0, q - 1, 2)}, {xi[k % (q - 1)] for k in range(1, q, 2)}
    w = (q + 1) // 4  # q = 4w - 1: both sets must be closed under negation
    own = {xi[k] for k in [*range(0, 2 * w - 1, 2), *range(2 * w - 1, 4 * w - 2, 2)]}
    return own, {xi[k % (q - 1)] for k in [*range(1, 2 * w, 2), *range(2 * w, 4 * w - 1, 2)]}


class FiniteField:
    """The field of q = p^n elements, which are the numbers 0 to q - 1; ValueError for other q.

    Elements are polynomials over the integers modulo p, modulo a polynomial of degree n that has no factors. Element
    number a0 + a1 p + a2 p^2 + ... is the polynomial with these coefficients; 0 and 1 are what they are.
    """

    times: NDArray[np.int64]
    """(q, q) products; `add` has the sums."""

    def __init__(self, q: int) -> None:
        power = prime_power(q)
        if power is None:
            raise ValueError(f"{q} is not a power of a prime")
        self.q, (p, n) = q, power
        digits = np.array([[number // p**place % p for place in range(n)] for number in range(q)])
        weight = p ** np.arange(n)
        self.add = (digits[:, None] + digits[None, :]) % p @ weight
        # The first polynomial that leaves no divisors of zero has no factors.
        for low in product(range(p), repeat=n):
            self.times = _products(digits, np.array(low), p) @ weight
            if (self.times[1:, 1:] > 0).all():
                break

    def powers(self) -> list[int]:
        """Return 1, g, g^2, ... for the least element g whose powers are all elements but 0."""
        for element in range(1, self.q):
            found = [1]
            while (following := int(self.times[found[-1], element])) != 1:
                found.append(following)
            if len(found) == self.q - 1:
                return found
        raise AssertionError("the elements of a finite field but 0 are a cyclic group")


def prime_power(q: int) -> tuple[int, int] | None:
    """Return the prime p and the exponent n of q = p^n; None where q is not a power of a prime."""
    p = next((divisor for divisor in range(2, q + 1) if q % divisor == 0), 0)
    n = next((n for n in range(1, q.bit_length() + 1) if p**n == q), 0)
    return (p, n) if p and n else None


def _products(digits: NDArray[np.int64], low: NDArray[np.int64], p: int) -> NDArray[np.int64]:
    """Return (q, q, n) products of polynomials modulo x^n + low."""
    n = digits.shape[1]
    full = np.zeros((len(digits), len(digits), 2 * n - 1), np.int64)
    for place in range(n):
        full[:, :, place : place + n] += digits[:, None, place, None] * digits[None, :, :]
    for place in range(2 * n - 2, n - 1, -1):  # x^place = -low x^(place - n)
        full[:, :, place - n : place] -= full[:, :, place, None] * low
    return full[:, :, :n] % p
