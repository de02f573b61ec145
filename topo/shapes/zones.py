"""Several fat-trees, each whole in itself, joined over ports of their leaves.

::

    zone 0: 20 spines            zone 1: 20 spines
            40 leaves --- joint0, joint1 --- 40 leaves
            hosts                         hosts

High-Flyer's Fire-Flyer 2 (An et al., SC'24, section III-B) has two such zones. How its joining ports lie on the leaves
is not published: `Joints.placement` offers both readings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hosts import HostGroup, deal, each_adapter
from topo.shapes.fat_tree import PlantedTree, plant_tree
from topo.shapes.seating import add_switches, ports_wanted, switch_ports
from topo.shapes.tree_size import FatTree, TreeSize, size_tree
from topo.spec_model import SpecModel
from topo.spec_names import GroupName, SwitchName
from topo.speeds import slower

__all__ = ["Joints", "Zones", "compile_zones"]


class Joints(SpecModel):
    """Switches that join the zones."""

    switch: SwitchName
    """Model of the joints."""
    count: Annotated[int, Field(gt=0, le=1_000)]
    """Joints; each is linked to every zone."""
    ports: Annotated[int, Field(gt=0, le=10_000)]
    """Leaf ports that each zone gives to the joints, in all."""
    placement: Literal["border", "spread"] = "border"
    """``border``: gathered on leaves that hold no hosts. ``spread``: over all leaves, beside their hosts."""


class Zones(SpecModel):
    """Fat-trees side by side, nodes that hang in one of them or in all, and joints between them."""

    shape: Literal["zones"]
    zones: Annotated[int, Field(ge=2, le=100)]
    """Number of zones."""
    tree: FatTree
    """What each zone is."""
    shared: tuple[GroupName, ...] = Field(default=(), strict=False)
    """Node groups with an adapter in every zone; the others are dealt over the zones evenly."""
    joints: Joints
    """How the zones are joined."""


def compile_zones(shape: Zones, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile joined fat-trees into one fabric.

    Raises
    ------
    DesignError
        When a zone does not close: the message holds its port budget.
    """
    rails = _rails_by_zone(shape, groups)
    joints = shape.joints
    _check_joints(shape, catalog)
    most = max(sum(rail.count for rail in zone) for zone in rails)
    size = size_tree(shape.tree, most + joints.ports, catalog)
    kept = _kept_ports(joints, size)
    for zone, zone_rails in enumerate(rails):
        _check_budget(zone, zone_rails, joints, size, kept)

    builder = FabricBuilder(name)
    planted = [
        plant_tree(builder, shape.tree, size, zone_rails, catalog, kept=kept, zone=zone, prefix=f"z{zone}-")
        for zone, zone_rails in enumerate(rails)
    ]
    _join(builder, joints, planted, catalog, shape.tree)
    return (builder.build(),)


def _rails_by_zone(shape: Zones, groups: Sequence[HostGroup]) -> list[list[HostGroup]]:
    """Say what hangs in each zone: a part of each group, or one adapter of each server of a shared group."""
    rails: list[list[HostGroup]] = [[] for _ in range(shape.zones)]
    for group in groups:
        if group.name in shape.shared:
            if group.adapters != shape.zones:
                raise DesignError(
                    f"{group.name} ({group.model}) has {group.adapters} adapters and is shared by {shape.zones} zones: "
                    "it needs one in each"
                )
            for zone in range(shape.zones):
                rails[zone].append(replace(group, device=zone))
        else:
            for zone, part in enumerate(deal(group, shape.zones)):
                rails[zone].extend(each_adapter(part))
    return rails


def _check_joints(shape: Zones, catalog: Catalog) -> None:
    joints = shape.joints
    if joints.ports % joints.count:
        below, above = joints.ports // joints.count * joints.count, -(-joints.ports // joints.count) * joints.count
        raise DesignError(
            f"{joints.ports} leaf ports of a zone do not divide over {joints.count} joints: "
            f"take {f'{below} or ' if below else ''}{above}"
        )
    radix = switch_ports(catalog, joints.switch).radix
    wanted = shape.zones * joints.ports // joints.count
    if wanted > radix:
        raise DesignError(
            f"each joint would hold {shape.zones} zones x {joints.ports // joints.count} = {wanted} links, and a "
            f"{joints.switch} has {radix} ports: take {-(-shape.zones * joints.ports // radix)} joints or fewer ports"
        )


def _kept_ports(joints: Joints, size: TreeSize) -> NDArray[np.int64]:
    """Return (leaves,) how many ports of each leaf hosts may not use."""
    leaves = np.arange(size.leaves)
    if joints.placement == "border":
        borders = -(-joints.ports // size.down)
        return np.where(leaves >= size.leaves - borders, size.down, 0)
    return np.diff(np.arange(size.leaves + 1) * joints.ports // size.leaves)


def _check_budget(
    zone: int, rails: Sequence[HostGroup], joints: Joints, size: TreeSize, kept: NDArray[np.int64]
) -> None:
    wanted = sum(rail.count for rail in rails)
    room = int(np.maximum(size.down - kept, 0).sum())
    if wanted <= room and joints.ports <= int(kept.sum()):
        return
    total = size.leaves * size.down
    how = f"{joints.ports} joint ports"
    if joints.placement == "border" and kept.sum() > joints.ports:
        how = f"{int(kept.sum())} ports of {int(kept.sum()) // size.down} border leaves"
    short = max(wanted - room, joints.ports - int(kept.sum()))
    raise DesignError(
        f"zone {zone} does not close: {ports_wanted(rails)} + {how} = {wanted + int(max(kept.sum(), joints.ports))} "
        f"leaf ports, and {size.leaves} leaves x {size.down} = {total}: short of {short}. "
        f"Take at most {max(room, 0)} node ports a zone, fewer joint ports, or one more zone"
    )


def _join(
    builder: FabricBuilder, joints: Joints, planted: Sequence[PlantedTree], catalog: Catalog, tree: FatTree
) -> None:
    """Cable the joints: consecutive kept ports of a zone go to the joints in turn."""
    ports = switch_ports(catalog, joints.switch)
    keys = add_switches(builder, ports, joints.count, "joint", role=Role.JOINT, level=2, zone=-1)
    speed = slower(ports.speed, switch_ports(catalog, tree.switch, split=tree.split).speed)
    next_port = [1] * joints.count
    for trees in planted:
        free = [(leaf, port) for leaf, ports in zip(trees.leaves, trees.free, strict=True) for port in ports]
        for index, (leaf, port) in enumerate(free[: joints.ports]):
            joint = index % joints.count
            builder.link(leaf, port, keys[joint], next_port[joint], speed)
            next_port[joint] += 1
