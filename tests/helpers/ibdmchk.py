"""The files that ``ibdmchk`` (Debian's ibutils) reads, so that another program can judge tables.

OpenSM dumps the first two of them, ``opensm-subnet.lst`` and ``opensm.fdbs``; written from here they need no OpenSM::

    ibdmchk -s subnet.lst -f fdbs -m mcfdbs [-c path_sl -d sl2vl]
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from routing.tables import NO_PATH, RoutingTables
from topo.dumps.ibnetdiscover import clean_description
from topo.dumps.subnet_lst import SPEED_OF_LANE
from topo.fabric import Fabric, Kind
from topo.speeds import SPEEDS

KIND = {Kind.SWITCH: "SW", Kind.HCA: "CA", Kind.AGGREGATION: "CA", Kind.ROUTER: "RT"}
WORD = {generation: word for word, generation in SPEED_OF_LANE.items()}
DEVICE = {"SW": "D2F0", "CA": "101B", "RT": "D2F0"}


def write_ibdmchk_inputs(folder: Path, fabric: Fabric, tables: RoutingTables) -> list[str]:
    """Write all that ibdmchk needs into a folder; return its arguments, for a run inside that folder."""
    (folder / "subnet.lst").write_text(format_subnet_list(fabric, tables))
    with (folder / "fdbs").open("w") as file:
        file.writelines(fdbs_sections(fabric, tables))
    (folder / "mcfdbs").write_text("")
    arguments = ["-s", "subnet.lst", "-f", "fdbs", "-m", "mcfdbs"]
    if tables.path_sl is not None:
        with (folder / "path_sl").open("w") as file:
            file.writelines(path_sl_sections(fabric, tables))
        (folder / "sl2vl").write_text(format_sl2vl(fabric, tables))
        arguments += ["-c", "path_sl", "-d", "sl2vl"]
    return arguments


def format_subnet_list(fabric: Fabric, tables: RoutingTables) -> str:
    """Return the list of cable ends, in the form of ``opensm-subnet.lst``."""
    lid = tables.lid.tolist()

    def end(port: int) -> str:
        node = int(fabric.port_node[port])
        kind = KIND[Kind(fabric.kind[node])]
        own = int(fabric.end_of(np.array(port)))
        ports = int(fabric.port_offset[node + 1] - fabric.port_offset[node])
        guid = int(fabric.node_guid[node])
        name = clean_description(fabric.names[node]).replace("{", "(").replace("}", ")")
        return (
            f"{{ {kind} Ports:{ports:02x} SystemGUID:{guid:016x} NodeGUID:{guid:016x} "
            f"PortGUID:{int(fabric.port_guid[port]):016x} VenID:000002C9 DevID:{DEVICE[kind]} Rev:00000000 "
            f"{{{name}}} LID:{lid[own]:04X} PN:{int(fabric.port_number[port]):02X} }}"
        )

    ends = {port: end(port) for port in np.flatnonzero(fabric.peer >= 0).tolist()}
    peer, width = fabric.peer.tolist(), fabric.width.tolist()
    speed = [WORD.get(SPEEDS[index], SPEEDS[index]) for index in fabric.speed.tolist()]
    return "".join(
        f"{text} {ends[peer[port]]} PHY={width[port]}x LOG=ACT SPD={speed[port]}\n" for port, text in ends.items()
    )


def fdbs_sections(fabric: Fabric, tables: RoutingTables) -> Iterator[str]:
    """Yield the forwarding tables in the form of ``opensm.fdbs``, one switch at a time; hops are not counted."""
    known = np.zeros(tables.lft.shape[1], bool)
    known[tables.lid[tables.lid < len(known)]] = True
    known[0] = False
    lids = np.flatnonzero(known)
    heads = [f"0x{lid:04X} : " for lid in lids.tolist()]
    tails = [f"{port:03d}  : 01   : yes\n" for port in range(NO_PATH)] + ["UNREACHABLE\n"]
    plugged = np.unique(fabric.port_node[fabric.peer >= 0])  # others are not in the list of cables
    for switch in plugged[plugged < fabric.n_switches].tolist():
        guid = int(fabric.node_guid[switch])
        yield f"dump_ucast_routes: Switch 0x{guid:016x}\nLID    : Port : Hops : Optimal\n"
        ports = tables.lft[switch, lids].tolist()
        yield "".join([head + tails[port] for head, port in zip(heads, ports, strict=True)]) + "\n"


def path_sl_sections(fabric: Fabric, tables: RoutingTables) -> Iterator[str]:
    """Yield the service level of each path, one adapter at a time; of an adapter with two ports, as from the first."""
    assert tables.path_sl is not None
    lids = np.sort(tables.lid[(tables.lid > 0) & (tables.lid < tables.lft.shape[1])])
    names = lids.tolist()
    for node in range(fabric.n_switches, fabric.n_nodes):
        switches = fabric.peer_node[fabric.port_offset[node] : fabric.port_offset[node + 1]]
        switches = switches[(switches >= 0) & (switches < fabric.n_switches)]
        if len(switches):
            guid = f"0x{int(fabric.node_guid[node]):016x}"
            levels = tables.path_sl[switches[0], lids].tolist()
            yield "".join([f"{guid} {lid} {level}\n" for lid, level in zip(names, levels, strict=True)])


def format_sl2vl(fabric: Fabric, tables: RoutingTables) -> str:
    """Return the virtual lane of each service level, for each pair of ports of each switch."""
    lanes = tables.sl2vl
    row = " ".join(f"0x{lanes[level]:x}{lanes[level + 1]:x}" for level in range(0, 16, 2))
    lines = []
    for switch in range(fabric.n_switches):
        guid, ports = f"0x{int(fabric.node_guid[switch]):016x}", range(int(np.diff(fabric.port_offset)[switch]) + 1)
        lines += [f"{guid} {coming} {going} {row}\n" for coming in ports for going in ports]
    return "".join(lines)
