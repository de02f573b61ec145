"""The engine `shortest`: any topology over shortest paths, evenly loaded, on as many lanes as they need.

Tables of plain shortest paths (`routing.engines.dfsssp`) are searched from as by the engine `balanced`, but every turn
is legal, and every path stays a shortest one, whatever loops that closes. In the end paths are moved from lane to lane
until no lane has a credit loop (`routing.lanes.fit`). Where no tree is, shortest paths carry less than those that one
order of channels allows; what it costs is that every application must ask for the service level of each path.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from routing.engines import dfsssp
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import break_loops
from routing.order.channel_order import port_numbers, taken_channels
from routing.order.destinations import finish_tables
from routing.search.move import ANY
from routing.search.problem import all_pairs_alone
from routing.search.search import TableSearch, search_of
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
    plain = replace(dfsssp.route(fabric, lid, lanes=1), engine="shortest")
    if not len(fabric.inner):
        return plain
    search, dests = search_of(fabric, plain.lid)
    order = search.order
    pairs = TableSearch(all_pairs_alone(search.problem), order)
    found = search.improve(order, taken_channels(order, plain.lft), turns=ANY)
    lower = pairs.improve(order, found.next_hop, turns=ANY, high=1.0)
    for end in (lower, found):  # the other may do with fewer lanes, and so may plain ones
        tables = finish_tables(dests, port_numbers(order, end.next_hop), plain.lid, "shortest")
        if lanes == 1:
            return tables
        with suppress(RoutingError):
            return break_loops(fabric, tables, lanes)
    return break_loops(fabric, plain, lanes)
