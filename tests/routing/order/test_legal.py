"""Legal paths beside a plain search over paths whose ranks rise."""

import numpy as np
import pytest

from helpers.random_fabrics import draw
from helpers.strategies import slow_but
from routing.order.channel_order import order_channels, switch_levels, with_ranks
from routing.order.legal import ChannelOrder
from routing.studies.adaptive.groups import port_groups
from topo.fabric import frozen


def reached(order: ChannelOrder, target: int) -> set[int]:
    """Switches with any path to the target on which ranks rise: by all channels, from the highest rank down."""
    leaves = {target: np.inf}
    """The highest rank with which a switch can leave."""
    for channel in sorted(range(len(order.sender)), key=lambda at: -order.rank[at]):
        there, here = int(order.receiver[channel]), int(order.sender[channel])
        if order.rank[channel] < leaves.get(there, -1) and here not in leaves:
            leaves[here] = order.rank[channel]
    return set(leaves)


@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_whoever_has_a_rising_path_gets_choices_that_rise_in_any_combination(seed: int) -> None:
    """Ranks at random: the shortest ways of some switches shut out others, which then go round about."""
    rng, number = np.random.default_rng(seed), seed
    while (fabric := draw(number)).n_switches > 16:
        number += 1009
    order = order_channels(fabric, switch_levels(fabric))
    order = with_ranks(order, frozen(rng.permutation(len(order.sender)).astype(np.int32)))
    targets = np.arange(fabric.n_switches, dtype=np.int32)
    groups = port_groups(order, targets, True)
    for target in targets.tolist():
        choices = {
            here: order.indptr[here] + np.flatnonzero(groups[target, order.indptr[here] : order.indptr[here + 1]])
            for here in targets.tolist()
            if here != target
        }
        assert {here for here, some in choices.items() if len(some)} | {target} == reached(order, target)
        for _ in range(5):
            taken = {here: int(rng.choice(some)) for here, some in choices.items() if len(some)}
            for start in taken:
                here, rank, hops = start, -1, 0
                while here != target:
                    assert order.rank[taken[here]] > rank and hops < len(taken)
                    here, rank, hops = int(order.receiver[taken[here]]), order.rank[taken[here]], hops + 1
