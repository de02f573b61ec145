"""The same fabric under other labels: names, GUIDs, port numbers, order of nodes, hosts, models, lines of a dump.

What is true of a fabric, and what a routing of it is worth, depends on none of them.
"""

from dataclasses import dataclass, replace

import numpy as np

from topo.fabric import Fabric

GUIDS = 0x02C0_FFEE_0000_0000
"""Where made GUIDs begin: locally administered, so no vendor's."""


@dataclass(frozen=True)
class Relabelled:
    """A fabric, and the old id of each of its nodes, ports, end ports and hosts."""

    fabric: Fabric
    node: np.ndarray
    port: np.ndarray
    end: np.ndarray
    host: np.ndarray


def relabelled(fabric: Fabric, rng: np.random.Generator, *, ports: bool = True, same_ranks: bool = False) -> Relabelled:
    """Shuffle all that a fabric numbers; switches stay before adapters, and ports in place where they are to.

    Jobs number hosts leaf by leaf and there by port, which stays as it is where they are to have the ``same_ranks``.
    """
    n = fabric.n_switches
    node = np.concatenate([rng.permutation(n), n + rng.permutation(fabric.n_nodes - n)]).astype(np.int64)
    if same_ranks:
        leaf = np.isin(node[:n], fabric.end_switch[fabric.ends()])
        node[:n][leaf] = np.sort(node[:n][leaf])
    offset = fabric.port_offset
    groups = [np.arange(offset[old], offset[old + 1]) for old in node]
    port = np.concatenate([np.zeros(0, np.int64), *(rng.permutation(group) if ports else group for group in groups)])
    if same_ranks:
        hung = np.flatnonzero((fabric.port_node[port] < n) & (fabric.peer_node[port] >= n))
        port[hung] = port[hung[np.lexsort((port[hung], inverse(node)[fabric.port_node[port[hung]]]))]]
    host = rng.permutation(len(fabric.hosts))
    model = rng.permutation(len(fabric.models))
    new_port, new_host, new_model = (inverse(order) for order in (port, host, model))
    first = fabric.first_adapter_port
    end = np.concatenate([node[:n], n + port[first:] - first])  # as many ports of switches as before
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
        discovered_lid=fabric.discovered_lid[end] if len(fabric.discovered_lid) else fabric.discovered_lid,
    )
    return Relabelled(mixed, node, port, end, host)


def inverse(order: np.ndarray) -> np.ndarray:
    """New place of each old one; the last entry, which -1 reads, stays -1."""
    place = np.full(len(order) + 1, -1, np.int32)
    place[order] = np.arange(len(order))
    return place


def renamed(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """Names and GUIDs that say nothing; adapters of one server keep one host name."""
    node = rng.permutation(fabric.n_nodes).tolist()
    host = rng.permutation(max(len(fabric.hosts), 1)).tolist()
    names = tuple(
        f"h{host[server]} dev{number}" if server >= 0 else f"x{number}"
        for number, server in zip(node, fabric.host.tolist(), strict=True)
    )
    hosts = tuple(f"h{number}" for number in host[: len(fabric.hosts)])
    return with_guids(replace(fabric, names=names, hosts=hosts), rng)


def with_guids(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    """Made GUIDs in random order; each port of an adapter keeps its distance to its node's GUID where it is small."""
    step = 256
    guid = (GUIDS + step * (1 + rng.permutation(fabric.n_nodes))).astype(np.uint64)
    distance = fabric.port_guid - fabric.node_guid[fabric.port_node]  # wraps around where it is negative: large
    distance = np.where(distance < step, distance, fabric.port_number.astype(np.uint64))
    distance[: fabric.first_adapter_port] = 0
    return replace(fabric, node_guid=guid, port_guid=guid[fabric.port_node] + distance)


def shuffled_lines(dump: str, rng: np.random.Generator) -> str:
    """A dump of ibnetdiscover with its records, and the ports of each, in random order."""
    head, *records = dump.strip("\n").split("\n\n")
    mixed = [head]
    for index in rng.permutation(len(records)):
        lines = records[index].split("\n")
        ports = [line for line in lines if line.startswith("[")]
        mixed.append("\n".join(lines[: -len(ports) or None] + [ports[i] for i in rng.permutation(len(ports))]))
    return "\n\n".join(mixed) + "\n"
