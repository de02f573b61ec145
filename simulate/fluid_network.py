"""A network in motion: flows are added at any simulated time, and it says what ends next."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.flows import Flows
from simulate.kernels import events
from simulate.kernels.state import ROUTE, allocate, enlarge
from simulate.network import Network
from simulate.outcome import Timeline
from topo.errors import HeddleError
from topo.fabric import frozen

__all__ = ["Finished", "FluidNetwork", "Moving"]

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
    """Flows on a network at max-min fair rates, played step by step with the state and kernels of `simulate.fluid`.

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
        if not (np.isfinite(time) and time >= self.now_s):
            raise HeddleError(f"a flow from {src} to {dst} would begin at {time} s; it is {self.now_s} s already")
        if not (np.isfinite(size_bytes) and size_bytes >= 0):
            raise HeddleError(f"a flow from {src} to {dst} has {size_bytes} bytes; expected 0 or more")
        route = self._route(src, dst, sl)
        if not self._unused:
            n = len(self._number)
            self._number = np.concatenate([self._number, np.zeros(n, np.int64)])
            self._unused = list(range(2 * n - 1, n - 1, -1))
            self._double("flow_route", "size", "earliest", "delay", "waits", "next_offset")
        place = self._unused.pop()
        number = self._n_begun
        self._n_begun += 1
        self._number[place] = number
        self._inputs["flow_route"][place] = route
        self._inputs["size"][place] = size_bytes
        self._inputs["earliest"][place] = time
        events.schedule_roots(self._state, np.array([place]))
        return number

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, but no longer than until a time; return those that ended, all at one instant."""
        state = self._state
        events.advance(state, until_s, np.iinfo(np.int64).max, True)
        n = int(state.now["done"][0])
        if n == 0 and np.isfinite(until_s):
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
            frozen(np.array(flow, np.int64)), frozen(state.rates["rate"][slot]), frozen(state.rates["limit"][slot])
        )

    @property
    def resource_bytes(self) -> NDArray[np.float64]:
        """(R,) bytes that crossed each resource (times their use of it), of flows that have ended."""
        return frozen(self._sent)

    @property
    def timeline(self) -> Timeline:
        """Load of each resource over time, until now."""
        events.draw_all(self._state)
        width = float(self._state.now["bin_s"][0])
        return Timeline(width, frozen(self._state.bins / width))

    def _route(self, src: int, dst: int, sl: int) -> int:
        known = self._routes.get((src, dst, sl))
        if known is not None:
            return known
        table = self.network.routes(Flows.of(src, dst, 0.0, sl=sl))
        number, first, links = len(self._routes), self._n_route_links, table.resource
        last = first + len(links)
        if number == len(self._inputs["routes"]):
            self._double("routes")
        while last > len(self._inputs["route_link"]) or len(links) > 1 << int(self._state.now["shift"][0]):
            self._double("route_link", "route_use", n_hops=len(links))
        self._inputs["routes"][number] = (table.latency_s[0], first, len(links), -1, table.lane[0])
        self._inputs["route_link"][first:last] = links
        if len(table.use):
            self._inputs["route_use"][first:last] = table.use
        self._n_route_links = last
        self._routes[src, dst, sl] = number
        return number

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
