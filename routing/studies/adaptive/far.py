"""ibdiagnet's ``.far``: groups of ports and the adaptive tables of each switch.

NVIDIA publishes that the file exists, not how it looks. Two public readers agree on this form; what they skip is
skipped here, and an unknown version, column or state is an error, not a guess::

    File version: 1
    Switch 0x0c42a103004b7000 ...settings...
    Groups Definition:
    Group  Sub Group  WHBF  Ports
    1      0          0     33,34,35,36,
    LFT Definition:
    PLFT_NUM: 0, top: 0x0040
    LID     Static Port  Lid State  Group
    0x0011  33           Free       1

GUIDs, LIDs and ``top`` are hexadecimal, all else is decimal. Each private table has an ``LFT Definition`` of its own
(inferred: the public readers take one).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from routing.studies.adaptive.tables import AdaptiveTables, LidState
from routing.tables import NO_PATH, RoutingTables
from topo.errors import FormatError, plural
from topo.fabric import MAX_UNICAST_LID, Fabric
from topo.files.text import numbered_lines, read_lines

VERSION = re.compile(r"File version:\s*(\S+)\s*", re.IGNORECASE)
SWITCH = re.compile(r"Switch\s+0x([0-9a-f]{1,16})\b.*", re.IGNORECASE)
TABLE = re.compile(r"PLFT_NUM:\s*(\d{1,2}),\s*top:\s*0x([0-9a-f]{1,4})\s*", re.IGNORECASE)
ENTRY = re.compile(r"0x([0-9a-f]{1,4})\s+(\d{1,3})\s+(\w+)(?:\s+(\d{1,5}))?\s*", re.IGNORECASE)
GROUP_LINE = re.compile(r"(\d{1,5})\s+(\d{1,2})\s+(\d+)\s*([\d,\s]*)")
COLUMNS = {
    "groups": ("Group", "Sub Group", "WHBF", "Ports"),
    "tables": ("LID", "Static Port", "Lid State", "Group"),
}
STATES = {state.name.lower(): state for state in LidState if state is not LidState.ABSENT}

MOST_TABLES = 8
"""Private tables that a switch may have (public headers of ibutils2, 2025)."""


@dataclass
class _Switch:
    """What the file says of one switch."""

    groups: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    entries: dict[int, dict[int, tuple[int, int, int]]] = field(default_factory=dict)
    """By private table and LID: static port, state, group (-1 none)."""


def switch_numbers(fabric: Fabric) -> dict[int, int]:
    """Return the number of each switch by its GUID, as dumps name it at the head of a `SWITCH` section."""
    return {guid: switch for switch, guid in enumerate(fabric.node_guid[: fabric.n_switches].tolist())}


def read_far(path: str | Path, fabric: Fabric, tables: RoutingTables | None = None) -> tuple[AdaptiveTables, list[str]]:
    """Read adaptive tables from a file; see `parse_far`."""
    return parse_far(read_lines(path), fabric, tables, str(path))


def parse_far(
    text: str | Iterable[str], fabric: Fabric, tables: RoutingTables | None = None, path: str = ""
) -> tuple[AdaptiveTables, list[str]]:
    """Return the adaptive tables of a fabric, and what was left out.

    Parameters
    ----------
    text : str or iterable of str
        The file, or its lines.
    fabric : Fabric
        Of what was dumped.
    tables : RoutingTables, optional
        Tables that say which end port has which LIDs, and what switches hold that the file leaves out; when left out,
        the LIDs that the fabric was discovered with, and nothing.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        With the line: no version or an unknown one, an unknown column or state, a LID or port that there cannot be, a
        switch or private table given twice; for a file without any switch of the fabric, and for a fabric without LIDs.
    """
    lid, lmc = (tables.lid, tables.lmc) if tables is not None else (fabric.discovered_lid, fabric.lmc)
    if not lid.any():
        raise FormatError("names LIDs, and the fabric has none: give the fabric as ibnetdiscover prints it", path)
    number_of = switch_numbers(fabric)
    found: dict[int, _Switch] = {}
    unknown, versioned = 0, False
    here: _Switch | None = None
    switch, radix, table, top, reading = -1, 0, -1, 0, ""
    for line_number, line in numbered_lines(text, path):
        words = line.strip()

        def refuse(expected: str, words: str = words, at: int = line_number) -> FormatError:
            return FormatError(f"found {words[:60]!r}; expected {expected}", path, at)

        if not words.strip("-="):
            continue
        if version := VERSION.fullmatch(words):
            if version[1] != "1":
                raise refuse("version 1 of .far, the only one whose form is public")
            versioned = True
        elif start := SWITCH.fullmatch(words):
            if not versioned:
                raise refuse("the line `File version: 1` above it, as in .far: forms of other files are not published")
            switch, table, reading, here = number_of.get(int(start[1], 16), -1), -1, "", _Switch()
            if switch in found:
                raise refuse("each switch once")
            unknown += switch < 0
            if switch >= 0:
                found[switch] = here
            radix = len(fabric.ports_of(switch)) if switch >= 0 else NO_PATH - 1
        elif here is None:
            continue  # a preamble
        elif words.lower() == "groups definition:":
            reading = "groups"
        elif words.lower() == "lft definition:":
            reading, table = "tables", -1
        elif reading == "groups" and (group := GROUP_LINE.fullmatch(words)):
            ports = {int(port) for port in group[4].replace(" ", "").split(",") if port}
            if ports and (max(ports) > radix or min(ports) < 1):
                raise refuse(f"ports 1 to {radix} of the switch")
            here.groups[int(group[1])] |= ports
        elif reading == "tables" and (head := TABLE.fullmatch(words)):
            table, top = int(head[1]), int(head[2], 16)
            if table >= MOST_TABLES or table in here.entries:
                raise refuse(f"each of at most {MOST_TABLES} private tables once")
            here.entries[table] = {}
        elif reading == "tables" and table >= 0 and (entry := ENTRY.fullmatch(words)):
            at, port, state = int(entry[1], 16), int(entry[2]), STATES.get(entry[3].lower())
            if state is None:
                raise refuse("a state that is known: Bounded, Free, Static, HBF")
            if not 0 < at <= min(top, MAX_UNICAST_LID):
                raise refuse(f"a LID from 0x0001 to 0x{min(top, MAX_UNICAST_LID):04x}")
            if port > radix and port != NO_PATH:
                raise refuse(f"a port from 0 to {radix} of the switch, or {NO_PATH} for none")
            if state != LidState.STATIC and entry[4] is None:
                raise refuse("the number of its group behind the state: is the line whole?")
            if at in here.entries[table]:
                raise refuse("each LID once in a table")
            here.entries[table][at] = port, state, -1 if entry[4] is None else int(entry[4])
        elif reading and re.match(r"(group|lid)\b", words, re.IGNORECASE):
            wanted = COLUMNS[reading]
            if re.split(r"\s{2,}|\t+", words.lower()) != [column.lower() for column in wanted]:
                raise refuse(f"the columns {', '.join(wanted)}")
        elif reading:
            raise refuse("a group of ports, or an entry of a table")
    if not found:
        raise FormatError("holds no adaptive table of any switch of this fabric", path)
    return _assemble(found, fabric, lid, lmc, tables), _notes(found, unknown, fabric)


def _assemble(
    found: dict[int, _Switch], fabric: Fabric, lid: NDArray[np.uint16], lmc: int, others: RoutingTables | None
) -> AdaptiveTables:
    """Return the arrays of what was read; a group that is named and not defined is one without ports.

    Private tables that no switch has are left out. A switch that lacks one that others have is given its first in its
    place: packets meet a table that it has.
    """
    kinds = sorted({table for one in found.values() for table in one.entries})
    n_tables = max(len(kinds), 1)
    highest = max((at for one in found.values() for part in one.entries.values() for at in part), default=0)
    top = max(highest, int(lid.max()) + (1 << lmc) - 1)
    shape = (n_tables, fabric.n_switches, top + 1)
    lft, state = np.full(shape, NO_PATH, np.uint8), np.full(shape, LidState.ABSENT, np.uint8)
    group = np.full(shape, -1, np.int32)
    if others is not None:
        left_out = np.setdiff1d(np.arange(fabric.n_switches), list(found))
        known = others.lft[left_out, : top + 1]
        lft[:, left_out, : known.shape[1]] = known
        state[:, left_out, : known.shape[1]] = np.where(known == NO_PATH, LidState.ABSENT, LidState.STATIC)
    members: list[NDArray[np.bool_]] = []
    numbers: list[int] = []
    width = 1 + fabric.most_ports
    for switch, one in found.items():
        rows: dict[int, int] = {}
        for table, kind in enumerate(kinds):
            entries = one.entries.get(kind, one.entries[min(one.entries)] if one.entries else {})
            if not entries:
                continue
            at, (port, states, named) = [*entries], np.array([*entries.values()], np.int64).T
            # The number of a static entry, 0 for instance, may be of no group.
            named[(states == LidState.STATIC) & ~np.isin(named, list(one.groups))] = -1
            for number in sorted(set(named.tolist()) - {-1} - rows.keys()):
                rows[number] = len(members)
                ports = np.zeros(width, bool)
                ports[sorted(one.groups.get(number, ()))] = True
                members.append(ports)
                numbers.append(number)
            lft[table, switch, at], state[table, switch, at] = port, states
            group[table, switch, at] = [rows.get(number, -1) for number in named.tolist()]
    kept = np.array(members, bool).reshape(len(members), width)
    return AdaptiveTables(lid, lft, state, group, kept, np.array(numbers, np.int32), lmc)


def _notes(found: dict[int, _Switch], unknown: int, fabric: Fabric) -> list[str]:
    notes = []
    if unknown:
        notes.append(f"{plural(unknown, 'switch', 'switches')} of the dump that the fabric does not have")
    if missing := fabric.n_switches - len(found):
        first = next(switch for switch in range(fabric.n_switches) if switch not in found)
        notes.append(f"{plural(missing, 'switch', 'switches')} of the fabric without a table ({fabric.label(first)})")
    return notes
