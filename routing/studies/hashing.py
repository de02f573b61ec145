"""What flows get on hashed paths, pattern by pattern: the figures of quality of an Ethernet, over seeds of the hash."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from routing.hashed import DRAWS, Hashed, percentiles
from routing.quality.figures import bisections, permutations, shifts
from routing.tables import tree_order
from topo.errors import HeddleError
from topo.table import Shown, Table

TIE = 1e-12
"""Relative difference below which two levels are one."""


@dataclass(frozen=True)
class HashedShare:
    """Rates of the flows of a pattern as shares of what their own two links allow: over draws, each of one seed."""

    pattern: str
    mean: float
    """Of all flows: the median over draws, as what follows."""
    mean_p5: float
    mean_p95: float
    least: float
    """Of the slowest flow, at whose pace a collective goes."""
    least_p5: float
    least_p95: float


@dataclass(frozen=True)
class HashedShares(Shown):
    """What flows get on hashed paths."""

    engine: str
    rows: tuple[HashedShare, ...]
    draws: int
    """Phases of a pattern, each with a seed of its own."""

    @property
    def text(self) -> str:
        """The rates of random permutations in words."""
        row = next(row for row in self.rows if row.pattern == "random permutations")
        return (
            f"where all hosts send to random partners by {self.engine}, flows get {row.mean:.2f} of their links in the "
            f"mean ({row.mean_p5:.2f} to {row.mean_p95:.2f} in {self.draws} draws), the slowest {row.least:.2f} "
            f"({row.least_p5:.2f} to {row.least_p95:.2f})"
        )

    @property
    def table(self) -> Table:
        """The rates, as shares."""
        names = {"mean": "mean", "p5": "mean_p5", "p95": "mean_p95"}
        names |= {"slowest": "least", "slowest p5": "least_p5", "slowest p95": "least_p95"}
        columns = ((of, title, "", ".2f") for title, of in names.items())
        title = f"share of its own link that a flow gets by {self.engine}: median over {self.draws} draws, p5 and p95"
        return Table.of(title, self.rows, ("pattern", "flows"), *columns)

    def to_dict(self) -> dict[str, Any]:
        """Return the rates by pattern as plain values, ready for JSON."""
        rows = [asdict(row) for row in self.rows]
        return {"engine": self.engine, **{row.pop("pattern"): row for row in rows}}


def measure_hashed(hashed: Hashed, *, draws: int = DRAWS) -> HashedShares:
    """Measure what flows get on hashed paths in random halves, random permutations and shifts.

    Each draw has a phase of its own and a seed of its own, from that of ``hashed`` on. Hosts are ranked along the tree.

    Raises
    ------
    HeddleError
        When fewer than two hosts have a cable.

    Examples
    --------
    >>> import topo, routing
    >>> found = routing.studies.measure_hashed(routing.Hashed(topo.preset("lab-20").fabric))
    >>> [row.pattern for row in found.rows]
    ['random halves', 'random permutations', 'shifts']
    >>> all(row.mean_p5 <= row.mean <= row.mean_p95 <= 1 for row in found.rows)
    True
    """
    fabric = hashed.fabric
    ends = fabric.ends()
    ranks = tree_order(fabric, ends[fabric.end_switch[ends] >= 0])
    if len(ranks) < 2:
        raise HeddleError(f"found {len(ranks)} hosts with a cable; expected at least two, for flows between them")
    rows = []
    for name, phases in patterns(len(ranks), draws, hashed.seed):
        rates = [
            hashed_rates(hashed.drawn(hashed.seed + number), ranks, partners)
            for number, partners in enumerate(phases)
            if (partners >= 0).any()
        ]
        figures = [[float(rate.mean()) for rate in rates], [float(rate.min()) for rate in rates]]
        rows.append(HashedShare(name, *percentiles(figures[0]), *percentiles(figures[1])))
    return HashedShares(hashed.engine, tuple(rows), draws)


def patterns(n: int, count: int, seed: int) -> list[tuple[str, NDArray[np.int32]]]:
    """Return patterns of flows among n ranks by name, each as (count, n) partners."""
    return [
        ("random halves", bisections(n, count, np.random.default_rng(seed))),
        ("random permutations", permutations(n, count, np.random.default_rng(seed))),
        ("shifts", shifts(n, count)),
    ]


def hashed_rates(hashed: Hashed, ranks: NDArray[np.int32], partners: NDArray[np.int32]) -> NDArray[np.float64]:
    """Return the max-min fair rate of each flow on hashed paths, as a share of its own two links.

    Parameters
    ----------
    hashed : Hashed
    ranks : (n,) int32
        End ports.
    partners : (n,) int32
        The rank that each sends to; -1 nobody. Its flow is left out.

    Raises
    ------
    HeddleError
        When two ranks have no path.

    Examples
    --------
    >>> import topo, routing
    >>> fabric = topo.preset("lab-20").fabric
    >>> ranks = fabric.ends(role="compute")
    >>> sprayed = routing.Hashed(fabric, queue_pairs=0)
    >>> rates = routing.studies.hashed_rates(sprayed, ranks, routing.quality.shifts(len(ranks), 1)[0])
    >>> f"{rates.min():.2f}"
    '1.00'
    """
    fabric = hashed.fabric
    sends = np.flatnonzero(partners >= 0)
    source, dest = ranks[sends], ranks[partners[sends]]
    flow, channel, share = hashed_shares(hashed, source, dest)
    limit = np.minimum(fabric.rate_gbps[fabric.port_of(source)], fabric.rate_gbps[fabric.port_of(dest)])
    rate: NDArray[np.float64] = fill(flow, channel, share, fabric.rate_gbps, len(sends)) / (limit * hashed.bond)
    return rate


def hashed_shares(
    hashed: Hashed, source: NDArray[np.integer], dest: NDArray[np.integer]
) -> tuple[NDArray[np.intp], NDArray[np.int32], NDArray[np.float64]]:
    """Return flows, the channels that each takes, and beside them the part of it that does.

    Raises
    ------
    HeddleError
        When there is no path from a source to its destination.
    """
    offset, channel, share = hashed.paths(source, dest)
    if len(offset) <= len(source):
        raise HeddleError(hashed.why_not(source[len(offset) - 1], dest[len(offset) - 1]))
    return np.repeat(np.arange(len(source)), np.diff(offset)), channel, share


def fill(
    flow: NDArray[np.integer], channel: NDArray[np.integer], share: NDArray[np.float64], capacity: NDArray[np.float64],
    n: int,
) -> NDArray[np.float64]:  # fmt: skip
    """Return the max-min fair rates of n flows that put shares of them on channels, by water-filling.

    Examples
    --------
    >>> import numpy as np
    >>> from routing.studies.hashing import fill
    >>> fill(np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([0.5, 0.5, 1.0]), np.array([3.0, 1.0]), 2)
    array([2., 2.])
    """
    used, channel = np.unique(channel, return_inverse=True)
    left, rate, stops, level = capacity[used].astype(np.float64), np.zeros(n), np.zeros(n, bool), 0.0
    while len(flow):
        load = np.bincount(channel, share, len(left))
        at = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        level = max(level, float(at.min()))
        stops[flow[at[channel] <= level * (1 + TIE)]] = True
        stay = ~stops[flow]
        rate[flow[~stay]] = level
        left = np.maximum(left - level * np.bincount(channel[~stay], share[~stay], len(left)), 0)
        flow, channel, share = flow[stay], channel[stay], share[stay]
    return rate
