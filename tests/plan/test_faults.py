"""Faults of a design on the command line: all at once, each at its line and column."""

import json
from itertools import product

import pytest

import topo
from plan.cli import run
from topo.errors import DesignError

BAD = """\
name: bad
nodes:
  gpu: {model: dgx-a100, count: 300}
  s: {model: storage-3fs, count: 20}
network:
  shape: rail
  unit_nodes: 100
  tree:
    switch: QM8700
  storage:
    switch: QM8700
    spines: 3
floor:
  rack_units: 4
"""


def test_all_faults_of_a_design_come_at_once_with_line_and_column(tmp_path, capsys):
    spec = tmp_path / "bad.yaml"
    spec.write_text(BAD)
    assert run(["check", str(spec)]) == 1
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith(str(spec))]
    assert [line.partition(": ")[0] for line in lines] == [f"{spec}:7:15", f"{spec}:11:5", f"{spec}:3:8"]
    assert "take units of at most 20" in lines[0]
    assert "do not divide over 3 spines" in lines[1]
    assert "rack units high, and a rack has 4" in lines[2]
    assert run(["build", str(spec), "-o", str(tmp_path / "out"), "--json"]) == 1
    errors = json.loads(capsys.readouterr().out)["errors"]
    assert [error["where"] for error in errors] == [f"{spec}:7:15", f"{spec}:11:5", f"{spec}:3:8"]


def test_each_model_that_fits_no_rack_is_named_once(tmp_path, capsys):
    spec = tmp_path / "high.yaml"
    spec.write_text("name: high\nnodes: {gpu: {model: dgx-a100, count: 9}, s: {model: storage-3fs, count: 9}}\n"
                    "network: {shape: fat-tree, switch: QM8700}\nfloor: {rack_units: 1}\n")  # fmt: skip
    assert run(["check", str(spec)]) == 1
    first, second = [line for line in capsys.readouterr().err.splitlines() if line.startswith(str(spec))]
    assert first.startswith(f"{spec}:2:14: gpu")  # where the group names its model
    assert second.startswith(f"{spec}:2:46: s")


def test_messages_about_a_preset_name_the_preset():
    cluster = topo.preset("lab-20")
    more = cluster.spec.nodes["gpu"].model_copy(update={"count": 90})
    crowded = topo.Cluster(cluster.spec.model_copy(update={"nodes": {"gpu": more}}), cluster.catalog, cluster.document)
    with pytest.raises(DesignError, match=r"^preset lab-20, line \d+, column \d+: 90 gpu = 90 leaf ports"):
        _ = crowded.fabrics


@pytest.mark.parametrize(
    ("command", "name"),
    [
        *product([["draw", "SPEC"]], ("x.xlsx", "x.gif", "x.txt")),
        *product((["export", "SPEC", "bom-csv"], ["export", "SPEC", "dot"]), ("x.png", "x.pdf", "x.xlsx")),
    ],
)
def test_a_file_is_what_its_name_says_or_refused(command, name, tmp_path, capsys, repository):
    spec = str(repository / "configs" / "lab-20.yaml")
    given = [spec if word == "SPEC" else word for word in command]
    assert run([*given, "-o", str(tmp_path / name)]) == 2
    assert f"found the name of a .{name[2:]} file" in capsys.readouterr().err
    assert not (tmp_path / name).exists()


@pytest.mark.slow
def test_a_plan_with_an_island_is_refused(tmp_path, capsys):
    spec = tmp_path / "island.yaml"
    spec.write_text(
        "name: pod\nnodes: {gpu: {model: hgx-h800, count: 3}, s: {model: storage-ndr, count: 2}}\n"
        "network:\n  {shape: rail, unit_nodes: 4, tree: {switch: QM9700}, storage: {switch: QM9700}}\n"
    )
    said = "REFUSED, island: gpu[0-2] reach no server of s[0-1]: they have no adapter on pod-storage"
    assert run(["check", str(spec)]) == 1
    assert said in capsys.readouterr().err
    assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == 1
    assert said in capsys.readouterr().err
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["holds"] is False
    assert len(plan["islands"]) == 1


@pytest.mark.slow
def test_check_says_what_build_says(tmp_path, capsys, repository):
    spec = str(repository / "configs" / "direct-zones.yaml")
    assert run(["check", spec, "--json"]) == 0
    checked = json.loads(capsys.readouterr().out)
    assert run(["build", spec, "-o", str(tmp_path / "out")]) == 0
    assert "largest failure" in capsys.readouterr().out
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    for key in ("budget", "counts", "ports", "cables", "losses", "cost", "power", "islands"):
        assert checked[key] == plan[key], key
    leaf = next(row for row in plan["losses"]["worst"] if row["kind"] == "leaf")
    assert (leaf["zones"], leaf["pairs"]) == (1.0, 140 * 140)
