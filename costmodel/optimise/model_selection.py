"""Which models of switches, and how many of them, at each level of a tree: an integer program that bounds its price."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pulp

from costmodel.optimise.bound import Node
from costmodel.optimise.demand import ROUNDING, least_out
from costmodel.optimise.milp import solve
from costmodel.optimise.problem import Kind, Task
from topo.shapes.base import HostGroup, each_adapter

Levels = tuple[tuple[Kind, ...], ...]
"""Models that each level may be of, the leaves first."""
SLACK = 1e-6
"""Part by which the bound of a program may be off."""


def mixed(
    task: Task,
    rails: Sequence[HostGroup],
    levels: Levels,
    rows: Callable[..., Iterator[Node]],
    *,
    beyond: bool = True,
    copies: int = 1,
) -> Iterator[Node]:
    """Yield the root of all trees of some levels: their least price, and below it one model after the other chosen.

    Parameters
    ----------
    task : Task
        The needs.
    rails : sequence of HostGroup
        What hangs on each copy.
    levels : tuple of tuple of Kind
        Models to choose from, for each level; all switches of a level are of one.
    rows : callable
        Called with one model for each level, yields the trees.
    beyond : bool
        Whether what leaves all leaves together must pass their uplinks.
    copies : int
        Trees side by side.
    """
    price = least_price(task, rails, levels, beyond=beyond, copies=copies)
    if price == inf:
        return

    def grow() -> Iterator[Node]:
        open_level = next((level for level, kinds in enumerate(levels) if len(kinds) > 1), None)
        if open_level is None:
            for node in rows(*(kinds[0] for kinds in levels)):
                yield node if node.shape else replace(node, price=max(node.price, price))
            return
        for kind in levels[open_level]:
            chosen = (*levels[:open_level], (kind,), *levels[open_level + 1 :])
            yield from mixed(task, rails, chosen, rows, beyond=beyond, copies=copies)

    ports = sum(rail.count for rail in rails)
    yield Node(price, copies * -(-ports // max(kind.radix for kind in levels[0])), 0, grow=grow)


def least_price(
    task: Task, rails: Sequence[HostGroup], levels: Levels, *, beyond: bool = True, copies: int = 1
) -> float:
    """Bound the price of trees from below; infinite where none can be.

    The integer program has numbers of switches of each model at each level, numbers of links between each two models,
    and one model chosen for each level. Ports are enough for hosts and links, uplinks for what must leave all leaves
    together, heat and switches are what the budget allows. Which leaf is linked to which spine is left out.
    """
    program = pulp.LpProblem("mix", pulp.LpMinimize)
    ports = sum(rail.count for rail in rails)
    budget = task.needs.budget
    as_one = [(rail, np.array([rail.count])) for rail in rails]
    leaving = {
        kind: least_out(task.demands(as_one, kind.speed), (kind.radix - 1) * kind.speed.gbps) if beyond else 0.0
        for kind in levels[0]
    }
    rates = [a.rate(b) for below, above in pairwise(levels) for a in below for b in above]
    most = 4 * ports + max(leaving.values()) / min(rates) + 1_000
    count: list[dict[Kind, Any]] = []
    taken: list[dict[Kind, Any]] = []
    chosen: list[dict[Kind, Any]] = []
    price, switches, watts = 0.0, 0.0, 0.0
    for level, kinds in enumerate(levels):
        count.append({})
        chosen.append({})
        taken.append({})
        for number, kind in enumerate(kinds):
            name = f"{level}_{number}"
            fewest = 1 if len(kinds) == 1 else 0
            n = count[level][kind] = program.add_variable(f"count{name}", fewest, None, pulp.LpInteger)
            pick = chosen[level][kind] = program.add_variable(f"chosen{name}", fewest, 1, pulp.LpInteger)
            taken[level][kind] = 0.0
            program += n <= most * pick
            program += n >= pick
            price += task.cost([(kind.name, copies)], []) * n
            switches += n
            watts += (task.catalog.switch(kind.name).planned_w or 0.0) * n
        program += pulp.lpSum(chosen[level].values()) == 1
    for kind, pick in chosen[0].items():
        taken[0][kind] += ports * pick
        price += task.cost([], task.host_links(kind, each_adapter(task.groups)), ends=1) * pick
    for level, (below, above) in enumerate(pairwise(levels)):
        for i, a in enumerate(below):
            up, carried = 0.0, 0.0
            for j, b in enumerate(above):
                links = program.add_variable(f"links{level}_{i}_{j}", 0, None, pulp.LpInteger)
                program += links <= most * chosen[level][a]
                program += links <= most * chosen[level + 1][b]
                up, carried = up + links, carried + a.rate(b) * links
                taken[level + 1][b] += links
                price += task.cost([], [(a.link(b), copies)]) * links
            taken[level][a] += up
            program += up >= count[level][a]
            if level == 0:
                # A leaf less than the flow would need is what the families begin with.
                leaf = a.radix * max(a.rate(b) for b in above)
                program += carried >= max(leaving[a] - leaf, 0.0) * chosen[0][a]
    for level, kinds in enumerate(levels):
        for kind in kinds:
            program += taken[level][kind] <= kind.radix * count[level][kind]
    if budget.switches is not None:
        program += copies * switches <= budget.switches
    if budget.power is not None:
        program += copies * watts <= budget.power - task.servers_w + ROUNDING
    program.setObjective(pulp.lpSum([price]))
    return solve(program)[1] * (1 - SLACK)
