"""Workbooks (``.xlsx``) as lines of CSV, one sheet behind another: planned cabling comes as these.

A workbook is a zip of XML. What its parts unpack to is bounded before anything is unpacked, and each cell is read as a
value: nothing is computed, and nothing outside of the file is asked for.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from topo.budget import TEXT_LINE, WORKBOOK_BYTES, WORKBOOK_COLUMNS, WORKBOOK_PARTS, WORKBOOK_ROWS, Stopwatch
from topo.errors import FormatError
from topo.files.csv import format_cell
from topo.files.text import open_input

SUFFIX = ".xlsx"


def read_workbook(path: str | Path) -> Iterator[str]:
    """Yield the rows of all sheets as lines of CSV; empty ones too, so that lines have the numbers of the first sheet.

    Raises
    ------
    FormatError
        When the file is no workbook, is damaged, or exceeds a budget of workbooks.
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
                        line = ",".join(map(_cell, cells))
                        if len(line) > TEXT_LINE.limit:
                            raise TEXT_LINE.exceeded(shown, total)
                        yield line
        except (FormatError, MemoryError):
            raise
        except Exception as error:  # the library raises whatever it stumbles over in a damaged file
            reason = f"{type(error).__name__}: {error}"[:200]
            raise FormatError(
                f"is no workbook that can be read ({reason}); save it as .xlsx or as CSV", shown
            ) from None


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return format_cell(" ".join(value.split()) if isinstance(value, str) else value)
