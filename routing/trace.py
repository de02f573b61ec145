"""One path through the forwarding tables, switch by switch, and the reason where it ends early."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from routing import pairs
from routing.lanes.policy import levels_of_pairs
from routing.names import end_label, find_end
from routing.routed import Routed
from routing.tables import MAX_DATA_VLS, NO_PATH, delivery_channels
from topo.errors import HeddleError, plural
from topo.fabric import Fabric
from topo.table import Column, Shown, Table


class Fault(IntEnum):
    """Why a path does not arrive."""

    NO_ENTRY = pairs.NO_ENTRY  # the switch has no entry for the LID
    NO_SUCH_PORT = pairs.NO_SUCH_PORT  # the entry names a port beyond the last of the switch
    UNPLUGGED = pairs.UNPLUGGED  # the entry names a port that holds no cable, or a dead one
    LOOP = pairs.LOOP  # the path comes back to a switch that it has passed
    WRONG_END = pairs.WRONG_END  # the packet is handed to another end port
    NO_LANE = pairs.NO_LANE  # the service level of the path has no data lane
    DETACHED = pairs.DETACHED  # one of the two end ports hangs on no switch


@dataclass(frozen=True)
class Trace(Shown):
    """The path of one pair."""

    fabric: Fabric
    source: int
    """End port."""
    destination: int
    """End port."""
    lid: int
    """LID of the destination."""
    level: int
    """Service level of the path."""
    lane: int | None
    """Virtual lane of that level; None where it has no data lane."""
    channels: tuple[int, ...]
    """Channels in order, by sending port; that of the source's adapter first."""
    switches: tuple[int, ...]
    """Switches in order; where the path loops, the last is the one that it comes back to."""
    fault: Fault | None
    """None when the packet arrives."""
    port: int
    """Number of the output port at the last switch; -1 where that has no entry."""

    @property
    def loop(self) -> tuple[int, ...]:
        """Switches of the forwarding loop, each once; empty where there is none."""
        if self.fault is not Fault.LOOP:
            return ()
        return self.switches[self.switches.index(self.switches[-1]) : -1]

    def _brief(self) -> str:
        return self.describe()

    @property
    def table(self) -> Table:
        """Every node of the path, with the ports over which the packet enters and leaves it, and its lane."""
        fabric, channels = self.fabric, self.channels
        nodes = [int(fabric.port_node[channel]) for channel in channels]
        leaves: list[int | None] = [int(fabric.port_number[channel]) for channel in channels]
        enters: list[int | None] = [int(fabric.port_number[fabric.peer[channel]]) for channel in channels]
        if channels:
            nodes.append(int(fabric.peer_node[channels[-1]]))
        elif self.switches:
            nodes.append(self.switches[0])
        # Where no cable leads on, the entry of the last switch is all that there is to see.
        leaves.append(self.port if nodes and nodes[-1] < fabric.n_switches and self.port >= 0 else None)
        lanes = [None if port is None else self.lane for port in leaves]
        level = f"service level {self.level}, {'no lane' if self.lane is None else f'lane {self.lane}'}"
        return Table(
            f"{self.describe()} (LID {self.lid}, {level})",
            (
                Column("node", [fabric.label(node) for node in nodes]),
                Column("input port", [None, *enters][: len(nodes)]),
                Column("output port", leaves[: len(nodes)]),
                Column("lane", lanes[: len(nodes)]),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the path as plain values, ready for JSON.

        ``switch`` is where it ends, and ``port`` what the entry says there; both are None where there is none.
        """
        fabric = self.fabric
        return {
            "source": end_label(fabric, self.source),
            "destination": end_label(fabric, self.destination),
            "lid": self.lid,
            "service_level": self.level,
            "lane": self.lane,
            "fault": self.fault.name.lower() if self.fault is not None else None,
            "switch": fabric.label(self.switches[-1]) if self.switches else None,
            "port": self.port if self.port >= 0 else None,
            "path": [fabric.label(switch) for switch in self.switches],
            "channels": [fabric.channel_label(channel) for channel in self.channels],
            "text": self.describe(),
        }

    def describe(self) -> str:
        """Return one line for messages: the pair, the switch and the reason."""
        fabric = self.fabric
        ends = f"{end_label(fabric, self.source)} to {end_label(fabric, self.destination)}"
        if self.fault is None:
            return f"{ends}: arrives over {plural(len(self.switches), 'switch', 'switches')}"
        if self.fault is Fault.DETACHED:
            loose = self.source if fabric.end_switch[self.source] < 0 else self.destination
            return f"{ends}: {end_label(fabric, loose)} hangs on no switch"
        if self.fault is Fault.LOOP:
            names = [fabric.label(switch) for switch in self.loop]
            return f"{ends}: forwarding loop {' -> '.join([*names, names[0]])}"
        switch = fabric.label(self.switches[-1])
        if self.fault is Fault.WRONG_END:
            wrong = switch if self.port == 0 else fabric.port_label(int(fabric.peer[self.channels[-1]]))
            return f"{ends}: port {self.port} of {switch} hands it to {wrong}"
        last = int(np.diff(fabric.port_offset)[self.switches[-1]])
        why = {
            Fault.NO_LANE: f"the service level of the path from {switch} has no data lane",
            Fault.NO_ENTRY: f"{switch} has no entry",
            Fault.NO_SUCH_PORT: f"{switch} has ports 1 to {last}, and its entry says {self.port}",
            Fault.UNPLUGGED: f"the entry of {switch} says port {self.port}, where nothing is plugged in",
        }
        return f"{ends}: {why[self.fault]}"


def trace(routed: Routed, source: int | str, destination: int | str, lid: int = 0) -> Trace:
    """Follow one packet from an end port to another, as the tables say.

    Tables may hold anything: the walk stops at the first fault. Where they give paths no service level of their own,
    the level is that of the policy.

    Parameters
    ----------
    routed : Routed
    source, destination : int or str
        End ports, by index or by name as `routing.find_end` takes it.
    lid : int, optional
        One of the LIDs of the destination; the lowest when left out.

    Raises
    ------
    HeddleError
        When there is no such end port, or the destination has no such LID.

    Examples
    --------
    >>> import topo, routing
    >>> path = routing.trace(routing.route(topo.preset("lab-20").fabric), "gpu00", "head1")
    >>> path.describe()
    'gpu00 mlx5_0:1 to head1 mlx5_0:1: arrives over 3 switches'
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    source, destination = find_end(routed, source), find_end(routed, destination)
    known = tables.lids_of(np.array([destination]))[1] if tables.lid[destination] else np.zeros(1, np.int32)
    if lid and lid not in known:
        lids = f"{known[0]} to {known[-1]}" if len(known) > 1 else str(known[0] or "none")
        raise HeddleError(f"found LID {lid} for {end_label(fabric, destination)}, whose LIDs are: {lids}")
    channels: list[int] = []
    switches: list[int] = []
    lid = lid or int(known[0])

    def end(fault: Fault | None, port: int = -1) -> Trace:
        level, lane = _service(routed, source, destination, lid)
        return Trace(fabric, source, destination, lid, level, lane, tuple(channels), tuple(switches), fault, port)

    node, dest_switch = (int(fabric.end_switch[one]) for one in (source, destination))
    if node < 0 or dest_switch < 0:
        return end(Fault.DETACHED)
    last = int(delivery_channels(fabric, np.array([destination]))[0])
    if source >= fabric.n_switches:
        channels.append(fabric.first_adapter_port + source - fabric.n_switches)
    while node < fabric.n_switches:
        switches.append(node)
        if node in switches[:-1]:
            return end(Fault.LOOP)
        number = int(tables.lft[node, lid]) if lid < tables.lft.shape[1] else NO_PATH
        if number == NO_PATH:
            return end(Fault.NO_ENTRY)
        if number == 0:
            break
        if number > fabric.port_offset[node + 1] - fabric.port_offset[node]:
            return end(Fault.NO_SUCH_PORT, number)
        channels.append(fabric.port_id(node, number))
        node = int(fabric.peer_node[channels[-1]])
        if node < 0:
            channels.pop()
            return end(Fault.UNPLUGGED, number)
    arrives = channels[-1] == last if number else node == dest_switch and last < 0
    if not arrives:
        return end(Fault.WRONG_END, number)
    level = 0 if tables.path_sl is None else int(tables.path_sl[switches[0], lid])
    if level >= len(tables.sl2vl) or tables.sl2vl[level] >= MAX_DATA_VLS:
        switches[1:] = []
        return end(Fault.NO_LANE, number)
    return end(None, number)


def _service(routed: Routed, source: int, destination: int, lid: int) -> tuple[int, int | None]:
    """Return the service level of a path, and its virtual lane; None where that is no data lane."""
    tables, switch = routed.tables, int(routed.fabric.end_switch[source])
    level, sl2vl = 0, tables.sl2vl
    if tables.path_sl is not None:
        level = int(tables.path_sl[switch, lid]) if switch >= 0 and lid < tables.path_sl.shape[1] else 0
    elif routed.policy.rules:
        ends = (np.array([end], np.int32) for end in (source, destination))
        level, sl2vl = int(levels_of_pairs(routed.fabric, routed.policy, *ends)[0]), routed.lanes.sl2vl
    lane = sl2vl[level] if level < len(sl2vl) else MAX_DATA_VLS
    return level, lane if lane < MAX_DATA_VLS else None
