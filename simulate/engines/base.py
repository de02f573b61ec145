"""What an engine owes, and the books of flows, routes and connections that the engines of Heddle keep."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from routing.lanes.policy import ASK
from routing.routed import Routed
from simulate.engines.compile import inlined, kernel
from simulate.engines.congestion import Congestion
from simulate.engines.outcome import Outcome, Timeline
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network, RouteTable
from topo.errors import HeddleError

Progress = Callable[[int, float], None]
"""Called now and then with the number of flows that have ended and the simulated time in seconds."""

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Pairs = tuple[Int32s, Int32s, NDArray[np.int8]]
"""Source, target and service level of each of some flows."""

Records = NDArray[Any]
"""An array of records of the kernels; its type is named where it is described."""

FIRST_BIN_S = 1e-6
"""Width of a bin of the timeline at first; it doubles when time goes beyond the last."""

WAIT = np.dtype([("first", "i8"), ("count", "i4"), ("waits", "i4")])
"""Who waits for a flow: ``next_flow[first : first + count]``; and how many flows it still waits for itself."""

CONNECTION = np.dtype([("moving", "i4"), ("first", "i4"), ("last", "i4"), ("left", "i4"), ("listed", "i4")])
"""A connection: the flow that moves, the first and last of those that wait for their turn (-1 for none), how many have
not ended. A fluid network has the first as the root of a heap, no last, and whether the connection is to be looked at
at this instant."""

UNUSED = np.array((-1, -1, -1, 0, 0), CONNECTION)


@inlined
def draw_bits(now: Records) -> int:
    """Return 31 random bits from the generator in ``now[0].random`` (Knuth, volume 2, 3.3.4)."""
    now[0].random = now[0].random * 6364136223846793005 + 1442695040888963407
    return (now[0].random >> 33) & 0x7FFFFFFF  # type: ignore[no-any-return]


@kernel
def link_followers(
    waits: Records, next_flow: Int32s, places: Int64s, dep_offset: Int64s, dep: Int32s, first: int
) -> None:
    """Write which flows wait for each flow, from `first` on in ``next_flow``; dependencies are as in `Flows`."""
    for flow in range(len(places)):
        waits[places[flow]].waits = dep_offset[flow + 1] - dep_offset[flow]
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            waits[places[dep[edge]]].count += 1
    for flow in range(len(places)):
        first += waits[places[flow]].count
        waits[places[flow]].first = first  # behind the last, from which it comes down to the first
    for flow in range(len(places) - 1, -1, -1):
        for edge in range(dep_offset[flow], dep_offset[flow + 1]):
            awaited = places[dep[edge]]
            waits[awaited].first -= 1
            next_flow[waits[awaited].first] = places[flow]


def check_values(given: object, *rules: tuple[str, str, bool]) -> None:
    """Refuse the first value that is not good; each rule has its name, what is expected, and whether it is good."""
    for name, expected, good in rules:
        if not good:
            raise HeddleError(f"found {name} {getattr(given, name)!r}; expected {expected}")


class Finished(NamedTuple):
    """A flow that has ended."""

    flow: int
    """The number that `Engine.begin` gave."""
    start_s: float
    """When it began to wait for its latency: no dependency, start time or delay held it back any more."""
    finish_s: float
    """When its last byte arrived."""
    bottleneck: int
    """The engine's certificate: the resource that held the flow back when it ended, -1 for none."""


class Engine(Protocol):
    """Plays flows over one network, in simulated time that never goes back.

    An engine owes the following. Flows follow the network's forwarding tables on the virtual lane of their service
    level, and no resource carries more than its capacity. Flow f begins at
    ``max(start, end of all flows that it waits for) + delay``, ends when its last byte has arrived, and one between an
    end port and itself ends as it begins. One that asks its receiver first begins two latencies of its route later. The
    flows of a connection move one after another, each when its latency has passed and no flow of the connection moves;
    of those begun by one call whose latencies pass at one instant, the one with the lowest number is first. All that
    happens is decided by what was begun, in which order: the same calls give the same times, to the last bit. A flow
    has a number from 0, in the order in which flows were begun.
    """

    network: Network

    def __init__(self, network: Network, *, n_bins: int = 0) -> None:
        """Make the engine of a network, with so many bins of the timeline of loads, an even number."""

    @property
    def now_s(self) -> float:
        """Time of the last event, or until which `advance` was asked to play."""

    @property
    def next_event_s(self) -> float:
        """A time before which no flow ends, infinite when none is under way."""

    @property
    def n_events(self) -> int:
        """Instants at which something happened: a measure of the work."""

    @property
    def timeline(self) -> Timeline | None:
        """Load of each resource over time, until now; None when no bins were asked for."""

    def begin(self, src: int, dst: int, size_bytes: float, *, at_s: float | None = None, sl: int = 0) -> int:
        """Begin a flow at a time from now on; return its number.

        Raises
        ------
        HeddleError
            When the time has passed, the size is negative, an end port does not exist or the tables do not connect it.
        """

    def begin_all(self, flows: Flows, *, at_s: float | None = None) -> range:
        """Begin flows that wait for times, counted from `at_s`, and for each other; return their numbers.

        Raises
        ------
        HeddleError
            As `begin`.
        """

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, but no longer than until a time; return those that ended, all at one instant."""

    def loads(self) -> NDArray[np.float64]:
        """Return the (R,) bytes that flows which have ended moved over each resource, times their use of it."""

    def congestion(self) -> Congestion | None:
        """Return what packets met until now; None where there are no packets."""

    def play(self, flows: Flows, progress: Progress | None = None) -> Outcome:
        """Play a set of flows from time 0 until the last has ended, where nothing was begun before.

        The times are those of `begin_all` and `advance`; all at once may be faster.
        """


class FlowBook(Engine):
    """Books of an engine: places of flows, which are used again, and the routes and connections that it has met.

    A subclass has arrays with a place for each flow, a row for each route and a row for each connection; `places` flows
    have room at first. Its kernels play time, and the flows that have ended leave their places here.
    """

    _state: Any
    """Arrays of the kernels, among them ``waits`` (`WAIT`), ``next_flow``, and ``connections``, whose field ``left``
    counts the flows of each connection that have not ended."""

    def __init__(self, on: Network | Routed, places: int = 0) -> None:
        self.network = network = on if isinstance(on, Network) else Network.of(on)
        self._routes: dict[int, int] = {}
        """By `_key`: the route of a pair and level, once `_unlisted` has been emptied."""
        self._unlisted: list[tuple[Int64s, Int32s]] = []
        """Keys and routes that are not in `_routes` yet: a batch never looks there."""
        self._n_routes = self._n_followers = self._n_begun = self._n_connections = 0
        self._number: Int64s = np.zeros(places, np.int64)
        """Number of the flow in each place."""
        self._unused: Int64s = np.arange(places - 1, -1, -1)
        self._n_unused = places
        """The first so many places of `_unused` are unused: a stack."""
        self._spare: Int64s = np.zeros(0, np.int64)
        """Connections below `_n_connections` whose flows have all ended."""
        self._sent: NDArray[np.float64] = np.zeros(len(network.capacity_bytes_s))

    def _make_room(self, flows: int) -> int:
        """Make room for so many flows in all; return how many there is room for now."""
        raise NotImplementedError

    def _reserve(self, **needed: int) -> None:
        """Make room for so many in all; what is too small at least doubles."""

    def _add_paths(self, table: RouteTable, pairs: Pairs) -> None:
        """Add the routes of pairs, the first of which is number `_n_routes`."""

    def _enter(self, flows: Flows, route: Int32s, places: Int64s, time_s: float) -> None:
        """Put flows on these routes into their places, and schedule those that wait for no other."""

    def _enter_one(self, place: np.int64, route: int, size_bytes: float, time_s: float) -> None:
        """Put one flow into its place, and schedule it."""

    def begin(self, src: int, dst: int, size_bytes: float, *, at_s: float | None = None, sl: int = 0) -> int:
        """Begin a flow, as `Engine.begin` says."""
        time_s = self._checked(at_s)
        if not (isfinite(size_bytes) and size_bytes >= 0):
            raise HeddleError(f"a flow from {src} to {dst} has {size_bytes} bytes; expected 0 or more")
        if not ASK <= sl <= 15:
            raise HeddleError(f"a flow from {src} to {dst} has service level {sl}; expected 0 to 15")
        route = self._known().get(self._key(src, dst, sl))
        if route is None:
            pairs = np.array([src], np.int32), np.array([dst], np.int32), np.array([sl], np.int8)
            route = self._add_routes(pairs)[0]
        self._enter_one(self._take(1)[0], route, size_bytes, time_s)
        return self._n_begun - 1

    def begin_all(self, flows: Flows, *, at_s: float | None = None) -> range:
        """Begin flows, as `Engine.begin_all` says."""
        time_s, route = self._checked(at_s), self._routes_of(flows)
        self._enter(flows, route, self._take(len(flows)), time_s)
        return range(self._n_begun - len(flows), self._n_begun)

    def _checked(self, at_s: float | None) -> float:
        """Return the time at which flows are to begin."""
        time_s = self.now_s if at_s is None else at_s
        if not (isfinite(time_s) and time_s >= self.now_s):
            raise HeddleError(f"flows would begin at {time_s} s; it is {self.now_s} s already")
        return time_s

    def _take(self, n: int) -> Int64s:
        """Return places for flows, numbered in order."""
        if self._n_unused < n:
            old = len(self._number)
            new = self._make_room(old - self._n_unused + n)
            self._number = np.concatenate([self._number, np.zeros(new - old, np.int64)])
            self._unused = np.concatenate([np.arange(new - 1, old - 1, -1), self._unused[: self._n_unused]])
            self._unused = np.concatenate([self._unused, np.zeros(new - len(self._unused), np.int64)])
            self._n_unused += new - old
        self._n_unused -= n
        places = np.sort(self._unused[self._n_unused : self._n_unused + n])  # in the order of their numbers
        self._number[places] = np.arange(self._n_begun, self._n_begun + n)
        self._n_begun += n
        return places

    def _give_back(self, places: NDArray[np.integer]) -> None:
        """Put places of flows that have ended on the stack of unused ones."""
        self._unused[self._n_unused : self._n_unused + len(places)] = places
        self._n_unused += len(places)

    def _connect(self, connection: Int32s) -> Int64s | None:
        """Return the engine's connection of each flow, -1 for none; None where no flow has one."""
        left = np.bincount(connection[connection >= 0])
        if not len(left):
            return None
        if (new := len(left) - len(self._spare)) > 0:
            self._n_connections += new
            self._spare = np.append(self._spare, np.arange(self._n_connections - new, self._n_connections))
        taken, self._spare = self._spare[: len(left)], self._spare[len(left) :]
        self._reserve(connections=self._n_connections)
        self._state.connections["left"][taken] = left
        return np.append(taken, -1)[connection]

    def _link(self, flows: Flows, places: Int64s) -> NDArray[np.intp]:
        """Write down which flows wait for which; return those, by number, that wait for none."""
        first = self._n_followers
        self._n_followers += len(flows.dep)
        self._reserve(next_flow=self._n_followers)
        if len(flows.dep):
            link_followers(self._state.waits, self._state.next_flow, places, flows.dep_offset, flows.dep, first)
        return np.flatnonzero(flows.dep_offset[1:] == flows.dep_offset[:-1])

    def _close(self, connection: Int32s) -> None:
        """Count flows of connections, -1 for none, that have ended."""
        number = connection[connection >= 0]
        if number.size:
            left = self._state.connections["left"]
            np.subtract.at(left, number, 1)
            self._spare = np.concatenate([self._spare, np.unique(number[left[number] == 0])])

    def _key(self, src: Any, dst: Any, sl: Any) -> Any:
        """Return the number that stands for a pair of ends and a service level, of arrays too."""
        n = self.network.n_ends
        return (sl + 1) * (n * n) + src * n + dst

    def _known(self) -> dict[int, int]:
        """Return the known routes by `_key`."""
        for keys, routes in self._unlisted:
            self._routes.update(zip(keys.tolist(), routes.tolist(), strict=True))
        self._unlisted.clear()
        return self._routes

    def _routes_of(self, flows: Flows) -> Int32s:
        """Return the route of each flow; routes are added where they are new."""
        known = self._known()
        if not known:
            return self._add_routes((flows.src, flows.dst, flows.sl))
        keys = self._key(flows.src.astype(np.int64), flows.dst, flows.sl.astype(np.int64))
        route = np.array([known.get(key, -1) for key in keys.tolist()], np.int32)
        new = route < 0
        if new.any():
            route[new] = self._add_routes((flows.src[new], flows.dst[new], flows.sl[new]))
        return route

    def _add_routes(self, pairs: Pairs) -> Int32s:
        """Add the routes of pairs that are new; return the route of each."""
        table, (src, dst, sl) = self.network.routes(*pairs), pairs
        route = table.route + np.int32(self._n_routes)
        self._unlisted.append((self._key(src.astype(np.int64), dst, sl.astype(np.int64)), route))
        self._add_paths(table, pairs)
        return route
