"""What a network could carry at best, whatever its routing: the maximum flow from some servers to others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from topo.fabric import Fabric, Kind, Role
from topo.flow import max_flow_gbps

JOBS = 32


def flow_gbps(fabric: Fabric, sources: NDArray[np.bool_], sinks: NDArray[np.bool_]) -> float:
    """Largest total rate from source adapters to sink adapters.

    Parameters
    ----------
    sources, sinks : (N,) bool
        Nodes that send and receive at the rate of their ports.
    """
    rate = fabric.rate_gbps[fabric.links].min(axis=1)
    links = fabric.port_node[fabric.links]
    out = np.bincount(links.ravel(), np.repeat(rate, 2), fabric.n_nodes).astype(np.float64)
    return max_flow_gbps(links, rate, out * sources, out * sinks)


def bisection(fabrics: Sequence[Fabric], job: int | None = None, *, with_storage: bool = False) -> float:
    """Share of their full rate at which the first half of a job can send to its second half, all at once.

    Compute nodes are divided into jobs of ``job`` nodes in the order of the spec, in which they hang side by side; the
    worst of the jobs counts (of many, `JOBS` that are spread evenly). A job of one node has 1.

    Parameters
    ----------
    fabrics : sequence of Fabric
        All subnets of the cluster.
    job : int, optional
        Nodes of a job; all compute nodes when left out.
    with_storage : bool
        Whether the storage adapters in the zones of the job send and receive too, half of them with each half.

    Examples
    --------
    >>> import costmodel, topo
    >>> cluster = topo.preset("fire-flyer-2")
    >>> costmodel.bisection(cluster.fabrics, 600), round(costmodel.bisection(cluster.fabrics), 4)
    (1.0, 0.0333)
    """
    hosts = _hosts(fabrics, Role.COMPUTE)
    storage = _hosts(fabrics, Role.STORAGE) if with_storage else []
    job = min(job or len(hosts), len(hosts))
    if job < 2:
        return 1.0
    starts = np.arange(0, len(hosts) - job + 1, job)
    chosen = starts[np.unique(np.linspace(0, len(starts) - 1, min(len(starts), JOBS)).astype(int))]
    return min(_halves(fabrics, hosts[start : start + job], storage) for start in chosen.tolist())


def _halves(fabrics: Sequence[Fabric], hosts: Sequence[str], storage: Sequence[str]) -> float:
    carried = sent = 0.0
    for fabric in fabrics:
        zones = np.unique(fabric.zone[_adapters(fabric, set(hosts))])
        here = np.isin(fabric.zone, zones)
        reached = {fabric.hosts[host] for host in fabric.host[here & (fabric.role == Role.STORAGE)].tolist()}
        beside = [name for name in storage if name in reached]
        first = set(hosts[: len(hosts) // 2]) | set(beside[: len(beside) // 2])
        second = set(hosts[(len(hosts) + 1) // 2 :]) | set(beside[(len(beside) + 1) // 2 :])
        senders = _adapters(fabric, first) & here
        carried += flow_gbps(fabric, senders, _adapters(fabric, second) & here)
        sent += _injection(fabric, senders)
    return carried / sent if sent else 1.0


def storage_gbps(fabrics: Sequence[Fabric]) -> float:
    """Largest total rate at which all compute nodes together can read from all storage nodes, in Gb/s.

    Examples
    --------
    >>> import costmodel, topo
    >>> costmodel.storage_gbps(topo.preset("fire-flyer-2").fabrics) / 8_000  # TB/s
    9.0
    """
    storage, compute = set(_hosts(fabrics, Role.STORAGE)), set(_hosts(fabrics, Role.COMPUTE))
    return sum(flow_gbps(fabric, _adapters(fabric, storage), _adapters(fabric, compute)) for fabric in fabrics)


def _hosts(fabrics: Sequence[Fabric], role: Role) -> list[str]:
    """Names of the servers of a role, in order."""
    named = (fabric.hosts[fabric.host[node]] for fabric in fabrics for node in np.flatnonzero(fabric.role == role))
    return sorted(dict.fromkeys(named))


def _adapters(fabric: Fabric, hosts: set[str]) -> NDArray[np.bool_]:
    """(N,) bool: adapters of the servers."""
    wanted = np.array([host in hosts for host in fabric.hosts] + [False], bool)
    return np.asarray(wanted[fabric.host] & (fabric.kind == Kind.HCA))


def _injection(fabric: Fabric, nodes: NDArray[np.bool_]) -> float:
    """Rate of all plugged ports of some nodes, in Gb/s."""
    return float(fabric.rate_gbps[nodes[fabric.port_node] & (fabric.peer >= 0)].sum())
