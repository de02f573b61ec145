"""Groups of switches that are linked to each other: BiGraph, Dragonfly and Dragonfly+.

BiGraph, Dong et al., "EFLOPS", HPCA 2020: two sides, fully linked, hosts on both. Hosts on opposite sides have exactly
one shortest path, and no path has more than three switches. Under halving-doubling with its rank mapping each flow has
a link of its own (`simulate.traffic.placement`). Dragonfly, Kim et al., "Technology-Driven, Highly-Scalable Dragonfly
Topology", ISCA 2008: groups of switches that are fully linked within. Dragonfly+, Shpiner et al., "Dragonfly+: Low Cost
Topology for Scaling Datacenters", HiPINEB 2017: the group is a fat-tree of two levels whose spines have the links
between groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog.load import Catalog
from topo.fabric import Fabric, Role
from topo.shapes.base import (
    HostGroup,
    ShapeModel,
    SwitchPorts,
    add_switches,
    attach_alike,
    link_in_order,
    require_ports,
)
from topo.spec.base import SwitchName
from topo.speeds import LinkSpeed

GroupCount = Annotated[int, Field(ge=1, le=1_000)]


class BiGraph(ShapeModel):
    """Two sides, fully linked to each other."""

    shape: Literal["bigraph"]
    switch: SwitchName
    """Model of every switch."""
    side: Annotated[int, Field(ge=1, le=127)]
    """Switches of each side."""
    parallel: Annotated[int, Field(ge=1, le=127)] = 1
    """Links between each two switches of opposite sides."""

    layout: ClassVar[str] = "sides"

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a BiGraph; side 0 and side 1 are its zones, and all switches are leaves."""
        ports = SwitchPorts(catalog, self.switch)
        across = self.side * self.parallel
        most = (ports.radix - 1) // self.parallel
        terms = f"{self.side} switches of the other side x {self.parallel} links + 1 port for hosts"
        ports.require(across + 1, terms, f"Take at most {most} switches a side")
        builder = self.builder(name)
        lower = add_switches(builder, ports, self.side, "lower", zone=0)
        upper = add_switches(builder, ports, self.side, "upper", zone=1)
        attach_alike(builder, [*lower, *upper], ports.radix - across, groups, ports.speed)
        pairs = ((a, b) for a, b in product(lower, upper) for _ in range(self.parallel))
        link_in_order(builder, pairs, ports.radix - across + 1, ports.speed)
        return (builder.build(),)


class Dragonfly(ShapeModel):
    """Groups of fully linked switches."""

    shape: Literal["dragonfly"]
    switch: SwitchName
    """Model of every switch."""
    groups: GroupCount
    """Groups (g)."""
    switches: GroupCount
    """Switches of a group (a)."""
    hosts: GroupCount
    """Host ports of a switch (p)."""
    global_links: GroupCount
    """Links of a switch to other groups (h)."""

    layout: ClassVar[str] = "groups"

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a Dragonfly; its groups are its zones."""
        ports = SwitchPorts(catalog, self.switch)
        near = self.switches - 1
        terms = f"{self.hosts} hosts + {near} links within the group + {self.global_links} global links"
        ports.require(self.hosts + near + self.global_links, terms, "Take fewer of one of them, or a larger switch")
        _require_a_link_to_each(self.groups, self.switches, self.global_links)
        builder = self.builder(name)
        members = [
            add_switches(builder, ports, self.switches, f"g{group}-leaf", zone=group) for group in range(self.groups)
        ]
        attach_alike(builder, [switch for group in members for switch in group], self.hosts, groups, ports.speed)
        for group in members:
            link_in_order(builder, combinations(group, 2), self.hosts + 1, ports.speed)
        _link_groups(builder, members, self.global_links, self.hosts + self.switches, ports.speed)
        return (builder.build(),)


class DragonflyPlus(ShapeModel):
    """Groups that are fat-trees of two levels, linked to each other by their spines."""

    shape: Literal["dragonfly+"]
    switch: SwitchName
    """Model of every switch."""
    groups: GroupCount
    """Groups."""
    leaves: GroupCount
    """Leaves of a group, each linked to each of its spines."""
    spines: GroupCount
    """Spines of a group."""
    hosts: GroupCount
    """Host ports of a leaf."""
    global_links: GroupCount
    """Links of a spine to other groups."""

    layout: ClassVar[str] = "groups"

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a Dragonfly+; its groups are its zones."""
        ports = SwitchPorts(catalog, self.switch)
        advice = "Take fewer of one of them, or a larger switch"
        ports.require(self.hosts + self.spines, f"{self.hosts} hosts + {self.spines} uplinks of a leaf", advice)
        terms = f"{self.leaves} leaves + {self.global_links} global links of a spine"
        ports.require(self.leaves + self.global_links, terms, advice)
        _require_a_link_to_each(self.groups, self.spines, self.global_links)
        builder = self.builder(name)
        leaves: list[int] = []
        spines = []
        for group in range(self.groups):
            lower = add_switches(builder, ports, self.leaves, f"g{group}-leaf", zone=group)
            upper = add_switches(builder, ports, self.spines, f"g{group}-spine", role=Role.SPINE, level=2, zone=group)
            for (a, leaf), (b, spine) in product(enumerate(lower), enumerate(upper)):
                builder.link(leaf, self.hosts + b + 1, spine, a + 1, ports.speed)
            leaves.extend(lower)
            spines.append(upper)
        attach_alike(builder, leaves, self.hosts, groups, ports.speed)
        _link_groups(builder, spines, self.global_links, self.leaves + 1, ports.speed)
        return (builder.build(),)


def _require_a_link_to_each(groups: int, switches: int, links: int) -> None:
    """Refuse groups that have not a link to every other one."""
    total = switches * links
    require_ports(
        groups - 1,
        total,
        f"{groups} groups have links to {groups - 1} others",
        f"{switches} switches x {links} global links = {total} of a group",
        f"Take at most {total + 1} groups, or more global links",
        "links",
    )


def _link_groups(
    builder: FabricBuilder, members: Sequence[Sequence[int]], links: int, first_port: int, speed: LinkSpeed
) -> None:
    """Link each two groups equally often, and those that are near one another in the circle once more for what is left.

    Global port q of a group (switch q // links, port q % links) leads to the group q modulo the others further on, so
    that the links of a switch go to different groups, and equal numbers of a group's ports to each. Ports that are left
    over go in pairs to the groups 1, 2, ... before and behind; a last one to the group opposite, if there is one, and
    else it stays free.
    """
    n = len(members)
    if n < 2:
        return
    per_pair, left = divmod(len(members[0]) * links, n - 1)
    pairs = [
        (a, b - a - 1 + k * (n - 1), b, (a - b - 1) % n + k * (n - 1))
        for (a, b), k in product(combinations(range(n), 2), range(per_pair))
    ]
    first = per_pair * (n - 1)
    near = range(1, left // 2 + 1)
    pairs += [(a, first + 2 * (d - 1), (a + d) % n, first + 2 * (d - 1) + 1) for a, d in product(range(n), near)]
    if left % 2 and n % 2 == 0:
        pairs += [(a, first + left - 1, a + n // 2, first + left - 1) for a in range(n // 2)]
    for a, port_a, b, port_b in pairs:
        builder.link(
            members[a][port_a // links],
            first_port + port_a % links,
            members[b][port_b // links],
            first_port + port_b % links,
            speed,
        )
