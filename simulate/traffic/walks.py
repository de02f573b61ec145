"""Paths of single pairs through forwarding tables, and pairs told apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel


@kernel
def walk(
    port_offset: NDArray[np.int32],
    peer: NDArray[np.int32],
    peer_node: NDArray[np.int32],
    lid: NDArray[np.uint16],
    lft: NDArray[np.uint8],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Follow the tables from end port to end port.

    A path that visits more switches than there are goes round in a loop.

    Parameters
    ----------
    port_offset, peer, peer_node, lid, lft
        As in `topo.fabric.Fabric` and `routing.tables.RoutingTables`.
    src, dst : (n,) int32
        End ports.

    Returns
    -------
    offset : (n + 1,) int64
        Path i is ``channel[offset[i] : offset[i + 1]]``. The walk stops before the first pair that the tables do not
        connect: there are fewer offsets then.
    channel : int32
        Channels in order, those of adapters included.
    """
    n_switches = len(lft)
    longest = n_switches + 1  # from an adapter, from switch to switch, and to an adapter
    offset = np.zeros(len(src) + 1, np.int64)
    room = np.empty(8 * len(src) + longest, np.int32)
    n = 0
    to_port = port_offset[n_switches] - n_switches  # from the end port of an adapter to its port
    for at in range(len(src)):
        if n + longest > len(room):
            larger = np.empty(2 * len(room), np.int32)
            for i in range(n):  # to assign a slice takes Numba a second to compile, for its error message
                larger[i] = room[i]
            room = larger
        dest = dst[at]
        last = n + longest
        arrived = src[at] == dest
        if not arrived:
            port = -1
            node = src[at]
            if node >= n_switches:
                port = node + to_port
                node = peer_node[port]
                room[n] = port
                n += 1
            while 0 <= node < n_switches and node != dest and n < last and lid[dest] < lft.shape[1]:
                entry = lft[node, lid[dest]]
                if entry == 0 or entry > port_offset[node + 1] - port_offset[node]:
                    break
                port = port_offset[node] + entry - 1
                node = peer_node[port]
                room[n] = port
                n += 1
            arrived = node == dest if dest < n_switches else port >= 0 and peer[port] == dest + to_port
        if not arrived:
            return offset[: at + 1].copy(), room[:n].copy()
        offset[at + 1] = n
    return offset, room[:n].copy()


@inner
def _find(table: NDArray[np.int32], keys: NDArray[np.int64], first: NDArray[np.int32], key: int) -> int:
    """Return the place of a key in a hash table, or the free place where it belongs."""
    mask = len(table) - 1
    low = (key ^ (key >> 31)) & 0x7FFFFFFF  # the product stays below 2^63
    place = (low * 2654435761 >> 20) & mask  # multiplicative hashing: Knuth, volume 3, 6.4
    while table[place] >= 0 and keys[first[table[place]]] != key:
        place = (place + 1) & mask
    return place


@kernel
def number_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Number distinct keys in the order in which they first occur: (n,) numbers, and the place of each at first."""
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
