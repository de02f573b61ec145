"""docs/tutorial.md, the README and the home page: whoever follows them, file by file, sees what they show."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def words(text: str) -> str:
    """Text without the frames of tables, with one space between words."""
    return " ".join(re.sub(r"[\u2500-\u257f]", " ", text).split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "steps", "files"),
    [
        ("docs/tutorial", 6, {"out/report.html", "out/bom.csv", "out/cables.csv", "mine.html"}),
        ("README", 1, {"out/report.html"}),
        pytest.param("docs/index", 1, {"out/report.html"}, marks=pytest.mark.nightly),
    ],
)
def test_every_step_shows_what_the_page_shows(
    repository: Path, tmp_path: Path, name: str, steps: int, files: set[str]
) -> None:
    page = (repository / f"{name}.md").read_text(encoding="utf-8")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    printed, commands = "", 0
    for fence in FENCE.finditer(page):
        language, content = fence.groups()
        if language == "yaml":
            (tmp_path / content.partition("\n")[0].removeprefix("# ")).write_text(content, encoding="utf-8")
        elif language == "csv":
            (tmp_path / re.findall(r"`([\w.]+)`", page[: fence.start()])[-1]).write_text(content, encoding="utf-8")
        elif language == "sh":
            done = subprocess.run(
                ["bash", "-euc", content],
                cwd=tmp_path,
                env=os.environ | {"PATH": path, "PYTHONPATH": str(repository)},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{content}{done.stdout}{done.stderr}"
            printed, commands = words(done.stdout + done.stderr), commands + 1
        elif language == "text":
            lost = [line for line in content.splitlines() if words(line) not in printed]
            assert not lost, f"{lost}\n{printed}"
    assert commands >= steps
    assert all((tmp_path / file).stat().st_size > 500 for file in files)
