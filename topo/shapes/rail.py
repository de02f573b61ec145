"""Rail-optimised fat-trees: adapter r of every node of a scalable unit hangs on the same leaf.

::

    unit 0: nodes 0-19             unit 1: nodes 20-39
    mlx5_0 of each -> leaf of rail 0, unit 0        ... -> leaf of rail 0, unit 1
    mlx5_1 of each -> leaf of rail 1, unit 0        ...

GPUs of equal number in different nodes then meet one switch away. NVIDIA's DGX SuperPODs are built so: RA-09950-001
(A100: units of 20 nodes, 8 leaves each), DGX B200 SuperPOD reference architecture (units of 32). On three levels the
leaves of one rail are a pod. Storage hangs beside the GPUs, or on a fabric of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.shapes.fat_tree import compile_fat_tree, plant_tree
from topo.shapes.graft import SizedGraft, links_onto, size_grafts
from topo.shapes.hosts import HostGroup, apportion, each_adapter
from topo.shapes.seating import ports_wanted
from topo.shapes.tree_size import FatTree, size_tree
from topo.spec.base import SpecModel


class Rail(SpecModel):
    """Rails: one leaf for each adapter number in each scalable unit."""

    shape: Literal["rail"]
    unit_nodes: Annotated[int, Field(ge=1, le=254)]
    """Nodes of a scalable unit."""
    tree: FatTree
    """The tree over the leaves; ``leaves`` and ``leaves_per_pod`` follow from the rails and units."""
    storage: FatTree | None = None
    """A fabric of its own for storage: storage nodes, and the storage adapters of the GPU nodes."""


def compile_rail(shape: Rail, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a rail-optimised fabric, and the storage fabric beside it where there is one.

    Raises
    ------
    DesignError
        When the numbers do not close.
    """
    if shape.tree.leaves or shape.tree.leaves_per_pod:
        raise DesignError("`leaves` and `leaves_per_pod` of a rail tree follow from its units: leave them out")
    rails_of_groups = [adapter for group in groups for adapter in each_adapter(group)]
    _, grafts = size_grafts(shape.tree.grafts, rails_of_groups, catalog)
    grafted = {rail.name for graft in grafts for rail in graft.rails}
    nodes = [group for group in groups if group.role == Role.COMPUTE and group.name not in grafted]
    others = [group for group in groups if group.role != Role.COMPUTE and group.name not in grafted]
    if not nodes:
        raise DesignError("rails are made of compute nodes, and there are none")
    rails = max(group.adapters for group in nodes)
    if any(group.adapters != rails for group in nodes):
        raise DesignError(f"all compute nodes of a rail fabric need the same number of adapters, {rails} here")
    units = -(-sum(group.count for group in nodes) // shape.unit_nodes)
    beside = [] if shape.storage else [adapter for group in others for adapter in each_adapter(group)]
    fabric = _rails(shape, nodes, rails, units, beside, grafts, catalog, name)
    if not shape.storage:
        return (fabric,)
    compute = storage_side(nodes, catalog)
    return (fabric, *compile_fat_tree(shape.storage, [*compute, *others], catalog, f"{name}-storage"))


def storage_side(nodes: Sequence[HostGroup], catalog: Catalog) -> list[HostGroup]:
    """Return the compute nodes with their storage adapters instead, numbered after those of the rails."""
    return [
        replace(group, adapters=catalog.node(group.model).storage_adapters, device=group.adapters)
        for group in nodes
        if catalog.node(group.model).storage_adapters
    ]


def _rails(
    shape: Rail,
    nodes: Sequence[HostGroup],
    rails: int,
    units: int,
    beside: Sequence[HostGroup],
    grafts: Sequence[SizedGraft],
    catalog: Catalog,
    name: str,
) -> Fabric:
    n_leaves = rails * units
    fixed: dict[str, object] = {"leaves": n_leaves}
    if shape.tree.levels == 3:
        fixed["leaves_per_pod"] = _pod_size(shape.tree, units, catalog)
    tree = shape.tree.model_copy(update=fixed)
    size = size_tree(tree, 0, catalog, grafted=links_onto(grafts, "spines"))
    if shape.unit_nodes > size.down:
        raise DesignError(
            f"a unit of {shape.unit_nodes} nodes needs as many ports of each of its leaves, which have {size.down} of "
            f"{size.leaf_radix} left beside {size.leaf_radix - size.down} uplinks: take units of at most {size.down}"
        )
    unit_size = _fill(sum(group.count for group in nodes), shape.unit_nodes, units)
    placed: list[NDArray[np.int64]] = []
    groups: list[HostGroup] = []
    room = np.full(n_leaves, size.down)
    for rail in range(rails):
        left = unit_size.copy()
        for group in nodes:
            counts = np.zeros(n_leaves, np.int64)
            taken = _take(left, group.count)
            counts[rail * units : (rail + 1) * units] = taken
            left -= taken
            room -= counts
            placed.append(counts)
            groups.append(replace(group, device=rail))
    wanted = sum(group.count for group in beside)
    if wanted > room.sum():
        raise DesignError(
            f"{ports_wanted(beside)} = {wanted} more ports, and the {n_leaves} leaves have {int(room.sum())} left: "
            "give the storage a fabric of its own with `storage`, or take smaller units"
        )
    for group in beside:
        counts = apportion(group.count, room)
        room -= counts
        placed.append(counts)
        groups.append(group)
    builder = FabricBuilder(name)
    plant_tree(builder, tree, size, groups, catalog, grafts=grafts, placed=placed)
    return builder.build()


def _pod_size(tree: FatTree, units: int, catalog: Catalog) -> int:
    """Leaves of a pod: a rail, or an equal part of one where a spine has not as many ports."""
    radix = catalog.switch(tree.spine_switch or tree.switch).radix
    fits = int(radix * tree.spine_oversubscription / (1 + tree.spine_oversubscription)) // (tree.parallel or 1)
    return max(part for part in range(1, units + 1) if units % part == 0 and part <= fits)


def _fill(count: int, unit: int, units: int) -> NDArray[np.int64]:
    """Return (units,) nodes of each unit: all full but the last."""
    return np.minimum(np.maximum(count - np.arange(units) * unit, 0), unit)


def _take(room: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return how many of ``count`` nodes each unit takes, filling one after the other."""
    before = np.concatenate([[0], np.cumsum(room)[:-1]])
    taken: NDArray[np.int64] = np.minimum(np.maximum(count - before, 0), room)
    return taken
