"""Search for an order of nodes under which the steps of a pattern take the least time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel

SLACK = 1e-12
"""Relative difference between sums that counts as none."""
FEW_FLOWS = 64
"""Flows of a rank up to which whole blocks of ranks are moved; of more, two ranks change places."""


class Steps(NamedTuple):
    """A pattern, the paths of a network, and what the flows of each of K steps load."""

    step: NDArray[np.int32]
    src: NDArray[np.int32]
    dst: NDArray[np.int32]
    weight: NDArray[np.float64]
    path_offset: NDArray[np.int64]
    channel: NDArray[np.int32]
    channel_class: NDArray[np.int32]
    class_cost: NDArray[np.float64]
    load: NDArray[np.int32]
    """(K, C) flows on each channel."""
    channels: NDArray[np.int32]
    """(K, classes, most + 1) channels of each class that so many flows cross."""
    top: NDArray[np.int32]
    """(K, classes) flows on the fullest of them."""


@kernel
def _lay(
    sign: int, flows: NDArray[np.int64], order: NDArray[np.int32], grown: float, steps: Steps
) -> tuple[float, int]:
    """Lay flows on channels (sign 1), or take them away (-1); add what squares of loads grow by, and count channels."""
    work, load, count, top = 0, steps.load, steps.channels, steps.top
    for f in flows:
        k, squares = steps.step[f], 0.0
        pair = order[steps.src[f]] * len(order) + order[steps.dst[f]]
        for at in range(steps.path_offset[pair], steps.path_offset[pair + 1]):
            c = steps.channel[at]
            group = steps.channel_class[c]
            before = load[k, c]
            after = before + sign
            load[k, c] = after
            count[k, group, before] -= 1
            count[k, group, after] += 1
            if after > top[k, group] or (before == top[k, group] and count[k, group, before] == 0):
                top[k, group] = after
            squares += (after * after - before * before) * steps.class_cost[group]
            work += 1
        grown += steps.weight[k] * squares
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
    ends = np.stack((src, dst), axis=1).ravel()
    by_rank = np.argsort(ends, kind="stable")
    first = np.searchsorted(ends[by_rank], np.arange(len(start) + 1))
    # No channel ever carries more in one step than all flows of the step, each as often as it crosses it.
    most = np.bincount(step).max() * np.diff(path_offset).max() + 1
    load = np.zeros((len(weight), len(channel_class)), np.int32)
    count = np.zeros((len(weight), len(class_cost), most), np.int32)
    count[:, :, 0] = np.bincount(channel_class, minlength=len(class_cost))
    top = np.zeros((len(weight), len(class_cost)), np.int32)
    steps = Steps(step, src, dst, weight, path_offset, channel, channel_class, class_cost, load, count, top)
    return _improve(steps, by_rank // 2, first, np.arange(len(step)), start, rng, effort, bound)


@kernel
def _improve(
    steps: Steps,
    flows: NDArray[np.int64],
    first: NDArray[np.int64],
    every: NDArray[np.int64],
    start: NDArray[np.int32],
    rng: np.random.Generator,
    effort: int,
    bound: float,
) -> tuple[NDArray[np.int32], float]:
    """As `improve`; the flows of rank r are ``flows[first[r] : first[r + 1]]``, and ``every`` has all of them."""
    n, n_flows = len(start), len(every)
    order, trial = start.copy(), start.copy()
    squares, work = _lay(1, every, order, 0.0, steps)[0], 0
    total = _time(steps.weight, steps.top, steps.class_cost)
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
        grown, taken = _lay(-1, moved, order, 0.0, steps)
        grown, laid = _lay(1, moved, trial, grown, steps)
        longer = _time(steps.weight, steps.top, steps.class_cost)
        work += taken + laid + len(steps.weight) + high - low
        shorter = longer < total * (1 - SLACK)
        if shorter or (longer <= total * (1 + SLACK) and grown <= SLACK * squares):
            total = longer
            squares += grown
            order[low:high] = trial[low:high]
            continue
        _lay(-1, moved, trial, 0.0, steps)  # back to where it was
        _lay(1, moved, order, 0.0, steps)
        trial[low:high] = order[low:high]
    return order, total
