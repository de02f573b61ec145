"""``bom.xlsx``: the bill as a workbook whose formulas live, so that a buyer can change a price, a count or the spares.

Sheets: the bill with its totals, what the parts draw, and, where there is a floor plan, the cables by part and length
and what stands in each rack. What has no price has an empty cell, and its amount stays empty: a gap, never a zero. The
same plan gives the same bytes.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Sequence
from typing import Any

from xlsxwriter import Workbook
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.worksheet import Worksheet

from costmodel.bill import SPARE
from costmodel.power import Power
from costmodel.price import NETWORK, SERVERS, Cost
from topo.room.racks import Layout

CREATED = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""A workbook bears a time; ours must not, or the same plan would give other bytes."""

BILL = ("kind", "item", "place", "count", "price, low", "price, high", "amount, low", "amount, high", "source")
POWER = ("kind", "item", "place", "count", "typical W", "at most W", "typical W, all", "at most W, all", "source")
WIDTHS = (10, 32, 24, 10, 14, 14, 18, 18, 80)
COUNT, LOW, HIGH = 3, 4, 5


def format_bom_xlsx(cost: Cost, power: Power, layout: Layout | None = None) -> bytes:
    """Return the workbook of a bill in one currency, of what it draws, and of the racks."""
    buffer = io.BytesIO()
    # Text that a catalog brings must stay text, whatever it begins with.
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with Workbook(buffer, options) as book:
        book.set_properties({"title": "Bill of materials", "created": CREATED})
        formats = {
            "head": book.add_format({"bold": True, "bottom": 1}),
            "money": book.add_format({"num_format": "#,##0.00"}),
            "count": book.add_format({"num_format": "#,##0"}),
            "total": book.add_format({"bold": True, "num_format": "#,##0.00", "top": 1}),
        }
        _bill_sheet(book.add_worksheet("Bill"), cost, formats)
        _power_sheet(book.add_worksheet("Power"), power, formats)
        _cable_sheet(book.add_worksheet("Cables"), cost, formats)
        if layout is not None:
            _rack_sheet(book.add_worksheet("Racks"), layout, formats)
    return buffer.getvalue()


def _bill_sheet(sheet: Worksheet, cost: Cost, formats: dict[str, Any]) -> None:
    rows = []
    for priced in cost.lines:
        price = priced.unit_price
        source = priced.source or (f"comes with the {priced.included}" if priced.included else "no price known: a gap")
        rows.append((priced.line, price.low if price else None, price.high if price else None, source))
    _table(sheet, BILL, rows, formats)
    last = len(rows)
    sums = [("network", NETWORK, cost.network), ("servers", SERVERS, cost.servers), ("total", (), cost.total)]
    for row, (name, kinds, amount) in enumerate(sums, start=last + 2):
        sheet.write_string(row, 0, name, formats["total"])
        sheet.write_string(row, 1, cost.unit, formats["total"])
        for column, value in ((6, amount.low), (7, amount.high)):
            sheet.write_formula(row, column, _sum(column, last, kinds), formats["total"], value)
    row = last + 2 + len(sums)
    sheet.write_string(row, 0, "gaps", formats["total"])
    sheet.write_string(row, 1, "lines without a price that come with nothing else", formats["total"])
    sheet.write_number(row, COUNT, len(cost.gaps), formats["count"])


def _power_sheet(sheet: Worksheet, power: Power, formats: dict[str, Any]) -> None:
    _table(sheet, POWER, [(row.line, row.typical_w, row.max_w, row.source) for row in power.lines], formats)
    last = len(power.lines)
    most = sum(row.line.count * (row.max_w or 0.0) for row in power.lines)
    sheet.write_string(last + 2, 0, "total", formats["total"])
    for column, value in ((6, power.total_w), (7, most)):
        sheet.write_formula(last + 2, column, _sum(column, last, ()), formats["total"], value)


def _cable_sheet(sheet: Worksheet, cost: Cost, formats: dict[str, Any]) -> None:
    """Write how many of each cable are in use, how many are spare, and their sum as a formula."""
    counts: dict[tuple[str, str], list[int]] = {}
    for line in (priced.line for priced in cost.lines):
        if line.kind in ("cable", "fibre", "optic"):
            counts.setdefault((line.kind, line.item), [0, 0])[line.place == SPARE] += line.count
    _head(sheet, ("kind", "item", "in use", "spare", "to order"), (10, 32, 10, 10, 10), formats)
    for row, ((kind, item), (used, spare)) in enumerate(sorted(counts.items()), start=1):
        sheet.write_string(row, 0, kind)
        sheet.write_string(row, 1, item)
        sheet.write_number(row, 2, used, formats["count"])
        sheet.write_number(row, 3, spare, formats["count"])
        total = f"={xl_rowcol_to_cell(row, 2)}+{xl_rowcol_to_cell(row, 3)}"
        sheet.write_formula(row, 4, total, formats["count"], used + spare)


def _rack_sheet(sheet: Worksheet, layout: Layout, formats: dict[str, Any]) -> None:
    """Write every rack with its devices, the units in use and what it draws."""
    _head(sheet, ("rack", "units in use", "of", "W", "devices, from below"), (10, 14, 8, 12, 120), formats)
    inside: list[list[int]] = [[] for _ in range(layout.n_racks)]
    for device, rack in enumerate(layout.rack.tolist()):
        inside[rack].append(device)
    watts = layout.power_by_rack().tolist()
    for rack, devices in enumerate(inside):
        devices.sort(key=lambda device: int(layout.unit[device]))
        sheet.write_string(rack + 1, 0, layout.rack_name(rack))
        sheet.write_number(rack + 1, 1, sum(layout.devices[device].rack_units for device in devices), formats["count"])
        sheet.write_number(rack + 1, 2, layout.floor.rack_units, formats["count"])
        sheet.write_number(rack + 1, 3, watts[rack], formats["count"])
        shown = ", ".join(f"U{layout.unit[device]} {layout.devices[device].name}" for device in devices)
        sheet.write_string(rack + 1, 4, shown)


def _head(sheet: Worksheet, header: Sequence[str], widths: Sequence[int], formats: dict[str, Any]) -> None:
    for column, (name, width) in enumerate(zip(header, widths, strict=True)):
        sheet.write_string(0, column, name, formats["head"])
        sheet.set_column(column, column, width)
    sheet.freeze_panes(1, 0)


def _table(sheet: Worksheet, header: Sequence[str], rows: Sequence[tuple[Any, ...]], formats: dict[str, Any]) -> None:
    """Write rows of (line, low, high, source), with the amounts as formulas over count and price."""
    _head(sheet, header, WIDTHS, formats)
    for row, (line, low, high, source) in enumerate(rows, start=1):
        for column, text in ((0, line.kind), (1, line.item), (2, line.place), (8, source)):
            sheet.write_string(row, column, text)
        sheet.write_number(row, COUNT, line.count, formats["count"])
        for column, value in ((LOW, low), (HIGH, high)):
            count, cell = xl_rowcol_to_cell(row, COUNT), xl_rowcol_to_cell(row, column)
            if value is None:
                sheet.write_blank(row, column, None, formats["money"])
            else:
                sheet.write_number(row, column, value, formats["money"])
            shown = "" if value is None else line.count * value
            sheet.write_formula(row, column + 2, f'=IF({cell}="","",{count}*{cell})', formats["money"], shown)


def _sum(column: int, last: int, kinds: Sequence[str]) -> str:
    """Return the formula that adds a column, or only its rows of some kinds."""
    first, end = xl_rowcol_to_cell(1, column), xl_rowcol_to_cell(max(last, 1), column)
    if not kinds:
        return f"=SUM({first}:{end})"
    names = f"$A$2:$A${max(last, 1) + 1}"
    return "=" + "+".join(f'SUMIF({names},"{kind}",{first}:{end})' for kind in kinds)
