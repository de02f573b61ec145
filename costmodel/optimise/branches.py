"""Branches of the search tree, and branching on the models of switches, bounded by an integer program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from math import ceil, inf
from typing import Any

import numpy as np
import pulp

from costmodel.optimise.demand import ROUNDING, SOLVER_TOLERANCE, least_leaving_gbps
from costmodel.optimise.milp import solve
from costmodel.optimise.problem import Problem, SwitchOption
from topo.shapes.base import HostGroup, ShapeModel, each_adapter

Levels = tuple[tuple[SwitchOption, ...], ...]
"""Switches to choose from at each level of a tree, the leaves first."""
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


def smallest(numbers: range, suffices: Callable[[int], bool]) -> int:
    """Return the first number of a range that suffices; 0 if none does.

    Examples
    --------
    >>> smallest(range(1, 10), lambda n: n * n > 20), smallest(range(1, 3), lambda n: n > 5)
    (5, 0)
    """
    return next((number for number in numbers if suffices(number)), 0)


def branch_on_models(
    problem: Problem,
    rails: Sequence[HostGroup],
    levels: Levels,
    trees: Callable[..., Iterator[Branch]],
    *,
    uplinks_carry_all: bool = True,
    copies: int = 1,
) -> Iterator[Branch]:
    """Yield the branch of all trees of these levels. Below it one level after the other gets its model.

    Parameters
    ----------
    problem : Problem
        The needs.
    rails : sequence of HostGroup
        The adapters on each copy.
    levels : tuple of tuple of SwitchOption
        Switches to choose from at each level; all switches of a level are of one model.
    trees : callable
        Called with one switch for each level, yields the trees.
    uplinks_carry_all : bool
        Whether all that leaves a leaf passes its uplinks.
    copies : int
        Number of equal trees side by side.
    """
    price = bound_price(problem, rails, levels, uplinks_carry_all=uplinks_carry_all, copies=copies)
    if price == inf:
        return

    def expand() -> Iterator[Branch]:
        open_level = next((level for level, options in enumerate(levels) if len(options) > 1), None)
        if open_level is None:
            for branch in trees(*(options[0] for options in levels)):
                yield branch if branch.shape else replace(branch, price=max(branch.price, price))
            return
        for option in levels[open_level]:
            chosen = (*levels[:open_level], (option,), *levels[open_level + 1 :])
            yield from branch_on_models(
                problem, rails, chosen, trees, uplinks_carry_all=uplinks_carry_all, copies=copies
            )

    ports = sum(rail.count for rail in rails)
    yield Branch(price, copies * -(-ports // max(option.radix for option in levels[0])), 0, expand=expand)


def bound_price(
    problem: Problem, rails: Sequence[HostGroup], levels: Levels, *, uplinks_carry_all: bool = True, copies: int = 1
) -> float:
    """Return a lower bound of the price of trees, in the currency of the needs; infinite where no tree is possible.

    The variables of the integer program are the number of switches of each model at each level, the number of links
    between each two models of adjacent levels, and the model chosen at each level. The constraints: ports suffice for
    adapters and links, the uplinks of leaves carry what must leave all leaves together, and power and switches are
    within the budget. Which leaf is linked to which spine is relaxed.
    """
    program = pulp.LpProblem("models", pulp.LpMinimize)
    ports = sum(rail.count for rail in rails)
    budget = problem.needs.budget
    together = [(rail, np.zeros(rail.count, int)) for rail in rails]
    leaving = {
        option: least_leaving_gbps(problem.demands(together, 1, option.speed), (option.radix - 1) * option.speed.gbps)
        if uplinks_carry_all
        else 0.0
        for option in levels[0]
    }
    rates = [a.rate(b) for below, above in pairwise(levels) for a in below for b in above]
    most = 4 * ports + max(leaving.values()) / min(rates) + 1_000
    number: list[dict[SwitchOption, Any]] = []
    used_ports: list[dict[SwitchOption, Any]] = []
    chosen: list[dict[SwitchOption, Any]] = []
    price, switches, watts = 0.0, 0.0, 0.0
    for level, options in enumerate(levels):
        number.append({})
        chosen.append({})
        used_ports.append({})
        for index, option in enumerate(options):
            name = f"{level}_{index}"
            fewest = 1 if len(options) == 1 else 0
            n = number[level][option] = program.add_variable(f"number{name}", fewest, None, pulp.LpInteger)
            pick = chosen[level][option] = program.add_variable(f"chosen{name}", fewest, 1, pulp.LpInteger)
            used_ports[level][option] = 0.0
            program += n <= most * pick
            program += n >= pick
            price += problem.cost([(option.name, copies)], []) * n
            switches += n
            watts += (problem.catalog.switch(option.name).planned_w or 0.0) * n
        program += pulp.lpSum(chosen[level].values()) == 1
    for option, pick in chosen[0].items():
        used_ports[0][option] += ports * pick
        price += problem.cost([], problem.host_links(option, each_adapter(problem.groups)), ends=1) * pick
    for level, (below, above) in enumerate(pairwise(levels)):
        for i, a in enumerate(below):
            up, up_gbps = 0.0, 0.0
            for j, b in enumerate(above):
                links = program.add_variable(f"links{level}_{i}_{j}", 0, None, pulp.LpInteger)
                program += links <= most * chosen[level][a]
                program += links <= most * chosen[level + 1][b]
                up, up_gbps = up + links, up_gbps + a.rate(b) * links
                used_ports[level + 1][b] += links
                price += problem.cost([], [(a.link(b), copies)]) * links
            used_ports[level][a] += up
            program += up >= number[level][a]
            if level == 0:
                # The families begin with one leaf less than the flow requires.
                leaf = a.radix * max(a.rate(b) for b in above)
                program += up_gbps >= max(leaving[a] - leaf, 0.0) * chosen[0][a]
    for level, options in enumerate(levels):
        for option in options:
            program += used_ports[level][option] <= option.radix * number[level][option]
    if budget.switches is not None:
        program += copies * switches <= budget.switches
    if budget.power is not None:
        program += copies * watts <= budget.power - problem.servers_w + ROUNDING
    program.setObjective(pulp.lpSum([price]))
    return solve(program)[1] * (1 - SOLVER_TOLERANCE)
