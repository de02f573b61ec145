"""Whole three-level trees with destination-modulo tables in closed form: the largest cases, made in seconds."""

from __future__ import annotations

import numpy as np

from routing.tables import NO_PATH, RoutingTables, assign_lids
from topo.builder import FabricBuilder
from topo.fabric import Fabric, Role
from topo.speeds import LinkSpeed

HDR = LinkSpeed(4, "HDR")


def three_level_tree(half: int, pods: int, trunk: int, extra: int = 0) -> Fabric:
    """Pods of ``half`` leaves with ``half`` hosts each under ``half`` spines; each spine has ``half`` uplinks.

    Spine j of every pod reaches the ``half / trunk`` cores of group j over ``trunk`` cables each.
    As many extra hosts hang on the first cores. (20, 20, 2) has 8,000 hosts and 1,000 switches of 40 ports;
    (32, 44, 1, 255) fills a subnet: 49,151 LIDs.
    """
    builder = FabricBuilder(f"tree-{half}-{pods}-{trunk}")
    group = half // trunk

    def switch(name: str, radix: int, role: Role, level: int) -> int:
        return builder.switch(name, model="switch", radix=radix, role=role, level=level)

    leaves = [[switch(f"leaf{p}-{i}", 2 * half, Role.LEAF, 1) for i in range(half)] for p in range(pods)]
    spines = [[switch(f"spine{p}-{j}", 2 * half, Role.SPINE, 2) for j in range(half)] for p in range(pods)]
    ports = pods * trunk + (extra > 0)
    cores = [[switch(f"core{j}-{c}", ports, Role.CORE, 3) for c in range(group)] for j in range(half)]
    for p in range(pods):
        for i, leaf in enumerate(leaves[p]):
            for h in range(half):
                host = builder.adapter(
                    f"host{p}-{i}-{h}", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE
                )
                builder.link(leaf, 1 + h, host, 1, HDR)
            for j, spine in enumerate(spines[p]):
                builder.link(leaf, half + 1 + j, spine, 1 + i, HDR)
        for j, spine in enumerate(spines[p]):
            for c, core in enumerate(cores[j]):
                for t in range(trunk):
                    builder.link(spine, half + 1 + c * trunk + t, core, 1 + p * trunk + t, HDR)
    for place, core in enumerate([core for group in cores for core in group][:extra]):
        host = builder.adapter(f"host-{place}", "mlx5_0", model="hca", host_model="server", role=Role.COMPUTE)
        builder.link(core, ports, host, 1, HDR)
    return builder.build()


def modulo_tables(fabric: Fabric, half: int, pods: int, trunk: int) -> RoutingTables:
    """Host h of a leaf is reached over spine h, and leaf i of a pod over uplink i of that spine: shifts never collide.

    Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat trees", 2010.
    LIDs of spines and cores have no entries: only hosts and leaves are spoken to.
    """
    lid = assign_lids(fabric)
    n_leaf = pods * half
    lft = np.full((fabric.n_switches, int(lid.max()) + 1), NO_PATH, np.uint8)
    leaf = np.arange(n_leaf)
    leaf_rows, spine_rows, core_rows = lft[:n_leaf], lft[n_leaf : 2 * n_leaf], lft[2 * n_leaf :]

    def fill(dest: int, pod: int, i: int, h: int, down: int) -> None:
        """One LID below leaf i of a pod, over spine h; the leaf itself hands it to port ``down``."""
        leaf_rows[:, dest] = half + 1 + h
        leaf_rows[pod * half + i, dest] = down
        spine_rows[:, dest] = np.where(leaf // half == pod, 1 + i, half + 1 + i)
        core_rows[:, dest] = 1 + pod * trunk + i % trunk

    for pod in range(pods):
        for i in range(half):
            index = pod * half + i
            fill(int(lid[index]), pod, i, i, 0)
            for h in range(half):
                fill(int(lid[fabric.n_switches + index * half + h]), pod, i, h, 1 + h)
    return RoutingTables(lid, lft, engine="destination modulo")
