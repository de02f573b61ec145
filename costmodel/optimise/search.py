"""The search for the cheapest network that meets given needs, with the proof that none is cheaper.

Best-first branch and bound over all families (Land and Doig 1960). A family is a generator of branches: each has the
price of a design in closed form, or a lower bound for all designs that it stands for, and what it expands to is never
cheaper. The search takes the cheapest branch from a heap and puts back what it expands to, so it meets all designs in
the order of price. A design is compiled as `plan build` does, priced by the same bill, and measured by its worst cut.
The first that meets the needs is the cheapest.

Designs that `required_factor` excludes are not generated. Where more links never carry less, the least number that
suffices is computed, and smaller numbers are skipped.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf
from pathlib import Path
from time import monotonic, process_time
from typing import Any

import costmodel.optimise.milp  # noqa: F401  # without its solver a search ends here, and not with a design midway
from costmodel.optimise.branches import Branch, no_branches
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.design import FLOOR_CHECKS, PRICE_CHECKS, Design, evaluate
from costmodel.optimise.direct import DirectNetwork, by_size, slim_flies
from costmodel.optimise.needs import Amount, FamilyName, Needs, grown
from costmodel.optimise.problem import Problem
from costmodel.optimise.stages import stage_spec, stages_table
from costmodel.optimise.trees import fat_trees, plane_numbers, planes, rails, zones
from topo.amounts import Sum, Verdict, listed, percent
from topo.budget import SEARCH_CPU
from topo.catalog.load import Catalog, load_catalog
from topo.checks import Check
from topo.cluster import Cluster
from topo.cluster_spec import ClusterSpec
from topo.errors import DesignError, HeddleError, plural
from topo.fabric import Role
from topo.shapes.base import ShapeModel
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Planes
from topo.table import Shown, Table

Progress = Callable[[str], None]
Judge = Callable[[Needs, Cluster], Sequence[Check]]
"""Judges a design that meets all other needs, for instance by its forwarding tables: see `optimise`."""
FAMILIES: dict[FamilyName, Callable[[Problem], Iterator[Branch]]] = {
    "fat-tree": fat_trees,
    "planes": planes,
    "zones": zones,
    "rail": rails,
    "hyperx": partial(by_size, designs=DirectNetwork.hyperx),
    "torus": partial(by_size, designs=DirectNetwork.tori),
    "dragonfly": partial(by_size, designs=DirectNetwork.dragonflies, least=4),
    "dragonfly+": partial(by_size, designs=DirectNetwork.dragonflies_plus, least=4),
    "slim-fly": slim_flies,
    "bigraph": partial(by_size, designs=DirectNetwork.bigraphs, step=2),
}
"""The families by the name of their shape in a spec."""
SHOWN = 8
"""Designs in the table that miss a need: the most expensive of them."""
REPORT_EVERY = 1_000
"""Branches between two reports of progress."""
FINALIST_PRICE = 1.25
"""Price of the last finalist, at most, divided by that of the winner."""
MOST_UNDECIDED = 4
"""Undecided designs after which the search ends, because an unknown figure decides."""
MOST_REFUSED_BY_FLOOR = 40
"""Designs that only the floor refuses after which the search ends, because no bound considers the floor."""


@dataclass(frozen=True)
class Search(Shown):
    """The result of a search: the winner, and the certificate that no design is cheaper.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"], "budget": {"switches": 2},
    ... })
    >>> found = costmodel.optimise(needs)
    >>> print(found.winner, found.verdict, found.certificate.partition(";")[0], sep=", ")
    None, exceeded, no design of these families meets the needs
    """

    needs: Needs
    winner: Design | None
    """The cheapest design of which no need is refuted; `Design.verdict` says whether all are proven to hold."""
    bound: float
    """Lower bound of the price of all designs that meet the needs; infinite where no design of the families does."""
    looked_at: int
    """Number of branches that were expanded."""
    tried: tuple[Design, ...]
    """Designs that were compiled and missed a need, or are undecided, in the order of price."""
    refused: tuple[str, ...]
    """Why designs did not compile, or why no network can meet the needs."""
    unpriced: tuple[str, ...]
    """Parts without a price; the known prices are compared."""
    others: tuple[Design, ...] = ()
    """The other finalists in the order of price: designs of other shapes of which no need is refuted. The cheapest that
    is proven to meet the needs is among them, if it costs at most a quarter more than the winner."""
    ended: str = ""
    """Why the search ended before the winner was proven; empty where it was proven."""

    @property
    def proven(self) -> bool:
        """Whether the winner is known to be the cheapest."""
        return not self.unpriced and self.winner is not None and self.bound >= self.winner.price * (1 - ROUNDING)

    @property
    def sure(self) -> Design | None:
        """The cheapest design that is proven to meet the needs; None where none was found."""
        return _first_sure([*([self.winner] if self.winner else []), *self.others])

    @property
    def undecided(self) -> tuple[Design, ...]:
        """Designs that miss no need, but of which a figure that a need limits is unknown."""
        return tuple(design for design in self.tried if design.verdict is Verdict.CANNOT_TELL)

    @property
    def verdict(self) -> Verdict:
        """Whether a design is proven to meet the needs; cannot tell where none is, and one may."""
        if self.winner is not None:
            return self.winner.verdict
        return Verdict.CANNOT_TELL if self.undecided or self.ended else Verdict.EXCEEDED

    @property
    def certificate(self) -> str:
        """What is proven, in one sentence."""
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
        proof = self.winner.proof
        if self.sure not in (None, self.winner):
            proof += f"; the cheapest that is proven to meet the needs is {self.sure.name}, {self.sure.total} {unit}"
        if self.unpriced:
            return f"{self.winner.total} {unit}, the cheapest by known prices; {proof}; {work}"
        known = self.winner.total.known
        cost = f"{_money(known.middle if known else 0.0)} {unit}"
        if known and known.low < known.high:
            cost += f", the middle of {self.winner.total}"
        if self.needs.owning:
            cost += f", of which {self.winner.energy} are for the energy of {plural(self.needs.owning.years, 'year')}"
        if self.winner.moving != Sum():
            cost += f", of which {_money(self.winner.moving.middle or 0.0)} are for moving cables between stages"
        cheaper = f"no design of these families costs less than {_money(self.bound)}"
        if self.needs.growth:
            cost += f" for the {sum(group.count for group in self.needs.nodes.values()):,} servers that are bought"
        if self.needs.floor is not None:
            cost += ", with each cable at its length"
        if basis := price_basis(self.needs):
            cheaper = f"with {basis} it costs {_money(self.winner.price)}, and {cheaper}"
        return f"{cost}; {cheaper}; {proof}; {work}"

    def _brief(self) -> str:
        return self.certificate

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values."""
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
    def stage_specs(self) -> tuple[ClusterSpec | str, ...]:
        """The spec of each stage of the winner but the last, or why none describes it."""
        if self.winner is None:
            return ("no network was found",) * len(self.needs.stages)
        catalog = load_catalog([Path(self.needs.catalog)] if self.needs.catalog else [])
        stages = self.winner.stages[:-1]
        if self.needs.growth:
            return ("it would keep no ports free for `growth`",) * len(stages)
        return tuple(stage_spec(self.winner.spec, stage, catalog) for stage in stages)

    @property
    def stage_table(self) -> Table:
        """What to buy at each stage of the winner."""
        return stages_table(self.winner.stages if self.winner else (), self.needs.currency)

    @property
    def table(self) -> Table:
        """The winner, the other finalists, and the most expensive of the designs that miss a need."""
        missed = ", and some that miss a need" if self.tried else ""
        best = f"the cheapest design{', and others' if self.others else ''}{missed}"
        none = "no design meets the needs, and why not"
        if self.verdict is Verdict.CANNOT_TELL:
            none = "no design is known to meet the needs, and what is unknown"
        return Table.of(
            f"{self.needs.name}: {best if self.winner else none}",
            (*([self.winner] if self.winner else []), *self.others, *self.tried[: -SHOWN - 1 : -1]),
            ("name", "design"),
            (lambda design: str(design.total), "price", self.needs.currency),
            "switches",
            (lambda design: f"{design.power_w * 1e-3:,.1f}", "power, typically", "kW"),
            (lambda design: f"{design.power_max_w * 1e-3:,.1f}", "power, at most", "kW"),
            (lambda design: None if design.taper is None else f"{design.taper:.3g}", "taper"),
            (lambda design: str(design.job_bisection), "job bisection"),
            (lambda design: str(design.bisection), "bisection"),
            (lambda design: "; ".join(design.reasons), "why not"),
        )


def optimise(
    needs: Needs,
    catalog: Catalog | None = None,
    *,
    progress: Progress = lambda text: None,
    gap: float = 0.0,
    limit_s: float = inf,
    judge: Judge | None = None,
    finalists: int = 1,
) -> Search:
    """Find the cheapest network that meets needs, and prove it.

    Parameters
    ----------
    needs : Needs
        The requirements: see `read_needs`.
    catalog : topo.Catalog, optional
        Hardware and prices; by default the catalog that ships with Heddle, with the tables of the needs.
    progress : callable
        Called with a text before each design is evaluated, and with the bound every thousand branches.
    gap : float
        The search ends as soon as a design is known whose price times (1 - gap) is at most the bound; 0 proves the
        winner to be the cheapest.
    limit_s : float
        Seconds after which the best design so far is returned, with the bound so far.
    judge : callable, optional
        Called with the needs and the cluster of each design that meets all other needs, with the servers after growth.
        Returns a sequence of `topo.Check`, which are added to those of the design and decide as they do. The search
        knows no routing, so needs with ``tables`` require it.
    finalists : int
        Number of designs to find, each of another shape or other levels. The first is the winner, the others cost at
        most 1.25 times as much. Where several are asked for and none is proven to meet the needs, the cheapest that is
        proven comes in addition, whatever its shape.

    Returns
    -------
    Search
        The winner, with the certificate.

    Raises
    ------
    topo.HeddleError
        When the needs state ``tables`` and there is no ``judge``.

    See Also
    --------
    trade_off : what each need costs.

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

    A judge of one's own, which refuses designs with fewer than four switches:

    >>> from topo import Check, Verdict
    >>> def four_switches(needs, cluster):
    ...     verdict = Verdict.HOLDS if cluster.counts.switches >= 4 else Verdict.EXCEEDED
    ...     return [Check("four switches", verdict, f"{cluster.counts.switches} of 4 switches")]
    >>> costmodel.optimise(needs, judge=four_switches).winner.switches
    4
    """
    if needs.tables is not None and judge is None:
        raise HeddleError(
            "needs.tables: found a share that tables must reach, and nothing that routes; expected `judge`, a callable "
            "that routes a design and returns its checks"
        )
    time_ends, cpu_ends = monotonic() + limit_s, process_time() + SEARCH_CPU.limit

    def exhausted() -> str:
        if monotonic() > time_ends:
            return f"the time limit of {limit_s:,.0f} s is reached"
        if process_time() > cpu_ends:
            return f"the budget {SEARCH_CPU.name} of {SEARCH_CPU.limit:,} {SEARCH_CPU.unit} is used up"
        return ""

    problem = Problem(needs, catalog or load_catalog([Path(needs.catalog)] if needs.catalog else []))
    tried: list[Design] = []
    met: list[Design] = []
    postponed: dict[int, Design] = {}
    incumbent = _common_design(problem, progress) if gap or limit_s < inf else None
    if problem.unpriced:
        incumbent = None  # its price is unknown, not low
    looked_at, bound, winner = 0, inf, None
    found: Search | None = None
    impossible = list(_impossible(problem))
    allowed = [name for name in needs.switches if name in problem.catalog.switches]
    left_out = [problem.left_out(name) or problem.floor_error("a switch", name) for name in allowed]
    refused = [*impossible, *filter(None, left_out)]
    ended = "" if impossible else _undecidable(problem)
    heap: list[Branch] = []

    def push(branches: Iterator[Branch]) -> None:
        for branch in branches:
            if branch.price < inf and not problem.exceeds_budget(branch.switches):
                heapq.heappush(heap, branch)

    def result(winner: Design | None, ended: str = "") -> Search:
        unpriced = tuple(sorted(problem.unpriced))
        return Search(needs, winner, bound, looked_at, tuple(tried), tuple(refused), unpriced, ended=ended)

    if not impossible and not ended:
        push(roots(problem))
    while heap:
        branch = heap[0]
        bound = branch.price
        if met and (bound > FINALIST_PRICE * met[0].price or exhausted()):
            break
        if not met and incumbent is not None and bound >= incumbent.price * (1 - gap) - ROUNDING:
            least = bound >= incumbent.price - ROUNDING
            winner, ended = incumbent, "" if least else f"the gap of {percent(gap)} is reached"
            break
        beyond = bound * problem.least_price_ratio > problem.price_limit * (1 + ROUNDING)
        if beyond and (met or exhausted() or any(design.refused_by(PRICE_CHECKS) for design in tried)):
            # All that costs less was met; what follows only finds the cheapest that misses the price. But on a floor,
            # and before growth, what is bought may cost less than what is compared.
            if needs.floor is None and not needs.growth:
                bound = inf
            elif not met:
                ended = f"the limit of the price is reached with {price_basis(needs)}"
            break
        if ended := exhausted():
            winner = incumbent
            break
        heapq.heappop(heap)
        if branch.shape is None:
            looked_at += 1
            if looked_at % REPORT_EVERY == 0:
                known = f", {incumbent.name} costs {incumbent.price:,.0f}" if incumbent else ""
                progress(f"no design costs less than {bound:,.0f} {needs.currency}{known}")
            push(branch.expand())
            continue
        shape = branch.shape()
        again = any(_same_family(shape, each.spec.network) for each in met)
        if again and (finalists == 1 or _first_sure(met)):
            continue
        try:
            if branch.serial in postponed:
                design = postponed.pop(branch.serial)
            else:
                progress(f"{branch.name} ({bound:,.0f} {needs.currency})")
                design = evaluate(branch.name, shape, problem)
        except DesignError as error:
            refused.append(f"{branch.name} does not compile: {error}")
        else:
            if design.acceptable and design.moving != Sum() and branch.price < design.price - ROUNDING:
                # Moving cables makes it more expensive than its branch: it goes back into the heap at its own price.
                later = replace(branch, price=design.price, expand=no_branches)
                postponed[later.serial] = design
                push(iter([later, *branch.expand()]))
                continue
            if design.acceptable and judge is not None:
                cluster = Cluster(problem.spec.model_copy(update={"network": shape}), problem.catalog)
                design = replace(design, checks=(*design.checks, *judge(needs, cluster)))
            holds = design.verdict is Verdict.HOLDS
            if design.acceptable and (holds or not again):
                met.append(design)
                found = found or result(design)
                if len(met) >= finalists and (finalists == 1 or _first_sure(met)):
                    break
                if holds:
                    continue
            elif not design.acceptable:
                tried.append(design)
        if not met:
            if sum(each.verdict is Verdict.CANNOT_TELL for each in tried) >= MOST_UNDECIDED:
                ended = "an unknown figure decides whether designs meet the needs"
                break
            by_floor = sum(each.refused_by(FLOOR_CHECKS) for each in tried) + (len(refused) if needs.floor else 0)
            if by_floor >= MOST_REFUSED_BY_FLOOR:
                ended = f"{MOST_REFUSED_BY_FLOOR} designs meet all other needs but do not fit the floor"
                break
        push(branch.expand())
    else:
        bound = 0.0 if ended else inf if incumbent is None else incumbent.price
        winner = incumbent
    found = found or result(winner, ended)
    if found.verdict is Verdict.EXCEEDED and not (found.tried or found.refused):
        found = replace(found, tried=_excluded(problem, partial(optimise, catalog=catalog, progress=progress)))
    return replace(found, others=tuple(met[1:]))


def _excluded(problem: Problem, search: Callable[[Needs], Search]) -> tuple[Design, ...]:
    """Return the cheapest design without limits that exclude designs before they are compiled: it misses them."""
    unlimited = problem.needs.budget.model_copy(update={"power": None, "switches": None})
    if unlimited == problem.needs.budget:
        return ()
    least = search(problem.needs.model_copy(update={"budget": unlimited, "tables": None})).winner
    return (evaluate(least.name, least.spec.network, problem),) if least else ()


def _first_sure(designs: Sequence[Design]) -> Design | None:
    """Return the first of some designs that is proven to meet all needs."""
    return next((design for design in designs if design.verdict is Verdict.HOLDS), None)


def roots(problem: Problem) -> Iterator[Branch]:
    """Yield the first branches of each family that the needs allow."""
    for name, family in FAMILIES.items():
        if name in problem.needs.families or not problem.needs.families:
            yield from family(problem)


def price_basis(needs: Needs) -> str:
    """Say what the compared prices hold that the bill of what is bought does not; empty where both are one."""
    servers = sum(grown(group, needs.growth).count for group in needs.nodes.values())
    ports = [f"switches for all {servers:,} servers"] if needs.growth else []
    return " and ".join([*ports, *(["cables at the price of their speed"] if needs.floor is not None else [])])


def _money(amount: float) -> str:
    """Format an amount; small ones, as of units, with two decimals."""
    return f"{amount:,.0f}" if amount >= 1_000 else f"{amount:,.2f}".removesuffix(".00")


def _same_family(one: ShapeModel, other: ShapeModel) -> bool:
    """Return whether two networks have the same shape and number of levels."""
    return type(one) is type(other) and getattr(one, "levels", 0) == getattr(other, "levels", 0)


def _impossible(problem: Problem) -> Iterator[str]:
    """Yield why no network can meet the needs: slow adapters, servers that draw too much, or that no rack can hold."""
    for role, wanted in problem.needs.bandwidth.asked.items():
        half = 0.5 if role is Role.COMPUTE else 1.0
        most = min(half * problem.attainable_gbps(role), problem.attainable_gbps(Role.COMPUTE))
        if wanted.of(half * problem.full_gbps(role)) > most * (1 + ROUNDING):
            name, has = role.name.lower(), Amount(gbps=most) if most else "nothing"
            yield f"no network can meet this: on these switches {name} carries {has}, {wanted} is needed"
    errors = (problem.floor_error(name, group.model) for name, group in problem.needs.nodes.items())
    yield from (f"no network can meet this: {error}" for error in errors if error)
    for check in problem.exceeded_by_servers:
        yield f"no network can meet this: of the servers alone, {check.reason}"


def _undecidable(problem: Problem) -> str:
    """Return why no network can be judged: power is limited, and that of a server unknown. Empty where all can."""
    floor, budget = problem.needs.floor, problem.needs.budget
    nodes = [problem.catalog.node(name) for name in {group.model: None for group in problem.needs.nodes.values()}]
    most = [node.name for node in nodes if node.power_max_w is None]
    mean = [node.name for node in nodes if node.planned_w is None]
    undecided = budget.power is not None and problem.servers_w <= budget.power  # else it is exceeded by what is known
    if most and (undecided or (floor is not None and floor.most_power is not None)):
        return (
            f"maximum power is limited, and that of {listed(most)} unknown: give `power_max_w` in a catalog, or limit "
            "`typical_power` or `rack_typical_power`"
        )
    if mean and (budget.typical_power is not None or (floor is not None and floor.rack_typical_power is not None)):
        return f"typical power is limited, and that of {listed(mean)} unknown: give `power_typical_w` in a catalog"
    return ""


def _common_design(problem: Problem, progress: Progress) -> Design | None:
    """Return the cheapest of a few common designs that meets the needs: the first incumbent of the search."""
    found, families = [], problem.needs.families
    copies = [1] * (not families or "fat-tree" in families)
    copies += plane_numbers(problem) if not families or "planes" in families else ()
    for option, levels, number in product(problem.options, (1, 2, 3), copies):
        tree = FatTree.model_validate(
            {"shape": "fat-tree", "switch": option.name, "levels": levels} | ({"split": True} if option.split else {})
        )
        name = f"one {option.name}" if levels == 1 else f"a full tree of {levels} levels of {option.name}"
        try:
            size = tree.size(problem.ports // number, problem.catalog)  # also for servers that come later
            stated = {"leaves": size.leaves, "spines": size.spines_per_pod or None, "parallel": size.parallel or None}
            shape: ShapeModel = tree.model_copy(update=stated)
            if number > 1:
                shape = Planes.model_validate({"shape": "planes", "planes": number, "tree": shape})
                name = f"{number} planes of {name}"
            progress(name)
            design = evaluate(name, shape, problem)
        except DesignError:
            continue
        if design.acceptable:
            found.append(design)
    return min(found, key=lambda design: design.price, default=None)
