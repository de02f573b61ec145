"""Whether a routing is complete and free of credit loops does not depend on names, GUIDs, ports, or any order.

That its quality does not depend on them either is not yet a law: today's engines take nodes and ports in turn.
"""

from collections.abc import Callable

import numpy as np
import pytest

from helpers import strategies
from helpers.clusters import tree, zoned
from helpers.relabel import relabelled, renamed, shuffled_lines
from helpers.trees import damage, grow_tree
from helpers.twins import twin
from routing.engines.base import ENGINES
from routing.proof import prove
from routing.routed import Routed
from topo.fabric import Fabric
from topo.formats.ibnetdiscover import format_ibnetdiscover, parse_ibnetdiscover
from topo.levels import find_levels

FABRICS: dict[str, Callable[[], Fabric]] = {
    "ring": lambda: strategies.ring(6).fabric,
    "two levels": lambda: tree(24, leaves=4, spines=4),
    "three levels, parallel cables": lambda: grow_tree((3, 2, 2), (1, 2, 2), (1, 1, 2)),
    "three levels with dead links": lambda: damage(
        grow_tree((3, 3, 2), (1, 3, 2), (1, 1, 1)), np.random.default_rng(3), 0.08
    ),
    "two zones, one border leaf": lambda: zoned("border", leaves=6, spines=4, n_gpus=60, n_storage=8, ports=4),
    "two zones, joined everywhere": lambda: zoned("spread", leaves=6, spines=4, n_gpus=60, n_storage=8, ports=4),
    "a real machine": lambda: twin("fdr10-mesh"),
}
TAKES = {
    "fat-tree": {"two levels", "three levels, parallel cables"},
    "zoned": {"two levels", "two zones, one border leaf", "two zones, joined everywhere"},
}
"""Fabrics of engines that do not take every one."""

CASES = [(engine, name) for engine in ENGINES for name in FABRICS if name in TAKES.get(engine, FABRICS)]


def assert_keeps_its_word(fabric: Fabric, engine: str, pairs: int) -> None:
    proof = prove(Routed(fabric, ENGINES[engine].route(fabric)))
    assert proof.pairs == pairs
    if engine != "updn":  # which loses pairs that would have to climb twice
        assert proof.missing == proof.disconnected
    if engine != "minhop":  # which allows every turn
        assert proof.credit_loops == 0


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "name"), CASES)
def test_completeness_and_freedom_from_loops_stay(engine: str, name: str) -> None:
    fabric = FABRICS[name]()
    hosts = len(fabric.ends())
    assert_keeps_its_word(fabric, engine, hosts * (hosts - 1))
    for seed in range(5):
        rng = np.random.default_rng(seed)
        assert_keeps_its_word(renamed(relabelled(fabric, rng).fabric, rng), engine, hosts * (hosts - 1))


@pytest.mark.parametrize("name", ["two zones, joined everywhere", "a real machine"])
def test_the_order_of_lines_in_a_dump_does_not_matter(name: str) -> None:
    fabric = FABRICS[name]()
    text = format_ibnetdiscover(fabric)
    found = find_levels(parse_ibnetdiscover(text).fabric)
    for seed in range(5):
        mixed = find_levels(parse_ibnetdiscover(shuffled_lines(text, np.random.default_rng(seed))).fabric)
        assert mixed.counts() == found.counts()
        level = {mixed.node_guid[i]: (mixed.level[i], mixed.role[i], mixed.names[i]) for i in range(mixed.n_nodes)}
        assert level == {
            found.node_guid[i]: (found.level[i], found.role[i], found.names[i]) for i in range(found.n_nodes)
        }
        assert_keeps_its_word(mixed, "balanced", len(found.ends()) * (len(found.ends()) - 1))
