"""Demand across cuts: what bisected jobs, and the servers of a role, ask of the links between two sides.

A cut divides switches, or containers of adapters such as leaves, pods and zones, into two sides. A job is bisected: one
half of its adapters sends to the other half. The halves may be chosen as badly as possible, so a job at full rate asks

    min(rate on side A, rate on side B, half of the job)

of the cut. If every server gets the same share of its rate, none gets more than gbps of the cut / sum of what the jobs
ask: a quotient cut, also called sparsest cut. For one job, the least quotient over all cuts is that share (max-flow
min-cut, Ford and Fulkerson 1956); for several at once it is an upper bound. `BisectedJobs` measures it on the switches
of a compiled fabric. `JobDemand` and `ServingDemand` state before a design is compiled how much must cross at least,
and `required_factor` compares it with the links of the design; most designs are excluded by this comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
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
    receives, s times its rate. A job that lies on one side asks nothing of the cut.
    """

    on_switch: Floats
    """(J, n) Gb/s of the adapters of each job on each switch."""
    half: Floats
    """(J,) Gb/s of one half: whole adapters where all adapters of a job have one rate, else half of their sum."""
    number: NDArray[np.intp]
    """(J,) number of each job. Jobs with equal rows are added up in one row, which has the number of the first."""

    @classmethod
    def of(cls, job: NDArray[np.integer], switch: NDArray[np.integer], gbps: Floats, n: int) -> BisectedJobs:
        """Add up adapters by job and switch. Jobs on a single switch are omitted: no cut divides them.

        Parameters
        ----------
        job, switch : (A,) int
            Job and switch of each adapter.
        gbps : (A,) float64
            Rate of each adapter, in Gb/s.
        n : int
            Number of switches.

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
        total = on_switch.sum(axis=1)
        half = np.where(least == most, np.rint(total / np.maximum(most, 1e-9)) // 2 * most, total / 2)
        apart = (np.count_nonzero(on_switch, axis=1) > 1) & (half > 0)
        rows, first, times = np.unique(on_switch[apart], axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        rows, first, times = rows[order], first[order], times[order]
        return cls(rows * times[:, None], half[apart][first] * times, number[apart][first])

    @cached_property
    def total(self) -> Floats:
        """(J,) Gb/s of all adapters of each job."""
        return np.asarray(self.on_switch.sum(axis=1))

    def crossing(self, inside: Floats) -> Floats:
        """Gb/s of each job that can be forced across a cut, given its Gb/s on one side; the first axis is the job."""
        total, half = self.total.reshape(-1, *[1] * (inside.ndim - 1)), self.half.reshape(-1, *[1] * (inside.ndim - 1))
        return np.asarray(np.minimum(np.minimum(inside, total - inside), half))

    def asked(self, inside: Floats) -> Floats:
        """Gb/s that all jobs together ask of cuts at full rate, given their Gb/s on one side; (J, ...) to (...)."""
        return np.asarray(self.crossing(inside).sum(axis=0))


class Demand(Protocol):
    """What must cross cuts between containers of adapters, such as leaves or pods."""

    @property
    def containers(self) -> int:
        """Number of containers."""

    def aggregate(self, of: Ints) -> Demand:
        """Return the demand of larger containers; ``of`` is the larger container of each."""

    @property
    def worst_order(self) -> NDArray[np.intp]:
        """An order of the containers whose first ones need much from the others."""

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others."""

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound of the Gb/s that must cross between any k containers and the others."""

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves, in any placement with at most `leaf_gbps` on each leaf."""


@dataclass(frozen=True)
class JobDemand:
    """What one half of each of J jobs must be able to send to the other half, all jobs at once."""

    gbps: csr_array
    """(J, containers) of the adapters of each job in each container. Most small jobs are in one or two."""
    half: Floats
    """(J,) of the adapters of one half."""
    share: float
    """Share of its rate that every adapter must get."""

    @cached_property
    def total(self) -> Floats:
        """(J,) of all adapters of each job."""
        return np.asarray(np.bincount(_rows(self.gbps), self.gbps.data, len(self.half)))

    @property
    def containers(self) -> int:
        """Number of containers."""
        return int(self.gbps.shape[1])

    def aggregate(self, of: Ints) -> JobDemand:
        """Return the demand of larger containers; ``of`` is the larger container of each."""
        n, jobs = int(of.max(initial=-1)) + 1, np.arange(self.gbps.shape[0] + 1)
        keys, where = np.unique(_rows(self.gbps) * n + of[self.gbps.indices], return_inverse=True)
        parts = np.bincount(where, self.gbps.data, len(keys)), keys % max(n, 1), np.searchsorted(keys, jobs * n)
        return JobDemand(csr_array(parts, (self.gbps.shape[0], n)), self.half, self.share)

    @property
    def worst_order(self) -> NDArray[np.intp]:
        """Containers interleaved over the jobs in proportion to their number, the fullest of each job first."""
        jobs, n = self.gbps.shape
        total = np.bincount(self.gbps.indices, self.gbps.data, n)
        if jobs == 1:
            return np.argsort(-total, kind="stable")
        row = _rows(self.gbps)
        fullest = np.lexsort((row, -self.gbps.data, self.gbps.indices))
        columns, at = np.unique(self.gbps.indices[fullest], return_index=True)
        job = np.zeros(n, int)
        job[columns] = row[fullest[at]]
        order = np.lexsort((-total, job))
        sizes = np.bincount(job, minlength=jobs)
        rank = np.arange(n) - (np.cumsum(sizes) - sizes)[job[order]]
        return order[np.argsort((rank + 0.5) / sizes[job[order]], kind="stable")]

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others."""
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        by_place = np.lexsort((place[self.gbps.indices], _rows(self.gbps)))
        gbps: Floats = self.gbps.data
        return self._crossing(gbps[by_place], place[self.gbps.indices[by_place]])

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound for any k containers: each job with its own choice of them.

        What a job asks of a cut rises with its rate on a side up to a half, and falls beyond. Of n containers its
        max(k, n - k) fullest hold at least a half, and no choice of k or of n - k is further from it.
        """
        n = self.containers
        k = np.arange(1, n + 1)
        place = np.arange(self.gbps.nnz) - np.repeat(self.gbps.indptr[:-1], np.diff(self.gbps.indptr))
        gbps: Floats = self.gbps.data
        least = self._crossing(gbps[np.lexsort((-gbps, _rows(self.gbps)))], place)
        more: Ints = np.maximum(k, n - k)
        return least[more - 1]

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves: share sum(min(total, 2 max(total - leaf_gbps, 0))).

        A leaf with at most half of a job sends out all that it has of it. If one leaf has more, it sends out as much as
        the other leaves have, and so do these.
        """
        others = 2 * np.maximum(self.total - leaf_gbps, 0.0)
        least = np.where(leaf_gbps <= self.half, self.total, np.minimum(self.total, others))
        return self.share * float(least.sum())

    def _crossing(self, gbps: Floats, place: NDArray[np.intp]) -> Floats:
        """Gb/s that must cross between the first k places and the others, each job with its own order of containers.

        ``gbps`` are the entries of each row in its order, ``place`` their places. The sum over jobs changes only at the
        places where a job has adapters, so the changes are added up.
        """
        sizes = np.diff(self.gbps.indptr)
        total, half = np.repeat(self.total, sizes), np.repeat(self.half, sizes)
        before = np.cumsum(gbps) - gbps
        before -= np.repeat(np.append(before, 0.0)[self.gbps.indptr[:-1]], sizes)

        def crossing(inside: Floats) -> Floats:
            return np.maximum(np.minimum(np.minimum(inside, total - inside), half), 0.0)

        change = np.bincount(place, crossing(before + gbps) - crossing(before), self.containers)
        return np.asarray(self.share * np.cumsum(change))


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
    def worst_order(self) -> NDArray[np.intp]:
        """Containers by surplus, gives - takes, the largest first: of all choices of k the first k need the most."""
        return np.argsort(self.takes - self.gives, kind="stable")

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k containers of an order and the others."""
        gives, takes = np.cumsum(self.gives[order]), np.cumsum(self.takes[order])
        among = np.minimum(takes + self.gives.sum() - gives, gives + self.takes.sum() - takes)
        return np.asarray(np.maximum(self.need - among, 0.0))

    @property
    def least_crossing(self) -> Floats:
        """(containers,) lower bound for any k containers: those with the least surplus, or all others."""
        order = self.worst_order[::-1]
        among = np.append(0.0, np.cumsum((self.takes - self.gives)[order])) + self.gives.sum()
        return np.asarray(np.maximum(self.need - np.maximum(among[1:], among[-2::-1]), 0.0))

    def leaving(self, leaf_gbps: float) -> float:
        """Lower bound of the Gb/s that leave all leaves: 0, since every leaf may hold servers of both roles."""
        return 0.0


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
    >>> from scipy.sparse import csr_array
    >>> half = np.array([40.0])
    >>> job = JobDemand(csr_array(np.full((1, 4), 20.0)), half, share=1.0)  # on four leaves
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
        order = k - 1 if cut == "line" else demand.worst_order
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


def cuts_suffice(demand: Demand, order: NDArray[np.intp], cut: Floats) -> bool:
    """Return whether cuts between the first k leaves of an order and the others, by k - 1, carry what must cross."""
    return bool((cut >= demand.crossing(order) * (1 - ROUNDING) - ROUNDING).all())


def _rows(entries: csr_array) -> NDArray[np.intp]:
    """Row of each entry."""
    return np.repeat(np.arange(entries.shape[0]), np.diff(entries.indptr))
