"""Sweeps: every point once, the same bytes wherever it was computed, whatever is lost on the way."""

import csv
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import costmodel
import plan.sweeps.run as sweep_run
import topo
from plan.cli import run
from plan.sweeps import point
from plan.sweeps.point import Task, compute
from plan.sweeps.result import files_of_workload, tasks_of
from plan.sweeps.result import sweep as sweep_points
from plan.sweeps.run import POINTS, point_file, read_point, run_sweep
from plan.sweeps.spec import read_sweep
from plan.sweeps.summary import side_by_side
from topo import format_ibnetdiscover, preset
from topo.catalog.load import config_root
from topo.errors import ToolError

LAB = (config_root() / "lab-20.yaml").read_text()
Captured = pytest.CaptureFixture[str]


def sweep(folder: Path, parameters: str, stages: str = "[design]", more: str = "") -> Path:
    (folder / "lab.yaml").write_text(LAB)
    file = folder / "sweep.yaml"
    file.write_text(f"base: lab.yaml\nstages: {stages}\nparameters:\n{parameters}{more}")
    return file


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (out / POINTS).rglob("*") if path.is_file()}


GRID = "  nodes.gpu.count: [4, 8, 12, 400]\n  network.leaves: [2, 3]\n"


@pytest.mark.slow
def test_each_point_is_a_row_and_what_fails_says_why(tmp_path: Path, capsys: Captured) -> None:
    file, out = sweep(tmp_path, GRID, more="better: {counts.switches: low, counts.gpus: high}\n"), tmp_path / "out"
    assert run(["sweep", str(file), "-o", str(out), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["points"], found["computed"], found["missing"]) == (8, 8, 0)
    rows = [json.loads(text) for text in contents(out).values()]
    assert found["failed"] == sum("error" in row for row in rows) == 2
    assert {row["point"]["nodes.gpu.count"] for row in rows if "error" in row} == {400}
    for row in rows:
        if "figures" in row:
            assert row["figures"]["counts.gpus"] == 8 * row["point"]["nodes.gpu.count"]
            assert row["figures"]["counts.leaf"] == row["point"]["network.leaves"]
    assert [row["point"] for row in found["front"]] == [{"nodes.gpu.count": 12, "network.leaves": 2}]
    assert {path.name for path in out.iterdir()} >= {"points.csv", "pareto.csv", "pareto.svg", "sensitivities.svg"}
    assert len((out / "points.csv").read_text().splitlines()) == 9


def test_a_figure_that_no_point_knows_ranks_nothing_and_loses_nothing(tmp_path: Path, capsys: Captured) -> None:
    file, out = sweep(tmp_path, GRID, more="better: {cost.total.most: low, counts.gpus: high}\n"), tmp_path / "out"
    assert run(["sweep", str(file), "-o", str(out)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "no point has a known value of each of cost.total.most, counts.gpus" in said
    assert said.count("1 point failed: ") == 2
    points = list(csv.DictReader((out / "points.csv").read_text().splitlines()))
    assert len(points) == 8
    assert (out / "pareto.csv").read_text() == (out / "points.csv").read_text().splitlines()[0] + "\n"
    for row in points:
        if not row["error"]:
            spec = preset("lab-20").spec.model_dump(exclude_unset=True, mode="json")
            spec["nodes"]["gpu"]["count"] = int(row["nodes.gpu.count"])
            spec["network"]["leaves"] = int(row["network.leaves"])
            network = costmodel.bill(topo.parse(spec)).price("USD").network
            assert network.missing and not row["cost.network.most"]
            assert float(row["cost.network.least"]) == network.known.low
    file.write_text(file.read_text().replace("cost.total.most", "cost.total"))
    assert run(["sweep", str(file), "-o", str(out)]) == 2
    assert "found 'cost.total'; expected a figure of the points" in capsys.readouterr().err


TWO = "name: two\nnodes: {gpu: {model: pcie-a100, count: 8}}\nnetwork: {shape: fat-tree, switch: QM8700, leaves: 2}\n"


@pytest.mark.parametrize(
    ("named", "unit", "least"),
    [("", "USD", [4 * 14_000, None]), ("currency: EUR\n", "EUR", [4 * 18_181.82, 4 * 13_636.36])],
)
def test_costs_of_all_points_are_in_one_currency(
    named: str, unit: str, least: list[float | None], tmp_path: Path, capsys: Captured
) -> None:
    """QM8790 has a price in euros only: in dollars, the currency of the first point, it is unknown, not cheaper."""
    (tmp_path / "two.yaml").write_text(TWO + named)
    text = "base: two.yaml\nstages: [design]\nparameters: {network.switch: [QM8700, QM8790]}\n"
    (tmp_path / "s.yaml").write_text(text + "better: {cost.network.least: low}\n")
    points = sweep_points(tmp_path / "s.yaml", tmp_path / "out")
    figures = [document["figures"] for document in points.documents]
    assert [figure["cost.network.least"] for figure in figures] == pytest.approx(least)
    assert {figure["cost.unit"] for figure in figures} == {unit}
    (front,) = points.front
    assert front["point"]["network.switch"] == ("QM8790" if named else "QM8700")
    assert run(["sweep", str(tmp_path / "s.yaml"), "-o", str(tmp_path / "out")]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f" {unit} " in shown
    assert ("not compared: 1 point of which one of these is unknown" in shown) == (None in least)
    assert {row["cost.unit"] for row in csv.DictReader((tmp_path / "out/points.csv").read_text().splitlines())} == {
        unit
    }


def test_a_point_that_names_another_currency_than_the_first_fails(tmp_path: Path) -> None:
    (tmp_path / "two.yaml").write_text(TWO)
    (tmp_path / "s.yaml").write_text("base: two.yaml\nstages: [design]\nparameters: {currency: [EUR, USD]}\n")
    points = sweep_points(tmp_path / "s.yaml", tmp_path / "out")
    assert points.errors == (
        "found the currency USD; expected EUR, that of the first point: a sweep compares costs in one currency",
    )


def test_a_cost_is_between_its_least_and_its_most(tmp_path: Path) -> None:
    """A QM8700 costs 14,000 to 18,700 dollars; with quotes for cables and servers nothing is missing."""
    (tmp_path / "two.yaml").write_text(TWO + "catalog: prices.csv\n")
    rows = ["model,currency,low,high,source,date,confidence"]
    rows += [
        f"{name},USD,{low},{high},a quote,2026,own" for name, low, high in (("4xHDR", 10, 20), ("pcie-a100", 7, 9))
    ]
    (tmp_path / "prices.csv").write_text("\n".join(rows))
    (tmp_path / "s.yaml").write_text("base: two.yaml\nstages: [design]\nparameters: {nodes.gpu.count: [8]}\n")
    ((figures),) = [document["figures"] for document in sweep_points(tmp_path / "s.yaml", tmp_path / "out").documents]
    assert (figures["cost.network.least"], figures["cost.network.most"]) == (4 * 14_000 + 160, 4 * 18_700 + 320)
    for end in ("least", "most"):
        parts = [figures[f"cost.{name}.{end}"] for name in ("network", "servers", "racks")]
        assert figures[f"cost.total.{end}"] == sum(parts)


@pytest.mark.slow
def test_no_point_is_computed_twice(tmp_path: Path, capsys: Captured) -> None:
    file, out = sweep(tmp_path, GRID), tmp_path / "out"
    assert run(["sweep", str(file), "-o", str(out), "--json"]) == 0
    before = contents(out)
    name = next(iter(before))
    (out / POINTS / name[:2] / name).unlink()
    broken = next(path for path in (out / POINTS).rglob("*.json"))
    broken.write_text("{")
    capsys.readouterr()
    assert run(["sweep", str(file), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 2
    assert contents(out) == before
    assert run(["sweep", str(file), "-o", str(out), "--json", "--again"]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 2  # the two that fail
    wider = sweep(tmp_path, GRID.replace("[2, 3]", "[2, 3, 4]"))
    assert run(["sweep", str(wider), "-o", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["computed"] == 4


def test_a_sweep_that_is_stopped_goes_on(tmp_path: Path) -> None:
    tasks = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    count = 0

    def step(message: str, done: float) -> None:
        nonlocal count
        count = round(done * len(tasks))

    ran = run_sweep(tmp_path / "a", tasks, step=step, stop=lambda: count >= 3)
    assert (ran.computed, ran.whole) == (3, False)
    assert run_sweep(tmp_path / "a", tasks).computed == 5
    run_sweep(tmp_path / "b", tasks)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_inputs_and_code_name_a_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = tasks_of(*read_sweep(sweep(tmp_path, "  nodes.gpu.count: [4]\n")))
    (tmp_path / "lab.yaml").write_text(LAB.replace("count: 2}", "count: 1}"))
    (other,) = tasks_of(*read_sweep(tmp_path / "sweep.yaml"))
    sweep(tmp_path, "  nodes.gpu.count: [4]\n")
    monkeypatch.setattr("plan.sweeps.point._sources", lambda package: package.encode())
    (code,) = tasks_of(*read_sweep(tmp_path / "sweep.yaml"))
    assert len({first.name, other.name, code.name}) == 3


def test_a_worker_with_other_code_is_refused(tmp_path: Path) -> None:
    tasks = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    with pytest.raises(ToolError, match="different versions"):
        run_sweep(tmp_path / "out", [replace(task, code="other") for task in tasks])
    assert not contents(tmp_path / "out")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("base: lab.yaml\nparameters: {}\n", "sweep.yaml:2"),
        ("base: lab.yaml\nparameters: {netwok.leaves: [2]}\n", "Did you mean"),
        ("base: lab.yaml\nparameters: {nodes.gpus.count: [2]}\n", "nodes.gpus.count"),
        ("base: lab.yaml\nparameters: {network.leaves: {low: 2, high: 5}}\n", "a span without steps"),
        ("base: lab.yaml\nparameters:\n  network.leaves: {low: 2, high: 5, steps: 10000}\n"
         "  seed: {low: 0, high: 1, steps: 101}",
         "more than 1,000,000 points"),
        ("base: nowhere.yaml\nparameters: {seed: [1]}\n", "nowhere.yaml"),
        ("base: dump.ibnetdiscover\nparameters: {network.leaves: [1]}\n", "of a dump"),
        ("base: lab.yaml\nstages: [fly]\nparameters: {seed: [1]}\n", "sweep.yaml:2"),
        ("base: lab.yaml\nparameters: {failed.swich: [1]}\n", "Did you mean"),
        ("base: lab.yaml\nparameters: {seed: each}\n", "`each` is of failed.KIND"),
        ("base: lab.yaml\nparameters: {tables: [new]}\n", "anew, kept and repaired"),
        ("base: lab.yaml\nparameters: {failed.rack: each}\n", "expected a spec with a floor plan"),
        ("base: lab.yaml\nstages: [year]\nparameters: {seed: [1]}\n", "`failures` with `parts`"),
        ("base: lab.yaml\nstages: [year]\nparameters: {seed: [1]}\nfailures: {parts: {bundle: {down: 1 h}}}\n",
         "no rate is published"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "lab.yaml").write_text(LAB)
    (tmp_path / "sweep.yaml").write_text(text)
    assert run(["sweep", str(tmp_path / "sweep.yaml"), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_point_that_cannot_be_kept_ends_the_sweep_at_once(tmp_path: Path, capsys: Captured) -> None:
    """It is no lost cluster, whose points would be computed again and again."""
    out = tmp_path / "out"
    assert run(["sweep", str(sweep(tmp_path, GRID)), "-o", str(out)]) == 0
    shutil.rmtree(out / POINTS)
    (out / POINTS).touch()
    assert run(["sweep", str(tmp_path / "sweep.yaml"), "-o", str(out)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_a_folder_of_others_stays(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    for place in ("out", "nowhere"):
        assert run(["sweep", str(sweep(tmp_path, GRID)), "-o", str(tmp_path / place)]) == 2
        assert "not a sweep" in capsys.readouterr().err


@pytest.mark.slow
def test_failures_grow_with_their_number_and_a_seed_repeats(tmp_path: Path) -> None:
    parameters = "  failed.link: [0, 4, 12]\n  tables: [anew, kept]\n  seed: [0, 1]\n"
    tasks = tasks_of(*read_sweep(sweep(tmp_path, parameters, "[route]")))
    run_sweep(tmp_path / "a", tasks)
    by_point = {}
    for task in tasks:
        document = read_point(tmp_path / "a", task.name)
        assert document is not None
        by_point[tuple(task.point.values())] = document["figures"]
    for seed in (0, 1):
        missing = [by_point[links, "kept", seed]["proof.missing"] for links in (0, 4, 12)]
        assert missing == sorted(missing)
        assert missing[0] == 0 < missing[2]
        loads = [by_point[links, "anew", seed]["quality.max_load"] for links in (0, 4, 12)]
        assert all(load >= loads[0] for load in loads)
        assert all(by_point[links, "anew", seed]["proof.missing"] == 0 for links in (0, 4, 12))


@pytest.mark.slow
@pytest.mark.nightly
def test_parts_of_a_dump_fail_each_and_over_years(tmp_path: Path, capsys: Captured) -> None:
    """Each switch is a row with what is left; seeds that are years have means with intervals; wrong names say so."""
    (tmp_path / "dump.ibnetdiscover").write_text(format_ibnetdiscover(preset("lab-20").fabric))
    file, rules = tmp_path / "sweep.yaml", "{link: {down: 4 h}, switch: {down: 1 d, a_year: 2}}"
    dump = "base: dump.ibnetdiscover\n"
    file.write_text(dump + "stages: [route]\nparameters: {failed.switch: each, tables: [repaired]}\n")
    assert run(["sweep", str(file), "-o", str(tmp_path / "each"), "--json"]) == 0
    capsys.readouterr()
    figures = {
        row["point"]["failed.switch"]: row["figures"] for row in map(json.loads, contents(tmp_path / "each").values())
    }
    assert set(figures) == {0, "leaf0", "leaf1", "spine0", "spine1"}
    for name, row in figures.items():
        assert (row["left.connected"] < 1) == str(name).startswith("leaf")
        assert row["left.missing"] == 0
        assert row["left.fullest"] == (22 if str(name).startswith("spine") else 11 if name == 0 else 0)
    years = "stages: [year]\nparameters: {seed: [0, 1, 2], tables: [repaired]}\n"
    file.write_text(f"{dump}{years}failures: {{parts: {rules}, states: 1}}\n")
    assert run(["sweep", str(file), "-o", str(tmp_path / "years")]) == 0
    assert "year.connected" in capsys.readouterr().out
    assert "switches down" in (tmp_path / "years" / "failures.svg").read_text()
    intervals = (tmp_path / "years" / "intervals.csv").read_text()
    means = {row["figure"]: row for row in csv.DictReader(intervals.splitlines())}
    low, mean, high = (float(means["year.failures.switch"][name]) for name in ("low", "mean", "high"))
    assert low < mean < high
    assert all(float(means[f"year.{share}"]["high"] or 0) <= 1 for share in ("connected", "fewest", "whole"))
    file.write_text(dump + "stages: [route]\nparameters: {failed.switch: [leaf7]}\n")
    assert run(["sweep", str(file), "-o", str(tmp_path / "no"), "--json"]) == 1  # all fail: a script shall stop
    assert json.loads(capsys.readouterr().out)["failed"] == 1


@pytest.mark.slow
def test_several_processes_write_the_same_bytes(tmp_path: Path) -> None:
    tasks = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    run_sweep(tmp_path / "one", tasks)
    run_sweep(tmp_path / "two", tasks, jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def start(*words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "distributed.cli." + words[0], *words[1:]]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(port: int, workers: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A Dask scheduler and workers, each a process; what the list holds in the end is stopped."""
    address = f"tcp://127.0.0.1:{port}"
    processes = [start("dask_scheduler", "--port", str(port), "--no-dashboard")]
    worker = ("dask_worker", address, "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "120")
    processes += [start(*worker) for _ in range(workers)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def on_a_cluster_that_is_lost(tmp_path: Path, count: int) -> None:
    pytest.importorskip("distributed")
    tasks = tasks_of(*read_sweep(sweep(tmp_path, f"  nodes.gpu.count: [4, 8]\n  seed: {list(range(count // 2))}\n")))
    run_sweep(tmp_path / "alone", tasks)
    port = free_port()
    with cluster(port, 2) as processes:
        killed: list[int] = []

        def step(message: str, done: float) -> None:
            if done >= 1 / 3 and not killed:
                os.kill(processes[1].pid, signal.SIGKILL)  # a worker
                killed.append(processes[1].pid)
            elif done >= 1 / 2 and len(killed) == 1:
                os.kill(processes[0].pid, signal.SIGKILL)  # the scheduler, which comes back with a new worker
                processes[0].wait()
                killed.append(processes[0].pid)
                processes.append(start("dask_scheduler", "--port", str(port), "--no-dashboard"))
                processes.append(start("dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny",
                                       "--no-dashboard"))  # fmt: skip

        ran = run_sweep(tmp_path / "cluster", tasks, scheduler=f"tcp://127.0.0.1:{port}", step=step)
    assert len(killed) == 2
    assert (ran.computed, ran.whole) == (len(tasks), True)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "alone")


@pytest.mark.slow
def test_a_lost_worker_and_a_lost_scheduler_cost_nothing(tmp_path: Path) -> None:
    on_a_cluster_that_is_lost(tmp_path, 40)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_thousand_points_on_a_cluster_that_is_lost(tmp_path: Path) -> None:
    on_a_cluster_that_is_lost(tmp_path, 1000)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(sweep_run, "PATIENCE", 1)
    monkeypatch.setattr(sweep_run, "CONNECT_S", 1)
    tasks = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    with pytest.raises(Exception, match="repeat the command to continue"):
        run_sweep(tmp_path / "out", tasks, scheduler=f"tcp://127.0.0.1:{free_port()}")
    assert not point_file(tmp_path / "out", tasks[0].name).exists()


def test_a_few_points_are_shown_side_by_side() -> None:
    documents = [
        {"point": {"a": 1, "b": "x"}, "figures": {"same": 3, "cost": 1234567.0}},
        {"point": {"a": 2, "b": "x"}, "figures": {"same": 3, "cost": None}},
    ]
    assert list(side_by_side(documents).texts()) == [("a", "1", "2"), ("cost", "1,234,567", "")]


# What is wrong with a sweep, and not with a point


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ("  nodes.gpu.count: [4, 6]\n  dfsssp: [balanced, dfsssp]\n", "dfsssp: found the unknown key `dfsssp`"),
        ("  network.leafs: [2, 3]\n  seed: [0, 1]\n", "network.leafs: found the unknown key `leafs`"),
        ("  routing: [{engine: balanced}, {engine: dfssp}]\n", "Did you mean `dfsssp`?"),
        ("  nodes.gpu.count: [4, four]\n", 'nodes.gpu.count: found the text "four"'),
        ("  network.leaves: {low: 2.5, high: 3.5, steps: 2}\n", "network.leaves: found"),
        ("  seed: [0, one]\n", "whole numbers from 0"),
        ("  seed: [-1]\n", "whole numbers from 0"),
    ],
)
def test_a_misspelt_parameter_is_refused_before_anything_is_written(
    tmp_path: Path, capsys: Captured, parameters: str, message: str
) -> None:
    assert run(["sweep", str(sweep(tmp_path, parameters)), "-o", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_value_that_another_parameter_allows_is_not_refused(tmp_path: Path, capsys: Captured) -> None:
    """`spines` is no key of a mesh: a point of each shape fails, and none of the values."""
    (tmp_path / "lab.yaml").write_text(LAB)
    file = tmp_path / "sweep.yaml"
    trees = [{"shape": "fat-tree", "switch": "QM8700", "leaves": leaves, "spines": 2} for leaves in (2, 3)]
    shapes = [trees[0], {"shape": "mesh", "switch": "QM8700", "size": [2, 2]}]
    file.write_text(json.dumps({"base": "lab.yaml", "stages": ["design"],
                                "parameters": {"network": shapes, "network.spines": [2]}}))  # fmt: skip
    run(["sweep", str(file), "-o", str(tmp_path / "out")])
    capsys.readouterr()
    file.write_text(json.dumps({"base": "lab.yaml", "stages": ["design"], "parameters": {"network": trees}}))
    assert run(["sweep", str(file), "-o", str(tmp_path / "all"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["failed"] == 0


@pytest.mark.parametrize(("counts", "status"), [("[400, 500]", 1), ("[4, 400]", 0), ("[4]", 0)])
def test_the_status_says_whether_all_points_failed(tmp_path: Path, capsys: Captured, counts: str, status: int) -> None:
    file = sweep(tmp_path, f"  nodes.gpu.count: {counts}\n")
    for _ in range(2):  # the second time they are found
        assert run(["sweep", str(file), "-o", str(tmp_path / "out")]) == status
    capsys.readouterr()


# Where points are computed


def with_files(folder: Path) -> Path:
    """A sweep that reads a catalog, a workload, and a schedule that the workload names."""
    folder.mkdir()
    (folder / "own").mkdir()
    switches = (config_root() / "catalog" / "switches.csv").read_text().splitlines()
    row = next(line for line in switches if line.startswith("QM8700,"))
    (folder / "own" / "switches.csv").write_text(f"{switches[0]}\n{row.replace('QM8700', 'MINE', 1)}\n")
    file = sweep(folder, "  nodes.gpu.count: [4, 8]\n  workload: [work/play.yaml]\n", "[design, route, play]")
    (folder / "lab.yaml").write_text(LAB.replace("QM8700", "MINE") + "\ncatalog: ../base/own\n")
    (folder / "work").mkdir()
    (folder / "work" / "play.yaml").write_text((config_root() / "workloads" / "allreduce.yaml").read_text())
    return file


@pytest.mark.slow
def test_all_files_of_a_point_travel(tmp_path: Path) -> None:
    """Elsewhere, where no file of the sweep is, a point has the same bytes."""
    tasks = tasks_of(*read_sweep(with_files(tmp_path / "base")))
    here = [compute(task) for task in tasks]
    assert all(b'"figures"' in document for _, _, document in here), here
    files = {path: Path(path).read_bytes() for path in tasks[0].files}
    assert sorted(Path(path).name for path in files) == ["play.yaml", "switches.csv"]
    (tmp_path / "base").rename(tmp_path / "gone")
    there = [compute(task, files) for task in tasks]
    assert [(name, document) for name, _, document in there] == [(name, document) for name, _, document in here]
    assert all(b'"error"' in compute(replace(task, point=task.point | {"seed": 1}))[2] for task in tasks)


def test_each_file_that_a_point_reads_names_it(tmp_path: Path) -> None:
    file = with_files(tmp_path / "base")
    names = {tasks_of(*read_sweep(file))[0].name}
    for path in tasks_of(*read_sweep(file))[0].files:
        content = Path(path).read_text()
        Path(path).write_text(content + ("#\n" if path.endswith(".yaml") else content.splitlines()[-1].replace(
            "MINE", "OTHER", 1) + "\n"))  # fmt: skip
        names.add(tasks_of(*read_sweep(file))[0].name)
    assert len(names) == 3


def test_a_workload_brings_its_traces(tmp_path: Path) -> None:
    for name in ("run.0.et", "run.1.et", "rung.0.et", "a.goal", "b.goal"):
        (tmp_path / name).write_text("")
    (tmp_path / "w.yaml").write_text("jobs:\n- {kind: chakra, file: run}\n- {kind: goal, file: a.goal}\n- {file: no}\n")
    assert sorted(path.name for path in files_of_workload(tmp_path / "w.yaml")) == ["a.goal", "run.0.et", "run.1.et"]


@pytest.mark.slow
def test_one_worker_with_one_thread_computes_and_is_checked(tmp_path: Path) -> None:
    """The points run on the worker, however few threads there are; its version is compared there."""
    distributed = pytest.importorskip("distributed")
    tasks = tasks_of(*read_sweep(with_files(tmp_path / "base")))
    run_sweep(tmp_path / "alone", tasks)
    port = free_port()
    with cluster(port, 1):
        address = f"tcp://127.0.0.1:{port}"
        with distributed.Client(address, set_as_default=False) as client:
            client.wait_for_workers(1)
            worker = set(client.run(os.getpid).values())
            client.run(_note_pids)
        assert run_sweep(tmp_path / "cluster", tasks, scheduler=address).whole
        with distributed.Client(address, set_as_default=False) as client:
            assert set(client.run(_noted).values()) == {len(tasks)}
        assert worker != {os.getpid()}
        with pytest.raises(ToolError, match="different versions"):
            run_sweep(tmp_path / "other", [replace(task, code="other") for task in tasks], scheduler=address)
    assert contents(tmp_path / "cluster") == contents(tmp_path / "alone")


def _note_pids() -> None:
    """Let this process count the points that it computes."""
    import plan.sweeps.point as point

    figures_of = point.figures_of
    point.computed = 0  # type: ignore[attr-defined]

    def counted(task):  # type: ignore[no-untyped-def]
        point.computed += 1  # type: ignore[attr-defined]
        return figures_of(task)

    point.figures_of = counted


def _noted() -> int:
    import plan.sweeps.point as point

    return int(point.computed)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("scheduler", "place"), [(None, "here"), ("tcp://10.0.0.1:8786", "cluster")])
def test_points_go_to_a_cluster_only_where_one_is_named(
    scheduler: str | None, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, object]] = []

    def answers(of: str) -> Callable[..., Iterator[tuple[str, float, bytes]]]:
        def results(todo: list[Task], where: object) -> Iterator[tuple[str, float, bytes]]:
            asked.append((of, where))
            yield from ((task.name, 0.0, b"{}") for task in todo)

        return results

    monkeypatch.setattr(sweep_run, "_computed_here", answers("here"))
    monkeypatch.setattr(sweep_run, "_on_cluster", answers("cluster"))
    tasks = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    found = run_sweep(tmp_path / "out", tasks, jobs=2, scheduler=scheduler)
    assert (asked, found.computed) == ([(place, 2 if scheduler is None else scheduler)], len(tasks))


def test_a_point_has_the_same_bytes_whatever_the_order_of_its_parameters(tmp_path: Path) -> None:
    task, *_ = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    turned = replace(task, point=dict(reversed(task.point.items())))
    assert list(turned.point) != list(task.point)
    assert compute(turned)[::2] == compute(task)[::2]


def test_a_point_has_each_figure_of_its_year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, *_ = tasks_of(*read_sweep(sweep(tmp_path, GRID)))
    ground = SimpleNamespace(degradation="all", parts=lambda kind: [kind])
    seen = []

    def played(degradation: object, parts: object, rules: object, seed: int) -> dict[str, float | None]:
        seen.append((degradation, seed))
        return {"connected": 0.5, "fewest": None}

    monkeypatch.setattr(point, "_ground", lambda task: ground)
    monkeypatch.setattr("simulate.cluster.play_year", played)
    found = point.figures_of(replace(task, stages=("year",), point={"seed": 7}, failures='{"parts": {}}'))
    assert (found, seen) == ({"year.connected": 0.5, "year.fewest": None}, [("all", 7)])
