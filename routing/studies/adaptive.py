"""Adaptive routing: groups of output ports for each switch and destination, proven whichever port a switch takes.

A switch sends each packet out of the port of a group that is least busy. Packets arrive if no choice leads to a switch
without a port or round about. Nothing can deadlock where the dependencies of all choices together have no cycle (Dally
and Seitz): so it is with groups of legal ports, whose channels rise in the order of the tables. Groups of all ports on
shortest paths close credit loops on fabrics that are no trees; they need an *escape lane* (Duato, IEEE Transactions on
Parallel and Distributed Systems 4(12), 1993): one that any packet may change to at any switch, that it stays on, and
that has no credit loop by itself. Its paths are those of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.engines.multipath import legal_order
from routing.order.channel_order import order_channels, switch_levels
from routing.proof import judge_dependencies, prove
from routing.routed import Routed
from routing.studies.groups import port_groups, walk_groups
from topo.errors import RoutingError
from topo.fabric import frozen
from topo.table import Column, Shown, Table


@dataclass(frozen=True)
class Groups:
    """Figures of groups of ports, between hosts on different switches."""

    kind: str
    """``tables``: the one port of the tables; ``legal``: all on shortest legal paths; ``shortest``: all on shortest
    paths, as NVIDIA's subnet manager groups them with the algorithm ``TREE``."""
    ports: float
    """Mean number of ports in a group."""
    stuck: int
    """Pairs with a dead end or a forwarding cycle under some choice."""
    credit_loops: int
    """Channels in credit loops where all packets are on one lane; of tables on the lanes that they have."""
    lanes: int | None
    """Number of lanes with which deadlock is excluded: 1, or 2 with an escape lane; None where none is proven."""
    max_load: float
    """Pairs over the fullest link between switches, where each switch splits its flows evenly over the group."""


@dataclass(frozen=True)
class AdaptiveStudy(Shown):
    """Static tables beside groups of ports for adaptive routing."""

    rows: tuple[Groups, ...]

    @property
    def table(self) -> Table:
        """The kinds of groups side by side."""
        lanes = ["not proven" if row.lanes is None else str(row.lanes) for row in self.rows]
        return Table(
            "ports that a switch may choose from, if it splits flows evenly",
            (
                Column("ports", [row.kind for row in self.rows]),
                Column("in a group", [row.ports for row in self.rows], digits=".2f"),
                Column("stuck pairs", [row.stuck for row in self.rows]),
                Column("loops on one lane", [row.credit_loops for row in self.rows]),
                Column("free of deadlock on lanes", lanes),
                Column("fullest link", [row.max_load for row in self.rows], digits=",.0f"),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by kind as plain values, ready for JSON."""
        return {row.kind: {name: value for name, value in vars(row).items() if name != "kind"} for row in self.rows}


@dataclass(frozen=True, eq=False)
class LegalPorts:
    """Ports on shortest legal paths to T target switches, on a fabric with S switches."""

    row_of: NDArray[np.int32]
    """(S,) number of a switch among the targets, -1 for none."""
    offset: NDArray[np.int64]
    """(T * S + 1,) from switch s, those to target t are ``port[offset[t * S + s]:offset[t * S + s + 1]]``."""
    port: NDArray[np.int32]


def legal_ports(routed: Routed) -> LegalPorts:
    """Return the ports that switches may choose from, to switches with hosts: whichever they take, nothing deadlocks.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes: they have no order for legal ports.

    Examples
    --------
    >>> import topo, routing
    >>> from routing.studies.adaptive import legal_ports
    >>> ports = legal_ports(routing.route(topo.preset("lab-20").fabric))
    >>> int(ports.row_of[0]), len(ports.port[ports.offset[1] : ports.offset[2]])  # from leaf 1 to leaf 0, over spines
    (0, 20)
    """
    fabric, proof = routed.fabric, prove(routed)
    if proof.credit_loops or len(proof.depends) > 1:
        raise RoutingError(
            f"{fabric.name or 'the fabric'} has tables with "
            f"{'credit loops' if proof.credit_loops else 'several lanes'}; expected ones that need one lane and have "
            "no loops, to know which ports are safe for adaptive routing"
        )
    escape = prove(routed, "all")
    order = legal_order(fabric, proof if escape.credit_loops else escape)
    targets = np.unique(fabric.end_switch[fabric.ends()]).astype(np.int32)
    n = fabric.n_switches
    target, channel = np.nonzero(port_groups(order, targets, True))
    row = target * n + order.sender[channel]
    by_row = np.argsort(row, kind="stable")
    port = fabric.port_offset[order.sender] + order.number - 1
    row_of = np.full(n, -1, np.int32)
    row_of[targets] = np.arange(len(targets))
    offset = np.append(0, np.cumsum(np.bincount(row, minlength=len(targets) * n)))
    return LegalPorts(frozen(row_of), frozen(offset), frozen(port[channel[by_row]].astype(np.int32)))


def study_adaptive(routed: Routed) -> AdaptiveStudy:
    """Prove groups of ports for adaptive routing between hosts, beside the tables that they start from.

    Tables that have credit loops, or need several lanes, have no order for legal ports, and are no lane to escape to.

    Examples
    --------
    >>> import topo, routing
    >>> study = routing.studies.study_adaptive(routing.route(topo.preset("lab-20").fabric))
    >>> [(row.kind, row.lanes, row.max_load) for row in study.rows]
    [('tables', 1, 11.0), ('legal', 1, 6.05), ('shortest', 1, 6.05)]
    """
    fabric, proof = Routed.given(routed).fabric, prove(routed)
    escape = prove(routed, "all")
    ordered = not proof.credit_loops and len(proof.depends) < 2
    if ordered:
        order = legal_order(fabric, proof if escape.credit_loops else escape)
    else:
        order = order_channels(fabric, switch_levels(fabric))
    sources = np.bincount(fabric.end_switch[fabric.ends()], minlength=fabric.n_switches).astype(np.int32)
    targets = np.flatnonzero(sources).astype(np.int32)
    port = fabric.port_offset[order.sender] + order.number - 1
    safe = ordered and not escape.credit_loops and escape.missing == escape.disconnected
    lost = proof.missing - proof.disconnected
    # Loads are of one LID, the proofs of all.
    lowest = prove(replace(routed, tables=routed.tables.only(0))) if routed.tables.lmc else proof
    lanes = None if lost or proof.credit_loops else proof.lanes
    rows = [Groups("tables", 1.0, lost, proof.credit_loops, lanes, float(lowest.max_load))]
    words = 1 + int(np.diff(fabric.port_offset).max(initial=0)) // 64
    for kind in ("legal", "shortest") if ordered else ("shortest",):
        groups = port_groups(order, targets, kind == "legal")
        depends, load = np.zeros((fabric.n_ports, words), np.uint64), np.zeros(len(order.sender))
        stuck = walk_groups(order, frozen(port), targets, frozen(groups), sources, depends, load)
        looping, _, _ = judge_dependencies(fabric, depends)
        loops = int(looping.sum())
        lanes = None if stuck else 1 if not loops else 2 if safe else None
        chosen = np.add.reduceat(groups, order.indptr[:-1][np.diff(order.indptr) > 0], axis=1, dtype=np.int64)
        mean = float(chosen[chosen > 0].mean()) if chosen.any() else 0.0
        rows.append(Groups(kind, mean, stuck, loops, lanes, float(load.max(initial=0.0))))
    return AdaptiveStudy(tuple(rows))
