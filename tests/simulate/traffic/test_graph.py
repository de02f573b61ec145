"""Operations begin when those before them have ended."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.fluids import hosts, routed
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import play
from simulate.traffic.flows import Flows
from simulate.traffic.graph import Graph
from simulate.traffic.network import Network

FABRIC = grow_tree((4, 4), (1, 3), (1, 1))
NETWORK = Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)
ENDS = np.array(hosts(NETWORK))


def test_a_computation_and_a_fork() -> None:
    graph = Graph()
    first = graph.compute(0, 0.25)
    a, b, c = ENDS[:3]
    fan = graph.add(Flows.of([a, b], [b, a], 25e9), [first])
    both = graph.add(Flows.of([a, b, c], [c, c, a], 25e9), [first, fan])
    graph.compute(0, 0.5, [both])

    assert play(NETWORK, graph.flows()).makespan_s == pytest.approx(0.25 + 1 + 2 + 0.5)


def test_nothing() -> None:
    assert len(Graph().flows()) == 0
    graph = Graph()
    graph.add(Flows.of([], [], []), [graph.compute(3, 0.125)])
    assert play(NETWORK, graph.flows()).makespan_s == 0.125


@given(st.data())
def test_every_operation_waits(data: st.DataObject) -> None:
    """Whatever the graph: the flows of an operation begin when the last flow of those before it has ended."""
    graph = Graph()
    afters: list[list[int]] = []
    for number in range(data.draw(st.integers(1, 8))):
        after = data.draw(st.lists(st.integers(0, number - 1), unique=True)) if number else []
        n = data.draw(st.integers(0, 4))
        src = data.draw(st.lists(st.sampled_from(ENDS.tolist()), min_size=n, max_size=n))
        dst = data.draw(st.lists(st.sampled_from(ENDS.tolist()), min_size=n, max_size=n))
        chained = (range(1, n), range(n - 1)) if data.draw(st.booleans()) else None
        graph.add(Flows.of(src, dst, [1e6] * n, after=chained), after)
        afters.append(after)
    flows = graph.flows()
    outcome = play(NETWORK, flows)
    real = [np.flatnonzero(flows.tag == number) for number in range(len(graph))]
    for number, after in enumerate(afters):
        ends = [outcome.finish_s[real[other]].max() for other in after]
        first = outcome.start_s[real[number]].min()
        assert first == pytest.approx(max(ends, default=0.0), rel=1e-12)
