"""Which nodes hang together: connected components of a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def components(n: int, a: NDArray[np.integer], b: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return the (n,) component of each node of an undirected graph, numbered by their first nodes.

    Each tree of nodes that point to a lower one of their component hooks onto a lower tree beside it, until there is
    none; at least half of the trees with neighbours go each time (Shiloach and Vishkin, 1982).

    Parameters
    ----------
    a, b
        (E,) the nodes that each edge joins.

    Examples
    --------
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
