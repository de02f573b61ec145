"""What channels would carry if every switch split its traffic over all legal shortest paths, by their rates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel
from routing.order.legal import ChannelOrder, LegalPaths, legal_choices

Floats = NDArray[np.float64]


@kernel
def ideal_loads(
    order: ChannelOrder, paths: LegalPaths, source: Floats, weight: Floats, switch: NDArray[np.int32]
) -> Floats:
    """Return (C,) the flows over each channel.

    Parameters
    ----------
    source : (S,) float64
        Weight of the sources at each switch.
    weight : (D,) float64
        Weight of each destination; those of one switch stand together or not.
    switch : (D,) int32
        Where each destination hangs.
    """
    load = np.zeros(len(order.receiver))
    flow = np.empty(len(source))
    at_switch = np.zeros(len(source))
    for dest in range(len(switch)):
        at_switch[switch[dest]] += weight[dest]
    for home in range(len(source)):
        if at_switch[home] == 0.0:
            continue
        count = legal_choices(home, order, paths)
        flow[:] = source
        for i in range(count - 1, 0, -1):
            here = paths.nearest[i]
            begin = order.indptr[here]
            end = begin + paths.n_choices[here]
            total = 0.0
            for j in range(begin, end):
                total += order.rate_gbps[paths.choice[j]]
            for j in range(begin, end):
                channel = paths.choice[j]
                share = flow[here] * order.rate_gbps[channel] / total
                load[channel] += share * at_switch[home]
                flow[order.receiver[channel]] += share
    return load
