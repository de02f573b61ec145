"""From compiled fabrics to what a buyer gets: places, cables, the bill, its cost, power, and the cost of owning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from costmodel.baselines import read_published
from costmodel.bill import Bill, make_bill, with_spares
from costmodel.owning import CostOfOwning, expected_failures, own
from costmodel.power import Power, power_of
from costmodel.price import UNITS, Cost, price_bill
from topo.cluster import Cluster
from topo.counts import Counts
from topo.hardware.catalog import config_root
from topo.room.cables import Cabling
from topo.room.racks import Layout
from topo.spec.cluster import ClusterSpec

PUBLISHED = "published/fire-flyer-ai-hpc.csv"
"""Figures that the design is set beside, below the folder of configs."""


@dataclass(frozen=True)
class Pricing:
    """Everything that a buyer gets of a plan."""

    counts: Counts
    layout: Layout | None
    """None where the spec gives no floor plan."""
    cablings: tuple[Cabling, ...] | None
    """Subnet by subnet; None likewise."""
    bill: Bill
    cost: Cost
    power: Power
    owning: CostOfOwning | None
    """None where the spec does not ask for it."""


def price_cluster(cluster: Cluster, currency: str = UNITS, step: Callable[[str], None] = lambda text: None) -> Pricing:
    """Place, cable, count and price the fabrics of a cluster.

    Raises
    ------
    DesignError
        When the room cannot hold the cluster, or a cable cannot reach.
    """
    spec, fabrics, catalog = cluster.spec, cluster.fabrics, cluster.catalog
    if spec.floor is not None:
        step("placing")
    layout, cablings = cluster.layout, cluster.cablings
    step("pricing")
    counts = cluster.counts
    bill = with_spares(make_bill(fabrics, catalog, layout, cablings), spec.spares)
    power = power_of(bill, catalog)
    owning = None
    if spec.owning is not None:
        failures = expected_failures(counts, read_published(config_root() / PUBLISHED))
        owning = own(spec.owning, price_bill(bill, catalog, spec.owning.currency), power, failures)
    return Pricing(counts, layout, cablings, bill, price_bill(bill, catalog, currency), power, owning)


def exceeded_budgets(spec: ClusterSpec, pricing: Pricing) -> list[str]:
    """Say which budgets of the spec are exceeded, and by how much."""
    budget, power, switches = spec.budget, pricing.power.total_w, pricing.counts.switches
    found = []
    if budget.power is not None and power > budget.power:
        found.append(f"power: {power / 1e6:.3f} MW planned, {budget.power / 1e6:.3f} MW allowed")
    if budget.switches is not None and switches > budget.switches:
        found.append(f"switches: {switches:,} planned, {budget.switches:,} allowed")
    return found
