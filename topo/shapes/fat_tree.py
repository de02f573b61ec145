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
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.hardware.speeds import LinkSpeed, slower
from topo.shapes.graft import SizedGraft, Sockets, links_onto, plant_grafts, size_grafts
from topo.shapes.hosts import HostGroup, apportion, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.shapes.tree_size import FatTree, TreeSize, size_tree


@dataclass(frozen=True)
class PlantedTree:
    """A tree in a builder: switches wired and hosts attached."""

    leaves: list[int]
    spines: list[int]
    free: list[list[int]]
    """Ports that were kept free, leaf by leaf."""


def plant_tree(
    builder: FabricBuilder,
    tree: FatTree,
    size: TreeSize,
    groups: Sequence[HostGroup],
    catalog: Catalog,
    *,
    grafts: Sequence[SizedGraft] = (),
    kept: NDArray[np.int64] | None = None,
    placed: Sequence[NDArray[np.int64]] | None = None,
    zone: int = 0,
    prefix: str = "",
) -> PlantedTree:
    """Add a tree's switches, links and hosts to a builder.

    Hosts take the first ports of a leaf, then come those of grafts, those that are kept free, and the uplinks.

    Parameters
    ----------
    groups : sequence of HostGroup
        What hangs on the tree's own leaves.
    grafts : sequence of SizedGraft, optional
        The tree's grafts with what hangs on them.
    kept : (leaves,) int64, optional
        Ports of each leaf to keep free of hosts.
    placed : sequence of (leaves,) int64, optional
        Servers of each group on each leaf; an even spread when left out.
    prefix : str
        What switch names begin with, ``z0-`` in zone 0.
    """
    kept = np.zeros(size.leaves, np.int64) if kept is None else kept
    low = base_level(grafts)
    leaf_ports = switch_ports(catalog, tree.switch, split=tree.split)
    spine_ports = switch_ports(catalog, tree.spine_switch or tree.switch, split=tree.split)
    leaves = add_switches(builder, leaf_ports, size.leaves, f"{prefix}leaf", role=Role.LEAF, level=low, zone=zone)
    spines = add_switches(
        builder, spine_ports, size.spines, f"{prefix}spine", role=Role.SPINE, level=low + 1, zone=zone
    )
    room = size.down - kept
    grafted = _ports_of_grafts(links_onto(grafts, "leaves"), room - sum(placed or ()))
    seat(builder, leaves, room - grafted, groups, leaf_ports.speed, placed=placed)
    speed = slower(leaf_ports.speed, spine_ports.speed)
    for leaf, key in enumerate(leaves):
        pod, place = divmod(leaf, size.leaves_per_pod)
        for spine in range(size.spines_per_pod):
            for link in range(size.parallel):
                up = size.down + 1 + spine * size.parallel + link
                down = place * size.parallel + link + 1
                builder.link(key, up, spines[pod * size.spines_per_pod + spine], down, speed)
    if size.cores:
        core_ports = switch_ports(catalog, tree.core_switch or tree.switch, split=tree.split)
        cores = add_switches(builder, core_ports, size.cores, f"{prefix}core", role=Role.CORE, level=low + 2, zone=zone)
        _link_cores(builder, size, spines, cores, slower(core_ports.speed, spine_ports.speed))
    if grafts:
        on_leaves = [  # a port of each leaf in turn, so that a grafted leaf's uplinks go to different ones
            (key, free - ports + 1 + turn)
            for turn in range(int(grafted.max()))
            for key, free, ports in zip(leaves, room.tolist(), grafted.tolist(), strict=True)
            if turn < ports
        ]
        sockets = Sockets(_free_spine_ports(size, spines), spine_ports.speed, on_leaves, leaf_ports.speed)
        plant_grafts(builder, grafts, sockets, zone=zone, prefix=prefix, level=low)
    free = [list(range(size.down - int(keep) + 1, size.down + 1)) for keep in kept]
    return PlantedTree(leaves, spines, free)


def base_level(grafts: Sequence[SizedGraft]) -> int:
    """Level of a tree's own leaves: 2 where others are grafted on them, since those are below."""
    return 2 if links_onto(grafts, "leaves") else 1


def compile_fat_tree(tree: FatTree, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile one fat-tree with every adapter of every group on it.

    Raises
    ------
    DesignError
        When the nodes do not fit, or the numbers do not close.
    """
    builder = FabricBuilder(name)
    grow_tree(builder, tree, [rail for group in groups for rail in each_adapter(group)], catalog)
    return (builder.build(),)


def grow_tree(
    builder: FabricBuilder, tree: FatTree, rails: Sequence[HostGroup], catalog: Catalog, prefix: str = ""
) -> None:
    """Size a tree for what hangs on it, and add it to a builder."""
    own, grafts = size_grafts(tree.grafts, rails, catalog)
    on_leaves = links_onto(grafts, "leaves")
    ports = sum(rail.count for rail in own) + on_leaves
    size = size_tree(tree, ports, catalog, grafted=links_onto(grafts, "spines"))
    refuse_overflow(own, size.leaves, size.down, grafted=on_leaves)
    plant_tree(builder, tree, size, own, catalog, grafts=grafts, prefix=prefix)


def _ports_of_grafts(links: int, room: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return (leaves,) ports of each leaf for grafts, spread evenly."""
    if links > room.sum():
        raise DesignError(
            f"grafts onto leaves want {links} leaf ports, and {len(room)} leaves have {int(room.sum())} left: short of "
            f"{links - int(room.sum())}. Take fewer uplinks, or `onto: spines`"
        )
    return apportion(links, room)


def _free_spine_ports(size: TreeSize, spines: Sequence[int]) -> list[list[tuple[int, list[int]]]]:
    """Return key and free ports of each spine, pod by pod: those between its links down and its uplinks."""
    pods = []
    for pod in range(size.pods):
        leaves = min(size.leaves_per_pod, size.leaves - pod * size.leaves_per_pod)
        free = range(leaves * size.parallel + 1, size.spine_radix - size.spine_up + 1)
        mine = spines[pod * size.spines_per_pod : (pod + 1) * size.spines_per_pod]
        pods.append([(key, list(free)) for key in mine])
    return pods


def _link_cores(
    builder: FabricBuilder, size: TreeSize, spines: Sequence[int], cores: Sequence[int], speed: LinkSpeed
) -> None:
    """Deal the uplinks of each group of planes over the group's cores in turn, pod after pod."""
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
