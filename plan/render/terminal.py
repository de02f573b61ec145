"""What a person sees on a terminal: text that steers nothing, errors with the line that they are about, progress."""

from __future__ import annotations

import errno
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Console

WIDTH = 120
"""Columns when the output is no terminal, so that what is piped or pasted does not depend on a window."""


def console(*, error: bool = False) -> Console:
    """Return a console that colours on a terminal and prints plain text of a fixed width elsewhere."""
    from rich.console import Console

    class OurConsole(Console):
        def on_broken_pipe(self) -> None:
            """Raise as other output does; rich would leave with status 1, which says that a plan is refused."""
            raise BrokenPipeError(errno.EPIPE, "nobody reads any more")

    stream = sys.stderr if error else sys.stdout
    return OurConsole(stderr=error, width=None if stream.isatty() else WIDTH, highlight=False, soft_wrap=False)


def printable(text: str) -> str:
    """Return text from outside with what could steer a terminal spelled out; tabs and line feeds stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"\\u{ord(char):04x}" for char in text)


SPELLED = {"µ": "u", "×": "x", "–": "-", "…": "...", "→": "->", "≥": ">=", "≤": "<="}
"""How characters that we print ourselves are spelled where the terminal has none of them."""


def spelled(error: UnicodeError) -> tuple[str, int]:
    """Spell characters that an encoding does not have, as a codecs error handler does; others by their number."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end]
    return "".join(SPELLED.get(char, ascii(char)[1:-1]) for char in text), error.end


PLACED_MESSAGE = re.compile(r"(?P<where>(?P<path>.+?):(?P<line>\d+):(?P<column>\d+): )(?P<text>.*)")
"""A message that begins with the place that it is about."""
MEANT = re.compile(r"""\"[^\"]*\"?|'[^']*'?|(?:[^\s,:{}\[\]]|:(?=[^\s,{}\[\]])| (?=[^\s,:{}\[\]#]))+|.|$""")
"""What carets stand under, from the column of a message."""
LONGEST = 100
"""Characters of a line that are shown."""
MOST_READ = 1_000_000
"""Bytes of a line, and lines of a file, that are looked at."""


def print_error(message: str) -> None:
    """Print a message on standard error, in colour on a terminal that has colours, unless NO_COLOR is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    click.echo(format_error(message), err=True, color=False if plain else None)


def format_error(message: str) -> str:
    """Return a message as a person reads it, with the line of the file below whatever begins with its place.

    What could steer a terminal is spelled out; colours are those of ANSI, which `click.echo` takes away again.
    """
    return "\n".join(shown for line in message.split("\n") for shown in _format_line(line))


def _format_line(line: str) -> list[str]:
    found = PLACED_MESSAGE.fullmatch(line)
    where, text = (found["where"], found["text"]) if found else ("", line)
    words = re.sub("`[^`]+`", lambda name: click.style(name.group(), fg="cyan"), printable(text))
    excerpt = quote_line(Path(found["path"]), int(found["line"]), int(found["column"])) if found else None
    return [click.style(printable(where), bold=True) + words, *(excerpt or [])]


def quote_line(path: Path, number: int, column: int) -> list[str] | None:
    """Return a line of a file with carets under what begins at a column, both counted from 1.

    A long line is cut around the column. None where the file does not have it (any more) or can be read only once.
    """
    try:
        if not path.is_file() or not 0 < number <= MOST_READ:
            return None
        with path.open(encoding="utf-8", errors="replace") as file:
            line = next(islice(iter(lambda: file.readline(MOST_READ), ""), number - 1, None), "").rstrip("\r\n")
    except (OSError, ValueError):
        return None
    at = column - 1
    if not line or not 0 <= at <= len(line):
        return None
    begin = max(0, min(at - LONGEST // 2, len(line) - LONGEST))
    end = begin + LONGEST
    meant = MEANT.match(line, at, end)
    from rich.cells import cell_len

    def spell(part: str) -> str:
        return printable(part.replace("\t", " "))

    before = ("..." if begin else "") + spell(line[begin:at])
    after = spell(line[at:end]) + ("..." if end < len(line) else "")
    carets = "^" * max(1, cell_len(spell(meant.group() if meant else "")))
    margin = f"{number:5} | "
    bar = click.style(" " * (len(margin) - 2) + "| ", fg="blue")
    under = " " * cell_len(before) + click.style(carets, fg="red", bold=True)
    return [click.style(margin, fg="blue") + before + after, bar + under]


PATIENCE_S = 30.0
"""How long a log is silent."""
_told: list[str] = []


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Callable[..., None]]:
    """Give a function that takes what is going on, and how much of it is done; show it, and leave nothing behind."""
    if quiet or not sys.stderr.isatty():
        said = time.monotonic()

        def line(text: str, done: float | None = None) -> None:
            nonlocal said
            if not quiet and time.monotonic() > said + PATIENCE_S:
                said = time.monotonic()
                click.echo(f"plan: {text}" if done is None else f"plan: {text}, {done:.0%} done", err=True)

        with _heard((lambda text: None) if quiet else _tell_of_compiling, partial(click.echo, err=True)):
            yield line
        return
    from rich import progress as bars

    share = bars.TaskProgressColumn("{task.percentage:>3.0f} %,", text_format_no_percentage="")
    text, known = bars.TextColumn("{task.description}"), bars.TextColumn("{task.fields[known]}")
    columns = (bars.SpinnerColumn(), text, bars.TimeElapsedColumn(), share, bars.TimeRemainingColumn(), known)
    with bars.Progress(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task("", total=None, known="")

        def step(text: str, done: float | None = None) -> None:
            nonlocal task
            if text != bar.tasks[0].description:
                bar.remove_task(task)
                task = bar.add_task(text, total=None if done is None else 1.0, known="" if done is None else "left")
            if done is not None:
                bar.update(task, completed=done)

        def tell(line: str) -> None:
            bar.console.print(line, markup=False)

        with _heard(lambda text: bar.update(task, known=text), tell):
            yield step


@contextmanager
def _heard(compiling: Callable[[str], object], warn: Callable[[str], None]) -> Iterator[None]:
    """Listen to kernels: that they are compiled, and what they warn of."""

    class Telling(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            (warn if record.levelno >= logging.WARNING else compiling)(record.getMessage())

    heard, telling = logging.getLogger("routing.compiler"), Telling()
    heard.addHandler(telling)
    heard.setLevel(logging.INFO)
    try:
        yield
    finally:
        heard.removeHandler(telling)


def _tell_of_compiling(text: str) -> None:
    if not _told:
        _told.append(text)
        click.echo(f"plan: {text}", err=True)
