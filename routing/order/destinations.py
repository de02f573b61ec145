"""Destinations: what has a LID, in the order in which engines route to it: by role, and by position in the tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from routing.tables import NO_PATH, RoutingTables, assign_lids, delivery_channels
from topo.fabric import Fabric, Role, freeze_arrays

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Destinations:
    """The D end ports with a LID, grouped by the switch that each hangs on or is; groups stand in tree order."""

    lid: Ints
    """(D,) LID."""
    switch: Ints
    """(D,) switch."""
    port: Ints
    """(D,) port number on that switch, 0 for the switch itself."""
    role: Ints
    """(D,) role of the node; that of switches comes last."""
    indptr: Ints
    """(S + 1,) group i is ``indptr[i]`` to ``indptr[i + 1] - 1`` and belongs to switch ``group[i]``."""
    group: Ints
    """(S,) switches in tree order."""
    index: Ints
    """(D,) position in the order of role, then group, then port: the order in which they are rerouted."""
    count: Ints
    """(D,) hosts before each in the order of group, then role, the group's most common one first, then port.
    Aggregation nodes are counted by themselves, and so are switches."""
    turn: Ints
    """(D,) the same, but of the hosts in groups before, only those of the most common role of the group count. Modulo
    the uplinks of a leaf this spreads the hosts of every role evenly, and those of one leaf over different uplinks."""

    def __post_init__(self) -> None:
        freeze_arrays(self)


def destinations_of(fabric: Fabric, lids: NDArray[np.uint16], level: NDArray[np.int64]) -> Destinations:
    """Collect the destinations of a fabric.

    Parameters
    ----------
    fabric : Fabric
    lids : (E,) uint16
        LIDs of the end ports, 0 for those without.
    level : (S,) int
        Level of each switch.
    """
    n = fabric.n_switches
    group = _tree_order(fabric, level)
    position = np.empty(n, np.int64)
    position[group] = np.arange(n)
    ends = np.flatnonzero((lids != 0) & (fabric.end_switch >= 0))
    switch = fabric.end_switch[ends]
    attached = delivery_channels(fabric, ends)
    port = np.where(attached < 0, 0, fabric.port_number[attached]).astype(np.int64)
    role = np.minimum(fabric.role[fabric.end_node[ends]].astype(np.int64), Role.LEAF)
    # Roles of a group: (S, roles) destinations, and the one that most of its hosts have.
    tally = np.zeros((n, Role.LEAF + 1), np.int64)
    np.add.at(tally, (position[switch], role), 1)
    lead = np.argmax(tally[:, : Role.AGGREGATION], axis=1)
    order = np.lexsort((port, role, role != lead[position[switch]], role >= Role.AGGREGATION, position[switch]))
    ends, switch, port, role = ends[order], switch[order], port[order], role[order]
    index = np.empty(len(ends), np.int32)
    index[np.lexsort((np.arange(len(ends)), role))] = np.arange(len(ends))
    indptr = np.searchsorted(position[switch], np.arange(n + 1))
    before = np.cumsum(tally, axis=0) - tally
    count, turn = np.empty(len(ends), np.int64), np.empty(len(ends), np.int64)
    for kind, begin in (
        (role < Role.AGGREGATION, before[np.arange(n), lead]),
        (role == Role.AGGREGATION, before[:, Role.AGGREGATION]),
        (role == Role.LEAF, before[:, Role.LEAF]),
    ):
        passed = np.cumsum(kind) - kind
        here = position[switch[kind]]
        count[kind] = passed[kind]
        turn[kind] = begin[here] + passed[kind] - passed[indptr[here]]
    return Destinations(
        lid=lids[ends].astype(np.int32),
        switch=switch.astype(np.int32),
        port=port.astype(np.int32),
        role=role.astype(np.int32),
        indptr=indptr.astype(np.int32),
        group=group.astype(np.int32),
        index=index,
        count=count.astype(np.int32),
        turn=turn.astype(np.int32),
    )


def _tree_order(fabric: Fabric, level: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the switches, lower levels first, such that those of one subtree stand together."""
    n = fabric.n_switches
    a, b = fabric.port_node[fabric.inner_links].T
    keys = [np.arange(n)]
    for top in range(2, int(level.max(initial=1))):
        inside = (level[a] <= top) & (level[b] <= top)
        graph = csr_matrix((np.ones(int(inside.sum()), np.int8), (a[inside], b[inside])), shape=(n, n))
        # Components are numbered by their first switch, so the order of the fabric is kept where it is a tree's.
        keys.append(connected_components(graph, directed=False)[1].astype(np.int64))
    return np.lexsort((*keys, level))


def finish_tables(dests: Destinations, lft: NDArray[np.uint8], lids: NDArray[np.uint16], engine: str) -> RoutingTables:
    """Fill in what each switch hands over itself, and close the tables."""
    lft[dests.switch, dests.lid] = dests.port
    return RoutingTables(lids, lft, engine=engine)


def empty_tables(fabric: Fabric, lid: NDArray[np.uint16] | None) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the LIDs, assigned where none are given, and tables without a path."""
    lids = assign_lids(fabric) if lid is None else lid
    return lids, np.full((fabric.n_switches, int(lids.max(initial=0)) + 1), NO_PATH, np.uint8)
