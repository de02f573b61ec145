"""The chain of flows that decided the end, on cases small enough to see."""

import pytest

from helpers.servers import PCIE_A100, ends, outcome_of, routed_tree
from simulate.engines.critical_path import critical_segments
from simulate.engines.outcome import Outcome
from simulate.traffic.flows import Flows
from simulate.traffic.node import Servers

SERVERS = Servers(PCIE_A100, routed_tree()[0], ends(4), (1.0,))
FIRST, SECOND, THIRD = ends(3).tolist()


def path(outcome: Outcome) -> list[int]:
    return [segment.flow for segment in critical_segments(outcome)]


def test_the_slower_dependency_is_on_the_path() -> None:
    flows = Flows.of([FIRST, THIRD, SECOND], [SECOND, FIRST, THIRD], [25e9, 50e9, 25e9], after=([2, 2], [0, 1]))
    outcome = outcome_of(SERVERS, flows)

    assert path(outcome) == [1, 2]
    assert sum(outcome.bottlenecks.to_dict()["time"]) == pytest.approx(outcome.makespan_s) == pytest.approx(3.0)


def test_of_equals_the_lowest_number_counts() -> None:
    flows = Flows.of([FIRST, SECOND], [SECOND, FIRST], 25e9)

    assert path(outcome_of(SERVERS, flows)) == [0]


def test_times_are_told_by_kind_the_longest_first() -> None:
    gpu, memory = SERVERS.gpu_over_host[0, 0], SERVERS.memory(1)[0]
    flows = Flows.of([gpu, memory], [memory, SERVERS.memory(1)[1]], [27e9, 50e9], after=([1], [0]))
    outcome = outcome_of(SERVERS, flows)

    assert outcome.bottlenecks.to_dict()["resource"] == ["compute to leaf", "PCIe from"]
    assert outcome.bottlenecks.to_dict()["time"] == pytest.approx([2.0, 1.0])


def test_no_flows_have_no_path() -> None:
    outcome = outcome_of(SERVERS, Flows.of([], [], []))

    assert path(outcome) == []
    assert len(outcome.bottlenecks) == 0
