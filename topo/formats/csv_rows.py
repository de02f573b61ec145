"""CSV tables with a header, each row with its line: the form of catalogs, price lists and published figures."""

from __future__ import annotations

import csv
import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from topo.errors import Finding, SpecError

__all__ = ["Row", "parse_rows"]

MAX_ROWS = 20_000


@dataclass(frozen=True)
class Row:
    """One row of a table; an empty cell is an unknown value."""

    path: str
    line: int
    cells: dict[str, str]

    def __getitem__(self, column: str) -> str:
        return self.cells[column]

    def finding(self, column: str, expected: str, hint: str = "") -> Finding:
        """Return a finding about a cell."""
        return Finding(f"{self.path}:{self.line}: {column}", repr(self[column]), expected, hint)

    def number(self, column: str, findings: list[Finding]) -> float | None:
        """Return a cell as a finite number of at least 0, None when it is empty; anything else becomes a finding."""
        text = self[column]
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and value >= 0):
            findings.append(self.finding(column, "a number, 0 or more, or nothing where it is unknown"))
            return None
        return value


def parse_rows(text: str, path: str, columns: Sequence[str]) -> list[Row]:
    """Parse CSV (RFC 4180) whose header names exactly ``columns``, in any order.

    Raises
    ------
    SpecError
        When the header or a row's number of cells is wrong, a quote is never closed, or there are too many rows.
    """
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    rows: list[Row] = []
    findings: list[Finding] = []
    try:
        header = [name.strip() for name in next(reader, [])]
        _check_header(header, path, columns)
        for cells in reader:
            if len(rows) >= MAX_ROWS:
                findings.append(Finding(f"{path}:{reader.line_num}", "more rows", f"at most {MAX_ROWS:,} rows"))
                break
            if not cells:
                continue
            if len(cells) != len(header):
                findings.append(
                    Finding(f"{path}:{reader.line_num}", f"{len(cells)} cells", f"{len(header)}, as the header has")
                )
                continue
            stripped = dict(zip(header, (cell.strip() for cell in cells), strict=True))
            rows.append(Row(path, reader.line_num, stripped))
    except csv.Error as error:
        findings.append(Finding(f"{path}:{reader.line_num}", f"a row that is no CSV ({error})", "RFC 4180"))
    if findings:
        raise SpecError(findings)
    return rows


def _check_header(header: Sequence[str], path: str, columns: Sequence[str]) -> None:
    findings = []
    for name in header:
        if name not in columns or header.count(name) > 1:
            near = difflib.get_close_matches(name, columns, 1)
            hint = f"Did you mean {near[0]!r}?" if near and name not in columns else ""
            findings.append(Finding(f"{path}:1", f"the column {name!r}", f"once each: {', '.join(columns)}", hint))
    missing = [name for name in columns if name not in header]
    if missing:
        findings.append(Finding(f"{path}:1", f"no column {', '.join(missing)}", f"a header: {','.join(columns)}"))
    if findings:
        raise SpecError(findings)
