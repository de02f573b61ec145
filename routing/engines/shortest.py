"""The engine `shortest`: any topology over shortest paths, evenly loaded, on as many lanes as they need.

Tables are searched for as by the engine `balanced` (`routing.engines.search`), but every turn is legal, and every path
is a shortest one, whatever loops that closes. In the end paths are moved from lane to lane until no lane has a credit
loop (`routing.lanes.fit`). Where no tree is, shortest paths carry less than those that one order of channels allows;
what it costs is that every application must ask for the service level of each path.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from routing.demand import even_out
from routing.engines import dfsssp
from routing.engines.search import TRIAL_SIZE, in_order_of_wiring
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import break_loops
from routing.order.destinations import empty_tables
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.errors import RoutingError
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
    made = _tables(fabric, lid)
    if lanes == 1:
        return next(made)
    for tables in made:
        try:
            return break_loops(fabric, tables, lanes)
        except RoutingError as error:  # the next ones may do with fewer lanes
            refusal = error
    raise refusal


def _tables(fabric: Fabric, lid: NDArray[np.uint16] | None) -> Iterator[RoutingTables]:
    """Yield tables with whatever loops they have, the best first."""
    lids, lft = empty_tables(fabric, lid)
    if 0 < len(lids) * len(fabric.inner) <= TRIAL_SIZE:  # as long as other orders are tried
        tables = in_order_of_wiring(fabric, lids, lft.shape[::-1], np.random.default_rng(0), any_turn=True)
        yield replace(tables, engine="shortest")
    yield even_out(Routed(fabric, dfsssp.route(fabric, lids, lanes=1)), "shortest")
