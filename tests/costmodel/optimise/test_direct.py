"""Every direct network of a few small switches is built and measured: those that do are among the branches."""

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import pytest
from pydantic import TypeAdapter

from costmodel.optimise.branches import Branch
from costmodel.optimise.design import evaluate
from costmodel.optimise.problem import Problem
from costmodel.optimise.search import roots
from helpers.needs import needs, small_catalog
from helpers.strategies import slow_but
from topo.amounts import Verdict
from topo.errors import DesignError
from topo.shapes import Shape

RADIX = 6


def grids(ring: bool, most: int) -> Iterator[dict[str, Any]]:
    for dimensions in (1, 2, 3):
        for sizes in product(range(2, most + 1), repeat=dimensions):
            degree = sum(min(size - 1, 2) if ring else size - 1 for size in sizes)
            if prod(sizes) <= most and list(sizes) == sorted(sizes, reverse=True) and (not ring or max(sizes) > 3):
                for parallel in range(1, RADIX):
                    if parallel * degree < RADIX:
                        hosts = RADIX - parallel * degree
                        yield {
                            "shape": "torus" if ring else "hyperx",
                            "sizes": sizes,
                            "parallel": parallel,
                            "hosts": hosts,
                        }


def dragonflies(most: int) -> Iterator[dict[str, Any]]:
    for groups, group, links in product(range(2, most + 1), range(2, most + 1), range(1, RADIX)):
        hosts = RADIX - (group - 1) - links
        if groups * group <= most and hosts > 0 and group * links % (groups - 1) == 0:
            yield {"shape": "dragonfly", "groups": groups, "switches": group, "hosts": hosts, "global_links": links}


def dragonflies_plus(most: int) -> Iterator[dict[str, Any]]:
    for groups, leaves, spines, links in product(range(2, most + 1), range(1, most), range(1, RADIX), range(1, RADIX)):
        if groups * (leaves + spines) <= most and spines * links % (groups - 1) == 0 and leaves + links <= RADIX:
            keys = {"groups": groups, "leaves": leaves, "spines": spines, "hosts": RADIX - spines}
            yield {"shape": "dragonfly+", "global_links": links, **keys}


def bigraphs(most: int) -> Iterator[dict[str, Any]]:
    for side, parallel in product(range(1, most // 2 + 1), range(1, RADIX)):
        if side * parallel < RADIX:
            yield {"shape": "bigraph", "side": side, "parallel": parallel}


EVERY = {
    "hyperx": lambda most: grids(False, most),
    "torus": lambda most: grids(True, most),
    "dragonfly": dragonflies,
    "dragonfly+": dragonflies_plus,
    "bigraph": bigraphs,
}
"""All networks of a family with up to so many switches, as its shape describes them."""


def designs(given: Problem) -> list[Branch]:
    """All branches with a network, each looked at in turn; none costs less than the one above it."""
    left, found = list(roots(given)), []
    while left:
        branch = left.pop()
        following = list(branch.expand())
        assert all(below.price >= branch.price - 1e-9 for below in following)
        left += following
        if branch.shape is not None:
            found.append(branch)
    return found


def shape(branch: Branch) -> str:
    assert branch.shape is not None
    return branch.shape().model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize("count", slow_but([4, 8], 4))
@pytest.mark.parametrize("share", slow_but([0.2, 0.5], 0.5))
@pytest.mark.parametrize("family", EVERY)
def test_no_network_that_does_is_left_out_and_the_price_is_that_of_the_bill(
    family: str, share: float, count: int
) -> None:
    asked = needs(count, job={"nodes": count, "bisection": share}, switches=["S"], families=[family], currency="USD")
    problem = Problem(asked, small_catalog(0.1, S=(RADIX, 3.0)))
    found = {shape(branch): branch for branch in designs(problem)}
    do = 0
    for keys in EVERY[family](count):
        network = TypeAdapter(Shape).validate_python({"switch": "S", **keys})
        branch = found.get(network.model_dump_json(exclude_defaults=True))
        try:
            design = evaluate("", network, problem)
        except DesignError:
            assert branch is None
            continue
        holds = design.verdict is Verdict.HOLDS
        do += holds
        assert branch is not None or not holds, keys
        if branch is not None:
            counted = (design.switches, design.cables - count)
            assert (design.price, *counted) == (pytest.approx(branch.price), branch.switches, branch.links)
    assert do or count == 4


@pytest.mark.slow
def test_the_smallest_slim_fly_is_among_the_branches() -> None:
    """Over the field of 3 elements: 18 switches of 5 links, and a server on each."""
    asked = needs(18, job={"nodes": 18, "bisection": 0.3}, switches=["S"], families=["slim-fly"], currency="USD")
    problem = Problem(asked, small_catalog(0.1, S=(RADIX, 3.0)))
    (branch,) = designs(problem)
    keys = {"shape": "slim-fly", "switch": "S", "q": 3, "hosts": 1}
    assert shape(branch) == TypeAdapter(Shape).validate_python(keys).model_dump_json(exclude_defaults=True)
    assert branch.shape is not None
    design = evaluate("", branch.shape(), problem)
    assert (design.price, design.switches, design.cables - 18) == (pytest.approx(branch.price), 18, 45)
    assert design.verdict is Verdict.HOLDS
