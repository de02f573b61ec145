"""Virtual lanes for tables that have credit loops on one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from routing.kernels.loops import move_paths
from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, frozen

__all__ = ["break_loops"]


def break_loops(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return the tables with the service level of each path, such that no lane has a credit loop.

    All adapters count as endpoints. Service level n travels on lane n.

    Parameters
    ----------
    fabric, tables
        Tables without forwarding loops.
    lanes : int
        Lanes that there are.

    Raises
    ------
    RoutingError
        When more lanes are needed; the message says how many.
    """
    ends = np.flatnonzero((fabric.kind[fabric.end_node] != Kind.SWITCH) & (fabric.end_switch >= 0) & (tables.lid != 0))
    level = np.zeros(tables.lft.shape, np.uint8)
    needed = move_paths(
        fabric.port_offset,
        fabric.peer_node,
        tables.lft,
        level,
        frozen(np.unique(fabric.end_switch[ends])),
        frozen(fabric.end_switch[ends]),
        frozen(tables.lid[ends].astype(np.int32)),
        int(np.diff(fabric.port_offset[: fabric.n_switches + 1]).max(initial=0)),
    )
    if needed > lanes:
        raise RoutingError(
            f"the paths of {tables.engine} need {needed} lanes to be free of credit loops, and there are {lanes}; "
            "`balanced` needs one"
        )
    if needed == 1:
        return tables
    return replace(tables, path_sl=level, sl2vl=tuple(sl if sl < needed else 0 for sl in range(16)))
