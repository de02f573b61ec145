"""Fat-trees side by side, and what joins them."""

import numpy as np
import pytest

from helpers.clusters import zoned
from topo.fabric import Role


@pytest.mark.parametrize(("placement", "joints", "ports"), [("border", 2, 4), ("border", 3, 6), ("spread", 2, 12)])
def test_the_cables_of_a_leaf_go_to_the_joints_in_turn(placement: str, joints: int, ports: int) -> None:
    fabric = zoned(placement, leaves=6, spines=4, n_gpus=60, n_storage=0, joints=joints, ports=ports)
    between = fabric.inner[fabric.role[fabric.peer_node[fabric.inner]] == Role.JOINT]
    first = int(np.flatnonzero(fabric.role == Role.JOINT)[0])
    for zone in (0, 1):
        mine = between[fabric.zone[fabric.port_node[between]] == zone]
        assert (fabric.peer_node[mine] - first).tolist() == [index % joints for index in range(ports)]
