"""A real fabric, routed, as files: what lies in the output folder of `plan route`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from plan.files import Content
from plan.folder import MARK
from plan.subnet import Subnet, subnet_files, subnets_document, versions
from topo.fabric import Fabric, Kind, Role


def route_document(subnet: Subnet, path: Path, seed: int) -> dict[str, Any]:
    """Return what ``plan.json`` holds.

    Parameters
    ----------
    path : Path
        What was routed: its digest tells which state of the fabric the tables are for.
    """
    return {
        "name": subnet.fabric.name,
        "holds": subnet.lost == 0 and subnet.proof.credit_loops == 0,
        "counts": count_fabric(subnet.fabric),
        **subnets_document([subnet]),
        "disconnected": subnet.proof.disconnected,
        "endpoints": subnet.proof.endpoints,
        "inputs": {"fabric_sha256": _sha256(path), "seed": seed},
        "versions": versions(),
    }


def route_files(subnet: Subnet, document: Mapping[str, Any]) -> Mapping[str, Content]:
    """Return the files of the output folder, by path relative to it."""
    return {"plan.json": json.dumps(document, indent=2) + "\n", **subnet_files(subnet)}


def count_fabric(fabric: Fabric) -> dict[str, int]:
    """Count what a fabric is made of, as far as a dump tells: it names no GPUs."""
    n = fabric.n_switches
    switches, adapters = fabric.role[:n], fabric.role[n:]
    host, is_hca = fabric.host[n:], fabric.kind[n:] == Kind.HCA
    counts = {"switches": n}
    for role in (Role.LEAF, Role.SPINE, Role.CORE, Role.JOINT):
        counts[role.name.lower()] = int(np.count_nonzero(switches == role))
    counts["zones"] = len(np.unique(fabric.zone[:n][fabric.zone[:n] >= 0]))
    for role in (Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT):
        counts[f"{role.name.lower()}_nodes"] = len(np.unique(host[is_hca & (adapters == role)]))
    counts["aggregation_nodes"] = int(np.count_nonzero(fabric.kind == Kind.AGGREGATION))
    counts["host_ports"] = int(np.count_nonzero((fabric.kind[fabric.end_node] == Kind.HCA) & (fabric.end_switch >= 0)))
    counts["links"] = len(fabric.links)
    return counts


def _sha256(path: Path) -> str | None:
    """Digest of a file, or of all files of a folder of ours; None for a pipe, which can be read but once."""
    if path.is_dir():
        path /= MARK
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
