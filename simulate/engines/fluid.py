"""Plays flows over a network at max-min fair rates: all bandwidth is shared fairly at every instant, no packets.

A flow begins when its dependencies have ended, waits for its latency, and then moves its bytes at the fair rate of its
route, which changes whenever another flow begins or ends: SimGrid's model CM02 (Velho, Schnorr, Casanova and Legrand,
"On the validity of flow-level TCP network models", 2013) without its corrections for TCP. Queues, congestion control
and head-of-line blocking are not in it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from simulate.engines.kernels import events
from simulate.engines.kernels.state import ROUTE, State, allocate
from simulate.network import Network, RouteTable
from simulate.outcome.outcome import Outcome, Timeline
from simulate.traffic.flows import Flows
from simulate.traffic.kernels.order import followers

EVENTS_A_CALL = 20_000
"""Events between two reports of progress: tens of milliseconds."""


def play(
    network: Network,
    flows: Flows,
    *,
    n_bins: int = 0,
    tie_s: float = 0.0,
    progress: Callable[[int, float], None] | None = None,
) -> Outcome:
    """Play flows from time 0 until the last has ended.

    Parameters
    ----------
    n_bins
        Bins of the timeline of loads, an even number; 0 for none.
    tie_s
        Events this close together count as one instant. Exact when 0: only rounding is forgiven.
    progress
        Called now and then with the flows that have ended and the simulated time.

    Raises
    ------
    HeddleError
        When a flow names an end port that is not there, or the tables do not connect it.
    """
    routes = network.routes(flows.src, flows.dst, flows.sl)
    state = start(network, flows, routes, n_bins=n_bins, tie_s=tie_s)
    while events.advance(state, np.inf, EVENTS_A_CALL, False):
        if progress is not None:
            progress(int(state.now["done"][0]), float(state.now["time"][0]))
    timeline = None
    if n_bins:
        timeline = Timeline.of_bins(state.bins, float(state.now["bin_s"][0]), len(network.lane_weight))
    return Outcome(
        network=network,
        flows=flows,
        routes=routes,
        start_s=state.begin[: len(flows)],
        finish_s=state.end[: len(flows)],
        bottleneck=state.limit[: len(flows)],
        n_events=int(state.now["events"][0]),
        n_solves=int(state.now["solves"][0]),
        timeline=timeline,
    )


def start(network: Network, flows: Flows, routes: RouteTable, *, n_bins: int, tie_s: float) -> State:
    """Return a state in which those flows that wait for no other are scheduled."""
    waits, next_offset, next_flow = followers(flows.dep_offset, flows.dep)
    quick = float(flows.size_bytes.max(initial=1.0) / network.capacity_bytes_s.max(initial=1.0))
    table = np.zeros(routes.n_routes, ROUTE)
    table["latency"], table["first"], table["hops"] = routes.latency_s, routes.offset[:-1], np.diff(routes.offset)
    table["slot"], table["lane"] = -1, routes.lane
    state = allocate(
        network.capacity_bytes_s,
        network.fabric.n_ports,
        {
            "routes": table,
            "route_link": routes.resource,
            "route_use": routes.use,
            "flow_route": routes.route,
            "size": flows.size_bytes,
            "earliest": flows.start_s,
            "delay": flows.delay_s,
            "waits": waits,
            "next_offset": next_offset,
            "next_flow": next_flow,
        },
        n_slots=min(len(flows), routes.n_routes),
        n_hops=int(np.diff(routes.offset).max(initial=1)),
        tie_s=tie_s,
        n_bins=n_bins,
        bin_s=quick / max(n_bins, 1),
        lane_weight=network.lane_weight,
    )
    roots = np.flatnonzero(waits == 0)
    begin = flows.start_s[roots] + flows.delay_s[roots] + routes.latency_s[routes.route[roots]]
    events.schedule_roots(state, roots[np.argsort(begin, kind="stable")])
    return state
