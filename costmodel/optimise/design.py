"""A design: a network that is compiled, priced by the bill, and compared with the needs."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from costmodel.bills import Bill, make_bill
from costmodel.optimise.capacity import COMPUTE, JOB, Capacity, measure_capacity
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.needs import Needs
from costmodel.optimise.problem import Problem
from costmodel.optimise.stages import Stage, split_in_stages
from costmodel.owning import check_budget, price_per_watt
from costmodel.parts import NETWORK
from topo.amounts import Range, Sum, Verdict, sums_to_dict
from topo.checks import Check
from topo.cluster import Cluster
from topo.cluster_spec import ClusterSpec
from topo.errors import plural
from topo.ports import count_ports
from topo.shapes.base import ShapeModel
from topo.table import Brief, plain

PRICE_CHECK = "network price"
PRICE_CHECKS = (PRICE_CHECK, "price")
"""Checks of the limits of the price: of the network, and of everything."""
FLOOR_CHECKS = ("rack power", "typical rack power", "reach")
"""Checks that concern the floor."""


@dataclass(frozen=True, kw_only=True)
class Design(Brief, Capacity):
    """A design of a search: its spec, its price, its capacity, and which needs it meets: all `checks`.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"],
    ... })
    >>> winner = costmodel.optimise(needs).winner
    >>> print(winner.name, winner.verdict, winner.job_bisection, sep=", ")
    HyperX 3, 10 links each, of QM8700, holds, 100.0%
    """

    name: str
    spec: ClusterSpec
    switches: int
    cables: int
    cost: Sum
    """Price of the switches, cables and optics that are bought, in the currency of the needs; on their floor each cable
    at its length."""
    energy: Sum
    """Price of the energy of the network over the years of `Needs.owning`; empty without."""
    compared: Sum
    """Price and energy that the search minimises: of switches for the servers after growth, the cables between them and
    those of the servers that are bought, each cable at the price of its speed."""
    power_w: Sum
    """Typical power of the network that is bought, with the optics in its switches."""
    power_max_w: Sum
    """The same at most."""
    stages: tuple[Stage, ...] = ()
    """The stages of the needs, and the whole; empty where the needs have none, or where the design misses others."""
    moving: Sum = field(default_factory=Sum)
    """Price of moving cables between stages."""
    taper: float | None = None
    """Ports of the leaves towards nodes for each uplink, the most of all networks; None where no leaf has uplinks."""
    local: bool = False
    """Whether the jobs get their bandwidth only because servers side by side share leaves: all of them as one job get
    less than the jobs need."""
    idle: tuple[str, ...] = ()
    """Prices of speeds that count nowhere in the bill, as `costmodel.Cost.idle`."""

    def _brief(self) -> str:
        return f"{self.name}: {plural(self.switches, 'switch', 'switches')}, cost {self.cost}"

    @property
    def total(self) -> Sum:
        """The bill of the network that is bought, with energy and moving."""
        return self.cost + self.energy + self.moving

    @property
    def price(self) -> float:
        """Middle of the range of `compared` with moving; unknown prices count 0."""
        known = (self.compared + self.moving).known
        return 0.0 if known is None else known.middle

    @property
    def acceptable(self) -> bool:
        """Whether no need is missed, and no figure unknown; a bandwidth may be neither proven nor refuted."""
        return all(
            check.verdict is Verdict.HOLDS or (check.verdict is Verdict.CANNOT_TELL and check.what in (JOB, COMPUTE))
            for check in self.checks
        )

    def refused_by(self, checks: Container[str]) -> bool:
        """Return whether the design meets all needs but some of these, such as `FLOOR_CHECKS`."""
        return self.verdict is Verdict.EXCEEDED and all(
            check.verdict is Verdict.HOLDS or check.what in checks for check in self.checks
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """The needs that the design misses, else those that are undecided; empty where it meets all."""
        missed = tuple(
            f"{check.text}{check.advice if check.excess else ''}"
            for check in self.checks
            if check.verdict is Verdict.EXCEEDED
        )
        unknown = (check.text for check in self.checks if check.verdict is Verdict.CANNOT_TELL)
        return missed or tuple(f"cannot tell: {text}" for text in unknown)

    @property
    def proof(self) -> str:
        """What is proven of the needs, in words."""
        if self.verdict is Verdict.HOLDS:
            apart = f", for jobs of servers side by side: all as one get {self.bisection}" if self.local else ""
            if (between := self.job_bisection.narrower) is not self.job_bisection:
                apart = f", over the rails; between rails a job gets {between.written()}{apart}"
            return f"all needs hold, proven{apart}"
        return "; ".join(self.reasons)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, with the spec."""
        sums = {name: getattr(self, name) for name in ("cost", "energy", "moving", "power_w", "power_max_w")}
        return {
            "name": self.name,
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            "switches": self.switches,
            "cables": self.cables,
            "job_bisection": self.job_bisection.share,
            "job_bisection_least": self.job_bisection.least,
            "worst_job": self.job_bisection.worst,
            "worst_cut": plain(self.job_bisection.cut),
            "subnet_bisections": plain(self.job_bisection.subnets),
            "between_rails": self.job_bisection.to_dict()["between_rails"],
            "taper": self.taper,
            "local": self.local,
            "bisection": self.bisection.share,
            "bisection_least": self.bisection.least,
            "serving_gbps": {role.name.lower(): gbps for role, gbps in self.serving_gbps.items()},
            "exact": self.job_bisection.exact and self.bisection.exact,
            **sums_to_dict({"price": self.total, "compared": self.compared + self.moving} | sums),
            "checks": plain(self.checks),
            "stages": plain(self.stages),
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
        }


def evaluate(name: str, shape: ShapeModel, problem: Problem) -> Design:
    """Compile, price and measure one design.

    It is measured with the servers after growth, and what it costs and draws is that of the servers that are bought:
    bill and power are those of its spec. The floor, and then the stages, take long; they are evaluated only for designs
    that carry what is needed.

    Raises
    ------
    DesignError
        When the design cannot be built.
    """
    needs = problem.needs
    cluster = Cluster(problem.spec.model_copy(update={"network": shape}), problem.catalog)
    spec = problem.spec.model_copy(update={"nodes": needs.nodes, "network": shape})
    bought = Cluster(spec, problem.catalog) if needs.growth else cluster
    capacity = measure_capacity(cluster.fabrics, problem)
    placed = needs.floor is not None and capacity.verdict is not Verdict.EXCEEDED
    checks = capacity.checks + (tuple(check_floor(cluster, needs)) if placed else ())
    by_speed, bill, switches, limits = bill_bought(bought, needs, placed=placed)
    checks += limits
    compared = _with_ports(make_bill(cluster.fabrics, problem.catalog), by_speed) if needs.growth else by_speed
    cost, energy = _network_cost(bill, needs)
    design = Design(
        **vars(capacity) | {"checks": checks},
        name=name,
        spec=spec,
        switches=switches,
        cables=by_speed.count("cable"),
        cost=cost,
        energy=energy,
        compared=sum(_network_cost(compared, needs), Sum()),
        power_w=bill.power.network_w,
        power_max_w=bill.power.of(*NETWORK, most=True),
        taper=max(
            (row.taper for row in count_ports(cluster.fabrics, cluster.catalog).classes if row.taper is not None),
            default=None,
        ),
        local=capacity.bisection.share < needs.job.bisection - ROUNDING,
        idle=bill.of(*NETWORK).price(needs.currency).idle,
    )
    if needs.stages and design.verdict is not Verdict.EXCEEDED:
        stages = split_in_stages(cluster.fabrics, problem, capacity)
        moved = sum(stage.moved for stage in stages)
        checks += tuple(check for stage in stages[:-1] for check in stage.checks)
        moving = Sum.of([((needs.moving or 0.0) * moved, "")]) if moved else Sum()
        design = replace(design, stages=stages, moving=moving, checks=checks)
    return design


def bill_bought(bought: Cluster, needs: Needs, *, placed: bool) -> tuple[Bill, Bill, int, tuple[Check, ...]]:
    """Return the bill by speeds of cables, the same with cables as they lie if ``placed``, switches, and all limits."""
    by_speed = make_bill(bought.fabrics, bought.catalog)
    bill = make_bill(bought.fabrics, bought.catalog, bought.layout, bought.cablings) if placed else by_speed
    switches = sum(fabric.n_switches for fabric in bought.fabrics)
    return by_speed, bill, switches, (*check_limits(needs, switches, bill), *check_supply(needs, by_speed, bill))


def _network_cost(bill: Bill, needs: Needs) -> tuple[Sum, Sum]:
    """Return the price of the network of a bill, and that of its energy over the years of the needs."""
    energy = bill.power.network_w * price_per_watt(needs.owning) if needs.owning else Sum()
    return bill.of(*NETWORK).price(needs.currency).network, energy


def _with_ports(whole: Bill, bought: Bill) -> Bill:
    """Return the bill of the network for all servers, of which only those that are bought have cables to it."""
    ports = (line for line in whole.lines if line.kind == "switch" or len(line.switches) == 2)
    return replace(whole, lines=(*ports, *(line for line in bought.lines if len(line.switches) == 1)))


def check_floor(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    """Compare a design with the power of racks and the reach of cables on the floor."""
    if cluster.layout is None:
        return
    yield from map(_named, cluster.layout.checks)
    longest = max(
        (float(each.route_m[each.cable >= 0].max(initial=0.0)) for each in cluster.cablings or ()), default=0.0
    )
    if needs.reach is not None:
        check = Check.of("reach", Sum(Range(longest, longest)), needs.reach, "reach", unit="m", decimals=1)
        yield replace(check, text=f"the longest cable is {check.found}, {check.allowed} are allowed")


def check_limits(needs: Needs, switches: int, bill: Bill) -> Iterator[Check]:
    """Compare networks that are bought with the limits on price, power and switches."""
    if needs.network_price is not None:
        check = Check.of(PRICE_CHECK, _network_cost(bill, needs)[0], needs.network_price, "network_price")
        yield replace(check, text=f"{PRICE_CHECK}: {check.found} {needs.currency}, {check.allowed} allowed")
    yield from map(_named, check_budget(needs.budget, bill.power, switches, bill))


def check_supply(needs: Needs, *bills: Bill) -> Iterator[Check]:
    """Compare parts with what can be had: on a floor one bill has the speeds of cables, the other their models."""
    for item, supply in needs.supply.items():
        pieces = max(sum(line.count for line in bill.lines if line.item == item) for bill in bills)
        most = supply.within(needs.weeks)
        if pieces:
            more = "no more come" if supply.weeks is None else f"more in {supply.weeks:g} weeks"
            asked = "" if needs.weeks is None else f", all needed in {needs.weeks:g}"
            text = f"supply: {pieces:,} x {item}, {supply.stock:,} in stock, {more}{asked}"
            yield Check("supply", Verdict.HOLDS if pieces <= most else Verdict.EXCEEDED, text)


def _named(check: Check) -> Check:
    """Return a check whose text says what is limited, since reasons stand without it."""
    return replace(check, text=f"{check.what}: {check.text}")
