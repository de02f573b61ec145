"""`plan ranks`: the files hold the order that is proven, and what is wrong is said."""

import json
from pathlib import Path

import pytest

from plan.cli import run
from topo.catalog.load import config_root

LAB = str(config_root() / "lab-20.yaml")
Captured = pytest.CaptureFixture[str]


@pytest.mark.slow
def test_files_hold_the_order(tmp_path: Path, capsys: Captured) -> None:
    nodes = tmp_path / "nodes"
    nodes.write_text("gpu00  # first\ngpu[08-09]\ngpu01\n")
    out = tmp_path / "out"
    arguments = ["ranks", LAB, "--nodes", str(nodes), "--for", "ring", "--for", "tree"]
    assert run([*arguments, "-o", str(out), "--ranks-per-node", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"] == ["gpu00", "gpu08", "gpu09", "gpu01"]
    assert [order["algorithm"] for order in found["orders"]] == ["ring", "tree"]
    for order in found["orders"]:
        folder = out / order["algorithm"]
        tasks = [name for name in order["order"] for _ in range(2)]
        assert (folder / "slurm.hosts").read_text().split() == tasks
        assert (folder / "hostfile").read_text() == "".join(f"{name} slots=2\n" for name in order["order"])
        assert not (folder / "rankfile").exists(), "its slots are cores"
        assert "NCCL_IB_HCA==mlx5_0\n" in (folder / "nccl.conf").read_text()
        assert "UCC_TL_UCP_RANKS_REORDERING=n\n" in (folder / "ucc.env").read_text()
        assert order["after"]["time_s"] <= order["before"]["time_s"]


def test_without_a_folder_the_orders_are_printed(capsys: Captured) -> None:
    assert run(["ranks", LAB, "--nodes", "gpu[00,08,01,09]", "--for", "ring"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("ring: ")
    assert sorted(last.removeprefix("ring: ").split(",")) == ["gpu00", "gpu01", "gpu08", "gpu09"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nodes", "gpu00"], "two nodes at least"),
        (["--nodes", "gpu[00-99]"], "found the node 'gpu"),
        (["--nodes", "gpu[00-"], "hostlist"),
        (["--nodes", "/nowhere/nodes"], "nowhere"),
        (["--nodes", "gpu[00-03]", "-o", "out"], "--ranks-per-node"),
        (["--nodes", "gpu[00-03]", "--for", "star"], "star"),
    ],
)
def test_refusals(arguments: list[str], message: str, capsys: Captured) -> None:
    assert run(["ranks", LAB, *arguments]) == 2
    assert message in capsys.readouterr().err
