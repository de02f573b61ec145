"""Reads text files that may be hostile: never more bytes than stated, never a pipe, device or folder."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from topo.errors import Finding, SpecError

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def read_text(path: Path, max_bytes: int) -> str:
    """Return the text of a regular UTF-8 file of at most ``max_bytes`` bytes.

    A larger file is refused after a look at its size; what has no true size (``/proc``) after ``max_bytes + 1`` bytes.

    Raises
    ------
    SpecError
        When there is no such file, it cannot be opened, is not regular, too large, not UTF-8, or holds NUL bytes.
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


def refusal(where: Path | str, found: str, expected: str, hint: str = "") -> SpecError:
    """Return the error that holds this one finding."""
    return SpecError([Finding(str(where), found, expected, hint)])
