"""LIDs and linear forwarding tables: what alone decides a path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.errors import RoutingError
from topo.fabric import MAX_UNICAST_LID, Fabric, freeze_arrays, frozen

NO_PATH = 255
"""Entry of a forwarding table for a LID that the switch drops."""

MAX_DATA_VLS = 15
"""Virtual lanes 0 to 14 carry data; lane 15 is the subnet manager's, and a packet mapped to it is dropped."""


@dataclass(frozen=True, eq=False)
class RoutingTables:
    """Forwarding tables of a fabric with S switches and E end ports (`topo.fabric` says what an end port is)."""

    lid: NDArray[np.uint16]
    """(E,) LID of each end port; 0 for an end port that is not plugged in."""
    lft: NDArray[np.uint8]
    """(S, top LID + 1) output port number for each destination LID; 0 is the switch itself, 255 no path."""
    path_sl: NDArray[np.uint8] | None = None
    """(S, top LID + 1) service level of a path from the hosts of a switch to a LID; None when all use level 0."""
    sl2vl: tuple[int, ...] = (0,) * 16
    """(16,) virtual lane of each service level, on every port."""
    engine: str = ""
    """Name of the engine that made the tables, and why it was chosen where that was automatic."""

    def __post_init__(self) -> None:
        freeze_arrays(self)


def assign_lids(fabric: Fabric) -> NDArray[np.uint16]:
    """Return (E,) LIDs: those that plugged-in end ports were discovered with; for the others 1, 2, 3, ... in order.

    Where some are discovered, the others get what is free above them, as far as it reaches: what is free below may
    belong to machines that are switched off. End ports that are not plugged in have 0.

    Raises
    ------
    RoutingError
        When the fabric has more end ports than a subnet has unicast LIDs.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.assign_lids(fabric)[:4]
    array([1, 2, 3, 4], dtype=uint16)
    """
    plugged = fabric.end_switch >= 0
    count = int(np.count_nonzero(plugged))
    if count > MAX_UNICAST_LID:
        raise RoutingError(
            f"{fabric.name} has {count:,} end ports and a subnet has {MAX_UNICAST_LID:,} unicast LIDs: "
            "split the cluster into planes, each a subnet of its own"
        )
    lid = np.zeros(len(plugged), np.uint16)
    if fabric.discovered_lid.size:
        lid[plugged] = fabric.discovered_lid[plugged]
    waiting = plugged & (lid == 0)
    free = np.setdiff1d(np.arange(1, MAX_UNICAST_LID + 1), lid)
    free = np.roll(free, -int(np.searchsorted(free, lid.max(initial=0))))
    lid[waiting] = free[: np.count_nonzero(waiting)]
    return frozen(lid)


def lid_owners(tables: RoutingTables) -> NDArray[np.int32]:
    """Return (top LID + 1,) int32: the end port that owns each LID, -1 where none does."""
    owner = np.full(tables.lft.shape[1], -1, np.int32)
    has = np.flatnonzero(tables.lid)
    owner[tables.lid[has]] = has
    return frozen(owner)


def differing_entries(fabric: Fabric, a: RoutingTables, b: RoutingTables) -> NDArray[np.int64]:
    """Return (n, 2): switch and end port of each forwarding entry in which two tables of a fabric differ.

    Entries are those for the LID that an end port has in each of them; who has none there has no path.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> one, other = (routing.route(fabric, engine).tables for engine in ("balanced", "minhop"))
    >>> len(routing.differing_entries(fabric, one, other))
    72
    """
    owners = np.flatnonzero((a.lid != 0) | (b.lid != 0))

    def entries(tables: RoutingTables, ends: NDArray[np.int64]) -> NDArray[np.uint8]:
        lids = tables.lid[ends].astype(np.int64)
        known = (lids > 0) & (lids < tables.lft.shape[1])
        return np.where(known, tables.lft[:, np.where(known, lids, 0)], NO_PATH)

    found = [np.zeros((0, 2), np.int64)]
    for start in range(0, len(owners), 4096):
        ends = owners[start : start + 4096]
        switch, index = np.nonzero(entries(a, ends) != entries(b, ends))
        found.append(np.stack([switch, ends[index]], axis=1))
    every = np.concatenate(found)
    return every[np.lexsort((every[:, 1], every[:, 0]))]
