"""Dragonfly and Dragonfly+: groups of switches, each group linked to every other.

Kim et al., "Technology-Driven, Highly-Scalable Dragonfly Topology", ISCA 2008: groups of switches that are fully
linked within. Shpiner et al., "Dragonfly+: Low Cost Topology for Scaling Datacenters", HiPINEB 2017: the group is a
fat-tree of two levels whose spines have the links between groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.hardware.speeds import LinkSpeed
from topo.shapes.hosts import HostGroup, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.spec.base import SpecModel, SwitchName

Count = Annotated[int, Field(ge=1, le=1_000)]


class Dragonfly(SpecModel):
    """Groups of fully linked switches."""

    shape: Literal["dragonfly"]
    switch: SwitchName
    """Model of every switch."""
    groups: Count
    """Groups (g)."""
    switches: Count
    """Switches of a group (a)."""
    hosts: Count
    """Host ports of a switch (p)."""
    global_links: Count
    """Links of a switch to other groups (h)."""


class DragonflyPlus(SpecModel):
    """Groups that are fat-trees of two levels, linked to each other by their spines."""

    shape: Literal["dragonfly+"]
    switch: SwitchName
    """Model of every switch."""
    groups: Count
    """Groups."""
    leaves: Count
    """Leaves of a group, each linked to each of its spines."""
    spines: Count
    """Spines of a group."""
    hosts: Count
    """Host ports of a leaf."""
    global_links: Count
    """Links of a spine to other groups."""


def compile_dragonfly(shape: Dragonfly, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a Dragonfly; its groups are its zones.

    Raises
    ------
    DesignError
        When ports run out, or the links between groups do not divide evenly.
    """
    ports = switch_ports(catalog, shape.switch)
    wanted = shape.hosts + shape.switches - 1 + shape.global_links
    if wanted > ports.radix:
        raise DesignError(
            f"{shape.hosts} hosts + {shape.switches - 1} links within the group + {shape.global_links} global links = "
            f"{wanted} ports, and a {shape.switch} has {ports.radix}"
        )
    _check_global(shape.groups, shape.switches, shape.global_links)
    rails = [rail for group in groups for rail in each_adapter(group)]
    refuse_overflow(rails, shape.groups * shape.switches, shape.hosts)
    builder = FabricBuilder(name)
    members = [
        add_switches(builder, ports, shape.switches, f"g{group}-leaf", role=Role.LEAF, level=1, zone=group)
        for group in range(shape.groups)
    ]
    everyone = [switch for group in members for switch in group]
    seat(builder, everyone, np.full(len(everyone), shape.hosts), rails, ports.speed)
    first_local = shape.hosts + 1
    for group in members:
        for a in range(shape.switches):
            for b in range(a + 1, shape.switches):  # a's ports skip a itself
                builder.link(group[a], first_local + b - 1, group[b], first_local + a, ports.speed)
    _link_groups(builder, members, shape.global_links, shape.hosts + shape.switches, ports.speed)
    return (builder.build(),)


def compile_dragonfly_plus(
    shape: DragonflyPlus, groups: Sequence[HostGroup], catalog: Catalog, name: str
) -> tuple[Fabric, ...]:
    """Compile a Dragonfly+; its groups are its zones.

    Raises
    ------
    DesignError
        When ports run out, or the links between groups do not divide evenly.
    """
    ports = switch_ports(catalog, shape.switch)
    for what, wanted in (
        (f"{shape.hosts} hosts + {shape.spines} uplinks of a leaf", shape.hosts + shape.spines),
        (f"{shape.leaves} leaves + {shape.global_links} global links of a spine", shape.leaves + shape.global_links),
    ):
        if wanted > ports.radix:
            raise DesignError(f"{what} = {wanted} ports, and a {shape.switch} has {ports.radix}")
    _check_global(shape.groups, shape.spines, shape.global_links)
    rails = [rail for group in groups for rail in each_adapter(group)]
    refuse_overflow(rails, shape.groups * shape.leaves, shape.hosts)
    builder = FabricBuilder(name)
    leaves: list[int] = []
    spines = []
    for group in range(shape.groups):
        lower = add_switches(builder, ports, shape.leaves, f"g{group}-leaf", role=Role.LEAF, level=1, zone=group)
        upper = add_switches(builder, ports, shape.spines, f"g{group}-spine", role=Role.SPINE, level=2, zone=group)
        for a, leaf in enumerate(lower):
            for b, spine in enumerate(upper):
                builder.link(leaf, shape.hosts + b + 1, spine, a + 1, ports.speed)
        leaves.extend(lower)
        spines.append(upper)
    seat(builder, leaves, np.full(len(leaves), shape.hosts), rails, ports.speed)
    _link_groups(builder, spines, shape.global_links, shape.leaves + 1, ports.speed)
    return (builder.build(),)


def _check_global(groups: int, switches: int, links: int) -> None:
    """Refuse links between groups that would not reach every other group equally often."""
    total = switches * links
    if groups > 1 and total % (groups - 1):
        near = [n for n in range(2, total + 2) if total % (n - 1) == 0]
        near.sort(key=lambda n: (abs(n - groups), n))
        raise DesignError(
            f"{switches} switches x {links} global links = {total} of a group do not divide over {groups - 1} other "
            f"groups: {', '.join(map(str, sorted(near[:3])))} groups would do"
        )


def _link_groups(
    builder: FabricBuilder, members: Sequence[Sequence[int]], links: int, first_port: int, speed: LinkSpeed
) -> None:
    """Link each two groups equally often.

    Global port q of a group (switch q // links, port q % links) leads to the group q modulo the others further on, so
    that the links of a switch go to different groups, and equal numbers of a group's ports to each.
    """
    n = len(members)
    if n < 2:
        return
    per_pair = len(members[0]) * links // (n - 1)
    for a in range(n):
        for b in range(a + 1, n):
            for k in range(per_pair):
                port_a, port_b = (b - a - 1) + k * (n - 1), (a - b - 1) % n + k * (n - 1)
                builder.link(
                    members[a][port_a // links],
                    first_port + port_a % links,
                    members[b][port_b // links],
                    first_port + port_b % links,
                    speed,
                )
