"""What no routing can beat on given cables: the load of the fullest link, and the bandwidth of random halves.

Both follow from what is true of any paths. Pairs of hosts must cross each cut, and a leaf sends all that its hosts send
to one destination over one of its links. Beyond cuts, any lengths of the channels give a bound: paths are at least as
long as shortest ones, so the mean channel, weighted by length, carries at least the length of all shortest paths by the
length of all channels (the dual of maximum concurrent flow: Shahrokhi and Matula, Journal of the ACM 37(2), 1990).
Good lengths are found by rounds in which a channel grows the longer, the more traffic shortest paths put on it (Garg
and Koenemann, FOCS 1998), and where the fabric is small by a linear program. Whatever lengths those find, the bound is
computed anew from them, so that it holds even where they are not the best.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import block_diag, csr_array, eye_array, hstack, kron
from scipy.sparse.csgraph import dijkstra
from scipy.special import gammaln

from routing.machine_code import kernel
from routing.names import find_ends
from topo.errors import plural
from topo.fabric import Fabric, Role
from topo.graphs import components
from topo.table import Shown, Table

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUNDS = 400
"""Maximum number of rounds in the search for good lengths."""
WORK = 10_000_000
"""Targets times arcs, summed over rounds: half a second."""
SMALL, LARGE = 6_000, 150_000
"""Targets times arcs up to which the linear program is solved: always, and when it is asked for (a minute)."""
SLACK = 0.03
"""Share of a distance by which paths may be longer in the first round."""
LEAST = -14.0
"""Natural logarithm of (shortest length / longest length)."""


@dataclass(frozen=True)
class Bounds(Shown):
    """What no routing by destination can beat on a fabric's cables."""

    max_load: int
    """Lower bound on the ordered pairs of hosts over the fullest channel between switches."""
    why: str
    """The constraint that sets this bound, and which bound, perhaps a higher one, was skipped because it takes too
    long."""
    ebb: float
    """Upper bound on the effective bisection bandwidth, mean over all halves."""

    @property
    def table(self) -> Table:
        """The bounds, and what they follow from."""
        figures = {
            "pairs over the fullest link, at least": f"{self.max_load:,}",
            "because of": self.why,
            "effective bisection, at most": f"{self.ebb:.3f}",
        }
        return Table.of_rows("what no routing can beat", ("of", "value"), figures.items())


@dataclass(frozen=True, eq=False)
class Net:
    """Switches, the arcs between them by sender, and how many cables and hosts there are."""

    indptr: Ints
    sender: Ints
    receiver: Ints
    cables: Floats
    capacity: Floats
    """Rate of all cables of an arc, Gb/s."""
    fastest: Floats
    """Rate of the fastest cable of each switch, Gb/s."""
    hosts: Ints
    part: Ints
    """Connected part of each switch."""

    @property
    def targets(self) -> Ints:
        """Switches with hosts."""
        return np.flatnonzero(self.hosts)

    @property
    def work(self) -> int:
        """Targets times arcs."""
        return len(self.targets) * len(self.sender)


def bound(
    fabric: Fabric,
    ends: Sequence[int | str] | NDArray[np.integer] | None = None,
    *,
    reached: int = 0,
    exact: bool = False,
) -> Bounds:
    """Bound the fullest link and the effective bisection of any tables on a fabric.

    Parameters
    ----------
    fabric : Fabric
    ends : (n,) int or str, optional
        End ports that talk, by index or by name (`routing.find_end`); all host ports when left out. Those without a
        cable do not count.
    reached : int
        Fullest link of tables that there are: once the bound is as high, nothing is left to search for.
    exact : bool
        Whether to solve a linear program up to about 100 switches, which takes a minute; without it up to about 30.

    Returns
    -------
    Bounds
        Valid for any routing by destination, on any number of lanes.

    Raises
    ------
    HeddleError
        When there is no such end port.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("fire-flyer-2").fabric
    >>> routing.studies.bound(fabric).max_load, routing.measure(routing.route(fabric)).max_load
    (30420, 30420)
    """
    ends = Fabric.given(fabric).ends() if ends is None else find_ends(fabric, ends)
    ends = ends[fabric.end_switch[ends] >= 0]
    net = _net(fabric, ends)
    groupings = list(_groupings(fabric, net))
    load, why, cut = _fullest_cut(fabric, net, groupings)
    lengths: list[Floats] = []
    ceiling, most = reached or np.inf, LARGE if exact else SMALL
    if 0 < 2 * net.work <= WORK:
        lengths = [np.ones(len(net.sender))]
        if load < ceiling:
            lengths.append(_lengths(net, cut, ceiling))
        found = max(_by_lengths(net, length)[0] for length in lengths)
        if max(found, load) < ceiling and net.work <= most:
            lengths.append(_program(net))
            found = max(found, _by_lengths(net, lengths[-1])[0])
        if found * (1 - 1e-9) > load:
            load, why = int(np.ceil(found * (1 - 1e-9))), "of the lengths of paths"
    if load < ceiling and net.work > (most if lengths else WORK // 2):
        missing, most = ("the linear program", most) if lengths else ("the lengths of paths", WORK // 2)
        why += f"; bound not computed: {missing}, {net.work:,} targets times links of at most {most:,}"
    return Bounds(load, why, _bisection(net, groupings, lengths, fabric.rate_gbps[fabric.port_of(ends)]))


def _net(fabric: Fabric, ends: NDArray[np.int32]) -> Net:
    n, inner = fabric.n_switches, fabric.inner
    arcs, arc = np.unique(fabric.port_node[inner].astype(np.int64) * n + fabric.peer_node[inner], return_inverse=True)
    sender, receiver = np.divmod(arcs, n)
    cables = np.bincount(arc, minlength=len(arcs)).astype(float)
    capacity: Floats = np.bincount(arc, fabric.rate_gbps[inner], len(arcs)).astype(float)
    fastest = np.zeros(n)
    np.maximum.at(fastest, fabric.port_node[inner], fabric.rate_gbps[inner])
    switch_of_end = fabric.end_switch[ends]
    hosts = np.bincount(switch_of_end[switch_of_end >= 0], minlength=n)
    part = components(n, sender, receiver).astype(np.int64)
    return Net(np.searchsorted(sender, np.arange(n + 1)), sender, receiver, cables, capacity, fastest, hosts, part)


def _groupings(fabric: Fabric, net: Net) -> Iterator[tuple[str, Ints]]:
    """Yield ways to cut the switches into groups: each alone, zones, and what stays together below each level."""
    n, parts = len(net.hosts), int(net.part.max(initial=0)) + 1
    level, role = fabric.level[:n], fabric.role[:n]
    yield "", np.arange(n)
    yield "all that {} reaches", net.part
    zone = fabric.zone[:n].astype(np.int64)
    apart = np.where(zone >= 0, zone, zone.max(initial=0) + 1 + np.arange(n)) * parts + net.part
    yield "the zone of {}", np.unique(apart, return_inverse=True)[1]
    removed = [role == Role.JOINT]
    removed += [level >= height for height in range(2, int(level.max(initial=0)) + 1)]
    for gone in removed:
        kept = ~(gone[net.sender] | gone[net.receiver])
        yield "the subtree of {}", components(n, net.sender[kept], net.receiver[kept]).astype(np.int64)


def _crossing(net: Net, group: Ints, weight: Floats) -> tuple[Ints, Floats, Ints]:
    """Return of each group its hosts, the weight of arcs to others, and the ordered pairs from it to others."""
    hosts = np.bincount(group, net.hosts).astype(np.int64)
    whole = np.bincount(net.part, net.hosts).astype(np.int64)
    within = whole[net.part[np.unique(group, return_index=True)[1]]]
    out = group[net.sender] != group[net.receiver]
    crossing: Floats = np.bincount(group[net.sender[out]], weight[out], len(hosts)).astype(float)
    return hosts, crossing, hosts * (within - hosts)


def _fullest_cut(fabric: Fabric, net: Net, groupings: list[tuple[str, Ints]]) -> tuple[int, str, Ints]:
    """Return the most pairs that a cable must carry because of a cut, what is cut off, and its switches as 0 and 1."""
    best, why, cut = 0, "no pair needs a link between switches", np.zeros(len(net.hosts), np.int64)
    for place, (words, group) in enumerate(groupings):
        hosts, cables, pairs = _crossing(net, group, net.cables)
        least = np.ceil(np.divide(pairs, cables, out=np.zeros(len(hosts)), where=cables > 0))
        if place == 0:  # each switch alone: what its hosts send to a destination leaves it over one link
            far = np.divide(pairs, hosts, out=np.zeros(len(hosts)), where=hosts > 0)
            whole = hosts * np.ceil(np.divide(far, cables, out=np.zeros(len(hosts)), where=cables > 0))
            least = np.maximum(least, whole)
        fullest = int(least.argmax())
        if least[fullest] > best:
            best, cut = int(least[fullest]), (group == fullest).astype(np.int64)
            name = words.format(fabric.label(int(cut.argmax()))) if words else fabric.label(int(cut.argmax()))
            lead = "link leads" if cables[fullest] == 1 else "links lead"
            why = f"{cables[fullest]:,.0f} {lead} out of {name}, with {plural(int(hosts[fullest]), 'host')}"
    return best, why, cut


def _distances(net: Net, length: Floats) -> Floats:
    """Return (D, S) float64: from each switch to each target."""
    graph = csr_array((length, (net.receiver, net.sender)), shape=(len(net.hosts),) * 2)
    distance: Floats = dijkstra(graph, indices=net.targets)
    return distance


def _by_lengths(net: Net, length: Floats) -> tuple[float, Floats]:
    """Return the bound that lengths give, and the distances under them."""
    distance = _distances(net, length)
    reached = np.where(np.isfinite(distance), distance, 0.0)
    return float(net.hosts[net.targets] @ reached @ net.hosts / (net.cables @ length)), distance


def _lengths(net: Net, cut: Ints, ceiling: float) -> Floats:
    """Search for lengths that give a high bound."""
    hosts, targets = net.hosts.astype(float), net.targets
    exponent = np.where(cut[net.sender] != cut[net.receiver], 0.0, -3.0)
    best, best_length = 0.0, np.ones(len(net.sender))
    for turn in range(min(ROUNDS, WORK // net.work)):
        length = np.exp(exponent)
        found, distance = _by_lengths(net, length)
        if found > best:
            best, best_length = found, length
        if np.ceil(best * (1 - 1e-9)) >= ceiling:
            break
        order, slack = np.argsort(distance, axis=1, kind="stable"), 1e-9 + SLACK / np.sqrt(turn + 1)
        load = spread_traffic(net.indptr, net.receiver, length, hosts, targets, distance, order, slack) / net.cables
        exponent += load / (max(load.max(), 1e-300) * np.sqrt(turn + 1))
        exponent = np.maximum(exponent - exponent.max(), LEAST)
    return best_length


@kernel
def spread_traffic(
    indptr: Ints,
    receiver: Ints,
    length: Floats,
    hosts: Floats,
    target: Ints,
    distance: Floats,
    order: Ints,
    slack: float,
) -> Floats:
    """Return (A,) pairs of hosts over each arc when switches split traffic evenly over nearly shortest paths.

    ``distance`` is (D, S) from each switch to each target, ``order`` (D, S) the switches by it; paths may be longer by
    the part ``slack`` of the distance.
    """
    load, flow = np.zeros(len(receiver)), np.zeros(len(hosts))
    for row in range(len(target)):
        flow[:] = 0.0
        for place in range(len(hosts) - 1, 0, -1):
            here = order[row, place]
            far = distance[row, here]
            flow[here] += hosts[here] * hosts[target[row]]
            if flow[here] == 0.0 or far == np.inf:
                continue
            arcs = 0
            for arc in range(indptr[here], indptr[here + 1]):
                rest = distance[row, receiver[arc]]
                if rest < far and length[arc] + rest <= far * (1.0 + slack):
                    arcs += 1
            for arc in range(indptr[here], indptr[here + 1]):
                rest = distance[row, receiver[arc]]
                if rest < far and length[arc] + rest <= far * (1.0 + slack):
                    load[arc] += flow[here] / arcs
                    flow[receiver[arc]] += flow[here] / arcs
    return load


def _program(net: Net) -> Floats:
    """Return the best lengths: the dual values of the channels in the least fullest channel of flows by target."""
    from scipy.optimize import linprog  # it takes a tenth of a second, and few ask

    n, arcs, targets = len(net.hosts), len(net.sender), net.targets
    ones = np.ones(arcs)
    leaves = csr_array((ones, (net.sender, np.arange(arcs))), shape=(n, arcs))
    enters = csr_array((ones, (net.receiver, np.arange(arcs))), shape=(n, arcs))
    kept = [np.flatnonzero((np.arange(n) != target) & (net.part == net.part[target])) for target in targets]
    flow = block_diag([(leaves - enters)[rows] for rows in kept], format="csr")
    sent = np.concatenate([net.hosts[rows] * net.hosts[target] for rows, target in zip(kept, targets, strict=True)])
    load = kron(np.ones((1, len(targets))), eye_array(arcs), format="csr")
    solved = linprog(
        np.append(np.zeros(flow.shape[1]), 1.0),
        A_ub=hstack([load, -csr_array(net.cables[:, None])], format="csr"),
        b_ub=np.zeros(arcs),
        A_eq=hstack([flow, csr_array((flow.shape[0], 1))], format="csr"),
        b_eq=sent.astype(float),
        method="highs-ipm",
    )
    return ones if solved.status else np.maximum(-solved.ineqlin.marginals, 0.0) + 1e-12


def _bisection(net: Net, groupings: list[tuple[str, Ints]], lengths: list[Floats], rates: Floats) -> float:
    """Return an upper bound on the mean rate of flows between random halves, as a share of their hosts' (n,) links.

    For any rate: flows between hosts that are as fast, and those that have a slower one at an end, as if nothing but
    this held these back.
    """
    n = len(rates)
    if n < 2 or not net.hosts.any():
        return 0.0
    bounds, spans = [], [(length, _distances(net, length)) for length in lengths]
    for rate in np.unique(rates):
        fast = np.count_nonzero(rates >= rate)
        bounds.append(1 - fast * (fast - 1) / (n * (n - 1)) + _share_of(net, groupings, spans, n, rate))
    return min(1.0, *bounds)


def _share_of(
    net: Net, groupings: list[tuple[str, Ints]], spans: list[tuple[Floats, Floats]], n: int, rate: float
) -> float:
    """Return the same for links of one rate, where all n hosts have it; ``spans`` are lengths and distances.

    Flows that cross a cut sum to no more than its cables; those from a leaf to no more than its links that any flow
    takes (since a destination has one link at each leaf, that is chance, and likeliest when destinations are dealt
    evenly); and rates times lengths to the sum of all lengths.
    """
    half = n // 2
    chance = half / (n * (n - 1))  # of an ordered pair to be matched
    hosts = net.hosts
    links = np.bincount(net.sender, net.cables, len(hosts)).astype(np.int64)
    inside = chance * float(hosts @ np.maximum(hosts - 1, 0))
    best = float(half)
    for _, group in groupings[1:]:
        size, capacity, pairs = _crossing(net, group, net.capacity / rate)
        kinds, times = np.unique(
            np.stack([hosts, links, size[group] - hosts, net.fastest / rate])[:, hosts > 0], axis=1, return_counts=True
        )
        busy = sum(
            count * min(chance * own * far, faster * _busy_links(int(own), int(up), int(far), n))
            for (own, up, far, faster), count in zip(kinds.T.tolist(), times, strict=True)
        )
        best = min(best, inside + float(np.minimum(chance * pairs, capacity).sum()) + busy)
    for length, distance in spans:
        pairs = np.outer(hosts[net.targets], hosts) * np.isfinite(distance)
        between = distance[(pairs > 0) & (distance > 0)]
        distance = np.where(np.isfinite(distance), distance, 0.0)
        for unit in np.unique(np.quantile(between, np.linspace(0, 1, 33))) if len(between) else ():
            short = chance * float((pairs * np.maximum(0.0, 1 - distance / unit)).sum())
            same = chance * float(hosts.sum())  # nobody sends to itself
            best = min(best, float(net.capacity @ length) / rate / unit + short - same)
    return best / half


def _busy_links(hosts: int, links: int, far: int, n: int) -> float:
    """Return the expected number of links of a leaf that carry flows of its hosts, destinations assigned evenly."""
    if not links or not far:
        return 0.0
    each, more = divmod(far, links)
    return sum(count * (1 - _idle(hosts, m, n)) for count, m in ((links - more, each), (more, each + 1)) if count and m)


def _idle(hosts: int, others: int, n: int) -> float:
    """Return the chance that no flow of random halves of n ranks goes from some of them to some others."""

    def log_ways(of: NDArray[np.floating], chosen: NDArray[np.floating]) -> Floats:
        valid = (chosen >= 0) & (chosen <= of)
        of, chosen = np.where(valid, of, 0), np.where(valid, chosen, 0)
        return np.where(valid, gammaln(of + 1) - gammaln(chosen + 1) - gammaln(of - chosen + 1), -np.inf)

    half, rest = n // 2, n - n // 2
    senders, sending = np.arange(hosts + 1.0)[:, None], np.arange(others + 1.0)[None, :]
    ways = log_ways(np.array(float(hosts)), senders) + log_ways(np.array(float(others)), sending)
    ways = ways + log_ways(np.array(float(n - hosts - others)), half - senders - sending)
    chance = np.exp(ways - log_ways(np.array(float(n)), np.array(float(half))))
    free, every = log_ways(rest - (others - sending), senders), log_ways(np.array(float(rest)), senders)
    possible = np.isfinite(ways) & np.isfinite(free)  # more senders than that have no such halves, or meet the others
    return float((chance * np.exp(np.where(possible, free, 0.0) - np.where(possible, every, 0.0)))[possible].sum())
