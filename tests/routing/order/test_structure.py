"""The order of switches by structure: the same under all labels."""

from functools import partial

import numpy as np
import pytest

from helpers.presets import subnets
from helpers.random_fabrics import draw
from helpers.relabel import relabelled
from routing.order.structure import in_structure_order, structure_order
from topo.dumps.levels import find_levels
from topo.fabric import Fabric

WHOLE = {name: partial(lambda name: subnets(name)[0], name) for name in ("dragonfly", "slim-fly", "torus")}
"""Fabrics whose switches all look alike."""


def wiring(fabric: Fabric) -> list[np.ndarray]:
    """What each port leads to: a port of a switch, or an adapter by role and rate."""
    mine = np.arange(fabric.first_adapter_port)
    there = fabric.peer_node[mine]
    adapter = -2 - fabric.role[there].astype(int)
    leads = np.where(there < 0, -1, np.where(there < fabric.n_switches, fabric.peer[mine], adapter))
    return [fabric.port_offset[: fabric.n_switches + 1], leads, fabric.rate_gbps[mine]]


@pytest.mark.parametrize("name", [0, 2, 5, 8, 9, 12, *WHOLE])
def test_the_order_is_the_same_under_other_labels(name: int | str) -> None:
    fabric = find_levels(WHOLE[name]() if isinstance(name, str) else draw(name))
    found = []
    for number in range(3):
        mixed = relabelled(fabric, np.random.default_rng(number)).fabric
        order = structure_order(mixed)
        assert sorted(order.tolist()) == list(range(fabric.n_switches))
        found.append((mixed, in_structure_order(mixed)))
    for mixed, turned in found:
        assert turned.switch.tolist() == structure_order(mixed).tolist()
        assert turned.fabric.counts() == mixed.counts()
        for ours, first in zip(wiring(turned.fabric), wiring(found[0][1].fabric), strict=True):
            np.testing.assert_array_equal(ours, first)


@pytest.mark.parametrize("name", [0, 3, 5, 9])
def test_tables_come_back_to_the_ports_that_they_are_for(name: int) -> None:
    fabric = find_levels(draw(name))
    turned = in_structure_order(fabric)
    names = {old: new for new, old in enumerate(turned.switch.tolist())}
    rng = np.random.default_rng(name)
    lft = np.array([rng.integers(0, len(fabric.ports_of(switch)) + 1, 40) for switch in turned.switch], np.uint8)
    lft[rng.random(lft.shape) < 0.2] = 255
    back = turned.back(lft)
    for old, new in names.items():
        assert turned.fabric.names[new] == fabric.names[old]
        for entry, was in zip(lft[new].tolist(), back[old].tolist(), strict=True):
            if entry in (0, 255):
                assert was == entry
                continue
            there, here = turned.fabric.peer[turned.fabric.port_id(new, entry)], fabric.peer[fabric.port_id(old, was)]
            assert (there < 0) == (here < 0)
            if there >= 0:
                assert turned.fabric.names[turned.fabric.port_node[there]] == fabric.names[fabric.port_node[here]]


def test_zones_are_numbered_as_they_come() -> None:
    fabric = draw(3)
    turned = in_structure_order(fabric).fabric
    zone = turned.zone[: turned.n_switches]
    known, first = np.unique(zone[zone >= 0], return_index=True)
    assert known.tolist() == list(range(len(known))) and (np.diff(first) > 0).all()
    zones = set(zip(fabric.zone[structure_order(fabric)].tolist(), zone.tolist(), strict=True))
    assert len({old for old, _ in zones}) == len({new for _, new in zones}) == len(zones)
