"""docs/reference/files.md and docs/describe.md: every column of every table that is written, and a spec that checks."""

import csv
import re
from pathlib import Path

import pytest

from plan.cli import run
from plan.simulation import LINKS

PAGE = "docs/reference/files.md"


def documented(repository: Path) -> dict[str, list[str]]:
    """Columns of each file by its name, as the page has them."""
    text = (repository / PAGE).read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    for section in text.split("\n## ")[1:]:
        name = re.findall("`(.*?)`", section)[0]
        for row in re.findall(r"^\| (`.*?) \| (.*?) \|$", section, re.MULTILINE):
            first, second = (re.findall("`([^`]*)`", cell) for cell in row)
            if name.endswith("/"):
                found[name + first[0]] = second
            else:
                found.setdefault(name, []).extend(first)
    return found


def test_every_column_of_every_table_is_documented(repository: Path) -> None:
    pages, folder = documented(repository), repository / "tests" / "golden" / "lab-20"
    tables = sorted(folder.rglob("*.csv"))
    assert len(tables) > 8
    for table in tables:
        name = table.relative_to(folder).as_posix()
        name = re.sub(r"(roles|manufacturers)/.*", r"\1/*.csv", name)
        with table.open(encoding="utf-8") as file:
            assert sorted(next(csv.reader(file))) == sorted(pages[name]), name
    assert sorted(LINKS) == sorted(pages["links.csv"])


@pytest.mark.slow
def test_the_spec_of_every_key_is_judged_as_the_page_says(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (repository / "docs" / "describe.md").read_text(encoding="utf-8")
    spec, figures = (re.findall(f"```{kind}\n(.*?)```", text, re.DOTALL)[0] for kind in ("yaml", "csv"))
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "nodes.csv").write_text(figures, encoding="utf-8")
    for name, more, status in (("a.yaml", "", 3), ("b.yaml", "catalog: parts/\n", 0)):
        (tmp_path / name).write_text(spec + more, encoding="utf-8")
        assert run(["check", str(tmp_path / name)]) == status
        capsys.readouterr()


def test_every_column_of_the_catalog_has_its_meaning(repository: Path) -> None:
    from sphinx.pycode import ModuleAnalyzer

    told = {name for _, name in ModuleAnalyzer.for_module("topo.hardware.models").find_attr_docs()}
    for table in ("switches", "nodes", "hcas", "cables"):
        with (repository / "configs" / "catalog" / f"{table}.csv").open(encoding="utf-8") as file:
            assert set(next(csv.reader(file))) - {"model", "source", "date", "confidence"} <= told, table
