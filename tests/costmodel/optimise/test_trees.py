"""Trees, planes, zones and rails of small switches: each is priced as its bill is, and none that does is left out."""

from collections import Counter
from heapq import heapify, heappop, heappush

import pytest

from costmodel.optimise.design import evaluate
from costmodel.optimise.problem import Problem
from costmodel.optimise.search import roots
from helpers.needs import needs, small_catalog
from helpers.strategies import slow_but
from topo.shapes.base import ShapeModel
from topo.shapes.rail import Planes, Rail
from topo.shapes.zones import Zones

CASES = {
    "fat-tree": (4, needs(6, switches=["S"], currency="USD", job={"nodes": 6, "bisection": 0.5})),
    "planes": (6, needs(switches=["S"], currency="USD", nodes={"gpu": {"model": "dgx-a100", "count": 4}},
                        job={"nodes": 5, "bisection": 0.5})),
    "rail": (8, needs(switches=["S"], currency="USD", nodes={"gpu": {"model": "dgx-a100", "count": 3}},
                      job={"nodes": 3, "bisection": 0.3})),
    "zones": (8, needs(9, 2, switches=["S"], currency="USD", job={"nodes": 4, "bisection": 0.5})),
}  # fmt: skip
"""By family, the ports of a switch, and needs."""
EACH = 3
"""Designs of each kind that are compiled."""


def kind(shape: ShapeModel) -> tuple[object, ...]:
    """What two designs share that are made by the same lines."""
    if isinstance(shape, Zones):
        return bool(shape.joints), (shape.joints or shape.direct).placement
    tree = shape.tree if isinstance(shape, Rail | Planes) else shape
    return (tree.levels, shape.planes if isinstance(shape, Planes) else 0)


@pytest.mark.parametrize("family", slow_but(CASES, "fat-tree", "rail"))
def test_a_branch_has_the_price_switches_and_links_of_the_bill_and_is_cheaper_than_those_below(family: str) -> None:
    radix, asked = CASES[family]
    asked = asked.model_copy(update={"families": (family,)})
    problem = Problem(asked, small_catalog(0.1, S=(radix, 3.0)))
    adapters = sum(group.count * group.adapters for group in problem.groups)
    heap, seen = list(roots(problem)), Counter[tuple[object, ...]]()
    heapify(heap)
    for _ in range(600):
        if not heap:
            break
        branch = heappop(heap)
        for below in branch.expand():
            assert below.price >= branch.price - 1e-9
            heappush(heap, below)
        if branch.shape is None:
            continue
        shape = branch.shape()
        seen[kind(shape)] += 1
        if seen[kind(shape)] <= EACH:
            design = evaluate(branch.name, shape, problem)
            counted = (design.switches, design.cables - adapters)
            assert (design.price, *counted) == (pytest.approx(branch.price), branch.switches, branch.links), branch.name
    print(seen)
    assert len(seen) >= 2
