"""Networks without levels of one model of switch: grids, groups and graphs, all of whose links lead to equals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from costmodel.optimise.bound import Node, first
from costmodel.optimise.demand import ROUNDING, Counts, Cut, Demand, least, least_out
from costmodel.optimise.problem import Kind, Spread, Task
from topo.errors import plural
from topo.shapes.base import each_adapter
from topo.shapes.grid import HyperX, Torus
from topo.shapes.groups import BiGraph, Dragonfly, DragonflyPlus
from topo.shapes.slim_fly import SlimFly, prime_power

MOST_DIMENSIONS = 3
Limit = tuple[float, Counts | None, Cut]
"""Links of a container, and what `costmodel.optimise.demand.least` is told of it."""


class Flat:
    """Networks of one model of switch."""

    def __init__(self, task: Task, kind: Kind) -> None:
        self.task, self.kind = task, kind
        self.rails = each_adapter(task.groups)
        self.rate = kind.rate(kind)
        self.host_cost = task.cost([], task.host_links(kind, self.rails), ends=1)
        self.spread = Spread(task, self.rails, kind.speed)
        self._known: dict[tuple[int, bytes | None, Cut], float] = {}
        self.total = task.demands([(rail, np.array([rail.count])) for rail in self.rails], kind.speed)

    def carries(self, leaves: int, room: int, limits: Sequence[Limit]) -> bool:
        """Whether leaves with so much room hold all, and no limit on links excludes it; the first is that of a leaf."""
        most = min(room, 254)
        out = limits[0][0] * leaves * self.rate
        if leaves * most < self.task.ports or out < least_out(self.total, most * self.kind.speed.gbps):
            return False
        demands = self.spread.demands(leaves, most)
        return demands is not None and all(
            self._gbps(demands, of, cut) <= links * self.rate * (1 + ROUNDING) for links, of, cut in limits
        )

    def _gbps(self, demands: list[Demand], of: Counts | None, cut: Cut) -> float:
        """What a container must have at least, whatever the number of its links: remembered."""
        key = (id(demands), None if of is None else of.tobytes(), cut)
        if key not in self._known:
            last = 0 if of is None else int(of.max())
            unit = np.where(np.arange(last + 1) < last, 1.0, 0.0) if cut == "line" else 1.0
            self._known[key] = least(demands, unit, of, cut=cut)
        return self._known[key]

    def node(self, switches: int, links: int, **more: Any) -> Node:
        """Return a node of so many switches with so many links between them."""
        item = self.kind.link(self.kind)
        price = self.host_cost + self.task.cost([(self.kind.name, switches)], [(item, links)])
        return Node(price, switches, links, **more)

    def by_size(self, switches: int, designs: Callable[[int], Iterator[Node]], step: int = 1) -> Node:
        """Return the row of so many switches and more."""

        def grow() -> Iterator[Node]:
            yield from designs(switches)
            if switches < self.task.ports:
                yield self.by_size(switches + step, designs, step)

        return self.node(switches, 0, grow=grow)

    @property
    def fewest(self) -> int:
        """Switches that hold all adapters and are linked."""
        return max(-(-self.task.ports // (self.kind.radix - 1)), 2)

    def grids(self, family: type[HyperX] | type[Torus], switches: int) -> Iterator[Node]:
        """Yield grids of up to three dimensions."""
        for sizes in _factors(switches, MOST_DIMENSIONS, 100):
            if family is Torus and max(sizes) < 4:
                continue  # it is a HyperX
            yield from self._grid(family, sizes, 1)

    def _grid(self, family: type[HyperX] | type[Torus], sizes: tuple[int, ...], parallel: int) -> Iterator[Node]:
        n, ring = prod(sizes), family is Torus
        degree = sum(min(size - 1, 2) if ring else size - 1 for size in sizes)
        places = [place.ravel() for place in np.indices(sizes)]

        def holds(parallel: int) -> bool:
            limits = self._spread_links(n, parallel * degree)
            for size, place in zip(sizes, places, strict=True):
                across = float(parallel * n // size)
                limits += [(across * min(size - 1, 2), place, "line") if ring else (across, place, "mesh")]
            return self.carries(n, self.kind.radix - parallel * degree, limits)

        parallel = first(range(parallel, (self.kind.radix - 1) // degree + 1), holds)
        if parallel:
            room = min(self.kind.radix - parallel * degree, 254)
            name = (
                f"{family.__name__} {' x '.join(map(str, sizes))}, {plural(parallel, 'link')} each, of {self.kind.name}"
            )
            keys = {"shape": "torus" if ring else "hyperx", "switch": self.kind.name, "sizes": sizes, "hosts": room}
            yield self.node(
                n,
                n * degree * parallel // 2,
                name=name,
                shape=partial(family.model_validate, {**keys, "parallel": parallel}),
                grow=lambda: self._grid(family, sizes, parallel + 1),
            )

    def _spread_links(self, switches: int, degree: int) -> list[Limit]:
        """Limits of a network whose switches have so many links to others each."""
        return [(degree, None, "out"), (degree / (switches - 1), None, "mean")]

    def dragonflies(self, switches: int) -> Iterator[Node]:
        """Yield groups of fully linked switches, each two with the same number of links."""
        for group in (a for a in range(2, switches // 2 + 1) if switches % a == 0):
            yield from self._dragonfly(switches // group, group, 1)

    def _dragonfly(self, groups: int, group: int, links: int) -> Iterator[Node]:
        n, near = groups * group, group - 1
        of = np.repeat(np.arange(groups), group)

        def holds(links: int) -> bool:
            limits = self._spread_links(n, near + links)
            limits += [(group * links, of, "out"), (group * links / (groups - 1), of, "mean")]
            return group * links % (groups - 1) == 0 and self.carries(n, self.kind.radix - near - links, limits)

        links = first(range(links, self.kind.radix - near), holds)
        if links:
            room = self.kind.radix - near - links
            yield self.node(
                n,
                n * (near + links) // 2,
                name=f"Dragonfly of {groups} groups x {group} switches x {links} global links of {self.kind.name}",
                shape=partial(
                    Dragonfly,
                    shape="dragonfly",
                    switch=self.kind.name,
                    groups=groups,
                    switches=group,
                    hosts=room,
                    global_links=links,
                ),
                grow=lambda: self._dragonfly(groups, group, links + 1),
            )

    def dragonflies_plus(self, switches: int) -> Iterator[Node]:
        """Yield groups of two levels whose spines are linked, each two with the same number of links."""
        for groups in (g for g in range(2, switches // 2 + 1) if switches % g == 0):
            for leaves in range(1, switches // groups):
                yield from self._dragonfly_plus(groups, leaves, switches // groups - leaves, 1)

    def _dragonfly_plus(self, groups: int, leaves: int, spines: int, links: int) -> Iterator[Node]:
        room = self.kind.radix - spines
        of = np.repeat(np.arange(groups), leaves)

        def holds(links: int) -> bool:
            limits: list[Limit] = [(spines, None, "out"), (spines * links, of, "out")]
            limits.append((spines * links / (groups - 1), of, "mean"))
            return spines * links % (groups - 1) == 0 and self.carries(groups * leaves, room, limits)

        if room < 1 or groups * leaves * room < self.task.ports or spines < min(self.task.spare, leaves):
            return
        links = first(range(links, self.kind.radix - leaves + 1), holds)
        if links:
            what = f"{groups} groups x {leaves} leaves x {spines} spines x {links} global links of {self.kind.name}"
            yield self.node(
                groups * (leaves + spines),
                groups * spines * (2 * leaves + links) // 2,
                name=f"Dragonfly+ of {what}",
                shape=partial(
                    DragonflyPlus,
                    shape="dragonfly+",
                    switch=self.kind.name,
                    groups=groups,
                    leaves=leaves,
                    spines=spines,
                    hosts=room,
                    global_links=links,
                ),
                grow=lambda: self._dragonfly_plus(groups, leaves, spines, links + 1),
            )

    def bigraphs(self, switches: int) -> Iterator[Node]:
        """Yield two sides that are fully linked."""
        yield from self._bigraph(switches // 2, 1)

    def _bigraph(self, side: int, parallel: int) -> Iterator[Node]:
        of = np.repeat([0, 1], side)

        def holds(parallel: int) -> bool:
            limits = self._spread_links(2 * side, side * parallel)
            limits.append((side**2 * parallel, of, "out"))
            return self.carries(2 * side, self.kind.radix - side * parallel, limits)

        parallel = first(range(parallel, (self.kind.radix - 1) // side + 1), holds) if side <= 127 else 0
        if parallel:
            yield self.node(
                2 * side,
                side**2 * parallel,
                name=f"BiGraph of 2 x {side} switches, {plural(parallel, 'link')} each, of {self.kind.name}",
                shape=partial(BiGraph, shape="bigraph", switch=self.kind.name, side=side, parallel=parallel),
                grow=lambda: self._bigraph(side, parallel + 1),
            )

    def slim_flies(self) -> Iterator[Node]:
        """Yield the graphs over fields of q elements."""
        for q in filter(prime_power, range(3, 62)):
            degree = (3 * q - {0: 0, 1: 1, 3: -1}[q % 4]) // 2
            n, room = 2 * q * q, self.kind.radix - degree
            if self.carries(n, room, self._spread_links(n, degree)):
                name = f"Slim Fly of q = {q} of {self.kind.name}"
                shape = partial(SlimFly, shape="slim-fly", switch=self.kind.name, q=q, hosts=min(room, 254))
                yield self.node(n, n * degree // 2, name=name, shape=shape)


def _factors(number: int, most: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a number as a product of at most so many factors, larger ones first."""
    if 1 < number <= largest:
        yield (number,)
    for factor in range(min(number // 2, largest), 1, -1):
        if number % factor == 0 and most > 1:
            yield from ((factor, *rest) for rest in _factors(number // factor, most - 1, factor))


def each(task: Task) -> Iterator[Flat]:
    """Yield one for each model with whole ports."""
    return (Flat(task, kind) for kind in task.kinds if not kind.split)


def hyperx(task: Task) -> Iterator[Node]:
    """Yield grids whose lines are fully linked; of one dimension they are meshes."""
    for flat in each(task):
        yield flat.by_size(flat.fewest, partial(flat.grids, HyperX))


def tori(task: Task) -> Iterator[Node]:
    """Yield grids whose lines are rings."""
    for flat in each(task):
        yield flat.by_size(flat.fewest, partial(flat.grids, Torus))


def dragonflies(task: Task) -> Iterator[Node]:
    """Yield Dragonflies."""
    for flat in each(task):
        yield flat.by_size(max(flat.fewest, 4), flat.dragonflies)


def dragonflies_plus(task: Task) -> Iterator[Node]:
    """Yield Dragonflies+."""
    for flat in each(task):
        yield flat.by_size(max(flat.fewest, 4), flat.dragonflies_plus)


def slim_flies(task: Task) -> Iterator[Node]:
    """Yield Slim Flies."""
    for flat in each(task):
        yield from flat.slim_flies()


def bigraphs(task: Task) -> Iterator[Node]:
    """Yield BiGraphs."""
    for flat in each(task):
        yield flat.by_size(2 * -(-flat.fewest // 2), flat.bigraphs, 2)
