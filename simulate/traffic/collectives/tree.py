"""Collectives over trees, pipelined in chunks: up the tree to reduce, down to broadcast."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.schedule import Schedule, concurrent
from simulate.traffic.collectives.trees import Tree, depths


def tree_allreduce(trees: Sequence[Tree], chunks: int = 1) -> Schedule:
    """Sum of all buffers at every rank: each tree reduces its share of the buffer to its root and spreads the sum.

    A chunk goes up when it has come from all children, and turns at the root while later chunks are still rising, as
    in NCCL and in HFReduce.
    """
    return _over(trees, chunks, up=True, down=True)


def tree_broadcast(trees: Sequence[Tree], chunks: int = 1) -> Schedule:
    """Buffer of the root at every rank; the trees must have the same root."""
    return _over(trees, chunks, up=False, down=True)


def tree_reduce(trees: Sequence[Tree], chunks: int = 1) -> Schedule:
    """Sum of all buffers at the root; the trees must have the same root. Other ranks end with partial sums."""
    return _over(trees, chunks, up=True, down=False)


def _over(trees: Sequence[Tree], chunks: int, *, up: bool, down: bool) -> Schedule:
    n_blocks = len(trees) * chunks
    parts = [_one(tree, chunks, up=up, down=down) for tree in trees]
    return concurrent([part.on_blocks(at * chunks, n_blocks) for at, part in enumerate(parts)])


def _one(tree: Tree, chunks: int, *, up: bool, down: bool) -> Schedule:
    """Messages over the edges of one tree. Edge e joins the e-th rank that is not the root to its parent."""
    depth = depths(tree)
    child = np.flatnonzero(tree >= 0)
    parent = tree[child]
    edge = np.full(len(tree), -1)
    edge[child] = np.arange(len(child))
    above = edge[parent]  # the edge between the parent and its own parent; -1 below the root
    inner, top = np.flatnonzero(above >= 0), np.flatnonzero(above < 0)
    chunk = np.arange(chunks).reshape(-1, 1)
    rising = chunk * len(child) + np.arange(len(child))
    falling = rising + (rising.size if up else 0)
    after, src, dst, step = [], [], [], []
    turn = 0
    if up:
        height = _heights(tree, depth)
        turn = int(height.max(initial=0))
        after += [(rising[1:], rising[:-1]), (rising[:, above[inner]], rising[:, inner])]
        src.append(np.broadcast_to(child, rising.shape))
        dst.append(np.broadcast_to(parent, rising.shape))
        step.append(height[child] + chunk)
    if down:
        after += [(falling[1:], falling[:-1]), (falling[:, inner], falling[:, above[inner]])]
        src.append(np.broadcast_to(parent, falling.shape))
        dst.append(np.broadcast_to(child, falling.shape))
        step.append(turn + depth[parent] + chunk)
    if up and down:  # what the root sends has come from all of its children
        after.append((falling[:, top, None], rising[:, None, top]))
    directions = len(src)
    return Schedule.of(
        len(tree),
        chunks,
        np.stack(src),
        np.stack(dst),
        np.broadcast_to(chunk, (directions, *rising.shape)),
        reduce=np.array([up, False][:directions]).reshape(-1, 1, 1),
        step=np.stack(step),
        after=after,
    )


def _heights(tree: Tree, depth: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return (n,) int32 edges between each rank and the farthest leaf below it."""
    height = np.zeros(len(tree), np.int32)
    for rank in np.argsort(-depth, kind="stable").tolist():
        if tree[rank] >= 0:
            height[tree[rank]] = max(height[tree[rank]], height[rank] + 1)
    return height
