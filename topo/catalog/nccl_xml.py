"""The inside of a server as NCCL describes it (``NCCL_TOPO_DUMP_FILE``): reader of its XML as a model of a server.

Elements and rates are those of NCCL 2.30, ``src/graph/xml.cc`` and ``topo.cc``: a ``cpu`` holds ``pci`` devices, which
hold others below bridges, ``gpu`` with its ``nvlink``, and ``nic`` with its ``net``. PCIe carries what NCCL counts of
it, 12 GB/s for 16 lanes of 8 GT/s; a link of NVLink what ``topo.h`` has for the generation of the GPU. The adapters of
jobs are those below bridges that GPUs hang below, or the fastest where there are none; GPUs and adapters are taken to
be numbered in the order of bridges. What NCCL does not tell, such as host memory, is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from topo.budget import CATALOG_BYTES
from topo.catalog.models import NodeModel
from topo.errors import FormatError
from topo.fabric import Role
from topo.files.text import read_text

PCIE_LANE = {"2.5": 15, "5": 30, "8": 60, "16": 120, "32": 240, "64": 480}
"""What a lane of so many GT/s carries in 100 Mb/s (``kvDictPciGen``)."""
UNKNOWN_LANE, LANES = 60, 16
"""What NCCL takes where a dump has no rate that it knows, and no width."""
NVLINK_GBYTE = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}
"""GB/s of a link in one direction from each compute capability on, but that of 86 for it alone (``topo.h``)."""
GPU_OF_CAPABILITY = {70: "V100", 80: "A100", 90: "H100", 100: "B200", 103: "B300"}
CPU_OF_VENDOR = {"AuthenticAMD": "EPYC", "GenuineIntel": "Xeon"}
NVSWITCH = "0x068000"
"""Class of a PCI device that is a switch of NVLink."""
BRIDGE = "0x0604"
"""How the class of one begins."""


class _Gpu(NamedTuple):
    bus: str
    """PCI address."""
    below: int
    """Which device below a processor it hangs below, counted from 0; -1 where it hangs on the processor itself."""
    gbyte_per_s: float
    """Of its own PCIe link."""
    element: ElementTree.Element


class _Net(NamedTuple):
    below: int
    gbyte_per_s: float
    mbps: int


def read_server(path: Path) -> NodeModel:
    """Read a server from a file; see `parse_server`."""
    return parse_server(read_text(path, CATALOG_BYTES), path.name, str(path))


def parse_server(text: str, name: str, path: str = "") -> NodeModel:
    """Return the server that NCCL's XML describes, as a model of this name.

    FormatError for what is no such XML, has no GPU or no adapter, GPUs of several kinds, or a structure that a model
    cannot say: GPUs or adapters not in equal parts below bridges, NVLink that joins neither pairs nor all.
    """

    def refuse(found: str, expected: str) -> FormatError:
        return FormatError(f"found {found}; expected {expected}", path)

    if re.search(r"<!(DOCTYPE|ENTITY)", text):
        raise refuse("a document type", "the XML that NCCL writes, which has none")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise refuse(f"no XML ({error})", "what NCCL writes into NCCL_TOPO_DUMP_FILE") from None
    if root.tag != "system":
        raise refuse(f"the element {root.tag[:40]!r}", "<system>, as NCCL writes it into NCCL_TOPO_DUMP_FILE")
    if len({cpu.get("host_hash") for cpu in root.iterfind("cpu")}) > 1:
        raise refuse("several hosts", "the dump of one server, without NVLink to others (NCCL_MNNVL_ENABLE=0)")
    gpus: list[_Gpu] = []
    nets: list[_Net] = []
    uplinks: dict[int, float] = {}
    for number, top in enumerate(device for cpu in root.iterfind("cpu") for device in cpu):
        below = number if top.get("class", "").startswith(BRIDGE) else -1
        uplinks[below] = _rate(top)
        for at in [top] if top.tag == "nic" else top.iter("pci"):
            gpus += [_Gpu(at.get("busid", "").lower(), below, _rate(at), gpu) for gpu in at.iterfind("gpu")]
            cards = [at] if at.tag == "nic" else at.findall("nic")
            nets += [_Net(below, _rate(at), _number(net, "speed")) for nic in cards for net in nic.iterfind("net")]
    shared = {gpu.below for gpu in gpus} - {-1}
    fastest = max((net.mbps for net in nets), default=0)
    near = [net for net in nets if net.below in shared] or [net for net in nets if net.mbps == fastest]
    if not gpus or not near:
        raise refuse(f"{len(gpus)} GPUs and {len(nets)} adapters", "a server with both")
    capability = {_number(gpu.element, "sm") for gpu in gpus}
    if len(capability) > 1:
        raise refuse(f"GPUs of compute capability {', '.join(map(str, sorted(capability)))}", "GPUs of one kind")
    for what, parts in (("GPUs", Counter(gpu.below for gpu in gpus)), ("adapters", Counter(net.below for net in near))):
        if shared and ({*parts} != shared or len({*parts.values()}) > 1):
            raise refuse(f"{what} below bridges as {sorted(parts.values())}", f"as many below each of {len(shared)}")
    sm = capability.pop()
    rates = [(least, rate) for least, rate in NVLINK_GBYTE.items() if least == sm or (least <= sm and least != 86)]
    joined, switches = _joined(gpus)
    if joined == 0:
        structures = "none, switches that join all, or links within equal groups in order"
        raise refuse("NVLink from some GPUs to some", structures)
    links = min(sum(_number(link, "count") for link in gpu.element.iterfind("nvlink")) for gpu in gpus)
    nvlink = links * max(rates)[1] if rates and joined > 1 else None
    vendors = {cpu.get("vendor", "") for cpu in root.iterfind("cpu")}
    return NodeModel(
        name=name,
        role=Role.COMPUTE,
        gpus=len(gpus),
        gpu=GPU_OF_CAPABILITY.get(sm, f"GPU of compute capability {sm}"),
        cpu=CPU_OF_VENDOR.get(next(iter(vendors))) if len(vendors) == 1 else None,
        adapters=len(near),
        adapter_model="",
        gpu_host_gbyte_per_s=min(gpu.gbyte_per_s for gpu in gpus),
        gpu_adapter_gbyte_per_s=min(*(gpu.gbyte_per_s for gpu in gpus), *(net.gbyte_per_s for net in near)),
        pcie_switches=len(shared) or None,
        pcie_switch_gbyte_per_s=min((uplinks[below] for below in shared), default=None),
        nvlink_used_gbyte_per_s=nvlink,
        nvlink_gpus=joined if joined > 1 else None,
        nvswitches=switches,
    )


def _joined(gpus: Sequence[_Gpu]) -> tuple[int, int | None]:
    """Return how many GPUs NVLink connects with one another, 1 without it, and the switches; 0 where it is neither."""
    targets = [
        {(link.get("target", "").lower(), link.get("tclass") == NVSWITCH) for link in gpu.element.iterfind("nvlink")}
        for gpu in gpus
    ]
    if not any(targets) or len(gpus) == 1:
        return 1, None
    if all(found and all(is_switch for _, is_switch in found) for found in targets):
        return len(gpus), len({target for found in targets for target, _ in found})
    size = 1 + len(targets[0])
    groups = [[gpu.bus for gpu in gpus[first : first + size]] for first in range(0, len(gpus), size)]
    wanted = [{(bus, False) for bus in group if bus != own} for group in groups for own in group]
    return (size, 0) if wanted == targets and len(groups[-1]) == size else (0, None)


def _rate(device: ElementTree.Element) -> float:
    """Return GB/s of the PCIe link of a device in one direction, as NCCL counts it."""
    match = re.match(r"(\d{1,3}(?:\.[1-9])?)(?:\.0)? GT/s", device.get("link_speed", ""))
    lane = PCIE_LANE.get(match[1], UNKNOWN_LANE) if match else UNKNOWN_LANE
    return lane * (_number(device, "link_width") or LANES) / 80


def _number(element: ElementTree.Element, name: str) -> int:
    text = element.get(name, "")
    return int(text) if re.fullmatch(r"\d{1,9}", text) else 0
