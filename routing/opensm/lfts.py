"""Linear forwarding tables as text: the file that OpenSM's engine ``file`` loads, and what the tools dump.

`format_lfts` writes the form that OpenSM's own parser reads (``osm_ucast_file.c``)::

    Unicast lids [0x0001-0x0692] of switch Lid 3 guid 0x0a5c81d2e4f3b000 (MF0;leaf01:MQM8700/U1):
    0x0001 021 # portguid 0x0a11d3c2b1a09800:

Every entry names the port GUID of its destination, so OpenSM finds it again under another LID assignment: without the
GUIDs a file whose LIDs are stale black-holes the subnet, and the log says nothing.

`parse_lfts` reads that form, OpenSM's ``opensm-lfts.dump``, the output of ``dump_fts`` and ``dump_lfts``
(infiniband-diags), and ``opensm.fdbs``.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.opensm import lft_text
from routing.tables import NO_PATH, RoutingTables, lid_owners, walk
from topo.amounts import listed
from topo.budget import LFT_BYTES, LFT_PIPE
from topo.dumps.ibnetdiscover import clean_description
from topo.errors import FormatError, RoutingError, plural
from topo.fabric import MAX_UNICAST_LID, Fabric, frozen
from topo.files.text import open_input

ENTRY = b"0x0000 000 # portguid 0x0000000000000000:\n"
LID_AT, PORT_AT, GUID_AT = slice(2, 6), slice(7, 10), slice(24, 40)

HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
PORT_DIGITS = np.frombuffer("".join(f"{port:03d}" for port in range(256)).encode(), np.uint8).reshape(256, 3)


ERRORS = {
    lft_text.BAD_HEADER: "a table opens without the GUID of its switch; expected ' guid 0x<16 digits> '",
    lft_text.NO_SWITCH: "an entry before the first switch; expected a line 'Unicast lids ... guid 0x...' above",
    lft_text.BAD_ENTRY: "an entry that cannot be read; expected '0x<lid> <port>' as in '0x0001 021'",
    lft_text.BAD_LID: f"LID 0x{{:04x}} is outside the unicast range 0x0001 to 0x{MAX_UNICAST_LID:04x}",
    lft_text.BAD_PORT: "port {}, which this switch does not have",
    lft_text.TWO_OWNERS: "this LID has another port GUID on line {:,}; are the tables of two different times?",
}


class LftsRead(NamedTuple):
    """Tables that were read, and what could not be used."""

    tables: RoutingTables
    notes: tuple[str, ...]
    """What was skipped: how much, why, and on which lines it began."""


def format_lfts(fabric: Fabric, tables: RoutingTables) -> bytes:
    """Return the LFT file of all switches; see `lfts_sections`.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> text = routing.opensm.format_lfts(routed.fabric, routed.tables)
    >>> text.count(b"Unicast lids")
    4
    """
    return b"".join(lfts_sections(fabric, tables))


def lfts_sections(fabric: Fabric, tables: RoutingTables) -> Iterator[bytes]:
    """Yield the LFT file, one switch at a time: 50,000 LIDs on 1,000 switches are 2 GB.

    Names are cut to 63 characters: OpenSM splits a line after 1,022 bytes. Entries towards LIDs that no end port
    owns are left out, as are entries that drop (`NO_PATH`).

    Raises
    ------
    RoutingError
        When OpenSM would reject or misread the tables: a switch without a LID, an entry beyond the ports of its
        switch, a switch that does not know its own LID as port 0.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> sections = list(routing.opensm.lfts_sections(routed.fabric, routed.tables))
    >>> b"".join(sections) == routing.opensm.format_lfts(routed.fabric, routed.tables)
    True
    """
    owner = lid_owners(tables)
    lids = np.flatnonzero(owner >= 0)
    rows = np.tile(np.frombuffer(ENTRY, np.uint8), (len(lids), 1))
    rows[:, LID_AT] = _hex_digits(lids.astype(np.uint64), 4)
    rows[:, GUID_AT] = _hex_digits(fabric.end_guid[owner[lids]], 16)
    radix = np.diff(fabric.port_offset[: fabric.n_switches + 1])
    top = int(lids[-1]) if len(lids) else 0
    engine = clean_description(tables.engine) or "unknown"
    yield f"{fabric.caveat_head}# Forwarding tables of {clean_description(fabric.name)}, engine {engine}\n".encode()
    for switch in range(fabric.n_switches):
        lid, entries, label = int(tables.lid[switch]), tables.lft[switch, lids], fabric.label(switch)
        if lid == 0:
            raise RoutingError(f"switch {label} has no LID; OpenSM manages a switch by its own")
        if (own := tables.lft[switch, lid]) != 0:
            raise RoutingError(f"switch {label} sends its own LID 0x{lid:04x} out of port {own}; it must be port 0")
        if len(beyond := np.flatnonzero((entries > radix[switch]) & (entries != NO_PATH))):
            entry = f"its entry for LID 0x{int(lids[beyond[0]]):04x} says {entries[beyond[0]]}"
            has = f"switch {label} has ports 1 to {radix[switch]}"
            raise RoutingError(f"{has}, and {entry}; OpenSM would reject the whole file")
        name = clean_description(fabric.names[switch])
        yield (
            f"Unicast lids [0x0001-0x{top:04x}] of switch Lid {lid} "
            f"guid 0x{int(fabric.node_guid[switch]):016x} ({name}):\n"
        ).encode()
        rows[:, PORT_AT] = PORT_DIGITS[entries]
        yield rows[entries != NO_PATH].tobytes()


def _hex_digits(values: NDArray[np.uint64], digits: int) -> NDArray[np.uint8]:
    """Return (n, digits) ASCII codes of the values in hexadecimal."""
    shifts = np.arange(4 * (digits - 1), -1, -4, dtype=np.uint64)
    return HEX_DIGITS[((values[:, None] >> shifts) & np.uint64(15)).astype(np.intp)]


def read_lfts(path: Path, fabric: Fabric) -> LftsRead:
    """Read a file of forwarding tables, or a pipe; see `parse_lfts`.

    Examples
    --------
    >>> import tempfile, topo, routing
    >>> from pathlib import Path
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> path = Path(tempfile.mkdtemp(), "lfts")
    >>> _ = path.write_bytes(routing.opensm.format_lfts(routed.fabric, routed.tables))
    >>> routing.opensm.read_lfts(path, routed.fabric).notes
    ()
    """
    with open_input(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            text = file.read(LFT_PIPE.limit + 1)
            if len(text) > LFT_PIPE.limit:
                raise LFT_PIPE.exceeded(str(path))
            return parse_lfts(text, fabric, str(path))
        if status.st_size > LFT_BYTES.limit:
            raise LFT_BYTES.exceeded(str(path))
        if status.st_size == 0:
            return parse_lfts(b"", fabric, str(path))
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as pages:
            return parse_lfts(pages, fabric, str(path))


def parse_lfts(text: bytes | mmap.mmap, fabric: Fabric, path: str = "") -> LftsRead:
    """Read forwarding tables of a fabric.

    The LIDs of an end port are those that entries give with its port GUID, else those that the fabric was discovered
    with. An entry given twice counts as its last. Where all ports of adapters have equally many LIDs, as an LMC gives
    them, the tables have that LMC; else the lowest of each port counts.

    Parameters
    ----------
    text : bytes
        In any of the forms that the module names.
    fabric : Fabric
        The fabric that the tables are for.
    path : str
        Name of the file, for messages.

    Raises
    ------
    FormatError
        With the line, for an entry that cannot be: no switch above it, a LID outside 0x0001 to 0xbfff, a port that
        the switch does not have, one LID with two port GUIDs; and for tables without any LID that can be placed.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> text = routing.opensm.format_lfts(routed.fabric, routed.tables)
    >>> found = routing.opensm.parse_lfts(text, routed.fabric)
    >>> bool((found.tables.lft == routed.tables.lft).all()), found.notes
    (True, ())
    """
    switches, ends = fabric.node_guid[: fabric.n_switches], fabric.end_guid
    switch_order, end_order = np.argsort(switches, kind="stable"), np.argsort(ends, kind="stable")
    radix = np.diff(fabric.port_offset[: fabric.n_switches + 1]).astype(np.int64)
    by_guid = frozen(switches[switch_order]), frozen(switch_order), frozen(ends[end_order]), frozen(end_order)
    found = lft_text.scan_lfts(np.frombuffer(text, np.uint8), *by_guid, frozen(radix), MAX_UNICAST_LID + 1)
    scan = lft_text.LftScan(*found)
    if scan.error:
        raise FormatError(ERRORS[scan.error].format(scan.error_value), path, int(scan.error_line))
    if not scan.section.any():
        raise FormatError("holds no forwarding table of any switch of this fabric", path)
    notes: list[str] = []
    for what, count, lines in zip(lft_text.NOTES, scan.skipped.tolist(), scan.lines.tolist(), strict=True):
        if count:
            notes.append(f"{count:,} {what} (from line {', '.join(f'{line:,}' for line in lines if line)})")
    if silent := np.flatnonzero(scan.section == 0).tolist():
        shown = ", ".join(fabric.label(switch) for switch in silent[:3])
        notes.append(f"{len(silent):,} switches of the fabric have no table ({shown})")
    lid, lmc = _lids(fabric, scan.owner, notes, path)
    if lost := _further_lids(fabric, scan.owner, lid, lmc, scan.lft):
        notes.append(lost)
    top = max(int(scan.top), int(lid.max(initial=0)) + (1 << lmc) - 1)
    return LftsRead(
        RoutingTables(lid=lid, lft=scan.lft[:, : top + 1], engine="file", lmc=lmc),
        tuple(f"{path}: {note}" if path else note for note in notes),
    )


def _lids(fabric: Fabric, owner: NDArray[np.int32], notes: list[str], path: str) -> tuple[NDArray[np.uint16], int]:
    """Return (E,) lowest LIDs of the end ports, by port GUID, else as the fabric was discovered; and the LMC."""
    lid = np.zeros(fabric.n_end_ports, np.uint16)
    named = np.flatnonzero(owner >= 0)[::-1]
    lid[owner[named]] = named  # descending, so the lowest LID of a port stays
    times = np.bincount(owner[named], minlength=fabric.n_end_ports)[fabric.n_switches :]
    most = int(np.bincount(times[times > 0], minlength=2).argmax()) if times.any() else 1
    lmc = most.bit_length() - 1 if len(named) else fabric.lmc
    if fabric.discovered_lid.size:
        known = fabric.discovered_lid.astype(np.int64)
        usable = (known > 0) & (known <= MAX_UNICAST_LID)
        free = (lid == 0) & usable & (owner[np.where(usable, known, 0)] == -1)
        lid[free] = known[free]
    if not lid.any():
        raise FormatError(
            "names LIDs without port GUIDs of this fabric, which has no LIDs: give tables with port GUIDs "
            "(opensm-lfts.dump, dump_fts), the fabric as ibnetdiscover prints it, with LIDs, or OpenSM's guid2lid",
            path,
        )
    last = lid[fabric.n_switches :].astype(np.int64) + (1 << lmc) - 1
    whole = ((times == 0) | (times >= 1 << lmc)) & (lid[fabric.n_switches :] % (1 << lmc) == 0)
    whole &= (times == 0) | (owner[np.minimum(last, MAX_UNICAST_LID)] == np.arange(fabric.n_switches, len(lid)))
    if lmc and not whole.all():
        lack = f"{np.count_nonzero(~whole):,} end ports do not have {1 << lmc} LIDs (LMC {lmc}) as others do"
        notes.append(f"{lack}; the lowest of each counts")
        lmc = 0
    if without := int(np.count_nonzero((lid == 0) & (fabric.end_switch >= 0))):
        notes.append(f"{without:,} end ports of the fabric have no LID in the tables")
    return lid, lmc


def _further_lids(
    fabric: Fabric, owner: NDArray[np.int32], lid: NDArray[np.uint16], lmc: int, lft: NDArray[np.uint8]
) -> str:
    """Say which LIDs beyond those of the LMC end ports have, as virtual ports do, and which of them do not arrive."""
    named = np.flatnonzero(owner >= fabric.n_switches)
    first = lid[owner[named]].astype(np.int64)
    further = named[(named < first) | (named >= first + (1 << lmc))]
    every, lost = np.arange(fabric.n_switches), []
    for one in further.tolist():
        arrives = walk(fabric, lft, every, np.full_like(every, owner[one]), np.full_like(every, one), lambda *_: None)
        if not arrives.all():
            lost.append(f"0x{one:04x} from {np.count_nonzero(~arrives):,} of {len(every):,} switches")
    if not len(further):
        return ""
    found = f"{plural(len(further), 'further LID')} of end ports, as of virtual ports: no pair of the proof has them"
    return f"{found}; they arrive from every switch" if not lost else f"{found}; lost: {listed(lost)}"
