"""How many of everything a cluster or a real fabric has: one way of counting for every command and every file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from topo.catalog.load import Catalog
from topo.errors import plural
from topo.fabric import Fabric, Kind, Role
from topo.table import Shown, Table


@dataclass(frozen=True)
class Counts(Shown):
    """Counts over all subnets of a cluster; None is unknown.

    A server with adapters in several subnets is one server. One whose adapters have several roles counts once, by the
    first of compute, storage and management.
    """

    switches: int
    """Switches as a subnet manager sees them: each chip of a frame is one."""
    leaf: int
    spine: int
    core: int
    joint: int
    zones: int
    """Zones of the network that has the most: zones of different networks are not one another's."""
    gpu_nodes: int
    """Servers that compute."""
    gpus: int | None
    """None where the model of a server is unknown: a dump of a real fabric names none."""
    storage_nodes: int
    management_nodes: int
    aggregation_nodes: int
    """SHARP aggregation nodes; each is inside a switch."""
    host_ports: int
    """Ports of adapters that are linked to a switch."""
    links: int
    """Links, the backplanes of frames included. A link between a switch and its own aggregation node is inside the
    switch and is not counted. A cable that leads from a switch to itself is a link, although no path uses it."""

    def _brief(self) -> str:
        switches = plural(self.switches, "switch", "switches")
        return f"{switches}, {plural(self.host_ports, 'host port')}, {plural(self.links, 'link')}"

    @property
    def table(self) -> Table:
        """The counts as a table."""
        return Table.of_rows("counts", ("of", "count"), ((key.replace("_", " "), n) for key, n in vars(self).items()))


def count(fabrics: Iterable[Fabric], catalog: Catalog | None = None) -> Counts:
    """Count what stands in all subnets of a cluster; without its catalog, GPUs are unknown.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("lab-20")
    >>> counts = topo.count(cluster.fabrics, cluster.catalog)
    >>> counts.switches, counts.gpu_nodes, counts.gpus, counts.links
    (4, 16, 128, 62)
    """
    fabrics = list(fabrics)
    roles = np.sum([np.bincount(f.role[: f.n_switches], minlength=len(Role)) for f in fabrics], axis=0).tolist()
    server_roles, server_models = _servers(fabrics)
    gpus = None
    if catalog is not None and set(server_models) <= set(catalog.nodes):
        gpus = sum(catalog.nodes[model].gpus for model in server_models)
    return Counts(
        switches=sum(fabric.n_switches for fabric in fabrics),
        leaf=roles[Role.LEAF],
        spine=roles[Role.SPINE],
        core=roles[Role.CORE],
        joint=roles[Role.JOINT],
        zones=max(len(set(fabric.zone[: fabric.n_switches].tolist()) - {-1}) for fabric in fabrics),
        gpu_nodes=server_roles.count(Role.COMPUTE),
        gpus=gpus,
        storage_nodes=server_roles.count(Role.STORAGE),
        management_nodes=server_roles.count(Role.MANAGEMENT),
        aggregation_nodes=sum(int(np.count_nonzero(fabric.kind == Kind.AGGREGATION)) for fabric in fabrics),
        host_ports=sum(len(fabric.ends()) for fabric in fabrics),
        links=sum(len(fabric.links) - int(np.count_nonzero(fabric.is_internal)) for fabric in fabrics),
    )


def slowed_adapters(fabrics: Sequence[Fabric], catalog: Catalog) -> tuple[str, ...]:
    """Return which adapters a switch's ports do not let reach their own rate, in words: split ports halve it.

    Examples
    --------
    >>> import topo
    >>> cluster = topo.preset("hdr-on-ndr")
    >>> topo.slowed_adapters(cluster.fabrics, cluster.catalog)
    ()
    """
    found: Counter[tuple[str, str, float, float]] = Counter()
    for fabric in fabrics:
        for port in fabric.port_of(fabric.ends()).tolist():
            model = fabric.model_of(int(fabric.port_node[port]))
            rate = float(min(fabric.rate_gbps[port], fabric.rate_gbps[fabric.peer[port]]))
            if model in catalog.hcas and rate < catalog.hcas[model].speed.gbps:
                found[fabric.name, model, rate, catalog.hcas[model].speed.gbps] += 1
    return tuple(
        f"{number:,} x {model} in {network} at {rate:g} of {whole:g} Gb/s"
        for (network, model, rate, whole), number in found.items()
    )


def _servers(fabrics: list[Fabric]) -> tuple[list[int], list[str]]:
    """Return role and model of each server that has an adapter; the model of one that is unknown is empty."""
    servers: dict[str, tuple[int, str]] = {}
    for fabric in fabrics:
        adapters = np.flatnonzero((fabric.kind == Kind.HCA) & (fabric.host >= 0))
        role = np.full(len(fabric.hosts), len(Role))
        np.minimum.at(role, fabric.host[adapters], fabric.role[adapters])
        for host in np.flatnonzero(role < len(Role)).tolist():
            model = int(fabric.host_model[host])
            found = (int(role[host]), fabric.models[model] if model >= 0 else "")
            other = servers.setdefault(fabric.hosts[host], found)
            servers[fabric.hosts[host]] = (min(found[0], other[0]), max(found[1], other[1]))
    return [role for role, _ in servers.values()], [model for _, model in servers.values()]
