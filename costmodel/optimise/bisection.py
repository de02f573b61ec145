"""What a network could carry at best, whatever its routing: maximum flows, and the worst way to halve a job."""

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

from costmodel.optimise.cuts import Halves, Sides
from costmodel.optimise.milp import ROUNDING, least_share, spectral_share
from costmodel.optimise.problem import JOBS, job_windows
from topo.fabric import Fabric, Kind, Role
from topo.graphs import STEPS_PER_GBPS, max_flow_gbps

MOST_TRIED = 17
"""Switches of which every set is tried, so that the worst cut is exact."""
TINY = 1e-6
"""Gb/s that are no difference."""
MOST_MOVED = 400
"""Switches that are moved one by one from side to side."""
MOST_SPECTRAL = 3_000
"""Switches of which eigenvectors are computed."""
MOST_ALONE = 8
"""Jobs of several that descents take alone too."""
MOST_PROVEN = 2_000
"""Switches of which a lower bound is computed."""


@dataclass(frozen=True)
class Bisection:
    """Share of its rate at which one half of a job can send to the other, the halves chosen as badly as may be.

    Examples
    --------
    >>> from costmodel import Bisection
    >>> print(Bisection(0.5, 0.5), Bisection(0.5), Bisection(0.5, 0.2), sep=", ")
    50.0%, at most 50.0%, 20.0% to 50.0%
    """

    share: float
    """The least of those that were found."""
    least: float = 0.0
    """No way to halve it is worse than this; 0 where nothing is known."""
    worst: str = field(default="", compare=False)
    """Which of several jobs gets so little."""
    gbps: float = field(default=0.0, compare=False)
    """Of one half of all jobs, at their full rate."""

    @property
    def exact(self) -> bool:
        """Whether no way to halve it is worse; otherwise the share is an upper bound."""
        return self.least >= self.share * (1 - TINY)

    def __str__(self) -> str:
        at_most = f"{floor(self.least * 1_000) / 1_000:.1%} to " if self.least else "at most "
        return f"{'' if self.exact else at_most}{self.share:.1%}"


def flow_gbps(fabric: Fabric, sources: NDArray[np.bool_], sinks: NDArray[np.bool_]) -> float:
    """Largest total rate from source adapters to sink adapters.

    Parameters
    ----------
    sources, sinks : (N,) bool
        Nodes that send and receive at the rate of their ports.
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
    tries: int = 8,
    enough: float = 0.0,
    prove: bool = True,
) -> Bisection:
    """Share of its full rate at which one half of each job can send to the other, all at once, however it is halved.

    Compute nodes are divided into jobs of ``job`` nodes in the order of the spec, in which they hang side by side. In
    each subnet the adapters of each job, and of the storage, are halved so that what every job gets at the same time is
    least (`costmodel.optimise.cuts`), for one job a minimum balanced cut. On small subnets it is exact, since all sets
    of switches are tried; on larger ones it is the least that a descent from many halves finds, an upper bound, and an
    integer program and eigenvalues prove it or bound it from below. A job of one node has 1. Where the adapters of a
    job have several rates, a half is half of their sum.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets of the cluster.
    job : int or mapping, optional
        Nodes of a job, or the share of the compute nodes by the size of the jobs that they run; all as one job when
        left out.
    with_storage : bool
        Whether the storage adapters in the zones of the jobs send and receive too.
    alone : bool
        Whether each job is taken alone, and the worst counts (of many, `JOBS` that are spread evenly).
    tries : int
        Descents from halves at random, beside those from halves that are often bad.
    enough : float
        Share below which nobody asks how bad it is: the first such cut is returned.
    prove : bool
        Whether to bound it from below.

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
    if alone and len(windows) > JOBS:
        windows = windows[np.linspace(0, len(windows) - 1, JOBS).astype(int)]
    rank = {host: number for number, host in enumerate(hosts)}
    subnets = [_Subnet(fabric, rank) for fabric in fabrics]
    worst = Bisection(1.0, 1.0)
    for at_once in np.split(windows, len(windows)) if alone and len(windows) else [windows]:
        found = [subnet.worst(at_once, tries, enough, with_storage=with_storage, prove=prove) for subnet in subnets]
        weight = np.array([each.gbps for each in found])
        if not weight.sum():
            continue
        share, least = (
            float(np.average([getattr(each, name) for each in found], weights=weight)) for name in ("share", "least")
        )
        job_of = min(found, key=lambda each: each.share if each.gbps else 2.0).job
        if share < worst.share:
            worst = replace(worst, share=share, worst=_called(job_of, at_once, hosts) if len(windows) > 1 else "")
        worst = replace(worst, least=min(worst.least, least), gbps=max(worst.gbps, float(weight.sum())))
        if worst.share < enough:
            break
    return worst


def _called(job: int, windows: NDArray[np.int64], hosts: Sequence[str]) -> str:
    """Name a job by its first and last node; those after the last are the storage, zone by zone."""
    if job >= len(windows):
        return "the storage"
    first, last = windows[job].tolist()
    return f"{hosts[first]} to {hosts[last - 1]}"


def serving_gbps(fabrics: Sequence[Fabric], role: Role = Role.STORAGE) -> float:
    """Largest total rate at which all servers of a role together can send to all compute nodes, in Gb/s.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.serving_gbps(topo.preset("fire-flyer-2").fabrics) / 8_000  # TB/s
    9.0
    """
    servers, compute = set(_hosts(fabrics, role)), set(_hosts(fabrics, Role.COMPUTE))
    return sum(flow_gbps(fabric, _adapters(fabric, servers), _adapters(fabric, compute)) for fabric in fabrics)


class _Subnet:
    """A subnet as its switches, the capacities between them, and the adapters that hang on them."""

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
            self.zone = np.zeros_like(self.zone)  # groups and sides, which share their storage
        self.rank = np.array([rank.get(host, -1) for host in fabric.hosts], np.int64)[fabric.host[nodes]][order]

    def jobs(self, windows: NDArray[np.int64], *, with_storage: bool) -> NDArray[np.int64]:
        """Return the job of each adapter, -1 where it has none; storage is one more job in each zone that has some."""
        job = np.searchsorted(windows[:, 0], self.rank, "right") - 1
        job[(self.rank < 0) | (self.rank >= np.append(windows[:, 1], 0)[job])] = -1
        if with_storage:
            beside = (self.role == Role.STORAGE) & np.isin(self.zone, np.unique(self.zone[job >= 0]))
            job[beside] = len(windows) + self.zone[beside] - self.zone.min(initial=0)
        return np.asarray(job)

    def worst(
        self, windows: NDArray[np.int64], tries: int, enough: float, *, with_storage: bool, prove: bool
    ) -> _Found:
        """Return the share that every job gets over the worst cut that was found, and what any cut leaves at least."""
        job = self.jobs(windows, with_storage=with_storage)
        members = np.flatnonzero(job >= 0)
        jobs = Halves.of(job[members], self.leaf[members], self.rate[members], self.n)
        gbps = float(self.rate[members].sum()) / 2
        if not len(jobs.half):
            return _Found(1.0, 1.0, -1, gbps)
        if len(self.tried) <= MOST_TRIED:
            share, worst = self._of_all_sets(jobs)
            return _Found(share, share, int(jobs.job[worst]), gbps)
        found = _Descent(self, jobs, job, enough)
        found.descend_all(tries)
        if not prove or self.n > MOST_PROVEN or found.share < enough:
            return _Found(found.share, 0.0, int(jobs.job[found.worst]), gbps)
        spectral = self.n <= MOST_MOVED or bool(jobs.held.any(axis=0).all())  # of trees it is loose
        share, least = found.share, spectral_share(self.dense, jobs) if spectral else 0.0
        if least < share - ROUNDING:
            better, bound = least_share(self.dense, jobs, share)
            share, least = min(share, better), max(least, bound)
        return _Found(share, min(least, share), int(jobs.job[found.worst]), gbps)

    @cached_property
    def tried(self) -> NDArray[np.intp]:
        """Switches on either side of a cut; each of the others has neighbours among these alone, and no adapters."""
        other = np.bincount(self.leaf, minlength=self.n) == 0
        for a, b in zip(self.a.tolist(), self.b.tolist(), strict=True):
            if other[a] and other[b]:
                other[b] = False
        return np.flatnonzero(~other)

    def _of_all_sets(self, jobs: Halves) -> tuple[float, int]:
        """Try every set of switches: the least share that every job gets over a cut, and the job that is split most."""
        tried, dense = self.tried, self.dense
        others = np.setdiff1d(np.arange(self.n), tried)
        sets = (np.arange(1 << max(len(tried) - 1, 0))[:, None] >> np.arange(len(tried)) & 1).astype(np.float64)
        among = dense[np.ix_(tried, tried)]
        cut = sets @ among.sum(axis=1) - ((sets @ among) * sets).sum(axis=1)
        up = sets @ dense[np.ix_(tried, others)]
        cut += np.minimum(up, dense[tried][:, others].sum(axis=0) - up).sum(axis=1)
        share, worst = 1.0, 0
        while True:
            lack = cut.copy()
            for row in range(len(jobs.half)):
                one = replace(jobs, held=jobs.held[row : row + 1], half=jobs.half[row : row + 1])
                lack += one.lack(np.zeros(1), (sets @ jobs.held[row, tried])[None], share)
            at = int(lack.argmin())
            less, split_most = jobs.share(float(cut[at]), jobs.split(jobs.held[:, tried] @ sets[at]))
            if less >= share - ROUNDING:
                return share, worst
            share, worst = less, split_most

    def starts(self, leaf: NDArray[np.intp], tries: int) -> Iterator[NDArray[np.float64]]:
        """Yield keys of switches; the half with the lower ones is a place to start from."""
        yield np.arange(self.n, dtype=np.float64)
        yield -np.bincount(leaf, minlength=self.n).astype(np.float64)
        draw = np.random.default_rng(0)
        yield from (draw.random(self.n) for _ in range(tries))
        if len(self.a):  # nearer to one end of a link than to the other: the cuts of grids (Djokovic 1973)
            links = draw.permutation(len(self.a))[: 2 * tries + 2]
            graph = coo_array((np.ones(len(self.a)), (self.a, self.b)), shape=(self.n, self.n)).tocsr()
            near, far = (dijkstra(graph, False, ends[links], unweighted=True) for ends in (self.a, self.b))
            yield from np.subtract(near, far, out=np.zeros_like(near), where=np.isfinite(near))
        yield from self._eigenvectors

    @cached_property
    def _eigenvectors(self) -> list[NDArray[np.float64]]:
        """Eigenvectors of the least eigenvalues of the Laplacian: where a graph is narrow (Fiedler 1973)."""
        if not 5 < self.n <= MOST_SPECTRAL:
            return []
        ends = (np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a]))
        links = coo_array((np.tile(self.gbps, 2), ends), shape=(self.n, self.n)).tocsc()
        scale = max(float(self.gbps.max(initial=0.0)), 1.0)
        shifted = (diags_array(links.sum(axis=0) + scale) - links) / scale  # positive definite
        return list(eigsh(shifted, k=4, sigma=0.0, v0=np.arange(1.0, self.n + 1))[1].T[::-1])

    @cached_property
    def dense(self) -> NDArray[np.float64]:
        """(n, n) Gb/s between switches."""
        dense = np.zeros((self.n, self.n))
        dense[self.a, self.b] = dense[self.b, self.a] = self.gbps
        return dense

    def cut(self, sends: NDArray[np.float64], receives: NDArray[np.float64]) -> tuple[float, NDArray[np.bool_]]:
        """Return the maximum flow between switches, and the side of its minimum cut on which the senders are."""
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


class _Found(NamedTuple):
    """What is known of a subnet."""

    share: float
    """Of its rate that every job gets at most."""
    least: float
    job: int
    """Which job it is."""
    gbps: float
    """Of half of all jobs."""


class _Descent:
    """The search for a bad cut: the worst so far."""

    def __init__(self, subnet: _Subnet, jobs: Halves, job: NDArray[np.int64], enough: float) -> None:
        self.subnet, self.jobs, self.job, self.enough = subnet, jobs, job, enough
        self.share, self.worst, self.side = 1.0, 0, np.zeros(subnet.n, bool)

    def descend_all(self, tries: int) -> None:
        """Descend from halves that are often bad and from halves at random, then from near the worst."""
        net, members = self.subnet, np.flatnonzero(self.job >= 0)
        for leaf in np.flatnonzero(self.jobs.held.any(axis=0)).tolist():
            self._see(np.arange(net.n) == leaf)
        for key in net.starts(net.leaf[members], tries):
            self._descend(members, key)
            if self.share < self.enough:
                return
        some = np.unique(np.linspace(0, len(self.jobs.half) - 1, MOST_ALONE).astype(int))
        for job in self.jobs.job[some] if len(self.jobs.half) > 1 else ():  # one job, which the others may starve
            self._descend(np.flatnonzero(self.job == job), np.arange(net.n, dtype=np.float64))
        draw, moved = np.random.default_rng(1), net.n <= MOST_MOVED
        for turn in range(4 * tries if moved else tries):
            near = self.side ^ (draw.random(net.n) < draw.choice([0.0, 0.1, 0.3]) * (turn > 0))
            if moved:
                near = self._moved(near)
                self._see(near)
            self._descend(members, ~near * 1.0)
            if self.share < self.enough:
                return

    def _see(self, side: Sides) -> float:
        """Return the share over a cut, and keep it if it is the worst."""
        net = self.subnet
        gbps = float(net.gbps[side[net.a] != side[net.b]].sum())
        share, worst = self.jobs.share(gbps, self.jobs.split(self.jobs.held @ side))
        if share < self.share - ROUNDING:
            self.share, self.worst, self.side = share, worst, side
        return share

    def _descend(self, members: NDArray[np.intp], key: NDArray[np.float64]) -> None:
        """Take the least cut between two halves, then the halves that fit the cut best, while that makes it worse.

        ``key`` orders switches; of the jobs of some members those on switches with low ones are the first half to begin
        with.
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
            first, second = order[far <= total / 2 + TINY], order[far - rate[order] >= total / 2 - TINY]
            sends, receives = (np.bincount(leaf[half], rate[half], net.n).astype(float) for half in (first, second))
            carried, side = net.cut(sends, receives)
            self._see(side)
            if not carried or carried >= best:
                return
            best = carried
            order = order[np.lexsort((~side[leaf[order]], job[order]))]

    def _moved(self, side: Sides) -> Sides:
        """Move each switch once to the other side, the best first, and return the best of the sides on the way.

        A pass of Fiduccia and Mattheyses, 1982. What counts is what the cut carries beyond what the jobs ask for at the
        share that is known.
        """
        net, jobs, share = self.subnet, self.jobs, self.share
        sign = np.where(side, 1.0, -1.0)
        inside = jobs.held @ side
        free, total, best = np.ones(net.n, bool), 0.0, (0.0, side)
        gain = sign * (net.dense @ sign)  # what moving a switch adds to the cut
        none = np.zeros(1)
        for _ in range(net.n):
            lack = jobs.lack(none, inside[:, None] - sign * jobs.held, share) - jobs.lack(none, inside[:, None], share)
            moved = int(np.argmin(np.where(free, gain + lack, np.inf)))
            total += gain[moved] + lack[moved]
            inside = inside - sign[moved] * jobs.held[:, moved]
            gain -= 2 * sign[moved] * net.dense[moved] * sign
            sign[moved], gain[moved], free[moved] = -sign[moved], -gain[moved], False
            if total < best[0] - TINY:
                best = (total, sign > 0)
        return best[1]


def _hosts(fabrics: Sequence[Fabric], role: Role) -> list[str]:
    """Names of the servers of a role that have a cable, in order."""
    cabled = ((fabric, np.unique(fabric.port_node[fabric.links])) for fabric in fabrics)
    named = (fabric.hosts[fabric.host[n]] for fabric, nodes in cabled for n in nodes[fabric.role[nodes] == role])
    return sorted(dict.fromkeys(named))


def _adapters(fabric: Fabric, hosts: set[str]) -> NDArray[np.bool_]:
    """(N,) bool: adapters of the servers."""
    wanted = np.array([host in hosts for host in fabric.hosts] + [False], bool)
    return np.asarray(wanted[fabric.host] & (fabric.kind == Kind.HCA))
