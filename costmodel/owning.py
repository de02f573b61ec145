"""What a plan costs to own: capital, energy over the years, and how often something fails meanwhile."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from costmodel.baselines import Published
from costmodel.power import Power
from costmodel.price import Cost, Range
from topo.counts import Counts
from topo.errors import DesignError
from topo.spec.purchase import Owning

HOURS_PER_YEAR = 8_766.0
"""365.25 days."""
SYSTEM = "fire-flyer"


@dataclass(frozen=True)
class Failures:
    """Events a year, at the rates that Fire-Flyer's authors observed (Tables VII and VIII), scaled by size."""

    gpu: float
    main_memory: float
    link_cut: float
    """Short interruptions of an InfiniBand link; whether one event is one link is not stated."""


@dataclass(frozen=True)
class CostOfOwning:
    """Capital and energy over the stated years, in one currency."""

    stated: Owning
    capital: Range
    """Of everything that has a price; see `gaps`."""
    gaps: tuple[str, ...]
    energy_kwh_per_year: float
    energy_per_year: float
    failures_per_year: Failures

    @property
    def total(self) -> Range:
        """Capital and energy over all years."""
        energy = self.energy_per_year * self.stated.years
        return self.capital + Range(energy, energy)

    def to_json(self) -> dict[str, Any]:
        """Return the figures of ``plan.json``."""
        return {
            **self.stated.model_dump(mode="json"),
            "capital": [self.capital.low, self.capital.high],
            "energy_kwh_per_year": self.energy_kwh_per_year,
            "energy_per_year": self.energy_per_year,
            "total": [self.total.low, self.total.high],
            "failures_per_year": asdict(self.failures_per_year),
            "gaps": list(self.gaps),
        }


def own(stated: Owning, cost: Cost, power: Power, failures: Failures) -> CostOfOwning:
    """Add up what the cluster costs over the stated years.

    Parameters
    ----------
    cost : Cost
        In the currency of ``stated``.
    power : Power
        Its typical sum draws all year round, times the power usage effectiveness.
    """
    energy = power.total_w / 1_000 * stated.pue * HOURS_PER_YEAR
    return CostOfOwning(stated, cost.total, cost.gaps, energy, energy * stated.price_per_kwh, failures)


def expected_failures(counts: Counts, published: Published) -> Failures:
    """Scale the observed failures to a plan: those of GPUs and memory by GPUs, link cuts by links."""

    def rate(table: str, figure: str, per: str, period: str, periods_per_year: float) -> float:
        events = published.value(table, SYSTEM, figure) / published.value(table, SYSTEM, per)
        return events * periods_per_year / published.value(table, SYSTEM, period)

    if counts.gpus is None:
        raise DesignError("the model of a server is unknown, and so the number of GPUs that can fail")
    return Failures(
        gpu=counts.gpus * rate("VII", "gpu_failures", "gpus", "months", 12.0),
        main_memory=counts.gpus * rate("VII", "main_memory_failures", "gpus", "months", 12.0),
        link_cut=counts.links * rate("VIII", "link_cuts", "links", "days", 365.25),
    )
