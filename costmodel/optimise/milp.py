"""Mixed-integer linear programs, by PuLP and HiGHS, and the spectral bound: the worst cut of bisected jobs."""

from __future__ import annotations

from math import inf

import highspy
import numpy as np
import pulp
from numpy.typing import NDArray
from scipy.linalg import eigh, pinvh
from scipy.sparse.csgraph import connected_components

from costmodel.optimise.demand import SOLVER_TOLERANCE, BisectedJobs, Floats, Ints, Sides
from topo.graphs import mix, refine_colours

MOST_VARIABLES, MOST_EDGES = 150, 600
"""Size of the largest program for a cut that is solved; larger ones take minutes."""
MOST_SOLVER_NODES = 300
"""Nodes of the search tree of HiGHS. A limit of nodes, not of time, gives the same answer on each machine."""


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


class CutProgram:
    """The integer program that finds the worst cut of bisected jobs.

    It puts each switch on one side, and minimises gbps of the cut - share * what the jobs ask of it. If the minimum is
    not negative, no cut has a smaller quotient than the share. Equivalent switches are merged first: switches without
    adapters and with equal links, which take the same side; equal networks of such switches, likewise; and leaves with
    equal adapters and links, of which the number on a side is one variable.

    ``gbps`` is (n, n) float64 between switches, symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from costmodel.optimise.demand import BisectedJobs
    >>> ring = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0)
    >>> jobs = BisectedJobs.of(np.zeros(24, int), np.arange(24) % 6, np.full(24, 100.0), 6)
    >>> program = CutProgram(100.0 * ring, jobs)
    >>> inside, excluded = program.solve(0.5)  # three neighbours have 200 Gb/s for 1,200
    >>> int(inside.sum()), excluded, program.solve(1 / 6)[1]
    (3, False, True)
    """

    def __init__(self, gbps: Floats, jobs: BisectedJobs) -> None:
        self.jobs = jobs
        self.gbps, self.alike = _merge_equivalent(gbps, jobs)
        self.links = [ends.tolist() for ends in np.nonzero(np.triu(self.gbps))]
        self.rates = float(self.gbps.sum() / 2 + jobs.half.sum())
        """Gb/s of all links and halves; the objective of a solution is wrong by `SOLVER_TOLERANCE` of it at most."""

    @property
    def solvable(self) -> bool:
        """Whether the program is small enough to be solved."""
        edges = len(self.links[0]) + len(self.jobs.half)
        return len(self.alike) <= MOST_VARIABLES and edges <= MOST_EDGES

    def solve(self, share: float) -> tuple[Sides | None, bool]:
        """Search for a cut with a smaller quotient than a share.

        Return (n,) bool, the switches with adapters on one side of the cut that was found, None where none was; and
        whether it is proven that there is none.
        """
        program = pulp.LpProblem("cut", pulp.LpMinimize)
        inside = {v: program.add_variable(f"inside{v}", 0, len(of), pulp.LpInteger) for v, of in self.alike.items()}
        apart: list[pulp.LpAffineExpression] = []
        for one, other in zip(*self.links, strict=True):
            many, single = (one, other) if len(self.alike[one]) > 1 else (other, one)
            across, all_in = program.add_variable(f"apart{len(apart)}", 0), len(self.alike[many]) * inside[single]
            program += across >= inside[many] - all_in
            program += across >= all_in - inside[many]
            apart.append(float(self.gbps[one, other]) * across)
        asked, jobs = [], self.jobs
        for number, half in enumerate(jobs.half.tolist()):
            row, total = jobs.on_switch[number], float(jobs.total[number])
            mine = pulp.lpSum(float(row[v]) * count for v, count in inside.items() if row[v])
            asked.append(program.add_variable(f"asked{number}", 0, half))
            program += asked[-1] <= mine
            program += asked[-1] <= total - mine
        program += pulp.lpSum(apart) - share * pulp.lpSum(asked)
        single = [v for v, of in self.alike.items() if len(of) == 1]
        if single:  # exchanging the sides gives the same cut
            program += inside[max(single, key=lambda v: float(self.gbps[v].sum()))] == 0
        found, bound = solve(program)
        tolerance = SOLVER_TOLERANCE * self.rates
        if not found < -tolerance:
            return None, bound >= -tolerance
        values = program.solverModel.getSolution().col_value
        side = np.zeros(len(self.gbps), bool)
        for v, of in self.alike.items():
            side[of[: round(values[inside[v].index])]] = True
        return side & self.jobs.on_switch.any(axis=0), False


def _merge_equivalent(gbps: Floats, jobs: BisectedJobs) -> tuple[Floats, dict[int, NDArray[np.intp]]]:
    """Merge equivalent switches: see `CutProgram`.

    Return (n, n) Gb/s between the switches that are left, and of each of them the leaves that it stands for, or itself.
    """
    on_switch, gbps = jobs.on_switch, gbps.copy()
    used = np.asarray(on_switch.any(axis=0))
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
    alone = np.flatnonzero(left & used & ~gbps[:, used].any(axis=1))
    alike = _equal_rows(np.concatenate([gbps, on_switch.T], axis=1), alone)
    for same in alike:
        drop(same[1:])
    return gbps, {v: np.array([v]) for v in np.flatnonzero(left).tolist()} | {int(same[0]): same for same in alike}


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
    among = gbps[np.ix_(others, others)]
    near, far = np.nonzero(among)
    found = refine_colours(mix(colour.ravel().astype(np.uint64)), near, far, mix(among[near, far].view(np.uint64)))
    return np.unique(found, return_inverse=True)[1]


def spectral_share(gbps: Floats, jobs: BisectedJobs) -> float:
    """Lower bound of the quotient of all cuts, by an eigenvalue (Fiedler 1973; Donath and Hoffman 1973).

    With the part p of all Gb/s r of a job on a side, the job asks of a cut at most

        r p (1 - p) r / (r - half),

    which is r min(p, 1 - p) at the halves, and no less elsewhere.

    The bound of all jobs is a quadratic form B of the sides, and the links of the cut are the Laplacian L, so that the
    quotient is at least 1 / the largest eigenvalue of B relative to L. Switches without adapters are eliminated by the
    Schur complement, which places them at the minimum of L. The bound is exact for many grids, and weak for trees.

    Examples
    --------
    >>> import numpy as np
    >>> mesh = 100.0 * (1 - np.eye(6))
    >>> round(spectral_share(mesh, BisectedJobs.of(np.zeros(120, int), np.arange(120) % 6, np.full(120, 100.0), 6)), 6)
    0.15
    """
    used = np.flatnonzero(jobs.on_switch.any(axis=0))
    others = np.setdiff1d(np.arange(len(gbps)), used)
    if len(set(connected_components(gbps > 0)[1][used].tolist())) > 1:
        return 0.0
    laplacian = np.diag(gbps.sum(axis=1)) - gbps
    to = laplacian[np.ix_(used, others)]
    reduced = laplacian[np.ix_(used, used)] - to @ pinvh(laplacian[np.ix_(others, others)]) @ to.T
    of_job, total = jobs.on_switch[:, used], jobs.total
    factor = total / (total - jobs.half)
    asked = np.diag(factor @ of_job) - (of_job.T * (factor / total)) @ of_job
    # both forms are 0 where all switches are on one side: there L gets a value of its own
    links = reduced + max(float(np.trace(reduced)), 1.0) / len(used) ** 2
    return min(1 / float(eigh(asked, links, eigvals_only=True, driver="gvd")[-1]), 1.0)
