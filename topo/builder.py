"""Builds a `Fabric` node by node and link by link, and refuses what cannot be plugged together or named apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np

from topo.errors import DesignError
from topo.fabric import GUID_PREFIX, MANAGEMENT_PORT, Fabric, Kind, Role
from topo.speeds import LinkSpeed

MAX_END_PORTS = 300_000
"""Largest fabric that is built. A subnet has fewer LIDs, which routing checks; what is only priced may have more."""


def stable_guid(name: str) -> int:
    """Return a 64-bit GUID that depends only on the name. Its last byte is 0; GUIDs of ports count up from it."""
    digest = blake2b(name.encode(), digest_size=6).digest()
    return GUID_PREFIX | int.from_bytes(digest, "big") << 8


class FabricBuilder:
    """Collects nodes and links in any order; `build` freezes them into a `Fabric`.

    GUIDs follow from the names, so the same calls give the same fabric, whose `topo.Fabric.arrangement` is as given.

    Examples
    --------
    >>> import topo
    >>> builder, speed = topo.FabricBuilder("pair"), topo.LinkSpeed(4, "HDR")
    >>> leaves = [
    ...     builder.switch(f"leaf{n}", model="QM8700", radix=40, role=topo.Role.LEAF, level=1) for n in range(2)
    ... ]
    >>> for number, leaf in enumerate(leaves):
    ...     adapter = builder.adapter(
    ...         f"gpu{number}", "mlx5_0", model="ConnectX-6", host_model="pcie-a100", role=topo.Role.COMPUTE
    ...     )
    ...     builder.link(adapter, 1, leaf, 1, speed)
    >>> builder.link(leaves[0], 40, leaves[1], 40, speed)
    >>> builder.build()
    <Fabric pair: 2 switches, 2 servers>
    """

    def __init__(self, name: str, arrangement: str = "levels") -> None:
        self.name = name
        self.arrangement = arrangement
        self._models: dict[str, int] = {}
        self._hosts: dict[str, int] = {}
        self._host_model: list[int] = []
        # One row a node: name, kind, role, level, zone, model, host, GUID, ports.
        self._nodes: list[tuple[str, Kind, Role, int, int, int, int, int, int]] = []
        self._end_ports = 0
        self._plugged: dict[tuple[int, int], tuple[int, int, LinkSpeed]] = {}

    def switch(
        self, name: str, *, model: str, radix: int, role: Role, level: int, zone: int = -1, guid: int | None = None
    ) -> int:
        """Add a switch with ports 1 to ``radix``; return its key for `link`.

        DesignError when it has more ports, or the fabric more end ports, than `MAX_END_PORTS`.

        Parameters
        ----------
        name : str
            NodeDescription, such as ``MF0;leaf01:MQM8700/U1``; no other node has it.
        model : str
            Model in the catalog; empty where it is unknown.
        level : int
            1 for switches with servers, 2 for those above them, and so on.
        guid : int, optional
            64-bit node GUID; by default one that follows from the names of fabric and switch.
        """
        return self._add(name, Kind.SWITCH, role, level, zone, model, -1, radix, guid)

    def adapter(
        self, host: str, device: str, *, model: str, host_model: str, role: Role, zone: int = -1, ports: int = 1
    ) -> int:
        """Add an adapter (``mlx5_0``) of a host, named as NVIDIA's tools expect; as `switch` does."""
        if host not in self._hosts:
            self._hosts[host] = len(self._hosts)
            self._host_model.append(self._model(host_model))
        return self._add(f"{host} {device}", Kind.HCA, role, 0, zone, model, self._hosts[host], ports)

    def device(self, name: str, *, model: str, zone: int = -1) -> int:
        """Add the management port, of a ``model``, of a device that is no host; as `switch` does."""
        return self._add(name + MANAGEMENT_PORT, Kind.DEVICE, Role.MANAGEMENT, 0, zone, model, -1, 1)

    def zone_of(self, key: int) -> int:
        """Return the zone of a node that was added."""
        return self._nodes[key][4]

    def link(self, a: int, a_port: int, b: int, b_port: int, speed: LinkSpeed) -> None:
        """Connect two ports, by the keys of their nodes and numbers from 1; DesignError for one that is not free."""
        for node, port in ((a, a_port), (b, b_port)):
            name, ports = self._nodes[node][0], self._nodes[node][8]
            if not 1 <= port <= ports:
                raise DesignError(f"{name} has ports 1 to {ports}: there is no port {port} to plug a cable into")
            if (node, port) in self._plugged:
                raise DesignError(f"port {port} of {name} already holds a cable")
        if (a, a_port) == (b, b_port):
            raise DesignError(f"port {a_port} of {self._nodes[a][0]} cannot be plugged into itself")
        self._plugged[a, a_port] = (b, b_port, speed)
        self._plugged[b, b_port] = (a, a_port, speed)

    def build(self) -> Fabric:
        """Return the fabric: switches first, then adapters, each in the order in which they were added.

        DesignError when two nodes have the same name or GUID.
        """
        order = sorted(range(len(self._nodes)), key=lambda key: self._nodes[key][1] != Kind.SWITCH)
        index_of = np.empty(len(order), np.int64)
        index_of[order] = np.arange(len(order))
        rows = [self._nodes[key] for key in order]
        names, kinds, roles, levels, zones, models, hosts, guids, ports = zip(*rows, strict=True) if rows else ((),) * 9
        self._refuse_twins(names, guids)
        offset = np.concatenate([[0], np.cumsum(np.array(ports, np.int64))]).astype(np.int32)
        peer, width = np.full(offset[-1], -1, np.int32), np.full(offset[-1], 4, np.uint8)
        speed = np.zeros(offset[-1], np.uint8)
        for (a, a_port), (b, b_port, link_speed) in self._plugged.items():
            port = offset[index_of[a]] + a_port - 1
            peer[port] = offset[index_of[b]] + b_port - 1
            width[port] = link_speed.width
            speed[port] = link_speed.index
        node_guid = np.array(guids, np.uint64)
        kind = np.array(kinds, np.uint8)
        # ibsim numbers an adapter's port GUIDs as node GUID + port; so do we, and the same file works in both worlds.
        owner = np.repeat(np.arange(len(rows)), np.diff(offset))
        number = np.arange(offset[-1]) - offset[owner] + 1
        port_guid = node_guid[owner] + np.where(kind[owner] == Kind.SWITCH, 0, number).astype(np.uint64)
        return Fabric(
            name=self.name,
            kind=kind,
            role=np.array(roles, np.uint8),
            level=np.array(levels, np.int8),
            zone=np.array(zones, np.int16),
            model=np.array(models, np.int16),
            models=tuple(self._models),
            node_guid=node_guid,
            names=tuple(names),
            host=np.array(hosts, np.int32),
            hosts=tuple(self._hosts),
            host_model=np.array(self._host_model, np.int16),
            port_offset=offset,
            peer=peer,
            width=width,
            speed=speed,
            port_guid=port_guid,
            arrangement=self.arrangement,
        )

    def _model(self, name: str) -> int:
        return self._models.setdefault(name, len(self._models))

    def _add(
        self,
        name: str,
        kind: Kind,
        role: Role,
        level: int,
        zone: int,
        model: str,
        host: int,
        ports: int,
        guid: int | None = None,
    ) -> int:
        if ports > MAX_END_PORTS:
            raise DesignError(f"{name} would have {ports:,} ports; expected at most {MAX_END_PORTS:,}")
        self._end_ports += 1 if kind == Kind.SWITCH else ports
        if self._end_ports > MAX_END_PORTS:
            raise DesignError(
                f"more than {MAX_END_PORTS:,} switches and adapter ports in {self.name}: split the cluster into planes"
            )
        guid = stable_guid(f"{self.name}/{name}") if guid is None else guid
        self._nodes.append((name, kind, role, level, zone, self._model(model), host, guid, ports))
        return len(self._nodes) - 1

    def _refuse_twins(self, names: tuple[str, ...], guids: tuple[int, ...]) -> None:
        for what, values in (("name", names), ("GUID", guids)):
            if len(set(values)) < len(values):
                twin = Counter[str | int](values).most_common(1)[0][0]
                shown = f"0x{twin:016x}" if isinstance(twin, int) else twin
                raise DesignError(f"two nodes of {self.name} have the {what} {shown}; each must have its own")


SWITCH_PREFIX = "sw-"
"""Prefix of the names of switches that would have the name of a group of servers."""


def distinct_names(fabrics: Sequence[Fabric], cluster: str, groups: Iterable[str]) -> tuple[Fabric, ...]:
    """Return the planned subnets of a cluster with unique names of switches, which differ in more than a number.

    The first subnet that has a ``leaf0`` keeps the name. In another subnet the switch is called by the subnet,
    ``storage-leaf0``; where servers are called ``leaf0`` (their names begin with those of ``groups``) it is
    ``sw-leaf0``. The names of all subnets begin with that of the ``cluster``. GUIDs do not change.
    """
    taken = set(groups)
    renamed = []
    for fabric in fabrics:
        own, n = fabric.name.removeprefix(cluster).lstrip("-"), fabric.n_switches
        stems = {fabric.label(switch).rstrip("0123456789") for switch in range(n)}
        prefix = f"{own}-" if own and stems & taken else ""
        while any(prefix + stem in taken for stem in stems):
            prefix = SWITCH_PREFIX + prefix
        taken |= {prefix + stem for stem in stems}
        switches = (name.replace("MF0;", f"MF0;{prefix}", 1) for name in fabric.names[:n])
        names = (*switches, *fabric.names[n:])
        renamed.append(replace(fabric, names=names) if prefix else fabric)
    return tuple(renamed)
