"""Trees of any height with parallel cables (PGFT), how their shifts fare, and what they lose: for tests of engines."""

from collections import Counter
from dataclasses import replace
from itertools import product

import numpy as np

from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints, tree_order
from topo.builder import FabricBuilder
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

HDR = LinkSpeed(4, "HDR")


def grow_tree(below: tuple[int, ...], above: tuple[int, ...], cables: tuple[int, ...]) -> Fabric:
    """Return PGFT(h; below; above; cables) as Zahavi defines it (h levels of switches).

    A switch of level l has ``below[l - 1]`` neighbours below it; a node of level l has ``above[l]`` neighbours above it
    with ``cables[l]`` cables to each (``above[0]`` and ``cables[0]`` are of hosts, and must be 1).
    """
    height = len(below)
    builder = FabricBuilder("tree")
    # A node of level l is named by height digits: digit k below l counts copies (above), the others subtrees (below).
    keys: dict[tuple[int, tuple[int, ...]], int] = {}
    ports: dict[int, int] = {}
    for level in range(1, height + 1):
        radix = below[level - 1] * cables[level - 1] + (above[level] * cables[level] if level < height else 0)
        extents = [above[k] if k < level else below[k] for k in reversed(range(height))]
        for digits in product(*map(range, extents)):
            role = Role.LEAF if level == 1 else Role.CORE if level == height > 2 else Role.SPINE
            name = f"s{level}-" + "".join(map(str, digits))
            key = builder.switch(name, model="switch", radix=radix, role=role, level=level)
            keys[level, digits[::-1]] = key
            ports[key] = 0
    for (level, digits), key in keys.items():
        if level == 1:
            for port in range(1, below[0] + 1):
                host = f"host{len(ports)}-{port}-" + "".join(map(str, digits))
                adapter = builder.adapter(host, "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
                builder.link(adapter, 1, key, port, HDR)
            ports[key] = below[0]
    for (level, digits), key in keys.items():
        if level < height:
            for copy, _ in product(range(above[level]), range(cables[level])):
                upper = keys[level + 1, (*digits[:level], copy, *digits[level + 1 :])]
                for end in (key, upper):
                    ports[end] += 1
                builder.link(key, ports[key], upper, ports[upper], HDR)
    return builder.build()


def walk(fabric: Fabric, tables: RoutingTables, source: int, target: int) -> list[int]:
    """Channels between switches on the path of two end ports."""
    switch, channels = int(fabric.end_switch[source]), []
    while switch != fabric.end_switch[target]:
        channels.append(fabric.port_id(switch, int(tables.lft[switch, tables.lid[target]])))
        switch = int(fabric.peer_node[channels[-1]])
    return channels


def worst_shift(fabric: Fabric, tables: RoutingTables, ends: list[int] | None = None) -> int:
    """Flows on the most loaded channel of the worst shift permutation of the hosts, in tree order or in this one."""
    ends = ends or tree_order(fabric, select_endpoints(fabric, tables)).tolist()
    paths = {(a, b): walk(fabric, tables, a, b) for a in ends for b in ends}
    worst = 0
    for shift in range(1, len(ends)):
        load = Counter(channel for i, a in enumerate(ends) for channel in paths[a, ends[(i + shift) % len(ends)]])
        worst = max(worst, *load.values())
    return worst


def damage(fabric: Fabric, rng: np.random.Generator, share: float, dead_role: Role | None = None) -> Fabric:
    """Cut a share of the links between switches, and all links of one switch of a role."""
    n = fabric.n_switches
    between = fabric.links[(fabric.port_node[fabric.links] < n).all(axis=1)]
    dark = np.zeros(len(between), bool)
    dark[rng.choice(len(between), round(share * len(between)), replace=False)] = True
    if dead_role is not None:
        dead = rng.choice(np.flatnonzero(fabric.role[:n] == dead_role))
        dark |= (fabric.port_node[between] == dead).any(axis=1)
    peer = fabric.peer.copy()
    peer[between[dark]] = -1
    return replace(fabric, peer=peer)


def fullest(routed: Routed) -> float:
    """Pairs of hosts over the fullest channel, those of slow ones scaled up."""
    fabric, load = routed.fabric, prove(routed).load
    scale = fabric.rate_gbps[fabric.inner].max() / fabric.rate_gbps[fabric.inner]
    return float((load[fabric.inner] * scale).max())
