"""What collectives send at once: steps of flows between ranks, in shares of the buffer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.steps import halving_doubling_allreduce
from topo.errors import HeddleError
from topo.fabric import Frozen
from topo.graphs import double_binary_tree


@dataclass(frozen=True, eq=False)
class Pattern(Frozen):
    """F flows in K steps; those of one step are sent at once, and a step begins when the one before has ended."""

    algorithm: str
    n_ranks: int
    step: NDArray[np.int32]
    """(F,) step of each flow."""
    src: NDArray[np.int32]
    """(F,) rank that sends."""
    dst: NDArray[np.int32]
    """(F,) rank that receives."""
    share: NDArray[np.float64]
    """(K,) what each flow of a step carries, as a share of the buffer."""
    times: NDArray[np.int64]
    """(K,) how often the step comes."""

    @property
    def n_steps(self) -> int:
        """Different steps."""
        return len(self.share)

    @property
    def all_pairs(self) -> bool:
        """Whether each rank sends the same to each other, once: no order changes what a channel carries in all."""
        pairs = np.unique(self.src.astype(np.int64) * self.n_ranks + self.dst)
        whole = len(self.src) == len(pairs) == self.n_ranks * (self.n_ranks - 1)
        return whole and len(np.unique(self.share * self.times)) == 1


def _ring(n_ranks: int) -> Pattern:
    """Allreduce around a ring: ``2 (n - 1)`` times the same step."""
    rank = np.arange(n_ranks, dtype=np.int32)
    step = np.zeros(n_ranks, np.int32)
    share, times = np.array([1 / n_ranks]), np.array([2 * (n_ranks - 1)])
    return Pattern("ring", n_ranks, step, rank, (rank + 1) % np.int32(n_ranks), share, times)


def _tree(n_ranks: int) -> Pattern:
    """Allreduce over NCCL's double binary tree: its pipeline uses all edges of both trees, up and down, at once."""
    trees = double_binary_tree(n_ranks)
    child = np.concatenate([np.flatnonzero(parent >= 0) for parent in trees]).astype(np.int32)
    parent = np.concatenate([parent[parent >= 0] for parent in trees])
    src, dst = np.concatenate([child, parent]), np.concatenate([parent, child])
    return Pattern("tree", n_ranks, np.zeros(len(src), np.int32), src, dst, np.array([0.5]), np.array([1]))


def _halving_doubling(n_ranks: int) -> Pattern:
    """Allreduce by recursive halving, the farthest ranks first, and doubling: each exchange comes once in either.

    Only what folds ranks in excess of a power of two is not what unfolds them: the same flows the other way round.
    """
    schedule = halving_doubling_allreduce(n_ranks)
    alike: dict[bytes, list[NDArray[np.intp]]] = {}
    for step in range(schedule.n_steps):
        flows = np.flatnonzero(schedule.step == step)
        pairs = np.sort(schedule.src[flows].astype(np.int64) * n_ranks + schedule.dst[flows])
        alike.setdefault(pairs.tobytes(), []).append(flows)
    steps = [same[0] for same in alike.values()]
    share = np.array([schedule.count[flows[0]] / schedule.n_blocks for flows in steps])
    times = np.array([len(same) for same in alike.values()])
    step_of = np.repeat(np.arange(len(steps), dtype=np.int32), [len(flows) for flows in steps])
    every = np.concatenate(steps)
    return Pattern("halving-doubling", n_ranks, step_of, schedule.src[every], schedule.dst[every], share, times)


def _all_to_all(n_ranks: int) -> Pattern:
    """All-to-all in ``n - 1`` shifts: in step s each rank sends to the one s further on."""
    shift, rank = np.divmod(np.arange(n_ranks * (n_ranks - 1), dtype=np.int32), np.int32(n_ranks))
    share = np.full(n_ranks - 1, 1 / n_ranks)
    times = np.ones(n_ranks - 1, np.int64)
    return Pattern("all-to-all", n_ranks, shift, rank, (rank + shift + 1) % np.int32(n_ranks), share, times)


PATTERNS: dict[str, Callable[[int], Pattern]] = {
    "ring": _ring,
    "tree": _tree,
    "halving-doubling": _halving_doubling,
    "all-to-all": _all_to_all,
}
"""Patterns of a number of ranks, by name."""


def pattern_of(algorithm: str, n_ranks: int) -> Pattern:
    """Return the pattern of an algorithm."""
    if algorithm not in PATTERNS:
        raise HeddleError(f"found the algorithm {algorithm!r}; expected one of {', '.join(PATTERNS)}")
    if n_ranks < 2:
        raise HeddleError(f"found {n_ranks} nodes; expected at least two, or there is nothing to send")
    return PATTERNS[algorithm](n_ranks)
