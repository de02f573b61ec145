from itertools import product
from math import inf

import numpy as np
import pytest

from costmodel.optimise.model_selection import SLACK, least_price
from costmodel.optimise.problem import Task
from helpers.needs import random_needs
from topo.shapes.base import each_adapter


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_the_program_finds_the_cheapest_numbers_of_switches_and_links(seed: int) -> None:
    asked, catalog = random_needs(seed)
    task = Task(asked, catalog)
    rails = each_adapter(task.groups)
    for side in task.sides:
        best = inf
        for leaf, spine in product(side, side):
            leaves = np.arange(-(-task.ports // (leaf.radix - 1)), 2 * task.ports + 2)
            hosts = task.cost([], task.host_links(leaf, rails), ends=1)
            for n in leaves.tolist():
                links = n  # one each is enough, since what must leave is not asked for
                spines = -(-links // spine.radix)
                price = task.cost([(leaf.name, n), (spine.name, spines)], [(leaf.link(spine), links)])
                if n * leaf.radix >= task.ports + links:
                    best = min(best, hosts + price)
        assert least_price(task, rails, (side, side), beyond=False) == pytest.approx(best, rel=10 * SLACK)
