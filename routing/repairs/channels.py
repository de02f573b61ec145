"""The channels of a fabric after failures as the kernels on turns number them, and the ports that send on them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import order_channels, switch_levels
from routing.order.dependencies import dependency_graph
from routing.order.legal import ChannelOrder
from routing.order.turns import ALLOWED, Turns, no_turns
from routing.repairs.basis import RepairBasis
from topo.fabric import Fabric, frozen


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
