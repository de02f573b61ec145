"""The list of links by switch that ibdiagnet writes (``ibdiagnet2.net_dump``): reader.

A block for each switch, with a row for each of its ports, and what each leads to::

    "MF0;leaf01:MQM9700/U1", Mellanox, 0x0c42a103004b7000, LID 10
     #    : IB# : Sta : PhysSta : MTU : LWA : LSA : FEC mode : Retran : Neighbor Guid : N# : NLID : Neighbor Description
    1/1   : 1 : ACT : LINK UP : 5 : 4x : 100 : RS : NO-RTR : 0x0c42a10300a58154 : 1 : 20 : "gpu01 mlx5_0"

``#`` and ``N#`` are what is printed at the port (``sw1p1`` of XDR, where each plane is a block), ``IB#`` its number.
Adapters stand only where a switch leads to them: how many ports they have is not known beyond the ones in use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from topo.dumps.discovery import UNCOUNTED, CableEnd, Discovery, FoundNode, NodeKey, Records
from topo.dumps.planes import assemble
from topo.dumps.subnet_lst import SPEED_OF_LANE

SWITCH_HEAD: re.Pattern[str] = re.compile(
    r'\s*"(.{0,200})"\s*,\s*[^,"]{1,40},\s*0x([0-9a-fA-F]{1,16})\s*,\s*LID\s+(\d{1,5})\s*'
)
COLUMNS = 13


def parse_net_dump(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric; FormatError for a row that is none, or stands before the first switch."""
    records = Records(path)
    rows: list[tuple[int, NodeKey, int, str, int, str, int, str]] = []
    switches: dict[int, tuple[str, int, int]] = {}  # description, LID, line
    numbers: dict[tuple[int, str], int] = {}  # of a port, by what is printed there
    guid = None
    for number, line in records.lines(text):
        if match := SWITCH_HEAD.fullmatch(line):
            guid = int(match[2], 16)
            switches.setdefault(guid, (match[1].strip(), int(match[3]), number))
            continue
        cells = [cell.strip() for cell in line.split(":", COLUMNS - 1)]
        if len(cells) < COLUMNS:
            records.pass_over(number, line, "is no row of a port")
            continue
        if guid is None or not re.fullmatch(r"[0-9]{1,4}", cells[1]):
            rows_of = "then rows with the number of a port in the second column"
            raise records.unlike(line, f'"switch", vendor, 0x<GUID>, LID <number>, {rows_of}', number)
        port = int(cells[1])
        records.port(("S", guid), port)
        numbers[guid, cells[0]] = port
        records.labels[("S", guid), port] = cells[0], None
        led = re.fullmatch(r"0x([0-9a-fA-F]{1,16})", cells[9])
        if port and led and int(led[1], 16):
            name = cells[12].removeprefix('"').removesuffix('"').strip()
            lid = int(cells[11]) if re.fullmatch(r"[0-9]{1,5}", cells[11]) else 0
            rate = cells[5] + SPEED_OF_LANE.get(cells[6], cells[6])
            rows.append((number, ("S", guid), port, rate, int(led[1], 16), cells[10], lid, name))
    for guid, (name, lid, line_number) in switches.items():
        records.node(FoundNode(("S", guid), UNCOUNTED, name, line_number, lid=lid))
    for line_number, near, port, rate, far_guid, label, lid, name in rows:
        far = ("S" if far_guid in switches else "H", far_guid)
        if far_guid in switches:
            there = numbers.get((far_guid, label), 0)
        else:
            there = int(label) if re.fullmatch(r"[1-9][0-9]?", label) else 1
            records.node(FoundNode(far, UNCOUNTED, name, line_number))
            records.port(far, there)
        if not there:
            records.skip(line_number, f"a cable to port {label[:20]!r} of a switch that has none of that name")
            continue
        width, speed = records.rate(rate, line_number)
        ends = near, port, far, there
        records.cable(CableEnd(line_number, *ends, far_guid=far_guid, far_lid=lid, width=width, speed=speed))
    return assemble(records)
