"""The pages of keys and columns: as written out of the code, and with every key of the schemas."""

import importlib.util
import json
from dataclasses import fields
from pathlib import Path

import pytest

from plan.cli import run
from plan.commands.spec import KINDS
from topo.catalog import models


def test_the_pages_are_those_that_the_code_writes(repository: Path) -> None:
    path = repository / "scripts" / "write_reference.py"
    spec = importlib.util.spec_from_file_location("write_reference", path)
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for name, text in script.pages().items():
        assert (repository / "docs" / "reference" / name).read_text() == text, f"{name} is old: make reference"


def rows(page: str) -> dict[str, dict[str, list[str]]]:
    """Return the cells of each table of a page, by the heading above it and the first cell."""
    found: dict[str, dict[str, list[str]]] = {}
    for part in page.split("\n## ")[1:]:
        heading, *lines = part.splitlines()
        cells = [line[2:-2].split(" | ") for line in lines if line.startswith("| `")]
        found[heading] = {first.strip("`"): rest for first, *rest in cells}
    return found


@pytest.mark.parametrize("kind", [*KINDS, "plan.json"])
def test_every_key_has_its_row_with_its_meaning(kind: str, repository: Path, capsys: pytest.CaptureFixture) -> None:
    assert run(["schema", kind]) == 0
    schema = json.loads(capsys.readouterr().out)
    page = {"cluster": "spec", "plan.json": "plan-json"}.get(kind, kind)
    found = rows((repository / "docs" / "reference" / f"{page}.md").read_text())
    every = {kind: schema, **schema.get("$defs", {})}
    parts = {name: part["properties"] for name, part in every.items() if "properties" in part}
    assert {name: {*table} for name, table in found.items()} == {name: {*keys} for name, keys in parts.items()}
    for name, keys in parts.items():
        for key, one in keys.items():
            assert found[name][key][-1].replace("\\|", "|") == " ".join(one.get("description", "").split())


def test_every_column_has_its_row(repository: Path) -> None:
    found = rows((repository / "docs" / "reference" / "catalog.md").read_text())
    tables = {
        "switches": models.SwitchModel,
        "nodes": models.NodeModel,
        "hcas": models.HcaModel,
        "cables": models.CableModel,
    }
    for table, model in tables.items():
        wanted = {field.name for field in fields(model)} - {"name", "sources"} | {"model"}
        assert {*found[f"{table}.csv"]} == wanted
        assert all(meaning for (meaning,) in found[f"{table}.csv"].values())
