"""What ``iblinkinfo`` (infiniband-diags) prints: reader.

A block a node, or with ``--line`` all in one line, which has the GUIDs of both ends::

    Switch: 0x0c42a103004b7000 MF0;leaf01:MQM8700/U1:
               7    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>      20    1[  ] "gpu01 mlx5_0" ( )
    CA: gpu01 mlx5_0:
          0x0c42a10300a58154     20    1[  ] ==( 4X        53.125 Gbps Active/  LinkUp)==>       7    1[  ] "..." ( )

In blocks the far end has a LID and no GUID, so each LID must belong to one node.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple

from topo.dumps.discovery import UNCOUNTED, CableEnd, Discovery, FoundNode, NodeKey, Records

SWITCH_LINE = re.compile(r"\s*+Switch: 0x([0-9a-f]{1,16}) (.{0,200}):\s*")
ADAPTER = re.compile(r"\s*+(CA|Router): (.{0,200}):\s*")
PORT = re.compile(
    r'\s*+(?:0x([0-9a-f]{1,16})\s+(?:"(.{0,200}?)"\s+)?)?(\d{1,5})\s+(\d{1,4})\[[ \d]{0,4}\]\s+'
    r"==\((.{0,200}?)\)==>\s+(.*)"
)
FAR = re.compile(r'(?:0x([0-9a-f]{1,16})\s+)?(\d{1,5})\s+(\d{1,4})\[[ \d]{0,4}\]\s+"(.{0,200})"\s+\(.*\)\s*')
LINK_RATE = re.compile(r"\s*(\d{1,2})X\s+(\d{1,3}(?:\.\d{1,6})?) Gbps(?: \((FDR10)\))?\s+\w+/\s*\w+.*")
SPEED_ON_WIRE = {"2.5": "SDR", "5.0": "DDR", "10.0": "QDR", "14.0625": "FDR", "25.78125": "EDR", "53.125": "HDR",
         "106.25": "NDR", "212.5": "XDR"}  # fmt: skip
"""Gb/s of a lane on the wire, as libibmad prints them."""


class _Port(NamedTuple):
    line: int
    node: NodeKey
    guid: int
    lid: int
    number: int
    rate: str
    far: tuple[str | Any, ...] | None
    """GUID (or empty), LID, port and description."""


def parse_iblinkinfo(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for a port without a node, and for a LID of several nodes that cables lead to."""
    records = Records(path)
    ports: list[_Port] = []
    names: dict[NodeKey, tuple[str, int]] = {}
    block: NodeKey | str = ""
    name = ""
    for number, line in records.lines(text):
        if match := SWITCH_LINE.fullmatch(line):
            block = ("S", int(match[1], 16))
            names.setdefault(block, (match[2].strip(), number))
        elif match := ADAPTER.fullmatch(line):
            block, name = match[1], match[2].strip()
        elif match := PORT.fullmatch(line):
            guid, description, lid, port, rate, far = match.groups()
            if description is not None:
                node = ("", int(guid, 16))
                names.setdefault(node, (description.strip(), number))
            elif isinstance(block, tuple):
                node = block
            elif guid and block:  # the ports of one adapter have GUIDs one after another
                first = int(guid, 16) - (int(port) - 1)
                node = ("H" if block == "CA" else "R", int(guid, 16) if first < 1 or int(port) == 1 else first)
                names.setdefault(node, (name, number))
            else:
                expected = 'a line such as "Switch: 0x.. leaf01:"'
                raise records.refuse(f"found a port without a node; expected {expected}", number)
            led = FAR.fullmatch(far)
            end = number, node, int(guid or "0", 16), int(lid), int(port), rate, led.groups() if led else None
            ports.append(_Port(*end))
        else:
            records.pass_over(number, line, "is no part of the output of iblinkinfo")
    return _assemble(records, ports, names)


def _assemble(records: Records, ports: list[_Port], names: dict[NodeKey, tuple[str, int]]) -> Discovery:
    """Find who is at the other end of each cable, and build the fabric."""
    at_lid = Counter((port.node, port.lid) for port in ports)
    # In lines of their own, a switch is what has several ports under one GUID and one LID.
    switches = {node for (node, _), count in at_lid.items() if count > 1}
    key = {node: ("S" if node in switches else "H", node[1]) if not node[0] else node for node in names}
    by_lid: dict[int, set[NodeKey]] = defaultdict(set)
    for port in ports:
        by_lid[port.lid].add(key[port.node])
        records.port(key[port.node], port.number)
    by_guid = {node[1]: found for node, found in key.items()}
    lid_of = {key[port.node]: port.lid for port in ports}
    for node, (name, line) in names.items():
        own = lid_of.get(key[node], 0) if key[node][0] == "S" else 0
        records.node(FoundNode(key[node], UNCOUNTED, name, line, lid=own))
    for port in ports:
        if port.far is None:
            continue
        guid, lid, far_number, far_name = port.far
        there = {by_guid[int(guid, 16)]} if guid and int(guid, 16) in by_guid else by_lid[int(lid)]
        if len(there) > 1:
            expected = "one, or take iblinkinfo --line"
            raise records.refuse(f"found LID {lid} of {len(there)} nodes; expected {expected}", port.line)
        if not there:
            records.skip(port.line, f"a cable to {far_name.strip()[:40]!r} (LID {lid}), which has no lines of its own")
            continue
        (far,) = there
        match = LINK_RATE.fullmatch(port.rate)
        rate = f"{match[1]}x{match[3] or SPEED_ON_WIRE.get(match[2], match[2])}" if match else port.rate.strip()
        ends = key[port.node], port.number, far, int(far_number)
        records.cable(CableEnd(port.line, *ends, port.guid, 0, port.lid, int(lid), *records.rate(rate, port.line)))
    return records.assemble()
