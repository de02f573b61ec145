"""Benchmarks still run: each is imported, and those that can do a small case do it, untimed."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import topo
from helpers.benchmarks import FOLDER, load

SCRIPTS = sorted(f"{path.parent.name}/{path.stem}" for path in FOLDER.glob("*/*.py"))
SMALL_TREES = {"small": (2, 2, 1), "8,000 hosts": (4, 4, 1)}
SMALL: dict[str, tuple[dict[str, Any], list[str], str]] = {
    "timings/bench_engines": (
        {"fabrics": lambda: {"lab": topo.preset("lab-20").fabric}},
        [],
        r"  fat-tree: .* s\n  balanced: .* s\n",
    ),
    "timings/bench_packets": ({"ZONES": {16: (4, 2, 4)}, "STEPS": {}}, [], r"\| a quarter to one \| 16 \|"),
    "timings/bench_proof": ({"SIZES": SMALL_TREES}, [], r"0 missing, 0 channels in credit loops\n"),
    "timings/bench_scale": ({}, ["--row", "uniform 780", "2000"], r"\| uniform 780 \| 2,000 \|"),
    "optimum/brute_force": (
        {},
        ["--needs", "1", "--most", "4", "--seconds", "1"],
        r"beaten in 0 of 1, bound too high in 0, winners that miss a need 0\n",
    ),
}
"""Of some scripts: what is made small in them, their arguments, and what they print."""


def test_the_readme_lists_every_script() -> None:
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    scripts = [path for path in FOLDER.glob("*/*.py") if '__name__ == "__main__"' in path.read_text(encoding="utf-8")]
    assert len(scripts) > 20
    assert [path.name for path in scripts if f"| `{path.name}` |" not in readme] == []
    assert readme.count("| `") == len(scripts)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCRIPTS)
def test_every_benchmark_is_imported(name: str) -> None:
    assert load(name).__doc__


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_smallest_case_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small, arguments, printed = SMALL[name]
    script = load(name)
    for constant, value in small.items():
        monkeypatch.setattr(script, constant, value)
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    script.main()
    assert re.search(printed, capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.nightly
def test_the_page_of_packets_has_what_the_benchmark_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], repository: Path
) -> None:
    """All but the times of the machine, of the smallest zone and of all steps of training."""
    script = load("timings/bench_packets")
    monkeypatch.setattr(script, "ZONES", {96: script.ZONES[96]})
    script.main()
    page = (repository / "docs" / "validation" / "packets.md").read_text(encoding="utf-8")
    rows = [line for line in capsys.readouterr().out.splitlines() if re.search(r"\d \|$", line)]
    assert len(rows) == 11
    for row in rows:
        timed = 2 if row.count("|") == 10 else 1
        assert "|".join(row.split("|")[: -1 - timed]) in page, row
