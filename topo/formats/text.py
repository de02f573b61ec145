"""Text files from outside, which may be hostile: never more bytes than stated, never a device or folder.

`read_lines` streams dumps, which may be large, packed or a pipe; `read_text` returns a regular file whole.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from topo.errors import FormatError, refusal

MAX_TEXT = 512 * 2**20
"""Characters of unpacked text that are read at most: a dump of the largest subnet has some 30 MB."""

MAX_LINE = 4096
"""Characters of one line; the tools whose output is read here stop at 1,023."""


KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


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


def lines_of(text: str | Iterable[str], path: str = "") -> Iterable[str]:
    """Return the lines of a text as `read_lines` does; lines that were read already are returned as they are."""
    return bounded_lines(io.StringIO(text, newline="\n"), path) if isinstance(text, str) else text


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


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a regular UTF-8 file of at most ``max_bytes`` bytes.

    A larger file is refused after a look at its size; what has no true size (``/proc``) after ``max_bytes + 1`` bytes.

    Raises
    ------
    SpecError
        When there is no such file, it cannot be opened, is not regular, too large, not UTF-8, or holds NUL bytes.

    Examples
    --------
    >>> import topo
    >>> topo.read_text(topo.config_root() / "lab-20.yaml", 100_000)[:3]
    '# A'
    """
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise refusal(path, "no such file", "a readable file", "Check the spelling of the path.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise refusal(path, f"a file that cannot be opened ({reason})", "a readable file") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            kind = next((name for test, name in KINDS if test(status.st_mode)), "something else")
            raise refusal(path, kind, "a regular file")
        if status.st_size > max_bytes:
            raise refusal(path, f"a file of {status.st_size:,} bytes", f"at most {max_bytes:,} bytes")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise refusal(path, f"a file that cannot be read ({error.strerror})", "a readable file") from None
    finally:
        os.close(descriptor)
    if len(data) > max_bytes:
        raise refusal(path, f"a file of more than {max_bytes:,} bytes", f"at most {max_bytes:,} bytes")
    try:
        text = data.decode("utf-8-sig")  # spreadsheets begin their CSV files with a byte order mark
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise refusal(
            f"{path}:{line}", f"the byte 0x{data[error.start]:02x}", "text in UTF-8", "Save the file as UTF-8."
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise refusal(f"{path}:{line}", "a NUL byte", "text", "This looks like a binary file.")
    return text
