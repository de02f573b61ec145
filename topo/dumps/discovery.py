"""Builds a fabric from the records of a discovery tool, which may be incomplete or contradict each other.

A dump describes each cable from both of its ends. Where only one end does, the cable is taken as described; where the
two contradict each other, the cable is left out and counted: routing can do without a cable, but not with a wrong one.
If only its speed differs, it has the lower one, and that of the other end where one is unknown.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topo.budget import DUMP_CABLE_ENDS, DUMP_NODES, DUMP_PORTS, DUMP_SKIPPED
from topo.catalog.devices import AGGREGATION_DEVICE, CHIPS
from topo.errors import FormatError, plural
from topo.fabric import MAX_PORTS, MAX_UNICAST_LID, Fabric, Kind, Role
from topo.files.text import numbered_lines
from topo.speeds import LANE_GBPS, LinkSpeed, parse_link_speed, speed_name

NodeKey = tuple[str, int]
"""``S``, ``H`` or ``R``, and the node GUID."""

LETTERS = {"switch": "S", "sw": "S", "ca": "H", "hca": "H", "rt": "R", "router": "R"}
"""Letter of a node in its `NodeKey`, by the words that tools have for it."""
KIND = {"S": Kind.SWITCH, "H": Kind.HCA, "R": Kind.ROUTER}
ROLE = {Kind.SWITCH: Role.SWITCH, Kind.HCA: Role.COMPUTE, Kind.AGGREGATION: Role.AGGREGATION,
        Kind.ROUTER: Role.MANAGEMENT}  # fmt: skip

MANAGED_SWITCH = re.compile(r"[^;:]{1,16};[^;:]{1,63}:([^;:/]{1,63})(?:/[^;:]{0,63})?")
HOST_AND_DEVICE = re.compile(r"(\S{1,63}) (\S{1,63})")
DEFAULT_HOSTS = frozenset({"localhost", "localhost.localdomain", "(none)"})
"""Default host names, which identify no machine."""


SLOWEST = LinkSpeed(4, "SDR")
"""Speed of a cable of which neither end has one."""


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


UNCOUNTED = -1


@dataclass(slots=True)
class FoundNode:
    """A node as its record describes it."""

    key: NodeKey
    ports: int
    """`UNCOUNTED` where no record tells them: then there are as many as the highest that `Records.port` is told of."""
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
    width: int = 0
    """Lanes; 0 if its speed is unknown."""
    speed: int = 0


class Records:
    """Records of a dump, collected by its reader."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.nodes: dict[NodeKey, FoundNode] = {}
        self.cables: list[CableEnd] = []
        self.skipped: list[tuple[int, str]] = []
        self.highest: Counter[NodeKey] = Counter()
        """Highest port of nodes whose ports are not counted."""
        self.labels: dict[tuple[NodeKey, int], tuple[str, int | None]] = {}
        """Label of each port of XDR chips, and its plane, None if the dump does not give it (`topo.dumps.planes`)."""
        self.lmc = 0
        """Largest LMC of any port."""

    def lines(self, text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
        """Return what `numbered_lines` does."""
        return numbered_lines(text, self.path)

    def refuse(self, message: str, line: int = 0) -> FormatError:
        """Return the error for a line, to be raised."""
        return FormatError(message, self.path, line)

    def unlike(self, line: str, expected: str, number: int) -> FormatError:
        """Return the error for a line that is something else than expected."""
        return self.refuse(f"found {line.strip()[:60]!r}; expected {expected}", number)

    def skip(self, line: int, reason: str) -> None:
        """Record that something is left out."""
        self.skipped.append((line, reason))
        if len(self.skipped) > DUMP_SKIPPED.limit:
            raise DUMP_SKIPPED.exceeded(self.path, line)

    def pass_over(self, number: int, line: str, why: str) -> None:
        """Record that a line is left out."""
        self.skip(number, f"{line.strip()[:60]!r}, which {why}")

    def node(self, node: FoundNode) -> bool:
        """Add a node; return whether it is new.

        FormatError if its number of ports differs from an earlier record, or for too many nodes.
        """
        if not node.description.isprintable():  # infiniband-diags print a space there; others must not steer terminals
            node.description = "".join(char if char.isprintable() else " " for char in node.description)
        known = self.nodes.setdefault(node.key, node)
        if node.ports not in (UNCOUNTED, known.ports):
            found = f"found {node.ports} ports of a node that has {known.ports} in line {known.line}"
            raise self.refuse(f"{found}; expected one number", node.line)
        if len(self.nodes) > DUMP_NODES.limit:
            raise DUMP_NODES.exceeded(self.path, node.line)
        return known is node

    def port(self, node: NodeKey, number: int) -> None:
        """Note a port of a node whose ports no record counts."""
        self.highest[node] = max(self.highest[node], number)

    def rate(self, text: str, line: int) -> tuple[int, int]:
        """Return width and index of the generation of a link speed; an unknown word is recorded, and has width 0."""
        speed = _link_speed(text)
        if speed is None:
            self.skip(line, f"link speed {text[:20]!r}, which is not known: taken as the other end, or {SLOWEST}")
        return (speed.width, speed.index) if speed else (0, 0)

    def cable(self, cable: CableEnd) -> None:
        """Add one end of a cable."""
        self.cables.append(cable)
        if len(self.cables) > DUMP_CABLE_ENDS.limit:
            raise DUMP_CABLE_ENDS.exceeded(self.path, cable.line)

    def link(
        self, near: FoundNode, number: int, far: FoundNode, far_number: int, rate: tuple[int, int] = (0, 0)
    ) -> None:
        """Add one end of a cable and the nodes at both."""
        for node, port in ((near, number), (far, far_number)):
            self.node(node)
            self.port(node.key, port)
        self.cable(CableEnd(near.line, near.key, number, far.key, far_number, width=rate[0], speed=rate[1]))

    def assemble(self, name: str = "", *, both_ends: bool = False) -> Discovery:
        """Build the fabric, by default called by its file: switches first, otherwise in the order of the records.

        FormatError for no node, too many ports, a port that does not exist, a port with two cables, and, of a format
        that names each cable from ``both_ends``, a cable that is named from one: then the file was cut.
        """
        if not self.nodes:
            raise self.refuse("no switch, adapter or router in it; expected a dump of a fabric")
        for key, node in self.nodes.items():
            node.ports = max(self.highest[key], 1) if node.ports == UNCOUNTED else node.ports
            if not 1 <= node.ports <= MAX_PORTS:
                raise self.refuse(f"found {node.ports} ports; expected 1 to {MAX_PORTS}", node.line)
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
    nodes = sorted(records.nodes.values(), key=lambda node: node.key[0] != "S")  # stable: file order otherwise
    offset = np.concatenate([[0], np.cumsum([node.ports for node in nodes])]).astype(np.int32)
    n_switches = sum(node.key[0] == "S" for node in nodes)
    plugged, guids, lids = _plug(nodes, offset.tolist(), records, both_ends)

    kinds = [_kind(node) for node in nodes]
    models: dict[str, int] = {}
    hosts, host = _hosts(nodes, kinds)
    n_ports, first = int(offset[-1]), int(offset[n_switches])
    peer, width, speed = np.full(n_ports, -1, np.int32), np.full(n_ports, 4, np.uint8), np.zeros(n_ports, np.uint8)
    for port, (far, cable) in plugged.items():
        peer[port], width[port], speed[port] = far, cable.width, cable.speed
    node_guid = np.array([node.key[1] for node in nodes], np.uint64)
    owner = np.repeat(np.arange(len(nodes)), np.diff(offset))
    # Ports of adapters whose GUIDs are unknown are numbered as ibsim and the mlx4 adapters do.
    number = np.where(owner < n_switches, 0, np.arange(n_ports) - offset[owner] + 1)
    port_guid = node_guid[owner] + number.astype(np.uint64)
    for port, guid in guids.items():
        if port >= first and guid:
            port_guid[port] = guid
    lid = _lids(nodes[:n_switches], [lids.get(port, 0) for port in range(first, n_ports)], records)
    fabric = Fabric(
        name=name,
        kind=np.array(kinds, np.uint8),
        role=np.array([ROLE[kind] for kind in kinds], np.uint8),
        level=np.array([-1 if kind == Kind.SWITCH else 0 for kind in kinds], np.int8),
        zone=np.full(len(nodes), -1, np.int16),
        model=np.array([_model(node, models) for node in nodes], np.int16),
        models=tuple(models),
        node_guid=node_guid,
        names=tuple(node.description for node in nodes),
        host=np.array(host, np.int32),
        hosts=hosts,
        host_model=np.full(len(hosts), -1, np.int16),
        port_offset=offset,
        peer=peer,
        width=width,
        speed=speed,
        port_guid=port_guid,
        discovered_lid=lid if lid.any() else np.zeros(0, np.uint16),
        lmc=records.lmc,
    )
    return Discovery(fabric, tuple(sorted(records.skipped)))


def _plug(
    nodes: list[FoundNode], offset: list[int], records: Records, both_ends: bool
) -> tuple[dict[int, tuple[int, CableEnd]], dict[int, int], dict[int, int]]:
    """Return the far end and the cable of each port that has one, GUIDs of ports, and LIDs of ports."""
    index_of = {node.key: index for index, node in enumerate(nodes)}
    described: dict[int, tuple[int, CableEnd]] = {}
    guid: dict[int, int] = {}
    lid: dict[int, int] = {}

    def place(key: NodeKey, number: int, what: str, line: int) -> int:
        node = index_of[key]
        if number > nodes[node].ports:
            found = f"found {what} {number} of {_show(key)}, which has {nodes[node].ports}"
            raise records.refuse(f"{found}; expected a port that exists", line)
        return offset[node] + number - 1

    for cable in records.cables:
        port = place(cable.node, cable.number, "port", cable.line)
        guid[port], lid[port] = guid.get(port) or cable.guid, lid.get(port) or cable.lid
        if port in described:
            twin = described[port][1]
            if (twin.far, twin.far_number) != (cable.far, cable.far_number):
                was = f"port {cable.number} of {_show(cable.node)}, which holds another cable in line {twin.line}"
                raise records.refuse(f"found a second cable in {was}", cable.line)
            records.skip(cable.line, f"the cable that line {twin.line} describes too")
            continue
        if cable.far not in index_of:
            records.skip(cable.line, f"a cable to {_show(cable.far)}, which has no record")
            continue
        peer = place(cable.far, cable.far_number, "a cable to port", cable.line)
        if peer == port:
            records.skip(cable.line, f"port {cable.number} of {_show(cable.node)} plugged into itself")
            continue
        described[port] = peer, cable
        guid[peer], lid[peer] = guid.get(peer) or cable.far_guid, lid.get(peer) or cable.far_lid

    halves = _settle(described, records)
    if both_ends and halves:
        raise records.refuse(
            f"found {plural(len(halves), 'cable')} from one end only, the first in this line; expected each from both "
            "ends: the list is not whole, write it anew",
            min(halves),
        )
    return described, guid, lid


def _settle(described: dict[int, tuple[int, CableEnd]], records: Records) -> list[int]:
    """Make both ends of each cable agree: complete those with one description, leave out contradictions.

    Returns the lines of those with one description.
    """
    claims: dict[int, list[int]] = defaultdict(list)  # ports that claim each port as their far end
    for port, (peer, _) in described.items():
        claims[peer].append(port)
    dropped: dict[int, int] = {}
    completed: dict[int, tuple[int, CableEnd]] = {}
    for port, (peer, cable) in described.items():
        if peer in described:
            if described[peer][0] != port:
                dropped[port] = described[peer][1].line
        elif rivals := [rival for rival in claims[peer] + claims[port] if rival != port]:
            dropped[port] = described[rivals[0]][1].line
        else:
            completed[peer] = port, cable
    for port, line in dropped.items():
        records.skip(described.pop(port)[1].line, f"a cable that line {line} contradicts")
    described |= completed
    for port, (peer, cable) in described.items():
        twin = described[peer][1]
        if port < peer and (not cable.width or (cable.width, cable.speed) != (twin.width, twin.speed)):
            told = [(end.width, end.speed) for end in (cable, twin) if end.width]
            # As many lanes as both have, in the slower generation; planes add up to any number of lanes.
            width = min((width for width, _ in told), default=SLOWEST.width)
            speed = min((speed for _, speed in told), key=lambda index: LANE_GBPS[index], default=SLOWEST.index)
            if len(set(told)) == 2:
                here, there = (speed_name(*one) for one in told)
                found = f"the speed of a cable, {here} here and {there} in line {twin.line}"
                records.skip(cable.line, f"{found}: taken as {speed_name(width, speed)}")
            for end in (port, peer):
                far, one = described[end]
                described[end] = far, replace(one, width=width, speed=speed)
    return [cable.line for _, cable in completed.values()]


def _lids(switches: list[FoundNode], adapter_lids: list[int], records: Records) -> NDArray[np.uint16]:
    lids = [node.lid for node in switches] + adapter_lids
    owners = Counter(lids)
    owners.pop(0, None)  # unknown
    unusable = {lid for lid, count in owners.items() if count > 1 or not 0 < lid <= MAX_UNICAST_LID}
    for lid in sorted(unusable):
        why = f"{owners[lid]} end ports have" if 0 < lid <= MAX_UNICAST_LID else f"is not from 1 to {MAX_UNICAST_LID:,}"
        records.skip(0, f"LID {lid}, which {why}")
    return np.array([0 if lid in unusable else lid for lid in lids], np.uint16)


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
    both = list(zip(nodes, kinds, strict=True))
    named = [HOST_AND_DEVICE.fullmatch(node.description) if kind == Kind.HCA else None for node, kind in both]
    devices = Counter(match.groups() for match in named if match)
    ambiguous = {host for (host, _), count in devices.items() if count > 1} | DEFAULT_HOSTS
    index: dict[str, int] = {}
    by_system: dict[int, int] = {}
    host = []
    for (node, kind), match in zip(both, named, strict=True):
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
