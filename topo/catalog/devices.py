"""InfiniBand device ids: which chip a node is built on.

Ids of NVIDIA (Mellanox) devices as their drivers and firmware tools list them: the PCI table of the Linux ``mlx4`` and
``mlx5`` drivers for adapters, ``mstflint``'s device table for switches; each one that is marked below was also seen in
dumps of real fabrics.
"""

from __future__ import annotations

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

DEVICES = {chip: device for device, chip in CHIPS.items()}

# The chip that made each generation of links common: (generation, switch, adapter), oldest first.
USUAL = (
    ("QDR", "InfiniScale-IV", "ConnectX-2"),
    ("FDR", "SwitchX", "ConnectX-3"),
    ("EDR", "Switch-IB-2", "ConnectX-5"),
    ("HDR", "Quantum", "ConnectX-6"),
    ("NDR", "Quantum-2", "ConnectX-7"),
    ("XDR", "Quantum-3", "ConnectX-8"),
)


def switch_device(model: str, speed: int) -> int:
    """Return the device id of a switch of a model, or the usual one for its fastest speed (index into `SPEEDS`).

    Examples
    --------
    >>> import topo
    >>> topo.switch_device("QM8700", topo.SPEEDS.index("HDR"))
    54000
    """
    return DEVICES.get(model) or DEVICES[_usual(speed)[1]]


def adapter_device(model: str, speed: int) -> int:
    """Return the device id of an adapter of a model, or the usual one for its fastest speed (index into `SPEEDS`).

    Examples
    --------
    >>> import topo
    >>> topo.adapter_device("MCX653105A-HDAT", topo.SPEEDS.index("HDR"))
    4123
    """
    return DEVICES.get(model) or DEVICES[_usual(speed)[2]]


def _usual(speed: int) -> tuple[str, str, str]:
    return next((row for row in USUAL if SPEEDS.index(row[0]) >= speed), USUAL[-1])
