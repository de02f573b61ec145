"""Pipeline parallelism point to point: micro-batches through the stages and their gradients back."""

from __future__ import annotations

import numpy as np

from simulate.traffic.collectives.schedule import Schedule


def pipeline(n_ranks: int, micro_batches: int = 1, *, backward: bool = True) -> Schedule:
    """Each micro-batch goes from rank to rank to the last, and its gradient comes back once it is there.

    The buffer has one block for each micro-batch, then one for each gradient where there is a way back. A rank
    passes on the micro-batches in order; the two directions do not wait for each other (GPipe runs all forward passes
    first, 1F1B alternates: both put the same bytes on the same links).
    """
    edges = max(n_ranks - 1, 0)
    stage = np.arange(edges)
    batch = np.arange(micro_batches).reshape(-1, 1)
    forth = batch * edges + stage
    after = [(forth[1:], forth[:-1]), (forth[:, 1:], forth[:, :-1])]
    there = Schedule.of(
        n_ranks,
        micro_batches * (1 + backward),
        np.broadcast_to(stage, forth.shape),
        stage + 1,
        batch,
        step=batch + stage,
        after=after,
    )
    if not backward or edges == 0:
        return there
    # The way back is the way forth with the ranks reversed, shifted in blocks, messages and steps.
    back = forth + forth.size
    return Schedule.of(
        n_ranks,
        2 * micro_batches,
        np.stack([there.src, edges - there.src]),
        np.stack([there.dst, edges - there.dst]),
        np.stack([there.block, there.block + micro_batches]),
        step=np.stack([there.step, there.step + edges]),
        after=[*after, (back[1:], back[:-1]), (back[:, 1:], back[:, :-1]), (back[:, :1], forth[:, -1:])],
    )
