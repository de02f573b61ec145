"""Networks by adapter number, rails and planes (sketches and sources: docs/shapes.md).

Rails: adapter r of every node of a scalable unit hangs on the same leaf, so GPUs of equal number in different nodes
meet one switch away. Of R rails, leaf i is that of rail i mod R in unit i div R, so that units which are added leave
the others as they are. On three levels the leaves of one rail are a pod. Storage hangs beside the GPUs, or on a fabric
of its own. Planes: as many separate networks as a node has adapters, or a part of them; each is its own subnet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from topo.amounts import percent
from topo.catalog.load import Catalog
from topo.errors import DesignError, Findings, plural
from topo.fabric import Fabric, Role
from topo.shapes.base import (
    HostGroup,
    ShapeModel,
    SwitchPorts,
    apportion,
    each_adapter,
    ports_wanted,
    refuse_uneven,
    require_ports,
)
from topo.shapes.fat_tree import FatTree, add_tree
from topo.shapes.graft import links_onto, size_grafts


class Planes(ShapeModel):
    """Equal fat-trees side by side that nothing connects; adapter r of a node hangs in plane r modulo the planes."""

    shape: Literal["planes"]
    planes: Annotated[int, Field(ge=1, le=64)]
    """Number of planes."""
    tree: FatTree
    """The network of each plane."""

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile each plane into a subnet."""
        return compile_planes(self.tree.compile_one, self.planes, groups, catalog, name)


def compile_planes(
    compile_one: Callable[[Sequence[HostGroup], Catalog, str, str], Fabric],
    planes: int,
    groups: Sequence[HostGroup],
    catalog: Catalog,
    name: str,
) -> tuple[Fabric, ...]:
    """Compile equal networks, each with every ``planes``-th adapter of each server."""
    findings, fabrics = Findings(), []
    for group in groups:
        with findings.under("planes"):
            _require_equal(group, planes, "planes")
    findings.refuse()
    for plane in range(planes):
        own = [replace(each, device=each.device + plane, adapters=each.adapters // planes, step=planes)
               for each in groups]  # fmt: skip
        fabrics.append(compile_one(own, catalog, f"{name}-plane{plane}", f"p{plane}-"))
    return tuple(fabrics)


def _require_equal(group: HostGroup, parts: int, what: str, *keys: str) -> None:
    """Refuse adapters of a server that do not divide over rails or planes."""
    if group.adapters % parts:
        fitting = [n for n in range(1, group.adapters + 1) if group.adapters % n == 0]
        terms = f"{group.name} ({group.model}) has {group.adapters} adapters, which"
        refuse_uneven(terms, f"{parts} {what}", fitting, "", *keys)


class Rail(ShapeModel):
    """Rails: one leaf for each adapter number in each scalable unit."""

    shape: Literal["rail"]
    unit_nodes: Annotated[int, Field(ge=1, le=254)]
    """Nodes of a scalable unit."""
    rails: Annotated[int, Field(ge=1, le=254)] | None = None
    """Rails, where a node has several adapters on each: adapter r is on rail r modulo the rails, such as the four of
    each tray of an NVL72 rack. By default a node has one adapter on each."""
    planes: Annotated[int, Field(ge=1, le=64)] = 1
    """Planes: equal networks of rails that nothing connects. Adapter r is in plane r modulo the planes, where it counts
    as number r // planes; so the two ports of an adapter, which are adapters to a server, hang in two planes."""
    tree: FatTree
    """The tree over the leaves; ``leaves`` and ``leaves_per_pod`` follow from the rails and units."""
    storage: FatTree | None = None
    """A separate fabric for storage nodes and the storage adapters of the GPU nodes."""

    def compile(self, groups: Sequence[HostGroup], catalog: Catalog, name: str) -> tuple[Fabric, ...]:
        """Compile the rails, and the storage fabric beside them where there is one."""
        findings, fabrics = Findings(), []
        with findings.under():
            if self.planes == 1:
                fabrics.append(self.compile_one(groups, catalog, name))
            else:
                fabrics += compile_planes(self.compile_one, self.planes, groups, catalog, name)
        if self.storage:
            # The compute nodes with their storage adapters, numbered after those of the rails.
            side = [_storage_side(each, catalog) if each.role == Role.COMPUTE else each
                    for each in self._ungrafted(groups)]  # fmt: skip
            with findings.under("storage"):
                if not any(group.adapters for group in side):
                    models = ", ".join(dict.fromkeys(group.model for group in side))
                    raise DesignError(
                        f"no adapter hangs in `storage`: {models} has no `storage_adapters` in the catalog, and there "
                        "are no other nodes. Leave it out, or count adapters in a network under `networks`"
                    )
                fabrics += self.storage.compile(side, catalog, f"{name}-storage")
        findings.refuse()
        return tuple(fabrics)

    def _ungrafted(self, groups: Sequence[HostGroup]) -> list[HostGroup]:
        """Return the groups that hang on no graft."""
        return [group for group in groups if not any(group.name in graft.nodes for graft in self.tree.grafts)]

    def compile_one(self, groups: Sequence[HostGroup], catalog: Catalog, name: str, prefix: str = "") -> Fabric:
        """Compile the rails as one subnet; names of its switches begin with ``prefix``."""
        if self.tree.leaves or self.tree.leaves_per_pod:
            text = "`leaves` and `leaves_per_pod` of a rail tree follow from its units: leave them out"
            raise DesignError(text, "tree", "leaves" if self.tree.leaves else "leaves_per_pod")
        _, grafts = size_grafts(self.tree.grafts, each_adapter(groups), catalog)
        nodes = [group for group in self._ungrafted(groups) if group.role == Role.COMPUTE]
        others = [group for group in self._ungrafted(groups) if group.role != Role.COMPUTE]
        if not nodes:
            raise DesignError("rails are made of compute nodes, and there are none")
        adapters = max(group.adapters for group in nodes)
        if any(group.adapters != adapters for group in nodes):
            raise DesignError(f"all compute nodes of a rail fabric need the same number of adapters, {adapters} here")
        rails = self.rails or adapters
        _require_equal(nodes[0], rails, "rails", "rails")
        beside = [] if self.storage else each_adapter(others)
        each, units = adapters // rails, -(-sum(group.count for group in nodes) // self.unit_nodes)
        n_leaves = rails * units
        fixed: dict[str, object] = {"leaves": n_leaves}
        if self.tree.levels == 3:
            radix = catalog.switch(self.tree.spine_switch or self.tree.switch).radix
            over, parallel = self.tree.spine_oversubscription, self.tree.parallel or 1
            fixed["leaves_per_pod"] = pod_size(radix, over, parallel, units)
        tree = self.tree.model_copy(update=fixed)
        if n_leaves == 1:
            tree = tree.for_ports(self.unit_nodes * each, catalog)
        spine = tree.upper(catalog)[0].radix
        if tree.levels != 3 and n_leaves > spine:
            raise DesignError(
                f"{rails} rails x {plural(units, 'unit')} = {n_leaves} leaves, and a spine of {spine} ports reaches at "
                f"most {spine}: take {self._instead(nodes, rails, spine, catalog)}"
            )
        size = tree.size(0, catalog, grafted=links_onto(grafts, "spines"))
        if self.unit_nodes * each > size.down:
            raise DesignError(
                f"a unit of {self.unit_nodes} nodes needs {self.unit_nodes * each} ports of each of its leaves, which "
                f"have {size.down} left beside {size.up} uplinks: take units of at most {size.down // each}",
                "unit_nodes",
            )
        on_rails = [
            replace(group, device=group.device + (rail + rails * turn) * group.step, adapters=1, on_rail=True)
            for rail in range(rails)
            for turn in range(each)
            for group in nodes
        ]
        placed = place_units(nodes, rails, units, self.unit_nodes, each)
        free = size.down - np.sum(placed, axis=0)
        left_over = int(free.sum())
        wanted = sum(group.count for group in beside)
        if wanted > left_over:
            names = " and ".join(dict.fromkeys(f"`{group.name}`" for group in beside))
            other = f"list {names} in the `adapters` of an entry of `networks`, which takes them out of this one"
            ways = [*self.ways_to_free(wanted, nodes, catalog, others), other]
            have, advice = f"the {n_leaves} leaves have {left_over} left", f"Take {', or '.join(ways)}"
            require_ports(wanted, left_over, ports_wanted(beside), have, advice, "more ports")
        if any(group.speed != nodes[0].speed for group in beside):  # in cages of their own
            leaf = SwitchPorts(catalog, tree.switch, split=tree.split, leaf=True)
            own = free - (free - size.down) % (leaf.cage * leaf.parts)
            free = own if own.sum() >= wanted else free
        placed += place_beside(beside, free)
        builder = self.builder(name)
        at = pod_places(rails, units, size.leaves_per_pod) if size.cores else None
        add_tree(builder, tree, size, [*on_rails, *beside], catalog, grafts=grafts, placed=placed, at=at, prefix=prefix)
        return builder.build()

    def ways_to_free(
        self, wanted: int, nodes: Sequence[HostGroup], catalog: Catalog, beside: Sequence[HostGroup] = ()
    ) -> list[str]:
        """Say which units, and which fewer uplinks, leave ports for others ``beside`` the ``nodes``, in one plane.

        Each with the switches that it takes more, or the share of the nodes' bandwidth that is left between rails; the
        cheaper first. Of uplinks there are as many as fit on fewer spines than today, or on the fewest from as many on,
        less than twice those of today.
        """
        built = self.compile_one(nodes, catalog, "now")
        adapters, count = nodes[0].adapters, sum(group.count for group in nodes)
        rails, spines = self.rails or adapters, int((built.role == Role.SPINE).sum())
        n_leaves = rails * -(-count // self.unit_nodes)
        each, leaf = adapters // rails, SwitchPorts(catalog, self.tree.switch, split=self.tree.split, leaf=True)
        down = self.tree.model_copy(update={"leaves": n_leaves}).size(0, catalog).down
        smaller = range(self.unit_nodes - 1, 0, -1)
        rooms = ((unit, rails * (-(-count // unit) * down - count * each)) for unit in smaller)
        fits = next((unit for unit, ports in rooms if ports >= wanted), self.unit_nodes)
        unit = -(-count // -(-count // fits))  # as many units as then, but alike: fewer uplinks and spines
        changed: list[tuple[str, str, Rail]] = []
        if unit < self.unit_nodes:
            units = f"{rails * -(-count // unit)} leaves, "
            changed.append((f"`unit_nodes: {unit}`", units, self.model_copy(update={"unit_nodes": unit})))
        servers = min(self.unit_nodes, count) * each
        free = leaf.radix - max(servers, -(-(count * adapters + wanted) // n_leaves))
        most = SwitchPorts(catalog, self.tree.spine_switch or self.tree.switch, split=self.tree.split is True).radix
        links = {number: min(free // number, most // n_leaves) for number in range(2, 2 * spines)}
        gbps = servers * min(nodes[0].speed.gbps, leaf.node_speed.gbps)
        fixed = self.tree.levels == 3 or leaf.uplinks or self.tree.split
        for numbers in [] if fixed else [(2, spines), (spines, 2 * spines)]:
            number = max(range(*numbers), key=lambda number: (number * links[number], -number), default=0)
            if links.get(number):
                fewer = {"spines": number, "parallel": links[number]}
                part = percent(min(1.0, number * links[number] * leaf.speed.gbps / gbps))
                share = f"{part} left between rails at best, "
                key = f"`tree: {{spines: {number}, parallel: {links[number]}}}`"
                changed.append((key, share, self.model_copy(update={"tree": self.tree.model_copy(update=fewer)})))
        ways = []
        for key, what, shape in changed:
            with suppress(DesignError):
                then = shape.compile_one([*nodes, *beside], catalog, "then")
                more = (then.n_switches - built.n_switches) * self.planes
                switches = f"{plural(abs(more), 'switch', 'switches')} {'fewer' if more < 0 else 'more'}"
                ways.append((more, f"{key} ({what}{switches})"))
        return [words for _, words in sorted(ways)]

    def _instead(self, nodes: Sequence[HostGroup], rails: int, spine: int, catalog: Catalog) -> str:
        """Say what of larger units, three levels, planes and fewer rails can be built instead."""
        unit = -(-sum(group.count for group in nodes) // max(spine // rails, 1))
        parts = [n for n in range(2, rails + 1) if rails % n == 0]
        deeper, with_planes = self.tree.model_copy(update={"levels": 3}), [n for n in parts if n <= 64]
        changed: list[tuple[str, ShapeModel]] = []
        if rails <= spine:
            changed += [(f"`unit_nodes: {unit}`", self.model_copy(update={"unit_nodes": unit}))]
        changed += [("`tree.levels: 3`", self.model_copy(update={"tree": deeper}))]
        changed += [(f"`shape: planes` with `planes: {n}`", Planes(shape="planes", planes=n, tree=self.tree))
                    for n in with_planes]  # fmt: skip
        changed += [(f"`rails: {rails // n}`", self.model_copy(update={"rails": rails // n})) for n in parts]
        ways: dict[str, str] = {}
        for words, shape in changed:
            kind = words.rpartition(":")[0]  # the smallest change of each key
            if kind not in ways:
                with suppress(DesignError):
                    shape.compile(nodes, catalog, "instead")
                    ways[kind] = words
        return ", or ".join([*ways.values(), "spines with more ports"])


def _storage_side(group: HostGroup, catalog: Catalog) -> HostGroup:
    """Return a group with its storage adapters."""
    model = catalog.node(group.model)
    adapter = catalog.hca(model.storage_adapter_model or model.adapter_model)
    return group.with_adapters(adapter, model.storage_adapters, group.device + group.adapters)


def pod_size(radix: int, oversubscription: float, parallel: int, units: int) -> int:
    """Return the leaves of a pod: a rail of so many units, or the largest equal part of one that fits below a spine."""
    fits = int(radix * oversubscription / (1 + oversubscription)) // parallel
    return max(part for part in range(1, units + 1) if units % part == 0 and part <= fits)


def pod_places(rails: int, units: int, pod: int) -> NDArray[np.int64]:
    """Return (units x rails,) the place of each leaf in pods of ``pod`` leaves, pod after pod.

    A pod has leaves of one rail; first come the pods of the first units, rail after rail.

    >>> pod_places(rails=2, units=4, pod=2).tolist()
    [0, 2, 1, 3, 4, 6, 5, 7]
    """
    unit, rail = np.divmod(np.arange(units * rails), rails)
    places: NDArray[np.int64] = (unit // pod * rails + rail) * pod + unit % pod
    return places


def place_units(
    nodes: Sequence[HostGroup], rails: int, units: int, unit_nodes: int, each: int = 1
) -> list[NDArray[np.int64]]:
    """Return the (units x rails,) servers on each leaf, for each rail and group: one unit is filled after the other.

    So it is ``each`` time that a server has an adapter on the rail.
    """
    placed: list[NDArray[np.int64]] = []
    for rail in (rail for rail in range(rails) for _ in range(each)):
        left = np.full(units, unit_nodes)
        for group in nodes:
            counts = np.zeros((units, rails), np.int64)
            counts[:, rail] = np.clip(group.count - (np.cumsum(left) - left), 0, left)
            left -= counts[:, rail]
            placed.append(counts.ravel())
    return placed


def place_beside(beside: Sequence[HostGroup], free: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the (leaves,) servers of each group on the ports that are left; DesignError where they do not suffice."""
    placed: list[NDArray[np.int64]] = []
    for group in beside:
        turn = group.device  # few servers begin with another leaf for each of their adapters
        placed.append(np.roll(apportion(group.count, np.roll(free, -turn)), turn))
        free = free - placed[-1]
    return placed
