"""Traffic on (nearly) shortest paths under given lengths of channels, split evenly among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel


@kernel
def spread_traffic(
    indptr: NDArray[np.int64],
    receiver: NDArray[np.int64],
    length: NDArray[np.float64],
    hosts: NDArray[np.float64],
    target: NDArray[np.int64],
    distance: NDArray[np.float64],
    order: NDArray[np.int64],
    slack: float,
) -> NDArray[np.float64]:
    """Return (A,) pairs of hosts over each arc when switches split traffic evenly over nearly shortest paths.

    Parameters
    ----------
    indptr, receiver, length
        Arcs by sending switch, and their lengths.
    hosts : (S,) float64
        Hosts at each switch.
    target : (D,) int64
        Switches that hosts hang on.
    distance : (D, S) float64
        From each switch to each target.
    order : (D, S) int64
        Switches by distance.
    slack : float
        Part of the distance by which a path may be longer than the shortest.
    """
    load, flow = np.zeros(len(receiver)), np.zeros(len(hosts))
    for row in range(len(target)):
        flow[:] = 0.0
        for place in range(len(hosts) - 1, 0, -1):
            here = order[row, place]
            far = distance[row, here]
            flow[here] += hosts[here] * hosts[target[row]]
            if flow[here] == 0.0 or far == np.inf:
                continue
            arcs = 0
            for arc in range(indptr[here], indptr[here + 1]):
                rest = distance[row, receiver[arc]]
                if rest < far and length[arc] + rest <= far * (1.0 + slack):
                    arcs += 1
            for arc in range(indptr[here], indptr[here + 1]):
                rest = distance[row, receiver[arc]]
                if rest < far and length[arc] + rest <= far * (1.0 + slack):
                    load[arc] += flow[here] / arcs
                    flow[receiver[arc]] += flow[here] / arcs
    return load
