"""Trees of one to three levels: alone, in planes, over rails, and in zones.

A *row* is the branch of all designs with the same spines and links and at least so many leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from math import ceil, inf
from typing import Any

import numpy as np

from costmodel.optimise.branches import Branch, ascending, branch_on_models, first_of, round_up
from costmodel.optimise.demand import ROUNDING, Demand, Ints, least_leaving_gbps, required_factor
from costmodel.optimise.problem import EvenSpread, Problem, SwitchOption, place
from topo.errors import DesignError, plural
from topo.fabric import Role
from topo.shapes.base import HostGroup, ShapeModel, each_adapter
from topo.shapes.fat_tree import FatTree
from topo.shapes.rail import Planes, Rail, place_beside, place_units, pod_places, pod_size
from topo.shapes.zones import Placement, Zones, adapters_by_zone, kept_ports

MOST_ZONES = 8


class _Tree:
    """Trees of up to three levels with given switches for leaves, spines and cores, for the adapters of one subnet.

    ``wrap`` makes the network of the spec from a tree, ``copies`` is the number of such trees in it.
    """

    def __init__(
        self,
        problem: Problem,
        options: tuple[SwitchOption, ...],
        rails: list[HostGroup],
        wrap: Callable[[FatTree], ShapeModel] = lambda tree: tree,
        copies: int = 1,
        label: str = "",
    ) -> None:
        self.problem, self.rails, self.wrap, self.copies, self.label = problem, rails, wrap, copies, label
        self.leaf, self.spine, self.core = (*options, *options[-1:] * 2)[:3]
        self.levels = len(options)
        self.ports = _ports(rails)
        self.host_cost = copies * problem.cost([], problem.host_links(self.leaf, rails), ends=1)
        self.up_link, self.core_link = self.leaf.link(self.spine), self.spine.link(self.core)
        self.up_gbps, self.core_gbps = self.leaf.rate(self.spine), self.spine.rate(self.core)
        self.demands = EvenSpread(problem, rails, self.leaf.speed).demands
        self.uplinks = cache(self._uplinks)
        self.total = problem.demands([(rail, np.zeros(rail.count, int)) for rail in rails], 1, self.leaf.speed)

    def _uplinks(self, leaves: int, down: int) -> float:
        """Return the least number of uplinks of a leaf, as a fraction; infinite where the ports do not suffice."""
        demands = self.demands(leaves, down)
        return inf if demands is None else required_factor(demands, self.up_gbps)

    def min_leaves(self, up: int) -> int:
        """Return a lower bound of the leaves with so many uplinks, by ports and by what must leave all leaves."""
        down = self.leaf.radix - up
        out = least_leaving_gbps(self.total, down * self.leaf.speed.gbps) / (up * self.up_gbps)
        return max(-(-self.ports // down), round_up(out) - 1, 1)

    def branch(
        self, leaves: int, spines: int = 0, up: int = 0, cores: int = 0, core_links: int = 0, **more: Any
    ) -> Branch:
        """Return a branch with the price of so many switches and links in each copy; ``up`` is uplinks of a leaf."""
        n, problem = self.copies, self.problem
        switches = ((self.leaf.name, n * leaves), (self.spine.name, n * spines), (self.core.name, n * cores))
        links = ((self.up_link, n * leaves * up), (self.core_link, n * core_links))
        price = problem.supplied(switches, self.host_cost + problem.cost(switches, links))
        return Branch(price, n * (leaves + spines + cores), n * (leaves * up + core_links), **more)

    def tree(self, **keys: object) -> FatTree:
        """Return the tree of the spec."""
        above = {"spine_switch": self.spine} | ({"core_switch": self.core} if keys.get("cores") else {})
        names = {key: option.name for key, option in above.items() if option.name != self.leaf.name}
        split = {"split": True} if self.leaf.split else {}
        return FatTree.model_validate({"shape": "fat-tree", "switch": self.leaf.name, **names, **split, **keys})

    def make(self, **keys: object) -> ShapeModel:
        """Return the network of the spec."""
        return self.wrap(self.tree(**keys))

    def one(self) -> Iterator[Branch]:
        """Yield the design of one switch."""
        if self.ports <= self.leaf.radix and not (self.leaf.split and self.label):
            name = f"{self.label}one {self.leaf.name}"
            yield self.branch(1, name=name, shape=partial(self.make, levels=1))

    def rows(self) -> Iterator[Branch]:
        """Yield the rows of two or three levels."""
        return self.two() if self.levels == 2 else self.three()

    def two(self) -> Iterator[Branch]:
        """Yield the rows of two levels, one for each number of spines and of links between a leaf and a spine."""
        for spines in range(self.problem.redundancy, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                yield from self._row(spines, parallel)

    def _row(self, spines: int, parallel: int) -> Iterator[Branch]:
        up = spines * parallel
        branch = partial(self.branch, spines=spines, up=up)

        def designs(leaves: int) -> Iterator[Branch]:
            if self.uplinks(leaves, self.leaf.radix - up) <= up + ROUNDING:
                size_of = f"{plural(leaves, 'leaf', 'leaves')} x {plural(spines, 'spine')} x {parallel}"
                make = partial(self.make, levels=2, leaves=leaves, spines=spines, parallel=parallel)
                yield branch(leaves, name=f"{self.label}{size_of} of {self.models(2)}", shape=make)

        return ascending(range(max(self.min_leaves(up), 2), self.spine.radix // parallel + 1), branch, designs)

    def models(self, levels: int) -> str:
        """Return the models of the levels, for the name of a design."""
        options = (self.leaf, self.spine, self.core)[:levels]
        names = [option.name for option in options] if len(set(options)) > 1 else [self.leaf.name]
        return " / ".join(names) + (" with split ports" if self.leaf.split else "")

    def three(self) -> Iterator[Branch]:
        """Yield the rows of three levels, one for each number of leaves and spines in a pod and of links."""
        for spines in range(1, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                for pod in range(2, (self.spine.radix - 1) // parallel + 1):
                    yield from self._pods(pod, spines, parallel)

    def _pods(self, pod: int, spines: int, parallel: int) -> Iterator[Branch]:
        """Yield the row of pods of so many leaves; a design has the fewest uplinks that suffice a pod."""
        up = spines * parallel

        def bound(leaves: int, **more: Any) -> Branch:
            links = -(-leaves // pod) * spines
            return self.branch(leaves, links, up, max(-(-links // self.core.radix), 1), links, **more)

        def designs(leaves: int) -> Iterator[Branch]:
            demands = self.demands(leaves, self.leaf.radix - up)
            if demands is not None and self.uplinks(leaves, self.leaf.radix - up) <= up + ROUNDING:
                least_up = round_up(required_factor(demands, spines * self.core_gbps, np.arange(leaves) // pod))
                if least_up:
                    yield from self._with_cores(leaves, pod, spines, parallel, least_up)

        return ascending(range(max(self.min_leaves(up), pod + 1), pod * self.core.radix + 1), bound, designs)

    def _with_cores(self, leaves: int, pod: int, spines: int, parallel: int, least_up: int) -> Iterator[Branch]:
        """Yield the design with so many uplinks of a spine; below it are those with more."""
        pods, up, below = -(-leaves // pod), spines * parallel, pod * parallel
        keys = {"levels": 3, "leaves": leaves, "spines": spines, "parallel": parallel, "leaves_per_pod": pod}

        def design(spine_up: int, **more: Any) -> Branch:
            cores = fewest_cores(spines, spine_up, pods, self.core.radix, self.problem.redundancy)
            ratio = _ratio(below, spine_up)
            links = pods * spines * spine_up
            fewest = cores or max(-(-links // self.core.radix), 1)
            name = (
                f"{self.label}{leaves} leaves, pods of {pod} with {plural(spines, 'spine')} x {parallel}, "
                f"{plural(cores, 'core')} on {plural(spine_up, 'uplink')} of each, of {self.models(3)}"
            )
            shape = partial(self.make, **keys, cores=cores, spine_oversubscription=ratio) if cores else None
            return self.branch(leaves, pods * spines, up, fewest, links, name=name, shape=shape, **more)

        return first_of(range(least_up, min(below, self.spine.radix - below) + 1), design)


def _ratio(below: int, up: int) -> float:
    """Return the oversubscription of a spine, below / up, rounded up to six digits so that ``up`` is not exceeded."""
    return max(ceil(below / up * 1e6) / 1e6, 1.0)


@cache
def fewest_cores(spines: int, spine_up: int, pods: int, radix: int, least: int) -> int:
    """Return the least number of cores, at least ``least``, that take the uplinks of all pods evenly; 0 if none does.

    The spines of a pod are divided into equal groups; the same group of all pods shares its cores. Each core has links
    from each pod, and at most ``radix`` in all (`topo.shapes.fat_tree`).

    Examples
    --------
    >>> fewest_cores(20, 20, 40, 40, 2), fewest_cores(3, 20, 9, 40, 2)
    (400, 14)
    """
    found = []
    for group in (size for size in range(1, spines + 1) if spines % size == 0):
        share = max(-(-pods * group * spine_up // radix), -(-least * group // spines))
        if share <= group * spine_up:
            found.append(share * (spines // group))
    return min(found, default=0)


def fat_trees(problem: Problem) -> Iterator[Branch]:
    """Yield the branches of one switch, and of trees of two and three levels."""
    return _planes(problem, 1)


def planes(problem: Problem) -> Iterator[Branch]:
    """Yield the branches of planes, each a switch or a tree."""
    for number in plane_numbers(problem):
        yield from _planes(problem, number)


def plane_numbers(problem: Problem) -> Iterator[int]:
    """Yield how many planes there can be: what divides the adapters of every server."""
    adapters = {group.adapters for group in problem.groups}
    return (number for number in range(2, min(adapters) + 1) if not any(each % number for each in adapters))


def _planes(problem: Problem, number: int) -> Iterator[Branch]:
    """Yield the branches of so many switches, trees of two and three levels, or frames, over all choices of models."""
    rails = [rail for rail in each_adapter(problem.groups) if rail.device % number == 0]
    label = f"{number} planes of " if number > 1 else ""

    def wrap(tree: FatTree) -> ShapeModel:
        return Planes(shape="planes", planes=number, tree=tree) if number > 1 else tree

    def make(*options: SwitchOption) -> _Tree:
        return _Tree(problem, options, rails, wrap, number, label)

    for options in problem.linkable:
        for option in options:
            yield from make(option).one()
        yield from branch_on_models(problem, rails, options, lambda *chosen: make(*chosen).rows(), copies=number)
    for name in problem.models:
        model = problem.catalog.switch(name)
        if model.chips > 1 and _ports(rails) <= model.radix:  # a frame is a tree in itself
            links = [(str(group.speed), group.count * group.adapters) for group in problem.groups]
            price = problem.cost([(name, number)], []) + problem.cost([], links, ends=1)
            shape = partial(wrap, FatTree(shape="fat-tree", switch=name))
            yield Branch(price, number * model.chips, 0, name=f"{label}one {name}", shape=shape)


def zones(problem: Problem) -> Iterator[Branch]:
    """Yield the branches of two-level zones, joined by switches or by cables, at border leaves or at all leaves."""
    for number in range(2, MOST_ZONES + 1):
        storage = [group.name for group in problem.groups if group.role == Role.STORAGE and group.adapters == number]
        joined = adapters_by_zone(problem.groups, number, storage)
        rows = partial(_zoned_rows, problem, joined, tuple(storage))
        largest = max(joined, key=_ports)
        for options in problem.linkable:
            yield from branch_on_models(
                problem, largest, options, rows, levels=(2,), uplinks_carry_all=False, copies=number
            )


def _ports(rails: list[HostGroup]) -> int:
    return sum(rail.count for rail in rails)


def _zoned_rows(
    problem: Problem,
    joined: list[list[HostGroup]],
    shared: tuple[str, ...],
    leaf: SwitchOption,
    spine: SwitchOption,
) -> Iterator[Branch]:
    """Yield the branches of zones with these leaves and spines."""
    placements: tuple[Placement, ...] = ("spread", "border")
    for placement in placements:
        yield from _ZonedTree(problem, (leaf, spine), joined, shared, placement).with_joints(0)
        for joint in problem.joints(leaf):
            yield from _ZonedTree(problem, (leaf, spine, joint), joined, shared, placement).joints()


class _ZonedTree(_Tree):
    """Two-level trees side by side, one in each zone, joined by joints or by direct cables."""

    def __init__(
        self,
        problem: Problem,
        options: tuple[SwitchOption, ...],
        joined: list[list[HostGroup]],
        shared: tuple[str, ...],
        placement: Placement,
    ) -> None:
        super().__init__(problem, options, max(joined, key=_ports))
        self.joined, self.shared, self.placement = joined, shared, placement
        self.copies = len(joined)
        self.joint = self.core
        self.joint_link = self.leaf.link(self.joint)
        rails = [rail for rails in joined for rail in rails]
        self.host_cost = problem.cost([], problem.host_links(self.leaf, rails), ends=1)
        self.min_zone_leaves = cache(self._min_zone_leaves)
        self.suffices = cache(self._suffices)
        on_zones = [(rail, np.full(rail.count, zone)) for zone, rails in enumerate(joined) for rail in rails]
        self.between = problem.demands(on_zones, self.copies, self.leaf.speed, np.arange(self.copies))

    def joints(self) -> Iterator[Branch]:
        """Yield the branch of all designs with joints."""

        def bound(number: int, **more: Any) -> Branch:
            return self.zoned_branch(-(-self.ports // (self.leaf.radix - 1)), 1, 1, number, **more)

        return ascending(range(self.problem.redundancy, self.ports + 1), bound, self.with_joints)

    def with_joints(self, joints: int) -> Iterator[Branch]:
        """Yield the rows with so many joints; 0 means direct cables."""
        z = self.copies
        rate = self.leaf.rate(self.joint) if joints else self.leaf.speed.gbps
        between = self.between
        factor = required_factor(between, rate) if joints else required_factor(between, rate / (z - 1), cut="mesh")
        fewest = round_up(factor)
        if not fewest or (joints and z * fewest > joints * self.joint.radix):
            return
        # Without its spine a leaf with a port to another zone still reaches all through that zone.
        for spines in range(1 if self.placement == "spread" else self.problem.redundancy, self.leaf.radix):
            for parallel in range(1, (self.leaf.radix - 1) // spines + 1):
                up = spines * parallel
                yield from ascending(
                    range(self.min_zone_leaves(up, bool(joints)), self.spine.radix // parallel + 1),
                    partial(self.zoned_branch, spines=spines, up=up, joints=joints, ports=fewest),
                    partial(self._joined, spines=spines, parallel=parallel, joints=joints, least_ports=fewest),
                )

    def _min_zone_leaves(self, up: int, joints: bool) -> int:
        """Return a lower bound of the leaves of a zone, by ports and by what must leave all leaves."""
        z, down, gbps = self.copies, self.leaf.radix - up, self.leaf.speed.gbps
        beside = up / 2 if joints else min(2.0 * (z - 1), up / 2) if z > 2 else 0.0
        out = least_leaving_gbps(self.between, down * gbps) / z / (up * self.up_gbps + beside * gbps)
        return max(-(-self.ports // down), round_up(out) - 1, 2)

    def zoned_branch(self, leaves: int, spines: int, up: int, joints: int = 0, ports: int = 0, **more: Any) -> Branch:
        """Return a branch with so many joints in all, and so many ports of each zone to joints or other zones."""
        z = self.copies
        between = z * ports if joints else z * ports // 2
        links = ((self.up_link, z * leaves * up), (self.joint_link, between))
        switches = ((self.leaf.name, z * leaves), (self.spine.name, z * spines), (self.joint.name, joints))
        price = self.problem.supplied(switches, self.host_cost + self.problem.cost(switches, links))
        return Branch(price, z * (leaves + spines) + joints, z * leaves * up + between, **more)

    def _joined(self, leaves: int, spines: int, parallel: int, joints: int, least_ports: int) -> Iterator[Branch]:
        """Yield the design with the fewest ports of a zone to others that suffice; below it are those with more."""
        up, step = spines * parallel, joints or self.copies - 1
        # A zone has at most half as many links to others as within; beyond that it is no zone.
        most = min(leaves * up // 2, leaves * (self.leaf.radix - up) - self.ports)
        if joints:
            most = min(most, joints * self.joint.radix // self.copies)
        how = f"{joints} x {self.joint.name}" if joints else "cables"

        def design(ports: int, **more: Any) -> Branch | None:
            if not self.suffices(leaves, up, ports, bool(joints)):
                return None
            name = (
                f"{self.copies} zones of {leaves} leaves x {plural(spines, 'spine')} x {parallel} of "
                f"{self.models(2)}, {how} on {ports} ports a zone ({self.placement})"
            )
            shape = partial(self._shape, leaves, spines, parallel, joints, ports)
            return self.zoned_branch(leaves, spines, up, joints, ports, name=name, shape=shape, **more)

        return first_of(range(-(-least_ports // step) * step, most + 1, step), design)

    def _suffices(self, leaves: int, up: int, ports: int, joints: bool) -> bool:
        """Return whether all adapters find a port beside so many ports to others, and no cut excludes the design."""
        z, down = self.copies, self.leaf.radix - up
        reserved = kept_ports(self.placement, ports, leaves, down)
        if self.problem.redundancy > np.count_nonzero(reserved) or reserved.max() > down:
            return False
        on_leaves: list[tuple[HostGroup, Ints]] = []
        for zone, rails in enumerate(self.joined):
            placed = place(rails, down - reserved)
            if placed is None:
                return False
            on_leaves += [(rail, zone * leaves + on) for rail, on in placed]
        # How the ports are distributed over border leaves is not known: each has at most all of them.
        used = reserved if self.placement == "spread" else np.where(reserved, ports, 0)
        rate = self.leaf.rate(self.joint) if joints else self.leaf.speed.gbps
        out = np.tile(up * self.up_gbps + used * rate, self.copies)
        zone_of = np.repeat(np.arange(self.copies), leaves)
        demands = self.problem.demands(on_leaves, z * leaves, self.leaf.speed, zone_of)
        if required_factor(demands, out) > 1 + ROUNDING:
            return False
        if joints:
            return True
        # Cables join leaves of the same number, except for the remainder of a leaf's ports over the other zones.
        same_number = z * (up * self.up_gbps + (0 if z == 2 else 2 * (z - 1) * rate))
        return required_factor(demands, same_number, np.tile(np.arange(leaves), z)) <= 1 + ROUNDING

    def _shape(self, leaves: int, spines: int, parallel: int, joints: int, ports: int) -> ShapeModel:
        tree = self.tree(levels=2, leaves=leaves, spines=spines, parallel=parallel)
        between: dict[str, object] = {"ports": ports, "placement": self.placement}
        if joints:
            between |= {"switch": self.joint.name, "count": joints}
        how = "joints" if joints else "direct"
        return Zones.model_validate(
            {"shape": "zones", "zones": self.copies, "tree": tree, "shared": self.shared, how: between}
        )


def rails(problem: Problem) -> Iterator[Branch]:
    """Yield the branches of rails: two levels over units of any size; three, where a pod is a rail or a part of one."""
    compute = [group for group in problem.groups if group.role == Role.COMPUTE]
    number = compute[0].adapters if compute else 0
    if number < 2 or any(group.adapters != number for group in compute):
        return
    nodes = sum(group.count for group in compute)

    def rows(*options: SwitchOption) -> Iterator[Branch]:
        units = {-(-nodes // unit): unit for unit in range(options[0].radix - 1, 0, -1)}
        for many, unit in units.items():
            yield from _RailTree(problem, options, compute, many, unit).rows()

    for options in problem.linkable:
        yield from branch_on_models(problem, each_adapter(problem.groups), options, rows)


class _RailTree(_Tree):
    """Trees over units of nodes, each unit with a leaf for each adapter number."""

    def __init__(
        self, problem: Problem, options: tuple[SwitchOption, ...], compute: list[HostGroup], units: int, unit: int
    ) -> None:
        label = f"rails, {plural(units, 'unit')} of {unit}: "
        super().__init__(problem, options, each_adapter(problem.groups), label=label)
        self.compute, self.units, self.unit = compute, units, unit
        self.number = compute[0].adapters
        self.n_leaves = units * self.number
        self.most_up = self.leaf.radix - unit
        """Most uplinks of a leaf."""

    def two(self) -> Iterator[Branch]:
        """Yield the rows of two levels, one for each number of spines and of links between a leaf and a spine."""
        for spines in range(self.problem.redundancy, self.most_up + 1):
            for parallel in range(1, min(self.most_up // spines, self.spine.radix // self.n_leaves) + 1):
                yield self.row(spines, parallel)

    def three(self) -> Iterator[Branch]:
        """Yield the rows of three levels, whose pods are a rail or a part of one."""
        for spines in range(1, self.most_up + 1):
            for parallel in range(1, self.most_up // spines + 1):
                for pod in (part for part in range(1, self.units + 1) if self.units % part == 0):
                    if pod * parallel < self.spine.radix and self.n_leaves // pod <= self.core.radix:
                        yield self.row(spines, parallel, pod)

    def make(self, **keys: object) -> ShapeModel:
        """Return the network of the spec; its units determine the leaves."""
        own = {key: value for key, value in keys.items() if key not in ("leaves", "leaves_per_pod")}
        return Rail(shape="rail", unit_nodes=self.unit, tree=self.tree(**own))

    def _placed(self, up: int) -> list[Demand] | None:
        """Return the demands on leaves with so many uplinks; None where servers other than compute find no ports."""
        rails = range(self.number)
        on_rails = [replace(group, device=group.device + rail) for rail in rails for group in self.compute]
        beside = each_adapter([group for group in self.problem.groups if group.role != Role.COMPUTE])
        placed = place_units(self.compute, self.number, self.units, self.unit)
        free = np.full(self.n_leaves, self.leaf.radix - up)
        try:
            placed += place_beside(beside, free - np.sum(placed, axis=0))
        except DesignError:
            return None
        on = place([*on_rails, *beside], free, placed)
        return None if on is None else self.problem.demands(on, self.n_leaves, self.leaf.speed)

    def row(self, spines: int, parallel: int, pod: int = 0) -> Branch:
        """Return the branch of trees with so many spines, in each pod where ``pod`` is the leaves of a pod."""
        leaves, up = self.n_leaves, spines * parallel
        pods = leaves // pod if pod else 0

        def expand() -> Iterator[Branch]:
            demands = self._placed(up)
            if demands is None or required_factor(demands, self.up_gbps * up) > 1 + ROUNDING:
                return
            if not pod:
                name = f"{self.label}{plural(spines, 'spine')} x {parallel} of {self.models(2)}"
                make = partial(self.make, levels=2, spines=spines, parallel=parallel)
                yield self.branch(leaves, spines, up, name=name, shape=make)
                return
            of = pod_places(self.number, self.units, pod) // pod
            fewest = round_up(required_factor(demands, spines * self.core_gbps, of))
            for spine_up in range(fewest, min(pod * parallel, self.spine.radix - pod * parallel) + 1) if fewest else ():
                compiled = pod_size(self.spine.radix, _ratio(pod * parallel, spine_up), parallel, self.units)
                if compiled == pod:
                    yield from self._with_cores(leaves, pod, spines, parallel, spine_up)
                    return

        if not pod:
            return self.branch(leaves, spines, up, expand=expand)
        links = pods * spines
        return self.branch(leaves, links, up, max(-(-links // self.core.radix), 1), links, expand=expand)
