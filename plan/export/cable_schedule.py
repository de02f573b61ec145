"""``cables.csv``: every cable with both its ends, for the crew that pulls it.

Labels follow ANSI/TIA-606: rack, rack unit and port of the near end, then of the far end, so the two ends differ.
A line is a link. The links in one cable, as the legs of a splitter, are lines with one cable's number, and ports of one
cage (``11/1`` and ``11/2``) share its transceiver. Cables of one pair of racks are one bundle. Without a floor plan
there are no racks, units, bundles and lengths, and each link is a cable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topo import Cabling, Catalog, Fabric, Layout, Panel, Role, backplane, format_csv, panels

HEADER = (
    "cable_id", "a_rack", "a_u", "a_device", "a_port", "b_rack", "b_u", "b_device", "b_port", "type", "part_number",
    "length_m", "rate_gbps", "bundle", "label_a", "label_b", "a_port_guid", "b_port_guid", "role", "a_transceiver",
    "b_transceiver",
)  # fmt: skip


@dataclass(frozen=True)
class End:
    """One end of a cable."""

    device: str
    adapter: str
    """Adapter of a server, empty at a switch."""
    number: int
    port: str
    """The port as it is printed on the device: ``21``, ``11/1``, or ``mlx5_0:1`` at a server."""
    optic: str
    """Transceiver in its cage, empty where there is none."""
    guid: int
    rack: int
    """-1 without a floor plan."""
    rack_name: str
    unit: int

    @property
    def label(self) -> str:
        """Rack, unit and port; the device where there is no floor plan."""
        return f"{self.rack_name}-{self.unit:02d}:{self.port}" if self.rack_name else f"{self.device}:{self.port}"


@dataclass(frozen=True)
class Cable:
    """One cable of the schedule; ``a`` is the end nearer to the hosts."""

    a: End
    b: End
    number: tuple[int, int]
    """Number of the cable, which the legs of a splitter share; without a floor plan subnet and link."""
    kind: str
    item: str
    length: str
    rate_gbps: float
    role: str


def format_cable_schedule(
    fabrics: Sequence[Fabric],
    catalog: Catalog,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
) -> str:
    """Return the schedule of all subnets as CSV, sorted by device and port of the end nearer to the hosts."""
    fronts = panels(fabrics, catalog)
    cables = [
        cable
        for subnet, fabric in enumerate(fabrics)
        for cable in _cables(
            fabric, subnet, fronts[subnet], catalog, layout, None if cablings is None else cablings[subnet]
        )
    ]
    cables.sort(key=lambda cable: (cable.a.device, cable.a.adapter, cable.a.number))
    pairs = sorted({_racks(cable) for cable in cables if cable.a.rack != cable.b.rack})
    bundle = {pair: f"B{number:0{len(str(len(pairs)))}d}" for number, pair in enumerate(pairs, start=1)}
    rows = []
    numbers = {number: index for index, number in enumerate(dict.fromkeys(cable.number for cable in cables), start=1)}
    for cable in cables:
        a, b = cable.a, cable.b
        rows.append(
            (
                f"C{numbers[cable.number]:0{len(str(len(numbers)))}d}",
                *(a.rack_name, a.unit or "", a.device, a.port),
                *(b.rack_name, b.unit or "", b.device, b.port),
                *(cable.kind, cable.item, cable.length, f"{cable.rate_gbps:g}", bundle.get(_racks(cable), "")),
                *(f"{a.label}/{b.label}", f"{b.label}/{a.label}", f"0x{a.guid:016x}", f"0x{b.guid:016x}"),
                *(cable.role, a.optic, b.optic),
            )
        )
    return format_csv(HEADER, rows)


def _cables(
    fabric: Fabric, subnet: int, front: Panel, catalog: Catalog, layout: Layout | None, cabling: Cabling | None
) -> list[Cable]:
    roles = [Role(role).name.lower() for role in fabric.role.tolist()]
    cables = []
    for link in np.flatnonzero(~backplane(fabric, catalog)).tolist():
        near, far = sorted(fabric.links[link].tolist(), key=lambda port: (fabric.level[fabric.port_node[port]], port))
        part = None if cabling is None else cabling.parts[cabling.part[link]]
        cables.append(
            Cable(
                a=_end(fabric, subnet, near, front, layout, cabling),
                b=_end(fabric, subnet, far, front, layout, cabling),
                number=(subnet, link) if cabling is None else (-1, int(cabling.cable[link])),
                kind=part.kind if part else "",
                item=part.item if part else "",
                length=f"{part.length_m:g}" if part and part.length_m is not None else "",
                rate_gbps=float(min(fabric.rate_gbps[near], fabric.rate_gbps[far])),
                role=f"{roles[fabric.port_node[near]]} - {roles[fabric.port_node[far]]}",
            )
        )
    return cables


def _end(fabric: Fabric, subnet: int, port: int, front: Panel, layout: Layout | None, cabling: Cabling | None) -> End:
    node = int(fabric.port_node[port])
    host = int(fabric.host[node])
    rack, unit, name = -1, 0, ""
    if layout is not None:
        device = int(layout.node_device[subnet][node])
        rack, unit = int(layout.rack[device]), int(layout.unit[device])
        name = layout.rack_name(rack)
    return End(
        device=fabric.hosts[host] if host >= 0 else fabric.label(node),
        adapter=fabric.names[node].partition(" ")[2] if host >= 0 else "",
        number=int(fabric.port_number[port]),
        port=front.labels[port],
        optic=cabling.optic_of(port) if cabling else "",
        guid=int(fabric.port_guid[port]),
        rack=rack,
        rack_name=name,
        unit=unit,
    )


def _racks(cable: Cable) -> tuple[int, int]:
    return (min(cable.a.rack, cable.b.rack), max(cable.a.rack, cable.b.rack))
