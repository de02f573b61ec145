"""``p2p.xlsx`` and ``hca_mapping.csv``: the point-to-point sheet of NVIDIA's UFM Cable Validation Tool.

Fields as its manual (1.4.0, 1.5.0, "P2P File") lists them, with the header of its InfiniBand sample. A host's port is
the number of its adapter, 1 for ``mlx5_0``, which the mapping file says in words; one for out-of-band management is
called by its name. A switch's is what is printed there.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import datetime

from xlsxwriter import Workbook

import topo
from plan.export.base import Export
from plan.export.names import adapter_parts, system_name
from plan.pipeline import COMPILE, PLACE
from plan.render.tables import add_sheet
from topo import SPEEDS, Catalog, Fabric, Kind, Layout, Panel, Table

P2P_HEADER = ("Rack", "U", "Name", "HCA/Port", "Rack", "U", "Name", "Port")
"""The manual prints the sixth as a second ``Name`` over values that are units; we take it for a slip."""

FIXED_DATE = datetime(2020, 1, 1)
"""A workbook carries its time of making; a constant keeps its bytes the same."""


def format_p2p_xlsx(name: str, fabrics: Sequence[Fabric], catalog: Catalog, layout: Layout | None = None) -> bytes:
    """Return a cluster's workbook: a sheet for hosts to switches, one for switches to switches, each cable once."""
    out = io.BytesIO()
    with Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": FIXED_DATE})
        for part, rows in zip(
            ("hosts to switches", "switches to switches"), _rows(fabrics, catalog, layout), strict=True
        ):
            add_sheet(book, part, Table.of_rows(part, P2P_HEADER, rows), title=name, line=False)
    return out.getvalue()


def format_hca_mapping(fabrics: Sequence[Fabric]) -> str:
    """Return which adapter each port number of the sheet means."""
    devices = sorted(
        {
            adapter_parts(fabric, node)[1]
            for fabric in fabrics
            for node in range(fabric.n_switches, fabric.n_nodes)
            if fabric.kind[node] == Kind.HCA and not _out_of_band(fabric, int(fabric.port_offset[node]))
        },
        key=_number,
    )
    return topo.format_csv(("port", "hca-name"), [(_number(device), device) for device in devices])


SheetRow = tuple[str | int | None, ...]


def _rows(fabrics: Sequence[Fabric], catalog: Catalog, layout: Layout | None) -> tuple[list[SheetRow], list[SheetRow]]:
    """Rows of cables with a host, and of those without, each sorted by name and port."""
    rows: tuple[list[SheetRow], list[SheetRow]] = ([], [])
    for subnet, (fabric, front) in enumerate(zip(fabrics, topo.panels(fabrics, catalog), strict=True)):
        devices = (fabric.kind[fabric.port_node[fabric.links]] == Kind.DEVICE).any(axis=1)  # UFM knows no such ports
        for link in fabric.links[~topo.backplane(fabric, catalog) & ~devices].tolist():
            near, far = sorted(link, key=lambda port: bool(fabric.port_node[port] < fabric.n_switches))  # hosts first
            ends = (_end(fabric, subnet, port, front, layout) for port in (near, far))
            rows[int(fabric.port_node[near] < fabric.n_switches)].append((*next(ends), *next(ends)))
    for each in rows:
        each.sort(key=lambda row: [(isinstance(row[at], int), topo.natural_order(str(row[at]))) for at in (2, 3, 6, 7)])
    return rows


def _end(fabric: Fabric, subnet: int, port: int, front: Panel, layout: Layout | None) -> SheetRow:
    node, shown = int(fabric.port_node[port]), front.labels[port]
    rack, unit = None, None
    if layout is not None:
        _, at, lowest = layout.stand_of(subnet, node)
        rack, unit = layout.rack_name(at), lowest or None
    number: str | int = int(shown) if re.fullmatch("[0-9]{1,9}", shown) else shown
    if node >= fabric.n_switches:
        adapter = adapter_parts(fabric, node)[1]
        number = adapter if _out_of_band(fabric, port) else _number(adapter)
    return rack, unit, system_name(fabric, node), number


def _out_of_band(fabric: Fabric, port: int) -> bool:
    """Whether a port is one of gigabit Ethernet, which is no adapter of the mapping file."""
    return bool(SPEEDS[int(fabric.speed[port])] == "GE")


def _number(device: str) -> int:
    """Port number of an adapter: ``mlx5_0`` is 1."""
    return (topo.device_number(device) or 0) + 1


P2P = Export("p2p", "the sheet of UFM's Cable Validation Tool", "UFM Cable Validation Tool 1.4 to 1.5",
             (*COMPILE, *PLACE),
             {"exports/p2p.xlsx": lambda plan, subnet: format_p2p_xlsx(
                 plan.name, plan.fabrics, plan.planned.catalog, plan.layout),
              "exports/hca_mapping.csv": lambda plan, subnet: format_hca_mapping(plan.fabrics)})  # fmt: skip
