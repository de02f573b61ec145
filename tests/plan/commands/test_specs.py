"""Every command that takes a spec refuses a bad one alike, in the words of `plan check`."""

from pathlib import Path

import pytest

from plan.cli import COMMANDS, run
from topo.catalog.load import config_root

WORDS = {
    "check": "SPEC",
    "build": "SPEC -o OUT",
    "route": "SPEC -o OUT",
    "mock": "SPEC -o OUT",
    "diff": "SPEC SPEC",
    "repair": "SPEC --down spine0",
    "verify": "SPEC LAB",
    "simulate": "SPEC --workload allreduce -o OUT",
    "operate": "SPEC --queue QUEUE",
    "ranks": "SPEC --nodes gpu[00-03]",
    "explain": "SPEC PAIRS",
    "cost": "SPEC",
    "compare": "SPEC SPEC",
    "draw": "SPEC -o OUT.svg",
    "export": "SPEC slurm",
}
"""How each command is called that takes a spec."""
OTHERS = {"init", "collect", "keep", "sweep", "calibrate", "optimise", "report", "schema", "completion"}
LAB = config_root() / "lab-20.yaml"
BAD = {
    "a misspelt engine": "routing: {engine: fat-treee}\n",
    "a key that there is not": "ruoting: {}\n",
    "a room without a number": "floor: {rows: many}\n",
}


def test_every_command_is_here() -> None:
    assert {*WORDS, *OTHERS} == {*COMMANDS}


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("command", WORDS)
def test_a_bad_spec_is_refused_alike(
    command: str, fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "bad.yaml"
    text = "\n".join(line for line in LAB.read_text(encoding="utf-8").splitlines() if not line.startswith("routing"))
    spec.write_text(f"{text}\n{BAD[fault]}", encoding="utf-8")
    queue = next((config_root() / "queues").glob("*.yaml"))
    places = {"SPEC": spec, "LAB": LAB, "QUEUE": queue, "OUT": tmp_path / "out", "OUT.svg": tmp_path / "out.svg"}
    places["PAIRS"] = tmp_path / "pairs.csv"
    places["PAIRS"].write_text("GB/s,gpu00,gpu01\ngpu00,,24\n", encoding="utf-8")
    assert run(["check", str(spec)]) == 2
    expected = capsys.readouterr().err
    assert "bad.yaml:" in expected

    status = run([command, *(str(places.get(word, word)) for word in WORDS[command].split())])
    said = capsys.readouterr()
    assert (status, said.err, said.out) == (2, expected, "")
    assert not (tmp_path / "out").exists()
