"""The manual builds without a warning, and its reference has everything that the code has."""

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import costmodel
import routing
import simulate
import topo
from plan.cli import COMMANDS
from plan.export.registry import EXPORTS

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def manual(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("manual")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", out / "trees"]
    command += ["-D", "html_theme=basic"]  # the navigation of the other takes as long as all pages
    done = subprocess.run(
        [*command, repository / "docs", out / "html"], cwd=repository, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return out / "html"


def test_man_plan_has_every_command(repository: Path, tmp_path: Path, manual: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "man", "-d", manual.parent / "trees"]
    done = subprocess.run([*command, repository / "docs", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "plan.1").read_text(encoding="utf-8").replace("\\-", "-")
    assert all(f"Usage: plan {name} " in page for name in COMMANDS)


def text_of(page: Path) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8")))


def test_every_document_is_in_the_manual(manual: Path, repository: Path) -> None:
    documents = {path.relative_to(repository / "docs").with_suffix("") for path in repository.glob("docs/**/*.md")}
    pages = {path.relative_to(manual).with_suffix("") for path in manual.rglob("*.html")}
    assert documents <= pages


def test_every_command_and_every_file_has_its_entry(manual: Path) -> None:
    commands, outputs = (text_of(manual / "reference" / f"{page}.html") for page in ("commands", "outputs"))
    assert all(f"Usage: plan {name} " in commands for name in COMMANDS)
    assert all(export.purpose in outputs for export in EXPORTS.values())


def test_every_name_of_a_face_has_its_entry(manual: Path) -> None:
    page = (manual / "reference" / "python.html").read_text(encoding="utf-8")
    rooms = (simulate.traffic, simulate.workload, simulate.engines, simulate.cluster, simulate.diagnosis)
    for face in (topo, routing, simulate, *rooms, costmodel):
        names = [name for name in face.__all__ if not hasattr(getattr(face, name), "__path__")]
        missing = [name for name in names if f'id="{face.__name__}.{name}"' not in page]
        assert missing in ([], ["palette"], ["opensm"]), face.__name__
