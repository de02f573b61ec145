"""Tables prepared for repairs: an order of channels that rises along all paths, and the load of each channel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.lanes.policy import QosPolicy, apply_policy
from routing.order.channel_order import order_channels, switch_levels
from routing.order.dependencies import dependency_graph, order_by_key
from routing.order.legal import ChannelOrder
from routing.order.turns import ALLOWED, Turns, no_turns
from routing.proof import prove, prove_order
from routing.repairs.trees import RepairNet, sum_load
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Frozen, Kind, frozen
from topo.table import Brief

HOST, OTHER = 1.0, 1 / 256
"""Weight of a destination that is a port of a host, and of any other: the load is that of hosts."""


@dataclass(frozen=True, eq=False)
class RepairBasis(Frozen, Brief):
    """A routed fabric of S switches and P ports, prepared for repairs of its tables."""

    routed: Routed
    rank: NDArray[np.int32]
    """(P,) position of each channel between switches in an order that every path climbs, -1 for other ports; all 0
    where the tables need several lanes, which have no such order."""
    load: NDArray[np.float64]
    """(P,) pairs of hosts over each channel; other destinations add a little."""
    entries: NDArray[np.uint8]
    """(T, S) the forwarding tables by LID and switch: those of a destination stand together."""
    depends: NDArray[np.uint64]
    """(P, words) which channels wait for which, as `routing.Proof.depends`; without rows where there is no order."""

    def _brief(self) -> str:
        return f"of {self.routed._brief()}"

    @property
    def ordered(self) -> bool:
        """Whether all paths climb one order, on one lane."""
        return len(self.depends) > 0


def prepare_repair(routed: Routed) -> RepairBasis:
    """Prepare tables for any number of repairs.

    The order of channels is one that the tables have themselves, by whomever they were made. Where it leaves channels
    open, they stand as levels say (`routing.order.channel_order`).

    Parameters
    ----------
    routed : Routed
        A fabric as it is when all is well, and its tables.

    Raises
    ------
    RoutingError
        When the tables have credit loops: then nothing that is built on them is free of loops.

    Examples
    --------
    >>> import topo, routing
    >>> basis = routing.repairs.prepare_repair(routing.route(topo.preset("lab-20").fabric))
    >>> int(basis.load[basis.routed.fabric.inner].max())
    11
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    if tables.path_sl is None or not tables.path_sl.any():
        try:
            proof = prove_order(routed, "they cannot be repaired", "and load its tables first")
        except RoutingError:  # a policy that was read from a file may part them
            if not routed.policy.rules:
                raise
            levels = apply_policy(fabric, tables, routed.policy)
            if not levels.path_sl.any():  # type: ignore[union-attr]
                raise
            return prepare_repair(replace(routed, tables=levels, policy=QosPolicy()))
        depends = proof.depends[0] if len(proof.depends) else np.zeros((fabric.n_ports, 1), np.uint64)
        wish = np.full(fabric.n_ports, -1, np.int32)
        order = order_channels(fabric, switch_levels(fabric))
        wish[fabric.port_offset[order.sender] + order.number - 1] = order.rank
        rank = _climbing_order(fabric, frozen(depends), wish)
    else:
        if prove(routed, "adapters").credit_loops:
            raise RoutingError(
                f"the tables of {tables.maker} have credit loops on their lanes, so that they cannot be repaired; "
                "use another engine, such as `balanced`, and load its tables first"
            )
        depends, rank = np.zeros((0, 0), np.uint64), np.zeros(fabric.n_ports, np.int32)
    dest_switches, weight, lids = destinations(fabric, tables)
    entries = frozen(tables.lft.T)
    load = sum_load(
        repair_net(fabric, fabric, frozen(rank), ordered=len(depends) > 0),
        frozen(entries[lids]),
        frozen(dest_switches),
        frozen(weight),
        frozen(hosts_at(fabric)),
    )
    return RepairBasis(routed, rank, load, entries, depends)


def _climbing_order(fabric: Fabric, depends: NDArray[np.uint64], wish: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return (P,) an order of the channels that rises along all turns, as near to the preferred one as it can be.

    Channels between the same two switches stand together where that closes no circle: then what one of them may do the
    others may, too, and repairs have more to choose from.
    """
    indptr, then = dependency_graph(depends, fabric.port_offset, fabric.peer_node)
    first, ports = np.repeat(np.arange(fabric.n_ports), np.diff(indptr)), fabric.inner
    ends = fabric.port_node[ports].astype(np.int64) * fabric.n_switches + fabric.peer_node[ports]
    _, one, group = np.unique(ends, return_index=True, return_inverse=True)
    leader = np.arange(fabric.n_ports)
    leader[ports] = ports[one[group]]
    first, after = leader[first], leader[then]
    turn = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[turn], np.arange(fabric.n_ports + 1)).astype(np.int64)
    together = order_by_key(frozen(starts), frozen(after[turn].astype(np.int32)), frozen(ports[one]), frozen(wish))
    if (together[ports[one]] < 0).any():
        return order_by_key(frozen(indptr), frozen(then), ports, frozen(wish))
    rank = np.full(fabric.n_ports, -1, np.int32)
    rank[ports[np.lexsort((ports, together[leader[ports]]))]] = np.arange(len(ports))
    return rank


def destinations(
    fabric: Fabric, tables: RoutingTables
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int32]]:
    """Return (n,) the switch of each LID that the tables reach, its weight, and the LID."""
    ends, lids = tables.entries_of(np.flatnonzero((tables.lid > 0) & (fabric.end_switch >= 0)))
    weight = np.where(fabric.kind[fabric.end_node[ends]] == Kind.HCA, HOST, OTHER) / (1 << tables.lmc)
    return fabric.end_switch[ends], weight, lids


def hosts_at(fabric: Fabric) -> NDArray[np.float64]:
    """Return (S,) the ports of hosts at each switch."""
    return np.bincount(fabric.end_switch[fabric.ends()], minlength=fabric.n_switches).astype(np.float64)


def repair_net(
    whole: Fabric, now: Fabric, rank: NDArray[np.int32], *, ordered: bool = True, other: bool = False
) -> RepairNet:
    """Return what kernels need of a fabric before and after failures."""
    ports = whole.inner
    up = ports[now.is_inner[ports]]
    rates = whole.rate_gbps
    scale = np.divide(rates[ports].max(initial=1.0), rates, out=np.ones(len(rates)), where=rates > 0)
    return RepairNet(
        whole.port_offset,
        whole.peer_node,
        now.peer,
        now.peer_node,
        rank,
        frozen(scale),
        now.switch_part,
        frozen(up[np.argsort(-rank[up], kind="stable")]),
        ordered,
        other,
    )


class Channels(NamedTuple):
    """The channels between switches that are up, as the kernels on turns number them."""

    fabric: Fabric
    order: ChannelOrder
    port: NDArray[np.int32]
    """(C,) the port that sends on each."""
    number: NDArray[np.int32]
    """(P + 1,) the channel of each port; -1 for other ports, and for the one behind the last."""

    @classmethod
    def of(cls, fabric: Fabric) -> Channels:
        """Number the channels of a fabric."""
        order = order_channels(fabric, switch_levels(fabric))
        port = (fabric.port_offset[order.sender] + order.number - 1).astype(np.int32)
        number = np.full(fabric.n_ports + 1, -1, np.int32)
        number[port] = np.arange(len(port))
        return cls(fabric, order, port, number)

    def named(self, entries: NDArray[np.uint8]) -> NDArray[np.int32]:
        """Return the channel that each (n, S) entry names."""
        fabric, numbers = self.fabric, entries.astype(np.int64)
        first = fabric.port_offset[: fabric.n_switches + 1]
        valid = (numbers > 0) & (numbers <= np.diff(first))
        return self.number[np.where(valid, first[:-1] + numbers - 1, fabric.n_ports)]

    def start(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return (C,) an order of ports as a permutation of the channels."""
        return np.argsort(np.argsort(rank[self.port])).astype(np.int32)

    def growing(self, basis: RepairBasis, rank: NDArray[np.int32]) -> Turns:
        """Return an order of ports as a channel order to be extended, with those turns of old paths that it allows."""
        order, start = self.order, self.start(rank)
        growing = no_turns(order, start)
        first, then = self.turns(basis)
        rises = start[first] < start[then]
        growing.state[first[rises], (then - order.indptr[order.sender[then]])[rises]] = ALLOWED
        return growing

    def ranks(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return (P,) the ranks of channels by port; -1 for other ports."""
        found = np.full(self.fabric.n_ports, -1, np.int32)
        found[self.port] = rank
        return found

    def turns(self, basis: RepairBasis) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the two channels of each turn that old paths take, the busiest first, where both are up."""
        indptr, after = dependency_graph(basis.depends, self.fabric.port_offset, basis.routed.fabric.peer_node)
        before = np.repeat(np.arange(self.fabric.n_ports), np.diff(indptr))
        busy = np.argsort(-np.minimum(basis.load[before], basis.load[after]), kind="stable")
        first, then = self.number[before[busy]], self.number[after[busy]]
        both = (first >= 0) & (then >= 0)
        return frozen(first[both]), frozen(then[both])
