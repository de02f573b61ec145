"""What a cluster's YAML may say.

A spec says what is wanted; it holds no derived number. `read_spec` is the rim: it opens the file and the catalog.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema, field_validator
from pydantic_core import PydanticCustomError

from topo.errors import Finding, SpecError
from topo.fabric import Role
from topo.formats.yaml import Document, describe, read_yaml
from topo.hardware.catalog import Catalog, load_catalog
from topo.nearest import did_you_mean
from topo.roles import HOST_ROLES
from topo.room.racks import FloorPlan
from topo.shapes import Shape
from topo.spec.base import SpecModel
from topo.spec.names import EngineName, GroupKey, Name, NodeName
from topo.spec.purchase import Owning, Spares
from topo.spec.units import Watts
from topo.spec.validation import validate


def _role(value: Any) -> Role:
    if isinstance(value, Role):
        return value
    if not isinstance(value, str) or value not in HOST_ROLES:
        context = {"expected": f"one of {', '.join(HOST_ROLES)}", "hint": did_you_mean(str(value), HOST_ROLES)}
        raise PydanticCustomError("role", "{expected}", context)
    return HOST_ROLES[value]


ServerRole = Annotated[
    Role,
    BeforeValidator(_role),
    PlainSerializer(lambda role: role.name.lower(), when_used="json"),
    WithJsonSchema({"enum": list(HOST_ROLES)}),
]
"""What servers are for: ``compute``, ``storage`` or ``management``."""


class NodeGroup(SpecModel):
    """Servers of one model."""

    model: NodeName
    """Model of the server, as the catalog calls it."""
    count: Annotated[int, Field(ge=1, le=49_151)]
    """Number of servers; a subnet has 49,151 unicast LIDs."""
    role: ServerRole | None = None
    """What they are for, where it is not what the model is made for."""


class Routing(SpecModel):
    """How the fabric is routed."""

    engine: EngineName = "auto"
    """Routing engine; ``auto`` takes the one that fits the shape."""


class TrafficClass(SpecModel):
    """Traffic with a service level and a virtual lane of its own."""

    name: Name
    """Name of the class."""
    sl: Annotated[int, Field(ge=0, le=15)]
    """Service level."""
    vl: Annotated[int, Field(ge=0, le=14)]
    """Data lane that the service level maps to; lane 15 is management's."""
    weight: Annotated[int, Field(ge=1, le=255)]
    """Share of the lane in the arbitration, in units of 64 bytes a turn."""
    roles: tuple[ServerRole, ...] = Field(default=(), strict=False)
    """Servers whose traffic belongs to the class, whichever end they are; none: applications choose the class."""


class Budget(SpecModel):
    """What the plan may take at most; a plan that takes more is refused."""

    power: Watts | None = None
    """Power of servers and network, such as ``4 MW``."""
    switches: Annotated[int, Field(ge=1)] | None = None
    """Switches, as the subnet manager counts them."""


class ClusterSpec(SpecModel):
    """A cluster: its servers, its network, how it is routed, what it may take."""

    name: Name
    """Name of the cluster."""
    catalog: str | None = None
    """Folder with catalog tables of your own, relative to this file; its rows extend or override those that ship."""
    nodes: Annotated[dict[GroupKey, NodeGroup], Field(min_length=1, max_length=100)]
    """Groups of servers; a server is called after its group: ``gpu0042``."""
    network: Shape
    """Shape of the network."""
    floor: FloorPlan | None = None
    """The room; without one there are no racks, and cables have no lengths."""
    routing: Routing = Routing()
    """How it is routed."""
    traffic: Annotated[tuple[TrafficClass, ...], Field(max_length=16, strict=False)] = ()
    """Classes of traffic; without any, everything travels on one lane."""
    budget: Budget = Budget()
    """What the plan may take at most."""
    spares: Spares = Spares()
    """Spare parts to buy with the rest."""
    owning: Owning | None = None
    """Years, energy and its price, where the cost of owning is asked for."""

    @field_validator("traffic")
    @classmethod
    def _each_class_once(cls, traffic: tuple[TrafficClass, ...]) -> tuple[TrafficClass, ...]:
        for what in ("name", "sl"):
            value, times = Counter(getattr(item, what) for item in traffic).most_common(1)[0] if traffic else (0, 1)
            if times > 1:
                context = {
                    "found": f"{times} classes with {what} {value}",
                    "expected": f"another {what} for each class",
                }
                raise PydanticCustomError("twice", "{found}; expected {expected}", context)
        return traffic


class SpecFile(NamedTuple):
    """A spec as it was read."""

    spec: ClusterSpec
    catalog: Catalog
    """The catalog that it is to be compiled with: what ships, and the spec's own."""
    document: Document
    """Its text, and where everything stands in it."""


def read_spec(path: Path, engines: Sequence[str] | None = None) -> SpecFile:
    """Read a cluster's YAML and the catalog that it names.

    Parameters
    ----------
    path : Path
        The YAML file.
    engines : sequence of str, optional
        Names of routing engines; any name passes when left out.

    Raises
    ------
    SpecError
        With every finding, at its file, line and column.
    """
    document = read_yaml(path)
    catalog = load_catalog(_catalog_folders(document, path.parent))
    return SpecFile(validate_spec(document, catalog, engines), catalog, document)


def validate_spec(document: Document, catalog: Catalog, engines: Sequence[str] | None = None) -> ClusterSpec:
    """Return what a document says of a cluster whose hardware is in ``catalog``.

    Raises
    ------
    SpecError
        With every finding, at its line and column.
    """
    nodes = document.value.get("nodes") if isinstance(document.value, dict) else None
    context = {
        "switch": list(catalog.switches),
        "node model": list(catalog.nodes),
        "node group": list(nodes) if isinstance(nodes, dict) else [],
    }
    if engines is not None:
        context["routing engine"] = ["auto", *engines]
    return validate(ClusterSpec, document, context)


def _catalog_folders(document: Document, base: Path) -> list[Path]:
    """Return the folder that a document's key ``catalog`` names, if it is there."""
    node = document.root.value.get("catalog") if isinstance(document.root.value, dict) else None
    if node is None or not isinstance(node.value, str):  # absent, or an error that validation will tell
        return []
    folder = base / node.value
    try:
        found = node.value != "" and folder.is_dir()
    except OSError:  # a name that is too long, or a folder above it that is closed to us
        found = False
    if not found:
        expected = "a folder of catalog tables, relative to this file"
        raise SpecError([Finding(document.where(node), describe(node), expected, "Remove the key if there is none.")])
    return [folder]
