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

from pydantic import Field

from topo.catalog.load import Catalog
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.shapes.base import HostGroup, ShapeModel, SwitchPorts, add_switches, attach_alike
from topo.spec.base import SwitchName

Arity = Annotated[int, Field(ge=1, le=254)]
Arities = Annotated[tuple[Arity, ...], Field(min_length=1, max_length=6, strict=False)]


class Pgft(ShapeModel):
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

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a PGFT.

        A switch of level l is the tuple (a_h, ..., a_(l+1), b_l, ..., b_1): its parents share all digits but a_(l+1),
        which gives way to b_(l+1).
        """
        m, w, h = self.m, self.w, len(self.m)
        p, ports = self.p or (1,) * h, SwitchPorts(catalog, self.switch)
        _require_fit(m, w, p, ports)
        builder = self.builder(name)
        keys: list[dict[tuple[int, ...], int]] = []
        for level in range(1, h + 1):
            role = {1: Role.LEAF, 2: Role.SPINE}.get(level, Role.CORE)
            stem = f"{role.name.lower()}-" if level <= 3 else f"core{level}-"
            count = prod(m[level:]) * prod(w[:level])
            switches = add_switches(builder, ports, count, stem, role=role, level=level)
            labels = product(*map(range, m[: level - 1 : -1]), *map(range, w[level - 1 :: -1]))
            keys.append(dict(zip(labels, switches, strict=True)))
        attach_alike(builder, list(keys[0].values()), m[0], groups, ports.speed)
        for level in range(1, h):
            position = h - 1 - level  # of digit a_(l+1) in a label of level l
            for (label, key), parent, link in product(keys[level - 1].items(), range(w[level]), range(p[level])):
                upper = keys[level][*label[:position], parent, *label[position + 1 :]]
                up = m[level - 1] * p[level - 1] + parent * p[level] + link + 1
                builder.link(key, up, upper, label[position] * p[level] + link + 1, ports.speed)
        return (builder.build(),)


class KaryTree(ShapeModel):
    """A k-ary n-tree: n levels of switches with k ports down and k up."""

    shape: Literal["k-ary-n-tree"]
    switch: SwitchName
    """Model of every switch."""
    k: Annotated[int, Field(ge=2, le=127)]
    """Ports down, and ports up, of each switch."""
    n: Annotated[int, Field(ge=1, le=6)]
    """Levels of switches."""

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile a k-ary n-tree, which is a PGFT."""
        m, w = (self.k,) * self.n, (1, *(self.k,) * (self.n - 1))
        return Pgft(shape="pgft", switch=self.switch, m=m, w=w).compile(groups, catalog, name)


def _require_fit(m: Sequence[int], w: Sequence[int], p: Sequence[int], ports: SwitchPorts) -> None:
    if not len(m) == len(w) == len(p):
        raise DesignError(f"m, w and p have {len(m)}, {len(w)} and {len(p)} numbers: each needs one per level")
    if w[0] != 1 or p[0] != 1:
        raise DesignError(f"w begins with {w[0]} and p with {p[0]}: a host has one port here, so both begin with 1")
    for level in range(len(m)):
        up = w[level + 1] * p[level + 1] if level + 1 < len(m) else 0
        terms = f"a switch of level {level + 1} has {m[level]} children x {p[level]} + {up} uplinks"
        most = max((ports.radix - up) // p[level], 0)
        ports.require(m[level] * p[level] + up, terms, f"Take m{level + 1} = {most}, or fewer parents")
