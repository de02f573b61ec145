"""Trees over ranks, as arrays of parents: NCCL's double binary tree, a chain, and one tree a zone.

A tree is an (n,) int32 array: the parent of each rank, -1 for the root.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topo.errors import HeddleError

Tree = NDArray[np.int32]


def binary_tree(n_ranks: int) -> Tree:
    """In-order binary tree in which every odd rank is a leaf: ``ncclGetBtree``, NCCL ``src/graph/trees.cc``.

    Rank 0 is the root and has one child, the largest power of two below n. The lowest set bit of any other rank tells
    how high it stands; its parent has the next bit set instead, or neither where that rank does not exist.
    """
    rank = np.arange(n_ranks)
    bit = rank & -rank
    parent = (rank ^ bit) | (bit << 1)
    parent = np.where(parent < n_ranks, parent, rank ^ bit)
    parent[:1] = -1
    return parent.astype(np.int32)


def double_binary_tree(n_ranks: int) -> tuple[Tree, Tree]:
    """Two binary trees of which no rank is an inner node twice: ``ncclGetDtree``, NCCL ``src/graph/trees.cc``.

    The second is the first mirrored when n is even, shifted by one rank when n is odd. Each carries half of the data,
    so no rank sends more than twice the buffer in an allreduce. Sanders, Speck and Träff, "Two-tree algorithms for
    full bandwidth broadcast, reduction and scan", 2009.
    """
    first = binary_tree(n_ranks)
    if n_ranks % 2 == 0:
        return first, np.where(first < 0, -1, n_ranks - 1 - first)[::-1].astype(np.int32)
    return first, np.roll(np.where(first < 0, -1, (first + 1) % n_ranks), 1).astype(np.int32)


def chain_tree(n_ranks: int, root: int = 0) -> Tree:
    """Chain around the ring from a root: each rank's parent is the rank before it."""
    parent = (np.arange(n_ranks) - 1) % max(n_ranks, 1)
    parent[root] = -1
    return parent.astype(np.int32)


def two_trees_below(n_ranks: int, root: int) -> tuple[Tree, Tree]:
    """Return a root that feeds a double binary tree of all other ranks: for broadcast and reduce at full bandwidth."""
    others = np.delete(np.arange(n_ranks), root)
    trees = []
    for tree in double_binary_tree(n_ranks - 1):
        parent = np.full(n_ranks, -1)
        parent[others] = np.where(tree < 0, root, others[tree])
        trees.append(parent.astype(np.int32))
    return trees[0], trees[1]


def zone_trees(zones: ArrayLike) -> tuple[Tree, Tree]:
    """Return two trees in which one pair of ranks joins each zone to the zone before: Fire-Flyer's scheduler rule.

    Within a zone stands a double binary tree. Its first rank hangs below the first rank of the zone before, in both
    trees, so the zone's second tree is turned to have this rank as its root.

    Parameters
    ----------
    zones : (n_ranks,)
        Zone of each rank, in any order. Zones are joined in the order of their numbers.
    """
    zone = np.asarray(zones)
    trees = np.full((2, len(zone)), -1, np.int32)
    gateway = -1
    for number in np.unique(zone):
        members = np.flatnonzero(zone == number)
        for tree, parent in zip(trees, double_binary_tree(len(members)), strict=True):
            inner = rerooted(parent, 0) if gateway >= 0 else parent
            tree[members] = np.where(inner < 0, gateway, members[inner])
        gateway = int(members[0])
    return trees[0], trees[1]


def rerooted(tree: Tree, root: int) -> Tree:
    """Return the same edges hanging from another root."""
    result = tree.copy()
    below, at = -1, root
    while at >= 0:
        above = int(tree[at])
        result[at] = below
        below, at = at, above
    return result


def depths(tree: Tree) -> NDArray[np.int32]:
    """Return (n,) int32 edges between each rank and the root.

    Raises
    ------
    HeddleError
        When the ranks do not form one tree.
    """
    children_first = np.argsort(tree, kind="stable")
    start = np.searchsorted(tree[children_first], np.arange(-1, len(tree) + 1))
    depth = np.full(len(tree), -1, np.int32)
    level, at = 0, np.flatnonzero(tree == -1)
    if len(at) > 1:
        raise HeddleError(f"ranks {at[0]} and {at[1]} are both roots; a tree has one")
    while len(at):
        depth[at] = level
        level += 1
        at = np.concatenate([children_first[start[rank + 1] : start[rank + 2]] for rank in at.tolist()])
    if np.any(depth < 0):
        raise HeddleError(f"rank {int(np.argmax(depth < 0))} does not hang on the root")
    return depth


def crossings(trees: Sequence[Tree], groups: ArrayLike) -> list[int]:
    """Return how many edges of each tree join ranks of different groups (zones, leaves)."""
    group = np.asarray(groups)
    return [int(np.count_nonzero((tree >= 0) & (group != group[tree]))) for tree in trees]
