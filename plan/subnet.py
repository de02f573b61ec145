"""One subnet, routed: its fabric and tables, the proof, and what the tables are worth."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import routing
from plan.files import Content
from plan.render.verdict import faults_document
from routing import EndpointSet, Proof, Quality, RoutingTables
from routing.opensm.files import opensm_files
from topo.fabric import Fabric
from topo.formats.fabric_json import format_fabric
from topo.formats.ibnetdiscover import format_ibnetdiscover


@dataclass(frozen=True)
class Subnet:
    """A fabric, how it is routed, and what that is worth."""

    fabric: Fabric
    tables: RoutingTables
    why: str
    """Why this engine was taken."""
    proof: Proof
    quality: Quality

    @property
    def lost(self) -> int:
        """Pairs that do not arrive although the cables hold a path."""
        return self.proof.missing - self.proof.disconnected


def route_subnet(
    fabric: Fabric,
    engine: str = "auto",
    why: str = "as asked",
    *,
    lanes: int | None = None,
    endpoints: EndpointSet = "hca",
    in_tree_order: bool = False,
    seed: int = 0,
    step: Callable[[str], None] = lambda text: None,
) -> Subnet:
    """Route a fabric, prove its tables and measure them.

    Parameters
    ----------
    engine : str
        Name in `routing.engines.ENGINES`, or ``auto``.
    why : str
        Why this engine; ``auto`` says it itself.
    lanes : int, optional
        Data lanes that the tables may need to be free of credit loops; as many as the engine takes when left out,
        which is one for most.
    endpoints : str
        Who talks to whom.
    in_tree_order : bool
        Whether ranks are counted along the tree for shifts and halving-doubling, instead of as the fabric has them:
        the order of a dump says nothing.
    seed : int
        Seed of the random permutations that quality is measured with.
    step : callable
        Is told what is going on, for a progress display.

    Raises
    ------
    RoutingError
        When the engine cannot route this fabric, or not on so few lanes.
    """
    step("routing")
    routed = routing.route(fabric, engine, lanes=lanes)
    step("proving")
    proof = routing.prove(routed, endpoints)
    step("measuring")
    quality = routing.measure(routed, endpoints, in_tree_order=in_tree_order, seed=seed)
    return Subnet(fabric, routed.tables, why if routed.why == "as asked" else routed.why, proof, quality)


def subnets_document(subnets: Sequence[Subnet]) -> dict[str, Any]:
    """Return what ``plan.json`` holds of the routing: figures over all subnets, then each subnet's own."""
    proofs = [subnet.proof for subnet in subnets]
    qualities = [subnet.quality for subnet in subnets]
    return {
        "proof": {
            "pairs": sum(proof.pairs for proof in proofs),
            "missing": sum(proof.missing for proof in proofs),
            "credit_loops": sum(proof.credit_loops for proof in proofs),
            "max_hops": max(proof.max_hops for proof in proofs),
            "lanes": max(proof.lanes for proof in proofs),
        },
        "quality": {
            "max_load": max(quality.max_load for quality in qualities),
            "ebb": min(quality.ebb for quality in qualities),
            "balance": max(quality.balance for quality in qualities),
        },
        "subnets": [
            {
                "name": subnet.fabric.name,
                "engine": subnet.tables.engine,
                "engine_reason": subnet.why,
                "proof": subnet.proof.to_dict() | faults_document(subnet.fabric, subnet.proof),
                "quality": subnet.quality.to_dict(),
            }
            for subnet in subnets
        ],
    }


def subnet_files(subnet: Subnet) -> dict[str, Content]:
    """Return the fabric and what OpenSM loads, by path relative to the folder of the subnet."""
    files: dict[str, Content] = {
        "fabric.json": format_fabric(replace(subnet.fabric, discovered_lid=subnet.tables.lid)),
        "fabric.ibnetdiscover": format_ibnetdiscover(subnet.fabric, subnet.tables.lid),
    }
    opensm = opensm_files(routing.Routed(subnet.fabric, subnet.tables))
    return files | {f"opensm/{name}": content for name, content in opensm.items()}


def versions() -> dict[str, str]:
    """Return the versions of what computes the figures."""
    return {name: version(name) for name in ("heddle-fabric", "numba", "numpy", "scipy")}
