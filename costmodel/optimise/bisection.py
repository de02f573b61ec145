"""Bandwidth that any routing can reach at best: what every server of a bisected job gets, and maximum flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.optimise.cuts import CutSearch, Subnet
from costmodel.optimise.demand import ROUNDING, SOLVER_TOLERANCE, Ints, Sides
from costmodel.optimise.problem import jobs_at_once
from topo.amounts import Verdict, listed, percent
from topo.errors import plural
from topo.fabric import Fabric, Kind, Role
from topo.graphs import minimum_cut, turns_in_groups
from topo.hostlist import compress, natural_order
from topo.ports import rail_numbers
from topo.speeds import SPEEDS
from topo.table import Brief, Record

MOST_JOBS_NAMED = 2
"""Jobs that a worst cut names; of more it says how many others it divides."""
MOST_SHOWN = 60
"""Characters of a hostlist of switches; of longer ones the first few switches are named."""


@dataclass(frozen=True)
class WorstCut(Brief, Record):
    """A set of switches whose links to the others limit the servers on it.

    Examples
    --------
    >>> from costmodel import WorstCut
    >>> print(WorstCut("pod", ("leaf0",), ("leaf0",), servers=33, leaves_gbps=400.0, asked_gbps=6_600.0))
    leaf0 (33 servers, 6,600 Gb/s) has 400 Gb/s to the rest
    >>> print(WorstCut("pod", ("leaf0",), ("leaf0",), servers=33, leaves_gbps=400.0, asked_gbps=6_600.0, alike=3))
    leaf0 (33 servers, 6,600 Gb/s) has 400 Gb/s to the rest, as each of 3 such sets
    """

    subnet: str
    switches: tuple[str, ...]
    """Names of the switches of the set, in the order of their numbers."""
    with_servers: tuple[str, ...]
    """Those of them that have servers of the jobs that the cut divides."""
    servers: int
    """Servers of these jobs with an adapter on them."""
    leaves_gbps: float
    """Gb/s of the links that leave the set, in each direction."""
    asked_gbps: float
    """Gb/s that these jobs ask of the links, each at full rate and bisected as badly as possible."""
    taken_gbps: float = 0.0
    """Gb/s that compute nodes on the set take of what it sends: only of servers that send to them, such as storage."""
    alike: int = 1
    """Switches, pods or zones with servers, this set among them, with the same links and the same that is asked."""

    def _brief(self) -> str:
        return str(self)

    def __str__(self) -> str:
        names, others = compress(self.with_servers), len(self.switches) - len(self.with_servers)
        if len(names) > MOST_SHOWN:
            names = listed(self.with_servers, 3)
        more = f" and {plural(others, 'switch', 'switches')} without them" if others else ""
        about = f"{plural(self.servers, 'server')}, {self.asked_gbps:,.0f} Gb/s"
        own = f" and {self.taken_gbps:,.0f} Gb/s to compute nodes on it" if self.taken_gbps else ""
        alike = f", as each of {self.alike} such sets" if self.alike > 1 else ""
        return f"{names}{more} ({about}) has {self.leaves_gbps:,.0f} Gb/s to the rest{own}{alike}"

    def halves(self, fabric: Fabric, ends: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer], int]:
        """Return the halves of a job that this cut divides worst, as partners, and how many pairs it parts.

        Each rail of the job is divided by itself: the adapters on the set are in one half first. Their partners, which
        have the same number in their servers, are on the same switch as far as there are any, then on the same side. Of
        the (E,) end ports of the job on the subnet of the cut as many are in each half; the first pairs have one end on
        the set and the other elsewhere.
        """
        switch, number = fabric.end_switch[ends], rail_numbers(fabric)[ends]
        on_set = self._inside(fabric)[switch]
        order = np.lexsort((~on_set, number))
        before, rails = turns_in_groups(number[order]), np.bincount(number)
        after = rails[number[order]] - 1 - before
        one, other = order[before < after], order[after < before]  # an adapter in the middle is in no half
        first, second = [], []
        for place in (switch, on_set, np.zeros_like(switch)):  # pairs on one switch, then on one side, then the rest
            mine, theirs = _pair(*(place[half] * len(rails) + number[half] for half in (one, other)))
            first.append(one[mine])
            second.append(other[theirs])
            one, other = np.delete(one, mine), np.delete(other, theirs)
        pairs = np.stack([np.concatenate(first), np.concatenate(second)])
        apart = on_set[pairs[0]] != on_set[pairs[1]]
        pairs = pairs[:, np.argsort(~apart, kind="stable")]
        return ends[pairs[0]], ends[pairs[1]], int(np.count_nonzero(apart))

    def _inside(self, fabric: Fabric) -> Sides:
        """(S,) bool: switches of the set."""
        return np.isin([fabric.label(node) for node in range(fabric.n_switches)], self.switches)

    def channels(self, fabric: Fabric) -> NDArray[np.int32]:
        """Return the ports of its subnet that send between the set and the other switches."""
        inside, inner = self._inside(fabric), fabric.inner
        return np.asarray(inner[inside[fabric.port_node[inner]] != inside[fabric.peer_node[inner]]])


def _pair(one: NDArray[np.integer], other: NDArray[np.integer]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return as many indices of two arrays as there are pairs of equal values."""
    total = len(one) + len(other)
    own, others = (values.astype(np.int64) * total + turns_in_groups(values) for values in (one, other))
    _, mine, theirs = np.intersect1d(own, others, assume_unique=True, return_indices=True)
    return mine, theirs


@dataclass(frozen=True)
class Bisection(Brief):
    """Share of its rate that every server of a bisected job gets, for the worst choice of the halves.

    Examples
    --------
    >>> from costmodel import Bisection
    >>> print(Bisection(0.5, 0.5), Bisection(0.5), Bisection(0.5, 0.2), sep=", ")
    50.0%, at most 50.0%, 20.0% to 50.0%
    >>> print(Bisection(0.5, 0.5).against(0.4), Bisection(0.53, 0.43).against(0.5), sep="; ")
    holds; cannot tell
    >>> print(Bisection(1.0, 1.0, between_rails=Bisection(0.125, 0.125)))
    100.0% over the rails; between rails 12.5%
    """

    share: float
    """Share for the worst choice that was found: an upper bound."""
    least: float = 0.0
    """Lower bound of the share for all choices; 0 where none is known."""
    worst: str = field(default="", compare=False)
    """The jobs that ask something of the worst cut, where there are several jobs."""
    gbps: float = field(default=0.0, compare=False)
    """Full rate of one half of all jobs, in Gb/s."""
    cut: WorstCut | None = field(default=None, compare=False)
    """The switches whose links allow no more; None where no cut takes anything from the jobs."""
    subnets: Mapping[str, float] = field(default_factory=dict, compare=False)
    """Share in each subnet with adapters of the jobs. A job that sends the same over each gets the least of them."""
    between_rails: Bisection | None = field(default=None, compare=False)
    """The same where any adapter sends to any other, which never get more; else each sends to adapters with its number
    in other servers. None where each server has one adapter in each network, or all on one switch."""

    @property
    def exact(self) -> bool:
        """Whether the share is proven to be that of the worst choice."""
        return self.least >= self.share * (1 - SOLVER_TOLERANCE)

    def against(self, need: float) -> Verdict:
        """Compare the share with the one that is needed; cannot tell where the need is neither proven nor refuted."""
        if self.share < need - ROUNDING:
            return Verdict.EXCEEDED
        return Verdict.HOLDS if self.exact or self.least >= need - ROUNDING else Verdict.CANNOT_TELL

    def judged(self, need: float) -> str:
        """Return the verdict on a needed share in words, such as ``not refuted (43.0% to 53.0%, 50.0% needed)``."""
        words = {
            Verdict.HOLDS: "holds, proven",
            Verdict.EXCEEDED: "does not hold",
            Verdict.CANNOT_TELL: "not refuted",
        }
        return f"{words[self.against(need)]} ({self.written(need)}, {percent(need, beside=self.share)} needed)"

    def _brief(self) -> str:
        return self.text

    def __str__(self) -> str:
        if self.narrower is self:
            return self.written()
        return f"{self.written()} over the rails; between rails {self.narrower.written()}"

    def written(self, need: float | None = None) -> str:
        """Return the share, or its bounds, with as many decimals as set it apart from a need beside it."""
        if self.exact:
            return percent(self.share, beside=need)
        least = f"{percent(self.least, bound='least', beside=need)} to " if self.least else "at most "
        return f"{least}{percent(self.share, bound='most', beside=need)}"

    def at_least(self, other: Bisection, between: Bisection | None = None) -> Bisection:
        """Return it with the lower bounds of another that it is known to reach, and what it is ``between`` rails."""
        if between is None and self.between_rails is not None and other.between_rails is not None:
            between = self.between_rails.at_least(other.between_rails)
        return replace(self, least=min(max(self.least, other.least), self.share), between_rails=between)

    def beside(self, need: float, part: float) -> list[tuple[Bisection, float]]:
        """Return what is needed beside each share: of the servers, and a part of it between rails if there are any.

        Where all of it is needed between rails, that is all: servers never get less.
        """
        between = [(self.between_rails, need * part)] if self.between_rails is not None and part else []
        return between if between and part == 1 else [(self, need), *between]

    def meets(self, need: float, part: float) -> bool:
        """Return whether the shares `beside` what is needed do not refute it."""
        return all(has.against(share) is not Verdict.EXCEEDED for has, share in self.beside(need, part))

    @property
    def narrower(self) -> Bisection:
        """That between rails, where it is another; else this one."""
        between = self.between_rails
        return self if between is None or between.written() == self.written() else between

    @property
    def reason(self) -> str:
        """The `limit` of the narrower one."""
        return self.narrower.limit

    @property
    def limit(self) -> str:
        """The worst cut in words, and the shares of the subnets where they differ; empty where nothing limits."""
        different = len({percent(share) for share in self.subnets.values()}) > 1
        each = ", ".join(f"{name} {percent(share)}" for name, share in self.subnets.items()) if different else ""
        return "; ".join(filter(None, (str(self.cut or ""), each and f"the least of {each}")))

    @property
    def text(self) -> str:
        """The share and what limits it, such as ``6.1%: leaf0 (33 servers, 6,600 Gb/s) has 400 Gb/s to the rest``."""
        return ": ".join(filter(None, (str(self), self.reason)))

    def to_dict(self) -> dict[str, Any]:
        """Return the share with its bound, and the worst cut, as plain values."""
        return {
            "bisection": self.share,
            "bisection_least": self.least,
            "bisection_exact": self.exact,
            "worst_cut": self.cut and self.cut.to_dict(),
            "subnet_bisections": dict(self.subnets),
            "between_rails": self.between_rails and {
                "bisection": self.between_rails.share,
                "bisection_least": self.between_rails.least,
                "worst_cut": self.between_rails.cut and self.between_rails.cut.to_dict(),
            },
        }  # fmt: skip


def flow_gbps(fabric: Fabric, sources: Sides, sinks: Sides) -> float:
    """Maximum flow in Gb/s from (N,) bool nodes that send to those that receive, each at the rate of its ports."""
    rate = fabric.rate_gbps[fabric.links].min(axis=1)
    links = fabric.port_node[fabric.links]
    out = np.bincount(links.ravel(), np.repeat(rate, 2), fabric.n_nodes).astype(np.float64)
    return minimum_cut(links, rate, out * sources, out * sinks)[0]


def job_networks(fabrics: Sequence[Fabric]) -> list[Fabric]:
    """Return the networks over which jobs send to one another, where compute servers have others beside them.

    Those of storage servers are left out, and those of gigabit ports, which manage servers; all are returned where
    some compute server hangs in these alone.

    Examples
    --------
    >>> import costmodel, topo
    >>> [fabric.name for fabric in costmodel.job_networks(topo.preset("dgx-h100-48").fabrics)]
    ['dgx-h100-48']
    """
    slow, servers = SPEEDS.index("GE"), {*servers_of(fabrics, Role.COMPUTE)}
    found = []
    for fabric in fabrics:
        ends = fabric.ends(role=Role.COMPUTE)
        managed = len(ends) and bool((fabric.speed[fabric.port_of(ends)] == slow).all())
        if not (managed or len(fabric.ends(role=Role.STORAGE))):
            found.append(fabric)
    return found if {*servers_of(found, Role.COMPUTE)} == servers else list(fabrics)


def bisection(
    fabrics: Sequence[Fabric],
    job: int | Mapping[int, float] | None = None,
    *,
    with_storage: bool = False,
    alone: bool = False,
    descents: int = 8,
    need: float = 0.0,
    need_between_rails: float = 0.0,
    prove: bool = True,
) -> Bisection:
    """Share of its rate that every server of a bisected job gets, for the worst choice of the halves.

    Compute nodes are divided into jobs of ``job`` nodes zone by zone, in the order of their names, which is also their
    order on the leaves. In each subnet the servers of each job, and those of the storage, are divided into two halves.
    Every server of one half sends, and every server of the other half receives, the same share of its rate over all its
    adapters, each of which sends to adapters with its number in other servers, as NCCL's rings do; which, is what suits
    the network best. Each rail has its own worst halves, so both directions of links may be full. The worst halves are
    decided by the worst cut, which `costmodel.optimise.cuts` finds:

        share = min over sets of switches of  Gb/s of the links that leave the set / what the jobs ask of them

    For one job on one rail this is exactly what the best routing can reach; for several at once it is an upper bound. A
    job of one node has share 1. If the adapters of a rail have several rates, a half is half of their sum. Of several
    subnets the least counts.

    Servers with several adapters in a subnet can reach most others over leaves that they share, such as those of their
    rails. `Bisection.between_rails` is the share where any adapter sends to any other.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets of the cluster.
    job : int or mapping, optional
        Nodes of a job, or the share of the compute nodes by the size of the jobs that they run; one job on all compute
        nodes when omitted.
    with_storage : bool
        Whether the storage adapters in the zones of the jobs send and receive too.
    alone : bool
        Whether each job has the network to itself, and the worst job counts; of many jobs only `MOST_JOBS` are
        measured, evenly spaced.
    descents : int
        Descents from random halves, in addition to those from halves that are often bad.
    need, need_between_rails : float
        The share that is needed over the rails, and between them. The first cut below it is returned, without a search
        for a worse one, and a lower bound that reaches it is looked for.
    prove : bool
        Whether to compute lower bounds that take long.

    Returns
    -------
    Bisection
        The share, its lower bound, the job that gets it, and the cut that allows no more.

    Examples
    --------
    >>> import costmodel, topo
    >>> print(costmodel.bisection(topo.preset("lab-20").fabrics))
    100.0%
    >>> found = costmodel.bisection(topo.preset("fire-flyer-2").fabrics)
    >>> print(found, found.cut.servers, found.cut.leaves_gbps)
    3.3% 600 4000.0
    """
    hosts = servers_of(fabrics, Role.COMPUTE)
    rank = {host: number for number, host in enumerate(hosts)}
    subnets = [Subnet(fabric, rank) for fabric in fabrics]
    groups = jobs_at_once(len(hosts), job or len(hosts), alone=alone)
    search = partial(_bisect, subnets, hosts, groups, with_storage, descents)
    if not any(subnet.has_rails for subnet in subnets):
        return search(CutSearch, need, prove)
    between = search(partial(CutSearch, between_rails=True), need_between_rails, prove)
    decides = need_between_rails >= need > 0  # then nobody asks what servers get beyond that
    over = search(CutSearch, need, prove and not decides)
    if over.share < between.share:  # a cut that was not found for adapters that ask for more
        between = replace(over, least=min(between.least, over.share))
    return over.at_least(between, between)


def _bisect(
    subnets: Sequence[Subnet],
    hosts: Sequence[str],
    groups: Sequence[Ints],
    with_storage: bool,
    descents: int,
    search_cuts: Callable[[Subnet, Ints], CutSearch],
    need: float,
    prove: bool,
) -> Bisection:
    """Return the least share of any subnet and of any jobs that have the network at once."""
    worst = Bisection(1.0, 1.0)
    for at_once in groups:
        found = [search_cuts(subnet, subnet.jobs(at_once, with_storage=with_storage)) for subnet in subnets]
        found = [search for search in found if search.gbps]
        if not found:
            continue
        for search in found:
            search.run(descents, need * (1 - ROUNDING), prove=prove)
        gbps = sum(search.gbps for search in found)
        least = min(search.least for search in found)
        low = min(found, key=lambda search: search.share)
        if low.share < worst.share:
            shares = {search.subnet.fabric.name: search.share for search in found}
            names = [_job_name(job, at_once, hosts) for job in low.divided] if sum(map(len, groups)) > 1 else []
            name = listed(dict.fromkeys(names), MOST_JOBS_NAMED)
            worst = replace(worst, share=low.share, worst=name, cut=_worst_cut(low), subnets=shares)
        worst = replace(worst, least=min(worst.least, least), gbps=max(worst.gbps, gbps))
        if worst.share < need * (1 - ROUNDING):
            break
    return worst


def _worst_cut(search: CutSearch) -> WorstCut:
    """Name the worst cut by its side with fewer servers of the jobs that it divides; of equal ones, fewer switches."""
    net = search.subnet
    adapters = np.flatnonzero(np.isin(search.job, search.divided))

    def size(side: Sides) -> tuple[int, int]:
        return len(np.unique(net.host[adapters][side[net.leaf[adapters]]])), int(np.count_nonzero(side))

    def named(side: Sides) -> WorstCut:
        return _named(net, side, adapters, float(search.jobs.asked(search.jobs.inside(side))))

    side = min((search.side, ~search.side), key=size)
    cut = named(side)
    if not any(np.array_equal(side, each) for each in net.containers):
        return cut
    same = [each for each in net.containers if net.leaving(each) == cut.leaves_gbps]
    others = [named(each) for each in same]
    alike = sum(each.servers == cut.servers and np.isclose(each.asked_gbps, cut.asked_gbps) for each in others)
    return replace(cut, alike=int(alike))


def _named(net: Subnet, side: Sides, adapters: NDArray[np.intp], asked_gbps: float) -> WorstCut:
    """Name a set of switches, and count the servers of these adapters on it."""
    inside = adapters[side[net.leaf[adapters]]]
    names, leaves = (
        tuple(sorted(map(net.fabric.label, switches.tolist()), key=natural_order))
        for switches in (np.flatnonzero(side), np.unique(net.leaf[inside]))
    )
    servers = len(np.unique(net.host[inside]))
    return WorstCut(net.fabric.name, names, leaves, servers, net.leaving(side), asked_gbps)


def _job_name(job: int, windows: Ints, hosts: Sequence[str]) -> str:
    """Name a job by its first and last node; numbers after the last job are the storage of each zone."""
    if job >= len(windows):
        return "the storage"
    first, last = windows[job].tolist()
    return f"{hosts[first]} to {hosts[last - 1]}"


def serving_gbps(fabrics: Sequence[Fabric], role: Role = Role.STORAGE) -> float:
    """Maximum flow from all servers of a role together to all compute nodes, in Gb/s.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.serving_gbps(topo.preset("fire-flyer-2").fabrics) / 8_000  # TB/s
    9.0
    """
    servers, compute = set(servers_of(fabrics, role)), set(servers_of(fabrics, Role.COMPUTE))
    return sum(flow_gbps(fabric, adapters_of(fabric, servers), adapters_of(fabric, compute)) for fabric in fabrics)


def serving_share(fabrics: Sequence[Fabric], role: Role = Role.STORAGE) -> Bisection:
    """Share of its rate at which every server of a role can send to the compute nodes at once, which share the traffic.

    The largest share at which a maximum flow takes all that is sent: with what the servers give and the compute nodes
    take at full rate, min over sets of switches of (Gb/s of the links that leave the set + takes) / gives. Each minimum
    cut gives the next, smaller share (Dinkelbach 1967), so the last is exact. Of several subnets the least counts.

    Examples
    --------
    >>> import costmodel, topo
    >>> print(costmodel.serving_share(topo.preset("fire-flyer-2").fabrics))
    100.0%
    """
    worst = Bisection(1.0, 1.0)
    for fabric in fabrics:
        net = Subnet(fabric, {})
        gives, takes = (
            np.bincount(net.leaf, net.rate * (net.role == each), net.n).astype(float) for each in (role, Role.COMPUTE)
        )
        share, cut = 1.0, None
        while gives.any():
            side = net.cut(share * gives, takes)[1]
            leaves, taken, sent = net.leaving(side), float(takes @ side), float(gives @ side)
            if leaves + taken >= share * sent * (1 - ROUNDING):
                break
            share = (leaves + taken) / sent
            cut = replace(_named(net, side, np.flatnonzero(net.role == role), sent), taken_gbps=taken)
        if gives.any():
            worst = replace(worst, subnets={**worst.subnets, fabric.name: share})
        if share < worst.share:
            worst = replace(worst, share=share, least=share, cut=cut)
    return worst


def servers_of(fabrics: Sequence[Fabric], role: Role) -> list[str]:
    """Names of the cabled servers of a role, zone by zone, as a scheduler fills them, and sorted in each."""
    cabled = ((fabric, np.unique(fabric.port_node[fabric.links])) for fabric in fabrics)
    zones: dict[str, int] = {}
    for fabric, nodes in cabled:
        for n in nodes[fabric.role[nodes] == role].tolist():
            zones.setdefault(fabric.hosts[fabric.host[n]], int(fabric.zone[n]))
    return sorted(zones, key=lambda server: (zones[server], server))


def adapters_of(fabric: Fabric, hosts: set[str]) -> Sides:
    """(N,) bool: adapters of these servers."""
    wanted = np.array([host in hosts for host in fabric.hosts] + [False], bool)
    return np.asarray(wanted[fabric.host] & (fabric.kind == Kind.HCA))
