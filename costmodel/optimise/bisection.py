"""Bandwidth that any routing can reach at best: maximum flows, and jobs that are bisected as badly as possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import floor, inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra, maximum_flow
from scipy.sparse.linalg import eigsh

from costmodel.optimise.demand import BisectedJobs, Floats, Ints, Sides
from costmodel.optimise.milp import SOLVER_TOLERANCE, least_share, spectral_share
from costmodel.optimise.problem import MOST_JOBS, job_windows
from topo.fabric import Fabric, Kind, Role
from topo.graphs import STEPS_PER_GBPS, max_flow_gbps

MOST_ENUMERATED = 17
"""Switches up to which all 2^16 cuts are enumerated, so that the worst cut is exact."""
GBPS_TOLERANCE = 1e-6
"""Rates that differ by less are equal: they are multiples of 0.02 Gb/s (`STEPS_PER_GBPS`), so the rest is rounding."""
MOST_MOVED = 400
"""Switches up to which the local search moves single switches."""
MOST_SPECTRAL = 3_000
"""Switches up to which eigenvectors are computed."""
MOST_ALONE = 8
"""Jobs among several from which a descent of their own starts, evenly spaced."""
MOST_PROVEN = 2_000
"""Switches up to which a lower bound is computed."""


@dataclass(frozen=True)
class Bisection:
    """Share of its rate at which one half of a job can send to the other half, for the worst choice of the halves.

    Examples
    --------
    >>> from costmodel import Bisection
    >>> print(Bisection(0.5, 0.5), Bisection(0.5), Bisection(0.5, 0.2), sep=", ")
    50.0%, at most 50.0%, 20.0% to 50.0%
    """

    share: float
    """Share for the worst choice that was found: an upper bound."""
    least: float = 0.0
    """Lower bound of the share for all choices; 0 where none is known."""
    worst: str = field(default="", compare=False)
    """The job that gets this share, where there are several."""
    gbps: float = field(default=0.0, compare=False)
    """Full rate of one half of all jobs, in Gb/s."""

    @property
    def exact(self) -> bool:
        """Whether the share is proven to be that of the worst choice."""
        return self.least >= self.share * (1 - SOLVER_TOLERANCE)

    def __str__(self) -> str:
        at_most = f"{floor(self.least * 1_000) / 1_000:.1%} to " if self.least else "at most "
        return f"{'' if self.exact else at_most}{self.share:.1%}"


def flow_gbps(fabric: Fabric, sources: Sides, sinks: Sides) -> float:
    """Maximum flow from source adapters to sink adapters, in Gb/s.

    Parameters
    ----------
    sources, sinks : (N,) bool
        Nodes that send and nodes that receive, each at the rate of its ports.
    """
    rate = fabric.rate_gbps[fabric.links].min(axis=1)
    links = fabric.port_node[fabric.links]
    out = np.bincount(links.ravel(), np.repeat(rate, 2), fabric.n_nodes).astype(np.float64)
    return max_flow_gbps(links, rate, out * sources, out * sinks)


def bisection(
    fabrics: Sequence[Fabric],
    job: int | Mapping[int, float] | None = None,
    *,
    with_storage: bool = False,
    alone: bool = False,
    descents: int = 8,
    stop_below: float = 0.0,
    prove: bool = True,
) -> Bisection:
    """Share of its full rate at which one half of each job can send to the other half, for the worst bisection.

    Compute nodes are divided into jobs of ``job`` nodes in the order of the spec, which is also their order on the
    leaves. In each subnet the adapters of each job, and of the storage, are bisected so that the share that every job
    gets at the same time is minimal (`costmodel.optimise.demand`); for one job this is a minimum balanced cut.

    On small subnets all cuts are enumerated, and the share is exact. On larger ones a local search finds a bad cut, an
    upper bound; an integer program and the second eigenvalue of the Laplacian prove it or give a lower bound. A job of
    one node has share 1. If the adapters of a job have several rates, a half is half of their sum.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets of the cluster.
    job : int or mapping, optional
        Nodes of a job, or the share of the compute nodes by the size of the jobs that they run; one job on all compute
        nodes when omitted.
    with_storage : bool
        Whether the storage adapters in the zones of the jobs send and receive too.
    alone : bool
        Whether each job has the network to itself, and the worst job counts; of many jobs only `MOST_JOBS` are
        measured, evenly spaced.
    descents : int
        Descents from random halves, in addition to those from halves that are often bad.
    stop_below : float
        The first cut with a share below this is returned, without a search for a worse one.
    prove : bool
        Whether to compute a lower bound.

    Returns
    -------
    Bisection
        The share, its lower bound, and the job that gets it.

    Examples
    --------
    >>> import costmodel, topo
    >>> print(costmodel.bisection(topo.preset("lab-20").fabrics))
    100.0%
    >>> print(costmodel.bisection(topo.preset("fire-flyer-2").fabrics))
    3.3%
    """
    hosts = _hosts(fabrics, Role.COMPUTE)
    windows = job_windows(len(hosts), job or len(hosts))
    if alone and len(windows) > MOST_JOBS:
        windows = windows[np.linspace(0, len(windows) - 1, MOST_JOBS).astype(int)]
    rank = {host: number for number, host in enumerate(hosts)}
    subnets = [_Subnet(fabric, rank) for fabric in fabrics]
    worst = Bisection(1.0, 1.0)
    for at_once in np.split(windows, len(windows)) if alone and len(windows) else [windows]:
        found = [
            subnet.worst_cut(at_once, descents, stop_below, with_storage=with_storage, prove=prove)
            for subnet in subnets
        ]
        weight = np.array([each.gbps for each in found])
        if not weight.sum():
            continue
        share, least = (
            float(np.average([getattr(each, name) for each in found], weights=weight)) for name in ("share", "least")
        )
        job_of = min(found, key=lambda each: each.share if each.gbps else 2.0).job
        if share < worst.share:
            worst = replace(worst, share=share, worst=_job_name(job_of, at_once, hosts) if len(windows) > 1 else "")
        worst = replace(worst, least=min(worst.least, least), gbps=max(worst.gbps, float(weight.sum())))
        if worst.share < stop_below:
            break
    return worst


def _job_name(job: int, windows: Ints, hosts: Sequence[str]) -> str:
    """Name a job by its first and last node; numbers after the last job are the storage of each zone."""
    if job >= len(windows):
        return "the storage"
    first, last = windows[job].tolist()
    return f"{hosts[first]} to {hosts[last - 1]}"


def serving_gbps(fabrics: Sequence[Fabric], role: Role = Role.STORAGE) -> float:
    """Maximum flow from all servers of a role together to all compute nodes, in Gb/s.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.serving_gbps(topo.preset("fire-flyer-2").fabrics) / 8_000  # TB/s
    9.0
    """
    servers, compute = set(_hosts(fabrics, role)), set(_hosts(fabrics, Role.COMPUTE))
    return sum(flow_gbps(fabric, _adapters(fabric, servers), _adapters(fabric, compute)) for fabric in fabrics)


class _Subnet:
    """A subnet as its switches, the capacities between them, and the adapters linked to them.

    ``a``, ``b`` and ``gbps`` are the linked pairs of switches with their capacity; ``leaf``, ``rate``, ``zone``,
    ``role`` and ``rank`` the switch, Gb/s, zone, role and compute rank (else -1) of each adapter.
    """

    def __init__(self, fabric: Fabric, rank: dict[str, int]) -> None:
        self.n = n = fabric.n_switches
        rate = fabric.rate_gbps[fabric.links].min(axis=1)
        ends = np.sort(fabric.port_node[fabric.links], axis=1)
        inner = (ends[:, 1] < n) & (ends[:, 0] != ends[:, 1])
        pairs, where = np.unique(ends[inner, 0].astype(np.int64) * n + ends[inner, 1], return_inverse=True)
        self.a, self.b = pairs // n, pairs % n
        self.gbps = np.bincount(where, rate[inner], len(pairs))
        hung = (ends[:, 0] < n) & (fabric.kind[ends[:, 1]] == Kind.HCA) & (fabric.host[ends[:, 1]] >= 0)
        nodes = ends[hung, 1]
        order = np.argsort(ends[hung, 0], kind="stable")
        self.leaf, self.rate = ends[hung, 0][order], rate[hung][order]
        self.zone, self.role = fabric.zone[nodes][order], fabric.role[nodes][order]
        if not fabric.arrangement.startswith("levels"):
            self.zone = np.zeros_like(self.zone)  # without levels all groups share the storage
        self.rank = np.array([rank.get(host, -1) for host in fabric.hosts], np.int64)[fabric.host[nodes]][order]

    def jobs(self, windows: Ints, *, with_storage: bool) -> Ints:
        """Return the job of each adapter, -1 for none. The storage of each zone with jobs is one more job."""
        job = np.searchsorted(windows[:, 0], self.rank, "right") - 1
        job[(self.rank < 0) | (self.rank >= np.append(windows[:, 1], 0)[job])] = -1
        if with_storage:
            beside = (self.role == Role.STORAGE) & np.isin(self.zone, np.unique(self.zone[job >= 0]))
            job[beside] = len(windows) + self.zone[beside] - self.zone.min(initial=0)
        return np.asarray(job)

    def worst_cut(
        self, windows: Ints, descents: int, stop_below: float, *, with_storage: bool, prove: bool
    ) -> _WorstCut:
        """Return the share that every job gets over the worst cut found, and a lower bound over all cuts."""
        job = self.jobs(windows, with_storage=with_storage)
        members = np.flatnonzero(job >= 0)
        jobs = BisectedJobs.of(job[members], self.leaf[members], self.rate[members], self.n)
        gbps = float(self.rate[members].sum()) / 2
        if not len(jobs.half):
            return _WorstCut(1.0, 1.0, -1, gbps)
        if len(self.placed) <= MOST_ENUMERATED:
            share, worst = self._enumerate(jobs)
            return _WorstCut(share, share, int(jobs.number[worst]), gbps)
        found = _LocalSearch(self, jobs, job, stop_below)
        found.run(descents)
        if not prove or self.n > MOST_PROVEN or found.share < stop_below:
            return _WorstCut(found.share, 0.0, int(jobs.number[found.worst]), gbps)
        spectral = self.n <= MOST_MOVED or bool(jobs.on_switch.any(axis=0).all())  # the bound is weak for trees
        share, least = found.share, spectral_share(self.dense, jobs) if spectral else 0.0
        if least < share - SOLVER_TOLERANCE:
            better, bound = least_share(self.dense, jobs, share)
            share, least = min(share, better), max(least, bound)
        return _WorstCut(share, min(least, share), int(jobs.number[found.worst]), gbps)

    @cached_property
    def placed(self) -> NDArray[np.intp]:
        """Switches whose sides determine the worst cut: the others have no adapters, and only these as neighbours."""
        other = np.bincount(self.leaf, minlength=self.n) == 0
        for a, b in zip(self.a.tolist(), self.b.tolist(), strict=True):
            if other[a] and other[b]:
                other[b] = False
        return np.flatnonzero(~other)

    def _enumerate(self, jobs: BisectedJobs) -> tuple[float, int]:
        """Return the least share that every job gets over any cut, and the job that is divided most."""
        placed, dense = self.placed, self.dense
        others = np.setdiff1d(np.arange(self.n), placed)
        sets = (np.arange(1 << max(len(placed) - 1, 0))[:, None] >> np.arange(len(placed)) & 1).astype(np.float64)
        among = dense[np.ix_(placed, placed)]
        cut = sets @ among.sum(axis=1) - ((sets @ among) * sets).sum(axis=1)
        up = sets @ dense[np.ix_(placed, others)]
        cut += np.minimum(up, dense[placed][:, others].sum(axis=0) - up).sum(axis=1)
        share, worst = 1.0, 0
        while True:
            surplus = cut.copy()
            for row in range(len(jobs.half)):
                one = replace(jobs, on_switch=jobs.on_switch[row : row + 1], half=jobs.half[row : row + 1])
                surplus += one.surplus(np.zeros(1), (sets @ jobs.on_switch[row, placed])[None], share)
            at = int(surplus.argmin())
            less, divided = jobs.share(float(cut[at]), jobs.crossing(jobs.on_switch[:, placed] @ sets[at]))
            if less >= share - SOLVER_TOLERANCE:
                return share, worst
            share, worst = less, divided

    def starts(self, leaf: NDArray[np.intp], descents: int) -> Iterator[Floats]:
        """Yield a key for each switch, for each start: the half with the lower keys is one side."""
        yield np.arange(self.n, dtype=np.float64)
        yield -np.bincount(leaf, minlength=self.n).astype(np.float64)
        draw = np.random.default_rng(0)
        yield from (draw.random(self.n) for _ in range(descents))
        if len(self.a):  # distance to one end of a link less that to the other: the cuts of grids (Djokovic 1973)
            links = draw.permutation(len(self.a))[: 2 * descents + 2]
            graph = coo_array((np.ones(len(self.a)), (self.a, self.b)), shape=(self.n, self.n)).tocsr()
            near, far = (dijkstra(graph, False, ends[links], unweighted=True) for ends in (self.a, self.b))
            yield from np.subtract(near, far, out=np.zeros_like(near), where=np.isfinite(near))
        yield from self._eigenvectors

    @cached_property
    def _eigenvectors(self) -> list[Floats]:
        """Eigenvectors of the smallest eigenvalues of the Laplacian, which indicate narrow cuts (Fiedler 1973)."""
        if not 5 < self.n <= MOST_SPECTRAL:
            return []
        ends = (np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a]))
        links = coo_array((np.tile(self.gbps, 2), ends), shape=(self.n, self.n)).tocsc()
        scale = max(float(self.gbps.max(initial=0.0)), 1.0)
        shifted = (diags_array(links.sum(axis=0) + scale) - links) / scale  # positive definite
        return list(eigsh(shifted, k=4, sigma=0.0, v0=np.arange(1.0, self.n + 1))[1].T[::-1])

    @cached_property
    def dense(self) -> Floats:
        """(n, n) Gb/s between switches."""
        dense = np.zeros((self.n, self.n))
        dense[self.a, self.b] = dense[self.b, self.a] = self.gbps
        return dense

    def cut(self, sends: Floats, receives: Floats) -> tuple[float, Sides]:
        """Return the maximum flow between switches in Gb/s, and the senders' side of the minimum cut."""
        every, (source, sink) = np.arange(self.n), (self.n, self.n + 1)
        from_node = np.concatenate([self.a, self.b, np.full(self.n, source), every])
        to_node = np.concatenate([self.b, self.a, every, np.full(self.n, sink)])
        gbps = np.concatenate([self.gbps, self.gbps, sends, receives])
        steps = np.rint(gbps * STEPS_PER_GBPS).astype(np.int32)
        graph = coo_array((steps, (from_node, to_node)), shape=(sink + 1, sink + 1)).tocsr()
        flow = maximum_flow(graph, source, sink)
        left = graph - flow.flow
        left.data = np.maximum(left.data, 0)
        left.eliminate_zeros()
        side = np.zeros(sink + 1, bool)
        side[breadth_first_order(left, source, return_predecessors=False)] = True
        return flow.flow_value / STEPS_PER_GBPS, side[: self.n]


class _WorstCut(NamedTuple):
    """The worst cut of a subnet that was found."""

    share: float
    """Share of its rate that every job gets."""
    least: float
    """Lower bound of the share over all cuts."""
    job: int
    """The job that is divided most."""
    gbps: float
    """Full rate of one half of all jobs."""


class _LocalSearch:
    """Local search for a bad cut; holds the worst so far."""

    def __init__(self, subnet: _Subnet, jobs: BisectedJobs, job: Ints, stop_below: float) -> None:
        self.subnet, self.jobs, self.job, self.stop_below = subnet, jobs, job, stop_below
        self.share, self.worst, self.side = 1.0, 0, np.zeros(subnet.n, bool)

    def run(self, descents: int) -> None:
        """Descend from halves that are often bad and from random halves, then from neighbours of the worst cut."""
        net, members = self.subnet, np.flatnonzero(self.job >= 0)
        for leaf in np.flatnonzero(self.jobs.on_switch.any(axis=0)).tolist():
            self._evaluate(np.arange(net.n) == leaf)
        for key in net.starts(net.leaf[members], descents):
            self._descend(members, key)
            if self.share < self.stop_below:
                return
        some = np.unique(np.linspace(0, len(self.jobs.half) - 1, MOST_ALONE).astype(int))
        for job in self.jobs.number[some] if len(self.jobs.half) > 1 else ():  # one job that others may starve
            self._descend(np.flatnonzero(self.job == job), np.arange(net.n, dtype=np.float64))
        draw, moved = np.random.default_rng(1), net.n <= MOST_MOVED
        for turn in range(4 * descents if moved else descents):
            near = self.side ^ (draw.random(net.n) < draw.choice([0.0, 0.1, 0.3]) * (turn > 0))
            if moved:
                near = self._improve(near)
                self._evaluate(near)
            self._descend(members, ~near * 1.0)
            if self.share < self.stop_below:
                return

    def _evaluate(self, side: Sides) -> None:
        """Keep a cut if it is the worst so far."""
        net = self.subnet
        gbps = float(net.gbps[side[net.a] != side[net.b]].sum())
        share, worst = self.jobs.share(gbps, self.jobs.crossing(self.jobs.on_switch @ side))
        if share < self.share - SOLVER_TOLERANCE:
            self.share, self.worst, self.side = share, worst, side

    def _descend(self, members: NDArray[np.intp], key: Floats) -> None:
        """Alternate between the minimum cut of two halves and the halves that fit this cut best, while it gets smaller.

        ``members`` are the adapters of the jobs. Initially the first half of each job is on the switches with the
        lowest ``key``.
        """
        net = self.subnet
        leaf, rate = net.leaf[members], net.rate[members]
        _, job = np.unique(self.job[members], return_inverse=True)
        order = np.lexsort((key[leaf], job))
        total = np.bincount(job, rate)
        before = (np.cumsum(total) - total)[job[order]]
        total = total[job[order]]
        best = inf
        while True:
            far = np.cumsum(rate[order]) - before
            first = order[far <= total / 2 + GBPS_TOLERANCE]
            second = order[far - rate[order] >= total / 2 - GBPS_TOLERANCE]
            sends, receives = (np.bincount(leaf[half], rate[half], net.n).astype(float) for half in (first, second))
            flow, side = net.cut(sends, receives)
            self._evaluate(side)
            if not flow or flow >= best:
                return
            best = flow
            order = order[np.lexsort((~side[leaf[order]], job[order]))]

    def _improve(self, side: Sides) -> Sides:
        """Make one pass of Fiduccia and Mattheyses (1982), and return the best sides on the way.

        Each switch moves once to the other side, the best move first. The objective is the surplus of the cut
        (`BisectedJobs.surplus`) at the share of the worst cut so far.
        """
        net, jobs, share = self.subnet, self.jobs, self.share
        sign = np.where(side, 1.0, -1.0)
        inside = jobs.on_switch @ side
        free, total, best = np.ones(net.n, bool), 0.0, (0.0, side)
        gain = sign * (net.dense @ sign)  # Gb/s that moving a switch adds to the cut
        none = np.zeros(1)
        for _ in range(net.n):
            moves = jobs.surplus(none, inside[:, None] - sign * jobs.on_switch, share)
            needed = moves - jobs.surplus(none, inside[:, None], share)
            moved = int(np.argmin(np.where(free, gain + needed, np.inf)))
            total += gain[moved] + needed[moved]
            inside = inside - sign[moved] * jobs.on_switch[:, moved]
            gain -= 2 * sign[moved] * net.dense[moved] * sign
            sign[moved], gain[moved], free[moved] = -sign[moved], -gain[moved], False
            if total < best[0] - GBPS_TOLERANCE:
                best = (total, sign > 0)
        return best[1]


def _hosts(fabrics: Sequence[Fabric], role: Role) -> list[str]:
    """Names of the cabled servers of a role, sorted."""
    cabled = ((fabric, np.unique(fabric.port_node[fabric.links])) for fabric in fabrics)
    named = (fabric.hosts[fabric.host[n]] for fabric, nodes in cabled for n in nodes[fabric.role[nodes] == role])
    return sorted(dict.fromkeys(named))


def _adapters(fabric: Fabric, hosts: set[str]) -> Sides:
    """(N,) bool: adapters of these servers."""
    wanted = np.array([host in hosts for host in fabric.hosts] + [False], bool)
    return np.asarray(wanted[fabric.host] & (fabric.kind == Kind.HCA))
