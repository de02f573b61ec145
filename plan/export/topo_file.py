"""``.topo`` files: the cabling as UFM, the Cable Validation Tool and ibdiagnet compare it with a real fabric.

Two dialects (grammar: ``ibdm-topo-file`` of ibutils; NVIDIA's Cable Validation Tool manual, "Topo File"): NVIDIA's
gives width and speed of a lane, ``P21 -4x-50G-> ...``; the open-source ibdm of ibutils ignores such lines, so its
dialect has a bare ``->``, and needs a system definition (``.ibnl``) for each type.

``topoconfig.conf`` says by GUIDs which links the subnet manager of UFM takes into its model; all others it passes over
(UFM Enterprise REST API Guide 6.21, "OpenSM Static Topology Configuration").
"""

from __future__ import annotations

from collections.abc import Callable

from plan.export.base import Export
from plan.export.names import adapter_parts, host_devices, port_name, system_name, system_type, word_of
from plan.pipeline import COMPILE
from topo import SPEEDS, Catalog, Fabric, Kind, device_id, device_number

LANE_SPEED = {"SDR": "2.5G", "DDR": "5G", "QDR": "10G", "FDR10": "10G", "FDR": "14G", "EDR": "25G", "HDR": "50G",
              "NDR": "100G", "XDR": "200G", "GE": "1G"}  # fmt: skip
"""Speed of a lane as the files write it. XDR is not confirmed: an operator's file has 100G for its four-plane ports."""


def format_topo(fabric: Fabric) -> str:
    """Return NVIDIA's dialect: every switch with its links, hosts named at their ends."""

    def arrow(port: int) -> str:
        return f"-{fabric.width[port]}x-{LANE_SPEED[SPEEDS[fabric.speed[port]]]}->"

    return _format(fabric, arrow)


def format_ibdm_topo(fabric: Fabric) -> str:
    """Return the dialect of the open-source ibdm."""
    return _format(fabric, lambda port: "->")


def _format(fabric: Fabric, arrow: Callable[[int], str]) -> str:
    devices = host_devices(fabric)
    head = f"Cabling of {word_of(fabric.name)}: each link once, from the switch with the lower number"
    lines = [f"{fabric.caveat_head}# {head}"]
    for switch in range(fabric.n_switches):
        lines.append("")
        lines.append(f"{system_type(fabric, switch, devices)} {system_name(fabric, switch)}")
        for port in fabric.ports_of(switch):
            peer, far = int(fabric.peer[port]), int(fabric.peer_node[port])
            if peer > port and fabric.kind[far] != Kind.AGGREGATION:
                there = f"{system_type(fabric, far, devices)} {system_name(fabric, far)} {port_name(fabric, peer)}"
                lines.append(f"   {port_name(fabric, port)} {arrow(port)} {there}")
    return "\n".join(lines) + "\n"


def ibnl_files(fabric: Fabric, catalog: Catalog | None = None) -> dict[str, str]:
    """Return the system definitions that ibdm needs, by file name: one for each type of switch and server."""
    devices = host_devices(fabric)
    files: dict[str, str] = {}
    for node in range(fabric.n_nodes):
        if fabric.kind[node] not in (Kind.SWITCH, Kind.HCA):
            continue
        kind = system_type(fabric, node, devices)
        if f"{kind}.ibnl" in files:
            continue
        ports = len(fabric.ports_of(node))
        chip = device_id(fabric, node, catalog)
        lines = [f"TOPSYSTEM {kind}", ""]
        if fabric.kind[node] == Kind.SWITCH:
            lines.append(f"NODE SW {ports} MT{chip} U1")
            lines.extend(f"    {number} -> P{number}" for number in range(1, ports + 1))
        else:
            last = word_of(devices[adapter_parts(fabric, node)[0]][-1])
            count = device_number(last)
            for number in range(1 if count is None else count + 1):
                device = last if count is None else f"{last.rpartition('_')[0]}_{number}"
                lines.append(f"NODE CA {ports} MT{chip} {device}")
                lines.extend(f"    {port} -> {device}/P{port}" for port in range(1, ports + 1))
                lines.append("")
        files[f"{kind}.ibnl"] = "\n".join(lines).rstrip() + "\n"
    return files


def format_topoconfig(fabric: Fabric) -> str:
    """Return each link from both of its ends: node GUID and port of either, any device, active."""
    guid, number = fabric.node_guid[fabric.port_node].tolist(), fabric.port_number.tolist()
    return "".join(
        f"0x{guid[port]:016x},{number[port]},0x{guid[peer]:016x},{number[peer]},Any,Active\n"
        for port, peer in enumerate(fabric.peer.tolist())
        if peer >= 0
    )


TOPO = Export("topo", "the cabling for UFM and ibdiagnet", "UFM Cable Validation Tool 1.4 to 1.5, ibdiagnet",
              COMPILE,
              {"exports/fabric.topo": lambda plan, subnet: format_topo(plan.fabrics[subnet])},
              each_subnet=True)  # fmt: skip
IBDM = Export("ibdm", "the cabling for the open-source ibdm", "ibdm of ibutils 1.5.7",
              COMPILE,
              {"exports/fabric.ibdm.topo": lambda plan, subnet: format_ibdm_topo(plan.fabrics[subnet]),
               "exports/ibnl/": lambda plan, subnet: ibnl_files(plan.fabrics[subnet], plan.catalog)},
              each_subnet=True)  # fmt: skip
TOPOCONFIG = Export("topoconfig", "which links the subnet manager of UFM takes, by GUID, and no others",
                    "the subnet manager of UFM 6.19 to 6.21", COMPILE,
                    {"exports/topoconfig.conf": lambda plan, subnet: format_topoconfig(plan.fabrics[subnet])},
                    each_subnet=True, built=False)  # fmt: skip
