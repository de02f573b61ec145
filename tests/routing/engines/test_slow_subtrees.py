"""Slow subtrees on a fast tree reach everything, and what is fast fares no worse than it would without them."""

import re

import numpy as np
import pytest

import routing
from routing.proof import prove
from routing.quality.figures import bisections, congestion, shifts
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints, tree_order
from topo.cluster import parse
from topo.fabric import Fabric, Kind

FAST = r"(gpu|storage)\d"


@pytest.fixture(scope="module")
def grafted(repository) -> tuple[Fabric, RoutingTables]:
    """HDR100 hosts below split ports of the spines, EDR leaves below ports of fast leaves."""
    return routed((repository / "configs" / "slow-subtrees.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def bare(repository) -> tuple[Fabric, RoutingTables]:
    """The same without the subtrees and what hangs there."""
    text = (repository / "configs" / "slow-subtrees.yaml").read_text(encoding="utf-8")
    return routed(re.sub(r"  (mid|old): .*\n", "", text[: text.index("  grafts:")]))


def routed(text: str) -> tuple[Fabric, RoutingTables]:
    (fabric,) = parse(text).fabrics
    return fabric, routing.route(fabric).tables


def fast_ends(fabric: Fabric, tables: RoutingTables) -> np.ndarray:
    """Ports of fast hosts in the order of the tree."""
    ends = tree_order(fabric, select_endpoints(fabric, tables))
    return ends[[re.match(FAST, fabric.names[node]) is not None for node in fabric.end_node[ends]]]


@pytest.mark.slow
def test_the_subtrees_reach_everything_and_are_reached(grafted) -> None:
    fabric, tables = grafted
    hosts = (fabric.kind[fabric.port_node] != Kind.SWITCH) & (fabric.peer >= 0)
    assert len(np.unique(fabric.rate_gbps[hosts])) == 2, "HDR, and 100 Gb/s of HDR100 and EDR"
    for endpoints in ("hca", "all"):
        proof = prove(Routed(fabric, tables), endpoints)
        assert (proof.missing, proof.credit_loops, proof.lanes) == (0, 0, 1)
    assert prove(Routed(fabric, tables)).stretch == 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["balanced", "fat-tree"])
def test_fast_hosts_fare_no_worse_than_without_the_subtrees(grafted, bare, engine: str) -> None:
    """By the same engine: the one with the fullest link less full may be another one with subtrees than without.

    Without them the shifts of all hosts can be free of contention, and `balanced` finds that. With them ranks of slow
    hosts stand between those of fast ones, and up to three flows meet.
    """
    bandwidth, worst = {}, {}
    for name, (fabric, _) in (("grafted", grafted), ("bare", bare)):
        tables = routing.route(fabric, engine=engine).tables
        ends = fast_ends(fabric, tables)
        assert len(ends) == 600
        _, mean, lost = congestion(Routed(fabric, tables), ends, bisections(600, 200, np.random.default_rng(0)))
        assert lost.sum() == 0
        bandwidth[name] = mean.mean()
        worst[name] = congestion(Routed(fabric, tables), ends, shifts(600, 599))[0].max()
    assert bandwidth["grafted"] >= 0.995 * bandwidth["bare"], "random halves tell no smaller difference"
    assert worst["grafted"] <= max(worst["bare"], 3)


@pytest.mark.slow
def test_slow_links_are_no_busier_for_their_rate_than_fast_ones_have_to_be(grafted) -> None:
    """Uplinks of a subtree carry its own hosts alone: nothing fast takes its way through."""
    fabric, tables = grafted
    fast = prove(Routed(fabric, tables), fast_ends(fabric, tables)).load
    slow = [switch for switch in range(fabric.n_switches) if fabric.label(switch).startswith("graft")]
    assert len(slow) == 6
    assert fast[np.isin(fabric.port_node, slow) | np.isin(fabric.peer_node, slow)].sum() == 0
