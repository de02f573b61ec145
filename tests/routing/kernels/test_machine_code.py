"""Kernels whose callees have changed run the new ones, and code is kept while nothing changes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INIT = """\
from pathlib import Path
from routing.kernels.machine_code import drop_stale_code
drop_stale_code(Path(__file__).parent)
"""
CALLER = """\
from numba import njit
from kernels_of_a_test.callee import number
@njit(cache=True)
def double():
    return 2 * number()
"""
CALLEE = """\
from numba import njit
@njit(cache=True)
def number():
    return {}
"""
PROGRAM = """\
from kernels_of_a_test.caller import double
print(double(), sum(double.stats.cache_hits.values()))
"""


def run(root: Path) -> list[int]:
    """Return what the kernel says in a process of its own, and how often its code was there already."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONPATH"] = os.pathsep.join([str(root), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=root, capture_output=True, text=True, check=True
    )
    return [int(word) for word in done.stdout.split()]


@pytest.mark.slow
def test_no_stale_code_runs(tmp_path: Path) -> None:
    folder = tmp_path / "kernels_of_a_test"
    folder.mkdir()
    for name, text in {"__init__": INIT, "caller": CALLER, "callee": CALLEE.format(1)}.items():
        (folder / f"{name}.py").write_text(text)

    assert run(tmp_path) == [2, 0]
    assert run(tmp_path) == [2, 1]
    (folder / "callee.py").write_text(CALLEE.format(21))
    assert run(tmp_path) == [42, 0]
    assert run(tmp_path) == [42, 1]
    kept = list((folder / "__pycache__").glob("caller.double*"))
    assert len(kept) == 2, kept  # an index and the code of one version
