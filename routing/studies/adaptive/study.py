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
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from routing.engines.multipath import legal_order
from routing.hashed import number_sets
from routing.order.channel_order import order_channels, switch_levels
from routing.order.legal import ChannelOrder
from routing.proof import prove
from routing.routed import Routed
from routing.studies.adaptive.groups import port_groups
from routing.studies.adaptive.proof import prove_adaptive
from routing.studies.adaptive.tables import AdaptiveTables, LidState
from routing.tables import NO_PATH, RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen
from topo.graphs import turns_in_groups
from topo.table import Shown, Table


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
        return Table.of(
            "ports that a switch may choose from, if it splits flows evenly",
            self.rows,
            *(("kind", "ports"), ("ports", "in a group", "", ".2f"), ("stuck", "stuck pairs")),
            ("credit_loops", "loops on one lane"),
            (lambda row: "not proven" if row.lanes is None else str(row.lanes), "free of deadlock on lanes"),
            ("max_load", "fullest link", "", ",.0f"),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by kind as plain values, ready for JSON."""
        return {row.kind: {name: value for name, value in vars(row).items() if name != "kind"} for row in self.rows}


def legal_tables(routed: Routed) -> AdaptiveTables:
    """Return adaptive tables in which packets to hosts may take any port on a shortest legal path.

    Whichever ports switches choose, nothing deadlocks. What is not to a host is static, as in the tables.

    Raises
    ------
    RoutingError
        When the tables have credit loops, or need several lanes: they have no order for legal ports.

    Examples
    --------
    >>> import topo, routing
    >>> routing.studies.adaptive.legal_tables(routing.route(topo.preset("lab-20").fabric))
    <AdaptiveTables 6 groups of ports, 1 table for each switch>
    """
    fabric, proof = routed.fabric, prove(routed)
    if proof.credit_loops or len(proof.depends) > 1:
        raise RoutingError(
            f"{fabric.name or 'the fabric'} has tables with "
            f"{'credit loops' if proof.credit_loops else 'several lanes'}; expected ones that need one lane and have "
            "no loops, to know which ports are safe for adaptive routing"
        )
    escape = prove(routed, "all")
    return _grouped(fabric, routed.tables, legal_order(fabric, proof if escape.credit_loops else escape))


def updown_tables(fabric: Fabric, tables: RoutingTables, roots: NDArray[np.integer]) -> AdaptiveTables:
    """Return adaptive tables with all ports on the shortest paths that go up towards roots and then down.

    Switches rank by their distance from the nearest root, as `updn` ranks them from ``root_guid_file``; a hop between
    two of one rank goes up towards the higher GUID. Ports between hosts are all that NVIDIA's ``ar_updn`` may choose
    from, if it keeps to up and down, which its documents do not say. Where no such path leads, there is no port.
    OpenSM's `updn` takes a cable between two roots for a way up from both ends: it reaches more, and may close loops.

    Parameters
    ----------
    fabric : Fabric
    tables : RoutingTables
        For the LIDs, and for static entries of what is no host.
    roots : (n,) int
        Switches.

    Examples
    --------
    >>> import topo, routing
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> tables = routing.studies.adaptive.updown_tables(routed.fabric, routed.tables, [2, 3])
    >>> routing.studies.adaptive.prove_adaptive(routed.fabric, tables).holds
    True
    """
    n = fabric.n_switches
    between = fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]
    links = csr_array((np.ones(len(fabric.inner)), between), shape=(n, n))
    rank = dijkstra(links, unweighted=True, indices=np.asarray(roots, np.intp), min_only=True)
    height = np.empty(n, np.int64)
    height[np.lexsort((fabric.node_guid[:n], -rank))] = np.arange(n)
    made = _grouped(fabric, tables, order_channels(fabric, height, join_peaks=False))
    # Where no group leads to a host elsewhere, nothing does.
    ends, lid = tables.lids_of(fabric.ends())
    lost = (made.group[0][:, lid] < 0) & (np.arange(n)[:, None] != fabric.end_switch[ends])
    lft, state = made.lft.copy(), made.state.copy()
    switch, column = np.nonzero(lost)
    lft[0, switch, lid[column]], state[0, switch, lid[column]] = NO_PATH, LidState.ABSENT
    return replace(made, lft=lft, state=state)


def _grouped(fabric: Fabric, tables: RoutingTables, order: ChannelOrder, legal: bool = True) -> AdaptiveTables:
    """Return tables with groups of the ports on shortest paths to hosts, legal ones or all: see `port_groups`."""
    ends, lid = tables.lids_of(fabric.ends())
    home = fabric.end_switch[ends]
    targets = np.unique(home[home >= 0]).astype(np.int32)
    found, offset, channel = number_sets(port_groups(order, frozen(targets), legal), order.indptr)
    members = np.zeros((len(offset) - 1, 1 + fabric.most_ports), bool)
    members[np.repeat(np.arange(len(members)), np.diff(offset)), order.number[channel]] = True
    lft = tables.lft[None].copy()
    state = np.where(lft == NO_PATH, np.uint8(LidState.ABSENT), np.uint8(LidState.STATIC))
    group = np.full(lft.shape, -1, np.int32)
    plugged = home >= 0
    group[0][:, lid[plugged]] = found[np.searchsorted(targets, home[plugged])].T
    at = np.nonzero(group >= 0)
    state[at] = LidState.FREE
    # A static port by which a path is longer is not of the group: with both, packets could go round about.
    inside = members[group[at], np.minimum(lft[at], members.shape[1] - 1)]
    lft[at] = np.where(inside, lft[at], members.argmax(axis=1)[group[at]])
    switch = order.sender[channel[offset[:-1]]]
    number = 1 + turns_in_groups(switch)
    return AdaptiveTables(tables.lid, lft, state, group, members, number.astype(np.int32), tables.lmc)


def study_adaptive(routed: Routed) -> AdaptiveStudy:
    """Prove groups of ports for adaptive routing between hosts, beside the tables that they start from.

    Tables that have credit loops, or need several lanes, have no order for legal ports, and are no lane to escape to.

    Raises
    ------
    RoutingError
        When fewer than two hosts have a LID.

    Examples
    --------
    >>> import topo, routing
    >>> study = routing.studies.adaptive.study_adaptive(routing.route(topo.preset("lab-20").fabric))
    >>> [(row.kind, row.lanes, f"{row.max_load:.2f}") for row in study.rows]
    [('tables', 1, '11.00'), ('legal', 1, '6.05'), ('shortest', 1, '6.05')]
    """
    fabric, proof = Routed.given(routed).fabric, prove(routed)
    escape = prove(routed, "all")
    ordered = not proof.credit_loops and len(proof.depends) < 2
    order = (legal_order(fabric, proof if escape.credit_loops else escape) if ordered else
             order_channels(fabric, switch_levels(fabric)))  # fmt: skip
    safe = ordered and not escape.credit_loops and not escape.lost
    # Loads are of one LID, the proof of the tables of all.
    lowest = routed.tables.only(0) if routed.tables.lmc else routed.tables
    load = prove(replace(routed, tables=lowest)).max_load if routed.tables.lmc else proof.max_load
    lanes = None if proof.lost or proof.credit_loops else proof.lanes
    rows = [Groups("tables", 1.0, proof.lost, proof.credit_loops, lanes, float(load))]
    for kind in ("legal", "shortest") if ordered else ("shortest",):
        found = prove_adaptive(fabric, _grouped(fabric, lowest, order, kind == "legal"))
        stuck, loops = found.count("lost"), found.count("loops")
        lanes = None if stuck else 1 if not loops else 2 if safe else None
        rows.append(Groups(kind, found.ports, stuck, loops, lanes, found.max_load))
    return AdaptiveStudy(tuple(rows))
