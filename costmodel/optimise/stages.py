"""Growth in stages: what of a network is bought when, with the least re-cabling."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from costmodel.optimise.bisection import Bisection
from costmodel.optimise.capacity import Carried, measure_carried
from costmodel.optimise.problem import Task
from costmodel.parts import columns
from topo.amounts import Verdict
from topo.fabric import Fabric, Kind
from topo.floor.cables import backplane
from topo.speeds import SPEEDS
from topo.table import Table


@dataclass(frozen=True)
class Stage:
    """What stands when a part of the servers does."""

    share: float
    """Of the servers of each group, the first ones."""
    servers: int
    switches: int
    cables: int
    price: float
    """Of all that stands, of what is known."""
    job_bisection: Bisection
    """Of the jobs among these servers."""
    moved: int = 0
    """Cables that are moved afterwards: they lie between switches that stand, for want of those that they will lead
    to."""
    lacks: str = ""
    """Which needs it misses."""

    @property
    def verdict(self) -> tuple[Verdict, str]:
        """Whether it meets the needs, and what it lacks, in words."""
        return (Verdict.EXCEEDED if self.lacks else Verdict.HOLDS), f"at {self.share:.0%} of the servers {self.lacks}"


def split_in_stages(fabrics: Sequence[Fabric], task: Task, whole: Carried) -> tuple[Stage, ...]:
    """Divide a network into the stages of its needs.

    A stage has the first servers of each group, the switches that they hang on, and those without servers that lead to
    them, with all cables between. So it is a part of the next stage, and no cable is moved. Where such a part misses a
    need, and `Needs.moving` allows it, cables for switches that do not stand yet join those that do, as few as will do;
    they are moved to their places when the next stage is built.

    Parameters
    ----------
    fabrics : sequence of Fabric
        The whole network.
    task : Task
        The needs, with their prices.
    whole : Carried
        What all of it carries.
    """
    return (*(_stage(fabrics, task, share) for share in task.needs.stages), _stage(fabrics, task, 1.0, whole))


def _stage(fabrics: Sequence[Fabric], task: Task, share: float, known: Carried | None = None) -> Stage:
    named = sorted({host for fabric in fabrics for host in fabric.hosts})
    group = [host.rstrip("0123456789") for host in named]
    most = {name: ceil(round(count * share, 9)) for name, count in Counter(group).items()}
    taken: Counter[str] = Counter()
    kept: set[str] = set()
    for host, name in zip(named, group, strict=True):
        taken[name] += 1
        if taken[name] <= most[name]:
            kept.add(host)
    parts: list[Fabric] = []
    switches, links, hung = Counter[str](), Counter[str](), Counter[str]()
    for fabric in fabrics:
        stands = _standing(fabric, kept)
        ends = fabric.port_node[fabric.links]
        there = stands[ends].all(axis=1)
        boxed = backplane(fabric, task.catalog)
        parts.append(fabric.without(fabric.links[~there, 0]))
        switches.update(fabric.models[fabric.model[node]] for node in np.flatnonzero(stands[: fabric.n_switches]))
        inner = (ends < fabric.n_switches).all(axis=1)
        links.update(_items(fabric, fabric.links[there & inner & ~boxed]))
        hung.update(_items(fabric, fabric.links[there & ~inner]))
    boxes = [(model, -(-number // task.catalog.switch(model).chips)) for model, number in switches.items()]
    price = task.cost(boxes, links.items()) + task.cost([], hung.items(), ends=1)
    found, moved = known or measure_carried(parts, task, share), 0
    if not (known or found.holds) and task.needs.moving is not None:
        spare = [_spare(fabric, part) for fabric, part in zip(fabrics, parts, strict=True)]

        def with_cables(count: int) -> Carried:
            return measure_carried([_joined(*each, count) for each in zip(parts, spare, strict=True)], task, share)

        all_of_them = max(map(len, spare), default=0)
        if with_cables(all_of_them).holds:
            count = bisect_left(range(all_of_them), True, key=lambda count: with_cables(count).holds)
            found = with_cables(count)
            for part, joints in zip(parts, spare, strict=True):
                laid = _items(part, joints[:count])
                price += task.cost([], Counter(laid).items())
                moved += len(joints[:count])
    lacks = "; ".join(check.text for check in found.checks if check.verdict is not Verdict.HOLDS)
    cables = links.total() + hung.total() + moved
    return Stage(share, len(kept), switches.total(), cables, price, found.job_bisection, moved, lacks)


def _spare(fabric: Fabric, part: Fabric) -> NDArray[np.int32]:
    """(C, 2) ports to join, in order, where cables lead to switches that do not stand yet.

    Each cable joins two switches with the fewest links between them, and of those the two with the most ports left.
    """
    n = fabric.n_switches
    ends = part.port_node[part.links]
    stands = np.zeros(fabric.n_nodes, bool)
    stands[ends.ravel()] = True
    later = np.flatnonzero((part.peer < 0) & (fabric.peer >= 0) & stands[fabric.port_node])
    later = later[(fabric.port_node[later] < n) & (fabric.port_node[fabric.peer[later]] < n)]
    free = {
        node: later[fabric.port_node[later] == node].tolist() for node in np.unique(fabric.port_node[later]).tolist()
    }
    node = np.array(list(free), np.int64)
    left = np.array([len(ports) for ports in free.values()])
    between = np.zeros((n, n))
    inner = ends[(ends < n).all(axis=1)]
    np.add.at(between, (inner[:, 0], inner[:, 1]), 1)
    between = (between + between.T)[np.ix_(node, node)]
    np.fill_diagonal(between, np.inf)
    joined = []
    while np.count_nonzero(left) > 1:
        cost = between - (left[:, None] + left) / (1 + 2 * left.sum())
        cost[left == 0], cost[:, left == 0] = np.inf, np.inf
        a, b = np.unravel_index(np.argmin(cost), cost.shape)
        between[a, b] += 1
        between[b, a] += 1
        left[a], left[b] = left[a] - 1, left[b] - 1
        joined.append((free[int(node[a])].pop(), free[int(node[b])].pop()))
    return np.array(joined, np.int32).reshape(-1, 2)


def _joined(part: Fabric, ports: NDArray[np.int32], count: int) -> Fabric:
    """Return a part with cables between the first pairs of ports."""
    peer, (a, b) = part.peer.copy(), ports[:count].T
    peer[a], peer[b] = b, a
    return replace(part, peer=peer)


def _standing(fabric: Fabric, kept: set[str]) -> NDArray[np.bool_]:
    """(N,) bool: nodes of a stage."""
    mine = np.array([host in kept for host in fabric.hosts] + [False], bool)
    stands: NDArray[np.bool_] = mine[fabric.host] & (fabric.kind == Kind.HCA)
    ends = fabric.port_node[fabric.links]
    empty = np.ones(fabric.n_nodes, bool)
    for a, b in (ends.T, ends.T[::-1]):
        hangs = (a < fabric.n_switches) & (b >= fabric.n_switches)
        empty[a[hangs]] = False
        stands[a[hangs & stands[b]]] = True
    empty[fabric.n_switches :] = False
    while True:  # spines, then cores
        before = stands.sum()
        for a, b in (ends.T, ends.T[::-1]):
            stands[a[empty[a] & stands[b]]] = True
        if stands.sum() == before:
            return stands


def _items(fabric: Fabric, links: NDArray[np.int32]) -> Iterator[str]:
    """Items of the bill for links: their speed."""
    widths, speeds = (each[links].min(axis=1).tolist() for each in (fabric.width, fabric.speed))
    return (f"{width}x{SPEEDS[speed]}" for width, speed in zip(widths, speeds, strict=True))


def stages_table(stages: Sequence[Stage], currency: str) -> Table:
    """Show what is bought at each stage."""
    rows = []
    switches, cables, price, moved = 0, 0, 0.0, 0
    for stage in stages:
        more = (stage.switches - switches, stage.cables - cables, moved, stage.price - price)
        rows.append((f"{stage.share:.0%}", stage.servers, *more, stage.price, str(stage.job_bisection)))
        switches, cables, price, moved = stage.switches, stage.cables, stage.price, stage.moved
    names = ("part", "servers", "switches to buy", "cables to buy", "to move", "price", "price of all", "job bisection")
    units = {"price": currency, "price of all": currency}
    return Table("stages", tuple(columns(names, rows, units, dict.fromkeys(units, ",.0f"))))
