"""The engine `updn`, to compare with: shortest paths that go up and then down, as OpenSM chooses them.

There are no credit loops, but switches that have nothing above both, such as the spines of a two-level tree, have no
path to each other, and neither have the zones that joint switches connect.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from routing.engines.minhop import fill
from routing.tables import RoutingTables
from topo.fabric import Fabric


def route(fabric: Fabric, lid: NDArray[np.uint16] | None = None) -> RoutingTables:
    """Forwarding tables over up*/down* paths, without an entry where there is none.

    Parameters
    ----------
    fabric : Fabric
    lid : (E,) uint16, optional
        LIDs of the end ports; `assign_lids` when left out.
    """
    return fill(fabric, lid, "updn", legal=True)
