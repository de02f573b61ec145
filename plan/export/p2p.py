"""``p2p.xlsx`` and ``hca_mapping.csv``: the point-to-point sheet of NVIDIA's UFM Cable Validation Tool.

Fields as its manual (1.4.0, 1.5.0, "P2P File") lists them, with the header of its InfiniBand sample. A host's port is
the number of its adapter, 1 for ``mlx5_0``, which the mapping file says in words.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import datetime

from xlsxwriter import Workbook

from plan.export.systems import adapter_parts, system_name
from plan.render.tables import add_sheet
from topo import Column, Fabric, Kind, Layout, Table

HEADER = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")
"""The manual prints the sixth as a second ``Name`` over values that are units; we take it for a slip."""

FIXED_DATE = datetime(2020, 1, 1)
"""A workbook carries its time of making; a constant keeps its bytes the same."""


def format_p2p_xlsx(fabrics: Sequence[Fabric], layout: Layout | None = None) -> bytes:
    """Return the workbook: a sheet for hosts to switches and one for switches to switches, each cable once."""
    out = io.BytesIO()
    with Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": FIXED_DATE})
        for name, rows in zip(("hosts to switches", "switches to switches"), _rows(fabrics, layout), strict=True):
            values = list(zip(*rows, strict=True)) or [()] * len(HEADER)
            table = Table(name, tuple(Column(*column) for column in zip(HEADER, values, strict=True)))
            add_sheet(book, name, table, line=False)
    return out.getvalue()


def format_hca_mapping(fabrics: Sequence[Fabric]) -> str:
    """Return which adapter each port number of the sheet means."""
    devices = sorted(
        {
            adapter_parts(fabric, node)[1]
            for fabric in fabrics
            for node in range(fabric.n_switches, fabric.n_nodes)
            if fabric.kind[node] == Kind.HCA
        },
        key=_number,
    )
    out = io.StringIO()
    write = csv.writer(out, lineterminator="\n").writerow
    write(("port", "hca-name"))
    for device in devices:
        write((_number(device), device))
    return out.getvalue()


def _rows(
    fabrics: Sequence[Fabric], layout: Layout | None
) -> tuple[list[tuple[str | int | None, ...]], list[tuple[str | int | None, ...]]]:
    """Rows of cables with a host, and of those without, each sorted by name and port."""
    host_rows: list[tuple[str | int | None, ...]] = []
    switch_rows: list[tuple[str | int | None, ...]] = []
    for subnet, fabric in enumerate(fabrics):
        for a, b in fabric.links.tolist():
            nodes = [int(fabric.port_node[port]) for port in (a, b)]
            if any(fabric.kind[node] == Kind.AGGREGATION for node in nodes):
                continue
            ends = sorted((_end(fabric, subnet, port, layout) for port in (a, b)), key=lambda end: end[0] != "host")
            rows = host_rows if ends[0][0] == "host" else switch_rows
            rows.append((*ends[0][1:], *ends[1][1:]))
    for rows in (host_rows, switch_rows):
        rows.sort(key=lambda row: (str(row[2]), row[3], str(row[6]), row[7]))
    return host_rows, switch_rows


def _end(fabric: Fabric, subnet: int, port: int, layout: Layout | None) -> tuple[str, str | None, int | None, str, int]:
    """Kind, rack, unit, name and port of one end of a cable."""
    node, number = int(fabric.port_node[port]), int(fabric.port_number[port])
    rack, unit = None, None
    if layout is not None:
        device = int(layout.node_device[subnet][node])
        rack, unit = layout.rack_name(int(layout.rack[device])), int(layout.unit[device])
    if fabric.kind[node] == Kind.SWITCH:
        return "switch", rack, unit, system_name(fabric, node), number
    return "host", rack, unit, system_name(fabric, node), _number(adapter_parts(fabric, node)[1])


def _number(device: str) -> int:
    """Port number of an adapter: ``mlx5_0`` is 1."""
    digits = device.rpartition("_")[2]
    return int(digits) + 1 if digits.isdigit() else 1
