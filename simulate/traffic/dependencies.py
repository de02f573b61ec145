"""Order of flows that wait for each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel


@kernel
def find_cycle(dep_offset: NDArray[np.int64], dep: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the flows of one circle of dependencies, each followed by one that it waits for; empty when none is.

    Depth-first search with an explicit stack; flows in an order in which nobody waits for a later one, as generators
    write them, are seen to have no circle without it.
    """
    n = len(dep_offset) - 1
    sorted_already = True
    for flow in range(n):
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            if dep[edge] >= flow:
                sorted_already = False
    if sorted_already:
        return np.empty(0, np.int32)
    depth = np.zeros(n, np.int32)  # 0 not seen, above 0 place on the stack, -1 done
    stack = np.empty(n, np.int32)
    edge_at = np.empty(n, np.int64)
    for root in range(n):
        if depth[root] != 0:
            continue
        stack[0] = root
        depth[root] = 1
        edge_at[0] = dep_offset[root]
        top = 0
        while top >= 0:
            flow = stack[top]
            if edge_at[top] == dep_offset[flow + 1]:
                depth[flow] = -1
                top -= 1
                continue
            other = dep[edge_at[top]]
            edge_at[top] += 1
            if depth[other] > 0:
                return stack[depth[other] - 1 : top + 1].copy()
            if depth[other] == 0:
                top += 1
                stack[top] = other
                depth[other] = top + 1
                edge_at[top] = dep_offset[other]
    return np.empty(0, np.int32)
