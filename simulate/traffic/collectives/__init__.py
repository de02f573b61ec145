"""Collectives as explicit schedules: pure functions of a number of ranks, which any network can play."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from simulate.traffic.collectives.all_to_all import shift_all_to_all
from simulate.traffic.collectives.halving_doubling import (
    halving_doubling_allreduce,
    recursive_doubling_all_gather,
    recursive_halving_reduce_scatter,
)
from simulate.traffic.collectives.hierarchical import hierarchical_allreduce
from simulate.traffic.collectives.pipeline import pipeline
from simulate.traffic.collectives.ring import ring_all_gather, ring_allreduce, ring_reduce_scatter
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.tree import tree_allreduce, tree_broadcast, tree_reduce
from simulate.traffic.collectives.trees import chain_tree, double_binary_tree, two_trees_below, zone_trees
from topo.errors import HeddleError

Generator = Callable[[int, int, ArrayLike], Schedule]

ALGORITHMS: dict[str, dict[str, Generator]] = {
    "allreduce": {
        "ring": lambda n, chunks, groups: ring_allreduce(n, chunks),
        "halving-doubling": lambda n, chunks, groups: halving_doubling_allreduce(n),
        "double-binary-tree": lambda n, chunks, groups: tree_allreduce(double_binary_tree(n), chunks),
        "zone-tree": lambda n, chunks, groups: tree_allreduce(zone_trees(groups), chunks),
        "hierarchical": lambda n, chunks, groups: hierarchical_allreduce(groups, chunks),
    },
    "reduce-scatter": {
        "ring": lambda n, chunks, groups: ring_reduce_scatter(n, chunks),
        "recursive-halving": lambda n, chunks, groups: recursive_halving_reduce_scatter(n),
    },
    "all-gather": {
        "ring": lambda n, chunks, groups: ring_all_gather(n, chunks),
        "recursive-doubling": lambda n, chunks, groups: recursive_doubling_all_gather(n),
    },
    "broadcast": {
        "ring": lambda n, chunks, groups: tree_broadcast([chain_tree(n)], chunks),
        "double-binary-tree": lambda n, chunks, groups: tree_broadcast(two_trees_below(n, 0), chunks),
    },
    "reduce": {
        "ring": lambda n, chunks, groups: tree_reduce([chain_tree(n)], chunks),
        "double-binary-tree": lambda n, chunks, groups: tree_reduce(two_trees_below(n, 0), chunks),
    },
    "all-to-all": {"shift": lambda n, chunks, groups: shift_all_to_all(n)},
    "pipeline": {
        "forward": lambda n, chunks, groups: pipeline(n, chunks, backward=False),
        "forward-backward": lambda n, chunks, groups: pipeline(n, chunks),
    },
}
"""Generators by collective and algorithm; the first of each collective is its default."""

MAX_MESSAGES = 2**26
"""Messages of one schedule; some 4 GB of arrays. A ring of 5,000 ranks has 50 million."""


def schedule(
    collective: str, algorithm: str, n_ranks: int, *, chunks: int = 1, groups: ArrayLike | None = None
) -> Schedule:
    """Return the schedule of a collective by an algorithm of `ALGORITHMS`.

    Parameters
    ----------
    chunks
        Pieces in which a block travels, so that a rank passes on the first while it receives the second; micro-batches
        of a pipeline. Algorithms of halving and doubling, and all-to-all, send whole blocks.
    groups : (n_ranks,)
        Zone, leaf or host of each rank, for ``zone-tree`` and ``hierarchical``; None is one group.

    Raises
    ------
    HeddleError
        When there is no such algorithm, or it cannot take this number of ranks.
    """
    if algorithm not in ALGORITHMS.get(collective, {}):
        raise HeddleError(
            f"found the algorithm {algorithm!r} for {collective!r}; expected one of "
            + "; ".join(f"{name}: {', '.join(by)}" for name, by in ALGORITHMS.items())
        )
    if n_ranks < 1 or chunks < 1:
        raise HeddleError(f"found {n_ranks} ranks and {chunks} chunks; expected at least one of each")
    most = n_ranks * _most_messages_of_a_rank(collective, algorithm, n_ranks, chunks)
    if most > MAX_MESSAGES:
        raise HeddleError(
            f"{collective} by {algorithm} of {n_ranks:,} ranks in {chunks:,} chunks has some {most:,} messages; "
            f"expected at most {MAX_MESSAGES:,}"
        )
    return ALGORITHMS[collective][algorithm](n_ranks, chunks, [0] * n_ranks if groups is None else groups)


def _most_messages_of_a_rank(collective: str, algorithm: str, n_ranks: int, chunks: int) -> int:
    if algorithm in ("halving-doubling", "recursive-halving", "recursive-doubling"):
        return 2 * n_ranks.bit_length()
    if algorithm.endswith("tree") or collective in ("broadcast", "reduce", "pipeline"):
        return 4 * chunks
    return 2 * n_ranks * chunks
