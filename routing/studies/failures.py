"""How many disjoint shortest paths there are between leaves, and what random failures leave of them.

The diversity of a pair of switches is the largest number of shortest paths between them that share no cable (the count
of disjoint minimal paths of Besta et al., "FatPaths: routing in supercomputers and data centers when shortest paths
fall short", SC 2020). By Menger's theorem that is the largest flow over the cables on shortest paths, one unit each. It
tells what the cables hold, whatever tables make of it: with a diversity of k the pair stays as near as it is whichever
k - 1 cables fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra, maximum_flow

from routing.engines.base import Engine, route
from routing.names import find_link
from routing.proof import Proof, prove
from routing.tables import EndpointSet
from topo.errors import HeddleError, plural
from topo.fabric import Fabric
from topo.table import Column, Shown, Table

MOST_PAIRS = 500
"""Pairs of leaves that are looked at, drawn at random where there are more: a largest flow takes milliseconds."""


@dataclass(frozen=True)
class Diversity:
    """Shortest paths without a cable in common, over pairs of switches."""

    pairs: int
    connected: int
    """Pairs that cables connect."""
    mean: float
    """Over all pairs; one that nothing connects counts as 0."""
    least: int
    distance: float
    """Mean over the connected pairs of the links on a shortest path."""


@dataclass(frozen=True)
class FailureStudy(Shown):
    """A fabric before and after links between its switches failed, and its tables after that."""

    failed: tuple[str, ...]
    """The links, as ``leaf01:21 -> spine01:1``."""
    before: Diversity
    after: Diversity
    """Of the same pairs."""
    proof: Proof
    """Of the tables for what is left."""

    def _shown(self) -> tuple[Table, ...]:
        return (self.table, *self.proof._shown())

    @property
    def table(self) -> Table:
        """Disjoint shortest paths between leaves before and after."""
        found = Table.of(
            f"{plural(len(self.failed), 'link')} failed",
            (self.before, self.after),
            *(("pairs", "pairs of leaves"), "connected", ("mean", "disjoint shortest paths", "", ".2f")),
            *(("least", "fewest"), ("distance", "distance", "links", ".2f")),
        )
        links = Column("links", ["all", "without those that failed"])
        return replace(found, columns=(links, *found.columns))

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        return {
            "links": len(self.failed),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "pairs": self.proof.pairs,
            "connected": self.proof.pairs - self.proof.disconnected,
            "delivered": self.proof.pairs - self.proof.missing,
            "credit_loops": self.proof.credit_loops,
            "max_hops": self.proof.max_hops,
            "max_load": max((item.max for item in self.proof.classes), default=0),
            "failed": list(self.failed),
        }


def fail_links(fabric: Fabric, count: int, rng: np.random.Generator) -> tuple[Fabric, NDArray[np.int32]]:
    """Return the fabric without some links between switches, drawn at random, and those: (count, 2) port ids.

    Raises
    ------
    HeddleError
        When it has fewer.
    """
    links = fabric.inner_links
    if count > len(links):
        raise HeddleError(
            f"{plural(count, 'link')} cannot fail; {fabric.name or 'the fabric'} has {len(links):,} between switches"
        )
    failed = links[np.sort(rng.choice(len(links), count, replace=False))]
    return fabric.without(failed[:, 0]), failed


def leaf_pairs(fabric: Fabric, rng: np.random.Generator, most: int = MOST_PAIRS) -> NDArray[np.int64]:
    """Return (n, 2) pairs of different switches that hold HCAs, the first of lower id, at most ``most``."""
    leaves = np.unique(fabric.end_switch[fabric.ends()]).astype(np.int64)
    n = len(leaves)
    total = n * (n - 1) // 2
    chosen = np.arange(total) if total <= most else np.sort(rng.choice(total, most, replace=False))
    # Pair number k is (i, j) with k = j (j - 1) / 2 + i, i < j.
    j = ((1 + np.sqrt(8.0 * chosen + 1)) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > chosen
    i = chosen - j * (j - 1) // 2
    return np.stack([leaves[i], leaves[j]], axis=1)


def path_diversity(fabric: Fabric, pairs: NDArray[np.int64]) -> Diversity:
    """Count shortest paths that share no cable, for (n, 2) pairs of switches."""
    n = fabric.n_switches
    near, far = fabric.port_node[fabric.inner], fabric.peer_node[fabric.inner]
    cables = csr_array((np.ones(len(near), np.int32), (near, far)), shape=(n, n))
    cables.sum_duplicates()
    cables.sort_indices()
    sender = np.repeat(np.arange(n), np.diff(cables.indptr))
    ends, index = np.unique(pairs, return_inverse=True)
    index = index.reshape(pairs.shape)
    distance = dijkstra(cables, indices=ends, unweighted=True) if len(ends) else np.zeros((0, n))
    counts, lengths = np.zeros(len(pairs), np.int64), []
    for number in range(len(pairs)):
        (a, b), (source, dest) = index[number], pairs[number].tolist()
        length = distance[a, dest]
        if not np.isfinite(length):
            continue
        shortest = distance[a, sender] + 1 + distance[b, cables.indices] == length
        indptr = np.concatenate([[0], np.cumsum(np.bincount(sender[shortest], minlength=n))]).astype(np.int32)
        paths = csr_array((cables.data[shortest], cables.indices[shortest], indptr), shape=(n, n))
        counts[number] = maximum_flow(paths, source, dest).flow_value
        lengths.append(length)
    return Diversity(
        pairs=len(pairs),
        connected=len(lengths),
        mean=float(counts.mean()) if len(counts) else 0.0,
        least=int(counts.min(initial=counts.max(initial=0))),
        distance=float(np.mean(lengths)) if lengths else 0.0,
    )


def study_failures(
    fabric: Fabric,
    links: int | Sequence[int | str] | NDArray[np.integer],
    *,
    engine: str | Engine | None = None,
    lanes: int | None = None,
    endpoints: EndpointSet | Sequence[int | str] | NDArray[np.integer] = "hca",
    seed: int = 0,
) -> FailureStudy:
    """Let links fail, and route what is left.

    Parameters
    ----------
    fabric : Fabric
    links : int or (n,) int or str
        How many links between switches fail, drawn at random; or which links do, each as `find_link` takes it.
    engine, lanes
        As `routing.route` takes them.
    endpoints : str or (n,) int or str
        Whose pairs are proven, as `routing.prove` takes them.
    seed : int
        Of the random choice of links, and of pairs of leaves where there are many.

    Raises
    ------
    HeddleError
        When there are fewer links, or no such one, or what is left cannot be routed.

    Examples
    --------
    >>> import topo, routing
    >>> study = routing.studies.study_failures(topo.preset("lab-20").fabric, 2)
    >>> study.before.mean, study.after.mean, study.proof.missing
    (20.0, 18.0, 0)
    >>> routing.studies.study_failures(topo.preset("lab-20").fabric, ["leaf0:21", "leaf1:21"]).failed
    ('leaf0:21 -> spine0:1', 'leaf1:21 -> spine0:11')
    """
    rng = np.random.default_rng(seed)
    pairs = leaf_pairs(Fabric.given(fabric), rng)
    if isinstance(links, int | np.integer):
        left, drawn = fail_links(fabric, links, rng)
        failed = drawn[:, 0]
    else:
        failed = np.array([find_link(fabric, link) for link in links], np.int32)
        left = fabric.without(failed)
    return FailureStudy(
        failed=tuple(fabric.channel_label(port) for port in failed.tolist()),
        before=path_diversity(fabric, pairs),
        after=path_diversity(left, pairs),
        proof=prove(route(left, engine, lanes=lanes), endpoints),
    )
