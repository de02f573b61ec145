"""Growth in stages: which switches and cables to buy when, with the fewest moved cables."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from costmodel.optimise.bisection import Bisection, adapters_of
from costmodel.optimise.capacity import Capacity, measure_capacity
from costmodel.optimise.problem import Problem
from topo.amounts import Verdict, percent
from topo.catalog.load import Catalog
from topo.changes.growth import plan_growth
from topo.checks import Check
from topo.cluster import Cluster, resolve_groups
from topo.cluster_spec import ClusterSpec
from topo.errors import HeddleError, plural
from topo.fabric import Fabric
from topo.floor.cables import backplane
from topo.speeds import speed_name
from topo.table import Table


@dataclass(frozen=True)
class Stage:
    """The part of a network that is installed with the first servers of each group."""

    share: float
    """Share of the servers of each group."""
    servers: int
    switches: int
    cables: int
    price: float
    """Price of all that is installed, in the currency of the needs; unknown prices count 0."""
    job_bisection: Bisection
    """Bisection of the jobs on these servers."""
    moved: int = 0
    """Temporary cables between installed switches, moved when the switches at their final ends are installed."""
    checks: tuple[Check, ...] = ()
    """The needs that are not known to be met at this stage."""


def split_in_stages(fabrics: Sequence[Fabric], problem: Problem, whole: Capacity) -> tuple[Stage, ...]:
    """Divide a network into the stages of its needs.

    A stage has the first servers of each group, their switches, the switches without servers that lead to these, and
    all cables between them. It is therefore a part of the next stage, and no cable is moved. If such a part does not
    meet a need and `Needs.moving` allows it, the fewest temporary cables that suffice are added: cables whose final
    switches are not installed yet, laid between installed ones.
    """
    return (*(_stage(fabrics, problem, share) for share in problem.needs.stages), _stage(fabrics, problem, 1.0, whole))


def _stage(fabrics: Sequence[Fabric], problem: Problem, share: float, known: Capacity | None = None) -> Stage:
    """Return a stage with a share of the servers; ``known`` is its capacity, where it has been measured."""
    groups, needs = problem.groups, problem.needs
    kept = {host for group in groups for host in group.hosts[: ceil(round(group.count * share, 9))]}
    # Before growth: the cables of the other servers are not part of the bill.
    bought = {host for group in groups for host in group.hosts[: needs.nodes[group.name].count]}
    parts: list[Fabric] = []
    switches, links, host_links = Counter[str](), Counter[str](), Counter[str]()
    for fabric in fabrics:
        installed = _installed(fabric, kept)
        ends, inner = fabric.port_node[fabric.links], fabric.is_inner_link
        there = installed[ends].all(axis=1)
        boxed = backplane(fabric, problem.catalog)
        parts.append(fabric.without(fabric.links[~there, 0]))
        switches.update(fabric.models[fabric.model[node]] for node in np.flatnonzero(installed[: fabric.n_switches]))
        links.update(_items(fabric, fabric.links[there & inner & ~boxed]))
        host_links.update(_items(fabric, fabric.links[there & ~inner & adapters_of(fabric, bought)[ends].any(axis=1)]))
    boxes = [(model, -(-number // problem.catalog.switch(model).chips)) for model, number in switches.items()]
    price = problem.cost(boxes, links.items()) + problem.cost([], host_links.items(), ends=1)
    found, moved = known or measure_capacity(parts, problem, share), 0
    if not known and found.verdict is Verdict.EXCEEDED and needs.moving is not None:
        temporary = [_temporary_links(fabric, part) for fabric, part in zip(fabrics, parts, strict=True)]

        def with_cables(count: int) -> Capacity:
            joined = [_with_links(part, ports[:count]) for part, ports in zip(parts, temporary, strict=True)]
            return measure_capacity(joined, problem, share)

        def suffices(count: int) -> bool:
            return with_cables(count).verdict is not Verdict.EXCEEDED

        most_cables = max(map(len, temporary), default=0)
        if suffices(most_cables):
            count = bisect_left(range(most_cables), True, key=suffices)
            found = with_cables(count)
            for part, ports in zip(parts, temporary, strict=True):
                price += problem.cost([], Counter(_items(part, ports[:count])).items())
                moved += len(ports[:count])
    open_checks = tuple(
        replace(check, text=f"at {percent(share)} of the servers {check.text}")
        for check in found.checks
        if check.verdict is not Verdict.HOLDS
    )
    cables = links.total() + host_links.total() + moved
    return Stage(share, len(kept), switches.total(), cables, price, found.job_bisection, moved, open_checks)


def stage_spec(whole: ClusterSpec, stage: Stage, catalog: Catalog) -> ClusterSpec | str:
    """Return the spec of a stage of a network: its share of each group, on as many leaves as these have in the whole.

    Where that is not the stage, return how they differ: it has other switches or cables, or a cable of it moves when
    the whole is built. So it is of most networks that are no trees, and of stages with temporary cables.
    """
    counts = {name: ceil(round(group.count * stage.share, 9)) for name, group in whole.nodes.items()}
    fabrics = Cluster(whole, catalog).fabrics

    first = {name for group in resolve_groups(whole, catalog) for name in group.hosts[: counts[group.name]]}
    leaves = [
        {int(one.end_switch[end]) for end in one.ends().tolist() if one.server_of(int(one.end_node[end])) in first}
        for one in fabrics
    ]
    shape = whole.network
    tree = getattr(shape, "tree", shape)
    if getattr(tree, "leaves", None):
        tree = tree.model_copy(update={"leaves": max(map(len, leaves))})
        shape = tree if tree.shape == shape.shape else shape.model_copy(update={"tree": tree})
    nodes = {name: whole.nodes[name].model_copy(update={"count": count}) for name, count in counts.items()}
    spec = whole.model_copy(update={"nodes": nodes, "network": shape})
    try:
        parts = Cluster(spec, catalog).fabrics
        works = [work for pair in zip(parts, fabrics, strict=True) for work in plan_growth(*pair).works]
    except (HeddleError, ValueError) as error:  # no such network, or one of fewer subnets
        return f"it cannot be built: {error}"
    if moved := sum(work.do == "unplug" for work in works):
        return f"{plural(moved, 'cable')} of it would be unplugged later"
    same = (sum(part.n_switches for part in parts), sum(len(part.links) for part in parts))
    if same == (stage.switches, stage.cables):
        return spec
    return f"it has {same[0]:,} switches and {same[1]:,} cables, and the stage {stage.switches:,} and {stage.cables:,}"


def _temporary_links(fabric: Fabric, part: Fabric) -> NDArray[np.int32]:
    """(C, 2) pairs of ports to join, in order; their final cables lead to switches that are not installed yet.

    Each link joins the two switches with the fewest links between them; of several pairs the one with the most free
    ports.
    """
    n = fabric.n_switches
    ends = part.port_node[part.links]
    installed = np.zeros(fabric.n_nodes, bool)
    installed[ends.ravel()] = True
    later = np.flatnonzero((part.peer < 0) & (fabric.peer >= 0) & installed[fabric.port_node])
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


def _with_links(part: Fabric, ports: NDArray[np.int32]) -> Fabric:
    """Return a fabric with links between pairs of ports."""
    peer, (a, b) = part.peer.copy(), ports.T
    peer[a], peer[b] = b, a
    return replace(part, peer=peer)


def _installed(fabric: Fabric, kept: set[str]) -> NDArray[np.bool_]:
    """(N,) bool: nodes that are installed with these servers."""
    n = fabric.n_switches
    installed = adapters_of(fabric, kept)
    ends = fabric.port_node[fabric.links]
    both = np.concatenate([ends, ends[:, ::-1]])
    switch, far = both[both[:, 0] < n].T
    installed[switch[installed[far]]] = True
    empty = np.setdiff1d(np.arange(n), switch[far >= n])
    switch, far = switch[np.isin(switch, empty)], far[np.isin(switch, empty)]
    while (more := installed[far] & ~installed[switch]).any():  # spines, then cores
        installed[switch[more]] = True
    return installed


def _items(fabric: Fabric, links: NDArray[np.int32]) -> Iterator[str]:
    """Yield the item of the bill for each link: its speed."""
    widths, speeds = (each[links].min(axis=1).tolist() for each in (fabric.width, fabric.speed))
    return map(speed_name, widths, speeds)


def stages_table(stages: Sequence[Stage], currency: str) -> Table:
    """Return a table of what to buy and to move at each stage."""
    rows = []
    switches, cables, price, moved = 0, 0, 0.0, 0
    for stage in stages:
        more = (stage.switches - switches, stage.cables - cables, moved, stage.price - price)
        rows.append((percent(stage.share), stage.servers, *more, stage.price, str(stage.job_bisection)))
        switches, cables, price, moved = stage.switches, stage.cables, stage.price, stage.moved
    names = ("part", "servers", "switches to buy", "cables to buy", "to move", "price", "price of all", "job bisection")
    places = [name in ("price", "price of all") for name in names]
    return Table.of_rows("stages", names, rows, [",.0f" * of for of in places], [currency * of for of in places])
