"""Search for an order of nodes under which the steps of a pattern take the least time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel

SLACK = 1e-12
"""Relative difference between sums that counts as none."""
FEW_FLOWS = 64
"""Flows of a rank up to which whole blocks of ranks are moved; of more, two ranks change places."""


@kernel
def _lay(
    sign: int,
    flows: NDArray[np.int64],
    order: NDArray[np.int32],
    grown: float,
    step: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    weight: NDArray[np.float64],
    path_offset: NDArray[np.int64],
    channel: NDArray[np.int32],
    channel_class: NDArray[np.int32],
    class_cost: NDArray[np.float64],
    load: NDArray[np.int32],
    count: NDArray[np.int32],
    top: NDArray[np.int32],
) -> tuple[float, int]:
    """Lay flows on channels (sign 1), or take them away (-1); add what squares of loads grow by, and count channels."""
    work = 0
    for f in flows:
        k, squares = step[f], 0.0
        pair = order[src[f]] * len(order) + order[dst[f]]
        for at in range(path_offset[pair], path_offset[pair + 1]):
            c = channel[at]
            group = channel_class[c]
            before = load[k, c]
            after = before + sign
            load[k, c] = after
            count[k, group, before] -= 1
            count[k, group, after] += 1
            if after > top[k, group] or (before == top[k, group] and count[k, group, before] == 0):
                top[k, group] = after
            squares += (after * after - before * before) * class_cost[group]
            work += 1
        grown += weight[k] * squares
    return grown, work


@kernel
def _time(weight: NDArray[np.float64], top: NDArray[np.int32], class_cost: NDArray[np.float64]) -> float:
    total = 0.0
    for k in range(len(weight)):
        longest = 0.0
        for group in range(len(class_cost)):
            longest = max(longest, top[k, group] * class_cost[group])
        total += weight[k] * longest
    return total


@kernel
def _below(rng: np.random.Generator, n: int) -> int:
    return int(rng.integers(0, n))


@kernel
def _draw_move(
    order: NDArray[np.int32], trial: NDArray[np.int32], blocks: bool, rng: np.random.Generator
) -> tuple[int, int]:
    """Write a changed order into ``trial``; return the first place that may differ, and the one after the last."""
    n = len(order)
    kind = _below(rng, 4) if blocks else 0
    if kind == 0:  # two ranks change places
        a = _below(rng, n)
        b = (a + 1 + _below(rng, n - 1)) % n
        trial[a], trial[b] = order[b], order[a]
        return min(a, b), max(a, b) + 1
    length = 1 << _below(rng, max(1, int(np.log2(n))))
    if kind == 1:  # two blocks of equal length change places
        a = _below(rng, n - 2 * length + 1) if n >= 2 * length else 0
        b = a + length + (_below(rng, n - a - 2 * length + 1) if n > a + 2 * length else 0)
        if b + length > n:
            return 0, 0
        for i in range(length):
            trial[a + i], trial[b + i] = order[b + i], order[a + i]
        return a, b + length
    low = _below(rng, n)
    high = min(n, low + 2 + _below(rng, 2 * length))
    if kind == 2:  # a run is turned round
        for i in range(low, high):
            trial[i] = order[low + high - 1 - i]
    else:  # a run moves along
        by = 1 + _below(rng, max(1, high - low - 1))
        for i in range(low, high):
            trial[i] = order[low + (i - low + by) % (high - low)]
    return low, high


@kernel
def improve(
    step: NDArray[np.int32],
    src: NDArray[np.int32],
    dst: NDArray[np.int32],
    weight: NDArray[np.float64],
    path_offset: NDArray[np.int64],
    channel: NDArray[np.int32],
    channel_class: NDArray[np.int32],
    class_cost: NDArray[np.float64],
    start: NDArray[np.int32],
    rng: np.random.Generator,
    effort: int,
    bound: float,
) -> tuple[NDArray[np.int32], float]:
    """Change an order at random wherever that makes the steps no longer, until nothing is left to try with.

    Of orders that take the same time, one with smaller squares of the loads is kept: load that is spread out now can
    leave the fullest channel later.

    Returns the order, and the sum over steps of weight x (load x cost of the channel that takes longest).

    Parameters
    ----------
    step, src, dst, weight
        Flows of a pattern by step and ranks, and (K,) what a second of each step counts.
    path_offset, channel
        The flows from node i to node j cross ``channel[path_offset[i * n + j] : path_offset[i * n + j + 1]]``.
    channel_class, class_cost
        Class of each of C channels, and seconds that a flow takes on a channel of each class.
    start : (n,) int32
        Node of each rank.
    effort, bound
        How often a flow may be laid on a channel, and the time that no order goes below.
    """
    n, n_steps, n_flows = len(start), len(weight), len(step)
    order, trial = start.copy(), start.copy()
    ends = np.stack((src, dst), axis=1).ravel()
    by_rank = np.argsort(ends, kind="mergesort")
    flows, first = by_rank // 2, np.searchsorted(ends[by_rank], np.arange(n + 1))
    # No channel ever carries more in one step than all flows of the step, each as often as it crosses it.
    most = np.bincount(step).max() * np.diff(path_offset).max() + 1
    load = np.zeros((n_steps, len(channel_class)), np.int32)
    count = np.zeros((n_steps, len(class_cost), most + 1), np.int32)
    top = np.zeros((n_steps, len(class_cost)), np.int32)
    for c in range(len(channel_class)):
        for k in range(n_steps):
            count[k, channel_class[c], 0] += 1
    world = (step, src, dst, weight, path_offset, channel, channel_class, class_cost, load, count, top)
    squares, work = _lay(1, np.arange(n_flows), order, 0.0, *world)[0], 0
    total = _time(weight, top, class_cost)
    stamp = np.zeros(n_flows, np.int64)
    touched = np.empty(n_flows, np.int64)
    blocks = 2 * n_flows <= FEW_FLOWS * n
    move = 0
    while work < effort and total > bound * (1 + SLACK) and n > 1:
        move += 1
        low, high = _draw_move(order, trial, blocks, rng)
        n_touched = 0
        for rank in range(low, high):
            if order[rank] != trial[rank]:
                for at in range(first[rank], first[rank + 1]):
                    f = flows[at]
                    if stamp[f] != move:
                        stamp[f] = move
                        touched[n_touched] = f
                        n_touched += 1
        moved = touched[:n_touched]
        grown, taken = _lay(-1, moved, order, 0.0, *world)
        grown, laid = _lay(1, moved, trial, grown, *world)
        longer = _time(weight, top, class_cost)
        work += taken + laid + n_steps + high - low
        shorter = longer < total * (1 - SLACK)
        if shorter or (longer <= total * (1 + SLACK) and grown <= SLACK * squares):
            total = longer
            squares += grown
            order[low:high] = trial[low:high]
            continue
        _lay(-1, moved, trial, 0.0, *world)  # back to where it was
        _lay(1, moved, order, 0.0, *world)
        trial[low:high] = order[low:high]
    return order, total
