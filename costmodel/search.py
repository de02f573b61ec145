"""The search for the cheapest network that meets given needs.

Every design of `costmodel.families` is compiled as `plan build` would, priced by the same bill, and measured by maximum
flows, which no routing can exceed. So nothing here knows a formula of a topology, and a design that wins also builds.
`least_price` bounds how far the winner is from what could be had at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import ceil, gcd, inf
from typing import Any

import numpy as np

from costmodel.bills import make_bill
from costmodel.capacity import bisection, storage_gbps
from costmodel.families import AnyShape, finer_trees, landmarks, out_of_reach
from costmodel.needs import Needs, grown, servers_of
from costmodel.owning import check_budget
from costmodel.parts import NETWORK, columns
from costmodel.power import Power
from topo.cluster import Cluster
from topo.errors import DesignError, plural
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog, load_catalog
from topo.losses import find_parting_switch
from topo.reach import Reach
from topo.schema.cluster import ClusterSpec
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Zones
from topo.sums import Check, Sum, Verdict, sums_to_dict
from topo.table import Shown, Table

Step = Callable[[str], None]
ROUNDING = 1e-9
"""Shares are quotients of whole numbers: less than this is no difference."""
MOST_FINER = 100
"""Finer trees that are compiled at most, the cheapest that no bound rules out."""


@dataclass(frozen=True)
class Design:
    """A design and what it is worth."""

    name: str
    spec: ClusterSpec
    switches: int
    cables: int
    cost: Sum
    """Switches, cables and optics."""
    power_w: Sum
    """Of the network, typically."""
    job_bisection: float
    bisection: float
    """Of all compute nodes."""
    storage_gbps: float
    checks: tuple[Check, ...]
    """Each need, and whether the design meets it."""

    @property
    def price(self) -> float | None:
        """Middle of the range of its cost; None where a part has no price."""
        return self.cost.middle

    @property
    def verdict(self) -> Verdict:
        """Whether it meets all needs; cannot tell where a figure that a need limits is unknown."""
        return Verdict.all_of(check.verdict for check in self.checks)

    @property
    def meets_needs(self) -> bool:
        """Whether it is known to meet all needs."""
        return self.verdict is Verdict.HOLDS

    @property
    def reasons(self) -> tuple[str, ...]:
        """Which needs it misses, and which nobody can tell; empty where it meets all."""
        return tuple(
            f"cannot tell: {check.text}" if check.verdict is Verdict.CANNOT_TELL else check.text
            for check in self.checks
            if check.verdict is not Verdict.HOLDS
        )


@dataclass(frozen=True)
class Search(Shown):
    """All designs that were tried."""

    needs: Needs
    designs: tuple[Design, ...]
    """Those that compile, cheapest first; of equal price, fewest switches and watts first."""
    refused: Mapping[str, str]
    """By name, why the others cannot be built, or miss a need by a bound that takes no compiling."""
    bound: float | None
    """What no network of these families and switches can undercut; None where a switch has no price."""

    @property
    def able(self) -> tuple[Design, ...]:
        """Designs that meet all needs and have a price, cheapest first."""
        return tuple(design for design in self.designs if design.meets_needs and design.price is not None)

    @property
    def undecided(self) -> tuple[Design, ...]:
        """Designs that may meet all needs and cost the least, as far as anybody can tell."""
        most = inf if self.winner is None or self.winner.price is None else self.winner.price
        return tuple(
            design
            for design in self.designs
            if (design.verdict is Verdict.CANNOT_TELL or (design.meets_needs and design.price is None))
            and (design.cost.known is None or design.cost.known.low < most)
        )

    @property
    def verdict(self) -> Verdict:
        """Whether a design meets the needs; cannot tell where none is known to, and one may."""
        if self.winner is not None:
            return Verdict.HOLDS
        return Verdict.CANNOT_TELL if self.undecided else Verdict.EXCEEDED

    @property
    def winner(self) -> Design | None:
        """The cheapest design that meets all needs."""
        return next(iter(self.able), None)

    @property
    def front(self) -> tuple[Design, ...]:
        """Designs that meet all needs, and that no other beats in price, power and bisection, cheapest first."""
        return tuple(design for design in self.able if not any(_beats(other, design) for other in self.able))

    def why_not(self, design: Design) -> str:
        """Say why a design did not win."""
        winner = self.winner
        if design is winner:
            return ""
        if design.reasons:
            return "; ".join(design.reasons)
        if design.price is None or winner is None or winner.price is None:
            return f"a part of it has no price in {self.needs.currency}"
        more = design.price - winner.price
        if more > 0:
            return f"{more:,.0f} {self.needs.currency} more expensive ({design.price / winner.price - 1:.0%})"
        watts, least = design.power_w.middle, winner.power_w.middle
        more_w = "an unknown difference in power" if watts is None or least is None else f"{watts - least:+,.0f} W"
        return f"as expensive, with {design.switches - winner.switches:+d} switches and {more_w}"

    def to_dict(self) -> dict[str, Any]:
        """Return all designs as plain values."""

        def row(design: Design) -> dict[str, Any]:
            figures = {item.name: getattr(design, item.name) for item in fields(design) if item.name != "cost"}
            return {
                **figures,
                "spec": design.spec.model_dump(mode="json", exclude_unset=True),
                **sums_to_dict({"price": design.cost, "power_w": design.power_w}),
                "checks": [check.to_dict() for check in design.checks],
                "verdict": str(design.verdict),
                "why_not": self.why_not(design),
            }

        return {
            "winner": self.winner and row(self.winner),
            "verdict": str(self.verdict),
            "undecided": [design.name for design in self.undecided],
            "front": [design.name for design in self.front],
            "bound": self.bound,
            "currency": self.needs.currency,
            "designs": [row(design) for design in self.designs],
            "refused": dict(self.refused),
        }

    @property
    def table(self) -> Table:
        """The designs that meet all needs as a table; a star marks those on the front."""
        names = ("design", "price", "switches", "network power", "bisection", "why not")
        front = self.front
        digits = {"bisection": ".1%"}
        rows = (
            (
                design.name + (" *" if design in front else ""),
                str(design.cost),
                design.switches,
                str(design.power_w),
                design.bisection,
                self.why_not(design) or "the cheapest",
            )
            for design in self.designs
            if design.meets_needs
        )
        units = {"price": self.needs.currency, "network power": "W"}
        return Table(f"{self.needs.name}: designs that meet the needs", tuple(columns(names, rows, units, digits)))


def optimise(needs: Needs, catalog: Catalog | None = None, step: Step = lambda name: None) -> Search:
    """Find the cheapest network that meets needs.

    Tries every landmark, and the finer trees that are cheaper than the best of them until one of those meets the needs.

    Parameters
    ----------
    needs : Needs
        What the network has to do: `read_needs`.
    catalog : topo.Catalog, optional
        Hardware and prices; what ships when left out.
    step : callable
        Progress callback, called with the name of each design before it is tried.

    Returns
    -------
    Search
        The winner, and of each other design why it lost.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"],
    ... })
    >>> found = costmodel.optimise(needs)
    >>> found.winner.switches, found.winner.price
    (5, 15.0)
    """
    catalog = catalog or load_catalog()
    designs: list[Design] = []
    refused: dict[str, str] = {}

    def attempt(name: str, shape: AnyShape) -> Design | None:
        reason = out_of_reach(shape, needs, catalog)
        if reason:
            refused[name] = reason
            return None
        step(name)
        try:
            designs.append(judge(name, shape, needs, catalog))
        except DesignError as error:
            refused[name] = str(error)
            return None
        return designs[-1]

    for name, shape in landmarks(needs, catalog):
        attempt(name, shape)
    able = [design.price for design in designs if design.meets_needs and design.price is not None]
    below = min([*able, *([] if needs.network_price is None else [needs.network_price * (1 + ROUNDING)])], default=inf)
    for name, shape in finer_trees(needs, catalog, below)[:MOST_FINER]:
        design = attempt(name, shape)
        if design is not None and design.meets_needs:
            break  # all that follow have more expensive switches
    designs.sort(key=lambda d: (d.price is None, d.price or 0.0, d.switches, d.power_w.middle or inf, d.name))
    return Search(needs, tuple(designs), refused, least_price(needs, catalog))


def judge(name: str, shape: AnyShape, needs: Needs, catalog: Catalog) -> Design:
    """Compile, price and measure one design, with the ports that growth will need.

    Raises
    ------
    DesignError
        When it cannot be built.
    """
    nodes = {key: grown(group, needs.growth) for key, group in needs.nodes.items()}
    spec = ClusterSpec(name=needs.name, nodes=nodes, network=shape)
    fabrics = Cluster(spec, catalog).fabrics
    bill = make_bill(fabrics, catalog)
    design = Design(
        name=name,
        spec=spec.model_copy(update={"nodes": needs.nodes, "network": _settled(shape, fabrics, catalog)}),
        switches=sum(fabric.n_switches for fabric in fabrics),
        cables=bill.count("cable"),
        cost=bill.of(*NETWORK).price(needs.currency).network,
        power_w=bill.power.network_w,
        job_bisection=bisection(fabrics, needs.job.nodes, with_storage=needs.job.with_storage),
        bisection=bisection(fabrics),
        storage_gbps=storage_gbps(fabrics),
        checks=(),
    )
    return replace(design, checks=(*_checks(design, fabrics, needs), *_limits(design, bill.power, needs)))


def least_price(needs: Needs, catalog: Catalog) -> float | None:
    """Return what no design of the families can undercut.

    Each adapter takes a port of a leaf. At bisection b, a leaf needs b uplinks for each of its adapters in jobs, since
    the other half of a job hangs on other leaves, except on the one leaf in the middle of each job; and an uplink ends
    in a port of another switch. So x switches of each model must have ``n + 2 (b j - m r)`` ports in all, with n
    adapters, j of them in m jobs, and leaves of at most r ports. The least price of so many ports is that of one switch
    and of the ports that it leaves to others, whichever switch makes that least. Cables are left out.
    """
    models = [catalog.switch(name) for name in needs.switches]
    priced = [catalog.price(model.name, needs.currency) for model in models]
    prices = [(price.low + price.high) / 2 for price in priced if price is not None]
    if len(prices) < len(models):
        return None
    adapters = sum(servers.count * servers.adapters for servers in servers_of(needs, catalog))
    compute = servers_of(needs, catalog, Role.COMPUTE)
    jobs = sum(servers.count for servers in compute) // needs.job.nodes
    least_adapters = min((servers.adapters for servers in compute), default=0)
    radix = max(model.chip_radix or model.radix for model in models)
    crossing = max(needs.job.bisection * jobs * needs.job.nodes * least_adapters - jobs * radix, 0)
    sizes = [(model.chip_radix or model.radix) * model.chips for model in models]
    unit = gcd(*sizes)
    options = [(size // unit, price) for size, price in zip(sizes, prices, strict=True)]
    least = [0.0]
    for ports in range(1, ceil(ceil(adapters + 2 * crossing) / unit) + 1):
        least.append(min(price + least[max(ports - size, 0)] for size, price in options))
    return least[-1]


def _settled(shape: AnyShape, fabrics: Sequence[Fabric], catalog: Catalog) -> AnyShape:
    """Write the leaves into the shape, so that it keeps the ports for growth."""
    tree = shape if isinstance(shape, FatTree) else shape.tree
    if catalog.switch(tree.switch).chips > 1:
        return shape
    trees = shape.zones if isinstance(shape, Zones) else 1
    leaves = int(np.count_nonzero(fabrics[0].role == Role.LEAF)) // trees
    settled = tree.model_copy(update={"leaves": leaves})
    return settled if isinstance(shape, FatTree) else shape.model_copy(update={"tree": settled})


def _checks(design: Design, fabrics: Sequence[Fabric], needs: Needs) -> Iterator[Check]:
    """Check what a design can carry, and what it loses, against the needs."""

    def check(what: str, holds: bool, text: str) -> Check:
        return Check(what, Verdict.HOLDS if holds else Verdict.EXCEEDED, text)

    yield check(
        "bisection of a job",
        design.job_bisection >= needs.job.bisection - ROUNDING,
        f"a job of {plural(needs.job.nodes, 'node')} gets {design.job_bisection:.0%} of its rate, "
        f"{needs.job.bisection:.0%} is needed",
    )
    yield check(
        "bisection",
        design.bisection >= needs.bisection - ROUNDING,
        f"bisection of the whole is {design.bisection:.1%}, {needs.bisection:.1%} is needed",
    )
    yield check(
        "storage",
        design.storage_gbps >= needs.storage * (1 - ROUNDING),
        f"storage reaches {design.storage_gbps / 8_000:.2f} TB/s, {needs.storage / 8_000:.2f} TB/s is needed",
    )
    if needs.survives_a_switch:
        cut = find_parting_switch(Reach(fabrics))
        yield check("survives a switch", not cut, f"the loss of {cut} cuts servers off from one another")


def _limits(design: Design, power: Power, needs: Needs) -> Iterator[Check]:
    """Hold a design's cost, power and switches against what is allowed."""
    if needs.network_price is not None:
        text = f"{design.cost} {needs.currency}, {needs.network_price:,.0f} allowed"
        yield Check("network price", design.cost.against(needs.network_price), text)
    for check in check_budget(needs.budget, power, design.switches):
        yield replace(check, text=f"{check.what}: {check.text}")


def _beats(one: Design, other: Design) -> bool:
    """Whether one design is known to be as good in price, power and bisection, and better in one of them."""
    mine = (one.price, one.power_w.middle, -one.bisection)
    theirs = (other.price, other.power_w.middle, -other.bisection)
    pairs = [(a, b) for a, b in zip(mine, theirs, strict=True) if a is not None and b is not None]
    return len(pairs) == len(mine) and mine != theirs and all(a <= b for a, b in pairs)
