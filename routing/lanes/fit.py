"""Virtual lanes for tables that have credit loops on one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from routing.lanes.classes import DATA_LANES
from routing.lanes.loops import LanePaths, Search, count_paths, move_paths
from routing.tables import RoutingTables
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Kind, frozen

EFFORT = 10_000_000
"""Steps that kernels take before Python hears signals again, a tenth of a second."""

MOST_STEPS = 5_000_000_000
"""Steps after which the search for lanes is given up, about a minute: 666 switches with 12 hosts and 24 links each, in
a random graph, take 2,100,000,000 for 13 lanes."""


def break_loops(fabric: Fabric, tables: RoutingTables, lanes: int, most_steps: int = MOST_STEPS) -> RoutingTables:
    """Return the tables with the service level of each path, such that no lane has a credit loop.

    All adapters count as endpoints. Service level n travels on lane n.

    Parameters
    ----------
    fabric, tables
        Tables without forwarding loops.
    lanes : int
        Lanes that there are.
    most_steps : int
        Steps after which the search is given up.

    Raises
    ------
    RoutingError
        When more lanes are needed; the message says how many, up to those that switches have, or that the search was
        given up.
    """
    ends = np.flatnonzero((fabric.kind[fabric.end_node] != Kind.SWITCH) & (fabric.end_switch >= 0) & (tables.lid != 0))
    dests, lids = tables.lids_of(ends)
    level = np.zeros(tables.lft.shape[::-1], np.uint8)
    paths = LanePaths(
        fabric.port_offset,
        fabric.port_node,
        fabric.peer,
        tables.lft,
        frozen(tables.lft.T),
        level,
        frozen(np.bincount(fabric.end_switch[dests], minlength=fabric.n_switches) > 0),
        frozen(fabric.end_switch[dests]),
        frozen(lids),
    )
    widest = fabric.most_ports
    search = Search(
        edge=np.zeros((fabric.n_ports, widest + 1), np.int64),
        state=np.zeros(fabric.n_ports, np.uint8),
        stack=np.empty(fabric.n_ports + 1, np.int32),
        at=np.empty(fabric.n_ports + 1, np.int32),
        tally=np.zeros(4, np.int64),
    )
    most = max(lanes, DATA_LANES)
    for needed in range(1, 1 + most):
        if not _free_lane(paths, search, needed - 1, most_steps):
            raise RoutingError(
                f"the search for lanes was given up after {search.tally[2]:,} steps: the paths of {tables.maker} need "
                f"more than {needed} lanes to be free of credit loops, or a longer search; `balanced` needs one"
            )
        if not search.tally[1]:
            break
    else:
        raise _too_few(tables, f"more than {plural(most, 'lane')}", lanes)
    if needed > lanes:
        raise _too_few(tables, plural(needed, "lane"), lanes)
    if needed == 1:
        return tables
    return replace(tables, path_sl=level.T, sl2vl=tuple(sl if sl < needed else 0 for sl in range(16)))


def _free_lane(paths: LanePaths, search: Search, now: int, most_steps: int) -> bool:
    """Move paths off a lane until it has no credit loop; return whether that ended within bounds."""
    search.edge[:] = 0
    search.state[:] = 0
    search.tally[[0, 1, 3]] = 0, 0, -1
    block = max(1, EFFORT // max(len(paths.sends), 1) // 4)
    for begin in range(0, len(paths.lid), block):
        count_paths(paths, search, now, begin, min(begin + block, len(paths.lid)))
    while not move_paths(paths, search, now, EFFORT):
        if search.tally[2] > most_steps:
            return False
    return True


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
    >>> routing.lanes.fit_lanes(fabric, tables, 4).path_sl is None  # one lane is enough
    True
    """
    if lanes == 1:
        return replace(tables, path_sl=None, sl2vl=(0,) * 16)
    if tables.path_sl is None:
        return break_loops(fabric, tables, lanes)
    used = len({tables.sl2vl[sl] for sl in np.unique(tables.path_sl).tolist()})
    if used > lanes:
        raise _too_few(tables, plural(used, "lane"), lanes)
    return tables


def _too_few(tables: RoutingTables, needed: str, lanes: int) -> RoutingError:
    return RoutingError(
        f"the paths of {tables.maker} need {needed} to be free of credit loops, "
        f"and there are {lanes}; `balanced` needs one"
    )
