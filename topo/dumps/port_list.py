"""Ports as ``ibnetdiscover -p`` (infiniband-diags) lists them: reader.

A line a port, with the cable in it if there is one; GUIDs are those of ports, which of a switch are the switch's::

    CA    54  1 0x506b4b03000000c1 4x EDR - SW     4 12 0xec0d9a0300000080 ( 'node048 HCA-1' - 'leaf04' )
    SW     4 36 0xec0d9a0300000080 4x SDR                                    'leaf04'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topo.dumps.discovery import LETTERS, UNCOUNTED, CableEnd, Discovery, FoundNode, NodeKey, Records

LISTED_END = r"(CA|SW|RT) {1,6}(\d{1,5}) {1,3}(\d{1,3}) 0x([0-9a-f]{16})"
LISTED_PORT = re.compile(
    rf"{LISTED_END} (\d{{1,2}}x) (\w{{1,6}}) "
    rf"(?:- {LISTED_END} \( '(.{{0,200}})' - '(.{{0,200}})' \)|\s{{1,80}}'(.{{0,200}})')\s*"
)


def parse_port_list(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for a node with more ports than any has, or two cables in one port."""
    records = Records(path)
    cables: list[CableEnd] = []
    for number, line in records.lines(text):
        match = LISTED_PORT.fullmatch(line)
        if match is None:
            records.pass_over(number, line, "is no port as ibnetdiscover -p prints it")
            continue
        ends = [_end(*match.groups()[at : at + 4]) for at in ((0, 6) if match[7] else (0,))]
        node, port, guid, lid = ends[0]
        name = (match[11] or match[13] or "").strip()
        records.node(FoundNode(node, UNCOUNTED, name, number, lid=lid if node[0] == "S" else 0))
        for key, at, *_ in ends:
            records.port(key, at)
        if len(ends) == 2:
            far, far_port, far_guid, far_lid = ends[1]
            rate = records.rate(f"{match[5]}{match[6]}", number)
            cables.append(CableEnd(number, node, port, far, far_port, guid, far_guid, lid, far_lid, *rate))
    for cable in cables:
        if cable.far in records.nodes:
            records.cable(cable)
        else:
            records.skip(cable.line, "a cable to a node that has no lines of its own")
    return records.assemble()


def _end(kind: str, lid: str, port: str, guid: str) -> tuple[NodeKey, int, int, int]:
    """Return the node, the port, its GUID and its LID; the ports of one adapter have GUIDs one after another."""
    letter, own = LETTERS[kind.lower()], int(guid, 16)
    first = own if letter == "S" else own - int(port) + 1
    return (letter, first if first > 0 else own), int(port), own, int(lid)
