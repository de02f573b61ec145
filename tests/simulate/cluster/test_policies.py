"""Placement policies: what their documentation says, by brute force on random leaves."""

from itertools import combinations, product
from typing import get_args

import numpy as np
import pytest

import routing
import simulate
import topo
from plan.commands.simulate import PLACEMENTS
from simulate.cluster.policies import Placement, evenly, place

COUNTED = [name for name in get_args(Placement) if name not in ("zone", "random")]


def leaves(seed: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Free nodes of random leaves in up to three zones, and the size of a job that they can hold."""
    rng = np.random.default_rng(seed)
    free = rng.integers(0, 7, rng.integers(1, 7))
    free[0] += 1
    return free, np.sort(rng.integers(0, 3, len(free))), int(rng.integers(1, free.sum() + 1))


def room_of(free: np.ndarray, zone: np.ndarray) -> dict[int, int]:
    return {number: int(free[zone == number].sum()) for number in set(zone.tolist())}


def test_the_command_line_knows_all() -> None:
    assert get_args(Placement) == PLACEMENTS


@pytest.mark.parametrize("seed", range(150))
def test_every_policy_gives_what_is_free_and_what_was_asked_for(seed: int) -> None:
    free, zone, nodes = leaves(seed)
    room = room_of(free, zone)
    for policy in COUNTED:
        take = place(policy, free, zone, nodes)
        assert take.sum() == nodes
        assert ((take >= 0) & (take <= free)).all()
        used = np.flatnonzero(take)
        # All but the two that look at zones never, keep a job on one leaf and in one zone where it fits.
        if free.max() >= nodes:
            assert len(used) == 1
            assert free[used[0]] == free[free >= nodes].min()
        elif policy.startswith(("kueue", "slurm-tree")) and max(room.values()) >= nodes:
            chosen = {int(zone[at]) for at in used}
            assert len(chosen) == 1
            assert room[chosen.pop()] == min(size for size in room.values() if size >= nodes)


@pytest.mark.parametrize("seed", range(150))
def test_fewest_leaves_by_brute_force(seed: int) -> None:
    free, zone, nodes = leaves(seed)
    sizes = range(1, len(free) + 1)
    fewest = next(n for n in sizes if any(sum(free[list(pick)]) >= nodes for pick in combinations(range(len(free)), n)))
    assert np.count_nonzero(place("compact", free, zone, nodes)) == fewest
    take = place("balanced", free, zone, nodes)
    assert np.count_nonzero(take) == fewest
    best = max(
        min(split[at] for at in range(len(free)) if split[at])
        for split in product(*(range(int(most) + 1) for most in free))
        if sum(split) == nodes and sum(part > 0 for part in split) == fewest
    )
    assert take[take > 0].min() == best


def test_the_split_that_kueue_was_asked_for() -> None:
    # kubernetes-sigs/kueue, issue 6554: sixteen in two racks as 8 and 8, not 15 and 1
    free, zone = np.array([15, 15]), np.zeros(2, int)
    assert place("kueue-balanced", free, zone, 16).tolist() == [8, 8]
    assert place("kueue-best-fit", free, zone, 16).tolist() == [15, 1]
    assert evenly(np.array([6, 6, 6]), 16).tolist() == [6, 5, 5]


def test_blocks_are_aligned_runs() -> None:
    free, zone = np.array([1, 4, 4, 1, 3, 3, 0, 2]), np.zeros(8, int)
    assert place("slurm-block", free, zone, 6).tolist() == [0, 0, 0, 0, 3, 3, 0, 0]  # 4 + 4 lie in two pairs
    assert place("slurm-block", free, zone, 8).tolist() == [0, 0, 0, 0, 3, 3, 0, 2]
    assert place("slurm-block", free, zone, 9).tolist() == [1, 4, 4, 0, 0, 0, 0, 0]


def test_a_tree_takes_leaves_of_the_zone_it_is_in_first() -> None:
    free, zone = np.array([5, 1, 1, 4, 4]), np.array([0, 0, 0, 1, 1])
    assert place("slurm-tree", free, zone, 9).tolist() == [5, 1, 1, 2, 0]
    assert place("compact", free, zone, 9).tolist() == [5, 0, 0, 4, 0]


@pytest.mark.slow
def test_an_uneven_split_slows_only_who_sums_within_a_rack_first() -> None:
    """The figures of docs/validation/placement.md."""
    routed = routing.route(topo.preset("tapered-three-to-one").fabric)
    ends = routed.fabric.ends(role="compute")
    leaf = simulate.traffic.leaf_of(routed.fabric, ends)
    one, two = (ends[leaf == number] for number in np.unique(leaf)[:2])
    for algorithm, slower in (("ring", 1.0), ("double-binary-tree", 1.0), ("hierarchical", 1.53)):
        even, uneven = (
            simulate.play(routed, simulate.allreduce(np.append(one[:n], two[: 16 - n]), "1 GiB", algorithm)).makespan_s
            for n in (8, 15)
        )
        assert uneven / even == pytest.approx(slower, rel=0.005)
