"""The main job: a spec becomes fabrics, tables, proofs and a bill."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from plan.pricing import Pricing, exceeded_budgets, price_cluster
from plan.subnet import Subnet, route_subnet
from topo.cluster import ClusterSpec, SpecFile
from topo.compile import compile_cluster
from topo.fabric import Fabric
from topo.hardware.catalog import Catalog

Step = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """Everything that follows from a spec."""

    spec: ClusterSpec
    spec_sha256: str
    seed: int
    subnets: tuple[Subnet, ...]
    catalog: Catalog
    pricing: Pricing

    @property
    def holds(self) -> bool:
        """Whether each subnet is complete and free of credit loops, and no budget is exceeded."""
        return all(subnet.proof.holds for subnet in self.subnets) and not exceeded_budgets(self.spec, self.pricing)


def make_plan(source: SpecFile, seed: int = 0, step: Step = lambda text: None) -> Plan:
    """Compile, route, prove, measure, count and price a cluster.

    Parameters
    ----------
    source : SpecFile
        The spec with its catalog.
    seed : int
        Seed of the random permutations that quality is measured with.
    step : callable
        Is told what is going on, for a progress display.
    """
    step("compiling")
    fabrics = compile_cluster(source.spec, source.catalog)

    def route(fabric: Fabric) -> Subnet:
        where = f" {fabric.name}" if len(fabrics) > 1 else ""
        engine = source.spec.routing.engine
        return route_subnet(fabric, engine, "as the spec says", seed=seed, step=lambda text: step(f"{text}{where}"))

    subnets = tuple(route(fabric) for fabric in fabrics)
    return Plan(
        spec=source.spec,
        spec_sha256=hashlib.sha256(source.document.text.encode()).hexdigest(),
        seed=seed,
        subnets=subnets,
        catalog=source.catalog,
        pricing=price_cluster(source.spec, fabrics, source.catalog, step=step),
    )
