"""Lists of GUIDs as OpenSM reads them (``cn_guid_file``, ``io_guid_file``, ``root_guid_file``): writer and reader.

A line begins with a GUID, ``0x`` and hexadecimal digits; what follows after white space or ``#`` is a comment. Lines
that are empty or begin with ``#`` are skipped. OpenSM drops a file at its first bad line and routes without it, so the
reader refuses such a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from topo.budget import GUIDS
from topo.errors import FormatError
from topo.files.text import lines_of, read_lines

LINE = re.compile(r"\s*0x([0-9a-f]{1,16})(?:[\s#].*)?", re.IGNORECASE)

MAX_LINE = 255
"""Characters that OpenSM reads of a line; it takes the rest for another (``cl_nodenamemap.c``)."""


def format_guid_list(guids: Iterable[tuple[int, str]]) -> str:
    """Return a list of GUIDs, each with a comment (which may be empty) behind it."""
    return "".join(
        f"0x{guid:016x} # {''.join(c for c in comment if c.isprintable())}"[:MAX_LINE].rstrip(" #") + "\n"
        for guid, comment in guids
    )


def read_guid_list(path: str | Path) -> tuple[int, ...]:
    """Read a file as `parse_guid_list` does.

    Examples
    --------
    >>> import tempfile, topo
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "guids"
    >>> _ = path.write_text("0x10 # gpu00")
    >>> topo.read_guid_list(path)
    (16,)
    """
    return parse_guid_list(read_lines(path), str(path))


def parse_guid_list(text: str | Iterable[str], path: str = "") -> tuple[int, ...]:
    """Return the GUIDs of a list, in its order.

    Raises
    ------
    FormatError
        At a line that OpenSM would not read, or when the list is longer than any subnet.
    """
    guids = []
    for number, line in enumerate(lines_of(text, path), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None or len(line) > MAX_LINE:
            raise FormatError(
                f"found {line.strip()[:60]!r}; expected a GUID such as 0x0c42a10300a9b026, then white space and a "
                f"comment, at most {MAX_LINE} characters in all",
                path,
                number,
            )
        guids.append(int(match.group(1), 16))
        if len(guids) > GUIDS.limit:
            raise GUIDS.exceeded(path, number)
    return tuple(guids)
