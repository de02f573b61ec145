"""Tasks of a researcher, done with what the faces offer and nothing else."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import costmodel
import plan
import routing
import simulate
import topo

LAB = topo.preset("lab-20")


def larger(servers: int) -> topo.Cluster:
    spec = LAB.spec.model_dump(exclude_unset=True, mode="json")
    spec["nodes"]["gpu"]["count"] = servers
    return topo.parse(spec)


def fairness(routed: routing.Routed) -> float:
    """Jain's index of the pairs over the channels between switches: 1 where all have as many."""
    load = routing.prove(routed).load[routed.fabric.inner].astype(float)
    return float(load.sum() ** 2 / (len(load) * (load**2).sum()))


def test_a_metric_of_ones_own() -> None:
    found = {engine: fairness(routing.route(LAB.fabric, engine)) for engine in ("fat-tree", "minhop", "dfsssp")}
    assert all(1 / len(LAB.fabric.inner) < value <= 1 for value in found.values())
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": 2, "spines": 1}
    nodes = {"gpu": {"model": "pcie-a100", "count": 4}}
    pair = topo.parse({"name": "pair", "nodes": nodes, "network": network}).fabric
    # Two on the other leaf send to each of four servers, over an up and a down link of its own: 8 of 80 channels.
    assert fairness(routing.route(pair, "fat-tree")) == pytest.approx(8 / len(pair.inner))


def test_tables_of_opensm_read_proven_and_simulated(tmp_path: Path) -> None:
    made = routing.route(LAB.fabric, "minhop")
    (tmp_path / "fabric.ibnetdiscover").write_text(topo.format_ibnetdiscover(LAB.fabric, made.tables.lid))
    (tmp_path / "lfts").write_bytes(routing.opensm.format_lfts(LAB.fabric, made.tables))

    fabric = topo.read_fabric(tmp_path / "fabric.ibnetdiscover")
    routed = routing.Routed(fabric, routing.opensm.read_lfts(tmp_path / "lfts", fabric).tables)
    proof = routing.prove(routed)
    assert proof.holds
    assert routing.check_certificate(routed, proof)
    assert np.array_equal(np.sort(proof.load), np.sort(routing.prove(made).load))
    hosts = fabric.ends(role="compute")
    assert simulate.play(routed, simulate.allreduce(hosts, "1 MiB")).makespan_s > 0


def test_three_engines_in_a_table() -> None:
    rows = []
    for engine in ("fat-tree", "minhop", "dfsssp"):
        routed = routing.route(LAB.fabric, engine)
        quality = routing.measure(routed, seed=0)
        rows.append((engine, routing.prove(routed).credit_loops, quality.max_load, quality.ebb))
    columns = zip(("engine", "credit loops", "fullest link", "bisection"), zip(*rows, strict=True), strict=True)
    table = topo.Table("engines", tuple(topo.Column(*column) for column in columns))
    assert len(table) == 3
    assert table.to_csv().splitlines()[0] == "engine,credit loops,fullest link,bisection"
    bound = routing.studies.bound(LAB.fabric).max_load
    assert all(row[2] >= bound for row in rows)


def test_failures_of_two_links_by_name() -> None:
    routed = routing.route(LAB.fabric, "fat-tree")
    ports = routing.find_ports(LAB.fabric, ["leaf0:21", "leaf1:22"])
    left = LAB.fabric.without(ports)
    assert len(left.links) == len(LAB.fabric.links) - 2
    stale = routing.prove(routing.Routed(left, routed.tables))
    assert stale.missing > 0
    assert routing.prove(routing.route(left)).holds
    repaired = routing.repairs.repair(routing.repairs.prepare_repair(routed), ports).after
    assert routing.prove(repaired).holds
    loads = [routing.prove(one).load.max() for one in (routed, repaired)]
    assert loads[1] >= loads[0]


def test_a_sweep_over_sizes(tmp_path: Path) -> None:
    sizes = [8, 12, 16]
    base = tmp_path / "lab.yaml"
    base.write_text((topo.config_root() / "lab-20.yaml").read_text())
    (tmp_path / "sizes.yaml").write_text(
        json.dumps({"base": "lab.yaml", "stages": ["design"], "parameters": {"nodes.gpu.count": sizes}})
    )
    points = plan.sweep(tmp_path / "sizes.yaml", tmp_path / "out")
    assert (points.whole, points.errors) == (True, ())
    links = {document["point"]["nodes.gpu.count"]: document["figures"]["counts.links"] for document in points.documents}
    assert links == {size: len(larger(size).fabric.links) for size in sizes}
    assert plan.sweep(tmp_path / "sizes.yaml", tmp_path / "out").to_dict()["computed"] == 0


@pytest.mark.slow
def test_a_plan_built_checked_optimised_and_grown(tmp_path: Path) -> None:
    checked = plan.check(LAB)
    built = plan.build(LAB, tmp_path / "out", seed=1)
    assert built.verdict is checked.verdict is topo.Verdict.HOLDS
    assert json.loads((tmp_path / "out" / "plan.json").read_text()) == json.loads(json.dumps(built.to_dict()))
    assert checked.summary() == built.summary()
    assert built.quote is not None
    assert built.quote.cost.total == costmodel.quote(LAB).cost.total

    grown = plan.grow(LAB, larger(18))
    assert grown.found
    assert not plan.grow(LAB, LAB).found
    assert [line.count for line in grown.bought.lines if line.kind == "node"] == [2]
    assert plan.diff(LAB.fabric, LAB.fabric.without(LAB.fabric.inner[:1])).to_dict()["agreeing"] == 61

    needs = costmodel.Needs.model_validate({
        "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 30}}, "job": {"nodes": 30},
        "switches": ["QM8700"],
    })  # fmt: skip
    best = plan.optimise(needs, tmp_path / "best.yaml", finalists=1)
    assert best.verdict is topo.Verdict.HOLDS
    (finalist,) = best.finalists
    assert finalist.proven
    assert plan.check(tmp_path / "best.yaml").verdict.holds
    with pytest.raises(topo.HeddleError, match="exists"):
        plan.optimise(needs, tmp_path / "best.yaml")


def test_a_misspelt_engine_is_refused_from_python_too() -> None:
    spec = LAB.spec.model_dump(exclude_unset=True, mode="json") | {"routing": {"engine": "fat-treee"}}
    for verb in (plan.check, plan.build):
        with pytest.raises(topo.HeddleError, match="Did you mean `fat-tree`"):
            verb(topo.parse(spec))


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
    assert table["first-port"] == "none", "faults"
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
    assert routing.repairs.differing_entries(before.tables, after.tables).tolist() == [[switch, end]]
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
        "jobs:\n- name: sum\n  kind: collective\n  rank: adapter\n  collective: allreduce\n  algorithm: star\n"
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
