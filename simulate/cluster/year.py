"""Monte Carlo of component failures over a year: effect on servers, jobs, spares and tables.

Each part fails independently, at a constant rate while it is up (a Poisson process), and takes down what it contains: a
rack its switches and servers, a bundle its links. Failures of the contained parts are thus correlated, as in the model
of common shocks of Marshall and Olkin, "A multivariate exponential distribution", JASA 62, 1967. The availability of a
part is 1 / (1 + failure rate * downtime).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from simulate.cluster.degradation import Degradation
from simulate.cluster.failures import DAY_S, YEAR_S, FailingPart, FailureSpec, rate_a_year
from topo.failures.parts import PartKind, Parts, unite
from topo.failures.reach import Failed, Reached

HOUR_S = 3600.0
Figures = dict[str, float | int | None]
PartOf = tuple[str, str]
"""Kind and name of a part."""


class Outage(NamedTuple):
    """A part that is down for a time."""

    begin_s: float
    end_s: float
    part: PartOf
    waited_s: float
    """Time that it waited for a spare."""


class Interval(NamedTuple):
    """The parts that are down between two events."""

    begin_s: float
    end_s: float
    down: frozenset[PartOf]
    by: PartOf | None
    """The part whose failure begins it, if one does."""


@dataclass(frozen=True)
class Course:
    """What happened: outages in order, those before the first second included, and how long it lasted."""

    outages: tuple[Outage, ...]
    lasted_s: float


def play_year(degradation: Degradation, parts: Mapping[PartKind, Parts], rules: FailureSpec, seed: int = 0) -> Figures:
    """Simulate failures for a year, or as long as the rules say, and return what they cost.

    Parameters
    ----------
    parts : mapping
        All parts of each kind of the rules, as `topo.list_parts` lists them.

    Returns
    -------
    dict
        ``connected``: mean share of the pairs of servers that reach one another; ``fewest``: the least; ``whole``:
        share of the time in which all do; ``cut_server_hours``; ``jobs_hit``, ``jobs_cut``, ``node_hours_lost``; of
        each kind ``failures.KIND``, ``down_hours.KIND``, ``spares_used.KIND``, ``waited_hours.KIND`` and
        ``spare_worth.KIND``, hours of servers that one more spare would save; and means over time of the figures of
        `Degradation.judge`.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> reach = topo.Reach([fabric])
    >>> degradation = simulate.cluster.Degradation(reach, [routing.route(fabric)])
    >>> rules = simulate.cluster.FailureSpec.model_validate({"parts": {"link": {"down": "4 h"}}, "states": 0})
    >>> year = simulate.cluster.play_year(degradation, {"link": topo.list_parts("link", reach)}, rules)
    >>> year["connected"], year["down_hours.link"] == 4 * year["failures.link"]
    (1.0, True)
    """
    seen = _Seen(degradation, parts)
    course = draw_course(parts, rules, seed)
    found = seen.cost(course, rules)
    lost = "node_hours_lost" if degradation.jobs else "cut_server_hours"
    for kind, part in rules.parts.items():
        mine = [outage for outage in course.outages if outage.part[0] == kind and outage.begin_s >= 0]
        found[f"failures.{kind}"] = len(mine)
        down_s = sum(min(outage.end_s, course.lasted_s) - max(outage.begin_s, 0.0)
                     for outage in course.outages if outage.part[0] == kind and outage.end_s > 0)  # fmt: skip
        found[f"down_hours.{kind}"] = down_s / HOUR_S
        if part.spares is not None:
            found[f"spares_used.{kind}"] = len(mine)
            found[f"waited_hours.{kind}"] = sum(outage.waited_s for outage in mine) / HOUR_S
            more = {**rules.parts, kind: part.model_copy(update={"spares": part.spares + 1})}
            richer = draw_course(parts, rules.model_copy(update={"parts": more}), seed)
            worth = (found[lost] or 0) - (seen.cost(richer, rules)[lost] or 0)
            found[f"spare_worth.{kind}"] = round(worth, 6)  # what the same sums in another order differ by is nothing
    return found | seen.tables(course, rules.states, np.random.default_rng([seed, 1]))


def draw_course(parts: Mapping[PartKind, Parts], rules: FailureSpec, seed: int) -> Course:
    """Draw the outages of all parts. A part that is down does not fail once more."""
    lasted_s = rules.days * DAY_S
    lead_s = 2 * max((part.down + (part.restock or 0.0) for part in rules.parts.values()), default=0.0)
    outages: list[Outage] = []
    for number, (kind, part) in enumerate(rules.parts.items()):
        names = list(parts[kind])
        rng = np.random.default_rng([seed, 0, number])
        count = rng.poisson(len(names) * rate_a_year(kind, part) * (lead_s + lasted_s) / YEAR_S)
        begins = np.sort(rng.uniform(-lead_s, lasted_s, count)).tolist()
        which = rng.integers(len(names), size=count).tolist() if names else []
        outages += _outages(kind, part, [(at, names[one]) for at, one in zip(begins, which, strict=True)])
    return Course(tuple(sorted(outages)), lasted_s)


def _outages(kind: str, part: FailingPart, failures: list[tuple[float, str]]) -> list[Outage]:
    """Return how long each failure lasts: a part waits for the next spare of its kind, first come, first served."""
    stock = [float("-inf")] * (part.spares or 0)
    until: dict[str, float] = {}
    found = []
    for begin_s, name in failures:
        if until.get(name, float("-inf")) > begin_s:
            continue
        ready_s = begin_s
        if part.spares is not None:
            assert part.restock is not None
            heapq.heappush(stock, begin_s + part.restock)
            ready_s = max(begin_s, heapq.heappop(stock))
        until[name] = ready_s + part.down
        found.append(Outage(begin_s, until[name], (kind, name), ready_s - begin_s))
    return found


class _Seen:
    """States that were seen: who reaches whom in each."""

    def __init__(self, degradation: Degradation, parts: Mapping[PartKind, Parts]) -> None:
        self.degradation, self.parts = degradation, parts
        self.reached = cache(self._reached)
        self.idle = cache(self._idle)

    def failed(self, down: frozenset[PartOf]) -> Failed:
        return unite(self.parts[kind][name] for kind, name in sorted(down))  # type: ignore[index]

    def _reached(self, down: frozenset[PartOf]) -> Reached:
        return self.degradation.reach.without(self.failed(down)) if down else self.degradation.reach.whole

    def _idle(self, down: frozenset[PartOf]) -> int:
        reached = self.reached(down)
        return sum(self.degradation.idle(job, reached) for job in self.degradation.jobs) if down else 0

    def states(self, course: Course) -> list[Interval]:
        changes = [(outage.begin_s, 1, outage.part) for outage in course.outages]
        changes += [(outage.end_s, 0, outage.part) for outage in course.outages]
        down: set[PartOf] = set()
        found: list[Interval] = []
        since = 0.0
        by: PartOf | None = None
        for at, fails, part in sorted(changes):
            if since < at and at > 0 and since < course.lasted_s:
                found.append(Interval(since, min(at, course.lasted_s), frozenset(down), by))
            (down.add if fails else down.discard)(part)
            since, by = max(at, 0.0), part if fails and at > 0 else None
        if since < course.lasted_s:
            found.append(Interval(since, course.lasted_s, frozenset(down), by))
        return found

    def cost(self, course: Course, rules: FailureSpec) -> Figures:
        """Return what a course costs servers and jobs."""
        degradation, jobs = self.degradation, rules.jobs
        required = degradation.reach.whole.pairs
        connected, whole, cut, hit, paths, lost, fewest = 0.0, 0.0, 0.0, 0, 0, 0.0, required
        before: frozenset[PartOf] = frozenset()
        for begin, end, down, by in self.states(course):
            reached, lasted = self.reached(down), end - begin
            connected += lasted * reached.pairs
            whole += lasted * (reached.pairs == required)
            cut += lasted * int((reached.alone & ~degradation.reach.whole.alone).sum())
            fewest = min(fewest, reached.pairs)
            lost += lasted * self.idle(down)
            if by is not None and jobs is not None:
                for job in degradation.jobs:
                    ends = degradation.hits(job, self.reached(before), reached)
                    crossed = not ends and degradation.cuts(job, self.parts[by[0]][by[1]])  # type: ignore[index]
                    hit, paths = hit + ends, paths + crossed
                    if ends or (crossed and jobs.cut_ends_job):
                        lost += len(job.servers) * (begin % jobs.checkpoint + jobs.restart)
            before = down
        share = max(required, 1) * course.lasted_s
        found: Figures = {"connected": connected / share if required else None, "whole": whole / course.lasted_s,
                          "fewest": fewest / required if required else None,
                          "cut_server_hours": cut / HOUR_S}  # fmt: skip
        if jobs is not None:
            found |= {"jobs_hit": hit, "jobs_cut": paths, "node_hours_lost": lost / HOUR_S}
        return found

    def tables(self, course: Course, count: int, rng: np.random.Generator) -> Figures:
        """Return means over time of what tables are worth: of all time with everything up, and of drawn instants."""
        if not count or not self.degradation.routed:
            return {}
        lasted: dict[frozenset[PartOf], float] = defaultdict(float)
        for begin, end, down, _ in self.states(course):
            lasted[down] += end - begin
        degraded = [down for down in lasted if down]
        found = {name: [value] for name, value in self.degradation.judge(Failed()).items()}
        share = sum(lasted[down] for down in degraded) / course.lasted_s
        if degraded:
            weight = np.array([lasted[down] for down in degraded])
            drawn, often = np.unique(rng.choice(len(degraded), count, p=weight / weight.sum()), return_counts=True)
            for at, times in zip(drawn.tolist(), often.tolist(), strict=True):
                for name, value in self.degradation.judge(self.failed(degraded[at])).items():
                    found[name] += [value] * times
        return {name: None if None in values else _mean(values, share) for name, values in found.items()}  # type: ignore[arg-type]


def _mean(values: list[float], share: float) -> float:
    """Return the mean over time of a value that is the first with everything up, and else as those that were drawn."""
    return values[0] if len(values) == 1 else (1 - share) * values[0] + share * float(np.mean(values[1:]))
