"""Groups of switches that are linked to each other: BiGraph, Dragonfly and Dragonfly+.

BiGraph, Dong et al., "EFLOPS", HPCA 2020: two sides, fully linked, hosts on both. Hosts on opposite sides have exactly
one shortest path, and no path has more than three switches. Dragonfly, Kim et al., "Technology-Driven,
Highly-Scalable Dragonfly Topology", ISCA 2008: groups of switches that are fully linked within. Dragonfly+, Shpiner et
al., "Dragonfly+: Low Cost Topology for Scaling Datacenters", HiPINEB 2017: the group is a fat-tree of two levels whose
spines have the links between groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations, product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog.load import Catalog
from topo.errors import DesignError, plural
from topo.fabric import Fabric, Role
from topo.shapes.base import (
    Box,
    HostGroup,
    ShapeModel,
    Split,
    SwitchPorts,
    add_switches,
    attach_alike,
    link_in_order,
    require_ports,
)
from topo.spec.base import GroupName, SpecModel, SwitchName
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


class OtherGroups(SpecModel):
    """Further groups of another size, and the nodes that hang on them."""

    nodes: Annotated[tuple[GroupName, ...], Field(min_length=1, max_length=100, strict=False)]
    """Node groups that are connected here; all others hang on the groups of the shape itself."""
    groups: GroupCount
    """Groups of this size."""
    hosts: GroupCount
    """Host ports of a switch, or of a leaf."""
    global_links: GroupCount
    """Links of a switch, or of a spine, to other groups."""
    parallel: Annotated[int, Field(ge=1, le=127)] = 1
    """Links between each two switches of a group, or between each leaf and spine."""


class OtherDragonflyGroups(OtherGroups):
    """Further groups of a Dragonfly."""

    switches: GroupCount
    """Switches of a group."""


class OtherDragonflyPlusGroups(OtherGroups):
    """Further groups of a Dragonfly+."""

    leaves: GroupCount
    """Leaves of a group."""
    spines: GroupCount
    """Spines of a group."""


class _Grouped(ShapeModel):
    """Groups of switches of which each two are linked; a kind says what is inside one."""

    switch: SwitchName
    """Model of every switch."""
    split: Split = False
    """``true``: every port is split in two of half the width. ``nodes``: only ports towards nodes are."""
    groups: GroupCount
    """Groups (g)."""
    hosts: GroupCount
    """Host ports of a switch (p), or of a leaf."""
    global_links: GroupCount
    """Links to other groups of a switch (h), or of a spine."""
    parallel: Annotated[int, Field(ge=1, le=127)] = 1
    """Links between each two switches of a group, or between each leaf and each spine of a group."""

    between: Annotated[int, Field(ge=1, le=1_000)] | None = None
    """Links between each two groups; as many as the smallest group has for it when left out, and what is left then goes
    to near groups."""
    others: tuple[OtherGroups, ...] = ()
    """Further groups of other sizes."""

    layout: ClassVar[str] = "groups"

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile the groups, which are the zones of the fabric, and the links between each two of them."""
        ports = SwitchPorts(catalog, self.switch, split=self.split)
        builder = self.builder(name)
        named = [node for other in self.others for node in other.nodes]
        if twice := [node for node, times in Counter(named).items() if times > 1]:
            raise DesignError(f"{twice[0]} hangs on two kinds of `others`: name it in one of them", "others")
        ends: list[Box] = []
        kinds: list[tuple[Any, list[HostGroup]]] = [(self, [group for group in groups if group.name not in named])]
        kinds += [(other, [group for group in groups if group.name in other.nodes]) for other in self.others]
        for kind, mine in kinds:
            leaves: list[int] = []
            for _ in range(kind.groups):
                lower, border, first = self._add_group(builder, kind, ports, len(ends))
                leaves += lower
                ends.append([(key, first + link) for key in border for link in range(kind.global_links)])
            attach_alike(builder, leaves, kind.hosts, mine, ports.node_speed)
        _link_groups(builder, ends, self.between, ports.speed)
        return (builder.build(),)

    def _add_group(
        self, builder: FabricBuilder, kind: Any, ports: SwitchPorts, zone: int
    ) -> tuple[list[int], list[int], int]:
        """Add a group; return the switches with hosts, those with links to other groups, and their first such port.

        DesignError where its switches have not enough ports.
        """
        raise NotImplementedError


class Dragonfly(_Grouped):
    """Groups of fully linked switches."""

    shape: Literal["dragonfly"]
    switches: GroupCount
    """Switches of a group (a)."""
    others: Annotated[tuple[OtherDragonflyGroups, ...], Field(max_length=8, strict=False)] = ()
    """Further groups of other sizes."""

    def _add_group(
        self, builder: FabricBuilder, kind: Dragonfly | OtherDragonflyGroups, ports: SwitchPorts, zone: int
    ) -> tuple[list[int], list[int], int]:
        near = (kind.switches - 1) * kind.parallel
        terms = f"{_hosts(kind.hosts, ports)} + {near} links within the group + {kind.global_links} global links"
        ports.require(-(-kind.hosts // ports.parts) + near + kind.global_links, terms, ADVICE)
        numbered = ports.numbered(kind.hosts)
        group = add_switches(builder, ports, kind.switches, f"g{zone}-leaf", zone=zone, radix=numbered)
        pairs = [pair for pair in combinations(group, 2) for _ in range(kind.parallel)]
        link_in_order(builder, pairs, kind.hosts + 1, ports.speed)
        return group, group, kind.hosts + near + 1


class DragonflyPlus(_Grouped):
    """Groups that are fat-trees of two levels, linked to each other by their spines."""

    shape: Literal["dragonfly+"]
    leaves: GroupCount
    """Leaves of a group, each linked to each of its spines."""
    spines: GroupCount
    """Spines of a group."""
    others: Annotated[tuple[OtherDragonflyPlusGroups, ...], Field(max_length=8, strict=False)] = ()
    """Further groups of other sizes."""

    def _add_group(
        self, builder: FabricBuilder, kind: DragonflyPlus | OtherDragonflyPlusGroups, ports: SwitchPorts, zone: int
    ) -> tuple[list[int], list[int], int]:
        numbered, times = ports.numbered(kind.hosts), kind.parallel
        up, down = kind.spines * times, kind.leaves * times
        terms = f"{_hosts(kind.hosts, ports)} + {up} uplinks of a leaf"
        ports.require(-(-kind.hosts // ports.parts) + up, terms, ADVICE)
        terms = f"{down} links to leaves + {kind.global_links} global links of a spine"
        ports.require(down + kind.global_links, terms, ADVICE)
        lower = add_switches(builder, ports, kind.leaves, f"g{zone}-leaf", zone=zone, radix=numbered)
        upper = add_switches(builder, ports, kind.spines, f"g{zone}-spine", role=Role.SPINE, level=2, zone=zone)
        for (a, leaf), (b, spine), link in product(enumerate(lower), enumerate(upper), range(times)):
            builder.link(leaf, kind.hosts + b * times + link + 1, spine, a * times + link + 1, ports.speed)
        return lower, upper, down + 1


ADVICE = "Take fewer of one of them, or a larger switch"


def _hosts(hosts: int, ports: SwitchPorts) -> str:
    """Say how many ports hosts take: ``16 hosts``, ``64 hosts on 32 split ports``."""
    return f"{hosts} hosts" if ports.parts == 1 else f"{hosts} hosts on {-(-hosts // ports.parts)} split ports"


def _link_groups(builder: FabricBuilder, ends: Sequence[Box], between: int | None, speed: LinkSpeed) -> None:
    """Link each two groups equally often, and those that are near one another in the circle once more for what is left.

    The q-th global port of a group leads to the group q modulo the others further on, so that the links of a switch go
    to different groups, and equal numbers of a group's ports to each. Ports that are left over go in pairs to the
    groups 1, 2, ... before and behind; a last one to the group opposite, if there is one, and else it stays free. Where
    groups differ in size, what the smallest allows decides, and a larger one spreads these links over its switches.
    DesignError for groups without a link to every other one.
    """
    n = len(ends)
    if n < 2:
        return
    total = min(map(len, ends))
    each = between or 1
    require_ports(
        each * (n - 1),
        total,
        f"{n} groups have {plural(each, 'link')} to {n - 1} others",
        f"{total} of a group are global",
        f"Take at most {total // each + 1} groups, or more global links",
        "links",
    )
    per_pair, left = (between, 0) if between else divmod(total, n - 1)
    pairs = [
        (a, b - a - 1 + k * (n - 1), b, (a - b - 1) % n + k * (n - 1))
        for (a, b), k in product(combinations(range(n), 2), range(per_pair))
    ]
    first = used = per_pair * (n - 1)
    if between or any(len(mine) > total for mine in ends):
        ends = [[mine[q * len(mine) // used] for q in range(used)] for mine in ends]
        left = 0
    near = range(1, left // 2 + 1)
    pairs += [(a, first + 2 * (d - 1), (a + d) % n, first + 2 * (d - 1) + 1) for a, d in product(range(n), near)]
    if left % 2 and n % 2 == 0:
        pairs += [(a, first + left - 1, a + n // 2, first + left - 1) for a in range(n // 2)]
    for a, port_a, b, port_b in pairs:
        builder.link(*ends[a][port_a], *ends[b][port_b], speed)
