"""Node name maps as the diagnostics read them (``cl_nodenamemap.c``): ``0x<node GUID> "<name>"``, one a line.

They take a name up to the next ``"`` or ``#``, read lines of at most 255 bytes, and give up on a file at its first bad
line.
"""

import io
import re
from collections.abc import Iterable
from pathlib import Path

from topo.errors import FormatError
from topo.files.text import bounded_lines, read_lines

LINE = re.compile(r'\s*(0x[0-9a-f]{1,16})\s+"([^"#]*)"\s*(?:#.*)?', re.IGNORECASE | re.ASCII)
MAX_LINE = 255


def parse_node_name_map(text: str, path: str = "") -> dict[int, str]:
    """Return the name of each node GUID.

    Raises
    ------
    FormatError
        At a line that the tools would not read.
    """
    return _names(bounded_lines(io.StringIO(text, newline="\n"), path), path)


def read_node_name_map(path: str | Path) -> dict[int, str]:
    """Read a file as `parse_node_name_map` does."""
    return _names(read_lines(path), str(path))


def _names(lines: Iterable[str], path: str) -> dict[int, str]:
    names = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        if match is None or len(line) > MAX_LINE:
            raise FormatError(
                f"found {line.strip()[:60]!r}; expected a node GUID and a name in quotes, such as "
                f'0x0c42a10300a9b026 "leaf01", at most {MAX_LINE} characters in all',
                path,
                number,
            )
        names[int(match[1], 16)] = match[2]
    return names
