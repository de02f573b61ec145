"""The engine `minhop`, to compare with: what OpenSM does by default.

At every switch each destination gets, among the ports on shortest paths, the one that has the fewest destinations so
far. Nothing prevents credit loops; in a tree that nothing hangs above the leaves of, there are none.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.kernels.shortest import count_ports
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import destinations_of, empty_tables, finish_tables
from routing.tables import RoutingTables
from topo.fabric import Fabric, frozen


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None) -> RoutingTables:
    """Forwarding tables over shortest paths; they may hold credit loops.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    """
    return fill(fabric, lid, "minhop", legal=False)


def fill(fabric: Fabric, lid: NDArray[np.uint16] | None, engine: str, *, legal: bool) -> RoutingTables:
    """Fill tables in order of LIDs, over shortest paths or over the shortest of those that go up and then down."""
    level = switch_levels(fabric)
    order = order_channels(fabric, level, join_peaks=False)
    lids, lft = empty_tables(fabric, lid)
    goals = destinations_of(fabric, lids, level)
    turn = np.argsort(goals.lid)
    count_ports(
        order.first,
        order.sender,
        order.receiver,
        order.reverse,
        order.rank,
        order.falling,
        order.run,
        order.number,
        legal,
        frozen(goals.switch[turn]),
        frozen(goals.lid[turn]),
        frozen(goals.port[turn] > 0),
        lft,
    )
    return finish_tables(goals, lft, lids, engine)
