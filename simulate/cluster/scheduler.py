"""The scheduler: which nodes a job gets, and when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import simpy
from numpy.typing import ArrayLike, NDArray

from simulate.cluster.policies import Placement, place
from simulate.traffic.placement import leaf_of, zone_of
from topo.errors import HeddleError
from topo.fabric import Fabric


class _Request(NamedTuple):
    nodes: int
    granted: simpy.Event


class Scheduler:
    """Grants nodes in the order of requests, but lets a later request pass an earlier one that does not fit yet.

    With the rule of Fire-Flyer (An et al., SC'24, arXiv 2408.14158, section III-B) a job runs within one zone, and only
    a number of them at a time may span zones. Other policies are those of `simulate.cluster.policies`; the rules are
    those of `simulate.cluster.queue.QueueSpec`.

    Parameters
    ----------
    ends
        End ports, one of each node that there is.
    """

    def __init__(
        self,
        env: simpy.Environment,
        fabric: Fabric,
        ends: ArrayLike,
        rng: np.random.Generator,
        placement: Placement = "zone",
        cross_zone_jobs: int = 1,
        ordered: bool = True,
    ) -> None:
        self.env = env
        self.ends = np.asarray(ends, np.int32)
        self.zone = zone_of(fabric, self.ends)
        self.leaf = leaf_of(fabric, self.ends)
        self._leaves, self._leaf_number = np.unique(self.leaf, return_inverse=True)
        self._leaf_zone = np.zeros(len(self._leaves), np.int64)
        self._leaf_zone[self._leaf_number] = self.zone
        self.placement: Placement = placement
        self.cross_zone_jobs = cross_zone_jobs
        self.ordered = ordered
        self._rng = rng
        self._free = np.ones(len(self.ends), bool)
        self._up = np.ones(len(self.ends), bool)
        self._number = {end: at for at, end in enumerate(self.ends.tolist())}
        self._queue: list[_Request] = []
        self._spanning: set[int] = set()
        """The first node of each job that spans zones."""
        self._granted_s, self._since_s = 0.0, 0.0
        self.history: list[tuple[float, int, int]] = []
        """After each change: when, how many nodes jobs had, and how many were down."""

    def granted_s(self, now_s: float) -> float:
        """Return the seconds until now for which nodes were jobs', the sum over all nodes."""
        return self._granted_s + np.count_nonzero(~self._free) * (now_s - self._since_s)

    @property
    def keeps_zones(self) -> bool:
        """Whether there is a rule on zones."""
        return self.placement == "zone"

    @property
    def most_nodes(self) -> int:
        """The most that a job can have: of one zone where none may span zones, else of all."""
        in_zone = np.unique(self.zone, return_counts=True)[1]
        return int(in_zone.max()) if self.keeps_zones and self.cross_zone_jobs == 0 else len(self.ends)

    def request(self, nodes: int) -> simpy.Event:
        """Request nodes; the event succeeds with their end ports."""
        if not 1 <= nodes <= self.most_nodes:
            raise HeddleError(f"a job wants {nodes} nodes; expected 1 to {self.most_nodes}")
        granted = self.env.event()
        self._queue.append(_Request(nodes, granted))
        self._serve()
        return granted

    def release(self, ends: ArrayLike) -> None:
        """Take back all nodes of a job."""
        numbers = self._numbers(ends)
        self._account()
        self._free[numbers] = True
        self._spanning.discard(numbers[0])
        self._note()
        self._serve()

    def take_down(self, end: int) -> None:
        """Grant this node to no job until it is repaired."""
        self._up[self._numbers(end)] = False
        self._note()

    def is_up(self, end: int) -> bool:
        """Return whether a node works."""
        return bool(self._up[self._number[end]])

    def repair(self, end: int) -> None:
        """Grant this node again."""
        self._up[self._numbers(end)] = True
        self._note()
        self._serve()

    def spans_zones(self, ends: ArrayLike) -> bool:
        """Return whether nodes stand in several zones."""
        return len(np.unique(self.zone[self._numbers(ends)])) > 1

    def count_leaves(self, ends: ArrayLike) -> int:
        """Return how many leaves nodes stand on."""
        return len(np.unique(self.leaf[self._numbers(ends)]))

    def _account(self) -> None:
        """Count what was granted until now, before that changes."""
        self._granted_s, self._since_s = self.granted_s(self.env.now), self.env.now

    def _note(self) -> None:
        self.history.append((self.env.now, int(np.count_nonzero(~self._free)), int(np.count_nonzero(~self._up))))

    def _numbers(self, ends: ArrayLike) -> list[int]:
        return [self._number[end] for end in np.atleast_1d(np.asarray(ends)).tolist()]

    def _serve(self) -> None:
        waiting: list[_Request] = []
        for request in self._queue:
            chosen = self._choose(request.nodes)
            if chosen is None:
                waiting.append(request)
            else:
                if not self.ordered:
                    chosen = self._rng.permutation(chosen)
                self._account()
                self._free[chosen] = False
                self._note()
                if len(np.unique(self.zone[chosen])) > 1:
                    self._spanning.add(int(chosen[0]))
                request.granted.succeed(self.ends[chosen])
        self._queue = waiting

    def _choose(self, nodes: int) -> NDArray[np.int64] | None:
        able = np.flatnonzero(self._free & self._up)
        if len(able) < nodes:
            return None
        if self.placement != "zone":
            if self.placement == "random":
                taken = np.sort(self._rng.choice(able, nodes, replace=False))
            else:
                free = np.bincount(self._leaf_number[able], minlength=len(self._leaves))
                take = place(self.placement, free, self._leaf_zone, nodes)
                of_leaf = np.split(able[np.argsort(self._leaf_number[able], kind="stable")], np.cumsum(free)[:-1])
                taken = np.concatenate([here[:n] for here, n in zip(of_leaf, take.tolist(), strict=True)])
            return taken[np.lexsort((self.leaf[taken], self.zone[taken]))]
        zones, room = np.unique(self.zone[able], return_counts=True)
        if room.max() >= nodes:
            # The fullest zone that has room keeps the other one open for larger jobs.
            tight = zones[np.argmin(np.where(room >= nodes, room, len(self.ends) + 1))]
            return self._by_leaf(able[self.zone[able] == tight])[:nodes]
        if len(self._spanning) >= self.cross_zone_jobs:
            return None
        roomy = np.argsort(-room, kind="stable")
        parts, left = [], nodes
        for zone in zones[roomy].tolist():
            part = self._by_leaf(able[self.zone[able] == zone])[:left]
            parts.append(part)
            left -= len(part)
        return np.concatenate(parts)

    def _by_leaf(self, able: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return nodes leaf after leaf, those leaves first where most are free."""
        _, at, room = np.unique(self.leaf[able], return_inverse=True, return_counts=True)
        return able[np.lexsort((able, self.leaf[able], -room[at]))]
