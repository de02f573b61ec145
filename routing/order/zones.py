"""A fabric seen as zones: two-level trees, their borders, and the joints between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.errors import RoutingError
from topo.fabric import Fabric, Role


@dataclass(frozen=True)
class Links:
    """Links between two sets of switches, A rows and B columns, at most M in parallel."""

    count: NDArray[np.int64]
    """(A, B) links between each two switches."""
    port: NDArray[np.int64]
    """(A, B, M) port numbers on the row's switch, 0 where there is no such link."""

    def pick(self, row: NDArray[np.int64], column: NDArray[np.int64], turn: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the ports of links between switches, the ``turn``-th modulo those in parallel; 0 where none is."""
        count = np.maximum(self.count[row, column], 1)
        return np.asarray(self.port[row, column, turn % count])


@dataclass(frozen=True)
class Exit:
    """A link between a border leaf and a joint."""

    leaf: int
    """Index of the leaf in its zone."""
    leaf_port: int
    joint: int
    """Index of the joint."""
    joint_port: int


@dataclass(frozen=True)
class Zone:
    """One two-level tree of a fabric with L leaves, K spines and H host ports."""

    leaves: NDArray[np.int64]
    """(L,) switch ids."""
    spines: NDArray[np.int64]
    """(K,) switch ids."""
    up: Links
    """Leaves to spines."""
    down: Links
    """Spines to leaves."""
    hosts: NDArray[np.int64]
    """(H,) end ports on the leaves, in the order of the fabric."""
    host_leaf: NDArray[np.int64]
    """(H,) index of the leaf that each hangs on."""
    host_port: NDArray[np.int64]
    """(H,) port of the leaf that each hangs on."""
    host_role: NDArray[np.int64]
    """(H,) role of each."""
    exits: tuple[Exit, ...]
    """Links to joints."""

    @property
    def linked(self) -> NDArray[np.bool_]:
        """(L, K) whether a leaf and a spine are linked."""
        return self.up.count > 0

    @property
    def border(self) -> NDArray[np.bool_]:
        """(L,) whether a leaf has links to joints."""
        border = np.zeros(len(self.leaves), bool)
        border[[exit_.leaf for exit_ in self.exits]] = True
        return border

    @property
    def hosts_on_leaf(self) -> NDArray[np.int64]:
        """(L,) host ports of each leaf."""
        return np.bincount(self.host_leaf, minlength=len(self.leaves))


def zones_of(fabric: Fabric) -> tuple[list[Zone], NDArray[np.int64]]:
    """Split a fabric by its labels into zones, and the switch ids of the joints.

    Raises
    ------
    RoutingError
        When a link or a switch fits in no zone of two levels.
    """
    n = fabric.n_switches
    role, zone = fabric.role[:n], fabric.zone[:n]
    joints = np.flatnonzero(role == Role.JOINT).astype(np.int64)
    odd = np.flatnonzero(~np.isin(role, (Role.LEAF, Role.SPINE, Role.JOINT)))
    if len(odd):
        raise RoutingError(
            f"{fabric.label(int(odd[0]))} is neither leaf, spine nor joint: the engine `zoned` takes zones of two "
            "levels; take `balanced`"
        )
    index = np.full(n, -1, np.int64)
    index[joints] = np.arange(len(joints))
    members: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for number in np.unique(zone[role != Role.JOINT]).tolist():
        leaves, spines = (np.flatnonzero((zone == number) & (role == kind)) for kind in (Role.LEAF, Role.SPINE))
        index[leaves], index[spines] = np.arange(len(leaves)), np.arange(len(spines))
        members.append((leaves, spines))
    links = _switch_links(fabric)
    _refuse_stray_links(fabric, links)
    return [_zone(fabric, leaves, spines, index, links) for leaves, spines in members], joints


def _switch_links(fabric: Fabric) -> NDArray[np.int64]:
    """Return (C, 4) channels between switches: from switch, from port, to switch, to port; in port order."""
    owner, number = fabric.port_node, fabric.port_number
    ports, peer = fabric.inner, fabric.peer[fabric.inner]
    return np.stack([owner[ports], number[ports], owner[peer], number[peer]], axis=1).astype(np.int64)


def _refuse_stray_links(fabric: Fabric, links: NDArray[np.int64]) -> None:
    role, zone = fabric.role, fabric.zone
    a, b = links[:, 0], links[:, 2]
    within = (zone[a] == zone[b]) & (role[a] != role[b]) & (role[a] != Role.JOINT) & (role[b] != Role.JOINT)
    joining = ((role[a] == Role.JOINT) & (role[b] == Role.LEAF)) | ((role[b] == Role.JOINT) & (role[a] == Role.LEAF))
    stray = np.flatnonzero(~(within | joining))
    if len(stray):
        x, port, y, _ = links[stray[0]].tolist()
        raise RoutingError(
            f"the link of {fabric.label(x)}:{port} to {fabric.label(y)} is neither leaf to spine within a zone nor "
            "leaf to joint: the engine `zoned` cannot route it; take `balanced`"
        )


def _zone(
    fabric: Fabric,
    leaves: NDArray[np.int64],
    spines: NDArray[np.int64],
    index: NDArray[np.int64],
    links: NDArray[np.int64],
) -> Zone:
    n = fabric.n_switches
    at_leaf = links[np.isin(links[:, 0], leaves)]
    to_spine = at_leaf[fabric.role[at_leaf[:, 2]] == Role.SPINE]
    to_joint = at_leaf[fabric.role[at_leaf[:, 2]] == Role.JOINT]
    hosts = np.flatnonzero(np.isin(fabric.end_switch, leaves))
    hosts = hosts[hosts >= n]
    attached = fabric.peer[fabric.port_of(hosts)]
    return Zone(
        leaves=leaves,
        spines=spines,
        up=_links_between(index[to_spine[:, 0]], to_spine[:, 1], index[to_spine[:, 2]], (len(leaves), len(spines))),
        down=_links_between(index[to_spine[:, 2]], to_spine[:, 3], index[to_spine[:, 0]], (len(spines), len(leaves))),
        hosts=hosts,
        host_leaf=index[fabric.end_switch[hosts]],
        host_port=fabric.port_number[attached].astype(np.int64),
        host_role=fabric.role[fabric.end_node[hosts]].astype(np.int64),
        exits=tuple(Exit(int(index[a]), a_port, int(index[b]), b_port) for a, a_port, b, b_port in to_joint.tolist()),
    )


def _links_between(
    row: NDArray[np.int64], port: NDArray[np.int64], column: NDArray[np.int64], shape: tuple[int, int]
) -> Links:
    """Collect the links of rows to columns, in order of port."""
    count = np.zeros(shape, np.int64)
    np.add.at(count, (row, column), 1)
    ports = np.zeros((*shape, max(int(count.max(initial=0)), 1)), np.int64)
    seen = np.zeros(shape, np.int64)
    for r, p, c in zip(row.tolist(), port.tolist(), column.tolist(), strict=True):
        ports[r, c, seen[r, c]] = p
        seen[r, c] += 1
    return Links(count, ports)
