import io
import re
from collections import Counter
from typing import Any

import openpyxl
import pytest
from openpyxl.worksheet.worksheet import Worksheet

from costmodel.bills import Bill, make_bill
from costmodel.parts import Line
from helpers.clusters import CATALOG, tree, zoned
from plan.export.bom import format_bom_xlsx
from topo.cluster_spec import Spares
from topo.fabric import Fabric
from topo.floor.cables import choose_cables
from topo.floor.racks import FloorPlan, place_devices


def bill_of(fabric: Fabric) -> Bill:
    layout = place_devices([fabric], CATALOG, FloorPlan())
    return make_bill([fabric], CATALOG, layout, choose_cables([fabric], layout, CATALOG))


def workbook(bill: Bill, unit: str = "USD") -> bytes:
    return format_bom_xlsx("some", CATALOG, bill.price(unit), bill.power)


def sheet(data: bytes, name: str, *, values: bool = False) -> Worksheet:
    return openpyxl.load_workbook(io.BytesIO(data), data_only=values)[name]


def recalculate(sheet: Worksheet) -> dict[str, Any]:
    """Evaluate the amounts and totals as a spreadsheet would: the forms of formula that we write."""
    cell = {item.coordinate: item.value for row in sheet.iter_rows() for item in row}
    result: dict[str, Any] = {}

    def span(text: str) -> list[str]:
        column, first, last = re.fullmatch(r"\$?([A-Z])\$?(\d+):\$?[A-Z]\$?(\d+)", text).groups()  # type: ignore[union-attr]
        return [f"{column}{row}" for row in range(int(first), int(last) + 1)]

    for where, value in cell.items():
        if amount := re.fullmatch(r'=IF\((\w+)="","",(\w+)\*\1\)', str(value)):
            price, count = cell[amount[1]], cell[amount[2]]
            if price is not None:
                result[where] = count * price

    def total(formula: str) -> float:
        if both := re.fullmatch(r'\((SUM\(.*?\))\+SUMPRODUCT\(\((.*?)=""\)\*1,(.*)\)\)', formula):
            pairs = zip(span(both[2]), span(both[3]), strict=True)
            return total(both[1]) + sum(result.get(other, 0) for empty, other in pairs if empty not in result)
        if whole := re.fullmatch(r"SUM\((.*)\)", formula):
            return sum(result.get(name, 0) for name in span(whole[1]))
        parts = re.findall(r'SUMIF\(([^,]*),"(\w+)",([^)]*)\)', formula)
        return sum(
            result.get(amount, 0)
            for names, kind, amounts in parts
            for name, amount in zip(span(names), span(amounts), strict=True)
            if cell[name] == kind
        )

    def mostly(formula: str) -> bool:
        kinds = re.findall(r'AND\(SUMPRODUCT\(\((\S+?)="(\w+)"\)\*(\S+?)\)>0,', formula)
        empty = re.findall(r"<=2\*SUMPRODUCT\((.*?)\)\)(?=,AND|$)", formula)
        for (names, kind, counts), product in zip(kinds, empty, strict=True):
            mine = [row for row, name in enumerate(span(names)) if cell[name] == kind]
            cells = [span(each) for each in re.findall(r'\(([^()=]+)=""\)', product)]
            unknown = [row for row in mine if all(cell[column[row]] is None for column in cells)]
            pieces, lacking = (sum(cell[span(counts)[row]] for row in rows) for rows in (mine, unknown))
            if 0 < pieces <= 2 * lacking:
                return True
        return False

    def gaps(formula: str) -> int:
        values, sources = re.fullmatch(r'SUMPRODUCT\(\((\S+?)=""\)\*\(LEFT\((\S+?),5\)<>"comes"\).*', formula).groups()  # type: ignore[union-attr]
        kinds = re.findall(r'="(\w+)"\)', formula)
        rows = zip(span(values), span(sources), strict=True)
        return sum(
            cell[value] is None
            and not str(cell[source]).startswith("comes")
            and (not kinds or cell[f"A{value[1:]}"] in kinds)
            for value, source in rows
        )

    for where, value in cell.items():
        if flagged := re.fullmatch(r'=IF\((SUMPRODUCT.*)>0,"at least",""\)', str(value)):
            result[where] = "at least" if gaps(flagged[1]) else ""
        elif summed := re.fullmatch(r'=IF\(OR\(AND\((SUMPRODUCT.*?)>0,(.*?)=0\)(.*)\),"unknown",\2\)', str(value)):
            found = total(summed[2])
            result[where] = "unknown" if (gaps(summed[1]) and not found) or mostly(summed[3]) else found
    return result


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["USD", "EUR", "units"])
def test_the_formulas_give_what_heddle_computed(unit: str) -> None:
    bill = bill_of(zoned())
    data, cost = workbook(bill, unit), bill.price(unit)
    for name in ("Bill", "Power"):
        shown = {c.coordinate: c.value for row in sheet(data, name, values=True).iter_rows() for c in row}
        live = recalculate(sheet(data, name))
        assert live
        assert any(value in ("at least", "unknown") for value in live.values())
        for where, value in live.items():
            expected = pytest.approx(value) if isinstance(value, float | int) else (value or None)
            assert shown[where] == expected, where
    totals = {row[0].value: (row[7].value, row[8].value) for row in sheet(data, "Bill", values=True).iter_rows()}
    for name, amount in (("network", cost.network), ("servers", cost.servers), ("total", cost.total)):
        expected = amount.bounds or ("unknown", "unknown")
        assert totals[name] == (pytest.approx(tuple(expected)) if amount.bounds else expected)
    (drawn,) = (row[8].value for row in sheet(data, "Power", values=True).iter_rows() if row[0].value == "total")
    assert drawn == pytest.approx(bill.power.planned_w.bounds[0]), "the maximum of `plan check`"


def test_every_part_of_the_workbook_is_counted_in_the_fabric() -> None:
    fabric = tree(60)
    counted: Counter[str] = Counter()
    for row in sheet(workbook(bill_of(fabric)), "Bill").iter_rows(min_row=2, values_only=True):
        if row[0] is not None and row[9]:
            counted[str(row[0])] += int(row[4])  # type: ignore[arg-type]
    racks = counted.pop("rack")
    assert racks % 3 == 0  # a rack and two power distribution units each
    assert counted == {"switch": fabric.n_switches, "node": 60, "adapter": 60, "cable": len(fabric.links)}


def test_a_gap_is_an_empty_cell() -> None:
    bill = Bill((Line("node", "pcie-a100", 7, "compute"),), CATALOG)
    bought = sheet(workbook(bill), "Bill", values=True)
    assert [bought.cell(2, column).value for column in (5, 6, 7, 8, 9)] == [7, None, None, None, None]
    assert bought.cell(2, 10).value == "no price known: a gap"


def test_text_that_looks_like_a_formula_stays_text() -> None:
    bill = Bill((Line("switch", '=HYPERLINK("http://x")', 1, "@leaf"),), CATALOG)
    cell = sheet(workbook(bill), "Bill").cell(2, 2)
    assert (cell.data_type, cell.value) == ("s", '=HYPERLINK("http://x")')


def test_racks_and_cables_have_sheets() -> None:
    fabric = tree(60)
    layout = place_devices([fabric], CATALOG, FloorPlan())
    bill = bill_of(fabric).with_spares(Spares(cables=0.1))
    data = format_bom_xlsx("some", CATALOG, bill.price("USD"), bill.power, layout)
    racks = list(sheet(data, "Racks").iter_rows(min_row=2, values_only=True))
    assert len(racks) == layout.n_racks
    assert sum(int(row[1]) for row in racks) == 60 * 4 + fabric.n_switches  # type: ignore[arg-type]
    assert sum(str(row[5]).count("gpu") for row in racks) == 60
    cables = list(sheet(data, "Cables", values=True).iter_rows(min_row=2, values_only=True))
    assert sum(int(row[4]) for row in cables) == len(fabric.links)  # type: ignore[arg-type]
    assert all(row[6] == row[4] + row[5] > row[4] for row in cables)  # type: ignore[operator]


def test_same_bill_same_bytes() -> None:
    assert workbook(bill_of(tree(30))) == workbook(bill_of(tree(30)))


@pytest.mark.slow
def test_the_summary_is_linked_to_the_other_sheets() -> None:
    bill = bill_of(zoned())
    data = workbook(bill, "USD")
    live, shown = (openpyxl.load_workbook(io.BytesIO(data), data_only=values) for values in (False, True))
    linked = 0
    for row in live["Summary"].iter_rows(min_row=2):
        for cell in row:
            value = shown["Summary"][cell.coordinate].value
            if found := re.fullmatch(r"=(Bill|Power)!(\w+)", str(cell.value)):
                assert (value or None) == (shown[found[1]][found[2]].value or None)
                linked += 1
            elif found := re.match(
                r'=SUMPRODUCT\(\(Bill!\$A2:\$A(\d+)="(\w+)"\)\*\(LEFT\(Bill!\$J2:\$J\1,5\)<>"comes"\)\*Bill!\$E2:\$E\1\)',
                str(cell.value),
            ):
                rows = list(shown["Bill"].iter_rows(min_row=2, max_row=int(found[1]), values_only=True))
                counts = [(int(row[4]), "comes with" in str(row[9])) for row in rows if row[0] == found[2]]  # type: ignore[arg-type]
                assert value == sum(count for count, held in counts if not held)
                assert any(held for _, held in counts) == (found[2] == "adapter")
                linked += 1
    assert linked > 15
    notes = [str(row[5]) for row in shown["Summary"].iter_rows(values_only=True)]
    assert set(bill.price("USD").gaps) <= set(notes)


def test_every_sheet_prints_as_wide_as_a_page_and_can_be_filtered() -> None:
    fabric = tree(60)
    layout = place_devices([fabric], CATALOG, FloorPlan())
    bill = bill_of(fabric)
    book = openpyxl.load_workbook(io.BytesIO(format_bom_xlsx("a & b", CATALOG, bill.price("USD"), bill.power, layout)))
    assert book.sheetnames == ["Summary", "Bill", "Power", "Cables", "Racks"]
    for page in book:
        assert (page.page_setup.orientation, page.page_setup.fitToWidth or 1, page.page_setup.fitToHeight) == (
            "landscape", 1, 0
        )  # fmt: skip
        assert page.sheet_properties.pageSetUpPr.fitToPage
        assert page.print_title_rows == "$1:$1"
        assert page.freeze_panes == "A2"
        assert page.auto_filter.ref.startswith("A1:")
        assert page.oddHeader.left.text == f"&Ba && b: {page.title}"
        for row in page.iter_rows(min_row=2):
            for cell in row:  # no text is taller than its row
                width = page.column_dimensions[cell.column_letter].width
                if isinstance(cell.value, str) and cell.alignment.wrap_text:
                    assert (page.row_dimensions[cell.row].height or 15) >= 15 * len(cell.value) // width
