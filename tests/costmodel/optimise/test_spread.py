"""The bound by a routing, beside all sets of switches, and where it is the share itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel import bisection, job_windows
from costmodel.optimise.cuts import CutSearch, Subnet
from costmodel.optimise.spread import spread_share
from helpers.clusters import tree
from helpers.networks import HDR, Plain, plain, plain_tree
from helpers.strategies import examples


def bound(network: Plain, job: int | None = None) -> float:
    """The bound alone, of one job on all servers, or of jobs of this size side by side."""
    fabric = network.fabric()
    net = Subnet(fabric, {host: number for number, host in enumerate(fabric.hosts)})
    every = len(fabric.hosts)
    jobs = CutSearch(net, net.jobs(job_windows(every, job or every), with_storage=False)).jobs
    return spread_share(net.a, net.b, net.gbps, fabric.level[: net.n], jobs) if len(jobs.half) else 1.0


@given(st.integers(0, 1_000_000), st.sampled_from([None, 2, 3]))
@examples(60)
def test_no_cut_is_below_the_bound(seed: int, job: int | None) -> None:
    network = plain_tree(seed)
    assert bound(network, job) <= bisection([network.fabric()], job).share + 1e-9


@given(st.integers(0, 1_000_000), st.sampled_from([None, 2, 3]))
@examples(100)
def test_no_cut_is_below_the_bound_whatever_the_levels_say(seed: int, job: int | None) -> None:
    """Switches linked at random, at levels that mean nothing, with servers on any: still a bound, if only 0."""
    network = plain(seed)
    levels = np.random.default_rng(seed).integers(1, 4, network.n)
    network = replace(network, levels=tuple(levels.tolist()))
    assert bound(network, job) <= bisection([network.fabric()], job).share + 1e-9


@pytest.mark.parametrize("levels", [2, 3])
@pytest.mark.parametrize(("taper", "share"), [(1.0, 1.0), (2.0, 1 / 2)])
def test_even_trees_are_proven_without_a_program(levels: int, taper: float, share: float) -> None:
    found = bisection([tree(1_040 if taper == 2 else 800, levels=levels, oversubscription=taper)], prove=False)
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
    apart = Plain(4, ((0, 2, HDR), (1, 3, HDR), (2, 3, HDR)), (2, 2, 0, 0), levels=(1, 1, 2, 2))
    assert bound(apart) == 0.0  # each spine has a leaf of its own, and the cable between spines is no way up


def test_servers_on_a_spine_are_no_part_of_the_argument() -> None:
    """They need no uplink to be there, so what leaves hold says nothing of them: no bound, and a cut of one cable."""
    network = Plain(3, ((0, 2, HDR),) * 4 + ((1, 2, HDR),) * 4, (4, 4, 20), levels=(1, 1, 2))
    assert bound(network) == 0.0
    assert bisection([network.fabric()]).exact


def test_a_pod_keeps_to_the_proportions_of_its_cores() -> None:
    """Spines lead to the core by three cables and one: a leaf has two to each, and sends three quarters over one."""
    up = [((pod, 2 + 2 * pod + spine), 2) for pod in range(2) for spine in range(2)]
    top = [((2 + 2 * pod + spine, 6), 3 - 2 * spine) for pod in range(2) for spine in range(2)]
    cables = tuple((a, b, HDR) for (a, b), times in up + top for _ in range(times))
    network = Plain(7, cables, (4, 4) + (0,) * 5, levels=(1, 1, 2, 2, 2, 2, 3))
    assert bound(network) == pytest.approx(2 / (4 * 0.75))
    assert bisection([network.fabric()]).share == pytest.approx(3 / 4)
