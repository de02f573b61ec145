"""Placement policies of schedulers: how many nodes a job gets on each leaf, of those that are free.

Schedulers see a tree of *domains*: leaves, zones, and all together. A policy is what its documentation says of such a
tree where all nodes are alike and a job wants whole nodes; weights, partitions, preemption and reservations are left
out. Sources, read in November 2026: Slurm's topology guide (slurm.schedmd.com/topology.html); Kueue's design of
topology-aware scheduling (kubernetes-sigs/kueue, keps/2724-topology-aware-scheduling, "Computing the assignment" and
"Balanced placement"); An et al., SC'24, arXiv 2408.14158, section III-B.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Placement = Literal[
    "zone", "random", "compact", "balanced",
    "slurm-tree", "slurm-block", "kueue-best-fit", "kueue-least-free", "kueue-balanced",
]  # fmt: skip
"""Names of policies: Fire-Flyer's rule on zones; any nodes; fewest leaves; fewest leaves, evenly; Slurm's plugins
topology/tree and topology/block; Kueue's algorithms BestFit, LeastFreeCapacity and BalancedPlacement."""

Counts = NDArray[np.int64]
Split = Callable[[Counts, int], Counts]
"""How many nodes of each domain are taken, of those that are free: (n,) and their sum to (n,)."""


def best_fit(free: Counts, nodes: int) -> Counts:
    """Take from the domains with most free nodes; of those that can hold the rest, from the one with fewest.

    Examples
    --------
    The example of Kueue's design: seven of nodes that hold 3, 3, 2 and 1.

    >>> import numpy as np
    >>> best_fit(np.array([3, 3, 2, 1]), 7).tolist()
    [3, 3, 0, 1]
    """
    take = np.zeros_like(free)
    order = np.argsort(-free, kind="stable")
    for at in order.tolist():
        if nodes and take[at] == 0:
            holds = [other for other in order.tolist() if take[other] == 0 and free[other] >= nodes]
            chosen = min(holds, key=lambda other: free[other]) if holds else at
            take[chosen] = min(nodes, int(free[chosen]))
            nodes -= int(take[chosen])
    return take


def least_free(free: Counts, nodes: int) -> Counts:
    """Take from the domains with fewest free nodes first.

    Examples
    --------
    >>> import numpy as np
    >>> least_free(np.array([3, 3, 2, 1]), 7).tolist()
    [3, 1, 2, 1]
    """
    order = np.argsort(free, kind="stable")
    before = np.cumsum(free[order]) - free[order]
    take = np.zeros_like(free)
    take[order] = np.clip(nodes - before, 0, free[order])
    return take


def evenly(free: Counts, nodes: int) -> Counts:
    """Take from as few domains as can hold them, such that the least of these gives as many as it can.

    Examples
    --------
    Sixteen nodes on racks of 15 and 12: 8 and 8, not 15 and 1.

    >>> import numpy as np
    >>> evenly(np.array([15, 12, 3]), 16).tolist()
    [8, 8, 0]
    """
    order = np.argsort(-free, kind="stable")
    n = int(np.searchsorted(np.cumsum(free[order]), nodes)) + 1
    take = np.zeros_like(free)
    if n == 1:
        take[_tightest(free, nodes)] = nodes
        return take
    for left, at in zip(range(n, 0, -1), order[:n][::-1].tolist(), strict=True):  # those with fewest first
        take[at] = min(int(free[at]), nodes // left)
        nodes -= int(take[at])
    return take


def place(policy: Placement, free: Counts, zone: NDArray[np.integer], nodes: int) -> Counts:
    """Return how many nodes a job gets on each leaf.

    Parameters
    ----------
    policy
        Any but ``"zone"`` and ``"random"``, which need more than counts (`simulate.cluster.scheduler`).
    free
        (L,) free nodes of each leaf, in the order of the floor; at least `nodes` in all.
    zone
        (L,) zone of each leaf.
    """
    if free.max() >= nodes:  # every policy gives a job that one leaf holds the tightest such leaf
        take = np.zeros_like(free)
        take[_tightest(free, nodes)] = nodes
        return take
    return _POLICIES[policy](free, zone, nodes)


def _by_level(split: Split, free: Counts, zone: NDArray[np.integer], nodes: int) -> Counts:
    """Kueue: the tightest zone that holds the job, else all; the nodes are split among zones, then among leaves."""
    zones, of_leaf = np.unique(zone, return_inverse=True)
    room = np.bincount(of_leaf, free, len(zones)).astype(np.int64)
    shares = np.zeros_like(room)
    if room.max() >= nodes:
        shares[_tightest(room, nodes)] = nodes
    else:
        shares = split(room, nodes)
    take = np.zeros_like(free)
    for at in np.flatnonzero(shares).tolist():
        leaves = np.flatnonzero(of_leaf == at)
        take[leaves] = split(free[leaves], int(shares[at]))
    return take


def _tree(free: Counts, zone: NDArray[np.integer], nodes: int) -> Counts:
    """Slurm's topology/tree: the tightest zone that holds a job, else all; leaves by best fit, near ones first."""
    zones, of_leaf = np.unique(zone, return_inverse=True)
    room = np.bincount(of_leaf, free, len(zones))
    inside = of_leaf == _tightest(room, nodes) if room.max() >= nodes else np.ones(len(free), bool)
    take = np.zeros_like(free)
    while nodes:
        left = np.where(inside & (take == 0), free, 0)
        near = np.where(np.isin(zone, zone[take > 0]), left, 0)
        from_ = near if near.any() else left
        chosen = _tightest(from_, nodes) if from_.max() >= nodes else int(np.argmax(from_))
        take[chosen] = min(nodes, int(free[chosen]))
        nodes -= int(take[chosen])
    return take


def _blocks(free: Counts, nodes: int) -> Counts:
    """Slurm's topology/block: the tightest of the shortest runs of 1, 2, 4, ... leaves, aligned, that hold the job."""
    n, size = len(free), 1
    while True:
        first = np.arange(0, n, size)
        room = np.add.reduceat(free, first)
        if room.max() >= nodes:
            begin = int(first[_tightest(room, nodes)])
            take = np.zeros_like(free)
            take[begin : begin + size] = best_fit(free[begin : begin + size], nodes)
            return take
        size *= 2


def _tightest(free: NDArray[np.number], nodes: int) -> int:
    """Return the first of the domains with fewest free nodes that hold a job."""
    return int(np.argmin(np.where(free >= nodes, free, np.inf)))


_POLICIES: dict[str, Callable[[Counts, NDArray[np.integer], int], Counts]] = {
    "compact": lambda free, zone, nodes: best_fit(free, nodes),
    "balanced": lambda free, zone, nodes: evenly(free, nodes),
    "slurm-tree": _tree,
    "slurm-block": lambda free, zone, nodes: _blocks(free, nodes),
    "kueue-best-fit": partial(_by_level, best_fit),
    "kueue-least-free": partial(_by_level, least_free),
    "kueue-balanced": partial(_by_level, evenly),
}
