"""Demand across cuts: what bisected jobs, and the servers of a role, ask of the links between two sides.

A cut divides switches, or containers of adapters such as leaves, pods and zones, into two sides. A job is bisected: the
servers of one half send to those of the other, each from all its adapters in the subnet, and any adapter to any of the
other half. With a_i Gb/s of the adapters of server i on one side of a cut, halves A and B send a(A) - a(B) across it
beyond what they can exchange on the sides. The worst halves are the servers with the most on that side, and the others:

    asked = max over halves A, B of a(A) - a(B) = min over x of sum over servers of |a_i - x|

where the minimum is at the median, for servers of one rate. For servers of several rates r_i halves are half of the sum
of rates, a server may belong to both in part, and asked = min over x of sum r_i |a_i / r_i - x|. Where each server is
on one side as a whole, this is min(rate on side A, rate on side B).

If every server gets the same share of its rate, none gets more than gbps of the cut / sum of what the jobs ask: a
quotient cut, also called sparsest cut. For one job, the least quotient over all cuts is that share (max-flow min-cut,
Ford and Fulkerson 1956); for several at once it is an upper bound. `BisectedJobs` measures it on the switches of a
compiled fabric. `JobDemand` and `ServingDemand` state before a design is compiled how much must cross at least, and
`required_factor` compares it with the links of the design; most designs are excluded by this comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # to load it takes half the time of `plan check`
    from scipy.sparse import csr_array

ROUNDING = 1e-9
"""Relative error of figures that are sums and quotients of at most a million rates. Each operation in double precision
adds at most 2^-53 = 1.1e-16, hence 1.1e-10 in all."""
SOLVER_TOLERANCE = 1e-6
"""Error of what HiGHS returns: its options ``mip_feasibility_tolerance`` and ``mip_abs_gap`` are 1e-6."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Sides = NDArray[np.bool_]
CutKind = Literal["out", "mesh", "mean", "line"]
"""Which links of containers are stated: see `required_factor`."""


@dataclass(frozen=True)
class BisectedJobs:
    """Jobs on the n switches of a subnet, each of J jobs bisected.

    The jobs get the share s of their rate when every server of one half sends, and every server of the other half
    receives, s times its rate. A job that lies on one side asks nothing of the cut. Servers of a job whose adapters are
    divided over the same switches in the same proportions are one *kind*.
    """

    on_switch: Floats
    """(J + K, n) Gb/s on each switch: of the servers of each job with all adapters on one switch; then of each of K
    kinds of servers with adapters on several, in the order of their jobs."""
    job: NDArray[np.intp]
    """(K,) row of the job of each kind."""
    half: Floats
    """(J,) Gb/s of one half: whole servers where all servers of a job have one rate, else half of their sum."""
    numbers: tuple[tuple[int, ...], ...]
    """(J,) the numbers of the jobs that each row stands for. Equal jobs are added up."""

    @classmethod
    def of(
        cls,
        job: NDArray[np.integer],
        switch: NDArray[np.integer],
        gbps: Floats,
        n: int,
        server: NDArray[np.integer] | None = None,
    ) -> BisectedJobs:
        """Add up (A,) adapters by job and by switch, of which there are n, with their rate in Gb/s.

        Each adapter is a server of its own where none are given. Jobs that no cut divides are omitted: on one switch,
        or of one kind.

        Examples
        --------
        >>> import numpy as np
        >>> jobs = BisectedJobs.of(np.zeros(4, int), np.array([0, 0, 0, 1]), np.full(4, 100.0), n=2)
        >>> jobs.on_switch.tolist(), jobs.half.tolist()
        ([[300.0, 100.0]], [200.0])
        >>> jobs.crossing(jobs.on_switch[:, 0]).tolist()  # no half has more on both switches
        [100.0]

        Two servers with an adapter on each of the two switches send on each switch, and ask nothing of the cut; a third
        has both on switch 0, and asks for what the others would have to send from switch 1 to balance it:

        >>> switch, server = np.array([0, 1, 0, 1, 0, 0]), np.array([0, 0, 1, 1, 2, 2])
        >>> jobs = BisectedJobs.of(np.zeros(6, int), switch, np.full(6, 100.0), 2, server)
        >>> jobs.on_switch.tolist()
        [[200.0, 0.0], [200.0, 200.0]]
        >>> jobs.crossing(jobs.on_switch[:, 0]).tolist()
        [100.0]
        """
        owner = np.arange(len(job)) if server is None else server
        keys, at = np.unique(np.stack([job, owner, switch]), axis=1, return_inverse=True)
        rate = np.bincount(at.ravel(), gbps, keys.shape[1])
        begins = np.append(True, (np.diff(keys[:2]) != 0).any(axis=0))[: keys.shape[1]]
        first = np.flatnonzero(begins)
        of, spread = np.cumsum(begins) - 1, np.diff(np.append(first, keys.shape[1]))
        server_job, server_gbps = keys[0, first], np.bincount(of, rate, len(first))
        number, row = np.unique(server_job, return_inverse=True)
        whole = np.zeros((len(number), n))
        alone = spread[of] == 1
        np.add.at(whole, (row[of[alone]], keys[2, alone]), rate[alone])
        entries = np.stack([keys[2], rate], axis=1)
        divided = (
            (row[server], *entries[first[server] : first[server] + spread[server]].ravel().tolist())
            for server in np.flatnonzero(spread > 1).tolist()
        )
        kinds = sorted(Counter(divided).items())
        split = np.zeros((len(kinds), n))
        for kind, ((_, *parts), times) in enumerate(kinds):
            split[kind, np.array(parts[::2], int)] = times * np.array(parts[1::2])
        kind_job = np.array([of_job for (of_job, *_), _ in kinds], np.intp)
        least, most = np.full(len(number), np.inf), np.zeros(len(number))
        np.minimum.at(least, row, server_gbps)
        np.maximum.at(most, row, server_gbps)
        total = np.bincount(row, server_gbps, len(number))
        half = np.where(least == most, np.rint(total / np.maximum(most, 1e-9)) // 2 * most, total / 2)
        places = np.count_nonzero(whole, axis=1) + np.bincount(kind_job, minlength=len(number))
        like: dict[bytes, list[int]] = {}
        for each in np.flatnonzero((places > 1) & (half > 0)).tolist():
            like.setdefault(whole[each].tobytes() + split[kind_job == each].tobytes(), []).append(each)
        firsts, equal = [same[0] for same in like.values()], np.array([len(same) for same in like.values()])
        own = [np.flatnonzero(kind_job == each) for each in firsts]
        jobs = np.repeat(np.arange(len(own)), [len(each) for each in own])
        rows = np.concatenate([*own, np.zeros(0, np.intp)]).astype(np.intp)
        return cls(
            np.concatenate([whole[firsts] * equal[:, None], split[rows] * equal[jobs][:, None]]),
            jobs,
            half[firsts] * equal,
            tuple(tuple(number[same].tolist()) for same in like.values()),
        )

    @cached_property
    def total(self) -> Floats:
        """(J + K,) Gb/s of all adapters of each row of `on_switch`."""
        return np.asarray(self.on_switch.sum(axis=1))

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
        """(D,) the jobs with servers of several kinds; (D, P) the rows of these; (D, P) Gb/s, 0 where there is none."""
        jobs, first, count = np.unique(self.job, return_index=True, return_counts=True)
        place = np.arange(count.max(initial=0))
        there = place < count[:, None]
        rows = np.where(there, len(self.half) + first[:, None] + place, 0)
        return jobs, rows, np.where(there, self.total[rows], 0.0)

    def inside(self, side: Sides) -> Floats:
        """(J + K,) Gb/s on one side of a cut, which is (n,) bool."""
        return np.asarray(self._sparse @ side.astype(np.float64))

    @cached_property
    def _sparse(self) -> csr_array:
        """`on_switch`, of which most is 0: a server is on few switches."""
        from scipy.sparse import csr_array

        return csr_array(self.on_switch)

    def crossing(self, inside: Floats) -> Floats:
        """Gb/s that each job asks of a cut, given the Gb/s on one side; (J + K, ...) as `on_switch` to (J, ...)."""
        more = (1,) * (inside.ndim - 1)
        within = inside[: len(self.half)]
        beyond = self.total[: len(self.half)].reshape(-1, *more) - within
        crossing = np.asarray(np.minimum(within, beyond))
        if not len(self.job):
            return crossing
        jobs, rows, gbps = self._kinds
        within, beyond, weight = within[jobs], beyond[jobs], gbps.reshape(*gbps.shape, *more)
        part = np.divide(inside[rows], weight, out=np.zeros((*rows.shape, *inside.shape[1:])), where=weight > 0)
        order = np.argsort(part, axis=1)
        below = beyond[:, None] + np.cumsum(np.take_along_axis(np.broadcast_to(weight, part.shape), order, 1), axis=1)
        middle = (below[:, -1] + within) / 2 * (1 - ROUNDING)
        at = np.minimum(np.count_nonzero(below < middle[:, None], axis=1), rows.shape[1] - 1)
        median = np.take_along_axis(np.take_along_axis(part, order, 1), at[:, None], 1)[:, 0]
        median = np.where(beyond >= middle, 0.0, np.where(below[:, -1] < middle, 1.0, median))
        apart = (weight * np.abs(part - median[:, None])).sum(axis=1)
        crossing[jobs] = within * (1 - median) + beyond * median + apart
        return crossing

    def asked(self, inside: Floats) -> Floats:
        """Gb/s that all jobs together ask of cuts, given the Gb/s on one side; (J + K, ...) to (...)."""
        return np.asarray(self.crossing(inside).sum(axis=0))


@dataclass(frozen=True)
class JobDemand:
    """What one half of each of J jobs must be able to send to the other half, all jobs at once."""

    gbps: csr_array
    """(rows, containers) of the adapters in each container. A row is servers of a job that are placed alike; the rows
    of a job follow one another."""
    job: NDArray[np.intp]
    """(rows,) job of each row, from 0."""
    share: float
    """Share of its rate that every server must get."""
    adapters: int = 1
    """Least common multiple of the adapters of a server, which have one rate: on a side are k / adapters of it."""

    @cached_property
    def _row(self) -> NDArray[np.intp]:
        """Row of each entry of `gbps`."""
        return np.repeat(np.arange(self.gbps.shape[0]), self._spread)

    @cached_property
    def _spread(self) -> NDArray[np.intp]:
        """(rows,) containers of each row."""
        return np.asarray(np.diff(self.gbps.indptr))

    @cached_property
    def weight(self) -> Floats:
        """(rows,) Gb/s of all adapters of each row."""
        return np.asarray(np.bincount(self._row, self.gbps.data, self.gbps.shape[0]))

    @cached_property
    def total(self) -> Floats:
        """(J,) Gb/s of all adapters of each job."""
        return np.asarray(np.bincount(self.job, self.weight))

    @property
    def containers(self) -> int:
        """Number of containers."""
        return int(self.gbps.shape[1])

    def aggregate(self, of: Ints) -> JobDemand:
        """Return the demand of larger containers; ``of`` is the larger container of each."""
        from scipy.sparse import coo_array

        shape = self.gbps.shape[0], int(of.max(initial=-1)) + 1
        joined = coo_array((self.gbps.data, (self._row, of[self.gbps.indices])), shape).tocsr()
        return JobDemand(joined, self.job, self.share, self.adapters)

    @cached_property
    def by_job(self) -> csr_array:
        """(J, containers) Gb/s of the adapters of each job in each container."""
        from scipy.sparse import coo_array

        shape = (len(self.total), self.containers)
        return coo_array((self.gbps.data, (self.job[self._row], self.gbps.indices)), shape).tocsr()

    @property
    def worst_orders(self) -> list[NDArray[np.intp]]:
        """Containers interleaved over the jobs in proportion to their number, the fullest of each job first.

        Where servers are divided over containers, also those together that share servers.
        """
        (jobs, n), entries = self.by_job.shape, self.by_job
        total = np.bincount(entries.indices, entries.data, n)
        if jobs == 1:
            orders = [np.argsort(-total, kind="stable")]
        else:
            row = np.repeat(np.arange(jobs), np.diff(entries.indptr))
            fullest = np.lexsort((row, -entries.data, entries.indices))
            columns, at = np.unique(entries.indices[fullest], return_index=True)
            job = np.zeros(n, int)
            job[columns] = row[fullest[at]]
            order = np.lexsort((-total, job))
            sizes = np.bincount(job, minlength=jobs)
            rank = np.arange(n) - (np.cumsum(sizes) - sizes)[job[order]]
            orders = [order[np.argsort((rank + 0.5) / sizes[job[order]], kind="stable")]]
        if (self._spread > 1).any():
            mean_row = np.bincount(self.gbps.indices, self.gbps.data * self._row, n) / np.maximum(total, 1e-9)
            orders.append(np.argsort(mean_row, kind="stable"))
        return orders

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others.

        What a job asks is min over x of sum weight |part - x|, and x needs to be k / adapters only. Both the sum and
        its minimum change only at the places where a job has adapters, so the changes are added up.
        """
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        by_place = np.lexsort((place[self.gbps.indices], self._row))
        row = self._row
        gbps: Floats = self.gbps.data[by_place]
        inside = _cumulative(gbps, self._spread)
        key, of = np.unique(self.job[row] * self.containers + place[self.gbps.indices[by_place]], return_inverse=True)
        job, place = np.divmod(key, self.containers)
        sizes = np.bincount(job, minlength=len(self.total))
        least = np.full(len(key), inf)
        for middle in np.arange(self.adapters + 1) / self.adapters:
            after, before = (np.abs(each - middle * self.weight[row]) for each in (inside, inside - gbps))
            change: Floats = np.bincount(of.ravel(), after - before, len(key)).astype(np.float64)
            least = np.minimum(least, middle * self.total[job] + _cumulative(change, sizes))
        rise = np.diff(least, prepend=0.0)
        begins = np.diff(job, prepend=-1) != 0
        rise[begins] = least[begins]
        return np.asarray(self.share * np.maximum(np.cumsum(np.bincount(place, rise, self.containers)), 0.0))

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound for any k containers: each job with its own choice of them.

        What a job asks of a cut rises with its rate on a side up to a half, and falls beyond. Of n containers the
        min(k, n - k) emptiest hold at most a half, and no choice of k or of n - k asks for less. Jobs with servers that
        are divided over containers count 0, since these may balance each other.
        """
        n, entries = self.containers, self.by_job
        whole = ~np.isin(np.arange(len(self.total)), self.job[self._spread > 1])
        row = np.repeat(np.arange(len(self.total)), np.diff(entries.indptr))
        rank = np.arange(entries.nnz) - np.repeat(entries.indptr[:-1], np.diff(entries.indptr))
        fullest = entries.data[np.lexsort((-entries.data, row))] * whole[row]
        beyond = float(self.total[whole].sum()) - np.cumsum(np.bincount(rank, fullest, n))
        k = np.arange(1, n + 1)
        return np.asarray(self.share * np.maximum(beyond[np.maximum(k, n - k) - 1], 0.0))

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves.

        A leaf that reaches at most half of the servers of a job sends out all that it has of it, since the other half
        has nothing there. Where servers have one adapter and one leaf has more than half of them, it sends out as much
        as the other leaves have, and so do these: 2 max(total - leaf_gbps, 0).
        """
        others = 2 * np.maximum(self.total - leaf_gbps, 0.0) if self.adapters == 1 else np.zeros(len(self.total))
        least = np.where(leaf_gbps * self.adapters <= self.total / 2, self.total, np.minimum(self.total, others))
        return self.share * float(least.sum())


@dataclass(frozen=True)
class ServingDemand:
    """What the servers of a role must be able to send to all compute servers."""

    gives: Floats
    """(containers,) Gb/s that the adapters of that role in each container send at most: their rate where the need is a
    total, the needed share of it where every server must get that share."""
    takes: Floats
    """(containers,) Gb/s of the adapters of compute servers in each container."""
    need: float
    """Gb/s that must arrive."""

    @property
    def containers(self) -> int:
        """Number of containers."""
        return len(self.gives)

    def aggregate(self, of: Ints) -> ServingDemand:
        """Return the demand of larger containers; ``of`` is the larger container of each."""
        n = int(of.max(initial=-1)) + 1
        gives, takes = (np.bincount(of, each, n).astype(np.float64) for each in (self.gives, self.takes))
        return ServingDemand(gives, takes, self.need)

    @property
    def worst_orders(self) -> list[NDArray[np.intp]]:
        """Containers by surplus, gives - takes, the largest first: of all choices of k the first k need the most."""
        return [np.argsort(self.takes - self.gives, kind="stable")]

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others."""
        gives, takes = np.cumsum(self.gives[order]), np.cumsum(self.takes[order])
        among = np.minimum(takes + self.gives.sum() - gives, gives + self.takes.sum() - takes)
        return np.asarray(np.maximum(self.need - among, 0.0))

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound for any k containers: those with the least surplus, or all others."""
        order = self.worst_orders[0][::-1]
        among = np.append(0.0, np.cumsum((self.takes - self.gives)[order])) + self.gives.sum()
        return np.asarray(np.maximum(self.need - np.maximum(among[1:], among[-2::-1]), 0.0))

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves: 0, since every leaf may hold servers of both roles."""
        return 0.0


Demand = JobDemand | ServingDemand
"""What must cross cuts between containers of adapters, such as leaves or pods."""


def least_leaving_gbps(demands: Sequence[Demand], leaf_gbps: float) -> float:
    """Lower bound of the Gb/s that leave all leaves, in any placement with at most `leaf_gbps` on each leaf."""
    return max((demand.leaving(leaf_gbps) for demand in demands), default=0.0)


def required_factor(
    demands: Sequence[Demand],
    out: Floats | float,
    of: Ints | None = None,
    *,
    cut: CutKind = "out",
) -> float:
    """Return the least factor on the capacities of containers, such as leaves or pods, that demands do not exclude.

    Parameters
    ----------
    demands : sequence of Demand
        What must be carried.
    out : float or (containers,) float64
        Gb/s of the links that `cut` states.
    of : (leaves,) int64, optional
        Container of each leaf; each leaf is a container when omitted.
    cut : str
        ``out``: the links that leave each container. ``mesh``: the links between each two containers. ``mean``: the
        same on average over all pairs; some k containers have a cut no larger than the average over all choices of k.
        ``line``: the links that leave the first k containers, by k - 1.

    Returns
    -------
    float
        0 where nothing must leave a container, infinite where no factor suffices.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import coo_array, csr_array
    >>> job = JobDemand(csr_array(np.diag([20.0] * 4)), np.zeros(4, int), share=1.0)  # on four leaves
    >>> required_factor([job], 1.0), required_factor([job], 1.0, cut="mesh")
    (20.0, 10.0)
    >>> required_factor([job], 1.0, np.array([0, 0, 1, 1]))  # two pods
    40.0
    """
    worst = 0.0
    for each in demands:
        demand = each if of is None else each.aggregate(of)
        n = demand.containers
        k = np.arange(1, n + 1)
        for order in [k - 1] if cut in ("line", "mean") else demand.worst_orders:
            crossing = demand.least_crossing if cut == "mean" else demand.crossing(order)
            if cut == "line":
                leaving = np.asarray(out)
            elif isinstance(out, np.ndarray):
                leaving = np.cumsum(out[order])
                leaving = np.minimum(leaving, out.sum() - leaving)
            else:
                leaving = out * (np.minimum(k, n - k) if cut == "out" else k * (n - k))
            lacking = crossing > ROUNDING * max(float(crossing.max(initial=0.0)), 1.0)
            if (leaving[lacking] <= 0).any():
                return inf
            worst = max(worst, float((crossing[lacking] / leaving[lacking]).max(initial=0.0)))
    return worst


def _cumulative(values: Floats, sizes: NDArray[np.integer]) -> Floats:
    """Cumulative sums within consecutive segments of these sizes."""
    sums = np.cumsum(values)
    before = np.append(0.0, sums)[np.cumsum(sizes) - sizes]
    return np.asarray(sums - np.repeat(before, sizes))
