"""Nodes of the search tree: a design, or all designs that follow from some first choices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from math import ceil, inf

from costmodel.optimise.demand import ROUNDING
from topo.shapes.base import ShapeModel

_serial = count()


def nothing() -> Iterator[Node]:
    """Yield nothing: what follows from a design that stands alone."""
    yield from ()


@dataclass(frozen=True, order=True, slots=True)
class Node:
    """A design, or all designs that follow from some first choices; of several nodes the cheapest comes first."""

    price: float
    """Of its switches and cables; of several designs a lower bound."""
    switches: int
    links: int
    """Between switches."""
    serial: int = field(default_factory=lambda: next(_serial), init=False)
    name: str = field(default="", compare=False, kw_only=True)
    grow: Callable[[], Iterator[Node]] = field(default=nothing, compare=False, kw_only=True)
    """Yields the designs that follow, none of which is cheaper."""
    shape: Callable[[], ShapeModel] | None = field(default=None, compare=False, kw_only=True)
    """The network of the spec; None where the node stands for several designs."""


def whole(factor: float) -> int:
    """Return the least whole number that is no less, but for rounding, and at least 1; 0 for infinity.

    Examples
    --------
    >>> whole(2.1), whole(2.0 + 1e-12), whole(0.0), whole(float("inf"))
    (3, 2, 1, 0)
    """
    return 0 if factor == inf else max(ceil(factor - ROUNDING), 1)


def first(numbers: range, holds: Callable[[int], bool]) -> int:
    """Return the first number of a range that holds; 0 where none does.

    Examples
    --------
    >>> first(range(1, 10), lambda n: n * n > 20), first(range(1, 3), lambda n: n > 5)
    (5, 0)
    """
    return next((number for number in numbers if holds(number)), 0)
