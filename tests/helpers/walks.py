"""A plain walk of one pair, switch by switch, which shares no code with the proof."""

from routing.tables import RoutingTables
from topo.fabric import Fabric


def plain_walk(fabric: Fabric, tables: RoutingTables, source: int, dest: int) -> tuple[list[int] | None, int]:
    """Channels of a pair's path, None when it does not arrive, and its virtual lane; no code shared with the proof."""
    lid, first = int(tables.lid[dest]), int(fabric.port_offset[fabric.n_switches])
    node, path = int(fabric.end_switch[source]), []
    if source >= fabric.n_switches:
        path.append(first + source - fabric.n_switches)
    lane = -1
    for _ in range(fabric.n_switches + 1):
        if node < 0 or lid >= tables.lft.shape[1]:
            return None, lane
        if lane < 0:
            level = 0 if tables.path_sl is None else int(tables.path_sl[node, lid])
            lane = tables.sl2vl[level] if level < 16 else 15
        number = int(tables.lft[node, lid])
        if number == 0:
            return (path if node == dest and lane < 15 else None), lane
        if number > fabric.port_offset[node + 1] - fabric.port_offset[node]:
            return None, lane
        port = int(fabric.port_offset[node]) + number - 1
        peer = int(fabric.peer[port])
        path.append(port)
        if peer >= first:
            return (path if peer - first + fabric.n_switches == dest and lane < 15 else None), lane
        node = int(fabric.port_node[peer]) if peer >= 0 else -1
    return None, lane
