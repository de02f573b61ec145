"""Virtual lanes for tables that have credit loops on one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from routing.kernels.loops import move_paths
from routing.tables import RoutingTables
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Kind, frozen


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
        raise _too_few(tables, needed, lanes)
    if needed == 1:
        return tables
    return replace(tables, path_sl=level, sl2vl=tuple(sl if sl < needed else 0 for sl in range(16)))


def fit_lanes(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return the tables on no more lanes than these.

    On one lane, tables keep the credit loops that they have; on several they get the levels that break them.

    Raises
    ------
    RoutingError
        When more lanes are needed; the message says how many.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> tables = routing.route(fabric, "minhop").tables
    >>> routing.fit_lanes(fabric, tables, 4).path_sl is None  # one lane is enough
    True
    """
    if lanes == 1:
        return replace(tables, path_sl=None, sl2vl=(0,) * 16)
    if tables.path_sl is None:
        return break_loops(fabric, tables, lanes)
    used = len({tables.sl2vl[sl] for sl in np.unique(tables.path_sl).tolist()})
    if used > lanes:
        raise _too_few(tables, used, lanes)
    return tables


def _too_few(tables: RoutingTables, needed: int, lanes: int) -> RoutingError:
    return RoutingError(
        f"the paths of {tables.engine} need {plural(needed, 'lane')} to be free of credit loops, "
        f"and there are {lanes}; `balanced` needs one"
    )
