"""What tables are worth: whether they are safe, and the figures that engines are compared by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from routing.candidates import FIGURES, Candidate
from routing.proof import prove
from routing.quality.figures import Congestion, congestion, measure, shifts
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints, tree_order
from topo.fabric import Fabric, Kind, frozen

LEAST_FLOWS, MEASURED_FLOWS = 8_000, 400_000
"""Flows of random halves in which tables are measured: a small fabric in more phases than others, where few flows meet
by chance, and a large one in fewer."""


def judge(fabric: Fabric, tables: RoutingTables, *, switches: bool = True) -> Candidate:
    """Return what tables are worth.

    Parameters
    ----------
    fabric : Fabric
    tables : RoutingTables
    switches : bool
        Whether paths from and to SHARP aggregation nodes must be safe, too.
    """
    routed = Routed(fabric, tables)
    proof = prove(routed)
    missing, loops = proof.missing - proof.disconnected, proof.credit_loops
    if switches and (fabric.kind[fabric.end_node] == Kind.AGGREGATION).any():
        wider = prove(routed, "adapters")
        missing, loops = wider.missing - wider.disconnected, wider.credit_loops
    hosts = max(len(proof.ends), 1)
    phases = MEASURED_FLOWS // hosts
    samples = max(30, LEAST_FLOWS // hosts, min(phases, 200))
    max_shifts = max(60, min(2 * phases, 400))
    quality = measure(routed, samples=samples, max_shifts=max_shifts, proof=proof)
    to_one = proof.to_one_by_role
    most = np.max([np.zeros_like(proof.load), *to_one.values()], axis=0)
    shared = fabric.inner[proof.load[fabric.inner] > most[fabric.inner]]
    # What one server is sent, some link carries however well a role is spread; what counts is what meets it there.
    by_role = [
        len(proof.ends) + (load - to_one[role])[shared].max(initial=0) for role, load in proof.load_by_role.items()
    ]
    in_order = tree_order(fabric, select_endpoints(fabric, tables, "hca"))
    role_shift, role_mean_shift = _shifts_by_role(routed, in_order, max_shifts, quality.shift)
    return Candidate(
        engine=tables.engine,
        missing=missing,
        credit_loops=loops,
        lanes=proof.lanes,
        max_hops=proof.max_hops,
        stretch=proof.stretch,
        max_load=quality.max_load,
        shared_load=int(proof.load[shared].max(initial=0)),
        role_load=float(np.exp(np.mean(np.log(by_role)))) if by_role else 0.0,
        ebb=quality.ebb,
        permutation=quality.permutation.bandwidth,
        shift=quality.shift.bandwidth,
        role_shift=role_shift,
        mean_shift=quality.shift.max_load_mean,
        role_mean_shift=role_mean_shift,
        worst_shift=quality.shift.max_load_worst,
    )


def _shifts_by_role(
    routed: Routed, ranks: NDArray[np.int32], max_shifts: int, of_all: Congestion
) -> tuple[float, float]:
    """Return bandwidth and mean fullest link of shifts among the hosts of one role, in the mean over all hosts."""
    role = routed.fabric.role[routed.fabric.end_node[ranks]]
    if not len(ranks) or (role == role[0]).all():
        return of_all.bandwidth, of_all.max_load_mean
    bandwidth = mean = hosts = 0.0  # that have another of their role
    for each in np.unique(role):
        of_role = frozen(ranks[role == each])
        max_load, share, _ = congestion(routed, of_role, shifts(len(of_role), max_shifts))
        if len(max_load):
            hosts += len(of_role)
            bandwidth, mean = bandwidth + len(of_role) * share.mean(), mean + len(of_role) * max_load.mean()
    return (float(bandwidth / hosts), float(mean / hosts)) if hosts else (0.0, 0.0)


def mark(row: Candidate, others: Sequence[Candidate]) -> float:
    """Return the mean over figures, weighted, of how much of the best one has."""
    shares = [figure.weight * min(figure.share(row, other) for other in others) for figure in FIGURES]
    return sum(shares) / sum(figure.weight for figure in FIGURES)
