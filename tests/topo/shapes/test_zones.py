"""Fat-trees side by side, and what joins them."""

import numpy as np
import pytest

import topo
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


@pytest.mark.parametrize(("zones", "count", "ports"), [(2, 2, 40), (3, 2, 26), (2, 1, 20), (5, 3, 24)])
def test_all_ports_of_the_joints_are_used_where_none_are_stated(zones: int, count: int, ports: int) -> None:
    """A QM8700 has 40 ports: 40 // zones from each zone to each joint."""
    network = {"shape": "zones", "zones": zones, "tree": {"switch": "QM8700"}}
    nodes = {"gpu": {"model": "pcie-a100", "count": 20 * zones}}
    spec = {"name": "x", "nodes": nodes, "network": network | {"joints": {"switch": "QM8700", "count": count}}}
    fabric = topo.parse(spec).fabric
    joint = fabric.role == topo.Role.JOINT
    from_zone = fabric.zone[fabric.peer_node[(fabric.peer >= 0) & joint[fabric.port_node]]]
    assert np.bincount(from_zone).tolist() == [ports] * zones


@pytest.mark.parametrize("how", ["joints", "direct"])
def test_by_default_zones_are_joined_over_all_leaves(how: str) -> None:
    """No leaf carries more than its even part of the cables to the other zone."""
    between = {"ports": 12} | ({"switch": "QM8700", "count": 2} if how == "joints" else {})
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
        "network": {"shape": "zones", "zones": 2, "tree": {"switch": "QM8700", "leaves": 5}, how: between},
    }
    fabric = topo.parse(spec).fabric
    out = [
        sum(far >= 0 and fabric.zone[far] != fabric.zone[leaf] for far in fabric.peer_node[fabric.ports_of(leaf)])
        for leaf in np.flatnonzero(fabric.role == Role.LEAF).tolist()
    ]
    assert (len(out), sum(out), min(out), max(out)) == (10, 24, 2, 3)
