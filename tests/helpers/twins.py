"""Anonymised twins of real machines: what tests/fabrics holds, and how it was made.

A twin has the structure of its machine as our reader understands it: kinds, models, ports, cables, widths, speeds,
LIDs and which adapters share a server. Names and GUIDs are made, and the order of nodes is drawn, so that nothing tells
which node was which. What a switch or a host is for shows in the made name, as it did in the real one. Nodes keep their
port numbers, since today's engines depend on them.

To make them anew, from the folder that holds the dumps: ``python tests/helpers/twins.py FOLDER``.
"""

import gzip
import hashlib
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

import numpy as np

from helpers.relabel import relabelled, with_guids
from topo.dumps.discovery import MANAGED_SWITCH
from topo.dumps.fabric_file import read_dump, read_fabric
from topo.dumps.ibnetdiscover import format_ibnetdiscover
from topo.fabric import Fabric, Kind

FOLDER = Path(__file__).parents[1] / "fabrics"
CHIP = re.compile(r"([^;]+;[^:]+):[^/]+/([LS])\d+/U\d+")
"""A chip of a frame: the frame, and whether the chip is on a line card (L) or on a spine card (S)."""


@dataclass(frozen=True)
class Machine:
    """Where a dump is, and what its names say: each node takes the word of the first pattern that fits."""

    dump: str
    words: tuple[tuple[str, str], ...]


def _dump(folder: str) -> str:
    return f"{folder}/ibnetdiscover.gz"


MACHINES = {
    "hdr-pod": Machine(_dump("azure_sat11_2021"), ((":MQM8700/", "leaf"), ("ufm", "mgmt"))),
    "a100-superpod": Machine(
        _dump("clova_superpod_a100_2022"), (("^lf", "leaf"), ("^sp", "spine"), ("^ss", "core"), ("mgmt|ufm", "mgmt"))
    ),
    "frame": Machine(_dump("cs8500_frame_factory_2019"), (("^Quantum", "chip"),)),
    "qdr-directors": Machine(_dump("janus_is5600_2014"), (("^Infiniscale", "leaf"), ("^oss|^mds", "storage"))),
    "two-frames": Machine(
        _dump("kr_dual_cs8500_2021"), (("^Quantum", "leaf"), ("scr", "storage"), ("^ion", "io"), ("^agpu", "gpu"))
    ),
    "edr-frames": Machine(_dump("lassen_cs7500_2019"), (("^SwitchIB", "leaf"), ("ufm", "mgmt"))),
    "ndr-pod": Machine(
        _dump("ndr_dgx_2025"), (("IBLEAF", "leaf"), ("IBSPINE", "spine"), ("CUFM", "mgmt"), ("dgx", "gpu"))
    ),
    "fdr10-mesh": Machine(_dump("tartu_fdr10_2014"), ((";ib[1-6]:", "leaf"), (";ib[78]:", "spine"))),
    "zone": Machine("fireflyer_models/zone1_800hca_60sw.ibnetdiscover.txt.gz", (("leaf", "leaf"), ("spine", "spine"))),
    "two-zones": Machine(
        "fireflyer_models/twozone_1560hca_122sw.ibnetdiscover.txt.gz",
        (
            *((f"^{zone}-{word}", f"{zone}-{word}") for zone in ("zA", "zB") for word in ("leaf", "spine", "gpu")),
            ("^join", "joint"),
            ("^st", "storage"),
        ),
    ),
}
"""Every machine by the name of its twin."""


def path(name: str) -> Path:
    """The file of a twin."""
    return FOLDER / f"{name}.ibnetdiscover.gz"


@cache
def twin(name: str) -> Fabric:
    """A twin as `topo.read_fabric` reads it, with levels and zones; read once for all tests."""
    return read_fabric(path(name))


def make_twin(name: str, original: Fabric) -> Fabric:
    """The machine under other names and GUIDs, its nodes in another order."""
    rng = np.random.default_rng(int(hashlib.sha256(name.encode()).hexdigest()[:8], 16))
    fabric = with_guids(relabelled(original, rng, ports=False).fabric, rng)
    names = _switch_names(fabric, MACHINES[name]) + _adapter_names(fabric, MACHINES[name])
    return replace(fabric, name=name, names=names)


def _word(machine: Machine, description: str, otherwise: str) -> str:
    return next((word for pattern, word in machine.words if re.search(pattern, description)), otherwise)


def _switch_names(fabric: Fabric, machine: Machine) -> tuple[str, ...]:
    """Numbered in the order of the twin, which is drawn; chips of one frame share its name, as they did."""
    count: Counter[str] = Counter()
    frames: dict[str, str] = {}
    names = []
    for description in fabric.names[: fabric.n_switches]:
        managed = MANAGED_SWITCH.fullmatch(description)
        if managed and (chip := CHIP.fullmatch(description)):
            frame = frames.setdefault(chip[1], f"frame{len(frames) + 1}")
            count[frame + chip[2]] += 1
            names.append(f"MF0;{frame}:{managed[1]}/{chip[2]}{count[frame + chip[2]]:02}/U1")
        else:
            word = _word(machine, description, "switch")
            count[word] += 1
            names.append(f"MF0;{word}{count[word]:04}:{managed[1]}/U1" if managed else f"{word}{count[word]:04}")
    return tuple(names)


def _adapter_names(fabric: Fabric, machine: Machine) -> tuple[str, ...]:
    """Servers are numbered in the order of the twin; the adapters of one in the order of their names."""
    n = fabric.n_switches
    of_server: dict[int, list[int]] = {}
    for node in range(n, fabric.n_nodes):
        if fabric.kind[node] == Kind.HCA:
            of_server.setdefault(int(fabric.host[node]), []).append(node)
    count: Counter[str] = Counter()
    names = {}
    for nodes in of_server.values():
        word = _word(machine, fabric.names[nodes[0]], "node")
        count[word] += 1
        for index, node in enumerate(sorted(nodes, key=lambda node: fabric.names[node])):
            names[node] = f"{word}{count[word]:04} mlx5_{index}"
    return tuple(names.get(node, "Mellanox Technologies Aggregation Node") for node in range(n, fabric.n_nodes))


def twin_text(name: str, folder: Path) -> str:
    """The twin of a machine whose dump is in a folder, as ibnetdiscover would print it."""
    return format_ibnetdiscover(make_twin(name, read_dump(folder / MACHINES[name].dump).fabric))


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in MACHINES:
        path(each).write_bytes(gzip.compress(twin_text(each, Path(sys.argv[1])).encode(), 9, mtime=0))
