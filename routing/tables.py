"""LIDs and linear forwarding tables, which alone decide a path, and the end ports that have LIDs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from topo.errors import HeddleError, RoutingError, plural
from topo.fabric import MAX_PORTS, MAX_UNICAST_LID, Fabric, Frozen, Kind, frozen
from topo.table import Brief

NO_PATH = 255
"""Entry of a forwarding table for a LID that the switch drops."""

LFT_BLOCK = 64
"""Entries of a forwarding table that a subnet manager writes at a time (InfiniBand Architecture Specification,
volume 1, 14.2.5.6)."""

MAX_DATA_VLS = 15
"""Virtual lanes 0 to 14 carry data; lane 15 is the subnet manager's, and a packet mapped to it is dropped."""


Ints = NDArray[np.integer]

EndpointSet = Literal["hca", "adapters", "all"]
"""``hca``: channel adapters of hosts; ``adapters``: SHARP aggregation nodes and routers too; ``all``: and port 0 of
every switch."""


@dataclass(frozen=True, eq=False)
class RoutingTables(Frozen, Brief):
    """Forwarding tables of a fabric with S switches and E end ports (`topo.fabric` says what an end port is)."""

    lid: NDArray[np.uint16]
    """(E,) lowest LID of each end port; 0 for an end port that is not plugged in."""
    lft: NDArray[np.uint8]
    """(S, top LID + 1) output port number for each destination LID; 0 is the switch itself, 255 no path."""
    path_sl: NDArray[np.uint8] | None = None
    """(S, top LID + 1) service level of a path from the hosts of a switch to a LID; None when all use level 0."""
    sl2vl: tuple[int, ...] = (0,) * 16
    """(16,) virtual lane of each service level, on every port."""
    engine: str = ""
    """Name of the engine that made the tables, and why it was chosen where that was automatic."""
    lmc: int = 0
    """LID mask control: each port of an adapter has the 2^lmc LIDs from its lowest on, a switch has one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("lid", "lft"):
            if not isinstance(array := getattr(self, name), np.ndarray):
                raise HeddleError(f"found {name} of type {type(array).__name__}; expected a NumPy array")

    @property
    def maker(self) -> str:
        """The engine that made the tables, as messages name it; an unknown one for tables that were read or given."""
        return self.engine if self.engine not in ("", "file") else "an unknown engine"

    def only(self, number: int) -> RoutingTables:
        """Return the tables as those see them who use one LID of each port, by number from the lowest."""
        lid = self.lid.copy()
        lid[len(self.lft) :] += np.uint16(number) * (lid[len(self.lft) :] > 0)
        return replace(self, lid=lid, lmc=0)

    def lids_of(self, ends: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return (m,) end ports, each as often as it has LIDs, and (m,) their LIDs."""
        count = np.where(ends < len(self.lft), 1, 1 << self.lmc)
        number = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        end = np.repeat(ends, count).astype(np.int32)
        return end, (self.lid[end] + number).astype(np.int32)

    def entries_of(self, ends: NDArray[np.integer]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the same, but only of LIDs that the tables reach up to."""
        end, lid = self.lids_of(ends)
        known = lid < self.lft.shape[1]
        return end[known], lid[known]

    def _brief(self) -> str:
        return (
            f"{self.maker}: {plural(int(np.count_nonzero(self.lid)), 'LID')} on "
            f"{plural(len(self.lft), 'switch', 'switches')}"
        )


def assign_lids(fabric: Fabric, lmc: int = 0) -> NDArray[np.uint16]:
    """Return (E,) the lowest LIDs: those that plugged-in end ports were discovered with; for others the next free ones.

    Each port of an adapter gets 2^lmc LIDs, the lowest of which is a multiple of that. Where some are discovered, the
    others get what is free above them, as far as it reaches: what is free below may belong to machines that are
    switched off. End ports that are not plugged in have 0. A larger LMC than that of the discovered fabric leaves no
    room between its LIDs: switches and adapters then all get new ones. It is a RoutingError when a subnet has not so
    many unicast LIDs, the discovered ones do not go with the LMC, or a switch has more ports than a table can name.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> assign_lids(fabric)[:4], assign_lids(fabric, 2)[4:6]
    (array([1, 2, 3, 4], dtype=uint16), array([ 8, 12], dtype=uint16))
    """
    if (ports := np.diff(fabric.port_offset)).max(initial=0) > MAX_PORTS:
        wide = f"{fabric.label(int(ports.argmax()))} has {ports.max()} ports"
        raise RoutingError(f"{wide}; forwarding tables can name at most {MAX_PORTS}")
    plugged, adapter = fabric.end_switch >= 0, np.arange(fabric.n_end_ports) >= fabric.n_switches
    lid, taken = np.zeros(len(plugged), np.uint16), np.zeros(MAX_UNICAST_LID + 1, np.int64)
    taken[0] = 1
    if fabric.discovered_lid.size and lmc <= fabric.lmc:
        lid[plugged] = fabric.discovered_lid[plugged]
        for number in range(1 << lmc):
            np.add.at(taken, (lid[(lid > 0) & (adapter | (number == 0))] + number) % len(taken), 1)
        if (lid[adapter] % (1 << lmc)).any() or taken.max() > 1:
            raise RoutingError(
                f"{fabric.name} has LMC {fabric.lmc}, but not all of its ports: some LIDs are not a multiple of "
                f"{1 << lmc}, or two ports share one; set one LMC in opensm.conf, let OpenSM assign LIDs, and record "
                "the fabric again, or route with --lmc 0"
            )
    for size, waiting in ((1, plugged & ~adapter & (lid == 0)), (1 << lmc, plugged & adapter & (lid == 0))):
        free = size * np.flatnonzero(taken.reshape(-1, size).sum(axis=1) == 0)
        free = np.roll(free, -int(np.searchsorted(free, lid.max(initial=0))))
        wanted = int(np.count_nonzero(waiting))
        if wanted > len(free):
            raise RoutingError(
                f"{fabric.name} has {np.count_nonzero(plugged):,} end ports and a subnet has {MAX_UNICAST_LID:,} "
                f"unicast LIDs{f', {1 << lmc} a port with LMC {lmc}' if lmc else ''}: "
                f"{'take a smaller LMC, or ' if lmc else ''}split the cluster into planes, each a subnet of its own"
            )
        lid[waiting] = free[:wanted]
        taken[lid[waiting]] = 1
    return frozen(lid)


def lid_owners(tables: RoutingTables) -> NDArray[np.int32]:
    """Return (top LID + 1,) int32: the end port that owns each LID, -1 where none does."""
    owner = np.full(tables.lft.shape[1], -1, np.int32)
    end, lid = tables.lids_of(np.flatnonzero(tables.lid))
    owner[lid] = end
    return frozen(owner)


def select_endpoints(fabric: Fabric, tables: RoutingTables, endpoints: EndpointSet = "hca") -> NDArray[np.int32]:
    """Return (n,) int32: the end ports of a set that have a LID, in fabric order; a RoutingError for no such set.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> len(select_endpoints(fabric, routing.route(fabric).tables, "all"))
    26
    """
    if endpoints not in get_args(EndpointSet):
        raise RoutingError(f"found endpoints {endpoints!r}; expected one of {', '.join(get_args(EndpointSet))}")
    kind = fabric.kind[fabric.end_node]
    chosen = {"hca": kind == Kind.HCA, "adapters": kind != Kind.SWITCH, "all": kind >= 0}[endpoints]
    return frozen(np.flatnonzero(chosen & (tables.lid != 0)).astype(np.int32))


def tree_order(fabric: Fabric, ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the end ports ordered by the switch they hang on, and there by its port: neighbours stand together.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> tree_order(fabric, fabric.ends())[:4]
    array([4, 5, 6, 7], dtype=int32)
    """
    return frozen(ends[np.lexsort((delivery_channels(fabric, ends), fabric.end_switch[ends]))])


def delivery_channels(fabric: Fabric, ends: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return (n,) int32: the channel that hands packets to each end port; -1 for port 0 of a switch."""
    port = fabric.port_of(ends)
    return np.where(port < 0, -1, fabric.peer[port])


def switch_graph(fabric: Fabric) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the neighbours of each switch as CSR, parallel cables once."""
    inner, n = fabric.inner, fabric.n_switches
    edges = np.unique(fabric.port_node[inner].astype(np.int64) * n + fabric.peer_node[inner])
    indptr = np.searchsorted(edges, np.arange(n + 1) * n)
    return frozen(indptr.astype(np.int32)), frozen((edges % max(n, 1)).astype(np.int32))


def walk(
    fabric: Fabric, lft: NDArray[np.uint8], switch: Ints, dest: Ints, lid: Ints,
    visit: Callable[[NDArray[np.intp], Ints], None],
) -> NDArray[np.bool_]:  # fmt: skip
    """Send (n,) packets from switches to attached end ports by LIDs with an entry; return (n,) whether each arrives.

    It calls ``visit(packet, port)`` hop by hop: which packets go on, and the channel of each. Lanes do not count.

    This is the plain walker of (S, T) tables, a hop of all packets at a time; use it unless time or memory forbids.
    Kernels that walk on their own do so for a reason: `routing.pairs` adds whole trees of sources,
    `routing.quality.phases` walks the same pairs in hundreds of phases, `routing.lanes.fit`, `routing.repairs.trees`
    and `routing.engines.disjoint` walk tables that they are changing, and `simulate.traffic.walks` keeps the channels
    of millions of paths.
    """
    dest_switch, last = fabric.end_switch[dest], delivery_channels(fabric, dest)
    radix = np.diff(fabric.port_offset)
    arrives, packet, node = np.zeros(len(dest), bool), np.arange(len(dest)), switch
    for _ in range(fabric.n_switches):
        number = lft[node, lid[packet]].astype(np.int64)
        arrives[packet[(number == 0) & (node == dest_switch[packet]) & (last[packet] < 0)]] = True
        goes = (number > 0) & (number <= radix[node])
        packet, port = packet[goes], fabric.port_offset[node[goes]] + number[goes] - 1
        visit(packet, port)
        arrives[packet[port == last[packet]]] = True
        goes = fabric.is_inner[port]
        packet, node = packet[goes], fabric.peer_node[port[goes]]
        if not len(packet):
            break
    return arrives
