"""Switches in an order that their wiring gives, whatever their names, GUIDs and numbers are.

An engine that takes one destination, root or channel after the other makes other tables when these come in another
order, which is chance. Here switches get colours, first by level and by what hangs on them, then by the colours of
their neighbours, again and again (Weisfeiler and Leman, 1968). If some still look alike, one of them is told apart, and
so on: the one after which all colours come to the least sum, as good as always one of several that are symmetric, so
that it does not matter which. Twins, each linked to all switches of a colour or to none, are told apart at once.

Jobs number hosts by rank, so switches that look alike differ by what hangs on them: ranks decide between those. Closed
forms follow ranks; for them, these are the first colours, and the first order.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.legal import ChannelOrder
from topo.fabric import Fabric, Role, frozen
from topo.graphs import Colours, mix, refine_colours


class Turned(NamedTuple):
    """A fabric in the order of its structure."""

    fabric: Fabric
    switch: NDArray[np.int64]  # (S,) what each of its switches was before
    number: NDArray[np.int32]  # (P,) the number that each of its ports had before

    def channels(self, order: ChannelOrder) -> ChannelOrder:
        """Return an order of the channels of this fabric with the port numbers that they had before."""
        port = self.fabric.port_offset[order.sender] + order.number - 1
        return order._replace(number=self.number[port])


BY_NODE = ("kind", "role", "level", "model", "node_guid", "host")
BY_PORT = ("width", "speed", "port_guid", "length_m")

EFFORT = 10_000_000
"""Bound on switches tried times channels: half a second."""


def structure_order(fabric: Fabric, ranks: NDArray[np.int32], *, ranked: bool = False) -> NDArray[np.int64]:
    """Return (S,) the switches in the order of their colours; (n,) ranks are end ports of adapters as jobs number them.

    Where they are ``ranked``, switches with adapters come first, in the order of these, and tell the others apart. If
    not, ranks only decide between switches that the wiring gives no order.
    """
    n, inner = fabric.n_switches, fabric.inner
    first = np.full(n, len(ranks))
    np.minimum.at(first, fabric.end_switch[ranks], np.arange(len(ranks)))
    if ranked:
        tie, known = np.arange(n), mix(first.astype(np.uint64))
    else:
        tie, known = np.argsort(structure_order(fabric, ranks, ranked=True)), np.zeros(n, np.uint64)
    sender, receiver = fabric.port_node[inner], fabric.peer_node[inner]
    by_sender = np.argsort(sender, kind="stable")
    rate = np.unique(fabric.rate_gbps, return_inverse=True)[1].astype(np.uint64)
    edges = sender[by_sender], receiver[by_sender], mix(rate[inner][by_sender])
    ends = np.flatnonzero((fabric.end_switch >= 0) & (np.arange(fabric.n_end_ports) >= n))
    hung = mix(fabric.role[fabric.end_node[ends]] + mix(rate[fabric.port_of(ends)]))
    colour = known + fabric.level[:n].astype(np.uint64) + mix((fabric.role[:n] == Role.JOINT).astype(np.uint64))
    np.add.at(colour, fabric.end_switch[ends], hung)

    if len(inner):
        colour, left = refine_colours(colour, *edges), EFFORT // len(inner)
        while left > 0 and (alike := _first_cell(colour, tie)).size:
            one, left = refine_colours(_told_apart(colour, alike[:1]), *edges), left - 1
            if len(np.unique(one)) == len(np.unique(colour)) + 1:  # nothing else tells them apart: they are twins
                one = refine_colours(_told_apart(colour, alike), *edges)
            elif len(alike) <= left:
                left -= len(alike)
                each = (refine_colours(_told_apart(colour, alike[[place]]), *edges) for place in range(len(alike)))
                one = min(each, key=lambda found: int(mix(found).sum()))
            colour = one
    return np.lexsort((tie, colour, first if ranked else np.zeros(n)))


def _first_cell(colour: Colours, tie: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the switches of the first colour that several have, in the order of ``tie``."""
    _, alike, count = np.unique(colour, return_inverse=True, return_counts=True)
    cell = np.flatnonzero(alike == np.argmax(count > 1)) if count.max() > 1 else np.zeros(0, np.int64)
    return cell[np.argsort(tie[cell])]


def _told_apart(colour: Colours, switches: NDArray[np.int64]) -> Colours:
    """Return colours with another one for each of some switches."""
    colour = colour.copy()
    colour[switches] = mix(colour[switches] + np.arange(1, len(switches) + 1).astype(np.uint64))
    return colour


def in_structure_order(fabric: Fabric, ranks: NDArray[np.int32], *, ranked: bool = False) -> Turned:
    """Return the fabric with switches and their ports in the order of `structure_order`, and without its LIDs.

    Zones are numbered as they come in it. Ports are ordered by what they lead to: switches in their order, adapters by
    role and rate, or by rank alone where they are ``ranked``. What is left to the labels is which of several equal
    cables comes first.
    """
    order, n, offset = structure_order(fabric, ranks, ranked=ranked), fabric.n_switches, fabric.port_offset
    node = np.concatenate([order, np.arange(n, fabric.n_nodes)])
    place = np.argsort(node)
    mine = np.arange(offset[n])
    there, peer = fabric.peer_node[mine], fabric.peer[mine]
    leads = np.where(there < 0, 2, np.where(there < n, 0, 1))
    rank = np.full(fabric.n_ports + 1, len(ranks))
    rank[fabric.port_of(ranks)] = np.arange(len(ranks))
    rank = rank[peer]
    which = np.where(leads == 0, place[there], rank if ranked else np.where(leads == 1, fabric.role[there], 0))
    keys = (np.minimum(mine, peer), rank, -fabric.rate_gbps[mine], which, leads, place[fabric.port_node[mine]])
    port = np.concatenate([np.lexsort(keys), np.arange(offset[n], fabric.n_ports)])
    now = np.empty(fabric.n_ports + 1, np.int32)
    now[port], now[-1] = np.arange(fabric.n_ports), -1
    found, first = np.unique(fabric.zone[order], return_index=True)
    number = np.full(int(fabric.zone.max(initial=-1)) + 2, -1, np.int16)  # zone -1 is the last one
    number[found[found >= 0]] = np.argsort(np.argsort(first[found >= 0]))
    changed: dict[str, Any] = {name: frozen(getattr(fabric, name)[node]) for name in BY_NODE}
    changed |= {name: frozen(getattr(fabric, name)[port]) for name in BY_PORT if len(getattr(fabric, name))}
    turned = replace(
        fabric,
        **changed,
        zone=frozen(number[fabric.zone[node]]),
        names=tuple(fabric.names[i] for i in node.tolist()),
        port_offset=frozen(np.append(0, np.cumsum(np.diff(offset)[node])).astype(np.int32)),
        peer=frozen(now[fabric.peer[port]]),
        discovered_lid=frozen(np.zeros(0, np.uint16)),
    )
    return Turned(turned, frozen(order), frozen(fabric.port_number[port]))
