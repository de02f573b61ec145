"""Which node of a job takes which rank, so that a collective meets itself on as few links as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.network import Network
from simulate.traffic.ranks.pattern import Pattern, pattern_of
from simulate.traffic.ranks.search import improve
from topo.budget import FLOWS
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Frozen, frozen
from topo.graphs import rows_of
from topo.table import Shown, Table

EFFORT = 60_000_000
"""How often the search may lay a flow on a channel: seconds of one core."""


@dataclass(frozen=True, eq=False)
class StepLoads(Frozen):
    """What the steps of a pattern of K steps do under one order."""

    fullest: NDArray[np.int64]
    """(K,) flows on the fullest channel between switches."""
    step_s: NDArray[np.float64]
    """(K,) seconds of each step, once: bytes on the channel that takes longest, over its rate."""
    time_s: float
    """All steps, as often as they come."""

    @property
    def worst(self) -> int:
        """Flows on the fullest channel between switches in any step."""
        return int(self.fullest.max(initial=0))


@dataclass(frozen=True, eq=False)
class RankOrder(Frozen, Shown):
    """An order of n nodes for a collective, beside the order in which they were given."""

    algorithm: str
    order: NDArray[np.int32]
    """(n,) which of the given nodes takes each rank."""
    names: tuple[str, ...]
    """(n,) of the nodes, by rank."""
    rails: int
    """Adapter ports of each node that take part."""
    times: NDArray[np.int64]
    """(K,) how often each step comes."""
    before: StepLoads
    """As the nodes were given."""
    after: StepLoads
    """In this order."""
    bound_s: float
    """No order takes less."""

    def _brief(self) -> str:
        gain = f"{self.before.time_s / self.after.time_s:.3g} times as fast as given"
        return f"{self.algorithm} over {plural(len(self.order), 'node')}: {gain}"

    @property
    def optimal(self) -> bool:
        """Whether no order is faster, as far as the bound tells."""
        return bool(self.after.time_s <= self.bound_s * (1 + 1e-9))

    @property
    def table(self) -> Table:
        """One row for each step; steps that are alike are one row."""
        alike = Counter[tuple[Any, ...]]()
        rows = zip(self.before.fullest.tolist(), self.after.fullest.tolist(), self.before.step_s.tolist(),
                   self.after.step_s.tolist(), self.times.tolist(), strict=True)  # fmt: skip
        for *row, times in rows:
            alike[tuple(row)] += times
        return Table.of(
            f"{self.algorithm} over {plural(len(self.order), 'node')}",
            [(times, *row) for row, times in alike.items()],
            *((itemgetter(0), "steps"), (itemgetter(1), "fullest link, as given"), (itemgetter(2), "in this order")),
            (itemgetter(3), "time of one, as given", "s", "time"),
            (itemgetter(4), "time of one, in this order", "s", "time"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return order and proof as plain values, ready for JSON."""
        return {
            "algorithm": self.algorithm,
            "order": list(self.names),
            "rails": self.rails,
            "times": self.times.tolist(),
            "optimal": self.optimal,
            "bound_s": self.bound_s,
        } | {
            name: {"fullest": loads.fullest.tolist(), "step_s": loads.step_s.tolist(), "time_s": loads.time_s}
            for name, loads in (("before", self.before), ("after", self.after))
        }


@dataclass(frozen=True, eq=False)
class JobPaths(Frozen):
    """The paths between the nodes of a job, rail by rail, over C channels: all that any order can use."""

    n: int
    rails: int
    offset: NDArray[np.int64]
    """(n * n + 1,) from node i to node j: ``channel[offset[i * n + j] : offset[i * n + j + 1]]``."""
    channel: NDArray[np.int32]
    inner: NDArray[np.bool_]
    """(C,) whether a channel is between switches."""
    cost: NDArray[np.float64]
    """(C,) seconds that a byte takes on each channel."""

    @classmethod
    def of(cls, network: Network, ends: NDArray[np.int32]) -> JobPaths:
        """Walk the tables between all pairs of nodes, of which ``ends`` has (n, rails) end ports."""
        n, rails = ends.shape
        near, far = np.divmod(np.arange(n * n), n)
        pair = np.repeat(np.flatnonzero(near != far), rails)
        rail = np.tile(np.arange(rails), len(pair) // rails)
        src, dst = ends[near[pair], rail], ends[far[pair], rail]
        routes = network.routes(src, dst, np.zeros(len(src), np.int8))
        hops, places = rows_of(routes.offset, routes.route)
        used, channel = np.unique(routes.resource[places], return_inverse=True)
        offset = np.concatenate([[0], np.cumsum(np.bincount(np.repeat(pair, hops), minlength=n * n))])
        inner = network.fabric.is_inner[used]
        return cls(n, rails, offset, channel.ravel().astype(np.int32), inner, 1 / network.capacity_bytes_s[used])

    def lengths(self) -> NDArray[np.int64]:
        """Return (n, n) channels from each node to each other, all rails together."""
        return np.diff(self.offset).reshape(self.n, self.n)

    def loads(self, pattern: Pattern, order: NDArray[np.int32], size_bytes: float) -> StepLoads:
        """Count the flows on every channel in every step."""
        pair = order[pattern.src].astype(np.int64) * self.n + order[pattern.dst]
        hops, places = rows_of(self.offset, pair)
        key = np.repeat(pattern.step.astype(np.int64), hops) * len(self.cost) + self.channel[places]
        load = np.bincount(key, minlength=pattern.n_steps * len(self.cost)).reshape(pattern.n_steps, -1)
        each = pattern.share * size_bytes / self.rails
        step_s = (load * self.cost).max(axis=1, initial=0.0) * each
        fullest = (load * self.inner).max(axis=1, initial=0)
        return StepLoads(fullest, step_s, float(step_s @ pattern.times))

    def bound_s(self, pattern: Pattern, size_bytes: float) -> float:
        """Return the seconds that no order goes below, for two reasons.

        The busiest ranks of a step sit on the fastest adapters at best. And where each rank sends the same to each
        other, a channel carries as much in all, whatever the order: no time is shorter than the fullest takes.
        """
        each = pattern.share * size_bytes / self.rails * pattern.times
        ports = np.where(self.inner, np.inf, self.cost)
        crossed = np.minimum.reduceat(ports[self.channel], self.offset[:-1][np.diff(self.offset) > 0])
        node = np.repeat(np.arange(self.n), self.n - 1)
        fastest = np.full(self.n, np.inf)
        np.minimum.at(fastest, node, crossed)
        fastest.sort()
        total = 0.0
        for step in range(pattern.n_steps):
            sends = np.bincount(pattern.src[pattern.step == step], minlength=self.n)
            total += float(np.max(np.sort(sends)[::-1] * np.where(np.isfinite(fastest), fastest, 0.0))) * each[step]
        if pattern.all_pairs:
            load = np.bincount(self.channel, minlength=len(self.cost))
            total = max(total, float((load * self.cost).max()) * each[0])
        return total


def order_ranks(
    network: Network,
    nodes: ArrayLike,
    algorithm: str,
    *,
    size_bytes: float = 1e9,
    names: Sequence[str] = (),
    seed: int = 0,
    effort: int = EFFORT,
) -> RankOrder:
    """Find an order of the nodes of a job in which a collective takes the least time on the paths of the tables.

    Flows of one step are sent at once; a step takes as long as its fullest channel needs for the bytes on it, which is
    what max-min fair rates need for flows of equal size. Ranks of one node are consecutive, and rank r of the nodes is
    on rail r: what is ordered are nodes, and what is counted are flows from each rail of a node to the same rail of
    another. The order is searched for, not proven best, unless it reaches the bound.

    Parameters
    ----------
    nodes : (n,) or (n, rails)
        End ports of each node, in the order of the scheduler, the same number each.
    algorithm : str
        ``ring``, ``tree``, ``halving-doubling`` or ``all-to-all``.
    size_bytes : float
        Buffer that the nodes sum or exchange; each rail carries its part.
    names : sequence of str
        Of the nodes; by default those of their servers.
    seed, effort : int
        Of the search, and how often it may lay a flow on a channel.

    Raises
    ------
    HeddleError
        When there is no such algorithm, a node is there twice, or tables do not connect two of them.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> mixed = [hosts[at] for at in (0, 8, 1, 9, 2, 10, 3, 11)]
    >>> found = simulate.order_ranks(simulate.Network.of(routed), mixed, "tree")
    >>> found.before.worst, found.after.worst, found.optimal
    (3, 3, True)
    """
    ends = np.asarray(nodes, np.int32)
    ends = ends.reshape(len(ends), -1)
    if len(np.unique(ends)) < ends.size:
        raise HeddleError(f"found {plural(ends.size, 'end port')}, some of them twice; expected each once")
    pattern = pattern_of(algorithm, len(ends))
    if ends.size * len(ends) > FLOWS.limit:
        raise HeddleError(f"found {plural(ends.size * len(ends), 'path')} between the nodes; expected {FLOWS}")
    paths = JobPaths.of(network, ends)
    given = np.arange(paths.n, dtype=np.int32)
    bound = paths.bound_s(pattern, size_bytes)
    order = _search(paths, pattern, size_bytes, seed, effort, bound)
    before, after = (paths.loads(pattern, which, size_bytes) for which in (given, order))
    if not after.time_s < before.time_s:  # what is as good as it is stays as it is
        order, after = given, before
    fabric = network.fabric
    known = tuple(names) or tuple(_server(fabric, int(fabric.end_node[row[0]])) for row in ends)
    called = tuple(known[at] for at in order.tolist())
    return RankOrder(algorithm, order, called, paths.rails, pattern.times, before, after, bound)


def _search(
    paths: JobPaths, pattern: Pattern, size_bytes: float, seed: int, effort: int, bound: float
) -> NDArray[np.int32]:
    """Improve each of several orders with half of the effort, and the fastest of them with the other half."""
    near = nearest_first(paths.lengths())
    starts = [np.arange(paths.n), near, near[_by_reversed_bits(paths.n)]]
    costs, group = np.unique(paths.cost, return_inverse=True)
    weight = frozen(pattern.share * pattern.times * (size_bytes / paths.rails))
    steps = pattern.step, pattern.src, pattern.dst, weight
    channels = paths.offset, paths.channel, frozen(group.ravel().astype(np.int32)), frozen(costs)
    rng = np.random.default_rng(seed)

    def improved(start: NDArray[np.integer], effort: int) -> tuple[float, NDArray[np.int32]]:
        order, time_s = improve(*steps, *channels, frozen(start.astype(np.int32)), rng, effort, bound)
        return time_s, order

    found = [improved(start, effort // (2 * len(starts))) for start in starts]
    fastest = min(found, key=lambda one: one[0])[1]
    return frozen(improved(fastest, effort // 2)[1])


def nearest_first(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an order in which each node is followed by the nearest that is left, by (n, n) lengths between them.

    Examples
    --------
    >>> import numpy as np
    >>> nearest_first(np.array([[0, 4, 2], [4, 0, 4], [2, 4, 0]]))
    array([0, 2, 1])
    """
    n = len(lengths)
    order, left = np.zeros(n, np.int64), np.ones(n, bool)
    for place in range(1, n):
        left[order[place - 1]] = False
        order[place] = np.argmin(np.where(left, lengths[order[place - 1]], np.iinfo(np.int64).max))
    return order


def _by_reversed_bits(n: int) -> NDArray[np.int64]:
    """Return 0 to n - 1 by their bits from the lowest up: the farthest ranks become neighbours."""
    width = max(n - 1, 1).bit_length()
    return np.array(sorted(range(n), key=lambda rank: int(f"{rank:0{width}b}"[::-1], 2)), np.int64)


def _server(fabric: Fabric, node: int) -> str:
    return fabric.hosts[fabric.host[node]] if fabric.host[node] >= 0 else fabric.names[node]
