"""Grafts: leaves of another kind on free ports of a fast tree, for slower or older nodes (sketch: docs/shapes.md).

High-Flyer's own routing carries "low-speed subtrees" on its fat-tree (GTC 2023); how they are built is not published.
A grafted leaf may be of another model and generation, split its node ports in two (HDR100), and have few uplinks.
Grafted leaves must reach each other, too. Two of them that are linked to more than half of the spines of a pod each
have a spine in common; where some are linked to fewer, all take the same spines, from the first one on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.builder import FabricBuilder
from topo.catalog.load import Catalog
from topo.errors import DesignError
from topo.shapes.base import (
    Box,
    HostGroup,
    SwitchPorts,
    add_switches,
    attach_hosts,
    place_adapters,
    ports_wanted,
    require_ports,
)
from topo.spec.base import GroupName, SpecModel, SwitchName
from topo.speeds import LinkSpeed, slower


class Graft(SpecModel):
    """Leaves of another kind on free ports of a tree, and the nodes that hang on them."""

    nodes: Annotated[tuple[GroupName, ...], Field(min_length=1, max_length=100, strict=False)]
    """Node groups that are connected here, and nowhere else on the tree."""
    switch: SwitchName
    """Model of the grafted leaves."""
    uplinks: Annotated[int, Field(ge=1, le=253)]
    """Uplinks of each grafted leaf, which stay whole where its other ports are split."""
    onto: Literal["spines", "leaves"] = "spines"
    """``spines``: on free ports of the spines, beside the leaves. ``leaves``: on leaf ports, in place of nodes."""
    split: bool = False
    """Whether each port towards nodes is split in two of half the width: HDR100 out of HDR."""
    leaves: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """Grafted leaves; by default as many as the nodes need."""


@dataclass(frozen=True)
class SizedGraft:
    """A graft in numbers."""

    graft: Graft
    number: int
    """Which graft of its tree it is; switches are named after it."""
    rails: tuple[HostGroup, ...]
    leaves: int
    down: int
    """Ports of each leaf for nodes."""
    ports: SwitchPorts

    @property
    def links(self) -> int:
        """Uplinks of all its leaves."""
        return self.leaves * self.graft.uplinks


Pods = Sequence[Sequence[Box]]
"""Pod by pod, spine by spine: the free ports."""


def size_grafts(
    grafts: Sequence[Graft], rails: Sequence[HostGroup], catalog: Catalog
) -> tuple[list[HostGroup], list[SizedGraft]]:
    """Work out the grafts of a tree: return what hangs on the tree itself, and the grafts with what hangs on them.

    DesignError for a group that would hang on two grafts, and for a grafted leaf with too few ports.
    """
    owner: dict[str, int] = {}
    for number, graft in enumerate(grafts):
        for name in graft.nodes:
            if name in owner:
                raise DesignError(f"{name} hangs on graft {owner[name]} and on graft {number}: name it in one of them")
            owner[name] = number
    own = [rail for rail in rails if rail.name not in owner]
    mine = [tuple(rail for rail in rails if owner.get(rail.name) == number) for number in range(len(grafts))]
    return own, [_size(graft, number, mine[number], catalog) for number, graft in enumerate(grafts)]


def links_onto(grafts: Iterable[SizedGraft], what: Literal["spines", "leaves"]) -> int:
    """Count the links of grafts onto the spines or onto the leaves of their tree."""
    return sum(graft.links for graft in grafts if graft.graft.onto == what)


def add_grafts(
    builder: FabricBuilder,
    grafts: Sequence[SizedGraft],
    pods: Pods,
    leaf_ports: Iterable[tuple[int, int]],
    speeds: Mapping[str, LinkSpeed],
    *,
    zone: int,
    prefix: str,
    level: int,
) -> None:
    """Add grafted leaves with their nodes and uplinks; those on spines at ``level``, those on leaf ports at level 1.

    They take ports of ``pods``, and the ``leaf_ports`` in turn, which have the ``speeds`` of ``spines`` and ``leaves``.
    A DesignError for too few free ports of spines has the arithmetic.
    """
    on_spines = _spread_over_spines([graft for graft in grafts if graft.graft.onto == "spines"], pods)
    free = {"spines": on_spines, "leaves": iter(leaf_ports)}
    for sized in grafts:
        graft, ports = sized.graft, sized.ports
        leaves = add_switches(
            builder,
            ports,
            sized.leaves,
            f"{prefix}graft{sized.number}-leaf",
            level=1 if graft.onto == "leaves" else level,
            zone=zone,
            radix=ports.numbered(sized.down),
        )
        places = place_adapters(sized.rails, np.full(len(leaves), sized.down))
        attach_hosts(builder, leaves, sized.rails, places, ports.node_speed)
        speed, first = slower(ports.uplink_speed, speeds[graft.onto]), ports.first_uplink(sized.down)
        for leaf, up in product(leaves, range(graft.uplinks)):
            builder.link(leaf, first + up, *next(free[graft.onto]), speed)


def _size(graft: Graft, number: int, rails: tuple[HostGroup, ...], catalog: Catalog) -> SizedGraft:
    ports = SwitchPorts(catalog, graft.switch, split="nodes" if graft.split else False, leaf=True)
    if ports.uplinks:
        have = f"a {ports.name} has {ports.uplinks} for uplinks"
        require_ports(graft.uplinks, ports.uplinks, f"graft {number}: {graft.uplinks} uplinks", have, "Take fewer")
    terms = f"graft {number}: {graft.uplinks} uplinks + 1 port for nodes"
    taken = 0 if ports.uplinks else graft.uplinks  # of the ports that nodes could have
    ports.require(taken + 1, terms, f"Take at most {ports.radix - 1} uplinks")
    down = (ports.radix - taken) * ports.parts
    wanted = sum(rail.count for rail in rails)
    leaves = graft.leaves or -(-wanted // down)
    require_ports(
        wanted,
        leaves * down,
        f"graft {number}: {ports_wanted(rails)}",
        f"{leaves} leaves x {down} = {leaves * down:,}",
        f"Take {-(-wanted // down)} leaves or fewer uplinks",
    )
    return SizedGraft(graft, number, rails, leaves, down, ports)


def _spread_over_spines(grafts: Sequence[SizedGraft], pods: Pods) -> Iterator[tuple[int, int]]:
    """Spread the uplinks of all grafted leaves round-robin over the free ports of spines, in order.

    A leaf hangs in one pod, the one with most free ports. Its uplinks go to consecutive spines: from where the last
    leaf ended, or from the first spine where leaves would else have none in common.
    """
    spines = len(pods[0])
    wanted = [graft.graft.uplinks for graft in grafts for _ in range(graft.leaves)]
    shared = 2 * min(wanted, default=spines) <= spines
    left = [[deque(ports) for ports in pod] for pod in pods]
    begin = [0] * len(pods)
    taken: list[tuple[int, int]] = []
    for uplinks in wanted:
        pod = max(range(len(pods)), key=lambda number: sum(map(len, left[number])))
        for up in range(uplinks):
            free = left[pod][(begin[pod] + up) % spines]
            if not free:
                raise DesignError(_no_port(grafts, pods, shared))
            taken.append(free.popleft())
        begin[pod] = 0 if shared else (begin[pod] + uplinks) % spines
    return iter(taken)


def _no_port(grafts: Sequence[SizedGraft], pods: Pods, shared: bool) -> str:
    """Say why grafted leaves find no free port on the spines."""
    spines = len(pods[0])
    links = " + ".join(f"{graft.leaves} leaves x {graft.graft.uplinks}" for graft in grafts if graft.leaves)
    free = [len(pod[0]) for pod in pods]
    ports = " + ".join(f"{spines} spines x {count}" for count in sorted(free, reverse=True) if count) or "0"
    text = (
        f"grafts onto spines: {links} = {links_onto(grafts, 'spines')} links, and the spines have "
        f"{ports}{f' = {spines * sum(free)}' if sum(free) else ''} ports free"
    )
    if shared:
        few = min(graft.graft.uplinks for graft in grafts if graft.leaves)
        text += (
            f". Leaves with {few} uplinks to {spines} spines must all take the same ones to reach each other: "
            f"{sum(free)} such leaves fit, or give them more than {spines // 2} uplinks"
        )
    return f"{text}. Take fewer leaves in the tree, fewer uplinks, a larger spine, or `onto: leaves`"
