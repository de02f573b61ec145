"""Growth in stages: what of a network is bought when, so that no cable is laid twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from costmodel.capacity import Bisection, bisection
from costmodel.parts import columns
from costmodel.task import Task
from topo.fabric import Fabric, Kind
from topo.hardware.speeds import SPEEDS
from topo.room.cables import backplane
from topo.table import Table


@dataclass(frozen=True)
class Stage:
    """What stands when a part of the servers does. Nothing of it is moved later."""

    share: float
    """Of the servers of each group, the first ones."""
    servers: int
    switches: int
    cables: int
    price: float
    """Of all that stands, of what is known."""
    job_bisection: Bisection
    """Of the jobs among these servers."""


def split_in_stages(fabrics: Sequence[Fabric], task: Task) -> tuple[Stage, ...]:
    """Divide a network into the stages of its needs.

    A stage has the first servers of each group, the switches that they hang on, and those without servers that lead to
    them, with all cables between. So it is a part of the next stage, and no cable is moved.

    Parameters
    ----------
    fabrics : sequence of Fabric
        The whole network.
    task : Task
        The needs, with their prices.
    """
    return tuple(_stage(fabrics, task, share) for share in (*task.needs.stages, 1.0))


def _stage(fabrics: Sequence[Fabric], task: Task, share: float) -> Stage:
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
    job = task.needs.job
    found = bisection(parts, job.sizes, with_storage=job.with_storage, alone=job.alone)
    return Stage(share, len(kept), switches.total(), links.total() + hung.total(), price, found)


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
    switches, cables, price = 0, 0, 0.0
    for stage in stages:
        more = (stage.switches - switches, stage.cables - cables, stage.price - price)
        rows.append((f"{stage.share:.0%}", stage.servers, *more, stage.price, str(stage.job_bisection)))
        switches, cables, price = stage.switches, stage.cables, stage.price
    names = ("part", "servers", "switches to buy", "cables to lay", "for", "in all", "job bisection")
    units = {"for": currency, "in all": currency}
    return Table("stages, no cable moved", tuple(columns(names, rows, units, dict.fromkeys(units, ",.0f"))))
