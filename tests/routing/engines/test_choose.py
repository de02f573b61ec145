"""Which engine `auto` takes, and what it says about that."""

from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import routing
from helpers.presets import subnets
from helpers.trees import grow_tree
from routing.engines.base import ENGINES, GROUP, Outside, choose
from routing.proof import prove
from routing.routed import Routed
from topo.builder import FabricBuilder
from topo.errors import HeddleError, RoutingError
from topo.fabric import Fabric, Role
from topo.hardware.speeds import LinkSpeed

TREE = grow_tree((3, 3, 6), (1, 3, 3), (1, 1, 1))


def cut(fabric: Fabric, port: int) -> Fabric:
    peer = fabric.peer.copy()
    peer[peer[port]] = -1
    peer[port] = -1
    return replace(fabric, peer=peer)


def uplink(fabric: Fabric) -> int:
    return int(np.flatnonzero((fabric.level[fabric.port_node] == 1) & (fabric.level[fabric.peer_node] == 2))[0])


def with_storage(fabric: Fabric) -> Fabric:
    role = fabric.role.copy()
    role[-1] = Role.STORAGE
    return replace(fabric, role=role)


def with_a_slow_link(fabric: Fabric) -> Fabric:
    width, port = fabric.width.copy(), uplink(fabric)
    width[[port, fabric.peer[port]]] = 1
    return replace(fabric, width=width)


def with_levels_unknown(fabric: Fabric) -> Fabric:
    level = fabric.level.copy()
    level[0] = -1
    return replace(fabric, level=level)


@pytest.mark.parametrize(
    ("fabric", "engine", "why"),
    [
        (TREE, "fat-tree", "a whole fat-tree"),
        (cut(TREE, uplink(TREE)), "balanced", "level 1 have unequal numbers of links up"),
        (cut(TREE, TREE.first_adapter_port), "fat-tree", "a whole fat-tree"),
        (with_storage(TREE), "balanced", "several roles"),
        (with_a_slow_link(TREE), "balanced", "unequal speed"),
        (with_levels_unknown(TREE), "balanced", "levels are not known"),
    ],
    ids=["whole", "a cable less", "a host less", "storage", "a slow link", "levels unknown"],
)
def test_the_choice_and_its_reason(fabric: Fabric, engine: str, why: str) -> None:
    assert choose(fabric)[0] == engine
    assert why in choose(fabric)[1]


def test_joints_call_for_zoned_unless_it_cannot_take_the_zones() -> None:
    builder = FabricBuilder("joined")
    hdr = LinkSpeed(4, "HDR")
    joint = builder.switch("joint", model="s", radix=4, role=Role.JOINT, level=2)
    for zone in range(2):
        leaf = builder.switch(f"leaf{zone}", model="s", radix=4, role=Role.LEAF, level=1, zone=zone)
        spine = builder.switch(f"spine{zone}", model="s", radix=4, role=Role.SPINE, level=2, zone=zone)
        host = builder.adapter(f"h{zone}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE, zone=zone)
        builder.link(host, 1, leaf, 1, hdr)
        builder.link(leaf, 2, spine, 1, hdr)
        builder.link(leaf, 3, joint, zone + 1, hdr)
    fabric = builder.build()
    assert choose(fabric) == ("zoned", "1 joints between 2 zones")
    role = fabric.role.copy()
    role[fabric.role == Role.SPINE] = Role.CORE
    name, why = choose(replace(fabric, role=role))
    assert name == "balanced" and "neither leaf, spine nor joint" in why


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_routes_a_tree_completely(name: str) -> None:
    fabric = replace(grow_tree((2, 4), (1, 2), (1, 1)), zone=np.zeros(6 + 8, np.int16))
    tables = ENGINES[name].route(fabric)
    assert tables.engine == name
    assert prove(Routed(fabric, tables)).holds


class Mine:
    """An engine as another distribution would bring it."""

    purpose, max_lanes = "for a test", 1

    def route(self, fabric, lid=None, *, lanes=None):
        return ENGINES["minhop"].route(fabric, lid, lanes=lanes)


mine = Mine()


def test_an_engine_from_outside_is_found_by_its_entry_point(monkeypatch) -> None:
    found = Outside(EntryPoint("mine", f"{__name__}:mine", GROUP))
    monkeypatch.setitem(ENGINES, "mine", found)
    fabric = subnets("lab-20")[0]
    routed = routing.route(fabric, "mine")
    assert (found.purpose, found.max_lanes) == ("for a test", 1)
    assert (routed.tables.engine, routed.why) == ("minhop", "as asked")
    monkeypatch.setitem(ENGINES, "gone", Outside(EntryPoint("gone", "no.such.module:engine", GROUP)))
    with pytest.raises(RoutingError, match=r"the engine gone .* cannot be loaded"):
        routing.route(fabric, "gone")
    with pytest.raises(HeddleError, match="Did you mean `mine`"):
        routing.route(fabric, "minee")
