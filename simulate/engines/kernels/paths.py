"""Distinct pairs of flows, and what devices use before and behind their paths."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def _find(table: NDArray[np.int32], keys: NDArray[np.int64], first: NDArray[np.int32], key: int) -> int:
    """Return the place of a key in a hash table, or the free place where it belongs."""
    mask = len(table) - 1
    place = (key * 2654435761 >> 20) & mask  # multiplicative hashing: Knuth, volume 3, 6.4
    while table[place] >= 0 and keys[first[table[place]]] != key:
        place = (place + 1) & mask
    return place


@njit(cache=True, nogil=True)
def number_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number distinct keys in the order in which they first occur.

    Returns
    -------
    tuple
        Number of each key, and the place at which each number first occurs.
    """
    table = np.full(1 << 12, -1, np.int32)
    number = np.empty(len(keys), np.int32)
    first = np.empty(len(keys), np.int32)
    known = 0
    for at in range(len(keys)):
        if 2 * known >= len(table):  # half of the places stay free
            table = np.full(4 * len(table), -1, np.int32)
            for old in range(known):
                table[_find(table, keys, first, keys[first[old]])] = old
        place = _find(table, keys, first, keys[at])
        if table[place] < 0:
            table[place] = known
            first[known] = at
            known += 1
        number[at] = table[place]
    return number, first[:known].copy()


@njit(cache=True, nogil=True)
def join_paths(
    send: NDArray[np.int32],
    receive: NDArray[np.int32],
    send_offset: NDArray[np.int64],
    send_resource: NDArray[np.int32],
    send_use: NDArray[np.float64],
    receive_offset: NDArray[np.int64],
    receive_resource: NDArray[np.int32],
    receive_use: NDArray[np.float64],
    path_offset: NDArray[np.int64],
    path: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Put what the sender uses before each path and what the receiver uses behind it.

    A resource that occurs twice is named once, with the sum of its uses.

    Parameters
    ----------
    send, receive
        (Q,) row of the sender and the receiver in the offsets that follow, -1 for one that uses nothing.
    """
    n_routes = len(path_offset) - 1
    total = len(path)
    for at in range(n_routes):
        if send[at] >= 0:
            total += send_offset[send[at] + 1] - send_offset[send[at]]
        if receive[at] >= 0:
            total += receive_offset[receive[at] + 1] - receive_offset[receive[at]]
    offset = np.zeros(n_routes + 1, np.int64)
    resource = np.empty(total, np.int32)
    use = np.empty(total, np.float64)
    n = 0
    for at in range(n_routes):
        begin = n
        for part in range(3):
            if part == 1:
                low, high = path_offset[at], path_offset[at + 1]
            elif part == 0:
                low, high = (send_offset[send[at]], send_offset[send[at] + 1]) if send[at] >= 0 else (0, 0)
            else:
                low, high = (
                    (receive_offset[receive[at]], receive_offset[receive[at] + 1]) if receive[at] >= 0 else (0, 0)
                )
            for place in range(low, high):
                if part == 1:
                    what, much = path[place], 1.0
                elif part == 0:
                    what, much = send_resource[place], send_use[place]
                else:
                    what, much = receive_resource[place], receive_use[place]
                known = begin
                while known < n and resource[known] != what:
                    known += 1
                if known < n:
                    use[known] += much
                else:
                    resource[n] = what
                    use[n] = much
                    n += 1
        offset[at + 1] = n
    return offset, resource[:n].copy(), use[:n].copy()
