"""LIDs: who keeps which, and who gets what is left."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.strategies import fabrics, tree
from routing.engines.base import route
from routing.routed import Routed
from routing.tables import MAX_UNICAST_LID, assign_lids
from simulate.traffic.network import Network
from topo.errors import RoutingError
from topo.fabric import Fabric, Role


def test_a_planned_fabric_counts_through() -> None:
    assert assign_lids(tree(2).fabric).tolist() == list(range(1, 9))


@given(fabrics(), st.data())
def test_discovered_lids_stay_and_no_lid_is_given_twice(fabric: Fabric, data: st.DataObject) -> None:
    n = fabric.n_end_ports
    lids = data.draw(st.lists(st.integers(1, MAX_UNICAST_LID), min_size=n, max_size=n, unique=True))
    known = np.array(lids, np.uint16) * np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), np.uint16)
    lid = assign_lids(replace(fabric, discovered_lid=known))

    plugged = fabric.end_switch >= 0
    assert (lid[~plugged] == 0).all()
    kept = plugged & (known > 0)
    assert (lid[kept] == known[kept]).all()
    assert len(np.unique(lid[plugged])) == np.count_nonzero(plugged)
    assert lid[plugged].min(initial=1) > 0
    assert lid.max() <= MAX_UNICAST_LID


@pytest.mark.parametrize(
    ("known", "lids"),
    [
        ([0, 0, 100, 0, 0, 0, 0, 7], [101, 102, 100, 103, 104, 105, 106, 7]),
        ([0, 0, MAX_UNICAST_LID - 1, 0, 0, 0, 0, 1], [0xBFFF, 2, 0xBFFE, 3, 4, 5, 6, 1]),
    ],
    ids=["above what is known", "and below when nothing is left above"],
)
def test_who_has_no_lid_gets_the_next_free_one(known: list[int], lids: list[int]) -> None:
    fabric = replace(tree(2).fabric, discovered_lid=np.array(known, np.uint16))
    assert assign_lids(fabric).tolist() == lids


@pytest.mark.parametrize("engine", ["", "file"])
def test_tables_without_an_engine_have_a_name_in_messages(engine: str) -> None:
    fabric = tree(2).fabric
    routed = route(fabric, "minhop")
    unnamed = Routed(fabric, replace(routed.tables, engine=engine))
    assert repr(routed).startswith(f"<Routed {fabric.name}: minhop, ")
    assert repr(unnamed).startswith(f"<Routed {fabric.name}: an unknown engine, ")
    assert dict(unnamed.table.rows())["engine"] == "an unknown engine"
    assert "an unknown engine" in repr(Network.of(unnamed, latency_s=0))
    assert "an unknown engine" in repr(unnamed.tables)


def test_a_switch_with_more_ports_than_a_table_can_name_gets_no_lid() -> None:
    builder = topo.FabricBuilder("wide")
    builder.switch("MF0;leaf0:X/U1", model="", radix=255, role=Role.LEAF, level=1)
    with pytest.raises(RoutingError, match="leaf0 has 255 ports; forwarding tables can name at most 254"):
        assign_lids(builder.build())
