"""The engine `shortest`: any topology over shortest paths, evenly loaded, on as many lanes as they need.

Paths begin as those of the engine `dfsssp`. Then flows are moved between shortest paths until the fullest link gets no
less full (`routing.demand`), whatever loops that closes, and in the end paths are moved from lane to lane until no lane
has a credit loop (`routing.lanes.fit`). Where no tree is, shortest paths carry less than those that one order of
channels allows; what it costs is that every application must ask for the service level of each path.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.demand import even_out
from routing.engines import dfsssp
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import break_loops
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.fabric import Fabric


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None, *, lanes: int = DATA_LANES) -> RoutingTables:
    """Forwarding tables over evenly loaded shortest paths, with the lanes that they need.

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
        When more lanes are needed than there are, or the search is given up.
    """
    tables = even_out(Routed(fabric, dfsssp.route(fabric, lid, lanes=1)), "shortest")
    return break_loops(fabric, tables, lanes) if lanes > 1 else tables
