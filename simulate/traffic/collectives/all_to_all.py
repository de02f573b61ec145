"""All-to-all: every rank has a block for every other."""

from __future__ import annotations

import numpy as np

from simulate.traffic.collectives.schedule import Schedule


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
        np.broadcast_to(rank, to.shape),
        to,
        to,
        to_block=rank,
        step=shift - 1,
        after=[(message[1:, :, None], np.stack([message[:-1], inward[:-1]], axis=-1))],
        in_place=False,
    )
