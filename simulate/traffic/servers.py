"""Servers as the nodes of jobs: the end ports of each, and how its bytes are spread over them.

A server may have adapters on several subnets, such as eight rails for its GPUs and two ports for storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.flows import Flows
from topo.errors import HeddleError
from topo.fabric import Fabric, frozen

Ports = dict[int, list[int]]
"""End ports of a server by subnet."""


def parts_of_ends(fabric: Fabric) -> NDArray[np.int32]:
    """Return (E,) the subnet or plane of each end port: what links connect, by number; any for one without a cable."""
    return frozen(fabric.switch_part[fabric.end_switch])


@dataclass(frozen=True, eq=False)
class ComputeServers:
    """The compute servers of a fabric; each is named by its first end port in `rails`.

    Servers send one another equal shares on all rails that both have. On a subnet where one has fewer ports than
    another, its ports take turns, so that rail r is port r modulo their number.
    """

    fabric: Fabric
    rails: NDArray[np.int32]
    """(n, R) end ports for what jobs send; -1 on a subnet where the server has none."""
    to_storage: NDArray[np.int32]
    """(n, Q) end ports for reads and writes; Q is 0 if no subnet has a port of every compute and storage server."""
    stores: tuple[Ports, ...]
    """End ports of each storage server."""
    subnet: NDArray[np.int32]
    """(E,) subnet of each end port: what links connect."""

    @classmethod
    def of(cls, fabric: Fabric) -> ComputeServers:
        """Return the compute servers of a fabric, in the order of their ports.

        What jobs send leaves the subnets of storage alone if all compute servers have ports on others.
        """
        subnet = parts_of_ends(fabric)
        nodes, stores = (
            [{part: [end for end in ends if subnet[end] == part] for part in subnet[ends].tolist()} for ends in found]
            for found in (server_ports(fabric, "compute"), server_ports(fabric, "storage"))
        )
        if not nodes:
            raise HeddleError(f"{fabric.name} has no compute nodes")
        parts = sorted({part for ports in nodes for part in ports})
        of_storage = {part for ports in stores for part in ports}
        apart = [part for part in parts if part not in of_storage]
        if not all(any(part in ports for part in apart) for ports in nodes):
            apart = parts
        shared = [part for part in of_storage if all(part in ports for ports in (*nodes, *stores))]
        rails = _columns(nodes, apart)
        return cls(fabric, rails, _columns(nodes, sorted(shared)), tuple(stores), subnet)

    @property
    def ends(self) -> NDArray[np.int32]:
        """(n,) the end port that names each server."""
        first = np.argmax(self.rails >= 0, axis=1)
        return frozen(self.rails[np.arange(len(first)), first])

    def numbers(self, ends: ArrayLike) -> NDArray[np.intp]:
        """Return the rows of servers that are named by these end ports."""
        number = np.full(self.fabric.n_end_ports, -1, np.intp)
        number[self.ends] = np.arange(len(self.rails))
        found: NDArray[np.intp] = number[np.asarray(ends)]
        return found

    def spread(self, flows: Flows) -> Flows:
        """Return the flows over rails of flows between servers: ends and bytes, which are the same in all.

        Raises
        ------
        HeddleError
            When two servers have no subnet in common.
        """
        a, b = (self.rails[self.numbers(ends)] for ends in (flows.src, flows.dst))
        both = (a >= 0) & (b >= 0)
        count = np.count_nonzero(both, axis=1)
        if (count == 0).any():
            at = int(np.argmin(count))
            names = [self.fabric.server_of(int(self.fabric.end_node[ends[at]])) for ends in (flows.src, flows.dst)]
            raise HeddleError(
                f"{' and '.join(names)} have no subnet in common; name the subnet of their jobs with --subnet"
            )
        return Flows.of(a[both], b[both], np.repeat(flows.size_bytes / count, count))


def server_ports(fabric: Fabric, role: str) -> list[list[int]]:
    """Return the plugged end ports of each server of a role; an adapter of no known host is a server of its own.

    >>> import topo
    >>> len(server_ports(topo.preset("lab-20").fabric, "storage"))
    2
    """
    servers: dict[int, list[int]] = {}
    ends = fabric.ends(role=role)
    for end, node in zip(ends.tolist(), fabric.end_node[ends].tolist(), strict=True):
        host = int(fabric.host[node])
        servers.setdefault(host if host >= 0 else -1 - node, []).append(end)
    return list(servers.values())


def _columns(servers: Sequence[Ports], parts: Sequence[int]) -> NDArray[np.int32]:
    """Return (n, columns) ports: on each subnet as many columns as its best connected server has ports."""
    rows: list[list[int]] = [[] for _ in servers]
    for part in parts:
        width = max(len(ports.get(part, ())) for ports in servers)
        for row, ports in zip(rows, servers, strict=True):
            own = ports.get(part, [-1])
            row += [own[column % len(own)] for column in range(width)]
    return frozen(np.array(rows, np.int32).reshape(len(servers), -1))
