"""Says what goes on while a command works, on a terminal and when it takes longer than a moment.

Elsewhere a line says so when half a minute has passed, and when kernels are compiled.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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
                _echo(f"plan: {text}" if done is None else f"plan: {text}, {done:.0%} done")

        with _heard((lambda text: None) if quiet else _tell_of_compiling, _echo):
            yield line
        return
    from rich import progress as bars

    from plan.render.terminal import console

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
    """Say it, the first time."""
    if not _told:
        _told.append(text)
        _echo(f"plan: {text}")


def _echo(line: str) -> None:
    import click

    click.echo(line, err=True)
