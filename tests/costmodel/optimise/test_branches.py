from itertools import product
from math import inf

import numpy as np
import pytest

from costmodel.optimise.branches import bound_price
from costmodel.optimise.milp import SOLVER_TOLERANCE
from costmodel.optimise.problem import Problem
from helpers.needs import random_needs
from topo.shapes.base import each_adapter


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_the_cheapest_numbers_of_switches_and_links(seed: int) -> None:
    asked, catalog = random_needs(seed)
    problem = Problem(asked, catalog)
    rails = each_adapter(problem.groups)
    for options in problem.linkable:
        best = inf
        for leaf, spine in product(options, options):
            leaves = np.arange(-(-problem.ports // (leaf.radix - 1)), 2 * problem.ports + 2)
            hosts = problem.cost([], problem.host_links(leaf, rails), ends=1)
            for n in leaves.tolist():
                links = n  # one each is enough, since what must leave is not asked for
                spines = -(-links // spine.radix)
                price = problem.cost([(leaf.name, n), (spine.name, spines)], [(leaf.link(spine), links)])
                if n * leaf.radix >= problem.ports + links:
                    best = min(best, hosts + price)
        found = bound_price(problem, rails, (options, options), uplinks_carry_all=False)
        assert found == pytest.approx(best, rel=10 * SOLVER_TOLERANCE)
