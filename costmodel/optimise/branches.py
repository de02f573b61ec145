"""Branches of the search tree, and branching on the models of switches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise, product
from math import ceil, inf

import numpy as np

from costmodel.optimise.demand import ROUNDING, least_leaving_gbps
from costmodel.optimise.problem import Problem, SwitchOption
from topo.shapes.base import HostGroup, ShapeModel, each_adapter

_serial = count()


def no_branches() -> Iterator[Branch]:
    """Yield nothing: a design on its own has no branches below it."""
    yield from ()


@dataclass(frozen=True, order=True, slots=True)
class Branch:
    """A design, or all designs with some parameters fixed. The order is by price: the search takes the cheapest."""

    price: float
    """Price of the switches and cables of a design; a lower bound where the branch stands for several designs."""
    switches: int
    links: int
    """Links between switches."""
    serial: int = field(default_factory=lambda: next(_serial), init=False)
    name: str = field(default="", compare=False, kw_only=True)
    expand: Callable[[], Iterator[Branch]] = field(default=no_branches, compare=False, kw_only=True)
    """Yields the branches below, none of which is cheaper."""
    shape: Callable[[], ShapeModel] | None = field(default=None, compare=False, kw_only=True)
    """Returns the network of the spec; None where the branch stands for several designs."""


def round_up(factor: float) -> int:
    """Return max(ceil(factor), 1), tolerant of rounding; 0 if infinite.

    Examples
    --------
    >>> round_up(2.1), round_up(2.0 + 1e-12), round_up(0.0), round_up(float("inf"))
    (3, 2, 1, 0)
    """
    return 0 if factor == inf else max(ceil(factor - ROUNDING), 1)


def ascending(
    numbers: range, bound: Callable[..., Branch], designs: Callable[[int], Iterator[Branch]]
) -> Iterator[Branch]:
    """Yield the branch of all designs of these numbers at the price of the first; below are its own, and the rest."""

    def expand() -> Iterator[Branch]:
        yield from designs(numbers[0])
        yield from ascending(numbers[1:], bound, designs)

    if numbers:
        yield bound(numbers[0], expand=expand)


def first_of(numbers: range, design: Callable[..., Branch | None]) -> Iterator[Branch]:
    """Yield the design of the first number that has one; below it are those of the numbers after it."""
    for at, number in enumerate(numbers, 1):
        branch = design(number, expand=partial(first_of, numbers[at:], design))
        if branch is not None:
            yield branch
            return


def branch_on_models(
    problem: Problem,
    rails: Sequence[HostGroup],
    options: Sequence[SwitchOption],
    trees: Callable[..., Iterator[Branch]],
    *,
    levels: Sequence[int] = (2, 3),
    uplinks_carry_all: bool = True,
    copies: int = 1,
) -> Iterator[Branch]:
    """Yield the branch of all trees of so many ``levels`` for each choice of a model at every level.

    Its price is that of the fewest links and switches, level by level: the ports of the leaves suffice for the adapters
    and the uplinks, of which each switch has one at least, and those of the leaves carry what must leave all of them.

    ``trees`` is called with one switch for each level, and yields the trees; ``rails`` are the adapters on each of the
    equal ``copies`` side by side. ``uplinks_carry_all`` says whether all that leaves a leaf passes its uplinks.
    """
    together = [(rail, np.zeros(rail.count, int)) for rail in rails]
    for n_levels, leaf in product(levels, options):
        hosts = problem.cost([], problem.host_links(leaf, each_adapter(problem.groups)), ends=1)
        leaving = 0.0
        if uplinks_carry_all:
            demands = problem.demands(together, 1, leaf.speed)
            leaving = least_leaving_gbps(demands, (leaf.radix - 1) * leaf.speed.gbps)
        for above in product(options, repeat=n_levels - 1):
            ports, switches, links = sum(rail.count for rail in rails), [], []
            # The families begin with one leaf less than the flow requires.
            fewest = ceil(max(leaving / leaf.rate(above[0]) - leaf.radix, 0.0) - ROUNDING)
            for lower, upper in pairwise((leaf, *above)):
                number = max(-(-ports // (lower.radix - 1)), -(-(ports + fewest) // lower.radix))
                ports, fewest = max(number, fewest), 0  # those of the level above
                switches.append((lower.name, copies * number))
                links.append((lower.link(upper), copies * ports))
            switches.append((above[-1].name, copies * -(-ports // above[-1].radix)))
            price = problem.supplied(switches, hosts + problem.cost(switches, links)) * (1 - ROUNDING)
            expand = partial(_at_least, price, partial(trees, leaf, *above))
            yield Branch(price, sum(number for _, number in switches), 0, expand=expand)


def _at_least(price: float, trees: Callable[[], Iterator[Branch]]) -> Iterator[Branch]:
    """Yield trees, the rows of them at a price no lower than that of all."""
    for branch in trees():
        yield branch if branch.shape else replace(branch, price=max(branch.price, price))
