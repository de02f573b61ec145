r"""Fat-trees of two levels: every leaf is linked to every spine.

::

    spine00  spine01  ...            level 2
       |  \   /  |
    leaf00   leaf01   ...            level 1
     |  |     |  |
    hosts    hosts                   level 0
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware import SwitchModel
from topo.hosts import HostGroup, apportion, each_adapter, host_names
from topo.spec_model import SpecModel
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

Count = Annotated[int, Field(gt=0, le=10_000)]


class FatTree(SpecModel):
    """A fat-tree; what is left out is worked out from the nodes and the radix."""

    shape: Literal["fat-tree"] = "fat-tree"
    switch: str
    """Model of every switch."""
    spine_switch: str | None = None
    """Model of the spines, where it is another."""
    levels: Literal[2] = 2
    """Levels of switches."""
    leaves: Count | None = None
    """Leaves; as many as the nodes need when left out."""
    spines: Count | None = None
    """Spines; as few as carry all uplinks when left out."""
    parallel: Count | None = None
    """Links between each leaf and each spine."""
    oversubscription: Annotated[float, Field(ge=1.0, le=100.0)] = 1.0
    """Ports of a leaf towards nodes for each uplink: 1.0 is non-blocking, 3.0 is 3:1."""


@dataclass(frozen=True)
class TreeSize:
    """A fat-tree of two levels in numbers."""

    leaves: int
    spines: int
    parallel: int
    down: int
    """Ports of each leaf for hosts and joints."""

    @property
    def up(self) -> int:
        """Uplinks of each leaf."""
        return self.spines * self.parallel


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


def size_tree(tree: FatTree, ports: int, catalog: Catalog) -> TreeSize:
    """Work out a tree that has at least ``ports`` leaf ports, where the spec leaves it open.

    Raises
    ------
    DesignError
        When the numbers do not close; the message holds them.
    """
    leaf_radix = catalog.switch(tree.switch).radix
    spine_model = tree.spine_switch or tree.switch
    spine_radix = catalog.switch(spine_model).radix
    if tree.spines and tree.parallel:
        up = tree.spines * tree.parallel
    else:
        up = leaf_radix - int(leaf_radix * tree.oversubscription / (1 + tree.oversubscription))
    down = min(leaf_radix - up, int(up * tree.oversubscription)) if tree.oversubscription > 1 else leaf_radix - up
    if down < 1 or up < 1:
        raise DesignError(
            f"a leaf of {leaf_radix} ports ({tree.switch}) with {up} uplinks has {max(down, 0)} ports left for nodes: "
            f"take fewer spines or links in parallel, or a larger switch"
        )
    leaves = tree.leaves or -(-ports // down)
    if tree.spines:
        parallel = tree.parallel or up // tree.spines
        if not tree.parallel and up % tree.spines:
            fits = [
                spines for spines in range(1, up + 1) if up % spines == 0 and leaves * (up // spines) <= spine_radix
            ]
            raise DesignError(
                f"{up} uplinks of a leaf do not divide over {tree.spines} spines; "
                f"{_words(fits)} would do, or give `parallel`"
            )
        spines = tree.spines
    else:
        wanted = -(-leaves * up // spine_radix)
        fits = [spines for spines in range(wanted, up + 1) if up % spines == 0]
        if tree.parallel:
            fits = [spines for spines in fits if up // spines == tree.parallel]
        if not fits:
            raise DesignError(
                f"{leaves} leaves x {up} uplinks need at least {wanted} spines of {spine_radix} ports ({spine_model}), "
                f"and a leaf reaches at most {up}: two levels hold "
                f"{spine_radix * down:,} nodes at most with these switches; use zones or three levels"
            )
        spines = fits[0]
        parallel = up // spines
    if leaves * parallel > spine_radix:
        raise DesignError(
            f"{leaves} leaves x {parallel} links to each spine = {leaves * parallel} ports, and a spine "
            f"({spine_model}) has {spine_radix}: at most {spine_radix // parallel} leaves close"
        )
    return TreeSize(leaves, spines, parallel, down)


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
    leaf_model, spine_model = catalog.switch(tree.switch), catalog.switch(tree.spine_switch or tree.switch)
    kept = np.zeros(size.leaves, np.int64) if kept is None else kept

    def add(role: Role, number: int, of: int, model: SwitchModel) -> int:
        name = switch_name(f"{prefix}{role.name.lower()}{number:0{len(str(of - 1))}d}", model.name)
        level = 1 if role == Role.LEAF else 2
        return builder.switch(name, model=model.name, radix=model.radix, role=role, level=level, zone=zone)

    leaves = [add(Role.LEAF, leaf, size.leaves, leaf_model) for leaf in range(size.leaves)]
    spines = [add(Role.SPINE, spine, size.spines, spine_model) for spine in range(size.spines)]

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
    for spine in range(size.spines):
        for leaf in range(size.leaves):
            for link in range(size.parallel):
                up = size.down + 1 + spine * size.parallel + link
                builder.link(leaves[leaf], up, spines[spine], leaf * size.parallel + link + 1, speed)
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


def ports_wanted(rails: Sequence[HostGroup]) -> str:
    """Spell a sum of leaf ports: ``600 gpu + 180 storage``."""
    totals: dict[str, int] = {}
    for rail in rails:
        totals[rail.name] = totals.get(rail.name, 0) + rail.count
    return " + ".join(f"{count} {name}" for name, count in totals.items()) or "no node"


def _words(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"
