"""Tasks of a researcher, done with the faces alone."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import routing
import simulate
import topo


def star(n_ranks: int, chunks: int, groups: NDArray[np.int32]) -> simulate.traffic.Schedule:
    """An allreduce in which rank 0 sums what all others send, and sends them the sum."""
    others = np.arange(1, n_ranks)
    first = np.arange(len(others))
    return simulate.traffic.Schedule.of(
        n_ranks,
        1,
        src=np.concatenate([others, 0 * others]),
        dst=np.concatenate([0 * others, others]),
        block=0,
        reduce=np.repeat([True, False], len(others)),
        step=np.repeat([0, 1], len(others)),
        after=[(len(others) + first[:, None], first[None, :])],
    )


def test_a_collective_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One algorithm as a function, by its name in Python and in YAML, as a GOAL schedule and as a graph: one time."""
    routed = routing.route(topo.preset("lab-20").fabric)
    hosts = routed.fabric.ends(role="compute", zone=0)
    size, others, rate = 25e6, len(hosts) - 1, 25e9  # 200 Gb/s into the port of rank 0, and out of it
    expected_s = pytest.approx(2 * others * size / rate, rel=1e-3)
    assert others > 1

    assert simulate.play(routed, simulate.collective("allreduce", hosts, size, star)).makespan_s == expected_s

    algorithms = simulate.traffic.ALGORITHMS
    monkeypatch.setitem(algorithms, "allreduce", dict(algorithms["allreduce"]))
    simulate.traffic.register("allreduce", "star", star)
    assert simulate.play(routed, simulate.allreduce(hosts, size, "star")).makespan_s == expected_s
    names = ", ".join(routed.fabric.names[routed.fabric.end_node[end]] for end in hosts)
    text = (
        "jobs:\n- name: sum\n  kind: collective\n  collective: allreduce\n  algorithm: star\n"
        f"  size: 25 MB\n  nodes: [{names}]\n"
    )
    played = simulate.play(routed, simulate.parse_workload(text, routed.fabric))
    assert (played.jobs[0].algorithm, played.makespan_s) == ("star", expected_s)
    with pytest.raises(topo.HeddleError, match="Did you mean `star`"):
        simulate.allreduce(hosts, size, "stra")

    path = tmp_path / "star.goal"
    path.write_text(simulate.workload.format_as_goal(played.workload, routed.fabric), encoding="utf-8")
    asked = simulate.collective("allreduce", hosts, size, path)
    assert (asked.algorithm, simulate.play(routed, asked).makespan_s) == ("star.goal", expected_s)
    with pytest.raises(topo.HeddleError, match=f"found {others + 1} ranks; expected {others}"):
        simulate.collective("allreduce", hosts[1:], size, path)

    graph = simulate.Graph()
    brought = [graph.add(simulate.Flows.of(host, hosts[0], size)) for host in hosts[1:]]
    graph.add(simulate.Flows.of(hosts[0], hosts[1:], size), after=brought)
    assert simulate.play(routed, graph.flows()).makespan_s == expected_s
