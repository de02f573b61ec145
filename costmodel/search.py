"""The search for the cheapest network that meets given needs, with the proof that none is cheaper.

Best-first branch and bound over all families (Land and Doig 1960): the cheapest node of `costmodel.families` is taken
from a heap, and what follows from it is put back. A design that comes first is compiled as `plan build` would, priced
by the same bill, and measured by the worst cut. The first that holds is the cheapest of all, since every other costs as
much.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from math import inf
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from costmodel.bills import make_bill
from costmodel.capacity import Bisection, bisection, serving_gbps
from costmodel.demand import ROUNDING
from costmodel.families import openings
from costmodel.needs import Amount, Needs
from costmodel.owning import check_budget, price_per_watt
from costmodel.parts import NETWORK, columns
from costmodel.power import Power
from costmodel.stages import Stage, split_in_stages, stages_table
from costmodel.task import SERVING, Task
from topo.budget import SEARCH_CPU
from topo.cluster import Cluster
from topo.errors import DesignError, HeddleError, plural
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog, load_catalog
from topo.losses import find_parting_switch
from topo.reach import Reach
from topo.schema.cluster import ClusterSpec
from topo.shapes.base import ShapeModel
from topo.sums import Check, Sum, Verdict, sums_to_dict
from topo.table import Brief, Shown, Table

Step = Callable[[str], None]
Routed = Callable[[Cluster], Sequence[Check]]
"""Routes a design and holds its tables against the needs."""
FEW, MANY = 1, 16
"""Descents to a worst cut: of any design, and of one that may be the winner."""
SHOWN = 8
"""Designs that miss a need and are shown to a person."""
TOLD = 1_000
"""Nodes after which progress is told."""
DEARER = 1.25
"""Price of the last finalist, at most, by that of the winner."""
MOST_UNDECIDED = 4
"""Designs of which nobody can tell whether they meet the needs, before the search asks for what is unknown."""


@dataclass(frozen=True)
class Design(Brief):
    """A design and what it is worth."""

    name: str
    spec: ClusterSpec
    switches: int
    cables: int
    cost: Sum
    """Switches, cables and optics."""
    energy: Sum
    """That the network draws over the years of `Needs.owning`; nothing without."""
    power_w: Sum
    """Of the network, typically."""
    job_bisection: Bisection
    bisection: Bisection
    """Of all compute nodes."""
    serving_gbps: dict[Role, float]
    """What roles can send to all that compute, of those of which a bandwidth is asked."""
    checks: tuple[Check, ...]
    """Each need, and whether the design meets it."""

    def _brief(self) -> str:
        return f"{self.name}: {plural(self.switches, 'switch', 'switches')}, cost {self.cost}"

    @property
    def total(self) -> Sum:
        """Cost and energy: what is least."""
        return self.cost + self.energy

    @property
    def price(self) -> float:
        """Middle of the range of `total`, of what is known of it."""
        return 0.0 if self.total.known is None else self.total.known.middle

    @property
    def verdict(self) -> Verdict:
        """Whether it meets all needs; cannot tell where a figure that a need limits is unknown."""
        return Verdict.all_of(check.verdict for check in self.checks)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Which needs it misses, and which nobody can tell; empty where it meets all."""
        return tuple(
            f"cannot tell: {check.text}" if check.verdict is Verdict.CANNOT_TELL else check.text
            for check in self.checks
            if check.verdict is not Verdict.HOLDS
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, with the spec."""
        figures = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("cost", "energy")}
        cuts = {name: figures[name].share for name in ("job_bisection", "bisection")}
        return {
            **figures,
            **cuts,
            "worst_job": self.job_bisection.worst,
            "serving_gbps": {role.name.lower(): gbps for role, gbps in self.serving_gbps.items()},
            "exact": self.job_bisection.exact and self.bisection.exact,
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            **sums_to_dict({"price": self.total, "cost": self.cost, "energy": self.energy, "power_w": self.power_w}),
            "checks": [check.to_dict() for check in self.checks],
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
        }


@dataclass(frozen=True)
class Search(Shown):
    """What was found, and the certificate that nothing is cheaper."""

    needs: Needs
    winner: Design | None
    """The cheapest design that is known to meet all needs."""
    bound: float
    """No design of the families costs less and meets the needs."""
    looked_at: int
    """Nodes of the search tree that were taken: choices of parameters, alone or in rows."""
    tried: tuple[Design, ...]
    """Designs that were compiled and missed a need, in the order of price."""
    refused: tuple[str, ...]
    """Why designs did not compile, although their parts add up; or why no network can meet the needs."""
    unpriced: tuple[str, ...]
    """Parts without a price; designs are compared in what is known."""
    others: tuple[Design, ...] = ()
    """The cheapest designs of other shapes that meet all needs, in the order of price; dearer than the winner."""
    stages: tuple[Stage, ...] = ()
    """What of the winner is bought when; nothing where the needs have no stages."""
    ended: str = ""
    """Why the search ended before the winner was proven; nothing where it was."""

    @property
    def proven(self) -> bool:
        """Whether the winner is known to be the cheapest."""
        return not self.unpriced and self.winner is not None and self.bound >= self.winner.price * (1 - ROUNDING)

    @property
    def undecided(self) -> tuple[Design, ...]:
        """Designs that may meet all needs, as far as anybody can tell."""
        return tuple(design for design in self.tried if design.verdict is Verdict.CANNOT_TELL)

    @property
    def verdict(self) -> Verdict:
        """Whether a design meets the needs; cannot tell where none is known to, and one may."""
        if self.winner is not None:
            return Verdict.HOLDS
        return Verdict.CANNOT_TELL if self.undecided or self.ended else Verdict.EXCEEDED

    @property
    def certificate(self) -> str:
        """What is proven, in a sentence."""
        unit = self.needs.currency
        end = f" (ended: {self.ended})" if self.ended else ""
        work = f"{self.looked_at:,} excluded by bound, {len(self.tried) + len(self.refused):,} by trial{end}"
        if self.winner is None:
            return (
                f"no design of these families meets the needs at less than {self.bound:,.0f} {unit}; {work}"
                if (self.bound < inf)
                else f"no design of these families meets the needs; {work}"
            )
        if self.unpriced:
            return f"{self.winner.total} {unit}, the least in what is known of prices; {work}"
        cost = f"{self.winner.price:,.0f} {unit}"
        if self.winner.total.known and self.winner.total.known.low < self.winner.total.known.high:
            cost += f", the middle of {self.winner.total}"
        if self.needs.owning:
            cost += f", of which {self.winner.energy} are for the energy of {plural(self.needs.owning.years, 'year')}"
        return f"{cost}; no design of these families costs less than {self.bound:,.0f}; {work}"

    def _brief(self) -> str:
        return self.certificate

    def to_dict(self) -> dict[str, Any]:
        """Return what was found as plain values."""
        return {
            "winner": self.winner and self.winner.to_dict(),
            "verdict": str(self.verdict),
            "certificate": self.certificate,
            "proven": self.proven,
            "bound": None if self.bound == inf else self.bound,
            "looked_at": self.looked_at,
            "ended": self.ended,
            "currency": self.needs.currency,
            "unpriced": list(self.unpriced),
            "tried": [design.to_dict() for design in self.tried],
            "refused": list(self.refused),
            "others": [design.to_dict() for design in self.others],
            "stages": [asdict(stage) for stage in self.stages],
        }

    @property
    def stage_table(self) -> Table:
        """What of the winner is bought when."""
        return stages_table(self.stages, self.needs.currency)

    @property
    def table(self) -> Table:
        """The winner, other finalists, and the dearest of the designs that are cheaper and miss a need."""
        names = ("design", "price", "switches", "power", "job bisection", "bisection", "why not")
        rows = (
            (
                d.name,
                str(d.total),
                d.switches,
                str(d.power_w),
                str(d.job_bisection),
                str(d.bisection),
                "; ".join(d.reasons),
            )
            for d in (*([self.winner] if self.winner else []), *self.others, *self.tried[: -SHOWN - 1 : -1])
        )
        units = {"price": self.needs.currency, "power": "W"}
        return Table(
            f"{self.needs.name}: the cheapest design, and others that miss a need", tuple(columns(names, rows, units))
        )


def optimise(
    needs: Needs,
    catalog: Catalog | None = None,
    step: Step = lambda name: None,
    *,
    gap: float = 0.0,
    limit_s: float = inf,
    routed: Routed | None = None,
    finalists: int = 1,
) -> Search:
    """Find the cheapest network that meets needs, and prove it.

    Parameters
    ----------
    needs : Needs
        What the network has to do: `read_needs`.
    catalog : topo.Catalog, optional
        Hardware and prices; what ships when left out.
    step : callable
        Progress callback, called with the name of each design before it is tried, and the bound so far.
    gap : float
        Share of its price by which the design that is returned may be dearer than the bound: 0.05 ends the search as
        soon as a design is known that costs at most 5 % more than any can.
    limit_s : float
        Seconds after which the best design so far is returned, with the bound so far.
    routed : callable, optional
        Called with the cluster of each design that meets all other needs; the checks that it returns decide too.
    finalists : int
        Designs to find, each of another shape or other levels, of which the first is the winner; others are sought up
        to `DEARER` times its price.

    Returns
    -------
    Search
        The winner with the certificate.

    Raises
    ------
    topo.HeddleError
        When the needs ask for tables and nothing routes.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"],
    ... })
    >>> found = costmodel.optimise(needs)
    >>> found.winner.switches, found.winner.price, found.proven
    (3, 9.0, True)
    """
    if needs.tables is not None and routed is None:
        raise HeddleError("needs.tables: found a share of tables, and nothing that routes; expected `routed`")
    ends, cpu_ends = monotonic() + limit_s, process_time() + SEARCH_CPU.limit
    task = Task(needs, catalog or load_catalog([Path(needs.catalog)] if needs.catalog else []))
    tried: list[Design] = []
    refused: list[str] = []
    trees = not needs.families or "fat-tree" in needs.families
    best = _landmark(task, step) if trees and (gap or limit_s < inf) else None
    if task.unpriced:
        best = None  # not cheap, but unknown
    looked_at, ended, bound, winner = 0, "", inf, None
    held: list[Design] = []
    found: Search | None = None
    refused += _beyond(task)
    heap = [] if refused else [node for node in openings(task) if not task.exceeds_budget(node.switches)]
    heapq.heapify(heap)
    most = None if needs.owning else needs.network_price  # with energy the bound is of more than that
    while heap:
        node = heap[0]
        bound = node.price
        if held and (bound > DEARER * held[0].price or monotonic() > ends or process_time() > cpu_ends):
            break
        if not held and best is not None and bound >= best.price * (1 - gap) - ROUNDING:
            winner, ended = best, "" if bound >= best.price - ROUNDING else f"the gap of {gap:.0%} is reached"
            break
        if monotonic() > ends:
            winner, ended = best, f"{limit_s:,.0f} s are over"
            break
        if process_time() > cpu_ends:
            winner, ended = best, f"the budget {SEARCH_CPU.name} of {SEARCH_CPU.limit:,} {SEARCH_CPU.unit} is used up"
            break
        if most is not None and bound * task.narrowest > most * (1 + ROUNDING):
            bound = inf
            break
        heapq.heappop(heap)
        if node.shape is not None:
            shape = node.shape()
            if any(_alike(shape, each.spec.network) for each in held):
                continue
            step(f"{node.name} ({bound:,.0f} {needs.currency})")
            try:
                design = judge(node.name, shape, task)
            except DesignError as error:
                refused.append(f"{node.name} does not compile: {error}")
            else:
                if design.verdict is Verdict.HOLDS and routed is not None:
                    cluster = Cluster(task.spec.model_copy(update={"network": design.spec.network}), task.catalog)
                    design = replace(design, checks=(*design.checks, *routed(cluster)))
                if design.verdict is Verdict.HOLDS:
                    held.append(design)
                    if found is None:
                        unpriced = tuple(sorted(task.unpriced))
                        found = Search(needs, design, bound, looked_at, tuple(tried), tuple(refused), unpriced)
                    if len(held) >= finalists:
                        break
                    continue
                tried.append(design)
                if not held and sum(each.verdict is Verdict.CANNOT_TELL for each in tried) >= MOST_UNDECIDED:
                    ended = "what is unknown decides"
                    break
        else:
            looked_at += 1
            if looked_at % TOLD == 0:
                known = f", {best.name} costs {best.price:,.0f}" if best else ""
                step(f"nothing costs less than {bound:,.0f} {needs.currency}{known}")
        for following in node.grow():
            if not task.exceeds_budget(following.switches):
                heapq.heappush(heap, following)
    else:
        bound = inf if best is None else best.price
        winner = best
    if found is None:
        unpriced = tuple(sorted(task.unpriced))
        found = Search(needs, winner, bound, looked_at, tuple(tried), tuple(refused), unpriced, ended=ended)
    stages: tuple[Stage, ...] = ()
    if needs.stages and found.winner is not None:
        stages = split_in_stages(_compiled(found.winner.spec.network, task), task)
    return replace(found, others=tuple(held[1:]), stages=stages)


def _alike(one: ShapeModel, other: ShapeModel) -> bool:
    """Whether two designs are of the same shape and levels."""
    return type(one) is type(other) and getattr(one, "levels", 0) == getattr(other, "levels", 0)


def _beyond(task: Task) -> list[str]:
    """Say which bandwidths the servers alone cannot have, whatever joins them."""
    found = []
    for role, wanted in task.needs.bandwidth.asked.items():
        half = 0.5 if role is Role.COMPUTE else 1.0
        most = min(half * task.full_gbps(role), task.full_gbps(Role.COMPUTE))
        if wanted.of(half * task.full_gbps(role)) > most * (1 + ROUNDING):
            has = Amount(gbps=most) if most else "nothing"
            found.append(f"no network does: the adapters of {role.name.lower()} carry {has}, {wanted} is needed")
    return found


def _landmark(task: Task, step: Step) -> Design | None:
    """Return the cheapest of a few designs that people would name and that meets the needs: something to begin with."""
    found = []
    for kind in task.kinds:
        for levels in (1, 2, 3):
            keys = {"shape": "fat-tree", "switch": kind.name, "levels": levels, "split": kind.split}
            try:
                spec = ClusterSpec.model_validate({**task.spec.model_dump(exclude={"network"}), "network": keys})
                step(f"{levels} levels of {kind.name}")
                design = judge(f"{levels} levels of {kind.name}", spec.network, task)
            except DesignError:
                continue
            if design.verdict is Verdict.HOLDS:
                found.append(design)
    return min(found, key=lambda design: design.price, default=None)


def _compiled(shape: ShapeModel, task: Task) -> tuple[Fabric, ...]:
    return Cluster(task.spec.model_copy(update={"network": shape}), task.catalog).fabrics


def judge(name: str, shape: ShapeModel, task: Task) -> Design:
    """Compile, price and measure one design, with the ports that growth will need.

    Raises
    ------
    DesignError
        When it cannot be built.
    """
    needs, catalog = task.needs, task.catalog
    fabrics = _compiled(shape, task)
    bill = make_bill(fabrics, catalog)
    job = needs.job
    cut = partial(bisection, fabrics, job.sizes, with_storage=job.with_storage, alone=job.alone, enough=job.bisection)
    split = cut(tries=FEW, prove=False)
    if split.share >= job.bisection and not split.exact:
        split = cut(tries=MANY)
    whole = bisection(fabrics, tries=FEW, enough=needs.bandwidth.compute.share, prove=split.share >= job.bisection)
    design = Design(
        name=name,
        spec=task.spec.model_copy(update={"nodes": needs.nodes, "network": shape}),
        switches=sum(fabric.n_switches for fabric in fabrics),
        cables=bill.count("cable"),
        cost=bill.of(*NETWORK).price(needs.currency).network,
        energy=bill.power.network_w * price_per_watt(needs.owning) if needs.owning else Sum(),
        power_w=bill.power.network_w,
        job_bisection=split,
        bisection=whole,
        serving_gbps={role: serving_gbps(fabrics, role) for role in needs.bandwidth.asked if role in SERVING},
        checks=(),
    )
    return replace(design, checks=(*_checks(design, fabrics, task), *_limits(design, bill.power, needs)))


def _checks(design: Design, fabrics: Sequence[Fabric], task: Task) -> Iterator[Check]:
    """Check what a design can carry, and what it loses, against the needs."""
    needs = task.needs

    def check(what: str, holds: bool, text: str) -> Check:
        return Check(what, Verdict.HOLDS if holds else Verdict.EXCEEDED, text)

    yield check(
        "bisection of a job",
        design.job_bisection.share >= needs.job.bisection - ROUNDING,
        f"{needs.job} {'gets' if isinstance(needs.job.nodes, int) else 'get'} {design.job_bisection} of the rate"
        f"{f' ({design.job_bisection.worst})' if design.job_bisection.worst else ''}, "
        f"{needs.job.bisection:.0%} is needed",
    )
    for role, wanted in needs.bandwidth.asked.items():
        found = design.bisection
        if role is Role.COMPUTE:
            holds = found.share >= wanted.share_of(found.gbps) - ROUNDING
            has = str(Amount(gbps=found.share * found.gbps)) if wanted.gbps else str(found)
            yield check("bandwidth of compute", holds, f"bisection of the whole is {has}, {wanted} is needed")
            continue
        gbps, needed = design.serving_gbps[role], wanted.of(task.full_gbps(role))
        has, needs_it = (str(Amount(gbps=each)) for each in (gbps, needed))
        name = role.name.lower()
        yield check(
            f"bandwidth of {name}", gbps >= needed * (1 - ROUNDING), f"{name} sends {has}, {needs_it} is needed"
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
