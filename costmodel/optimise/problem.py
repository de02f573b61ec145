"""Needs with the catalog they are met from: what hangs on a network, what it must carry, and what its parts cost.

Everything here is known before a network is compiled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import inf

import numpy as np
from scipy.sparse import coo_array

from costmodel.optimise.cuts import Floats
from costmodel.optimise.demand import Counts, Demand, Jobs, Supply
from costmodel.optimise.needs import Amount, Needs, grown, quoted
from costmodel.owning import price_per_watt
from costmodel.power import end_power
from costmodel.price import UNITS
from topo.catalog.load import Catalog
from topo.cluster import resolve_groups
from topo.cluster_spec import ClusterSpec
from topo.errors import DesignError
from topo.fabric import Role
from topo.floor.racks import make_device
from topo.shapes.base import HostGroup, SwitchPorts, apportion, each_adapter
from topo.shapes.fat_tree import FatTree
from topo.speeds import LinkSpeed, slower

SERVING = (Role.STORAGE, Role.MANAGEMENT)
"""Roles of servers that send to those that compute."""
JOBS = 32
"""Jobs that are looked at, of many."""

UNLIKE = ("name", "part_number", "sources", "managed", "power_typical_w", "power_max_w")
"""In which twins among models may differ."""

Hung = Sequence[tuple[HostGroup, Counts]]
"""Adapters of one number of some servers, and how many of them hang on each leaf."""


@dataclass(frozen=True)
class Kind:
    """A model of switch as a design uses it."""

    name: str
    split: bool
    radix: int
    speed: LinkSpeed

    def rate(self, other: Kind) -> float:
        """Gb/s of a link between two switches."""
        return slower(self.speed, other.speed).gbps

    def link(self, other: Kind) -> str:
        """Item of the bill for a link between two switches."""
        return str(slower(self.speed, other.speed))


class Task:
    """Needs, resolved.

    Parameters
    ----------
    needs : Needs
        What the network has to do.
    catalog : topo.Catalog
        Hardware and prices.
    """

    def __init__(self, needs: Needs, catalog: Catalog) -> None:
        self.needs, self.catalog = needs, quoted(needs, catalog)
        nodes = {name: grown(group, needs.growth) for name, group in needs.nodes.items()}
        spec = ClusterSpec(name=needs.name, nodes=nodes, network=FatTree(switch=needs.switches[0]))
        self.spec = spec if needs.floor is None else spec.model_copy(update={"floor": needs.floor})
        """With the servers that growth brings, and any network."""
        self.groups = resolve_groups(self.spec, self.catalog)
        self.spare = 2 if needs.survives_a_switch else 1
        """Switches of a kind that all would hang on."""
        self.unpriced: set[str] = set()
        """Items without a price that a design asked for."""
        self._each: dict[tuple[str, int], tuple[float, float]] = {}
        self._per_watt = 0.0 if needs.owning is None else price_per_watt(needs.owning)

    @cached_property
    def ports(self) -> int:
        """Adapters of all servers."""
        return sum(group.count * group.adapters for group in self.groups)

    def misfit(self, name: str, model: str) -> str:
        """Return why the room has no place for a device; nothing where it has one, or no room is given."""
        if self.needs.floor is not None:
            try:
                make_device(name, model, self.catalog, self.needs.floor)
            except DesignError as error:
                return str(error)
        return ""

    @cached_property
    def models(self) -> list[str]:
        """Models of switches that are worth a look: each has a place in the room, and none outdoes it."""
        names = [name for name in dict.fromkeys(self.needs.switches) if not self.misfit("a switch", name)]
        return [
            name
            for number, name in enumerate(names)
            if not any(self._outdoes(other, name, at < number) for at, other in enumerate(names) if at != number)
        ]

    @cached_property
    def kinds(self) -> list[Kind]:
        """Models to choose from, also with split ports where every server keeps its full rate on them; no frames."""
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
                    found.append(Kind(name, split, ports.radix, ports.speed))
        return found

    def _outdoes(self, one: str, other: str, first: bool) -> bool:
        """Whether a model does what another does for no more money and power: for less, or it is named first.

        A design does not ask whether a switch is managed, so of twins such as QM9700 and QM9790 one is searched.
        """
        models = [self.catalog.switch(name) for name in (one, other)]
        prices = [self.catalog.price(name, self.needs.currency) for name in (one, other)]
        deeds = ([getattr(model, item.name) for item in fields(model) if item.name not in UNLIKE] for model in models)
        if None in prices or next(deeds) != next(deeds):
            return False
        mine, its = (
            (price.low, price.high, model.power_typical_w, model.power_max_w)
            for price, model in zip(prices, models, strict=True)
            if price is not None
        )
        alike = all((a is None) == (b is None) and (a or 0.0) <= (b or 0.0) for a, b in zip(mine, its, strict=True))
        return alike and (first or mine != its)

    @cached_property
    def sides(self) -> list[tuple[Kind, ...]]:
        """Models that may be linked with one another: all of InfiniBand or of Ethernet, all ports split or none."""
        found: dict[tuple[object, bool], list[Kind]] = {}
        for kind in self.kinds:
            found.setdefault((self.catalog.switch(kind.name).protocol, kind.split), []).append(kind)
        return [tuple(kinds) for kinds in found.values()]

    def whole(self, kind: Kind) -> list[Kind]:
        """Models with whole ports that may be linked with one: joints, whose ports are never split."""
        protocol = self.catalog.switch(kind.name).protocol
        return [each for each in self.kinds if not each.split and self.catalog.switch(each.name).protocol == protocol]

    def cost(self, switches: Iterable[tuple[str, int]], links: Iterable[tuple[str, int]], *, ends: int = 2) -> float:
        """Middle of the price of switches and cables, of what is known: see `unpriced`.

        With `Needs.owning` that of the energy is added; ``ends`` of each cable sit in switches, which power them.
        """
        total = sum(self._price(name, 0)[0] * count for name, count in switches if count)
        if self.needs.currency != UNITS:  # in which a switch comes with its links
            total += sum(self._price(name, ends)[0] * count for name, count in links if count)
        return total

    @property
    def narrowest(self) -> float:
        """Least quotient of the low end of a price and of what is compared: its middle, and energy."""
        return min((low / middle for middle, low in self._each.values() if middle), default=1.0)

    @cached_property
    def servers_w(self) -> float:
        """What the servers draw, of what is known."""
        models = [(group.count, self.catalog.node(group.model).planned_w) for group in self.groups]
        return sum(count * watts for count, watts in models if watts)

    @cached_property
    def _switch_w(self) -> float:
        """The least that a switch draws, of what is known."""
        models = map(self.catalog.switch, self.needs.switches)
        return min((model.planned_w or 0.0) / model.chips for model in models)

    def exceeds_budget(self, switches: int) -> bool:
        """Whether so many switches are more than are allowed, or draw more together with the servers."""
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

    def host_links(self, leaf: Kind, rails: Iterable[HostGroup]) -> list[tuple[str, int]]:
        """Items of the bill for the cables of servers, and how many."""
        found: Counter[str] = Counter()
        for rail in rails:
            found[str(slower(rail.speed, leaf.speed))] += rail.count
        return list(found.items())

    def demands(self, hung: Hung, speed: LinkSpeed, zone: Counts | None = None) -> list[Demand]:
        """What a design must carry between the halves of jobs, and of all, and from each role to all that compute.

        Parameters
        ----------
        hung : sequence of (HostGroup, (leaves,) int64)
            What hangs on the leaves of one subnet.
        speed : LinkSpeed
            Of the ports of leaves.
        zone : (leaves,) int64, optional
            Zone of each leaf, where there are several.
        """
        needs, first = self.needs, self._first_node
        total = sum(group.count for group in self.groups if group.role == Role.COMPUTE)
        windows = job_windows(total, needs.job.sizes)
        leaves = len(hung[0][1]) if hung else 0
        zones = np.zeros(leaves, np.int64) if zone is None else zone
        ends = [
            (rail, first[rail.name] + rail.first + np.cumsum(counts), counts)
            for rail, counts in hung
            if rail.role == Role.COMPUTE
        ]

        def held(jobs: Counts) -> list[Hanging]:
            return [_of_jobs(rail, last, counts, jobs) for rail, last, counts in ends]

        found = []
        chosen = windows[np.unique(np.linspace(0, len(windows) - 1, min(len(windows), JOBS)).astype(int))]
        for jobs in chosen[:, None] if needs.job.alone else [windows][: len(windows)]:
            parts, rows = held(jobs), len(jobs)
            if needs.job.with_storage:
                used = np.unique(zones[np.concatenate([leaf for _, _, leaf, _ in parts] or [np.zeros(0, int)])])
                for rail, counts in hung:
                    if rail.role == Role.STORAGE:
                        leaf = np.flatnonzero(counts * np.isin(zones, used))
                        parts.append((rail, rows + np.searchsorted(used, zones[leaf]), leaf, counts[leaf]))
                rows += len(used)
            found.append(_jobs(Amount(needs.job.bisection), parts, speed, rows, leaves))
        found.append(_jobs(needs.bandwidth.compute, held(np.array([[0, total]])), speed, 1, leaves))
        return [jobs for jobs in found if jobs.need.any()] + list(self._supplies(hung, speed, leaves))

    def _supplies(self, hung: Hung, speed: LinkSpeed, leaves: int) -> Iterator[Demand]:
        """Yield what roles must send to those that compute, as far as they hang here: of planes each has its part."""
        here: dict[Role, Floats] = {role: np.zeros(leaves) for role in (*SERVING, Role.COMPUTE)}
        for rail, counts in hung:
            here[rail.role] += slower(rail.speed, speed).gbps * counts
        for role in SERVING:
            wanted, full = self.needs.bandwidth.of(role), self.full_gbps(role)
            part = sum(rail.speed.gbps * float(counts.sum()) for rail, counts in hung if rail.role == role)
            if wanted and part:
                yield Supply(here[role], here[Role.COMPUTE], wanted.of(full) * part / full)

    def full_gbps(self, role: Role) -> float:
        """Gb/s of all adapters of a role."""
        return sum(group.count * group.adapters * group.speed.gbps for group in self.groups if group.role == role)

    def linked_gbps(self, role: Role) -> float:
        """Gb/s of all adapters of a role on the ports of the fastest switch that they can have."""
        speeds = {self.catalog.switch(name).speed for name in self.models}
        return sum(
            group.count * group.adapters * max((slower(group.speed, speed).gbps for speed in speeds), default=0.0)
            for group in self.groups
            if group.role == role
        )

    @cached_property
    def _first_node(self) -> dict[str, int]:
        """Number of the first compute node of each group, in the order of their names."""
        first, number = {}, 0
        for group in sorted(self.groups, key=lambda group: group.name):
            if group.role == Role.COMPUTE:
                first[group.name] = number
                number += group.count
        return first


def job_windows(nodes: int, job: int | Mapping[int, float]) -> Counts:
    """(J, 2) first node of each job that stands beside the others, and the one after its last; none of one node.

    ``job`` is the size of all jobs, or the share of the nodes by the size of the jobs that they run.

    Examples
    --------
    >>> from costmodel import job_windows
    >>> job_windows(7, 3).tolist()
    [[0, 3], [3, 6]]
    >>> job_windows(20, {6: 0.5, 2: 0.25}).tolist()
    [[0, 6], [10, 12], [12, 14]]
    """
    first, found = 0, [np.zeros((0, 2), np.int64)]
    for size, share in ({job: 1.0} if isinstance(job, int) else job).items():
        room = round(nodes * share)
        size = min(size, room)
        starts = first + np.arange(0, room - size + 1 if size > 1 else 0, max(size, 1))
        found.append(np.stack([starts, starts + size], axis=1))
        first += room
    return np.concatenate(found)


Hanging = tuple[HostGroup, Counts, Counts, Counts]
"""Adapters of one number of some servers: jobs, leaves, and how many of the adapters of that job hang on that leaf."""


def _of_jobs(rail: HostGroup, last: Counts, counts: Counts, jobs: Counts) -> Hanging:
    """Return where the adapters of jobs hang, of servers whose numbers on each leaf end before `last`."""
    edges = np.unique(np.concatenate([last - counts, last, jobs.ravel()]))
    low, number = edges[:-1], np.diff(edges)
    leaf = np.searchsorted(last, low, side="right")
    job = np.searchsorted(jobs[:, 0], low, side="right") - 1
    both = (leaf < len(last)) & (job >= 0)
    both[both] &= (low >= (last - counts)[leaf % len(last)])[both] & (low < jobs[job, 1])[both]
    return rail, job[both], leaf[both], number[both]


def _jobs(wanted: Amount, parts: Sequence[Hanging], speed: LinkSpeed, jobs: int, leaves: int) -> Jobs:
    """Return what jobs ask for, given what of each hangs where."""
    least, most, sums = np.full(jobs, inf), np.zeros(jobs), np.zeros(jobs)
    for rail, job, _, number in parts:
        rate = slower(rail.speed, speed).gbps
        least[job], most[job] = np.minimum(least[job], rate), np.maximum(most[job], rate)
        sums += np.bincount(job, rate * number, jobs)
    alike = least == most  # of one rate, of which a half takes whole adapters
    half: Floats = sums / 2
    half[alike] = np.round(sums[alike] / most[alike]) // 2 * most[alike]
    gbps = [slower(rail.speed, speed).gbps * number for rail, _, _, number in parts]
    places = [np.concatenate([part[at] for part in parts] or [np.zeros(0, int)]) for at in (1, 2)]
    held = coo_array((np.concatenate([*gbps, np.zeros(0)]), (places[0], places[1])), (jobs, leaves)).tocsr()
    return Jobs(held, half, half * wanted.share_of(float(half.sum())))


class Spread:
    """Adapters spread over leaves with room for so many each; what fits with room to spare is remembered."""

    def __init__(self, task: Task, rails: Sequence[HostGroup], speed: LinkSpeed) -> None:
        self.task, self.rails, self.speed = task, rails, speed
        self.ports = sum(rail.count for rail in rails)
        self._known: dict[tuple[int, int], list[Demand] | None] = {}
        self._fullest: dict[int, int] = {}

    def demands(self, leaves: int, room: int) -> list[Demand] | None:
        """What leaves with so many ports for adapters must carry; None where they are too few."""
        if leaves * room < self.ports or room < 1:
            return None
        if leaves not in self._fullest:
            free = hang(self.rails, np.full(leaves, self.ports + 1)) or []
            self._fullest[leaves] = int(np.sum([counts for _, counts in free], axis=0).max())
            self._known[leaves, self.ports] = self.task.demands(free, self.speed)
        key = (leaves, self.ports if self._fullest[leaves] < room else room)
        if key not in self._known:
            hung = hang(self.rails, np.full(leaves, room))
            self._known[key] = None if hung is None else self.task.demands(hung, self.speed)
        return self._known[key]


def hang(rails: Sequence[HostGroup], room: Counts) -> Hung | None:
    """Spread adapters over leaves as the compiler does; None where there is not room for all."""
    hung = []
    for rail in rails:
        if rail.count > room.sum():
            return None
        counts = apportion(rail.count, room)
        room = room - counts
        hung.append((rail, counts))
    return hung


def by_zone(groups: Sequence[HostGroup], zones: int, shared: Sequence[str]) -> Iterator[list[HostGroup]]:
    """Yield what hangs in each zone: an adapter of each shared server, and a part of each other group."""
    parts = {group.name: group.divide(zones) for group in groups}
    for zone in range(zones):
        own: list[HostGroup] = []
        for group in groups:
            own += [replace(group, device=zone)] if group.name in shared else each_adapter([parts[group.name][zone]])
        yield own
