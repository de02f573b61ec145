"""Groups of output ports for adaptive routing: reachability, dependencies and loads over all choices."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel
from routing.order.legal import ChannelOrder, breadth_first, empty_paths, legal_choices

Int32s = NDArray[np.int32]


@kernel
def port_groups(order: ChannelOrder, targets: Int32s, legal: bool) -> NDArray[np.bool_]:
    """Return (T, C) which channels lead to each target switch: on shortest legal paths, or on all shortest ones."""
    groups, paths = np.zeros((len(targets), len(order.sender)), np.bool_), empty_paths(order)
    for t in range(len(targets)):
        if legal:
            legal_choices(targets[t], order, paths)
            for here in range(len(paths.hops)):
                if here != targets[t] and paths.hops[here] >= 0:
                    for c in range(order.indptr[here], order.indptr[here] + paths.n_choices[here]):
                        groups[t, paths.choice[c]] = True
        else:
            breadth_first(targets[t], order.indptr, order.receiver, paths.hops, paths.nearest)
            for channel in range(len(order.sender)):
                here, there = order.sender[channel], order.receiver[channel]
                groups[t, channel] = paths.hops[here] >= 0 and paths.hops[there] == paths.hops[here] - 1
    return groups


@kernel
def walk_groups(
    order: ChannelOrder, port: Int32s, targets: Int32s, groups: NDArray[np.bool_], sources: Int32s,
    depends: NDArray[np.uint64], load: NDArray[np.float64],
) -> int:  # fmt: skip
    """Follow all choices from switches with sources to some targets.

    Parameters
    ----------
    order : ChannelOrder
    port : (C,) int32
        Port that sends on each channel.
    targets : (T,) int32
        Switches.
    groups : (T, C) bool
        Channels that may be taken to each.
    sources : (S,) int32
        Sources at each switch, which are destinations as well.
    depends : (P, words) uint64, in and out
        As in `routing.pairs.PairWalk`, of one lane.
    load : (C,) float64, in and out
        Pairs over each channel where every switch splits its flows evenly.

    Returns
    -------
    int
        Pairs that may end at a switch without a port, and all those to targets to which packets may be led round about.
    """
    n = len(order.indptr) - 1
    state, done, stack, at = np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    flow, stuck = np.empty(n), 0
    for t in range(len(targets)):
        dest_switch, count, circles = targets[t], 0, False
        state[:] = 0  # 1 on the stack, 2 done
        state[dest_switch] = 2
        for source in range(n):
            if not sources[source] or state[source]:
                continue
            stack[0], at[0], size = source, order.indptr[source], 1
            state[source] = 1
            while size:
                here = stack[size - 1]
                if at[size - 1] == order.indptr[here + 1]:
                    state[here] = 2
                    done[count] = here
                    count += 1
                    size -= 1
                    continue
                channel = at[size - 1]
                at[size - 1] += 1
                there = order.receiver[channel]
                if not groups[t, channel]:
                    continue
                depends[port[channel], 0] |= np.uint64(1)
                if there != dest_switch:
                    for then in range(order.indptr[there], order.indptr[there + 1]):
                        if groups[t, then]:
                            number = order.number[then]
                            depends[port[channel], number >> 6] |= np.uint64(1) << np.uint64(number & 63)
                if state[there] == 0:
                    stack[size], at[size] = there, order.indptr[there]
                    state[there] = 1
                    size += 1
                elif state[there] == 1:
                    circles = True
        if circles:
            stuck += sources[dest_switch] * (sources.sum() - sources[dest_switch])
            continue
        for here in range(n):
            flow[here] = sources[here] * sources[dest_switch]
        for i in range(count - 1, -1, -1):
            here = done[i]
            width = 0
            for channel in range(order.indptr[here], order.indptr[here + 1]):
                width += int(groups[t, channel])
            if not width:
                stuck += int(np.ceil(flow[here] - 1e-6))
            for channel in range(order.indptr[here], order.indptr[here + 1]):
                if groups[t, channel]:
                    load[channel] += flow[here] / width
                    flow[order.receiver[channel]] += flow[here] / width
    return int(stuck)
