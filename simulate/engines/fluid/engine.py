"""Plays flows over a network at max-min fair rates: all bandwidth is shared fairly at every instant, no packets.

A flow begins when its dependencies have ended, waits for its latency, and then moves its bytes at the fair rate of its
route, which changes whenever another flow begins or ends: SimGrid's model CM02 (Velho, Schnorr, Casanova and Legrand,
"On the validity of flow-level TCP network models", 2013) without its corrections for TCP. Queues, congestion control
and head-of-line blocking are not in it.
"""

from __future__ import annotations

from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.lanes.policy import ASK
from simulate.engines.base import Finished, Progress
from simulate.engines.fluid import events
from simulate.engines.fluid.restored import check_state
from simulate.engines.fluid.state import Room, State, aligned_copy, allocate, enlarge
from simulate.engines.outcome import Outcome, Timeline
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network, RouteTable
from topo.errors import HeddleError
from topo.fabric import frozen

FIRST_ROOM = Room(flows=256, routes=256, links=1024, hops=1, followers=0, connections=0)
"""What there is room for at first; it at least doubles when it is used up."""

FIRST_BIN_S = 1e-6
"""Width of a bin of the timeline at first; it doubles when time goes beyond the last."""

CROWD = 16
"""Below this many routes behind one resource it costs less to look at each: measured on the loads of
``benchmarks/fluid_loads.py``."""

EVENTS_A_CALL = 2_000
"""Events between two reports of progress: milliseconds, and about a second where they are interpreted."""


class Fluid:
    """The engine of fluid flows (`simulate.engines.base.Engine`), in a batch or step by step.

    Parameters
    ----------
    n_bins
        Bins of the timeline of loads, an even number; 0 for none.
    crowd
        Routes that one resource must hold back to have one clock, which makes an event there cost the logarithm of
        their number; 0 for never. Rates are the same; finish times may differ in their last bits.

    Examples
    --------
    Two flows into one adapter share its link; the shorter one ends first.

    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> engine = simulate.Fluid(simulate.Network.of(routed))
    >>> engine.begin(hosts[0], hosts[2], 25e9), engine.begin(hosts[1], hosts[2], 12.5e9)
    (0, 1)
    >>> [(ended.flow, ended.finish_s) for ended in engine.advance()]
    [(1, 1.0)]
    >>> [(ended.flow, ended.finish_s) for ended in engine.advance()]
    [(0, 1.5)]
    """

    def __init__(self, network: Network, *, n_bins: int = 0, crowd: int = CROWD) -> None:
        self.network = network
        self._room, self._n_bins, self._crowd = FIRST_ROOM, n_bins, crowd
        self._routes: dict[int, int] = {}
        """By `_key`: the route of a pair and level, once `_unlisted` has been emptied."""
        self._unlisted: list[tuple[NDArray[np.int64], NDArray[np.int32]]] = []
        """Keys and routes that are not in `_routes` yet: a batch never looks there."""
        self._n_routes = self._n_links = self._n_followers = self._n_begun = 0
        self._number: NDArray[np.int64] = np.zeros(FIRST_ROOM.flows, np.int64)
        """Number of the flow in each place; places are used again."""
        self._unused: NDArray[np.int64] = np.arange(FIRST_ROOM.flows - 1, -1, -1)
        self._n_unused = FIRST_ROOM.flows
        """The first so many places of `_unused` are unused: a stack."""
        self._n_connections = 0
        self._spare: NDArray[np.int64] = np.zeros(0, np.int64)
        """Connections below `_n_connections` that nobody uses any more."""
        self._sent: NDArray[np.float64] = np.zeros(len(network.capacity_bytes_s))

    @cached_property
    def _state(self) -> State:
        """The state of the kernels. It is made at first use: by then a batch has said how much room it takes."""
        return allocate(
            self.network.capacity_bytes_s,
            self.network.lane_weight,
            self._room,
            n_channels=self.network.fabric.n_ports,
            crowd=self._crowd,
            n_bins=self._n_bins,
            bin_s=FIRST_BIN_S,
        )

    @property
    def now_s(self) -> float:
        """Time of the last event, or until which `advance` was asked to play."""
        return float(self._state.now["time"][0])

    @property
    def next_event_s(self) -> float:
        """Time at which a flow begins to move or ends next, infinite when none is under way."""
        return float(events.next_time(self._state))

    @property
    def n_events(self) -> int:
        """Instants at which something began or ended."""
        return int(self._state.now["events"][0])

    @property
    def under_way(self) -> int:
        """Flows that have begun, or are scheduled to, and have not ended."""
        return len(self._number) - self._n_unused

    @property
    def timeline(self) -> Timeline | None:
        """Load of each resource over time, until now; None without bins."""
        if not self._state.bins.shape[1]:
            return None
        events.accumulate_all(self._state)
        return Timeline.of_bins(self._state.bins, float(self._state.now["bin_s"][0]), len(self.network.lane_weight))

    def loads(self) -> NDArray[np.float64]:
        """Return the (R,) bytes that flows which have ended moved over each resource, times their use of it."""
        return frozen(self._sent)

    def congestion(self) -> None:
        """Return None: there are no packets."""

    def begin(self, src: int, dst: int, size_bytes: float, *, at_s: float | None = None, sl: int = 0) -> int:
        """Begin a flow now, or at a later time; return its number.

        Raises
        ------
        HeddleError
            When the time has passed, the size is negative, an end port does not exist or the tables do not connect it.
        """
        time = self._checked(at_s)
        if not (isfinite(size_bytes) and size_bytes >= 0):
            raise HeddleError(f"a flow from {src} to {dst} has {size_bytes} bytes; expected 0 or more")
        if not ASK <= sl <= 15:
            raise HeddleError(f"a flow from {src} to {dst} has service level {sl}; expected 0 to 15")
        route = self._known().get(self._key(src, dst, sl))
        if route is None:
            route = self._add_routes(np.array([src], np.int32), np.array([dst], np.int32), np.array([sl], np.int8))[0]
        places = self._take(1)
        state, place = self._state, places[0]
        state.flow_route[place], state.size[place], state.earliest[place] = route, size_bytes, time
        events.schedule_roots(state, places)
        return self._n_begun - 1

    def begin_all(self, flows: Flows, *, at_s: float | None = None) -> range:
        """Begin flows that wait for times, counted from `at_s`, and for each other; return their numbers.

        Raises
        ------
        HeddleError
            As `begin`.
        """
        time, route = self._checked(at_s), self._routes_of(flows)
        self._reserve(followers=self._n_followers + len(flows.dep))
        self._enter(flows, route, self._take(len(flows)), time)
        return range(self._n_begun - len(flows), self._n_begun)

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, but no longer than until a time; return those that ended, all at one instant."""
        state = self._state
        events.advance(state, until_s, np.iinfo(np.int64).max, True)
        n = int(state.now["done"][0])
        if n == 0 and isfinite(until_s) and until_s > self.now_s:
            events.pass_time(state, until_s)
        state.now["done"] = 0
        places = state.done[:n]
        self._unused[self._n_unused : self._n_unused + n] = places
        self._n_unused += n
        ended = []
        for place in places.tolist():
            start, finish, limit = state.begin[place], state.end[place], state.limit[place]
            ended.append(Finished(int(self._number[place]), float(start), float(finish), int(limit)))
            route = state.routes[state.flow_route[place]]
            on_route = slice(route["first"], route["first"] + route["hops"])
            use = state.route_use[on_route] if len(state.route_use) else 1.0
            self._sent[state.route_link[on_route]] += state.size[place] * use
        numbers = state.connection[places]
        if (numbers := numbers[numbers >= 0]).size:
            np.subtract.at(state.connections["left"], numbers, 1)
            over = np.unique(numbers[state.connections["left"][numbers] == 0])
            self._spare = np.concatenate([self._spare, over])
            state.connection[places] = -1
        if self._n_followers:  # the next flow in these places waits for nothing, and nothing for it
            state.delay[places], state.waits[places] = 0.0, np.zeros((), state.waits.dtype)
        return ended

    def play(self, flows: Flows, progress: Progress | None = None) -> Outcome:
        """Play a set of flows from time 0 until the last has ended, where nothing was begun before.

        Raises
        ------
        HeddleError
            When a flow names an end port that does not exist, or the tables do not connect it.
        """
        routes = self.network.routes(flows.src, flows.dst, flows.sl)
        n = len(flows)
        self._add_table(routes, flows=n, followers=len(flows.dep))
        if self._n_bins:
            quick = float(flows.size_bytes.max(initial=1.0) / self.network.capacity_bytes_s.max(initial=1.0))
            self._state.now["bin_s"] = quick / self._n_bins
        self._enter(flows, routes.route, np.arange(n), 0.0)
        state = self._state
        while events.advance(state, np.inf, EVENTS_A_CALL, False):
            if progress is not None:
                progress(int(state.now["done"][0]), self.now_s)
        times = state.begin[:n], state.end[:n], state.limit[:n]
        for array in times:
            array.flags.writeable = False
        n_events, timeline = self.n_events, self.timeline
        del self._state  # it goes into the outcome, which needs no copy then
        return Outcome(self.network, flows, routes, *times, n_events, timeline)

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return all that there is as arrays, from which `restored` goes on, to the last bit.

        Raises
        ------
        HeddleError
            When the engine may have crowds, which are not saved.
        """
        if self._crowd:
            raise HeddleError("this network cannot be saved: it would have to be made with crowd=0")
        arrays = {f"state.{name}": array for name, array in self._state._asdict().items()}
        arrays |= {f"own.{name}": getattr(self, f"_{name}") for name in ("number", "unused", "sent", "spare")}
        arrays["own.routes"] = np.array(list(self._known().items()), np.int64).reshape(-1, 2)
        arrays["own.counts"] = np.array(
            [
                *(self._n_routes, self._n_links, self._n_followers, self._n_begun, self._n_unused, self._n_connections),
                *self._room,
            ]
        )
        return {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def restored(cls, network: Network, arrays: dict[str, NDArray[Any]]) -> Fluid:
        """Return an engine as it was when it gave these arrays.

        Parameters
        ----------
        network
            The same as then.

        Raises
        ------
        HeddleError
            When arrays are missing, belong to another network, or are none that a run leaves behind.
        """
        result = cls(network, crowd=0)
        shared: dict[str, NDArray[Any]] = {"lane_weight": network.lane_weight, "capacity": network.capacity_bytes_s}
        try:
            if not np.array_equal(arrays["state.capacity"], network.capacity_bytes_s):
                raise HeddleError(
                    "a saved network has links of other rates; continue with the network from which it was saved"
                )
            state = {name: aligned_copy(arrays[f"state.{name}"]) for name in State._fields if name not in shared}
            for name in ("number", "unused", "sent", "spare"):
                setattr(result, f"_{name}", arrays[f"own.{name}"].copy())
            result._routes = dict(arrays["own.routes"].tolist())
            counts = arrays["own.counts"].tolist()
            result._n_routes, result._n_links, result._n_followers = counts[:3]
            result._n_begun, result._n_unused, result._n_connections = counts[3:6]
            room = counts[6:]
            result._room, result._state = Room(*room), State(**state, **shared)
            used = result._n_routes, result._n_links, result._n_followers
            result._check_own(check_state(result._state, result._room, network, used))
        except KeyError as error:
            raise HeddleError(f"a saved network has no {error}; it was saved by another version") from None
        except (TypeError, ValueError, IndexError, OverflowError):
            raise HeddleError("a saved network has arrays of other shapes; start again without it") from None
        return result

    def _check_own(self, in_use: NDArray[np.bool_]) -> None:
        """Refuse numbers of flows and keys of routes, out of a file, that contradict the places in use."""
        number, unused, n = self._number, self._unused, len(self._state.size)
        n_keys = 17 * self.network.n_ends**2
        if (
            not number.shape == unused.shape == (n,)
            or not number.dtype == unused.dtype == np.int64
            or not 0 <= self._n_unused <= n
            or not 0 <= self._n_begun < 2**62
            or len(np.unique(free := unused[: self._n_unused])) < len(free)
            or ((free < 0) | (free >= n)).any()
            or len(free) + np.count_nonzero(in_use) != n
            or in_use[free].any()
            or ((number < 0) | (number > self._n_begun)).any()
            or any(not (0 <= key < n_keys and 0 <= route < self._n_routes) for key, route in self._routes.items())
            or self._sent.shape != self.network.capacity_bytes_s.shape
            or not np.isfinite(self._sent).all()
            or self._spare.dtype != np.int64
            or not 0 <= self._n_connections <= len(self._state.connections)
            or len(np.unique(self._spare)) < len(self._spare)
            or ((self._spare < 0) | (self._spare >= self._n_connections)).any()
            or self._state.connections["left"][self._spare].any()
        ):
            raise HeddleError("a saved network has numbers of flows that no run leaves behind; start again without it")

    @property
    def numbers(self) -> list[int]:
        """Numbers of the flows under way, in order."""
        places = np.setdiff1d(np.arange(len(self._number)), self._unused[: self._n_unused])
        return sorted(self._number[places].tolist())

    def _checked(self, at_s: float | None) -> float:
        """Return the time at which flows are to begin."""
        time = self.now_s if at_s is None else at_s
        if not (isfinite(time) and time >= self.now_s):
            raise HeddleError(f"flows would begin at {time} s; it is {self.now_s} s already")
        return time

    def _enter(self, flows: Flows, route: NDArray[np.int32], places: NDArray[np.int64], time: float) -> None:
        """Put flows on these routes into their places, and schedule those that wait for no other."""
        first = self._n_followers
        connection = self._connect(flows.connection)
        state, latency, delay = self._state, self._state.routes["latency"], flows.delay_s
        # A batch alone has the places 0 to n, and a slice is written faster than numbered places.
        at = slice(len(places)) if self._n_begun == 0 else places
        if flows.rendezvous.any():
            delay = delay + 2 * latency[route] * flows.rendezvous
        state.flow_route[at], state.size[at], state.delay[at] = route, flows.size_bytes, delay
        if connection is not None:
            state.connection[at] = connection
        state.earliest[at] = flows.start_s
        state.earliest[at] += time
        if len(flows.dep):
            self._n_followers += len(flows.dep)
            events.link_followers(state, places, flows.dep_offset, flows.dep, first)
        roots = np.flatnonzero(flows.dep_offset[1:] == flows.dep_offset[:-1])
        begin = flows.start_s[roots] + delay[roots] + latency[route[roots]]
        events.schedule_roots(state, places[roots[np.argsort(begin, kind="stable")]])

    def _connect(self, connection: NDArray[np.int32]) -> NDArray[np.int64] | None:
        """Return the engine's connection of each flow, -1 for none; None where no flow has one."""
        left = np.bincount(connection[connection >= 0])
        if not len(left):
            return None
        if (new := len(left) - len(self._spare)) > 0:
            self._n_connections += new
            self._reserve(connections=self._n_connections)
            self._spare = np.append(self._spare, np.arange(self._n_connections - new, self._n_connections))
        taken, self._spare = self._spare[: len(left)], self._spare[len(left) :]
        self._state.connections["left"][taken] = left
        return np.append(taken, -1)[connection]

    def _take(self, n: int) -> NDArray[np.int64]:
        """Return places for flows, numbered in order."""
        if self._n_unused < n:
            old = len(self._number)
            self._reserve(flows=old - self._n_unused + n)
            new = self._room.flows
            self._number = np.concatenate([self._number, np.zeros(new - old, np.int64)])
            self._unused = np.concatenate([np.arange(new - 1, old - 1, -1), self._unused[: self._n_unused]])
            self._unused = np.concatenate([self._unused, np.zeros(new - len(self._unused), np.int64)])
            self._n_unused += new - old
        self._n_unused -= n
        places = np.sort(self._unused[self._n_unused : self._n_unused + n])  # in the order of their numbers
        self._number[places] = np.arange(self._n_begun, self._n_begun + n)
        self._n_begun += n
        return places

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

    def _routes_of(self, flows: Flows) -> NDArray[np.int32]:
        """Return the route of each flow; routes are added where they are new."""
        known = self._known()
        if not known:
            return self._add_routes(flows.src, flows.dst, flows.sl)
        keys = self._key(flows.src.astype(np.int64), flows.dst, flows.sl.astype(np.int64))
        route = np.array([known.get(key, -1) for key in keys.tolist()], np.int32)
        new = route < 0
        if new.any():
            route[new] = self._add_routes(flows.src[new], flows.dst[new], flows.sl[new])
        return route

    def _add_routes(self, src: NDArray[np.int32], dst: NDArray[np.int32], sl: NDArray[np.int8]) -> NDArray[np.int32]:
        """Add the routes of pairs of ends that are new; return the route of each."""
        table = self.network.routes(src, dst, sl)
        route = table.route + np.int32(self._n_routes)
        self._unlisted.append((self._key(src.astype(np.int64), dst, sl.astype(np.int64)), route))
        self._add_table(table)
        return route

    def _add_table(self, table: RouteTable, **needed: int) -> None:
        """Add routes behind those that there are, and make room for them and what else is `needed`."""
        route, link, hops = self._n_routes, self._n_links, np.diff(table.offset)
        self._n_routes, self._n_links = route + table.n_routes, link + len(table.resource)
        self._reserve(routes=self._n_routes, links=self._n_links, hops=int(hops.max(initial=1)), **needed)
        rows = self._state.routes[route : self._n_routes]
        rows["latency"], rows["first"], rows["hops"] = table.latency_s, table.offset[:-1] + link, hops
        rows["slot"], rows["lane"] = -1, table.lane
        self._state.route_link[link : self._n_links] = table.resource
        if len(self._state.route_use):
            self._state.route_use[link : self._n_links] = table.use

    def _reserve(self, **needed: int) -> None:
        """Make room for so many in all; what is too small at least doubles."""
        room = self._room._asdict()
        larger = {name: max(n, 2 * room[name]) for name, n in needed.items() if n > room[name]}
        if larger:
            self._room = self._room._replace(**larger)
            if "_state" in vars(self):
                self._state = enlarge(self._state, self._room)
