"""Disjoint shortest paths against closed forms and against NetworkX; failures against what is left."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

from helpers.clusters import zoned
from helpers.strategies import fabrics, ring, tree
from helpers.trees import grow_tree
from routing.engines import balanced
from routing.proof import prove
from routing.routed import Routed
from routing.studies.failures import Diversity, fail_links, leaf_pairs, path_diversity, study_failures
from topo.errors import HeddleError
from topo.fabric import Fabric


def every_pair(fabric: Fabric) -> np.ndarray:
    return np.array(list(combinations(range(fabric.n_switches), 2)), np.int64).reshape(-1, 2)


def slow_count(fabric: Fabric, a: int, b: int) -> int:
    """The same by edge-disjoint paths in the graph of cables on shortest paths, each cable a node of its own."""
    graph = fabric.to_networkx().subgraph(range(fabric.n_switches))
    if not nx.has_path(graph, a, b):
        return 0
    here, there = (nx.single_source_shortest_path_length(graph, end) for end in (a, b))
    ways = nx.DiGraph()
    ways.add_nodes_from((a, b))
    for u, v, key in graph.edges(keys=True):
        for x, y in ((u, v), (v, u)):
            if x in here and here[x] + 1 + there[y] == here[b]:
                nx.add_path(ways, [x, (x, y, key), y])
    return len(list(nx.edge_disjoint_paths(ways, a, b)))


@given(fabrics())
def test_networkx_counts_the_same(fabric: Fabric) -> None:
    pairs = every_pair(fabric)
    counts = [slow_count(fabric, a, b) for a, b in pairs.tolist()]
    found = path_diversity(fabric, pairs)
    assert found.pairs == len(counts)
    assert found.connected == np.count_nonzero(counts)
    assert found.mean == pytest.approx(np.mean(counts) if counts else 0)
    assert found.least == min(counts, default=0)


@pytest.mark.parametrize(
    ("fabric", "expected"),
    [
        pytest.param(tree(5).fabric, Diversity(10, 10, 5, 5, 2), id="as many as spines"),
        pytest.param(grow_tree((4, 4), (1, 4), (1, 3)), Diversity(6, 6, 12, 12, 2), id="and parallel cables"),
        pytest.param(grow_tree((3, 3, 4), (1, 3, 3), (1, 1, 1)), Diversity(66, 66, 3, 3, 40 / 11), id="three levels"),
        pytest.param(ring(5).fabric, Diversity(10, 10, 1, 1, 1.5), id="odd ring: one way is shorter"),
        pytest.param(ring(4).fabric, Diversity(6, 6, 4 / 3, 1, 4 / 3), id="even ring: two ways across"),
    ],
)
def test_closed_forms(fabric: Fabric, expected: Diversity) -> None:
    pairs = leaf_pairs(fabric, np.random.default_rng(0))
    found = path_diversity(fabric, pairs)
    assert (found.pairs, found.connected, found.least) == (expected.pairs, expected.connected, expected.least)
    assert (found.mean, found.distance) == pytest.approx((expected.mean, expected.distance))


def test_pairs_are_all_different_and_no_more_than_asked_for() -> None:
    fabric = tree(12).fabric
    whole = leaf_pairs(fabric, np.random.default_rng(0))
    assert [*map(tuple, whole.tolist())] == sorted(combinations(range(12), 2), key=lambda pair: pair[::-1])
    some = leaf_pairs(fabric, np.random.default_rng(0), 20)
    assert len(np.unique(some, axis=0)) == 20
    assert (some[:, 0] < some[:, 1]).all()
    assert leaf_pairs(zoned(), np.random.default_rng(0)).max() < 122
    assert path_diversity(fabric, np.zeros((0, 2), np.int64)) == Diversity(0, 0, 0.0, 0, 0.0)


def test_failures_take_the_links_that_they_name_and_no_more() -> None:
    fabric = tree(4).fabric
    study = study_failures(fabric, 5, engine="balanced", seed=3)
    left, failed = fail_links(fabric, 5, np.random.default_rng(3))
    assert len(set(study.failed)) == len(failed) == 5
    assert len(left.inner_links) == len(fabric.inner_links) - 5
    assert study.before == Diversity(6, 6, 4.0, 4, 2.0)
    assert study.after.mean < 4
    assert study.after == path_diversity(left, leaf_pairs(fabric, np.random.default_rng(0)))
    summary = study.to_dict()
    assert summary["links"] == 5
    assert summary["pairs"] == 16 * 15
    assert summary["delivered"] == summary["connected"] == 16 * 15


def test_what_falls_apart_is_counted() -> None:
    """Without any link between switches only hosts of the same leaf reach each other."""
    fabric = tree(3).fabric
    summary = study_failures(fabric, 9, engine="balanced").to_dict()
    assert summary["after"] == {"pairs": 3, "connected": 0, "mean": 0.0, "least": 0, "distance": 0.0}
    assert (summary["pairs"], summary["connected"], summary["delivered"]) == (72, 18, 18)
    with pytest.raises(HeddleError, match="10 links cannot fail; tree has 9 between switches"):
        fail_links(fabric, 10, np.random.default_rng(0))


@pytest.mark.slow
@given(fabrics())
def test_unplugging_loses_just_these_cables(fabric: Fabric) -> None:
    links = fabric.links
    gone = links[::2, 1]
    left = fabric.without(gone)
    assert left.links.tolist() == links[1::2].tolist()
    assert prove(Routed(left, balanced.route(left))).credit_loops == 0
