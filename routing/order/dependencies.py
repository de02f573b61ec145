"""The channel dependency graph: its edges out of bitsets, and an order of its channels."""

from __future__ import annotations

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel


@kernel
def dependency_graph(
    depends: NDArray[np.uint64], port_offset: NDArray[np.int32], peer_node: NDArray[np.int32]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the CSR of the graph: ``indptr`` (P + 1,) int64 and ``then`` int32, the channels that each waits for.

    ``depends`` is (P, words) uint64: bit p of a channel says that it waits for output port p of the next switch.
    """
    n_ports, n_words = depends.shape
    indptr = np.zeros(n_ports + 1, np.int64)
    for port in range(n_ports):
        count = 0
        for word in range(n_words):
            bits = depends[port, word]
            while bits:
                bits &= bits - np.uint64(1)
                count += 1
        indptr[port + 1] = indptr[port] + count - (1 if depends[port, 0] & np.uint64(1) else 0)
    then = np.empty(indptr[n_ports], np.int32)
    at = 0
    for port in range(n_ports):
        for word in range(n_words):
            bits = depends[port, word]
            if bits == 0:
                continue
            base = port_offset[peer_node[port]] - 1
            for bit in range(64):
                number = 64 * word + bit
                if number and bits >> np.uint64(bit) & np.uint64(1):
                    then[at] = base + number
                    at += 1
    return indptr, then


@kernel
def topological_order(indptr: NDArray[np.int64], then: NDArray[np.int32], used: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return (P,) int32: the position of each used channel in an order in which it waits only for later ones.

    -1 for unused channels, and for those that lie on or behind a cycle. Kahn, CACM 5(11), 1962.
    """
    n_ports = len(used)
    waiting = np.zeros(n_ports, np.int32)
    for target in then:
        waiting[target] += 1
    position = np.full(n_ports, -1, np.int32)
    queue = np.empty(n_ports, np.int32)
    head, tail = 0, 0
    for port in range(n_ports):
        if used[port] and waiting[port] == 0:
            queue[tail] = port
            tail += 1
    while head < tail:
        port = queue[head]
        position[port] = head
        head += 1
        for i in range(indptr[port], indptr[port + 1]):
            target = then[i]
            waiting[target] -= 1
            if waiting[target] == 0:
                queue[tail] = target
                tail += 1
    return position


@kernel
def order_by_key(
    indptr: NDArray[np.int64], then: NDArray[np.int32], nodes: NDArray[np.int32], key: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Return (P,) int32: the position of each of some nodes in the topological order that takes the smallest key next.

    Where keys, (P,), rise along every edge, they are the order. -1 for other nodes, and for those on or behind a cycle.
    """
    waiting = np.zeros(len(key), np.int32)
    for target in then:
        waiting[target] += 1
    heap = [(key[node], node) for node in nodes if waiting[node] == 0]
    heapify(heap)
    position, count = np.full(len(key), -1, np.int32), 0
    while len(heap):
        _, node = heappop(heap)
        position[node] = count
        count += 1
        for i in range(indptr[node], indptr[node + 1]):
            waiting[then[i]] -= 1
            if waiting[then[i]] == 0:
                heappush(heap, (key[then[i]], then[i]))
    return position
