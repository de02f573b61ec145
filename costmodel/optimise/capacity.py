"""Capacity of a compiled network for the jobs and for each role, compared with the needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from costmodel.optimise.bisection import Bisection, bisection, servers_of, serving_gbps, serving_share
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.needs import Amount, Needs
from costmodel.optimise.problem import SERVING, Problem, job_windows
from topo.amounts import Verdict, rounded
from topo.checks import Check, Cure
from topo.fabric import Fabric, Role
from topo.failures.losses import find_parting_switch
from topo.failures.reach import Reach

QUICK, THOROUGH = 1, 16
"""Descents of the local search for the worst cut: for every design, and for one that meets the need so far."""
JOB, COMPUTE = "bisection of a job", "bandwidth of compute"
"""Checks on a share of which a bound may be all that is known."""


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
    def verdict(self) -> Verdict:
        """Whether all needs of the checks are met; cannot tell where a figure that one limits is unknown."""
        return Verdict.all_of(check.verdict for check in self.checks)


def measure_capacity(fabrics: Sequence[Fabric], problem: Problem, installed: float = 1.0) -> Capacity:
    """Measure all subnets of a network by their worst cuts, and compare it with the needs.

    Rates that are required of all servers are reduced in proportion to the share of those that are ``installed``.
    """
    job, bandwidth = problem.needs.job, problem.needs.bandwidth
    nodes = len(servers_of(fabrics, Role.COMPUTE))
    storage = job.with_storage and bool(servers_of(fabrics, Role.STORAGE))
    one_job = not storage and job_windows(nodes, job.sizes).tolist() == [[0, nodes]]
    part = problem.needs.between_rails
    need = max(job.bisection, bandwidth.compute.share) if one_job else job.bisection
    cut = partial(bisection, fabrics, job.sizes, with_storage=job.with_storage, alone=job.alone, need=need,
                  need_between_rails=need * part)  # fmt: skip
    job_bisection = cut(descents=QUICK, prove=False)
    if job_bisection.meets(need, part) and not all(has.exact for has, _ in job_bisection.beside(need, part)):
        job_bisection = cut(descents=THOROUGH)
    met = job_bisection.meets(need, part)
    whole = job_bisection  # the same question has one answer, also where it is an interval
    if not one_job:
        need = bandwidth.compute.share
        whole = bisection(fabrics, descents=QUICK, need=need, need_between_rails=need * part, prove=met)
    serving = {role: serving_gbps(fabrics, role) for role in bandwidth.asked if role in SERVING}
    capacity = Capacity(job_bisection, whole, serving)
    return replace(capacity, checks=tuple(_checks(capacity, fabrics, problem, installed)))


def _checks(capacity: Capacity, fabrics: Sequence[Fabric], problem: Problem, installed: float) -> Iterator[Check]:
    needs = problem.needs
    yield from _compare(JOB, f"{needs.job}", capacity.job_bisection, needs.job.bisection, "job.bisection", needs)
    for role, wanted in needs.bandwidth.asked.items():
        name, asked = role.name.lower(), Amount(wanted.share, wanted.gbps * installed)
        what = f"bandwidth of {name}"
        if role is Role.COMPUTE:
            whole = capacity.bisection
            share = asked.share_of(whole.gbps)
            who = "the bisection of all compute nodes"
            yield from _compare(COMPUTE, who, whole, share, f"bandwidth.{name}", needs)
        elif not asked.gbps:
            has = serving_share(fabrics, role)
            yield from _compare(what, f"every server of {name}", has, asked.share, f"bandwidth.{name}", needs)
        else:
            gbps = capacity.serving_gbps[role]
            verdict = Verdict.HOLDS if gbps >= asked.gbps * (1 - ROUNDING) else Verdict.EXCEEDED
            text = f"{name} sends {Amount(gbps=gbps)}, {asked} is needed"
            yield Check(what, verdict, text, f"bandwidth.{name}")
    if needs.survives_a_switch:
        switch = find_parting_switch(Reach(fabrics))
        lost = f"the loss of {switch} separates servers" if switch else "no failure of a switch separates servers"
        yield Check("survives a switch", Verdict.EXCEEDED if switch else Verdict.HOLDS, lost, "survives_a_switch")


def _compare(what: str, who: str, has: Bisection, need: float, key: str, needs: Needs) -> Iterator[Check]:
    """Compare a share of their rate that servers get with the one that is needed; the cure is to ask for less.

    Servers with several adapters in a network must get a part of it between rails, too.
    """
    for share, asked in has.beside(need, needs.between_rails):
        between = share is has.between_rails
        named = f"{who} ({share.worst})" if share.worst else who
        place = ", between rails" if between else ", over the rails" if has.between_rails else ""
        reason = f": {share.limit}" if share.limit else ""
        verdict = share.against(asked)
        least = float(rounded(share.least / need if between and need else share.least, 3, up=False))
        cures = (Cure("between_rails" if between else key, least),) if least and verdict is not Verdict.HOLDS else ()
        yield Check(what, verdict, f"{named}{place}: {share.judged(asked)}{reason}", key, cures=cures)
