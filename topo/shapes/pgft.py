"""Parallel-ports generalised fat-trees by their published parameters: PGFT(h; m1..mh; w1..wh; p1..ph).

Zahavi, "D-Mod-K routing providing non-blocking traffic for shift permutations on real life fat trees", CCIT 776, 2010.
A switch of level l has m_l children and w_(l+1) parents, with p_(l+1) links to each parent. With p all 1 it is an
XGFT (Oehring et al., 1995); with m = (k, ..., k), w = (1, k, ..., k) a k-ary n-tree (Petrini and Vanneschi, 1997).
Hosts are level 0; here each has one port, so w1 = p1 = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from topo.builder import FabricBuilder
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.hardware.catalog import Catalog
from topo.shapes.hosts import HostGroup, each_adapter
from topo.shapes.seating import add_switches, refuse_overflow, seat, switch_ports
from topo.spec.base import SpecModel, SwitchName

Arity = Annotated[int, Field(ge=1, le=254)]
Arities = Annotated[tuple[Arity, ...], Field(min_length=1, max_length=6, strict=False)]

LEVEL_ROLES = {1: Role.LEAF, 2: Role.SPINE}
"""Roles of the lower levels; all above are cores."""


class Pgft(SpecModel):
    """PGFT(h; m; w; p), an XGFT when ``p`` is left out."""

    shape: Literal["pgft"]
    switch: SwitchName
    """Model of every switch."""
    m: Arities
    """Children of a switch, level by level from the leaves."""
    w: Arities
    """Parents of a node, level by level from the hosts; the first is 1."""
    p: Arities | None = None
    """Links to each parent, level by level from the hosts; the first is 1."""


class KaryTree(SpecModel):
    """A k-ary n-tree: n levels of switches with k ports down and k up."""

    shape: Literal["k-ary-n-tree"]
    switch: SwitchName
    """Model of every switch."""
    k: Annotated[int, Field(ge=2, le=127)]
    """Ports down, and ports up, of each switch."""
    n: Annotated[int, Field(ge=1, le=6)]
    """Levels of switches."""


def compile_kary_tree(tree: KaryTree, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a k-ary n-tree; see `compile_pgft`."""
    m = (tree.k,) * tree.n
    w = (1, *(tree.k,) * (tree.n - 1))
    return compile_pgft(Pgft(shape="pgft", switch=tree.switch, m=m, w=w), groups, catalog, name)


def compile_pgft(tree: Pgft, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
    """Compile a PGFT with every adapter of every group on its leaves.

    A switch of level l is the tuple (a_h, ..., a_(l+1), b_l, ..., b_1): its parents share all digits but a_(l+1), which
    gives way to b_(l+1).

    Raises
    ------
    DesignError
        When the parameters do not fit each other, the switch or the nodes.
    """
    h, m, w = len(tree.m), tree.m, tree.w
    p = tree.p or (1,) * h
    ports = switch_ports(catalog, tree.switch)
    _check(m, w, p, ports.radix, tree.switch)
    rails = [rail for group in groups for rail in each_adapter(group)]
    n_leaves = prod(m[1:]) * w[0]
    refuse_overflow(rails, n_leaves, m[0])
    builder = FabricBuilder(name)
    keys: list[dict[tuple[int, ...], int]] = []
    for level in range(1, h + 1):
        digits = [range(m[i]) for i in range(h - 1, level - 1, -1)] + [range(w[i]) for i in range(level - 1, -1, -1)]
        labels = list(product(*digits))
        role = LEVEL_ROLES.get(level, Role.CORE)
        stem = f"{role.name.lower()}-" if level <= 3 else f"core{level}-"
        keys.append(
            dict(zip(labels, add_switches(builder, ports, len(labels), stem, role=role, level=level), strict=True))
        )
    leaves = list(keys[0].values())
    seat(builder, leaves, np.full(len(leaves), m[0]), rails, ports.speed)
    for level in range(1, h):
        position = h - 1 - level  # of digit a_(l+1) in a label of level l
        for label, key in keys[level - 1].items():
            child = label[position]
            for parent in range(w[level]):
                above = (*label[:position], parent, *label[position + 1 :])
                upper = keys[level][above]
                for link in range(p[level]):
                    up = m[level - 1] * p[level - 1] + parent * p[level] + link + 1
                    builder.link(key, up, upper, child * p[level] + link + 1, ports.speed)
    return (builder.build(),)


def _check(m: Sequence[int], w: Sequence[int], p: Sequence[int], radix: int, switch: str) -> None:
    if not len(m) == len(w) == len(p):
        raise DesignError(f"m, w and p have {len(m)}, {len(w)} and {len(p)} numbers: each needs one a level")
    if w[0] != 1 or p[0] != 1:
        raise DesignError(f"w begins with {w[0]} and p with {p[0]}: a host has one port here, so both begin with 1")
    for level in range(len(m)):
        down = m[level] * p[level]
        up = w[level + 1] * p[level + 1] if level + 1 < len(m) else 0
        if down + up > radix:
            raise DesignError(
                f"a switch of level {level + 1} has {m[level]} children x {p[level]} + {up} uplinks = {down + up} "
                f"ports, and a {switch} has {radix}: take m{level + 1} = {max((radix - up) // p[level], 0)}, "
                "or fewer parents"
            )
