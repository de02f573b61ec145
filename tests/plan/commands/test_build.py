"""`plan build`: one road from a spec to a folder, the same bytes each time, and nothing lost when it fails."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from plan.cli import run
from topo.catalog.load import config_root

FIRE_FLYER = config_root() / "fire-flyer-2.yaml"
LAB = config_root() / "lab-20.yaml"

KEYS = {
    "counts": [
        "switches",
        "leaf",
        "spine",
        "core",
        "joint",
        "gpu_nodes",
        "gpus",
        "storage_nodes",
        "host_ports",
        "links",
    ],
    "proof": ["pairs", "missing", "credit_loops", "max_hops", "lanes"],
    "quality": ["max_load", "ebb", "balance"],
    "cost": ["network", "servers", "total", "unit"],
    "power": ["network_w", "servers_w", "total_w"],
}
"""What others rely on in plan.json."""

OPENSM = [
    "opensm.conf", "lfts", "guid2lid", "root_guids", "cn_guids", "io_guids", "partitions.conf", "qos-policy.conf",
    "node-name-map",
]  # fmt: skip


@pytest.fixture(scope="module")
def fire_flyer(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("fire-flyer") / "out"
    assert run(["build", str(FIRE_FLYER), "-o", str(out)]) == 0
    return out


@pytest.mark.slow
def test_plan_json_holds_what_others_rely_on(fire_flyer):
    plan = json.loads((fire_flyer / "plan.json").read_text())

    assert {key: [name for name in names if name in plan[key]] for key, names in KEYS.items()} == KEYS
    assert plan["counts"] == {
        "switches": 122, "leaf": 80, "spine": 40, "core": 0, "joint": 2, "zones": 2, "gpu_nodes": 1200, "gpus": 9600,
        "storage_nodes": 180, "management_nodes": 0, "aggregation_nodes": 0, "host_ports": 1560, "links": 3200,
    }  # fmt: skip
    assert plan["proof"] == {"pairs": 2_432_040, "missing": 0, "credit_loops": 0, "max_hops": 7, "lanes": 1}
    assert plan["quality"]["max_load"] == 30_420
    assert plan["cost"]["unit"] == "USD" and plan["cost"]["network"] > 122 * 14_000
    assert 3e6 < plan["power"]["total_w"] < 4e6, "just over 3 MW, below 4"


@pytest.mark.slow
def test_every_file_of_the_folder_is_there(fire_flyer):
    names = {path.name for path in (fire_flyer / "opensm").iterdir()}

    assert set(OPENSM) <= names
    assert {"plan.json", "fabric.ibnetdiscover", "bom.csv"} <= {path.name for path in fire_flyer.iterdir()}


@pytest.mark.slow
def test_verify_agrees_with_what_was_built(fire_flyer, capsys):
    for fabric in (FIRE_FLYER, fire_flyer / "fabric.ibnetdiscover"):
        assert run(["verify", str(fabric), str(fire_flyer / "opensm" / "lfts"), "--json"]) == 0
        verdict = json.loads(capsys.readouterr().out)
        assert {key: verdict[key] for key in ("pairs", "missing", "credit_loops", "max_hops")} == {
            "pairs": 2_432_040, "missing": 0, "credit_loops": 0, "max_hops": 7,
        }  # fmt: skip
        assert verdict["hops"] == {"1": 29_640, "3": 1_185_600, "7": 1_216_800}
        assert verdict["load"]["max"] == 30_420


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_the_same_spec_gives_the_same_bytes(tmp_path):
    """In another process, whose sets of names have another order."""
    build = ["build", str(LAB), "-o"]
    subprocess.run([sys.executable, "-m", "plan", *build, tmp_path / "0"], check=True, capture_output=True)

    assert run([*build, str(tmp_path / "1")]) == 0
    assert digest(tmp_path / "0") == digest(tmp_path / "1")


@pytest.mark.slow
def test_a_budget_that_is_exceeded_is_exit_1_and_says_by_how_much(tmp_path, capsys):
    spec = tmp_path / "spec.yaml"
    spec.write_text(LAB.read_text().replace("power: 60 kW", "power: 40 kW\n  switches: 3"))

    assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == 1

    error = capsys.readouterr().err
    assert "4 planned, 3 allowed" in error
    assert "40.0 kW allowed" in error
    assert json.loads((tmp_path / "out" / "plan.json").read_text())["holds"] is False
    assert run(["check", str(spec)]) == 1
    assert capsys.readouterr().err == error


def test_a_zone_that_does_not_close_writes_nothing(tmp_path, capsys):
    spec = tmp_path / "spec.yaml"
    spec.write_text(FIRE_FLYER.read_text().replace("count: 1200", "count: 1250"))

    assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == 1

    said = capsys.readouterr().err
    assert "625 gpu + 180 storage + 20 joint ports = 825 leaf ports, and 40 leaves x 20 = 800" in said
    assert "Take 42 leaves a zone, " in said
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("spec", ["missing.yaml", "."])
def test_a_spec_that_cannot_be_read_is_exit_2(tmp_path, capsys, spec):
    assert run(["build", str(tmp_path / spec), "-o", str(tmp_path / "out")]) == 2

    assert "Traceback" not in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_half_written_folder_is_left_alone(tmp_path, capsys):
    out = tmp_path / "out"
    (out / "opensm").mkdir(parents=True)
    (out / "opensm" / "lfts").write_text("half")

    assert run(["build", str(LAB), "-o", str(out)]) == 2

    assert "without SHA256SUMS" in capsys.readouterr().err
    assert (out / "opensm" / "lfts").read_text() == "half"


def test_what_a_person_reads_names_all_nodes_and_never_writes_zero_point_zero_megawatt(tmp_path, capsys):
    assert run(["build", str(LAB), "-o", str(tmp_path / "out")]) == 0

    said = capsys.readouterr().out
    assert "16 GPU nodes (128 GPUs), 2 storage, 2 management" in said
    assert "power, typically" in said and "network 1.5, servers at least 41.4, total at least 42.9 kW" in said
    assert "with all traffic on one lane, at most" in " ".join(said.replace("│", " ").split())


BUDGETS = [
    ("dgx-b200", 48, "50 kW", 1, False),  # the maximum is known, and no typical power
    ("dgx-b200", 2, "50 kW", 0, True),
    ("hgx-h800", 2, "10 MW", 3, None),  # neither is known
    ("hgx-h800", 2, "100 W", 1, False),  # the switches alone take more
]


def test_a_limit_is_shown_where_the_spec_states_it(tmp_path, capsys):
    spec = tmp_path / "pod.yaml"
    spec.write_text(
        "name: pod\nnodes: {gpu: {model: hgx-h800, count: 2}}\nnetwork: {shape: fat-tree, switch: QM8700}\n"
        "floor:\n  rack_units: 48\n  rack_power: 20 kW\nbudget: {power: 1 MW}\n"
    )
    assert run(["check", str(spec)]) == 3
    assert f"{spec}:6:15: CANNOT TELL whether the budget holds: rack power" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("model", "count", "power", "status", "holds"), BUDGETS)
def test_what_is_unknown_holds_no_budget(tmp_path, capsys, model, count, power, status, holds):
    spec = tmp_path / "pod.yaml"
    spec.write_text(
        f"name: pod\nnodes: {{gpu: {{model: {model}, count: {count}}}}}\n"
        f"network: {{shape: fat-tree, switch: QM8700}}\nbudget: {{power: {power}}}\n"
    )
    assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == status
    found = capsys.readouterr()
    assert ("CANNOT TELL whether the budget holds: power" in found.err) == (status == 3)
    plan = json.loads((tmp_path / "out" / "plan.json").read_text())
    assert plan["holds"] is holds
    assert plan["budget"][0]["verdict"] == {0: "holds", 1: "exceeded", 3: "cannot tell"}[status]
    assert (plan["cost"]["servers"] is None) == (model == "hgx-h800"), "nobody tells its price"
    assert plan["power"]["total_w"] is None and "servers unknown, total unknown kW" in found.out
    assert run(["check", str(spec), "--json"]) == status
    assert json.loads(capsys.readouterr().out)["holds"] is holds
