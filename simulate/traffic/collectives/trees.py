"""Trees over ranks as arrays of parents, and collectives over them: up to reduce, down to broadcast.

A tree is an (n,) int32 array: the parent of each rank, -1 for the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.schedule import Schedule, concurrent
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Kind
from topo.graphs import double_binary_tree

Tree = NDArray[np.int32]

SHARP = "sharp"
"""Name of the allreduce that switches add up."""


def chain_tree(n_ranks: int) -> Tree:
    """Chain from rank 0: each rank's parent is the rank before it."""
    return np.arange(-1, n_ranks - 1, dtype=np.int32)


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
    """Return (n,) int32 edges between each rank and the root; HeddleError when the ranks do not form one tree."""
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
        raise HeddleError(f"rank {int(np.argmax(depth < 0))} is not connected to the root")
    return depth


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
    parts = [_one(tree, up=up, down=down) for tree in trees]
    once = concurrent([part.on_blocks(at, len(trees)) for at, part in enumerate(parts)])
    return once.in_chunks(chunks, runs=len(trees) * (up + down))


def _one(tree: Tree, *, up: bool, down: bool) -> Schedule:
    """Messages over the edges of one tree, with one block. Edge e joins the e-th rank but the root to its parent."""
    depth = depths(tree)
    child = np.flatnonzero(tree >= 0)
    parent = tree[child]
    edge = np.full(len(tree), -1)
    edge[child] = np.arange(len(child))
    above = edge[parent]  # the edge between the parent and its own parent; -1 below the root
    inner, top = np.flatnonzero(above >= 0), np.flatnonzero(above < 0)
    falling = np.arange(len(child)) + (len(child) if up else 0)
    after: list[tuple[NDArray[Any], NDArray[Any]]] = []
    ways: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    turn = 0
    if up:
        height = _heights(tree, depth)
        turn = int(height.max(initial=0))
        after.append((above[inner], inner))
        ways.append((child, parent, height[child]))
    if down:
        after.append((falling[inner], falling[above[inner]]))
        ways.append((parent, child, turn + depth[parent]))
    if up and down:  # what the root sends has come from all of its children
        after.append((falling[top, None], top))
    src, dst, step = (np.stack(column) for column in zip(*ways, strict=True))
    adds = np.array([up, False][: len(ways)]).reshape(-1, 1)
    return Schedule.of(len(tree), 1, src, dst, 0, reduce=adds, step=step, after=after)


def _heights(tree: Tree, depth: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return (n,) int32 edges between each rank and the farthest leaf below it."""
    height = np.zeros(len(tree), np.int32)
    for rank in np.argsort(-depth, kind="stable").tolist():
        if tree[rank] >= 0:
            height[tree[rank]] = max(height[tree[rank]], height[rank] + 1)
    return height


def aggregation_tree(fabric: Fabric, hosts: ArrayLike, *, every_switch: bool = False) -> tuple[Tree, NDArray[np.int32]]:
    """Return the tree of NVIDIA SHARP over hosts and switches, and the end ports of its ranks: hosts, then switches.

    Every rank sends its buffer to the aggregation node of its leaf, each node adds up what comes from below and sends
    the sum up the tree, and the whole sum comes down the same tree: Graham et al., "Scalable Hierarchical Aggregation
    Protocol (SHArP): a hardware architecture for efficient data reduction", COMHPC 2016. Ranks and links carry the
    buffer once each way, however many ranks there are; with a ring it is nearly twice. An aggregation node is the
    channel adapter inside a switch that dumps name. What goes to it is played as far as its switch, since the switch
    adds at the rate of its ports. Only one tree is used, as SHARP has it for a job, and its number of children and of
    jobs is not limited here.

    The root is the switch whose farthest leaf of the hosts is nearest, of several the one with the least sum of
    distances, of these the first. Switches add up that have an aggregation node, or all.
    """
    from scipy.sparse import coo_array  # which takes long to import, and few jobs sum in switches
    from scipy.sparse.csgraph import breadth_first_order, shortest_path

    ends = np.asarray(hosts, np.int32)
    named = fabric.end_switch[fabric.ends(kind=Kind.AGGREGATION)]
    able = np.isin(np.arange(fabric.n_switches), named) | every_switch
    leaves, leaf = np.unique(fabric.end_switch[ends], return_inverse=True)
    unable = leaves[~able[leaves]]
    if len(unable):
        name, have = fabric.names[unable[0]], "has" if len(unable) == 1 else "have"
        raise HeddleError(
            f"{plural(len(unable), 'leaf', 'leaves')} of the ranks, such as {name}, {have} no aggregation node in this "
            f"fabric; a dump names those that there are, and a spec none: say `every_switch` if all switches have one"
        )
    n, near, far = fabric.n_switches, fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]
    joined = able[near] & able[far]
    graph = coo_array((np.ones(int(joined.sum())), (near[joined], far[joined])), shape=(n, n)).tocsr()
    hops = shortest_path(graph, unweighted=True, indices=leaves)
    farthest = hops.max(axis=0)
    root = int(np.lexsort((np.arange(n), hops.sum(axis=0), farthest))[0])
    if not np.isfinite(farthest[root]):
        raise HeddleError(
            f"the aggregation nodes of {plural(len(leaves), 'leaf', 'leaves')} are not joined by others; expected "
            f"switches with aggregation nodes between them"
        )
    above = breadth_first_order(graph, root, directed=False)[1]
    used = {root}
    for switch in leaves.tolist():
        while switch not in used:
            used.add(switch)
            switch = int(above[switch])
    switches = np.array(sorted(used), np.int32)
    place = np.full(n, -1)
    place[switches] = len(ends) + np.arange(len(switches))
    parent_of_switch = np.where(switches == root, -1, place[np.maximum(above[switches], 0)])
    return np.append(place[leaves][leaf], parent_of_switch).astype(np.int32), np.append(ends, switches)
