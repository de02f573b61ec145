"""Comparison of clusters: parts, cost, power, bisection, and the largest failure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.bills import Bill, bill
from costmodel.optimise.bisection import Bisection, bisection, job_networks
from costmodel.parts import NETWORK, SERVERS
from costmodel.power import Power
from costmodel.price import SUMS, Cost
from topo.amounts import Sum
from topo.cluster import Cluster
from topo.counts import Counts
from topo.errors import HeddleError, plural
from topo.failures.losses import Losses, find_losses
from topo.hostlist import compress
from topo.ports import PortClass, PortUse, count_ports
from topo.table import Shown, Table


@dataclass(frozen=True)
class Compared:
    """The figures of one of the compared clusters."""

    name: str
    counts: Counts
    cables: int
    """Cables to lay: links in one cable count once, links of two fibres twice, those inside frames not at all."""
    ports: PortUse
    cost: Cost
    power: Power
    bisection: Bisection
    """Bisection of all compute nodes as one job."""
    losses: Losses
    """What the failure of a single part takes away."""
    job: tuple[int, Bisection] | None = None
    """Compute servers of a job, and what each gets to the other half of its job; None where none is asked for."""

    @property
    def network_per_gpu(self) -> Sum | None:
        """Cost of the network / number of GPUs; None where the number is 0 or unknown."""
        return self.cost.network * (1 / self.counts.gpus) if self.counts.gpus else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "name": self.name,
            "cables": self.cables,
            **{name: getattr(self, name).to_dict() for name in ("counts", "ports", "cost", "power")},
            **self.bisection.to_dict(),
            "losses": self.losses.to_dict(),
            **({"job": {"nodes": self.job[0], **self.job[1].to_dict()}} if self.job else {}),
        }


@dataclass(frozen=True)
class Comparison(Shown):
    """The figures of compared clusters, in one currency: see `compare`."""

    systems: tuple[Compared, ...]

    def _brief(self) -> str:
        return " beside ".join(system.name for system in self.systems)

    def to_dict(self) -> list[dict[str, Any]]:
        """Return the figures of each cluster as plain values."""
        return [system.to_dict() for system in self.systems]

    @property
    def table(self) -> Table:
        """The figures as a table: a row for each figure, a column for each cluster."""
        headings = [f"{n}: {system.name}" for n, system in enumerate(self.systems, start=1)]
        kinds = list(dict.fromkeys(loss.kind for system in self.systems for loss in system.losses.worst))
        cells = zip(*(_figures(system, kinds) for system in self.systems), strict=True)
        rows = [(same[0][0], *(text for _, text in same)) for same in cells]
        return Table.of_rows("beside one another", ("figure", *headings), rows)


def compare(*clusters: Cluster, currency: str | None = None, job: int | None = None) -> Comparison:
    """Compare clusters: parts, ports, cost, power, bisection, and the largest failure.

    Parameters
    ----------
    *clusters : topo.Cluster
        Two or more clusters.
    currency : str, optional
        ``USD``, ``EUR``, ..., or ``units``. By default that of `quote` where it is the same for all clusters, else USD.
    job : int, optional
        Compute servers of a job whose share is asked for, of each cluster; by default none is.

    Returns
    -------
    Comparison
        The figures of each cluster, in the order given.

    Raises
    ------
    topo.HeddleError
        When fewer than two clusters are given, or one has fewer compute servers than the job.

    Examples
    --------
    >>> import costmodel, topo
    >>> two = costmodel.compare(topo.preset("fire-flyer-2"), topo.preset("pcie-three-level"), currency="units")
    >>> [str(system.cost.network) for system in two.systems]
    ['366', '600']
    """
    given = [Cluster.given(cluster) for cluster in clusters]
    if len(given) < 2:
        raise HeddleError(f"found {plural(len(given), 'cluster')} to compare; expected two or more")
    for cluster in given if job is not None else ():
        if not 2 <= job <= cluster.counts.gpu_nodes:  # type: ignore[operator]
            have = cluster.counts.gpu_nodes
            raise HeddleError(f"{cluster.name}: found a job of {job:,} servers; expected 2 to {have:,}, which compute")
    bills = [bill(cluster) for cluster in given]
    named = {cluster.spec.priced_in or parts.currency for cluster, parts in zip(given, bills, strict=True)}
    currencies = named if currency is None else {currency}
    one = currencies.pop() if len(currencies) == 1 else "USD"
    return Comparison(tuple(_compared(cluster, parts, one, job) for cluster, parts in zip(given, bills, strict=True)))


def _compared(cluster: Cluster, parts: Bill, currency: str, job: int | None) -> Compared:
    losses, networks = find_losses(cluster.fabrics, cluster.catalog, cluster.layout), job_networks(cluster.fabrics)
    return Compared(
        name=cluster.name,
        counts=cluster.counts,
        cables=int(sum(parts.cable_table.columns[-1].values)),
        ports=count_ports(cluster.fabrics, cluster.catalog),
        cost=parts.price(currency),
        power=parts.power,
        bisection=bisection(networks),
        losses=losses,
        job=(job, bisection(networks, job)) if job else None,
    )


def _by_network(said: Iterable[tuple[PortClass, str]]) -> str:
    """Return words on classes of switches, those that are the same in several networks once."""
    names: dict[str, list[str]] = {}
    for row, words in said:
        names.setdefault(words, []).append(row.network)
    several = len({name for those in names.values() for name in those}) > 1
    return ", ".join(f"{compress(those)} {words}" if several else words for words, those in names.items()) or "none"


def _figures(system: Compared, kinds: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield name and value of each figure, as text; of failures those of these kinds of parts."""
    counts, cost, power = system.counts, system.cost, system.power
    yield "compute servers", f"{counts.gpu_nodes:,}"
    yield "GPUs", "unknown" if counts.gpus is None else f"{counts.gpus:,}"
    yield "switches", f"{counts.switches:,}"
    yield "links", f"{counts.links:,}"
    yield "cables", f"{system.cables:,}"
    rows = system.ports.classes
    yield "taper", _by_network((row, f"{row.taper:.3g} ({row.role} {row.model})") for row in rows if row.taper)
    yield "free ports", _by_network((row, row.free_told) for row in rows)
    for name in SUMS:
        yield f"{name} ({cost.unit})", str(cost.of(*SUMS[name])) if cost.priced(*SUMS[name])[1] else "none"
    per_gpu = system.network_per_gpu
    yield f"network for each GPU ({cost.unit})", "unknown" if per_gpu is None else f"{per_gpu:,.2f}"
    yield f"no price ({cost.unit})", "; ".join(gap.partition(" (")[0] for gap in cost.gaps) or "none"
    for most, when in ((False, "typically"), (True, "at most")):
        for name, parts in (("the network", NETWORK), ("servers", SERVERS), ("all", ())):
            yield f"power of {name}, {when} (kW)", f"{power.of(*parts, most=most) * 1e-3:,.1f}"
        missing = (part.partition(" (")[0] for part in power.of(most=most).missing)
        yield f"power unknown, {when}", "; ".join(missing) or "none"
    yield "bisection", str(system.bisection)
    if system.job:
        yield f"job of {system.job[0]:,} servers, each to the other half", str(system.job[1])
    yield "worst cut", system.bisection.reason or "none"
    for kind in kinds:
        lost = "; ".join(str(loss) for loss in system.losses.worst if loss.kind == kind)
        unknown = (why.partition(": ") for why in system.losses.unknown)
        because = next((f"unknown: {why}" for of, _, why in unknown if kind in of), f"has no {kind}")
        yield f"failure of a {kind}", lost or because
