"""Connected components and articulation points beside those of networkx, on graphs of all densities."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.graphs import articulation_points, components, mix, refine_colours


@pytest.mark.parametrize("seed", range(30))
def test_graphs_are_those_of_networkx(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 200))
    a, b = rng.integers(0, n, (2, int(rng.integers(0, 2 * n))))  # with loops and parallel edges
    graph = nx.Graph(list(zip(a.tolist(), b.tolist(), strict=True)))
    graph.add_nodes_from(range(n))
    wanted = sorted(sorted(part) for part in nx.connected_components(graph))  # by their first nodes

    label = components(n, a, b)

    assert [np.flatnonzero(label == at).tolist() for at in range(label.max() + 1)] == wanted
    assert articulation_points(n, a, b) == set(nx.articulation_points(graph))


@pytest.mark.slow
def test_a_long_path_in_any_order_is_one() -> None:
    path = np.random.default_rng(1).permutation(100_000)
    assert not components(len(path), path[1:], path[:-1]).any()
    assert articulation_points(len(path), path[1:], path[:-1]) == set(path[1:-1].tolist())
    assert articulation_points(0, path[:0], path[:0]) == set()
    assert components(3, path[:0], path[:0]).tolist() == [0, 1, 2]
    assert components(0, path[:0], path[:0]).tolist() == []


@given(seed=st.integers(0, 1 << 30))
def test_colours_tell_apart_what_plain_tuples_of_neighbours_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 12)), int(rng.integers(0, 16))
    a, b, cable = rng.integers(0, n, m), rng.integers(0, n, m), rng.integers(0, 2, m).astype(np.uint64)
    start = rng.integers(0, 2, n)
    near, far, kind = np.concatenate([a, b]), np.concatenate([b, a]), np.concatenate([cable, cable])
    by_sender = np.argsort(near, kind="stable")
    found = refine_colours(start.astype(np.uint64), near[by_sender], far[by_sender], mix(kind[by_sender]))
    plain = start.tolist()
    for _ in range(n):
        ways = [tuple(sorted((int(kind[e]), plain[far[e]]) for e in np.flatnonzero(near == i))) for i in range(n)]
        told = list(zip(plain, ways, strict=True))
        names = {key: number for number, key in enumerate(sorted(set(told)))}
        plain = [names[key] for key in told]
    assert len(set(zip(found.tolist(), plain, strict=True))) == len(set(found.tolist())) == len(set(plain))
