"""What ibdiagnet says of lanes: ``.slvl``, the lane of each service level, and ``.psl``, the level of each path.

A line of ``.slvl`` is a switch, an incoming and an outgoing port, and the lanes of levels 0 to 15, two in a byte; one
of ``.psl`` is an adapter, a LID and a level (``ibdmchk`` of ibutils, options ``-d`` and ``-c``)::

    0x0c42a103004b7000 1 21 0x01 0x23 0x45 0x67 0x00 0x00 0x00 0x00
    0x0c42a10300a58154 27 1
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path

import numpy as np

from routing.lanes.classes import LanePlan
from routing.tables import RoutingTables
from topo.errors import FormatError
from topo.fabric import Fabric
from topo.files.text import numbered_lines, read_lines

SLVL = re.compile(r"\s*0x([0-9a-f]{1,16})\s+(\d{1,3})\s+(\d{1,3})((?:\s+0x[0-9a-f]{1,2}){8})\s*", re.IGNORECASE)
PSL = re.compile(r"\s*0x([0-9a-f]{1,16})\s+(\d{1,5})\s+(\d{1,2})\s*", re.IGNORECASE)
SNIFFED = 100
"""Lines in which the form must show."""


def parse_slvl(text: str | Iterable[str], path: str = "") -> LanePlan:
    """Return the lanes of the ports between switches; all of them equally heavy, since the file has no weights.

    Port 0 of a switch, which carries what the switch itself sends and gets, may have other lanes. FormatError at a line
    that is none, or has other lanes than those before: one map for all is judged.
    """
    found: tuple[int, tuple[int, ...]] | None = None
    for number, line in numbered_lines(text, path):
        match = SLVL.fullmatch(line)
        if match is None:
            expected = "a GUID, two ports and eight bytes, as in 0x0c42a103004b7000 1 21 0x01 0x23 ..."
            raise FormatError(f"found {line.strip()[:60]!r}; expected {expected}", path, number)
        if "0" in (match[2], match[3]):
            continue
        lanes = tuple(lane for byte in match[4].split() for lane in divmod(int(byte, 16), 16))
        found = found or (number, lanes)
        if found[1] != lanes:
            message = f"found other lanes than in line {found[0]}; expected one map of levels for all ports"
            raise FormatError(message, path, number)
    if found is None:
        raise FormatError("holds no lanes of any port between switches", path)
    used = sorted({lane for lane in found[1] if lane < 15})
    if not used:
        raise FormatError("every service level is mapped to lane 15, which carries no data", path, found[0])
    return LanePlan(found[1], tuple((lane, 64) for lane in used))


def parse_psl(text: str | Iterable[str], fabric: Fabric, tables: RoutingTables, path: str = "") -> RoutingTables:
    """Return tables with the service levels of paths; what the file leaves out is of level 0.

    FormatError at a line that is none, names an adapter or a LID that there is not or a level above 15, or another
    level than that of a host on the same switch: levels of switches are judged.
    """
    first = fabric.port_offset[fabric.n_switches : -1]
    switch_of = dict(zip(fabric.node_guid[fabric.n_switches :].tolist(), fabric.peer_node[first].tolist(), strict=True))
    levels = np.full(tables.lft.shape, 255, np.uint8)
    for number, line in numbered_lines(text, path):
        match = PSL.fullmatch(line)
        guid, lid, level = (int(match[1], 16), int(match[2]), int(match[3])) if match else (0, 0, 16)
        if not 0 < lid < tables.lft.shape[1] or level > 15 or guid not in switch_of:
            expected = "the GUID of an adapter, a LID of the tables and a level of 0 to 15"
            raise FormatError(f"found {line.strip()[:60]!r}; expected {expected}", path, number)
        switch = switch_of[guid]
        if not 0 <= switch < fabric.n_switches:
            continue  # it hangs on no switch
        if levels[switch, lid] not in (255, level):
            other = f"another host on {fabric.label(switch)} has {levels[switch, lid]}"
            message = f"found level {level} to LID {lid}, where {other}: this case is not checked"
            raise FormatError(message, path, number)
        levels[switch, lid] = level
    return replace(tables, path_sl=np.where(levels == 255, 0, levels).astype(np.uint8))


def sniffed(path: str | Path, pattern: re.Pattern[str]) -> tuple[bool, Iterable[str]]:
    """Return whether one of the first lines of a file is of a form, and its lines."""
    lines = read_lines(path)
    head = list(islice(lines, SNIFFED))
    return any(pattern.fullmatch(line) for line in head), chain(head, lines)
