from itertools import product

import numpy as np
import pytest

from costmodel.optimise.branches import branch_on_models
from costmodel.optimise.problem import Problem
from helpers.needs import random_needs
from topo.shapes.base import each_adapter


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("copies", [1, 3])
def test_each_choice_of_models_has_the_price_of_the_fewest_switches_and_links(seed: int, copies: int) -> None:
    asked, catalog = random_needs(seed)
    problem = Problem(asked, catalog)
    rails = each_adapter(problem.groups)
    for options in problem.linkable:
        found = branch_on_models(
            problem, rails, options, lambda *_: iter(()), levels=(2,), uplinks_carry_all=False, copies=copies
        )
        for branch, (leaf, spine) in zip(found, product(options, options), strict=True):
            prices = []
            hosts = problem.cost([], problem.host_links(leaf, rails), ends=1)
            for n in np.arange(-(-problem.ports // (leaf.radix - 1)), 2 * problem.ports + 2).tolist():
                links = n  # one each is enough, since what must leave is not asked for
                spines = -(-links // spine.radix)
                price = problem.cost([(leaf.name, n), (spine.name, spines)], [(leaf.link(spine), links)])
                if n * leaf.radix >= problem.ports + links:
                    prices.append(hosts + copies * price)
            assert branch.price == pytest.approx(min(prices))
