"""Demand across cuts: what bisected jobs, and the servers of a role, ask of the links between two sides.

A cut divides switches, or containers of adapters such as leaves, pods and zones, into two sides. A job is bisected: the
adapters of one half send to those of the other. The worst halves fill one side each, so that

    asked = min(rate on side A, rate on side B).

Over the rails, each rail of a job is bisected so: the adapters with one number in their servers.

If every adapter gets the same share of its rate, none gets more than gbps of the cut / sum of what the jobs ask: a
quotient cut, also called sparsest cut. For one job, the least quotient over all cuts is that share (max-flow min-cut,
Ford and Fulkerson 1956); for several jobs or rails at once it is an upper bound. `BisectedJobs` measures it on the
switches of a compiled fabric. `JobDemand` and `ServingDemand` state before a design is compiled how much must cross at
least, and `required_factor` compares it with the links of the design; most designs are excluded by this comparison.
"""

from __future__ import annotations

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

    The jobs get the share s of their rate when every adapter of one half sends, and every adapter of the other half
    receives, s times its rate. A job that lies on one side asks nothing of the cut. Where adapters send to those with
    their number in other servers only, each rail is a job here.
    """

    on_switch: Floats
    """(J, n) Gb/s of the adapters of each job on each switch."""
    half: Floats
    """(J,) Gb/s of one half: whole adapters where all of a job have one rate, else half of their sum."""
    numbers: tuple[tuple[int, ...], ...]
    """(J,) the numbers of the jobs that each row stands for. Equal jobs are added up."""

    @classmethod
    def of(cls, job: NDArray[np.integer], switch: NDArray[np.integer], gbps: Floats, n: int) -> BisectedJobs:
        """Add up (A,) adapters by job and by switch, of which there are n, with their rate in Gb/s.

        Jobs that no cut divides, because they are on one switch, are omitted.

        Examples
        --------
        >>> import numpy as np
        >>> jobs = BisectedJobs.of(np.zeros(4, int), np.array([0, 0, 0, 1]), np.full(4, 100.0), n=2)
        >>> jobs.on_switch.tolist(), jobs.half.tolist()
        ([[300.0, 100.0]], [200.0])
        >>> jobs.crossing(jobs.on_switch[:, 0]).tolist()  # no half has more on both switches
        [100.0]
        """
        number, row = np.unique(job, return_inverse=True)
        on_switch = np.zeros((len(number), n))
        np.add.at(on_switch, (row, switch), gbps)
        least, most = np.full(len(number), np.inf), np.zeros(len(number))
        np.minimum.at(least, row, gbps)
        np.maximum.at(most, row, gbps)
        total = np.bincount(row, gbps, len(number))
        half = np.where(least == most, np.rint(total / np.maximum(most, 1e-9)) // 2 * most, total / 2)
        like: dict[bytes, list[int]] = {}
        for each in np.flatnonzero((np.count_nonzero(on_switch, axis=1) > 1) & (half > 0)).tolist():
            like.setdefault(on_switch[each].tobytes(), []).append(each)
        firsts, equal = [same[0] for same in like.values()], np.array([len(same) for same in like.values()])
        numbers = tuple(tuple(number[same].tolist()) for same in like.values())
        return cls(on_switch[firsts] * equal[:, None], half[firsts] * equal, numbers)

    @cached_property
    def total(self) -> Floats:
        """(J,) Gb/s of all adapters of each job."""
        return np.asarray(self.on_switch.sum(axis=1))

    def inside(self, side: Sides) -> Floats:
        """(J,) Gb/s on one side of a cut, which is (n,) bool."""
        return np.asarray(self._sparse @ side.astype(np.float64))

    @cached_property
    def _sparse(self) -> csr_array:
        """`on_switch`, of which most is 0: a job is on few switches."""
        from scipy.sparse import csr_array

        return csr_array(self.on_switch)

    def crossing(self, inside: Floats) -> Floats:
        """Gb/s that each job asks of a cut, given the Gb/s on one side; (J, ...)."""
        more = (1,) * (inside.ndim - 1)
        beyond = self.total.reshape(-1, *more) - inside
        return np.asarray(np.minimum(inside, beyond))

    def asked(self, inside: Floats) -> Floats:
        """Gb/s that all jobs together ask of cuts, given the Gb/s on one side; (J, ...) to (...)."""
        return np.asarray(self.crossing(inside).sum(axis=0))


@dataclass(frozen=True)
class JobDemand:
    """What one half of each of J jobs, or rails of jobs, must be able to send to the other half, all at once."""

    gbps: csr_array
    """(J, containers) of the adapters in each container."""
    share: float
    """Share of its rate that every adapter must get."""

    @cached_property
    def total(self) -> Floats:
        """(J,) Gb/s of all adapters of each job."""
        return np.asarray(self.gbps.sum(axis=1), np.float64)

    @property
    def containers(self) -> int:
        """Number of containers."""
        return int(self.gbps.shape[1])

    @cached_property
    def _spread(self) -> NDArray[np.intp]:
        """(J,) containers of each job."""
        return np.asarray(np.diff(self.gbps.indptr))

    @cached_property
    def _row(self) -> NDArray[np.intp]:
        """Job of each entry of `gbps`."""
        return np.repeat(np.arange(self.gbps.shape[0]), self._spread)

    def aggregate(self, of: Ints) -> JobDemand:
        """Return the demand of larger containers; ``of`` is the larger container of each."""
        from scipy.sparse import coo_array

        shape = self.gbps.shape[0], int(of.max(initial=-1)) + 1
        return JobDemand(coo_array((self.gbps.data, (self._row, of[self.gbps.indices])), shape).tocsr(), self.share)

    @property
    def worst_orders(self) -> list[NDArray[np.intp]]:
        """Containers interleaved over the jobs in proportion to their number, the fullest of each job first."""
        (jobs, n), entries = self.gbps.shape, self.gbps
        total = np.bincount(entries.indices, entries.data, n)
        if jobs == 1:
            return [np.argsort(-total, kind="stable")]
        fullest = np.lexsort((self._row, -entries.data, entries.indices))
        columns, at = np.unique(entries.indices[fullest], return_index=True)
        job = np.zeros(n, int)
        job[columns] = self._row[fullest[at]]
        order = np.lexsort((-total, job))
        sizes = np.bincount(job, minlength=jobs)
        rank = np.arange(n) - (np.cumsum(sizes) - sizes)[job[order]]
        return [order[np.argsort((rank + 0.5) / sizes[job[order]], kind="stable")]]

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others.

        What a job asks changes only at the places where it has adapters, so the changes are added up.
        """
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        by_place = np.lexsort((place[self.gbps.indices], self._row))
        inside = _cumulative(self.gbps.data[by_place], self._spread)
        least = np.minimum(inside, self.total[self._row] - inside)
        rise = np.diff(least, prepend=0.0)
        begins = np.diff(self._row, prepend=-1) != 0
        rise[begins] = least[begins]
        crossing = np.cumsum(np.bincount(place[self.gbps.indices[by_place]], rise, self.containers))
        return np.asarray(self.share * np.maximum(crossing, 0.0))

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound for any k containers: each job with its own choice of them.

        What a job asks of a cut rises with its rate on a side up to a half, and falls beyond. Of n containers the
        min(k, n - k) emptiest hold at most a half, and no choice of k or of n - k asks for less.
        """
        n, entries = self.containers, self.gbps
        rank = np.arange(entries.nnz) - np.repeat(entries.indptr[:-1], self._spread)
        fullest = entries.data[np.lexsort((-entries.data, self._row))]
        beyond = float(self.total.sum()) - np.cumsum(np.bincount(rank, fullest, n))
        k = np.arange(1, n + 1)
        return np.asarray(self.share * np.maximum(beyond[np.maximum(k, n - k) - 1], 0.0))

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves.

        A leaf with at most half of a job sends out all that it has of it, since the other half has nothing there. One
        with more than half of it sends out as much as the other leaves have, and so do these: 2 (total - leaf_gbps).
        """
        others = 2 * np.maximum(self.total - leaf_gbps, 0.0)
        return self.share * float(np.where(leaf_gbps <= self.total / 2, self.total, others).sum())


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
    >>> job = JobDemand(csr_array(np.full((1, 4), 20.0)), share=1.0)  # on four leaves
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
