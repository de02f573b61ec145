"""NCCL's collectives of GPUs: allreduces by its rings and double binary trees, and its all-to-all.

Messages go straight from GPU to GPU, and between servers from GPU to adapter to adapter to GPU, so that host memory has
no part in it. There is a ring, and a pair of trees, for each rail that works: it enters a server through the rail's
adapter at the GPU next to it, goes around all GPUs, and leaves through the same adapter (`simulate.traffic.node` says
how). Every GPU sends and receives ``2 (n - 1) / n`` of its buffer around rings of n GPUs; the paper on Fire-Flyer AI-
HPC (An et al., SC'24, arXiv 2408.14158, section IV-B1) writes ``(2 n - 1) / n``.

NVLink SHARP, where NVSwitches add up what GPUs send (from H100 on), is not modelled; NCCL takes it by default for
allreduces within NVLink, where the ring here is what ``NCCL_ALGO=Ring`` asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

import numpy as np

from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.steps import ring_allreduce
from simulate.traffic.collectives.trees import Tree, double_binary_tree, tree_allreduce
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.node import Servers
from topo.budget import FLOWS
from topo.errors import HeddleError
from topo.fabric import frozen

CHUNK_BYTES = 2.0**19
"""What NCCL moves at a time: a buffer of 4 MiB (default of ``NCCL_BUFFSIZE``) in 8 steps (``NCCL_STEPS``)."""


def nccl_ring(servers: Servers, size_bytes: float, chunk_bytes: float = CHUNK_BYTES) -> Flows:
    """Return the flows of an allreduce of all GPUs around a ring for each rail, server after server.

    Parameters
    ----------
    size_bytes
        Buffer of each GPU.
    chunk_bytes
        The most that a message carries.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.traffic.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(simulate.traffic.nccl_ring(servers, 2**23))
    480
    """
    n_ranks = len(servers) * servers.gpus

    def ring(pieces: int) -> Schedule:
        # Steps over NVLink and between servers differ: a GPU sends on while its last message is under way.
        plan = ring_allreduce(n_ranks, pieces)
        return replace(plan, queued=frozen(np.ones(len(plan), bool)))

    return _on_each_rail(servers, size_bytes, chunk_bytes, n_ranks, ring)


def nccl_tree(servers: Servers, size_bytes: float, chunk_bytes: float = CHUNK_BYTES) -> Flows:
    """Return the flows of an allreduce of all GPUs over `nccl_trees`, a pair of them for each rail.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.traffic.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(simulate.traffic.nccl_tree(servers, 2**23))
    480
    """
    trees = nccl_trees(len(servers), servers.gpus)
    return _on_each_rail(servers, size_bytes, chunk_bytes, len(trees), lambda pieces: tree_allreduce(trees, pieces))


def nccl_all_to_all(servers: Servers, size_bytes: float, *, pxn: bool = True) -> Flows:
    """Return the flows of an all-to-all of all GPUs: each sends a different part of its buffer to every other.

    A GPU sends to all GPUs of the server d further on before it sends to those of the server behind that, as NCCL
    arranges what it sends and receives (``src/enqueue.cc``); what stays in the server goes beside it.

    Parameters
    ----------
    size_bytes
        Buffer of each GPU.
    pxn
        Whether what leaves a server leaves on the rail of its receiver, so that it never crosses rails in the network;
        else through the adapter next to its sender, as with ``NCCL_PXN_DISABLE=1``.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.traffic.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(simulate.traffic.nccl_all_to_all(servers, 2**23))
    240
    """
    n_servers, gpus = len(servers), servers.gpus
    _check((n_servers * gpus) ** 2)
    part_bytes = _positive(size_bytes) / (n_servers * gpus)
    step, server, sender, receiver = np.indices((n_servers, n_servers, gpus, gpus))
    src, dst = server * gpus + sender, (server + step) % n_servers * gpus + receiver
    number = np.cumsum(src != dst).reshape(src.shape) - 1
    after = (number[2:].ravel(), number[1:-1].ravel())  # steps 0 and 1 begin at once
    moves = src != dst
    ends = servers.between(src[moves], dst[moves], pxn=pxn)
    return Flows.of(*ends, part_bytes, tag=step[moves], after=after)


def nccl_trees(n_servers: int, gpus: int) -> tuple[Tree, Tree]:
    """Return NCCL's trees over GPUs: a double binary tree over the servers, a chain of the GPUs below each.

    The first GPU of each server talks to the other servers. NCCL ``src/graph/connect.cc``.
    """
    trees = []
    for above in double_binary_tree(n_servers):
        parent = np.arange(n_servers * gpus).reshape(n_servers, gpus) - 1
        parent[:, 0] = np.where(above < 0, -1, above * gpus)
        trees.append(parent.ravel().astype(np.int32))
    return trees[0], trees[1]


def _on_each_rail(
    servers: Servers, size_bytes: float, chunk_bytes: float, blocks: int, allreduce: Callable[[int], Schedule]
) -> Flows:
    """Return an allreduce on each rail that works, of an equal share of the buffer, whose blocks travel in pieces."""
    rails = servers.working_rails.tolist()
    share = size_bytes / len(rails)
    pieces = ceil(_positive(share / blocks) / _positive(chunk_bytes))
    _check(2 * (len(servers) * servers.gpus - 1) * blocks * pieces * len(rails))
    plan = allreduce(pieces)
    return concatenate([servers.flows(plan, share, servers.ranks_from(rail), rail) for rail in rails])


def _positive(size_bytes: float) -> float:
    if not 0 < size_bytes < np.inf:
        raise HeddleError(f"found {size_bytes} bytes in a buffer or chunk; expected a number above 0")
    return size_bytes


def _check(messages: int) -> None:
    """Refuse what would not fit into memory."""
    if messages > FLOWS.limit:
        raise HeddleError(
            f"the collective has {messages:,} messages; expected {FLOWS}: take larger chunks, or fewer servers"
        )
