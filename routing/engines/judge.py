"""What tables are worth: whether they are safe, the score that engines are chosen by, and what users are shown."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from routing.candidates import Candidate
from routing.order.channel_order import taken_channels
from routing.proof import prove
from routing.quality.figures import bisections, fair_rates, shifts_in
from routing.routed import Routed
from routing.search.problem import rings_of, servers_and_rails
from routing.search.search import search_of
from routing.tables import RoutingTables, select_endpoints, tree_order
from topo.fabric import Fabric, Kind, frozen

FLOWS, LEAST_PHASES, MOST_PHASES = 200_000, 30, 200
"""Flows of random halves that are played, as of shifts, in so many phases: these figures are shown, but decide nothing.
Rates of flows deviate by about .3 of a link, so at 4,000 flows the mean is known to half a per cent."""


class Judge:
    """The traffic of a fabric, by which tables of all engines are judged alike.

    Parameters
    ----------
    fabric : Fabric
    lids : (E,) uint16
        LIDs of its end ports, the same for all tables.
    """

    def __init__(self, fabric: Fabric, lids: NDArray[np.uint16]) -> None:
        self.fabric, self.lids = fabric, lids
        self.search, _ = search_of(fabric, lids)

    def judge(self, tables: RoutingTables, *, switches: bool = True) -> Candidate:
        """Return what tables are worth.

        Parameters
        ----------
        tables : RoutingTables
        switches : bool
            Whether paths from and to SHARP aggregation nodes must be safe, too.
        """
        fabric, problem = self.fabric, self.search.problem
        routed = Routed(fabric, tables)
        proof = prove(routed)
        missing, loops = proof.lost, proof.credit_loops
        if switches and (fabric.kind[fabric.end_node] == Kind.AGGREGATION).any():
            wider = prove(routed, "adapters")
            missing, loops = wider.lost, wider.credit_loops
        worth = self.search.worth(taken_channels(self.search.order, tables.lft))
        alone = np.flatnonzero(problem.alone)
        rates = problem.alone[alone] / np.maximum(problem.alone[alone], worth.fullest[alone])
        halves, of_shifts = mean_rates(fabric, tables, lambda ranks, phases: fair_rates(routed, ranks, phases)[0])
        return Candidate(
            engine=tables.engine,
            missing=missing,
            credit_loops=loops,
            lanes=proof.lanes,
            longest=proof.max_hops,
            score=worth.score,
            parts=worth.parts,
            fullest=float(worth.fullest[problem.every_pair]),
            halves=halves,
            shifts=of_shifts,
            jobs=float(rates.mean()) if len(rates) else None,
            slowest_job=float(rates.min()) if len(rates) else None,
        )


def mean_rates(
    fabric: Fabric, tables: RoutingTables, rates: Callable[[NDArray[np.int32], NDArray[np.int32]], NDArray[np.float64]]
) -> tuple[float, float]:
    """Return the mean rate in random halves of the hosts, and in shifts among the hosts of one role, along their rails.

    Parameters
    ----------
    tables : RoutingTables
        For LIDs.
    rates : callable
        Returns (K,) the mean rate of the flows of each phase, of (n,) end ports and (K, n) partners.
    """
    ranks = tree_order(fabric, select_endpoints(fabric, tables, "hca"))
    phases = int(np.clip(FLOWS // max(len(ranks), 1), LEAST_PHASES, MOST_PHASES))
    halves = float(rates(ranks, bisections(len(ranks), phases, np.random.default_rng(0))).mean())
    role, (_, rail) = fabric.role[fabric.end_node[ranks]], servers_and_rails(fabric, ranks)
    total, hosts = 0.0, 0
    for each in np.unique(role):
        mine = frozen(ranks[role == each])
        if len(partners := shifts_in(rings_of(rail[role == each]), phases)):
            total += len(mine) * rates(mine, partners).mean()
            hosts += len(mine)
    return halves, float(total / hosts) if hosts else 0.0
