"""Errors on a terminal and elsewhere: the line of the file, carets where the message points, nothing that steers."""

import os
import pty
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.render.terminal import LONGEST, MOST_READ, format_error, quote_line


def cells(text: str) -> int:
    """Columns that text takes on a terminal, by the Unicode database."""
    return sum(
        0 if unicodedata.category(char) in ("Mn", "Me") else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def shown(path: Path, line: int, column: int) -> list[str]:
    return [click.unstyle(row) for row in quote_line(path, line, column) or ()]


@given(st.text(st.sampled_from("ab7 :,{}[]'\"#-\t\u4e2d\x1b\u202e"), min_size=1, max_size=300), st.data())
def test_carets_stand_below_the_column(text: str, data: st.DataObject) -> None:
    column = data.draw(st.integers(1, len(text)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.yaml"
        path.write_text(f"first\n{text}\nlast\n", encoding="utf-8")
        quoted, carets = shown(path, 2, column)

    before, _, under = carets.partition("| ")
    assert quoted[: len(before) + 2] == "    2 | "
    assert all(char.isprintable() for char in quoted)
    assert set(under) <= {" ", "^"}
    assert under.endswith("^")
    assert len(under) <= cells(quoted[len(before) + 2 :])
    left, width = quoted[len(before) + 2 :], 0
    while width < under.index("^"):
        width, left = width + cells(left[0]), left[1:]
    char = text[column - 1]
    assert width == under.index("^")
    assert left.startswith(" " if char == "\t" else char if char.isprintable() else f"\\u{ord(char):04x}")


def test_a_long_line_is_cut_around_the_column(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("x" * 5000 + " here " + "y" * 5000)

    quoted, carets = shown(path, 1, 5002)

    assert len(quoted) < LONGEST + 20
    assert quoted[carets.index("^") :].startswith("here")
    assert "...x" in quoted
    assert quoted.endswith("y...")


@pytest.mark.parametrize(("line", "column"), [(0, 1), (3, 1), (1, 7), (1, 0), (10**12, 1), (2, 1)])
def test_a_place_that_is_not_there_has_no_excerpt(line: int, column: int, tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\n\n")

    assert quote_line(path, line, column) is None


def test_what_is_no_file_has_no_excerpt(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it: opening it would wait for ever

    for path in (tmp_path / "missing", tmp_path / "pipe", tmp_path, Path("x" * 5000), Path("/dev/zero"), Path("\0")):
        assert quote_line(path, 1, 1) is None


def test_a_line_without_end_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(b"a" * (3 * MOST_READ))

    quoted, _ = shown(path, 1, 5)

    assert len(quoted) < LONGEST + 20


def test_a_message_without_a_place_stays_as_it_is() -> None:
    assert click.unstyle(format_error("plan: not\x1b[2J enough `memory`\nx:1: cut")) == (
        "plan: not\\u001b[2J enough `memory`\nx:1: cut"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terminal", "variables", "coloured"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (True, {"TERM": "dumb"}, False), (False, {}, False)],
    ids=["terminal", "NO_COLOR", "dumb", "pipe"],
)
def test_colour_is_for_terminals(
    terminal: bool, variables: dict[str, str], coloured: bool, tmp_path: Path, repository: Path
) -> None:
    (tmp_path / "x.yaml").write_text("name: Pilot\n")
    ours, theirs = pty.openpty() if terminal else os.pipe()
    environment = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"} | variables
    line = [sys.executable, "-m", "plan", "check", "x.yaml"]
    search = {"PYTHONPATH": str(repository)}
    done = subprocess.run(line, cwd=tmp_path, stderr=theirs, env=environment | search, check=False)
    said = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)

    assert done.returncode == 2
    assert "^^^^^" in said
    assert ("\x1b[" in said) == coloured
