"""Trees of one to three levels, alone, in planes, over rails, and in zones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from math import ceil, inf
from typing import Any

import numpy as np

from costmodel.optimise.bound import Node, first, whole
from costmodel.optimise.demand import ROUNDING, Counts, Demand, carries, least, least_out
from costmodel.optimise.model_selection import mixed
from costmodel.optimise.problem import Kind, Spread, Task, by_zone, hang
from topo.fabric import Role
from topo.shapes.base import HostGroup, ShapeModel, each_adapter
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Planes, Rail
from topo.shapes.zones import Zones

MOST_ZONES = 8


class _Tree:
    """Trees of two and three levels over one choice of models, for what hangs on one subnet."""

    def __init__(
        self,
        task: Task,
        kinds: tuple[Kind, ...],
        rails: list[HostGroup],
        wrap: Callable[[FatTree], ShapeModel] = lambda tree: tree,
        copies: int = 1,
        label: str = "",
    ) -> None:
        self.task, self.rails, self.wrap, self.copies, self.label = task, rails, wrap, copies, label
        self.leaf, self.spine, self.core = (*kinds, *kinds[-1:] * 2)[:3]
        self.ports = _ports(rails)
        self.host_cost = copies * task.cost([], task.host_links(self.leaf, rails), ends=1)
        self.up_link, self.core_link = self.leaf.link(self.spine), self.spine.link(self.core)
        self.up_gbps, self.core_gbps = self.leaf.rate(self.spine), self.spine.rate(self.core)
        self.demands = Spread(task, rails, self.leaf.speed).demands
        self.uplinks = cache(self._uplinks)
        self.total = task.demands([(rail, np.array([rail.count])) for rail in rails], self.leaf.speed)

    def _uplinks(self, leaves: int, down: int) -> float:
        """Uplinks that a leaf needs at least."""
        demands = self.demands(leaves, down)
        return inf if demands is None else least(demands, self.up_gbps)

    def fewest(self, up: int) -> int:
        """Leaves that are needed at least for the ports, and for what crosses their uplinks."""
        down = self.leaf.radix - up
        out = least_out(self.total, down * self.leaf.speed.gbps) / (up * self.up_gbps)
        return max(-(-self.ports // down), whole(out) - 1, 1)

    def node(self, leaves: int, spines: int, cores: int, up: int, core_links: int, **more: Any) -> Node:
        n, task = self.copies, self.task
        switches = ((self.leaf.name, n * leaves), (self.spine.name, n * spines), (self.core.name, n * cores))
        links = ((self.up_link, n * leaves * up), (self.core_link, n * core_links))
        price = self.host_cost + task.cost(switches, links)
        return Node(price, n * (leaves + spines + cores), n * (leaves * up + core_links), **more)

    def tree(self, **keys: object) -> FatTree:
        kinds = {"switch": self.leaf, "spine_switch": self.spine, "core_switch": self.core}
        if not keys.get("cores"):
            del kinds["core_switch"]
        names = {key: kind.name for key, kind in kinds.items() if key == "switch" or kind.name != self.leaf.name}
        return FatTree.model_validate(
            {"shape": "fat-tree", **names, **({"split": True} if self.leaf.split else {}), **keys}
        )

    def make(self, **keys: object) -> ShapeModel:
        """Return the network of the spec."""
        return self.wrap(self.tree(**keys))

    def one(self) -> Iterator[Node]:
        """Yield one switch."""
        if self.ports <= self.leaf.radix and not (self.leaf.split and self.label):
            name = f"{self.label}one {self.leaf.name}"
            yield self.node(1, 0, 0, 0, 0, name=name, shape=partial(self.make, levels=1))

    def two(self) -> Iterator[Node]:
        """Yield rows of two levels: any number of leaves below so many spines with so many links to each leaf."""
        for spines in range(self.task.spare, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                leaves = max(self.fewest(spines * parallel), 2)
                if leaves * parallel <= self.spine.radix:
                    yield self._row(leaves, spines, parallel)

    def _row(self, leaves: int, spines: int, parallel: int) -> Node:
        def grow() -> Iterator[Node]:
            if self.uplinks(leaves, self.leaf.radix - up) <= up + ROUNDING:
                name = f"{self.label}{leaves} leaves x {spines} spines x {parallel} of {self.models(2)}"
                make = partial(self.make, levels=2, leaves=leaves, spines=spines, parallel=parallel)
                yield self.node(*size, name=name, shape=make)
            if (leaves + 1) * parallel <= self.spine.radix:
                yield self._row(leaves + 1, spines, parallel)

        up = spines * parallel
        size = (leaves, spines, 0, up, 0)
        return self.node(*size, grow=grow)

    def models(self, levels: int) -> str:
        kinds = (self.leaf, self.spine, self.core)[:levels]
        names = [kind.name for kind in kinds] if len(set(kinds)) > 1 else [self.leaf.name]
        return " / ".join(names) + (" with split ports" if self.leaf.split else "")

    def three(self) -> Iterator[Node]:
        """Yield rows of three levels: any number of leaves in pods of so many, with so many spines and links."""
        for spines in range(1, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                for pod in range(2, (self.spine.radix - 1) // parallel + 1):
                    leaves = max(self.fewest(spines * parallel), pod + 1)
                    if -(-leaves // pod) <= self.core.radix:
                        yield self._pods(leaves, pod, spines, parallel)

    def _pods(self, leaves: int, pod: int, spines: int, parallel: int) -> Node:
        """Return the row of all numbers of uplinks of a spine."""
        pods, up = -(-leaves // pod), spines * parallel

        def grow() -> Iterator[Node]:
            demands = self.demands(leaves, self.leaf.radix - up)
            if demands is not None and self.uplinks(leaves, self.leaf.radix - up) <= up + ROUNDING:
                least_up = whole(least(demands, spines * self.core_gbps, np.arange(leaves) // pod))
                most = min(pod * parallel, self.spine.radix - pod * parallel) if least_up else 0
                spine_up = first(
                    range(least_up, most + 1),
                    lambda up: self._carries_over(demands, leaves, pod, spines, parallel, up),
                )
                if spine_up:
                    yield from self._cored(leaves, pod, spines, parallel, spine_up)
            if -(-(leaves + 1) // pod) <= self.core.radix:
                yield self._pods(leaves + 1, pod, spines, parallel)

        links = pods * spines
        return self.node(leaves, pods * spines, max(-(-links // self.core.radix), 1), up, links, grow=grow)

    def _carries_over(
        self, demands: list[Demand], leaves: int, pod: int, spines: int, parallel: int, spine_up: int
    ) -> bool:
        """Whether no cut between some leaves and the others excludes a design: each spine is on its cheaper side."""
        of = np.arange(leaves) // pod
        size = np.bincount(of)
        for demand in demands:
            for order in (np.arange(leaves), demand.order):
                inside = np.cumsum(of[order][:, None] == np.arange(len(size)), axis=0)
                below = parallel * self.up_gbps * np.stack([size - inside, inside])
                above = spine_up * self.core_gbps
                cuts = [
                    np.minimum(below[0] + above * (1 - core), below[1] + above * core).sum(axis=1) for core in (0, 1)
                ]
                if not carries(demand, order, spines * np.minimum(*cuts)):
                    return False
        return True

    def _cored(self, leaves: int, pod: int, spines: int, parallel: int, spine_up: int) -> Iterator[Node]:
        pods, up, below = -(-leaves // pod), spines * parallel, pod * parallel
        if spine_up > min(below, self.spine.radix - below):
            return
        cores = fewest_cores(spines, spine_up, pods, self.core.radix, self.task.spare)
        keys = {"levels": 3, "leaves": leaves, "spines": spines, "parallel": parallel, "leaves_per_pod": pod}
        ratio = _ratio(below, spine_up)
        yield self.node(
            leaves,
            pods * spines,
            cores or max(-(-pods * spines * spine_up // self.core.radix), 1),
            up,
            pods * spines * spine_up,
            name=f"{self.label}{leaves} leaves, pods of {pod} with {spines} spines x {parallel}, {cores} cores on "
            f"{spine_up} uplinks of each, of {self.models(3)}",
            shape=partial(self.make, **keys, cores=cores, spine_oversubscription=ratio) if cores else None,
            grow=lambda: self._cored(leaves, pod, spines, parallel, spine_up + 1),
        )


def _ratio(below: int, up: int) -> float:
    """Links of a spine to leaves by those to cores, rounded up, so that the uplinks are no more."""
    return max(ceil(below / up * 1e6) / 1e6, 1.0)


@cache
def fewest_cores(spines: int, spine_up: int, pods: int, radix: int, least: int) -> int:
    """Fewest cores that take the uplinks of all pods evenly; 0 where no number does.

    Spines of some numbers share their cores: as many numbers as make the counts whole. Each core has a link from each
    pod, and none more than it has ports (`topo.shapes.fat_tree`).

    Examples
    --------
    >>> fewest_cores(20, 20, 40, 40, 2), fewest_cores(3, 20, 9, 40, 2)
    (400, 14)
    """
    best = 0
    for group in range(1, spines + 1):
        groups = spines // group
        if spines % group:
            continue
        share = max(-(-pods * group * spine_up // radix), -(-least // groups))
        if share <= group * spine_up and (not best or share * groups < best):
            best = share * groups
    return best


def _all(
    task: Task,
    rails: list[HostGroup],
    wrap: Callable[[FatTree], ShapeModel] = lambda tree: tree,
    copies: int = 1,
    label: str = "",
) -> Iterator[Node]:
    """Yield trees of one, two and three levels; each once, over all choices of models."""

    def make(*kinds: Kind) -> _Tree:
        return _Tree(task, kinds, rails, wrap, copies, label)

    for side in task.sides:
        for kind in side:
            yield from make(kind).one()
        for levels, rows in ((2, _Tree.two), (3, _Tree.three)):
            yield from mixed(task, rails, (side,) * levels, lambda *kinds, rows=rows: rows(make(*kinds)), copies=copies)


def fat_trees(task: Task) -> Iterator[Node]:
    """Yield one switch, and trees of two and three levels with any leaves, spines, cores, pods, links and tapers."""
    yield from _all(task, each_adapter(task.groups))
    yield from _frames(task, task.ports, lambda tree: tree, 1, "")


def _frames(task: Task, ports: int, wrap: Callable[[FatTree], ShapeModel], copies: int, label: str) -> Iterator[Node]:
    """Yield trees that are one box."""
    for name in task.models:
        model = task.catalog.switch(name)
        if model.chips > 1 and ports <= model.radix:
            links = [(str(group.speed), group.count * group.adapters) for group in task.groups]
            price = task.cost([(name, copies)], []) + task.cost([], links, ends=1)
            shape = partial(wrap, FatTree(shape="fat-tree", switch=name))
            yield Node(price, copies * model.chips, 0, name=f"{label}one {name}", shape=shape)


def _planes(number: int, tree: FatTree) -> ShapeModel:
    return Planes(shape="planes", planes=number, tree=tree)


def planes(task: Task) -> Iterator[Node]:
    """Yield as many planes as divide the adapters of every server, each a switch or a tree."""
    adapters = {group.adapters for group in task.groups}
    for number in range(2, min(adapters) + 1):
        if any(each % number for each in adapters):
            continue
        wrap = partial(_planes, number)
        rails = [rail for rail in each_adapter(task.groups) if rail.device % number == 0]
        label = f"{number} planes of "
        yield from _all(task, rails, wrap, number, label)
        yield from _frames(task, sum(rail.count for rail in rails), wrap, number, label)


def zones(task: Task) -> Iterator[Node]:
    """Yield zones of two levels, joined by any number of switches or by cables, gathered on leaves or spread."""
    for number in range(2, MOST_ZONES + 1):
        storage = [group.name for group in task.groups if group.role == Role.STORAGE and group.adapters == number]
        joined = list(by_zone(task.groups, number, storage))
        rows = partial(_zoned_rows, task, joined, tuple(storage))
        largest = max(joined, key=_ports)
        for side in task.sides:
            yield from mixed(task, largest, (side, side), rows, beyond=False, copies=number)


def _ports(rails: list[HostGroup]) -> int:
    return sum(rail.count for rail in rails)


def _zoned_rows(
    task: Task,
    joined: list[list[HostGroup]],
    shared: tuple[str, ...],
    leaf: Kind,
    spine: Kind,
) -> Iterator[Node]:
    for placement in ("spread", "border"):
        yield from _ZonedTree(task, (leaf, spine), joined, shared, placement).rows(0)
        for joint in task.whole(leaf):
            yield _ZonedTree(task, (leaf, spine, joint), joined, shared, placement).joints(task.spare)


class _ZonedTree(_Tree):
    """Trees of two levels side by side."""

    def __init__(
        self,
        task: Task,
        kinds: tuple[Kind, ...],
        joined: list[list[HostGroup]],
        shared: tuple[str, ...],
        placement: str,
    ) -> None:
        super().__init__(task, kinds, max(joined, key=_ports))
        self.joined, self.shared, self.placement = joined, shared, placement
        self.copies = len(joined)
        self.joint = self.core
        self.joint_link = self.leaf.link(self.joint)
        rails = [rail for rails in joined for rail in rails]
        self.host_cost = task.cost([], task.host_links(self.leaf, rails), ends=1)
        self.fewest_of = cache(self._fewest_of)
        self.carries = cache(self._carries)
        own = np.eye(self.copies, dtype=int)
        hung = [(rail, own[zone] * rail.count) for zone, rails in enumerate(joined) for rail in rails]
        self.between = task.demands(hung, self.leaf.speed, np.arange(self.copies))

    def joints(self, number: int) -> Node:
        """Return the root of so many joints, and more."""

        def grow() -> Iterator[Node]:
            if number <= self.ports:
                yield from self.rows(number)
                yield self.joints(number + 1)

        fewest = -(-self.ports // (self.leaf.radix - 1))
        return self.zoned_node(fewest, self.task.spare, 1, number, grow=grow)

    def rows(self, joints: int) -> Iterator[Node]:
        """Yield the rows of so many joints, or of direct cables if 0."""
        z = self.copies
        rate = self.leaf.rate(self.joint) if joints else self.leaf.speed.gbps
        factor = least(self.between, rate) if joints else least(self.between, rate / (z - 1), cut="mesh")
        fewest = whole(factor)
        if not fewest or (joints and z * fewest > joints * self.joint.radix):
            return
        for spines in range(self.task.spare, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                leaves = self.fewest_of(spines * parallel, bool(joints))
                if leaves * parallel <= self.spine.radix:
                    yield self._zoned(leaves, spines, parallel, joints, fewest)

    def _fewest_of(self, up: int, joints: bool) -> int:
        """Leaves of a zone that are needed at least for the ports, and for what crosses their uplinks."""
        z, down, gbps = self.copies, self.leaf.radix - up, self.leaf.speed.gbps
        beside = up / 2 if joints else min(2.0 * (z - 1), up / 2) if z > 2 else 0.0
        out = least_out(self.between, down * gbps) / z / (up * self.up_gbps + beside * gbps)
        return max(-(-self.ports // down), whole(out) - 1, 2)

    def zoned_node(self, leaves: int, spines: int, up: int, joints: int = 0, ports: int = 0, **more: Any) -> Node:
        """Return a node of so many joints on so many ports a zone."""
        z = self.copies
        between = z * ports if joints else z * ports // 2
        links = ((self.up_link, z * leaves * up), (self.joint_link, between))
        switches = ((self.leaf.name, z * leaves), (self.spine.name, z * spines), (self.joint.name, joints))
        price = self.host_cost + self.task.cost(switches, links)
        return Node(price, z * (leaves + spines) + joints, z * leaves * up + between, **more)

    def _zoned(self, leaves: int, spines: int, parallel: int, joints: int, ports: int) -> Node:
        """Return the row of so many leaves and more, with at least so many ports a zone to others."""

        def grow() -> Iterator[Node]:
            yield from self._joined(leaves, spines, parallel, joints, ports)
            if (leaves + 1) * parallel <= self.spine.radix:
                yield self._zoned(leaves + 1, spines, parallel, joints, ports)

        return self.zoned_node(leaves, spines, spines * parallel, joints, ports, grow=grow)

    def _joined(self, leaves: int, spines: int, parallel: int, joints: int, least_ports: int) -> Iterator[Node]:
        """Yield the design with the fewest ports a zone to others that carry what they must."""
        up, step = spines * parallel, joints or self.copies - 1
        # With more than half as many links to others as within, it is no zone any more.
        most = min(leaves * up // 2, leaves * (self.leaf.radix - up) - self.ports)
        if joints:
            most = min(most, joints * self.joint.radix // self.copies)
        ports = first(
            range(-(-least_ports // step) * step, most + 1, step),
            lambda ports: self.carries(leaves, up, ports, bool(joints)),
        )
        if ports:
            how = f"{joints} x {self.joint.name}" if joints else "cables"
            yield self.zoned_node(
                leaves,
                spines,
                up,
                joints,
                ports,
                name=f"{self.copies} zones of {leaves} leaves x {spines} spines x {parallel} of {self.models(2)}, "
                f"{how} on {ports} ports a zone ({self.placement})",
                shape=partial(self._shape, leaves, spines, parallel, joints, ports),
                grow=lambda: self._joined(leaves, spines, parallel, joints, ports + 1),
            )

    def _kept(self, leaves: int, down: int, ports: int) -> Counts:
        """(leaves,) ports that hosts may not use: `topo.shapes.zones`."""
        if self.placement == "border":
            return np.where(np.arange(leaves) >= leaves - -(-ports // down), down, 0)
        return np.diff(np.arange(leaves + 1) * ports // leaves)

    def _carries(self, leaves: int, up: int, ports: int, joints: bool) -> bool:
        """Whether there is room for so many ports to others, and no cut excludes them."""
        down = self.leaf.radix - up
        kept = self._kept(leaves, down, ports)
        if self.task.spare > np.count_nonzero(kept) or kept.max() > down:
            return False
        hung: list[tuple[HostGroup, Counts]] = []
        for zone, rails in enumerate(self.joined):
            placed = hang(rails, down - kept)
            if placed is None:
                return False
            for rail, counts in placed:
                wide = np.zeros(leaves * self.copies, int)
                wide[zone * leaves : (zone + 1) * leaves] = counts
                hung.append((rail, wide))
        used = kept if self.placement == "spread" else np.where(kept, ports, 0)  # border: no more than all
        rate = self.leaf.rate(self.joint) if joints else self.leaf.speed.gbps
        out = np.tile(up * self.up_gbps + used * rate, self.copies)
        zone_of = np.repeat(np.arange(self.copies), leaves)
        demands = self.task.demands(hung, self.leaf.speed, zone_of)
        if least(demands, out) > 1 + ROUNDING:
            return False
        if joints:
            return True
        # Cables lead to leaves of the same place, but for those that the ports of a leaf do not divide into.
        z = self.copies
        alike = z * (up * self.up_gbps + (0 if z == 2 else 2 * (z - 1) * rate))
        return least(demands, alike, np.tile(np.arange(leaves), z)) <= 1 + ROUNDING

    def _shape(self, leaves: int, spines: int, parallel: int, joints: int, ports: int) -> ShapeModel:
        tree = self.tree(levels=2, leaves=leaves, spines=spines, parallel=parallel)
        between: dict[str, object] = {"ports": ports, "placement": self.placement}
        if joints:
            between |= {"switch": self.joint.name, "count": joints}
        how = "joints" if joints else "direct"
        return Zones.model_validate(
            {"shape": "zones", "zones": self.copies, "tree": tree, "shared": self.shared, how: between}
        )


def rails(task: Task) -> Iterator[Node]:
    """Yield rails of two levels, in units of any size, and of three, with a rail or a part of one as a pod."""
    compute = [group for group in task.groups if group.role == Role.COMPUTE]
    number = compute[0].adapters if compute else 0
    if number < 2 or any(group.adapters != number for group in compute):
        return
    nodes = sum(group.count for group in compute)

    def trees(kinds: tuple[Kind, ...]) -> Iterator[_Railed]:
        units = {-(-nodes // unit): unit for unit in range(kinds[0].radix - 1, 0, -1)}
        return (_Railed(task, kinds, compute, many, unit) for many, unit in units.items())

    def two(*kinds: Kind) -> Iterator[Node]:
        for tree in trees(kinds):
            for spines in range(task.spare, tree.most_up + 1):
                for parallel in range(1, min(tree.most_up // spines, tree.spine.radix // tree.n_leaves) + 1):
                    yield tree.row(spines, parallel)

    def three(*kinds: Kind) -> Iterator[Node]:
        for tree in trees(kinds):
            for spines in range(1, tree.most_up + 1):
                for parallel in range(1, tree.most_up // spines + 1):
                    for pod in (part for part in range(1, tree.units + 1) if tree.units % part == 0):
                        if pod * parallel < tree.spine.radix and tree.n_leaves // pod <= tree.core.radix:
                            yield tree.row(spines, parallel, pod)

    for side in task.sides:
        for levels, rows in ((2, two), (3, three)):
            yield from mixed(task, each_adapter(task.groups), (side,) * levels, rows)


class _Railed(_Tree):
    """Trees over so many units of nodes, each with a leaf for each adapter number."""

    def __init__(self, task: Task, kinds: tuple[Kind, ...], compute: list[HostGroup], units: int, unit: int) -> None:
        super().__init__(task, kinds, each_adapter(task.groups), label=f"rails, {units} units of {unit}: ")
        self.compute, self.units, self.unit = compute, units, unit
        self.number = compute[0].adapters
        self.n_leaves = units * self.number
        self.most_up = self.leaf.radix - unit
        """Uplinks of a leaf."""

    def make(self, **keys: object) -> ShapeModel:
        """Return the network of the spec, of which units fix the leaves."""
        own = {key: value for key, value in keys.items() if key not in ("leaves", "leaves_per_pod")}
        return Rail(shape="rail", unit_nodes=self.unit, tree=self.tree(**own))

    def _placed(self, up: int) -> list[Demand] | None:
        """What leaves with so many uplinks must carry; None where others than compute nodes have no room."""
        taken = np.clip(sum(group.count for group in self.compute) - np.arange(self.units) * self.unit, 0, self.unit)
        placed: list[tuple[HostGroup, Counts]] = []
        left = np.full(self.units, self.unit)
        for group in self.compute:
            mine = np.clip(group.count - (np.cumsum(left) - left), 0, left)
            left = left - mine
            for rail in each_adapter([group]):
                wide = np.zeros((self.number, self.units), int)
                wide[rail.device] = mine
                placed.append((rail, wide.ravel()))
        beside = each_adapter([group for group in self.task.groups if group.role != Role.COMPUTE])
        others = hang(beside, self.leaf.radix - up - np.tile(taken, self.number))
        return None if others is None else self.task.demands([*placed, *others], self.leaf.speed)

    def row(self, spines: int, parallel: int, pod: int = 0) -> Node:
        """Return the row of all that has so many spines and links to each; with pods, of so many leaves, in each."""
        leaves, up = self.n_leaves, spines * parallel
        pods = leaves // pod if pod else 0

        def grow() -> Iterator[Node]:
            demands = self._placed(up)
            if demands is None or least(demands, self.up_gbps * up) > 1 + ROUNDING:
                return
            if not pod:
                name = f"{self.label}{spines} spines x {parallel} of {self.models(2)}"
                make = partial(self.make, levels=2, spines=spines, parallel=parallel)
                yield self.node(leaves, spines, 0, up, 0, name=name, shape=make)
                return
            fewest = whole(least(demands, spines * self.core_gbps, np.arange(leaves) // pod))
            for spine_up in range(fewest, min(pod * parallel, self.spine.radix - pod * parallel) + 1) if fewest else ():
                # Pods are the largest parts of a rail that fit below a spine: `topo.shapes.rail`.
                ratio = _ratio(pod * parallel, spine_up)
                fits = int(self.spine.radix * ratio / (1 + ratio)) // parallel
                larger = any(self.units % part == 0 for part in range(pod + 1, min(fits, self.units) + 1))
                if not larger and self._carries_over(demands, leaves, pod, spines, parallel, spine_up):
                    yield from self._cored(leaves, pod, spines, parallel, spine_up)
                    return

        if not pod:
            return self.node(leaves, spines, 0, up, 0, grow=grow)
        cores = max(-(-pods * spines // self.core.radix), 1)
        return self.node(leaves, pods * spines, cores, up, pods * spines, grow=grow)
