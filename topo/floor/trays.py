"""How full the trays above the racks are: cables in each piece of them, from one rack to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.errors import plural
from topo.fabric import Fabric, freeze_arrays
from topo.floor.cables import Cabling
from topo.floor.racks import Layout
from topo.table import Brief


@dataclass(frozen=True)
class Trays(Brief):
    """Cables in the trays of a room of R rows and C places in a row.

    A cable between rows lies along the row with the lower number, and crosses at the place of its other end.
    """

    along: NDArray[np.int64]
    """(R, C - 1) above each row, between a place and the next."""
    across: NDArray[np.int64]
    """(R - 1, C) between each row and the next, at a place."""

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def _brief(self) -> str:
        return f"{plural(len(self.along), 'row')}, at most {plural(int(self.along.max(initial=0)), 'cable')} above one"


def fill_trays(fabrics: Sequence[Fabric], layout: Layout, cablings: Sequence[Cabling]) -> Trays:
    """Count the cables in each piece of the trays; those within a rack are in none.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("fire-flyer-2")
    >>> trays = topo.fill_trays(cluster.fabrics, cluster.layout, cluster.cablings)
    >>> trays.along.shape, int(trays.along.max())
    ((7, 25), 521)
    """
    ends = []
    for number, (fabric, cabling) in enumerate(zip(fabrics, cablings, strict=True)):
        racks = np.sort(layout.rack[layout.node_device[number][fabric.port_node[fabric.links]]], axis=1)
        own = cabling.cable >= 0
        ends.append(np.column_stack([cabling.cable[own], racks[own]]))
    _, a, b = np.unique(np.concatenate([*ends, np.empty((0, 3), np.int64)]), axis=0).T.astype(np.int64)
    a, b = np.where(layout.row[a] <= layout.row[b], (a, b), (b, a))
    rows, columns = int(layout.row.max(initial=0)) + 1, int(layout.column.max(initial=0)) + 1
    along, across = np.zeros((rows, columns), np.int64), np.zeros((rows, columns), np.int64)
    left, right = np.sort([layout.column[a], layout.column[b]], axis=0)
    for piece, row, column, step in (
        (along, layout.row[a], left, 1),
        (along, layout.row[a], right, -1),
        (across, layout.row[a], layout.column[b], 1),
        (across, layout.row[b], layout.column[b], -1),
    ):
        np.add.at(piece, (row, column), step)
    return Trays(np.cumsum(along, axis=1)[:, :-1], np.cumsum(across, axis=0)[:-1])
