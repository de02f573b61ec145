"""Trees, planes, zones and rails of small switches: each is priced as its bill is, and none that does is left out."""

from collections import Counter
from contextlib import suppress
from heapq import heapify, heappop, heappush
from itertools import product

import pytest

from costmodel.optimise.design import evaluate
from costmodel.optimise.problem import Problem
from costmodel.optimise.search import roots
from costmodel.optimise.trees import _ratio, fewest_cores
from helpers.clusters import CATALOG
from helpers.needs import needs, small_catalog
from helpers.strategies import slow_but
from topo.amounts import Verdict
from topo.errors import DesignError
from topo.shapes.base import ShapeModel
from topo.shapes.fat_tree import FatTree
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
    assert len(seen) >= 2


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_no_tree_of_two_or_three_levels_that_does_is_left_out(share: float) -> None:
    """All trees of switches of four ports and up to six leaves: what the search leaves out is built, and fails."""
    asked = needs(5, switches=["S"], families=["fat-tree"], currency="USD", job={"nodes": 5, "bisection": share})
    problem = Problem(asked, small_catalog(0.1, S=(4, 3.0)))
    left, found = list(roots(problem)), set[str]()
    while left:
        branch = left.pop()
        left += branch.expand()
        if branch.shape is not None:
            found.add(branch.shape().model_dump_json(exclude_defaults=True))
    do = 0
    for leaves, spines, parallel, pod in product(range(2, 7), range(1, 4), range(1, 4), range(1, 4)):
        if spines * parallel > 3:
            continue
        size = {"leaves": leaves, "spines": spines, "parallel": parallel}
        trees = [{"levels": 2, **size}] if pod == 1 else []
        for up in range(1, 4 - pod * parallel + 1) if 1 < pod < leaves else ():
            cores = fewest_cores(spines, up, -(-leaves // pod), 4, 1)
            ratio = _ratio(pod * parallel, up)
            trees.append({"levels": 3, **size, "leaves_per_pod": pod, "cores": cores, "spine_oversubscription": ratio})
        for keys in trees:
            shape = FatTree.model_validate({"shape": "fat-tree", "switch": "S", **keys})
            if shape.model_dump_json(exclude_defaults=True) in found:
                do += 1
                continue
            with suppress(DesignError):
                assert evaluate("", shape, problem).verdict is not Verdict.HOLDS, keys
    assert do


def test_a_frame_alone_is_a_tree_and_frames_are_planes() -> None:
    """With a port for each adapter, at the price of its bill."""
    for nodes, family, names in (
        ({"gpu": {"model": "pcie-a100", "count": 30}}, "fat-tree", ["one CS8500"]),
        ({"gpu": {"model": "pcie-a100", "count": 801}}, "fat-tree", []),
        ({"gpu": {"model": "dgx-a100", "count": 3}}, "planes", [f"{n} planes of one CS8500" for n in (2, 4, 8)]),
    ):
        count = nodes["gpu"]["count"]
        asked = needs(switches=["CS8500"], nodes=nodes, job={"nodes": count}, families=[family])
        problem = Problem(asked, CATALOG)
        designs = [branch for branch in roots(problem) if branch.shape is not None]
        assert sorted(branch.name for branch in designs) == names
        for branch in designs:
            assert branch.shape is not None
            design = evaluate(branch.name, branch.shape(), problem)
            assert (design.price, design.switches) == (pytest.approx(branch.price), branch.switches)


@pytest.mark.slow
def test_zones_are_joined_by_switches_and_by_cables_at_border_leaves_and_at_all() -> None:
    radix, asked = CASES["zones"]
    problem = Problem(asked.model_copy(update={"families": ("zones",)}), small_catalog(0.1, S=(radix, 3.0)))
    left, found = list(roots(problem)), set[tuple[object, ...]]()
    while left and len(found) < 4:
        branch = left.pop(0)
        left += branch.expand()
        if branch.shape is not None:
            found.add(kind(branch.shape()))
    assert found == {*product((False, True), ("border", "spread"))}
