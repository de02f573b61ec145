"""The engines `minhop` and `updn`, to compare with: what OpenSM does by default, and what it does up and down a tree.

At every switch each destination gets, among the ports on shortest paths, the one that has the fewest destinations so
far. Nothing prevents credit loops; in a tree without hosts above its leaves there are none. `updn` takes the shortest
of the paths that go up and then down. It has no credit loops, but switches that have nothing above both, such as the
spines of a two-level tree, have no path to each other, and neither have the zones that joint switches connect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.shortest_paths import count_ports
from routing.order.channel_order import order_channels, switch_levels
from routing.order.destinations import destinations_of, empty_tables, finish_tables
from routing.tables import RoutingTables
from topo.fabric import Fabric, frozen


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, up_down: bool = False) -> RoutingTables:
    """Return forwarding tables over shortest paths, filled in order of LIDs.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    up_down : bool
        Whether paths must go up and then down; there is no entry where none does.
    """
    level = switch_levels(fabric)
    order = order_channels(fabric, level, join_peaks=False)
    lids, lft = empty_tables(fabric, lid)
    dests = destinations_of(fabric, lids, level)
    hosts = np.bincount(dests.switch[dests.port > 0], minlength=fabric.n_switches)
    turn = np.lexsort((dests.port, dests.switch, -hosts[dests.switch], dests.port == 0))
    switch, dest_lid, counts = (frozen(part[turn]) for part in (dests.switch, dests.lid, dests.port > 0))
    count_ports(order, up_down, switch, dest_lid, counts, lft)
    return finish_tables(dests, lft, lids, "updn" if up_down else "minhop")
