"""D-mod-k as its paper defines it (Zahavi et al., JPDC 2012): plain, slow, and for whole trees of hosts alone."""

import numpy as np

from routing.tables import NO_PATH
from topo.fabric import Fabric


def destination_modulo(fabric: Fabric, lid: np.ndarray) -> np.ndarray:
    """Return the forwarding tables for the LIDs of hosts.

    Host x leaves a switch of level l over up neighbour number (x / (w_1 w_2 ... w_(l-1))) mod w_l, where w_k is the
    number of up neighbours of level k. Among parallel cables the next digit decides, upwards and downwards.
    """
    level, hosts = fabric.level, fabric.ends()
    up: dict[int, list[int]] = {}  # neighbours above a switch
    below: dict[int, set[int]] = {}  # leaves below a switch
    for switch in sorted(range(fabric.n_switches), key=lambda one: level[one]):
        neighbours = sorted({other for _, other in cables(fabric, switch)})
        up[switch] = [other for other in neighbours if level[other] > level[switch]]
        lower = [below[other] for other in neighbours if level[other] < level[switch]]
        below[switch] = set().union(*lower) if lower else {switch}
    width = [len(up[int(np.flatnonzero(level == height)[0])]) for height in range(1, int(level.max()) + 1)]
    lft = np.full((fabric.n_switches, int(lid.max()) + 1), NO_PATH, np.uint8)
    for x, host in enumerate(hosts.tolist()):
        leaf = int(fabric.end_switch[host])
        for switch in range(fabric.n_switches):
            height = int(level[switch])
            digit = x // int(np.prod(width[: height - 1]))
            if switch == leaf:
                lft[switch, lid[host]] = fabric.port_number[fabric.peer[fabric.port_of(np.array(host))]]
                continue
            if leaf in below[switch]:
                goes = next(
                    other for _, other in cables(fabric, switch) if leaf in below[other] and other not in up[switch]
                )
            else:
                goes = up[switch][digit % width[height - 1]]
                digit //= width[height - 1]
            ports = [port for port, other in cables(fabric, switch) if other == goes]
            lft[switch, lid[host]] = ports[digit % len(ports)]
    return lft


def cables(fabric: Fabric, switch: int) -> list[tuple[int, int]]:
    """Port number and neighbour of each cable to another switch."""
    ports = range(fabric.port_offset[switch], fabric.port_offset[switch + 1])
    found = [(int(fabric.port_number[port]), int(fabric.peer_node[port])) for port in ports if fabric.is_inner[port]]
    return sorted(found)
