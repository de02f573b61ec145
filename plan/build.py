"""The main job: a spec becomes fabrics, tables, proofs, a bill; and all of it becomes files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from routing.opensm import opensm_files
from routing.qos import TrafficClass

from costmodel.bill import Bill, make_bill
from costmodel.counts import Counts, count
from costmodel.power import Power, power_of
from costmodel.price import Cost, price_bill
from plan.export.bom_csv import format_bom_csv
from plan.export.bom_xlsx import format_bom_xlsx
from plan.export.cable_schedule import format_cable_schedule
from plan.folder import Content
from routing.engines import choose, load_engine
from routing.proof import Proof, prove
from routing.quality import Quality, measure
from routing.tables import RoutingTables, assign_lids
from topo.cables import Cabling, choose_cables
from topo.catalog import Catalog
from topo.compile import compile_cluster
from topo.fabric import Fabric
from topo.formats.ibnetdiscover import format_ibnetdiscover
from topo.racks import Layout, place_devices
from topo.spec import ClusterSpec, SpecFile

__all__ = ["Plan", "Subnet", "exceeded_budgets", "make_plan", "plan_document", "plan_files"]

Step = Callable[[str], None]


@dataclass(frozen=True)
class Subnet:
    """One subnet: its fabric, how it is routed, and what that is worth."""

    fabric: Fabric
    tables: RoutingTables
    why: str
    """Why this engine was taken."""
    proof: Proof
    quality: Quality


@dataclass(frozen=True)
class Plan:
    """Everything that follows from a spec."""

    spec: ClusterSpec
    spec_sha256: str
    seed: int
    subnets: tuple[Subnet, ...]
    counts: Counts
    catalog: Catalog
    layout: Layout | None
    """None where the spec gives no floor plan."""
    cablings: tuple[Cabling, ...] | None
    """Subnet by subnet; None likewise."""
    bill: Bill
    cost: Cost
    power: Power

    @property
    def holds(self) -> bool:
        """Whether each subnet is complete and free of credit loops, and no budget is exceeded."""
        return all(subnet.proof.holds for subnet in self.subnets) and not exceeded_budgets(self)


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
    subnets = []
    for fabric in fabrics:
        where = f" {fabric.name}" if len(fabrics) > 1 else ""
        step(f"routing{where}")
        name, why = source.spec.routing.engine, "as the spec says"
        if name == "auto":
            name, why = choose(fabric)
        tables = load_engine(name)(fabric, assign_lids(fabric))
        step(f"proving{where}")
        proof = prove(fabric, tables)
        step(f"measuring{where}")
        quality = measure(fabric, tables, np.random.default_rng(seed))
        subnets.append(Subnet(fabric, tables, why, proof, quality))
    layout, cablings = None, None
    if source.spec.floor is not None:
        step("placing")
        layout = place_devices(fabrics, source.catalog, source.spec.floor)
        cablings = choose_cables(fabrics, layout, source.catalog)
    step("pricing")
    bill = make_bill(fabrics, source.catalog, layout, cablings)
    return Plan(
        spec=source.spec,
        spec_sha256=hashlib.sha256(source.document.text.encode()).hexdigest(),
        seed=seed,
        subnets=tuple(subnets),
        counts=count(fabrics, source.catalog),
        catalog=source.catalog,
        layout=layout,
        cablings=cablings,
        bill=bill,
        cost=price_bill(bill, source.catalog),
        power=power_of(bill, source.catalog),
    )


def exceeded_budgets(plan: Plan) -> list[str]:
    """Say which budgets of the spec the plan exceeds, and by how much."""
    budget, power = plan.spec.budget, plan.power.total_w
    found = []
    if budget.power is not None and power > budget.power:
        found.append(f"power: {power / 1e6:.3f} MW planned, {budget.power / 1e6:.3f} MW allowed")
    if budget.switches is not None and plan.counts.switches > budget.switches:
        found.append(f"switches: {plan.counts.switches:,} planned, {budget.switches:,} allowed")
    return found


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return what ``plan.json`` holds: figures over all subnets, then each subnet's own."""
    proofs = [subnet.proof for subnet in plan.subnets]
    qualities = [subnet.quality for subnet in plan.subnets]
    return {
        "name": plan.spec.name,
        "holds": plan.holds,
        "exceeded": exceeded_budgets(plan),
        "counts": asdict(plan.counts),
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
        "cost": plan.cost.to_json(),
        "power": plan.power.to_json(),
        "subnets": [
            {
                "name": subnet.fabric.name,
                "engine": subnet.tables.engine,
                "engine_reason": subnet.why,
                "proof": subnet.proof.summary(),
                "quality": subnet.quality.summary(),
            }
            for subnet in plan.subnets
        ],
        "inputs": {"spec_sha256": plan.spec_sha256, "seed": plan.seed},
        "versions": {name: version(name) for name in ("heddle-fabric", "numba", "numpy", "scipy")},
    }


def plan_files(plan: Plan) -> Mapping[str, Content]:
    """Return the files of the output folder, by path relative to it."""
    fabrics = [subnet.fabric for subnet in plan.subnets]
    files: dict[str, Content] = {
        "plan.json": json.dumps(plan_document(plan), indent=2) + "\n",
        "bom.csv": format_bom_csv(plan.cost),
        "bom.xlsx": format_bom_xlsx(plan.cost, plan.power),
        "cables.csv": format_cable_schedule(fabrics, plan.catalog, plan.layout, plan.cablings),
    }
    traffic = [TrafficClass(**item.model_dump()) for item in plan.spec.traffic]
    for subnet, folder in zip(plan.subnets, _folders(plan.subnets), strict=True):
        files[f"{folder}fabric.ibnetdiscover"] = format_ibnetdiscover(subnet.fabric, subnet.tables.lid)
        for name, content in opensm_files(subnet.fabric, subnet.tables, traffic).items():
            files[f"{folder}opensm/{name}"] = content
    return files


def _folders(subnets: Sequence[Subnet]) -> list[str]:
    """One subnet lies at the top; several lie in a folder each."""
    return [""] if len(subnets) == 1 else [f"{subnet.fabric.name}/" for subnet in subnets]
