"""Parameter servers: the other way to share parameters, where some hosts hold them and all others ask.

Flat: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014. Hierarchical: Zhao et al.,
"Distributed hierarchical GPU parameter server for massive scale deep learning ads systems", MLSys 2020, arXiv
2003.05622: parameters live on the SSDs of all servers, those of a batch in host memory, those in use on GPUs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.flows import Flows
from simulate.traffic.operation_graph import OperationGraph
from topo.errors import HeddleError


def flat_parameter_servers(
    workers: ArrayLike, servers: ArrayLike, size_bytes: float, *, compute_s: float = 0.0, update_s: float = 0.0
) -> Flows:
    """Return a synchronous step: all workers push gradients to the servers that hold a part each, and pull it updated.

    Parameters
    ----------
    workers, servers
        Ranks; a rank may be both.
    size_bytes
        All parameters, of which each server holds as much as any other.
    compute_s
        Before a worker pushes.
    update_s
        What a server takes when it has all gradients.
    """
    worker, server = _ranks(workers, "workers"), _ranks(servers, "servers")
    if not (np.isfinite(size_bytes) and size_bytes >= 0):
        raise HeddleError(f"found {size_bytes} bytes of parameters; expected 0 or more")
    graph = OperationGraph()
    computed = graph.compute(int(worker[0]), compute_s)
    part = size_bytes / len(server)
    for rank in server.tolist():
        pushed = graph.add(Flows.of(worker, np.full(len(worker), rank), part), [computed])
        updated = graph.compute(rank, update_s, [pushed])
        graph.add(Flows.of(np.full(len(worker), rank), worker, part), [updated])
    return graph.flows()


def hierarchical_parameter_servers(
    ranks: ArrayLike,
    size_bytes: float,
    *,
    cached: float = 0.0,
    cold: float = 0.0,
    ssd_bytes_s: float = np.inf,
    compute_s: float = 0.0,
) -> Flows:
    """Return a step where every host is a worker and a server.

    Each pulls the parameters of its batch from the hosts that own them, computes, and pushes their updates back. What
    is `cached` on its own GPUs does not move; the `cold` part of what a host sends is first read from its SSDs, and
    written back at the end.

    Parameters
    ----------
    size_bytes
        Parameters of each host's batch, owned by all hosts alike.
    cached, cold
        Parts of them, from 0 to 1.
    ssd_bytes_s
        Of all SSDs of a host.
    """
    rank = _ranks(ranks, "hosts")
    for name, value in (("cached", cached), ("cold", cold)):
        if not 0 <= value <= 1:
            raise HeddleError(f"found a {name} part of {value}; expected 0 to 1")
    if not (ssd_bytes_s > 0 and np.isfinite(size_bytes) and size_bytes >= 0):
        raise HeddleError(
            f"found {size_bytes} bytes and SSDs of {ssd_bytes_s} bytes/s; expected 0 or more, and above 0"
        )
    n = len(rank)
    part = size_bytes * (1 - cached) / n
    ssd_s = part * n * cold / ssd_bytes_s
    graph = OperationGraph()
    read = [graph.compute(one, ssd_s) for one in rank.tolist()]
    hosts = rank.tolist()

    def exchange(at: int, after: int) -> int:
        others = np.roll(rank, -at)[1:]
        return graph.add(Flows.of(np.full(n - 1, rank[at]), others, part), [after])

    pulls = [exchange(at, after) for at, after in enumerate(read)]
    computed = graph.compute(hosts[0], compute_s, pulls)
    pushes = [exchange(at, computed) for at in range(n)]
    for one in hosts:
        graph.compute(one, ssd_s, pushes)
    return graph.flows()


def _ranks(ranks: ArrayLike, what: str) -> NDArray[np.int64]:
    found = np.asarray(ranks, np.int64).ravel()
    if not len(found):
        raise HeddleError(f"found no {what} of parameters; expected at least one")
    return found
