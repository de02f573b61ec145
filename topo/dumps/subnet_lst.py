"""The link list of a subnet that OpenSM (``opensm-subnet.lst``) and ibdiagnet (``ibdiagnet2.lst``) write: reader.

One line a cable end, with both nodes in full::

    { CA Ports:01 SystemGUID:.. NodeGUID:.. PortGUID:.. VenID:.. DevID:.. Rev:.. {gpu0001 mlx5_0} LID:0008 PN:01 }
    { SW Ports:28 SystemGUID:.. NodeGUID:.. PortGUID:.. VenID:.. DevID:.. Rev:.. {leaf01} LID:0003 PN:02 }
    PHY=4x LOG=ACT SPD=50

(in one line). All numbers but width and speed are hexadecimal; the speed is Gb/s of a lane, as the field rounds it.
Nodes come in the order in which the file first names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from topo.dumps.discovery import LETTERS, CableEnd, Discovery, FoundNode, Records

END = (
    r"\{\s*(CA|SW|RT)\w*(?:-SM)?\s+Ports:([0-9A-F]{1,4})\s+SystemGUID:([0-9A-F]{1,16})\s+NodeGUID:([0-9A-F]{1,16})\s+"
    r"PortGUID:([0-9A-F]{1,16})\s+VenID:[0-9A-F]+\s+DevID:([0-9A-F]{1,8})\s+Rev:[0-9A-F]+\s+"
    r"\{(.{0,64}?)\}\s+LID:([0-9A-F]{1,4})\s+PN:([0-9A-F]{1,4})\s*\}"
)
CABLE_LINE = re.compile(rf"\s*{END}\s*{END}\s*PHY=(\w+)(?:\s+LOG=\w+)?\s+SPD=(\S+)\s*", re.IGNORECASE)
SPEED_OF_LANE = {"2.5": "SDR", "5": "DDR", "10": "QDR", "14": "FDR", "25": "EDR", "50": "HDR", "100": "NDR",
                 "200": "XDR"}  # fmt: skip


def parse_subnet_lst(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric.

    FormatError for a line that opens a brace but describes no cable, a second cable in one port, a port that its node
    does not have, a cable that only one of its ends names, or a text without cables.
    """
    records = Records(path)
    for number, line in records.lines(text):
        match = CABLE_LINE.fullmatch(line)
        if match is None:
            if line.lstrip().startswith("{"):
                expected = "{ CA Ports:.. .. PN:01 } { SW .. } PHY=4x LOG=ACT SPD=50 in one line"
                raise records.refuse(f"cannot read {line.strip()[:100]!r}; expected {expected}", number)
            records.pass_over(number, line, "describes no cable")
            continue
        *fields, width, speed = match.groups()
        (near, port, guid), (far, far_port, far_guid) = (_end(fields[at : at + 9], number) for at in (0, 9))
        records.node(near)
        records.node(far)
        if port == 0 or far_port == 0:
            records.skip(number, "port 0, which is a switch's own and holds no cable")
            continue
        rate = records.rate(width + SPEED_OF_LANE.get(speed, speed), number)
        ends = near.key, port, far.key, far_port
        records.cable(CableEnd(number, *ends, guid, far_guid, near.lid, far.lid, *rate))
    return records.assemble(both_ends=True)


def _end(fields: Sequence[str], number: int) -> tuple[FoundNode, int, int]:
    """Return the node at one end of a cable, the number of its port, and the GUID of that."""
    word, ports, system, guid, port_guid, device, description, lid, port = fields
    node = FoundNode(
        key=(LETTERS[word.lower()], int(guid, 16)),
        ports=int(ports, 16),
        description=description.strip(),
        line=number,
        # The far node's 16 bits are printed as the upper half of 32.
        device=int(device[:4], 16),
        system=int(system, 16),
        lid=int(lid, 16),
    )
    return node, int(port, 16), int(port_guid, 16)
