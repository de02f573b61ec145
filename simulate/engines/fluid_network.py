"""A network in motion: flows are added at any simulated time, and it says what ends next."""

from __future__ import annotations

from math import isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from routing.lanes.policy import ASK
from simulate.engines.kernels import events
from simulate.engines.kernels.state import ROUTE, State, aligned_copy, allocate, enlarge
from simulate.network import Network, RouteTable
from simulate.outcome.outcome import Timeline
from simulate.traffic.flows import Flows
from topo.errors import HeddleError
from topo.fabric import frozen

FIRST_FLOWS = 256
"""Flows and routes that there is room for at first; it doubles when they are used up."""


class Finished(NamedTuple):
    """A flow that has ended."""

    flow: int
    """The number that `FluidNetwork.begin` gave."""
    start_s: float
    finish_s: float
    bottleneck: int
    """The resource that held it back when it ended, -1 for none."""


class Moving(NamedTuple):
    """The flows that move at an instant, in no order."""

    flow: NDArray[np.int64]
    rate_bytes_s: NDArray[np.float64]
    bottleneck: NDArray[np.int32]


class FluidNetwork:
    """Flows on a network at max-min fair rates, played step by step.

    ::

        net = FluidNetwork(network)
        net.begin(src, dst, 1e9)
        for finished in net.advance():      # plays until the next flow ends
            ...

    Parameters
    ----------
    n_bins
        Bins of the timeline of loads, an even number; 0 for none.
    tie_s
        Events this close together count as one instant.
    """

    def __init__(self, network: Network, *, n_bins: int = 0, tie_s: float = 0.0) -> None:
        self.network = network
        self._routes: dict[tuple[int, int, int], int] = {}
        self._n_route_links = 0
        self._n_begun = 0
        self._sent: NDArray[np.float64] = np.zeros(len(network.capacity_bytes_s))
        self._number: NDArray[np.int64] = np.zeros(FIRST_FLOWS, np.int64)
        """Number of the flow in each place; places are used again."""
        self._unused = list(range(FIRST_FLOWS - 1, -1, -1))
        self._inputs: dict[str, NDArray[Any]] = {
            "routes": np.zeros(FIRST_FLOWS, ROUTE),
            "route_link": np.zeros(4 * FIRST_FLOWS, np.int32),
            "route_use": np.zeros(4 * FIRST_FLOWS if len(network.devices.end_port) else 0),
            "flow_route": np.zeros(FIRST_FLOWS, np.int32),
            "size": np.zeros(FIRST_FLOWS),
            "earliest": np.zeros(FIRST_FLOWS),
            "delay": np.zeros(FIRST_FLOWS),
            "waits": np.zeros(FIRST_FLOWS, np.int32),
            "next_offset": np.zeros(FIRST_FLOWS + 1, np.int64),
            "next_flow": np.zeros(0, np.int32),
        }
        self._state = allocate(
            network.capacity_bytes_s,
            network.fabric.n_ports,
            self._views(),
            n_slots=FIRST_FLOWS,
            n_hops=8,
            tie_s=tie_s,
            n_bins=n_bins,
            bin_s=1e-6,
            lane_weight=network.lane_weight,
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
    def n_solves(self) -> int:
        """Instants at which rates had to be solved."""
        return int(self._state.now["solves"][0])

    @property
    def under_way(self) -> int:
        """Flows that have begun, or are scheduled to, and have not ended."""
        return len(self._number) - len(self._unused)

    def begin(self, src: int, dst: int, size_bytes: float, *, at_s: float | None = None, sl: int = 0) -> int:
        """Begin a flow now, or at a later time; return its number.

        Raises
        ------
        HeddleError
            When the time has passed, the size is negative, an end port is not there or the tables do not connect it.
        """
        time = self.now_s if at_s is None else at_s
        if not (isfinite(time) and time >= self.now_s):
            raise HeddleError(f"a flow from {src} to {dst} would begin at {time} s; it is {self.now_s} s already")
        if not (isfinite(size_bytes) and size_bytes >= 0):
            raise HeddleError(f"a flow from {src} to {dst} has {size_bytes} bytes; expected 0 or more")
        if not ASK <= sl <= 15:
            raise HeddleError(f"a flow from {src} to {dst} has service level {sl}; expected 0 to 15")
        (place,) = self._take([self._route(src, dst, sl)], time)
        self._inputs["size"][place] = size_bytes
        events.schedule_roots(self._state, np.array([place]))
        return self._n_begun - 1

    def begin_all(
        self, src: ArrayLike, dst: ArrayLike, size_bytes: ArrayLike, *, at_s: float | None = None, sl: int = 0
    ) -> range:
        """Begin many flows at once, arrays that broadcast against each other; return their numbers.

        Raises
        ------
        HeddleError
            As `begin`.
        """
        time = self.now_s if at_s is None else at_s
        if not (isfinite(time) and time >= self.now_s):
            raise HeddleError(f"flows would begin at {time} s; it is {self.now_s} s already")
        flows = Flows.of(src, dst, size_bytes, sl=sl)
        pairs = list(zip(flows.src.tolist(), flows.dst.tolist(), strict=True))
        new = list(dict.fromkeys(pair for pair in pairs if (*pair, sl) not in self._routes))
        if new:
            sources, targets = zip(*new, strict=True)
            pairs_of = Flows.of(sources, targets, 0.0, sl=sl)
            self._add_routes(self.network.routes(pairs_of.src, pairs_of.dst, pairs_of.sl), new, sl)
        places = self._take([self._routes[(*pair, sl)] for pair in pairs], time)
        self._inputs["size"][places] = flows.size_bytes
        events.schedule_roots(self._state, np.array(places, np.int64))
        return range(self._n_begun - len(flows), self._n_begun)

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, but no longer than until a time; return those that ended, all at one instant."""
        state = self._state
        events.advance(state, until_s, np.iinfo(np.int64).max, True)
        n = int(state.now["done"][0])
        if n == 0 and isfinite(until_s):
            state.now["time"] = max(self.now_s, until_s)
        state.now["done"] = 0
        ended = []
        for place in state.done[:n].tolist():
            self._unused.append(place)
            start, finish, limit = state.begin[place], state.end[place], state.limit[place]
            ended.append(Finished(int(self._number[place]), float(start), float(finish), int(limit)))
            route = state.routes[state.flow_route[place]]
            on_route = state.route_link[route["first"] : route["first"] + route["hops"]]
            use = state.route_use[route["first"] : route["first"] + route["hops"]] if len(state.route_use) else 1.0
            self._sent[on_route] += state.size[place] * use
        return ended

    def moving(self) -> Moving:
        """Return the flows that move now, and their rates since the last event."""
        state = self._state
        flow, slot = [], []
        for route in state.routes[state.routes["hops"] > 0]:
            stack = [int(state.classes[route["slot"]]["first"])] if route["slot"] >= 0 else []
            while stack:
                place = stack.pop()
                if place >= 0:
                    flow.append(int(self._number[place]))
                    slot.append(int(route["slot"]))
                    stack += [int(state.moves[place]["left"]), int(state.moves[place]["right"])]
        return Moving(
            frozen(np.array(flow, np.int64)),
            frozen(state.rates["rate"][slot]),
            frozen(state.rates["limit"][slot] // len(self.network.lane_weight)),
        )

    @property
    def resource_bytes(self) -> NDArray[np.float64]:
        """(R,) bytes that crossed each resource (times their use of it), of flows that have ended."""
        return frozen(self._sent)

    @property
    def timeline(self) -> Timeline:
        """Load of each resource over time, until now."""
        events.draw_all(self._state)
        return Timeline.of_bins(self._state.bins, float(self._state.now["bin_s"][0]), len(self.network.lane_weight))

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """Return all that there is as arrays, from which `restored` goes on, to the last bit."""
        state = {name: array for name, array in self._state._asdict().items() if name not in self._inputs}
        own = {
            "number": self._number,
            "unused": np.array(self._unused, np.int64),
            "sent": self._sent,
            "pairs": np.array(list(self._routes), np.int64).reshape(-1, 3),
            "counts": np.array([self._n_route_links, self._n_begun]),
        }
        named = {**_prefixed("state", state), **_prefixed("input", self._inputs), **_prefixed("own", own)}
        return {name: array.copy() for name, array in named.items()}

    @classmethod
    def restored(cls, network: Network, arrays: dict[str, NDArray[Any]]) -> FluidNetwork:
        """Return a network in motion as it was when it gave these arrays.

        Parameters
        ----------
        network
            The same as then.

        Raises
        ------
        HeddleError
            When arrays are missing, or belong to another network.
        """
        result = cls(network)
        shared: dict[str, NDArray[Any]] = {"lane_weight": network.lane_weight, "capacity": network.capacity_bytes_s}
        try:
            result._inputs = {name: arrays[f"input.{name}"].copy() for name in result._inputs}
            names = [name for name in result._state._fields if name not in (*result._inputs, *shared)]
            state = {name: aligned_copy(arrays[f"state.{name}"]) for name in names}
            result._number, result._sent = arrays["own.number"].copy(), arrays["own.sent"].copy()
            result._unused = arrays["own.unused"].tolist()
            result._routes = {tuple(pair): at for at, pair in enumerate(arrays["own.pairs"].tolist())}
            result._n_route_links, result._n_begun = arrays["own.counts"].tolist()
        except KeyError as error:
            raise HeddleError(f"a saved network has no {error}; it was saved by another version") from None
        if not np.array_equal(arrays["state.capacity"], network.capacity_bytes_s):
            raise HeddleError("a saved network has links of other rates; go on with the one that it was saved from")
        result._state = State(**state, **result._views(), **shared)
        return result

    def _take(self, routes: list[int], time: float) -> list[int]:
        """Return places for flows on these routes, numbered in order."""
        n = len(routes)
        while len(self._unused) < n:
            size = len(self._number)
            self._number = np.concatenate([self._number, np.zeros(size, np.int64)])
            self._unused = [*range(2 * size - 1, size - 1, -1), *self._unused]
            self._double("flow_route", "size", "earliest", "delay", "waits", "next_offset")
        places = [self._unused.pop() for _ in range(n)]
        self._number[places] = np.arange(self._n_begun, self._n_begun + n)
        self._inputs["flow_route"][places] = routes
        self._inputs["earliest"][places] = time
        self._n_begun += n
        return places

    def _route(self, src: int, dst: int, sl: int) -> int:
        if (src, dst, sl) not in self._routes:
            source, target, level = np.array([src], np.int32), np.array([dst], np.int32), np.array([sl], np.int8)
            self._add_routes(self.network.routes(source, target, level), [(src, dst)], sl)
        return self._routes[src, dst, sl]

    def _add_routes(self, table: RouteTable, pairs: list[tuple[int, int]], sl: int) -> None:
        """Add the routes of pairs of end ports, one a pair."""
        for pair, row in zip(pairs, table.route.tolist(), strict=True):
            begin, end = table.offset[row : row + 2].tolist()
            number, first, links = len(self._routes), self._n_route_links, table.resource[begin:end]
            last = first + len(links)
            if number == len(self._inputs["routes"]):
                self._double("routes")
            while last > len(self._inputs["route_link"]) or len(links) > 1 << int(self._state.now["shift"][0]):
                self._double("route_link", "route_use", n_hops=len(links))
            self._inputs["routes"][number] = (table.latency_s[row], first, len(links), -1, table.lane[row])
            self._inputs["route_link"][first:last] = links
            if len(table.use):
                self._inputs["route_use"][first:last] = table.use[begin:end]
            self._n_route_links = last
            self._routes[*pair, sl] = number

    def _double(self, *names: str, n_hops: int = 1) -> None:
        for name in names:
            old = self._inputs[name]
            self._inputs[name] = np.concatenate([old, np.zeros_like(old)])
        self._state = enlarge(self._state, self._views(), n_hops)

    def _views(self) -> dict[str, NDArray[Any]]:
        """Return the inputs as kernels see them in a batch too: read-only where only they may not write."""
        views = {name: array.view() for name, array in self._inputs.items()}
        for name in ("route_link", "route_use", "flow_route", "size", "earliest", "delay"):
            views[name].flags.writeable = False
        return views


def _prefixed(prefix: str, arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {f"{prefix}.{name}": array for name, array in arrays.items()}
