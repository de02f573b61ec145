"""A skip under CI is a failure, unless it is one of those that have a reason in one place."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.skips import ALLOWED, without

MODULE = """
import pytest
{head}

def test_runs(): pass

{body}

@pytest.mark.xfail
def test_fails(): assert False
"""
BODIES = {
    "call": ("", 'def test_one(): pytest.skip("{reason}")'),
    "mark": ("", '@pytest.mark.skipif(True, reason="{reason}")\ndef test_one(): pass'),
    "setup": ("", '@pytest.fixture\ndef tool(): pytest.skip("{reason}")\ndef test_one(tool): pass'),
    "module": ('pytest.skip("{reason}", allow_module_level=True)', "def test_one(): pass"),
}


def outcome(folder: Path, tests: Path, ci: str) -> tuple[int, str]:
    """Exit status and output of pytest on tests that are skipped in each way for each reason."""
    for number, reason in enumerate(["needs a tool", *map(without, ALLOWED)]):
        for how, parts in BODIES.items():
            head, body = (part.format(reason=reason) for part in parts)
            (folder / f"test_{how}_{number}.py").write_text(MODULE.format(head=head, body=body))
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(folder), "-p", "helpers.skips", "-p",
               "no:cacheprovider", "--tb=line", "--continue-on-collection-errors", str(folder)]  # fmt: skip
    environment = {**os.environ, "CI": ci, "PYTHONPATH": str(tests)}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_under_ci_a_skip_without_an_allowed_reason_fails(
    repository: Path, tmp_path: Path, ci: str, status: int
) -> None:
    code, said = outcome(tmp_path, repository / "tests", ci)
    assert code == status, said
    bad = {how for how in BODIES if re.search(rf"^(FAILED|ERROR) test_{how}_0\.py", said, re.MULTILINE)}
    assert bad == (set(BODIES) if ci else set()), said
    assert not re.search(r"^(FAILED|ERROR) test_\w+_[1-9]\.py", said, re.MULTILINE), said
    for kind in ALLOWED:
        assert f"{len(BODIES)} skipped: {without(kind)}" in said
    assert (f"{len(BODIES)} skipped: for other reasons" in said) == (not ci)


def test_the_container_is_built_of_what_is_locked(repository: Path) -> None:
    """Python's packages come from the lock with their hashes; the image has a version of Python and of Debian."""
    lines = [line for line in (repository / "Containerfile").read_text().splitlines() if not line.startswith("#")]
    text = "\n".join(lines).replace("\\\n", " ")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images and all(re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+", image) for image in images)
    installs = re.findall(r"pip (?:install|wheel) [^&\n]*", text)
    assert installs
    for install in installs:
        locked = "--require-hashes" in install and "-r " in install
        assert locked or {"--no-deps", "--no-build-isolation", "--no-index"} & set(install.split()), install
        assert locked or "--no-deps" in install, install
