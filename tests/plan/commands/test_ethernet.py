"""Ethernet through the commands: planes, queue pairs, spraying, what is down, and what is refused."""

import json
import re
from pathlib import Path

import pytest

import plan
import routing
import topo
from plan.cli import run
from plan.pipeline import COMPILE, measure_hashes
from topo.catalog.load import config_root

Captured = pytest.CaptureFixture[str]
LAB = config_root() / "lab-20.yaml"

SPEC = {  # six leaves do not divide the adapters of a server, so rings cross spines
    "name": "small", "nodes": {"gpu": {"model": "hgx-h800", "count": 48}},
    "network": {"shape": "planes", "planes": 4,
                "tree": {"switch": "SN5600", "split": True, "levels": 2, "leaves": 6, "spines": 4}},
}  # fmt: skip
RING = {"jobs": [{"name": "ring", "kind": "gpu-collective", "collective": "allreduce", "algorithm": "ring",
                  "ranks": 48, "mapping": "random", "size": "1 GiB"}]}  # fmt: skip


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ethernet")
    (folder / "small.yaml").write_text(json.dumps(SPEC))
    (folder / "ring.yaml").write_text(json.dumps(RING))
    return folder


def played(capsys: Captured, folder: Path, *arguments: str, workload: str = "ring.yaml") -> dict:
    capsys.readouterr()
    where = [str(folder / "small.yaml"), "-w", str(folder / workload), "--latency-ns", "0"]
    assert run(["simulate", *where, *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_without_one_of_four_planes_an_all_to_all_takes_more_by_what_its_adapters_carry(
    small: Path, capsys: Captured
) -> None:
    """With spraying nothing collides. Two of eight adapters are down: others carry 8/6 in the mean, and at most 2."""
    jobs = [{"name": "a2a", "kind": "gpu-collective", "collective": "all-to-all", "ranks": 16, "size": "64 MiB"}]
    (small / "a2a.yaml").write_text(json.dumps({"jobs": jobs}))
    whole = played(capsys, small, "--ecmp", "spray", workload="a2a.yaml")
    assert list(whole["draws"]["makespan_s"]) == ["0"]
    less = played(capsys, small, "--ecmp", "spray", "--down", "small-plane3", workload="a2a.yaml")
    assert [job["jobs"][0]["failed_rails"] for job in (whole, less)] == [0, 2]
    assert 8 / 6 <= less["jobs"][0]["time_s"] / whole["jobs"][0]["time_s"] <= 2.001


@pytest.mark.slow
def test_more_queue_pairs_are_faster_and_the_same_seed_gives_the_same(small: Path, capsys: Captured) -> None:
    few, many = (played(capsys, small, "--ecmp", k, "--draws", "5") for k in ("1", "16"))
    assert few["makespan_s"] > many["makespan_s"]
    assert few["draws"]["figures"]["all"]["makespan_s"]["median"] == few["makespan_s"]
    assert few["fabric"]["engine"] == "ECMP, 1 queue pair a connection"
    assert few["inputs"]["paths"] == {"name": "small", "engine": "ECMP, 1 queue pair a connection", "queue_pairs": 1,
                                      "seed": 0, "one_hash": False, "bond": 1}  # fmt: skip
    assert few == played(capsys, small, "--draws", "5")
    other = played(capsys, small, "--draws", "5", "--seed", "9")
    assert list(other["draws"]["makespan_s"]) == ["9", "10", "11", "12", "13"]


def test_a_person_is_told_that_figures_are_over_seeds(small: Path, capsys: Captured) -> None:
    capsys.readouterr()
    assert run(["simulate", str(small / "small.yaml"), "-w", str(small / "ring.yaml"), "--draws", "3"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert re.search("over 3 seeds of the hash; other tables are of seed [012], which has the median makespan", shown)


def test_infiniband_plays_hashed_paths_where_they_are_asked_for(capsys: Captured) -> None:
    capsys.readouterr()
    assert run(["simulate", str(LAB), "-w", "all-to-all", "--ecmp", "2", "--draws", "4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["fabric"]["engine"].startswith("ECMP, 2")


@pytest.mark.parametrize(("arguments", "said"), [
    (["--ecmp", "many"], "expected a number of queue pairs, or spray"),
    (["--ecmp", "129"], "expected a whole number from 0 to 128"),
    (["--down", "plane9"], "plane9"),
    (["--tables", "lfts"], "expected none where switches hash"),
    (["--subnet", "small-plane7"], "expected --subnet with one of small-plane0"),
])  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_message(
    small: Path, capsys: Captured, arguments: list[str], said: str
) -> None:
    assert run(["simulate", str(small / "small.yaml"), "-w", str(small / "ring.yaml"), *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_draws_of_tables_are_refused(capsys: Captured) -> None:
    assert run(["simulate", str(LAB), "-w", "allreduce", "--draws", "3"]) == 2
    assert "found draws of a hash" in capsys.readouterr().err


def test_a_queue_of_jobs_runs_on_ethernet(small: Path, tmp_path: Path) -> None:
    queue = tmp_path / "queue.yaml"
    job = {"name": "one", "nodes": 8, "steps": 100, "forward": "0.1 s", "backward": "0.2 s", "gradients": "5 GB"}
    queue.write_text(json.dumps({"failures_a_node_day": 0, "jobs": [job]}))
    state = tmp_path / "state"
    runs = [
        plan.operate(small / "small.yaml", str(queue), hours=0.001, hashing=plan.Hashing(ecmp=k), seed=3, state=to)
        for k, to in ((4, state), (4, None))
    ]
    assert runs[0].run.now_s == runs[1].run.now_s == 3.6
    with pytest.raises(plan.inputs.HeddleError, match="other tables"):
        plan.operate(small / "small.yaml", str(queue), hours=0.002, hashing=plan.Hashing(ecmp=5), seed=3, state=state)


@pytest.mark.slow
def test_a_sweep_plays_queue_pairs_and_failures_of_ethernet(small: Path, tmp_path: Path) -> None:
    sweep = {"base": str(small / "small.yaml"), "stages": ["play"],
             "parameters": {"ecmp": [1, "spray"], "workload": [str(small / "ring.yaml")],
                            "failed.switch": [0, 1]}}  # fmt: skip
    (tmp_path / "sweep.yaml").write_text(json.dumps(sweep))
    points = plan.sweep(tmp_path / "sweep.yaml", output=tmp_path / "out")
    times = {(p["point"]["ecmp"], p["point"]["failed.switch"]): p["figures"] for p in points.documents}
    assert times[1, 0]["makespan_s.p5"] <= times[1, 0]["makespan_s"] <= times[1, 0]["makespan_s.p95"]
    assert times["spray", 0]["makespan_s"] < times[1, 0]["makespan_s.p5"]
    assert times["spray", 0]["makespan_s.p5"] == times["spray", 0]["makespan_s.p95"]


def test_a_plan_says_what_its_hashes_give_and_copies_of_a_plane_the_same() -> None:
    cluster = topo.parse(SPEC)
    built = plan.pipeline.run_passes(plan.Plan("small", cluster), (*COMPILE, measure_hashes))
    own = routing.studies.measure_hashed(routing.Hashed(cluster.fabrics[0])).to_dict()
    assert [shares.to_dict() for shares in built.hashes] == [own] * 4
    assert own["random permutations"]["least"] <= own["random permutations"]["mean"] <= 1
    lab = plan.pipeline.run_passes(plan.Plan("lab", topo.preset("lab-20")), (*COMPILE, measure_hashes))
    assert lab.hashes == ()
