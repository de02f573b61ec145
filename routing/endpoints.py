"""Which end ports a judgement is about: those of hosts, of all adapters, or of switches too."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from routing.tables import RoutingTables
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, frozen

EndpointSet = Literal["hca", "adapters", "all"]
"""``hca``: channel adapters of hosts; ``adapters``: SHARP aggregation nodes and routers too; ``all``: and port 0 of
every switch."""


def select_endpoints(fabric: Fabric, tables: RoutingTables, endpoints: EndpointSet = "hca") -> NDArray[np.int32]:
    """Return (n,) int32: the end ports of a set that have a LID, in fabric order.

    Raises
    ------
    RoutingError
        When there is no such set.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> len(routing.select_endpoints(fabric, routing.route(fabric).tables, "all"))
    26
    """
    kind = fabric.kind[fabric.end_node]
    if endpoints == "hca":
        chosen = kind == Kind.HCA
    elif endpoints == "adapters":
        chosen = kind != Kind.SWITCH
    elif endpoints == "all":
        chosen = np.ones(len(kind), bool)
    else:
        raise RoutingError(f"found endpoints {endpoints!r}; expected one of {', '.join(get_args(EndpointSet))}")
    return frozen(np.flatnonzero(chosen & (tables.lid != 0)).astype(np.int32))


def tree_order(fabric: Fabric, ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the end ports ordered by the switch they hang on, and there by its port: neighbours stand together.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.tree_order(fabric, fabric.ends())[:4]
    array([4, 5, 6, 7], dtype=int32)
    """
    return frozen(ends[np.lexsort((delivery_channels(fabric, ends), fabric.end_switch[ends]))])


def delivery_channels(fabric: Fabric, ends: NDArray[np.integer]) -> NDArray[np.int32]:
    """Return (n,) int32: the channel that hands packets to each end port; -1 for port 0 of a switch."""
    port = fabric.port_of(ends)
    return np.where(port < 0, -1, fabric.peer[port])
