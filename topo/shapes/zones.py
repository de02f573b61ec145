"""Several fat-trees, each whole in itself, joined over ports of their leaves: by switches or by cables alone.

High-Flyer's Fire-Flyer 2 (An et al., SC'24, section III-B) has two such zones. How its joining ports lie on the leaves
is not published: `Joints.placement` offers both readings. Cables without a switch between (`Direct`) save the joints,
and each pair of zones has its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from topo.builder import FabricBuilder
from topo.catalog.load import Catalog
from topo.errors import DesignError, Findings
from topo.fabric import Fabric, Role
from topo.shapes.base import (
    HostGroup,
    ShapeModel,
    SwitchPorts,
    add_switches,
    each_adapter,
    ports_wanted,
    refuse_uneven,
    require_ports,
)
from topo.shapes.fat_tree import FatTree, TreeSize, add_tree, base_level
from topo.shapes.graft import SizedGraft, links_onto, size_grafts
from topo.spec.base import GroupName, SpecModel, SwitchName, mismatch
from topo.speeds import LinkSpeed, slower

Placement = Literal["border", "spread"]


class Joints(SpecModel):
    """Switches that join the zones."""

    switch: SwitchName
    """Model of the joints."""
    count: Annotated[int, Field(gt=0, le=1_000)]
    """Joints; each is linked to every zone."""
    ports: Annotated[int, Field(gt=0, le=10_000)] | None = None
    """Total number of leaf ports of each zone that lead to the joints; by default as many as the joints have for it."""
    placement: Placement = "spread"
    """``border``: gathered on leaves that hold no hosts. ``spread``: over all leaves, beside their hosts."""


class Direct(SpecModel):
    """Cables from leaves of one zone to leaves of another, with no switch between."""

    ports: Annotated[int, Field(gt=0, le=10_000)]
    """Leaf ports of each zone for direct links, divided equally among the other zones."""
    placement: Placement = "spread"
    """``border``: gathered on leaves that hold no hosts. ``spread``: over all leaves, beside their hosts."""


class Zones(ShapeModel):
    """Fat-trees side by side, nodes that hang in one of them or in all, and joints or cables between them."""

    shape: Literal["zones"]
    zones: Annotated[int, Field(ge=2, le=100)]
    """Number of zones."""
    tree: FatTree
    """The tree of each zone."""
    shared: tuple[GroupName, ...] = Field(default=(), strict=False)
    """Node groups with an adapter in every zone; the others are divided over the zones evenly."""
    joints: Joints | None = None
    """Switches between the zones."""
    direct: Direct | None = None
    """Cables between the zones' leaves instead of joints."""

    @model_validator(mode="after")
    def _joined_in_one_way(self) -> Self:
        if (self.joints is None) == (self.direct is None):
            found = "neither `joints` nor `direct`" if self.joints is None else "both `joints` and `direct`"
            raise mismatch("one of them, to say how the zones are joined", found)
        return self

    @property
    def between(self) -> Joints | Direct:
        """How the zones are joined."""
        between = self.joints or self.direct
        assert between is not None
        return between

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile joined fat-trees into one fabric."""
        between = self.between
        findings, ports = Findings(), between.ports or 1
        with findings.under("joints" if self.joints else "direct"):
            ports = self._joining_ports(catalog)
        zones: list[tuple[list[HostGroup], list[SizedGraft]]] = []
        with findings.under():
            by_zone = adapters_by_zone(groups, self.zones, self.shared)
            zones = [size_grafts(self.tree.grafts, rails, catalog) for rails in by_zone]
        if not zones:
            findings.refuse()
        most = max(sum(rail.count for rail in own) + links_onto(grafts, "leaves") for own, grafts in zones)
        onto_spines = max(links_onto(grafts, "spines") for _, grafts in zones)
        with findings.under("tree"):
            size = self.tree.size(most + ports, catalog, grafted=onto_spines)
            if between.placement == "border":  # whole leaves
                size = self.tree.size(most + -(-ports // size.down) * size.down, catalog, grafted=onto_spines)
        findings.refuse()
        kept = kept_ports(between.placement, ports, size.leaves, size.down)
        for zone, (own, grafts) in enumerate(zones):
            _require_leaf_ports(zone, own, links_onto(grafts, "leaves"), between, ports, size, kept)

        builder, free = self.builder(name), []
        for zone, (own, grafts) in enumerate(zones):
            added = add_tree(
                builder, self.tree, size, own, catalog, grafts=grafts, kept=kept, zone=zone, prefix=f"z{zone}-"
            )
            free.append(added[:ports])
        leaf_speed = SwitchPorts(catalog, self.tree.switch, split=self.tree.split, leaf=True, frame=True).node_speed
        if self.joints:
            level = 1 + max(base_level(grafts) for _, grafts in zones)
            _link_joints(builder, self.joints, free, SwitchPorts(catalog, self.joints.switch), leaf_speed, level)
        else:
            _link_directly(builder, free, leaf_speed)
        return (builder.build(),)

    def _joining_ports(self, catalog: Catalog) -> int:
        """Return the leaf ports of each zone that join it to others; refuse those that the joints cannot take."""
        if self.joints is None:
            ports = self.between.ports or 0
            _require_even(ports, self.zones - 1, "other zones")
            return ports
        count, switch = self.joints.count, SwitchPorts(catalog, self.joints.switch)
        ports = self.joints.ports or count * max(switch.radix // self.zones, 1)
        _require_even(ports, count, "joints")
        each, enough = ports // count, -(-self.zones * ports // switch.radix)
        asked = f"a joint links {self.zones} zones x {each}"
        switch.require(self.zones * each, asked, f"Take {enough} joints, or fewer ports")
        return ports


def adapters_by_zone(groups: Sequence[HostGroup], zones: int, shared: Sequence[str]) -> list[list[HostGroup]]:
    """Return what hangs in each zone: a part of each group, or one adapter of each server of a ``shared`` group."""
    found: list[list[HostGroup]] = [[] for _ in range(zones)]
    for group in groups:
        if group.name in shared and group.adapters != zones:
            raise DesignError(
                f"{group.name} ({group.model}) has {group.adapters} adapters and is shared by {zones} zones: it needs "
                "one in each"
            )
        for zone, part in enumerate(group.divide(zones)):
            one = replace(group, device=group.device + zone)
            found[zone] += [one] if group.name in shared else each_adapter([part])
    return found


def _require_even(ports: int, parts: int, what: str) -> None:
    if ports % parts:
        near = [count for count in (ports // parts * parts, -(-ports // parts) * parts) if count]
        refuse_uneven(f"{ports} leaf ports of a zone", f"{parts} {what}", near)


def kept_ports(placement: Placement, ports: int, leaves: int, down: int) -> NDArray[np.int64]:
    """Return (leaves,) how many of its ``down`` ports hosts may not use on each leaf of a zone."""
    if placement == "border":
        return np.where(np.arange(leaves) >= leaves - -(-ports // down), down, 0)
    return np.diff(np.arange(leaves + 1) * ports // leaves)


def _require_leaf_ports(
    zone: int,
    rails: Sequence[HostGroup],
    grafted: int,
    between: Joints | Direct,
    ports: int,
    size: TreeSize,
    kept: NDArray[np.int64],
) -> None:
    """Refuse a zone whose nodes, grafts and joining ports are more than its leaves have ports for."""
    total, in_all = size.leaves * size.down, int(kept.sum())
    what = "joint" if isinstance(between, Joints) else "direct"
    joining = f"{ports} {what} ports"
    if between.placement == "border" and in_all > ports:
        joining = f"{in_all} ports of {in_all // size.down} border leaves"
    wanted = sum(rail.count for rail in rails) + grafted + max(in_all, ports)
    require_ports(
        wanted,
        total,
        f"zone {zone}: {ports_wanted(rails)} + {f'{grafted} for grafts + ' if grafted else ''}{joining}",
        f"{size.leaves} leaves x {size.down} = {total:,}",
        f"Take {-(-wanted // size.down)} leaves a zone, at most {max(total - in_all - grafted, 0)} node ports a zone, "
        f"fewer {what} ports, or one more zone",
        "leaf ports",
    )


def _link_joints(
    builder: FabricBuilder,
    joints: Joints,
    free: Sequence[Sequence[tuple[int, int]]],
    ports: SwitchPorts,
    leaf_speed: LinkSpeed,
    level: int,
) -> None:
    """Cable the joints: consecutive kept ports of a zone go to the joints in turn."""
    keys = add_switches(builder, ports, joints.count, "joint", role=Role.JOINT, level=level, zone=-1)
    for zone, mine in enumerate(free):
        each = len(mine) // joints.count
        for index, (leaf, port) in enumerate(mine):
            turn, joint = divmod(index, joints.count)
            builder.link(leaf, port, keys[joint], zone * each + turn + 1, slower(ports.speed, leaf_speed))


def _link_directly(builder: FabricBuilder, free: Sequence[Sequence[tuple[int, int]]], speed: LinkSpeed) -> None:
    """Cable leaves to leaves: consecutive kept ports of a zone go to the other zones in turn."""
    others = len(free) - 1
    for a, b in combinations(range(len(free)), 2):
        for k in range(len(free[a]) // others):  # a is the a-th of b's others, b the (b - 1)-th of a's
            builder.link(*free[a][k * others + b - 1], *free[b][k * others + a], speed)
