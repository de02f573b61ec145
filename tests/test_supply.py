"""What Heddle is made of: the lock file, the bill of materials and the threat model are of this tree."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, Any]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


LOCKS = {"requirements.lock": "all", "requirements-dev.lock": "dev"}
"""Lock files, and the extra of the project that each is for."""


def pins(lock: Path) -> dict[str, tuple[list[Version], int]]:
    """Versions and number of hashes of each package of a lock file."""
    found: dict[str, tuple[list[Version], int]] = {}
    for entry in re.split(r"\n(?=\S)", lock.read_text().strip()):
        pin = re.match(r"([\w.-]+)==([^ ;\\]+)", entry)
        assert pin, entry
        versions, hashes = found.get(canonicalize_name(pin[1]), ([], 10**9))
        here = len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?![0-9a-f])", entry))
        found[canonicalize_name(pin[1])] = ([*versions, Version(pin[2])], min(hashes, here))
    return found


def asked_for(project: dict[str, Any], extra: str) -> list[Requirement]:
    """What a checkout needs with an extra and those that it names, and what installs it."""
    extras = project["project"]["optional-dependencies"]
    asked = [*project["project"]["dependencies"], *project["build-system"]["requires"], "editables"]
    lines, names = [*asked, *extras[extra]], set()
    for line in lines:
        need = Requirement(line)
        if need.name == project["project"]["name"]:
            lines += [line for name in sorted(need.extras - names) for line in extras[name]]
            names |= need.extras
    return [need for need in map(Requirement, lines) if need.name != project["project"]["name"]]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_has_what_the_project_asks_for_with_hashes(project, repository: Path, lock: str) -> None:
    locked = pins(repository / lock)
    assert not [name for name, (_, hashes) in locked.items() if hashes < 1]
    for need in asked_for(project, LOCKS[lock]):
        assert canonicalize_name(need.name) in locked, need
        for version in locked[canonicalize_name(need.name)][0]:
            assert version in need.specifier, (str(need), version)


def test_users_and_developers_have_the_same_versions(repository: Path) -> None:
    user, developer = (pins(repository / lock) for lock in LOCKS)
    assert 20 < len(user) < len(developer)
    assert {name: versions for name, (versions, _) in user.items()} == {name: developer[name][0] for name in user}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_is_closed(project, repository: Path, lock: str) -> None:
    """What the packages of it need here is in it too, in a version that they take.

    Each is asked where it is installed in the version of the lock file, as `make test` does. Others say nothing of it.
    """
    locked = pins(repository / lock)
    todo = [(need, extra) for need in asked_for(project, LOCKS[lock]) for extra in ("", *sorted(need.extras))]
    seen = set()
    while todo:
        need, extra = todo.pop()
        name = canonicalize_name(need.name)
        assert any(version in need.specifier for version in locked[name][0]), (str(need), locked[name])
        if (name, extra) in seen or version_of(name) not in locked[name][0]:
            continue
        seen.add((name, extra))
        for line in distribution(name).requires or []:
            other = Requirement(line)
            if other.marker is None or other.marker.evaluate({"extra": extra}):
                todo += [(other, extra) for extra in ("", *sorted(other.extras))]


def test_uv_itself_is_installed_by_hash(repository: Path) -> None:
    assert [(name, hashes > 0) for name, (_, hashes) in pins(repository / "requirements-uv.lock").items()] == [
        ("uv", True)
    ]


FAKE = """#!/bin/sh
echo "$*" >> {log}
case "$*" in *"{fails}"*) exit 1;; esac
"""


@pytest.mark.parametrize(
    ("fails", "installs"),
    [
        ("no command", ["requirements-uv.lock", "the.lock", "-e ."]),
        ("requirements-uv.lock", ["requirements-uv.lock", "the.lock", "-e ."]),
        ("-r ", ["requirements-uv.lock", "the.lock"]),
        ("the.lock", ["requirements-uv.lock", "the.lock", "the.lock"]),
    ],
)
def test_nothing_is_installed_without_its_hash(
    repository: Path, tmp_path: Path, fails: str, installs: list[str]
) -> None:
    """With uv, without it, and where neither can: then nothing of ours is installed."""
    log = tmp_path / "log"
    for name in ("python", "uv"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(FAKE.format(log=log, fails=fails))
        program.chmod(0o755)
    command = ["sh", "scripts/install-locked", tmp_path, "the.lock", "all"]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)
    lines = [line for line in log.read_text().splitlines() if " install " in line]
    assert len(lines) == len(installs) and all(line.endswith(end) for line, end in zip(lines, installs, strict=True))
    assert all(("--require-hashes" in line) != ("--no-deps --no-build-isolation" in line) for line in lines)
    assert done.returncode == (installs[-1] != "-e ."), done.stderr
    assert done.stdout == f"Installing the packages of the.lock into {tmp_path}\n", "one line where no terminal is"


def version_of(name: str) -> Version | None:
    """Version of an installed package."""
    try:
        return Version(distribution(name).version)
    except PackageNotFoundError:
        return None


@pytest.mark.nightly
def test_the_bill_of_materials_names_every_dependency(project, repository: Path, tmp_path: Path) -> None:
    words = re.search(r"cyclonedx-py (environment) \S+ (.*?) \\\n\s*(.*)\n", (repository / "Makefile").read_text())
    assert words
    out = tmp_path / "bill.json"
    options = f"{words[2]} {words[3]}".replace("out/heddle.cdx.json", str(out)).split()
    command = [sys.executable, "-m", "cyclonedx_py", words[1], sys.executable, *options]
    subprocess.run(command, cwd=repository, check=True, capture_output=True)
    bill = json.loads(out.read_text())
    listed = {canonicalize_name(part["name"]): part for part in bill["components"]}
    own = next(entry for entry in bill["dependencies"] if entry["ref"] == bill["metadata"]["component"]["bom-ref"])
    needed = {canonicalize_name(re.split(r"==|@", ref)[0]) for ref in own["dependsOn"]}
    for line in project["project"]["dependencies"]:
        asked = Requirement(line)
        part = listed[canonicalize_name(asked.name)]
        assert part["version"] in asked.specifier and part["purl"].startswith("pkg:pypi/")
        assert canonicalize_name(asked.name) in needed


def test_each_claim_of_the_threat_model_names_tests_that_there_are(repository: Path) -> None:
    text = (repository / "docs" / "threat-model.md").read_text()
    tables = re.findall(r"^\|.*tested by \|\n\|[-|]+\n((?:^\|.*\|\n)+)", text, re.MULTILINE)
    rows = [line for table in tables for line in table.splitlines()]
    assert len(tables) == 2 and len(rows) > 15
    for row in rows:
        names = re.findall(r"`(tests/[^`]+)`", row.rstrip("|").rpartition("|")[2])
        assert names, row
        for name in names:
            place, _, test = name.partition("::")
            files = [repository / place] if place.endswith(".py") else sorted((repository / place).glob("test_*.py"))
            assert files, name
            assert any(re.search(rf"^def {test or 'test_'}", path.read_text(), re.MULTILINE) for path in files), name
