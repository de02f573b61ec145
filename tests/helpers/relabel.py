"""The same fabric under other numbers: nodes, the ports of each node, hosts and models in another order."""

from dataclasses import dataclass, replace

import numpy as np

from topo.fabric import Fabric


@dataclass(frozen=True)
class Relabelled:
    """A fabric, and the old id of each of its nodes, ports, end ports and hosts."""

    fabric: Fabric
    node: np.ndarray
    port: np.ndarray
    end: np.ndarray
    host: np.ndarray


def relabelled(fabric: Fabric, rng: np.random.Generator) -> Relabelled:
    """Shuffle all that a fabric numbers; switches stay before adapters."""
    n = fabric.n_switches
    node = np.concatenate([rng.permutation(n), n + rng.permutation(fabric.n_nodes - n)]).astype(np.int64)
    offset = fabric.port_offset
    port = np.concatenate(
        [np.zeros(0, np.int64), *(rng.permutation(np.arange(offset[old], offset[old + 1])) for old in node)]
    )
    host = rng.permutation(len(fabric.hosts))
    model = rng.permutation(len(fabric.models))
    new_port, new_host, new_model = (inverse(order) for order in (port, host, model))
    mixed = replace(
        fabric,
        kind=fabric.kind[node],
        role=fabric.role[node],
        level=fabric.level[node],
        zone=fabric.zone[node],
        model=new_model[fabric.model[node]],
        models=tuple(fabric.models[old] for old in model),
        node_guid=fabric.node_guid[node],
        names=tuple(fabric.names[old] for old in node),
        host=new_host[fabric.host[node]],
        hosts=tuple(fabric.hosts[old] for old in host),
        host_model=new_model[fabric.host_model[host]],
        port_offset=np.concatenate([[0], np.cumsum(np.diff(offset)[node])]).astype(np.int32),
        peer=new_port[fabric.peer[port]],
        width=fabric.width[port],
        speed=fabric.speed[port],
        port_guid=fabric.port_guid[port],
    )
    first = fabric.first_adapter_port
    end = np.concatenate([node[:n], n + port[mixed.first_adapter_port :] - first])
    return Relabelled(mixed, node, port, end, host)


def inverse(order: np.ndarray) -> np.ndarray:
    """New place of each old one; the last entry, which -1 reads, stays -1."""
    place = np.full(len(order) + 1, -1, np.int32)
    place[order] = np.arange(len(order))
    return place
