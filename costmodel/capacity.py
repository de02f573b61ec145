"""What a network could carry at best, whatever its routing: maximum flows, and the worst way to halve a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import floor

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import breadth_first_order, dijkstra, maximum_flow
from scipy.sparse.linalg import eigsh

from costmodel.programs import least_cut, spectral_cut
from costmodel.task import JOBS, job_windows
from topo.fabric import Fabric, Kind, Role
from topo.flow import STEPS_PER_GBPS, max_flow_gbps

MOST_TRIED = 17
"""Switches of which every set is tried, so that the worst cut is exact."""
TINY = 1e-6
"""Gb/s that are no difference."""
MOST_MOVED = 400
"""Switches that are moved one by one from side to side."""
MOST_SPECTRAL = 3_000
"""Switches of which eigenvectors are computed."""
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
    each subnet the adapters of each job, and of the storage, are halved so that the maximum flow from the halves to the
    others is least, which is a minimum balanced cut. On small subnets it is exact, since all sets of switches are
    tried; on larger ones it is the least that a descent from many halves finds, an upper bound, and an integer program
    and eigenvalues prove it or bound it from below. A job of one node has 1.

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
        carried = sent = least = 0.0
        for subnet in subnets:
            found = subnet.worst(subnet.jobs(at_once, with_storage=with_storage), tries, enough, prove=prove)
            carried, sent, least = carried + found[0], sent + found[1], least + found[2]
        if sent:
            worst = Bisection(min(worst.share, carried / sent), min(worst.least, least / sent))
        if worst.share < enough:
            break
    return worst


def storage_gbps(fabrics: Sequence[Fabric]) -> float:
    """Largest total rate at which all compute nodes together can read from all storage nodes, in Gb/s.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.storage_gbps(topo.preset("fire-flyer-2").fabrics) / 8_000  # TB/s
    9.0
    """
    storage, compute = set(_hosts(fabrics, Role.STORAGE)), set(_hosts(fabrics, Role.COMPUTE))
    return sum(flow_gbps(fabric, _adapters(fabric, storage), _adapters(fabric, compute)) for fabric in fabrics)


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

    def worst(self, job: NDArray[np.int64], tries: int, enough: float, *, prove: bool) -> tuple[float, float, float]:
        """Return what the worst halves that were found can send, what they would, and what any can at least."""
        members = np.flatnonzero(job >= 0)
        leaf, rate = self.leaf[members], self.rate[members]
        _, mine = np.unique(job[members], return_inverse=True)
        if len(members) < 2 or np.bincount(mine).max() < 2:
            return 0.0, 0.0, 0.0
        count = np.zeros((mine.max() + 1, self.n), np.int64)
        np.add.at(count, (mine, leaf), 1)
        alike = bool(rate.min() == rate.max())
        if len(self.tried) <= MOST_TRIED and alike:
            least = self._least_cut(count, float(rate[0]))
            return least, float((count.sum(axis=1) // 2 * rate[0]).sum()), least
        best, side = (np.inf, 1.0), np.zeros(self.n, bool)
        for key in self._starts(leaf, tries):
            found, cut = self._descend(leaf, rate, mine, key)
            if found[0] / found[1] < best[0] / best[1]:
                best, side = found, cut
            if best[0] / best[1] < enough:
                return *best, 0.0
        draw = np.random.default_rng(1)
        hosts = np.zeros((mine.max() + 1, self.n))
        np.add.at(hosts, (mine, leaf), rate)
        for turn in range(4 * tries if self.n <= MOST_MOVED else tries):  # from near the worst
            near = side ^ (draw.random(self.n) < draw.choice([0.0, 0.1, 0.3]) * (turn > 0))
            if self.n <= MOST_MOVED:
                near = self._move(near, hosts)
            found, cut = self._descend(leaf, rate, mine, ~near * 1.0)
            if found[0] / found[1] < best[0] / best[1]:
                best, side = found, cut
        if not (prove and alike) or self.n > MOST_PROVEN or best[0] / best[1] < enough:
            return *best, 0.0
        spectral = self.n <= MOST_MOVED or bool(count.any(axis=0).all())  # of trees it is loose
        least = spectral_cut(self._dense, count, float(rate[0])) if spectral else 0.0
        if least < best[0] - TINY:
            found_gbps, bound = least_cut(self._dense, count, float(rate[0]))
            best, least = (min(best[0], found_gbps), best[1]), max(least, bound)
        return *best, min(least, best[0])

    @cached_property
    def tried(self) -> NDArray[np.intp]:
        """Switches on either side of a cut; each of the others has neighbours among these alone, and no adapters."""
        other = np.bincount(self.leaf, minlength=self.n) == 0
        for a, b in zip(self.a.tolist(), self.b.tolist(), strict=True):
            if other[a] and other[b]:
                other[b] = False
        return np.flatnonzero(~other)

    def _least_cut(self, hosts: NDArray[np.int64], rate: float) -> float:
        """Try every set of switches: its links out, and the adapters of each half on the side of the other.

        ``hosts`` are (jobs, switches) the adapters of each job on each switch.
        """
        tried = self.tried
        dense = self._dense
        others = np.setdiff1d(np.arange(self.n), tried)
        sets = (np.arange(1 << max(len(tried) - 1, 0))[:, None] >> np.arange(len(tried)) & 1).astype(np.float64)
        among = dense[np.ix_(tried, tried)]
        cut = sets @ among.sum(axis=1) - ((sets @ among) * sets).sum(axis=1)
        up = sets @ dense[np.ix_(tried, others)]
        cut += np.minimum(up, dense[tried][:, others].sum(axis=0) - up).sum(axis=1)
        for mine in hosts:
            inside, total = sets @ mine[tried], int(mine.sum())
            cut += rate * np.maximum(0, np.maximum(total // 2 - inside, total // 2 - (total - inside)))
        return float(cut.min())

    def _starts(self, leaf: NDArray[np.intp], tries: int) -> Iterator[NDArray[np.float64]]:
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

    def _descend(
        self, leaf: NDArray[np.intp], rate: NDArray[np.float64], job: NDArray[np.int64], key: NDArray[np.float64]
    ) -> tuple[tuple[float, float], NDArray[np.bool_]]:
        """Take the least cut between two halves, then the halves that fit the cut best, while that makes it less.

        ``key`` orders switches; the adapters on those with low ones are a job's first half to begin with.
        """
        order = np.lexsort((key[leaf], job))
        total = np.bincount(job, rate)
        before = (np.cumsum(total) - total)[job[order]]
        total = total[job[order]]
        best, side = (np.inf, 1.0), np.zeros(self.n, bool)
        while True:
            far = np.cumsum(rate[order]) - before
            first, second = order[far <= total / 2 + TINY], order[far - rate[order] >= total / 2 - TINY]
            sends, receives = (np.bincount(leaf[half], rate[half], self.n).astype(float) for half in (first, second))
            carried, cut = self._cut(sends, receives)
            sent = float(min(sends.sum(), receives.sum()))
            if not sent or carried / sent >= best[0] / best[1]:
                return best if sent else (0.0, 1.0), side
            best, side = (carried, sent), cut
            order = order[np.lexsort((~side[leaf[order]], job[order]))]

    def _move(self, side: NDArray[np.bool_], hosts: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Move each switch once to the other side, the best first, and return the best of the sides on the way.

        A pass of Fiduccia and Mattheyses, 1982. The cost of a side are its links out, and the adapters of each job that
        are not on the side of their half; ``hosts`` are (jobs, switches), in Gb/s.
        """
        dense, half = self._dense, hosts.sum(axis=1, keepdims=True) / 2
        sign = np.where(side, 1.0, -1.0)
        inside = hosts @ side[:, None]
        free, total, best = np.ones(self.n, bool), 0.0, (0.0, side)
        gain = sign * (dense @ sign)  # what moving a switch adds to the cut
        for _ in range(self.n):
            among = np.abs(half - (inside - sign * hosts)).sum(axis=0) - np.abs(half - inside).sum()
            moved = int(np.argmin(np.where(free, gain + among, np.inf)))
            total += gain[moved] + among[moved]
            inside = inside - sign[moved] * hosts[:, moved : moved + 1]
            gain -= 2 * sign[moved] * dense[moved] * sign
            sign[moved], gain[moved], free[moved] = -sign[moved], -gain[moved], False
            if total < best[0] - TINY:
                best = (total, sign > 0)
        return best[1]

    @cached_property
    def _dense(self) -> NDArray[np.float64]:
        """(n, n) Gb/s between switches."""
        dense = np.zeros((self.n, self.n))
        dense[self.a, self.b] = dense[self.b, self.a] = self.gbps
        return dense

    def _cut(self, sends: NDArray[np.float64], receives: NDArray[np.float64]) -> tuple[float, NDArray[np.bool_]]:
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


def _hosts(fabrics: Sequence[Fabric], role: Role) -> list[str]:
    """Names of the servers of a role, in order."""
    named = (fabric.hosts[fabric.host[node]] for fabric in fabrics for node in np.flatnonzero(fabric.role == role))
    return sorted(dict.fromkeys(named))


def _adapters(fabric: Fabric, hosts: set[str]) -> NDArray[np.bool_]:
    """(N,) bool: adapters of the servers."""
    wanted = np.array([host in hosts for host in fabric.hosts] + [False], bool)
    return np.asarray(wanted[fabric.host] & (fabric.kind == Kind.HCA))
