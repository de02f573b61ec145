"""NetBox 4.7: device types as YAML; roles, racks, devices and cables as CSV for its bulk import.

Columns as ``netbox/dcim/forms/bulk_import.py`` of 4.7.3 reads them. Links in one cable, as the legs of a splitter, are
one row, whose sides list several ports: NetBox takes such lists since 4.7. A device gets the interfaces of its type.
The cluster is a site of its own, which the ends of cables name too, since NetBox may hold a device of the same name in
another site. NetBox refuses a file of which one row is there already. So what clusters share, makers, types and roles,
is a file each; and racks stand in a location, since only there their names are unique to NetBox.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

import topo
from plan.export.base import Export
from plan.export.names import host_devices, system_name, system_type, yaml_text
from plan.pipeline import COMPILE, PLACE
from topo import SPEEDS, Cabling, Catalog, Fabric, Kind, Layout, Panel, Role

README = """\
Import these files into NetBox 4.7 in this order: manufacturers/, device-types/, roles/, sites.csv,
locations.csv, racks.csv, devices.csv, cables.csv. Without a floor plan there are no locations and racks.

If NetBox refuses a file because an object already exists, from another cluster or an earlier import, continue with the
next file. Importing all files again changes nothing.
"""
ROOM = "room"
MANUFACTURER = "NVIDIA"
SERVERS = "Server"
ROLE_COLOURS = {Role.LEAF: "2196f3", Role.SPINE: "3f51b5", Role.CORE: "673ab7", Role.JOINT: "e91e63",
           Role.COMPUTE: "4caf50", Role.STORAGE: "ff9800", Role.MANAGEMENT: "9e9e9e"}  # fmt: skip
ETHERNET = {
    (1.0, "RJ45"): "1000base-t",
    (100.0, "QSFP28"): "100gbase-x-qsfp28",
    (200.0, "QSFP56"): "200gbase-x-qsfp56",
    (400.0, "QSFP112"): "400gbase-x-qsfp112",
    (400.0, "OSFP"): "400gbase-x-osfp",
    (800.0, "OSFP"): "800gbase-x-osfp",
}
"""NetBox's type of an Ethernet port, by Gb/s and connector; what it has no type for is ``other``."""
PROFILES = {1: "single-1c1p", 2: "trunk-2c1p", 4: "trunk-4c1p"}
"""By links in a cable. A trunk joins the first ports of its ends, the second, and so on. The ports of a cage are
interfaces of their own, so that a splitter is a trunk from them to its legs; a breakout begins at one interface."""
CABLE_TYPES = {"TP": "cat6", "DAC": "dac-passive", "ACC": "dac-active", "AOC": "aoc"}


def netbox_files(
    fabrics: Sequence[Fabric],
    catalog: Catalog,
    site: str,
    layout: Layout | None = None,
    cablings: Sequence[Cabling] | None = None,
) -> dict[str, str]:
    """Return the files by name. Without a floor plan devices have no rack and cables no length."""
    devices = [host_devices(fabric) for fabric in fabrics]
    fronts = topo.panels(fabrics, catalog)
    ethernet = _on_ethernet(fabrics, fronts, catalog)
    adapters = _adapters(fabrics, fronts, ethernet)
    files = {
        "README.md": README,
        **{
            f"manufacturers/{_slug(name)}.csv": topo.format_csv(("name", "slug"), [(name, _slug(name))])
            for name in (MANUFACTURER, SERVERS)
        },
        "sites.csv": topo.format_csv(("name", "slug", "status"), [(site, _slug(site), "planned")]),
    }
    types: dict[str, str] = {}
    roles: dict[Role, None] = {}
    rows: dict[str, tuple[str, ...]] = {}
    for subnet, fabric in enumerate(fabrics):
        for node in range(fabric.n_nodes):
            if fabric.kind[node] == Kind.DEVICE and _item(system_name(fabric, node)) in rows:
                continue  # the port of a switch
            if fabric.kind[node] not in (Kind.SWITCH, Kind.HCA, Kind.DEVICE):
                continue
            role = Role(fabric.role[node])
            roles[role] = None
            name, kind = _item(system_name(fabric, node)), _type(fabric, node, ethernet, devices[subnet], catalog)
            if kind not in types:
                types[kind] = _device_type(fabric, node, kind, fronts[subnet], adapters, catalog)
            maker = MANUFACTURER if fabric.kind[node] == Kind.SWITCH else SERVERS
            rack, unit = ("", "")
            if layout is not None:
                device, at, lowest = layout.stand_of(subnet, node)
                rack = layout.rack_name(at)
                # Chips of a frame, like what has no height, are put in a rack and at no unit of it.
                unit = str(lowest or "") if _item(device.name) == name else ""
            room, face = ROOM if rack else "", "front" if unit else ""
            rows[name] = (name, role.name.title(), maker, kind, "planned", site, room, rack, unit, face)
    files |= {f"device-types/{_slug(kind)}.yaml": text for kind, text in sorted(types.items())}
    for role in roles:
        name = role.name.lower()
        row = (name.title(), name, ROLE_COLOURS.get(role, "607d8b"), "false")
        files[f"roles/{name}.csv"] = topo.format_csv(("name", "slug", "color", "vm_role"), [row])
    if layout is not None:
        racks = [layout.rack_name(rack) for rack in range(layout.n_racks)]
        height = str(layout.floor.rack_units)
        files["locations.csv"] = topo.format_csv(("site", "name", "slug", "status"), [(site, ROOM, ROOM, "planned")])
        files["racks.csv"] = topo.format_csv(
            ("site", "location", "name", "status", "u_height", "width"),
            [(site, ROOM, rack, "planned", height, "19") for rack in racks],
        )
    head = ("name", "role", "manufacturer", "device_type", "status", "site", "location", "rack", "position", "face")
    files["devices.csv"] = topo.format_csv(head, [rows[name] for name in sorted(rows)])
    files["cables.csv"] = _cables(fabrics, catalog, fronts, site, cablings)
    return files


OnEthernet = dict[str, list[str]]
"""By server: ports that are in an Ethernet, of adapters that would be InfiniBand's else."""


def _on_ethernet(fabrics: Sequence[Fabric], fronts: Sequence[Panel], catalog: Catalog) -> OnEthernet:
    found: OnEthernet = {}
    for fabric, front in zip(fabrics, fronts, strict=True):
        if catalog.protocol_of(fabric) == "ethernet":
            for node in np.flatnonzero(fabric.kind == Kind.HCA).tolist():
                if _adapter_type(fabric.model_of(node), "", catalog).startswith("infiniband"):
                    label = _item(front.labels[int(fabric.port_offset[node])])
                    found.setdefault(fabric.server_of(node), []).append(label)
    return found


def _type(fabric: Fabric, node: int, ethernet: OnEthernet, devices: dict[str, list[str]], catalog: Catalog) -> str:
    """Return the device type of a switch or server; what has split ports, or an Ethernet, is of a type of its own."""
    if fabric.kind[node] == Kind.SWITCH:
        kind = system_type(fabric, node, devices)
        model = catalog.switches.get(fabric.model_of(node))
        ports = len(fabric.ports_of(node))
        return kind if model is None or ports == model.chip_ports else f"{kind} as {ports} ports"
    return _server_type(fabric, node, ethernet)


def _server_type(fabric: Fabric, node: int, ethernet: OnEthernet) -> str:
    if fabric.kind[node] == Kind.DEVICE:
        return "pdu"
    name, ports = fabric.server_model_of(node) or "server", ethernet.get(fabric.server_of(node))
    return f"{name} with Ethernet on {' '.join(sorted(ports))}" if ports else name


Adapters = dict[str, dict[str, tuple[str, str]]]
"""By type of server and device: model of the adapter, and the generation of its link, ``GE`` in an Ethernet."""


def _adapters(fabrics: Sequence[Fabric], fronts: Sequence[Panel], ethernet: OnEthernet) -> Adapters:
    """List the ports that servers of each type have, over all of them and all subnets."""
    found: Adapters = {}
    for fabric, front in zip(fabrics, fronts, strict=True):
        for node in range(fabric.n_switches, fabric.n_nodes):
            if fabric.kind[node] in (Kind.HCA, Kind.DEVICE):
                port = int(fabric.port_offset[node])
                label, server = _item(front.labels[port]), fabric.server_of(node)
                generation = "GE" if label in ethernet.get(server, ()) else SPEEDS[fabric.speed[port]]
                found.setdefault(_server_type(fabric, node, ethernet), {})[label] = fabric.model_of(node), generation
    return found


def _adapter_type(name: str, generation: str, catalog: Catalog) -> str:
    """Return NetBox's type of the port of an adapter; links of eight lanes are Ethernet, as gigabit ones are."""
    model = catalog.hcas.get(name)
    if generation == "GE" or (model is not None and (model.speed.width == 8 or model.speed.generation == "GE")):
        return (
            ETHERNET.get((model.speed.gbps, (model.connector or "").removesuffix("-RHS")), "other")
            if model
            else "other"
        )
    return f"infiniband-{(model.speed.generation if model else generation).lower()}"


def _switch_types(name: str, ports: int, catalog: Catalog) -> list[str]:
    model = catalog.switch(name)
    halves = 2 * max(ports - model.chip_ports, 0)  # they come first
    kinds = [(model.speed, model.connector)] * (ports - model.uplink_ports)
    kinds += [(model.uplink_speed or model.speed, model.uplink_connector or model.connector)] * model.uplink_ports
    if model.protocol == "ethernet":
        parts = [2] * halves + [1] * (ports - halves)
        return [
            ETHERNET.get((kind[0].gbps / part, kind[1] or ""), "other") for kind, part in zip(kinds, parts, strict=True)
        ]
    return [f"infiniband-{speed.generation.lower()}" for speed, _ in kinds]


def _device_type(fabric: Fabric, node: int, kind: str, front: Panel, adapters: Adapters, catalog: Catalog) -> str:
    """Return a device type as YAML; that of a model is the same whatever a cluster uses of it."""
    ports = fabric.ports_of(node)
    switch = catalog.switches.get(fabric.model_of(node))
    server = catalog.nodes.get(fabric.server_model_of(node))
    hardware = switch or server
    if fabric.kind[node] == Kind.SWITCH:
        maker = MANUFACTURER
        seen = [f"infiniband-{SPEEDS[fabric.speed[port]].lower()}" for port in ports]
        shapes = _switch_types(switch.name, len(ports), catalog) if switch else seen
        interfaces = list(zip((front.labels[port] for port in ports), shapes, strict=True))
        interfaces += [("mgmt", "1000base-t")] if switch and switch.managed is not False else []
    else:
        maker = SERVERS
        found = dict(adapters.get(kind, {}))
        if server is not None:
            own = {label: (adapter.name, "") for label, adapter in topo.server_ports(server, catalog).items()}
            found |= {label: port for label, port in own.items() if found.get(label, port)[1] != "GE"}
        interfaces = [
            (device, _adapter_type(name, generation, catalog)) for device, (name, generation) in sorted(found.items())
        ]
    height = 1 if hardware is None or hardware.rack_units is None else hardware.rack_units
    height = 0 if kind == "pdu" or (switch and switch.chips > 1) else height
    lines = [f"manufacturer: {yaml_text(maker)}", f"model: {yaml_text(kind)}", f"slug: {yaml_text(_slug(kind))}"]
    lines += [f"part_number: {yaml_text(hardware.part_number)}"] if hardware and hardware.part_number else []
    lines += [f"u_height: {height}", "is_full_depth: true", "interfaces:"]
    for name, port_type in interfaces:
        lines += [f"  - name: {yaml_text(name)}", f"    type: {port_type}"]
    return "\n".join(lines) + "\n"


def _cables(
    fabrics: Sequence[Fabric], catalog: Catalog, fronts: Sequence[Panel], site: str, cablings: Sequence[Cabling] | None
) -> str:
    head = ("side_a_site", "side_a_device", "side_a_type", "side_a_name",
            "side_b_site", "side_b_device", "side_b_type", "side_b_name",
            "type", "status", "profile", "label", "length", "length_unit")  # fmt: skip
    rows = []
    for subnet, fabric in enumerate(fabrics):
        inside = topo.backplane(fabric, catalog)
        cables: dict[int, list[list[int]]] = {}
        for link, ports in enumerate(fabric.links.tolist()):
            if not inside[link]:
                number = -1 if cablings is None else int(cablings[subnet].cable[link])
                cables.setdefault(number if number >= 0 else -1 - link, []).append([link, *ports])
        for number, links in cables.items():
            kind, length, pieces = "", "", ""
            if cablings is not None and number >= 0:
                part = cablings[subnet].parts[cablings[subnet].part[links[0][0]]]
                kind = CABLE_TYPES.get(part.kind.removesuffix("-splitter"), "")
                if part.kind.startswith("fibre"):
                    fibre = (catalog.cables[part.item].fibre if part.item in catalog.cables else part.item) or ""
                    kind = "smf-os2" if fibre.startswith("single mode") else "mmf-om4"
                length = "" if part.length_m is None else f"{part.length_m:g}"
                pieces = f" ({part.pieces} fibres)" if part.pieces > 1 else ""  # an interface has one cable in NetBox
            shared = set.intersection(*(set(fabric.port_node[ports].tolist()) for _, *ports in links))
            trunk = min(shared, default=-1)  # the node at the undivided end of a splitter
            ends = [ports if fabric.port_node[ports[0]] == trunk else ports[::-1] for _, *ports in links]
            sides = [_side(fabric, side, fronts[subnet]) for side in zip(*ends, strict=True)]
            label = f"{sides[0][0]}:{sides[0][2]} / {sides[1][0]}:{sides[1][2]}"[: 100 - len(pieces)] + pieces
            profile = PROFILES.get(len(links), "")
            rows.append(
                (site, *sides[0], site, *sides[1], kind, "planned", profile, label, length, "m" if length else "")
            )
    return topo.format_csv(head, sorted(rows))


def _side(fabric: Fabric, ports: Sequence[int], front: Panel) -> tuple[str, str, str]:
    """Return the device, or a list of one for each port, the type of ports, and their names."""
    nodes = fabric.port_node[list(ports)].tolist()
    names = [_item(front.labels[port]) for port in ports]
    devices = [_item(system_name(fabric, node)) for node in nodes]
    return ",".join(devices if len(set(devices)) > 1 else devices[:1]), "dcim.interface", ",".join(names)


def _item(name: str) -> str:
    """Return a name that can stand in a list of names: without commas."""
    return name.replace(",", "-")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


NETBOX = Export("netbox", "device types, racks, devices and cables to import", "NetBox 4.7",
                (*COMPILE, *PLACE),
                {"exports/netbox/": lambda plan, subnet: netbox_files(
                    plan.fabrics, plan.planned.catalog, plan.name, plan.layout, plan.cablings)})  # fmt: skip
