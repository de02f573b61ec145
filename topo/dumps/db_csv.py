"""The database of a fabric that ibdiagnet writes (``ibdiagnet2.db_csv``): reader and writer.

Tables of CSV, each between ``START_X`` and ``END_X`` with a header of its own::

    START_NODES
    NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,DeviceID,...
    "MF0;leaf01:MQM9700/U1",65,2,1,1,0x..,0x..,0x..,54002,...
    END_NODES

Nodes, ports and links are read; other tables may be there or not. The tables spell their columns in their own ways
(``NodeGUID`` and ``NodeGuid``), so case does not count. Of XDR each chip of a switch is a node of its own, with the
ports of its plane; the four planes of a link are four links there. What is printed at a port, the ``ExtendedLabel`` of
``PORT_HIERARCHY_INFO``, tells which belong together (`topo.dumps.planes`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from topo.catalog.devices import device_id
from topo.dumps.discovery import CableEnd, Discovery, FoundNode, NodeKey, Records
from topo.dumps.ibnetdiscover import PREFIX, clean_description
from topo.dumps.planes import assemble
from topo.fabric import Fabric, Kind
from topo.files.csv import split_row
from topo.files.text import lines_of
from topo.speeds import SPEEDS

TABLE_HEAD: re.Pattern[str] = re.compile(r"START_[A-Z0-9_]{1,60}\s*")
TABLES = {
    "NODES": ("nodedesc", "numports", "nodetype", "nodeguid"),
    "PORTS": ("nodeguid", "portnum"),
    "LINKS": ("nodeguid1", "portnum1", "nodeguid2", "portnum2"),
    "PORT_HIERARCHY_INFO": ("nodeguid", "portnum"),
}
"""The columns that each table must have."""
NODE_TYPES = {1: "H", 2: "S", 3: "R"}
ACTIVE = 4
"""PortInfo:PortState of a link that is up."""
WIDTH_BITS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
"""Lanes by PortInfo:LinkWidthActive (InfiniBand Architecture Specification, volume 1)."""
SPEED_BIT = {1: "SDR", 2: "DDR", 4: "QDR", 1 << 8: "FDR", 1 << 9: "EDR", 1 << 10: "HDR", 1 << 11: "NDR", 1 << 12: "XDR",
             1 << 16: "FDR10"}  # fmt: skip
"""Generations by the bits of LinkSpeedActive: below 256 those of PortInfo, then LinkSpeedExtActive shifted by 8, as
published tables pair them with the ports that they describe. XDR and FDR10 are inferred: no table has one."""


def parse_db_csv(text: str | Iterable[str], path: str = "") -> Discovery:
    """Return the fabric.

    FormatError for a row that lacks a column, has a number that is none, or describes what cannot be; and for a text
    without tables of nodes and links.
    """
    records = Records(path)
    table, columns, seen = "", None, set[str]()
    ports: dict[tuple[int, int], tuple[int, int, int, int]] = {}
    links: list[tuple[int, int, int, int, int]] = []
    for number, line in enumerate(lines_of(text, path), 1):
        if TABLE_HEAD.fullmatch(line):
            table, columns = line.strip()[6:], None
        elif line.startswith("END_"):
            table = ""
        elif table in TABLES and line.strip():
            cells = split_row(line)
            if columns is None:
                columns = [cell.strip().lower() for cell in cells]
                seen.add(table)
                if lacking := [name for name in TABLES[table] if name not in columns]:
                    raise records.refuse(f"found no column {lacking[0]} of table {table}; expected it", number)
                continue
            if len(cells) < len(columns):
                raise records.refuse(f"found {len(cells)} cells; expected {len(columns)}, as in the header", number)
            row = _Row(records, number, dict(zip(columns, cells, strict=False)))
            if table == "NODES":
                row.add_node()
            elif table == "PORTS":
                records.lmc = max(records.lmc, min(row.number("lmc", 0), 7))
                width, speed = row.number("linkwidthactv", 0), row.number("linkspeedactv", 0)  # of one down: nothing
                rate = WIDTH_BITS.get(width, 4), SPEEDS.index(SPEED_BIT.get(speed, "SDR"))
                end = row.number("nodeguid"), row.number("portnum")
                ports[end] = row.number("portguid", 0), row.number("lid", 0), *rate
            elif table == "PORT_HIERARCHY_INFO":
                # Of adapters the number of the port may be missing; they follow from their switches.
                key, plane = ("S", row.number("nodeguid")), row.number("plane", 0) if "plane" in row.cells else None
                records.labels[key, row.number("portnum", 0)] = row.cells.get("extendedlabel", "").strip(), plane
            else:
                a, p, b, q = map(row.number, TABLES["LINKS"])
                links.append((number, a, p, b, q))
    if lacking := [name for name in ("NODES", "LINKS") if name not in seen]:
        raise records.refuse(f"found no table START_{lacking[0]}; expected one, with a header")
    keys = {key[1]: key for key in records.nodes}
    for guid, key in keys.items():
        records.nodes[key].lid = ports.get((guid, 0), (0, 0))[1] if key[0] == "S" else 0
    _add_links(records, links, keys, ports)
    return assemble(records)


class _Row(NamedTuple):
    """A row of a table."""

    records: Records
    line: int
    cells: dict[str, str]

    def number(self, column: str, missing: int | None = None) -> int:
        """Return the number in a cell, decimal or behind 0x; ``N/A`` and a column that is not there are missing."""
        text = self.cells.get(column, "N/A").strip()
        if missing is not None and text in ("N/A", ""):
            return missing
        match = re.fullmatch(r"0x([0-9a-fA-F]{1,16})|([0-9]{1,20})", text)
        value = -1 if match is None else int(match[1], 16) if match[1] else int(match[2])
        if not 0 <= value < 1 << 64:
            expected = "a number such as 0x1b or 27"
            raise self.records.refuse(f"found {text[:40]!r} in column {column}; expected {expected}", self.line)
        return value

    def add_node(self) -> None:
        """Add the node that a row of NODES describes."""
        kind, ports = self.number("nodetype"), self.number("numports")
        if kind not in NODE_TYPES:
            expected = "1 for adapters, 2 for switches, 3"
            raise self.records.refuse(f"found the node type {kind}; expected {expected}", self.line)
        key, name = (NODE_TYPES[kind], self.number("nodeguid")), self.cells["nodedesc"].strip()
        device, system = self.number("deviceid", 0), self.number("systemimageguid", 0)
        if not self.records.node(FoundNode(key, ports, name, self.line, device, system)):
            self.records.skip(self.line, f"a second row of the node in line {self.records.nodes[key].line}")


def _add_links(
    records: Records,
    links: list[tuple[int, int, int, int, int]],
    keys: Mapping[int, NodeKey],
    ports: Mapping[tuple[int, int], tuple[int, int, int, int]],
) -> None:
    """Add both ends of each link, which the table has once or from either end."""
    described: set[tuple[int, int, int, int]] = set()
    bare = 0
    for number, a, p, b, q in links:
        if a not in keys or b not in keys:
            records.skip(number, f"a link of 0x{a if a not in keys else b:016x}, which has no row")
            continue
        if p == 0 or q == 0:
            records.skip(number, "port 0, which is a switch's own and holds no cable")
            continue
        for near, here, far, there in ((a, p, b, q), (b, q, a, p)):
            if (near, here, far, there) in described:
                continue
            described.add((near, here, far, there))
            bare += (near, here) not in ports
            guid, lid, *rate = ports.get((near, here), (0, 0, 0, 0))
            far_guid, far_lid, *_ = ports.get((far, there), (0, 0, 0, 0))
            records.cable(CableEnd(number, keys[near], here, keys[far], there, guid, far_guid, lid, far_lid, *rate))
    if bare:
        records.skip(0, f"{bare:,} ports of links without a row in PORTS: taken as the other end, or 4xSDR")


def format_db_csv(fabric: Fabric, counters: Mapping[int, Mapping[str, int]] | None = None) -> str:
    """Return the tables of a database that tell nodes, ports, links and, where there are any, counters.

    Parameters
    ----------
    fabric : Fabric
    counters : mapping of int to mapping of str to int, optional
        Counters of ports, for the table PM_INFO: of each the same, by their names.

    Examples
    --------
    >>> import topo
    >>> topo.format_db_csv(topo.preset("lab-20").fabric).splitlines()[0]
    'START_NODES'
    """
    lids = fabric.discovered_lid if len(fabric.discovered_lid) else np.zeros(fabric.n_end_ports, np.uint16)
    types = {letter: number for number, letter in NODE_TYPES.items()}
    widths = {lanes: bits for bits, lanes in WIDTH_BITS.items()}
    speeds = {SPEEDS.index(name): bit for bit, name in SPEED_BIT.items()}
    guid = [f"0x{guid:016x}" for guid in fabric.node_guid.tolist()]
    owner, number = fabric.port_node.tolist(), fabric.port_number.tolist()
    end, port_guid = fabric.end_of(np.arange(fabric.n_ports)).tolist(), fabric.port_guid.tolist()
    nodes = [
        f'"{clean_description(fabric.names[node])}",{len(fabric.ports_of(node))},'
        f"{types[PREFIX[Kind(kind)]]},1,1,{guid[node]},{guid[node]},{guid[node]},{device_id(fabric, node, None)}"
        for node, kind in enumerate(fabric.kind.tolist())
    ]
    ports = [f"{guid[node]},{guid[node]},0,{lids[node]},N/A,N/A,0,{ACTIVE}" for node in range(fabric.n_switches)]
    ports += [
        f"{guid[owner[port]]},0x{port_guid[port]:016x},{number[port]},{lids[end[port]]},"
        f"{widths[int(fabric.width[port])]},{speeds[int(fabric.speed[port])]},{fabric.lmc},{ACTIVE}"
        for port in np.flatnonzero(fabric.peer >= 0).tolist()
    ]
    links = [",".join(f"{guid[owner[port]]},{number[port]}" for port in link) for link in fabric.links.tolist()]
    tables = {
        "NODES": ("NodeDesc,NumPorts,NodeType,ClassVersion,BaseVersion,SystemImageGUID,NodeGUID,PortGUID,DeviceID",
                  nodes),
        "PORTS": ("NodeGuid,PortGuid,PortNum,LID,LinkWidthActv,LinkSpeedActv,LMC,PortState", ports),
        "LINKS": ("NodeGuid1,PortNum1,NodeGuid2,PortNum2", links),
    }  # fmt: skip
    if counters:
        names = list(next(iter(counters.values())))
        rows = [
            f"{guid[owner[port]]},0x{port_guid[port]:016x},{number[port]},{','.join(map(str, told.values()))}"
            for port, told in sorted(counters.items())
        ]
        tables["PM_INFO"] = (f"NodeGUID,PortGUID,PortNumber,{','.join(names)}", rows)
    return "".join(
        "\n".join([f"START_{name}", head, *rows, f"END_{name}", "", ""]) for name, (head, rows) in tables.items()
    )
