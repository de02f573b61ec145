"""What a network carries for the jobs and for each role, held against the needs, whole or at a stage of its growth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from costmodel.optimise.bisection import Bisection, bisection, serving_gbps
from costmodel.optimise.demand import ROUNDING
from costmodel.optimise.needs import Amount
from costmodel.optimise.problem import SERVING, Task
from topo.amounts import Check, Verdict
from topo.fabric import Fabric, Role
from topo.failures.losses import find_parting_switch
from topo.failures.reach import Reach

FEW, MANY = 1, 16
"""Descents to a worst cut: of any design, and of one that may be the winner."""


@dataclass(frozen=True)
class Carried:
    """What is carried, and whether that is enough."""

    job_bisection: Bisection
    bisection: Bisection
    """Of all compute nodes."""
    serving_gbps: dict[Role, float]
    """What roles can send to all that compute, of those of which a bandwidth is asked."""
    checks: tuple[Check, ...] = field(default=())

    @property
    def holds(self) -> bool:
        """Whether no need is missed."""
        return all(check.verdict is Verdict.HOLDS for check in self.checks)


def measure_carried(fabrics: Sequence[Fabric], task: Task, part: float = 1.0) -> Carried:
    """Measure a network by its worst cuts, and hold it against the needs.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets.
    task : Task
        The needs.
    part : float
        Part of the servers that stand: rates that are asked of all are asked of them in proportion.
    """
    job, bandwidth = task.needs.job, task.needs.bandwidth
    cut = partial(bisection, fabrics, job.sizes, with_storage=job.with_storage, alone=job.alone, enough=job.bisection)
    split = cut(tries=FEW, prove=False)
    if split.share >= job.bisection and not split.exact:
        split = cut(tries=MANY)
    whole = bisection(fabrics, tries=FEW, enough=bandwidth.compute.share, prove=split.share >= job.bisection)
    serving = {role: serving_gbps(fabrics, role) for role in bandwidth.asked if role in SERVING}
    return Carried(split, whole, serving, tuple(_checks(split, whole, serving, fabrics, task, part)))


def _checks(
    split: Bisection,
    whole: Bisection,
    serving: dict[Role, float],
    fabrics: Sequence[Fabric],
    task: Task,
    part: float,
) -> Iterator[Check]:
    needs = task.needs

    def check(what: str, holds: bool, text: str) -> Check:
        return Check(what, Verdict.HOLDS if holds else Verdict.EXCEEDED, text)

    yield check(
        "bisection of a job",
        split.share >= needs.job.bisection - ROUNDING,
        f"{needs.job} {'gets' if isinstance(needs.job.nodes, int) else 'get'} {split} of the rate"
        f"{f' ({split.worst})' if split.worst else ''}, {needs.job.bisection:.0%} is needed",
    )
    for role, wanted in needs.bandwidth.asked.items():
        name, asked = role.name.lower(), Amount(wanted.share, wanted.gbps * part)
        if role is Role.COMPUTE:
            holds = whole.share >= asked.share_of(whole.gbps) - ROUNDING
            has = str(Amount(gbps=whole.share * whole.gbps)) if asked.gbps else str(whole)
            yield check(f"bandwidth of {name}", holds, f"bisection of the whole is {has}, {asked} is needed")
            continue
        gbps, needed = serving[role], asked.of(task.full_gbps(role) * part)
        has, least = (str(Amount(gbps=each)) for each in (gbps, needed))
        yield check(f"bandwidth of {name}", gbps >= needed * (1 - ROUNDING), f"{name} sends {has}, {least} is needed")
    if needs.survives_a_switch:
        cut = find_parting_switch(Reach(fabrics))
        lost = f"the loss of {cut} cuts servers off from one another" if cut else "no switch parts others that fails"
        yield check("survives a switch", not cut, lost)
