"""The engine `balanced`: any topology, complete, without credit loops on one lane, and evenly loaded.

1. Only legal paths of an order of channels are used (`routing.order.channel_order`), so nothing can deadlock whatever
   is chosen among them, and every pair that cables connect has a path. Zones that are joined have an order of their own
   (`routing.order.joined`). Elsewhere, where the fabric is no tree, several orders are grown
   (`routing.order.turn_order`), and the one with the best tables is kept.
2. The choice starts from the closed form of the engine `fat-tree`: where the fabric is a whole tree, nothing is better.
3. Destinations are taken up one by one, by role and in order of the tree, and put down where their flows meet the
   fewest others (`routing.engines.reroute`). Slow links count by their rate, so a slow subtree keeps its routes without
   slowing down anything else.
4. The load of the fullest channels is reduced (`routing.engines.relieve`), over detours if need be and worth it.
5. Flows that meet in shifts are parted where that makes no channel fuller (`routing.engines.shifts`).
6. Of all that was made, what falls least short of plain shortest paths is handed out (`routing.engines.search`).

Where the order bars shortest paths and more lanes are allowed, those of the engine `shortest` are taken instead if
their fullest link is less full by 2 %.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from routing.engines import dfsssp, shortest
from routing.engines.improve import ROUND_EFFORT, WORTH
from routing.engines.judge import judge
from routing.engines.search import best_tables, in_order_of_wiring
from routing.engines.start import keeps, start_of
from routing.order.destinations import empty_tables, finish_tables
from routing.order.legal import are_shortest_legal
from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, frozen

LESS = 0.98
"""How full the fullest link of tables without a tree may be beside that of those along one, to be taken for it."""


def route(
    fabric: Fabric,
    lid: NDArray[np.uint16] | None = None,
    *,
    rng: np.random.Generator | None = None,
    lanes: int = 1,
) -> RoutingTables:
    """Forwarding tables of any fabric.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    rng : numpy.random.Generator, optional
        For the order in which turns are tried where the fabric is no tree; of seed 0 when left out.
    lanes : int
        Data lanes that the tables may need.

    Returns
    -------
    RoutingTables
        Complete for every LID that cables connect, on one lane unless more are allowed and worth it.
    """
    lids, lft = empty_tables(fabric, lid)
    shape, rng = lft.shape[::-1], rng or np.random.default_rng(0)
    start = start_of(fabric, lids, shape)
    if not len(start.order.sender):
        return finish_tables(start.dests, lft, lids, "balanced")
    if not start.tree and not any(keeps(form.kept) for form in start.forms):
        # No closed form is kept, so the order of the fabric is worth nothing: one that labels do not alter will do.
        tables = in_order_of_wiring(fabric, lids, shape, rng)
    else:
        tables = best_tables(fabric, start, rng)
        leaves = frozen(np.flatnonzero(start.hosts).astype(np.int32))
        affordable = start.size <= ROUND_EFFORT  # what follows takes as long again
        if start.tree and affordable and not are_shortest_legal(start.order, leaves):
            # Some paths go down and up again, as where a leaf with hosts leads on to another zone: no tree uses them.
            enough = LESS * judge(fabric, tables).shared_load
            if judge(fabric, dfsssp.route(fabric, lids, lanes=1)).shared_load < enough:
                others = in_order_of_wiring(fabric, lids, shape, rng)
                tables = others if judge(fabric, others).shared_load < enough else tables
    return _on_lanes(fabric, tables, lanes) if lanes > 1 else tables


def _on_lanes(fabric: Fabric, tables: RoutingTables, lanes: int) -> RoutingTables:
    """Return tables on several lanes where these make detours and a fuller link than those; else these."""
    proof, inner = prove(Routed(fabric, tables)), fabric.inner
    if proof.stretch == 0:
        return tables
    try:
        others = shortest.route(fabric, tables.lid, lanes=lanes)
    except RoutingError:  # more lanes would be needed
        return tables
    if prove(Routed(fabric, others)).load[inner].max() > WORTH * proof.load[inner].max():
        return tables
    return replace(others, engine=tables.engine)
