"""``bom.csv`` and ``bom.xlsx``: the bill of materials, a line a part, each price with its source.

The workbook's formulas live, so that a buyer can change a price, a count or the spares. Sheets: the bill with its
totals, what the parts draw, the cables by part and length and, where there is a floor plan, what stands in each rack.
What has no price has an empty cell, and its amount stays empty: a gap, never a zero. The same plan gives the same
bytes.
"""

from __future__ import annotations

import csv
import datetime
import io
from collections.abc import Sequence
from typing import Any

from xlsxwriter import Workbook
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.worksheet import Worksheet

from costmodel import NETWORK, SERVERS, SPARE, Cost, Line, Power
from plan.render.tables import Formula, add_sheet
from topo import Column, Layout, Table

CSV = ("kind", "item", "place", "count", "unit", "unit_price_low", "unit_price_high", "low", "high", "source")
CREATED = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""A workbook bears a time; ours must not, or the same plan would give other bytes."""

BILL = ("kind", "item", "place", "count", "price, low", "price, high", "amount, low", "amount, high", "source")
POWER = ("kind", "item", "place", "count", "typical W", "at most W", "typical W, all", "at most W, all", "source")
WIDTHS = (10, 32, 24, 10, 14, 14, 18, 18, 80)
DIGITS = ("", "", "", ",", ",.2f", ",.2f", ",.2f", ",.2f", "")


def format_bom_csv(cost: Cost) -> str:
    """Return the bill as CSV. What has no price has none here: an empty cell is a gap, never a zero."""
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(CSV)
    for priced in cost.lines:
        line, price, amount = priced.line, priced.unit_price, priced.amount
        source = priced.source or (f"comes with the {priced.included}" if priced.included else "no price known")
        prices = (
            ("", "", "", "") if price is None or amount is None else (price.low, price.high, amount.low, amount.high)
        )
        write((line.kind, line.item, line.place, line.count, cost.unit, *prices, source))
    return out.getvalue()


def format_bom_xlsx(cost: Cost, power: Power, layout: Layout | None = None) -> bytes:
    """Return the workbook of a bill in one currency, of what it draws, and of the racks."""
    buffer = io.BytesIO()
    with Workbook(buffer, {"in_memory": True}) as book:
        book.set_properties({"title": "Bill of materials", "created": CREATED})
        total = book.add_format({"bold": True, "num_format": "#,##0.00", "top": 1})
        _add_bill(book, cost, total)
        _add_power(book, power, total)
        add_sheet(book, "Cables", _cables(cost), (10, 32, 10, 10, 10))
        if layout is not None:
            add_sheet(book, "Racks", _racks(layout), (10, 14, 8, 12, 120))
    return buffer.getvalue()


def _add_bill(book: Workbook, cost: Cost, total: Any) -> None:
    rows = []
    for priced in cost.lines:
        price = priced.unit_price
        source = priced.source or (f"comes with the {priced.included}" if priced.included else "no price known: a gap")
        rows.append((priced.line, price.low if price else None, price.high if price else None, source))
    sheet = add_sheet(book, "Bill", _computed("Bill", BILL, rows), WIDTHS)
    last = len(rows)
    sums = [("network", NETWORK, cost.network), ("servers", SERVERS, cost.servers), ("total", (), cost.total)]
    for row, (name, kinds, amount) in enumerate(sums, start=last + 2):
        _add_total(sheet, row, (name, cost.unit), last, (amount.low, amount.high), total, kinds)
    row = last + 2 + len(sums)
    sheet.write_string(row, 0, "gaps", total)
    sheet.write_string(row, 1, "lines without a price that come with nothing else", total)
    sheet.write_number(row, 3, len(cost.gaps), book.add_format({"num_format": "#,##0"}))


def _add_power(book: Workbook, power: Power, total: Any) -> None:
    rows = [(row.line, row.typical_w, row.max_w, row.source) for row in power.lines]
    sheet = add_sheet(book, "Power", _computed("Power", POWER, rows), WIDTHS)
    most = sum(row.line.count * (row.max_w or 0.0) for row in power.lines)
    _add_total(sheet, len(rows) + 2, ("total",), len(rows), (power.total_w, most), total)


def _computed(title: str, names: Sequence[str], rows: Sequence[tuple[Line, Any, Any, str]]) -> Table:
    """Return rows of (line, low, high, source) with their amounts as formulas over the count and both figures."""
    cells = []
    for row, (line, low, high, source) in enumerate(rows, start=1):
        count = xl_rowcol_to_cell(row, 3)
        amounts = []
        for place, value in ((4, low), (5, high)):
            cell = xl_rowcol_to_cell(row, place)
            amounts.append(Formula(f'=IF({cell}="","",{count}*{cell})', "" if value is None else line.count * value))
        cells.append((line.kind, line.item, line.place, line.count, low, high, *amounts, source))
    return _table(title, names, cells, DIGITS)


def _cables(cost: Cost) -> Table:
    """Return how many of each cable are in use, how many are spare, and their sum as a formula."""
    counts: dict[tuple[str, str], list[int]] = {}
    for line in (priced.line for priced in cost.lines):
        if line.kind in ("cable", "fibre", "optic"):
            counts.setdefault((line.kind, line.item), [0, 0])[line.place == SPARE] += line.count
    cells = []
    for row, (names, (used, spare)) in enumerate(sorted(counts.items()), start=1):
        total = Formula(f"={xl_rowcol_to_cell(row, 2)}+{xl_rowcol_to_cell(row, 3)}", used + spare)
        cells.append((*names, used, spare, total))
    return _table("Cables", ("kind", "item", "in use", "spare", "to order"), cells, ("", "", ",", ",", ","))


def _racks(layout: Layout) -> Table:
    """Return every rack with its devices, the units in use and what it draws."""
    inside: list[list[int]] = [[] for _ in range(layout.n_racks)]
    for device, rack in enumerate(layout.rack.tolist()):
        inside[rack].append(device)
    cells = []
    for rack, (devices, watts) in enumerate(zip(inside, layout.power_by_rack().tolist(), strict=True)):
        devices.sort(key=lambda device: int(layout.unit[device]))
        used = sum(layout.devices[device].rack_units for device in devices)
        shown = ", ".join(f"U{layout.unit[device]} {layout.devices[device].name}" for device in devices)
        cells.append((layout.rack_name(rack), used, layout.floor.rack_units, watts, shown))
    names = ("rack", "units in use", "of", "W", "devices, from below")
    return _table("Racks", names, cells, ("", ",", ",", ",", ""))


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]], digits: Sequence[str]) -> Table:
    values = list(zip(*rows, strict=True)) or [()] * len(names)
    return Table(title, tuple(Column(*column) for column in zip(names, values, [""] * len(names), digits, strict=True)))


def _add_total(
    sheet: Worksheet,
    row: int,
    names: Sequence[str],
    last: int,
    sums: tuple[float, float],
    form: Any,
    kinds: Sequence[str] = (),
) -> None:
    for place, name in enumerate(names):
        sheet.write_string(row, place, name, form)
    for place, value in zip((6, 7), sums, strict=True):
        sheet.write_formula(row, place, _sum(place, last, kinds), form, value)


def _sum(column: int, last: int, kinds: Sequence[str]) -> str:
    """Return the formula that adds a column, or only its rows of some kinds."""
    first, end = xl_rowcol_to_cell(1, column), xl_rowcol_to_cell(max(last, 1), column)
    if not kinds:
        return f"=SUM({first}:{end})"
    names = f"$A$2:$A${max(last, 1) + 1}"
    return "=" + "+".join(f'SUMIF({names},"{kind}",{first}:{end})' for kind in kinds)
