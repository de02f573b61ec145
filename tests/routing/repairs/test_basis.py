"""What repairs start from: destinations and their weights."""

import numpy as np
import pytest

from helpers.fluids import routed
from helpers.trees import grow_tree
from routing.repairs.basis import HOST, OTHER, destinations
from routing.tables import RoutingTables


@pytest.mark.parametrize("lmc", [0, 1, 2])
def test_all_lids_of_an_end_port_weigh_together_what_one_would(lmc: int) -> None:
    fabric = grow_tree((2, 3), (1, 2), (1, 1))
    one, count = routed(fabric), 1 << lmc
    tables = RoutingTables(one.lid * np.uint16(count), np.repeat(one.lft, count, axis=1), lmc=lmc)
    switch, weight, lids = destinations(fabric, tables)
    wanted = np.where(np.arange(fabric.n_end_ports) < fabric.n_switches, OTHER, HOST)
    for end, lid in enumerate(tables.lid.tolist()):
        mine = (lids >= lid) & (lids < lid + count)
        lids_of_it = count if end >= fabric.n_switches else 1  # a switch has one
        assert int(mine.sum()) == lids_of_it
        assert weight[mine].sum() == wanted[end] * lids_of_it / count
        assert set(switch[mine].tolist()) == {int(fabric.end_switch[end])}
