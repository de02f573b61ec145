"""The tables of a hardware catalog: CSV whose every row says where its figures come from.

A row fills some columns of one model; the columns ``source``, ``date`` and ``confidence`` cite them. The meaning of the
other columns is that of the fields in `topo.catalog.models`; an empty cell says nothing at all.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from topo.budget import CATALOG_BYTES, CATALOG_CELL, CATALOG_ROWS
from topo.catalog.models import CONFIDENCE, Source
from topo.errors import Finding, SpecError, did_you_mean
from topo.files.text import read_text

MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
"""Models appear in node descriptions, which hold 63 characters."""
DATE = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?")
CITATION = ("source", "date", "confidence")


@dataclass(frozen=True)
class Row:
    """A row of a table: its model, its cells that are not empty, and where they come from."""

    model: str
    cells: dict[str, str]
    source: Source

    @property
    def cited(self) -> dict[str, tuple[str, Source]]:
        """The cells, each with its source."""
        return {column: (text, self.source) for column, text in self.cells.items()}


def read_table(path: Path, columns: Sequence[str], shown: str) -> list[Row]:
    """Read a table from a file that messages and sources call ``shown``; see `parse_table`."""
    return parse_table(read_text(path, CATALOG_BYTES), shown, columns)


def parse_table(text: str, path: str, columns: Sequence[str]) -> list[Row]:
    """Read a table whose header has ``model``, some of ``columns``, ``source``, ``date`` and ``confidence``.

    A SpecError has every finding: unknown or missing columns, rows that are too long or too short, cells that are too
    long or hold control characters, models without a proper name, rows without source, date or confidence.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    findings: list[Finding] = []
    rows: list[Row] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        if wrong := _wrong_header(header, f"{path}:1", columns):
            raise SpecError(wrong)
        for values in reader:
            where = f"{path}:{reader.line_num}"
            if not any(value.strip() for value in values):
                continue
            if len(rows) == CATALOG_ROWS.limit:
                findings.append(Finding(where, f"more than {CATALOG_ROWS.limit:,} rows", str(CATALOG_ROWS)))
                break
            if len(values) != len(header):
                findings.append(Finding(where, f"{len(values)} cells", f"{len(header)}, as many as the header has"))
                continue
            cells = {name: value.strip() for name, value in zip(header, values, strict=True) if value.strip()}
            if wrong := list(_wrong_cells(cells, where)):
                findings += wrong
            else:
                model, source, date, confidence = (cells.pop(name) for name in ("model", *CITATION))
                rows.append(Row(model, cells, Source(source, date, confidence, where)))
    except csv.Error as error:
        where = f"{path}:{reader.line_num}"
        findings.append(Finding(where, f"a row that is not CSV ({error})", "comma-separated text"))
    if findings:
        raise SpecError(findings)
    return rows


def _wrong_header(header: list[str], where: str, columns: Sequence[str]) -> list[Finding]:
    known = ["model", *columns, *CITATION]
    if len(header) > 2 * len(known):
        return [Finding(where, f"{len(header):,} columns", f"at most {len(known)}: {', '.join(known)}")]
    findings = [Finding(where, f"the column `{name[:60]}`", "one of " + ", ".join(known), did_you_mean(name, known))
                for name in header if name not in known]  # fmt: skip
    if missing := [name for name in ("model", *CITATION) if name not in header]:
        expected = f"a header with model, {', '.join(CITATION)}"
        findings.append(Finding(where, f"no column {', '.join(missing)}", expected))
    twice = sorted({name for name in header if header.count(name) > 1})
    return findings + [Finding(where, f"the column `{name[:60]}` twice", "each column once") for name in twice]


def _wrong_cells(cells: Mapping[str, str], where: str) -> Iterator[Finding]:
    """Yield what is wrong with the cells of a row whatever they mean, and with its model and citation."""
    for name, value in cells.items():
        if len(value) > CATALOG_CELL.limit or not value.isprintable():
            found = f"{len(value):,} characters" if len(value) > CATALOG_CELL.limit else "control characters"
            yield Finding(f"{where}, column {name}", found, f"at most {CATALOG_CELL.limit} printable characters")
    model, source, date, confidence = (cells.get(name, "") for name in ("model", *CITATION))
    if not MODEL_NAME.fullmatch(model):
        found = f'the model "{model[:60]}"' if model else "no model"
        yield Finding(f"{where}, column model", found, "a name of at most 40 letters, digits, dots and dashes")
    if not source:
        yield Finding(f"{where}, column source", f"no source for {model[:60]}", "where its figures come from")
    if not DATE.fullmatch(date):
        yield Finding(f"{where}, column date", f'"{date[:60]}"', "a date like 2024-08-31 or 2024")
    if confidence not in CONFIDENCE:
        marks = ", ".join(f"{mark} ({meaning})" for mark, meaning in CONFIDENCE.items())
        yield Finding(f"{where}, column confidence", f'"{confidence[:60]}"', f"one of the marks {marks}")
