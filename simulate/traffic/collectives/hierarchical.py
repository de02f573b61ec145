"""Two-level allreduce: within groups, across them, within again."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simulate.traffic.collectives.ring import ring_all_gather, ring_allreduce, ring_reduce_scatter
from simulate.traffic.collectives.schedule import Schedule, concurrent, sequence
from topo.errors import HeddleError


def hierarchical_allreduce(groups: ArrayLike, chunks: int = 1) -> Schedule:
    """Sum of all buffers at every rank, sending only ``1 / group size`` of the buffer between groups.

    Rings reduce-scatter within each group; the j-th ranks of all groups allreduce the j-th part around a ring; rings
    all-gather within each group.

    Parameters
    ----------
    groups : (n_ranks,)
        Group of each rank (its leaf, zone or host), in any order.

    Raises
    ------
    HeddleError
        When the groups have different sizes.
    """
    group = np.asarray(groups)
    names, sizes = np.unique(group, return_counts=True)
    if len(names) and sizes.min() < sizes.max():
        small, large = np.argmin(sizes), np.argmax(sizes)
        raise HeddleError(
            f"the hierarchical allreduce takes groups of equal size; group {names[small]} has {sizes[small]} ranks and "
            f"group {names[large]} has {sizes[large]}"
        )
    n_ranks, n_groups = len(group), len(names)
    if n_ranks == 0:
        return ring_allreduce(0)
    members = np.stack([np.flatnonzero(group == name) for name in names])
    size = members.shape[1]
    n_blocks = size * n_groups * chunks

    def within(part: Schedule) -> Schedule:
        return concurrent([part.on_ranks(row, n_ranks).on_blocks(0, n_blocks, n_groups * chunks) for row in members])

    across = ring_allreduce(n_groups, chunks)
    columns = [across.on_ranks(members[:, j], n_ranks).on_blocks(j * n_groups * chunks, n_blocks) for j in range(size)]
    return sequence(sequence(within(ring_reduce_scatter(size)), concurrent(columns)), within(ring_all_gather(size)))
