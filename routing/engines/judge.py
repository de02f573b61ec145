"""What tables are worth: whether they are safe, the score that engines are chosen by, and what users are shown."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.candidates import Candidate
from routing.order.channel_order import taken_channels
from routing.proof import prove
from routing.quality.figures import bisections, fair_rates, shifts
from routing.routed import Routed
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
        self.fabric = fabric
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
        missing, loops = proof.missing - proof.disconnected, proof.credit_loops
        if switches and (fabric.kind[fabric.end_node] == Kind.AGGREGATION).any():
            wider = prove(routed, "adapters")
            missing, loops = wider.missing - wider.disconnected, wider.credit_loops
        worth = self.search.worth(taken_channels(self.search.order, tables.lft))
        alone = np.flatnonzero(problem.alone)
        rates = problem.alone[alone] / np.maximum(problem.alone[alone], worth.fullest[alone])
        ranks = tree_order(fabric, select_endpoints(fabric, tables, "hca"))
        phases = int(np.clip(FLOWS // max(len(ranks), 1), LEAST_PHASES, MOST_PHASES))
        halves = bisections(len(ranks), phases, np.random.default_rng(0))
        return Candidate(
            engine=tables.engine,
            missing=missing,
            credit_loops=loops,
            lanes=proof.lanes,
            longest=proof.max_hops,
            score=worth.score,
            parts=worth.parts,
            fullest=float(worth.fullest[:1].sum()),
            bisection=float(fair_rates(routed, ranks, halves)[0].mean()),
            shifts=_of_shifts(routed, ranks, phases),
            jobs=float(rates.mean()) if len(rates) else None,
            slowest_job=float(rates.min()) if len(rates) else None,
        )


def _of_shifts(routed: Routed, ranks: NDArray[np.int32], phases: int) -> float:
    """Return the mean rate of shifts among the hosts of one role, in the mean over all hosts that have another."""
    role = routed.fabric.role[routed.fabric.end_node[ranks]]
    total, hosts = 0.0, 0
    for each in np.unique(role):
        mine = frozen(ranks[role == each])
        if len(mine) > 1:
            total += len(mine) * fair_rates(routed, mine, shifts(len(mine), phases))[0].mean()
            hosts += len(mine)
    return float(total / hosts) if hosts else 0.0
