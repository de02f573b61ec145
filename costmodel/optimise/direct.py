"""Direct networks and networks of groups: grids, Dragonflies, BiGraphs and Slim Flies, of one model of switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from costmodel.optimise.branches import Branch, smallest
from costmodel.optimise.demand import ROUNDING, CutKind, Demand, Ints, least_leaving_gbps, required_factor
from costmodel.optimise.problem import EvenSpread, Problem, SwitchOption
from topo.errors import plural
from topo.shapes.base import ShapeModel, each_adapter
from topo.shapes.grid import HyperX, Torus
from topo.shapes.groups import BiGraph, Dragonfly, DragonflyPlus
from topo.shapes.slim_fly import SlimFly, prime_power

MOST_DIMENSIONS = 3
Limit = tuple[float, Ints | None, CutKind]
"""Links of a container, the container of each switch, and the kind of cut: see `required_factor`."""


class DirectNetwork:
    """Networks of one model of switch. Each method yields branches in the order of switches or links."""

    def __init__(self, problem: Problem, option: SwitchOption) -> None:
        self.problem, self.option = problem, option
        self.rails = each_adapter(problem.groups)
        self.rate = option.rate(option)
        self.host_cost = problem.cost([], problem.host_links(option, self.rails), ends=1)
        self.spread = EvenSpread(problem, self.rails, option.speed)
        self._known: dict[tuple[int, bytes | None, CutKind], float] = {}
        self.total = problem.demands([(rail, np.zeros(rail.count, int)) for rail in self.rails], 1, option.speed)

    def suffices(self, switches: int, free_ports: int, limits: Sequence[Limit]) -> bool:
        """Return whether all adapters find a port, and no limit excludes the design; the first limit is of a switch."""
        most = min(free_ports, 254)
        out = limits[0][0] * switches * self.rate
        if switches * most < self.problem.ports:
            return False
        if out < least_leaving_gbps(self.total, most * self.option.speed.gbps):
            return False
        demands = self.spread.demands(switches, most)
        return demands is not None and all(
            self._required_gbps(demands, of, cut) <= links * self.rate * (1 + ROUNDING) for links, of, cut in limits
        )

    def _required_gbps(self, demands: list[Demand], of: Ints | None, cut: CutKind) -> float:
        """Return the least Gb/s of the links of a container; it does not depend on their number, and is cached."""
        key = (id(demands), None if of is None else of.tobytes(), cut)
        if key not in self._known:
            last = 0 if of is None else int(of.max())
            unit = np.where(np.arange(last + 1) < last, 1.0, 0.0) if cut == "line" else 1.0
            self._known[key] = required_factor(demands, unit, of, cut=cut)
        return self._known[key]

    def branch(self, switches: int, links: int, **more: Any) -> Branch:
        """Return the branch of designs with at least so many switches and links between them."""
        item = self.option.link(self.option)
        used = [(self.option.name, switches)]
        price = self.problem.supplied(used, self.host_cost + self.problem.cost(used, [(item, links)]))
        return Branch(price, switches, links, **more)

    def by_size(self, switches: int, designs: Callable[[int], Iterator[Branch]], step: int) -> Branch:
        """Return the branch of all designs with at least so many switches."""

        def expand() -> Iterator[Branch]:
            yield from designs(switches)
            if switches < self.problem.ports:
                yield self.by_size(switches + step, designs, step)

        return self.branch(switches, 0, expand=expand)

    def by_links(
        self,
        numbers: range,
        suffices: Callable[[int], bool],
        design: Callable[[int], tuple[int, int, str, Callable[[], ShapeModel]]],
    ) -> Iterator[Branch]:
        """Yield the design with the least number of links that suffices; below it are those with more.

        ``design`` returns the switches, the links between them, the name and the network for a number.
        """
        number = smallest(numbers, suffices)
        if number:
            switches, links, name, shape = design(number)
            name = f"{name} of {self.option.name}"
            more = range(number + 1, numbers.stop)
            yield self.branch(
                switches, links, name=name, shape=shape, expand=lambda: self.by_links(more, suffices, design)
            )

    def _switch_limits(self, switches: int, degree: int) -> list[Limit]:
        """Limits of a network whose switches have so many links to other switches each."""
        return [(degree, None, "out"), (degree / (switches - 1), None, "mean")]

    @property
    def fewest(self) -> int:
        """Least number of switches with a port for each adapter and one for a link."""
        return max(-(-self.problem.ports // (self.option.radix - 1)), 2)

    def hyperx(self, switches: int) -> Iterator[Branch]:
        """Yield grids in up to three dimensions whose lines are fully linked; in one dimension, full meshes."""
        for sizes in _factors(switches, MOST_DIMENSIONS, 100):
            yield from self._grid(HyperX, sizes)

    def tori(self, switches: int) -> Iterator[Branch]:
        """Yield grids in up to three dimensions whose lines are rings; rings of at most 3 alone are a HyperX."""
        for sizes in _factors(switches, MOST_DIMENSIONS, 100):
            if max(sizes) > 3:
                yield from self._grid(Torus, sizes)

    def _grid(self, family: type[HyperX] | type[Torus], sizes: tuple[int, ...]) -> Iterator[Branch]:
        n, ring = prod(sizes), family is Torus
        degree = sum(min(size - 1, 2) if ring else size - 1 for size in sizes)
        places = [place.ravel() for place in np.indices(sizes)]

        def suffices(parallel: int) -> bool:
            limits = self._switch_limits(n, parallel * degree)
            for size, place in zip(sizes, places, strict=True):
                across = float(parallel * n // size)
                limits += [(across * min(size - 1, 2), place, "line") if ring else (across, place, "mesh")]
            return self.suffices(n, self.option.radix - parallel * degree, limits)

        def design(parallel: int) -> tuple[int, int, str, Callable[[], ShapeModel]]:
            name = f"{family.__name__} {' x '.join(map(str, sizes))}, {plural(parallel, 'link')} each,"
            keys = {"shape": "torus" if ring else "hyperx", "switch": self.option.name, "sizes": sizes}
            hosts = min(self.option.radix - parallel * degree, 254)
            shape = partial(family.model_validate, {**keys, "hosts": hosts, "parallel": parallel})
            return n, n * degree * parallel // 2, name, shape

        yield from self.by_links(range(1, (self.option.radix - 1) // degree + 1), suffices, design)

    def dragonflies(self, switches: int) -> Iterator[Branch]:
        """Yield groups of fully linked switches; each two groups have the same number of links."""
        for group in (a for a in range(2, switches // 2 + 1) if switches % a == 0):
            yield from self._dragonfly(switches // group, group)

    def _dragonfly(self, groups: int, group: int) -> Iterator[Branch]:
        n, near = groups * group, group - 1
        of = np.repeat(np.arange(groups), group)

        def suffices(links: int) -> bool:
            limits = self._switch_limits(n, near + links)
            limits += [(group * links, of, "out"), (group * links / (groups - 1), of, "mesh")]
            return group * links % (groups - 1) == 0 and self.suffices(n, self.option.radix - near - links, limits)

        def design(links: int) -> tuple[int, int, str, Callable[[], ShapeModel]]:
            keys: dict[str, Any] = {"groups": groups, "switches": group, "hosts": self.option.radix - near - links}
            shape = partial(Dragonfly, shape="dragonfly", switch=self.option.name, global_links=links, **keys)
            name = f"Dragonfly of {groups} groups x {group} switches x {links} global links"
            return n, n * (near + links) // 2, name, shape

        yield from self.by_links(range(1, self.option.radix - near), suffices, design)

    def dragonflies_plus(self, switches: int) -> Iterator[Branch]:
        """Yield groups of two levels whose spines are linked; each two groups have the same number of links."""
        for groups in (g for g in range(2, switches // 2 + 1) if switches % g == 0):
            for leaves in range(1, switches // groups):
                yield from self._dragonfly_plus(groups, leaves, switches // groups - leaves)

    def _dragonfly_plus(self, groups: int, leaves: int, spines: int) -> Iterator[Branch]:
        hosts = self.option.radix - spines
        of = np.repeat(np.arange(groups), leaves)
        if hosts < 1 or groups * leaves * hosts < self.problem.ports or spines < min(self.problem.redundancy, leaves):
            return

        def suffices(links: int) -> bool:
            limits: list[Limit] = [(spines, None, "out"), (spines * links, of, "out")]
            limits.append((spines * links / (groups - 1), of, "mesh"))
            return spines * links % (groups - 1) == 0 and self.suffices(groups * leaves, hosts, limits)

        def design(links: int) -> tuple[int, int, str, Callable[[], ShapeModel]]:
            keys: dict[str, Any] = {"groups": groups, "leaves": leaves, "spines": spines, "hosts": hosts}
            shape = partial(DragonflyPlus, shape="dragonfly+", switch=self.option.name, global_links=links, **keys)
            name = f"Dragonfly+ of {groups} groups x {leaves} leaves x {spines} spines x {links} global links"
            return groups * (leaves + spines), groups * spines * (2 * leaves + links) // 2, name, shape

        yield from self.by_links(range(1, self.option.radix - leaves + 1), suffices, design)

    def bigraphs(self, switches: int) -> Iterator[Branch]:
        """Yield two sides of switches; each switch is linked to all switches of the other side."""
        side = switches // 2
        of = np.repeat([0, 1], side)

        def suffices(parallel: int) -> bool:
            limits = self._switch_limits(2 * side, side * parallel)
            limits.append((side**2 * parallel, of, "out"))
            return self.suffices(2 * side, self.option.radix - side * parallel, limits)

        def design(parallel: int) -> tuple[int, int, str, Callable[[], ShapeModel]]:
            shape = partial(BiGraph, shape="bigraph", switch=self.option.name, side=side, parallel=parallel)
            name = f"BiGraph of 2 x {side} switches, {plural(parallel, 'link')} each,"
            return 2 * side, side**2 * parallel, name, shape

        if side <= 127:
            yield from self.by_links(range(1, (self.option.radix - 1) // side + 1), suffices, design)

    def slim_flies(self) -> Iterator[Branch]:
        """Yield the McKay-Miller-Siran graphs over fields of q elements."""
        for q in filter(prime_power, range(3, 62)):
            degree = (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2
            n, free_ports = 2 * q * q, self.option.radix - degree
            if self.suffices(n, free_ports, self._switch_limits(n, degree)):
                name = f"Slim Fly of q = {q} of {self.option.name}"
                shape = partial(SlimFly, shape="slim-fly", switch=self.option.name, q=q, hosts=min(free_ports, 254))
                yield self.branch(n, n * degree // 2, name=name, shape=shape)


def _factors(number: int, most: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield all factorisations of a number above 1 into at most ``most`` factors up to ``largest``, descending."""
    if number <= largest:
        yield (number,)
    for factor in range(min(number // 2, largest), 1, -1):
        if number % factor == 0 and most > 1:
            yield from ((factor, *rest) for rest in _factors(number // factor, most - 1, factor))


def _networks(problem: Problem) -> Iterator[DirectNetwork]:
    """Yield the networks of each switch with whole ports."""
    return (DirectNetwork(problem, option) for option in problem.options if not option.split)


def by_size(
    problem: Problem, designs: Callable[[DirectNetwork, int], Iterator[Branch]], least: int = 2, step: int = 1
) -> Iterator[Branch]:
    """Yield the branches of a family with any number of switches: at least ``least``, and a multiple of ``step``."""
    for network in _networks(problem):
        switches = -(-max(network.fewest, least) // step) * step
        yield network.by_size(switches, partial(designs, network), step)


def slim_flies(problem: Problem) -> Iterator[Branch]:
    """Yield Slim Flies, in the order of q."""
    for network in _networks(problem):
        yield from network.slim_flies()
