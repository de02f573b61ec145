"""The search: from tables that are complete and free of loops to better ones of the same kind, by the score J.

    J = sum over samples k of  w_k * ((1 - m) * log(F_k + Q_k) / 2 + m * log(P_k) / p),    m = 1/2

Q_k sums the squares of loads, without what flows to one destination alone, so it is 0 where no flows meet; F_k is the
number of flows. P_k sums high powers of loads, which is the fullest channel, smoothly (`routing.search.move`). No move
makes the fullest channel of all pairs any fuller. Logarithms make one per cent of one sample worth as much as one per
cent of any other, so nothing has to be scaled. J falls with every sweep; the search ends when a sweep gains less than
`ENOUGH`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import order_channels, switch_levels, with_ranks
from routing.order.destinations import Destinations, destinations_of
from routing.order.legal import ChannelOrder
from routing.order.turns import Turns, no_turns
from routing.search.move import (
    AMENDED,
    Allowed,
    State,
    Terms,
    add_up_loads,
    allow_used,
    find_crowds,
    move_flows,
    new_state,
    reopen,
    sum_terms,
    sum_turns,
)
from routing.search.problem import Problem, pose
from routing.tables import tree_order
from topo.fabric import Fabric, frozen

HIGH = 0.5
"""Share m of the fullest channel in the score; the rest is what flows meet on all of them."""

NOTHING = 1e-9
"""Stands for what is nothing but for rounding."""

ENOUGH, SWEEPS = 2.5e-3, 8
"""A sweep that gains less, a quarter of a per cent of the loads, is the last one; and there are so many at most."""

EFFORT = 1 << 29
"""Destinations times channels that a search looks at, in all its sweeps: some ten seconds, since one takes up
to 20 ns in a tree (8,000 hosts, 1 % of the cables missing). That is eight sweeps for 3,800 hosts and one for 8,000;
where it is fewer than eight, moves that gain nothing but for rounding are left, and entries that no host's traffic
takes. Where it is not one for all destinations, those come first that are reached over the fullest channels."""

GOLDEN = (5**0.5 - 1) / 2
"""Destinations are visited in steps of the golden ratio, which spreads any number of them evenly (Weyl)."""


class Found(NamedTuple):
    """Tables, and what they are worth."""

    next_hop: NDArray[np.uint8]
    """(T, S) index of the channel that each switch takes among its own, by LID."""
    order: ChannelOrder
    """The channels with ranks that all their paths climb."""
    score: float
    missing: int
    """Pairs of a switch and a destination without a path, the destination's own switch not among them."""
    fullest: float
    """All pairs over the fullest channel, by its rate."""


class Worth(NamedTuple):
    """What tables are worth, whoever made them."""

    score: float
    parts: dict[str, float]
    """What each class of traffic adds to the score."""
    fullest: NDArray[np.float64]
    """(K,) load of the fullest channel in each sample, by its rate."""


class Sums(NamedTuple):
    """What the loads of tables come to in each sample."""

    square: NDArray[np.float64]
    """(K,) F + Q."""
    high: NDArray[np.float64]
    """(K,) P."""
    missing: int


class TableSearch:
    """A problem with the room in which it is solved."""

    def __init__(self, problem: Problem, order: ChannelOrder) -> None:
        self.problem, self.order = problem, order
        self.of_pairs = np.array(problem.names) == "pairs"
        self.of_hosts = (np.array(problem.names) != "management").astype(float)
        self.power = np.exp2(problem.samples.doublings)
        widest = int(np.diff(order.indptr).max(initial=0))
        self.state: State = new_state(problem.samples, len(problem.weights), len(order.sender), widest)
        self.used = np.zeros((len(order.sender), widest), np.int32)
        self.summed, self.missing = np.zeros((0, 0), np.uint8), 0  # tables whose loads there are
        count = len(problem.samples.lid)
        self.turn = np.argsort(np.arange(count) * GOLDEN % 1, kind="stable")

    def begin_with(self, other: TableSearch) -> None:
        """Take over the loads of all pairs, all that there is in this one, from a search that has more samples."""
        self.state.load[:], self.state.met[:] = other.state.load[:, other.of_pairs], other.state.met[other.of_pairs]
        self.used, self.summed, self.missing = other.used.copy(), other.summed, other.missing

    def weigh(self, order: ChannelOrder, next_hop: NDArray[np.uint8], high: float = HIGH) -> Found:
        """Return what tables are worth."""
        return self._judged(order, next_hop, self._sum(self._turns(order), next_hop), high)

    def worth(self, next_hop: NDArray[np.uint8]) -> Worth:
        """Return what tables are worth, in parts."""
        sums = self._sum(self._turns(self.order), next_hop)
        terms, names = self.problem.weights * self._terms(sums, HIGH), np.array(self.problem.names)
        parts = {str(name): float(terms[names == name].sum()) for name in dict.fromkeys(self.problem.names)}
        return Worth(float(terms.sum()), parts, self._fullest())

    def loads(self, next_hop: NDArray[np.uint8]) -> NDArray[np.float64]:
        """Return (C, K) the load of each channel in each sample, in units of its own rate."""
        self.weigh(self.order, next_hop)
        return self.state.load * self.problem.samples.slow[:, None]

    def taken_turns(
        self, next_hop: NDArray[np.uint8]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Return the channels before and after each turn that pairs of hosts take, and how many take it."""
        flows = np.zeros(self.used.shape)
        self.state.own[:] = 0.0
        sum_turns(self.problem.samples, self._turns(self.order), self.state, next_hop, flows)
        first, index = np.nonzero(flows)
        return first, self.order.indptr[self.order.receiver[first]] + index, flows[first, index]

    def improve(
        self,
        order: ChannelOrder,
        next_hop: NDArray[np.uint8],
        *,
        turns: int = AMENDED,
        detour: int = 0,
        kept: NDArray[np.bool_] | None = None,
        high: float = HIGH,
        least: float = 0.0,
        full: float = 0.0,
        effort: int = EFFORT,
        held: NDArray[np.int32] | None = None,
    ) -> Found:
        """Return the tables that a search from some ends with.

        Parameters
        ----------
        order : ChannelOrder
            Ranks that all paths climb.
        next_hop : (T, S) uint8
        turns : int
            Those that moves may take: `AS_THEY_ARE` in the order, `AMENDED` or `ANY`.
        detour : int
            Links that a path may have beyond the shortest.
        kept : (S, S) bool, optional
            Whether the entry of a switch for what hangs on another stays.
        high : float
            Share of the fullest channel in the score; 1 takes flows off the fullest channels alone.
        least : float
            What each move must gain.
        full : float
            Paths may move to destinations that all pairs reach over some channel with such a load, by its rate.
        effort : int
            Destinations times channels that are looked at.
        held : (C, W) int32, optional
            1 for turns that stay allowed, though no path takes them.
        """
        samples, growing, next_hop = self.problem.samples, self._turns(order), next_hop.copy()
        sums = self._sum(growing, next_hop)
        used = self.used + (0 if held is None else held)
        allow_used(growing, used)
        keeps = np.zeros((0, 0), bool) if kept is None else kept
        bounds = Allowed(self.problem.hops, detour, used, keeps, turns)
        best = self._judged(order, self.summed, sums, high)
        crowd, left = np.empty(len(self.turn)), effort // max(len(order.sender), 1)
        hurried = left < len(self.turn) * SWEEPS
        least = max(least, NOTHING) if hurried else least
        for sweep in range(SWEEPS):
            visited, most = self.turn, full
            if hurried and high == 1.0 and not full and self.of_pairs.all():
                most = self._telling()
            if not most and sweep and left < len(visited):
                break
            if most or left < len(visited):
                find_crowds(samples, growing, self.state, self.state.load[:, 0] * samples.slow, next_hop, crowd)
                visited = visited[crowd[visited] >= most]
            if left < len(visited):
                if sweep:
                    break
                visited = visited[np.argsort(-crowd[visited], kind="stable")[:left]]
            left -= len(visited)
            terms = self._lowered(sums, high, least, self.of_hosts if hurried else 1.0)
            moves, _ = move_flows(samples, growing, bounds, terms, self.state, next_hop, visited)
            self.summed, self.used = next_hop.copy(), used - (0 if held is None else held)
            sums = self._kept()
            found = self._judged(with_ranks(order, frozen(growing.rank.copy())), self.summed, sums, high)
            gain = best.score - found.score
            best = found if gain > 0 else best
            if gain < ENOUGH or not moves:
                break
            reopen(growing)
        return best

    def _telling(self) -> float:
        """Return the load of channels of all pairs, by rate, from which on they tell in the score.

        The fuller half of the score is log(P) / p: were all channels below empty, it would fall by less than `ENOUGH`.
        """
        load = np.sort(self.state.load[:, 0] * self.problem.samples.slow)
        high = np.cumsum(load ** self.power[0])
        return float(load[np.searchsorted(high, -np.expm1(-ENOUGH * self.power[0]) * high[-1])])

    def _turns(self, order: ChannelOrder) -> Turns:
        """Return the channels with ranks that differ, and no turns."""
        rank = np.argsort(np.argsort(order.rank, kind="stable"), kind="stable").astype(np.int32)
        return no_turns(order, rank)

    def _sum(self, turns: Turns, next_hop: NDArray[np.uint8]) -> Sums:
        """Sum loads, and count the turns that are taken: of all, or of what differs from the last tables."""
        samples = self.problem.samples
        changed = np.arange(len(samples.lid))
        if len(self.summed):
            changed = np.flatnonzero((next_hop[samples.lid] != self.summed[samples.lid]).any(axis=1))
        if len(self.summed) and 2 * len(changed) <= len(samples.lid):
            self.missing -= add_up_loads(samples, turns, self.used, self.state, self.summed, changed, -1)
        else:
            changed, self.missing = np.arange(len(samples.lid)), 0
            self.state.load[:], self.state.met[:], self.used[:] = 0.0, 0.0, 0
        self.summed = next_hop.copy()
        self.missing += add_up_loads(samples, turns, self.used, self.state, self.summed, changed, 1)
        return self._kept()

    def _kept(self) -> Sums:
        """Return what the loads come to that are kept."""
        square, high = np.empty(len(self.problem.weights)), np.empty(len(self.problem.weights))
        sum_terms(self.problem.samples, self.state, square, high)
        square = np.maximum(square, 0.0) + self.problem.flows
        return Sums(np.maximum(square, NOTHING), np.maximum(high, NOTHING), self.missing)

    def _judged(self, order: ChannelOrder, next_hop: NDArray[np.uint8], sums: Sums, high: float = HIGH) -> Found:
        """Return tables whose loads are summed, with what they are worth."""
        fullest = float(self._fullest()[self.of_pairs].max(initial=0))
        score = float(self.problem.weights @ self._terms(sums, high))
        return Found(next_hop, order, score, sums.missing, fullest)

    def _terms(self, sums: Sums, high: float) -> NDArray[np.float64]:
        """Return (K,) what the score weighs of each sample."""
        terms: NDArray[np.float64] = (1 - high) * np.log(sums.square) / 2 + high * np.log(sums.high) / self.power
        return terms

    def _lowered(self, sums: Sums, high: float, least: float, counts: NDArray[np.float64] | float = 1.0) -> Terms:
        """Return the coefficients by which a sweep lowers the score, of the samples that count."""
        weights, dense = self.problem.weights * counts, self.problem.dense
        most = np.where(self.of_pairs[:dense], self._fullest()[:dense] * (1 + NOTHING), np.inf)
        return Terms(weights * (1 - high) / (2 * sums.square), weights * high / (self.power * sums.high), most, least)

    def _fullest(self) -> NDArray[np.float64]:
        """Return (K,) the load of the fullest channel in each sample, by its rate."""
        return np.array((self.state.load * self.problem.samples.slow[:, None]).max(axis=0, initial=0.0))


def search_of(fabric: Fabric, lids: NDArray[np.uint16]) -> tuple[TableSearch, Destinations]:
    """Return the search for tables of a fabric with some (E,) LIDs, and the destinations that these are."""
    level = switch_levels(fabric)
    order, dests = order_channels(fabric, level), destinations_of(fabric, lids, level)
    ranks = tree_order(fabric, fabric.ends()[lids[fabric.ends()] > 0])
    return TableSearch(pose(fabric, lids, order, dests, ranks), order), dests
