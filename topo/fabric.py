"""The compiled fabric: one numbering of every node, port and link, as frozen arrays.

A fabric is one InfiniBand subnet. Its *nodes* are switches and channel adapters; a server (*host*) may own several
adapters, one in each zone for instance. Switches come first, so a switch's id is its node id. The ports of a node are
contiguous, in panel order. A *channel* is one direction of a link and is named by the port that sends on it, so an
array over ports is an array over channels too. An *end port* is what has a LID: port 0 of each switch, and each port
of an adapter; end ports are numbered switches first, then adapter ports in port order.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

import topo  # methods that lead to other rooms go through the front door
from topo.errors import HeddleError, did_you_mean, plural
from topo.graphs import components
from topo.speeds import LANE_GBPS, SPEEDS
from topo.table import Shown, Table

if TYPE_CHECKING:
    import networkx as nx


MAX_UNICAST_LID = 0xBFFF
"""Highest unicast LID (InfiniBand Architecture Specification, volume 1, 4.1.3); 49,151 fit in one subnet."""

MAX_PORTS = 254
"""Ports of a node: an entry of a forwarding table is a byte, and 255 says that there is no path."""

GUID_PREFIX = 0x0A << 56
"""Of GUIDs of plans: bit 1 of the first byte marks a locally administered EUI-64, which belongs to no vendor."""

MAX_LMC = 7
"""Highest LID mask control (likewise, volume 1, 4.1.3): 128 LIDs a port."""

MANAGEMENT_PORT = " mgmt"
"""What follows the name of a device in that of its management port."""

Purpose = Literal["any", "jobs", "permutations", "all-pairs"]
"""Traffic that tables are made for."""


class Kind(IntEnum):
    """What a node is to the subnet manager."""

    SWITCH = 0
    HCA = 1
    """A channel adapter of a host."""
    AGGREGATION = 2
    """A SHARP aggregation node: the channel adapter inside a switch."""
    ROUTER = 3
    DEVICE = 4
    """The management port of what is no host: of a switch, or of a power distribution unit."""


class Role(IntEnum):
    """What a node is for."""

    COMPUTE = 0
    STORAGE = 1
    MANAGEMENT = 2
    AGGREGATION = 3
    LEAF = 4
    SPINE = 5
    CORE = 6
    JOINT = 7
    """A switch that joins zones over ports of their leaves."""
    SWITCH = 8
    """A switch whose place in the fabric is not known."""


HOST_ROLES = {"compute": Role.COMPUTE, "storage": Role.STORAGE, "management": Role.MANAGEMENT}
"""Roles that a host can have, by the words for them."""


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return the array contiguous and read-only (kernels compile once, since they never see a writable one)."""
    result = np.ascontiguousarray(array)
    if result.flags.writeable:
        if result is array:
            result = array.copy()
        result.flags.writeable = False
    return result


def owned(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array that nobody else holds read-only, as `frozen` does, but without a copy."""
    array.flags.writeable = False
    return array


class Frozen:
    """Base of frozen dataclasses whose arrays are read-only."""

    def __post_init__(self) -> None:
        for item in fields(self):  # type: ignore[arg-type]
            array = getattr(self, item.name)
            if isinstance(array, np.ndarray):
                object.__setattr__(self, item.name, frozen(array))


LABELS = ("name", "names", "hosts", "node_guid", "port_guid", "notes")
"""Fields of a fabric that say what its parts are called."""


@dataclass(frozen=True, eq=False)
class Fabric(Frozen, Shown):
    """One subnet. N nodes of which the first S are switches, P ports, H hosts, M models."""

    _made_by = "`cluster.fabric` or `topo.read_fabric`"

    name: str
    """Name of the subnet, such as ``fire-flyer-2`` or ``plane-3``."""

    kind: NDArray[np.uint8]
    """(N,) `Kind` of each node."""
    role: NDArray[np.uint8]
    """(N,) `Role` of each node."""
    level: NDArray[np.int8]
    """(N,) 0 for adapters, 1 leaf, 2 spine, 3 core; joints have the level above the switches they join; -1 unknown."""
    zone: NDArray[np.int16]
    """(N,) zone of each node, -1 for nodes between zones."""
    model: NDArray[np.int16]
    """(N,) index into `models`, -1 unknown."""
    models: tuple[str, ...]
    """(M,) names of hardware models."""
    node_guid: NDArray[np.uint64]
    """(N,) node GUIDs."""
    names: tuple[str, ...]
    """(N,) NodeDescriptions: ``MF0;leaf01:MQM8700/U1`` for a managed switch, ``gpu0001 mlx5_0`` for an adapter."""

    host: NDArray[np.int32]
    """(N,) index into `hosts` of the server that an adapter sits in, -1 for what sits in none."""
    hosts: tuple[str, ...]
    """(H,) names of the servers."""
    host_model: NDArray[np.int16]
    """(H,) index into `models`, -1 unknown."""

    port_offset: NDArray[np.int32]
    """(N + 1,) port number p of node n is port id ``port_offset[n] + p - 1``."""
    peer: NDArray[np.int32]
    """(P,) port id at the other end of the link, -1 where none is plugged in."""
    width: NDArray[np.uint8]
    """(P,) lanes: 1, 2, 4, 8 or 12."""
    speed: NDArray[np.uint8]
    """(P,) index into `topo.speeds.SPEEDS`."""
    port_guid: NDArray[np.uint64]
    """(P,) port GUIDs; those of a switch's ports are its node GUID."""

    discovered_lid: NDArray[np.uint16] = field(default_factory=lambda: np.zeros(0, np.uint16))
    """(E,) LIDs that a real subnet had, 0 unknown; empty for a planned fabric."""
    lmc: int = 0
    """LID mask control, of a real subnet or as its spec asks: a port of an adapter has 2^lmc LIDs, of which the lowest
    is known."""
    length_m: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0, np.float64))
    """(P,) metres of the cable in each port, NaN where it is unknown or there is none; empty without a floor plan."""
    engine: str = "auto"
    """Routing engine that its spec asks for; ``auto`` takes the one that fits."""
    purpose: Purpose = "any"
    """Traffic that tables are made for: ``any`` for all kinds, ``jobs``, ``permutations`` or ``all-pairs``."""
    traffic: tuple[topo.TrafficClass, ...] = ()
    """Classes of traffic that its spec has; without any, everything travels on one lane."""
    arrangement: str = "levels"
    """How a drawing arranges the switches: ``levels``, ``sides``, ``groups``, or a grid of switches in order with
    the name of its shape and its sizes, such as ``torus 4x4x4``."""
    notes: tuple[str, ...] = ()
    """What was skipped when the fabric was read, a sentence each, with file and line."""

    def _brief(self) -> str:
        return f"{self.name}: {plural(self.n_switches, 'switch', 'switches')}, {plural(len(self.hosts), 'server')}"

    @property
    def table(self) -> Table:
        """How many of everything it has."""
        return replace(self.counts().table, title=self.name)

    @property
    def n_nodes(self) -> int:
        """Nodes, switches included."""
        return len(self.kind)

    @cached_property
    def n_switches(self) -> int:
        """Switches; they are nodes 0 to ``n_switches - 1``."""
        return int(np.count_nonzero(self.kind == Kind.SWITCH))

    @cached_property
    def most_ports(self) -> int:
        """Ports of the switch that has most; 0 without switches."""
        return int(np.diff(self.port_offset[: self.n_switches + 1]).max(initial=0))

    @property
    def n_ports(self) -> int:
        """Ports of all nodes, plugged in or not (port 0 of switches not counted)."""
        return len(self.peer)

    @property
    def first_adapter_port(self) -> int:
        """Id of the first port that belongs to an adapter."""
        return int(self.port_offset[self.n_switches])

    @property
    def n_end_ports(self) -> int:
        """End ports: one a switch, and one for each port of an adapter."""
        return self.n_switches + self.n_ports - self.first_adapter_port

    @cached_property
    def port_node(self) -> NDArray[np.int32]:
        """(P,) int32, the node that each port belongs to."""
        return frozen(np.repeat(np.arange(self.n_nodes, dtype=np.int32), np.diff(self.port_offset)))

    @cached_property
    def port_number(self) -> NDArray[np.int32]:
        """(P,) int32, number of each port on its node, from 1."""
        return frozen((np.arange(self.n_ports) - self.port_offset[self.port_node] + 1).astype(np.int32))

    @cached_property
    def peer_node(self) -> NDArray[np.int32]:
        """(P,) int32, node at the other end of each port's link, -1 where none is plugged in."""
        return frozen(np.where(self.peer >= 0, self.port_node[self.peer], np.int32(-1)))

    @cached_property
    def rate_gbps(self) -> NDArray[np.float64]:
        """(P,) float64, Gb/s of data that each port can send."""
        return frozen(self.width * LANE_GBPS[self.speed])

    @cached_property
    def links(self) -> NDArray[np.int32]:
        """(L, 2) int32, the two port ids of each link, lower first, in order."""
        low = np.flatnonzero(self.peer > np.arange(self.n_ports))
        return frozen(np.stack([low, self.peer[low]], axis=1).astype(np.int32))

    @cached_property
    def end_node(self) -> NDArray[np.int32]:
        """(E,) int32, node of each end port."""
        switches = np.arange(self.n_switches, dtype=np.int32)
        return frozen(np.concatenate([switches, self.port_node[self.first_adapter_port :]]))

    @cached_property
    def end_switch(self) -> NDArray[np.int32]:
        """(E,) int32, the switch that each end port is or hangs on, -1 where it hangs on none."""
        far = self.peer_node[self.first_adapter_port :]
        return frozen(np.concatenate([self.end_node[: self.n_switches], np.where(far < self.n_switches, far, -1)]))

    @cached_property
    def end_guid(self) -> NDArray[np.uint64]:
        """(E,) uint64, port GUID of each end port."""
        return frozen(np.concatenate([self.node_guid[: self.n_switches], self.port_guid[self.first_adapter_port :]]))

    @cached_property
    def is_inner(self) -> NDArray[np.bool_]:
        """(P,) bool, whether a port's channel leads from one switch to another.

        A cable from a switch to itself is no such channel: no path has a use for it.
        """
        n, far = self.n_switches, self.peer_node
        return frozen((self.port_node < n) & (far >= 0) & (far < n) & (far != self.port_node))

    @cached_property
    def inner(self) -> NDArray[np.int32]:
        """(C,) int32, the channels between two switches by sending port, in order."""
        return frozen(np.flatnonzero(self.is_inner).astype(np.int32))

    @cached_property
    def inner_links(self) -> NDArray[np.int32]:
        """(L', 2) int32, the rows of `links` that join two switches."""
        return frozen(self.links[self.is_inner_link])

    @property
    def is_inner_link(self) -> NDArray[np.bool_]:
        """(L,) bool, whether a link joins two switches."""
        return self.is_inner[self.links[:, 0]]

    @cached_property
    def switch_part(self) -> NDArray[np.int32]:
        """(S,) int32, the number of the part that each switch is in, of those that no cable between switches joins."""
        return frozen(components(self.n_switches, self.port_node[self.inner], self.peer_node[self.inner]))

    @cached_property
    def is_internal(self) -> NDArray[np.bool_]:
        """(L,) bool, whether a link leads to an aggregation node, which is inside its switch."""
        return frozen((self.kind[self.port_node[self.links]] == Kind.AGGREGATION).any(axis=1))

    def ends(
        self, role: Role | str | None = None, zone: int | None = None, *, kind: Kind | None = Kind.HCA
    ) -> NDArray[np.int32]:
        """Return (n,) int32, the end ports that are plugged in and match, in fabric order.

        Parameters
        ----------
        role : Role or str, optional
            What the node is for, such as ``"compute"``; any role when left out. HeddleError when there is none such.
        zone : int, optional
            Zone of the node; any when left out. HeddleError when there is none such.
        kind : Kind, optional
            What the node is: by default an adapter of a host. None for switches, aggregation nodes and routers too.

        >>> import topo
        >>> fabric = topo.preset("lab-20").fabric
        >>> len(fabric.ends()), len(fabric.ends(role="storage"))
        (22, 4)
        """
        chosen = self.end_switch >= 0
        if kind is not None:
            chosen &= self.kind[self.end_node] == kind
        if role is not None:
            chosen &= self.role[self.end_node] == _role(role)
        if zone is not None:
            if zone not in (zones := np.unique(self.zone).tolist()):
                raise HeddleError(f"found the zone {zone}; expected one of {', '.join(map(str, zones))}")
            chosen &= self.zone[self.end_node] == zone
        return frozen(np.flatnonzero(chosen).astype(np.int32))

    def port_of(self, end: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return (n,) int32, the port ids of (n,) end ports; -1 for port 0 of a switch.

        >>> import topo
        >>> fabric = topo.preset("lab-20").fabric
        >>> first = fabric.ends()[:1]
        >>> fabric.port_label(fabric.port_of(first)[0])
        'gpu00 mlx5_0:1'
        """
        end = np.asarray(end)
        return np.where(end < self.n_switches, -1, end - self.n_switches + self.first_adapter_port).astype(np.int32)

    def end_of(self, port: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return (n,) int32, the end ports of (n,) ports: an adapter's own, or the switch that a port belongs to.

        >>> import topo
        >>> fabric = topo.preset("lab-20").fabric
        >>> hosts = fabric.ends(role="compute")
        >>> bool((fabric.end_of(fabric.port_of(hosts)) == hosts).all())
        True
        """
        port = np.asarray(port)
        own = self.n_switches + port - self.first_adapter_port
        return np.where(port < self.first_adapter_port, self.port_node[port], own).astype(np.int32)

    def is_copy_of(self, other: Fabric) -> bool:
        """Whether two fabrics differ in no array but GUIDs, and in no setting: as planes do, whose names differ.

        >>> import topo
        >>> one, *others = topo.preset("deepseek-v3-planes").fabrics
        >>> all(plane.is_copy_of(one) for plane in others), one.is_copy_of(topo.preset("lab-20").fabric)
        (True, False)
        """
        names = (one.name for one in fields(self) if one.name not in LABELS)
        return all(
            np.array_equal(a, b, equal_nan=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a == b
            for a, b in ((getattr(self, name), getattr(other, name)) for name in names)
        )

    def counts(self) -> topo.Counts:
        """Count switches, servers, ports and links; see `topo.count`, which counts several subnets, GPUs and cables.

        >>> import topo
        >>> topo.preset("lab-20").fabric.counts().links
        62
        """
        return topo.count([self])

    def without(self, ports: NDArray[np.integer]) -> Fabric:
        """Return the fabric without the cables in some (n,) ports; levels, zones and roles stay.

        Either end of a cable will do; `routing.find_ports` returns the ports of links and switches by name. HeddleError
        when there is no such port.

        >>> import topo
        >>> fabric = topo.preset("lab-20").fabric
        >>> damaged = fabric.without(fabric.inner[:1])
        >>> len(fabric.inner_links) - len(damaged.inner_links)
        1
        """
        ports = np.asarray(ports)
        if ports.size and ports.dtype.kind not in "iu":
            raise HeddleError("found ports that are no numbers; `routing.find_ports` returns those of names")
        ports = ports.astype(np.intp)  # an empty list makes an array of floats
        wrong = ports[(ports < 0) | (ports >= self.n_ports)]
        if len(wrong):
            raise HeddleError(f"found the port {wrong[0]}; {self.name} has ports 0 to {self.n_ports - 1:,}")
        peer, far = self.peer.copy(), self.peer[ports]
        peer[far[far >= 0]] = -1
        peer[ports] = -1
        return replace(self, peer=peer)

    @property
    def is_planned(self) -> bool:
        """Whether it has GUIDs of a plan, which no hardware has."""
        return bool((self.node_guid >> 56 == GUID_PREFIX >> 56).any())

    @property
    def caveat(self) -> str:
        """Why tables of it are not to be loaded as they are; empty where nothing is known against it.

        A plan has one switch where XDR has a chip for each plane (`topo.dumps.planes`).

        >>> import topo
        >>> topo.preset("lab-20").fabric.caveat
        ''
        """
        ports = slice(self.first_adapter_port)
        xdr = (self.peer[ports] >= 0) & (self.speed[ports] == SPEEDS.index("XDR"))
        if not (self.is_planned and xdr.any()):
            return ""
        return (
            "tables of each XDR switch as one; a real one (Q3400) is taken to be four chips, one for each plane, with "
            "tables of their own, since nobody publishes what it reports: not to be loaded as they are"
        )

    @property
    def caveat_head(self) -> str:
        """The `caveat` as a comment at the head of files that are made of it; empty likewise."""
        return f"# Caveat: {self.caveat}\n" if self.caveat else ""

    def ports_of(self, node: int) -> range:
        """Port ids of a node, in panel order."""
        return range(int(self.port_offset[node]), int(self.port_offset[node + 1]))

    def model_of(self, node: int) -> str:
        """Name of the hardware model of a node; empty where it is unknown."""
        return self.models[self.model[node]] if self.model[node] >= 0 else ""

    def server_of(self, node: int) -> str:
        """Name of the server that an adapter sits in, of the device of a management port, else of the node itself."""
        if self.kind[node] == Kind.DEVICE:
            return self.label(node).removesuffix(MANAGEMENT_PORT)
        return self.hosts[self.host[node]] if self.host[node] >= 0 else self.label(node)

    def server_model_of(self, node: int) -> str:
        """Name of the model of the server that an adapter sits in; empty where it is unknown."""
        model = self.host_model[self.host[node]] if self.host[node] >= 0 else -1
        return self.models[model] if model >= 0 else ""

    def port_id(self, node: int, number: int) -> int:
        """Id of port ``number`` (from 1) of a node."""
        return int(self.port_offset[node]) + number - 1

    def label(self, node: int) -> str:
        """Short name of a node for messages and charts, which no other node of the fabric has.

        ``leaf01`` out of ``MF0;leaf01:MQM8700/U1``, and ``core1/L02/U1`` out of ``MF0;core1:CS7500/L02/U1``, which is a
        chip of a frame. A name that several nodes have, as unmanaged switches come with one, has its node GUID behind.
        """
        return self._labels[node]

    def frame(self, node: int) -> str:
        """Name of the frame that a switch is a chip of, by its label; empty for none.

        >>> import topo
        >>> builder = topo.FabricBuilder("chip")
        >>> _ = builder.switch("MF0;core1:CS7500/L02/U1", model="", radix=2, role=topo.Role.LEAF, level=1)
        >>> builder.build().frame(0), topo.preset("lab-20").fabric.frame(0)
        ('core1', '')
        """
        name, inside, _ = self.label(node).partition("/")
        return name if inside and node < self.n_switches else ""

    @cached_property
    def _labels(self) -> tuple[str, ...]:
        short = [_short_name(name) for name in self.names]
        shared = {name for name, count in Counter(short).items() if count > 1 or not name.strip()}
        guids = self.node_guid.tolist()
        named = zip(short, guids, strict=True)
        return tuple(f"{name} 0x{guid:016x}".lstrip() if name in shared else name for name, guid in named)

    def port_label(self, port: int) -> str:
        """Name of a port for messages: ``leaf01:21``."""
        return f"{self.label(int(self.port_node[port]))}:{int(self.port_number[port])}"

    def channel_label(self, port: int) -> str:
        """Name of the channel that a port sends on: ``leaf01:21 -> spine01:1``."""
        peer = int(self.peer[port])
        return f"{self.port_label(port)} -> {self.port_label(peer) if peer >= 0 else 'nothing'}"

    def draw(
        self, loads: NDArray[np.int64] | None = None, *, title: str | None = None, unit: str = "pairs"
    ) -> topo.Drawing:
        """Draw the fabric as SVG, its links coloured by their load where one is given; see `topo.draw`."""
        return topo.draw(self, loads, title=title, unit=unit)

    def to_networkx(self) -> nx.MultiGraph:
        """Return the fabric as an undirected multigraph: one node a node id, one edge a link.

        Nodes carry ``name, kind, level, zone, role, model, guid`` (text where text reads better); edges carry
        ``a_port, b_port`` (panel numbers, ``a`` at the node with the lower port id) and ``rate_gbps``.
        """
        import networkx as nx

        graph = nx.MultiGraph(name=self.name)
        for node in range(self.n_nodes):
            graph.add_node(
                node,
                name=self.names[node],
                kind=Kind(self.kind[node]).name.lower(),
                level=int(self.level[node]),
                zone=int(self.zone[node]),
                role=Role(self.role[node]).name.lower(),
                model=self.model_of(node),
                guid=f"0x{int(self.node_guid[node]):016x}",
            )
        of_link = (array[self.links].tolist() for array in (self.port_node, self.port_number, self.rate_gbps))
        for (a, b), (a_port, b_port), rates in zip(*of_link, strict=True):
            graph.add_edge(a, b, a_port=a_port, b_port=b_port, rate_gbps=min(rates))
        return graph


def _short_name(description: str) -> str:
    """Name of a managed switch, with the place of its chip where a box has several; else the NodeDescription itself."""
    name, colon, place = description.partition(";")[2].partition(":")
    if not colon:
        return description
    chip = place.partition("/")[2]
    return name if chip in ("", "U1") else f"{name}/{chip}"


def _role(role: Role | str) -> Role:
    """Return a role by its name."""
    names = {item.name.lower(): item for item in Role}
    if role not in names and role not in tuple(Role):
        hint = did_you_mean(str(role), names)
        raise HeddleError(f"found the role {role!r}; expected one of {', '.join(names)}. {hint}".strip())
    return names[role] if isinstance(role, str) else role
