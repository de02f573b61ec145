"""Evenly loaded shortest paths on several lanes: safe, near the bound, and offered in numbers where worth it."""

import re
from dataclasses import replace

import pytest
from hypothesis import given

import routing
import topo
from helpers.random_fabrics import draw
from helpers.strategies import fabrics, ring, seeds
from helpers.trees import grow_tree
from routing.engines import dfsssp, shortest
from routing.lanes.classes import DATA_LANES
from routing.proof import check_certificate, prove
from routing.routed import Routed
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


def test_where_one_lane_is_as_good_nothing_is_offered() -> None:
    for fabric in (grow_tree((3, 3, 6), (1, 3, 3), (1, 1, 1)), draw(1)):
        routed = routing.route(fabric)
        assert "with --lanes" not in routed.why
        assert "shortest" not in {row.engine for row in routed.candidates}
    several_lids = routing.route(ring(6).fabric, lmc=1)
    assert "with --lanes" not in several_lids.why, "paths to several LIDs are planned on one lane"
    assert "with --lanes 2" in routing.route(ring(7).fabric).why
