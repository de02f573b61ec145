"""What flows get where switches spread them over groups of ports, beside the static ports alone.

A switch that chooses the least busy port for each packet tends to split a flow evenly over the ports of a group, where
these are equally busy. Then flow f puts the share w[f, c] of its rate on channel c, and rates r are max-min fair where
the sum of w[f, c] r[f] over all f is at most the capacity of each c: they rise together until a channel is full, those
on it stop, and the others go on. An even split is neither the best nor the worst that may happen:

at most
    The best split gives all flows a common share t of what they want: flows x[d, c] to each destination d over its
    channels c, as much out of each switch as into it and t times what begins there, and on no channel more than its
    capacity; the largest t is that of a linear program (maximum concurrent flow: Shahrokhi and Matula, Journal of the
    ACM 37(2), 1990). Where the even split is as good as cuts allow, or the program is too large, it is that of cuts:
    the flows that leave a switch, or come to it, share all its cables to other switches.
at least
    The worst choice sends all flows that may take a channel over it. Of max-min fair rates none is below the capacity
    of its worst channel divided by these.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from routing.hashed import SPRAY, Hashed, PortGroups
from routing.quality.figures import fair_rates, shifts
from routing.routed import Routed
from routing.studies.adaptive.tables import AdaptiveTables
from routing.studies.hashing import hashed_rates, hashed_shares, patterns
from routing.tables import select_endpoints, tree_order
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen
from topo.table import Shown, Table

PHASES = 10
"""Phases of each pattern. Rates of flows deviate by about .3 of a link, so of 100 flows the mean is known to 1 %."""


NO_MORE = 1e-6
"""Relative difference below which a share is as good as its bound: that of the solver's tolerances."""

MOST_VARIABLES = 20_000
"""Variables up to which the linear program is solved unless more are asked for: half a second (35,000 take one)."""


@dataclass(frozen=True)
class Share:
    """Rates of the flows of a pattern, as shares of what their own two links allow."""

    pattern: str
    static: float
    """Mean, by the static ports."""
    spread: float
    """Mean, where every switch splits each flow evenly over its group."""
    static_least: float
    """Of the slowest flow, in the mean over phases, as what follows."""
    at_least: float
    """What it gets whatever ports of their groups switches choose."""
    spread_least: float
    at_most: float
    """What no choice of ports of the groups gives it; where the bound is that of cuts, no tables either."""


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
            "at_least": "slowest at least",
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


def compare_shares(routed: Routed, groups: AdaptiveTables, *, limit: int = MOST_VARIABLES) -> Shares:
    """Compare what flows get by static ports and by groups of ports: in random halves, permutations, shifts, strides.

    Hosts are ranked along the tree. A stride is a shift among every eighth host, as of jobs of one rail or one rank a
    server.

    Parameters
    ----------
    routed : Routed
        The static ports.
    groups : AdaptiveTables
        Of the same fabric and LIDs, by which every packet arrives; of several private tables the first counts.
    limit : int
        Variables up to which the linear program of a phase is solved; above it the bound is that of cuts.

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
    >>> [(row.pattern, f"{row.spread:.2f}") for row in shares.rows][:2]
    [('random halves', '1.00'), ('random permutations', '1.00')]
    """
    fabric = routed.fabric
    ranks = tree_order(fabric, select_endpoints(fabric, routed.tables, "hca"))
    ranks = ranks[fabric.end_switch[ranks] >= 0]
    if len(ranks) < 2:
        raise RoutingError(f"found {len(ranks)} hosts with a LID; expected at least two, for flows between them")
    ports = groups.groups(fabric)
    rows = [_row(*pattern, routed, ports, ranks, limit) for pattern in patterns(len(ranks), PHASES, 0)]
    every = ranks[::8]
    if len(every) > 2:
        rows.append(_row("shifts of every 8th host", shifts(len(every), PHASES), routed, ports, every, limit))
    return Shares(tuple(rows))


def _row(
    pattern: str, phases: NDArray[np.int32], routed: Routed, groups: PortGroups, ranks: NDArray[np.int32], limit: int
) -> Share:
    phases = phases[(phases >= 0).any(axis=1)]
    mean, least = fair_rates(routed, ranks, frozen(phases))
    hashed = Hashed(routed.fabric, SPRAY, groups=groups)
    rates, least_of, most_of = zip(*(play_phase(hashed, ranks, partners, limit) for partners in phases), strict=True)
    return Share(
        pattern,
        static=float(mean.mean()),
        spread=float(np.mean([rate.mean() for rate in rates])),
        static_least=float(least.mean()),
        at_least=float(np.mean(least_of)),
        spread_least=float(np.mean([rate.min() for rate in rates])),
        at_most=float(np.mean(most_of)),
    )


def play_phase(
    hashed: Hashed, ranks: NDArray[np.int32], partners: NDArray[np.int32], limit: int
) -> tuple[NDArray[np.float64], float, float]:
    """Return the rates of a phase as shares of what own links allow, and that of the slowest: at least, at most."""
    fabric, sends = hashed.fabric, np.flatnonzero(partners >= 0)
    rates = hashed_rates(hashed, ranks, partners)
    spread = Spread.of(hashed, ranks[sends], ranks[partners[sends]])
    own = np.minimum(fabric.rate_gbps[fabric.port_of(spread.source)], fabric.rate_gbps[fabric.port_of(spread.dest)])
    least = own.copy()
    np.minimum.at(least, spread.flow, (fabric.rate_gbps / spread.worst(np.ones(len(own))).clip(1))[spread.channel])
    return rates, float((least / own).min()), min(1.0, spread.best(own, float(rates.min()), limit))


@dataclass(frozen=True, eq=False)
class Spread:
    """Flows between end ports, and the channels between switches that they may take.

    Examples
    --------
    >>> import numpy as np, topo, routing
    >>> from routing.studies import adaptive
    >>> fabric = topo.preset("lab-20").fabric
    >>> groups = adaptive.legal_tables(routing.route(fabric)).groups(fabric)
    >>> hosts = fabric.ends(role="compute")
    >>> spread = adaptive.Spread.of(routing.Hashed(fabric, 0, groups=groups), hosts[:8], hosts[8:])
    >>> float(spread.best(np.full(8, 200.0)))  # of 8 x 200 Gb/s over 20 cables of 200 Gb/s
    2.5
    """

    fabric: Fabric
    source: NDArray[np.int32]
    """(n,) end ports."""
    dest: NDArray[np.int32]
    row: NDArray[np.int32]
    """(n,) flows of one row may take the same ports."""
    flow: NDArray[np.intp]
    """Of each entry: its flow."""
    channel: NDArray[np.int32]
    share: NDArray[np.float64]
    """The part of the flow that takes the channel, where every switch splits it evenly."""

    @classmethod
    def of(cls, hashed: Hashed, source: NDArray[np.int32], dest: NDArray[np.int32]) -> Spread:
        """Return the flows of a fabric whose switches spread packets over groups; HeddleError where one has no path."""
        flow, channel, share = hashed_shares(hashed, source, dest)
        kept = hashed.fabric.is_inner[channel]
        row = hashed.groups.row[dest]
        return cls(hashed.fabric, source, dest, row, flow[kept], channel[kept], share[kept])

    def even(self, wanted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (P,) what goes over each channel if all flows get what they want, (n,), split evenly."""
        return _summed(self.channel, self.share * wanted[self.flow], self.fabric.n_ports)

    def worst(self, wanted: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (P,) the most that may go over each channel if all flows get what they want, whatever is chosen."""
        return _summed(self.channel, wanted[self.flow], self.fabric.n_ports)

    def best(self, wanted: NDArray[np.float64], known: float = 0.0, limit: int = MOST_VARIABLES) -> float:
        """Return the largest share of what they want that all flows can get at once, infinite if none leaves a switch.

        Their own links are not counted.

        Parameters
        ----------
        wanted : (n,) float
            In Gb/s.
        known : float
            A share that some choice gives: where cuts allow no more, there is no linear program to solve.
        limit : int
            Variables above which it is not solved either.
        """
        fabric, n = self.fabric, self.fabric.n_switches
        near, home = fabric.end_switch[self.source], fabric.end_switch[self.dest]
        leaves = near != home
        most = np.inf
        width = np.bincount(fabric.port_node[fabric.inner], fabric.rate_gbps[fabric.inner], n)
        for end in (near, home):
            through = np.bincount(end[leaves], wanted[leaves], n)
            most = min(most, float((width[through > 0] / through[through > 0]).min(initial=np.inf)))
        key = np.unique(self.row[self.flow].astype(np.int64) * fabric.n_ports + self.channel)
        if known >= most * (1 - NO_MORE) or len(key) > limit or not len(key):
            return most
        from scipy.optimize import linprog  # it takes a tenth of a second, and few ask

        row, channel = np.divmod(key, fabric.n_ports)
        used, place = np.unique(channel, return_inverse=True)
        tail, head = row * n + fabric.port_node[channel], row * n + fabric.peer_node[channel]
        start = self.row[leaves].astype(np.int64) * n + near[leaves]
        inside = np.unique(tail)  # packets end at the one switch of a row that they never leave
        into = np.isin(head, inside)
        each, one = np.arange(len(key)), np.ones(len(key))
        shape, scale = (len(inside), len(key)), wanted.max()
        out = csr_array((one, (np.searchsorted(inside, tail), each)), shape=shape)
        back = csr_array((one[into], (np.searchsorted(inside, head[into]), each[into])), shape=shape)
        sent = np.bincount(np.searchsorted(inside, start), wanted[leaves] / scale, len(inside))
        solved = linprog(
            np.append(np.zeros(len(key)), -1.0),
            A_ub=csr_array((one, (place.ravel(), each)), shape=(len(used), len(key) + 1)),
            b_ub=fabric.rate_gbps[used] / scale,
            A_eq=hstack([out - back, -csr_array(sent[:, None])], format="csr"),
            b_eq=np.zeros(len(inside)),
            method="highs-ipm",
        )
        return most if solved.status else min(most, -float(solved.fun))


def _summed(at: NDArray[np.integer], amount: NDArray[np.float64], n: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(at, amount, n), np.float64)
