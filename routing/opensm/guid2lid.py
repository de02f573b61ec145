"""OpenSM's file ``guid2lid``: the LIDs that it assigns, kept in its cache folder.

An entry is ``0x<16 hexadecimal digits of the port GUID> 0x<lowest LID> 0x<highest LID>`` and an empty line behind it.
OpenSM is strict about it (``osm_db_files.c``), and silent: without the empty lines only the first entry counts, a GUID
in capitals or without its leading zeros is another key, and a line that begins with a blank stops OpenSM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from topo.errors import FormatError
from topo.fabric import MAX_UNICAST_LID
from topo.files.text import lines_of, read_lines

ENTRY = re.compile(r"0x([0-9a-f]{16}) (0x[0-9a-f]+|\d+) (0x[0-9a-f]+|\d+)\s*", re.ASCII)


def format_guid2lid(lids: Iterable[tuple[int, int, int]]) -> str:
    r"""Return the file for port GUIDs, each with its lowest LID and how many it has.

    Examples
    --------
    >>> from routing import opensm
    >>> opensm.format_guid2lid([(0x2C90300A1B2C0, 8, 4)])
    '0x0002c90300a1b2c0 0x0008 0x000b\n\n'
    """
    return "".join(f"0x{guid:016x} 0x{lid:04x} 0x{lid + count - 1:04x}\n\n" for guid, lid, count in lids)


def read_guid2lid(path: str | Path) -> dict[int, range]:
    """Read a file as `parse_guid2lid` does.

    Examples
    --------
    >>> import tempfile, routing
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "guid2lid")
    >>> _ = path.write_text(routing.opensm.format_guid2lid([(0x10, 7, 1)]))
    >>> routing.opensm.read_guid2lid(path)
    {16: range(7, 8)}
    """
    return parse_guid2lid(read_lines(path), str(path))


def parse_guid2lid(text: str | Iterable[str], path: str = "") -> dict[int, range]:
    """Return the LIDs of each port GUID, as OpenSM would take them.

    FormatError at an entry that OpenSM would lose: another form, no empty line before it, a GUID or LID that came
    before, a LID outside the unicast range.
    """
    entries: dict[int, range] = {}
    taken: set[int] = set()
    separated = True
    for number, line in enumerate(lines_of(text, path), 1):
        if not line or line.startswith("#"):
            separated = separated or not line
            continue
        match = ENTRY.fullmatch(line)
        low, high = (_number(match[2]), _number(match[3])) if match else (None, None)
        if match is None or low is None or high is None:
            form = "'0x<16 digits of a port GUID> <lowest LID> <highest LID>'"
            expected = f"{form}, in small letters and from the first column on"
            raise FormatError(f"found {line[:60]!r}; expected {expected}", path, number)
        if not separated:
            message = "no empty line before this entry; OpenSM would read it as part of the previous one"
            raise FormatError(message, path, number)
        separated = False
        guid = int(match[1], 16)
        if not 1 <= low <= high <= min(MAX_UNICAST_LID, low + 127):
            message = f"found LIDs {low:#06x} to {high:#06x}; expected 1 to 128 of 0x0001 to 0xbfff"
            raise FormatError(message, path, number)
        lids = range(low, high + 1)
        if guid in entries or not taken.isdisjoint(lids):
            what = f"GUID 0x{guid:016x}" if guid in entries else f"LID {low:#06x}"
            raise FormatError(f"the {what} is listed twice; list it once", path, number)
        entries[guid] = lids
        taken.update(lids)
    return entries


def _number(text: str) -> int | None:
    """Return a LID as OpenSM takes it (``strtoul`` with base 0), None for what is none, such as ``08``."""
    try:
        return int(text, 8 if text.startswith("0") and not text.startswith("0x") else 0)
    except ValueError:
        return None
