"""`plan simulate`: closed forms through the command, the same bytes each time, and refusals that name the place."""

import csv
import gzip
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import topo
from helpers import twins
from helpers.strategies import nightly, slow_but
from plan.cli import run
from plan.inputs import find_preset, read_fabric_argument, read_routed_argument
from routing.engines.base import ENGINES
from routing.opensm.lfts import format_lfts
from simulate.traffic.collectives import algorithms
from simulate.workload.read import read_workload
from topo.catalog.load import config_root

LAB, FIRE_FLYER = config_root() / "lab-20.yaml", config_root() / "fire-flyer-2.yaml"
RATE = 25e9
SIZE = 186 * 2**20
MIB = 2**20

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `plan build`."""
    out = tmp_path_factory.mktemp("lab") / "out"
    assert run(["build", str(LAB), "-o", str(out)]) == 0
    return out


def simulate(capsys: Captured, *arguments: str | Path, status: int = 0) -> dict:
    """Closed forms are those of bandwidths: without latencies, unless they are asked for."""
    capsys.readouterr()
    latency = () if "--latency-ns" in arguments else ("--latency-ns", "0")
    assert run(["simulate", *map(str, arguments), *latency, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys: Captured, *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run(["simulate", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def collective(path: Path, **keys: object) -> Path:
    job = {
        "name": "job",
        "kind": "collective",
        "rank": "adapter",
        "collective": "allreduce",
        "size": f"{SIZE} B",
        **keys,
    }
    return written(path / "w.yaml", json.dumps({"jobs": [job]}))


# Closed forms


@pytest.mark.parametrize("algorithm", ["ring", "halving-doubling"])
def test_bandwidth_optimal_allreduce(algorithm: str, tmp_path: Path, capsys: Captured) -> None:
    (job,) = simulate(capsys, LAB, "-w", collective(tmp_path, algorithm=algorithm, mapping="by-leaf"))["jobs"]

    assert job["time_s"] == pytest.approx(2 * 15 / 16 * SIZE / RATE, rel=1e-9)
    assert job["algorithm_gbytes_per_s"] == pytest.approx(SIZE / job["time_s"] / 1e9, rel=1e-12)
    assert job["bus_gbytes_per_s"] == pytest.approx(25, rel=1e-9)
    assert job["flow_s"]["max"] == pytest.approx(job["flow_s"]["p50"]) if algorithm == "ring" else True


def test_trees_and_chains(tmp_path: Path, capsys: Captured) -> None:
    one = collective(tmp_path, algorithm="double-binary-tree", ranks=2)
    assert simulate(capsys, LAB, "-w", one)["makespan_s"] == pytest.approx(SIZE / RATE, rel=1e-9)
    chain = collective(tmp_path, collective="broadcast", algorithm="ring", chunks=8, mapping="by-leaf")
    # The last of 8 chunks leaves after the others, and goes over 15 links.
    assert simulate(capsys, LAB, "-w", chain)["makespan_s"] == pytest.approx((14 + 8) / 8 * SIZE / RATE, rel=1e-9)


def test_repetitions_and_compute_do_not_change_the_bandwidth(tmp_path: Path, capsys: Captured) -> None:
    workload = collective(tmp_path, repeat=3, compute="5 ms", start="20 ms", mapping="by-leaf")
    (job,) = simulate(capsys, LAB, "-w", workload)["jobs"]

    once = 2 * 15 / 16 * SIZE / RATE
    assert job["start_s"] == pytest.approx(0.02)
    assert job["time_s"] == pytest.approx(3 * (once + 0.005), rel=1e-9)
    assert job["once_s"] == pytest.approx(once, rel=1e-9)
    assert job["bus_gbytes_per_s"] == pytest.approx(25, rel=1e-9)


def test_latency_and_host_limit(tmp_path: Path, capsys: Captured) -> None:
    flows = written(tmp_path / "f.csv", f"start_s,src,dst,bytes\n0.5,gpu00,gpu15,{MIB}\n")
    options = ("--latency-ns", "1000", "--hop-latency-ns", "130", "--host-gbps", "100")
    assert simulate(capsys, LAB, "--flows", flows)["makespan_s"] == pytest.approx(0.5 + MIB / RATE, rel=1e-12)
    # Another leaf: four channels.
    expected = 0.5 + 1e-6 + 4 * 130e-9 + MIB / (RATE / 2)
    assert simulate(capsys, LAB, "--flows", flows, *options)["makespan_s"] == pytest.approx(expected, rel=1e-12)


def test_lanes_share_by_weight(tmp_path: Path, capsys: Captured) -> None:
    spec = written(tmp_path / "lab.yaml", LAB.read_text().replace("vl: 0, weight: 64", "vl: 0, weight: 192"))
    flows = written(tmp_path / "f.csv", f"start_s,src,dst,bytes,sl\n0,gpu00,gpu02,{MIB},0\n0,gpu01,gpu02,{MIB},1\n")
    out = tmp_path / "out.csv"
    result = simulate(capsys, spec, "--flows", flows, "-o", out)

    # 3 to 1, until the first has all of its bytes; then the other has the link.
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [float(row["finish_s"]) for row in rows] == pytest.approx([4 / 3 * MIB / RATE, 2 * MIB / RATE], rel=1e-9)
    by_lane = {item["lane"]: item["bytes"] for item in result["links"] if item["receiver"] == "compute"}
    assert by_lane == {0: MIB, 1: MIB}
    conf = written(tmp_path / "opensm.conf", "qos TRUE\nqos_sl2vl 0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0\n")
    simulate(capsys, spec, "--flows", flows, "-o", out, "--lanes", conf)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [float(row["finish_s"]) for row in rows] == pytest.approx([2 * MIB / RATE] * 2, rel=1e-9)


def test_jobs_that_share_a_link_slow_each_other_down(tmp_path: Path, capsys: Captured) -> None:
    for name, source in (("a", "gpu00"), ("b", "gpu01")):
        written(tmp_path / f"{name}.csv", f"start_s,src,dst,bytes\n0,{source},gpu02,{MIB}\n")
    jobs = "".join(f"- {{name: {name}, kind: flows, file: {name}.csv}}\n" for name in "ab")
    workload = written(tmp_path / "w.yaml", f"jobs:\n{jobs}- {{name: c, rank: adapter, kind: collective, "
                       "collective: all-to-all, size: 1 MiB, ranks: 2, nodes: [gpu08, gpu09]}\n")  # fmt: skip
    result = simulate(capsys, LAB, "-w", workload, "--alone")

    assert [job["slowdown"] for job in result["jobs"]] == pytest.approx([2, 2, 1], rel=1e-9)
    assert [job["alone_s"] for job in result["jobs"]] == pytest.approx([MIB / RATE, MIB / RATE, MIB / 2 / RATE])


# What it is pointed at


@pytest.mark.slow
def test_a_spec_its_folder_and_its_fabric_with_tables_give_the_same(
    lab: Path, tmp_path: Path, capsys: Captured
) -> None:
    rows = "".join(
        f"{k * 1e-5},gpu{k:02},storage{k % 2} mlx5_{k // 8},{MIB * (k + 1)},{(0, 1, '')[k % 3]}\n" for k in range(16)
    )
    flows = written(tmp_path / "f.csv", "start_s,src,dst,bytes,sl\n" + rows)
    files = {"tables": "lfts", "lanes": "opensm.conf", "policy": "qos-policy.conf"}
    tables = [part for option, name in files.items() for part in (f"--{option}", lab / "opensm" / name)]
    for number, source in enumerate([(LAB,), (lab,), (LAB, *tables), (lab / "fabric.ibnetdiscover", *tables)]):
        simulate(capsys, *source, "--flows", flows, "-o", tmp_path / f"{number}.csv")
    outputs = {(tmp_path / f"{number}.csv").read_text() for number in range(4)}

    assert len(outputs) == 1


def test_jobs_that_name_no_level_have_that_of_their_class(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    text = LAB.read_text()
    lanes = {}
    for keys in ({}, {"sl": 0}):
        job = {"name": "reads", "kind": "storage", "batches": 2, "batch": 4, "loaders": 1, **keys}
        document = {"storage": {"senders": None, "files": 1}, "jobs": [job]}
        workload = written(tmp_path / "w.yaml", json.dumps(document))
        links = simulate(capsys, LAB, "-w", workload)["links"]
        lanes[len(keys)] = {int(link["lane"]) for link in links}

    assert "{name: storage, sl: 1, vl: 1, weight: 64, roles: [storage]}" in text
    assert lanes == {0: {1}, 1: {0}}


def test_a_built_folder_keeps_roles(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    workload = collective(tmp_path, role="storage", mapping="by-leaf")
    assert simulate(capsys, lab, "-w", workload)["jobs"][0]["ranks"] == 4
    rules = written(tmp_path / "roles", "storage gpu0* mlx5_*\nstorage gpu1[0-1] *\n")
    assert simulate(capsys, lab, "-w", workload, "--roles", rules)["jobs"][0]["ranks"] == 4 + 12


@pytest.mark.slow
def test_a_fabric_of_others_on_tables_from_a_file(tmp_path: Path, capsys: Captured) -> None:
    fabric = twins.path("zone")
    found = read_fabric_argument(fabric)
    tables = tmp_path / "lfts"
    tables.write_bytes(format_lfts(found, ENGINES["fat-tree"].route(found)))
    result = simulate(capsys, fabric, "--tables", tables, "-w", collective(tmp_path, mapping="by-leaf"))

    n = 800
    assert result["jobs"][0]["time_s"] == pytest.approx(2 * (n - 1) / n * SIZE / RATE, rel=1e-9)


def test_bare_flows_on_a_real_fabric(tmp_path: Path, capsys: Captured) -> None:
    """Four hosts on one switch of a machine in Tartu, at 4xQDR: 32 Gb/s of data, 4 GB/s."""
    fabric = twins.path("fdr10-mesh")
    found = read_fabric_argument(fabric)
    tables = written(tmp_path / "lfts", format_lfts(found, ENGINES["balanced"].route(found)).decode())
    fast = found.ends()[found.rate_gbps[found.port_of(found.ends())] == 32]
    switch = np.bincount(found.end_switch[fast]).argmax()
    one, two, three, to = [
        found.hosts[found.host[found.end_node[end]]] for end in fast[found.end_switch[fast] == switch][:4]
    ]
    # Two flows move half of their bytes to one host until a third joins them; then each has a third of the link for the
    # 2 GB that they all have left: 1.5 s. What that host sends meets nobody.
    rows = [f"0,{one},{to},4000000000", f"0,{two},{to},4000000000", f"1,{three},{to},2000000000"]
    rows.append(f"0.5,{to} mlx5_0,{one} mlx5_0,8000000000")
    flows = written(tmp_path / "f.csv", "\n".join(["start_s,src,dst,bytes", *rows]) + "\n")
    simulate(capsys, fabric, "--tables", tables, "--flows", flows, "-o", tmp_path / "out.csv")

    finished = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert [row["src"] for row in finished] == [f"{name} mlx5_0" for name in (one, two, three, to)]
    assert [float(row["finish_s"]) for row in finished] == pytest.approx([2.5, 2.5, 2.5, 2.5], rel=1e-12)


WORKLOADS = sorted(path.stem for path in (config_root() / "workloads").glob("*.yaml"))
BY_DAY = ("hfreduce", "allreduce-zone-tree")
"""The others are played on a smaller cluster by day (`test_workload_presets`)."""


@pytest.mark.slow
@pytest.mark.parametrize("name", [name if name in BY_DAY else nightly(name) for name in WORKLOADS])
def test_every_preset_plays_on_fire_flyer_2(name: str, capsys: Captured) -> None:
    if name in ("allreduce", "all-to-all"):  # millions of flows: as large as needed elsewhere
        result = simulate(capsys, LAB, "-w", name)
        assert result["jobs"][0]["ranks"] == 16
    else:
        result = simulate(capsys, FIRE_FLYER, "-w", name)
    assert result["makespan_s"] > 0
    assert all(0 < item["max"] <= 1 + 1e-9 and item["mean"] <= item["max"] + 1e-12 for item in result["links"])


# What it writes


JOBS = """
jobs:
- {name: a, kind: collective, rank: adapter, collective: allreduce, algorithm: double-binary-tree,
   size: 8 MiB, chunks: 8, ranks: 8}
- {name: b, kind: collective, rank: adapter, collective: allreduce, algorithm: ring,
   size: 4 MiB, ranks: 4, repeat: 3, compute: 1 ms}
- {name: c, kind: collective, rank: adapter, collective: all-to-all, size: 2 MiB, ranks: 4, within: leaf}
"""


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The folder and trace of one simulation: by a process of its own, then here, with a trace of the other format."""
    folders = [tmp_path_factory.mktemp("twice") for _ in range(2)]
    for folder in folders:
        written(folder / "jobs.yaml", JOBS)
    arguments = ["simulate", str(LAB), "-w", "jobs.yaml", "--alone", "-o", "sim", "--trace"]
    subprocess.run(
        [sys.executable, "-m", "plan", *arguments, "trace.csv"], cwd=folders[0], capture_output=True, check=True
    )
    with chdir(folders[1]):
        assert run([*arguments, "trace.parquet"]) == 0
    return folders


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes(twice: list[Path]) -> None:
    digests = [
        {
            str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }
        for folder in twice
    ]

    assert set(digests[0]) >= {"sim/simulation.json", "sim/links.csv"}
    assert set(digests[0]) >= {"sim/timeline.svg", "sim/timeline.npz", "sim/link-load.svg"}
    assert digests[0].pop("trace.csv")
    assert digests[1].pop("trace.parquet")  # which holds what the other does, below
    assert digests[0] == digests[1]


@pytest.mark.slow
def test_the_trace_keeps_the_laws(twice: list[Path]) -> None:
    rows = list(csv.DictReader((twice[0] / "trace.csv").read_text().splitlines()))
    links = list(csv.DictReader((twice[0] / "sim" / "links.csv").read_text().splitlines()))
    result = json.loads((twice[0] / "sim" / "simulation.json").read_text())

    moving = [row for row in rows if row["src"] != row["dst"]]
    sent = sum(float(row["bytes"]) for row in moving)
    assert len(moving) == sum(job["flows"] for job in result["jobs"])
    assert sent == pytest.approx(sum(job["bytes"] for job in result["jobs"]))
    # What hosts send, they send once, and what arrives is what was sent.
    for side in (0, 1):
        over = [link for link in links if link["channel"].split(" -> ")[side].startswith("gpu")]
        assert sum(float(link["bytes"]) for link in over) == pytest.approx(sent, rel=1e-6)
    for row in moving:
        assert row["bottleneck"]
        assert float(row["finish_s"]) - float(row["start_s"]) >= float(row["bytes"]) / RATE * (1 - 1e-9)
    assert all(float(link["mean_utilisation"]) <= 1 for link in links)
    assert max(float(link["peak_utilisation"]) for link in links) == pytest.approx(1, abs=1e-6)
    with np.load(twice[0] / "sim" / "timeline.npz") as timeline:
        load, rate, width = timeline["load_bytes_s"], timeline["rate_bytes_s"], float(timeline["bin_s"])
        carried = dict(zip(timeline["channel"].tolist(), load.sum(axis=(0, 2)) * width, strict=True))
    assert np.all(load.sum(axis=0) <= rate[:, None] * (1 + 1e-9)), "no link above its capacity at any time"
    assert carried == pytest.approx({link["channel"]: float(link["bytes"]) for link in links}, rel=1e-6)
    for job in result["jobs"]:
        mine = [float(row["finish_s"]) for row in rows if row["job"] == job["name"]]
        assert max(mine) == job["finish_s"]


@pytest.mark.slow
def test_parquet_holds_what_csv_holds(twice: list[Path]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(twice[1] / "trace.parquet").to_pylist()
    rows = list(csv.DictReader((twice[0] / "trace.csv").read_text().splitlines()))

    assert [{key: "" if value is None else str(value) for key, value in row.items()} for row in table] == rows


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(capsys, LAB, "-w", collective(tmp_path), "--trace", tmp_path / "t.parquet")
    assert "heddle-fabric[parquet]" in said


def test_goal_that_is_written_plays_the_same(tmp_path: Path, capsys: Captured) -> None:
    goal = tmp_path / "ring.goal"
    once = simulate(capsys, LAB, "-w", collective(tmp_path, size="150 MB", ranks=6, chunks=2), "--goal", goal)
    names = [f"gpu{number:02}" for number in range(6)]
    assert goal.read_text().startswith("// rank 0 is gpu00 mlx5_0\n// rank 1 is gpu01")
    workload = written(
        tmp_path / "again.yaml",
        json.dumps(
            {"jobs": [{"name": "again", "kind": "goal", "rank": "adapter", "file": "ring.goal", "nodes": names}]}
        ),
    )
    assert simulate(capsys, LAB, "-w", workload)["makespan_s"] == pytest.approx(once["makespan_s"], rel=1e-9)


@pytest.mark.slow
def test_one_round_for_all_is_said_wherever_it_is_shown(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(algorithms, "FLOWS", replace(algorithms.FLOWS, limit=100))
    out, ring = tmp_path / "out", collective(tmp_path, repeat=7)
    found = simulate(capsys, LAB, "-w", ring, "-o", out, "--alone")

    assert found["makespan_s"] == pytest.approx(7 * 2 * 15 / 16 * SIZE / RATE, rel=1e-12)
    assert (found["rounds"], found["flows"]) == (7 * 30, 7 * 30 * 16)
    assert json.loads((out / "simulation.json").read_text()) == found
    links = csv.DictReader((out / "links.csv").read_text().splitlines())
    sent = sum(float(link["bytes"]) for link in links if link["channel"].startswith("gpu"))
    assert sent == pytest.approx(found["jobs"][0]["bytes"], rel=1e-9)
    assert "job: begins at 0 ms" in (drawn := (out / "timeline.svg").read_text())
    assert "utilisation" not in drawn and "time (ms)" in drawn and not (out / "timeline.npz").exists()
    assert run(["report", str(out), "-o", str(tmp_path / "report.html")]) == 0
    assert "messages stand for 210 rounds" in (tmp_path / "report.html").read_text()
    capsys.readouterr()
    assert run(["simulate", str(LAB), "-w", str(ring)]) == 0
    assert "one round for all: 16 messages stand for 210 rounds" in capsys.readouterr().out

    no_level = collective(tmp_path, collective="all-to-all")
    assert "w.yaml:1:" in (said := refused(capsys, LAB, "-w", no_level)) and "give the job an `sl`" in said
    for options in (("--why",), ("--trace", tmp_path / "t.csv"), ("--goal", tmp_path / "t.goal")):
        assert refused(capsys, LAB, "-w", collective(tmp_path), *options)
        assert not (tmp_path / "t.csv").exists() and not (tmp_path / "t.goal").exists()


def test_a_plan_or_an_input_is_never_written_over(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    flows = written(tmp_path / "f.csv", f"start_s,src,dst,bytes\n0,gpu00,gpu01,{MIB}\n")
    before = (lab / "plan.json").read_bytes()
    assert "found plan.json of a plan" in refused(capsys, lab, "-w", collective(tmp_path), "-o", lab)
    assert "an input" in refused(capsys, LAB, "--flows", flows, "-o", flows)
    assert "a folder" in refused(capsys, LAB, "--flows", flows, "-o", tmp_path)
    assert "cannot be written" in refused(capsys, LAB, "--flows", flows, "-o", tmp_path / "no" / "such.csv")
    workload = written(tmp_path / "w.yaml", "jobs:\n- {name: a, kind: flows, file: f.csv}\n")
    assert "an input" in refused(capsys, LAB, "-w", workload, "--trace", flows)
    assert "an input" in refused(capsys, LAB, "-w", workload, "--goal", workload)
    assert (lab / "plan.json").read_bytes() == before
    assert workload.read_text().startswith("jobs")
    assert flows.read_text().startswith("start_s")


# Refusals


HEADER = "start_s,src,dst,bytes\n"
CASES = {
    "missing node": ({"w.yaml": "jobs:\n- name: a\n  kind: collective\n  collective: allreduce\n  size: 1 MiB\n"
                                "  nodes: [gpu00, gpu99]\n  rank: adapter\n"}, "w.yaml:6:18: ", "gpu99"),
    "negative size": ({"w.yaml": "jobs:\n- name: a\n  kind: collective\n  collective: allreduce\n  size: -1 MiB\n"
                                 "  rank: adapter\n"}, "w.yaml:5:9: ", "-1 MiB"),
    "impossible rank count": ({"w.yaml": "jobs:\n- name: a\n  kind: collective\n  collective: reduce-scatter\n"
                                         "  algorithm: recursive-halving\n  size: 1 MiB\n  ranks: 6\n"
                                         "  rank: adapter\n"},
                              "w.yaml:5:14: ", "power of two"),
    "more ranks than nodes": ({"w.yaml": "jobs:\n- name: a\n  kind: collective\n  collective: allreduce\n"
                                         "  size: 1 MiB\n  ranks: 17\n"
                                         "  rank: adapter\n"}, "w.yaml:6:10: ", "at most 16"),
    "cycle in a trace": ({"w.yaml": "jobs:\n- {name: a, kind: goal, file: t.goal}\n",
                          "t.goal": "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 1\na requires b\nb requires a\n}\n"},
                         "t.goal:", "circle"),
    "nothing to do": ({"w.yaml": "jobs:\n- {name: a, kind: storage}\n"}, "w.yaml:2:3: ", "`batches` to read"),
    "missing file": ({"w.yaml": "jobs:\n- {name: a, kind: flows, file: none.csv}\n"}, "none.csv", "found no such file"),
    "flow to a missing node": ({"w.yaml": "jobs:\n- {name: a, kind: flows, file: f.csv}\n",
                                "f.csv": HEADER + "0,gpu00,gpu01,1\n0,gpu00,gpu77,1\n"}, "f.csv:3: ", "gpu77"),
    "flow of negative size": ({"w.yaml": "jobs:\n- {name: a, kind: flows, file: f.csv}\n",
                               "f.csv": HEADER + "0,gpu00,gpu01,-1\n"}, "f.csv:2: ", "-1"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.slow
def test_what_cannot_be_is_refused_at_its_place(case: str, tmp_path: Path, capsys: Captured) -> None:
    files, where, found = CASES[case]
    for name, text in files.items():
        written(tmp_path / name, text)
    said = refused(capsys, LAB, "-w", tmp_path / "w.yaml")

    assert said.startswith(str(tmp_path / where))
    assert found in said


def test_a_flow_that_the_tables_do_not_connect_is_refused_at_its_place(
    lab: Path, tmp_path: Path, capsys: Captured
) -> None:
    routed = read_routed_argument(lab)
    fabric, tables = routed.fabric, routed.tables
    lft = tables.lft.copy()
    end = next(
        e for e in range(fabric.n_switches, fabric.n_end_ports) if fabric.names[fabric.end_node[e]] == "gpu15 mlx5_0"
    )
    lft[0, tables.lid[end]] = 255
    holed = tmp_path / "lfts"
    holed.write_bytes(format_lfts(fabric, replace(tables, lft=lft)))
    flows = written(tmp_path / "f.csv", f"# a comment\n{HEADER}0,gpu14,gpu15,1\n\n0,gpu00,gpu15,1\n")
    workload = written(tmp_path / "w.yaml", "jobs:\n- {name: a, kind: flows, file: f.csv}\n")
    (tmp_path / "all").mkdir()
    everyone = collective(tmp_path / "all", collective="all-to-all")

    for arguments in (("--flows", flows), ("-w", workload)):
        said = refused(capsys, lab, "--tables", holed, *arguments)
        assert said.startswith(f"{flows}:5: ")
        assert "gpu00 mlx5_0:1 to gpu15 mlx5_0:1: leaf0 has no entry" in said
    pipe, end = os.pipe()
    os.write(end, f"{HEADER}0,gpu14,gpu15,1\n0,gpu00,gpu15,1\n".encode())
    os.close(end)
    said = refused(capsys, lab, "--tables", holed, "--flows", f"/dev/fd/{pipe}")
    os.close(pipe)
    assert said.startswith(f"/dev/fd/{pipe}: flow 2 that has no path: gpu00")
    said = refused(capsys, lab, "--tables", holed, "-w", everyone)
    assert said.startswith(f"{everyone}:1:11: job job has a flow that has no path: gpu0")


def test_usage(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    workload = collective(tmp_path)
    assert "either --workload or --flows" in refused(capsys, LAB)
    assert "Did you mean `three-jobs`?" in refused(capsys, LAB, "-w", "three-job")
    assert "name them with --tables" in refused(capsys, lab / "fabric.ibnetdiscover", "-w", workload)
    assert ".csv or .parquet" in refused(capsys, LAB, "-w", workload, "--trace", tmp_path / "t.txt")
    assert "without plan.json" in refused(capsys, tmp_path, "-w", workload)
    assert "no subnet 'b'" in refused(capsys, LAB, "-w", workload, "--subnet", "b")
    for option, value in {"--latency-ns": "-1", "--hop-latency-ns": "1e300", "--host-gbps": "1e-300"}.items():
        assert option in refused(capsys, LAB, "-w", workload, option, value)
    twice = ("--trace", tmp_path / "same.csv", "--goal", tmp_path / "same.csv")
    assert "two files" in refused(capsys, LAB, "-w", workload, *twice)
    assert find_preset("workloads", "three-jobs", "--workload").parent == config_root() / "workloads"
    packed = tmp_path / "packed.csv.gz"
    packed.write_bytes(gzip.compress(f"{HEADER}0,gpu00,gpu01,{MIB}\n".encode()))
    assert simulate(capsys, LAB, "--flows", packed)["makespan_s"] == pytest.approx(MIB / RATE, rel=1e-12)


def test_a_person_sees_times_bandwidths_and_hot_links(lab: Path, capsys: Captured) -> None:
    assert run(["simulate", str(lab), "-w", "allreduce"]) == 0
    said = capsys.readouterr().out
    for text in ("allreduce by ring", "24.84", "14.72 ms", "p99", "gpu00 mlx5_0:1 -> leaf0:1", "between hosts 2.6"):
        assert text in said


@pytest.mark.slow
def test_the_commands_of_the_manual_run(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manual = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    lines = [line.split()[1:] for line in manual.splitlines() if line.startswith("    plan ")]
    commands = [line for line in lines if line[0] != "calibrate"]  # which reads the log of a real machine
    example = manual.partition("    start_s")[2].partition("\n\n")[0]
    written(tmp_path / "flows.csv", "start_s" + "\n".join(line.strip() for line in example.split("\n")) + "\n")
    (tmp_path / "configs").mkdir()
    for path in (repository / "configs").iterdir():
        (tmp_path / "configs" / path.name).symlink_to(path)
    half = tmp_path / "configs" / "fire-flyer-2.yaml"  # half of it, which the jobs of the manual still fit
    text = half.read_text(encoding="utf-8")
    for old, new in (("count: 1200", "count: 640"), ("count: 180", "count: 60"), ("leaves: 40", "leaves: 20")):
        assert old in text
        text = text.replace(old, new)
    half.unlink()
    written(half, re.sub(r"^budget:.*", "", text, flags=re.MULTILINE | re.DOTALL))
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    assert len(commands) >= 5
    for command in commands:
        assert run(command) == 0, " ".join(command)
    finished = list(csv.DictReader((tmp_path / "out" / "finished.csv").read_text().splitlines()))
    assert all(float(row["finish_s"]) > float(row["start_s"]) for row in finished)


def test_the_manual_names_every_preset(repository: Path) -> None:
    manual = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    named = {
        line.split("`")[1] for line in manual.splitlines() if line.startswith("| `") and "." not in line.split("`")[1]
    }
    named -= {"--trace FILE", "--goal FILE"}
    assert named == {path.stem for path in (config_root() / "workloads").glob("*.yaml")}


@pytest.mark.slow
def test_the_manual_says_how_many_servers_each_preset_takes(repository: Path) -> None:
    manual = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    fabric = topo.preset("fire-flyer-2").fabric
    host = fabric.host[fabric.end_node]
    for path in sorted((config_root() / "workloads").glob("*.yaml")):
        (said,) = re.findall(rf"^\| `{path.stem}` \| (all|its own|[\d,]+) \|", manual, re.MULTILINE)
        if said != "its own" and "ranks" in path.read_text():
            jobs = read_workload(path, fabric).jobs
            assert len(np.unique(np.concatenate([host[job.ends] for job in jobs]))) == int(said.replace(",", "")), path
        else:
            assert said == ("its own" if "file:" in path.read_text() else "all"), path


def test_names_in_a_dump_are_only_text(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    """A switch may be called what rich takes for markup, or steers a terminal."""
    dump = tmp_path / "fabric.txt"
    dump.write_text((lab / "fabric.ibnetdiscover").read_text().replace("MF0;leaf", "MF0;[/x]\x1b[31mleaf"))
    capsys.readouterr()
    assert run(["simulate", str(dump), "--tables", str(lab / "opensm" / "lfts"), "--workload", "allreduce"]) == 0
    shown = capsys.readouterr().out
    assert "[/x] [31mleaf0:1" in shown
    assert "\x1b" not in shown


@pytest.mark.slow
def test_a_folder_plays_with_the_catalog_of_its_spec(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    """It holds the spec's own tables; without them, own prices are nothing to it, and other servers are refused."""
    job = written(tmp_path / "w.yaml", "jobs: [{name: a, kind: gpu-collective, algorithm: ring, size: 800 MB}]")
    once = simulate(capsys, lab, "-w", job)["jobs"][0]["bus_gbytes_per_s"]
    assert once == simulate(capsys, LAB, "-w", job)["jobs"][0]["bus_gbytes_per_s"]
    own, head = tmp_path / "own", "source,date,confidence\npcie-a100,"
    own.mkdir()
    written(own / "prices.csv", f"model,currency,low,high,{head}USD,9,9,mine,2026-11-22,own\n")
    for column, value in (("power_max_w", 4_000), ("gpu_adapter_gbyte_per_s", 4)):
        written(own / "nodes.csv", f"model,{column},{head}{value},mine,2026-11-22,own\n")
        spec = written(tmp_path / "s.yaml", f"catalog: own\n{LAB.read_text(encoding='utf-8')}")
        assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == 0
        capsys.readouterr()
        if column == "power_max_w":
            shutil.rmtree(tmp_path / "out" / "catalog")
            assert simulate(capsys, tmp_path / "out", "-w", job)["jobs"][0]["bus_gbytes_per_s"] == once
    slow = simulate(capsys, spec, "-w", job)["jobs"]
    assert slow[0]["bus_gbytes_per_s"] < 0.5 * once
    assert simulate(capsys, tmp_path / "out", "-w", job)["jobs"] == slow
    shutil.rmtree(tmp_path / "out" / "catalog")
    assert "built with other figures of the server pcie-a100" in refused(capsys, tmp_path / "out", "-w", job)
    for hostile in ("[]", '{"inputs": {"servers_sha256": [["x"]]}}', '{"inputs": {"servers_sha256": "x"}}'):
        written(tmp_path / "out" / "plan.json", hostile)
        assert "plan.json: found no servers_sha256" in refused(capsys, tmp_path / "out", "-w", job)
    written(tmp_path / "out" / "plan.json", '{"inputs": {"servers_sha256": {"pcie-a100": ["unhashable"]}}}')
    assert "other figures of the server pcie-a100" in refused(capsys, tmp_path / "out", "-w", job)


def test_a_number_where_names_belong_is_told_which_key_counts(tmp_path: Path, capsys: Captured) -> None:
    job = "jobs: [{name: a, kind: collective, rank: adapter, collective: all-to-all, size: 1 MiB, nodes: 36}]"
    said = refused(capsys, LAB, "-w", written(tmp_path / "w.yaml", job))
    assert "found the number 36; expected names, one a rank; how many is `ranks`" in said


def test_a_dump_does_not_know_its_servers(lab: Path, tmp_path: Path, capsys: Captured) -> None:
    job = "{name: a, kind: gpu-collective, algorithm: ring, size: 8 MiB"
    dump = lab / "fabric.ibnetdiscover"
    tables = ("--tables", lab / "opensm" / "lfts")
    said = refused(capsys, dump, *tables, "-w", written(tmp_path / "w.yaml", f"jobs: [{job}}}]"))
    assert "The model of the servers is unknown" in said
    named = written(tmp_path / "n.yaml", f"jobs: [{job}, server: pcie-a100, ranks: 16}}]")
    found = simulate(capsys, dump, *tables, "-w", named)["jobs"][0]
    assert found["ranks"] == 128


def test_packets_say_what_they_met(tmp_path: Path, capsys: Captured) -> None:
    flows = written(tmp_path / "f.csv", f"start_s,src,dst,bytes\n0,gpu00,gpu15,{MIB}\n0,gpu01,gpu15,{MIB}\n")
    options = (LAB, "--flows", flows, "--engine", "packets", "--inputs", "fifo", "--buffer-bytes", "65536")
    found = simulate(capsys, *options, "--hop-latency-ns", "150")
    assert found["makespan_s"] == pytest.approx(2 * MIB / RATE, rel=0.01)
    label = "packets of 4096 bytes, inputs fifo, 65536 bytes of buffer a port and lane, windows that fill a path"
    assert found["packets"]["model"] == label
    assert "--engine packets" in refused(capsys, LAB, "--flows", flows, "--inputs", "fifo")


@pytest.mark.slow
def test_a_deadlock_is_status_1_and_drawn(tmp_path: Path, capsys: Captured) -> None:
    out = tmp_path / "ring"
    text = (config_root() / "dragonfly.yaml").read_text().replace("engine: shortest", "engine: minhop")
    spec = written(tmp_path / "dragonfly.yaml", text)
    rng = np.random.default_rng(0)
    rows = [f"0,gpu{a:02},gpu{b:02},{MIB // 4}" for _ in range(6) for a, b in enumerate(rng.permutation(72)) if a != b]
    written(tmp_path / "f.csv", "\n".join(["start_s,src,dst,bytes", *rows]))
    workload = written(tmp_path / "w.yaml", "jobs: [{name: a, kind: flows, file: f.csv}]")
    options = (spec, "-w", workload, "--engine", "packets", "--hop-latency-ns", "150", "-o", out)
    options += ("--buffer-bytes", "8192")
    assert run(["simulate", *map(str, options)]) == 1
    assert "full buffers wait for each other" in capsys.readouterr().err
    assert "<svg" in (out / "deadlock.svg").read_text()


@pytest.mark.parametrize("seed", slow_but(range(6), 0, 1))
def test_caveats_are_the_same_with_and_without_json(seed: int, tmp_path: Path, capsys: Captured) -> None:
    rng = np.random.default_rng(seed)
    one = {"name": "a", "size": "1 MB", "ranks": int(rng.integers(2, 5))}
    written(tmp_path / "f.csv", f"start_s,src,dst,bytes\n0,0,{rng.integers(1, 128)},1e6\n")
    jobs = [
        one | {"kind": "collective", "rank": "adapter", "collective": "allreduce"},
        one | {"kind": "gpu-collective", "algorithm": "tree", "name": "b"},
        one | {"kind": "gpu-collective", "name": "c"},
        {"name": "d", "kind": "flows", "rank": "gpu", "file": "f.csv"},
    ]
    workload = written(tmp_path / "w.yaml", json.dumps({"jobs": [jobs[seed % 4]]}))
    options = [str(LAB), "-w", str(workload), "--engine", str(rng.choice(["fluid", "packets"]))]
    options += [str(word) for word in rng.choice([("--latency-ns", "0"), ("--latency-ns", "900"), ("--seed", "1")])]
    options += [str(word) for word in rng.choice([("--hop-latency-ns", "150"), ("--seed", "2")])]
    shown = {}
    for more in ((), ("--json",)):
        capsys.readouterr()
        assert run(["simulate", *options, *more]) == 0
        shown[more] = capsys.readouterr().out
    caveats = json.loads(shown["--json",])["caveats"]
    assert caveats
    assert all("".join(caveat.split()) in "".join(shown[()].split()) for caveat in caveats)


def test_adaptive_routing_stands_beside_static_tables_whole_and_with_a_link_down(capsys: Captured) -> None:
    words = ["--workload", "all-to-all", "--adaptive", "--draws", "2"]
    assert run(["simulate", str(LAB), *words, "--down", "leaf0:21"]) == 0
    told = capsys.readouterr().out
    assert "static tables beside adaptive routing (groups of 2 roots)" in told
    assert "1 cable down: static, before repair" in told and "no such choice of ports is faster than" in told
    found = simulate(capsys, LAB, *words)
    assert [row["paths"] for row in found["adaptive"]["rows"]][:2] == ["static", "adaptive, split evenly"]
    assert found["adaptive"]["rows"][0]["time_s"] == pytest.approx(found["makespan_s"])
    assert "expected fluid flows on tables" in refused(capsys, LAB, *words, "--ecmp", "4")


@pytest.mark.parametrize("kind", ["spec", "folder", "dump"])
def test_tables_beside_what_is_down_are_refused_with_the_commands_that_answer(
    kind: str, lab: Path, tmp_path: Path, capsys: Captured
) -> None:
    """Hashes took the place of the proven tables without a word: the next hops of a leaf and of an answer differed."""
    dump, tables = lab / "fabric.ibnetdiscover", ("--tables", lab / "opensm" / "lfts")
    words = {"spec": (LAB,), "folder": (lab,), "dump": (dump, *tables)}[kind]
    said = " ".join(refused(capsys, *words, "-w", "allreduce", "--down", "spine0", "--down", "leaf0:22").split())
    repair = re.search(r"`plan (repair [^`]+) -o REPAIRED`", said)
    assert repair is not None and repair[1].endswith("--down spine0 --down leaf0:22")
    assert run([*shlex.split(repair[1]), "-o", str(tmp_path / "repaired")]) == 0
    found = simulate(capsys, tmp_path / "repaired", "-w", "allreduce")
    assert not found["fabric"]["engine"].startswith("ECMP")
    hashed = simulate(capsys, *words[:1], "-w", "allreduce", "--down", "spine0", "--ecmp", "1", "--draws", "1")
    assert hashed["fabric"]["engine"].startswith("ECMP")


@pytest.mark.slow
def test_the_page_on_adaptive_routing_prints_what_it_prints(capsys: Captured, repository: Path) -> None:
    page = (repository / "docs" / "adaptive.md").read_text(encoding="utf-8")
    words = ["-w", "all-to-all", "--adaptive", "--down", "leaf-00:5"]
    assert run(["simulate", str(config_root() / "k-ary-tree.yaml"), *words]) == 0
    rows = [
        line for line in capsys.readouterr().out.splitlines() if re.match("│ all-to-all │ (static|adap|no|1)", line)
    ]
    assert len(rows) == 8 and all(row in page for row in rows)
