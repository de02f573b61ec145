"""The search for the cheapest network that meets given needs.

Every design of `costmodel.families` is compiled as `plan build` would, priced by the same bill, and measured by maximum
flows, which no routing can exceed. So nothing here knows a formula of a topology, and a design that wins also builds.
`least_price` bounds how far the winner is from what could be had at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil, gcd
from typing import Any

import networkx as nx
import numpy as np

from costmodel.bills import make_bill
from costmodel.capacity import bisection, storage_gbps
from costmodel.families import AnyShape, finer_trees, landmarks, out_of_reach
from costmodel.needs import Needs, grown, servers_of
from costmodel.parts import NETWORK, columns
from topo.cluster import Cluster
from topo.errors import DesignError, plural
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog, load_catalog
from topo.schema.cluster import ClusterSpec
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Zones
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
    price: float | None
    """Switches, cables and optics, the middle of their range; None where one of them has no price."""
    power_w: float
    """Of the network."""
    job_bisection: float
    bisection: float
    """Of all compute nodes."""
    storage_gbps: float
    reasons: tuple[str, ...]
    """Which needs it misses, and by how much; empty where it meets all."""

    @property
    def meets_needs(self) -> bool:
        """Whether it meets all needs."""
        return not self.reasons


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
        watts = design.power_w - winner.power_w
        return f"as expensive, with {design.switches - winner.switches:+d} switches and {watts:+,.0f} W"

    def to_dict(self) -> dict[str, Any]:
        """Return all designs as plain values."""

        def row(design: Design) -> dict[str, Any]:
            figures = asdict(design) | {"spec": design.spec.model_dump(mode="json", exclude_unset=True)}
            return figures | {"why_not": self.why_not(design)}

        return {
            "winner": self.winner and row(self.winner),
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
        digits = {"price": ",.0f", "network power": ",.0f", "bisection": ".1%"}
        rows = (
            (
                design.name + (" *" if design in front else ""),
                design.price,
                design.switches,
                design.power_w,
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
    below = min(
        [*able, *([] if needs.network_price is None else [needs.network_price * (1 + ROUNDING)])], default=float("inf")
    )
    for name, shape in finer_trees(needs, catalog, below)[:MOST_FINER]:
        design = attempt(name, shape)
        if design is not None and design.meets_needs:
            break  # all that follow have more expensive switches
    designs.sort(key=lambda d: (d.price is None, d.price or 0.0, d.switches, d.power_w, d.name))
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
    cost = bill.of(*NETWORK).price(needs.currency)
    design = Design(
        name=name,
        spec=spec.model_copy(update={"nodes": needs.nodes, "network": _settled(shape, fabrics, catalog)}),
        switches=sum(fabric.n_switches for fabric in fabrics),
        cables=bill.count("cable"),
        price=None if cost.gaps else cost.network.middle,
        power_w=bill.power.network_w,
        job_bisection=bisection(fabrics, needs.job.nodes, with_storage=needs.job.with_storage),
        bisection=bisection(fabrics),
        storage_gbps=storage_gbps(fabrics),
        reasons=(),
    )
    return replace(design, reasons=tuple(_reasons(design, fabrics, bill.power.total_w, needs)))


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


def _reasons(design: Design, fabrics: Sequence[Fabric], total_w: float, needs: Needs) -> list[str]:
    """Say which needs a design misses."""
    reasons = []
    if design.job_bisection < needs.job.bisection - ROUNDING:
        reasons.append(
            f"a job of {plural(needs.job.nodes, 'node')} gets {design.job_bisection:.0%} of its rate, "
            f"{needs.job.bisection:.0%} is needed"
        )
    if design.bisection < needs.bisection - ROUNDING:
        reasons.append(f"bisection of the whole is {design.bisection:.1%}, {needs.bisection:.1%} is needed")
    if design.storage_gbps < needs.storage * (1 - ROUNDING):
        reasons.append(
            f"storage reaches {design.storage_gbps / 8_000:.2f} TB/s, {needs.storage / 8_000:.2f} TB/s is needed"
        )
    cut = _cutting_switch(fabrics) if needs.survives_a_switch else ""
    if cut:
        reasons.append(f"the loss of {cut} cuts servers off from one another")
    if needs.network_price is not None and design.price is not None and design.price > needs.network_price:
        reasons.append(f"{design.price:,.0f} {needs.currency}, {needs.network_price:,.0f} allowed")
    if needs.budget.power is not None and total_w > needs.budget.power:
        reasons.append(f"{total_w / 1e6:.3f} MW with its servers, {needs.budget.power / 1e6:.3f} MW allowed")
    if needs.budget.switches is not None and design.switches > needs.budget.switches:
        reasons.append(f"{plural(design.switches, 'switch', 'switches')}, {needs.budget.switches:,} allowed")
    return reasons


def _cutting_switch(fabrics: Sequence[Fabric]) -> str:
    """Name a switch whose loss parts servers that hang on other switches; nothing where there is none.

    Servers that hang in several subnets keep the others.
    """
    if len(fabrics) > 1:
        return ""
    (fabric,) = fabrics
    switches = fabric.to_networkx().subgraph(range(fabric.n_switches))
    holds_servers = set(fabric.peer_node[fabric.first_adapter_port :].tolist())
    for cut in sorted(nx.articulation_points(nx.Graph(switches))):
        rest = nx.Graph(switches)
        rest.remove_node(cut)
        if sum(bool(part & holds_servers) for part in nx.connected_components(rest)) > 1:
            return fabric.label(cut)
    return ""


def _beats(one: Design, other: Design) -> bool:
    """Whether one design is as good in price, power and bisection, and better in one of them."""
    mine = (one.price or 0.0, one.power_w, -one.bisection)
    theirs = (other.price or 0.0, other.power_w, -other.bisection)
    return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))
