"""The engine `dfsssp`, to compare with: shortest paths by weight, made free of credit loops by lanes.

Destination by destination, every switch takes the shortest path over which fewest paths go already (SSSP, Hoefler,
Schneider and Lumsdaine, HOTI 2009). Then paths are moved to further lanes until no lane has a credit loop (Domke,
Hoefler and Nagel, IPDPS 2011), so that clients must ask for the service level of each path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.shortest_paths import weigh_paths
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import break_loops
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import destinations_of, empty_tables, finish_tables
from routing.tables import RoutingTables
from topo.fabric import Fabric, frozen


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int = DATA_LANES) -> RoutingTables:
    """Forwarding tables over shortest paths of least weight, with the lanes that they need.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    lanes : int
        Lanes that there are; 1 leaves credit loops where they are.

    Raises
    ------
    RoutingError
        When more lanes are needed than there are.
    """
    level = switch_levels(fabric)
    order = order_channels(fabric, level, join_peaks=False)
    lids, lft = empty_tables(fabric, lid)
    dests = destinations_of(fabric, lids, level)
    turn = np.lexsort((np.arange(len(dests.lid)), dests.port == 0))
    senders = fabric.ends(kind=None)
    senders = senders[senders >= fabric.n_switches]
    sources = np.bincount(fabric.end_switch[senders], minlength=fabric.n_switches)
    switch, dest_lid, counts = (frozen(part[turn]) for part in (dests.switch, dests.lid, dests.port > 0))
    weigh_paths(order, frozen(sources), switch, dest_lid, counts, lft)
    tables = finish_tables(dests, lft, lids, "dfsssp")
    return break_loops(fabric, tables, lanes) if lanes > 1 else tables
