"""Who gets which nodes: in one zone where there is room, in their turn, and never twice."""

from typing import get_args

import numpy as np
import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import zoned
from simulate.cluster.policies import Placement
from simulate.cluster.scheduler import Scheduler
from simulate.traffic.placement import leaf_of, zone_of
from topo.errors import HeddleError
from topo.fabric import Role

FABRIC = zoned(leaves=4, spines=2, n_gpus=24, n_storage=4, joints=1, ports=1)
ENDS = np.arange(FABRIC.n_switches, FABRIC.n_end_ports)
ENDS = ENDS[FABRIC.role[FABRIC.end_node[ENDS]] == Role.COMPUTE]


def scheduler(
    cross_zone_jobs: int = 1, seed: int = 0, placement: Placement = "zone", ordered: bool = True
) -> Scheduler:
    rng = np.random.default_rng(seed)
    rules = {"placement": placement, "cross_zone_jobs": cross_zone_jobs, "ordered": ordered}
    return Scheduler(simpy.Environment(), FABRIC, ENDS, rng, **rules)


def zones(ends: np.ndarray) -> set[int]:
    return set(zone_of(FABRIC, ends).tolist())


def test_a_job_stays_in_a_zone_and_on_few_leaves() -> None:
    ends = scheduler().request(6).value
    assert len(zones(ends)) == 1
    assert len(np.unique(leaf_of(FABRIC, ends))) == 2  # three nodes a leaf
    assert np.all(np.diff(leaf_of(FABRIC, ends)) >= 0)


def test_small_jobs_keep_a_zone_open() -> None:
    chief = scheduler()
    first, second, large = (chief.request(nodes).value for nodes in (2, 3, 12))
    assert zones(first) == zones(second) != zones(large)
    assert len(zones(large)) == 1


@pytest.mark.parametrize("limit", [0, 1])
def test_so_many_jobs_span_zones_as_the_rule_allows(limit: int) -> None:
    chief = scheduler(limit)
    first, second = chief.request(10).value, chief.request(10).value
    assert zones(first) != zones(second)
    wide = chief.request(3)  # two nodes are free in each zone
    assert wide.triggered == (limit == 1)
    assert chief.request(1).triggered  # who fits goes first
    chief.release(first)
    assert len(zones(wide.value)) == 1 + limit
    assert chief.spans_zones(wide.value) == (limit == 1)


def test_random_nodes_come_from_anywhere() -> None:
    chief = scheduler(placement="random")
    assert not chief.keeps_zones
    first, second = chief.request(12).value, chief.request(12).value
    assert len(zones(first)) == len(zones(second)) == 2
    assert sorted([*first, *second]) == sorted(ENDS.tolist())
    assert scheduler(seed=1, placement="random").request(12).value.tolist() != first.tolist()
    assert scheduler(placement="random").request(12).value.tolist() == first.tolist()


def test_a_node_that_is_down_is_given_to_nobody() -> None:
    chief = scheduler()
    chief.take_down(int(ENDS[0]))
    whole = chief.request(24)
    assert not whole.triggered
    assert not chief.is_up(int(ENDS[0]))
    chief.repair(int(ENDS[0]))
    assert len(whole.value) == 24


def test_refuses_what_will_never_be() -> None:
    for nodes, limit, most in ((25, 1, 24), (13, 0, 12), (0, 1, 24)):
        with pytest.raises(HeddleError, match=f"expected 1 to {most}"):
            scheduler(limit).request(nodes)


@given(
    st.lists(st.integers(1, 24), min_size=1, max_size=20),
    st.integers(0, 2),
    st.sampled_from(get_args(Placement)),
    st.randoms(),
)
def test_no_node_is_given_twice(sizes: list[int], limit: int, placement: Placement, random: object) -> None:
    chief = scheduler(limit, placement=placement)
    sizes = [min(size, chief.most_nodes) for size in sizes]
    grants = [chief.request(size) for size in sizes]
    open_jobs: list[int] = []
    ended: set[int] = set()
    while len(ended) < len(sizes):
        open_jobs = [at for at, grant in enumerate(grants) if grant.triggered and at not in ended]
        held = [end for at in open_jobs for end in grants[at].value.tolist()]
        assert len(held) == len(set(held))
        if placement == "zone":
            assert sum(chief.spans_zones(grants[at].value) for at in open_jobs) <= limit
        done = random.choice(open_jobs)  # type: ignore[attr-defined]
        ended.add(done)
        chief.release(grants[done].value)
    assert [len(grant.value) for grant in grants] == sizes


def test_neighbours_in_a_job_are_neighbours_in_the_fabric_unless_it_is_not_ordered() -> None:
    def crossings(ordered: bool, placement: Placement) -> int:
        ends = scheduler(seed=5, placement=placement, ordered=ordered).request(16).value
        assert len(set(ends.tolist())) == 16
        leaf, zone = leaf_of(FABRIC, ends), zone_of(FABRIC, ends)
        if ordered:
            assert np.count_nonzero(np.diff(leaf)) == len(np.unique(leaf)) - 1
        return int(np.count_nonzero(np.diff(zone)))

    assert [crossings(True, placement) for placement in get_args(Placement)] == [1] * len(get_args(Placement))
    assert crossings(False, "random") > 2
    assert crossings(False, "zone") > 2


@pytest.mark.parametrize("placement", get_args(Placement))
def test_a_job_that_fits_a_leaf_gets_one_but_at_random(placement: Placement) -> None:
    chief = scheduler(placement=placement)
    assert (chief.count_leaves(chief.request(3).value) == 1) == (placement != "random")
