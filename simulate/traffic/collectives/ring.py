"""Ring collectives: each rank sends to the next, block after block.

Bandwidth-optimal: every rank sends ``(n - 1) / n`` of the buffer in each of the two phases. Patarasuk and Yuan,
"Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009; the ring of NCCL.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.schedule import Schedule


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
    )
