"""The largest flow that a network of links can carry, whatever its routing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import maximum_flow

STEPS_PER_GBPS = 50
"""The solver counts in whole numbers: 0.02 Gb/s is one step of FDR's 54.56 Gb/s, the oddest rate there is."""
LARGEST = 2**31 - 1


def max_flow_gbps(
    links: NDArray[np.integer], rate: NDArray[np.float64], sends: NDArray[np.float64], receives: NDArray[np.float64]
) -> float:
    """Return the largest total rate from senders to receivers (max-flow min-cut, Ford and Fulkerson 1956).

    Parameters
    ----------
    links : (L, 2) int
        Nodes at both ends of each link.
    rate : (L,) float64
        Gb/s that each link carries in each direction.
    sends, receives : (N,) float64
        Gb/s that each node can send and receive.
    """
    largest = max(float(rate.sum()), float(sends.sum()), float(receives.sum()))
    steps = STEPS_PER_GBPS if largest * STEPS_PER_GBPS < LARGEST else 1
    senders, receivers = np.flatnonzero(sends), np.flatnonzero(receives)
    source, sink = len(sends), len(sends) + 1
    a, b = links.T
    from_node = np.concatenate([a, b, np.full(len(senders), source), receivers])
    to_node = np.concatenate([b, a, senders, np.full(len(receivers), sink)])
    most = np.concatenate([rate, rate, sends[senders], receives[receivers]]) * steps
    graph = coo_array((np.rint(most).astype(np.int32), (from_node, to_node)), shape=(sink + 1, sink + 1)).tocsr()
    return float(maximum_flow(graph, source, sink).flow_value) / steps
