"""What the switches of a fabric hold for adaptive routing: groups of ports, and which group a destination may use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from routing.hashed import PortGroups, number_sets
from routing.studies.adaptive.groups import by_switch, leads_to
from routing.tables import NO_PATH, RoutingTables
from topo.errors import plural
from topo.fabric import Fabric, Frozen, frozen
from topo.table import Brief


class LidState(IntEnum):
    """How a switch picks the port for a destination, by the codes that ibdiagnet's sources give."""

    BOUNDED = 0
    """Any port of the group, the same for all packets of a burst."""
    FREE = 1
    """Any port of the group, anew for each packet."""
    STATIC = 2
    """The static port; where the switch recovers from failures by itself, any port of the group in its place."""
    HBF = 3
    """A port of the group by a hash of fields of the packet."""
    ABSENT = 255
    """The table has no entry."""


@dataclass(frozen=True, eq=False)
class AdaptiveTables(Frozen, Brief):
    """Tables of a fabric with S switches and E end ports: N private tables for each switch, and G groups in all.

    Which private table a packet meets depends on the port that it came by and on its service level. That stands
    elsewhere (ibdiagnet's ``.plft``, whose layout is not published), so that nothing here says so.
    """

    lid: NDArray[np.uint16]
    """(E,) lowest LID of each end port; 0 for an end port that is not plugged in."""
    lft: NDArray[np.uint8]
    """(N, S, top LID + 1) static port for each LID; 0 is the switch itself, 255 no path."""
    state: NDArray[np.uint8]
    """(N, S, top LID + 1) `LidState`."""
    group: NDArray[np.int32]
    """(N, S, top LID + 1) row of a group in ``members``; -1 none."""
    members: NDArray[np.bool_]
    """(G, most ports of a switch + 1) ports of each group by number, all sub-groups together."""
    number: NDArray[np.int32]
    """(G,) the number by which its switch knows each group."""
    lmc: int = 0
    """As in `routing.RoutingTables`."""

    @property
    def n_tables(self) -> int:
        """Private tables that the switch with most of them has."""
        return len(self.lft)

    def _brief(self) -> str:
        return f"{plural(len(self.members), 'group')} of ports, {plural(self.n_tables, 'table')} for each switch"

    def static(self) -> RoutingTables:
        """Return the static ports of the first private table, as packets that are not spread take them."""
        return RoutingTables(lid=self.lid, lft=self.lft[0], engine="file", lmc=self.lmc)

    def allowed(self, fabric: Fabric, table: int, lid: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return (n, P) which channels switches may take towards LIDs: the static port, or any port of the group.

        That holds for all states: of a static one, too, a switch that recovers from failures by itself takes another
        port of the group. Ports without a cable are left out: `stuck` says where that leaves a packet without any.
        """
        allowed = np.zeros((len(lid), fabric.n_ports), bool)
        known = np.flatnonzero(lid < self.lft.shape[2])
        for switch in range(fabric.n_switches):
            first, last = fabric.port_offset[switch : switch + 2].tolist()
            entry, group = self.lft[table, switch, lid[known]], self.group[table, switch, lid[known]]
            may = self.members[group][:, 1 : last - first + 1] & (group >= 0)[:, None] if len(self.members) else (
                np.zeros((len(known), last - first), bool))  # fmt: skip
            static = np.flatnonzero((entry > 0) & (entry <= last - first))
            may[static, entry[static].astype(np.int64) - 1] = True
            allowed[known, first:last] = may
        return allowed & (fabric.peer >= 0)

    def stuck(
        self, fabric: Fabric, table: int, lid: NDArray[np.integer], allowed: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Return (n, S) where packets to LIDs may find no port: none is allowed, or it is a static one without a cable.

        Of a group, ports without a cable are passed over. The static port of a static entry is not, where a switch does
        not recover from failures by itself.
        """
        begin = fabric.port_offset[: fabric.n_switches + 1]
        stuck: NDArray[np.bool_] = by_switch(allowed, begin) == 0
        known = np.flatnonzero(lid < self.lft.shape[2])
        entry = self.lft[table][:, lid[known]].T.astype(np.int64)
        real = (entry > 0) & (entry <= np.diff(begin))
        dark = ~real | (fabric.peer[np.where(real, begin[:-1] + entry - 1, 0)] < 0)
        stuck[known] |= dark & (self.state[table][:, lid[known]].T == LidState.STATIC)
        return stuck

    def groups(self, fabric: Fabric) -> PortGroups:
        """Return the ports that packets to each adapter port may take, by the first private table.

        Switches have them as they are, whatever became of the cables since: on a fabric with failures, groups have lost
        the ports whose cables are down, and no table is loaded anew. Ports to a neighbour from which no choice leads to
        the destination are left out, as by switches whose neighbours notify them (NVIDIA's SHIELD); `at_risk` says what
        is lost where they do not. ``fabric`` is that of the tables, or what is left of it.
        """
        allowed, home, row = self._rows(fabric)
        inner = np.clip(fabric.peer_node[: allowed.shape[1]], 0, fabric.n_switches - 1)
        allowed &= leads_to(fabric, allowed, home[:, None] == np.arange(fabric.n_switches))[:, inner]
        group, offset, port = number_sets(allowed, fabric.port_offset[: fabric.n_switches + 1])
        return PortGroups(row, frozen(group), frozen(offset), frozen(port.astype(np.int32)))

    def at_risk(self, fabric: Fabric, source: NDArray[np.integer], dest: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return (n,) whether some choice of ports on what is left of the fabric loses packets between (n,) end ports.

        No switch notifies another.
        """
        allowed, home, row = self._rows(fabric)
        group, _, _ = number_sets(allowed, fabric.port_offset[: fabric.n_switches + 1])
        dead = leads_to(fabric, allowed, (group < 0) & (home[:, None] != np.arange(fabric.n_switches)))
        near = fabric.end_switch[source]
        risk: NDArray[np.bool_] = (row[dest] < 0) | (near < 0) | dead[row[dest], near]
        return risk

    def _rows(self, fabric: Fabric) -> tuple[NDArray[np.bool_], NDArray[np.int32], NDArray[np.int32]]:
        """Return (T, P) channels between switches that packets may take, (T,) where they go, and (E,) the row of each.

        Adapter ports on one switch to which all others may take the same ports have one row; -1: without LID or cable.
        """
        ends = np.arange(fabric.n_switches, fabric.n_end_ports)
        ends = ends[(fabric.end_switch[ends] >= 0) & (self.lid[ends] > 0) & (self.lid[ends] < self.lft.shape[2])]
        home, lid = fabric.end_switch[ends], self.lid[ends].astype(np.int64)
        entry, group = self.lft[0][:, lid].astype(np.int64), self.group[0][:, lid]
        if len(self.members):  # a static port of the group adds none
            entry[(group >= 0) & self.members[group, np.minimum(entry, self.members.shape[1] - 1)]] = NO_PATH
        elsewhere = np.arange(fabric.n_switches)[:, None] != home
        key = np.concatenate([home[None], np.where(elsewhere, group * 256 + entry, 0)])
        _, first, which = np.unique(key.T, axis=0, return_index=True, return_inverse=True)
        row = np.full(fabric.n_end_ports, -1, np.int32)
        row[ends] = which.ravel()
        allowed = (self.allowed(fabric, 0, lid[first]) & fabric.is_inner)[:, : fabric.first_adapter_port]
        allowed &= fabric.port_node[: fabric.first_adapter_port] != home[first][:, None]
        return allowed, home[first], frozen(row)
