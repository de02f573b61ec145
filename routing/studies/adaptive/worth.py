"""What adaptive routing is worth beside engines: the same figures, of groups that a manager makes.

The even split is what per-packet choice tends to where the ports of a group are equally busy. For an all-to-all of a
job two bounds stand beside it, as `Spread` finds them: what no choice of ports beats, and what every choice gives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from routing.candidates import Candidate
from routing.engines.judge import Judge, mean_rates
from routing.hashed import SPRAY, Hashed
from routing.routed import Routed
from routing.studies.adaptive.nvidia_sm import manager_groups
from routing.studies.adaptive.proof import prove_adaptive
from routing.studies.adaptive.shares import Spread
from routing.studies.adaptive.tables import AdaptiveTables
from routing.studies.hashing import hashed_rates
from topo.errors import RoutingError

JOB_VARIABLES = 60_000
"""Variables up to which the linear program of a job is solved (two seconds); above it the bound is that of cuts."""


def beside_adaptive(routed: Routed) -> Routed:
    """Return tables with three candidates more: groups of `manager_groups`, split evenly, at most and at least.

    The latter two have the rates of jobs alone. A job is at most as fast as the largest common share of its flows.
    Where there are no groups, the reason for the engine says why.

    Parameters
    ----------
    routed : Routed
        The static tables, from which groups come where no roots connect all pairs.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.studies.adaptive.beside_adaptive(routing.route(topo.preset("lab-20").fabric))
    >>> [(row.engine, f"{row.jobs:.2f}") for row in routed.candidates[-3:-1]]
    [('adaptive, 2 roots, split evenly', '1.00'), ('the same, at most', '1.00')]
    """
    judge = Judge(routed.fabric, routed.tables.lid)
    rows = routed.candidates or (judge.judge(routed.tables),)
    try:
        tables, said = manager_groups(routed)
    except RoutingError as error:
        return replace(routed, candidates=rows, why=f"{routed.why}; no adaptive routing: {error}")
    return replace(routed, candidates=rows + _rows(routed, judge, tables, said))


def _rows(routed: Routed, judge: Judge, tables: AdaptiveTables, said: str) -> tuple[Candidate, ...]:
    fabric = routed.fabric
    hashed = Hashed(fabric, SPRAY, groups=tables.groups(fabric))

    def rates(ranks: NDArray[np.int32], phases: NDArray[np.int32]) -> NDArray[np.float64]:
        return np.array([hashed_rates(hashed, ranks, one).mean() if (one >= 0).any() else 0.0 for one in phases])

    halves, shifts = mean_rates(fabric, routed.tables, rates)
    proof = prove_adaptive(fabric, tables)
    jobs = list(_rates_of_jobs(judge, hashed))
    unknown = Candidate("", longest=proof.max_hops, fullest=None, halves=None, shifts=None)
    split = replace(unknown, fullest=proof.fullest, halves=halves, shifts=shifts)
    names = (f"adaptive, {said}, split evenly", "the same, at most", "the same, at least")
    rows = []
    for at, (name, row) in enumerate(zip(names, (split, unknown, unknown), strict=True)):
        rates_of_jobs = [rates[at] for rates in jobs]
        mean = float(np.mean(rates_of_jobs)) if jobs else None
        rows.append(replace(row, engine=name, jobs=mean, slowest_job=min(rates_of_jobs, default=None)))
    return tuple(rows)


def _rates_of_jobs(judge: Judge, hashed: Hashed) -> Iterator[tuple[float, float, float]]:
    """Yield the rate of each job by which engines are judged, as a share of its hosts' links: even, at most, at least.

    Flows from one switch to end ports to which packets may take the same ports are one.
    """
    fabric, samples, problem = hashed.fabric, judge.search.problem.samples, judge.search.problem
    ends = fabric.ends()
    ends = ends[hashed.groups.row[ends] >= 0]
    at_switch, of_row = np.zeros(fabric.n_switches, np.int32), np.zeros(len(hashed.groups.group), np.int32)
    at_switch[fabric.end_switch[ends]] = ends
    of_row[hashed.groups.row[ends]] = ends
    row_of_lid = np.full(int(judge.lids.max()) + 1, -1, np.int32)
    row_of_lid[judge.lids[ends]] = hashed.groups.row[ends]
    row = np.repeat(row_of_lid[samples.lid], np.diff(samples.indptr)).astype(np.int64)
    fastest = float(fabric.rate_gbps[fabric.inner].max(initial=1.0))
    slow = fastest / np.where(fabric.rate_gbps > 0, fabric.rate_gbps, np.inf)
    for number in np.flatnonzero(problem.alone):
        mine, alone = samples.sample == number, float(problem.alone[number])
        ways, which = np.unique(row[mine] * fabric.n_switches + samples.sender[mine], return_inverse=True)
        flow = np.asarray(np.bincount(which.ravel(), samples.flow[mine], len(ways)), np.float64)
        to, sender = np.divmod(ways, fabric.n_switches)
        spread = Spread.of(hashed, at_switch[sender], of_row[to])
        even, worst = (float((load * slow).max(initial=0.0)) for load in (spread.even(flow), spread.worst(flow)))
        best = 1 / spread.best(flow * fastest, 1 / even, JOB_VARIABLES) if even else 0.0
        yield alone / max(alone, even), alone / max(alone, best), alone / max(alone, worst)
