"""`plan explain`: a slow adapter is accused by its name, and the exit status says so."""

import json
from pathlib import Path

import pytest

from plan.cli import run
from topo.hardware.catalog import config_root

LAB = str(config_root() / "lab-20.yaml")
Captured = pytest.CaptureFixture[str]


def matrix(slow: str = "") -> str:
    names = [f"gpu{number:02}" for number in range(8)]
    lines = ["GB/s," + ",".join(names)]
    for a, one in enumerate(names):
        row = [one] + ["-" if a == b else str(11.0 if slow in (one, two) else 24.0 + 0.05 * ((a * b) % 5))
                       for b, two in enumerate(names)]  # fmt: skip
        lines.append(",".join(row))
    return "\n".join(lines) + "\n"


def test_a_slow_adapter_is_accused(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text(matrix("gpu05"))
    assert run(["explain", LAB, str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [one["channels"] for one in found["culprits"]] == [["leaf0:6 -> gpu05 mlx5_0:1"]]
    assert len(found["culprits"][0]["pairs"]) == 14
    assert run(["explain", LAB, str(file)]) == 1
    assert "gpu05" in capsys.readouterr().out


def test_nobody_is_accused_of_nothing(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text(matrix())
    assert run(["explain", LAB, str(file)]) == 0
    assert "nobody is accused" in capsys.readouterr().out


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: Captured) -> None:
    file = tmp_path / "measured.csv"
    file.write_text("what,is,this\n")
    assert run(["explain", LAB, str(file)]) == 2
    assert f"{file}:1" in capsys.readouterr().err
