"""One path through the forwarding tables, switch by switch, and the reason where it ends early."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from routing.kernels import pairs
from routing.routed import Routed
from routing.tables import MAX_DATA_VLS, NO_PATH, RoutingTables
from topo.fabric import Fabric


class Fault(IntEnum):
    """Why a path does not arrive."""

    NO_ENTRY = pairs.NO_ENTRY
    """The switch has no entry for the LID."""
    NO_SUCH_PORT = pairs.NO_SUCH_PORT
    """The entry names a port beyond the last of the switch."""
    UNPLUGGED = pairs.UNPLUGGED
    """The entry names a port that holds no cable, or a dead one."""
    LOOP = pairs.LOOP
    """The path comes back to a switch that it has passed."""
    WRONG_END = pairs.WRONG_END
    """The packet is handed to another end port."""
    NO_LANE = pairs.NO_LANE
    """The service level of the path has no data lane."""
    DETACHED = pairs.DETACHED
    """One of the two end ports hangs on no switch."""


@dataclass(frozen=True)
class Trace:
    """The path of one pair."""

    source: int
    """End port."""
    destination: int
    """End port."""
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

    def describe(self, fabric: Fabric) -> str:
        """Return one line for messages: the pair, the switch and the reason."""
        ends = f"{end_label(fabric, self.source)} to {end_label(fabric, self.destination)}"
        if self.fault is None:
            return f"{ends}: arrives over {len(self.switches)} switches"
        if self.fault is Fault.DETACHED:
            loose = self.source if fabric.end_switch[self.source] < 0 else self.destination
            return f"{ends}: {end_label(fabric, loose)} hangs on no switch"
        if self.fault is Fault.LOOP:
            names = [fabric.label(switch) for switch in self.loop]
            return f"{ends}: forwarding loop {' -> '.join([*names, names[0]])}"
        switch = fabric.label(self.switches[-1])
        if self.fault is Fault.NO_LANE:
            return f"{ends}: the service level of the path from {switch} has no data lane"
        if self.fault is Fault.NO_ENTRY:
            return f"{ends}: {switch} has no entry"
        if self.fault is Fault.NO_SUCH_PORT:
            last = int(fabric.port_offset[self.switches[-1] + 1] - fabric.port_offset[self.switches[-1]])
            return f"{ends}: {switch} has ports 1 to {last}, and its entry says {self.port}"
        if self.fault is Fault.UNPLUGGED:
            return f"{ends}: the entry of {switch} says port {self.port}, where nothing is plugged in"
        wrong = switch if self.port == 0 else fabric.port_label(int(fabric.peer[self.channels[-1]]))
        return f"{ends}: port {self.port} of {switch} hands it to {wrong}"


def end_label(fabric: Fabric, end: int) -> str:
    """Name of an end port for messages: ``gpu0001 mlx5_0:1``, or ``leaf01:0`` for a switch's own.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> routing.end_label(fabric, 0), routing.end_label(fabric, int(fabric.ends()[0]))
    ('leaf0:0', 'gpu00 mlx5_0:1')
    """
    if end < fabric.n_switches:
        return f"{fabric.label(end)}:0"
    return fabric.port_label(fabric.first_adapter_port + end - fabric.n_switches)


def trace(routed: Routed, source: int, destination: int) -> Trace:
    """Follow one packet from an end port to another, as the tables say.

    Tables may hold anything: the walk stops at the first fault.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> path = routing.trace(routing.route(fabric), *fabric.ends()[[0, -1]].tolist())
    >>> path.describe(fabric)
    'gpu00 mlx5_0:1 to head1 mlx5_0:1: arrives over 3 switches'
    """
    fabric, tables = routed.fabric, routed.tables
    channels: list[int] = []
    switches: list[int] = []

    def end(fault: Fault | None, port: int = -1) -> Trace:
        return Trace(source, destination, tuple(channels), tuple(switches), fault, port)

    node = int(fabric.end_switch[source])
    home = int(fabric.end_switch[destination])
    lid = int(tables.lid[destination])
    if node < 0 or home < 0:
        return end(Fault.DETACHED)
    last = -1
    if destination >= fabric.n_switches:
        last = int(fabric.peer[fabric.first_adapter_port + destination - fabric.n_switches])
    if source >= fabric.n_switches:
        channels.append(fabric.first_adapter_port + source - fabric.n_switches)
    passed: set[int] = set()
    while True:
        switches.append(node)
        if node in passed:
            return end(Fault.LOOP)
        passed.add(node)
        number = int(tables.lft[node, lid]) if lid < tables.lft.shape[1] else NO_PATH
        if number == NO_PATH:
            return end(Fault.NO_ENTRY)
        if number == 0:
            arrived = node == home and last < 0
            break
        if number > fabric.port_offset[node + 1] - fabric.port_offset[node]:
            return end(Fault.NO_SUCH_PORT, number)
        port = fabric.port_id(node, number)
        following = int(fabric.peer_node[port])
        if following < 0:
            return end(Fault.UNPLUGGED, number)
        channels.append(port)
        if following >= fabric.n_switches:
            arrived = port == last
            break
        node = following
    if not arrived:
        return end(Fault.WRONG_END, number)
    if virtual_lane(tables, switches[0], lid) >= MAX_DATA_VLS:
        switches[1:] = []
        return end(Fault.NO_LANE, number)
    return end(None, number)


def virtual_lane(tables: RoutingTables, switch: int, lid: int) -> int:
    """Virtual lane of a path from the hosts of a switch to a LID; 15 where it has none."""
    level = 0 if tables.path_sl is None else int(tables.path_sl[switch, lid])
    return tables.sl2vl[level] if level < len(tables.sl2vl) else MAX_DATA_VLS
