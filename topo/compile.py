"""Compiles a cluster's description into fabrics: one for each subnet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from topo.cluster import ClusterSpec
from topo.errors import DesignError
from topo.fabric import Fabric
from topo.hardware.catalog import Catalog
from topo.shapes.bigraph import BiGraph, compile_bigraph
from topo.shapes.dragonfly import Dragonfly, DragonflyPlus, compile_dragonfly, compile_dragonfly_plus
from topo.shapes.fat_tree import compile_fat_tree
from topo.shapes.hosts import HostGroup
from topo.shapes.hyperx import HyperX, Torus, compile_grid
from topo.shapes.pgft import KaryTree, Pgft, compile_kary_tree, compile_pgft
from topo.shapes.planes import Planes, compile_planes
from topo.shapes.rail import Rail, compile_rail
from topo.shapes.slim_fly import SlimFly, compile_slim_fly
from topo.shapes.tree_size import FatTree
from topo.shapes.zones import Zones, compile_zones

Compile = Callable[[Any, Sequence[HostGroup], Catalog, str], tuple[Fabric, ...]]

COMPILERS: dict[type, Compile] = {
    BiGraph: compile_bigraph,
    Dragonfly: compile_dragonfly,
    DragonflyPlus: compile_dragonfly_plus,
    FatTree: compile_fat_tree,
    HyperX: compile_grid,
    KaryTree: compile_kary_tree,
    Pgft: compile_pgft,
    Planes: compile_planes,
    Rail: compile_rail,
    SlimFly: compile_slim_fly,
    Torus: compile_grid,
    Zones: compile_zones,
}
"""The function that compiles each family of `topo.shapes`."""


def compile_cluster(spec: ClusterSpec, catalog: Catalog) -> tuple[Fabric, ...]:
    """Compile a cluster.

    Returns
    -------
    tuple of Fabric
        One subnet each; a cluster of several planes has several.

    Raises
    ------
    DesignError
        When the design does not close; the message holds the arithmetic.
    """
    groups = resolve_groups(spec, catalog)
    if not any(group.count for group in groups):
        raise DesignError(f"{spec.name} has no nodes: give at least one group under `nodes` a count")
    return COMPILERS[type(spec.network)](spec.network, groups, catalog, spec.name)


def resolve_groups(spec: ClusterSpec, catalog: Catalog) -> list[HostGroup]:
    """Look up the models of the node groups: their roles, adapters and link speeds."""
    groups = []
    for name, node in spec.nodes.items():
        model = catalog.node(node.model)
        groups.append(
            HostGroup(
                name=name,
                count=node.count,
                model=model.name,
                role=model.role if node.role is None else node.role,
                adapters=model.adapters,
                adapter_model=model.adapter_model,
                speed=catalog.hca(model.adapter_model).speed,
            )
        )
    return groups
