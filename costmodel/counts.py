"""How many of everything a plan takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.bill import make_bill
from topo.fabric import Fabric, Kind, Role
from topo.hardware.catalog import Catalog


@dataclass(frozen=True)
class Counts:
    """Counts over all subnets of a plan. A server with adapters in several subnets is one server."""

    switches: int
    """Switches as a subnet manager sees them: each chip of a frame is one."""
    leaf: int
    spine: int
    core: int
    joint: int
    gpu_nodes: int
    gpus: int
    storage_nodes: int
    management_nodes: int
    host_ports: int
    """Adapter ports with a cable."""
    links: int
    """Links, the backplanes of frames included; those to the aggregation node inside a switch are left out."""
    cables: int
    """Links that are cables."""


def count(fabrics: Sequence[Fabric], catalog: Catalog) -> Counts:
    """Count what stands in all subnets of a plan."""
    bill = make_bill(fabrics, catalog)
    switches: Counter[Role] = Counter()
    nodes: Counter[str] = Counter()
    for fabric in fabrics:
        switches.update(Role(role) for role in fabric.role[: fabric.n_switches].tolist())
    for line in bill.of("node"):
        nodes[line.place] += line.count
    plugged = [np.count_nonzero((fabric.kind[fabric.port_node] == Kind.HCA) & (fabric.peer >= 0)) for fabric in fabrics]
    wired_inside = [
        np.count_nonzero(fabric.kind[fabric.port_node[fabric.links]] == Kind.AGGREGATION) for fabric in fabrics
    ]
    return Counts(
        switches=switches.total(),
        leaf=switches[Role.LEAF],
        spine=switches[Role.SPINE],
        core=switches[Role.CORE],
        joint=switches[Role.JOINT],
        gpu_nodes=nodes["compute"],
        gpus=sum(line.count * catalog.nodes[line.item].gpus for line in bill.of("node") if line.item in catalog.nodes),
        storage_nodes=nodes["storage"],
        management_nodes=nodes["management"],
        host_ports=int(sum(plugged)),
        links=sum(len(fabric.links) for fabric in fabrics) - int(sum(wired_inside)),
        cables=bill.count("cable"),
    )
