"""The search for the cheapest network that meets given needs, with the proof that none is cheaper.

Best-first branch and bound over all families (Land and Doig 1960): the cheapest node of `costmodel.optimise.families`
is taken from a heap, and what follows from it is put back. A design that comes first is compiled as `plan build` would,
priced by the same bill, and measured by the worst cut. The first that holds is the cheapest of all, since every other
costs as much.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from math import inf
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from costmodel.bills import make_bill
from costmodel.optimise.bisection import Bisection
from costmodel.optimise.bound import nothing
from costmodel.optimise.capacity import measure_carried
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.families import openings
from costmodel.optimise.needs import Amount, Needs
from costmodel.optimise.problem import Task
from costmodel.optimise.stages import Stage, split_in_stages, stages_table
from costmodel.owning import check_budget, price_per_watt
from costmodel.parts import NETWORK, columns
from costmodel.power import Power
from topo.amounts import Check, Sum, Verdict, listed, sums_to_dict
from topo.budget import SEARCH_CPU
from topo.catalog.load import Catalog, load_catalog
from topo.cluster import Cluster
from topo.cluster_spec import ClusterSpec
from topo.errors import DesignError, HeddleError, plural
from topo.fabric import Role
from topo.shapes.base import ShapeModel
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Planes
from topo.table import Brief, Shown, Table

Step = Callable[[str], None]
Routed = Callable[[Cluster], Sequence[Check]]
"""Routes a design and holds its tables against the needs."""
SHOWN = 8
"""Designs that miss a need and are shown to a person."""
TOLD = 1_000
"""Nodes after which progress is told."""
DEARER = 1.25
"""Price of the last finalist, at most, by that of the winner."""
MOST_UNDECIDED = 4
"""Designs of which nobody can tell whether they meet the needs, before the search asks for what is unknown."""
IN_ROOM = ("rack power", "reach")
"""Checks of the room."""
MOST_IN_ROOM = 40
"""Designs that the room alone refuses, before the search leaves it at that: no bound knows of rooms."""


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
    stages: tuple[Stage, ...] = ()
    """What of it is bought when; nothing where the needs have no stages, or are missed without."""
    moving: Sum = field(default_factory=Sum)
    """For the cables that are moved between stages."""
    in_room: Sum | None = None
    """Switches, cables and optics where the needs have a floor, each cable at the price of the part of its length."""

    def _brief(self) -> str:
        return f"{self.name}: {plural(self.switches, 'switch', 'switches')}, cost {self.cost}"

    @property
    def total(self) -> Sum:
        """Cost, energy and the moving of cables: what is least."""
        return self.cost + self.energy + self.moving

    @property
    def price(self) -> float:
        """Middle of the range of `total`, of what is known of it."""
        return 0.0 if self.total.known is None else self.total.known.middle

    @property
    def verdict(self) -> Verdict:
        """Whether it meets all needs; cannot tell where a figure that a need limits is unknown."""
        return Verdict.all_of(check.verdict for check in self.checks)

    @property
    def refused_by_room(self) -> bool:
        """Whether the room is all that it misses."""
        return self.verdict is Verdict.EXCEEDED and all(
            check.verdict is Verdict.HOLDS or check.what in IN_ROOM for check in self.checks
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """Which needs it misses, or else which nobody can tell; empty where it meets all."""
        missed = tuple(check.text for check in self.checks if check.verdict is Verdict.EXCEEDED)
        unknown = (check.text for check in self.checks if check.verdict is Verdict.CANNOT_TELL)
        return missed or tuple(f"cannot tell: {text}" for text in unknown)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, with the spec."""
        figures = {
            item.name: getattr(self, item.name)
            for item in fields(self)
            if item.name not in ("cost", "energy", "moving", "stages", "in_room")
        }
        cuts = {name: figures[name].share for name in ("job_bisection", "bisection")}
        return {
            **figures,
            **cuts,
            "worst_job": self.job_bisection.worst,
            "serving_gbps": {role.name.lower(): gbps for role, gbps in self.serving_gbps.items()},
            "exact": self.job_bisection.exact and self.bisection.exact,
            "spec": self.spec.model_dump(mode="json", exclude_unset=True),
            **sums_to_dict(
                {
                    "price": self.total,
                    "cost": self.cost,
                    "energy": self.energy,
                    "moving": self.moving,
                    "power_w": self.power_w,
                }
                | ({} if self.in_room is None else {"in_room": self.in_room})
            ),
            "checks": [check.to_dict() for check in self.checks],
            "stages": [asdict(stage) for stage in self.stages],
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
        if self.winner is None and self.ended and not self.bound:
            return f"whether a design meets the needs is unknown: {self.ended}"
        if self.winner is None:
            return (
                f"no design of these families meets the needs at less than {_money(self.bound)} {unit}; {work}"
                if (self.bound < inf)
                else f"no design of these families meets the needs; {work}"
            )
        if self.unpriced:
            return f"{self.winner.total} {unit}, the least in what is known of prices; {work}"
        cost = f"{_money(self.winner.price)} {unit}"
        if self.winner.total.known and self.winner.total.known.low < self.winner.total.known.high:
            cost += f", the middle of {self.winner.total}"
        if self.needs.owning:
            cost += f", of which {self.winner.energy} are for the energy of {plural(self.needs.owning.years, 'year')}"
        if self.winner.moving != Sum():
            cost += (
                f", of which {_money(self.winner.moving.middle or 0.0)} are for cables that are moved between stages"
            )
        laid = self.winner.in_room
        room = "" if laid is None or laid == self.winner.cost else f"; with cables by their length {laid} {unit}"
        return f"{cost}; no design of these families costs less than {_money(self.bound)}; {work}{room}"

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
        }

    @property
    def stage_table(self) -> Table:
        """What of the winner is bought when."""
        return stages_table(self.winner.stages if self.winner else (), self.needs.currency)

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
        others = ", and others" * bool(self.others) + ", and some that miss a need" * bool(self.tried)
        return Table(
            f"{self.needs.name}: {'the cheapest design' if self.winner else 'no design'}{others}",
            tuple(columns(names, rows, units)),
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
    best = _landmark(task, step) if gap or limit_s < inf else None
    if task.unpriced:
        best = None  # not cheap, but unknown
    looked_at, bound, winner = 0, inf, None
    held: list[Design] = []
    dearer: dict[int, Design] = {}
    found: Search | None = None
    beyond = list(_beyond(task))
    refused += [*beyond, *filter(None, (task.misfit("a switch", name) for name in needs.switches))]
    ended = "" if beyond else _undecidable(task)
    heap = [] if beyond or ended else [node for node in openings(task) if not task.exceeds_budget(node.switches)]
    heapq.heapify(heap)
    most = needs.network_price
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
            try:
                if node.serial in dearer:
                    design = dearer.pop(node.serial)
                else:
                    step(f"{node.name} ({bound:,.0f} {needs.currency})")
                    design = judge(node.name, shape, task)
            except DesignError as error:
                refused.append(f"{node.name} does not compile: {error}")
            else:
                if design.verdict is Verdict.HOLDS and design.moving != Sum() and node.price < design.price - ROUNDING:
                    # Its turn comes when its price does, that of cables to move included.
                    later = replace(node, price=design.price, grow=nothing)
                    dearer[later.serial] = design
                    for following in (later, *node.grow()):
                        if not task.exceeds_budget(following.switches):
                            heapq.heappush(heap, following)
                    continue
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
            if not held:
                if sum(each.verdict is Verdict.CANNOT_TELL for each in tried) >= MOST_UNDECIDED:
                    ended = "what is unknown decides"
                    break
                in_room = sum(each.refused_by_room for each in tried) + (len(refused) if needs.floor else 0)
                if in_room >= MOST_IN_ROOM:
                    ended = f"{MOST_IN_ROOM} designs do but for the room"
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
        bound = 0.0 if ended else inf if best is None else best.price
        winner = best
    if found is None:
        unpriced = tuple(sorted(task.unpriced))
        found = Search(needs, winner, bound, looked_at, tuple(tried), tuple(refused), unpriced, ended=ended)
    return replace(found, others=tuple(held[1:]))


def _money(amount: float) -> str:
    """Write an amount; small ones, such as of units, with what is behind the point."""
    return f"{amount:,.0f}" if amount >= 1_000 else f"{amount:,.2f}".removesuffix(".00")


def _alike(one: ShapeModel, other: ShapeModel) -> bool:
    """Whether two designs are of the same shape and levels."""
    return type(one) is type(other) and getattr(one, "levels", 0) == getattr(other, "levels", 0)


def _beyond(task: Task) -> Iterator[str]:
    """Say what no network can mend: a bandwidth that the servers alone cannot have, a server without a place."""
    for role, wanted in task.needs.bandwidth.asked.items():
        half = 0.5 if role is Role.COMPUTE else 1.0
        most = min(half * task.linked_gbps(role), task.linked_gbps(Role.COMPUTE))
        if wanted.of(half * task.full_gbps(role)) > most * (1 + ROUNDING):
            has = Amount(gbps=most) if most else "nothing"
            yield f"no network does: on these switches {role.name.lower()} carries {has}, {wanted} is needed"
    misfits = (task.misfit(name, group.model) for name, group in task.needs.nodes.items())
    yield from (f"no network does: {why}" for why in misfits if why)


def _undecidable(task: Task) -> str:
    """Say what nobody can tell of any network: whether servers of unknown power keep to a limit of power."""
    floor = task.needs.floor
    if task.needs.budget.power is None and (floor is None or floor.most_power is None):
        return ""
    models = dict.fromkeys(group.model for group in task.needs.nodes.values())
    unknown = [name for name in models if task.catalog.node(name).planned_w is None]
    return (
        f"power is limited, and that of {listed(unknown)} unknown: give `power_max_w` in a catalog" if unknown else ""
    )


def _landmark(task: Task, step: Step) -> Design | None:
    """Return the cheapest of a few designs that people would name and that meets the needs: something to begin with."""
    found, families = [], task.needs.families
    adapters = {group.adapters for group in task.groups}
    numbers = (n for n in range(2, min(adapters) + 1) if not any(each % n for each in adapters))
    copies = [1] * (not families or "fat-tree" in families)
    copies += numbers if not families or "planes" in families else ()
    for kind, levels, number in product(task.kinds, (1, 2, 3), copies):
        tree: ShapeModel = FatTree.model_validate(
            {"shape": "fat-tree", "switch": kind.name, "levels": levels} | ({"split": True} if kind.split else {})
        )
        name = f"one {kind.name}" if levels == 1 else f"a full tree of {levels} levels of {kind.name}"
        if number > 1:
            tree = Planes.model_validate({"shape": "planes", "planes": number, "tree": tree})
            name = f"{number} planes of {name}"
        try:
            step(name)
            design = judge(name, tree, task)
        except DesignError:
            continue
        if design.verdict is Verdict.HOLDS:
            found.append(design)
    return min(found, key=lambda design: design.price, default=None)


def judge(name: str, shape: ShapeModel, task: Task) -> Design:
    """Compile, price and measure one design, with the ports that growth will need.

    What takes long is looked at only where all else holds: the room, then the stages.

    Raises
    ------
    DesignError
        When it cannot be built.
    """
    needs = task.needs
    cluster = Cluster(task.spec.model_copy(update={"network": shape}), task.catalog)
    bill = make_bill(cluster.fabrics, task.catalog)
    carried = measure_carried(cluster.fabrics, task)
    design = Design(
        name=name,
        spec=task.spec.model_copy(update={"nodes": needs.nodes, "network": shape}),
        switches=sum(fabric.n_switches for fabric in cluster.fabrics),
        cables=bill.count("cable"),
        cost=bill.of(*NETWORK).price(needs.currency).network,
        energy=bill.power.network_w * price_per_watt(needs.owning) if needs.owning else Sum(),
        power_w=bill.power.network_w,
        job_bisection=carried.job_bisection,
        bisection=carried.bisection,
        serving_gbps=carried.serving_gbps,
        checks=carried.checks,
    )
    design = replace(design, checks=(*design.checks, *_limits(design, bill.power, needs)))
    if design.verdict is not Verdict.EXCEEDED:
        design = replace(design, checks=(*design.checks, *_room(cluster, needs)))
    if needs.floor is not None and design.verdict is not Verdict.EXCEEDED:
        laid = make_bill(cluster.fabrics, task.catalog, cluster.layout, cluster.cablings)
        design = replace(design, in_room=laid.of(*NETWORK).price(needs.currency).network)
    if needs.stages and design.verdict is not Verdict.EXCEEDED:
        stages = split_in_stages(cluster.fabrics, task, carried)
        moved = sum(stage.moved for stage in stages)
        checks = (Check(f"at {stage.share:.0%}", *stage.verdict) for stage in stages[:-1])
        moving = Sum.of([((needs.moving or 0.0) * moved, "")]) if moved else Sum()
        design = replace(design, stages=stages, moving=moving, checks=(*design.checks, *checks))
    return design


def _room(cluster: Cluster, needs: Needs) -> Iterator[Check]:
    """Put a design into the room: what its racks draw, and how long its cables are."""
    if cluster.layout is None:
        return
    power = cluster.layout.check_power()
    if power is not None:
        yield replace(power, what=IN_ROOM[0], text=f"{power.what}: {power.text}")
    longest = max(
        (float(each.route_m[each.cable >= 0].max(initial=0.0)) for each in cluster.cablings or ()), default=0.0
    )
    if needs.reach is not None:
        verdict = Verdict.HOLDS if longest <= needs.reach else Verdict.EXCEEDED
        yield Check(IN_ROOM[1], verdict, f"the longest cable goes {longest:.1f} m, {needs.reach:g} m are allowed")


def _limits(design: Design, power: Power, needs: Needs) -> Iterator[Check]:
    """Hold a design's cost, power and switches against what is allowed."""
    if needs.network_price is not None:
        text = f"{design.cost} {needs.currency}, {needs.network_price:,.0f} allowed"
        yield Check("network price", design.cost.against(needs.network_price), text)
    for check in check_budget(needs.budget, power, design.switches):
        yield replace(check, text=f"{check.what}: {check.text}")
