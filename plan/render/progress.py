"""Says what goes on while a command works, on a terminal only and when it takes longer than a moment."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Step(Protocol):
    """Takes what is going on, and how much of it is done where that is known."""

    def __call__(self, text: str, done: float | None = None) -> None:
        """Tell; `done` is a part of 1."""


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Step]:
    """Give a function that takes what is going on; show it with the time gone by, and leave nothing behind.

    Where it is told how much is done, the part and the time left are shown too.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda text, done=None: None
        return
    from rich.progress import (
        Progress,
        SpinnerColumn,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    from plan.render.terminal import console

    share = TaskProgressColumn("{task.percentage:>3.0f} %,", text_format_no_percentage="")
    known = TextColumn("{task.fields[known]}")
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        share,
        TimeRemainingColumn(),
        known,
    )
    with Progress(*columns, console=console(error=True), transient=True) as bar:
        task = bar.add_task("", total=None, known="")

        def step(text: str, done: float | None = None) -> None:
            nonlocal task
            if text != bar.tasks[0].description:
                bar.remove_task(task)
                task = bar.add_task(text, total=None if done is None else 1.0, known="" if done is None else "left")
            if done is not None:
                bar.update(task, completed=done)

        class Telling(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.levelno >= logging.WARNING:
                    bar.console.print(record.getMessage(), markup=False)
                else:
                    bar.update(task, known="compiling for this machine, once")

        heard, telling = logging.getLogger("routing.kernels"), Telling()
        heard.addHandler(telling)
        heard.setLevel(logging.INFO)
        try:
            yield step
        finally:
            heard.removeHandler(telling)
