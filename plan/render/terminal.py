"""What a person sees on a terminal."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

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
