"""NetBox 4.6: device types as YAML; roles, racks, devices and cables as CSV for its bulk import.

Columns as ``netbox/dcim/forms/bulk_import.py`` reads them. Import in the order of `ORDER`. A device gets the interfaces
of its type. The cluster is a site of its own, which the ends of cables name too, since NetBox may hold a device of the
same name in another site.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence

from plan.export.systems import adapter_parts, host_devices, system_name, system_type
from topo import SPEEDS, Cabling, Catalog, Fabric, Kind, Layout, Role, backplane

ORDER = ("manufacturers.csv", "device-types/", "roles.csv", "sites.csv", "racks.csv", "devices.csv", "cables.csv")
MANUFACTURER = "NVIDIA"
SERVERS = "Server"
COLOURS = {Role.LEAF: "2196f3", Role.SPINE: "3f51b5", Role.CORE: "673ab7", Role.JOINT: "e91e63",
           Role.COMPUTE: "4caf50", Role.STORAGE: "ff9800", Role.MANAGEMENT: "9e9e9e"}  # fmt: skip
CABLE_TYPES = {"DAC": "dac-passive", "AOC": "aoc", "fibre": "mmf-om4"}


def netbox_files(
    fabrics: Sequence[Fabric],
    catalog: Catalog,
    site: str,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
) -> dict[str, str]:
    """Return the files by name. Without a floor plan devices have no rack and cables no length."""
    devices = [host_devices(fabric) for fabric in fabrics]
    files = {
        "manufacturers.csv": _csv(("name", "slug"), [(name, _slug(name)) for name in (MANUFACTURER, SERVERS)]),
        "sites.csv": _csv(("name", "slug", "status"), [(site, _slug(site), "planned")]),
    }
    types: dict[str, str] = {}
    roles: dict[Role, None] = {}
    rows: dict[str, tuple[str, ...]] = {}
    for subnet, fabric in enumerate(fabrics):
        for node in range(fabric.n_nodes):
            if fabric.kind[node] not in (Kind.SWITCH, Kind.HCA):
                continue
            role = Role(fabric.role[node])
            roles[role] = None
            name, kind = system_name(fabric, node), _type(fabric, node, devices[subnet])
            if kind not in types:
                types[kind] = _device_type(fabric, node, kind, devices, catalog)
            maker = MANUFACTURER if fabric.kind[node] == Kind.SWITCH else SERVERS
            rack, unit = ("", "")
            if layout is not None:
                device = int(layout.node_device[subnet][node])
                rack, unit = layout.rack_name(int(layout.rack[device])), str(layout.unit[device])
            rows[name] = (name, role.name.title(), maker, kind, "planned", site, rack, unit, "front" if rack else "")
    files |= {f"device-types/{_slug(kind)}.yaml": text for kind, text in sorted(types.items())}
    files["roles.csv"] = _csv(
        ("name", "slug", "color", "vm_role"),
        [(role.name.title(), role.name.lower(), COLOURS.get(role, "607d8b"), "false") for role in roles],
    )
    if layout is not None:
        racks = [layout.rack_name(rack) for rack in range(layout.n_racks)]
        height = str(layout.floor.rack_units)
        files["racks.csv"] = _csv(
            ("site", "name", "status", "u_height", "width"), [(site, rack, "planned", height, "19") for rack in racks]
        )
    head = ("name", "role", "manufacturer", "device_type", "status", "site", "rack", "position", "face")
    files["devices.csv"] = _csv(head, [rows[name] for name in sorted(rows)])
    files["cables.csv"] = _cables(fabrics, catalog, site, cablings)
    return files


def _type(fabric: Fabric, node: int, devices: dict[str, list[str]]) -> str:
    if fabric.kind[node] == Kind.SWITCH:
        return system_type(fabric, node, devices)
    host = int(fabric.host[node])
    model = int(fabric.host_model[host]) if host >= 0 else -1
    return fabric.models[model] if model >= 0 else "server"


def _device_type(
    fabric: Fabric, node: int, kind: str, devices: Sequence[dict[str, list[str]]], catalog: Catalog
) -> str:
    if fabric.kind[node] == Kind.SWITCH:
        model = catalog.switches.get(fabric.models[fabric.model[node]])
        ports = range(int(fabric.port_offset[node]), int(fabric.port_offset[node + 1]))
        interfaces = [(f"P{number}", _interface(fabric, port)) for number, port in enumerate(ports, start=1)]
        part, height, maker = (
            (model.part_number if model else None),
            (model.rack_units if model else None),
            MANUFACTURER,
        )
    else:
        host = adapter_parts(fabric, node)[0]
        everywhere = sorted({device for subnet in devices for device in subnet.get(host, [])})
        interfaces = [(device, _interface(fabric, int(fabric.port_offset[node]))) for device in everywhere]
        server = catalog.nodes.get(kind)
        part, height, maker = (server.part_number if server else None), (server.rack_units if server else None), SERVERS
    lines = [f"manufacturer: {maker}", f"model: {kind}", f"slug: {_slug(kind)}"]
    lines += [f"part_number: {part}"] if part else []
    lines += [f"u_height: {height or 1}", "is_full_depth: true", "interfaces:"]
    for name, interface in interfaces:
        lines += [f"  - name: {name}", f"    type: {interface}"]
    return "\n".join(lines) + "\n"


def _interface(fabric: Fabric, port: int) -> str:
    speed = SPEEDS[fabric.speed[port]].lower()
    return (
        f"infiniband-{speed}" if speed in ("sdr", "ddr", "qdr", "fdr10", "fdr", "edr", "hdr", "ndr", "xdr") else "other"
    )


def _cables(fabrics: Sequence[Fabric], catalog: Catalog, site: str, cablings: Sequence[Cabling] | None) -> str:
    head = ("side_a_site", "side_a_device", "side_a_type", "side_a_name",
            "side_b_site", "side_b_device", "side_b_type", "side_b_name",
            "type", "status", "label", "length", "length_unit")  # fmt: skip
    rows = []
    for subnet, fabric in enumerate(fabrics):
        inside = backplane(fabric, catalog)
        for link, (a, b) in enumerate(fabric.links.tolist()):
            if inside[link]:
                continue
            kind, length = "", ""
            if cablings is not None and cablings[subnet].part[link] >= 0:
                part = cablings[subnet].parts[cablings[subnet].part[link]]
                kind = CABLE_TYPES.get(part.kind, "")
                length = "" if part.length_m is None else f"{part.length_m:g}"
            ends = [_side(fabric, port) for port in (a, b)]
            label = f"{ends[0][0]}:{ends[0][2]} / {ends[1][0]}:{ends[1][2]}"[:100]
            rows.append((site, *ends[0], site, *ends[1], kind, "planned", label, length, "m" if length else ""))
    return _csv(head, sorted(rows))


def _side(fabric: Fabric, port: int) -> tuple[str, str, str]:
    node = int(fabric.port_node[port])
    at_switch = fabric.kind[node] == Kind.SWITCH
    name = f"P{fabric.port_number[port]}" if at_switch else adapter_parts(fabric, node)[1]
    return system_name(fabric, node), "dcim.interface", name


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _csv(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
