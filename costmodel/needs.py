"""What a network has to do, without saying how: the input of the search for the cheapest design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Annotated

from pydantic import Field

from topo.fabric import Role
from topo.formats.yaml import Document, read_yaml
from topo.hardware.catalog import Catalog, config_root, load_catalog
from topo.schema.base import GroupKey, Name, SpecModel, SwitchName, spelled
from topo.schema.cluster import Budget, NodeGroup
from topo.schema.units import GigabitsPerSecond
from topo.schema.validation import validate

Share = Annotated[float, Field(ge=0.0, le=1.0, strict=False)]


class Job(SpecModel):
    """The largest job that must get its full share of the network."""

    nodes: Annotated[int, Field(ge=1, le=49_151)]
    """Compute nodes of the job, placed side by side."""
    bisection: Share = 1.0
    """Share of its full rate at which one half of the job must be able to send to the other; 1.0 is non-blocking."""
    with_storage: bool = True
    """Whether the storage nodes beside it must be able to do the same at the same time."""


class Needs(SpecModel):
    """What a network has to do."""

    name: Name
    """Name of the cluster, and of the design that is found."""
    nodes: Annotated[dict[GroupKey, NodeGroup], Field(min_length=1, max_length=100)]
    """Groups of servers, as in a cluster's spec."""
    job: Job
    """The largest job."""
    bisection: Share = 0.0
    """Share of their full rate at which one half of all compute nodes must be able to send to the other."""
    storage: GigabitsPerSecond = 0.0
    """Rate at which all compute nodes together must be able to read from all storage nodes, such as ``9 TB/s``."""
    growth: Annotated[float, Field(ge=0.0, le=10.0, strict=False)] = 0.0
    """Servers of each group that must find ports later, as a share of those of today: 0.1 is 10 %."""
    survives_a_switch: bool = True
    """Whether every server that is not on it must stay connected to all others when any one switch fails."""
    switches: Annotated[tuple[SwitchName, ...], Field(min_length=1, max_length=20, strict=False)]
    """Models of switches to choose from."""
    currency: Annotated[str, *spelled("units|[A-Z]{3}", "units, or a currency like USD")] = "units"
    """Currency of the comparison; ``units`` are the relative ones of Table III of the Fire-Flyer paper."""
    network_price: Annotated[float, Field(gt=0, strict=False)] | None = None
    """The most that switches and cables may cost, in that currency."""
    budget: Budget = Budget()
    """What the plan may take at most."""


@dataclass(frozen=True)
class Servers:
    """A group of servers as the network sees it."""

    group: str
    count: int
    """With those that growth brings."""
    adapters: int
    """Of each server."""


def grown(group: NodeGroup, growth: float) -> NodeGroup:
    """Return a group with the servers that growth brings."""
    return group.model_copy(update={"count": ceil(round(group.count * (1 + growth), 9))})


def servers_of(needs: Needs, catalog: Catalog, role: Role | None = None) -> list[Servers]:
    """List the groups of servers of a role, or all."""
    found = []
    for name, group in needs.nodes.items():
        model = catalog.node(group.model)
        if role is None or (group.role or model.role) == role:
            found.append(Servers(name, grown(group, needs.growth).count, model.adapters))
    return found


def read_needs(path: str | Path, catalog: Catalog | None = None) -> Needs:
    """Read what a network has to do from a YAML file.

    Parameters
    ----------
    path : str or Path
        The file, or the name of one that ships: ``fire-flyer-2``.
    catalog : topo.Catalog, optional
        Hardware whose names the file may use; what ships when left out.

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
    shipped = isinstance(path, str) and Path(path).suffix == ""
    return validate_needs(
        read_yaml(config_root() / "needs" / f"{path}.yaml" if shipped else Path(path)), catalog or load_catalog()
    )


def validate_needs(document: Document, catalog: Catalog) -> Needs:
    """Return what a document says of needs whose hardware is in ``catalog``.

    Raises
    ------
    SpecError
        With every finding, at its line and column.
    """
    context: Mapping[str, list[str]] = {"switch": list(catalog.switches), "node model": list(catalog.nodes)}
    return validate(Needs, document, context)
