"""CSV and workbooks: what is written is read back as it was, no spreadsheet computes it, spoilt ones are refused."""

import csv
import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from plan.export.p2p import format_p2p_xlsx
from topo.dumps.fabric_file import is_fabric, read_fabric
from topo.errors import FormatError
from topo.files import csv as workbooks
from topo.files.csv import format_cell, format_csv, plain_text, read_workbook

TEXTS = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("=+-@\t\r\n\"', 1"), max_size=12)


@given(st.lists(st.lists(TEXTS, min_size=2, max_size=2), max_size=5))
def test_every_text_comes_back(rows):
    text = format_csv(("a", "b"), rows)
    read = list(csv.reader(io.StringIO(text, newline=""), strict=True))
    assert [[plain_text(cell) for cell in row] for row in read] == [["a", "b"], *rows]


@given(TEXTS)
def test_no_cell_is_a_formula(text):
    cell = next(csv.reader(io.StringIO(format_cell(text), newline="")), [""])[0]
    assert len(cell) < 2 or cell[0] not in "=+-@\t\r" or float(cell.replace(",", "").rstrip(".") or 0) is not None


def test_numbers_and_gaps_are_left_as_they_are():
    assert [format_cell(value) for value in (-1, -2.5, "+3", "-1.5e-7", "-", None, "")] == [
        "-1", "-2.5", "+3", "-1.5e-7", "-", "", "",
    ]  # fmt: skip


def test_a_carriage_return_does_not_end_a_line():
    assert format_csv(("channel",), [("leaf\r0",)]) == 'channel\n"leaf\r0"\n'


BEGIN = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
HEAD = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")


def saved(path: Path, *rows: tuple[object, ...]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def with_sheet(path: Path, text: str) -> Path:
    """A workbook whose one sheet has this text."""
    whole = io.BytesIO()
    openpyxl.Workbook().save(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for part in old.infolist():
            new.writestr(part.filename, text if "sheet1" in part.filename else old.read(part))
    return path


def test_our_workbook_is_read_as_a_fabric(tmp_path: Path) -> None:
    cluster = topo.preset("lab-20")
    path = tmp_path / "p2p.xlsx"
    path.write_bytes(format_p2p_xlsx(cluster.name, cluster.fabrics, cluster.catalog))
    fabric, planned = read_fabric(path), cluster.fabric
    assert is_fabric(path)
    assert (len(fabric.links), fabric.n_switches) == (len(planned.links), planned.n_switches)
    assert sorted(fabric.hosts) == sorted(planned.hosts)


def test_cells_are_values(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.xlsx", ("cables of\nhall 2",), (), HEAD, ("A", 1.0, "gpu, 0", 1, "B", 2, "leaf", "11/2"))
    assert list(read_workbook(path)) == [
        "cables of hall 2", "", ",".join(HEAD), 'A,1,"gpu, 0",1,B,2,leaf,11/2'
    ]  # fmt: skip
    assert read_fabric(path).n_switches == 1


@pytest.mark.parametrize(
    ("sheet", "said"),
    [
        ("<worksheet", "no workbook that can be read"),
        (f"{BEGIN}<sheetData><row r='1000000000'><c r='A1'/></row></sheetData></worksheet>", "workbook-rows"),
        (
            "<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'>"
            + "".join(f"<!ENTITY {y} '{f'&{x};' * 10}'>" for x, y in zip("abcdefghi", "bcdefghij", strict=True))
            + f"]>{BEGIN}<sheetData><row><c t='str'><v>&j;</v></c></row></sheetData></worksheet>",
            "no workbook that can be read",
        ),
        (BEGIN + " " * 100_000, "workbook-bytes"),
    ],
    ids=["cut", "far row", "entities", "bomb"],
)
@pytest.mark.slow
def test_hostile_sheets_are_refused(tmp_path: Path, sheet: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "WORKBOOK_BYTES", replace(workbooks.WORKBOOK_BYTES, limit=90_000))
    with pytest.raises(FormatError, match=said):
        list(read_workbook(with_sheet(tmp_path / "b.xlsx", sheet)))


def test_wide_rows_are_cut(tmp_path: Path) -> None:
    wide = f"{BEGIN}<sheetData><row><c r='A1'><v>1</v></c><c r='XFD1'><v>2</v></c></row></sheetData></worksheet>"
    assert list(read_workbook(with_sheet(tmp_path / "c.xlsx", wide))) == ["1"]


@pytest.mark.slow
def test_spoilt_workbooks_are_refused_or_read(tmp_path: Path) -> None:
    whole = saved(tmp_path / "d.xlsx", HEAD, *(("A", 1, f"gpu{i}", 1, "B", 2, "leaf", i + 1) for i in range(8)))
    data, rng, path = whole.read_bytes(), np.random.default_rng(1), tmp_path / "e.xlsx"
    refused = 0
    for _ in range(150):
        spoilt = bytearray(data[: rng.integers(len(data))] if rng.random() < 0.2 else data)
        for place in rng.integers(0, max(len(spoilt), 1), int(rng.integers(1, 6))) if spoilt else ():
            spoilt[place] = rng.integers(256)
        path.write_bytes(spoilt)
        try:
            read_fabric(path)
        except FormatError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 20
