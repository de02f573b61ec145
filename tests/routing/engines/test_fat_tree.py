"""The closed form on whole and degraded trees: contention-free shifts, completeness, no credit loop."""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.modulo import destination_modulo
from helpers.trees import grow_tree, worst_shift
from routing.engines import balanced, fat_tree
from routing.engines.modulo import _hand_over
from routing.order.channel_order import order_channels, switch_levels
from routing.proof import prove
from routing.routed import Routed
from routing.tables import NO_PATH
from topo.errors import RoutingError
from topo.fabric import Fabric, Role

WHOLE = {
    "two levels": ((4, 8), (1, 4), (1, 1)),
    "two levels, parallel cables": ((6, 6), (1, 3), (1, 2)),
    "three levels": ((3, 3, 6), (1, 3, 3), (1, 1, 1)),
    "three levels, shared cores": ((4, 4, 4), (1, 4, 2), (1, 1, 2)),
    "three levels, parallel cables below": ((4, 4, 3), (1, 2, 8), (1, 2, 1)),
    "four levels": ((2, 2, 2, 4), (1, 2, 2, 2), (1, 1, 1, 1)),
}


@pytest.mark.parametrize("shape", WHOLE.values(), ids=WHOLE)
def test_every_shift_of_a_whole_tree_is_free_of_contention(shape: tuple[tuple[int, ...], ...]) -> None:
    fabric = grow_tree(*shape)
    assert worst_shift(fabric, fat_tree.route(fabric)) == 1


@pytest.mark.parametrize("shape", WHOLE.values(), ids=WHOLE)
def test_whole_trees_are_complete_for_switches_too_and_climb_once(shape: tuple[tuple[int, ...], ...]) -> None:
    fabric = grow_tree(*shape)
    tables = fat_tree.route(fabric)
    hosts, everything = prove(Routed(fabric, tables)), prove(Routed(fabric, tables), "all")
    assert hosts.holds and everything.holds
    assert hosts.stretch == 0
    assert hosts.max_hops == 2 * len(shape[0]) - 1


@st.composite
def degraded_trees(draw: st.DrawFn) -> Fabric:
    """A tree with cables cut, of which every switch is still linked."""
    fabric = grow_tree(*draw(st.sampled_from(list(WHOLE.values()))))
    n = fabric.n_switches
    between = fabric.links[(fabric.port_node[fabric.links] < n).all(axis=1)]
    cut = draw(st.lists(st.integers(0, len(between) - 1), max_size=len(between) // 4, unique=True))
    peer = fabric.peer.copy()
    peer[between[cut]] = -1
    return replace(fabric, peer=peer)


@given(degraded_trees())
def test_degraded_trees_route_complete_or_are_refused(fabric: Fabric) -> None:
    try:
        tables = fat_tree.route(fabric)
    except RoutingError:
        return
    for endpoints in ("hca", "all"):
        proof = prove(Routed(fabric, tables), endpoints)
        assert proof.missing == proof.disconnected
        assert proof.credit_loops == 0
    assert prove(Routed(fabric, tables)).max_hops <= 2 * int(fabric.level.max()) - 1


@pytest.mark.parametrize("engine", [fat_tree, balanced])
@pytest.mark.parametrize("stored", [1, 2, 3])
def test_each_role_is_spread_over_all_spines_and_so_is_the_sum(engine: ModuleType, stored: int) -> None:
    """Storage on the last ports of each leaf; by position alone it would use only as many of the eight spines."""
    fabric = grow_tree((8, 8), (1, 8), (1, 1))
    role = fabric.role.copy()
    adapters = np.arange(fabric.n_switches, fabric.n_nodes)
    role[adapters[np.arange(len(adapters)) % 8 >= 8 - stored]] = Role.STORAGE
    fabric = replace(fabric, role=role)
    proof = prove(Routed(fabric, engine.route(fabric)))
    up = np.flatnonzero((fabric.level[fabric.port_node] == 1) & (fabric.peer_node < fabric.n_switches))
    storage, total = proof.load_by_role[Role.STORAGE][up] / 8, proof.load[up] / 8
    # Of the storage hosts of the seven other leaves, each uplink carries its eighth; of all hosts too.
    assert storage.min() >= stored * 7 // 8 and storage.max() <= -(-stored * 8 // 8)
    assert total.min() == total.max() == 7


def test_a_link_within_a_level_is_refused_with_both_ends_and_another_engine() -> None:
    fabric = grow_tree((2, 2), (1, 2), (1, 1))
    level = fabric.level.copy()
    level[0] = 2
    with pytest.raises(RoutingError, match=r"s1-00 \(level 2\) is linked to s2-00 \(level 2\).*`balanced`"):
        fat_tree.route(replace(fabric, level=level))


@pytest.mark.parametrize(
    ("below", "above", "cables"),
    [
        ((3, 3), (1, 3), (1, 1)),
        ((4, 2), (1, 2), (1, 2)),
        ((2, 3, 2), (1, 2, 3), (1, 1, 1)),
        ((2, 2, 2), (1, 2, 2), (1, 2, 3)),
    ],
)
def test_the_closed_form_is_that_of_the_paper(below, above, cables) -> None:
    fabric = grow_tree(below, above, cables)
    tables = fat_tree.route(fabric)
    lids = tables.lid[fabric.ends()]
    assert (tables.lft[:, lids] == destination_modulo(fabric, tables.lid)[:, lids]).all()


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("cables", [1, 2, 3])
def test_all_neighbours_of_a_switch_hand_over_by_parallel_cables_in_turn(cables: int, alone: bool) -> None:
    """Also where the first neighbour is switch 1, since switch 0 has no cables."""
    fabric = grow_tree((2, 4), (1, 3), (1, cables))
    fabric = fabric.without(fabric.ports_of(0)) if alone else fabric
    level = switch_levels(fabric)
    order = order_channels(fabric, level)
    for target in range(fabric.n_switches):
        lid = np.array([5, 9], np.int32)
        quotient = np.array([[0, 1], [1, 2], [2, 0]], np.uint32)
        next_hop = np.full((10, fabric.n_switches), 77, np.uint8)
        number = np.arange(len(order.sender), dtype=np.int32) - order.indptr[order.sender]
        _hand_over.py_func(target, order, number, level.astype(np.int32), lid, quotient, next_hop)
        for here in range(fabric.n_switches):
            to = [at for at, channel in enumerate(range(order.indptr[here], order.indptr[here + 1]))
                  if order.receiver[channel] == target]  # fmt: skip
            upper = max(level[here], level[target])
            wanted = [to[quotient[upper - 1, d] % len(to)] if to else 77 for d in range(2)]
            assert next_hop[lid, here].tolist() == ([NO_PATH] * 2 if here == target else wanted)
