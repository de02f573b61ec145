"""Builds a fabric from the records of a discovery tool, which may be incomplete or contradict each other.

A dump describes each cable from both of its ends. Where only one end does, the cable is taken as described; where the
two contradict each other, the cable is left out and counted: routing can do without a cable, but not with a wrong one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topo.budget import DUMP_CABLE_ENDS, DUMP_NODES, DUMP_PORTS, DUMP_SKIPPED
from topo.catalog.devices import AGGREGATION_DEVICE, CHIPS
from topo.errors import FormatError, plural
from topo.fabric import MAX_PORTS, MAX_UNICAST_LID, Fabric, Kind, Role
from topo.speeds import LinkSpeed, parse_link_speed

NodeKey = tuple[str, int]
"""``S``, ``H`` or ``R``, and the node GUID."""

LETTERS = {"switch": "S", "sw": "S", "ca": "H", "hca": "H", "rt": "R", "router": "R"}
"""Letter of a node in its `NodeKey`, by the words that tools have for it."""
KIND = {"S": Kind.SWITCH, "H": Kind.HCA, "R": Kind.ROUTER}
ROLE = {
    Kind.SWITCH: Role.SWITCH,
    Kind.HCA: Role.COMPUTE,
    Kind.AGGREGATION: Role.AGGREGATION,
    Kind.ROUTER: Role.MANAGEMENT,
}

MANAGED_SWITCH = re.compile(r"[^;:]{1,16};[^;:]{1,63}:([^;:/]{1,63})(?:/[^;:]{0,63})?")
HOST_AND_DEVICE = re.compile(r"(\S{1,63}) (\S{1,63})")
DEFAULT_HOSTS = frozenset({"localhost", "localhost.localdomain", "(none)"})
"""Default host names, which identify no machine."""


@dataclass(frozen=True, eq=False)
class Discovery:
    """A discovered fabric, and what of its dump was left out."""

    fabric: Fabric
    """Without levels and zones (`topo.dumps.levels` finds them). Its `discovered_lid` has 0 where the dump gives no
    LID, one out of range, or one that two end ports share; it is empty when there is none at all."""
    skipped: tuple[tuple[int, str], ...]
    """Line and reason of each omission."""
    merged: Discovery | None = None
    """The same with merged planes of XDR (`topo.dumps.planes`); None where there are no planes."""


@dataclass(slots=True)
class FoundNode:
    """A node as its record describes it."""

    key: NodeKey
    ports: int
    description: str
    line: int
    device: int = 0
    """Device id, 0 unknown."""
    system: int = 0
    """System image GUID, which the nodes of one chassis share; 0 unknown."""
    lid: int = 0
    """LID of a switch's port 0."""


@dataclass(slots=True)
class CableEnd:
    """A cable as one of its ends describes it; a GUID or LID of 0 is unknown, one of a switch's port is not used."""

    line: int
    node: NodeKey
    number: int
    far: NodeKey
    far_number: int
    guid: int = 0
    far_guid: int = 0
    lid: int = 0
    far_lid: int = 0
    width: int = 4
    speed: int = 0


@dataclass(slots=True)
class _Ports:
    """Attributes of all ports, while they are collected."""

    peer: list[int]
    width: list[int]
    speed: list[int]
    guid: list[int]
    lid: list[int]


class Records:
    """Records of a dump, collected by its reader."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.nodes: dict[NodeKey, FoundNode] = {}
        self.cables: list[CableEnd] = []
        self.skipped: list[tuple[int, str]] = []
        self.labels: dict[tuple[NodeKey, int], tuple[str, int | None]] = {}
        """Label of each port of XDR chips, and its plane, None if the dump does not give it (`topo.dumps.planes`)."""
        self.lmc = 0
        """Largest LMC of any port."""

    def refuse(self, message: str, line: int = 0) -> FormatError:
        """Return the error for a line, to be raised."""
        return FormatError(message, self.path, line)

    def skip(self, line: int, reason: str) -> None:
        """Record that something is left out."""
        self.skipped.append((line, reason))
        if len(self.skipped) > DUMP_SKIPPED.limit:
            raise DUMP_SKIPPED.exceeded(self.path, line)

    def node(self, node: FoundNode) -> bool:
        """Add a node; return whether it is new.

        FormatError if its number of ports is out of range or differs from an earlier record, or for too many nodes.
        """
        if not 1 <= node.ports <= MAX_PORTS:
            raise self.refuse(f"found {node.ports} ports; expected 1 to {MAX_PORTS}", node.line)
        if not node.description.isprintable():  # infiniband-diags print a space there; others must not steer terminals
            node.description = "".join(char if char.isprintable() else " " for char in node.description)
        known = self.nodes.setdefault(node.key, node)
        if known.ports != node.ports:
            found = f"found {node.ports} ports of a node that has {known.ports} in line {known.line}"
            raise self.refuse(f"{found}; expected one number", node.line)
        if len(self.nodes) > DUMP_NODES.limit:
            raise DUMP_NODES.exceeded(self.path, node.line)
        return known is node

    def rate(self, text: str, line: int) -> tuple[int, int]:
        """Return width and index of the generation of a link speed; an unknown word is recorded and read as 4xSDR."""
        speed = _link_speed(text)
        if speed is None:
            self.skip(line, f"link speed {text[:20]!r}, which is not known: taken as 4xSDR")
        return (speed.width, speed.index) if speed else (4, 0)

    def cable(self, cable: CableEnd) -> None:
        """Add one end of a cable."""
        self.cables.append(cable)
        if len(self.cables) > DUMP_CABLE_ENDS.limit:
            raise DUMP_CABLE_ENDS.exceeded(self.path, cable.line)

    def assemble(self, name: str = "", *, both_ends: bool = False) -> Discovery:
        """Build the fabric, by default called by its file: switches first, otherwise in the order of the records.

        FormatError for no node, too many ports, a port that does not exist, a port with two cables, and, of a format
        that names each cable from ``both_ends``, a cable that is named from one: then the file was cut.
        """
        if not self.nodes:
            raise self.refuse("no switch, adapter or router in it; expected a dump of a fabric")
        if sum(node.ports for node in self.nodes.values()) > DUMP_PORTS.limit:
            raise DUMP_PORTS.exceeded(self.path)
        return _assemble(name or Path(self.path).name.partition(".")[0] or "fabric", self, both_ends)


@lru_cache(maxsize=256)
def _link_speed(text: str) -> LinkSpeed | None:
    try:
        speed = parse_link_speed(text)
    except ValueError:
        return None
    return None if speed.generation == "GE" else speed  # no subnet manager lists Ethernet


def _assemble(name: str, records: Records, both_ends: bool) -> Discovery:
    nodes = list(records.nodes.values())
    nodes = sorted(nodes, key=lambda node: node.key[0] != "S")  # stable: file order otherwise
    index_of = {node.key: index for index, node in enumerate(nodes)}
    offset = np.concatenate([[0], np.cumsum([node.ports for node in nodes])]).astype(np.int32)
    n_switches = sum(node.key[0] == "S" for node in nodes)
    ports = _plug(nodes, index_of, offset.tolist(), records, both_ends)

    kinds = [_kind(node) for node in nodes]
    models: dict[str, int] = {}
    hosts, host = _hosts(nodes, kinds)
    lid = _lids(nodes, n_switches, ports.lid[offset[n_switches] :], records)
    fabric = Fabric(
        name=name,
        kind=np.array(kinds, np.uint8),
        role=np.array([ROLE[kind] for kind in kinds], np.uint8),
        level=np.array([-1 if kind == Kind.SWITCH else 0 for kind in kinds], np.int8),
        zone=np.full(len(nodes), -1, np.int16),
        model=np.array([_model(node, models) for node in nodes], np.int16),
        models=tuple(models),
        node_guid=np.array([node.key[1] for node in nodes], np.uint64),
        names=tuple(node.description for node in nodes),
        host=np.array(host, np.int32),
        hosts=hosts,
        host_model=np.full(len(hosts), -1, np.int16),
        port_offset=offset,
        peer=np.array(ports.peer, np.int32),
        width=np.array(ports.width, np.uint8),
        speed=np.array(ports.speed, np.uint8),
        port_guid=np.array(ports.guid, np.uint64),
        discovered_lid=lid if lid.any() else np.zeros(0, np.uint16),
        lmc=records.lmc,
    )
    return Discovery(fabric, tuple(sorted(records.skipped)))


def _plug(
    nodes: list[FoundNode], index_of: dict[NodeKey, int], offset: list[int], records: Records, both_ends: bool
) -> _Ports:
    total = offset[-1]
    ports = _Ports([-1] * total, [4] * total, [0] * total, [0] * total, [0] * total)
    described: dict[int, CableEnd] = {}
    for cable in records.cables:
        near = index_of[cable.node]
        if cable.number > nodes[near].ports:
            found = f"port {cable.number} of {_show(cable.node)}, which has {nodes[near].ports}"
            raise records.refuse(f"{found}; expected a port that exists", cable.line)
        port = offset[near] + cable.number - 1
        ports.guid[port] = ports.guid[port] or cable.guid
        ports.lid[port] = ports.lid[port] or cable.lid
        if port in described:
            twin = described[port]
            if (twin.far, twin.far_number) != (cable.far, cable.far_number):
                was = f"port {cable.number} of {_show(cable.node)}, which holds another cable in line {twin.line}"
                raise records.refuse(f"found a second cable in {was}", cable.line)
            records.skip(cable.line, f"the cable that line {twin.line} describes too")
            continue
        far = index_of.get(cable.far)
        if far is None:
            records.skip(cable.line, f"a cable to {_show(cable.far)}, which has no record")
            continue
        if cable.far_number > nodes[far].ports:
            found = f"a cable to port {cable.far_number} of {_show(cable.far)}, which has {nodes[far].ports}"
            raise records.refuse(f"{found}; expected a port that exists", cable.line)
        peer = offset[far] + cable.far_number - 1
        if peer == port:
            records.skip(cable.line, f"port {cable.number} of {_show(cable.node)} plugged into itself")
            continue
        described[port] = cable
        ports.peer[port], ports.width[port], ports.speed[port] = peer, cable.width, cable.speed
        ports.guid[peer] = ports.guid[peer] or cable.far_guid
        ports.lid[peer] = ports.lid[peer] or cable.far_lid

    halves = _settle(described, ports, records)
    if both_ends and halves:
        raise records.refuse(
            f"found {plural(len(halves), 'cable')} from one end only, the first in this line; expected each from both "
            "ends: the list is not whole, write it anew",
            min(halves),
        )
    for index, node in enumerate(nodes):
        for port in range(offset[index], offset[index + 1]):
            if node.key[0] == "S":
                ports.guid[port] = node.key[1]
            elif not ports.guid[port]:  # as ibsim and the mlx4 adapters number them
                ports.guid[port] = node.key[1] + port - offset[index] + 1
    return ports


def _settle(described: dict[int, CableEnd], ports: _Ports, records: Records) -> list[int]:
    """Make both ends of each cable agree: complete those with one description, leave out contradictions.

    Returns the lines of those with one description.
    """
    wanted: dict[int, list[int]] = defaultdict(list)  # ports that claim each port as their far end
    for port in described:
        wanted[ports.peer[port]].append(port)
    dropped, completed = [], []
    for port, cable in described.items():
        peer = ports.peer[port]
        other = described.get(peer)
        if other is not None:
            if (other.far, other.far_number) != (cable.node, cable.number):
                dropped.append((port, other.line))
        elif rivals := [rival for rival in wanted[peer] + wanted[port] if rival != port]:
            dropped.append((port, described[rivals[0]].line))
        else:
            completed.append(port)
    for port, line in dropped:
        ports.peer[port], ports.width[port], ports.speed[port] = -1, 4, 0
        records.skip(described[port].line, f"a cable that line {line} contradicts")
    for port in completed:
        peer = ports.peer[port]
        ports.peer[peer], ports.width[peer], ports.speed[peer] = port, described[port].width, described[port].speed
    return [described[port].line for port in completed]


def _lids(nodes: list[FoundNode], n_switches: int, adapter_lids: list[int], records: Records) -> NDArray[np.uint16]:
    lids = [node.lid for node in nodes[:n_switches]] + adapter_lids
    owners = Counter(lids)
    shared = {lid for lid, count in owners.items() if count > 1 and 0 < lid <= MAX_UNICAST_LID}
    for lid in sorted(shared):
        records.skip(0, f"LID {lid}, which {owners[lid]} end ports have")
    return np.array([lid if 0 < lid <= MAX_UNICAST_LID and lid not in shared else 0 for lid in lids], np.uint16)


def _kind(node: FoundNode) -> Kind:
    kind = KIND[node.key[0]]
    if kind == Kind.HCA and (node.device == AGGREGATION_DEVICE or "Aggregation Node" in node.description):
        return Kind.AGGREGATION
    return kind


def _model(node: FoundNode, models: dict[str, int]) -> int:
    """Return the index of the model in a managed switch's description, or else of its chip; -1 if unknown."""
    managed = MANAGED_SWITCH.fullmatch(node.description) if node.key[0] == "S" else None
    model = managed.group(1) if managed else CHIPS.get(node.device)
    return -1 if model is None else models.setdefault(model, len(models))


def _hosts(nodes: list[FoundNode], kinds: list[Kind]) -> tuple[tuple[str, ...], list[int]]:
    """Return the names of the servers, and the server of each node (-1 for none).

    Adapters with descriptions ``host device`` belong to one server if they name the same host and different devices. If
    a host has the same device twice, several machines have a default name (``localhost HCA-1``, ``ubuntu mlx5_0``).
    Of these, and of adapters that name no host, those with the same system image GUID form a server, which is called by
    the node GUID of its first adapter.
    """
    named = [
        HOST_AND_DEVICE.fullmatch(node.description) if kind == Kind.HCA else None
        for node, kind in zip(nodes, kinds, strict=True)
    ]
    devices = Counter(match.groups() for match in named if match)
    ambiguous = {host for (host, _), count in devices.items() if count > 1} | DEFAULT_HOSTS
    index: dict[str, int] = {}
    by_system: dict[int, int] = {}
    host = []
    for node, kind, match in zip(nodes, kinds, named, strict=True):
        if kind != Kind.HCA:
            host.append(-1)
        elif match and match.group(1) not in ambiguous:
            host.append(index.setdefault(match.group(1), len(index)))
        elif node.system and node.system in by_system:
            host.append(by_system[node.system])
        else:
            host.append(index.setdefault(f"0x{node.key[1]:016x}", len(index)))
            by_system[node.system] = host[-1]
    return tuple(index), host


def _show(key: NodeKey) -> str:
    return f"{key[0]}-{key[1]:016x}"
