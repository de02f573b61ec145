"""``bom.csv`` and ``bom.xlsx``: the bill of materials, a line a part, each price with its source.

The workbook's formulas live, so that a buyer can change a price, a count or the spares. Sheets: a summary, the bill
with its totals, what the parts draw, the cables by part and length and, where there is a floor plan, what stands in
each rack.
What has no price has an empty cell, and its amount stays empty: a gap, never a zero. A total says "at least" as long as
a line of it has a gap, and "unknown" while all have. The same plan gives the same bytes.
"""

from __future__ import annotations

import datetime
import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from xlsxwriter import Workbook
from xlsxwriter.utility import xl_rowcol_to_cell
from xlsxwriter.worksheet import Worksheet

from costmodel import SPARE, SUMS, Cost, Line, Power
from plan.export.base import Export
from plan.pipeline import DESIGN, Plan
from plan.render.tables import Formula, add_sheet
from topo import Catalog, Layout, Sum, Table, format_csv

CSV = ("kind", "item", "place", "count", "unit", "unit_price_low", "unit_price_high", "low", "high", "source")
CREATED = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""A workbook bears a time; ours must not, or the same plan would give other bytes."""

PART = ("kind", "item", "description", "place", "count")
COUNT, LOW, HIGH, AMOUNTS, SOURCE = 4, 5, 6, (7, 8), 9
"""Places of the columns that formulas name."""
BILL = (*PART, "price, low", "price, high", "amount, low", "amount, high", "source")
POWER = (*PART, "typical W", "in the maximum, W", "typical W, all", "in the maximum, W, all", "source")
PARTS = {"switch": "switches", "node": "servers", "rack": "racks and what belongs to them"}
"""What kinds of parts are called in the summary, where an s is not all that is added."""
WIDTHS = (9, 21, 42, 18, 8, 12, 12, 15, 15, 46)
DIGITS = ("", "", "", "", ",", ",.2f", ",.2f", ",.2f", ",.2f", "")


def format_bom_csv(cost: Cost) -> str:
    """Return the bill as CSV. What has no price has none here: an empty cell is a gap, never a zero."""
    rows = []
    for priced in cost.lines:
        line, price, amount = priced.line, priced.unit_price, priced.amount
        known = (price.low, price.high, amount.low, amount.high) if price and amount else ()
        figures = tuple(round(each, 6) for each in known) or ("",) * 4
        rows.append((line.kind, line.item, line.place, line.count, cost.unit, *figures, priced.origin))
    return format_csv(CSV, rows)


def format_bom_xlsx(name: str, catalog: Catalog, cost: Cost, power: Power, layout: Layout | None = None) -> bytes:
    """Return the workbook of a cluster's bill in one currency, of what it draws, and of the racks."""
    buffer = io.BytesIO()
    with Workbook(buffer, {"in_memory": True}) as book:
        book.set_properties({"title": f"{name}: bill of materials", "created": CREATED})
        total = book.add_format({"bold": True, "num_format": "#,##0.00", "top": 1})
        add_sheet(book, "Summary", _summary(name, cost, power, layout), (30, 10, 10, 16, 16, 46), title=name)
        _add_bill(book, name, catalog, cost, total)
        _add_power(book, name, catalog, power, total)
        add_sheet(book, "Cables", _cables(catalog, cost), (10, 24, 46, 10, 10, 10, 10), title=name)
        if layout is not None:
            add_sheet(book, "Racks", _racks(layout), (10, 14, 8, 10, 12, 110), title=name)
    return buffer.getvalue()


def _totals(cost: Cost) -> list[tuple[str, Sequence[Any], Sum]]:
    """Return the sums below a bill: name, kinds of parts (all without any), amount."""
    return [(name, () if name == "total" else kinds, cost.of(*kinds)) for name, kinds in SUMS.items()]


def _summary(name: str, cost: Cost, power: Power, layout: Layout | None) -> Table:
    """Return what a person asks first: what it costs and draws, how many parts to order, what has no price."""

    def linked(sheet: str, row: int, column: int, value: Any) -> Formula:
        return Formula(f"={sheet}!{xl_rowcol_to_cell(row, column)}", value)

    rows: list[tuple[Any, ...]] = []
    for row, (what, kinds, amount) in enumerate(_totals(cost), start=len(cost.lines) + 2):
        known, least = amount.bounds, "at least" if amount.missing else ""
        priced, pieces = cost.priced(*kinds)
        note = f"{priced:,} of {pieces:,} parts have a price" if amount.missing else ""
        values = ("unknown", "unknown") if known is None else known
        ends = [linked("Bill", row, place, value) for place, value in zip(AMOUNTS, values, strict=True)]
        rows.append((what, cost.unit, linked("Bill", row, LOW, least), *ends, note))
    for what, watts, place in (("typical", power.total_w, 0), ("maximum", power.planned_w, 1)):
        row, least = len(power.lines) + 2, "at least" if watts.missing else ""
        drawn = "unknown" if watts.bounds is None else watts.bounds[0]
        cells = linked("Power", row, (LOW, HIGH)[place], least), linked("Power", row, AMOUNTS[place], drawn)
        rows.append((f"{what} power", "W", *cells, None, ""))
    counts, last = Counter[str](), len(cost.lines)
    for part in cost.lines:
        counts[part.line.kind] += 0 if part.included else part.line.count
    for kind, count in counts.items():
        number = (
            f'=SUMPRODUCT(({_rows(0, last, "Bill!")}="{kind}")*{_apart(last, "Bill!")}*{_rows(COUNT, last, "Bill!")})'
        )
        rows.append((PARTS.get(kind, f"{kind}s"), "", None, Formula(number, count), None, "to order, with spares"))
    if layout is not None:
        rows.append(("racks in use", "", None, layout.n_racks, None, ""))
    rows += [("unknown", "", None, None, None, gap) for gap in cost.gaps]
    names = (name, "unit", "how sure", "amount", "up to", "note")
    return Table.of_rows("Summary", names, rows, ("", "", "", ",", ",", ""))


def _add_bill(book: Workbook, name: str, catalog: Catalog, cost: Cost, total: Any) -> None:
    priced = [(one.line, one.unit_price, one.origin) for one in cost.lines]
    rows = [(line, price and price.low, price and price.high, source) for line, price, source in priced]
    sheet = add_sheet(book, "Bill", _computed("Bill", BILL, catalog, rows), WIDTHS, title=name)
    last = len(rows)
    for row, (what, kinds, amount) in enumerate(_totals(cost), start=last + 2):
        figures = amount.bounds or (None, None)
        _add_total(sheet, row, (what, cost.unit), last, figures, [len(amount.missing)] * 2, total, kinds)


def _add_power(book: Workbook, name: str, catalog: Catalog, power: Power, total: Any) -> None:
    rows = [(row.line, row.typical_w, row.most_w, row.source) for row in power.lines]
    sheet = add_sheet(book, "Power", _computed("Power", POWER, catalog, rows), WIDTHS, title=name)
    totals = (power.total_w, power.planned_w)
    sums = [None if each.bounds is None else each.bounds[0] for each in totals]
    gaps = [len(each.missing) for each in totals]
    _add_total(sheet, len(rows) + 2, ("total",), len(rows), sums, gaps, total, at_least=True)


def _computed(title: str, names: Sequence[str], catalog: Catalog, rows: Sequence[tuple[Line, Any, Any, str]]) -> Table:
    """Return rows of (line, low, high, source) with their amounts as formulas over the count and both figures."""
    cells = []
    for row, (line, low, high, source) in enumerate(rows, start=1):
        count = xl_rowcol_to_cell(row, COUNT)
        amounts = []
        for place, value in ((LOW, low), (HIGH, high)):
            cell = xl_rowcol_to_cell(row, place)
            amounts.append(Formula(f'=IF({cell}="","",{count}*{cell})', "" if value is None else line.count * value))
        about = catalog.describe(line.item)
        cells.append((line.kind, line.item, about, line.place, line.count, low, high, *amounts, source))
    return Table.of_rows(title, names, cells, DIGITS)


def _cables(catalog: Catalog, cost: Cost) -> Table:
    """Return how many of each cable are in use, how many are spare, and their sum as a formula."""
    counts: dict[tuple[str, str], list[int]] = {}
    for line in (priced.line for priced in cost.lines):
        if line.kind in ("cable", "fibre", "optic"):
            counts.setdefault((line.kind, line.item), [0, 0])[line.place == SPARE] += line.count
    cells = []
    for row, ((kind, item), (used, spare)) in enumerate(sorted(counts.items()), start=1):
        total = Formula(f"={xl_rowcol_to_cell(row, 4)}+{xl_rowcol_to_cell(row, 5)}", used + spare)
        length = catalog.cables[item].length_m if item in catalog.cables else None
        cells.append((kind, item, catalog.describe(item), length, used, spare, total))
    names = ("kind", "item", "description", "length, m", "in use", "spare", "to order")
    return Table.of_rows("Cables", names, cells, ("", "", "", "", ",", ",", ","))


def _racks(layout: Layout) -> Table:
    cells = []
    for rack, (devices, watts) in enumerate(zip(layout.inside, layout.power_by_rack(), strict=True)):
        used = sum(layout.devices[device].rack_units for device in devices)
        held = ((layout.unit[device], layout.devices[device]) for device in devices)  # a PDU is at no unit
        shown = ", ".join(f"U{unit} {device.name}" if device.rack_units else device.name for unit, device in held)
        known = watts.known and watts.known.low
        least = "at least" if watts.missing else None
        cells.append((layout.rack_name(rack), used, layout.floor.rack_units, least, known, shown))
    names = ("rack", "units in use", "of", "power", "W", "devices, from below")
    return Table.of_rows("Racks", names, cells, ("", ",", ",", "", ",", ""))


def _add_total(
    sheet: Worksheet,
    row: int,
    names: Sequence[str],
    last: int,
    sums: Sequence[float | None],
    gaps: Sequence[int],
    form: Any,
    kinds: Sequence[str] = (),
    *,
    at_least: bool = False,
) -> None:
    """Add a row with the sums of both amounts; before it stands "at least" where a line is unknown.

    A sum is "unknown" where half of the switches or of the servers in it or more are (`costmodel.parts.add_up`).
    With ``at_least`` a line of unknown second amount counts its first: a part draws no less at most than typically.
    """
    for place, name in enumerate(names):
        sheet.write_string(row, place, name, form)
    for place, value, missing in zip(AMOUNTS, sums, gaps, strict=True):
        found, unknown = _sum(place, last, kinds), _gaps(place - 2, last, kinds)
        gap = f'({_rows(place - 2, last)}="")'
        if at_least and place == AMOUNTS[1]:
            gap += f'*({_rows(LOW, last)}="")'
            found = f'({found}+SUMPRODUCT(({_rows(place, last)}="")*1,{_rows(AMOUNTS[0], last)}))'
        sheet.write_formula(row, place - 2, f'=IF({unknown}>0,"at least","")', form, "at least" if missing else "")
        shown = "unknown" if value is None else value
        mostly = "".join(f",{_mostly(kind, gap, last)}" for kind in ("switch", "node") if not kinds or kind in kinds)
        sheet.write_formula(row, place, f'=IF(OR(AND({unknown}>0,{found}=0){mostly}),"unknown",{found})', form, shown)


def _sum(column: int, last: int, kinds: Sequence[str]) -> str:
    """Return the formula that adds a column, or only its rows of some kinds."""
    rows = _rows(column, last)
    if not kinds:
        return f"SUM({rows})"
    return "(" + "+".join(f'SUMIF({_rows(0, last)},"{kind}",{rows})' for kind in kinds) + ")"


def _mostly(kind: str, gap: str, last: int) -> str:
    """Return the formula that tells whether half of the pieces of a kind or more have a gap."""
    mine, counts = f'({_rows(0, last)}="{kind}")', _rows(COUNT, last)
    pieces, lacking = f"SUMPRODUCT({mine}*{counts})", f"SUMPRODUCT({mine}*{gap}*{counts})"
    return f"AND({pieces}>0,{pieces}<=2*{lacking})"


def _gaps(column: int, last: int, kinds: Sequence[str]) -> str:
    """Return the formula that counts the empty cells of a column, of some kinds; what comes with others is no gap."""
    of_kinds = "+".join(f'({_rows(0, last)}="{kind}")' for kind in kinds) or "1"
    return f'SUMPRODUCT(({_rows(column, last)}="")*{_apart(last)}*({of_kinds}))'


def _apart(last: int, sheet: str = "") -> str:
    """Return the formula that tells which lines do not come with others."""
    return f'(LEFT({_rows(SOURCE, last, sheet)},5)<>"comes")'


def _rows(column: int, last: int, sheet: str = "") -> str:
    first, end = (xl_rowcol_to_cell(row, column, col_abs=True) for row in (1, max(last, 1)))
    return f"{sheet}{first}:{end}"


def _bom_csv(plan: Plan, subnet: int) -> str:
    assert plan.quote is not None
    return format_bom_csv(plan.quote.cost)


def _bom_xlsx(plan: Plan, subnet: int) -> bytes:
    assert plan.quote is not None
    return format_bom_xlsx(plan.name, plan.planned.catalog, plan.quote.cost, plan.quote.power, plan.layout)


BOM_CSV = Export("bom-csv", "the bill of materials, each price with its source", "any reader of CSV (RFC 4180)",
                 DESIGN, {"bom.csv": _bom_csv})  # fmt: skip
BOM_XLSX = Export("bom-xlsx", "the bill as a workbook with formulas, power, cables, racks",
                  "spreadsheets that read Office Open XML (ISO/IEC 29500)",
                  DESIGN,
                  {"bom.xlsx": _bom_xlsx})  # fmt: skip
