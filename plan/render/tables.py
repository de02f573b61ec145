"""Renders a `topo.Table` for a terminal and for a workbook, and the list of facts at the top of a result."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plan.render.terminal import printable

if TYPE_CHECKING:
    from rich.text import Text
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

    from topo import Table

VERDICT_COLOURS = {"green": ("proven", "holds:", "as planned", "the cheapest"), "yellow": ("no price",),
           "red": ("REFUSED", "FAILS", "NOT AS PLANNED")}  # fmt: skip
"""Words of verdicts that are coloured on a terminal."""

LONGEST_NAME = 40
"""Characters of a name, which is not wrapped in a column."""

WRAPPED = 30
"""Width of a column of a workbook from which on its text is wrapped."""

LINE_HEIGHT = 15
"""Of a row of a workbook for each line of text, in points; spreadsheets do not find it by themselves."""

A4 = 9
"""Of xlsxwriter's sizes of paper."""

NUMBERS = {",": "#,##0", ",.2f": "#,##0.00"}
"""Formats of Python, and the same in a workbook."""


def text(words: str) -> Text:
    """Return text for a terminal: nothing in it steers the terminal or is read as markup, verdicts are coloured."""
    from rich.text import Text

    found = Text(printable(words))
    for colour, verdicts in VERDICT_COLOURS.items():
        found.highlight_words(verdicts, colour)
    return found


def print_text(words: str, *, wrap: bool = True) -> None:
    """Print a line; one that is not wrapped can be searched and copied whole."""
    from plan.render.terminal import console

    console().print(text(words), soft_wrap=not wrap)


def show_table(table: Table, name: str = "", hide: Sequence[str] = ()) -> None:
    """Print a table: numbers to the right, units behind the headings, ``name`` before its title.

    Columns of the names in ``hide`` are too long for a terminal.
    """
    from rich.table import Table as TerminalTable

    from plan.render.terminal import console

    title = text(f"{name}, {table.title}" if name else table.title)
    shown = TerminalTable(title=title, title_justify="left", title_style="bold")
    columns = [column for column in table.columns if column.name not in hide]
    for column in columns:
        longest = max((len(column.text(row)) for row in range(len(table))), default=0)
        justify: Literal["left", "right"] = "right" if column.is_number else "left"
        shown.add_column(column.heading, justify=justify, no_wrap=justify == "left" and longest <= LONGEST_NAME)
    for row in range(len(table)):
        shown.add_row(*(text(column.text(row)) for column in columns))
    console().print(shown)


def show_facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print names with what there is to say of each, as the top of a result."""
    from rich.table import Table as TerminalTable

    from plan.render.terminal import console

    shown = TerminalTable(title=text(title), show_header=False, title_justify="left", title_style="bold")
    shown.add_column(style="dim")
    shown.add_column()
    for name, words in rows:
        shown.add_row(text(name), text(words))
    console().print(shown)


class Formula(NamedTuple):
    """A cell of a workbook that computes its value."""

    formula: str
    value: Any
    """What it gives, for readers that do not compute."""


def add_sheet(
    book: Workbook, name: str, table: Table, widths: Sequence[int] = (), *, title: str = "", line: bool = True
) -> Worksheet:
    """Add a table to a workbook as a sheet, numbers as numbers and text as text, whatever the text begins with.

    It can be filtered by its header, which stays in sight and stands on each printed page, where ``title`` stands
    before the name. ``widths`` of the columns are in characters, as the text needs when left out; text is wrapped in
    those of `WRAPPED` or more. ``line`` says whether there is a line below the header.
    """
    sheet = book.add_worksheet(name)
    top = {"valign": "top"}
    plain, wrapped = book.add_format(top), book.add_format(top | {"text_wrap": True, "align": "left", "indent": 1})
    formats = {digits: book.add_format(top | {"num_format": number}) for digits, number in NUMBERS.items()}
    for place, column in enumerate(table.columns):
        right = {"align": "right"} if column.digits else {}
        head = book.add_format({"bold": True, "text_wrap": True, "bottom": int(line)} | right)
        sheet.write_string(0, place, column.heading, head)
    narrow = [width - 1 if width >= WRAPPED else 0 for width in widths] or [0] * len(table.columns)
    for row, cells in enumerate(zip(*(column.values for column in table.columns), strict=True), start=1):
        lines = 1
        for place, value in enumerate(cells):
            form = formats.get(table.columns[place].digits, plain)
            if value is None:
                sheet.write_blank(row, place, None, form)
            elif isinstance(value, Formula):
                sheet.write_formula(row, place, value.formula, form, value.value)
            elif isinstance(value, str):
                sheet.write_string(row, place, value, wrapped if narrow[place] else plain)
                lines = max(lines, len(textwrap.wrap(value, narrow[place])) if narrow[place] else 1)
            else:
                sheet.write_number(row, place, value, form)
        if lines > 1:
            sheet.set_row(row, LINE_HEIGHT * lines)
    for place, width in enumerate(widths):
        sheet.set_column(place, place, width)
    if not widths:
        sheet.autofit()
    sheet.freeze_panes(1, 0)
    if table.columns:
        sheet.autofilter(0, 0, max(len(table), 1), len(table.columns) - 1)
    sheet.repeat_rows(0)
    print_fitted(sheet, f"{title}: {name}" if title else name)
    return sheet


def print_fitted(sheet: Worksheet, title: str) -> None:
    """Let a sheet be printed on A4, landscape, as wide as a page, with its title and the number of the page."""
    sheet.set_landscape()
    sheet.set_paper(A4)
    sheet.set_margins(left=0.4, right=0.4, top=0.7, bottom=0.6)
    sheet.fit_to_pages(1, 0)
    sheet.set_header(f"&L&B{printable(title)[:100].replace('&', '&&')}")
    sheet.set_footer("&L&D&RPage &P of &N")
