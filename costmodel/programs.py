"""Integer programs, by PuLP and HiGHS: the least cut between halves of jobs, and the least parts of trees."""

from __future__ import annotations

from functools import cache
from math import ceil, gcd, inf

import numpy as np
import pulp
from numpy.typing import NDArray
from scipy.linalg import eigh, pinvh
from scipy.sparse.csgraph import connected_components

from topo.flow import STEPS_PER_GBPS

MOST_VARIABLES, MOST_EDGES = 150, 600
"""Of a program for a cut that is tried; larger ones would take minutes."""
MOST_BRANCHES = 300
"""Nodes of HiGHS' own search, so that the answer is the same on each machine."""
ROUNDING = 1e-6

Floats = NDArray[np.float64]
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


def least_cut(gbps: Floats, hosts: Counts, rate: float) -> tuple[float, float]:
    """Find what the worst halves of jobs can exchange: the least of all cuts, with what each half has on both sides.

    Each switch is on one side; what is minimised are its links out, and the adapters of each job that are not on the
    side of their half. Before, switches are put together: those without adapters whose links are alike, which take the
    same side; networks of such that are alike, which do the same; leaves that are alike, of which a number counts.

    Parameters
    ----------
    gbps : (n, n) float64
        Gb/s between switches, symmetric.
    hosts : (jobs, n) int64
        Adapters of each job on each switch.
    rate : float
        Gb/s of an adapter.

    Returns
    -------
    tuple of float
        The least cut that was found, and a lower bound of all; equal where it is proven. Infinite and 0 where the
        program would be too large.

    Examples
    --------
    >>> import numpy as np
    >>> ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> least_cut(100.0 * ring, np.full((1, 6), 4), 100.0)
    (200.0, 200.0)
    """
    links = gbps
    gbps, size, kept = _put_together(gbps, hosts)
    a, b = np.nonzero(np.triu(gbps))
    if len(kept) > MOST_VARIABLES or len(a) + len(hosts) > MOST_EDGES:
        return inf, 0.0
    program = pulp.LpProblem("cut", pulp.LpMinimize)
    inside = {v: program.add_variable(f"inside{v}", 0, int(size[v]), pulp.LpInteger) for v in kept.tolist()}
    cost: list[pulp.LpAffineExpression] = []
    for one, other in zip(a.tolist(), b.tolist(), strict=True):
        many, single = (one, other) if size[one] > 1 else (other, one)
        apart, all_in = program.add_variable(f"apart{len(cost)}", 0), int(size[many]) * inside[single]
        program += apart >= inside[many] - all_in
        program += apart >= all_in - inside[many]
        cost.append(float(gbps[one, other]) * apart)
    for row in hosts:
        total, half = int(row.sum()), int(row.sum()) // 2
        held = pulp.lpSum(int(row[v]) * inside[v] for v in kept.tolist() if row[v])
        among = program.add_variable(f"among{len(cost)}", 0)
        program += among >= half - held
        program += among >= half - (total - held)
        cost.append(rate * among)
    program += pulp.lpSum(cost)
    heaviest = kept[np.argmax(gbps[kept].sum(axis=1) * (size[kept] == 1))]
    if size[heaviest] == 1:
        program += inside[int(heaviest)] == 0  # a side and the other are one cut
    found, bound = solve(program)
    return _up(found, links, rate), _up(bound, links, rate)


def _put_together(gbps: Floats, hosts: Counts) -> tuple[Floats, Counts, NDArray[np.intp]]:
    """Return links, how many leaves each switch stands for, and the switches that are left."""
    gbps, used = gbps.copy(), hosts.sum(axis=0) > 0
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
    for same in _alike(np.concatenate([gbps, hosts.T], axis=1), alone):
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


def spectral_cut(gbps: Floats, hosts: Counts, rate: float) -> float:
    """Lower bound of `least_cut` by the second eigenvalue of the Laplacian (Fiedler 1973; Donath and Hoffman 1973).

    Switches without adapters lie where they cost least, between the sides too. It is exact for many grids, and loose
    for trees.

    Examples
    --------
    >>> import numpy as np
    >>> mesh = 100.0 * (1 - np.eye(6))
    >>> round(spectral_cut(mesh, np.full((1, 6), 20), 100.0))
    900
    """
    held = hosts.sum(axis=0)
    used, others = np.flatnonzero(held), np.flatnonzero(held == 0)
    laplacian = np.diag(gbps.sum(axis=1)) - gbps
    to = laplacian[np.ix_(used, others)]
    reduced = laplacian[np.ix_(used, used)] - to @ pinvh(laplacian[np.ix_(others, others)]) @ to.T
    half, total = float((hosts.sum(axis=1) // 2).sum()), float(held.sum())
    if len(used) < 2:
        return rate * half
    scale = np.sqrt(held[used].astype(np.float64))
    second = max(float(eigh(reduced / np.outer(scale, scale), eigvals_only=True, subset_by_index=[1, 1])[0]), 0.0)
    return _up(min(rate * half, second * half * (total - half) / total), gbps, rate)


def _up(bound: float, gbps: Floats, rate: float) -> float:
    """Round a bound up to what a cut can be: a multiple of what divides all rates."""
    steps = np.unique(np.rint(np.append(gbps, rate) * STEPS_PER_GBPS)).astype(np.int64)
    step = gcd(*steps.tolist()) / STEPS_PER_GBPS
    return ceil(bound / step - ROUNDING) * step if bound < inf else inf
