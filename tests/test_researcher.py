"""Tasks of a researcher, done with what the faces offer and nothing else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import routing
import simulate
import topo


class FirstPort:
    """An engine of one's own: at every switch the first port on a shortest path."""

    name, purpose, max_lanes = "first-port", "to begin with", 1

    def route(self, fabric, lid=None, *, lanes=None):
        lft = np.full((fabric.n_switches, int(lid.max()) + 1), routing.NO_PATH, np.uint8)
        ports = [range(*fabric.port_offset[switch : switch + 2]) for switch in range(fabric.n_switches)]
        for end in np.flatnonzero(lid).tolist():
            home, last = int(fabric.end_switch[end]), int(fabric.port_of([end])[0])
            lft[home, lid[end]] = 0 if last < 0 else fabric.port_number[fabric.peer[last]]
            reached = [home]
            for far in reached:  # breadth first
                for port in ports[far]:
                    near = int(fabric.peer_node[port])
                    if 0 <= near < fabric.n_switches and near not in reached:
                        lft[near, lid[end]] = fabric.port_number[fabric.peer[port]]
                        reached.append(near)
        return routing.RoutingTables(lid, lft)


def test_an_engine_of_ones_own_is_compared_with_all_others() -> None:
    fabric = topo.preset("lab-20").fabric
    alone = routing.route(fabric, FirstPort())
    proof = routing.prove(alone)
    assert proof.holds
    assert routing.check_certificate(alone, proof)

    routed = routing.route(fabric, "auto", entrants=[FirstPort()])
    table = dict(zip(*(column.values for column in routed.candidate_table.columns[:2]), strict=True))
    assert table["first-port"] == 0, "pairs that are missing"
    assert routed.tables.engine != "first-port", "its paths from a leaf share one cable"
    assert routing.measure(alone).max_load == 11 * 11, "pairs of the hosts of two leaves"
    assert routing.measure(routed).ebb == 1.0 > routing.measure(alone).ebb


def test_tables_of_opensm_are_read_edited_by_names_proven_and_simulated(tmp_path: Path) -> None:
    fabric = topo.preset("lab-20").fabric
    dump = tmp_path / "lfts"
    dump.write_bytes(routing.opensm.format_lfts(fabric, routing.route(fabric).tables))
    before = routing.Routed(fabric, routing.opensm.read_lfts(dump, fabric).tables)
    assert routing.trace(before, "gpu00", "head1").fault is None

    switch, end = routing.find_switch(fabric, "leaf0"), routing.find_end(before, "head1")
    over = routing.studies.link_use(before, "leaf0:40").forth.tolist()
    lft = before.tables.lft.copy()
    lft[switch, before.tables.lid[end]] = 40
    after = routing.Routed(fabric, replace(before.tables, lft=lft, engine="by hand"))
    assert routing.repairs.differing_entries(fabric, before.tables, after.tables).tolist() == [[switch, end]]
    assert "leaf0:40 -> spine1:10" in routing.trace(after, "gpu00", "head1").to_dict()["channels"]
    gained = [pair for pair in routing.studies.link_use(after, "leaf0:40").forth.tolist() if pair not in over]
    assert [pair[1] for pair in gained] == [end] * 11, "all hosts of leaf0 now go that way to head1"
    assert routing.prove(after).holds

    hosts = np.array([routing.find_end(after, name) for name in ("gpu00", "head1")], np.int32)
    for routed in (before, after):  # two hosts alone: each sends as many bytes as there are, at 200 Gb/s
        outcome = simulate.play(routed, simulate.allreduce(hosts, "186 MiB", "ring"))
        assert outcome.makespan_s == pytest.approx(186 * 2**20 / 25e9, rel=0.01)

    lft[switch, before.tables.lid[end]] = routing.NO_PATH
    broken = routing.Routed(fabric, replace(before.tables, lft=lft))
    assert routing.prove(broken).missing == 11
    assert routing.trace(broken, "gpu00", "head1").describe().endswith("leaf0 has no entry")
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
