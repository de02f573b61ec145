"""What flows get where switches spread them over groups of ports, beside the static ports alone.

A switch that chooses the least busy port for each packet tends to split a flow evenly over the ports of a group, where
these are equally busy. Then flow f puts the share w[f, c] of its rate on channel c, and rates r are max-min fair where
the sum of w[f, c] r[f] over all f is at most the capacity of each c: they rise together until a channel is full, those
on it stop, and the others go on. An even split is neither the best nor the worst that may happen. What no choice of
ports gives is bounded by cuts: the flows that leave a switch, or come to it, share all its cables to other switches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.machine_code import kernel
from routing.quality.figures import bisections, fair_rates, permutations, shifts
from routing.routed import Routed
from routing.studies.adaptive.tables import AdaptiveTables
from routing.tables import select_endpoints, tree_order
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen
from topo.table import Shown, Table

PHASES = 10
"""Phases of each pattern. Rates of flows deviate by about .3 of a link, so of 100 flows the mean is known to 1 %."""

TIE = 1e-12
"""Relative difference below which two levels are one."""


@dataclass(frozen=True)
class Share:
    """Rates of the flows of a pattern, as shares of what their own two links allow."""

    pattern: str
    static: float
    """Mean, by the static ports."""
    spread: float
    """Mean, where every switch splits each flow evenly over its group."""
    static_least: float
    """Of the slowest flow, in the mean over phases."""
    spread_least: float
    at_most: float
    """What no choice of ports, and no tables, give the slowest flow, in the mean over phases."""


@dataclass(frozen=True)
class Shares(Shown):
    """Static ports beside groups, pattern by pattern."""

    rows: tuple[Share, ...]

    @property
    def table(self) -> Table:
        """The rates, as shares."""
        rates = {
            "static": "static",
            "spread": "spread",
            "static_least": "slowest, static",
            "spread_least": "slowest, spread",
            "at_most": "slowest at most",
        }
        columns = ((of, title, "", ".2f") for of, title in rates.items())
        title = "share of its own link that a flow gets, by static ports and spread over groups"
        return Table.of(title, self.rows, ("pattern", "flows"), *columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the rates by pattern as plain values, ready for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {row.pop("pattern"): row for row in rows}


def compare_shares(routed: Routed, groups: AdaptiveTables) -> Shares:
    """Compare what flows get by static ports and by groups of ports: in random halves, permutations, shifts, strides.

    Hosts are ranked along the tree. A stride is a shift among every eighth host, as of jobs of one rail or one rank a
    server.

    Parameters
    ----------
    routed : Routed
        The static ports.
    groups : AdaptiveTables
        Of the same fabric and LIDs, by which every packet arrives; of several private tables the first counts.

    Raises
    ------
    RoutingError
        When fewer than two hosts have a LID.

    Examples
    --------
    >>> import topo, routing
    >>> from routing.studies import adaptive
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> shares = adaptive.compare_shares(routed, adaptive.legal_tables(routed))
    >>> [(row.pattern, row.spread) for row in shares.rows][:2]
    [('random halves', 1.0), ('random permutations', 1.0)]
    """
    fabric = routed.fabric
    ranks = tree_order(fabric, select_endpoints(fabric, routed.tables, "hca"))
    ranks = ranks[fabric.end_switch[ranks] >= 0]
    if len(ranks) < 2:
        raise RoutingError(f"found {len(ranks)} hosts with a LID; expected at least two, for flows between them")
    draw: dict[str, Callable[[int], NDArray[np.int32]]] = {
        "random halves": lambda n: bisections(n, PHASES, np.random.default_rng(0)),
        "random permutations": lambda n: permutations(n, PHASES, np.random.default_rng(0)),
        "shifts": lambda n: shifts(n, PHASES),
    }
    rows = [_row(pattern, routed, groups, ranks, phases(len(ranks))) for pattern, phases in draw.items()]
    every = ranks[::8]
    if len(every) > 2:
        rows.append(_row("shifts of every 8th host", routed, groups, every, shifts(len(every), PHASES)))
    return Shares(tuple(rows))


def _row(
    pattern: str, routed: Routed, groups: AdaptiveTables, ranks: NDArray[np.int32], phases: NDArray[np.int32]
) -> Share:
    phases = phases[(phases >= 0).any(axis=1)]
    mean, least = fair_rates(routed, ranks, frozen(phases))
    spread = [spread_rates(routed.fabric, groups, ranks, partners) for partners in phases]
    most = [_most(routed.fabric, ranks, partners) for partners in phases]
    return Share(
        pattern,
        static=float(mean.mean()),
        spread=float(np.mean([rates.mean() for rates in spread])),
        static_least=float(least.mean()),
        spread_least=float(np.mean([rates.min() for rates in spread])),
        at_most=float(np.mean(most)),
    )


def spread_rates(
    fabric: Fabric, groups: AdaptiveTables, ranks: NDArray[np.int32], partners: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Return the max-min fair rate of each flow where switches split it evenly, as a share of its own two links.

    Parameters
    ----------
    fabric : Fabric
    groups : AdaptiveTables
        By which every packet arrives.
    ranks : (n,) int32
        End ports.
    partners : (n,) int32
        The rank that each sends to; -1 nobody. Its flow is left out.
    """
    sends = np.flatnonzero(partners >= 0)
    source, dest = ranks[sends], ranks[partners[sends]]
    allowed = groups.allowed(fabric, 0, groups.lid[dest].astype(np.int64))
    own, last = fabric.port_of(source), fabric.port_of(dest)
    room = 64 * len(sends)
    while True:
        flow, channel, share = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room)
        used = split_flows(
            fabric.port_offset, fabric.peer_node, frozen(allowed), frozen(fabric.end_switch[source]),
            frozen(fabric.end_switch[dest]), flow, channel, share,
        )  # fmt: skip
        if used <= room:
            break
        room = used
    flow, channel, share = flow[:used], channel[:used], share[:used]
    limit = np.minimum(fabric.rate_gbps[own], fabric.rate_gbps[last])
    flow = np.concatenate([flow, np.arange(len(sends)), np.arange(len(sends))])
    channel = np.concatenate([channel, own, fabric.peer[last]])
    share = np.concatenate([share, np.ones(2 * len(sends))])
    return fill(flow, channel, share, fabric.rate_gbps, len(sends)) / limit


def fill(
    flow: NDArray[np.integer], channel: NDArray[np.integer], share: NDArray[np.float64], capacity: NDArray[np.float64],
    n: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the max-min fair rates of n flows that put shares of them on channels, by water-filling.

    Examples
    --------
    >>> import numpy as np
    >>> from routing.studies.adaptive.shares import fill
    >>> fill(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0.5, 0.5, 1.0]), np.array([3.0, 1.0]), 2)
    array([2., 2.])
    """
    used, channel = np.unique(channel, return_inverse=True)
    left, rate, stops, level = capacity[used].astype(np.float64), np.zeros(n), np.zeros(n, bool), 0.0
    while len(flow):
        load = np.bincount(channel, share, len(left))
        at = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        level = max(level, float(at.min()))
        stops[flow[at[channel] <= level * (1 + TIE)]] = True
        stay = ~stops[flow]
        rate[flow[~stay]] = level
        left = np.maximum(left - level * np.bincount(channel[~stay], share[~stay], len(left)), 0)
        flow, channel, share = flow[stay], channel[stay], share[stay]
    return rate


def _most(fabric: Fabric, ranks: NDArray[np.int32], partners: NDArray[np.int32]) -> float:
    """Return what no paths give the slowest flow of a phase: its share of the cables of the switch that has fewest."""
    n = fabric.n_switches
    sends = np.flatnonzero(partners >= 0)
    source, dest = ranks[sends], ranks[partners[sends]]
    limit = np.minimum(fabric.rate_gbps[fabric.port_of(source)], fabric.rate_gbps[fabric.port_of(dest)])
    outside = fabric.end_switch[source] != fabric.end_switch[dest]
    width = np.bincount(fabric.port_node[fabric.inner], fabric.rate_gbps[fabric.inner], n)
    most = 1.0
    for end in (source, dest):
        wanted = np.bincount(fabric.end_switch[end][outside], limit[outside], n)
        most = min(most, float((width[wanted > 0] / wanted[wanted > 0]).min(initial=1.0)))
    return most


@kernel
def split_flows(
    port_offset: NDArray[np.int32], peer_node: NDArray[np.int32], allowed: NDArray[np.bool_], first: NDArray[np.int32],
    home: NDArray[np.int32], flow: NDArray[np.int32], channel: NDArray[np.int32], share: NDArray[np.float64],
) -> int:  # fmt: skip
    """Split flows over all channels that they may take, at each switch evenly.

    Parameters
    ----------
    port_offset, peer_node
        As in `topo.fabric.Fabric`.
    allowed : (n, P) bool
        Channels that each flow may take; they have no cycle.
    first, home : (n,) int32
        The switch where each begins, and that of its destination.
    flow, channel, share : (room,), out
        Flows, channels between switches, and the parts that take them.

    Returns
    -------
    int
        Entries that there are; where it is more than room, the others were not written.
    """
    n = len(port_offset) - 1
    part, waits, seen = np.zeros(n), np.zeros(n, np.int32), np.zeros(n, np.bool_)
    stack, count = np.empty(n, np.int32), 0
    for f in range(len(first)):
        seen[:], waits[:], part[:] = False, 0, 0.0
        stack[0], size = first[f], 1
        seen[first[f]] = True
        while size:  # how many channels lead to each switch
            size -= 1
            here = stack[size]
            if here == home[f]:
                continue
            for port in range(port_offset[here], port_offset[here + 1]):
                there = peer_node[port]
                if allowed[f, port]:
                    waits[there] += 1
                    if not seen[there]:
                        seen[there] = True
                        stack[size] = there
                        size += 1
        stack[0], size = first[f], 1
        part[first[f]] = 1.0
        while size:
            size -= 1
            here = stack[size]
            if here == home[f]:
                continue
            width = 0
            for port in range(port_offset[here], port_offset[here + 1]):
                width += int(allowed[f, port])
            for port in range(port_offset[here], port_offset[here + 1]):
                if not allowed[f, port]:
                    continue
                there = peer_node[port]
                if count < len(flow):
                    flow[count], channel[count], share[count] = f, port, part[here] / width
                count += 1
                part[there] += part[here] / width
                waits[there] -= 1
                if waits[there] == 0:
                    stack[size] = there
                    size += 1
    return count
