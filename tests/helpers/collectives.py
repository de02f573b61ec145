"""Plays a schedule on real numbers, and counts what trees cross: for tests of collectives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.trees import Tree


def play(schedule: Schedule, buffers: ArrayLike, rng: np.random.Generator) -> NDArray[np.float64]:
    """Return what every rank holds in the end, when messages take any time at all.

    At every turn, of the messages that could begin (all they wait for has ended) and those under way, a random one
    begins or ends. A message carries what its sender held when it began. A schedule is right when no order that its
    dependencies allow changes the outcome, so a test plays it many times.

    Parameters
    ----------
    buffers : (n_ranks, n_blocks)
        What every rank holds at first, one number a block. Out of place, the receive buffers begin with the same
        numbers, so that a block which a rank keeps for itself is already there.

    Returns
    -------
    (n_ranks, n_blocks) float64

    Raises
    ------
    ValueError
        When messages wait for each other in a circle.
    """
    held = np.array(buffers, np.float64)
    if held.shape != (schedule.n_ranks, schedule.n_blocks):
        raise ValueError(f"buffers have shape {held.shape}; expected {(schedule.n_ranks, schedule.n_blocks)}")
    sent = held if schedule.in_place else held.copy()
    waiters: list[list[int]] = [[] for _ in range(len(schedule))]
    waits_for = [0] * len(schedule)
    for waiter, awaited in zip(schedule.waiter.tolist(), schedule.awaited.tolist(), strict=True):
        waiters[awaited].append(waiter)
        waits_for[waiter] += 1
    ready = [message for message, count in enumerate(waits_for) if count == 0]
    flying: list[tuple[int, NDArray[np.float64]]] = []
    ended = 0
    while ready or flying:
        turn = int(rng.integers(len(ready) + len(flying)))
        if turn < len(ready):
            ready[turn], ready[-1] = ready[-1], ready[turn]
            message = ready.pop()
            first = int(schedule.block[message])
            flying.append((message, sent[schedule.src[message], first : first + int(schedule.count[message])].copy()))
            continue
        turn -= len(ready)
        flying[turn], flying[-1] = flying[-1], flying[turn]
        message, payload = flying.pop()
        first = int(schedule.to_block[message])
        place = held[schedule.dst[message], first : first + int(schedule.count[message])]
        place[:] = place + payload if schedule.reduce[message] else payload
        ended += 1
        for waiter in waiters[message]:
            waits_for[waiter] -= 1
            if waits_for[waiter] == 0:
                ready.append(waiter)
    if ended < len(schedule):
        raise ValueError(f"{len(schedule) - ended} messages wait for each other in a circle")
    return held


def crossings(trees: Sequence[Tree], groups: ArrayLike) -> list[int]:
    """Return how many edges of each tree join ranks of different groups (zones, leaves)."""
    group = np.asarray(groups)
    return [int(np.count_nonzero((tree >= 0) & (group != group[tree]))) for tree in trees]
