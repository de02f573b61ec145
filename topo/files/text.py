"""Files from outside, which may be hostile: never more bytes than their budget, never a device, folder or idle pipe.

`open_input` opens any of them; `read_lines` streams dumps, which may be large, packed or a pipe; `read_text` and
`read_file` return a regular file whole, and `unpacked` what gzip made of one.
"""

from __future__ import annotations

import gzip
import io
import os
import select
import stat
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from topo.budget import PIPE_OPEN, PIPE_WAIT, TEXT_BYTES, TEXT_LINE, TEXT_LINES, TEXT_RATIO, Budget, Stopwatch
from topo.errors import FormatError, HeddleError, refusal

FREE_OF_RATIO = 16_000_000
"""Bytes that may be unpacked from however few."""
LINES_A_LOOK = 1 << 16
"""Lines between two looks at the CPU seconds."""

PACKED, BROKEN = b"\x1f\x8b", (EOFError, gzip.BadGzipFile, zlib.error)
"""How what gzip packed begins, and what is raised where it is damaged."""

SHELL = r"\s*(?:[\w.-]{1,63}@)?([A-Za-z0-9][\w.-]{0,62})(?::[^\s#$>]{0,80})?\s?[#$>]\s*(?:sudo\s+)?"
"""What stands before a command in the session of a terminal, with the name of the host."""

FILE_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def path_of(given: object, expected: str = "the path of a file") -> Path:
    """Return what a caller in Python gave as a path; HeddleError, with what was expected, for anything else.

    Examples
    --------
    >>> import topo
    >>> topo.path_of(topo.preset("lab-20"))
    Traceback (most recent call last):
    topo.errors.HeddleError: found <Cluster lab-20>; expected the path of a file
    """
    if isinstance(given, str | os.PathLike):
        return Path(given)
    raise HeddleError(f"found {given!r:.80}; expected {expected}")


def _unreadable(path: object, found: str, expected: str, hint: str = "") -> FormatError:
    return FormatError(f"cannot be read: found {found}; expected {expected}. {hint}".removesuffix(". "), str(path))


@contextmanager
def open_input(
    path: str | Path, *, pipes: bool = True, refuse: Callable[[object, str, str, str], Exception] = _unreadable
) -> Iterator[BinaryIO]:
    """Open a regular file, or a pipe that somebody writes (unless ``pipes`` is False), to be read once.

    ``refuse`` makes the error of a path, what was found, what was expected, and a hint: for what cannot be opened or
    read, or is something else. FormatError if nobody writes to the pipe for longer than `PIPE_OPEN` or `PIPE_WAIT`.
    """
    try:
        # Without O_NONBLOCK, opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise refuse(path, "no such file", "a readable file", "Check the spelling of the path.") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        reason = getattr(error, "strerror", None) or error
        raise refuse(path, f"a file that cannot be opened ({reason})", "a readable file", "") from None
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode))):
        os.close(descriptor)
        kind = next((name for test, name in FILE_KINDS if test(mode)), "something else")
        raise refuse(path, kind, f"a regular file{' or a pipe' if pipes else ''}", "")
    raw: io.RawIOBase = io.FileIO(descriptor) if stat.S_ISREG(mode) else _Pipe(descriptor, str(path))
    with cast(BinaryIO, io.BufferedReader(raw)) as file:
        try:
            yield file
        except OSError as error:
            found = f"a file that cannot be read ({error.strerror or error})"
            raise refuse(path, found, "a readable file", "") from None


class _Pipe(io.RawIOBase):
    """The reading end of a pipe, which waits for those who write, but not for ever."""

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.written = False
        """Whether somebody has the other end, or had it."""

    def readable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.descriptor

    def readinto(self, buffer: Any) -> int:
        """Read what there is, and wait for it if need be; 0 is the end."""
        begin = time.monotonic()
        while True:
            try:
                found = os.read(self.descriptor, len(buffer))
            except BlockingIOError:
                self.written = True
            else:
                self.written |= bool(found)
                if self.written:
                    buffer[: len(found)] = found
                    return len(found)
            budget = PIPE_WAIT if self.written else PIPE_OPEN
            if time.monotonic() - begin > budget.limit:
                raise budget.exceeded(self.path)
            if self.written:
                select.select([self.descriptor], [], [], 1)
            else:
                time.sleep(0.02)  # a pipe without a writer looks like one at its end

    def close(self) -> None:
        if not self.closed:
            os.close(self.descriptor)
        super().close()


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield the lines of a text file (UTF-8, ``.gz`` unpacked on the way) without their ends and byte-order mark.

    FormatError for what cannot be opened or unpacked, or exceeds a budget of texts.
    """
    try:
        # Opened once, so that a pipe can be read too.
        with open_input(path) as raw:
            packed = cast(io.BufferedReader, raw).peek(2)[:2] == PACKED
            counted = _Counted(raw, str(path)) if packed else None
            with gzip.open(cast(BinaryIO, counted)) if counted else raw as file:
                # Only a line feed ends a line: a lone carriage return would shift every line number of a message.
                text = io.TextIOWrapper(cast(BinaryIO, file), encoding="utf-8", errors="replace", newline="\n")
                yield from bounded_lines(text, str(path), counted)
    except BROKEN as error:
        raise _not_whole(error, str(path)) from None


def unpacked(data: bytes, budget: Budget, path: str = "") -> bytes:
    """Return what gzip packed, or what is not packed as it is; FormatError if damaged, or beyond the budget."""
    if data.startswith(PACKED):
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(budget.limit + 1)
        except BROKEN as error:
            raise _not_whole(error, path) from None
    if len(data) > budget.limit:
        raise budget.exceeded(path)
    return data


def _not_whole(error: Exception, path: str) -> FormatError:
    return FormatError(f"cannot be unpacked: {error}; is the download whole?", path)


class _Counted(io.RawIOBase):
    """A packed file that counts its bytes: nothing comes out of one that is made of empty parts."""

    def __init__(self, file: BinaryIO, path: str) -> None:
        self.file = file
        self.path = path
        self.n_bytes = 0
        self.watch = Stopwatch(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self.file.read(len(buffer))
        buffer[: len(found)] = found
        self.n_bytes += len(found)
        if self.n_bytes > TEXT_BYTES.limit:
            raise TEXT_BYTES.exceeded(self.path)
        self.watch.look()
        return len(found)


def lines_of(text: str | Iterable[str], path: str = "") -> Iterable[str]:
    """Return the lines of a text as `read_lines` does; lines that were read already are returned as they are."""
    return bounded_lines(io.StringIO(text, newline="\n"), path) if isinstance(text, str) else text


def numbered_lines(text: str | Iterable[str], path: str = "") -> Iterator[tuple[int, str]]:
    r"""Yield the lines of a text, as `lines_of` has them, with their numbers, but for blank lines and comments.

    >>> list(numbered_lines("# roles\n\nstorage st*"))
    [(3, 'storage st*')]
    """
    for number, line in enumerate(lines_of(text, path), 1):
        if line.lstrip()[:1] not in ("", "#"):
            yield number, line


def bounded_lines(text: TextIO, path: str = "", packed: _Counted | None = None) -> Iterator[str]:
    """Yield the lines of a text stream as `read_lines` does."""
    total = number = 0
    watch = Stopwatch(path)
    longest, most, most_lines = TEXT_LINE.limit, TEXT_BYTES.limit, TEXT_LINES.limit
    while line := text.readline(longest + 1):
        number += 1
        total += len(line)
        if len(line) > longest:
            raise TEXT_LINE.exceeded(path, number)
        if total > most:
            raise TEXT_BYTES.exceeded(path, number)
        if number > most_lines:
            raise TEXT_LINES.exceeded(path, number)
        if number % LINES_A_LOOK == 0:
            watch.look()
            if packed is not None and total > FREE_OF_RATIO + TEXT_RATIO.limit * packed.n_bytes:
                raise TEXT_RATIO.exceeded(path, number)
        yield (line.removeprefix("\ufeff") if number == 1 else line).rstrip("\r\n")


def read_file(path: Path, budget: Budget) -> bytes:
    """Return the bytes of a regular file; FormatError for anything else, and beyond the budget.

    A larger file is refused after a look at its size; what has no true size (``/proc``) once it is beyond the budget.
    """
    with open_input(path, pipes=False) as file:
        if os.fstat(file.fileno()).st_size > budget.limit or len(data := file.read(budget.limit + 1)) > budget.limit:
            raise budget.exceeded(str(path))
    return data


def read_text(path: Path, budget: Budget) -> str:
    """Return the text of a regular UTF-8 file of at most so many bytes, without NUL; SpecError for anything else.

    Examples
    --------
    >>> import topo
    >>> topo.read_text(topo.config_root() / "lab-20.yaml", topo.budgets()["yaml-bytes"])[:3]
    '# A'
    """
    with open_input(path, pipes=False, refuse=refusal) as file:
        if (size := os.fstat(file.fileno()).st_size) > budget.limit:
            raise refusal(path, f"a file of {size:,} bytes", str(budget))
        data = file.read(budget.limit + 1)
    if len(data) > budget.limit:
        raise refusal(path, f"a file of more than {budget.limit:,} bytes", str(budget))
    try:
        text = data.decode("utf-8-sig")  # spreadsheets begin their CSV files with a byte order mark
    except UnicodeDecodeError as error:
        line, found = data.count(b"\n", 0, error.start) + 1, f"the byte 0x{data[error.start]:02x}"
        raise refusal(f"{path}:{line}", found, "text in UTF-8", "Save the file as UTF-8.") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise refusal(f"{path}:{line}", "a NUL byte", "text", "This looks like a binary file.")
    return text


def config_root() -> Path:
    """Return the folder of what ships beside the code: presets, and the catalog in ``catalog/``.

    An installed wheel holds it inside this package; a checkout, installed editable or not, beside it.

    Examples
    --------
    >>> import topo
    >>> (topo.config_root() / "lab-20.yaml").is_file()
    True
    """
    package = Path(__file__).parents[1]
    packaged = package / "configs"
    return packaged if packaged.is_dir() else package.parent / "configs"
