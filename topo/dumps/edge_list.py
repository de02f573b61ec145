"""Plain lists of links as CSV: reader.

A header, then a row for each cable; two cables between the same nodes are two rows::

    from,to,gbps
    gpu01 mlx5_0,leaf01,400
    leaf01,spine01,800

A rate is in Gb/s, or a link speed such as ``NDR``. A node with one cable is an adapter, and so is one that is named
``host device``; all others are switches. Ports are numbered in the order of the rows, GUIDs are made from the names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from topo.builder import stable_guid
from topo.dumps.discovery import HOST_AND_DEVICE, UNCOUNTED, Discovery, FoundNode, Records
from topo.files.csv import plain_text, split_row
from topo.speeds import LANE_GBPS, SPEEDS, WIDTHS

EDGE_HEAD: re.Pattern[str] = re.compile(
    r"\s*(from|source)\s*,\s*(to|target)\s*,\s*(gbps|rate_gbps|speed)\s*", re.IGNORECASE
)
BY_GBPS = {
    width * float(lane): f"{width}x{generation}"
    for width in sorted(WIDTHS, key=lambda width: width != 4, reverse=True)
    for lane, generation in zip(LANE_GBPS.tolist(), SPEEDS, strict=True)
}
"""Link speeds by their rate; of those with one rate that of four lanes."""


def parse_edge_list(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for a row without two different nodes and a rate, or a rate that no link has."""
    records = Records(path)
    rows: list[tuple[int, str, str, str]] = []
    begun = False
    for number, line in records.lines(text):
        cells = [plain_text(cell.strip()) for cell in split_row(line)]
        if EDGE_HEAD.fullmatch(line):
            begun = True
            continue
        if not begun or not any(cells):
            continue
        if len(cells) != 3 or not all(cells) or cells[0] == cells[1]:
            raise records.unlike(line, "two different nodes and a rate", number)
        rows.append((number, cells[0], cells[1], speed_of(records, cells[2], number)))
    plug(records, rows, lambda name, cables: cables == 1 or HOST_AND_DEVICE.fullmatch(name) is not None)
    return records.assemble()


def plug(records: Records, rows: Sequence[tuple[int, str, str, str]], is_adapter: Callable[[str, int], bool]) -> None:
    """Add cables (line, name, name, link speed): nodes in the order in which they are named, and so their ports.

    What is an adapter is told by its name and its number of cables.
    """
    cables = Counter(name for _, a, b, _ in rows for name in (a, b))
    ports: Counter[str] = Counter()
    for number, a, b, speed in rows:
        keys = (("H" if is_adapter(name, cables[name]) else "S", stable_guid(name)) for name in (a, b))
        near, far = (FoundNode(key, UNCOUNTED, name, number) for key, name in zip(keys, (a, b), strict=True))
        ports.update((a, b))
        records.link(near, ports[a], far, ports[b], records.rate(speed, number))


def speed_of(records: Records, text: str, number: int) -> str:
    """Return the link speed of a rate in Gb/s; what is no number is returned as it is."""
    if not re.fullmatch(r"\d{1,6}(?:\.\d{1,3})?", text):
        return text
    if (speed := BY_GBPS.get(float(text))) is None:
        known = ", ".join(f"{rate:g}" for rate in sorted(BY_GBPS) if rate >= 40)
        raise records.refuse(f"found {text} Gb/s; expected the rate of a link: {known}", number)
    return speed
