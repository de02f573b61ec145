"""What is printed at ports: by hand for each kind of switch, and a cage and a plug for every port."""

from collections import Counter
from dataclasses import replace

import pytest

import topo
from helpers.clusters import CATALOG, tree
from topo.builder import FabricBuilder
from topo.fabric import Role
from topo.floor.panels import panels
from topo.speeds import LinkSpeed


def switch(model: str, ports: int) -> topo.Panel:
    builder = FabricBuilder("x")
    builder.switch("leaf", model=model, radix=ports, role=Role.LEAF, level=1)
    return panels([builder.build()], CATALOG)[0]


@pytest.mark.parametrize(
    ("model", "ports", "labels", "cages", "plugs"),
    [
        ("QM8700", 40, {0: "1", 39: "40"}, 40, 40),
        ("QM8700", 80, {0: "1/1", 1: "1/2", 79: "40/2"}, 40, 40),
        ("QM8700", 44, {0: "1/1", 7: "4/2", 8: "5", 43: "40"}, 40, 40),
        ("QM9700", 64, {0: "1/1", 1: "1/2", 2: "2/1", 63: "32/2"}, 32, 64),
        ("QM9700", 128, {0: "1/1/1", 1: "1/1/2", 2: "1/2/1", 127: "32/2/2"}, 32, 64),
        ("SN5600", 64, {0: "1", 63: "64"}, 64, 64),
        ("SN5600", 128, {0: "1/1", 127: "64/2"}, 64, 128),
        ("Q3400", 144, {0: "sw1p1", 143: "sw72p2"}, 72, 144),
        ("SB7800", 36, {0: "1", 35: "36"}, 36, 36),
    ],
)
def test_panels_of_switches(model: str, ports: int, labels: dict[int, str], cages: int, plugs: int) -> None:
    panel = switch(model, ports)
    assert {port: panel.labels[port] for port in labels} == labels
    assert len(set(panel.labels)) == ports
    assert (len(set(panel.cage.tolist())), len(set(panel.plug.tolist()))) == (cages, plugs)
    held = Counter(panel.cage.tolist())
    assert all(panel.ports[port] == held[cage] for port, cage in enumerate(panel.cage.tolist()))
    assert set(panel.connector) == {CATALOG.switches[model].connector}


def test_ports_of_two_kinds_have_cages_of_their_own_behind_one_another() -> None:
    panel = switch("SN2201", 52)
    assert panel.labels == tuple(map(str, range(1, 53)))
    assert panel.connector == ("RJ45",) * 48 + ("QSFP28",) * 4
    assert len(set(panel.cage.tolist())) == len(set(panel.plug.tolist())) == 52
    assert set(panel.ports.tolist()) == {1}


@pytest.mark.parametrize(("model", "ports"), [("nobody", 5), ("nobody", 1), ("SN2201", 40)])
def test_a_switch_of_which_no_uplink_is_known_has_a_cage_a_port(model: str, ports: int) -> None:
    panel = switch(model, ports)
    assert panel.labels == tuple(map(str, range(1, ports + 1)))
    assert panel.cage.tolist() == panel.plug.tolist() == list(range(ports))
    assert set(panel.connector) == {CATALOG.switches[model].connector if model in CATALOG.switches else ""}


def test_an_uplink_of_eight_lanes_takes_two_fibres() -> None:
    """Whatever the other ports take, which have one each."""
    wide = replace(CATALOG.switches["SN2201"], uplink_speed=LinkSpeed(8, "NDR"))
    builder = FabricBuilder("x")
    builder.switch("leaf", model="SN2201", radix=52, role=Role.LEAF, level=1)
    (panel,) = panels([builder.build()], replace(CATALOG, switches={**CATALOG.switches, "SN2201": wide}))
    assert panel.plugs.tolist() == [1] * 48 + [2] * 4
    assert panel.plug.tolist() == [*range(48), 48, 50, 52, 54]
    assert panel.cage.tolist() == list(range(52))


def test_adapters_of_a_server_share_cages_even_in_different_subnets() -> None:
    network = {"shape": "planes", "planes": 8, "tree": {"switch": "QM9700"}}
    nodes = {"gpu": {"model": "dgx-b200", "count": 3}}
    cluster = topo.parse({"name": "x", "nodes": nodes, "network": network})
    found = panels(cluster.fabrics, cluster.catalog)
    of_server = Counter(
        int(panel.cage[port])
        for fabric, panel in zip(cluster.fabrics, found, strict=True)
        for port in range(fabric.first_adapter_port, fabric.n_ports)
    )
    assert sorted(of_server.values()) == [2] * 12, "three servers with four cages of two adapters"
    assert found[0].labels[-1] == "1/1" and found[7].labels[-1] == "4/2"


def test_no_cage_is_in_two_boxes() -> None:
    fabric = tree(100)
    (panel,) = panels([fabric], CATALOG)
    boxes = {(cage, int(fabric.port_node[port])) for port, cage in enumerate(panel.cage.tolist())}
    assert len(boxes) == len({cage for cage, _ in boxes})
