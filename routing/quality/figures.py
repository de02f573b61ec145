"""How well tables spread traffic: flows on channels between switches, and their rates, without buffers or time.

A flow gets its max-min fair rate, as a share of what the links of its two hosts allow. The mean of that over random
bisections is the effective bisection bandwidth. Those who named it (Hoefler, Schneider, Lumsdaine, "Multistage switches
are not crossbars: effects of static routing in high-performance networks", IEEE Cluster 2008) count flows instead, and
give each one over the most on any channel of its path, as `congestion` does: less than it gets where others are held
back elsewhere, or where links between switches are faster than those of hosts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.names import find_ends
from routing.proof import ChannelClass, Proof, load_table, prove, role_name
from routing.quality.phases import NOWHERE, fair_shares, output_ports, phase_congestion
from routing.routed import Routed
from routing.tables import NO_PATH, EndpointSet, RoutingTables, delivery_channels, tree_order
from topo.errors import HeddleError, plural, whole
from topo.fabric import Fabric, Role, frozen
from topo.table import Column, Shown, Table


@dataclass(frozen=True)
class Congestion:
    """Congestion in phases of simultaneous flows; each phase stands by itself."""

    phases: int
    bandwidth: float
    """Mean over phases and flows of a flow's max-min fair rate, as a share of its hosts' links; 0 if it is lost."""
    error: float
    """Standard error of that mean, for phases that are a random sample; the true mean is within two, 19 times in 20."""
    max_load_median: float
    """Median over phases of the flows on the most loaded channel between switches."""
    max_load_mean: float
    """The same in the mean over phases."""
    max_load_worst: int
    """The same of the worst phase."""
    lost: int
    """Flows that do not arrive, all phases together."""


@dataclass(frozen=True)
class UplinkShare:
    """Destinations that leaves send over each of their uplinks, their own hosts not counted."""

    role: Role | None
    """Role of the destinations; None for all of them."""
    uplinks: int
    """Uplinks of leaves that hold ranks."""
    used: int
    min: int
    """Of those in use."""
    mean: float
    """Of those in use."""
    max: int


@dataclass(frozen=True)
class Quality(Shown):
    """Figures of tables on a fabric, for traffic between ranks."""

    ranks: int
    """End ports that talk."""
    random_bisections: Congestion
    """Random halves that are matched at random; half of the ranks send."""
    permutation: Congestion
    """Random permutations: each rank sends to one and receives from one."""
    shift: Congestion
    """Rank i to rank i + s."""
    halving_doubling: Congestion
    """Rank i to rank i XOR a power of two, as in recursive halving and doubling."""
    max_load: int
    """Ordered pairs of ranks over the most loaded channel between switches."""
    mean_load: float
    """The same over one in use."""
    unused: int
    """Channels between switches that no pair uses."""
    classes: tuple[ChannelClass, ...]
    """Load of channels between switches by level, and by role of the destination."""
    uplinks: tuple[UplinkShare, ...]
    """For all destinations, and for those of each role."""

    def _brief(self) -> str:
        if not self.random_bisections.phases:
            return f"{plural(self.ranks, 'rank')}: no two that could send to one another"
        return f"{plural(self.ranks, 'rank')}: effective bisection {self.ebb:.3f}, balance {self.balance:.2f}"

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, self.uplink_table)

    @property
    def ebb(self) -> float:
        """Effective bisection bandwidth, as a part of full bandwidth."""
        return self.random_bisections.bandwidth

    def at_most(self, ebb: float) -> Quality:
        """Return the same with an effective bisection of at most a bound, as `routing.studies.bound` computes one.

        The bound holds for the mean over all halves. That of a sample can be above it by chance, and then the bound is
        the better estimate.
        """
        return replace(self, random_bisections=replace(self.random_bisections, bandwidth=min(self.ebb, ebb)))

    @property
    def balance(self) -> float:
        """Ratio of the most loaded to the mean used channel between switches; 1 is even."""
        return self.max_load / self.mean_load if self.mean_load else 1.0

    @property
    def table(self) -> Table:
        """Contention of each kind of simultaneous flows: bandwidth of a flow as a share of its link, and flows."""
        kinds = {
            "random bisections": self.random_bisections,
            "random permutations": self.permutation,
            "shifts": self.shift,
            "halving-doubling": self.halving_doubling,
        }
        found = Table.of(
            "flows on the fullest channel between switches",
            kinds.values(),
            *("phases", ("bandwidth", "bandwidth of a flow", "", ".3f")),
            *(("max_load_median", "median phase", "", "g"), ("max_load_mean", "mean phase", "", ".2f")),
            *(("max_load_worst", "worst phase"), ("lost", "lost flows")),
        )
        return replace(found, columns=(Column("of", list(kinds)), *found.columns))

    @property
    def load_table(self) -> Table:
        """Pairs over the channels between switches, by level and by role of the destination."""
        return load_table(self.classes)

    @property
    def uplink_table(self) -> Table:
        """Destinations over each uplink of a leaf, by role."""
        role = (lambda share: role_name(share.role), "role")
        columns = (role, "uplinks", "used", "min", ("mean", "mean", "", ",.1f"), "max")
        return Table.of("destinations over an uplink of a leaf", self.uplinks, *columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        uplinks = [{**asdict(share), "role": role_name(share.role)} for share in self.uplinks]
        classes = [item.to_dict() for item in self.classes]
        return {"ebb": self.ebb, "balance": self.balance, **asdict(self), "classes": classes, "uplinks": uplinks}


def measure(
    routed: Routed,
    endpoints: EndpointSet | Sequence[int | str] | NDArray[np.integer] = "hca",
    *,
    seed: int | np.random.Generator = 0,
    samples: int = 200,
    max_shifts: int = 400,
    proof: Proof | None = None,
    along: Fabric | None = None,
) -> Quality:
    """Measure tables for traffic between ranks: to the lowest LID of each, where ports have several.

    Parameters
    ----------
    routed : Routed
    endpoints : str or (n,) int or str
        A set of `select_endpoints`, of which those with a cable count, with ranks along the tree (`tree_order`), or end
        ports in the order of their ranks (`find_ends`), which shifts and halving-doubling follow: the GPUs of a zone,
        for instance.
    seed : int or numpy.random.Generator
        Of the random bisections and permutations.
    samples : int
        Random bisections, and random permutations.
    max_shifts : int
        Shifts to try, evenly spaced where there are more.
    proof : Proof, optional
        Proof of the tables for the same end ports; made when left out.
    along : Fabric, optional
        Whose tree the ranks of a set are counted along; this fabric's when left out. After a failure, the fabric before
        it: figures have the same random halves then, and can be compared.

    Raises
    ------
    HeddleError
        When the tables are not of this fabric, there is no such set or end port, or nothing is to be tried.

    Examples
    --------
    >>> import topo, routing
    >>> quality = routing.measure(routing.route(topo.preset("lab-20").fabric))
    >>> quality.ranks, quality.max_load, quality.shift.max_load_worst
    (22, 11, 1)
    """
    fabric, tables = Routed.given(routed).fabric, routed.tables
    if min(samples, max_shifts) < 1:
        raise HeddleError(f"found samples={samples} and max_shifts={max_shifts}; expected 1 or more of each")
    rng = np.random.default_rng(seed if isinstance(seed, np.random.Generator) else whole("seed", seed, 0))
    if tables.lmc:
        routed, proof = replace(routed, tables=tables.only(0)), None
    ranks = find_ends(routed, endpoints)
    if isinstance(endpoints, str):  # along the tree: the order in which a file has the adapters says nothing
        ranks = tree_order(along or fabric, ranks)
        ranks = ranks[fabric.end_switch[ranks] >= 0]
    n = len(ranks)
    proof = prove(routed, ranks) if proof is None or len(proof.ends) != n else proof
    load = proof.load[fabric.inner]
    used = np.count_nonzero(load)
    limit = _limits(fabric, ranks)
    laid_out = _laid_out(routed, ranks)  # once for all: on a large fabric it takes longer than a phase

    def play(partners: NDArray[np.int32]) -> Congestion:
        partners = partners[(partners >= 0).any(axis=1)]  # an identical permutation has no flow to measure
        bandwidth, _, max_load, lost = fair_shares(*laid_out, fabric.rate_gbps, limit, frozen(partners))
        if not len(max_load):
            return Congestion(0, 0.0, 0.0, 0.0, 0.0, 0, 0)
        median, mean, phases = float(np.median(max_load)), float(max_load.mean()), len(max_load)
        error = float(bandwidth.std(ddof=1) / phases**0.5) if phases > 1 else 0.0
        return Congestion(phases, float(bandwidth.mean()), error, median, mean, int(max_load.max()), int(lost.sum()))

    return Quality(
        ranks=n,
        random_bisections=play(bisections(n, samples, rng)),
        permutation=play(permutations(n, samples, rng)),
        shift=play(shifts(n, max_shifts)),
        halving_doubling=play(halving_doubling(n)),
        max_load=int(load.max(initial=0)),
        mean_load=float(load.sum() / used) if used else 0.0,
        unused=int(np.count_nonzero(load == 0)),
        classes=proof.classes,
        uplinks=_uplink_shares(fabric, tables, ranks),
    )


def congestion(
    routed: Routed, ranks: Sequence[int | str] | NDArray[np.integer], partners: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.float64], NDArray[np.int64]]:
    """Play phases of flows between ranks.

    Parameters
    ----------
    routed : Routed
    ranks : (n,) int or str
        End ports, as `find_ends` takes them.
    partners : (K, n) int32
        The rank that each rank sends to in each phase; -1 nobody.

    Returns
    -------
    max_load : (K,) int32
        Flows on the most loaded channel between switches.
    bandwidth : (K,) float64
        Mean over flows of 1 / the most flows on a channel of the path.
    lost : (K,) int64
        Flows that do not arrive.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> ranks = fabric.ends(role="compute")
    >>> phases = routing.quality.shifts(len(ranks), 3)
    >>> max_load, bandwidth, lost = routing.quality.congestion(routing.route(fabric), ranks, phases)
    >>> max_load.tolist(), int(lost.sum())
    ([1, 1, 1], 0)
    """
    return phase_congestion(*_laid_out(Routed.given(routed), find_ends(routed, ranks)), frozen(partners))


def fair_rates(
    routed: Routed, ranks: Sequence[int | str] | NDArray[np.integer], partners: NDArray[np.int32]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Play phases of flows between ranks at max-min fair rates, links of unequal speed included.

    Parameters
    ----------
    routed : Routed
    ranks : (n,) int or str
        End ports, as `find_ends` takes them.
    partners : (K, n) int32
        The rank that each rank sends to in each phase; -1 nobody.

    Returns
    -------
    mean, least : (K,) float64
        Rate of the flows of each phase, as a share of what their own two links allow; a lost flow counts as 0.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> phases = routing.quality.shifts(16, 3)
    >>> mean, least = fair_rates(routing.route(fabric), fabric.ends(role="compute"), phases)
    >>> least.tolist()
    [1.0, 1.0, 1.0]
    """
    fabric, ends = Routed.given(routed).fabric, find_ends(routed, ranks)
    return fair_shares(*_laid_out(routed, ends), fabric.rate_gbps, _limits(fabric, ends), frozen(partners))[:2]


def _limits(fabric: Fabric, ends: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the rate of each end port's link; of port 0 of a switch, which has none, that of the fastest of all."""
    own = fabric.port_of(ends)
    return frozen(np.where(own < 0, fabric.rate_gbps.max(initial=0.0), fabric.rate_gbps[own]))


def _laid_out(
    routed: Routed, ranks: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32]]:
    """Return what `phase_congestion` wants of tables and ranks."""
    fabric, tables = routed.fabric, routed.tables
    lid, switch = tables.lid[ranks].astype(np.int32), fabric.end_switch[ranks]
    delivery = delivery_channels(fabric, ranks)
    reachable = (switch >= 0) & (lid < tables.lft.shape[1])
    lid[~reachable] = 0
    reachable &= (delivery >= 0) | (tables.lft[switch, lid] == 0)  # a switch hands packets to its own port 0
    far = fabric.peer_node[: fabric.first_adapter_port]
    return (
        frozen(fabric.port_offset[: fabric.n_switches] - 1),
        frozen(np.where(far < fabric.n_switches, far, -1).astype(np.int32)),
        frozen(output_ports(fabric.port_offset, tables.lft, frozen(lid))),
        frozen(switch),
        frozen(np.where(reachable, delivery, NOWHERE).astype(np.int32)),
    )


def bisections(n: int, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return (count, n) partners: a random half of n ranks sends to the other half; one stays out when n is odd.

    Examples
    --------
    >>> import numpy as np, routing
    >>> routing.quality.bisections(4, 1, np.random.default_rng(0))
    array([[ 3, -1,  1, -1]], dtype=int32)
    """
    half = n // 2
    partners = np.full((count, n), -1, np.int32)
    for row in partners:
        order = rng.permutation(n)
        row[order[:half]] = order[half : 2 * half]
    return partners


def permutations(n: int, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """Return (count, n) partners: random permutations of n ranks; fixed points are replaced by -1 (no flow).

    Examples
    --------
    >>> import numpy as np, routing
    >>> routing.quality.permutations(4, 1, np.random.default_rng(0))
    array([[ 2,  0,  1, -1]], dtype=int32)
    """
    partners = np.array([rng.permutation(n) for _ in range(count)], np.int32).reshape(count, n)
    partners[partners == np.arange(n)] = -1
    return partners


def shifts(n: int, count: int) -> NDArray[np.int32]:
    """Return partners of shifts of n ranks, (n - 1, n), or (count, n) evenly spaced ones where there are more.

    Examples
    --------
    >>> import routing
    >>> routing.quality.shifts(4, 2)
    array([[1, 2, 3, 0],
           [3, 0, 1, 2]], dtype=int32)
    """
    if n < 2:
        return np.zeros((0, n), np.int32)
    by = np.arange(1, n) if n - 1 <= count else np.unique(np.linspace(1, n - 1, count).astype(np.int64))
    return ((np.arange(n) + by[:, None]) % n).astype(np.int32)


def shifts_in(rings: Sequence[NDArray[np.integer]], count: int) -> NDArray[np.int32]:
    """Return (K, n) partners in shifts within each of several rings, such as rails; -1 where a shift leads back.

    Examples
    --------
    >>> shifts_in([np.array([0, 2]), np.array([1, 3, 4])], 2).tolist()
    [[2, 3, 0, 4, 1], [-1, 4, -1, 1, 3]]
    """
    steps = shifts(max(map(len, rings)), count)[:, :1]
    partners = np.full((len(steps), sum(map(len, rings))), -1, np.int32)
    for ring in rings:
        to = ring[(np.arange(len(ring)) + steps) % len(ring)]
        partners[:, ring] = np.where(steps % len(ring), to, -1)
    return partners


def halving_doubling(n: int) -> NDArray[np.int32]:
    """Return (ceil(log2 n), n) partners: each rank and the one that differs in one bit; -1 where there is none.

    Examples
    --------
    >>> import routing
    >>> routing.quality.halving_doubling(3)
    array([[ 1,  0, -1],
           [ 2, -1,  0]], dtype=int32)
    """
    bits = 1 << np.arange(max(n - 1, 0).bit_length())
    partners = (np.arange(n) ^ bits[:, None]).astype(np.int32)
    partners[partners >= n] = -1
    return partners


def _uplink_shares(fabric: Fabric, tables: RoutingTables, ranks: NDArray[np.int32]) -> tuple[UplinkShare, ...]:
    """Count destinations for each uplink of the leaves that hold ranks; where levels are unknown, all leads up."""
    leaf_of, lid = fabric.end_switch[ranks], tables.lid[ranks].astype(np.int64)
    role = fabric.role[fabric.end_node[ranks]]
    listed = lid < tables.lft.shape[1]
    level = fabric.level
    inner = fabric.is_inner
    roles = [None, *(Role(value) for value in np.unique(role))]
    counts: dict[Role | None, list[NDArray[np.int64]]] = {which: [] for which in roles}
    for leaf in np.unique(leaf_of[leaf_of >= 0]).tolist():
        if level[leaf] > 1:
            continue
        ports = np.arange(fabric.port_offset[leaf], fabric.port_offset[leaf + 1])
        above = level[fabric.peer_node[ports]]
        up = np.flatnonzero(inner[ports] & ((above > level[leaf]) | (above < 0)))
        for which in roles:
            far = listed & (leaf_of != leaf) & ((role == which) if which is not None else True)
            counts[which].append(np.bincount(tables.lft[leaf, lid[far]], minlength=NO_PATH + 1)[up + 1])
    shares = []
    for which, parts in counts.items():
        count = np.concatenate(parts) if parts else np.zeros(0, np.int64)
        used = count[count > 0]
        mean = float(used.mean()) if len(used) else 0.0
        low, high = (int(used.min()), int(used.max())) if len(used) else (0, 0)
        shares.append(UplinkShare(which, len(count), len(used), low, mean, high))
    return tuple(shares)
