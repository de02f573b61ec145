"""What the catalog says of the devices of a fabric: their InfiniBand device ids, and the latency of each hop.

Ids of NVIDIA (Mellanox) devices as their drivers and firmware tools list them: the PCI table of the Linux ``mlx4`` and
``mlx5`` drivers for adapters, ``mstflint``'s device table for switches; each one that is marked below was also seen in
dumps of real fabrics.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog, load_catalog
from topo.errors import plural
from topo.fabric import Fabric, Kind, frozen
from topo.speeds import SPEEDS

MELLANOX_VENDOR = 0x2C9
"""Vendor id (IEEE OUI) of Mellanox, which NVIDIA's InfiniBand devices still carry."""

AGGREGATION_DEVICE = 0xCF09
"""Device id of a SHARP aggregation node (seen)."""

CHIPS: dict[int, str] = {
    0xBD36: "InfiniScale-IV",  # seen
    0xC738: "SwitchX",  # seen
    0xCB20: "Switch-IB",  # seen
    0xCF08: "Switch-IB-2",  # seen
    0xD2F0: "Quantum",  # seen
    0xD2F2: "Quantum-2",  # seen
    0xD2F4: "Quantum-3",
    0x5A44: "InfiniHost",  # seen
    0x6340: "ConnectX",  # seen
    0x673C: "ConnectX-2",  # seen
    0x1003: "ConnectX-3",  # seen
    0x1007: "ConnectX-3-Pro",
    0x1011: "Connect-IB",
    0x1013: "ConnectX-4",  # seen
    0x1017: "ConnectX-5",  # seen
    0x1019: "ConnectX-5-Ex",  # seen
    0x101B: "ConnectX-6",  # seen
    0x1021: "ConnectX-7",  # seen
    0x1023: "ConnectX-8",
    0xA2D6: "BlueField-2",
    0xA2DC: "BlueField-3",
}
"""Chip of each device id."""

DEVICE_IDS = {chip: device for device, chip in CHIPS.items()}

# The chip that made each generation of links common: (generation, switch, adapter), oldest first.
USUAL = (
    ("QDR", "InfiniScale-IV", "ConnectX-2"),
    ("FDR", "SwitchX", "ConnectX-3"),
    ("EDR", "Switch-IB-2", "ConnectX-5"),
    ("HDR", "Quantum", "ConnectX-6"),
    ("NDR", "Quantum-2", "ConnectX-7"),
    ("XDR", "Quantum-3", "ConnectX-8"),
)

VENDOR_FAMILIES = ("QM", "CS", "SB", "SN")
"""What the models of NVIDIA's switches begin with in its catalogue; on the device an ``M`` stands before it."""


def device_id(fabric: Fabric, node: int, catalog: Catalog | None = None) -> int:
    """Return the InfiniBand device id of a node.

    The chip of its model decides, as the catalog names it, or the model itself where that is the name of a chip. An
    unknown model gets the usual chip for the fastest of its links. ``catalog`` is what ships when left out.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> hex(topo.device_id(fabric, 0)), hex(topo.device_id(fabric, fabric.n_switches))
    ('0xd2f0', '0x101b')
    """
    if fabric.kind[node] == Kind.AGGREGATION:
        return AGGREGATION_DEVICE
    name, known = fabric.model_of(node), catalog or _shipped()
    models = [known.switches.get(name), known.switches.get(name.removeprefix("M")), known.hcas.get(name)]
    for chip in (name, *(model.chip for model in models if model)):
        if chip in DEVICE_IDS:
            return DEVICE_IDS[chip]
    fastest = fabric.speed[fabric.ports_of(node)].max(initial=0)
    usual = next((row for row in USUAL if SPEEDS.index(row[0]) >= fastest), USUAL[-1])
    return DEVICE_IDS[usual[1 if fabric.kind[node] == Kind.SWITCH else 2]]


def vendor_name(model: str) -> str:
    """Return the model of a switch as the device itself says it.

    Examples
    --------
    >>> from topo.catalog.devices import vendor_name
    >>> vendor_name("QM8700"), vendor_name("Quantum-2")
    ('MQM8700', 'Quantum-2')
    """
    return f"M{model}" if model.startswith(VENDOR_FAMILIES) else model


def list_frames(fabric: Fabric, subnet: int, catalog: Catalog | None) -> dict[int, str]:
    """Return the frame of each switch that is a chip of one by the catalog.

    A chip that is named as firmware does (``spine0/L01/U1``) is in the frame ``spine0``; others are the whole tree of
    their zone, ``CS8500-0-1`` of zone 1 of subnet 0.
    """
    frames = [catalog is not None and name in catalog.switches and catalog.switches[name].chips > 1
              for name in fabric.models]  # fmt: skip
    chips = np.flatnonzero(np.array([*frames, False])[fabric.model[: fabric.n_switches]]).tolist()  # -1 is unknown
    named = ((node, *fabric.label(node).partition("/")) for node in chips)
    return {
        node: name if inside else f"{fabric.model_of(node)}-{subnet}-{fabric.zone[node]}"
        for node, name, inside, _ in named
    }


_shipped = cache(load_catalog)

CABLE_S_PER_M = 4.9e-9
"""Light in glass of refractive index 1.47; copper is 4.5 (`configs/catalog/figures.csv` has the sources)."""

UNKNOWN_CABLE_M = 10.0
"""Length of a cable that no floor plan gives: 49 ns. Cables in the catalog are 0.5 to 100 m long, 2.5 to 490 ns."""

UNKNOWN_SWITCH_S = 400e-9
"""Latency of a switch that the catalog does not give, port to port. Between hosts on different leaves of a network at
400 Gb/s, 64 bytes take 0.9 us longer than between hosts on one leaf (DeepSeek-AI, arXiv 2505.09343, 3.7 and 2.8 us),
which is two switches and two cables more. Published figures go down to 90 ns (QM8700)."""


class HopLatencies(NamedTuple):
    """How long a header takes over each link, and what was not known of it."""

    time_s: NDArray[np.float64]
    """(P,) seconds until a header that a port sends may leave the node at the other end of its cable."""
    assumed: tuple[str, ...]
    """What stands for figures that are not known; empty where all are."""


def hop_latencies(fabric: Fabric, catalog: Catalog) -> HopLatencies:
    """Return the latency of each link, with `UNKNOWN_SWITCH_S` and `UNKNOWN_CABLE_M` where a figure is missing.

    The lengths of cables follow from a floor plan, latencies of switches are ``latency_ns`` of the catalog, port to
    port; adapters count for nothing.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> found = topo.hop_latencies(fabric, topo.load_catalog())
    >>> f"{found.time_s[fabric.port_of(fabric.ends()[0])] * 1e9:.0f} ns"
    '139 ns'
    >>> found.assumed
    ('10 m for each of 62 cables of unknown length',)
    """
    far = fabric.peer_node
    plugged, into_switch = far >= 0, (far >= 0) & (far < fabric.n_switches)
    of_model = [catalog.switches[name].latency_ns if name in catalog.switches else None for name in fabric.models]
    switch = np.array([np.nan if ns is None else ns * 1e-9 for ns in [*of_model, None]])[fabric.model[far]]
    length = fabric.length_m if len(fabric.length_m) else np.full(fabric.n_ports, np.nan)
    assumed = []
    if models := np.unique(fabric.model[far[into_switch & np.isnan(switch)]]).tolist():
        names = ", ".join(fabric.models[model] if model >= 0 else "unknown model" for model in models)
        assumed.append(f"{UNKNOWN_SWITCH_S * 1e9:.0f} ns for switches without a latency in the catalog ({names})")
    if missing := int(np.count_nonzero(plugged & np.isnan(length))):
        cables = plural(missing // 2, "cable")
        assumed.append(f"{UNKNOWN_CABLE_M:g} m for each of {cables} of unknown length")
    time_s = np.where(plugged, np.nan_to_num(length, nan=UNKNOWN_CABLE_M), 0.0) * CABLE_S_PER_M
    time_s += np.where(into_switch, np.nan_to_num(switch, nan=UNKNOWN_SWITCH_S), 0.0)
    return HopLatencies(frozen(time_s), tuple(assumed))
