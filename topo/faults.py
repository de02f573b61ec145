"""A fabric that has lost cables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from topo.errors import HeddleError
from topo.fabric import Fabric


def unplug(fabric: Fabric, ports: NDArray[np.integer]) -> Fabric:
    """Return the fabric without the cables in some ports; levels, zones and roles stay."""
    peer = fabric.peer.copy()
    far = peer[ports]
    peer[far[far >= 0]] = -1
    peer[ports] = -1
    return replace(fabric, peer=peer)


def switch_links(fabric: Fabric) -> NDArray[np.int32]:
    """Return (L, 2) int32: the port ids of the links between different switches, lower first, in order."""
    owner = fabric.port_node[fabric.links]
    between = (owner < fabric.n_switches).all(axis=1) & (owner[:, 0] != owner[:, 1])
    return np.asarray(fabric.links[between], np.int32)


def fail_links(fabric: Fabric, count: int, rng: np.random.Generator) -> tuple[Fabric, NDArray[np.int32]]:
    """Return the fabric without some links between switches, drawn at random, and those: (count, 2) port ids.

    Raises
    ------
    HeddleError
        When it has not so many.
    """
    links = switch_links(fabric)
    if count > len(links):
        raise HeddleError(
            f"{count:,} links cannot fail; {fabric.name or 'the fabric'} has {len(links):,} between switches"
        )
    failed = links[np.sort(rng.choice(len(links), count, replace=False))]
    return unplug(fabric, failed[:, 0]), failed
