r"""Fat-trees of two and three levels.

::

    core000  core001 ...                      level 3, where there are three
       |  \       |  \
    spine00 ... spine10 ...                   level 2
       |  \   /  |
    leaf00   leaf01 ...                       level 1
     |  |     |  |
    hosts    hosts                            level 0

Every leaf is linked to every spine of its pod. The spines of all pods are linked to the cores group by group: spine k
of each pod belongs to plane k, and as many planes as make the numbers whole share their cores, each of which gets a
link from every pod at least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from topo.builder import FabricBuilder
from topo.catalog import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware import SwitchModel
from topo.hosts import HostGroup, apportion, each_adapter, host_names
from topo.shapes.tree_size import FatTree, TreeSize, size_tree
from topo.speeds import slower

__all__ = [
    "FatTree",
    "PlantedTree",
    "TreeSize",
    "compile_fat_tree",
    "plant_tree",
    "ports_wanted",
    "size_tree",
    "switch_name",
]


@dataclass(frozen=True)
class PlantedTree:
    """A tree in a builder: switches wired and hosts attached."""

    leaves: list[int]
    spines: list[int]
    free: list[list[int]]
    """Ports that were kept free, leaf by leaf."""


def switch_name(name: str, model: str) -> str:
    """NodeDescription of a switch in the form that NVIDIA's tools expect: ``MF0;leaf01:MQM8700/U1``."""
    vendor_model = f"M{model}" if model[:2] in ("QM", "CS", "SB", "SN") else model
    return f"MF0;{name}:{vendor_model}/U1"


def plant_tree(
    builder: FabricBuilder,
    tree: FatTree,
    size: TreeSize,
    groups: Sequence[HostGroup],
    catalog: Catalog,
    *,
    kept: NDArray[np.int64] | None = None,
    zone: int = 0,
    prefix: str = "",
) -> PlantedTree:
    """Add a tree's switches, links and hosts to a builder.

    Hosts take the first ports of a leaf, each group spread evenly over the leaves and in order, so that consecutive
    hosts of a group hang together; then come the ports that are kept free, then the uplinks.

    Parameters
    ----------
    kept : (leaves,) int64, optional
        Ports of each leaf to keep free of hosts.
    prefix : str
        What switch names begin with, ``z0-`` in zone 0.
    """
    kept = np.zeros(size.leaves, np.int64) if kept is None else kept
    leaf_model = catalog.switch(tree.switch)
    spine_model = catalog.switch(tree.spine_switch or tree.switch)
    leaves = [
        _add_switch(builder, leaf_model, Role.LEAF, f"{prefix}leaf", leaf, size.leaves, size.leaf_radix, zone)
        for leaf in range(size.leaves)
    ]
    spines = [
        _add_switch(builder, spine_model, Role.SPINE, f"{prefix}spine", spine, size.spines, size.spine_radix, zone)
        for spine in range(size.spines)
    ]

    room = size.down - kept
    next_port = np.ones(size.leaves, np.int64)
    for group in groups:
        placed = apportion(group.count, room)
        room = room - placed
        speed = slower(group.speed, leaf_model.speed)
        for name, leaf in zip(host_names(group), np.repeat(np.arange(size.leaves), placed).tolist(), strict=True):
            key = builder.adapter(
                name,
                f"mlx5_{group.device}",
                model=group.adapter_model,
                host_model=group.model,
                role=group.role,
                zone=zone,
            )
            builder.link(key, 1, leaves[leaf], int(next_port[leaf]), speed)
            next_port[leaf] += 1

    speed = slower(leaf_model.speed, spine_model.speed)
    for leaf, key in enumerate(leaves):
        pod, place = divmod(leaf, size.leaves_per_pod)
        for spine in range(size.spines_per_pod):
            for link in range(size.parallel):
                up = size.down + 1 + spine * size.parallel + link
                down = place * size.parallel + link + 1
                builder.link(key, up, spines[pod * size.spines_per_pod + spine], down, speed)
    if size.cores:
        _plant_cores(builder, catalog.switch(tree.core_switch or tree.switch), size, spines, zone, prefix, spine_model)
    free = [list(range(size.down - int(keep) + 1, size.down + 1)) for keep in kept]
    return PlantedTree(leaves, spines, free)


def compile_fat_tree(tree: FatTree, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile one fat-tree with every adapter of every group on it.

    Raises
    ------
    DesignError
        When the nodes do not fit, or the numbers do not close.
    """
    rails = [rail for group in groups for rail in each_adapter(group)]
    needed = sum(rail.count for rail in rails)
    size = size_tree(tree, needed, catalog)
    if needed > size.leaves * size.down:
        raise DesignError(
            f"{ports_wanted(rails)} = {needed} leaf ports, and {size.leaves} leaves x {size.down} = "
            f"{size.leaves * size.down}: short of {needed - size.leaves * size.down}. Take "
            f"{-(-needed // size.down)} leaves, a larger switch, or fewer nodes"
        )
    builder = FabricBuilder(name)
    plant_tree(builder, tree, size, rails, catalog)
    return (builder.build(),)


def _add_switch(
    builder: FabricBuilder, model: SwitchModel, role: Role, stem: str, number: int, of: int, radix: int, zone: int
) -> int:
    level = {Role.LEAF: 1, Role.SPINE: 2, Role.CORE: 3}[role]
    name = switch_name(f"{stem}{number:0{len(str(of - 1))}d}", model.name)
    return builder.switch(name, model=model.name, radix=radix, role=role, level=level, zone=zone)


def _plant_cores(
    builder: FabricBuilder,
    model: SwitchModel,
    size: TreeSize,
    spines: Sequence[int],
    zone: int,
    prefix: str,
    spine_model: SwitchModel,
) -> None:
    """Add the cores and deal the uplinks of each group of planes over the group's cores in turn, pod after pod."""
    cores = [
        _add_switch(builder, model, Role.CORE, f"{prefix}core", core, size.cores, size.core_radix, zone)
        for core in range(size.cores)
    ]
    speed = slower(model.speed, spine_model.speed)
    next_port = [1] * size.cores
    first_up = size.spine_radix - size.spine_up + 1
    for group in range(size.spines_per_pod // size.planes_per_group):
        mine = range(group * size.cores_per_group, (group + 1) * size.cores_per_group)
        dealt = 0
        for pod in range(size.pods):
            for plane in range(group * size.planes_per_group, (group + 1) * size.planes_per_group):
                for up in range(size.spine_up):
                    core = mine[dealt % len(mine)]
                    spine = spines[pod * size.spines_per_pod + plane]
                    builder.link(spine, first_up + up, cores[core], next_port[core], speed)
                    next_port[core] += 1
                    dealt += 1


def ports_wanted(rails: Sequence[HostGroup]) -> str:
    """Spell a sum of leaf ports: ``600 gpu + 180 storage``."""
    totals: dict[str, int] = {}
    for rail in rails:
        totals[rail.name] = totals.get(rail.name, 0) + rail.count
    return " + ".join(f"{count} {name}" for name, count in totals.items()) or "no node"
