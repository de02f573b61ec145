"""The order of switches by structure: the same under all labels."""

from functools import partial

import numpy as np
import pytest

from helpers.presets import subnets
from helpers.random_fabrics import draw
from helpers.relabel import relabelled
from routing.order.structure import structure_order, with_switches_in
from topo.dumps.levels import find_levels
from topo.fabric import Fabric


def matrix(fabric: Fabric) -> np.ndarray:
    """Cables between switches, by place."""
    found = np.zeros((fabric.n_switches, fabric.n_switches), np.int64)
    np.add.at(found, (fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]), 1)
    return found


WHOLE = {name: partial(lambda name: subnets(name)[0], name) for name in ("dragonfly", "slim-fly", "torus")}
"""Fabrics whose switches all look alike."""


@pytest.mark.parametrize("name", [0, 2, 5, 8, 9, 12, *WHOLE])
def test_the_order_is_the_same_under_other_labels(name: int | str) -> None:
    fabric = find_levels(WHOLE[name]() if isinstance(name, str) else draw(name))
    found = []
    for number in range(3):
        mixed = relabelled(fabric, np.random.default_rng(number)).fabric
        order = structure_order(mixed)
        assert sorted(order.tolist()) == list(range(fabric.n_switches))
        found.append((mixed, with_switches_in(mixed, order)))
    for mixed, turned in found:
        assert (matrix(turned) == matrix(found[0][1])).all()
        assert turned.counts() == mixed.counts()
        hung = turned.end_switch[turned.ends()]
        assert (np.bincount(hung) == np.bincount(found[0][1].end_switch[found[0][1].ends()])).all()
        back = with_switches_in(turned, np.argsort(structure_order(mixed)))
        assert (back.peer == mixed.peer).all() and back.names == mixed.names


def test_zones_are_numbered_as_they_come() -> None:
    fabric = draw(3)
    turned = with_switches_in(fabric, structure_order(fabric))
    zone = turned.zone[: turned.n_switches]
    known, first = np.unique(zone[zone >= 0], return_index=True)
    assert known.tolist() == list(range(len(known))) and (np.diff(first) > 0).all()
    zones = set(zip(fabric.zone[structure_order(fabric)].tolist(), zone.tolist(), strict=True))
    assert len({old for old, _ in zones}) == len({new for _, new in zones}) == len(zones)
