"""An order of channels grows turn by turn: with the ranks that plain sorts give, and never around a loop."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_fabrics import draw
from helpers.strategies import slow_but
from routing.machine_code import Interpreter
from routing.order.channel_order import order_channels, switch_levels
from routing.order.turns import ALLOWED, CLOSED, UNKNOWN, _sort_by_rank, no_turns, offer_turns


@given(st.integers(0, 2**32 - 1), st.integers(0, 60), st.integers(0, 60))
def test_a_part_of_the_queue_is_sorted_by_rank(seed: int, begin: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    rank = rng.permutation(200).astype(np.int32)
    queue = rng.permutation(200).astype(np.int32)[: begin + length + 5]
    wanted, end = queue.copy(), begin + length
    wanted[begin:end] = wanted[begin:end][np.argsort(rank[wanted[begin:end]])]
    Interpreter().run(_sort_by_rank.py_func, (rank, queue, begin, end))  # type: ignore[attr-defined]
    assert queue.tolist() == wanted.tolist()


@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_turns_get_the_ranks_of_plain_sorts_and_close_no_loop(seed: int) -> None:
    """Pearce and Kelly in words: what leads to x takes the lowest ranks of all that is looked at, in its old order."""
    fabric, rng = draw(seed), np.random.default_rng(seed)
    order = order_channels(fabric, switch_levels(fabric))
    size = len(order.sender)
    turns = no_turns(order, rng.permutation(size).astype(np.int32))
    rank, graph = turns.rank.copy(), nx.DiGraph()
    graph.add_nodes_from(range(size))
    for x in rng.integers(0, size, 150):
        first, last = order.indptr[order.receiver[x] : order.receiver[x] + 2]
        y = int(rng.integers(first, last))
        offer_turns(turns, np.array([x], np.int32), np.array([y], np.int32))
        if graph.has_edge(x, y) or turns.state[x, y - first] == CLOSED:
            assert graph.has_edge(x, y) or x == y or nx.has_path(graph, y, x)
            continue
        if rank[x] > rank[y]:
            after = sorted((n for n in nx.descendants(graph, y) | {y} if rank[n] <= rank[x]), key=lambda n: rank[n])
            before = sorted((n for n in nx.ancestors(graph, x) | {x} if rank[n] >= rank[y]), key=lambda n: rank[n])
            rank[[*before, *after]] = np.sort(rank[[*before, *after]])
        graph.add_edge(int(x), y)
        assert turns.rank.tolist() == rank.tolist()
    assert not turns.seen.any()
    assert np.count_nonzero(turns.state == ALLOWED) == graph.number_of_edges()
    assert set(np.unique(turns.state)) <= {UNKNOWN, ALLOWED, CLOSED}
