"""Collectives of more messages than can be played, whose rounds are all alike: one is played for all.

Both proofs say when no message slows another down, in any round: then each takes what it would take alone.

A *ring*. A rank sends on one path only, one message of one size at a time, so no more is under way than one message of
each rank. If all of these fit beside each other, each at the rate of its narrowest link, then so do any of them, and
all are fair at these rates: they cannot be higher. So a message of rank r always takes d(r). A chain of messages that
wait for each other has at most one of each of the T rounds, so it takes at most T max d; the messages of the slowest
rank wait for each other, and take that. So the ring takes T times as long as its first round.

An *all-to-all* by shifts. If all ports of hosts have one rate, paths are equally long in time, and no link has less
than that rate for each message that a shift can have on it (`bound_shifts`), then all messages of the first round end
at one instant, all of the second begin there, and so on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.hashed import Hashed
from routing.lanes.policy import ASK
from routing.machine_code import kernel
from simulate.engines.outcome import Rounds
from simulate.traffic.collectives.algorithms import Collective
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from topo.budget import FLOWS
from topo.errors import HeddleError, plural
from topo.table import format_seconds

ROUNDING = 1e-12
"""Part of a capacity that rounding may add to what uses it."""


def prove_rounds(network: Network, task: Collective, first: Flows) -> Rounds:
    """Return all rounds of a ring or an all-to-all by shifts, as those that are like its first, between end ports.

    Raises
    ------
    HeddleError
        When the rounds are not proven to be alike, with the reason.
    """
    count = task.messages // len(first)
    ring = task.algorithm == "ring"
    turns = count if ring else task.repeat
    try:
        carried, wanted = _ring_loads(network, first, task.chunks) if ring else _shift_loads(network, task, first)
        carried *= turns * float(first.size_bytes[0])
        _refuse_shared(network, carried, wanted)
    except HeddleError as error:
        found = f"{task.kind} by {task.algorithm} of {plural(len(task.hosts), 'rank')}"
        raise HeddleError(
            f"{found} has {task.messages:,} messages; expected {FLOWS}, or rounds that are all alike, of "
            f"which one is simulated: {error}"
        ) from None
    return Rounds(count, carried)


Loads = tuple[NDArray[np.float64], NDArray[np.float64]]
"""(R,) messages over each resource, and the (R,) bytes a second that those of one round may want of it."""


def _ring_loads(network: Network, first: Flows, chunks: int) -> Loads:
    """Return the messages of a round."""
    if chunks > 1 and not network.instant:
        raise HeddleError("latencies of its chunks overlap: leave `chunks` out, or give --latency-ns 0")
    routes = network.routes(first.src, first.dst, first.sl)
    if routes.lane.min() < routes.lane.max():
        raise HeddleError("its messages travel on several lanes")
    hops = np.diff(routes.offset)
    use = routes.use if len(routes.use) else np.ones(len(routes.resource))
    alone = np.minimum.reduceat(network.capacity_bytes_s[routes.resource] / use, routes.offset[:-1])
    n = len(network.capacity_bytes_s)
    wanted = np.asarray(np.bincount(routes.resource, np.repeat(alone, hops) * use, minlength=n), np.float64)
    return np.bincount(routes.resource, use, minlength=n).astype(np.float64), wanted


def _shift_loads(network: Network, task: Collective, first: Flows) -> Loads:
    """Return the messages of all rounds."""
    fabric, tables, capacity = network.fabric, network.tables, network.capacity_bytes_s
    if isinstance(tables, Hashed):
        raise HeddleError("hashes give each round other collisions")
    asked = bool(network.policy.rules) and first.sl[0] == ASK
    if len(network.lane_weight) > 1 and (asked or tables.path_sl is not None):
        raise HeddleError("its messages may travel on several lanes: give the job an `sl`")
    own = fabric.port_of(task.hosts)
    near, n = fabric.peer[own], len(own)
    rate = float(capacity[own].min())
    if not np.all(near >= 0) or not np.all(capacity[np.concatenate([own, near])] == rate):
        raise HeddleError("ports of hosts have different rates")
    if network.hop_latency_s.any():
        raise HeddleError(
            "its paths have different latencies: give --hop-latency-ns 0 to count those of messages alone"
        )
    home, group, size = np.unique(fabric.peer_node[own], return_inverse=True, return_counts=True)
    if home.max() >= fabric.n_switches:
        raise HeddleError("a host has no switch")
    order = np.argsort(group, kind="stable")
    ends = np.cumsum(size)
    loads, bound = bound_shifts(
        *(fabric.port_offset, fabric.peer, fabric.peer_node, tables.lft, tables.lid[task.hosts], own),
        *(home.astype(np.int32), order[ends - size].astype(np.int32), order[ends - 1].astype(np.int32), size),
    )
    if loads[0] < 0:
        raise HeddleError("the tables do not connect all of its hosts")
    loads[own], bound[own] = n - 1, 1
    return loads.astype(np.float64), bound.astype(np.float64) * rate


@kernel
def bound_shifts(
    port_offset: NDArray[np.int32],
    peer: NDArray[np.int32],
    peer_node: NDArray[np.int32],
    lft: NDArray[np.uint8],
    lid: NDArray[np.uint16],
    own: NDArray[np.int32],
    home: NDArray[np.int32],
    first: NDArray[np.int32],
    last: NDArray[np.int32],
    size: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Follow the tables from each group of ranks below one switch to each rank.

    Parameters
    ----------
    port_offset, peer, peer_node, lft
        As in `topo.fabric.Fabric` and `routing.tables.RoutingTables`.
    lid, own : (n,)
        LID and port of each rank.
    home, first, last, size : (G,)
        Switch of each group, its lowest and highest rank, and how many there are.

    Returns
    -------
    load : (P,) int64
        Messages from each rank to each other one over each channel of a switch; -1 everywhere where the tables do not
        connect two of them.
    bound : (P,) int32
        No shift has more messages over a channel. If the sources of what crosses it are among ranks a to b, those of a
        shift go to b - a + 1 ranks in a row, so it is the most of the channel's destinations that are among so many.
    """
    n, n_ports, n_switches = len(lid), len(peer), len(lft)
    lost = np.full(n_ports, -1, np.int64)
    load, bound = np.zeros(n_ports, np.int64), np.zeros(n_ports, np.int32)
    low, high = np.full(n_ports, n, np.int32), np.full(n_ports, -1, np.int32)
    crossed = np.zeros((n_switches, n), np.bool_)
    visited, place = np.empty(n_switches, np.int32), np.full(n_switches, -1, np.int32)
    # Of each switch how many messages leave it for a rank, and of ranks between which.
    count = np.zeros(n_switches, np.int64)
    least, most = np.full(n_switches, n, np.int32), np.full(n_switches, -1, np.int32)
    for rank in range(n):
        n_visited = 0
        for group in range(len(home)):
            switch, begin = home[group], n_visited
            sources = size[group] - (peer_node[own[rank]] == switch)  # nobody sends to itself
            if not sources:
                continue
            count[switch] += sources
            least[switch], most[switch] = min(least[switch], first[group]), max(most[switch], last[group])
            while place[switch] < 0:
                visited[n_visited], place[switch] = switch, n_visited
                n_visited += 1
                entry = lft[switch, lid[rank]]
                if entry == 0 or entry > port_offset[switch + 1] - port_offset[switch]:
                    return lost, bound
                port = port_offset[switch] + entry - 1
                if peer[port] == own[rank]:
                    break
                switch = peer_node[port]
                if not 0 <= switch < n_switches or place[switch] >= begin:
                    return lost, bound
            visited[begin:n_visited] = visited[begin:n_visited][::-1].copy()
        for at in range(n_visited - 1, -1, -1):  # each switch before the one that it leads to
            switch = visited[at]
            port = port_offset[switch] + lft[switch, lid[rank]] - 1
            load[port] += count[switch]
            low[port], high[port] = min(low[port], least[switch]), max(high[port], most[switch])
            crossed[switch, rank] = True
            if peer[port] != own[rank]:
                onward = peer_node[port]
                count[onward] += count[switch]
                least[onward], most[onward] = min(least[onward], least[switch]), max(most[onward], most[switch])
            count[switch], least[switch], most[switch], place[switch] = 0, n, -1, -1
    row = np.empty(n, np.int32)
    for switch in range(n_switches):
        start = np.zeros(257, np.int32)
        for rank in range(n):
            start[int(lft[switch, lid[rank]]) + 1] += crossed[switch, rank]
        start = np.cumsum(start)
        fill = start.copy()
        for rank in range(n):
            if crossed[switch, rank]:
                entry = lft[switch, lid[rank]]
                row[fill[entry]] = rank
                fill[entry] += 1
        for port in range(port_offset[switch], port_offset[switch + 1]):
            entry = port - port_offset[switch] + 1
            reached = row[start[entry] : start[entry + 1]]
            width, k, ahead = high[port] - low[port] + 1, len(reached), 0
            for here in range(k):
                while ahead < here + k and (reached[ahead % k] - reached[here]) % n < width:
                    ahead += 1
                bound[port] = max(bound[port], ahead - here)
    return load, bound


def _refuse_shared(network: Network, carried: NDArray[np.float64], wanted: NDArray[np.float64]) -> None:
    """Refuse rounds that may want more of a resource than there is, with what all bytes take at least."""
    capacity = network.capacity_bytes_s
    short = np.flatnonzero(wanted > capacity * (1 + ROUNDING))
    if len(short):
        used = np.flatnonzero(carried)
        least_s = float((carried[used] / capacity[used]).max(initial=0.0))
        raise HeddleError(
            f"messages of a round may have to share {network.resource_label(int(short[0]))}; the bytes of its fullest "
            f"link alone take {format_seconds(least_s)}"
        )
