"""Renders a `topo.Table` for a terminal and for a workbook, and the list of facts at the top of a result."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from plan.render.terminal import console, printable

if TYPE_CHECKING:
    from rich.text import Text
    from xlsxwriter import Workbook
    from xlsxwriter.worksheet import Worksheet

    from topo import Column, Table

VERDICT_COLOURS = {"green": ("proven", "holds:", "as planned", "the cheapest"), "yellow": ("no price",),
           "red": ("REFUSED", "FAILS", "NOT AS PLANNED")}  # fmt: skip
"""Words of verdicts that are coloured on a terminal."""

LONGEST_NAME = 40
"""Characters of a name; what is longer is a sentence."""

MOST_LINES = 2
"""Lines of a sentence in a column; one that needs more stands below its table."""

NARROWEST = 12
"""Characters to which a column of text is narrowed: two words of usual length."""

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
    console().print(text(words), soft_wrap=not wrap)


def show_table(table: Table, name: str = "", hide: Sequence[str] = ()) -> None:
    """Print a table: numbers to the right, units behind the headings, ``name`` before its title.

    What is wider than the terminal is wrapped between words, and no word or figure is cut: see `_widths`. The sentences
    of a single column stand below the table where they would be wrapped too often; a table that is still too wide is
    printed row by row. Columns of the names in ``hide`` are too long for a terminal.
    """
    from rich import box
    from rich.table import Table as TerminalTable

    title, screen = text(f"{name}, {table.title}" if name else table.title), console()
    columns = [column for column in table.columns if column.name not in hide]
    cells = [[printable(column.text(row)) for row in range(len(table))] for column in columns]
    below: list[int] = []
    edges, widths = _widths(columns, cells, screen.width)
    sentences = [at for at in range(1, len(columns)) if max(map(len, cells[at]), default=0) > LONGEST_NAME]
    if len(sentences) == 1:
        (at,) = sentences
        if widths is None or max(map(len, cells[at])) > MOST_LINES * widths[at]:
            below, kept = sentences, [other for other in range(len(columns)) if other != at]
            edges, fitting = _widths([columns[o] for o in kept], [cells[o] for o in kept], screen.width)
            widths = fitting and dict(zip(kept, fitting.values(), strict=True))
    if widths is None:
        screen.print(title)
        for row in range(len(table)):
            first, *others = ((column.heading, column.text(row)) for column in columns)
            show_facts(" ".join(first), others)
        return
    shown = TerminalTable(
        title=title, title_justify="left", title_style="bold", box=box.HEAVY_HEAD if edges else box.SIMPLE_HEAD,
        pad_edge=edges, show_edge=edges, padding=(0, 1) if edges else (0, 1, 0, 0),
    )  # fmt: skip
    for at, width in widths.items():
        justify: Literal["left", "right"] = "right" if columns[at].is_number else "left"
        shown.add_column(columns[at].heading, justify=justify, width=width, overflow="fold")
    for row in range(len(table)):
        shown.add_row(*(text(cells[at][row]) for at in widths))
    screen.print(shown)
    for at in below:
        for row in range(len(table)):
            if cells[at][row]:
                screen.print(text(f"{cells[0][row]}: {columns[at].heading}: {cells[at][row]}"))


def show_tables(*results: Any) -> None:
    """Print tables, or those of results, but for None."""
    for result in results:
        if result is not None:
            show_table(getattr(result, "table", result))


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], width: int
) -> tuple[bool, dict[int, int] | None]:
    """Return whether a table has lines between its columns, and the width of each; None where it does not fit.

    A column is as wide as its text, else at least as its longest word, and as `NARROWEST` where the text is longer.
    Numbers are not wrapped. What is wrapped most gets the room that is left; where there is none, there are no lines.
    """
    if not columns:
        return True, {}
    words = [max((len(word) for word in column.heading.split()), default=0) for column in columns]
    most = [max([len(column.heading), *map(len, mine)]) for column, mine in zip(columns, cells, strict=True)]
    least = [
        max([word, *map(len, mine)] if column.is_number else [
            word, *(len(part) for cell in mine for part in cell.split()), min(max(map(len, mine), default=0), NARROWEST)
        ])
        for column, mine, word in zip(columns, cells, words, strict=True)
    ]  # fmt: skip
    for edges in (True, False):
        room = width - (3 * len(columns) + 1 if edges else 2 * (len(columns) - 1))
        if sum(least) <= room:
            found = list(least)
            for _ in range(min(room, sum(most)) - sum(least)):
                found[max(range(len(found)), key=lambda at: most[at] / max(found[at], 1))] += 1
            return edges, dict(enumerate(found))
    return True, None


def show_facts(title: str, rows: Iterable[tuple[str, str]]) -> None:
    """Print names with what there is to say of each, as the top of a result."""
    from rich.table import Table as TerminalTable

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
    sheet.set_landscape()
    sheet.set_paper(A4)
    sheet.set_margins(left=0.4, right=0.4, top=0.7, bottom=0.6)
    sheet.fit_to_pages(1, 0)
    printed = printable(f"{title}: {name}" if title else name)[:100]
    sheet.set_header(f"&L&B{printed.replace('&', '&&')}")
    sheet.set_footer("&L&D&RPage &P of &N")
    return sheet
