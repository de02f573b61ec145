"""Panels: the cage of each port, the plugs that a cage takes, and the printed label of each port.

A cage takes one transceiver or one end of a copper cable. That of a Quantum-2 switch holds two ports (cage 11 is ports
``11/1`` and ``11/2``), and a transceiver in it takes two fibres, one a port; that of a DGX H100 holds two adapters,
which are its plugs ``1/1`` to ``4/2``. A port that is split in two has a number behind its own: ``7/1`` and ``7/2`` of
an HDR switch. Quantum-X800 prints ``sw11p1``, as its operating system NVOS calls its ports (NVIDIA's manuals of QM97X0,
Q3400 and DGX H100).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from topo.catalog.load import Catalog
from topo.catalog.models import HcaModel, NodeModel, SwitchModel
from topo.errors import plural
from topo.fabric import Fabric, Frozen, Kind
from topo.hostlist import device_number
from topo.speeds import LinkSpeed
from topo.table import Brief

PLUG_LANES = 4
"""Lanes in each direction of a fibre with an MPO-12 plug; two wavelengths for each in a duplex one."""


@dataclass(frozen=True)
class Panel(Frozen, Brief):
    """The panels of all devices of one subnet with P ports; numbers are unique over all subnets of the cluster."""

    cage: NDArray[np.int32]
    """(P,) number of the cage of each port, -1 for a port that is not on a panel."""
    plug: NDArray[np.int32]
    """(P,) number of the fibre plug of each port; the halves of an HDR port share one."""
    ports: NDArray[np.int32]
    """(P,) ports in the cage of each port, with or without cable."""
    plugs: NDArray[np.int32]
    """(P,) plugs of a transceiver in the cage."""
    connector: tuple[str, ...]
    """(P,) connector of the cage, such as ``OSFP``; empty if unknown."""
    labels: tuple[str, ...]
    """(P,) label of the port as printed on a switch, ``21``, ``11/1`` or ``sw11p1``; in a server cage and plug where
    adapters share cages, ``4/2``, else the device, ``mlx5_8`` or ``bmc``."""

    def _brief(self) -> str:
        cages = len(set(self.cage.tolist()) - {-1})
        return f"of {plural(len(self.labels), 'port')} in {plural(cages, 'cage')}"


def panels(fabrics: Sequence[Fabric], catalog: Catalog) -> tuple[Panel, ...]:
    """Return the panels of all subnets of a cluster; adapters of different subnets may share a cage of their server.

    Examples
    --------
    >>> import topo
    >>> network = {"shape": "fat-tree", "switch": "QM9700"}
    >>> cluster = topo.parse({"name": "x", "nodes": {"gpu": {"model": "dgx-b200", "count": 2}}, "network": network})
    >>> (panel,) = topo.panels(cluster.fabrics, cluster.catalog)
    >>> panel.labels[0], panel.labels[1], panel.labels[63]
    ('1/1', '1/2', '32/2')
    """
    of_switch = cache(lambda name, ports: _switch_ports(catalog.switches.get(name), ports))
    of_server: dict[tuple[str, int], int] = {}
    cages = plugs = 0
    result = []
    for fabric in fabrics:
        numbers = np.full((4, fabric.n_ports), -1, np.int32)  # as the first four fields of a panel
        connector, labels = [""] * fabric.n_ports, [""] * fabric.n_ports
        for node in np.flatnonzero(np.isin(fabric.kind, (Kind.SWITCH, Kind.HCA, Kind.DEVICE))).tolist():
            first, end = int(fabric.port_offset[node]), int(fabric.port_offset[node + 1])
            model = fabric.model_of(node)
            if fabric.kind[node] == Kind.SWITCH:
                slots, labels[first:end], connector[first:end] = of_switch(model, end - first)
                numbers[:, first:end] = slots + np.array([[cages], [plugs], [0], [0]])
                cages, plugs = cages + int(slots[0].max()) + 1, plugs + int(slots[1].max()) + 1
                continue
            host, device = fabric.server_of(node), device_number(fabric.names[node]) or 0
            adapter = catalog.hcas.get(model)
            server = catalog.nodes.get(fabric.server_model_of(node))
            adapters = _adapters_in_cage(server, device, adapter, catalog)
            label = _printed(fabric.names[node].partition(" ")[2] or "mlx5_0", device, adapters)
            for port in range(first, end):
                key = (host, device // adapters) if adapters > 1 else (f"{fabric.names[node]}:{port}", -1)
                if key not in of_server:
                    of_server[key], cages = cages, cages + 1
                numbers[:, port] = of_server[key], plugs, adapters, adapters
                plugs += 1
                connector[port] = (adapter and adapter.connector) or ""
                labels[port] = label if end - first == 1 else f"{label}:{port - first + 1}"
        cage, plug, held, taken = numbers
        result.append(Panel(cage, plug, held, taken, tuple(connector), tuple(labels)))
    return tuple(result)


def _switch_ports(model: SwitchModel | None, ports: int) -> tuple[NDArray[np.int32], list[str], list[str]]:
    """Return (4, ports) cage, plug, ports and plugs in the cage of each port of one switch, labels, and connectors.

    If a switch has more ports than its chip, its first ports are split: ports 1 and 2 are the halves of the first whole
    port, and so on. Separate uplink ports come last, each in its own cage.
    """
    chip = (model.chip_radix or model.radix) if model else ports
    own = model.own_ports(ports) if model else ports
    halves = 2 * max(own - chip, 0) if model and model.split_radix else 0
    number = np.arange(own)
    whole = np.where(number < halves, number // 2, number - halves // 2)
    in_cage = chip // model.cages if model and model.chips == 1 and model.cages and model.cages < chip else 1
    cage, place = np.divmod(whole, in_cage)
    half = np.where(number < halves, number % 2 + 1, 0)
    plugs_in_port = _plugs(model.speed) if model else 1
    plug = whole * plugs_in_port + np.minimum(np.maximum(half - 1, 0), plugs_in_port - 1)
    style = "sw{}p{}" if model and model.speed.generation == "XDR" else "{}/{}" if in_cage > 1 else "{}"
    labels = [
        style.format(c, p) + ((f"s{h}" if style[0] == "s" else f"/{h}") if h else "")
        for c, p, h in zip((cage + 1).tolist(), (place + 1).tolist(), half.tolist(), strict=True)
    ]
    slots = np.stack([cage, plug, np.bincount(cage)[cage], np.full(own, in_cage * plugs_in_port)])
    connectors = [(model and model.connector) or ""] * own
    if own < ports and model:
        each = _plugs(model.uplink_speed or model.speed)
        further, full = np.arange(ports - own), np.ones(ports - own, np.int64)
        uplinks = np.stack([cage.max() + 1 + further, plug.max() + 1 + further * each, full, full * each])
        slots = np.concatenate([slots, uplinks], axis=1)
        labels += [str(int(cage.max()) + 2 + port) for port in further.tolist()]
        connectors += [model.uplink_connector or model.connector or ""] * len(further)
    return slots.astype(np.int32), labels, connectors


def _plugs(speed: LinkSpeed) -> int:
    """Return the number of fibre plugs of one port."""
    return max(speed.width // PLUG_LANES, 1)


def server_ports(server: NodeModel, catalog: Catalog) -> dict[str, HcaModel]:
    """Return the labels of the ports of a server's own adapters, each with its adapter.

    Examples
    --------
    >>> import topo
    >>> catalog = topo.load_catalog()
    >>> list(topo.server_ports(catalog.node("dgx-h100"), catalog))[6:]
    ['4/1', '4/2', 'mlx5_8', 'mlx5_9']
    """
    own = [server.adapter_model] * server.adapters
    own += [server.storage_adapter_model or server.adapter_model] * server.storage_adapters
    ports = {}
    for number, adapter in enumerate(map(catalog.hca, own)):
        in_cage = _adapters_in_cage(server, number, adapter, catalog)
        ports[_printed(f"{adapter.device}_{number}", number, in_cage)] = adapter
    return ports


def _adapters_in_cage(server: NodeModel | None, device: int, adapter: HcaModel | None, catalog: Catalog) -> int:
    """Return the number of adapters that share a cage with the ``device``-th of a server, itself included."""
    if server is None or not server.cages or device >= server.adapters:
        return 1
    own = adapter is not None and adapter.device == catalog.hca(server.adapter_model).device
    return max(server.adapters // server.cages, 1) if own else 1


def _printed(word: str, device: int, in_cage: int) -> str:
    """Return the label of an adapter's port: cage and plug in it where adapters share one, else the device."""
    return f"{device // in_cage + 1}/{device % in_cage + 1}" if in_cage > 1 else word
