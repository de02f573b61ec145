"""Mixed-integer linear programs, by PuLP and HiGHS, and the spectral bound: the worst cut of bisected jobs."""

from __future__ import annotations

from math import ceil, gcd, inf
from typing import Any, NamedTuple

import highspy
import numpy as np
import pulp
from numpy.typing import NDArray
from scipy.linalg import eigh, pinvh
from scipy.sparse.csgraph import connected_components

from costmodel.optimise.demand import BisectedJobs, Floats, Ints
from topo.graphs import STEPS_PER_GBPS

MOST_VARIABLES, MOST_EDGES = 150, 600
"""Size of the largest program for a cut that is solved; larger ones take minutes."""
MOST_SOLVER_NODES = 300
"""Nodes of the search tree of HiGHS. A limit of nodes, not of time, gives the same answer on each machine."""
SOLVER_TOLERANCE = 1e-6
"""Error of what HiGHS returns: its options ``mip_feasibility_tolerance`` and ``mip_abs_gap`` are 1e-6."""
MOST_PROGRAMS = 20
"""Programs in a row for one cut, each at the share that the one before it has found."""


class _Solver(highspy.Highs):
    """HiGHS that writes nothing to standard output; else it writes a banner as soon as its callbacks are enabled."""

    def enableCallbacks(self) -> None:  # noqa: N802  # the name is that of highspy
        self.setOptionValue("output_flag", False)
        super().enableCallbacks()  # type: ignore[no-untyped-call]


def solve(program: pulp.LpProblem) -> tuple[float, float]:
    """Solve a minimisation. Return the objective of the best solution, and a lower bound of all solutions.

    Both are infinite where the program is infeasible. The values come from HiGHS itself, because PuLP has no status for
    a search that ended at its limit of nodes.
    """
    solver = program.solverModel = _Solver()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "threads": 1, "mip_rel_gap": 0.0, "mip_max_nodes": MOST_SOLVER_NODES}
    for name, value in options.items():
        solver.setOptionValue(name, value)
    pulp.HiGHS().buildSolverModel(program)
    solver.run()
    found = solver.getInfo()
    if found.primal_solution_status != 2:  # feasible
        return inf, inf if str(solver.getModelStatus()).endswith("Infeasible") else found.mip_dual_bound
    return found.objective_function_value, found.mip_dual_bound


def least_share(gbps: Floats, jobs: BisectedJobs, share: float) -> tuple[float, float]:
    """Find the share of its rate that every job gets over the worst of all cuts.

    The program puts each switch on one side, and minimises `BisectedJobs.surplus` at a share. If the minimum is not
    negative, no cut is worse. Otherwise the share of the cut that was found is tried next. Equivalent switches are
    merged first: switches without adapters and with equal links, which take the same side; equal networks of such
    switches, likewise; and leaves with equal adapters and links, of which the number on a side is one variable.

    Parameters
    ----------
    gbps : (n, n) float64
        Gb/s between switches, symmetric.
    jobs : BisectedJobs
        The jobs on these switches.
    share : float
        Share over the worst cut known so far.

    Returns
    -------
    tuple of float
        The share over the worst cut found, and a lower bound over all cuts; equal where the cut is proven to be the
        worst. The bound is 0 where the program is too large to be solved.

    Examples
    --------
    >>> import numpy as np
    >>> from costmodel.optimise.demand import BisectedJobs
    >>> ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> jobs = BisectedJobs.of(np.zeros(24, int), np.arange(24) % 6, np.full(24, 100.0), 6)
    >>> [round(share, 6) for share in least_share(100.0 * ring, jobs, 1.0)]
    [0.166667, 0.166667]
    """
    rates, at_once = np.append(gbps, jobs.on_switch), len(jobs.half) > 1
    gbps, size, kept = _merge_equivalent(gbps, jobs.on_switch)
    if len(kept) > MOST_VARIABLES or np.count_nonzero(np.triu(gbps)) + len(jobs.half) > MOST_EDGES:
        return share, 0.0
    share = share if at_once else 1.0  # the worst cut of a single job is the same at each share
    bound = 0.0
    for _ in range(MOST_PROGRAMS):
        found = _worst_cut(gbps, size, kept, jobs, share)
        bound = _round_up(found.bound, rates, jobs) if share == 1.0 else found.bound
        worse = jobs.share(found.gbps, jobs.crossing(found.inside))[0] if found.surplus < -SOLVER_TOLERANCE else share
        if not at_once or worse > share - SOLVER_TOLERANCE:
            return worse, min(worse, _share_bound(share, bound, jobs))
        share = worse
    return share, 0.0


def _share_bound(share: float, surplus: float, jobs: BisectedJobs) -> float:
    """Lower bound of the share over all cuts, from a lower bound of their surplus at another share.

    A share that is smaller by d lowers what a divided job needs by d * half, hence share + surplus / min(half).
    """
    return max(share + min(surplus + SOLVER_TOLERANCE, 0.0) / float(jobs.half.min()), 0.0)


class _Cut(NamedTuple):
    surplus: float
    """Gb/s of the best solution (`BisectedJobs.surplus`); infinite where none was found."""
    bound: float
    """Lower bound of the surplus of all cuts."""
    gbps: float
    """Gb/s of the links between the sides."""
    inside: Floats
    """(J,) Gb/s of each job on one side."""


def _worst_cut(gbps: Floats, size: Ints, kept: NDArray[np.intp], jobs: BisectedJobs, share: float) -> _Cut:
    """Find the cut with the least surplus at a share."""
    program = pulp.LpProblem("cut", pulp.LpMinimize)
    inside = {v: program.add_variable(f"inside{v}", 0, int(size[v]), pulp.LpInteger) for v in kept.tolist()}
    links: list[pulp.LpAffineExpression] = []
    for one, other in zip(*(ends.tolist() for ends in np.nonzero(np.triu(gbps))), strict=True):
        many, single = (one, other) if size[one] > 1 else (other, one)
        apart, all_in = program.add_variable(f"apart{len(links)}", 0), int(size[many]) * inside[single]
        program += apart >= inside[many] - all_in
        program += apart >= all_in - inside[many]
        links.append(float(gbps[one, other]) * apart)
    on_side = [pulp.lpSum(float(row[v]) * inside[v] for v in kept.tolist() if row[v]) for row in jobs.on_switch]
    needed = []
    for number, (mine, total, half) in enumerate(zip(on_side, jobs.total.tolist(), jobs.half.tolist(), strict=True)):
        # At a share below 1 a job of which little crosses needs nothing of the cut.
        needs: Any = program.add_variable(f"needs{number}", 0, 1, pulp.LpInteger) if share < 1.0 else 1.0
        needed.append(program.add_variable(f"needed{number}", 0))
        for most in (mine, total - mine, half):
            program += needed[-1] <= most - (1 - share) * half * needs
        program += needed[-1] <= share * half * needs
    program += pulp.lpSum(links) - pulp.lpSum(needed)
    heaviest = kept[np.argmax(gbps[kept].sum(axis=1) * (size[kept] == 1))]
    if size[heaviest] == 1:
        program += inside[int(heaviest)] == 0  # exchanging the sides gives the same cut
    surplus, bound = solve(program)
    if surplus == inf:
        return _Cut(inf, bound, 0.0, np.zeros(len(on_side)))
    values = program.solverModel.getSolution().col_value
    for variable in program.variables():
        variable.varValue = values[variable.index]
    return _Cut(surplus, bound, float(pulp.lpSum(links).value()), np.array([float(each.value()) for each in on_side]))


def _merge_equivalent(gbps: Floats, on_switch: Floats) -> tuple[Floats, Ints, NDArray[np.intp]]:
    """Merge equivalent switches: see `least_share`.

    Returns
    -------
    tuple of arrays
        (n, n) Gb/s between the switches that are left, (n,) the number of leaves that each stands for, and their
        indices.
    """
    gbps, used = gbps.copy(), np.asarray(on_switch.any(axis=0))
    left = used | (gbps.sum(axis=1) > 0)

    def drop(switches: NDArray[np.intp]) -> None:
        gbps[switches], gbps[:, switches], left[switches] = 0.0, 0.0, False

    while twins := [same for same in _equal_rows(gbps, np.flatnonzero(left & ~used)) if len(same) > 1]:
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
        if len(set(colour[mine])) == len(mine):  # then only one map between two such networks has to be compared
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
    for same in _equal_rows(np.concatenate([gbps, on_switch.T], axis=1), alone):
        size[same[0]], left[same[1:]] = len(same), False
        gbps[same[1:]], gbps[:, same[1:]] = 0.0, 0.0
    return gbps, size, np.flatnonzero(left)


def _equal_rows(rows: Floats, switches: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    """Group switches by their row of a matrix."""
    found: dict[bytes, list[int]] = {}
    for switch in switches.tolist():
        found.setdefault(rows[switch].tobytes(), []).append(switch)
    return [np.array(same) for same in found.values()]


def _colours(gbps: Floats, others: NDArray[np.intp], used: NDArray[np.bool_]) -> Ints:
    """Colour switches without adapters by refinement (Weisfeiler and Leman 1968).

    The first colour is given by the links to switches with adapters, each further one by the colours of the neighbours.
    """
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


def spectral_share(gbps: Floats, jobs: BisectedJobs) -> float:
    """Lower bound of `least_share` by the second eigenvalue of the Laplacian (Fiedler 1973; Donath and Hoffman 1973).

    Switches without adapters are eliminated by the Schur complement, which places them at the minimum of the quadratic
    form. The bound is exact for many grids, and weak for trees.

    Examples
    --------
    >>> import numpy as np
    >>> from costmodel.optimise.demand import BisectedJobs
    >>> mesh = 100.0 * (1 - np.eye(6))
    >>> round(spectral_share(mesh, BisectedJobs.of(np.zeros(120, int), np.arange(120) % 6, np.full(120, 100.0), 6)), 6)
    0.15
    """
    gbps_on = jobs.on_switch.sum(axis=0)
    used, others = np.flatnonzero(gbps_on), np.flatnonzero(gbps_on == 0)
    laplacian = np.diag(gbps.sum(axis=1)) - gbps
    to = laplacian[np.ix_(used, others)]
    reduced = laplacian[np.ix_(used, used)] - to @ pinvh(laplacian[np.ix_(others, others)]) @ to.T
    half, total = float(jobs.half.sum()), float(gbps_on.sum())
    scale = np.sqrt(gbps_on[used])
    second = max(float(eigh(reduced / np.outer(scale, scale), eigvals_only=True, subset_by_index=[1, 1])[0]), 0.0)
    # At most the rate on the smaller side crosses, and the lower bound of a cut grows with that rate.
    share = min(1.0, second * (total - half) / total)
    if len(jobs.half) > 1:
        return share
    return 1 + _round_up((share - 1) * half, np.append(gbps, jobs.on_switch), jobs) / half


def _round_up(surplus: float, rates: Floats, jobs: BisectedJobs) -> float:
    """Round a bound of the surplus at the full rate up to a multiple of the greatest common divisor of all rates."""
    steps = np.unique(np.rint(np.append(rates, jobs.half) * STEPS_PER_GBPS)).astype(np.int64)
    step = gcd(*steps.tolist()) / STEPS_PER_GBPS
    return ceil(surplus / step - SOLVER_TOLERANCE) * step if abs(surplus) < inf else surplus
