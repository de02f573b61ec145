"""CSV that programs read as it was meant and spreadsheets do not compute; workbooks as lines of CSV.

Cells are those of RFC 4180, lines end with a line feed. A spreadsheet takes a text that begins with ``=``, ``+``, ``-``
or ``@`` for a formula, and names out of dumps and catalogs are not ours: an apostrophe goes in front of such a text,
which `plain_text` takes away again. A workbook (``.xlsx``) is a zip of XML: the unpacked size of its parts is bounded
before anything is unpacked, nothing is computed, and nothing outside of the file is read.
"""

from __future__ import annotations

import csv
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from topo.budget import TEXT_LINE, WORKBOOK_BYTES, WORKBOOK_COLUMNS, WORKBOOK_PARTS, WORKBOOK_ROWS, Stopwatch
from topo.errors import FormatError
from topo.files.text import open_input

QUOTED = re.compile(r'[",\r\n]|^\s|\s$')
FORMULA = re.compile(r"'*[=+\-@\t\r].", re.DOTALL)
GUARDED = re.compile(r"''*[=+\-@\t\r].", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d[\d.,]*(?:[eE][-+]?\d+)?", re.ASCII)


def format_cell(value: object) -> str:
    """Return a value as a cell of CSV; None is empty.

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
    return "".join(",".join(map(format_cell, row)) + "\n" for row in (head, *rows))


SUFFIX = ".xlsx"


def read_workbook(path: str | Path) -> Iterator[str]:
    """Yield the rows of all sheets as lines of CSV; empty ones too, so that lines have the numbers of the first sheet.

    FormatError for what is no workbook, is damaged, or exceeds a budget of workbooks.
    """
    import openpyxl  # type: ignore[import-untyped]

    shown, total, watch = str(path), 0, Stopwatch(str(path))
    with open_input(path, pipes=False) as file:
        try:
            with zipfile.ZipFile(file) as packed:
                parts = packed.infolist()
            if len(parts) > WORKBOOK_PARTS.limit:
                raise WORKBOOK_PARTS.exceeded(shown)
            if sum(part.file_size for part in parts) > WORKBOOK_BYTES.limit:
                raise WORKBOOK_BYTES.exceeded(shown)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of styles that are missing, for instance
                book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
                for sheet in book.worksheets:
                    sheet.reset_dimensions()  # which the file states, and which may be anything
                    for row in sheet.iter_rows(max_col=WORKBOOK_COLUMNS.limit, values_only=True):
                        total += 1
                        watch.look()
                        if total > WORKBOOK_ROWS.limit:
                            raise WORKBOOK_ROWS.exceeded(shown)
                        cells = list(row)
                        while cells and cells[-1] is None:
                            cells.pop()
                        line = ",".join(map(_workbook_cell, cells))
                        if len(line) > TEXT_LINE.limit:
                            raise TEXT_LINE.exceeded(shown, total)
                        yield line
        except (FormatError, MemoryError):
            raise
        except Exception as error:  # the library raises whatever it stumbles over in a damaged file
            reason = f"is no workbook that can be read ({f'{type(error).__name__}: {error}'[:200]})"
            raise FormatError(f"{reason}; save it as .xlsx or as CSV", shown) from None


def _workbook_cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return format_cell(" ".join(value.split()) if isinstance(value, str) else value)
