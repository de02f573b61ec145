"""ibsim reads what we write; ibnetdiscover and OpenSM find in it the cabling that we planned."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from topo.builder import FabricBuilder
from topo.discovery import Discovery
from topo.fabric import Fabric, Role
from topo.formats.fabric_file import read_fabric
from topo.formats.ibnetdiscover import format_ibnetdiscover
from topo.speeds import LinkSpeed

LIBRARY = "usr/lib/*/umad2sim/libumad2sim.so"
pytestmark = pytest.mark.peer("ibsim", "ibnetdiscover", "opensm", LIBRARY)

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
    return builder.build()


@contextmanager
def simulated(text: str, folder: Path) -> Iterator[dict[str, str]]:
    """Run ibsim on a fabric; yield the environment in which programs see it."""
    path = folder / "fabric.ibnetdiscover"
    path.write_text(text)
    environment = os.environ | {
        "IBSIM_SOCKNAME": f"heddle-cabling-{os.getpid()}",
        "OSM_CACHE_DIR": str(folder),
        "OSM_TMP_DIR": str(folder),
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
    }
    log = folder / "ibsim.log"
    with log.open("w") as output:
        command = ["ibsim", "-n", "-s", "-N", "8000", "-S", "1000", "-P", "80000", str(path)]
        simulator = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        try:
            for _ in range(300):
                if "Network simulator ready" in log.read_text():
                    break
                assert simulator.poll() is None, log.read_text()
                time.sleep(0.1)
            library = next(str(found) for found in Path("/").glob(LIBRARY))
            yield environment | {"LD_PRELOAD": library}
        finally:
            simulator.terminate()
            simulator.wait(10)


@pytest.fixture(scope="module")
def found(planned: Fabric, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Discovery]:
    folder = tmp_path_factory.mktemp("cabling")
    lids = np.zeros(planned.n_end_ports, np.uint16)
    plugged = planned.end_switch >= 0
    lids[plugged] = np.arange(1, plugged.sum() + 1) * 7
    with simulated(format_ibnetdiscover(planned, lids), folder) as environment:
        discover = subprocess.run(["ibnetdiscover"], env=environment, capture_output=True, timeout=60, check=True)
        (folder / "found.ibnetdiscover").write_bytes(discover.stdout)
        manager = [
            "opensm",
            "-o",
            "-e",
            "-f",
            "osm.log",
            "-D",
            "0x43",
            "--dump_files_dir",
            ".",
            "-n",
            "8",
            "-R",
            "minhop",
        ]
        subprocess.run(manager, env=environment, cwd=folder, capture_output=True, timeout=120, check=True)
    return {
        "ibnetdiscover": read_fabric(folder / "found.ibnetdiscover"),
        "opensm": read_fabric(folder / "opensm-subnet.lst"),
    }


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
