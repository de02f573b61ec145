"""The worst cut of a subnet: the set of switches whose links are the least share of what jobs ask of them.

With gbps(S) of the links that leave a set S of switches, and what the jobs ask of a cut (`costmodel.optimise.demand`),

    share = min over S of  gbps(S) / asked(S), at most 1.

A cut that is found is an upper bound of the share. Lower bounds are, in this order: a routing up and down a tree
(`spread_share`), all cuts where few switches differ, an eigenvalue of the Laplacian, and an integer program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.optimise.demand import ROUNDING, SOLVER_TOLERANCE, BisectedJobs, Floats, Ints, Sides
from costmodel.optimise.spread import spread_share
from topo.fabric import Fabric, Kind, Role
from topo.graphs import components, minimum_cut
from topo.ports import rail_numbers

if TYPE_CHECKING:  # to load it takes half the time of `plan check`, and few networks take anything from jobs
    from scipy.sparse import csr_array

MOST_ENUMERATED = 1 << 16
"""Cuts up to which all are enumerated, so that the worst one is exact: of 17 switches, or more that are alike."""
GBPS_TOLERANCE = 1e-6
"""Rates that differ by less are equal: they are multiples of 0.02 Gb/s (`STEPS_PER_GBPS`), so the rest is rounding."""
MOST_MOVED = 400
"""Switches up to which the local search moves single switches."""
MOST_SPECTRAL = 3_000
"""Switches up to which eigenvectors are computed."""
WIDTH = 1 / 16
"""Relative width of an interval that a program is to reach where it cannot prove the worst cut, and no need is given.
Further below the worst cut it closes sooner."""
MOST_PROVEN = 2_000
"""Switches up to which cuts are enumerated, and an eigenvalue and a program give a lower bound."""
ENUMERATED_TOGETHER = 1 << 22
"""Gb/s of rows of jobs beside cuts that are enumerated at a time: 32 MiB."""


class Subnet:
    """A subnet as its switches, the capacities between them, and the adapters linked to them.

    ``a``, ``b`` and ``gbps`` are the linked pairs of switches with their capacity; ``leaf``, ``rate``, ``zone``,
    ``role``, ``host`` and ``rank`` the switch, Gb/s, zone, role, server and compute rank (else -1) of each adapter.
    """

    def __init__(self, fabric: Fabric, rank: dict[str, int]) -> None:
        self.fabric = fabric
        self.n = n = fabric.n_switches
        rate = fabric.rate_gbps[fabric.links].min(axis=1)
        ports = np.sort(fabric.links, axis=1)  # the order of ports is that of their nodes
        ends = fabric.port_node[ports]
        inner = (ends[:, 1] < n) & (ends[:, 0] != ends[:, 1])
        pairs, where = np.unique(ends[inner, 0].astype(np.int64) * n + ends[inner, 1], return_inverse=True)
        self.a, self.b = pairs // n, pairs % n
        self.gbps = np.bincount(where, rate[inner], len(pairs)).astype(np.float64)
        hung = (ends[:, 0] < n) & (fabric.kind[ends[:, 1]] == Kind.HCA) & (fabric.host[ends[:, 1]] >= 0)
        order = np.argsort(ends[hung, 0], kind="stable")
        nodes = ends[hung, 1][order]
        self._end = n + ports[hung, 1][order] - fabric.first_adapter_port
        self.leaf, self.rate = ends[hung, 0][order], rate[hung][order]
        self.zone, self.role, self.host = fabric.zone[nodes], fabric.role[nodes], fabric.host[nodes]
        if not fabric.arrangement.startswith("levels"):
            self.zone = np.zeros_like(self.zone)  # without levels all groups share the storage
        self.rank = np.array([rank.get(host, -1) for host in fabric.hosts], np.int64)[self.host]

    def jobs(self, windows: Ints, *, with_storage: bool) -> Ints:
        """Return the job of each adapter, -1 for none. The storage of each zone with jobs is one more job."""
        job = np.searchsorted(windows[:, 0], self.rank, "right") - 1
        job[(self.rank < 0) | (self.rank >= np.append(windows[:, 1], 0)[job])] = -1
        if with_storage:
            beside = (self.role == Role.STORAGE) & np.isin(self.zone, np.unique(self.zone[job >= 0]))
            job[beside] = len(windows) + self.zone[beside] - self.zone.min(initial=0)
        return np.asarray(job)

    @property
    def has_rails(self) -> bool:
        """Whether a server has adapters on several switches, so that it matters to which others they send."""
        return len(np.unique(self.host * self.n + self.leaf)) > len(np.unique(self.host))

    @cached_property
    def rail(self) -> NDArray[np.int32]:
        """Number of each adapter in its server; 0 where no server has several that are apart."""
        return rail_numbers(self.fabric)[self._end] if self.has_rails else np.zeros(len(self.leaf), np.int32)

    @cached_property
    def placed(self) -> NDArray[np.intp]:
        """Switches whose sides determine the worst cut: the others have no adapters, and only these as neighbours."""
        other = np.bincount(self.leaf, minlength=self.n) == 0
        for a, b in zip(self.a.tolist(), self.b.tolist(), strict=True):
            if other[a] and other[b]:
                other[b] = False
        return np.flatnonzero(~other)

    @property
    def containers(self) -> Iterator[Sides]:
        """Switches with adapters one by one, and what is connected up to each level, such as pods and zones."""
        every = np.arange(self.n)
        for leaf in np.unique(self.leaf).tolist():
            yield every == leaf
        level = self.fabric.level[: self.n]
        for height in np.unique(level)[:-1].tolist():
            below = np.flatnonzero(level <= height)
            inner = (level[self.a] <= height) & (level[self.b] <= height)
            of = components(self.n, self.a[inner], self.b[inner])
            parts = np.unique(of[below])
            for part in parts if len(parts) < len(below) else ():
                yield of == part

    def starts(self, leaf: NDArray[np.intp], descents: int) -> Iterator[Floats]:
        """Yield a key for each switch, for each start: the half with the lower keys is one side."""
        from scipy.sparse.csgraph import dijkstra

        yield -np.bincount(leaf, minlength=self.n).astype(np.float64)
        draw = np.random.default_rng(0)
        yield from (draw.random(self.n) for _ in range(descents))
        if len(self.a):  # distance to one end of a link less that to the other: the cuts of grids (Djokovic 1973)
            links = draw.permutation(len(self.a))[: 2 * descents + 2]
            near, far = (dijkstra(self.sparse, False, ends[links], unweighted=True) for ends in (self.a, self.b))
            yield from np.subtract(near, far, out=np.zeros_like(near), where=np.isfinite(near))
        yield from self._eigenvectors

    @cached_property
    def _eigenvectors(self) -> list[Floats]:
        """Eigenvectors of the smallest eigenvalues of the Laplacian, which indicate narrow cuts (Fiedler 1973)."""
        if not 5 < self.n <= MOST_SPECTRAL:
            return []
        from scipy.sparse import diags_array
        from scipy.sparse.linalg import eigsh

        scale = max(float(self.gbps.max(initial=0.0)), 1.0)
        shifted = (diags_array(self.sparse.sum(axis=0) + scale) - self.sparse).tocsc() / scale  # positive definite
        return list(eigsh(shifted, k=4, sigma=0.0, v0=np.arange(1.0, self.n + 1))[1].T[::-1])

    @cached_property
    def sparse(self) -> csr_array:
        """(n, n) Gb/s between switches."""
        from scipy.sparse import coo_array

        ends = (np.concatenate([self.a, self.b]), np.concatenate([self.b, self.a]))
        return coo_array((np.tile(self.gbps, 2), ends), shape=(self.n, self.n)).tocsr()

    @cached_property
    def dense(self) -> Floats:
        """(n, n) Gb/s between switches."""
        return np.asarray(self.sparse.toarray())

    def leaving(self, side: Sides) -> float:
        """Gb/s of the links between a set of switches and the others."""
        return float(self.gbps[side[self.a] != side[self.b]].sum())

    def cut(self, sends: Floats, receives: Floats) -> tuple[float, Sides]:
        """Return the maximum flow between switches in Gb/s, and the senders' side of the minimum cut."""
        return minimum_cut(np.stack([self.a, self.b], axis=1), self.gbps, sends, receives)


class CutSearch:
    """Search for the worst cut of jobs on a subnet; holds the worst so far, and a lower bound of all cuts.

    ``job`` is (A,) int, the job of each adapter, -1 for none; ``between_rails`` says whether adapters send to all
    others of their job, instead of those with their number in other servers.
    """

    def __init__(self, subnet: Subnet, job: Ints, *, between_rails: bool = False) -> None:
        self.subnet, self.job = subnet, job
        self.members = np.flatnonzero(job >= 0)
        """Adapters of the jobs."""
        at = self.members
        self.rails = 1 if between_rails else int(subnet.rail.max(initial=0)) + 1
        self.part = job[at] * self.rails + (0 if between_rails else subnet.rail[at])
        """Number of what is bisected, for each member: a job, or a rail of it."""
        self.jobs = BisectedJobs.of(self.part, subnet.leaf[at], subnet.rate[at], subnet.n)
        self.gbps = float(subnet.rate[at].sum()) / 2
        """Full rate of one half of all jobs."""
        self.share, self.least = 1.0, 0.0
        """Share over the worst cut so far; lower bound of the share over all cuts."""
        self.side: Sides = np.zeros(subnet.n, bool)
        """Switches on one side of the worst cut so far; none where no cut takes anything from the jobs."""

    def run(self, descents: int, need: float, *, prove: bool) -> None:
        """Search until the worst cut is proven, one below the needed share is found, or nothing is left to try.

        So many ``descents`` are from random halves, others from halves that are often bad. Bounds that take long are
        computed where it is to ``prove`` them.
        """
        net = self.subnet
        if not len(self.jobs.half):
            self.least = 1.0
            return
        bound = spread_share(net.a, net.b, net.gbps, net.fabric.level[: net.n], self.jobs)
        if bound == 1:  # no cut takes anything from the jobs
            self.least = 1.0
            return
        self._descend(np.arange(net.n, dtype=np.float64))
        for side in net.containers:
            self.evaluate(side)
        self._raise(bound)
        if self.share > self.least and (alike := self._alike()):
            self._enumerate(alike)
        elif self.share > self.least and self.share >= need:
            self._descend_all(descents, need)
            if prove and net.n <= MOST_PROVEN and self.share >= need:
                self._prove(need)

    @property
    def divided(self) -> list[int]:
        """Numbers of the jobs that ask something of the worst cut, in order."""
        asked = self.jobs.crossing(self.jobs.inside(self.side))
        asks = asked > GBPS_TOLERANCE
        return sorted({part // self.rails for at in np.flatnonzero(asks).tolist() for part in self.jobs.numbers[at]})

    def evaluate(self, side: Sides) -> bool:
        """Keep a cut if it is the worst so far, or as bad with fewer switches. Return whether it is worse."""
        asked, gbps = float(self.jobs.asked(self.jobs.inside(side))), self.subnet.leaving(side)
        worse = gbps < asked * (self.share - SOLVER_TOLERANCE)
        if worse or (gbps <= asked * self.share < asked and _fewer(side) < _fewer(self.side)):
            self.share, self.side = gbps / asked, side
        return worse

    def _raise(self, bound: float) -> None:
        """Raise the lower bound; one that differs from the share by rounding only proves it.

        Raises
        ------
        RuntimeError
            When it is above a cut that was found: an error of Heddle.
        """
        if bound > self.share + SOLVER_TOLERANCE:
            raise RuntimeError(f"a bound of {bound:.9f} and a cut of {self.share:.9f} contradict each other")
        self.least = max(self.least, self.share if bound >= self.share * (1 - ROUNDING) else bound)

    def _alike(self) -> list[NDArray[np.intp]]:
        """Return the placed switches, those that are alike together; none where their cuts are too many to enumerate.

        Switches are alike if to exchange them changes nothing: they have the same jobs, and the same links to all other
        switches. Of those only the number on a side counts.
        """
        if self.subnet.n > MOST_PROVEN:
            return []
        dense, on_switch = self.subnet.dense, self.jobs.on_switch
        left, found, cuts = self.subnet.placed, [], 1
        while len(left):
            differs = dense[left] != dense[left[0]]
            differs[:, left[0]] = False
            differs[np.arange(len(left)), left] = False
            same = ~differs.any(axis=1) & (on_switch[:, left] == on_switch[:, left[:1]]).all(axis=0)
            found.append(left[same])
            left = left[~same]
            cuts *= 1 + len(found[-1]) if len(left) else 1 + len(found[-1]) // 2
            if cuts > MOST_ENUMERATED:
                return []
        return found

    def _enumerate(self, alike: Sequence[NDArray[np.intp]]) -> None:
        """Evaluate all cuts: all numbers of switches of each kind on one side; of the last kind at most half."""
        net, jobs = self.subnet, self.jobs
        first, size = np.array([kind[0] for kind in alike]), np.array([len(kind) for kind in alike])
        most = [*size[:-1], size[-1] // 2]
        counts = np.indices([number + 1 for number in most]).reshape(len(alike), -1).T.astype(np.float64)
        among = net.dense[np.ix_(first, first)]
        np.fill_diagonal(among, [net.dense[kind[0], kind[-1]] for kind in alike])
        cut = ((counts @ among) * (size - counts)).sum(axis=1)
        others = np.setdiff1d(np.arange(net.n), np.concatenate(alike))
        links, kind_of, times = np.unique(
            net.dense[np.ix_(first, others)], axis=1, return_inverse=True, return_counts=True
        )
        up = counts @ links
        beyond = size @ links - up
        cut += np.minimum(up, beyond) @ times
        on_kind = jobs.on_switch[:, first]
        parts = np.array_split(counts, -(-len(counts) * len(on_kind) // ENUMERATED_TOGETHER))
        asked = np.concatenate([jobs.asked(on_kind @ part.T) for part in parts])
        quotient = np.divide(cut, asked, out=np.full(len(counts), inf), where=asked > 0)
        worst = int(quotient.argmin())
        side = np.zeros(net.n, bool)
        for kind, number in zip(alike, counts[worst].astype(int).tolist(), strict=True):
            side[kind[:number]] = True
        side[others] = (up[worst] > beyond[worst])[kind_of]
        self.evaluate(side)
        self.least = self.share

    def _descend_all(self, descents: int, need: float) -> None:
        """Descend from halves that are often bad and from random halves, then from neighbours of the worst cut."""
        net = self.subnet
        for key in net.starts(net.leaf[self.members], descents):
            self._descend(key)
            if self.share < need:
                return
        draw, moved = np.random.default_rng(1), net.n <= MOST_MOVED
        for turn in range(4 * descents if moved else descents):
            near = self.side ^ (draw.random(net.n) < draw.choice([0.0, 0.1, 0.3]) * (turn > 0))
            if moved:
                near = self._improve(near)
                self.evaluate(near)
            self._descend(~near * 1.0)
            if self.share < need:
                return

    def _descend(self, key: Floats) -> None:
        """Alternate between the minimum cut of two halves and the halves that fit this cut best, while it gets smaller.

        Initially the first half of each job, or of each rail of it, is the adapters whose switches have the lowest
        ``key``. The halves send at the share over the worst cut so far: a minimum cut below what they send has a
        smaller quotient (Dinkelbach 1967).
        """
        net, share = self.subnet, self.share
        leaf, gbps = net.leaf[self.members], net.rate[self.members]
        _, part = np.unique(self.part, return_inverse=True)
        total = np.bincount(part, gbps)
        order = np.lexsort((key[leaf], part))
        before = (np.cumsum(total) - total)[part[order]]
        total = total[part[order]]
        best = inf
        while True:
            far = np.cumsum(gbps[order]) - before
            halves = far <= total / 2 + GBPS_TOLERANCE, far - gbps[order] >= total / 2 - GBPS_TOLERANCE
            sends, receives = (
                np.bincount(leaf[order[half]], gbps[order[half]], net.n).astype(float) for half in halves
            )
            flow, side = net.cut(share * sends, share * receives)
            self.evaluate(side)
            if not flow or flow >= best:
                return
            best = flow
            order = order[np.lexsort((~side[leaf[order]], part[order]))]

    def _improve(self, side: Sides) -> Sides:
        """Make one pass of Fiduccia and Mattheyses (1982), and return the best sides on the way.

        Each switch moves once to the other side, the best move first. The objective is gbps of the cut - share * what
        the jobs ask of it, at the share over the worst cut so far.
        """
        net, jobs, share = self.subnet, self.jobs, self.share
        sign = np.where(side, 1.0, -1.0)
        inside = jobs.inside(side)
        free, total, best = np.ones(net.n, bool), 0.0, (0.0, side)
        gain = sign * (net.dense @ sign)  # Gb/s that moving a switch adds to the cut
        for _ in range(net.n):
            asks = jobs.asked(inside[:, None] - sign * jobs.on_switch) - jobs.asked(inside[:, None])
            moved = int(np.argmin(np.where(free, gain - share * asks, np.inf)))
            total += gain[moved] - share * asks[moved]
            inside = inside - sign[moved] * jobs.on_switch[:, moved]
            gain -= 2 * sign[moved] * net.dense[moved] * sign
            sign[moved], gain[moved], free[moved] = -sign[moved], -gain[moved], False
            if total < best[0] - GBPS_TOLERANCE:
                best = (total, sign > 0)
        return best[1]

    def _prove(self, need: float) -> None:
        """Raise the lower bound by the second eigenvalue, then by programs: at the share, and at what is needed."""
        from costmodel.optimise.milp import CutProgram, spectral_share  # the solver loads longer than most trees take

        net = self.subnet
        if net.n <= MOST_MOVED or bool(self.jobs.on_switch.any(axis=0).all()):  # the eigenvalue is weak for trees
            self._raise(spectral_share(net.dense, self.jobs))
        program = CutProgram(net.dense, self.jobs)
        while self.least < self.share and program.solvable:
            inside, excluded = program.solve(self.share)
            if excluded:
                self.least = self.share
            if inside is None or not self._evaluate_leaves(inside):
                break
        least = need or self.share * (1 - WIDTH)
        if self.least < least <= self.share and program.solvable and program.solve(least)[1]:
            self.least = least

    def _evaluate_leaves(self, inside: Sides) -> bool:
        """Evaluate the smallest cut that divides the switches with adapters of the jobs like this."""
        net, used = self.subnet, np.asarray(self.jobs.on_switch.any(axis=0))
        everything = np.asarray(net.sparse.sum(axis=0)) + 1.0
        return self.evaluate(net.cut(everything * inside, everything * (used & ~inside))[1])


def _fewer(side: Sides) -> int:
    """Switches on the side that has fewer."""
    inside = int(np.count_nonzero(side))
    return min(inside, len(side) - inside)
