"""Clusters with dead links, spines and cores: no connected pair lost, no credit loop on one lane, no detour."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.clusters import zoned
from helpers.presets import subnets
from helpers.strategies import seeds
from helpers.trees import damage, grow_tree
from routing.proof import check_certificate, prove
from routing.routed import Routed
from topo.fabric import Fabric, Role


def assert_routed(fabric: Fabric) -> None:
    """Let `auto` route a fabric and check what is promised of every one."""
    tables = routing.route(fabric).tables
    proof = prove(Routed(fabric, tables))
    assert proof.missing == proof.disconnected
    assert (proof.credit_loops, proof.lanes) == (0, 1)
    assert proof.stretch <= 2
    assert check_certificate(Routed(fabric, tables), proof)
    assert prove(Routed(fabric, tables), "all").credit_loops == 0, "packets from and to switches close none either"


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.slow
def test_fire_flyer_without_three_percent_of_its_links_and_a_spine(seed: int) -> None:
    assert_routed(damage(subnets("fire-flyer-2")[0], np.random.default_rng(seed), 0.03, Role.SPINE))


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.slow
def test_fire_flyer_of_which_a_joint_died(seed: int) -> None:
    assert_routed(damage(subnets("fire-flyer-2")[0], np.random.default_rng(seed), 0.01, Role.JOINT))


@pytest.mark.slow
@pytest.mark.nightly  # by day smaller trees, below
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dead", [Role.CORE, Role.SPINE])
def test_a_three_level_tree_with_dead_links_and_a_dead_core_or_spine(dead: Role, seed: int) -> None:
    assert_routed(damage(subnets("dgx-a100-superpod")[0], np.random.default_rng(seed), 0.03, dead))


@pytest.mark.parametrize("placement", ["border", "spread"])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
@pytest.mark.nightly  # by day Fire-Flyer 2, above
def test_three_zones_without_some_links_and_a_spine(placement: str, seed: int) -> None:
    fabric = zoned(placement, zones=3, leaves=36, spines=18, switch="SB7800", n_storage=54, joints=3, ports=36)
    assert_routed(damage(fabric, np.random.default_rng(seed), 0.02, Role.SPINE))


SHAPES = [
    ((3, 3, 6), (1, 3, 3), (1, 1, 1)),
    ((4, 4, 4), (1, 4, 2), (1, 1, 2)),
    ((4, 4, 3), (1, 2, 8), (1, 2, 1)),
    ((2, 2, 2, 4), (1, 2, 2, 2), (1, 1, 1, 1)),
]


@pytest.mark.slow
@given(st.sampled_from(SHAPES), st.integers(0, 2**32 - 1), st.floats(0, 0.15), st.sampled_from([Role.CORE, Role.SPINE]))
def test_small_trees_with_dead_links_and_switches(shape, seed: int, share: float, dead: Role) -> None:
    """However much is lost, what is still connected is routed; islands are counted apart."""
    fabric = damage(grow_tree(*shape), np.random.default_rng(seed), share, dead)
    tables = routing.route(fabric).tables
    for endpoints in ("hca", "all"):
        proof = prove(Routed(fabric, tables), endpoints)
        assert proof.missing == proof.disconnected
        assert proof.credit_loops == 0
