"""Recursive halving and doubling: partners at distances of powers of two.

As bandwidth-optimal as a ring, in ``2 log2(n)`` steps. Thakur, Rabenseifner and Gropp, "Optimization of collective
communication operations in MPICH", 2005.
"""

from __future__ import annotations

import numpy as np

from simulate.traffic.collectives.schedule import Schedule, sequence
from topo.errors import HeddleError


def recursive_halving_reduce_scatter(n_ranks: int) -> Schedule:
    """Block r of the sum at rank r; the other blocks hold partial sums in the end.

    Step k exchanges half of what is left with the partner at distance ``n / 2**(k + 1)``.

    Raises
    ------
    HeddleError
        When the number of ranks is no power of two.
    """
    steps = _log2(n_ranks, "recursive halving")
    return _exchange(n_ranks, distances=[n_ranks >> (k + 1) for k in range(steps)], reduce=True)


def recursive_doubling_all_gather(n_ranks: int) -> Schedule:
    """Block r of rank r at every rank; step k exchanges all gathered so far at distance ``2**k``.

    Raises
    ------
    HeddleError
        When the number of ranks is no power of two.
    """
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
        np.broadcast_to(rank, partner.shape),
        partner,
        block,
        count=distance,
        reduce=reduce,
        step=np.arange(len(distances)).reshape(-1, 1),
        after=[(message[1:], message[:-1]), (message[1:], inward[:-1])],
    )


def _log2(n_ranks: int, algorithm: str) -> int:
    if n_ranks < 1 or n_ranks & (n_ranks - 1):
        below = 1 << (n_ranks.bit_length() - 1)
        raise HeddleError(
            f"{algorithm} takes a power of two of ranks and cannot take {n_ranks}; "
            f"take {below} or {2 * below} ranks, or the ring"
        )
    return n_ranks.bit_length() - 1
