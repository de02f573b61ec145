"""The order of switches by structure: the same under all labels."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from helpers.presets import subnets
from helpers.random_fabrics import draw
from helpers.relabel import inverse, relabelled
from helpers.strategies import slow_but
from routing.order.channel_order import order_channels, switch_levels
from routing.order.structure import Turned, in_structure_order, structure_order
from routing.tables import tree_order
from topo.builder import FabricBuilder
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

WHOLE = {name: partial(lambda name: subnets(name)[0], name) for name in ("dragonfly", "slim-fly", "torus")}
"""Fabrics whose switches all look alike."""


def wiring(fabric: Fabric) -> list[np.ndarray]:
    """What each port leads to: a port of a switch, or an adapter by role and rate."""
    mine = np.arange(fabric.first_adapter_port)
    there = fabric.peer_node[mine]
    adapter = -2 - fabric.role[there].astype(int)
    leads = np.where(there < 0, -1, np.where(there < fabric.n_switches, fabric.peer[mine], adapter))
    return [fabric.port_offset[: fabric.n_switches + 1], leads, fabric.rate_gbps[mine]]


@pytest.mark.parametrize("name", slow_but([0, 2, 5, 8, 9, 12, *WHOLE], 0, 2))
def test_the_order_is_the_same_under_other_labels(name: int | str) -> None:
    fabric = find_levels(WHOLE[name]() if isinstance(name, str) else draw(name))
    ranks = tree_order(fabric, fabric.ends())
    for ranked in (False, True):
        found = []
        for number in range(3):
            mixed = relabelled(fabric, np.random.default_rng(number))
            same = inverse(mixed.end)[ranks]
            order = structure_order(mixed.fabric, same, ranked=ranked)
            assert sorted(order.tolist()) == list(range(fabric.n_switches))
            turned = in_structure_order(mixed.fabric, same, ranked=ranked)
            assert turned.switch.tolist() == order.tolist()
            assert turned.fabric.counts() == mixed.fabric.counts()
            found.append([*wiring(turned.fabric), hosts(turned.fabric, same, ranked=ranked)])
        for each in found:
            for ours, first in zip(each, found[0], strict=True):
                np.testing.assert_array_equal(ours, first)


def hosts(fabric: Fabric, ranks: np.ndarray, *, ranked: bool) -> np.ndarray:
    """Where the hosts hang, in the order of ranks; if these lead, it is that of switches and ports as well."""
    if ranked:
        assert tree_order(fabric, fabric.ends()).tolist() == ranks.tolist()
    return fabric.peer[fabric.port_of(ranks)]


def in_order(fabric: Fabric) -> Turned:
    return in_structure_order(fabric, tree_order(fabric, fabric.ends()))


@pytest.mark.parametrize("name", [0, 3, 5, 9])
def test_channels_come_back_to_the_ports_that_they_are_of(name: int) -> None:
    fabric = find_levels(draw(name))
    turned = in_order(fabric)
    order = order_channels(turned.fabric, switch_levels(turned.fabric))
    before = turned.channels(order)
    names = turned.fabric.names
    for sender, receiver, now, was in zip(order.sender, order.receiver, order.number, before.number, strict=True):
        old = turned.switch[sender]
        assert fabric.names[old] == names[sender]
        here = fabric.port_id(old, int(was))
        assert fabric.names[fabric.peer_node[here]] == names[receiver]
        assert fabric.rate_gbps[here] == turned.fabric.rate_gbps[turned.fabric.port_id(sender, int(now))]
    assert len(set(zip(order.sender.tolist(), before.number.tolist(), strict=True))) == len(order.sender)


def test_zones_are_numbered_as_they_come() -> None:
    fabric = draw(3)
    turned = in_order(fabric).fabric
    zone = turned.zone[: turned.n_switches]
    known, first = np.unique(zone[zone >= 0], return_index=True)
    assert known.tolist() == list(range(len(known))) and (np.diff(first) > 0).all()
    zones = set(zip(fabric.zone[in_order(fabric).switch].tolist(), zone.tolist(), strict=True))
    assert len({old for old, _ in zones}) == len({new for _, new in zones}) == len(zones)


def test_lids_that_a_subnet_gave_are_not_those_of_the_turned_fabric() -> None:
    fabric = draw(3)
    known = replace(fabric, discovered_lid=np.arange(1, fabric.n_end_ports + 1, dtype=np.uint16))
    assert not len(in_order(known).fabric.discovered_lid)


def test_a_switch_that_hangs_below_a_leaf_has_a_level_below_it_and_all_others_one_more() -> None:
    build, speed = FabricBuilder("hangs"), LinkSpeed(4, "HDR")
    levels = {"hangs": 1, "leaf": 1, "beside": 1, "spine": 2}
    at = {name: build.switch(name, model="m", radix=8, role=Role.LEAF, level=level) for name, level in levels.items()}
    for port, (a, b) in enumerate([("hangs", "leaf"), ("leaf", "spine"), ("beside", "spine")], start=1):
        build.link(at[a], port, at[b], port, speed)
    fabric = build.build()
    found = dict(zip(map(fabric.label, range(4)), switch_levels(fabric).tolist(), strict=True))
    assert found == {"hangs": 1, "leaf": 2, "beside": 2, "spine": 3}
