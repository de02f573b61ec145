"""What a person sees on a terminal."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["console", "printable"]

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What moves the cursor, changes colours or turns text around; tabs and line feeds stay."""

WIDTH = 120
"""Columns when the output is no terminal, so that what is piped or pasted does not depend on a window."""


def console(*, error: bool = False) -> Console:
    """Return a console that colours on a terminal and prints plain text of a fixed width elsewhere."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout
    return Console(stderr=error, width=None if stream.isatty() else WIDTH, highlight=False, soft_wrap=False)


def printable(text: str) -> str:
    """Return text from outside with its control characters spelled out, so that none of them reaches a terminal."""
    return CONTROL.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
