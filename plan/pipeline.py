"""The main job: a spec becomes fabrics, tables, proofs and a bill."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costmodel import Quote, quote
from plan.subnet import Subnet, route_subnet
from topo.cluster import Cluster
from topo.fabric import Fabric
from topo.hardware.catalog import Catalog
from topo.spec.cluster import ClusterSpec

Step = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Everything that follows from a spec."""

    spec: ClusterSpec
    spec_sha256: str | None
    """None for a spec that had no text."""
    seed: int
    subnets: tuple[Subnet, ...]
    catalog: Catalog
    pricing: Quote

    @property
    def holds(self) -> bool:
        """Whether each subnet is complete and free of credit loops, and no budget is exceeded."""
        return all(subnet.proof.holds for subnet in self.subnets) and not self.pricing.exceeded


def make_plan(cluster: Cluster, seed: int = 0, step: Step = lambda text: None) -> Plan:
    """Compile, route, prove, measure, count and price a cluster.

    Parameters
    ----------
    cluster : Cluster
        The spec with its catalog.
    seed : int
        Seed of the random permutations that quality is measured with.
    step : callable
        Is told what is going on, for a progress display.
    """
    step("compiling")
    fabrics = cluster.cabled

    def route(fabric: Fabric) -> Subnet:
        where = f" {fabric.name}" if len(fabrics) > 1 else ""
        return route_subnet(
            fabric, fabric.engine, "as the spec says", seed=seed, step=lambda text: step(f"{text}{where}")
        )

    subnets = tuple(route(fabric) for fabric in fabrics)
    if cluster.spec.floor is not None:
        step("placing")
    _ = cluster.cablings
    step("pricing")
    return Plan(
        spec=cluster.spec,
        spec_sha256=cluster.sha256,
        seed=seed,
        subnets=subnets,
        catalog=cluster.catalog,
        pricing=quote(cluster),
    )
