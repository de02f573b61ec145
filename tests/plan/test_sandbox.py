"""As a user whom the machine does not know, without HOME, nothing but the working folder to write to, in ASCII."""

import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

COMMANDS = [
    "init lab-20 -o mine.yaml",
    "check mine.yaml",
    "schema workload",
    "completion bash",
    "cost mine.yaml --currency USD",
    "compare mine.yaml mine.yaml",
    "collect --device mlx5_0",
    "diff mine.yaml mine.yaml -o list",
    "mock mine.yaml --faults 3 -o mock",
    "draw mine.yaml -o mine.svg",
    "export mine.yaml slurm -o slurm",
    "optimise NEEDS -o winner.yaml",
    "calibrate nccl.log",
]
KERNELS = [
    "build mine.yaml -o out",
    "route mine.yaml -o routed",
    "repair out --down leaf0:21 -o repaired",
    "verify out",
    "simulate out --workload allreduce -o played",
    "report out played -o mine.html",
    "ranks out --nodes gpu[00-03]",
    "explain out measured.csv",
    "sweep sweep.yaml -o swept",
    "operate mine.yaml -q queue.yaml --hours 0.1 --state state",
]
"""Commands that run compiled code, which is compiled each time where none is kept."""

SANDBOX = r"""
set -e
for place in $READ_ONLY; do mount --bind "$place" "$place"; mount -o remount,bind,ro "$place"; done
exec unshare --user --map-user=12345 --map-group=12345 env -i LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 \
  PATH=/usr/bin:/bin PYTHONPATH="$CHECKOUT" "$@"
"""
"""Where users may make namespaces: no privilege is needed, and none is left."""


def sandboxed(folder: Path, checkout: Path, *command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a sandbox that can write to a folder alone, of all that is ours."""
    kept = {checkout, Path(sys.prefix), Path(pwd.getpwuid(os.getuid()).pw_dir)}
    environment = {"PATH": os.environ["PATH"], "CHECKOUT": str(checkout), "READ_ONLY": " ".join(map(str, kept))}
    words = ["unshare", "--user", "--mount", "--map-root-user", "sh", "-c", SANDBOX, "sh", *command]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.peer("unshare")
@pytest.mark.parametrize("commands", [COMMANDS, pytest.param(COMMANDS[:1] + KERNELS, marks=pytest.mark.nightly)])
def test_every_command_of_the_manual(commands: list[str], tmp_path: Path, repository: Path) -> None:
    if sandboxed(tmp_path, repository, "true").returncode:
        pytest.skip("this machine lets no user make namespaces")
    assert sandboxed(tmp_path, repository, "touch", f"{repository}/x").returncode != 0
    (tmp_path / "queue.yaml").write_text(
        "jobs: [{name: a, nodes: 2, steps: 9, forward: 1 s, backward: 1 s, gradients: 1 GB}]"
    )
    (tmp_path / "needs.yaml").write_text(
        "name: tiny\nnodes: {gpu: {model: pcie-a100, count: 4}}\njob: {nodes: 2, bisection: 1.0}\nswitches: [QM8700]\n"
    )
    sizes = 2 ** np.arange(16, 30)
    lines = (f"{n} {n // 4} float sum -1 {20 + n / 1e4:.2f} 1.0 1.75 0 {20 + n / 1e4:.2f} 1.0 1.75 0" for n in sizes)
    (tmp_path / "nccl.log").write_text("\n".join(lines) + "\n")
    (tmp_path / "measured.csv").write_text("source,destination,Gb/s\ngpu00,gpu01,190\n")
    (tmp_path / "sweep.yaml").write_text("base: mine.yaml\nstages: [design]\nparameters: {nodes.gpu.count: [8, 12]}\n")
    for line in commands:
        words = line.replace("NEEDS", "needs.yaml").split()
        done = sandboxed(tmp_path, repository, sys.executable, "-m", "plan", *words)
        assert done.returncode == 0, (line, done.stderr)
        assert b"Traceback" not in done.stderr
        assert done.stdout.isascii() and done.stderr.isascii(), line
        for path in (words[words.index("-o") + 1 :] or [""])[:1] if "-o" in words else []:
            assert (tmp_path / path).exists()


def test_the_manual_names_no_other_command(repository: Path) -> None:
    named = set(re.findall(r"(?:^|`)plan ([a-z]+)\b", (repository / "docs" / "commands.md").read_text(), re.MULTILINE))
    assert named == {line.split()[0] for line in COMMANDS + KERNELS} | {"keep"}, "which takes a live fabric"
