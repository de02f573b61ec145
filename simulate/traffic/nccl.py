"""NCCL's allreduce on servers whose GPUs reach one adapter over PCIe: its ring and its double binary tree.

Messages go straight from GPU to GPU, and between servers from GPU to adapter to adapter to GPU, so that host memory has
no part in it. Every GPU sends and receives ``2 (n - 1) / n`` of its buffer around a ring of n GPUs; the paper on
Fire-Flyer AI-HPC (An et al., SC'24, arXiv 2408.14158, section IV-B1) writes ``(2 n - 1) / n``.
"""

from __future__ import annotations

from math import ceil

import numpy as np

from simulate.traffic.collectives.algorithms import MAX_MESSAGES
from simulate.traffic.collectives.steps import ring_allreduce
from simulate.traffic.collectives.trees import Tree, double_binary_tree, tree_allreduce
from simulate.traffic.flows import Flows
from simulate.traffic.node import Servers
from topo.errors import HeddleError

CHUNK_BYTES = 2.0**19
"""What NCCL moves at a time: a buffer of 4 MiB (default of ``NCCL_BUFFSIZE``) in 8 steps (``NCCL_STEPS``)."""


def nccl_ring(servers: Servers, size_bytes: float, chunk_bytes: float = CHUNK_BYTES) -> Flows:
    """Return the flows of an allreduce of all GPUs around one ring, server after server.

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
    >>> servers = simulate.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(simulate.nccl_ring(servers, 2**23))
    480
    """
    n_ranks = len(servers) * servers.gpus
    pieces = _pieces(size_bytes / n_ranks, chunk_bytes)
    _check(2 * (n_ranks - 1) * n_ranks * pieces)
    return servers.flows(ring_allreduce(n_ranks, pieces), size_bytes)


def nccl_tree(servers: Servers, size_bytes: float, chunk_bytes: float = CHUNK_BYTES) -> Flows:
    """Return the flows of an allreduce of all GPUs over `nccl_trees`.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> servers = simulate.Servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts)
    >>> len(simulate.nccl_tree(servers, 2**23))
    480
    """
    trees = nccl_trees(len(servers), servers.gpus)
    pieces = _pieces(size_bytes / len(trees), chunk_bytes)
    _check(2 * (len(trees[0]) - 1) * len(trees) * pieces)
    return servers.flows(tree_allreduce(trees, pieces), size_bytes)


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


def _pieces(block_bytes: float, chunk_bytes: float) -> int:
    if not (block_bytes > 0 and chunk_bytes > 0):
        raise HeddleError(f"found blocks of {block_bytes} bytes in chunks of {chunk_bytes}; expected both above 0")
    return ceil(block_bytes / chunk_bytes)


def _check(messages: int) -> None:
    """Refuse what would not fit into memory."""
    if messages > MAX_MESSAGES:
        raise HeddleError(
            f"the allreduce has {messages:,} messages; expected at most {MAX_MESSAGES:,}: take larger chunks, or "
            f"fewer servers"
        )
