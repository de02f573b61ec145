"""Direct networks and networks of groups: grids, Dragonflies, BiGraphs and Slim Flies, of one model of switch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

from costmodel.optimise.branches import Branch, ascending, first_of
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


class _Design(NamedTuple):
    """A network: its size, what it can carry, its name, and what returns it."""

    switches: int
    links: int
    """Links between switches."""
    leaves: int
    """Switches with adapters."""
    free_ports: int
    """Ports of a leaf for adapters."""
    limits: list[Limit]
    """The first is that of a switch."""
    name: str
    shape: Callable[[], ShapeModel]


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

    def suffices(self, design: _Design) -> bool:
        """Return whether all adapters find a port, and no limit excludes the design."""
        most = min(design.free_ports, 254)
        out = design.limits[0][0] * design.leaves * self.rate
        if design.leaves * most < self.problem.ports:
            return False
        if out < least_leaving_gbps(self.total, most * self.option.speed.gbps):
            return False
        demands = self.spread.demands(design.leaves, most)
        return demands is not None and all(
            self._required_gbps(demands, of, cut) <= links * self.rate * (1 + ROUNDING)
            for links, of, cut in design.limits
        )

    def _required_gbps(self, demands: list[Demand], of: Ints | None, cut: CutKind) -> float:
        """Return the least Gb/s of the links of a container; it does not depend on their number, and is cached."""
        key = (id(demands), None if of is None else of.tobytes(), cut)
        if key not in self._known:
            last = 0 if of is None else int(of.max())
            unit = np.where(np.arange(last + 1) < last, 1.0, 0.0) if cut == "line" else 1.0
            self._known[key] = required_factor(demands, unit, of, cut=cut)
        return self._known[key]

    def branch(self, switches: int, links: int = 0, **more: Any) -> Branch:
        """Return the branch of designs with at least so many switches and links between them."""
        item = self.option.link(self.option)
        used = [(self.option.name, switches)]
        price = self.problem.supplied(used, self.host_cost + self.problem.cost(used, [(item, links)]))
        return Branch(price, switches, links, **more)

    def by_links(self, numbers: range, design: Callable[[int], _Design]) -> Iterator[Branch]:
        """Yield the design with the first number that suffices; below it are those with more links."""

        def branch(number: int, **more: Any) -> Branch | None:
            found = design(number)
            if not self.suffices(found):
                return None
            name = f"{found.name} of {self.option.name}"
            return self.branch(found.switches, found.links, name=name, shape=found.shape, **more)

        return first_of(numbers, branch)

    def _switch_limits(self, switches: int, degree: int) -> list[Limit]:
        """Limits of a network whose switches have so many links to other switches each."""
        return [(degree, None, "out"), (degree / (switches - 1), None, "mean")]

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

        def design(parallel: int) -> _Design:
            limits, hosts = self._switch_limits(n, parallel * degree), self.option.radix - parallel * degree
            for size, place in zip(sizes, places, strict=True):
                across = float(parallel * n // size)
                limits += [(across * min(size - 1, 2), place, "line") if ring else (across, place, "mesh")]
            name = f"{family.__name__} {' x '.join(map(str, sizes))}, {plural(parallel, 'link')} each,"
            keys = {"shape": "torus" if ring else "hyperx", "switch": self.option.name, "sizes": sizes}
            shape = partial(family.model_validate, {**keys, "hosts": min(hosts, 254), "parallel": parallel})
            return _Design(n, n * degree * parallel // 2, n, hosts, limits, name, shape)

        yield from self.by_links(range(1, (self.option.radix - 1) // degree + 1), design)

    def dragonflies(self, switches: int) -> Iterator[Branch]:
        """Yield groups of fully linked switches; each two groups have the same number of links."""
        for group in (a for a in range(2, switches // 2 + 1) if switches % a == 0):
            yield from self._dragonfly(switches // group, group)

    def _dragonfly(self, groups: int, group: int) -> Iterator[Branch]:
        n, near = groups * group, group - 1
        of = np.repeat(np.arange(groups), group)

        def design(links: int) -> _Design:
            limits, hosts = self._switch_limits(n, near + links), self.option.radix - near - links
            limits += [(group * links, of, "out"), (group * links / (groups - 1), of, "mesh")]
            keys: dict[str, Any] = {"groups": groups, "switches": group, "hosts": hosts, "global_links": links}
            name = f"Dragonfly of {groups} groups x {group} switches x {links} global links"
            shape = partial(Dragonfly, shape="dragonfly", switch=self.option.name, **keys)
            return _Design(n, n * (near + links) // 2, n, hosts, limits, name, shape)

        yield from self.by_links(_evenly(group, groups, self.option.radix - near), design)

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

        def design(links: int) -> _Design:
            limits: list[Limit] = [(spines, None, "out"), (spines * links, of, "out")]
            limits.append((spines * links / (groups - 1), of, "mesh"))
            keys: dict[str, Any] = {"groups": groups, "leaves": leaves, "spines": spines, "global_links": links}
            name = f"Dragonfly+ of {groups} groups x {leaves} leaves x {spines} spines x {links} global links"
            shape = partial(DragonflyPlus, shape="dragonfly+", switch=self.option.name, hosts=hosts, **keys)
            inner = groups * spines * (2 * leaves + links) // 2
            return _Design(groups * (leaves + spines), inner, groups * leaves, hosts, limits, name, shape)

        yield from self.by_links(_evenly(spines, groups, self.option.radix - leaves + 1), design)

    def bigraphs(self, switches: int) -> Iterator[Branch]:
        """Yield two sides of switches; each switch is linked to all switches of the other side."""
        side = switches // 2
        of = np.repeat([0, 1], side)

        def design(parallel: int) -> _Design:
            limits = [*self._switch_limits(2 * side, side * parallel), (side**2 * parallel, of, "out")]
            name = f"BiGraph of 2 x {side} switches, {plural(parallel, 'link')} each,"
            shape = partial(BiGraph, shape="bigraph", switch=self.option.name, side=side, parallel=parallel)
            hosts = self.option.radix - side * parallel
            return _Design(2 * side, side**2 * parallel, 2 * side, hosts, limits, name, shape)

        if side <= 127:
            yield from self.by_links(range(1, (self.option.radix - 1) // side + 1), design)

    def slim_fly(self, q: int) -> Iterator[Branch]:
        """Yield the McKay-Miller-Siran graph over the field of q elements."""
        degree = (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2
        n, hosts = 2 * q * q, self.option.radix - degree
        shape = partial(SlimFly, shape="slim-fly", switch=self.option.name, q=q, hosts=min(hosts, 254))
        limits = self._switch_limits(n, degree)
        found = _Design(n, n * degree // 2, n, hosts, limits, f"Slim Fly of q = {q}", shape)
        return self.by_links(range(1, 2), lambda _: found)


def _evenly(spines: int, groups: int, stop: int) -> range:
    """Return the links of each of some switches of a group with which each two groups have the same number."""
    step = (groups - 1) // gcd(spines, groups - 1)
    return range(step, stop, step)


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
        fewest = -(-problem.ports // (network.option.radix - 1))  # a port for each adapter, and one for a link
        first = -(-max(fewest, least) // step) * step
        numbers = range(first, max(problem.ports, first) + step, step)
        yield from ascending(numbers, network.branch, partial(designs, network))


def slim_flies(problem: Problem) -> Iterator[Branch]:
    """Yield Slim Flies, in the order of q."""
    for network in _networks(problem):
        for q in filter(prime_power, range(3, 62)):
            yield from network.slim_fly(q)
