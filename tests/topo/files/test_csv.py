"""CSV: what is written is read back as it was, and no spreadsheet computes it."""

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from topo.files.csv import format_cell, format_csv, plain_text

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
