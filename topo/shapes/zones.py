"""Several fat-trees, each whole in itself, joined over ports of their leaves: by switches or by cables alone.

::

    zone 0: 20 spines            zone 1: 20 spines
            40 leaves --- joint0, joint1 --- 40 leaves
            hosts                         hosts

High-Flyer's Fire-Flyer 2 (An et al., SC'24, section III-B) has two such zones. How its joining ports lie on the leaves
is not published: `Joints.placement` offers both readings. Cables without a switch between (`Direct`) save the joints,
and each pair of zones has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.hardware.speeds import LinkSpeed, slower
from topo.shapes.fat_tree import base_level, plant_tree
from topo.shapes.graft import links_onto, size_grafts
from topo.shapes.hosts import HostGroup, deal, each_adapter
from topo.shapes.seating import SwitchPorts, add_switches, ports_wanted, switch_ports
from topo.shapes.tree_size import FatTree, TreeSize, size_tree
from topo.spec.base import GroupName, SpecModel, SwitchName

Placement = Literal["border", "spread"]


class Joints(SpecModel):
    """Switches that join the zones."""

    switch: SwitchName
    """Model of the joints."""
    count: Annotated[int, Field(gt=0, le=1_000)]
    """Joints; each is linked to every zone."""
    ports: Annotated[int, Field(gt=0, le=10_000)]
    """Leaf ports that each zone gives to the joints, in all."""
    placement: Placement = "border"
    """``border``: gathered on leaves that hold no hosts. ``spread``: over all leaves, beside their hosts."""


class Direct(SpecModel):
    """Cables from leaves of one zone to leaves of another, with no switch between."""

    ports: Annotated[int, Field(gt=0, le=10_000)]
    """Leaf ports that each zone gives, in all; each other zone gets an equal part."""
    placement: Placement = "border"
    """``border``: gathered on leaves that hold no hosts. ``spread``: over all leaves, beside their hosts."""


class Zones(SpecModel):
    """Fat-trees side by side, nodes that hang in one of them or in all, and joints or cables between them."""

    shape: Literal["zones"]
    zones: Annotated[int, Field(ge=2, le=100)]
    """Number of zones."""
    tree: FatTree
    """What each zone is."""
    shared: tuple[GroupName, ...] = Field(default=(), strict=False)
    """Node groups with an adapter in every zone; the others are dealt over the zones evenly."""
    joints: Joints | None = None
    """Switches between the zones."""
    direct: Direct | None = None
    """Cables between the zones' leaves instead of joints."""

    @model_validator(mode="after")
    def _joined_in_one_way(self) -> Self:
        if (self.joints is None) == (self.direct is None):
            found = "neither `joints` nor `direct`" if self.joints is None else "both `joints` and `direct`"
            context = {"found": found, "expected": "one of them, to say how the zones are joined"}
            raise PydanticCustomError("joined", "{found}; expected {expected}", context)
        return self

    @property
    def between(self) -> Joints | Direct:
        """How the zones are joined."""
        between = self.joints or self.direct
        assert between is not None
        return between


def compile_zones(shape: Zones, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile joined fat-trees into one fabric.

    Raises
    ------
    DesignError
        When a zone does not close: the message holds its port budget.
    """
    between = shape.between
    if shape.joints:
        _check_joints(shape.zones, shape.joints, catalog)
    else:
        _check_division(between.ports, shape.zones - 1, "other zones")
    zones = [size_grafts(shape.tree.grafts, rails, catalog) for rails in _rails_by_zone(shape, groups)]
    most = max(sum(rail.count for rail in own) + links_onto(grafts, "leaves") for own, grafts in zones)
    onto_spines = max(links_onto(grafts, "spines") for _, grafts in zones)
    size = size_tree(shape.tree, most + between.ports, catalog, grafted=onto_spines)
    kept = _kept_ports(between, size)
    for zone, (own, grafts) in enumerate(zones):
        _check_budget(zone, own, links_onto(grafts, "leaves"), between, size, kept)

    builder = FabricBuilder(name)
    planted = [
        plant_tree(builder, shape.tree, size, own, catalog, grafts=grafts, kept=kept, zone=zone, prefix=f"z{zone}-")
        for zone, (own, grafts) in enumerate(zones)
    ]
    free = [
        [(leaf, port) for leaf, ports in zip(trees.leaves, trees.free, strict=True) for port in ports][: between.ports]
        for trees in planted
    ]
    leaf_speed = switch_ports(catalog, shape.tree.switch, split=shape.tree.split).speed
    if shape.joints:
        level = 1 + max(base_level(grafts) for _, grafts in zones)
        _join(builder, shape.joints, free, switch_ports(catalog, shape.joints.switch), leaf_speed, level)
    else:
        _link_directly(builder, free, leaf_speed)
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


def _check_division(ports: int, parts: int, what: str) -> None:
    if ports % parts:
        below, above = ports // parts * parts, -(-ports // parts) * parts
        raise DesignError(
            f"{ports} leaf ports of a zone do not divide over {parts} {what}: "
            f"take {f'{below} or ' if below else ''}{above}"
        )


def _check_joints(zones: int, joints: Joints, catalog: Catalog) -> None:
    _check_division(joints.ports, joints.count, "joints")
    radix = switch_ports(catalog, joints.switch).radix
    wanted = zones * joints.ports // joints.count
    if wanted > radix:
        raise DesignError(
            f"each joint would hold {zones} zones x {joints.ports // joints.count} = {wanted} links, and a "
            f"{joints.switch} has {radix} ports: take {-(-zones * joints.ports // radix)} joints or fewer ports"
        )


def _kept_ports(between: Joints | Direct, size: TreeSize) -> NDArray[np.int64]:
    """Return (leaves,) how many ports of each leaf hosts may not use."""
    leaves = np.arange(size.leaves)
    if between.placement == "border":
        borders = -(-between.ports // size.down)
        return np.where(leaves >= size.leaves - borders, size.down, 0)
    return np.diff(np.arange(size.leaves + 1) * between.ports // size.leaves)


def _check_budget(
    zone: int,
    rails: Sequence[HostGroup],
    grafted: int,
    between: Joints | Direct,
    size: TreeSize,
    kept: NDArray[np.int64],
) -> None:
    wanted = sum(rail.count for rail in rails) + grafted
    room = int(np.maximum(size.down - kept, 0).sum())
    if wanted <= room and between.ports <= int(kept.sum()):
        return
    total = size.leaves * size.down
    what = "joint" if isinstance(between, Joints) else "direct"
    how = f"{between.ports} {what} ports"
    if between.placement == "border" and kept.sum() > between.ports:
        how = f"{int(kept.sum())} ports of {int(kept.sum()) // size.down} border leaves"
    short = max(wanted - room, between.ports - int(kept.sum()))
    raise DesignError(
        f"zone {zone} does not close: {ports_wanted(rails)} + {f'{grafted} for grafts + ' if grafted else ''}{how} = "
        f"{wanted + int(max(kept.sum(), between.ports))} leaf ports, and {size.leaves} leaves x {size.down} = {total}: "
        f"short of {short}. Take at most {max(room - grafted, 0)} node ports a zone, fewer {what} ports, or one more "
        "zone"
    )


def _join(
    builder: FabricBuilder,
    joints: Joints,
    free: Sequence[Sequence[tuple[int, int]]],
    ports: SwitchPorts,
    leaf_speed: LinkSpeed,
    level: int,
) -> None:
    """Cable the joints: consecutive kept ports of a zone go to the joints in turn."""
    keys = add_switches(builder, ports, joints.count, "joint", role=Role.JOINT, level=level, zone=-1)
    next_port = [1] * joints.count
    for zone in free:
        for index, (leaf, port) in enumerate(zone):
            joint = index % joints.count
            builder.link(leaf, port, keys[joint], next_port[joint], slower(ports.speed, leaf_speed))
            next_port[joint] += 1


def _link_directly(builder: FabricBuilder, free: Sequence[Sequence[tuple[int, int]]], speed: LinkSpeed) -> None:
    """Cable leaves to leaves: consecutive kept ports of a zone go to the other zones in turn."""
    others = len(free) - 1
    for a in range(len(free)):
        for b in range(a + 1, len(free)):
            for k in range(len(free[a]) // others):  # a is the a-th of b's others, b the (b - 1)-th of a's
                builder.link(*free[a][k * others + b - 1], *free[b][k * others + a], speed)
