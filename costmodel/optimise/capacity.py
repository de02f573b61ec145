"""Capacity of a compiled network for the jobs and for each role, compared with the needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from costmodel.optimise.bisection import Bisection, bisection, serving_gbps
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.needs import Amount
from costmodel.optimise.problem import SERVING, Problem
from topo.amounts import Check, Verdict
from topo.fabric import Fabric, Role
from topo.failures.losses import find_parting_switch
from topo.failures.reach import Reach

QUICK, THOROUGH = 1, 16
"""Descents of the local search for the worst cut: for every design, and for one that meets the need so far."""


@dataclass(frozen=True)
class Capacity:
    """What a network can carry, and whether that meets the needs."""

    job_bisection: Bisection
    """Bisection of the worst job."""
    bisection: Bisection
    """Bisection of all compute nodes as one job."""
    serving_gbps: dict[Role, float]
    """Maximum flow to all compute nodes from each role for which a bandwidth is required, in Gb/s."""
    checks: tuple[Check, ...] = field(default=())
    """Each need that concerns capacity, and whether it is met."""

    @property
    def holds(self) -> bool:
        """Whether all of these needs are met."""
        return all(check.verdict is Verdict.HOLDS for check in self.checks)


def measure_capacity(fabrics: Sequence[Fabric], problem: Problem, installed: float = 1.0) -> Capacity:
    """Measure a network by its worst cuts, and compare it with the needs.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets.
    problem : Problem
        The needs.
    installed : float
        Share of the servers that are installed; rates that are required of all servers are reduced in proportion.
    """
    job, bandwidth = problem.needs.job, problem.needs.bandwidth
    cut = partial(
        bisection, fabrics, job.sizes, with_storage=job.with_storage, alone=job.alone, stop_below=job.bisection
    )
    job_bisection = cut(descents=QUICK, prove=False)
    if job_bisection.share >= job.bisection and not job_bisection.exact:
        job_bisection = cut(descents=THOROUGH)
    met = job_bisection.share >= job.bisection
    whole = bisection(fabrics, descents=QUICK, stop_below=bandwidth.compute.share, prove=met)
    serving = {role: serving_gbps(fabrics, role) for role in bandwidth.asked if role in SERVING}
    return Capacity(
        job_bisection, whole, serving, tuple(_checks(job_bisection, whole, serving, fabrics, problem, installed))
    )


def _checks(
    job_bisection: Bisection,
    whole: Bisection,
    serving: dict[Role, float],
    fabrics: Sequence[Fabric],
    problem: Problem,
    installed: float,
) -> Iterator[Check]:
    needs = problem.needs

    def check(what: str, holds: bool, text: str) -> Check:
        return Check(what, Verdict.HOLDS if holds else Verdict.EXCEEDED, text)

    yield check(
        "bisection of a job",
        job_bisection.share >= needs.job.bisection - ROUNDING,
        f"{needs.job} {'gets' if isinstance(needs.job.nodes, int) else 'get'} {job_bisection} of the rate"
        f"{f' ({job_bisection.worst})' if job_bisection.worst else ''}, {needs.job.bisection:.0%} is needed",
    )
    for role, wanted in needs.bandwidth.asked.items():
        name, asked = role.name.lower(), Amount(wanted.share, wanted.gbps * installed)
        if role is Role.COMPUTE:
            holds = whole.share >= asked.share_of(whole.gbps) - ROUNDING
            has = str(Amount(gbps=whole.share * whole.gbps)) if asked.gbps else str(whole)
            yield check(f"bandwidth of {name}", holds, f"bisection of the whole is {has}, {asked} is needed")
            continue
        gbps, needed = serving[role], asked.of(problem.full_gbps(role) * installed)
        has, least = (str(Amount(gbps=each)) for each in (gbps, needed))
        yield check(f"bandwidth of {name}", gbps >= needed * (1 - ROUNDING), f"{name} sends {has}, {least} is needed")
    if needs.survives_a_switch:
        cut = find_parting_switch(Reach(fabrics))
        lost = f"the loss of {cut} separates servers" if cut else "no failure of a switch separates servers"
        yield check("survives a switch", not cut, lost)
