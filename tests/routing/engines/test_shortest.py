"""Evenly loaded shortest paths on several lanes: safe, near the bound, and offered in numbers where worth it."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

import routing
import topo
from helpers.fluids import routed
from helpers.random_fabrics import draw
from helpers.strategies import fabrics, ring, seeds
from helpers.trees import grow_tree
from routing.engines import dfsssp, disjoint, shortest
from routing.engines.disjoint import _shared
from routing.lanes.classes import DATA_LANES
from routing.order.channel_order import order_channels, switch_levels, taken_channels
from routing.proof import check_certificate, prove
from routing.routed import Routed
from routing.tables import NO_PATH
from topo.errors import RoutingError
from topo.fabric import Fabric


@given(fabrics(max_switches=10, max_adapters=12))
def test_paths_are_complete_shortest_and_free_of_loops_on_their_lanes(fabric: Fabric) -> None:
    proof = prove(Routed(fabric, shortest.route(fabric, lanes=16)), "adapters")
    assert proof.missing == proof.disconnected
    assert (proof.stretch, proof.credit_loops) == (0, 0)
    theirs = prove(Routed(fabric, dfsssp.route(fabric, lanes=1)))
    # Slow links count by their rate, of which these fabrics have one.
    assert prove(Routed(fabric, shortest.route(fabric, lanes=16))).max_load <= theirs.max_load


@pytest.mark.parametrize("seed", seeds(15))
def test_the_fullest_link_is_near_what_any_routing_must_put_on_it(seed: int) -> None:
    fabric = draw((5, 9, 12, 20, 24, 27, 35, 39, 2, 8, 14, 0, 3, 11, 42)[seed])
    tables = shortest.route(fabric, lanes=1)
    assert prove(Routed(fabric, tables)).max_load <= 1.2 * routing.studies.bound(fabric).max_load


@pytest.mark.parametrize("name", ["random", pytest.param("dragonfly", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_an_offer_keeps_its_word(name: str) -> None:
    fabric = draw(12) if name == "random" else replace(topo.preset(name).fabric, engine="auto")
    routed = routing.route(fabric)
    offer = routed.candidates[-1]
    assert (offer.engine, offer.credit_loops) == ("shortest", 0)
    assert 1 < offer.lanes <= DATA_LANES
    assert prove(routed).lanes == 1, "it is only offered"
    said = re.search(r"with --lanes (\d), if every .* its paths: fullest link ([\d,]+) instead of ([\d,]+)", routed.why)
    assert said
    assert [int(text.replace(",", "")) for text in said.groups()] == [
        offer.lanes, offer.fullest, prove(routed).max_load,
    ]  # fmt: skip
    taken = routing.route(fabric, lanes=offer.lanes)
    proof = prove(taken)
    assert proof.holds
    assert check_certificate(taken, proof)
    assert (proof.lanes, proof.max_load) == (offer.lanes, offer.fullest)
    assert "with --lanes" not in taken.why
    assert offer.lanes > 2
    for fewer in range(2, offer.lanes):  # others that are less good may do with them
        try:
            proof = prove(Routed(fabric, shortest.route(fabric, lanes=fewer)))
        except RoutingError as refusal:
            needed = re.search(r"need (\d) lanes", str(refusal))
            assert needed
            assert fewer < int(needed[1]) <= offer.lanes
        else:
            assert proof.holds
            assert proof.lanes <= fewer


@pytest.mark.slow
def test_where_one_lane_is_as_good_nothing_is_offered() -> None:
    for fabric in (grow_tree((3, 3, 6), (1, 3, 3), (1, 1, 1)), draw(1)):
        routed = routing.route(fabric)
        assert "with --lanes" not in routed.why
        assert "shortest" not in {row.engine for row in routed.candidates}
    several_lids = routing.route(ring(6).fabric, lmc=1)
    assert "with --lanes" not in several_lids.why, "paths to several LIDs are planned on one lane"
    assert "with --lanes 2" in routing.route(ring(7).fabric).why


@pytest.mark.parametrize("seed", range(6))
def test_what_paths_share_is_counted_hop_by_hop(seed: int) -> None:
    """Links and switches of a path that bear the stamp, in a walk over the tables; the last switch does not count."""
    rng, fabric = np.random.default_rng(seed), grow_tree((2, 3, 2), (1, 2, 2), (1, 1, 1))
    tables, level = routed(fabric), switch_levels(fabric)
    order = order_channels(fabric, level)
    next_hop = taken_channels(order, tables.lft)
    marks = rng.integers(2, size=len(order.sender)).astype(np.int64)
    passed = rng.integers(2, size=fabric.n_switches).astype(np.int64)
    for end in fabric.ends().tolist():
        target, lid = int(fabric.end_switch[end]), int(tables.lid[end])
        onward = np.where(next_hop[lid] == NO_PATH, -1, order.indptr[:-1] + next_hop[lid].astype(np.int64)).astype(
            np.int32
        )
        for switch in set(range(fabric.n_switches)) - {target}:
            path = [int(onward[switch])]
            while order.receiver[path[-1]] != target:
                path.append(int(onward[order.receiver[path[-1]]]))
            cost = sum(disjoint.LINK for channel in path if marks[channel])
            cost += sum(disjoint.SWITCH for channel in path[:-1] if passed[order.receiver[channel]])
            assert _shared.py_func(order, onward, path[0], target, 1, marks, passed) == cost
