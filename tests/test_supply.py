"""What Heddle is made of: the lock file, the bill of materials and the threat model are of this tree."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


@pytest.fixture(scope="module")
def project(repository: Path) -> dict[str, object]:
    return tomllib.loads((repository / "pyproject.toml").read_text())


def pins(repository: Path) -> dict[str, tuple[list[Version], int]]:
    """Versions and number of hashes of each package of the lock file."""
    found: dict[str, tuple[list[Version], int]] = {}
    for entry in re.split(r"\n(?=\S)", (repository / "requirements-dev.lock").read_text().strip()):
        pin = re.match(r"([\w.-]+)==([^ ;\\]+)", entry)
        assert pin, entry
        versions, hashes = found.get(canonicalize_name(pin[1]), ([], 10**9))
        here = len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?![0-9a-f])", entry))
        found[canonicalize_name(pin[1])] = ([*versions, Version(pin[2])], min(hashes, here))
    return found


def test_the_lock_file_has_what_the_project_asks_for_with_hashes(project, repository: Path) -> None:
    locked = pins(repository)
    assert not [name for name, (_, hashes) in locked.items() if hashes < 1]
    extras = project["project"]["optional-dependencies"]
    todo = [*project["project"]["dependencies"], *extras["dev"], *project["build-system"]["requires"]]
    for line in todo:
        asked = Requirement(line)
        if asked.name == project["project"]["name"]:  # an extra that names others
            todo += [line for extra in sorted(asked.extras) for line in extras[extra]]
            continue
        assert canonicalize_name(asked.name) in locked, line
        for version in locked[canonicalize_name(asked.name)][0]:
            assert version in asked.specifier, (line, version)


def test_the_lock_file_is_closed(project, repository: Path) -> None:
    """Whatever an installed package of it needs here is in it too, in a version that it takes."""
    locked = pins(repository)
    todo, seen = [Requirement(line) for line in project["project"]["dependencies"]], set()
    while todo:
        asked = todo.pop()
        name = canonicalize_name(asked.name)
        assert any(version in asked.specifier for version in locked[name][0]), (str(asked), locked[name])
        if name not in seen:
            seen.add(name)
            needs = [Requirement(line) for line in distribution(name).requires or []]
            todo += [need for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    assert len(seen) > 16


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
