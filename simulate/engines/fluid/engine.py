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

from routing.routed import Routed
from simulate.engines.base import Finished, FlowBook, Pairs, Progress
from simulate.engines.fluid import events
from simulate.engines.fluid.state import Room, State, aligned_copy, allocate, moved
from simulate.engines.outcome import Outcome, Timeline
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network, RouteTable
from topo.errors import HeddleError
from topo.fabric import frozen

FIRST_ROOM = Room(flows=256, routes=256, links=1024, hops=1, next_flow=0, connections=0)
"""Initial sizes of arrays; they at least double when they are full."""

OWN = ("number", "unused", "sent", "spare")
COUNTS = ("n_routes", "n_links", "n_followers", "n_begun", "n_unused", "n_connections")
"""Arrays and numbers beside the state that `Fluid.snapshot` saves."""

AGGREGATE_FROM = 16
"""Routes with one bottleneck from which an aggregate is faster than the routes one by one: measured on the loads of
``benchmarks/timings/fluid_loads.py``."""

EVENTS_A_CALL = 2_000
"""Events between two reports of progress, and chances to stop interpreting: a call takes 10 us besides 1 us for each of
its events, so this costs .5 % (``benchmarks/timings/bench_calls.py``). Interpreted they take about a second."""


class Fluid(FlowBook):
    """The engine of fluid flows (`simulate.engines.base.Engine`), in a batch or step by step.

    Parameters
    ----------
    n_bins
        Bins of the timeline of loads, an even number; 0 for none.
    aggregate_from
        Routes with one bottleneck from which they share one clock: an event there then costs O(log n), not O(n). 0 for
        never. Rates are the same; finish times may differ in their last bits.

    Examples
    --------
    Two flows into one adapter share its link; the shorter one ends first.

    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> engine = simulate.Fluid(simulate.Network.of(routed, latency_s=0))
    >>> engine.begin(hosts[0], hosts[2], 25e9), engine.begin(hosts[1], hosts[2], 12.5e9)
    (0, 1)
    >>> [(ended.flow, ended.finish_s) for ended in engine.advance()]
    [(1, 1.0)]
    >>> [(ended.flow, ended.finish_s) for ended in engine.advance()]
    [(0, 1.5)]
    """

    def __init__(self, network: Network | Routed, *, n_bins: int = 0, aggregate_from: int = AGGREGATE_FROM) -> None:
        super().__init__(network, FIRST_ROOM.flows)
        self._room, self._n_bins, self._aggregate_from = FIRST_ROOM, n_bins, aggregate_from
        self._n_links = 0

    @cached_property
    def _state(self) -> State:
        """The state of the kernels. It is made at first use: by then a batch has said how much room it takes."""
        return self._empty_state()

    def _empty_state(self) -> State:
        return allocate(
            self.network.capacity_bytes_s,
            self.network.lane_weight,
            self._room,
            n_channels=self.network.fabric.n_ports,
            has_uses=self.network.has_uses,
            aggregate_from=self._aggregate_from,
            n_bins=self._n_bins,
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

    def advance(self, until_s: float = np.inf) -> list[Finished]:
        """Play until flows end, as `Engine.advance` says."""
        state = self._state
        events.advance(state, until_s, np.iinfo(np.int64).max, True)
        n = int(state.now["done"][0])
        if n == 0 and isfinite(until_s) and until_s > self.now_s:
            events.pass_time(state, until_s)
        state.now["done"] = 0
        places = state.done[:n]
        self._give_back(places)
        ended = []
        for place in places.tolist():
            start, finish, limit = state.begin[place], state.end[place], state.limit[place]
            ended.append(Finished(int(self._number[place]), float(start), float(finish), int(limit)))
            route = state.routes[state.flow_route[place]]
            on_route = slice(route["first"], route["first"] + route["hops"])
            use = state.route_use[on_route] if len(state.route_use) else 1.0
            self._sent[state.route_link[on_route]] += state.size[place] * use
        self._close(state.connection[places])
        state.connection[places] = -1
        if self._n_followers:  # the next flow in these places waits for nothing, and nothing for it
            state.delay[places], state.waits[places] = 0.0, np.zeros((), state.waits.dtype)
        return ended

    def play(self, flows: Flows, progress: Progress | None = None) -> Outcome:
        """Play a set of flows, as `Engine.play` says; it raises as `begin` does."""
        routes = self.network.routes(flows.src, flows.dst, flows.sl)
        n = len(flows)
        self._add_paths(routes, flows=n, next_flow=len(flows.dep))
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
        """Return all as arrays, from which `restored` goes on, to the last bit; aggregates, not saved, are refused."""
        if self._aggregate_from:
            raise HeddleError("this network cannot be saved: it would have to be made with aggregate_from=0")
        arrays = {f"state.{name}": array for name, array in self._state._asdict().items()}
        arrays |= {f"own.{name}": getattr(self, f"_{name}") for name in OWN}
        arrays["own.routes"] = np.array(list(self._known().items()), np.int64).reshape(-1, 2)
        arrays["own.counts"] = np.array([*(getattr(self, f"_{name}") for name in COUNTS), *self._room])
        return {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def restored(cls, network: Network, arrays: dict[str, NDArray[Any]]) -> Fluid:
        """Return an engine as it was when it gave these arrays, on the same network.

        Kernels follow the indices in them without a check: resume only what `snapshot` gave. Arrays that are missing,
        of other shapes, or of another network raise a `HeddleError`.
        """
        result = cls(network, aggregate_from=0)
        shared: dict[str, NDArray[Any]] = {"lane_weight": network.lane_weight, "capacity": network.capacity_bytes_s}
        try:
            if not np.array_equal(arrays["state.capacity"], network.capacity_bytes_s):
                raise HeddleError(
                    "a saved network has links of other rates; continue with the network from which it was saved"
                )
            state = {name: aligned_copy(arrays[f"state.{name}"]) for name in State._fields if name not in shared}
            result._routes, counts = dict(arrays["own.routes"].tolist()), arrays["own.counts"].tolist()
            own = {name: arrays[f"own.{name}"].copy() for name in OWN} | dict(zip(COUNTS, counts, strict=False))
            for name, value in own.items():
                setattr(result, f"_{name}", value)
            result._room, result._n_bins = Room(*counts[len(COUNTS) :]), arrays["state.bins"].shape[1]
            for name, empty in result._state._asdict().items():
                if name not in shared and (empty.shape, empty.dtype) != (state[name].shape, state[name].dtype):
                    raise ValueError
            result._state = State(**state, **shared)
        except KeyError as error:
            raise HeddleError(f"a saved network has no {error}; it was saved by another version") from None
        except (TypeError, ValueError, IndexError, OverflowError):
            raise HeddleError("a saved network has arrays of other shapes; start again without it") from None
        return result

    @property
    def numbers(self) -> list[int]:
        """Numbers of the flows under way, in order."""
        places = np.setdiff1d(np.arange(len(self._number)), self._unused[: self._n_unused])
        return sorted(self._number[places].tolist())

    def _enter_one(self, place: np.int64, route: int, size_bytes: float, time_s: float) -> None:
        state = self._state
        state.flow_route[place], state.size[place], state.earliest[place] = route, size_bytes, time_s
        events.schedule_roots(state, np.array([place]))

    def _enter(self, flows: Flows, route: NDArray[np.int32], places: NDArray[np.int64], time_s: float) -> None:
        connection, roots = self._connect(flows.connection), self._link(flows, places)
        state, latency, delay = self._state, self._state.routes["latency"], flows.delay_s
        # A batch alone has the places 0 to n, and a slice is written faster than numbered places.
        at = slice(len(places)) if self._n_begun == 0 else places
        if flows.rendezvous.any():
            delay = delay + 2 * latency[route] * flows.rendezvous
        state.flow_route[at], state.size[at], state.delay[at] = route, flows.size_bytes, delay
        if connection is not None:
            state.connection[at] = connection
        state.earliest[at] = flows.start_s
        state.earliest[at] += time_s
        begin = flows.start_s[roots] + delay[roots] + latency[route[roots]]
        events.schedule_roots(state, places[roots[np.argsort(begin, kind="stable")]])

    def _make_room(self, flows: int) -> int:
        self._reserve(flows=flows)
        return self._room.flows

    def _add_paths(self, table: RouteTable, pairs: Pairs | None = None, **needed: int) -> None:
        """Add routes behind those that there are, and make room for them and what else is `needed`."""
        route, link, hops = self._n_routes, self._n_links, np.diff(table.offset)
        self._n_routes, self._n_links = route + table.n_routes, link + len(table.resource)
        self._reserve(routes=self._n_routes, links=self._n_links, hops=int(hops.max(initial=1)), **needed)
        rows = self._state.routes[route : self._n_routes]
        rows["latency"], rows["first"], rows["hops"] = table.latency_s, table.offset[:-1] + link, hops
        rows["slot"], rows["lane"] = -1, table.lane
        self._state.now["laned"] |= np.any(rows["lane"] != self._state.routes["lane"][0])
        self._state.route_link[link : self._n_links] = table.resource
        if len(self._state.route_use):
            self._state.route_use[link : self._n_links] = table.use

    def _reserve(self, **needed: int) -> None:
        room = self._room._asdict()
        larger = {name: max(n, 2 * room[name]) for name, n in needed.items() if n > room[name]}
        if larger:
            self._room = self._room._replace(**larger)
            if "_state" in vars(self):
                self._state = moved(self._state, self._empty_state())
