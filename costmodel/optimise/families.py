"""Families of designs: all that Heddle compiles of a kind, cheapest first, before any of it is compiled.

A family is a generator of nodes of one search tree. A node has the price of its parts in closed form, or a lower bound
of the prices of all designs that it stands for. `Node.grow` yields what follows from it, none of which is cheaper. So
a search that always takes the cheapest node meets every design in the order of price, though there are endless ones.
What `costmodel.optimise.demand.least` rules out is not yielded; where a law is monotone (fewer links carry no more),
the least number that passes is computed, and all below it are never looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from costmodel.optimise.bound import Node
from costmodel.optimise.direct import bigraphs, dragonflies, dragonflies_plus, hyperx, slim_flies, tori
from costmodel.optimise.needs import FamilyName
from costmodel.optimise.problem import Task
from costmodel.optimise.trees import fat_trees, planes, rails, zones

FAMILIES: dict[FamilyName, Callable[[Task], Iterator[Node]]] = {
    "fat-tree": fat_trees,
    "planes": planes,
    "zones": zones,
    "rail": rails,
    "hyperx": hyperx,
    "torus": tori,
    "dragonfly": dragonflies,
    "dragonfly+": dragonflies_plus,
    "slim-fly": slim_flies,
    "bigraph": bigraphs,
}
"""By the name of the shape in a spec."""


def openings(task: Task) -> Iterator[Node]:
    """Yield the roots of each family that the needs allow."""
    for name, family in FAMILIES.items():
        if name in task.needs.families or not task.needs.families:
            yield from family(task)
