"""Lines of a text file from outside, packed or not, within bounds."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from topo.errors import FormatError

MAX_TEXT = 512 * 2**20
"""Characters of unpacked text that are read at most: a dump of the largest subnet has some 30 MB."""

MAX_LINE = 4096
"""Characters of one line; the tools whose output is read here stop at 1,023."""


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file (UTF-8, ``.gz`` unpacked on the way) without their ends and byte-order mark.

    Raises
    ------
    FormatError
        When the file cannot be opened or unpacked, or exceeds `MAX_TEXT` or `MAX_LINE`.
    """
    try:
        # Opened once, so that a pipe can be read too.
        with Path(path).open("rb") as raw, gzip.open(raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw as file:
            # Only a line feed ends a line: a lone carriage return would shift every line number of a message.
            text = io.TextIOWrapper(cast(BinaryIO, file), encoding="utf-8", errors="replace", newline="\n")
            yield from bounded_lines(text, str(path))
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise FormatError(f"cannot be unpacked: {error}; is the download whole?", str(path)) from None
    except OSError as error:
        raise FormatError(f"cannot be read: {error.strerror or error}", str(path)) from None


def bounded_lines(text: TextIO, path: str = "") -> Iterator[str]:
    """Yield the lines of a text stream as `read_lines` does."""
    total = number = 0
    while line := text.readline(MAX_LINE + 1):
        number += 1
        total += len(line)
        if len(line) > MAX_LINE:
            raise FormatError(f"line of more than {MAX_LINE:,} characters; expected short lines of text", path, number)
        if total > MAX_TEXT:
            raise FormatError(f"more than {MAX_TEXT // 2**20} MB of text; a dump of the largest subnet has 30", path)
        yield (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")
