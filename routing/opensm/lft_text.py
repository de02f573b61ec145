"""Scans the text of forwarding tables, a byte at a time: a subnet of 1,000 switches has half a gigabyte of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import inner, kernel

OK, BAD_HEADER, NO_SWITCH, BAD_ENTRY, BAD_LID, BAD_PORT, TWO_OWNERS = range(7)
"""Why a scan stopped: a section opens without the GUID of its switch; an entry comes before the first section, or does
not read ``0x<lid> <port>``, or has a LID or port that cannot be; a LID has two port GUIDs."""

NOTES = (
    "switches that the fabric does not have",
    "entries of switches that the fabric does not have",
    "entries towards port GUIDs that the fabric does not have",
    "duplicate entries (the last one counts)",
    "lines that are not part of a forwarding table",
)
"""What a scan skips."""
UNKNOWN_SWITCH, UNKNOWN_ENTRY, UNKNOWN_PORT, DUPLICATE, OTHER, N_NOTES = range(6)


class LftScan(NamedTuple):
    """What `scan_lfts` found; LIDs go to ``top``."""

    lft: NDArray[np.uint8]
    """(S, LIDs) output ports, 255 where nothing is said."""
    owner: NDArray[np.int32]
    """(LIDs,) end port that the text names by GUID, -1 none, -2 one that the fabric does not have."""
    section: NDArray[np.int64]
    """(S,) sections that each switch has."""
    skipped: NDArray[np.int64]
    """(N_NOTES,) how often each kind of note came up."""
    lines: NDArray[np.int64]
    """(N_NOTES, 3) the first lines where it did, 0 for none."""
    top: int
    error: int
    error_line: int
    error_value: int
    """The LID or port that cannot be; the line where the LID has its other port GUID."""


UNICAST = np.frombuffer(b"Unicast lids", np.uint8)
MULTICAST = np.frombuffer(b"Multicast mlids", np.uint8)
GUID = np.frombuffer(b" guid 0x", np.uint8)
FDBS = np.frombuffer(b"dump_ucast_routes", np.uint8)
FDBS_SWITCH = np.frombuffer(b"Switch 0x", np.uint8)
PORT_GUID = np.frombuffer(b" portguid 0x", np.uint8)
UNREACHABLE = np.frombuffer(b"UNREACHABLE", np.uint8)


@inner
def _find(text: NDArray[np.uint8], start: int, stop: int, word: NDArray[np.uint8]) -> int:
    """Return where a word begins in ``text[start:stop]``, -1 if it does not."""
    size = word.size
    for i in range(start, stop - size + 1):
        if text[i] == word[0]:
            k = 1
            while k < size and text[i + k] == word[k]:
                k += 1
            if k == size:
                return i
    return -1


@inner
def _starts(text: NDArray[np.uint8], start: int, stop: int, word: NDArray[np.uint8]) -> bool:
    return start + word.size <= stop and _find(text, start, start + word.size, word) == start


@inner
def _hex(text: NDArray[np.uint8], start: int, stop: int) -> tuple[np.uint64, int]:
    """Return the hexadecimal number at ``start`` and the place after it (``start`` when there is none)."""
    value = np.uint64(0)
    i = start
    while i < stop and i < start + 16:
        c = text[i]
        if 48 <= c <= 57:
            digit = c - 48
        elif 97 <= c <= 102:
            digit = c - 87
        elif 65 <= c <= 70:
            digit = c - 55
        else:
            break
        value = (value << np.uint64(4)) | np.uint64(digit)
        i += 1
    return value, i


@inner
def _blank(c: int) -> bool:
    return c == 32 or 9 <= c <= 13


@inner
def _index(guids: NDArray[np.uint64], order: NDArray[np.int64], guid: np.uint64) -> int:
    """Return the place of a GUID (``guids`` sorted, ``order`` what they came from), -1 if it is not there."""
    place = np.searchsorted(guids, guid)
    if place < guids.size and guids[place] == guid:
        return int(order[place])
    return -1


@inner
def _note(skipped: NDArray[np.int64], lines: NDArray[np.int64], code: int, line: int) -> None:
    if skipped[code] < lines.shape[1]:
        lines[code, skipped[code]] = line
    skipped[code] += 1


@kernel
def scan_lfts(
    text: NDArray[np.uint8],
    switch_guids: NDArray[np.uint64],
    switch_order: NDArray[np.int64],
    end_guids: NDArray[np.uint64],
    end_order: NDArray[np.int64],
    radix: NDArray[np.int64],
    n_lids: int,
) -> tuple[Any, ...]:
    """Return the fields of `LftScan` from tables in any of the forms that `routing.opensm.lfts` names.

    GUIDs are sorted; an order says which switch, or end port, each is. ``radix`` has the ports of each switch; LIDs
    are 1 to ``n_lids - 1``.
    """
    lft = np.full((radix.size, n_lids), np.uint8(255))
    owner = np.full(n_lids, -1, np.int32)
    owner_guid = np.zeros(n_lids, np.uint64)
    owner_line = np.zeros(n_lids, np.int64)
    section = np.zeros(radix.size, np.int64)
    skipped = np.zeros(N_NOTES, np.int64)
    lines = np.zeros((N_NOTES, 3), np.int64)
    top, line, error, value = OK, 0, 0, 0
    switch = -3  # -3 none yet, -2 a section to skip, -1 a switch that the fabric does not have
    stop = text.size
    byte_order_mark = stop >= 3 and text[0] == 0xEF and text[1] == 0xBB and text[2] == 0xBF
    end = 2 if byte_order_mark else -1
    while end + 1 < stop:
        line += 1
        i = end = end + 1
        while end < stop and text[end] != 10:
            end += 1
        while i < end and _blank(text[i]):
            i += 1
        if i == end or text[i] == 35:  # nothing, or a comment
            continue
        if text[i] != 48 or i + 1 >= end or text[i + 1] | 32 != 120:  # not an entry, which starts with 0x
            if _starts(text, i, end, MULTICAST):
                switch = -2
                continue
            if _starts(text, i, end, UNICAST):
                at = _find(text, i, end, GUID) + GUID.size
                found = at >= GUID.size
            else:
                found = _find(text, i, end, FDBS) >= 0
                if not found:
                    # Titles of columns, counts at the end of a section, warnings: all tools print some.
                    c = text[i]
                    if not (c == 76 or c == 80 or c == 42 or 48 <= c <= 57):
                        _note(skipped, lines, OTHER, line)
                    continue
                at = _find(text, i, end, FDBS_SWITCH) + FDBS_SWITCH.size
                found = at >= FDBS_SWITCH.size
            after = at
            if found:
                guid, after = _hex(text, at, end)
            if not found or after == at:
                error = BAD_HEADER
                break
            switch = _index(switch_guids, switch_order, guid)
            if switch >= 0:
                section[switch] += 1
            else:
                _note(skipped, lines, UNKNOWN_SWITCH, line)
            continue
        if switch == -2:
            continue
        if switch == -1:
            _note(skipped, lines, UNKNOWN_ENTRY, line)
            continue
        if switch == -3:
            error = NO_SWITCH
            break
        lid, at = _hex(text, i + 2, end)
        bad = at == i + 2 or at == end or not (_blank(text[at]) or text[at] == 58)
        while at < end and (_blank(text[at]) or text[at] == 58):
            at += 1
        if not bad and _starts(text, at, end, UNREACHABLE):
            continue
        port = 0
        start = at
        while at < end and 48 <= text[at] <= 57 and port < 100000:
            port = 10 * port + int(text[at]) - 48
            at += 1
        if bad or at == start or (at < end and not (_blank(text[at]) or text[at] == 58)):
            error = BAD_ENTRY
            break
        if lid == 0 and port == 255:
            continue
        if lid == 0 or lid >= n_lids:
            error, value = BAD_LID, int(np.int64(lid & np.uint64(0x7FFFFFFFFFFFFFFF)))
            break
        if port > radix[switch] and port != 255:
            error, value = BAD_PORT, port
            break
        dest = np.int64(lid)
        top = max(top, int(dest))
        if lft[switch, dest] != 255:
            _note(skipped, lines, DUPLICATE, line)
        lft[switch, dest] = port
        at = _find(text, at, end, PORT_GUID)
        if at < 0:
            continue
        guid, _ = _hex(text, at + PORT_GUID.size, end)
        if owner[dest] == -1:
            place = _index(end_guids, end_order, guid)
            owner[dest] = place if place >= 0 else -2
            owner_guid[dest] = guid
            owner_line[dest] = line
        elif owner_guid[dest] != guid:
            error, value = TWO_OWNERS, owner_line[dest]
            break
        if owner[dest] == -2:
            _note(skipped, lines, UNKNOWN_PORT, line)
    return lft, owner, section, skipped, lines, top, error, line, value
