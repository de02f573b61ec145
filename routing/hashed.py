"""Paths that Ethernet switches choose: by a hash of the flow, or packet by packet, over all shortest next hops (ECMP).

A switch forwards to the neighbours that are one hop nearer to the destination, each cable to them alike. Which it
takes, a hash of the flow's addresses and ports says, so that the packets of a queue pair stay in order. A message that
is divided over k queue pairs takes k such paths, a k-th of it on each: all go at the pace of the slowest, since a
sender has few messages under way. With spraying each packet takes a port of its own, and every switch divides a flow
evenly. InfiniBand switches with adaptive routing do either over groups of ports that their manager gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from routing.lanes.classes import LanePlan
from routing.lanes.policy import QosPolicy
from routing.machine_code import inner, kernel
from routing.order.legal import breadth_first
from routing.tables import switch_graph
from topo.budget import PATH_LINKS
from topo.errors import HeddleError, plural, whole
from topo.fabric import Fabric, frozen
from topo.hostlist import natural_order
from topo.table import Shown, Table

Int32s = NDArray[np.int32]

SPRAY = 0
"""Queue pairs, where each packet takes a path of its own."""

MAX_QUEUE_PAIRS = 128
"""As many as NCCL divides a connection over (``NCCL_IB_QPS_PER_CONNECTION``, NVIDIA's NCCL user guide)."""

UNREACHED = 2**15 - 1
"""Hops from a switch that does not reach a destination."""

DRAWS = 20
"""Seeds by default: the fewest of which the fifth and 95th percentile are not both the extremes."""

ONE_LANE = LanePlan((0,) * 16, ((0, 1),))


class Paths(NamedTuple):
    """Paths of n pairs of end ports."""

    offset: NDArray[np.int64]  # (n + 1,) pair i uses ``channel[offset[i]:offset[i + 1]]``, each channel once
    channel: Int32s
    share: NDArray[np.float64]  # beside it: the part of the pair's bytes that goes over the channel


class Bonds(NamedTuple):
    """Which ports serve an end port: its own, or all those of its bond."""

    offset: Int32s  # (E + 1,) end port e has ``port[offset[e]:offset[e + 1]]``, none where it has no cable
    port: Int32s
    row: Int32s  # beside it: the row of the port's switch in `Hashed.hops`


class PortGroups(NamedTuple):
    """Which ports switches choose from, in place of all shortest next hops: groups of ports, each once."""

    row: Int32s
    """(E,) row of each end port in ``group``, -1 where nothing leads to it; empty for all shortest next hops."""
    group: Int32s
    """(T, S) group of a switch towards a row, -1 where no port leads there; numbered from switch to switch."""
    offset: Int32s  # (G + 1,) group g is ``port[offset[g]:offset[g + 1]]``
    port: Int32s


ALL_SHORTEST = PortGroups(*(frozen(np.zeros(shape, np.int32)) for shape in (0, (0, 0), 1, 0)))


@dataclass(frozen=True, eq=False)
class Hashed(Shown):
    """A fabric whose switches choose among all shortest next hops: what `routing.Routed` is to forwarding tables.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> hashed = routing.Hashed(fabric, queue_pairs=4)
    >>> hashed
    <Hashed lab-20: ECMP, 4 queue pairs a connection, hash seed 0>
    >>> float(hashed.paths(fabric.ends()[:1], fabric.ends()[-1:]).share.sum())  # four hops
    4.0
    """

    _made_by = "`routing.Hashed(fabric)`"

    fabric: Fabric
    queue_pairs: int = 1
    """Paths that the bytes from one end port to another are divided over; 0 (`SPRAY`) for a path for each packet."""
    seed: int = 0
    """Of the hash: what addresses and ports the flows happen to have."""
    one_hash: bool = False
    """Whether all switches use one hash, so that the flows that a switch gets choose alike there (polarisation)."""
    bond: int = 1
    """Adapter ports of a server, one after another, that are one port to flows: two for a bond to two leaves."""
    hops: NDArray[np.int16] = field(default_factory=lambda: np.zeros((0, 0), np.int16))
    """(T, S) hops from each switch to each switch with hosts, `UNREACHED` for none; found when left out."""
    groups: PortGroups = ALL_SHORTEST
    """Ports to choose from, as InfiniBand's managers of adaptive routing give them: then ``hops`` do not count."""
    first_pair: int = 0
    """Number of the first queue pair: what tells the hashes of queue pairs apart."""
    lanes: LanePlan = ONE_LANE
    """One for all where no tables give others: Ethernet's classes of service are not in it."""
    policy: QosPolicy = field(default_factory=QosPolicy)

    def __post_init__(self) -> None:
        whole(f"queue pairs ({SPRAY} sprays)", self.queue_pairs, SPRAY, MAX_QUEUE_PAIRS)
        whole("seed", self.seed, 0)
        if whole("bond", self.bond, 1) > 1 and self.is_grouped:
            raise HeddleError(f"found bonds of {self.bond} ports; expected 1 where groups are given")
        if self.bond > 1:
            _check_bonds(self.fabric, self.bond)
        if not self.hops.size and not self.is_grouped:
            object.__setattr__(self, "hops", frozen(count_hops(*switch_graph(self.fabric), self._homes)))

    @cached_property
    def _homes(self) -> Int32s:
        """(T,) switches that hosts hang on."""
        homes = np.unique(self.fabric.end_switch[self.fabric.n_switches :])
        return frozen(homes[homes >= 0].astype(np.int32))

    @cached_property
    def _bonds(self) -> Bonds:
        """Return the ports of each end port that have a cable to a switch."""
        fabric = self.fabric
        ends = np.arange(fabric.n_switches, fabric.n_end_ports)
        host = fabric.host[fabric.end_node[ends]].astype(np.int64)
        host = np.where(host < 0, len(fabric.hosts) + ends, host)  # an adapter without a server stands alone
        order = np.argsort(host, kind="stable")
        if self.bond > 1:  # planes side by side have the adapters of a server apart
            names = [natural_order(fabric.names[node]) for node in fabric.end_node[ends].tolist()]
            order = np.array(sorted(range(len(ends)), key=lambda end: (host[end], names[end])), np.int64)
        first = np.searchsorted(host[order], host[order])
        group = np.empty(len(ends), np.int64)
        group[order] = first + (np.arange(len(ends)) - first) // self.bond * self.bond
        by_group = np.argsort(group, kind="stable")
        by_group = by_group[fabric.end_switch[ends[by_group]] >= 0]
        low, high = (np.searchsorted(group[by_group], group, side) for side in ("left", "right"))
        offset = np.append(np.zeros(fabric.n_switches + 1, np.int32), np.cumsum(high - low, dtype=np.int32))
        place = np.arange(offset[-1]) - np.repeat(offset[fabric.n_switches : -1] - low, high - low)
        member = ends[by_group[place]]
        row = np.searchsorted(self._homes, fabric.end_switch[member]).astype(np.int32)
        return Bonds(frozen(offset), frozen(fabric.port_of(member)), frozen(row))

    def _brief(self) -> str:
        return f"{self.fabric.name}: {self.maker}, hash seed {self.seed}"

    @property
    def engine(self) -> str:
        """What chooses the paths, as results call it."""
        if self.is_grouped:
            return "adaptive routing" if self.queue_pairs == SPRAY else "hashes over groups of ports"
        if self.queue_pairs == SPRAY:
            return "spraying" if self.bond == 1 else f"spraying, bonds of {self.bond} ports"
        said = f"ECMP, {plural(self.queue_pairs, 'queue pair')} a connection"
        said += f", bonds of {self.bond} ports" if self.bond > 1 else ""
        return f"{said}, one hash on all switches" if self.one_hash else said

    maker = engine

    @property
    def is_grouped(self) -> bool:
        """Whether ports are chosen from groups."""
        return len(self.groups.row) > 0

    @property
    def is_random(self) -> bool:
        """Whether another seed gives other paths."""
        return self.queue_pairs != SPRAY

    @property
    def is_connected(self) -> bool:
        """Whether links lead from each switch with hosts to each other one."""
        return bool((self.hops[:, self._homes] < UNREACHED).all())

    def reaches(self, source: NDArray[np.integer], dest: NDArray[np.integer]) -> NDArray[np.bool_]:
        """Return (n,) whether links lead from end ports to others, where no groups are given."""
        near, far = self.fabric.end_switch[source], self.fabric.end_switch[dest]
        row = np.minimum(np.searchsorted(self._homes, far), len(self._homes) - 1)
        led: NDArray[np.bool_] = (near >= 0) & (far >= 0) & (self.hops[row, near] < UNREACHED)
        return led

    def drawn(self, seed: int) -> Hashed:
        """Return the same with another seed of the hash."""
        return replace(self, seed=seed)

    def one_by_one(self) -> tuple[Hashed, ...]:
        """Return the same for each queue pair alone; for spraying one whose flows take one path."""
        return tuple(replace(self, queue_pairs=1, first_pair=pair) for pair in range(max(1, self.queue_pairs)))

    def next_hops(self) -> PortGroups:
        """Return all shortest next hops as groups of ports; a HeddleError if they exceed the budget ``path-links``."""
        fabric, n, inner = self.fabric, self.fabric.n_switches, np.arange(self.fabric.first_adapter_port)
        here, there = fabric.port_node[inner], fabric.peer_node[inner]
        linked = (fabric.peer[inner] >= 0) & (there < n)
        nearer = linked & (self.hops[:, np.where(linked, there, here)] < self.hops[:, here])
        if nearer.sum() > PATH_LINKS.limit:
            raise HeddleError(f"switches of {fabric.name} have too many next hops; expected {PATH_LINKS}")
        group, offset, port = number_sets(nearer, fabric.port_offset[: n + 1])
        ends = np.flatnonzero((fabric.end_switch >= 0) & (np.arange(fabric.n_end_ports) >= n))
        row = np.full(fabric.n_end_ports, -1, np.int32)
        row[ends] = np.searchsorted(self._homes, fabric.end_switch[ends])
        return PortGroups(frozen(row), frozen(group), frozen(offset), frozen(port.astype(np.int32)))

    def why_not(self, source: int, dest: int) -> str:
        """Return why there is no path from an end port to another."""
        fabric = self.fabric
        near, far = (fabric.label(int(fabric.end_node[end])) for end in (source, dest))
        said = f"no links lead from {near} to {far}"
        host = fabric.host[fabric.end_node]
        beside = np.flatnonzero((host == host[dest]) & (host[dest] >= 0) & (fabric.end_switch >= 0))
        if not self.is_grouped and fabric.end_switch[source] >= 0:
            reached = beside[self.reaches(np.full(len(beside), source), beside)]
            if len(reached):
                there = fabric.label(int(fabric.end_node[reached[0]]))
                said += f", but to {there}: they are on planes that meet inside servers alone, where jobs of GPUs cross"
        return said

    def to_dict(self) -> dict[str, Any]:
        """Return what is known of the paths as plain values, ready for JSON."""
        said = {name: getattr(self, name) for name in ("engine", "queue_pairs", "seed", "one_hash", "bond")}
        return {"name": self.fabric.name, **said}

    @property
    def table(self) -> Table:
        """What chooses the paths."""
        figures = ((name.replace("_", " "), value) for name, value in self.to_dict().items())
        return Table.of_rows("hashed paths", ("of", "value"), figures)

    def paths(self, src: NDArray[np.integer], dst: NDArray[np.integer]) -> Paths:
        """Return the channels from (n,) end ports to others, those of adapters included.

        Two pairs with the same ends take the same paths, and a port to itself has none. They stop before the first pair
        that no path connects: there are fewer offsets then. It is a HeddleError when they have more channels in all
        than the budget ``path-links``.
        """
        fabric, rng = self.fabric, np.random.default_rng(self.seed)
        key = int(rng.integers(2**32))
        salt = rng.integers(2**32, size=fabric.n_switches + 1)  # the last is that of all adapters
        salt[:-1] *= not self.one_hash
        found = hash_paths(
            fabric.port_offset, fabric.peer, fabric.peer_node, self.hops, self.groups, self._bonds,
            frozen(src.astype(np.int32)), frozen(dst.astype(np.int32)),
            self.queue_pairs, self.first_pair, key, frozen(salt), PATH_LINKS.limit,
        )  # fmt: skip
        if len(found[1]) > PATH_LINKS.limit:
            raise HeddleError(
                f"paths of {len(src):,} pairs of {fabric.name} by {self.engine} have too many channels; expected "
                f"{PATH_LINKS}: take queue pairs, fewer of them, or a smaller job"
            )
        return Paths(*found)


def _check_bonds(fabric: Fabric, bond: int) -> None:
    """Refuse bonds that the ports of no server make, or that leave a port of a server over."""
    host = fabric.host[fabric.end_node[fabric.n_switches :]]
    servers, count = np.unique(host[host >= 0], return_counts=True)
    odd = np.flatnonzero((count > 1) & (count % bond > 0))
    if len(odd) or not (count % bond == 0).any():
        at = int(odd[0]) if len(odd) else 0
        found = f"{fabric.hosts[servers[at]]} with {plural(int(count[at]), 'port')}" if len(count) else "no server"
        raise HeddleError(f"found {found} in bonds of {bond}; expected a multiple of {bond} ports, or 1")


def number_sets(marked: NDArray[np.bool_], begin: NDArray[np.integer]) -> tuple[Int32s, Int32s, NDArray[np.int64]]:
    """Number the sets that (T, C) rows mark among the columns of each switch, equal ones alike, switch by switch.

    Switch s has the columns ``begin[s]:begin[s + 1]``. Returns (T, S) the number of each set, -1 for one without a
    column, and ``offset`` and ``column``: set g has ``column[offset[g]:offset[g + 1]]``.
    """
    number = np.full((len(marked), len(begin) - 1), -1, np.int32)
    size, column, count = [np.zeros(1, np.int64)], [np.zeros(0, np.int64)], 0
    for switch, (first, last) in enumerate(pairwise(begin.tolist())):
        sets, which = np.unique(marked[:, first:last], axis=0, return_inverse=True)
        filled = sets.any(axis=1)
        number[:, switch] = np.where(filled, count + np.cumsum(filled) - 1, -1)[which.ravel()]
        count += int(filled.sum())
        size.append(sets[filled].sum(axis=1))
        column.append(first + np.nonzero(sets[filled])[1])
    return number, np.cumsum(np.concatenate(size), dtype=np.int32), np.concatenate(column)


def percentiles(values: Sequence[float] | NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the median, the fifth and the 95th percentile, each of them one of the values, never a mean of two.

    Examples
    --------
    >>> from routing.hashed import percentiles
    >>> percentiles(range(1, 21))
    (10.0, 1.0, 19.0)
    """
    median, low, high = np.percentile(np.asarray(values, np.float64), (50, 5, 95), method="inverted_cdf").tolist()
    return median, low, high


@kernel
def count_hops(indptr: Int32s, neighbour: Int32s, targets: Int32s) -> NDArray[np.int16]:
    """Return (T, S) hops to each target switch, `UNREACHED` for none, in a graph of switches in CSR form."""
    n = len(indptr) - 1
    found = np.empty((len(targets), n), np.int16)
    hops, nearest = np.empty(n, np.int32), np.empty(n, np.int32)
    for t in range(len(targets)):
        breadth_first(targets[t], indptr, neighbour, hops, nearest)
        for here in range(n):
            found[t, here] = hops[here] if 0 <= hops[here] < UNREACHED else UNREACHED
    return found


@inner
def _mix(value: int) -> int:
    """Return 32 bits, of which each depends on all 32 bits of a value (T. Mueller's integer hash, public domain)."""
    for _ in range(2):
        value = ((value >> 16) ^ value) * 0x45D9F3B & 0xFFFFFFFF
    return (value >> 16) ^ value


@inner
def _near(node: int, bonds: Bonds, dest: int, hops: NDArray[np.int16]) -> int:
    """Return the hops from a node to the nearest switch of a destination, `UNREACHED` from an adapter."""
    nearest = UNREACHED
    if 0 <= node < hops.shape[1]:
        for member in range(bonds.offset[dest], bonds.offset[dest + 1]):
            nearest = min(nearest, hops[bonds.row[member], node])
    return nearest


@inner
def _add(
    port: int, share: float, first: int, n: int, place: Int32s, channel: Int32s, shares: NDArray[np.float64]
) -> int:
    """Add a share to a channel of the pair whose entries begin at `first`; return the number of entries."""
    at = place[port]
    if first <= at < n and channel[at] == port:
        shares[at] += share
        return n
    place[port] = n
    channel[n], shares[n] = port, share
    return n + 1


@kernel
def hash_paths(
    port_offset: Int32s, peer: Int32s, peer_node: Int32s, hops: NDArray[np.int16], groups: PortGroups, bonds: Bonds,
    src: Int32s, dst: Int32s, queue_pairs: int, first_pair: int, key: int, salt: NDArray[np.int64], most: int,
) -> tuple[NDArray[np.int64], Int32s, NDArray[np.float64]]:  # fmt: skip
    """Follow next hops from end port to end port, at each switch by a hash, or over all of them evenly.

    All parts of a flow go on by one link at a time. Shortest paths of a pair have one length, so that parts which meet
    again have come equally far, and each switch is left once. Over groups a part may come later, and goes on then.

    The first arguments are those of `Fabric` and `Hashed`. ``key`` has 32 bits that decide the hash of a flow, and
    ``salt``, (S + 1,), what each switch, and last an adapter, makes of it. Returns `Paths`; with more than ``most``
    entries it has stopped for that.
    """
    n_switches = len(salt) - 1
    offset = np.zeros(len(src) + 1, np.int64)
    place = np.empty(len(peer), np.int32)
    for port in range(len(peer)):
        place[port] = -1
    # Node n_switches is the adapter. What a node can choose depends on the pair alone, and is found once for each.
    part, current, following = np.zeros(len(salt)), np.empty(len(salt), np.int32), np.empty(len(salt), np.int32)
    choices, begin, width = np.empty(len(peer), np.int32), np.empty(len(salt), np.int32), np.empty(len(salt), np.int32)
    seen = np.zeros(len(salt), np.int32)
    channel, shares = np.empty(64, np.int32), np.empty(64)
    n = 0
    for at in range(len(src)):
        first, source, dest = n, int(src[at]), int(dst[at])
        if source == dest:
            offset[at + 1] = n
            continue
        distance = UNREACHED
        for member in range(bonds.offset[source], bonds.offset[source + 1]):
            distance = min(distance, _near(peer_node[bonds.port[member]], bonds, dest, hops))
        if len(groups.row) and groups.row[dest] >= 0 and bonds.offset[source] < bonds.offset[source + 1]:
            distance = n_switches  # at most: without a circle no switch is passed twice
        if distance == UNREACHED:
            return offset[: at + 1], channel[:n], shares[:n]
        known = 0
        flow = _mix(_mix(key ^ source) ^ dest)
        for path in range(max(queue_pairs, 1)):
            own = _mix(flow ^ (first_pair + path))
            part[n_switches] = 1.0 / max(queue_pairs, 1)
            current[0], count = n_switches, 1
            for left in range(distance + 1, -1, -1):  # links to go beyond the one that is taken, at most
                then = 0
                if not count:
                    break
                for place_of in range(count):
                    here = current[place_of]
                    if seen[here] != at + 1:
                        seen[here], begin[here] = at + 1, known
                        if len(groups.row):
                            known = _choose_of_group(here, source, dest, peer, peer_node, groups, bonds, choices, known)
                        else:
                            known = _choose(
                                here, left, source, dest, port_offset, peer, peer_node, hops, bonds, choices, known
                            )
                        width[here] = known - begin[here]
                        if not width[here]:
                            return offset[: at + 1], channel[:first], shares[:first]
                    share, low, high = part[here], begin[here], begin[here] + width[here]
                    part[here] = 0.0
                    if queue_pairs != SPRAY:
                        low += _mix(own ^ salt[here]) % width[here]
                        high = low + 1
                    for choice in range(low, high):
                        port = choices[choice]
                        if n == len(channel):
                            if n > most:
                                return offset[: at + 1], channel, shares
                            wider, larger = np.empty(2 * n, np.int32), np.empty(2 * n)
                            for i in range(n):
                                wider[i], larger[i] = channel[i], shares[i]
                            channel, shares = wider, larger
                        moved = share / (high - low)
                        n = _add(port, moved, first, n, place, channel, shares)
                        there = peer_node[port]
                        if there < n_switches:
                            if part[there] == 0.0:
                                following[then] = there
                                then += 1
                            part[there] += moved
                current, following = following, current
                count = then
            if count:
                return offset[: at + 1], channel[:first], shares[:first]
        offset[at + 1] = n
    return offset, channel[:n], shares[:n]


@inner
def _choose(
    here: int, left: int, source: int, dest: int, port_offset: Int32s, peer: Int32s, peer_node: Int32s,
    hops: NDArray[np.int16], bonds: Bonds, choices: Int32s, n: int,
) -> int:  # fmt: skip
    """Append to `choices` the ports of a node after which `left` links lead to a destination; return their number.

    A node beyond the switches is the adapter of the source.
    """
    adapter = here == hops.shape[1]
    begin = bonds.offset[source] if adapter else port_offset[here]
    end = bonds.offset[source + 1] if adapter else port_offset[here + 1]
    for numbered in range(begin, end):
        port = bonds.port[numbered] if adapter else numbered
        leads = left > 0 and _near(peer_node[port], bonds, dest, hops) == left - 1
        if left == 0:
            for member in range(bonds.offset[dest], bonds.offset[dest + 1]):
                leads = leads or peer[port] == bonds.port[member]
        if leads:
            choices[n] = port
            n += 1
    return n


@inner
def _choose_of_group(
    here: int, source: int, dest: int, peer: Int32s, peer_node: Int32s, groups: PortGroups, bonds: Bonds,
    choices: Int32s, n: int,
) -> int:  # fmt: skip
    """Append to `choices` the ports of a node's group, or the one that hands over; return their number."""
    own, last = bonds.port[bonds.offset[source]], bonds.port[bonds.offset[dest]]
    if here == groups.group.shape[1]:
        choices[n] = own
        return n + 1
    if here == peer_node[last]:
        choices[n] = peer[last]
        return n + 1
    group = groups.group[groups.row[dest], here]
    if group >= 0:
        for place in range(groups.offset[group], groups.offset[group + 1]):
            choices[n] = groups.port[place]
            n += 1
    return n
