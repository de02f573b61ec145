"""The bound by a routing, beside all sets of switches, and where it is the share itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import bisection
from costmodel.optimise import cuts
from helpers.clusters import tree
from helpers.networks import HDR, Plain, plain_tree
from helpers.strategies import examples


def bound(network: Plain, job: int | None = None) -> float:
    """The bound alone: that of a search which may neither enumerate nor solve."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuts, "MOST_ENUMERATED", -1)
        return bisection([network.fabric()], job, prove=False).least


@given(st.integers(0, 1_000_000), st.sampled_from([None, 2, 3]))
@examples(60)
def test_no_cut_is_below_the_bound(seed: int, job: int | None) -> None:
    network = plain_tree(seed)
    assert bound(network, job) <= bisection([network.fabric()], job).share + 1e-9


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize(("taper", "share"), [(1.0, 1.0), (2.0, 14 / 26)])
def test_even_trees_are_proven_without_a_program(levels: int, taper: float, share: float) -> None:
    found = bisection([tree(780 if taper == 2 else 800, levels=levels, oversubscription=taper)], prove=False)
    assert found.exact
    assert found.share == pytest.approx(share)


def test_spines_that_some_leaves_reach_by_more_cables_carry_what_the_poorest_leaf_has() -> None:
    """Leaves 0 and 1 have 1 and 3, and 3 and 1 cables to two spines: what all can send evenly is 1 + 1 of 4."""
    cables = ((0, 2, HDR),) + ((0, 3, HDR),) * 3 + ((1, 2, HDR),) * 3 + ((1, 3, HDR),)
    network = Plain(4, cables, (4, 4, 0, 0), levels=(1, 1, 2, 2))
    assert bound(network) == 0.5
    assert bisection([network.fabric()]).share == 0.5  # two of the four cables meet at each spine


def test_a_switch_without_a_level_above_it_gives_no_bound() -> None:
    ring = Plain(4, tuple((i, (i + 1) % 4, HDR) for i in range(4)), (2, 2, 2, 2))
    assert bound(ring) == 0.0
