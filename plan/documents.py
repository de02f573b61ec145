"""What results are as plain values, ready for JSON, where they join several: a subnet, a proof with its faults."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from routing import Proof, Routed
    from routing.quality import Quality
    from routing.studies import Bounds, Multipath
    from topo import Catalog, Fabric


def subnet_document(
    routed: Routed, proof: Proof, quality: Quality, bounds: Bounds, multipath: Multipath | None
) -> dict[str, Any]:
    """Return what ``plan.json`` holds of one subnet."""
    return {
        **routed.to_dict(),
        "proof": proof_document(routed.fabric, proof),
        "quality": quality.to_dict(),
        "bounds": bounds.to_dict(),
        "multipath": multipath and multipath.to_dict(),
    }


def proof_document(fabric: Fabric, proof: Proof) -> dict[str, Any]:
    """Return the figures of a proof with examples of missing pairs and a credit loop: where, what and why."""
    return {
        **proof.to_dict(),
        "examples": [example.to_dict() for example in proof.examples],
        "credit_loop": [fabric.channel_label(channel) for channel in proof.loop],
        "undelivered_loop": [fabric.channel_label(channel) for channel in proof.undelivered_loop],
    }


def catalog_sha256(catalog: Catalog) -> str:
    """Digest of every figure of the catalog, the user's own rows included."""
    tables = (catalog.switches, catalog.nodes, catalog.hcas, catalog.cables, catalog.prices)
    rows = [sorted((name, repr(row)) for name, row in table.items()) for table in tables]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def servers_sha256(catalog: Catalog, models: Iterable[str]) -> dict[str, str]:
    """Digest of what each of these servers is, price and power aside; of those that the catalog has."""
    return {name: catalog.nodes[name].figures_sha256 for name in sorted({*models} & catalog.nodes.keys())}
