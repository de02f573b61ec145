"""Virtual lanes for tables that have credit loops on one: paths move from lane to lane until none has a loop.

Every kernel here returns after a bounded effort, so that Python hears signals, and says how far it came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.lanes.classes import DATA_LANES
from routing.machine_code import inner, kernel
from routing.tables import RoutingTables
from topo.errors import RoutingError, plural
from topo.fabric import Fabric, Kind, frozen

Int32s = NDArray[np.int32]
Counts = NDArray[np.int64]

EFFORT = 10_000_000
"""Steps that kernels take before Python hears signals again, a tenth of a second."""

MOST_STEPS = 5_000_000_000
"""Steps after which the search for lanes is given up, about a minute: 666 switches with 12 hosts and 24 links each, in
a random graph, take 2,100,000,000 for 13 lanes."""


class LanePaths(NamedTuple):
    """All paths: from each of n switches to each of D destinations."""

    offset: Int32s  # `port_offset` of the fabric
    node: Int32s  # `port_node` of the fabric
    peer: Int32s  # `peer` of the fabric
    lft: NDArray[np.uint8]  # (S, T) forwarding tables
    by_lid: NDArray[np.uint8]  # (T, S) the same, such that the entries for one LID stand together
    lane: NDArray[np.uint8]  # (T, S) lane of the paths to a LID from the hosts of a switch; changed in place
    sends: NDArray[np.bool_]  # (S,) whether a switch has end ports that send
    dest_switch: Int32s  # (D,) switch of each destination
    lid: Int32s  # (D,) its LID


class Search(NamedTuple):
    """Dependencies of one lane, and where a depth-first search among them stands."""

    edge: Counts  # (P, W) paths over each dependency, by channel and output port of the next switch
    state: NDArray[np.uint8]  # (P,) 0 new, 1 on the stack, 2 done: cannot be on a loop, since dependencies only go away
    stack: Int32s  # (P + 1,)
    at: Int32s  # (P + 1,) next output port to look at, by place on the stack
    tally: Counts
    """(4,) the channel to start from, paths moved, steps taken, and the last place on the stack (-1: it is empty)."""


def break_loops(fabric: Fabric, tables: RoutingTables, lanes: int, most_steps: int = MOST_STEPS) -> RoutingTables:
    """Return tables without forwarding loops with a service level of each path, such that no lane has a credit loop.

    All adapters count as endpoints. Service level n travels on lane n. It is a RoutingError when more lanes are needed
    than there are; the message says how many, up to those that switches have, or that the search was given up.
    """
    ends = np.flatnonzero((fabric.kind[fabric.end_node] != Kind.SWITCH) & (fabric.end_switch >= 0) & (tables.lid != 0))
    dests, lids = tables.lids_of(ends)
    level, homes = np.zeros(tables.lft.shape[::-1], np.uint8), frozen(fabric.end_switch[dests])
    sends = frozen(np.bincount(homes, minlength=fabric.n_switches) > 0)
    paths = LanePaths(
        fabric.port_offset, fabric.port_node, fabric.peer, tables.lft, frozen(tables.lft.T), level, sends, homes,
        frozen(lids),
    )  # fmt: skip
    search = Search(
        edge=np.zeros((fabric.n_ports, fabric.most_ports + 1), np.int64),
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


@kernel
def count_paths(paths: LanePaths, search: Search, now: int, begin: int, end: int) -> None:
    """Count the paths of a lane to some destinations over each dependency."""
    for d in range(begin, end):
        for source in range(len(paths.lft)):
            if paths.sends[source] and paths.lane[paths.lid[d], source] == now:
                _walk(paths, search, source, d, 1)


@inner
def _walk(paths: LanePaths, search: Search, source: int, d: int, step: int) -> None:
    """Add or remove one path; one that does not arrive counts as far as it goes."""
    switch, before = source, -1
    for _ in range(len(paths.lft)):
        port = paths.by_lid[paths.lid[d], switch]
        if switch == paths.dest_switch[d] or port == 0 or port > paths.offset[switch + 1] - paths.offset[switch]:
            return
        channel = paths.offset[switch] + port - 1
        if paths.peer[channel] < 0 or paths.peer[channel] >= paths.offset[len(paths.lft)]:
            return
        if before >= 0:
            search.edge[before, port] += step
        before, switch = channel, paths.node[paths.peer[channel]]
        search.tally[2] += 1


@inner
def _loop(paths: LanePaths, search: Search) -> int:
    """Continue a depth-first search for a loop; return its length; its channels are on top of the stack."""
    offset, node, peer, edge = paths.offset, paths.node, paths.peer, search.edge
    state, stack, at, tally = search.state, search.stack, search.at, search.tally
    # What is left of the way to the last loop: up to the first dependency that has gone with it.
    depth = 0
    while depth < tally[3] and edge[stack[depth], stack[depth + 1] - offset[node[peer[stack[depth]]]] + 1] > 0:
        depth += 1
    for i in range(depth + 1, tally[3] + 1):
        state[stack[i]] = 0
    if tally[3] < 0:
        depth = -1
    while True:
        if depth < 0:
            while tally[0] < len(state) and state[tally[0]] != 0:
                tally[0] += 1
            if tally[0] == len(state):
                tally[3] = -1
                return 0
            depth = 0
            stack[0], at[0] = tally[0], 1
            state[tally[0]] = 1
        channel = stack[depth]
        found, port = -1, at[depth]
        while port < edge.shape[1] and found < 0:
            if edge[channel, port] > 0:
                found = offset[node[peer[channel]]] + port - 1
                if state[found] == 2:
                    found = -1
            port += 1
        at[depth] = port
        tally[2] += 1
        if found < 0:
            state[channel] = 2
            depth -= 1
        elif state[found] == 1:
            length = 1
            while stack[depth - length + 1] != found:
                length += 1
            tally[3] = depth
            at[depth] -= 1  # the dependency that closes the loop may stay, if another one of the loop goes
            return length
        else:
            depth += 1
            stack[depth], at[depth] = found, 1
            state[found] = 1


@kernel
def move_paths(paths: LanePaths, search: Search, now: int, effort: int) -> bool:
    """Move paths on loops of a lane to the next, until none is left or so many steps are taken; return whether none is.

    In each loop the dependency with the fewest paths is dissolved (the heuristic of DFSSSP: to need the fewest lanes
    is NP-complete).
    """
    enough = search.tally[2] + effort
    behind = np.empty(len(paths.lft), np.int32)
    while search.tally[2] < enough:
        length = _loop(paths, search)
        if length == 0:
            return True
        best, best_port, first = -1, -1, search.tally[3] + 1 - length
        for i in range(length):
            channel, then = search.stack[first + i], search.stack[first + (i + 1) % length]
            port = then - paths.offset[paths.node[paths.peer[channel]]] + 1
            if best < 0 or search.edge[channel, port] < search.edge[best, best_port]:
                best, best_port = channel, port
        _dissolve(paths, search, now, best, best_port, behind)
    return False


@inner
def _dissolve(paths: LanePaths, search: Search, now: int, channel: int, port: int, behind: Int32s) -> None:
    """Move the paths over one dependency to the next lane."""
    here, there = paths.node[channel], paths.node[paths.peer[channel]]
    number = channel - paths.offset[here] + 1
    search.tally[2] += len(paths.lid) >> 3
    for d in range(len(paths.lid)):
        lid = paths.lid[d]
        if there == paths.dest_switch[d] or paths.lft[there, lid] != port or paths.lft[here, lid] != number:
            continue
        # All switches whose entries lead to the channel, from there backwards: a tree, if no path comes back.
        behind[0], size, i = here, 1, 0
        while i < size:
            switch = behind[i]
            i += 1
            if paths.sends[switch] and paths.lane[lid, switch] == now:
                _walk(paths, search, switch, d, -1)
                paths.lane[lid, switch] = now + 1
                search.tally[1] += 1
            for own in range(paths.offset[switch], paths.offset[switch + 1]):
                far = paths.peer[own]
                if far < 0 or far >= paths.offset[len(paths.lft)]:
                    continue
                before = paths.node[far]
                leads_here = paths.by_lid[lid, before] == far - paths.offset[before] + 1
                if leads_here and before != paths.dest_switch[d] and size < len(behind):
                    behind[size] = before
                    size += 1
            search.tally[2] += paths.offset[switch + 1] - paths.offset[switch]
