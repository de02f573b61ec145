"""What tables are made for: samples of traffic, from all pairs to the jobs that schedulers place.

Flows are in units of a host's link. A *dense* sample sends from every switch to every destination, as a product of two
weights; the others list their flows. Samples of one *class* share its weight.

| class | samples |
|---|---|
| pairs | every host to every other; the same by the rate of the hosts' links, where these differ |
| across | where servers have rails, every host to every other whatever its rail |
| roles | every host to those of one role; those of one role to each other |
| shifts | rank i to rank i + s along the tree, over the hosts of each role; along rails, and across |
| jobs | an all-to-all among every 2nd to 12th host, the k-th of each leaf, hosts in a row, hosts at random |
| allreduces | along the ring and NCCL's trees of hosts in a row |
| management | every switch to every LID, so that paths which no host takes are even, too |

A host is an adapter port. Where most that compute are of servers with as many ports, at least two, traffic is of
servers and keeps to its rail: port r of a server sends to port r of others, as NCCL's collectives and (by PXN)
all-to-alls do. Other hosts of the network, such as that of the subnet manager, then stand in the classes across, roles
and shifts alone: in the sample of a job, the link to one that all others send to would be the fullest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.order.channel_order import hops_from
from routing.order.destinations import Destinations
from routing.order.legal import ChannelOrder
from routing.search.move import DOUBLINGS, Samples
from topo.errors import HeddleError
from topo.fabric import Fabric, Kind, Role, frozen
from topo.graphs import double_binary_tree, turns_in_groups
from topo.ports import rail_numbers

WEIGHTS = {
    "pairs": 4.0,
    "across": 4.0,
    "roles": 0.5,
    "shifts": 1.5,
    "jobs": 1.0,
    "allreduces": 0.5,
    "management": 0.02,
}
"""Weights of the classes of traffic. All pairs weigh most, since nobody knows what will run; nor how much of it crosses
rails."""

PURPOSES = {"all-pairs": ("pairs",), "permutations": ("shifts",), "jobs": ("jobs", "allreduces")}
"""What a fabric may be for, and the classes of traffic that stand for it."""

ABOVE_ALL = 4
"""What tables are for weighs so many times as much as all else but what crosses rails: the rest only decides between
equals."""

MOST_FLOWS = 1 << 20
"""Flows that shifts may list, and jobs: 16 MB each. All shifts that fit are looked at, spread evenly, since those that
are left out end up fuller (by a quarter, where 250 of 1,023 were looked at)."""

PER_LEAF = 4
"""Jobs on one host of each leaf weigh as much as so many others, however many they are, and as many stand for all where
these are too many. Were each to weigh as much as any job, random halves would lose .3 % in the mean over 53 fabrics."""

DENSE = 5
"""Doublings of the power that stands for the fullest channel in dense samples: 32, since loads are large there and
differ by parts of a per cent."""


class Sample(NamedTuple):
    """Flows that meet."""

    name: str
    sender: NDArray[np.int32]
    """(n,) switch that each begins at."""
    dest: NDArray[np.int64]
    """(n,) number of the destination."""
    flow: NDArray[np.float32]
    """(n,) how much."""
    share: float
    """Part of the weight of its class."""
    alone: float = 0.0
    """What the fullest of its hosts' own links carries, by its rate; 0 where nobody asks."""


class Dense(NamedTuple):
    """A flow from every switch to every destination: the product of two weights."""

    name: str
    source: NDArray[np.float64]
    """(S,) by switch, or (G, S) by the rail of the destination."""
    dest: NDArray[np.float64]
    """(D,) by destination."""
    share: float
    """Part of the weight of its class."""


@dataclass(frozen=True, eq=False)
class Problem:
    """The destinations of a fabric, its channels, and the samples of traffic that tables are made for."""

    samples: Samples
    names: tuple[str, ...]
    """(K,) class of each sample."""
    weights: NDArray[np.float64]
    """(K,) weight of each sample; all together are 1."""
    flows: NDArray[np.float64]
    """(K,) all flows of each sample between switches, or of a dense one between hosts."""
    alone: NDArray[np.float64]
    """(K,) what the fullest of the hosts' own links carries, by its rate; 0 in dense samples."""
    hops: NDArray[np.int16]
    """(S, S) links between switches."""

    @property
    def dense(self) -> int:
        """Number of dense samples; they come first."""
        return len(self.samples.source)

    @property
    def every_pair(self) -> int:
        """The sample of every host to every other, whatever their rails."""
        return self.names.index("across" if "across" in self.names else "pairs")


class Hosts(NamedTuple):
    """End ports of adapters that have a LID, in the order of the tree."""

    switch: NDArray[np.int32]
    """(H,) where each hangs."""
    dest: NDArray[np.int64]
    """(H,) number of the destination that it is."""
    role: NDArray[np.int64]
    """(H,) what it is for."""
    rate: NDArray[np.float64]
    """(H,) rate of its link, by the fastest of them."""
    slow: NDArray[np.float64]
    """(H,) the fastest rate between switches over that of its link."""
    server: NDArray[np.int64]
    """(H,) the server that it is of; a number of its own where that has no rails."""
    rail: NDArray[np.int64]
    """(H,) which of the ports of its server it is; -1 where servers have no rails, and each sends to every other."""


def pose(
    fabric: Fabric,
    lids: NDArray[np.uint16],
    order: ChannelOrder,
    dests: Destinations,
    ranks: NDArray[np.int32],
) -> Problem:
    """Return the problem of a fabric, with the weights that its purpose asks for.

    Parameters
    ----------
    fabric : Fabric
    lids : (E,) uint16
        LIDs of its end ports.
    order : ChannelOrder
    dests : Destinations
    ranks : (n,) int32
        End ports of adapters in the order of the tree.
    """
    by_lid = numbers_of(dests)
    ranks = ranks[fabric.kind[fabric.end_node[ranks]] == Kind.HCA]
    rate = fabric.rate_gbps[fabric.port_of(ranks)]
    hosts = Hosts(
        fabric.end_switch[ranks],
        by_lid[lids[ranks]],
        fabric.role[fabric.end_node[ranks]].astype(np.int64),
        rate / max(rate.max(initial=0.0), 1.0),
        order.rate_gbps.max(initial=1.0) / np.maximum(rate, 1.0),
        *servers_and_rails(fabric, ranks),
    )
    dense = list(_dense(hosts, fabric.n_switches, len(dests.lid)))
    listed = [*_shifts(hosts), *_jobs(hosts)]
    rail = np.full(len(dests.lid), -1)
    rail[hosts.dest] = hosts.rail
    return assemble(order, *in_number_order(dests), dense, listed, weights_for(fabric.purpose), rail=rail)


def servers_and_rails(fabric: Fabric, ranks: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the server and the rail of each adapter port: see `Hosts`.

    Parameters
    ----------
    fabric : Fabric
    ranks : (n,) int32
        End ports of adapters.

    Returns
    -------
    (n,) int64
        Number of the server, which no other port has where it has no rails.
    (n,) int64
        Rail, or -1 where servers have none.
    """
    server, rail = len(fabric.hosts) + np.arange(len(ranks)), np.full(len(ranks), -1)
    host, number = fabric.host[fabric.end_node], rail_numbers(fabric)
    ports = np.bincount(host[number >= 0], minlength=len(fabric.hosts))
    compute = fabric.role[fabric.end_node[ranks]] == Role.COMPUTE
    of_server = np.where(host[ranks] >= 0, ports[host[ranks]], 1) if len(ports) else np.ones(len(ranks), np.int64)
    usual = np.bincount(of_server[compute], minlength=1).argmax()
    some = compute & (of_server == usual)
    if usual > 1 and 2 * np.count_nonzero(some) > np.count_nonzero(compute):
        server[some], rail[some] = host[ranks[some]], number[ranks[some]]
    return server, rail


def rings_of(rail: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the numbers of the ports of each rail, in order: shifts go round in each."""
    return [np.flatnonzero(rail == one) for one in np.unique(rail)]


def weights_for(purpose: str) -> dict[str, float]:
    """Return the weights of classes for what a fabric is for: `WEIGHTS`, or some classes above all others.

    Raises
    ------
    HeddleError
        When there is no such purpose.

    Examples
    --------
    >>> weights_for("permutations")["shifts"]
    24.08
    """
    if purpose == "any":
        return WEIGHTS
    if purpose not in PURPOSES:
        expected = ", ".join(["any", *PURPOSES])
        raise HeddleError(f"found tables for {purpose!r}; expected one of {expected}")
    first = PURPOSES[purpose]
    others = sum(weight for name, weight in WEIGHTS.items() if name not in (*first, "across"))
    together = sum(WEIGHTS[name] for name in first)
    return WEIGHTS | {name: ABOVE_ALL * others * WEIGHTS[name] / together for name in first}


def in_number_order(dests: Destinations) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return (D,) switch and LID of destinations as a problem numbers them: by role, then along the tree."""
    turn = np.argsort(dests.index)
    return dests.switch[turn], dests.lid[turn]


def numbers_of(dests: Destinations) -> NDArray[np.int64]:
    """Return (T,) the number of the destination with each LID in a problem, -1 for none."""
    number = np.full(int(dests.lid.max(initial=0)) + 1, -1)
    number[in_number_order(dests)[1]] = np.arange(len(dests.lid))
    return number


def assemble(
    order: ChannelOrder,
    switch: NDArray[np.int32],
    lid: NDArray[np.int32],
    dense: Sequence[Dense],
    listed: Sequence[Sample],
    classes: dict[str, float],
    doublings: int = DOUBLINGS,
    rail: NDArray[np.int64] | None = None,
) -> Problem:
    """Return the problem of some samples.

    Parameters
    ----------
    order : ChannelOrder
    switch, lid : (D,) int32
        Switch of each destination, and its LID.
    dense, listed : sequence
    classes : dict
        Weight of each class.
    doublings : int
        Of the power that stands for the fullest channel in samples that are listed.
    rail : (D,) int64, optional
        Of each destination; those with -1 get the last of the rows of dense samples.
    """
    n = len(order.indptr) - 1
    rail = np.full(len(lid), -1) if rail is None else rail
    rails = int(rail.max(initial=-1)) + 1
    rows = rails + 1 if rails else 1
    source = [np.broadcast_to(one.source, (rows, n)) for one in dense]
    sender, dest, flow, sample = _together(listed, switch, len(dense))
    samples = Samples(
        switch=frozen(switch.astype(np.int32)),
        lid=frozen(lid.astype(np.int32)),
        rail=frozen(np.where(rail < 0, rails, rail).astype(np.int32)),
        source=frozen(np.array(source, np.float64).reshape(-1, rows, n)),
        weight=frozen(np.array([one.dest for one in dense]).reshape(-1, len(lid))),
        indptr=frozen(np.searchsorted(dest, np.arange(len(lid) + 1)).astype(np.int64)),
        sender=frozen(sender),
        sample=frozen(sample),
        flow=frozen(flow),
        doublings=frozen(np.repeat([DENSE, doublings], [len(dense), len(listed)]).astype(np.uint8)),
        slow=frozen(order.rate_gbps.max(initial=1.0) / order.rate_gbps),
    )
    hops = np.stack([hops_from(root, order.indptr, order.receiver) for root in range(n)]).astype(np.int16)
    every: list[Dense | Sample] = [*dense, *listed]
    names = tuple(one.name for one in every)
    weights = np.array([one.share * classes[one.name] for one in every])
    flows = np.bincount(sample, flow, len(names))
    flows[: len(dense)] = (samples.source.sum(axis=2)[:, samples.rail] * samples.weight).sum(axis=1)
    alone = np.array([one.alone if isinstance(one, Sample) else 0.0 for one in every])
    return Problem(samples, names, frozen(weights / weights.sum()), frozen(flows), frozen(alone), frozen(hops))


def all_pairs_alone(problem: Problem) -> Problem:
    """Return the same problem without any traffic but that of all pairs."""
    some = np.array(problem.names) == "pairs"
    samples, dests = problem.samples, len(problem.samples.lid)
    few = samples._replace(
        source=frozen(samples.source[some[: problem.dense]]),
        weight=frozen(samples.weight[some[: problem.dense]]),
        doublings=frozen(samples.doublings[some]),
        indptr=frozen(np.zeros(dests + 1, np.int64)),
        sender=samples.sender[:0],
        sample=samples.sample[:0],
        flow=samples.flow[:0],
    )
    weights = problem.weights[some] / problem.weights[some].sum()
    flows, alone = problem.flows[some], problem.alone[some]
    return Problem(few, ("pairs",) * some.sum(), frozen(weights), flows, alone, problem.hops)


def _dense(hosts: Hosts, n: int, dests: int) -> Iterator[Dense]:
    """Yield all pairs, those by rate, to and within each role, and what manages the fabric."""
    sends, receives = _senders(hosts, n, np.ones(len(hosts.rate))), np.zeros(dests)
    receives[hosts.dest] = 1.0
    uneven = hosts.rate.min(initial=1.0) < 1.0
    yield Dense("pairs", sends, receives, 0.75 if uneven else 1.0)
    if uneven:
        fast = np.zeros(dests)
        fast[hosts.dest] = hosts.rate
        yield Dense("pairs", _senders(hosts, n, hosts.rate), fast, 0.25)
    every = np.bincount(hosts.switch, minlength=n).astype(float)
    if len(sends) > 1:
        yield Dense("across", every, receives, 1.0)
    roles = np.unique(hosts.role)
    for role in roles if len(roles) > 1 else ():
        mine = hosts.role == role
        to = np.zeros(dests)
        to[hosts.dest[mine]] = 1.0
        share, railed = 0.5 / len(roles), (hosts.rail[mine] >= 0).any()
        yield Dense("roles", sends if railed else every, to, share)
        if mine.sum() > 1:
            own = _senders(hosts, n, mine.astype(float)) if railed else np.bincount(hosts.switch, mine, n)
            yield Dense("roles", own.astype(float), to, share)
    yield Dense("management", np.ones(n), np.ones(dests), 1.0)


def _senders(hosts: Hosts, n: int, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (G, S) what hosts with some weights send from switches to each rail; last, to others if there is none."""
    rails = hosts.rail.max(initial=-1) + 1
    some = [*(hosts.rail == rail for rail in range(rails)), np.full(len(hosts.rail), not rails)]
    return np.stack([np.bincount(hosts.switch, weight * mine, n) for mine in some])


def _shifts(hosts: Hosts) -> Iterator[Sample]:
    """Yield shifts over the hosts of each role, along rails and across: no job has a ring of GPUs and storage."""
    for role in np.unique(hosts.role):
        mine = np.flatnonzero(hosts.role == role)
        rings = [mine[ring] for ring in rings_of(hosts.rail[mine])]
        for each in (rings, [mine]) if len(rings) > 1 else (rings,):
            yield from _round(hosts, each, len(mine) / len(hosts.role))


def _round(hosts: Hosts, rings: list[NDArray[np.int64]], share: float) -> Iterator[Sample]:
    """Yield shifts in rings of hosts, as many as may be listed, which have a share of the weight of their class."""
    ranks, count = np.concatenate(rings), max(map(len, rings))
    most = min(round(MOST_FLOWS * share / len(ranks)), count - 1)
    few = np.unique(1 + (np.arange(most) * (count - 1)) // most) if count > 2 and most else ()
    for shift in few:
        to = np.concatenate([np.roll(ring, -shift) for ring in rings])
        yield Sample("shifts", hosts.switch[ranks], hosts.dest[to], np.ones(len(to), np.float32), share / len(few))


def _jobs(hosts: Hosts) -> Iterator[Sample]:
    """Yield what jobs do that a scheduler might place on all hosts, or on those of the most common role.

    An all-to-all of each, and allreduces along a ring and along NCCL's trees of those that have hosts in a row: all of
    them, halves, thirds and quarters. The smallest come first, as far as all their flows may be listed.
    """
    if not len(hosts.role):
        return
    most = hosts.role == np.bincount(hosts.role).argmax()
    first = np.sort(np.unique(hosts.server, return_index=True)[1])
    if (hosts.rail >= 0).any():
        pools = [first[hosts.rail[first] >= 0]]
    else:
        pools = [first] + ([first[most[first]]] if not most.all() else [])
    rng = np.random.default_rng(0)
    leaves = len(np.unique(hosts.switch))
    found = [
        (leaves * len(job), _all_to_all, job, weight)
        for pool in pools
        for job, weight in _placed(hosts, pool, rng, MOST_FLOWS // len(pools))
    ]
    for job in _rows(pools[-1], 1, 2, 3, 4):
        found += [(len(job), _ring, job, 1.0), (4 * len(job), _trees, job, 1.0)]
    jobs: list[Sample] = []
    left = MOST_FLOWS
    for _, sample_of, job, weight in sorted((one for one in found if len(one[2]) > 3), key=lambda one: one[0]):
        sample = sample_of(hosts, job)
        if (left := left - len(sample.sender)) <= 0:
            break
        jobs.append(sample._replace(share=weight))
    for name in ("jobs", "allreduces"):
        mine = [one for one in jobs if one.name == name]
        total = sum(one.share for one in mine)
        yield from (one._replace(share=one.share / total) for one in mine)


def _rows(pool: NDArray[np.int64], *parts: int) -> Iterator[NDArray[np.int64]]:
    """Yield hosts in a row: each part, of so many as there may be."""
    for each in parts:
        yield from np.array_split(pool, each)


def _by_rail(hosts: Hosts, job: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the ports that the servers of some ports have on each rail, along the tree."""
    member = np.flatnonzero(np.isin(hosts.server, hosts.server[job]))
    return [member[ring] for ring in rings_of(hosts.rail[member])]


def _all_to_all(hosts: Hosts, job: NDArray[np.int64]) -> Sample:
    """Return an all-to-all among the servers of some ports."""
    sender, dest, flow, alone = [], [], [], 0.0
    for to in _by_rail(hosts, job):
        senders, count = np.unique(hosts.switch[to], return_counts=True)
        sender.append(np.tile(senders, len(to)))
        dest.append(np.repeat(hosts.dest[to], len(senders)))
        flow.append(np.tile(count, len(to)))
        alone = max(alone, (count.sum() - 1) * float(hosts.slow[to].max()))
    together = np.concatenate(sender), np.concatenate(dest), np.concatenate(flow).astype(np.float32)
    return Sample("jobs", together[0].astype(np.int32), together[1], together[2], 1.0, alone)


def _ring(hosts: Hosts, job: NDArray[np.int64]) -> Sample:
    """Return a ring of the servers of some ports."""
    return _between(hosts, [(ring, np.roll(ring, -1)) for ring in _by_rail(hosts, job)])


def _trees(hosts: Hosts, job: NDArray[np.int64]) -> Sample:
    """Return what an allreduce along NCCL's two trees sends among the servers of some ports, up and down at once."""
    edges = []
    for ring in _by_rail(hosts, job):
        for parent in double_binary_tree(len(ring)):
            child = np.flatnonzero(parent >= 0)
            edges += [(ring[child], ring[parent[child]]), (ring[parent[child]], ring[child])]
    return _between(hosts, edges)


def _between(hosts: Hosts, edges: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Sample:
    """Return a flow from each host to another one; as many come to each as leave it."""
    sender, to = (np.concatenate(ends) for ends in zip(*edges, strict=True))
    alone = np.bincount(to, minlength=len(hosts.slow)) * hosts.slow
    flow = np.ones(len(to), np.float32)
    return Sample("allreduces", hosts.switch[sender], hosts.dest[to], flow, 1.0, float(alone.max()))


def _placed(
    hosts: Hosts, pool: NDArray[np.int64], rng: np.random.Generator, most_flows: int
) -> Iterator[tuple[NDArray[np.int64], float]]:
    """Yield jobs as schedulers place them on some hosts, and what each weighs.

    They have every k-th host, the k-th of each leaf, hosts in a row, or hosts at random. Each k of a leaf is looked at
    if all flows may be listed, since one that is left out may become the worst job.
    """
    n, leaf = len(pool), hosts.switch[pool]
    yield from ((pool[::every], 1.0) for every in range(2, 13))
    place = turns_in_groups(leaf)
    # Flows from each leaf to each host: strides 2.1, the k-th of each 1, rows 3, at random 1; allreduces are 20 a host.
    all_fit = (8 * len(np.unique(leaf)) + 20) * n <= most_flows
    of_leaf = np.unique(np.linspace(0, place.max(), place.max() + 1 if all_fit else PER_LEAF).astype(int))
    yield from ((pool[place == k], min(1.0, PER_LEAF / len(of_leaf))) for k in of_leaf)
    yield from ((job, 1.0) for job in _rows(pool, 2, 3, 4))
    for parts in (3, 3, 6, 6):
        yield np.sort(rng.choice(pool, n // parts, replace=False)), 1.0


def _together(
    listed: Sequence[Sample], switch: NDArray[np.int32], dense: int
) -> tuple[NDArray[np.int32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int32]]:
    """Return sender, destination, flow and sample of all flows between switches, by destination."""
    sizes = [len(one.dest) for one in listed]
    none = Sample("", np.zeros(0, np.int32), np.zeros(0, np.int64), np.zeros(0, np.float32), 0.0)
    sender = np.concatenate([one.sender for one in (none, *listed)])
    dest = np.concatenate([one.dest for one in (none, *listed)])
    flow = np.concatenate([one.flow for one in (none, *listed)])
    sample = np.repeat(np.arange(dense, dense + len(listed)), sizes).astype(np.int32)
    crossing = np.flatnonzero(sender != switch[dest])
    by_dest = crossing[np.argsort(dest[crossing], kind="stable")]
    return sender[by_dest], dest[by_dest], flow[by_dest], sample[by_dest]
