"""What must cross the cuts of a design before it is compiled: of jobs in halves, and from roles to those that compute.

`least` is the law that excludes most designs: of the leaves, pods or zones of a design, take those with the most
adapters until they hold half of a job. What their links to the outside carry, and what the two halves send among
themselves for want of balance, is all that the halves can exchange, whatever the routing (max-flow min-cut, Ford and
Fulkerson 1956).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from costmodel.optimise.cuts import Floats

ROUNDING = 1e-9
"""Shares are quotients of whole numbers: less than this is no difference."""
Counts = NDArray[np.int64]
Cut = Literal["out", "mesh", "mean", "line"]
"""What links of containers are told: see `least`."""


class Demand(Protocol):
    """What must cross cuts of containers of adapters, such as leaves or pods."""

    @property
    def need(self) -> Floats | float:
        """Gb/s that must arrive."""

    @property
    def containers(self) -> int:
        """How many there are."""

    def gathered(self, of: Counts) -> Demand:
        """Return the same of containers of containers."""

    @property
    def order(self) -> NDArray[np.intp]:
        """An order of the containers, of which the first ask for much of the others."""

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s that must cross between the first k of an order and the others."""

    @property
    def crossing_any(self) -> Floats:
        """(containers,) the same of any k containers, at least."""

    def leaving(self, leaf_gbps: float) -> float:
        """Gb/s that must leave all leaves at least, whatever hangs where, if none holds more than `leaf_gbps`."""


@dataclass(frozen=True)
class Jobs:
    """What one half of each of some jobs must be able to send to the other, all at once. J jobs."""

    gbps: csr_array
    """(J, containers), of the adapters of each job in each. Most small jobs are in one or two."""
    half: Floats
    """(J,), of the adapters of one half."""
    need: Floats
    """(J,), of what the other half must receive."""

    @property
    def containers(self) -> int:
        """How many there are."""
        return int(self.gbps.shape[1])

    def gathered(self, of: Counts) -> Jobs:
        """Return the same of containers of containers."""
        n, jobs = int(of.max(initial=-1)) + 1, np.arange(self.gbps.shape[0] + 1)
        keys, where = np.unique(_rows(self.gbps) * n + of[self.gbps.indices], return_inverse=True)
        parts = np.bincount(where, self.gbps.data, len(keys)), keys % max(n, 1), np.searchsorted(keys, jobs * n)
        return Jobs(csr_array(parts, (self.gbps.shape[0], n)), self.half, self.need)

    @property
    def order(self) -> NDArray[np.intp]:
        """Containers such that those of every job come at an even pace, the fullest of each first."""
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
        """(containers,) Gb/s that jobs cannot do without between the first k containers of an order and the others."""
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        by_place = np.lexsort((place[self.gbps.indices], _rows(self.gbps)))
        gbps: Floats = self.gbps.data
        return self._crossing(gbps[by_place], place[self.gbps.indices[by_place]], both=True)

    @property
    def crossing_any(self) -> Floats:
        """(containers,) the same of any k: no job sends more within them than within those with the most of it."""
        n = self.containers
        k = np.arange(1, n + 1)
        place = np.arange(self.gbps.nnz) - np.repeat(self.gbps.indptr[:-1], np.diff(self.gbps.indptr))
        gbps: Floats = self.gbps.data
        least = self._crossing(gbps[np.lexsort((-gbps, _rows(self.gbps)))], place, both=False)
        more: Counts = np.maximum(k, n - k)
        return least[more - 1]

    def leaving(self, leaf_gbps: float) -> float:
        """Some leaves hold half of each job, but for a leaf's adapters; what crosses leaves them, and the others."""
        return float(2 * np.maximum(self.need - leaf_gbps, 0.0).sum())

    def _crossing(self, gbps: Floats, place: NDArray[np.intp], *, both: bool) -> Floats:
        """What must cross between the first k of an order that each job has for itself, and those beyond.

        The entries of each row are given in that order, with their places in it. Without `both` a job sends only within
        the first. It changes only where a job has adapters.
        """
        sizes, rows = np.diff(self.gbps.indptr), _rows(self.gbps)
        total = np.asarray(np.bincount(rows, self.gbps.data, len(self.half)), np.float64)
        before = np.cumsum(gbps) - gbps
        before -= np.repeat(np.append(before, 0.0)[self.gbps.indptr[:-1]], sizes)

        def asked(half: Floats, total: Floats, need: Floats, inside: Floats) -> Floats:
            among = np.maximum(half - total + inside, 0.0)
            return np.maximum(need - (np.maximum(among, half - inside) if both else among), 0.0)

        each = np.repeat(self.half, sizes), np.repeat(total, sizes), np.repeat(self.need, sizes)
        change = np.bincount(place, asked(*each, before + gbps) - asked(*each, before), self.containers)
        found: Floats = asked(self.half, total, self.need, np.zeros(len(self.half))).sum() + np.cumsum(change)
        return found


@dataclass(frozen=True)
class Supply:
    """What the servers of a role together must be able to send to all that compute."""

    gives: Floats
    """(containers,) Gb/s of the adapters of that role in each."""
    takes: Floats
    """(containers,) Gb/s of those that compute."""
    need: float

    @property
    def containers(self) -> int:
        """How many there are."""
        return len(self.gives)

    def gathered(self, of: Counts) -> Supply:
        """Return the same of containers of containers."""
        n = int(of.max(initial=-1)) + 1
        gives, takes = (np.bincount(of, each, n).astype(np.float64) for each in (self.gives, self.takes))
        return Supply(gives, takes, self.need)

    @property
    def order(self) -> NDArray[np.intp]:
        """Containers by what they give and do not take: of all k those at the head ask for the most."""
        return np.argsort(self.takes - self.gives, kind="stable")

    def crossing(self, order: NDArray[np.intp]) -> Floats:
        """(containers,) Gb/s beyond what is taken on one side and given on the other, for the worse of the two."""
        gives, takes = np.cumsum(self.gives[order]), np.cumsum(self.takes[order])
        among = np.minimum(takes + self.gives.sum() - gives, gives + self.takes.sum() - takes)
        return np.asarray(np.maximum(self.need - among, 0.0))

    @property
    def crossing_any(self) -> Floats:
        """(containers,) the same of any k: the k that take the most and give the least, or all but those."""
        order = self.order[::-1]
        among = np.append(0.0, np.cumsum((self.takes - self.gives)[order])) + self.gives.sum()
        return np.asarray(np.maximum(self.need - np.maximum(among[1:], among[-2::-1]), 0.0))

    def leaving(self, leaf_gbps: float) -> float:
        """Nothing, as far as is known: all may be on one leaf, or side by side on each."""
        return 0.0


def least_out(demands: Sequence[Demand], leaf_gbps: float) -> float:
    """Gb/s that must leave all leaves together at least, whatever hangs where, if none holds more than `leaf_gbps`."""
    return max((demand.leaving(leaf_gbps) for demand in demands), default=0.0)


def least(
    demands: Sequence[Demand],
    out: Floats | float,
    of: Counts | None = None,
    *,
    cut: Cut = "out",
) -> float:
    """Least factor on the capacities of containers of adapters, such as leaves or pods, with which they may carry all.

    Parameters
    ----------
    demands : sequence of Demand
        What must be carried.
    out : float or (containers,) float64
        Gb/s of what `cut` says.
    of : (leaves,) int64, optional
        Container of each leaf; each is one when left out.
    cut : str
        ``out``: of the links that leave each container. ``mesh``: of those between each two. ``mean``: the same in the
        mean over all pairs; of all choices of k containers, one is cut no dearer than the mean over them. ``line``: of
        those that leave the first k, by k - 1.

    Returns
    -------
    float
        0 where nothing must leave a container, infinite where no factor would do.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> half = np.array([40.0])
    >>> job = Jobs(csr_array(np.full((1, 4), 20.0)), half, need=half)  # on four leaves
    >>> least([job], 1.0), least([job], 1.0, cut="mesh"), least([job], 1.0, np.array([0, 0, 1, 1]))
    (20.0, 10.0, 40.0)
    """
    worst = 0.0
    for each in demands:
        demand = each if of is None else each.gathered(of)
        n = demand.containers
        k = np.arange(1, n + 1)
        order = k - 1 if cut == "line" else demand.order
        crossing = demand.crossing_any if cut == "mean" else demand.crossing(order)
        if cut == "line":
            leaving = np.asarray(out)
        elif isinstance(out, np.ndarray):
            leaving = np.cumsum(out[order])
            leaving = np.minimum(leaving, out.sum() - leaving)
        else:
            leaving = out * (np.minimum(k, n - k) if cut == "out" else k * (n - k))
        lacking = crossing > ROUNDING * max(float(np.sum(demand.need)), 1.0)
        if (leaving[lacking] <= 0).any():
            return inf
        worst = max(worst, float((crossing[lacking] / leaving[lacking]).max(initial=0.0)))
    return worst


def carries(demand: Demand, order: NDArray[np.intp], cut: Floats) -> bool:
    """Whether cuts between the first k leaves of an order and the others, by k - 1, let pass what must cross them."""
    return bool((cut >= demand.crossing(order) * (1 - ROUNDING) - ROUNDING).all())


def _rows(held: csr_array) -> NDArray[np.intp]:
    """Row of each entry."""
    return np.repeat(np.arange(held.shape[0]), np.diff(held.indptr))
