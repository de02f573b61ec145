"""ibsim reads what we write; ibnetdiscover and OpenSM find in it the cabling that we planned."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.twins import twin
from plan.opensm_lab.ibsim import simulated
from topo.builder import FabricBuilder
from topo.dumps.discovery import Discovery
from topo.dumps.fabric_file import read_dump
from topo.dumps.ibnetdiscover import parse_ibnetdiscover
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

pytestmark = pytest.mark.peer("ibsim", "ibnetdiscover", "opensm", "usr/lib/*/umad2sim/libumad2sim.so")

SPEEDS = ("4xSDR", "4xDDR", "4xQDR", "4xFDR10", "4xFDR", "1xEDR", "2xHDR", "4xHDR")
"""What ibsim 0.10 simulates; it takes NDR and XDR for SDR."""


@pytest.fixture(scope="module")
def planned() -> Fabric:
    builder = FabricBuilder("small")
    leaves = [
        builder.switch(f"MF0;leaf{i}:MQM8700/U1", model="MQM8700", radix=40, role=Role.LEAF, level=1)
        for i in range(len(SPEEDS))
    ]
    spines = [
        builder.switch(f"spine{i} of = {'s' * 60}", model="", radix=40, role=Role.SPINE, level=2) for i in range(2)
    ]
    for i, (leaf, speed) in enumerate(zip(leaves, SPEEDS, strict=True)):
        width, generation = speed.split("x")
        for j, spine in enumerate(spines):
            builder.link(leaf, 21 + j, spine, 40 - i, LinkSpeed(int(width), generation))
        for j in range(2):
            host = builder.adapter(f"n{i}-{j}", "mlx5_0", model="", host_model="", role=Role.COMPUTE, ports=1 + j)
            builder.link(host, 1 + j, leaf, 1 + j, LinkSpeed(4, "HDR"))
    builder.link(leaves[0], 39, leaves[0], 40, LinkSpeed(4, "HDR"))  # a loop-back cable
    fabric = builder.build()
    lids = np.zeros(fabric.n_end_ports, np.uint16)
    plugged = fabric.end_switch >= 0
    lids[plugged] = np.arange(1, plugged.sum() + 1) * 7
    return replace(fabric, discovered_lid=lids)


@pytest.fixture(scope="module")
def found(planned: Fabric, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Discovery]:
    with simulated(planned, tmp_path_factory.mktemp("cabling")) as subnet:
        text = subnet.ibnetdiscover()
        run = subnet.opensm("minhop")
    return {"ibnetdiscover": parse_ibnetdiscover(text), "opensm": read_dump(run.folder / "opensm-subnet.lst")}


def channels(fabric: Fabric) -> set[tuple[int, ...]]:
    """Each channel by node GUID and port number of both ends, with width and speed, whatever order they come in."""
    a = np.flatnonzero(fabric.peer >= 0)
    b = fabric.peer[a]
    guid, number = fabric.node_guid[fabric.port_node], fabric.port_number
    rows = zip(guid[a], number[a], guid[b], number[b], fabric.width[a], fabric.speed[a], strict=True)
    return {tuple(int(field) for field in row) for row in rows}


@pytest.mark.parametrize("tool", ["ibnetdiscover", "opensm"])
def test_the_cabling_comes_back_as_planned(planned: Fabric, found: dict[str, Discovery], tool: str) -> None:
    discovery = found[tool]
    assert discovery.skipped == ()
    assert channels(discovery.fabric) == channels(planned)


@pytest.mark.parametrize("tool", ["ibnetdiscover", "opensm"])
def test_names_guids_and_lids_come_back(planned: Fabric, found: dict[str, Discovery], tool: str) -> None:
    def ends(fabric: Fabric) -> dict[int, tuple[str, int]]:
        ports = np.diff(fabric.port_offset)
        return {int(guid): (fabric.names[i], int(ports[i])) for i, guid in enumerate(fabric.node_guid)}

    theirs, ours = ends(found[tool].fabric), ends(planned)
    cleaned = {guid: (name.replace("=", "-")[:63], ports) for guid, (name, ports) in ours.items()}
    assert theirs == cleaned
    fabric = found[tool].fabric
    lids = dict(zip(fabric.end_guid.tolist(), fabric.discovered_lid.tolist(), strict=True))
    plugged = np.flatnonzero(planned.end_switch >= 0)
    assert [lids[int(guid)] for guid in planned.end_guid[plugged]] == [7 * (i + 1) for i in range(len(plugged))]


@pytest.mark.parametrize("name", ["fdr10-mesh", "two-frames", "frame"])
def test_a_real_fabric_that_is_written_again_comes_back(tmp_path: Path, name: str) -> None:
    fabric = twin(name)
    with simulated(fabric, tmp_path) as subnet:
        found = parse_ibnetdiscover(subnet.ibnetdiscover())
    assert found.skipped == ()
    assert channels(found.fabric) == channels(fabric)
    assert sorted(found.fabric.names) == sorted(fabric.names)
