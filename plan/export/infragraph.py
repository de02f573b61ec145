"""InfraGraph: the cluster as devices, instances of them, and edges between their ports, for ASTRA-sim and MLPerf.

Schema: OpenAPI of InfraGraph 3.1.0 (MLCommons Chakra working group), as JSON. Each server and switch is an instance of
its own name, counted from 0 as its ports and adapters are. The inside of a server is what a bill knows: its GPUs, and
adapters that all are joined to one host; rates in it are left out, and tables are no part of the schema.
`topo.read_fabric` reads the file back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plan.export.base import Export
from plan.export.names import adapter_parts
from plan.inputs import catalog_of
from plan.pipeline import COMPILE
from topo import SPEEDS, Catalog, Fabric, Kind

INSIDE = "inside"
"""The link between parts of one device, whose rate is not known."""
NUMBERED = re.compile(r"(.*?)_?(\d{1,3})")


def format_infragraph(fabrics: Sequence[Fabric], catalog: Catalog) -> str:
    """Return the description of all subnets as JSON."""
    adapters: dict[str, dict[str, int]] = {}
    """Of each server: how many adapters of each kind it has."""
    model: dict[str, str] = {}
    devices: dict[str, dict[str, Any]] = {}
    instances: list[dict[str, Any]] = []
    for fabric in fabrics:
        for node in range(fabric.n_nodes):
            if fabric.kind[node] == Kind.SWITCH:
                ports = len(fabric.ports_of(node))
                device = _word(f"{fabric.model_of(node) or 'switch'} {ports}")
                parts = [_part("asic", 1, "switch"), _part("port", ports, "port")]
                devices.setdefault(device, _device(device, parts))
                instances.append(_instance(fabric.label(node), device))
            elif fabric.kind[node] == Kind.HCA:
                server, kind, number = _adapter(fabric, node)
                model.setdefault(server, fabric.server_model_of(node) or "server")
                counts = adapters.setdefault(server, {})
                counts[kind] = max(counts.get(kind, 0), number + 1)
    for server, counts in adapters.items():
        known = catalog.nodes.get(model[server])
        nics = " ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        device = _word(f"{model[server]} with {nics}")
        gpus = [_part("xpu", known.gpus, "xpu")] if known and known.gpus else []
        parts = [_part("host", 1, "cpu"), *gpus, *(_part(kind, count, "nic") for kind, count in sorted(counts.items()))]
        devices.setdefault(device, _device(device, parts))
        instances.append(_instance(server, device))
    links: dict[str, float] = {}
    edges = []
    for fabric in fabrics:
        for a, b in fabric.links.tolist():
            if any(fabric.kind[fabric.port_node[port]] not in (Kind.SWITCH, Kind.HCA) for port in (a, b)):
                continue
            link = f"{fabric.width[a]}x{SPEEDS[fabric.speed[a]]}"
            links[link] = float(fabric.rate_gbps[a])
            ends = {f"ep{at}": _end(fabric, port) for at, port in enumerate((a, b), 1)}
            edges.append({**ends, "scheme": "one2one", "link": link})
    rates = [
        {"name": link, "physical": {"bandwidth": {"choice": "gigabits_per_second", "gigabits_per_second": rate}}}
        for link, rate in sorted(links.items())
    ]
    document = {
        "name": _word(fabrics[0].name),
        "devices": list(devices.values()),
        "links": rates,
        "instances": instances,
    }
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in {**document, "edges": edges}.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _adapter(fabric: Fabric, node: int) -> tuple[str, str, int]:
    """Return the server of an adapter, its kind of device, and its number: ``gpu00``, ``mlx5``, 0."""
    server, device = adapter_parts(fabric, node)
    match = NUMBERED.fullmatch(device)
    return server, _word(match[1] if match and match[1] else "nic"), int(match[2]) if match else 0


def _end(fabric: Fabric, port: int) -> dict[str, str]:
    node = int(fabric.port_node[port])
    if fabric.kind[node] == Kind.SWITCH:
        return {"instance": f"{_word(fabric.label(node))}[0]", "component": f"port[{fabric.port_number[port] - 1}]"}
    server, kind, number = _adapter(fabric, node)
    return {"instance": f"{_word(server)}[0]", "component": f"{kind}[{number}]"}


def _part(name: str, count: int, choice: str) -> dict[str, Any]:
    return {"name": name, "count": count, "choice": choice, choice: {}}


def _device(name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a device whose parts are all joined to its first."""
    middle = {"component": f"{parts[0]['name']}[0]"}
    edges = [
        {"ep1": middle, "ep2": {"component": part["name"]}, "scheme": "many2many", "link": INSIDE} for part in parts[1:]
    ]
    return {"name": name, "components": parts, "links": [{"name": INSIDE}], "edges": edges}


def _instance(name: str, device: str) -> dict[str, Any]:
    return {"name": _word(name), "description": name, "device": device, "count": 1}


def _word(name: str) -> str:
    """Return a name as the schema takes it; brackets and dots would be read as parts of an endpoint."""
    return re.sub(r"[^A-Za-z0-9_() -]", "-", name).strip() or "-"


INFRAGRAPH = Export("infragraph", "devices, instances and edges for ASTRA-sim and MLPerf", "InfraGraph 3.1", COMPILE,
                    {"exports/infragraph.json": lambda plan, subnet: format_infragraph(
                        plan.fabrics, plan.catalog or catalog_of(Path(plan.source)))},
                    built=False)  # fmt: skip
