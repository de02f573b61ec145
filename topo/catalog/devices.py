"""What the catalog says of the devices of a fabric: their InfiniBand device ids, and the latency of each hop.

Ids of NVIDIA (Mellanox) devices as their drivers and firmware tools list them: the PCI table of the Linux ``mlx4`` and
``mlx5`` drivers for adapters, ``mstflint``'s device table for switches; each one that is marked below was also seen in
dumps of real fabrics.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog, load_catalog
from topo.errors import HeddleError, plural
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
    unknown model gets the usual chip for the fastest of its links.

    Parameters
    ----------
    fabric : Fabric
        The fabric.
    node : int
        A switch, adapter, router or aggregation node of it.
    catalog : Catalog, optional
        Models of hardware; by default those that ship.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> hex(topo.device_id(fabric, 0)), hex(topo.device_id(fabric, fabric.n_switches))
    ('0xd2f0', '0x101b')
    """
    if fabric.kind[node] == Kind.AGGREGATION:
        return AGGREGATION_DEVICE
    name = fabric.model_of(node)
    known = catalog or _shipped()
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


_shipped = cache(load_catalog)


CABLE_S_PER_M = 4.9e-9
"""Light in glass of refractive index 1.47; copper is 4.5 (`configs/catalog/figures.csv` has the sources)."""


def hop_latencies(fabric: Fabric, catalog: Catalog) -> NDArray[np.float64]:
    """Return (P,) seconds until a header that a port sends may leave the node at the other end of its cable.

    Parameters
    ----------
    fabric
        With a floor plan: it has the lengths of cables.
    catalog
        With ``latency_ns`` of its switches, port to port; adapters count for nothing.

    Raises
    ------
    HeddleError
        When the latency of a switch or the length of a cable is not known.

    Examples
    --------
    >>> import dataclasses, numpy, topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> fabric = dataclasses.replace(fabric, length_m=numpy.full(fabric.n_ports, 10.0))
    >>> times = topo.hop_latencies(fabric, topo.load_catalog())
    >>> f"{times[fabric.port_of(fabric.ends()[0])] * 1e9:.0f} ns"
    '139 ns'
    """
    far = fabric.peer_node
    plugged, into_switch = far >= 0, (far >= 0) & (far < fabric.n_switches)
    of_model = [catalog.switches[name].latency_ns if name in catalog.switches else None for name in fabric.models]
    switch = np.array([np.nan if ns is None else ns * 1e-9 for ns in [*of_model, None]])[fabric.model[far]]
    length = fabric.length_m if len(fabric.length_m) else np.full(fabric.n_ports, np.nan)
    unknown = []
    if models := sorted({fabric.model[node] for node in far[into_switch & np.isnan(switch)].tolist()}):
        names = ", ".join(fabric.models[model] if model >= 0 else "unknown model" for model in models)
        unknown.append(f"no latency_ns of its switches ({names}) in the catalog")
    if missing := int(np.count_nonzero(plugged & np.isnan(length))):
        unknown.append(f"no length of {plural(missing // 2, 'cable')}, which a floor plan would say")
    if unknown:
        raise HeddleError(
            f"{fabric.name or 'the fabric'} has {' and '.join(unknown)}; expected how long a packet takes over a link: "
            "give --hop-latency-ns, of a cable and a switch together, such as 150"
        )
    return frozen(np.where(plugged, length, 0.0) * CABLE_S_PER_M + np.where(into_switch, switch, 0.0))
