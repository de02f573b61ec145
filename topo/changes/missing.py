"""Which cables of a fabric are gone in a later picture of it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from topo.errors import HeddleError, plural
from topo.fabric import Fabric, frozen


def find_missing(whole: Fabric, now: Fabric) -> tuple[NDArray[np.int32], NDArray[np.int32], tuple[str, ...]]:
    """Return the ports of a fabric whose cables it no longer has, those of them with another cable now, and notes.

    Nodes are matched by GUID, and ports by number. A cable that now leads elsewhere is gone.

    Parameters
    ----------
    whole, now : Fabric
        The fabric when all is well, and as it is now.

    Raises
    ------
    HeddleError
        When they have no node in common: then one of them is another fabric, or a plan whose GUIDs are made up.

    Examples
    --------
    >>> import topo
    >>> fabric = topo.preset("lab-20").fabric
    >>> gone, moved, notes = topo.find_missing(fabric, fabric.without(fabric.inner[:1]))
    >>> [fabric.port_label(port) for port in gone], notes
    (['leaf0:21', 'spine0:1'], ())
    """
    place = {guid: node for node, guid in enumerate(now.node_guid.tolist())}
    twin = np.array([place.get(guid, -1) for guid in whole.node_guid.tolist()])
    if not (twin >= 0).any():
        raise HeddleError(
            f"{now.name}: found no node GUID of {whole.name}; expected a later dump of the same fabric. A plan "
            "invents its GUIDs: use dumps of the real fabric for both"
        )
    there = twin[whole.port_node]
    known = (there >= 0) & (whole.port_number <= np.diff(now.port_offset)[there])
    port = np.where(known, now.port_offset[there] + whole.port_number - 1, -1)  # of the later picture
    back = np.full(now.n_ports, -1)
    back[port[known]] = np.flatnonzero(known)
    peer = np.where(known, now.peer[port], -1)
    same = (peer >= 0) & (back[peer] == whole.peer)
    cables = int(np.count_nonzero(now.peer >= 0) - np.count_nonzero(same & (whole.peer >= 0))) // 2
    nodes = int(np.count_nonzero(~np.isin(now.node_guid, whole.node_guid)))
    notes = []
    if cables or nodes:
        notes.append(
            f"{now.name} has {plural(cables, 'cable')} and {plural(nodes, 'node')} that {whole.name} has not: they get "
            "no paths; route the fabric anew to use them"
        )
    gone = np.flatnonzero((whole.peer >= 0) & ~same).astype(np.int32)
    return frozen(gone), frozen(gone[peer[gone] >= 0]), tuple(notes)
