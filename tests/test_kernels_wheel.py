"""The wheel of compiled kernels: with it, nothing is compiled, and the same bytes are written."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from llvmlite.binding import get_host_cpu_features

from routing.compiler import FEATURES

COMMANDS = """
build lab-20.yaml -o OUT/lab
simulate OUT/lab -w allreduce
simulate OUT/lab -w allreduce --engine packets
route lab-20.yaml -o OUT/route
repair OUT/lab --down leaf0:27 -o OUT/repaired
ranks OUT/lab --nodes gpu[00-07] --for ring --for tree
"""
PROGRAM = """
import logging, sys
from collections import defaultdict
import plan.cli
from routing.machine_code import Interpreter
logging.basicConfig(level=logging.INFO)
Interpreter.spent_s = defaultdict(lambda: float(sys.argv[1]))
for line in sys.argv[2].strip().splitlines():
    assert plan.cli.run(line.split()) == 0, line
"""


NOBODY = 65534


def may_be_read(path: Path) -> bool:
    """Whether others may go to where a file is."""
    return all(folder.stat().st_mode & 1 for folder in path.resolve().parents)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
@pytest.mark.nightly
def test_with_the_wheel_nothing_is_compiled_and_the_same_is_written(repository: Path, tmp_path: Path) -> None:
    """As another user where the test runs as root, without a home, and where nothing can be kept."""
    if not all(get_host_cpu_features().get(name) for name in FEATURES):
        pytest.skip("the processor is older than the one that code is shipped for")
    make = [sys.executable, "scripts/make_kernels.py", tmp_path, COMMANDS.replace("lab-20.yaml", "configs/lab-20.yaml")]
    subprocess.run(make, cwd=repository, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("heddle_kernels-*.whl")
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(pip, check=True, capture_output=True)
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    # The dependencies, where the tests have them, and the sources, in a folder that nobody writes to.
    (site / "rest.pth").write_text("\n".join(path for path in sys.path if path.endswith("-packages")))
    source = tmp_path / "source"
    for name in ("topo", "routing", "simulate", "costmodel", "plan", "configs"):
        shutil.copytree(repository / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(source), "HOME": "/proc/nowhere"}
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o755)
    written = []
    for spent_s in ("inf", "-inf"):  # as the wheel has it, and interpreted without the wheel
        work = tmp_path / f"work{spent_s}"
        work.mkdir()
        shutil.copyfile(repository / "configs" / "lab-20.yaml", work / "lab-20.yaml")
        commands = COMMANDS.replace("OUT/", "")
        user = {}
        if os.getuid() == 0 and may_be_read(Path(sys.executable)):
            shutil.chown(work, NOBODY)
            user = {"user": NOBODY}
        command = [python, "-c", PROGRAM, spent_s, commands]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, check=False, **user)
        assert done.returncode == 0, done.stderr
        assert "compiling" not in done.stderr, done.stderr
        shutil.rmtree(site / "heddle_kernels", ignore_errors=True)
        written.append(contents(work) | {"stdout": done.stdout.encode()})
    assert written[0] == written[1]
