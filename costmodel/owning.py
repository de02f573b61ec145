"""Cost of owning a cluster: capital, energy over the years, and expected failures a year."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from costmodel.baselines import FIRE_FLYER, Published, published
from costmodel.bills import Bill, bill
from costmodel.parts import recalled
from costmodel.power import Power
from costmodel.price import UNITS, Cost
from topo.amounts import Range, Sum, listed, sums_to_dict
from topo.checks import Check
from topo.cluster import Cluster
from topo.cluster_spec import ClusterBudget, Owning, parse_money
from topo.counts import Counts
from topo.errors import DesignError, plural
from topo.table import Shown, Table

HOURS_PER_YEAR = 8_766.0
"""365.25 days."""


def price_per_watt(stated: Owning) -> float:
    """Return the price of the energy of 1 W over all years: years * 8766 h * PUE * price_per_kwh / 1000.

    Examples
    --------
    >>> round(price_per_watt(Owning(years=4, pue=1.5, price_per_kwh=0.1, currency="USD")), 4)  # USD
    5.2596
    """
    return stated.years * stated.pue * HOURS_PER_YEAR / 1_000 * stated.price_per_kwh


@dataclass(frozen=True)
class Failures:
    """Expected events a year, at the rates observed in Fire-Flyer 2 (An et al., SC'24, Tables VII and VIII)."""

    gpu: float
    main_memory: float
    link_cut: float
    """Short interruptions of an InfiniBand link; the paper does not state whether an event is a single link."""


@dataclass(frozen=True)
class CostOfOwning(Shown):
    """Capital and energy over the stated years, in one currency: see `own`."""

    stated: Owning
    """Years, power usage effectiveness, price of energy, and currency."""
    cost: Cost
    power: Power
    failures_per_year: Failures

    def _brief(self) -> str:
        return f"{plural(self.stated.years, 'year')}: {self.total} {self.stated.currency}"

    @property
    def capital(self) -> Sum:
        """Price of all parts."""
        return self.cost.total

    @property
    def gaps(self) -> tuple[str, ...]:
        """The prices and the power that the total lacks, in words."""
        energy = (f"{name}: typical power unknown, and so its energy" for name in self.power.total_w.missing)
        return (*self.cost.gaps, *energy)

    @property
    def energy_kwh_per_year(self) -> Sum:
        """Energy of the building in kWh: typical power * PUE * 8766 h / 1000."""
        return self.power.total_w * (self.stated.pue * HOURS_PER_YEAR / 1_000)

    @property
    def energy_per_year(self) -> Sum:
        """Price of the energy of a year: kWh * price_per_kwh."""
        return self.energy_kwh_per_year * self.stated.price_per_kwh

    @property
    def energy(self) -> Sum:
        """Price of the energy of all years."""
        return self.energy_per_year * self.stated.years

    @property
    def total(self) -> Sum:
        """Capital and the price of the energy of all years."""
        return self.capital + self.energy

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values: ``owning`` of ``plan.json``."""
        names = ("capital", "energy_kwh_per_year", "energy_per_year", "total")
        return {
            **self.stated.model_dump(mode="json"),
            **sums_to_dict({name: getattr(self, name) for name in names}),
            "failures_per_year": asdict(self.failures_per_year),
            "gaps": list(self.gaps),
        }

    @property
    def table(self) -> Table:
        """The figures as a table."""
        money, years = self.stated.currency, plural(self.stated.years, "year")
        rows = [
            ("capital", str(self.capital), money),
            ("energy a year", str(self.energy_kwh_per_year), "kWh"),
            ("price of the energy a year", str(self.energy_per_year), money),
            (f"price of the energy in {years}", str(self.energy), money),
            (f"total of {years}", str(self.total), money),
            *(
                (f"{what.replace('_', ' ')} failures a year, at the rates of Fire-Flyer 2", f"{n:,.1f}", "")
                for what, n in asdict(self.failures_per_year).items()
            ),
        ]
        return Table.of_rows("cost of owning", ("figure", "value", "unit"), rows)


@dataclass(frozen=True)
class Quote(Shown):
    """Bill, cost, power, cost of owning and budgets of a cluster: see `quote`."""

    cluster: Cluster
    bill: Bill
    cost: Cost
    owning: CostOfOwning | None
    """None where the spec has no ``owning``."""

    def _brief(self) -> str:
        return f"{self.cluster.name}: {self.cost.table.title}"

    @property
    def table(self) -> Table:
        """The cost of each part."""
        return self.cost.table

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.power.table, *([self.owning.table] if self.owning else []))

    @property
    def power(self) -> Power:
        """The power of the parts."""
        return self.bill.power

    @property
    def checks(self) -> tuple[Check, ...]:
        """Verdicts on each budget of the spec, and on the power of its racks."""
        layout = self.cluster.layout
        limits = check_budget(self.cluster.spec.budget, self.power, self.cluster.counts.switches, self.bill)
        racks = layout.checks if layout else ()
        doubts = (self.power.recalled("switch", "node", typical=check.what != "rack power") for check in racks)
        return (*limits, *(replace(check, doubt=doubt) for check, doubt in zip(racks, doubts, strict=True)))

    def why_currency(self, asked: str | None = None) -> str:
        """Say why the cost is in this currency, and what names another; empty where it is ``asked`` or the spec's."""
        if asked or self.cluster.spec.priced_in:
            return ""
        units = self.cost.unit == UNITS
        why = "relative units, since the switches have no price in money" if units else self.cost.unit
        return f"in {why}, as nothing names a currency (`--currency`, or `currency` in the spec)"

    def to_dict(self) -> dict[str, Any]:
        """Return cost, power, cost of owning and budgets as plain values."""
        return {
            "cost": self.cost.to_dict(),
            "power": self.power.to_dict(),
            "owning": self.owning and self.owning.to_dict(),
            "budget": [check.to_dict() for check in self.checks],
        }


def check_budget(budget: ClusterBudget, power: Power, switches: int, bought: Bill) -> tuple[Check, ...]:
    """Compare planned power, switches and price with a budget; a check for each limit that the budget states."""
    found = []
    for what, limit, watts, basis in (
        ("power", budget.power, power.planned_w, f"planned {power.basis}"),
        ("typical_power", budget.typical_power, power.bounded_w, "typically"),
    ):
        if limit is not None:
            silent = [part for part in power.of(most=what == "power").missing if part not in power.by_typical]
            note = f" {basis}{f'; unknown: {listed(silent)}' if silent else ''}"
            doubt, ask = power.recalled(typical=what != "power"), power.asked(typical=what != "power")
            sure = power.cautious_w
            if what == "typical_power" and not sure.missing and sure.known is not None and sure.known.high <= limit:
                doubt = ""  # a part draws no more in the mean than at most
            key, watts = f"budget.{what}", watts * 1e-3
            found.append(
                Check.of(what, watts, limit / 1e3, key, unit="kW", decimals=1, note=note, ask=ask, doubt=doubt)
            )
    if budget.switches is not None:
        planned = Sum(Range(switches, switches))
        found.append(Check.of("switches", planned, budget.switches, "budget.switches", note=" planned"))
    if budget.price is not None:
        limit, currency = parse_money(budget.price)
        priced = bought.price(currency)
        gaps = f"; no price: {listed(priced.total.missing)}" if priced.total.missing else ""
        doubt = recalled("price", ((row.line, row.amount, row.source) for row in priced.lines), currency)
        found.append(
            Check.of(
                "price", priced.total, limit, "budget.price", unit=currency, note=gaps, ask=priced.asked, doubt=doubt
            )
        )
    return tuple(found)


def quote(cluster: Cluster, currency: str | None = None, parts: Bill | None = None) -> Quote:
    """Return bill, cost, power, cost of owning and budgets of a cluster.

    Parameters
    ----------
    cluster : topo.Cluster
        The cluster.
    currency : str, optional
        Currency of the cost, by default that of ``budget.price`` or ``owning`` of the spec, else `Bill.currency`. The
        cost of owning is in the currency that the spec states.
    parts : Bill, optional
        Its bill, where that is made already.

    Returns
    -------
    Quote
        The results; `Quote.owning` is None where the spec has no ``owning``.

    Raises
    ------
    topo.DesignError
        When the design cannot be built, the floor is too small, or no cable reaches.

    Examples
    --------
    >>> import costmodel, topo
    >>> quote = costmodel.quote(topo.preset("lab-20"), "units")
    >>> print(quote.checks[0].verdict)
    holds
    >>> print(quote.cost.network)
    12
    """
    parts = parts or bill(cluster)
    owning = _own(cluster, parts, cluster.spec.owning) if cluster.spec.owning else None
    return Quote(cluster, parts, parts.price(currency or cluster.spec.priced_in), owning)


def own(cluster: Cluster, stated: Owning | None = None) -> CostOfOwning:
    """Return the cost of owning a cluster: capital + years * 8766 h * typical power * PUE * price_per_kwh.

    Parameters
    ----------
    cluster : topo.Cluster
        The cluster.
    stated : Owning, optional
        Years, power usage effectiveness, price of energy and currency; by default ``owning`` of the spec.

    Returns
    -------
    CostOfOwning
        Capital, energy in kWh a year with its price, and expected failures a year.

    Raises
    ------
    topo.DesignError
        When neither states them, or the model of a server is unknown.

    Examples
    --------
    >>> import costmodel, topo
    >>> owned = costmodel.own(topo.parse({
    ...     "name": "pod",
    ...     "nodes": {"gpu": {"model": "dgx-a100", "count": 4}},
    ...     "network": {"shape": "fat-tree", "switch": "QM8700"},
    ...     "owning": {"years": 5, "pue": 1.3, "price_per_kwh": 0.1, "currency": "USD"},
    ... }))
    >>> print(owned.energy_kwh_per_year)
    195,939
    """
    stated = stated or Cluster.given(cluster).spec.owning
    if stated is None:
        raise DesignError(f"{cluster.name} has no `owning`: give years, pue, price_per_kwh and currency")
    return _own(cluster, bill(cluster), stated)


def _own(cluster: Cluster, parts: Bill, stated: Owning) -> CostOfOwning:
    failures = expected_failures(cluster.counts, published())
    return CostOfOwning(stated, parts.price(stated.currency), parts.power, failures)


def expected_failures(counts: Counts, observed: Published) -> Failures:
    """Scale observed failures to a cluster: those of GPUs and memory by the GPUs, link cuts by the links.

    Raises
    ------
    DesignError
        When the number of GPUs is unknown.
    """

    def rate(table: str, figure: str, per: str, period: str, periods_per_year: float) -> float:
        """Return observed events of one GPU or link in a year."""
        events = observed.value(table, FIRE_FLYER, figure) / observed.value(table, FIRE_FLYER, per)
        return events * periods_per_year / observed.value(table, FIRE_FLYER, period)

    if counts.gpus is None:
        raise DesignError("the model of a server is unknown, and therefore the number of GPUs that can fail")
    return Failures(
        gpu=counts.gpus * rate("VII", "gpu_failures", "gpus", "months", 12.0),
        main_memory=counts.gpus * rate("VII", "main_memory_failures", "gpus", "months", 12.0),
        link_cut=counts.links * rate("VIII", "link_cuts", "links", "days", 365.25),
    )
