"""Moves paths from lane to lane until none has a credit loop."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32s = NDArray[np.int32]
Counts = NDArray[np.int64]


@njit(cache=True, nogil=True)
def _count(
    offset: Int32s, peer: Int32s, lft: NDArray[np.uint8], lane: NDArray[np.uint8], now: int,
    sources: Int32s, home: Int32s, lid: Int32s, edge: Counts,
) -> None:  # fmt: skip
    """Count the paths of a lane over each dependency: (P, W) by channel and output port of the next switch."""
    edge[:] = 0
    for d in range(len(lid)):
        for source in sources:
            if lane[source, lid[d]] == now and lft[source, lid[d]] != 255:
                _walk(offset, peer, lft, source, home[d], lid[d], edge, 1)


@njit(cache=True, nogil=True)
def _walk(
    offset: Int32s, peer: Int32s, lft: NDArray[np.uint8], source: int, home: int, lid: int, edge: Counts, step: int
) -> None:
    switch, before = source, -1
    while switch != home:
        port = lft[switch, lid]
        if before >= 0:
            edge[before, port] += step
        before = offset[switch] + port - 1
        switch = peer[before]


@njit(cache=True, nogil=True)
def _loop(offset: Int32s, peer: Int32s, edge: Counts, state: NDArray[np.uint8], stack: Int32s, at: Int32s) -> int:
    """Look for a loop by depth-first search; return its length, its channels at the end of the stack counted out.

    ``state`` is kept between calls: channels that are done cannot be on a loop, since dependencies only go away.
    """
    for root in range(len(edge)):
        if state[root] != 0:
            continue
        depth = 0
        stack[0], at[0] = root, 1
        state[root] = 1
        while depth >= 0:
            channel = stack[depth]
            found = -1
            port = at[depth]
            while port < edge.shape[1]:
                if edge[channel, port] > 0:
                    found = offset[peer[channel]] + port - 1
                    port += 1
                    if state[found] != 2:
                        break
                    found = -1
                else:
                    port += 1
            at[depth] = port
            if found < 0:
                state[channel] = 2
                depth -= 1
            elif state[found] == 1:
                length = 1
                while stack[depth - length + 1] != found:
                    length += 1
                stack[0:length] = stack[depth - length + 1 : depth + 1].copy()
                for other in range(len(state)):
                    if state[other] == 1:
                        state[other] = 0
                return length
            else:
                depth += 1
                stack[depth], at[depth] = found, 1
                state[found] = 1
    return 0


@njit(cache=True, nogil=True)
def move_paths(
    offset: Int32s, peer: Int32s, lft: NDArray[np.uint8], lane: NDArray[np.uint8],
    sources: Int32s, home: Int32s, lid: Int32s, widest: int,
) -> int:  # fmt: skip
    """Move paths on loops of lane 0 to lane 1, of lane 1 to lane 2, and so on; return the lanes that are used.

    In each loop the dependency with the fewest paths is dissolved (the heuristic of DFSSSP: to need the fewest lanes
    is NP-complete).

    Parameters
    ----------
    offset, peer
        `port_offset` and `peer_node` of the fabric.
    lft : (S, T) uint8
    lane : (S, T) uint8, in and out
        Lane of the paths from the hosts of a switch to a LID.
    sources : (n,) int32
        Switches with end ports that send.
    home, lid : (D,) int32
        Destinations: switch and LID. All sources reach all of them, or have no entry.
    widest : int
        Most ports of a switch.
    """
    edge = np.zeros((len(peer), widest + 1), np.int64)
    state = np.zeros(len(peer), np.uint8)
    stack, at = np.empty(len(peer) + 1, np.int32), np.empty(len(peer) + 1, np.int32)
    now = 0
    while True:
        _count(offset, peer, lft, lane, now, sources, home, lid, edge)
        state[:] = 0
        moved = 0
        length = _loop(offset, peer, edge, state, stack, at)
        while length > 0:
            best, best_port = -1, -1
            for i in range(length):
                channel, then = stack[i], stack[(i + 1) % length]
                port = then - offset[peer[channel]] + 1
                if best < 0 or edge[channel, port] < edge[best, best_port]:
                    best, best_port = channel, port
            moved += _dissolve(offset, peer, lft, lane, now, sources, home, lid, edge, best, best_port)
            length = _loop(offset, peer, edge, state, stack, at)
        if moved == 0:
            return now + 1
        now += 1
        if now == 255:
            return now


@njit(cache=True, nogil=True)
def _dissolve(
    offset: Int32s, peer: Int32s, lft: NDArray[np.uint8], lane: NDArray[np.uint8], now: int,
    sources: Int32s, home: Int32s, lid: Int32s, edge: Counts, channel: int, port: int,
) -> int:  # fmt: skip
    """Move the paths over one dependency to the next lane; return how many."""
    there = peer[channel]
    moved = 0
    for d in range(len(lid)):
        if lft[there, lid[d]] != port or there == home[d]:
            continue
        for source in sources:
            if lane[source, lid[d]] != now or lft[source, lid[d]] == 255:
                continue
            switch, passes = source, False
            while switch != home[d]:
                step = offset[switch] + lft[switch, lid[d]] - 1
                if step == channel:
                    passes = True
                    break
                switch = peer[step]
            if passes:
                _walk(offset, peer, lft, source, home[d], lid[d], edge, -1)
                lane[source, lid[d]] = now + 1
                moved += 1
    return moved
