"""Integer programs, by PuLP and HiGHS: the worst cut between halves of jobs, and the least parts of trees."""

from __future__ import annotations

from functools import cache
from math import ceil, gcd, inf
from typing import Any, NamedTuple

import numpy as np
import pulp
from numpy.typing import NDArray
from scipy.linalg import eigh, pinvh
from scipy.sparse.csgraph import connected_components

from costmodel.optimise.cuts import Floats, Halves
from topo.graphs import STEPS_PER_GBPS

MOST_VARIABLES, MOST_EDGES = 150, 600
"""Of a program for a cut that is tried; larger ones would take minutes."""
MOST_BRANCHES = 300
"""Nodes of HiGHS' own search, so that the answer is the same on each machine."""
ROUNDING = 1e-6

MOST_CUTS = 20
"""Programs one after the other, each at the share of the cut that the one before has found."""

Counts = NDArray[np.int64]


@cache
def _solver() -> pulp.HiGHS:
    return pulp.HiGHS(msg=False, threads=1, gapRel=0.0, mip_max_nodes=MOST_BRANCHES)


def solve(program: pulp.LpProblem) -> tuple[float, float]:
    """Return the least value that was found, infinite where there is none, and a lower bound of all of them.

    They are read from HiGHS itself: PuLP does not know what to say of a search that ended at its limit.
    """
    solver = _solver()
    solver.createAndConfigureSolver(program)
    solver.buildSolverModel(program)
    solver.callSolver(program)
    found = program.solverModel.getInfo()
    if found.primal_solution_status != 2:  # feasible
        return inf, inf if str(program.solverModel.getModelStatus()).endswith("Infeasible") else found.mip_dual_bound
    return found.objective_function_value, found.mip_dual_bound


def least_share(gbps: Floats, jobs: Halves, share: float) -> tuple[float, float]:
    """Find the share of its rate that every job gets over the worst of all cuts.

    Each switch is on one side; what is minimised are the links between the sides, less what the jobs ask for at a
    share (`Halves.lack`). If nothing is below 0, no cut is worse; else the share of the cut that was found is tried
    next. Before, switches are put together: those without adapters whose links are alike, which take the same side;
    networks of such that are alike, which do the same; leaves that are alike, of which a number counts.

    Parameters
    ----------
    gbps : (n, n) float64
        Gb/s between switches, symmetric.
    jobs : Halves
        What hangs on them.
    share : float
        That of the worst cut that is known.

    Returns
    -------
    tuple of float
        The share over the worst cut that was found, and a lower bound of all; equal where it is proven. The second is 0
        where the program would be too large.

    Examples
    --------
    >>> import numpy as np
    >>> from costmodel.optimise.cuts import Halves
    >>> ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> jobs = Halves.of(np.zeros(24, int), np.arange(24) % 6, np.full(24, 100.0), 6)
    >>> [round(share, 6) for share in least_share(100.0 * ring, jobs, 1.0)]
    [0.166667, 0.166667]
    """
    rates, at_once = np.append(gbps, jobs.held), len(jobs.half) > 1
    gbps, size, kept = _put_together(gbps, jobs.held)
    if len(kept) > MOST_VARIABLES or np.count_nonzero(np.triu(gbps)) + len(jobs.half) > MOST_EDGES:
        return share, 0.0
    share = share if at_once else 1.0  # of a single job the cut that is worst at one share is worst at each
    bound = 0.0
    for _ in range(MOST_CUTS):
        found = _worst_cut(gbps, size, kept, jobs, share)
        bound = _up(found.bound, rates, jobs) if share == 1.0 else found.bound
        worse = jobs.share(found.gbps, jobs.split(found.inside))[0] if found.lack < -ROUNDING else share
        if not at_once or worse > share - ROUNDING:
            return worse, min(worse, _less(share, bound, jobs))
        share = worse
    return share, 0.0


def _less(share: float, lack: float, jobs: Halves) -> float:
    """Share at which jobs lack nothing, if they lack no more than that at another share."""
    return max(share + min(lack + ROUNDING, 0.0) / float(jobs.half.min()), 0.0)


class _Cut(NamedTuple):
    lack: float
    """What the cut carries beyond what jobs ask for, the least that was found; infinite where nothing was."""
    bound: float
    """No cut has less."""
    gbps: float
    inside: Floats
    """(J,) Gb/s of each job on one side."""


def _worst_cut(gbps: Floats, size: Counts, kept: NDArray[np.intp], jobs: Halves, share: float) -> _Cut:
    """Find the cut at which jobs lack the most at a share."""
    program = pulp.LpProblem("cut", pulp.LpMinimize)
    inside = {v: program.add_variable(f"inside{v}", 0, int(size[v]), pulp.LpInteger) for v in kept.tolist()}
    links: list[pulp.LpAffineExpression] = []
    for one, other in zip(*(ends.tolist() for ends in np.nonzero(np.triu(gbps))), strict=True):
        many, single = (one, other) if size[one] > 1 else (other, one)
        apart, all_in = program.add_variable(f"apart{len(links)}", 0), int(size[many]) * inside[single]
        program += apart >= inside[many] - all_in
        program += apart >= all_in - inside[many]
        links.append(float(gbps[one, other]) * apart)
    held = [pulp.lpSum(float(row[v]) * inside[v] for v in kept.tolist() if row[v]) for row in jobs.held]
    asked = []
    for number, (mine, total, half) in enumerate(zip(held, jobs.total.tolist(), jobs.half.tolist(), strict=True)):
        # Below its whole rate a job may be so little apart that it asks for nothing.
        asks: Any = program.add_variable(f"asks{number}", 0, 1, pulp.LpInteger) if share < 1.0 else 1.0
        asked.append(program.add_variable(f"asked{number}", 0))
        for most in (mine, total - mine, half):
            program += asked[-1] <= most - (1 - share) * half * asks
        program += asked[-1] <= share * half * asks
    program += pulp.lpSum(links) - pulp.lpSum(asked)
    heaviest = kept[np.argmax(gbps[kept].sum(axis=1) * (size[kept] == 1))]
    if size[heaviest] == 1:
        program += inside[int(heaviest)] == 0  # a side and the other are one cut
    lack, bound = solve(program)
    if lack == inf:
        return _Cut(inf, bound, 0.0, np.zeros(len(held)))
    values = program.solverModel.getSolution().col_value
    for variable in program.variables():
        variable.varValue = values[variable.index]
    return _Cut(lack, bound, float(pulp.lpSum(links).value()), np.array([float(each.value()) for each in held]))


def _put_together(gbps: Floats, held: Floats) -> tuple[Floats, Counts, NDArray[np.intp]]:
    """Return links, how many leaves each switch stands for, and the switches that are left."""
    gbps, used = gbps.copy(), np.asarray(held.any(axis=0))
    left = used | (gbps.sum(axis=1) > 0)

    def drop(switches: NDArray[np.intp]) -> None:
        gbps[switches], gbps[:, switches], left[switches] = 0.0, 0.0, False

    while twins := [same for same in _alike(gbps, np.flatnonzero(left & ~used)) if len(same) > 1]:
        for same in twins:
            gbps[same[0]] *= len(same)
            gbps[:, same[0]] *= len(same)
            drop(same[1:])
    others = np.flatnonzero(left & ~used)
    colour = _colours(gbps, others, used)
    _, part_of = connected_components(gbps[np.ix_(others, others)] > 0)
    networks: dict[bytes, list[NDArray[np.intp]]] = {}
    for part in range(part_of.max(initial=-1) + 1):
        mine = np.flatnonzero(part_of == part)
        mine = mine[np.argsort(colour[mine])]
        if len(set(colour[mine])) == len(mine):  # so that there is one way to lay it on another
            among = gbps[np.ix_(others[mine], others[mine])]
            networks.setdefault(colour[mine].tobytes() + among.tobytes(), []).append(others[mine])
    for one, *more in networks.values():
        among = gbps[np.ix_(one, one)] * (1 + len(more))
        gbps[one] *= 1 + len(more)
        gbps[:, one] *= 1 + len(more)
        gbps[np.ix_(one, one)] = among
        for each in more:
            drop(each)
    size = np.ones(len(used), np.int64)
    alone = np.flatnonzero(left & used & ~gbps[:, used].any(axis=1))
    for same in _alike(np.concatenate([gbps, held.T], axis=1), alone):
        size[same[0]], left[same[1:]] = len(same), False
        gbps[same[1:]], gbps[:, same[1:]] = 0.0, 0.0
    return gbps, size, np.flatnonzero(left)


def _alike(rows: Floats, switches: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Return switches of equal rows."""
    found: dict[bytes, list[int]] = {}
    for switch in switches.tolist():
        found.setdefault(rows[switch].tobytes(), []).append(switch)
    return [np.array(same) for same in found.values()]


def _colours(gbps: Floats, others: NDArray[np.intp], used: NDArray[np.bool_]) -> Counts:
    """Tell switches apart by links to those with adapters, then by whom they are linked to (Weisfeiler, Leman 1968)."""
    if not len(others):
        return np.empty(0, np.int64)
    _, colour = np.unique(gbps[np.ix_(others, np.flatnonzero(used))], axis=0, return_inverse=True)
    colour = colour.ravel()
    among = gbps[np.ix_(others, others)]
    near = [np.flatnonzero(row) for row in among]
    while True:
        keys = [
            (int(colour[i]), *sorted(zip(among[i, of].tolist(), colour[of].tolist(), strict=True)))
            for i, of in enumerate(near)
        ]
        rank = {key: number for number, key in enumerate(sorted(set(keys)))}
        finer = np.array([rank[key] for key in keys])
        if finer.max() == colour.max():
            return np.asarray(finer)
        colour = finer


def spectral_share(gbps: Floats, jobs: Halves) -> float:
    """Lower bound of `least_share` by the second eigenvalue of the Laplacian (Fiedler 1973; Donath and Hoffman 1973).

    Switches without adapters lie where they cost least, between the sides too. It is exact for many grids, and loose
    for trees.

    Examples
    --------
    >>> import numpy as np
    >>> from costmodel.optimise.cuts import Halves
    >>> mesh = 100.0 * (1 - np.eye(6))
    >>> round(spectral_share(mesh, Halves.of(np.zeros(120, int), np.arange(120) % 6, np.full(120, 100.0), 6)), 6)
    0.15
    """
    held = jobs.held.sum(axis=0)
    used, others = np.flatnonzero(held), np.flatnonzero(held == 0)
    laplacian = np.diag(gbps.sum(axis=1)) - gbps
    to = laplacian[np.ix_(used, others)]
    reduced = laplacian[np.ix_(used, used)] - to @ pinvh(laplacian[np.ix_(others, others)]) @ to.T
    half, total = float(jobs.half.sum()), float(held.sum())
    scale = np.sqrt(held[used])
    second = max(float(eigh(reduced / np.outer(scale, scale), eigvals_only=True, subset_by_index=[1, 1])[0]), 0.0)
    # No more of the jobs crosses than they have on the lesser side, and what a cut has at least grows with that.
    share = min(1.0, second * (total - half) / total)
    return share if len(jobs.half) > 1 else 1 + _up((share - 1) * half, np.append(gbps, jobs.held), jobs) / half


def _up(lack: float, rates: Floats, jobs: Halves) -> float:
    """Round up to what a cut can lack at the whole rate of all jobs: a multiple of what divides all rates."""
    steps = np.unique(np.rint(np.append(rates, jobs.half) * STEPS_PER_GBPS)).astype(np.int64)
    step = gcd(*steps.tolist()) / STEPS_PER_GBPS
    return ceil(lack / step - ROUNDING) * step if abs(lack) < inf else lack
