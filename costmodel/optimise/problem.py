"""The problem of the search: needs resolved with the catalog.

It gives the switches to choose from, the demand of servers placed on leaves, and the price of parts: all that is known
before a design is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from costmodel.optimise.demand import Demand, Floats, Ints, JobDemand, ServingDemand
from costmodel.optimise.needs import Needs, grown, with_quotes
from costmodel.owning import price_per_watt
from costmodel.parts import Line
from costmodel.power import end_power
from costmodel.price import UNITS, Cost, price_lines
from topo.amounts import Range, Sum, Verdict
from topo.catalog.load import Catalog
from topo.checks import Check
from topo.cluster import resolve_groups
from topo.cluster_spec import ClusterBudget, ClusterSpec, parse_money
from topo.errors import DesignError
from topo.fabric import Role
from topo.floor.racks import make_device
from topo.shapes.base import HostGroup, SwitchPorts, place_adapters
from topo.shapes.fat_tree import FatTree
from topo.speeds import LinkSpeed, slower

SERVING = (Role.STORAGE, Role.MANAGEMENT)
"""Roles of servers that send to compute servers."""
MOST_JOBS = 32
"""Jobs that are measured one at a time; of more jobs this many, evenly spaced."""

IRRELEVANT = ("name", "part_number", "sources", "managed", "power_typical_w", "power_max_w")
"""Fields of a model of switch that no design depends on, apart from its price."""

Placement = Sequence[tuple[HostGroup, Ints]]
"""For each adapter number of each group of servers, the leaf of each server: (count,) int64."""


@dataclass(frozen=True)
class SwitchOption:
    """A model of switch, with whole or with split ports."""

    name: str
    split: bool
    radix: int
    speed: LinkSpeed

    def rate(self, other: SwitchOption) -> float:
        """Gb/s of a link between two switches."""
        return slower(self.speed, other.speed).gbps

    def link(self, other: SwitchOption) -> str:
        """Item of the bill for a link between two switches: its speed."""
        return str(slower(self.speed, other.speed))


class Problem:
    """Needs resolved with a catalog of hardware and prices."""

    def __init__(self, needs: Needs, catalog: Catalog) -> None:
        self.needs, self.catalog = needs, with_quotes(needs, catalog)
        nodes = {name: grown(group, needs.growth) for name, group in needs.nodes.items()}
        spec = ClusterSpec(name=needs.name, nodes=nodes, network=FatTree(switch=needs.switches[0]))
        kept = {key: getattr(needs, key) for key in ("floor", "terms", "exclude", "currency", "budget", "owning")}
        stated = {key: value for key, value in kept.items() if value not in (None, (), UNITS, ClusterBudget())}
        self.spec = spec.model_copy(update=stated)
        """The cluster with the servers after growth; its network is a placeholder."""
        self.groups = resolve_groups(self.spec, self.catalog)
        self._bought = {name: needs.nodes[name].count / group.count for name, group in nodes.items()}
        single = any(group.adapters == 1 and group.count > 1 for group in self.groups)
        self.redundancy = 2 if needs.survives_a_switch and single else 1
        """Least number of switches wherever all traffic depends on them. Servers with several adapters may still have a
        leaf in common without them."""
        self.unpriced: set[str] = set()
        """Items without a price that some design needed."""
        self._each: dict[tuple[str, int], tuple[float, float]] = {}
        self._per_watt = 0.0 if needs.owning is None else price_per_watt(needs.owning)

    @cached_property
    def ports(self) -> int:
        """Adapters of all servers."""
        return sum(group.count * group.adapters for group in self.groups)

    def floor_error(self, name: str, model: str) -> str:
        """Return why no rack can hold a device; empty where one can, or where the needs have no floor."""
        if self.needs.floor is not None:
            try:
                make_device(name, model, self.catalog, self.needs.floor)
            except DesignError as error:
                return str(error)
        return ""

    def available(self, name: str) -> float:
        """Return how many pieces of a model, or of a speed of cables, can be had in time."""
        supply = self.needs.supply.get(name)
        return inf if supply is None else supply.within(self.needs.weeks)

    def left_out(self, name: str) -> str:
        """Return why no network is searched with a model of switch: too few can be had to be the leaves of one."""
        model, most = self.catalog.switch(name), self.available(name)
        least = -(-self.ports // (model.split_radix or model.radix))
        few = f"{name}: {most:,.0f} can be had in time, and the servers need {least:,} as leaves: it is left out"
        return few if most < least else ""

    @cached_property
    def price_limit(self) -> float:
        """The most that the network may cost: its own limit, or what the servers leave of the limit for everything."""
        limits = [inf if self.needs.network_price is None else self.needs.network_price]
        if self.needs.budget.price is not None:
            lines = [
                line
                for name, group in self.needs.nodes.items()
                for model in [self.catalog.node(group.model)]
                for line in (
                    Line("node", group.model, group.count, name),
                    Line("adapter", model.adapter_model, group.count * model.adapters, group.model),
                )
            ]
            known = Cost("", price_lines(lines, self.catalog, self.needs.currency)).total.known
            limits.append(parse_money(self.needs.budget.price)[0] - (known.low if known else 0.0))
        return min(limits)

    @cached_property
    def models(self) -> list[str]:
        """Models of switches to search: racks can hold them, and no other model dominates them."""
        names = [
            name
            for name in dict.fromkeys(self.needs.switches)
            if name in self.catalog.switches and not self.left_out(name) and not self.floor_error("a switch", name)
        ]
        return [
            name
            for number, name in enumerate(names)
            if not any(self._dominates(other, name, at < number) for at, other in enumerate(names) if at != number)
        ]

    @cached_property
    def options(self) -> list[SwitchOption]:
        """Switches to choose from, without frames; with split ports only where every server keeps its full rate."""
        found = []
        for name in self.models:
            model = self.catalog.switch(name)
            for split in (False, True) if model.chips == 1 else ():
                try:
                    ports = SwitchPorts(self.catalog, name, split=split)
                except DesignError:
                    continue
                whole = model.speed
                if all(slower(g.speed, ports.speed).gbps == slower(g.speed, whole).gbps for g in self.groups):
                    found.append(SwitchOption(name, split, ports.radix, ports.speed))
        return found

    def _dominates(self, one: str, other: str, first: bool) -> bool:
        """Return whether a model equals another in all relevant fields, and costs and draws no more.

        Of two models with equal prices and power the ``first`` dominates. A design does not depend on whether a switch
        is managed, so of QM9700 and QM9790 only one is searched.
        """
        models = [self.catalog.switch(name) for name in (one, other)]
        prices = [self.catalog.price(name, self.needs.currency) for name in (one, other)]
        alike = replace(models[0], **{name: getattr(models[1], name) for name in IRRELEVANT}) == models[1]
        if None in prices or not alike or self.available(one) < self.available(other):
            return False
        mine, its = (
            (price.low, price.high, model.power_typical_w, model.power_max_w)
            for price, model in zip(prices, models, strict=True)
            if price is not None
        )
        no_more = all((a is None) == (b is None) and (a or 0.0) <= (b or 0.0) for a, b in zip(mine, its, strict=True))
        return no_more and (first or mine != its)

    @cached_property
    def linkable(self) -> list[tuple[SwitchOption, ...]]:
        """Sets of switches that can be linked to one another: same protocol, and all ports split or none."""
        found: dict[tuple[object, bool], list[SwitchOption]] = {}
        for option in self.options:
            found.setdefault((self.catalog.switch(option.name).protocol, option.split), []).append(option)
        return [tuple(options) for options in found.values()]

    def joints(self, leaf: SwitchOption) -> list[SwitchOption]:
        """Switches that can join zones with such leaves: same protocol, ports never split."""
        protocol = self.catalog.switch(leaf.name).protocol
        return [each for each in self.options if not each.split and self.catalog.switch(each.name).protocol == protocol]

    def supplied(self, switches: Iterable[tuple[str, int]], price: float) -> float:
        """Return the price of a design with so many switches, which is infinite where they cannot be had in time."""
        wanted: dict[str, int] = {}
        for name, count in switches if self.needs.supply else ():
            wanted[name] = wanted.get(name, 0) + count
        return price if all(count <= self.available(name) for name, count in wanted.items()) else inf

    def cost(self, switches: Iterable[tuple[str, int]], links: Iterable[tuple[str, float]], *, ends: int = 2) -> float:
        """Return the price of switches and cables, each at the middle of its range; unknown prices count 0.

        Items without a price are added to `unpriced`. With `Needs.owning` the price of the energy is included: of each
        cable ``ends`` are in switches, which power them.
        """
        total = sum(self._price(name, 0)[0] * count for name, count in switches if count)
        if self.needs.currency != UNITS:  # in which a switch comes with its links
            total += sum(self._price(name, ends)[0] * count for name, count in links if count)
        return total

    @property
    def least_price_ratio(self) -> float:
        """Minimum over items of low end of the price / (middle of the price + price of the energy)."""
        return min((low / middle for middle, low in self._each.values() if middle), default=1.0)

    @cached_property
    def servers_w(self) -> float:
        """Power of all servers that are bought, of those whose power is known."""
        return sum(
            group.count * (self.catalog.node(group.model).planned_w or 0.0) for group in self.needs.nodes.values()
        )

    @property
    def exceeded_by_servers(self) -> list[Check]:
        """The limits of power that the servers exceed before there is any network."""
        bought = self.needs.nodes.values()
        typical = sum(group.count * (self.catalog.node(group.model).power_typical_w or 0.0) for group in bought)
        budget, rest = self.needs.budget, ("the network",)
        checks = [
            Check.of(what, Sum(Range(watts, watts), rest) * 1e-3, limit / 1e3, f"budget.{what}", unit="kW", decimals=1)
            for what, watts, limit in (
                ("power", self.servers_w, budget.power),
                ("typical_power", typical, budget.typical_power),
            )
            if limit is not None
        ]
        return [check for check in checks if check.verdict is Verdict.EXCEEDED]

    @cached_property
    def _switch_w(self) -> float:
        """Least power of a switch; an unknown one counts 0."""
        models = map(self.catalog.switch, self.models)
        return min(((model.planned_w or 0.0) / model.chips for model in models), default=0.0)

    def exceeds_budget(self, switches: int) -> bool:
        """Return whether so many switches exceed the budget of switches, or with the servers the budget of power."""
        most, watts = self.needs.budget.switches, self.needs.budget.power
        if most is not None and switches > most:
            return True
        return watts is not None and self.servers_w + switches * self._switch_w > watts

    def _price(self, name: str, ends: int) -> tuple[float, float]:
        if (name, ends) not in self._each:
            price = self.catalog.price(name, self.needs.currency)
            if price is None:
                self.unpriced.add(name)
            low, high = (0.0, 0.0) if price is None else (price.low, price.high)
            watts: float | None = 0.0
            if self._per_watt:
                known = end_power(name, self.catalog) if ends else None
                watts = ends * known[0] if known else None if ends else self.catalog.switch(name).power_typical_w
                if watts is None:
                    self.unpriced.add(f"typical power of {name}")
            energy = (watts or 0.0) * self._per_watt
            self._each[name, ends] = ((low + high) / 2 + energy, low)
        return self._each[name, ends]

    def host_links(self, leaf: SwitchOption, rails: Iterable[HostGroup]) -> list[tuple[str, float]]:
        """Return the items of the bill for the cables of the servers that are bought, with their counts."""
        found: dict[str, float] = {}
        for rail in rails:
            item = str(slower(rail.speed, leaf.speed))
            found[item] = found.get(item, 0.0) + rail.count * self._bought[rail.name]
        return list(found.items())

    def demands(self, placement: Placement, leaves: int, speed: LinkSpeed, zone: Ints | None = None) -> list[Demand]:
        """Return the demands of the needs: of the jobs, of all compute servers, and of each role that serves them.

        They are of the adapters of one subnet on so many leaves, whose ports have a ``speed``; ``zone`` is (leaves,)
        int64, the zone of each leaf where there are several.
        """
        needs = self.needs
        total = sum(group.count for group in self.groups if group.role == Role.COMPUTE)
        zones = np.zeros(leaves, np.int64) if zone is None else zone
        servers: dict[tuple[str, int, int], list[tuple[HostGroup, Ints]]] = {}
        for rail, on in placement:
            if rail.count:
                servers.setdefault((rail.name, rail.first, int(zones[on[0]])), []).append((rail, on))
        rails = [(number, *each) for adapters in servers.values() for number, each in enumerate(adapters)]
        several, part = max((number for number, *_ in rails), default=0) + 1, needs.between_rails

        def demanded(share: float, jobs: Ints, *, with_storage: bool = False) -> Iterator[JobDemand]:
            """Yield what jobs demand over their rails and between them; where all is needed between, that is more."""
            found: list[tuple[int, Ints, Ints, Floats]] = [
                (number, *_entries(rail, on, self._first_node[rail.name], jobs, speed))
                for number, rail, on in rails
                if rail.role == Role.COMPUTE
            ]
            if with_storage:
                used = np.unique(zones[np.concatenate([np.zeros(0, int), *(leaf for _, _, leaf, _ in found)])])
                for number, rail, on in rails:
                    if rail.role == Role.STORAGE and zones[on[0]] in used:
                        every = np.array([[0, rail.first + rail.count]])
                        job, leaf, gbps = _entries(rail, on, 0, every, speed)
                        found.append((number, job + len(jobs) + zones[on[0]], leaf, gbps))
            if several == 1 or part < 1:
                yield _job_demand(
                    share, [(job * several + number, leaf, gbps) for number, job, leaf, gbps in found], leaves
                )
            if several > 1 and part:
                yield _job_demand(share * part, [(job, leaf, gbps) for _, job, leaf, gbps in found], leaves)

        whole = needs.bandwidth.compute.share_of(self.full_gbps(Role.COMPUTE) / 2)
        asked: list[JobDemand] = []
        for jobs in jobs_at_once(total, needs.job.sizes, alone=needs.job.alone):
            asked += demanded(needs.job.bisection, jobs, with_storage=needs.job.with_storage)
        asked += demanded(whole, np.array([[0, total]]))
        return [jobs for jobs in asked if jobs.share] + list(self._serving(placement, speed, leaves))

    def _serving(self, placement: Placement, speed: LinkSpeed, leaves: int) -> Iterator[Demand]:
        """Yield the demand of each serving role; a rate in proportion to its adapters in this subnet."""
        here: dict[Role, Floats] = {role: np.zeros(leaves) for role in (*SERVING, Role.COMPUTE)}
        for rail, on in placement:
            here[rail.role] += slower(rail.speed, speed).gbps * np.bincount(on, minlength=leaves)
        for role in SERVING:
            wanted, full = self.needs.bandwidth.of(role), self.full_gbps(role)
            part = sum(rail.speed.gbps * rail.count for rail, _ in placement if rail.role == role)
            if wanted.gbps and part:
                yield ServingDemand(here[role], here[Role.COMPUTE], wanted.gbps * part / full)
            elif wanted and part:
                yield ServingDemand(wanted.share * here[role], here[Role.COMPUTE], wanted.share * here[role].sum())

    def full_gbps(self, role: Role) -> float:
        """Return the nominal Gb/s of all adapters of a role."""
        return sum(group.count * group.adapters * group.speed.gbps for group in self.groups if group.role == role)

    def attainable_gbps(self, role: Role) -> float:
        """Return the Gb/s of all adapters of a role on ports of the fastest switch of the needs."""
        speeds = {self.catalog.switch(name).speed for name in self.models}
        return sum(
            group.count * group.adapters * max((slower(group.speed, speed).gbps for speed in speeds), default=0.0)
            for group in self.groups
            if group.role == role
        )

    @cached_property
    def _first_node(self) -> dict[str, int]:
        """Rank of the first compute node of each group; groups are in the order of their names."""
        first, number = {}, 0
        for group in sorted(self.groups, key=lambda group: group.name):
            if group.role == Role.COMPUTE:
                first[group.name] = number
                number += group.count
        return first


def job_windows(nodes: int, job: int | Mapping[int, float]) -> Ints:
    """Return the ranks of the nodes of each job: the first, and one past the last.

    Parameters
    ----------
    nodes : int
        Number of compute nodes.
    job : int or mapping
        Size of all jobs, or the share of the nodes by the size of the jobs that they run.

    Returns
    -------
    (J, 2) int64
        As many jobs of each size as there are nodes for, side by side; jobs of one node are omitted.

    Examples
    --------
    >>> from costmodel import job_windows
    >>> job_windows(7, 3).tolist()
    [[0, 3], [3, 6]]
    >>> job_windows(20, {6: 0.5, 2: 0.25}).tolist()
    [[0, 6], [10, 12], [12, 14]]
    >>> job_windows(27, {14: 0.5, 2: 0.5})[-1].tolist()  # both halves of 27 are rounded to 14
    [24, 26]
    """
    first, found = 0, [np.zeros((0, 2), np.int64)]
    for size, share in ({job: 1.0} if isinstance(job, int) else job).items():
        available = min(round(nodes * share), nodes - first)
        size = min(size, available)
        starts = first + np.arange(0, available - size + 1 if size > 1 else 0, max(size, 1))
        found.append(np.stack([starts, starts + size], axis=1))
        first += available
    return np.concatenate(found)


def jobs_at_once(nodes: int, job: int | Mapping[int, float], *, alone: bool = False) -> list[Ints]:
    """Return the jobs that have the network at the same time: all, or each alone.

    Parameters
    ----------
    nodes, job
        As `job_windows` takes them.
    alone : bool
        Whether each job has the network to itself; of many only `MOST_JOBS`, evenly spaced.

    Returns
    -------
    list of (J, 2) int64
        Ranks of the nodes, as `job_windows` returns them; empty where there are no jobs.

    Examples
    --------
    >>> from costmodel import jobs_at_once
    >>> [jobs.tolist() for jobs in jobs_at_once(7, 3, alone=True)]
    [[[0, 3]], [[3, 6]]]
    """
    windows = job_windows(nodes, job)
    if not alone:
        return [windows][: len(windows)]
    return list(windows[np.unique(np.linspace(0, len(windows) - 1, min(len(windows), MOST_JOBS)).astype(int))][:, None])


_Entries = tuple[Ints, Ints, Floats]
"""Job, leaf, and Gb/s of adapters; some may be of the same job and leaf."""


def _entries(rail: HostGroup, on: Ints, first: int, jobs: Ints, speed: LinkSpeed) -> _Entries:
    """Return what consecutive servers of a job with one leaf have on it; ``first`` is the rank of the group's first."""
    first += rail.first
    moves = first + 1 + np.flatnonzero(np.diff(on))
    edges = np.unique(np.concatenate([[first, first + rail.count], moves, jobs.ravel()]))
    edges = edges[(edges >= first) & (edges <= first + rail.count)]
    low, number = edges[:-1], np.diff(edges)
    job = np.searchsorted(jobs[:, 0], low, side="right") - 1
    mine = job >= 0
    mine[mine] = low[mine] < jobs[job[mine], 1]
    return job[mine], on[low[mine] - first], slower(rail.speed, speed).gbps * number[mine]


def _job_demand(share: float, parts: Sequence[_Entries], leaves: int) -> JobDemand:
    """Return the demand of jobs, given what their adapters have on leaves."""
    from scipy.sparse import coo_array  # which takes long to load, and `plan check` needs none

    none = np.zeros(0, np.int64)
    job, leaf, gbps = (np.concatenate([none, *each]) for each in zip(*parts, strict=True)) if parts else (none,) * 3
    numbers, row = np.unique(job, return_inverse=True)
    return JobDemand(coo_array((gbps.astype(np.float64), (row, leaf)), (len(numbers), leaves)).tocsr(), share)


class EvenSpread:
    """Demands of adapters spread evenly over leaves, cached by the number of leaves and of their free ports."""

    def __init__(self, problem: Problem, rails: Sequence[HostGroup], speed: LinkSpeed) -> None:
        self.problem, self.rails, self.speed = problem, rails, speed
        self.ports = sum(rail.count for rail in rails)
        self._known: dict[tuple[int, int], list[Demand] | None] = {}
        self._fullest: dict[int, int] = {}

    def demands(self, leaves: int, free_ports: int) -> list[Demand] | None:
        """Return the demands on leaves with so many ports for adapters each; None where the ports do not suffice."""
        if leaves * free_ports < self.ports or free_ports < 1:
            return None
        if leaves not in self._fullest:
            unlimited = place(self.rails, np.full(leaves, self.ports + 1)) or []
            self._fullest[leaves] = int(np.bincount(np.concatenate([on for _, on in unlimited])).max())
            self._known[leaves, self.ports] = self.problem.demands(unlimited, leaves, self.speed)
        key = (leaves, self.ports if self._fullest[leaves] < free_ports else free_ports)
        if key not in self._known:
            placement = place(self.rails, np.full(leaves, free_ports))
            self._known[key] = None if placement is None else self.problem.demands(placement, leaves, self.speed)
        return self._known[key]


def place(rails: Sequence[HostGroup], free_ports: Ints, placed: Sequence[Ints] | None = None) -> Placement | None:
    """Place adapters on leaves as `place_adapters` of the compiler; None where the free ports do not suffice."""
    try:
        return list(zip(rails, place_adapters(rails, free_ports, placed), strict=True))
    except DesignError:
        return None
