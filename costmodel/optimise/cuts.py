"""Jobs in halves, all at once: what of them crosses a cut, and the share of its rate that every job gets over it.

A cut puts each switch on one of two sides. Of a job the halves can be chosen so that the lesser of what it has on the
two sides crosses, or a half, if that is less. A job gets the share s of its rate if s times a half arrives, of which
what does not cross needs no cable of the cut. So jobs that are not apart take nothing from the cut, and no job is paid
for with the share of another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Sides = NDArray[np.bool_]


@dataclass(frozen=True)
class Halves:
    """Jobs on the switches of a subnet. J jobs, n switches."""

    held: Floats
    """(J, n) Gb/s of the adapters of each job on each switch."""
    half: Floats
    """(J,) Gb/s of a half: whole adapters where all of a job have one rate, else half of the sum."""
    job: NDArray[np.intp]
    """(J,) number of each job; of several that are alike the first, and their sum is one row."""

    @classmethod
    def of(cls, job: NDArray[np.integer], switch: NDArray[np.integer], gbps: Floats, n: int) -> Halves:
        """Gather adapters by job and switch; jobs on a single switch, which no cut parts, are left out.

        Parameters
        ----------
        job, switch : (A,) int
            Job and switch of each adapter.
        gbps : (A,) float64
            Its rate.
        n : int
            Switches.
        """
        number, row = np.unique(job, return_inverse=True)
        held = np.zeros((len(number), n))
        np.add.at(held, (row, switch), gbps)
        least, most = np.full(len(number), np.inf), np.zeros(len(number))
        np.minimum.at(least, row, gbps)
        np.maximum.at(most, row, gbps)
        total = held.sum(axis=1)
        half = np.where(least == most, np.rint(total / np.maximum(most, 1e-9)) // 2 * most, total / 2)
        apart = (np.count_nonzero(held, axis=1) > 1) & (half > 0)
        rows, first, times = np.unique(held[apart], axis=0, return_index=True, return_counts=True)
        order = np.argsort(first)
        rows, first, times = rows[order], first[order], times[order]
        return cls(rows * times[:, None], half[apart][first] * times, number[apart][first])

    @cached_property
    def total(self) -> Floats:
        """(J,) Gb/s of all adapters of each job."""
        return np.asarray(self.held.sum(axis=1))

    def split(self, inside: Floats) -> Floats:
        """What of each job crosses at most, if so many Gb/s of it are on one side; the jobs are the first axis."""
        total, half = self.total.reshape(-1, *[1] * (inside.ndim - 1)), self.half.reshape(-1, *[1] * (inside.ndim - 1))
        return np.asarray(np.minimum(np.minimum(inside, total - inside), half))

    def share(self, gbps: float, split: Floats) -> tuple[float, int]:
        """Share of its rate that every job gets over a cut of so many Gb/s, at most 1, and the job that is split most.

        For the share s, the jobs ask the cut for the sum of max(0, split - (1 - s) half), the largest of such sums over
        some of the jobs: those of which the most is split come first.
        """
        if not len(split):
            return 1.0, -1
        order = np.argsort(-split / self.half, kind="stable")
        shares = (gbps + np.cumsum((self.half - split)[order])) / np.cumsum(self.half[order])
        return min(float(shares.min()), 1.0), int(order[0])

    def lack(self, gbps: Floats, inside: Floats, share: float) -> Floats:
        """What cuts carry beyond what jobs ask for at a share; less than 0 where a job gets less."""
        asked = self.split(inside) - ((1 - share) * self.half).reshape(-1, *[1] * (inside.ndim - 1))
        return np.asarray(gbps - np.maximum(asked, 0.0).sum(axis=0))
