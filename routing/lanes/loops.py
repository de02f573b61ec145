"""Moves paths from lane to lane until none has a credit loop.

Every kernel here returns after a bounded effort, so that Python hears signals, and says how far it came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel

Int32s = NDArray[np.int32]
Counts = NDArray[np.int64]


class LanePaths(NamedTuple):
    """All paths: from each of n switches to each of D destinations."""

    offset: Int32s
    """`port_offset` of the fabric."""
    node: Int32s
    """`port_node` of the fabric."""
    peer: Int32s
    """`peer` of the fabric."""
    lft: NDArray[np.uint8]
    """(S, T) forwarding tables."""
    by_lid: NDArray[np.uint8]
    """(T, S) the same, such that the entries for one LID stand together."""
    lane: NDArray[np.uint8]
    """(T, S) lane of the paths to a LID from the hosts of a switch; changed in place."""
    sends: NDArray[np.bool_]
    """(S,) whether a switch has end ports that send."""
    dest_switch: Int32s
    """(D,) switch of each destination."""
    lid: Int32s
    """(D,) its LID."""


class Search(NamedTuple):
    """Dependencies of one lane, and where a depth-first search among them stands."""

    edge: Counts
    """(P, W) paths over each dependency, by channel and output port of the next switch."""
    state: NDArray[np.uint8]
    """(P,) 0 new, 1 on the stack, 2 done: cannot be on a loop, since dependencies only go away."""
    stack: Int32s
    """(P + 1,)"""
    at: Int32s
    """(P + 1,) next output port to look at, by place on the stack."""
    tally: Counts
    """(4,) the channel to start from, paths moved, steps taken, and the last place on the stack (-1: it is empty)."""


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
    """Move paths on loops of a lane to the next one, until there is no loop or so many steps are taken.

    In each loop the dependency with the fewest paths is dissolved (the heuristic of DFSSSP: to need the fewest lanes
    is NP-complete).

    Returns
    -------
    bool
        Whether the lane is free of loops.
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
