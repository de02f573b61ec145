"""Questions about graphs: what hangs together, what looks alike, and how much can flow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

STEPS_PER_GBPS = 50
"""The solver counts in whole numbers: 0.02 Gb/s is one step of FDR's 54.56 Gb/s, the oddest rate there is."""
LARGEST = 2**31 - 1

Colours = NDArray[np.uint64]


def components(n: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the (n,) component of each node of an undirected graph, numbered by their first nodes.

    ``a`` and ``b`` are (E,) the nodes that each edge joins. Each tree of nodes that point to a lower one of their
    component hooks onto a lower tree beside it, until there is none; at least half of the trees with neighbours go each
    time (Shiloach and Vishkin, 1982).

    >>> import numpy as np
    >>> components(5, np.array([3, 4]), np.array([1, 3])).tolist()
    [0, 1, 2, 1, 1]
    """
    root = np.arange(n)
    while (apart := root[a] != root[b]).any():
        a, b = a[apart], b[apart]
        near, far = root[a], root[b]
        np.minimum.at(root, np.maximum(near, far), np.minimum(near, far))
        while (root[root] != root).any():
            root = root[root]
    return np.unique(root, return_inverse=True)[1].astype(np.int32)


def turns_in_groups(group: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how many before each entry are of its group.

    >>> import numpy as np
    >>> turns_in_groups(np.array([3, 1, 3, 3, 1])).tolist()
    [0, 0, 1, 2, 1]
    """
    order = np.argsort(group, kind="stable")
    turn = np.empty(len(group), np.int64)
    turn[order] = np.arange(len(group)) - np.searchsorted(group[order], group[order])
    return turn


def rows_of(offset: NDArray[np.integer], row: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how many entries rows of a CSR array have, none where the row is negative, and the places of all.

    >>> import numpy as np
    >>> [part.tolist() for part in rows_of(np.array([0, 2, 3, 6]), np.array([2, -1, 0]))]
    [[3, 0, 2], [3, 4, 5, 0, 1]]
    """
    count = np.where(row < 0, 0, offset[np.maximum(row, 0) + 1] - offset[np.maximum(row, 0)])
    begin = offset[np.maximum(row, 0)] - (np.cumsum(count) - count)
    return count, np.repeat(begin, count) + np.arange(count.sum())


def refine_colours(
    colour: Colours, sender: NDArray[np.integer], receiver: NDArray[np.integer], cable: Colours
) -> Colours:
    """Return (N,) colours of nodes, refined until those of neighbours tell no more nodes apart.

    Whatever the nodes are numbered, what is equal in structure keeps an equal colour (Weisfeiler and Leman, 1968).
    ``colour`` (N,) is what is known of each node; ``sender`` and ``receiver`` (E,) are the nodes of each edge, once in
    each direction, in the order of the senders; ``cable`` (E,) is what is known of each edge, as `mix` spreads it.

    >>> import numpy as np
    >>> path = np.array([0, 1, 1, 2, 2, 3]), np.array([1, 0, 2, 1, 3, 2])
    >>> found = refine_colours(np.zeros(4, np.uint64), *path, np.zeros(6, np.uint64))
    >>> np.unique(found, return_inverse=True)[1].tolist() in ([0, 1, 1, 0], [1, 0, 0, 1])
    True
    """
    first = np.flatnonzero(np.diff(sender, prepend=-1))
    linked = sender[first]
    count, before = len(np.unique(colour)), 0
    while len(first) and before < count < len(colour):
        around = np.add.reduceat(mix(colour[receiver] ^ cable), first)
        colour = colour.copy()
        colour[linked] = mix(colour[linked] + mix(around))
        count, before = len(np.unique(colour)), count
    return colour


def mix(x: NDArray[np.unsignedinteger]) -> Colours:
    """Return pseudo-random numbers: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = x.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def binary_tree(n: int) -> NDArray[np.int32]:
    """Return the (n,) parent of each rank, -1 for the root, in the in-order binary tree of NCCL.

    Every odd rank is a leaf: ``ncclGetBtree``, NCCL ``src/graph/trees.cc``. Rank 0 is the root and has one child, the
    largest power of two below n. The lowest set bit of any other rank tells how high it stands; its parent has the next
    bit set instead, or neither where that rank does not exist.
    """
    rank = np.arange(n)
    bit = rank & -rank
    parent = (rank ^ bit) | (bit << 1)
    parent = np.where(parent < n, parent, rank ^ bit)
    parent[:1] = -1
    return parent.astype(np.int32)


def double_binary_tree(n: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return two binary trees of which no rank is an inner node twice: ``ncclGetDtree``, NCCL ``src/graph/trees.cc``.

    The second is the first mirrored when n is even, shifted by one rank when n is odd. Each carries half of the data,
    so no rank sends more than twice the buffer in an allreduce. Sanders, Speck and Träff, "Two-tree algorithms for
    full bandwidth broadcast, reduction and scan", 2009.
    """
    first = binary_tree(n)
    if n % 2 == 0:
        return first, np.where(first < 0, -1, n - 1 - first)[::-1].astype(np.int32)
    return first, np.roll(np.where(first < 0, -1, (first + 1) % n), 1).astype(np.int32)


def articulation_points(n: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> set[int]:
    """Return the nodes of an undirected graph whose removal disconnects others.

    A node is one if a subtree below it in a depth-first tree has no edge to above it (Hopcroft and Tarjan, 1973); the
    root, if it has two subtrees. networkx has it, and takes half the time of `plan check` to import.
    ``a`` and ``b`` are (E,) the nodes that each edge joins.

    >>> import numpy as np
    >>> articulation_points(4, np.array([0, 1, 2]), np.array([1, 2, 0]))
    set()
    >>> articulation_points(4, np.array([0, 1, 2]), np.array([1, 2, 3]))
    {1, 2}
    """
    near, far = np.concatenate([a, b]), np.concatenate([b, a])
    beside = np.split(far[np.argsort(near, kind="stable")], np.cumsum(np.bincount(near, minlength=n))[:-1])
    number = [-1] * n  # of each node, in the order in which they are found
    lowest = [0] * n  # number that an edge from the subtree below a node leads to
    found = set()
    count = 0
    for root in range(n):
        if number[root] >= 0:
            continue
        number[root] = lowest[root] = count
        count += 1
        subtrees = 0
        path = [(root, iter(beside[root].tolist()))]
        while path:
            node, rest = path[-1]
            other = next(rest, None)
            if other is None:
                path.pop()
                if len(path) > 1:
                    above = path[-1][0]
                    lowest[above] = min(lowest[above], lowest[node])
                    if lowest[node] >= number[above]:
                        found.add(above)
                subtrees += len(path) == 1
            elif number[other] >= 0:
                lowest[node] = min(lowest[node], number[other])
            else:
                number[other] = lowest[other] = count
                count += 1
                path.append((other, iter(beside[other].tolist())))
        if subtrees > 1:
            found.add(root)
    return found


def minimum_cut(
    links: NDArray[np.integer], rate: NDArray[np.float64], sends: NDArray[np.float64], receives: NDArray[np.float64]
) -> tuple[float, NDArray[np.bool_]]:
    """Return the largest total rate from senders to receivers, and the senders' side of a cut that allows no more.

    The rate is in Gb/s, the side (N,) bool (max-flow min-cut, Ford and Fulkerson 1956).
    ``links`` (L, 2) are nodes, ``rate`` (L,) Gb/s in each direction, ``sends`` and ``receives`` (N,) Gb/s of each node.
    """
    from scipy.sparse import coo_array  # takes a quarter of a second, and few ask
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    largest = max(float(rate.sum()), float(sends.sum()), float(receives.sum()))
    steps = STEPS_PER_GBPS if largest * STEPS_PER_GBPS < LARGEST else 1
    senders, receivers = np.flatnonzero(sends), np.flatnonzero(receives)
    source, sink = len(sends), len(sends) + 1
    a, b = links.T
    from_node = np.concatenate([a, b, np.full(len(senders), source), receivers])
    to_node = np.concatenate([b, a, senders, np.full(len(receivers), sink)])
    most = np.concatenate([rate, rate, sends[senders], receives[receivers]]) * steps
    graph = coo_array((np.rint(most).astype(np.int32), (from_node, to_node)), shape=(sink + 1, sink + 1)).tocsr()
    flow = maximum_flow(graph, source, sink)
    left = graph - flow.flow
    left.eliminate_zeros()
    side = np.zeros(sink + 1, bool)
    side[breadth_first_order(left, source, return_predecessors=False)] = True
    return float(flow.flow_value) / steps, side[:source]
