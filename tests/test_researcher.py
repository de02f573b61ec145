"""Tasks of a researcher, by the faces of the packages alone."""

import json
from pathlib import Path

import numpy as np
import pytest

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
    bound = routing.bound(LAB.fabric).max_load
    assert all(row[2] >= bound for row in rows)


def test_failures_of_two_links_by_name() -> None:
    routed = routing.route(LAB.fabric, "fat-tree")
    ports = np.array([routing.find_link(LAB.fabric, name) for name in ("leaf0:21", "leaf1:22")])
    left = LAB.fabric.without(ports)
    assert len(left.links) == len(LAB.fabric.links) - 2
    stale = routing.prove(routing.Routed(left, routed.tables))
    assert stale.missing > 0
    assert routing.prove(routing.route(left)).holds
    repaired = routing.repair(routing.prepare_repair(routed), ports).after
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
