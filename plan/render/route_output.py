"""A real fabric, routed, as files: what lies in the output folder of `plan route`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plan.files import Content
from plan.folder import MARK
from plan.subnet import Subnet, subnet_files, subnets_document, versions
from topo.counts import count
from topo.hardware.catalog import load_catalog


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
        "counts": count([subnet.fabric], load_catalog()).to_dict(),
        **subnets_document([subnet]),
        "disconnected": subnet.proof.disconnected,
        "endpoints": subnet.proof.endpoints,
        "inputs": {"fabric_sha256": _sha256(path), "seed": seed},
        "versions": versions(),
    }


def route_files(subnet: Subnet, document: Mapping[str, Any]) -> Mapping[str, Content]:
    """Return the files of the output folder, by path relative to it."""
    return {"plan.json": json.dumps(document, indent=2) + "\n", **subnet_files(subnet)}


def _sha256(path: Path) -> str | None:
    """Digest of a file, or of all files of a folder of ours; None for a pipe, which can be read but once."""
    if path.is_dir():
        path /= MARK
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
