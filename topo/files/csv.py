"""CSV that programs read as it was meant and spreadsheets do not compute: every cell is quoted by construction.

Cells are those of RFC 4180, lines end with a line feed. A spreadsheet takes a text that begins with ``=``, ``+``, ``-``
or ``@`` for a formula, and names out of dumps and catalogs are not ours; such a text gets an apostrophe in front of it,
which `plain_text` takes away again. Numbers are left as they are.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable

QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
FORMULA = re.compile(r"'*[=+\-@\t\r].", re.DOTALL)
GUARDED = re.compile(r"''*[=+\-@\t\r].", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?", re.ASCII)


def format_cell(value: object) -> str:
    """Return a value as a cell of CSV; None is empty.

    Examples
    --------
    >>> [format_cell(value) for value in ("leaf, 1", "=1+1", "-3.5", -3.5, None)]
    ['"leaf, 1"', "'=1+1", '-3.5', '-3.5', '']
    """
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if FORMULA.match(value) and not NUMBER.fullmatch(value):
        value = "'" + value
    escaped = value.replace('"', '""')
    return f'"{escaped}"' if QUOTED.search(value) else value


def plain_text(cell: str) -> str:
    """Return the text of which `format_cell` made a cell, once its quotes are gone.

    Examples
    --------
    >>> import topo
    >>> topo.plain_text("'=1+1")
    '=1+1'
    """
    return cell[1:] if GUARDED.match(cell) else cell


def split_row(line: str) -> list[str]:
    """Return the cells of one line of CSV, however spoilt it is.

    Examples
    --------
    >>> from topo.files.csv import split_row
    >>> split_row('"leaf, 1",40')
    ['leaf, 1', '40']
    """
    return next(csv.reader([line.replace("\r", " ")])) if '"' in line else line.split(",")


def format_csv(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a table as CSV.

    Examples
    --------
    >>> import topo
    >>> topo.format_csv(["switch", "links"], [["leaf0", 40], ["=leaf1", 40]])
    "switch,links\nleaf0,40\n'=leaf1,40\n"
    """
    lines = [",".join(map(format_cell, row)) for row in (head, *rows)]
    return "\n".join(lines) + "\n"
