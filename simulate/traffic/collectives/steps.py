"""Collectives in steps: rings, recursive halving and doubling, two levels, all-to-all and pipelines.

Rings and recursive halving with doubling are bandwidth-optimal: every rank sends ``(n - 1) / n`` of the buffer in each
of the two phases of an allreduce. Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
workstations", 2009; Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
2005.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.schedule import Schedule, concurrent, sequence
from topo.errors import HeddleError


def ring_allreduce(n_ranks: int, chunks: int = 1) -> Schedule:
    """Sum of all buffers at every rank: reduce-scatter, then all-gather, ``2 (n - 1)`` rounds of n blocks."""
    rounds = np.arange(max(2 * (n_ranks - 1), 0))
    # Reduce-scatter: rank r sends block r - 1 first. The block that it has just completed opens the all-gather.
    return _ring(n_ranks, chunks, shift=-1 - rounds, reduce=rounds < n_ranks - 1)


def ring_reduce_scatter(n_ranks: int, chunks: int = 1) -> Schedule:
    """Block r of the sum at rank r; the other blocks hold partial sums in the end."""
    rounds = np.arange(max(n_ranks - 1, 0))
    return _ring(n_ranks, chunks, shift=-1 - rounds, reduce=np.ones(len(rounds), bool))


def ring_all_gather(n_ranks: int, chunks: int = 1) -> Schedule:
    """Block r of rank r at every rank."""
    rounds = np.arange(max(n_ranks - 1, 0))
    return _ring(n_ranks, chunks, shift=-rounds, reduce=np.zeros(len(rounds), bool))


def _ring(n_ranks: int, chunks: int, shift: NDArray[np.int64], reduce: NDArray[np.bool_]) -> Schedule:
    """Return rounds in which rank r sends block ``r + shift`` to rank r + 1, cut into chunks that follow each other.

    Message ``(round * chunks + chunk) * n + rank`` waits for the one that brought the rank this chunk in the round
    before, and for the rank's own message before it: a rank sends one message at a time.
    """
    n_rounds = len(shift)
    turn = np.arange(n_rounds * chunks, dtype=np.int32)[:, None]
    rank = np.arange(n_ranks, dtype=np.int32)
    at_round, chunk = np.divmod(turn, np.int32(chunks))
    block = (rank + shift.astype(np.int32)[at_round]) % np.int32(max(n_ranks, 1)) * np.int32(chunks) + chunk
    message = turn * np.int32(n_ranks) + rank
    own = (message[1:], message[:-1])
    arrival = (message[chunks:], np.roll(message[: len(message) - chunks], 1, axis=1))
    after = [own, arrival]
    if chunks == 1:  # the two lists have the same waiters: interleaved they are in order already, without a sort
        after = [(message[1:, :, None], np.stack([own[1], arrival[1]], axis=-1))]
    return Schedule.of(
        n_ranks,
        n_ranks * chunks,
        rank,
        np.roll(rank, -1),
        block,
        reduce=reduce[at_round],
        step=turn,
        after=after,
        queued=chunks > 1,
    )


def recursive_halving_reduce_scatter(n_ranks: int) -> Schedule:
    """Block r of the sum at rank r; the other blocks hold partial sums in the end.

    Step k exchanges half of what is left with the partner at distance ``n / 2**(k + 1)``.
    """
    steps = _log2(n_ranks, "recursive halving")
    return _exchange(n_ranks, distances=[n_ranks >> (k + 1) for k in range(steps)], reduce=True)


def recursive_doubling_all_gather(n_ranks: int) -> Schedule:
    """Block r of rank r at every rank; step k exchanges all gathered so far at distance ``2**k``."""
    steps = _log2(n_ranks, "recursive doubling")
    return _exchange(n_ranks, distances=[1 << k for k in range(steps)], reduce=False)


def halving_doubling_allreduce(n_ranks: int) -> Schedule:
    """Sum of all buffers at every rank: recursive halving, then recursive doubling.

    With ``2**k + m`` ranks, the odd ones of the first 2m ranks give their buffers to their even neighbours before, and
    get the sum from them after (two more steps with whole buffers, as MPICH does).
    """
    core = 1 << (n_ranks.bit_length() - 1)
    extra = n_ranks - core
    result = sequence(recursive_halving_reduce_scatter(core), recursive_doubling_all_gather(core))
    if extra == 0:
        return result
    pairs = 2 * np.arange(extra)
    taking_part = np.concatenate([pairs, np.arange(2 * extra, n_ranks)])
    fold = Schedule.of(n_ranks, core, pairs + 1, pairs, 0, count=core, reduce=True)
    unfold = Schedule.of(n_ranks, core, pairs, pairs + 1, 0, count=core)
    return sequence(sequence(fold, result.on_ranks(taking_part, n_ranks)), unfold)


def _exchange(n_ranks: int, distances: list[int], reduce: bool) -> Schedule:
    """Return steps in which partners exchange aligned runs of blocks, as long as their distance.

    Message ``step * n + rank`` waits for the rank's two messages of the step before, one out and one in.
    """
    rank = np.arange(n_ranks)
    distance = np.array(distances, np.int64).reshape(-1, 1)
    partner = rank ^ distance
    # Halving sends the partner's half and keeps its own; doubling sends its own.
    block = (partner if reduce else rank) & ~(distance - 1)
    message = np.arange(len(distances) * n_ranks).reshape(-1, n_ranks)
    inward = np.take_along_axis(message, partner, axis=1)
    return Schedule.of(
        n_ranks,
        n_ranks,
        rank,
        partner,
        block,
        count=distance,
        reduce=reduce,
        step=np.arange(len(distances)).reshape(-1, 1),
        after=[(message[1:], message[:-1]), (message[1:], inward[:-1])],
        in_round=True,
    )


def _log2(n_ranks: int, algorithm: str) -> int:
    if n_ranks < 1 or n_ranks & (n_ranks - 1):
        below = 1 << (n_ranks.bit_length() - 1)
        raise HeddleError(
            f"{algorithm} takes a power of two of ranks and cannot take {n_ranks}; "
            f"take {below} or {2 * below} ranks, or the ring"
        )
    return n_ranks.bit_length() - 1


def hierarchical_allreduce(groups: ArrayLike, chunks: int = 1) -> Schedule:
    """Sum of all buffers at every rank, sending only ``1 / group size`` of the buffer between groups.

    Rings reduce-scatter within each group (a leaf, zone or host); the ranks that then hold a part, one of each group,
    allreduce it around a ring; rings all-gather within each group. Where groups have different sizes their parts begin
    and end at different places, and a rank takes part in a ring for each stretch that the same ranks hold.
    """
    group = np.asarray(groups)
    names, sizes = np.unique(group, return_counts=True)
    n_ranks, n_groups = len(group), len(names)
    if n_ranks == 0:
        return ring_allreduce(0)
    members = [np.flatnonzero(group == name) for name in names]
    unit = lcm(*sizes.tolist())
    n_blocks = unit * n_groups * chunks
    if n_blocks > np.iinfo(np.int32).max:
        found = ", ".join(map(str, np.unique(sizes).tolist()))
        raise HeddleError(f"groups of {found} ranks have no small common multiple; take groups of fewer sizes")

    def within(phase: Callable[[int], Schedule]) -> Schedule:
        width = [n_blocks // len(row) for row in members]
        parts = zip(members, width, strict=True)
        return concurrent([phase(len(row)).on_ranks(row, n_ranks).on_blocks(0, n_blocks, each) for row, each in parts])

    across = ring_allreduce(n_groups, chunks)
    edges = np.unique(np.concatenate([np.arange(0, unit + 1, unit // size) for size in np.unique(sizes)])).tolist()
    rings = [
        across.on_ranks([row[first * len(row) // unit] for row in members], n_ranks).on_blocks(
            first * n_groups * chunks, n_blocks, last - first
        )
        for first, last in pairwise(edges)
    ]
    return sequence(sequence(within(ring_reduce_scatter), concurrent(rings)), within(ring_all_gather))


def shift_all_to_all(n_ranks: int) -> Schedule:
    """Block j of rank i becomes block i of rank j, in ``n - 1`` steps: step s sends to the rank s further on.

    Every step is a shift permutation, which a fat-tree routed by destination carries without contention. A rank begins
    a step when it has sent and received in the step before (pairwise exchange, as in MPICH).
    """
    rank = np.arange(n_ranks, dtype=np.int32)
    shift = np.arange(1, max(n_ranks, 1), dtype=np.int32).reshape(-1, 1)
    to = (rank + shift) % max(n_ranks, 1)
    message = np.arange(shift.size * n_ranks, dtype=np.int32).reshape(-1, n_ranks)
    inward = np.take_along_axis(message, (rank - shift) % max(n_ranks, 1), axis=1)
    return Schedule.of(
        n_ranks,
        n_ranks,
        rank,
        to,
        to,
        to_block=rank,
        step=shift - 1,
        after=[(message[1:, :, None], np.stack([message[:-1], inward[:-1]], axis=-1))],
        in_round=True,
        in_place=False,
    )


def pipeline(n_ranks: int, micro_batches: int = 1, *, backward: bool = True) -> Schedule:
    """Each micro-batch goes from rank to rank to the last, and its gradient comes back once it is there.

    The buffer has one block for each micro-batch, then one for each gradient where these are sent back. A rank
    passes on the micro-batches in order; the two directions do not wait for each other (GPipe runs all forward passes
    first, 1F1B alternates: both put the same bytes on the same links).
    """
    edges = max(n_ranks - 1, 0)
    stage = np.arange(edges)
    batch = np.arange(micro_batches).reshape(-1, 1)
    forth = batch * edges + stage
    after = [(forth[1:], forth[:-1]), (forth[:, 1:], forth[:, :-1])]
    blocks = micro_batches * (1 + backward)
    there = Schedule.of(n_ranks, blocks, stage, stage + 1, batch, step=batch + stage, after=after)
    if not backward or edges == 0:
        return there
    # The backward messages mirror the forward ones: ranks reversed; blocks, messages and steps shifted.
    back = forth + forth.size
    return Schedule.of(
        n_ranks,
        blocks,
        np.stack([there.src, edges - there.src]),
        np.stack([there.dst, edges - there.dst]),
        np.stack([there.block, there.block + micro_batches]),
        step=np.stack([there.step, there.step + edges]),
        after=[*after, (back[1:], back[:-1]), (back[:, 1:], back[:, :-1]), (back[:, :1], forth[:, -1:])],
    )
