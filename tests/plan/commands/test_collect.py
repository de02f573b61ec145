"""``plan collect``: a script that a shell takes, whatever its options hold."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from plan.cli import plan

TOOLS = ("ibnetdiscover", "dump_fts", "iblinkinfo", "ibqueryerrors", "ibdiagnet", "sminfo")


def script(*options: str) -> str:
    done = CliRunner().invoke(plan, ["collect", *options])
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("device", ["mlx5_0", "x; touch stolen", "$(touch stolen)", "'"])
def test_each_tool_is_called_on_the_port_that_was_named(device: str, tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in TOOLS:
        (tools / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{tmp_path}/{name}.called"\n')
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["sh"],
        input=script("--device", device, "--port", "2", "--folder", "my records"),
        text=True,
        capture_output=True,
        cwd=tmp_path,
        env=os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in TOOLS:
        words = (tmp_path / f"{name}.called").read_text().split("\n")
        assert device in words
        assert "2" in words
    assert not list(tmp_path.rglob("stolen"))
    assert (tmp_path / "my records" / "fabric.ibnetdiscover").is_file()


def test_nothing_is_said_of_a_port_that_was_not_named() -> None:
    lines = [shlex.split(line, comments=True) for line in script().splitlines()]
    assert ["ibnetdiscover", ">", "fabric.ibnetdiscover"] in lines
    assert not any("-C" in line for line in lines)
