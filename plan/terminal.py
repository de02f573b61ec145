"""What a person sees on a terminal."""

from __future__ import annotations

import sys

from rich.console import Console

__all__ = ["console"]

WIDTH = 120
"""Columns when the output is no terminal, so that what is piped or pasted does not depend on a window."""


def console(*, error: bool = False) -> Console:
    """Return a console that colours on a terminal and prints plain text of a fixed width elsewhere."""
    stream = sys.stderr if error else sys.stdout
    return Console(stderr=error, width=None if stream.isatty() else WIDTH, highlight=False, soft_wrap=False)
