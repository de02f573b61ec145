"""Tables on a terminal of any width: what is printed is whole."""

import io
import re
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plan.render import terminal
from plan.render.tables import LONGEST_NAME, MOST_LINES, NARROWEST, _widths, show_table
from topo.table import Column, Table

WORDS = st.text("abcdefgh0123456789,.-", min_size=1, max_size=9)


def printed(table: Table, width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setattr(terminal, "WIDTH", width)
    capsys.readouterr()
    show_table(table)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


@given(st.data(), st.integers(20, 200))
def test_no_word_is_cut_at_any_width(data: st.DataObject, width: int) -> None:
    rows = data.draw(st.integers(1, 4))
    columns = [Column("first", [" ".join(data.draw(st.lists(WORDS, min_size=1, max_size=4))) for _ in range(rows)])]
    for number in range(data.draw(st.integers(0, 6))):
        if data.draw(st.booleans()):
            columns.append(Column(f"count {number}", [data.draw(st.integers(0, 10**9)) for _ in range(rows)], "W"))
        else:
            texts = [" ".join(data.draw(st.lists(WORDS, max_size=25))) for _ in range(rows)]
            columns.append(Column(f"text {number}", texts))
    table = Table("title", tuple(columns))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(terminal, "WIDTH", width)
        with redirect_stdout(io.StringIO()) as out:
            show_table(table)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = sorted(word for line in lines for word in re.split(r"[\s│┃]+", line))
    for column in columns:
        for row in range(rows):
            for word in column.text(row).split():
                assert word in shown or len(word) + NARROWEST + 7 > width


@pytest.mark.parametrize("width", [80, 120, 200, 400])
def test_the_sentences_of_one_column_stand_below_where_they_would_take_many_lines(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = ["", "because " * 30 + "of this"]
    names = ["a design that is well", "a design that is not"]
    table = Table("t", (Column("design", names), Column("price", [100_000, 20], "USD"), Column("why not", why)))
    lines = printed(table, width, monkeypatch, capsys)
    below = [at for at, line in enumerate(lines) if line.startswith("a design that is not: why not: because")]
    assert len(why[1]) > LONGEST_NAME
    room = width - len(names[0]) - len("price (USD)") - 10
    assert len(below) == (len(why[1]) > MOST_LINES * room)
    assert not any(line.startswith("a design that is well:") for line in lines)
    assert sum(bool(re.search(r"[│ ]100,000\b", line)) for line in lines) == 1


@given(st.lists(st.lists(WORDS, min_size=1, max_size=3), min_size=1, max_size=5), st.integers(10, 80))
def test_no_word_of_a_heading_is_broken(headings: list[list[str]], width: int) -> None:
    columns = [Column(" ".join(words), ["x"]) for words in headings]
    _, found = _widths(columns, [["x"]] * len(columns), width)
    for at, words in enumerate(headings):
        assert found is None or found[at] >= max(map(len, words))
