"""Needs: the requirements on a network, which are the input of the search for the cheapest design."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from pydantic import Field, PlainSerializer, PlainValidator

from costmodel.optimise.demand import ROUNDING
from topo.amounts import listed, percent
from topo.catalog.load import Catalog, load_catalog
from topo.catalog.models import Price, PricePoint, Source
from topo.catalog.tables import DATE
from topo.cluster import catalog_folders, known_names
from topo.cluster_spec import ClusterBudget, NodeGroup, Owning, Terms, as_bought, parse_money
from topo.errors import Finding, SpecError, plural
from topo.fabric import Role
from topo.files.text import config_root, path_of
from topo.files.yaml import Document, read_yaml
from topo.floor.racks import FloorPlan
from topo.spec.base import AdapterName, GroupKey, GroupName, Name, PartName, SpecModel, SwitchName, mismatch, spelled
from topo.spec.units import RATE, Metres, format_quantity, parse_quantity
from topo.spec.validation import validate

Share = Annotated[float, Field(ge=0.0, le=1.0, strict=False)]
FamilyName = Literal[
    "fat-tree", "planes", "zones", "rail", "hyperx", "torus", "dragonfly", "dragonfly+", "slim-fly", "bigraph"
]


JobSize = Annotated[int, Field(ge=1, le=49_151)]


class JobsOfASize(SpecModel):
    """Jobs of one size in a mix."""

    size: JobSize
    """Compute nodes of each job."""
    share: Annotated[float, Field(gt=0.0, le=1.0, strict=False)]
    """Share of all compute nodes that run jobs of this size."""


class Job(SpecModel):
    """The jobs that must get their share of the network: as many of this size as there are compute nodes for."""

    nodes: JobSize | Annotated[tuple[JobsOfASize, ...], Field(min_length=1, max_length=20, strict=False)]
    """Compute nodes of the job, placed side by side; or a mix of sizes, all at once."""
    bisection: Share = 1.0
    """Share of its full rate at which one half of the job must be able to send to the other; 1.0 is non-blocking."""
    with_storage: bool = True
    """Whether the storage nodes beside them must be able to do the same at the same time."""
    alone: bool = False
    """Whether a job has the network to itself; otherwise all jobs get their share at the same time."""

    @property
    def sizes(self) -> dict[int, float]:
        """Share of the compute nodes by the size of the jobs that they run."""
        return {self.nodes: 1.0} if isinstance(self.nodes, int) else {part.size: part.share for part in self.nodes}

    def __str__(self) -> str:
        if isinstance(self.nodes, int):
            return f"a job of {plural(self.nodes, 'node')}"
        return f"jobs of {', '.join(f'{size:,} nodes on {percent(share)}' for size, share in self.sizes.items())}"


@dataclass(frozen=True)
class Amount:
    """A bandwidth: a share of a full rate, or a rate in Gb/s.

    Examples
    --------
    >>> half, rate = Amount(share=0.5), Amount(gbps=100.0)
    >>> half.of(400.0), rate.of(400.0), half.share_of(400.0), rate.share_of(400.0)
    (200.0, 100.0, 0.5, 0.25)
    """

    share: float = 0.0
    gbps: float = 0.0
    """0 where the share is stated."""

    def __bool__(self) -> bool:
        return bool(self.share or self.gbps)

    def of(self, full: float) -> float:
        """Return it in Gb/s, given the full rate in Gb/s."""
        return self.gbps or self.share * full

    def share_of(self, full: float) -> float:
        """Return it as a share of the full rate in Gb/s; infinite where the full rate is 0."""
        return self.share if not self.gbps else self.gbps / full if full else inf

    def __str__(self) -> str:
        return f"{self.gbps / 8_000:.2f} TB/s" if self.gbps else percent(self.share)


def _amount(value: Any) -> Amount:
    """Read a share or a rate."""
    expected = f"a share from 0 to 1, or a rate with its unit, such as {RATE.example} or 9 TB/s"
    if isinstance(value, Amount):
        return value
    if isinstance(value, str):
        try:
            return Amount(gbps=parse_quantity(value, RATE))
        except ValueError:
            raise mismatch(expected) from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise mismatch(expected)
    return Amount(share=float(value))


def _plain(amount: Amount) -> float | str:
    return format_quantity(amount.gbps, RATE) if amount.gbps else amount.share


AnyAmount = Annotated[Amount, PlainValidator(_amount), PlainSerializer(_plain, when_used="json")]


class Bandwidth(SpecModel):
    """Bandwidth that a network must carry for each role of servers, one role at a time."""

    compute: AnyAmount = Amount()
    """From one half of all compute nodes to the other half, for the worst bisection: a share of their full rate, such
    as ``0.03``, or a rate, such as ``1.5 TB/s``."""
    storage: AnyAmount = Amount()
    """From all storage servers together to all compute nodes: a share of the full rate of the storage, or a rate."""
    management: AnyAmount = Amount()
    """From all management servers together to all compute nodes, likewise."""

    def of(self, role: Role) -> Amount:
        """Return the bandwidth of a role."""
        found: Amount = getattr(self, role.name.lower())
        return found

    @property
    def asked(self) -> dict[Role, Amount]:
        """The bandwidths that are required, by role."""
        roles = (Role.COMPUTE, Role.STORAGE, Role.MANAGEMENT)
        return {role: self.of(role) for role in roles if self.of(role)}


class Supply(SpecModel):
    """What can be had of a model, and when."""

    stock: Annotated[int, Field(ge=0)]
    """Pieces that can be had at once."""
    weeks: Annotated[float, Field(ge=0, strict=False)] | None = None
    """Weeks until more come; when omitted, no more come."""

    def within(self, weeks: float | None) -> float:
        """Return the pieces that can be had within so many weeks, None for any time."""
        late = self.weeks is None or (weeks is not None and self.weeks > weeks)
        return self.stock if late else inf


Quotes = Annotated[dict[PartName, Annotated[float, Field(ge=0, strict=False)]], Field(max_length=1_000)]


class FurtherNetwork(SpecModel):
    """Requirements on a network beside the first one, such as that of the storage: a fabric of its own."""

    adapters: Annotated[dict[GroupName, Annotated[int, Field(ge=1, le=64)]], Field(min_length=1)]
    """Adapters of each server in it, by group of servers."""
    adapter: AdapterName | None = None
    """Model of these adapters, by default as in a cluster's spec."""
    job: Job = Job(nodes=1)
    """Jobs on its compute nodes; when omitted, it carries only `bandwidth`."""
    bandwidth: Bandwidth = Bandwidth()
    """Bandwidth for each role, regardless of jobs."""
    between_rails: Share = 1.0
    """As for the first network."""
    survives_a_switch: bool = True
    """As for the first network."""
    switches: Annotated[tuple[SwitchName, ...], Field(max_length=20, strict=False)] = ()
    """Models of switches to choose from; those of the first network when omitted."""
    families: Annotated[tuple[FamilyName, ...], Field(max_length=12, strict=False)] = ()
    """Families of designs to search; all families when omitted."""


class Needs(SpecModel):
    """Requirements on a network, without its design.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.Needs.model_validate({
    ...     "name": "pod", "nodes": {"gpu": {"model": "pcie-a100", "count": 60}},
    ...     "job": {"nodes": 60}, "switches": ["QM8700"],
    ... })
    >>> print(needs.job, needs.job.bisection, needs.currency, sep=", ")
    a job of 60 nodes, 1.0, units
    """

    name: Name
    """Name of the cluster, and of the design that is found."""
    catalog: str | None = None
    """Folder with catalog tables of your own, or one table such as ``prices.csv``, relative to this file."""
    nodes: Annotated[dict[GroupKey, NodeGroup], Field(min_length=1, max_length=100)]
    """Groups of servers, as in a cluster's spec."""
    job: Job
    """The largest job, or the mix of jobs."""
    bandwidth: Bandwidth = Bandwidth()
    """Bandwidth for each role, regardless of jobs."""
    between_rails: Share = 1.0
    """Share of the bandwidth of `job` and of compute servers that any adapter must have to any other, as between rails:
    1.0 is all of it, so that no traffic needs to keep to its rail. 0 is for jobs of which all does, such as NCCL's
    with PXN."""
    tables: Share | None = None
    """Least effective bisection of the forwarding tables. A design that may win is then routed, proven and measured;
    when omitted, designs are judged by cuts alone."""
    growth: Annotated[float, Field(ge=0.0, le=10.0, strict=False)] = 0.0
    """Servers of each group for which ports must remain free, as a share of the group: 0.1 is 10 %."""
    stages: Annotated[tuple[Share, ...], Field(max_length=10, strict=False)] = ()
    """Shares of the servers that are installed in the stages before the last. The needs must be met at each stage."""
    moving: Annotated[float, Field(ge=0, strict=False)] | None = None
    """Price of moving a cable when the next stage is built; when omitted, no cable is moved."""
    survives_a_switch: bool = True
    """Whether every server that is not on it must stay connected to all others when any one switch fails."""
    switches: Annotated[tuple[SwitchName, ...], Field(min_length=1, max_length=20, strict=False)]
    """Models of switches to choose from."""
    families: Annotated[tuple[FamilyName, ...], Field(max_length=12, strict=False)] = ()
    """Families of designs to search, by their ``network.shape`` in a spec; all families when omitted."""
    networks: Annotated[dict[Name, FurtherNetwork], Field(max_length=16)] = Field(default_factory=dict)
    """Further networks, each the cheapest of its own. A group that does not compute and is in one of these is not in
    the first. Budgets, stock and floor are those of all networks together."""
    currency: Annotated[str, *spelled("units|[A-Z]{3}", "units, or a currency like USD")] = "units"
    """Currency of the comparison; ``units`` are the relative ones of Table III of the Fire-Flyer paper."""
    quotes: Quotes = Field(default_factory=dict)
    """Unit prices in that currency, by model, or by speed of a cable such as ``4xHDR``; they replace the prices of the
    catalog."""
    vendors: Annotated[dict[Name, Quotes], Field(max_length=20)] = Field(default_factory=dict)
    """Quotes of several vendors, each for a whole network: one search with the quotes of each, beside `quotes`."""
    terms: Terms | None = None
    """Discounts, support and tax on quotes and on prices of the catalog, as in a cluster's spec."""
    exclude: Annotated[tuple[PartName, ...], Field(max_length=200, strict=False)] = ()
    """Switches, cables and transceivers that must not be used, as in a cluster's spec."""
    supply: Annotated[dict[PartName, Supply], Field(max_length=1_000)] = Field(default_factory=dict)
    """Stock and lead time by model, or by speed of a cable; of others any number can be had at once."""
    weeks: Annotated[float, Field(ge=0, strict=False)] | None = None
    """Weeks within which everything must be there; when omitted, any time will do."""
    quoted: Annotated[str, *spelled(DATE.pattern, "a date, such as 2026-11-20")] | None = None
    """Date of the quotes; by default that of the file."""
    owning: Owning | None = None
    """Years, power usage effectiveness and price of energy. The search then minimises the price of the network and of
    the energy that it draws over those years. There are no defaults."""
    network_price: Annotated[float, Field(gt=0, strict=False)] | None = None
    """Maximum price of switches and cables, in that currency."""
    budget: ClusterBudget = ClusterBudget()
    """Limits on power, switches, and the price of everything with the servers."""
    floor: FloorPlan | None = None
    """The floor, as in a cluster's spec: all devices must fit, within the power of racks and feeds."""
    reach: Metres | None = None
    """Maximum length of a cable on that floor, such as ``3 m`` for passive copper."""

    def first_network(self, catalog: Catalog) -> dict[str, NodeGroup]:
        """Return the groups of servers in the first network: those that compute, and those in no other."""
        elsewhere = {group for network in self.networks.values() for group in network.adapters}
        return {
            name: group
            for name, group in self.nodes.items()
            if name not in elsewhere or group.role_by(catalog) is Role.COMPUTE
        }


def grown(group: NodeGroup, growth: float) -> NodeGroup:
    """Return a group after growth: ceil(count * (1 + growth)) servers."""
    return group.model_copy(update={"count": ceil(round(group.count * (1 + growth), 9))})


def read_needs(path: str | Path) -> Needs:
    """Read needs from a YAML file.

    Parameters
    ----------
    path : str or Path
        The file, or the name of needs that ship with Heddle: ``fire-flyer-2``.

    Returns
    -------
    Needs
        The needs, with the absolute path of their own catalog.

    Raises
    ------
    topo.SpecError
        With every finding, at its line and column.

    Examples
    --------
    >>> import costmodel
    >>> needs = costmodel.read_needs("fire-flyer-2")
    >>> needs.job.nodes, needs.switches
    (600, ('QM8700',))
    """
    file = path_of(path, "Needs, their file, or the name of needs that ship")
    shipped = isinstance(path, str) and not file.suffix
    document = read_yaml(config_root() / "needs" / f"{path}.yaml" if shipped else file)
    folders = catalog_folders(document, file.parent)
    needs = validate_needs(document, load_catalog(folders))
    return needs.model_copy(update={"catalog": str(folders[0].resolve())}) if folders else needs


def validate_needs(document: Document, catalog: Catalog) -> Needs:
    """Validate needs whose hardware is in ``catalog``.

    Raises
    ------
    SpecError
        With every finding, at its line and column.
    """
    needs = validate(Needs, document, known_names(document, catalog))
    faults = [Finding(document.where(*place), *said) for place, *said in _faults(needs, catalog)]
    if faults:
        raise SpecError(faults)
    return needs


def _faults(needs: Needs, catalog: Catalog) -> Iterator[tuple[Any, ...]]:
    """Yield what is wrong with needs: its place, what was found and what is expected, perhaps what to do."""
    if set(needs.switches) <= set(needs.exclude):
        yield ("exclude",), listed(needs.exclude), "a switch of `switches` that is left"
    if needs.budget.price is not None and parse_money(needs.budget.price)[1] != needs.currency:
        yield ("budget", "price"), needs.budget.price, f"{needs.currency}, the currency of the needs"
    if needs.owning is not None and needs.owning.currency != needs.currency:
        expected = f"{needs.currency}, the currency of the needs"
        yield ("owning", "currency"), needs.owning.currency, expected, "Prices are added up."
    for key in ("vendors", "stages", "tables") if needs.networks else ():
        if getattr(needs, key):
            yield (key,), f"{key} beside {listed(needs.networks)}", "one network", f"Search without {key}."
    first = needs.first_network(catalog)
    if not first:
        expected = "a group that computes, or is in none of them"
        yield ("networks",), f"all groups in {listed(needs.networks)}", expected
    yield from _misfits((), needs, first, catalog)
    for name, network in needs.networks.items():
        groups = {group: needs.nodes[group] for group in network.adapters}
        yield from _misfits(("networks", name), network, groups, catalog)
    if needs.reach is not None and needs.floor is None:
        yield ("reach",), f"{needs.reach:g} m", "a `floor`, which gives cables lengths"
    if needs.moving is not None and not needs.stages:
        yield ("moving",), f"{needs.moving:g}", "`stages`, between which cables are moved"


def _misfits(
    place: tuple[str, ...], asked: Needs | FurtherNetwork, groups: Mapping[str, NodeGroup], catalog: Catalog
) -> Iterator[tuple[Any, ...]]:
    """Yield what is asked of a network that its servers cannot need."""
    count = dict.fromkeys(Role, 0)
    for group in groups.values():
        count[group.role_by(catalog)] += group.count
    for role in asked.bandwidth.asked:
        if not count[role]:
            name = role.name.lower()
            expected = f"servers of the role {name} under `nodes`"
            yield (*place, "bandwidth", name), f"a bandwidth for {name}", expected
    total, jobs = count[Role.COMPUTE], (*place, "job", "nodes")
    sizes = {} if isinstance(asked.job.nodes, int) else asked.job.sizes
    if isinstance(asked.job.nodes, int) and total < asked.job.nodes and not (place and asked.job == Job(nodes=1)):
        yield jobs, f"a job of {asked.job.nodes:,} nodes", f"at most {total:,}, the compute nodes"
    for size, share in sizes.items():
        if round(total * share) < size:
            found = f"{share:g} of {total:,} compute nodes for jobs of {size:,}"
            yield jobs, found, "room for a job", "Take a larger share."
    if sum(sizes.values()) > 1 + ROUNDING:
        yield jobs, f"{sum(sizes.values()):g} in all", "at most 1"


def with_quotes(needs: Needs, catalog: Catalog) -> Catalog:
    """Return the catalog with the quotes of the needs in place of its own prices, at their terms."""
    source = Source("quoted in the needs", needs.quoted or "", "own", needs.name)
    prices = {
        name: {**catalog.prices.get(name, {}), needs.currency: Price(needs.currency, (PricePoint(p, p, "", source),))}
        for name, p in needs.quotes.items()
    }
    at_hand = replace(catalog, prices=MappingProxyType({**catalog.prices, **prices}))
    return as_bought(at_hand, needs.terms, needs.exclude)
