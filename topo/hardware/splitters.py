"""Ports that are split in two: which halves share a cage, and so a cable with one end there and two elsewhere."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, frozen
from topo.hardware.catalog import Catalog


def split_cages(fabric: Fabric, catalog: Catalog) -> NDArray[np.int32]:
    """Number the cages that hold two halves of a port.

    A switch with more ports than its chip has whole ones has the first of them split: ports 1 and 2 are the halves of
    its first cage, and so on.

    Returns
    -------
    (P,) int32
        Cage of each port, the same for both halves; -1 for whole ports.
    """
    cage = np.full(fabric.n_ports, -1, np.int32)
    cages = 0
    for node in range(fabric.n_switches):
        model = catalog.switches.get(fabric.models[fabric.model[node]]) if fabric.model[node] >= 0 else None
        if model is None or not model.split_radix:
            continue
        first, end = int(fabric.port_offset[node]), int(fabric.port_offset[node + 1])
        halves = 2 * max(end - first - (model.chip_radix or model.radix), 0)
        cage[first : first + halves] = cages + np.arange(halves) // 2
        cages += halves // 2
    return frozen(cage)
