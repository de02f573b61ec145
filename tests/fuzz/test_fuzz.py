"""A hundred spoilt inputs, the same each time; `make fuzz` tries 200,000 others."""

import os
import subprocess
import sys

import pytest

from fuzz.targets import CORPUS


@pytest.mark.slow
def test_nothing_is_found(repository):
    """In one process, which compiles each kernel once and takes a few seconds of CPU besides."""
    done = subprocess.run(
        [sys.executable, "-m", "fuzz.run", "--seed", "1", "--inputs", "100"],
        cwd=repository / "tests",
        env=os.environ | {"PYTHONPATH": f"{repository}{os.pathsep}{repository / 'tests'}"},
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]


def test_each_file_of_the_corpus_has_a_reason():
    reasons = (CORPUS / "README.md").read_text()
    files = [path for path in CORPUS.rglob("*") if path.is_file() and path.name != "README.md"]
    assert files
    for path in files:
        assert f"| `{path.relative_to(CORPUS)}` |" in reasons, path
        assert path.stat().st_size < 20_000
