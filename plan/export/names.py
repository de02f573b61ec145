"""Names as other programs take them: of NVIDIA's tools, YAML, Slurm and shells.

To NVIDIA's tools a switch or server is a system: it has a type, a name, and ports with names of their own.
"""

from __future__ import annotations

import json
import re

from topo import Fabric, HeddleError, Kind, vendor_name


def adapter_parts(fabric: Fabric, node: int) -> tuple[str, str]:
    """Server and device of an adapter: ``gpu0001`` and ``mlx5_0``."""
    host, name = fabric.server_of(node), fabric.names[node]
    if name.startswith(f"{host} "):
        return host, name.removeprefix(f"{host} ")
    return name.replace(" ", "-"), "mlx5_0"


def host_devices(fabric: Fabric) -> dict[str, list[str]]:
    """Adapters of each server in this subnet, in order."""
    devices: dict[str, list[str]] = {}
    for node in range(fabric.n_switches, fabric.n_nodes):
        if fabric.kind[node] == Kind.HCA:
            host, device = adapter_parts(fabric, node)
            devices.setdefault(host, []).append(device)
    return devices


def system_name(fabric: Fabric, node: int) -> str:
    """Name of a switch or server, without blanks or slashes, which a ``.topo`` file cannot hold."""
    return word_of(fabric.label(node) if fabric.kind[node] == Kind.SWITCH else adapter_parts(fabric, node)[0])


def system_type(fabric: Fabric, node: int, devices: dict[str, list[str]]) -> str:
    """Type of a system: a switch's model with NVIDIA's leading M, or a server by its last adapter."""
    if fabric.kind[node] == Kind.SWITCH:
        model = fabric.model_of(node) or "switch"
        return word_of(vendor_name(model))
    return word_of(f"HCA_{devices[adapter_parts(fabric, node)[0]][-1]}")


def word_of(name: str) -> str:
    """Return a name without what a ``.topo`` file and the name of a file cannot hold, or take for their own."""
    return re.sub(r"[\s/#\\]", "-", name).lstrip(".") or "-"


def port_name(fabric: Fabric, port: int) -> str:
    """Return the name of a port at its system: ``P21`` at a switch, ``mlx5_0/P1`` at a server."""
    node, name = int(fabric.port_node[port]), f"P{fabric.port_number[port]}"
    return name if fabric.kind[node] == Kind.SWITCH else f"{word_of(adapter_parts(fabric, node)[1])}/{name}"


def yaml_text(text: str) -> str:
    """Return a text as YAML, in double quotes whatever it is: ``on`` and ``1e3`` are no text without them.

    Both versions of YAML read it alike; what is not printable is escaped.

    >>> print(yaml_text("a: [b]"))
    "a: [b]"
    """
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in quoted)


def slurm_word(name: str) -> str:
    """Return a name as a word of Slurm's files, which know no quotes for it: nothing in it ends or extends it.

    >>> slurm_word("SwitchX-2 0x2c9,[1]")
    'SwitchX-2-0x2c9--1-'
    """
    return re.sub(r"[\s\"'#=,\\\[\]]", "-", name) or "-"


def checked_word(name: str, what: str) -> str:
    """Return a name that shells, MPI and Slurm take as it is; HeddleError for any other."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*", name):
        raise HeddleError(f"found {what} {name[:80]!r}; expected letters, digits and any of -_.: in files of ranks")
    return name
