"""Cables in trays: as long together as the cables run there, whatever the room."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clusters import CATALOG, tree, zoned
from topo.floor.cables import choose_cables
from topo.floor.racks import FloorPlan, place_devices
from topo.floor.trays import fill_trays


@pytest.mark.slow
@given(st.integers(1, 200), st.integers(5, 48), st.integers(1, 9))
def test_trays_hold_each_cable_once_a_step_of_its_way(n_gpus: int, units: int, per_row: int) -> None:
    fabric = tree(n_gpus)
    layout = place_devices([fabric], CATALOG, FloorPlan(rack_units=units, racks_per_row=per_row))
    (cabling,) = choose_cables([fabric], layout, CATALOG)
    trays = fill_trays([fabric], layout, [cabling])
    a, b = layout.rack[layout.node_device[0][fabric.port_node[fabric.links]]].T
    assert trays.along.sum() == np.abs(layout.column[a] - layout.column[b]).sum()
    assert trays.across.sum() == np.abs(layout.row[a] - layout.row[b]).sum()
    assert trays.along.min(initial=0) == trays.across.min(initial=0) == 0


def test_a_cut_through_the_room_has_the_cables_between_its_sides() -> None:
    fabric = zoned()
    layout = place_devices([fabric], CATALOG, FloorPlan(racks_per_row=8))
    trays = fill_trays([fabric], layout, choose_cables([fabric], layout, CATALOG))
    rows = layout.row[layout.rack[layout.node_device[0][fabric.port_node[fabric.links]]]]
    for row in range(len(trays.across)):
        assert trays.across[row].sum() == ((rows <= row).any(axis=1) & (rows > row).any(axis=1)).sum()
