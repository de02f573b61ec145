"""Several LIDs a port: every one reached, no loop among all, paths apart where cables allow, each LID in balance."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.random_fabrics import draw
from helpers.strategies import Case, examples, fabrics, ring, seeds, shortest_path_tables, tree
from helpers.walks import plain_walk
from routing.engines import multipath
from routing.engines.multipath import add_lids
from routing.proof import check_certificate, prove
from routing.routed import Routed
from routing.studies.multipath import measure_lids
from routing.tables import assign_lids
from topo.errors import RoutingError
from topo.fabric import Fabric


def inner_links(fabric: Fabric, path: list[int]) -> list[int]:
    """The cables between switches on a path, each by the lower of its ports."""
    return [min(port, int(fabric.peer[port])) for port in path if fabric.is_inner[port]]


@pytest.mark.slow
@examples(60)
@given(fabric=fabrics(connected=True, ports=1), lmc=st.integers(1, 3))
def test_a_plain_walk_reaches_every_lid_and_all_paths_together_make_no_loop(fabric: Fabric, lmc: int) -> None:
    routed = routing.route(fabric, "balanced", lmc=lmc)
    tables, waits = routed.tables, nx.DiGraph()
    ends = np.flatnonzero(tables.lid).tolist()
    pairs = apart = 0
    shares = []
    for source in ends:
        for dest in ends:
            used = []
            for number in range(1 if dest < fabric.n_switches else 1 << lmc):
                path, _ = plain_walk(fabric, tables.only(number), source, dest)
                assert path is not None or source == dest
                nx.add_path(waits, [port for port in path or () if fabric.is_inner[port]])
                used += inner_links(fabric, path or [])
            ours = min(source, dest) >= fabric.n_switches and fabric.end_switch[source] != fabric.end_switch[dest]
            if ours:
                pairs, apart = pairs + 1, apart + (len(set(used)) == len(used))
                shares.append(len(set(used)) / len(used))
    assert nx.is_directed_acyclic_graph(waits)
    proof = prove(routed, "all")
    assert (proof.missing, proof.credit_loops) == (0, 0)
    assert check_certificate(routed, proof)
    assert proof.pairs == (len(ends) - 1) * sum(1 if end < fabric.n_switches else 1 << lmc for end in ends)
    found = measure_lids(routed)
    assert (found.lids, found.pairs, found.apart) == (1 << lmc, pairs, apart)
    assert found.disjointness == pytest.approx(np.mean(shares) if shares else 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(15))
def test_fabrics_that_nobody_has_drawn(seed: int) -> None:
    fabric = draw(seed)
    once, twice, often = (routing.route(fabric, "balanced", lmc=lmc) for lmc in (0, 1, 2))
    for routed in (twice, often):
        proof = prove(routed, "all")
        assert (proof.missing, proof.credit_loops) == (proof.disconnected, 0)
        assert check_certificate(routed, proof)
        lids = replace(routed, tables=routed.tables.only(0))
        assert not len(routing.repairs.differing_entries(lids.tables, once.tables)), "the lowest LID is as without LMC"
    # The second LID of four is routed like the second of two, so paths to more LIDs share more.
    assert measure_lids(often).apart <= measure_lids(twice).apart


@pytest.mark.slow
@pytest.mark.parametrize("lmc", [1, 2])
def test_in_a_whole_tree_paths_are_apart_and_each_lid_is_balanced_like_the_first(lmc: int) -> None:
    case = tree(6)
    routed = add_lids(with_room(case, lmc), lmc)
    found = measure_lids(routed)
    assert (found.apart, found.disjointness) == (found.pairs, 1.0)
    assert set(found.max_load) == {found.max_load[0]}
    assert found.max_load_of_all == found.lids * found.max_load[0]
    for number in range(1 << lmc):
        one = routing.measure(replace(routed, tables=routed.tables.only(number)))
        assert one.shift.max_load_worst == routing.measure(routed).shift.max_load_worst


def with_room(case: Case, lmc: int) -> Routed:
    """The same tables on LIDs that leave room for more."""
    lid = assign_lids(case.fabric, lmc)
    lft = np.full((len(case.tables.lft), int(lid.max()) + 1), routing.NO_PATH, np.uint8)
    lft[:, lid] = case.tables.lft[:, case.tables.lid]
    return Routed(case.fabric, replace(case.tables, lid=lid, lft=lft))


def test_a_lid_that_is_lost_is_found_out_whichever_it_is() -> None:
    routed = add_lids(with_room(tree(3), 2), 2)
    fabric, lid = routed.fabric, routed.tables.lid
    for number in range(4):
        lft = routed.tables.lft.copy()
        lft[0, lid[-1] + number] = routing.NO_PATH
        proof = prove(replace(routed, tables=replace(routed.tables, lft=lft)))
        assert proof.missing == 3
        assert {(item.destination, item.lid) for item in proof.examples} == {(fabric.n_end_ports - 1, lid[-1] + number)}


def test_tables_with_credit_loops_get_no_more_paths() -> None:
    with pytest.raises(RoutingError, match=r"not free of credit loops on one lane.*balanced"):
        add_lids(with_room(ring(5), 1), 1)


@given(fabric=fabrics(max_adapters=6), lmc=st.integers(0, 7), seed=st.integers(0, 99))
def test_lids_are_aligned_apart_and_kept(fabric: Fabric, lmc: int, seed: int) -> None:
    lid = assign_lids(fabric, lmc)
    tables = replace(shortest_path_tables(fabric), lid=lid, lmc=lmc)
    ends, every = tables.lids_of(np.flatnonzero(lid))
    assert (lid > 0).tolist() == (fabric.end_switch >= 0).tolist()
    assert len(np.unique(every)) == len(every)
    assert every.max(initial=1) <= 0xBFFF
    assert not (lid[fabric.n_switches :] % (1 << lmc)).any()
    some = np.where(np.random.default_rng(seed).random(len(lid)) < 0.5, lid, 0).astype(np.uint16)
    known = replace(fabric, discovered_lid=some, lmc=lmc)
    for smaller in range(lmc + 1):
        again = assign_lids(known, smaller)
        assert (again[some > 0] == some[some > 0]).all()
    assert sorted(ends.tolist()) == ends.tolist()


def test_lids_of_a_smaller_lmc_leave_no_room() -> None:
    fabric = tree(2).fabric
    known = replace(fabric, discovered_lid=assign_lids(fabric))
    routed = routing.route(known, lmc=1)
    assert "new LIDs: those of LMC 0 leave no room for LMC 1" in routed.why
    with pytest.raises(RoutingError, match="not all of its ports"):
        routing.route(replace(known, lmc=1))
    assert (routing.route(replace(known, lmc=1), lmc=0).tables.lid == known.discovered_lid).all()


@pytest.mark.parametrize("seed", range(3, 9))
@pytest.mark.slow
def test_paths_to_more_lids_do_not_depend_on_how_many_destinations_are_done_at_a_time(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between calls nothing is kept but the tables and the load: what a destination counts is its own."""
    routed = routing.route(draw(seed), "balanced")
    whole = add_lids(routed, 2)
    monkeypatch.setattr(multipath, "blocks_of", lambda net: [(d, d + 1) for d in range(len(net.lid))])
    assert np.array_equal(add_lids(routed, 2).tables.lft, whole.tables.lft)
