"""NCCL's collectives of GPUs, as its tuner takes them (`nccl_collective`), and message by message.

Messages go straight from GPU to GPU, and between servers from GPU to adapter to adapter to GPU, so that host memory has
no part in it. There is a ring, and a pair of trees, for each rail that works: it enters a server through the rail's
adapter at the GPU next to it, goes around all GPUs, and leaves through the same adapter (`simulate.traffic.node` says
how). Every GPU sends and receives ``2 (n - 1) / n`` of its buffer around rings of n GPUs; the paper on Fire-Flyer AI-
HPC (An et al., SC'24, arXiv 2408.14158, section IV-B1) writes ``(2 n - 1) / n``.

`nccl_collective` puts the bytes of every edge of a ring or tree on the network at once, behind the latency that the
tuner counts: what a pipeline of small chunks does once it is full. `nccl_ring` and `nccl_tree` play each message of an
allreduce after those that it waits for, with the latencies of `simulate.traffic.latency`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.collectives.sharp import aggregation_tree
from simulate.traffic.collectives.steps import ring_allreduce
from simulate.traffic.collectives.trees import Tree, double_binary_tree, tree_allreduce
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.node import Servers
from simulate.traffic.tuner import NVLS_EFFICIENCY, TREE_EFFICIENCY, Choice, Tuned, Tuner
from topo.budget import FLOWS
from topo.errors import HeddleError
from topo.fabric import frozen

CHUNK_BYTES = 2.0**19
"""What NCCL moves at a time: a buffer of 4 MiB (default of ``NCCL_BUFFSIZE``) in 8 steps (``NCCL_STEPS``)."""


class TunedCollective(NamedTuple):
    """A collective as NCCL's tuner takes it."""

    choice: Choice
    """With the time on an idle network, in closed form."""
    flows: Flows
    """Between the devices of the servers."""


def nccl_collective(
    servers: Servers,
    collective: Tuned,
    size_bytes: float,
    algorithm: str = "auto",
    *,
    sharp: bool = False,
    every_switch: bool = False,
    pxn: bool = True,
) -> TunedCollective:
    """Return a collective of all GPUs by the algorithm and protocol that NCCL's tuner takes, or by one algorithm.

    Each edge of the algorithm is one flow, of the bytes that pass there. All begin after the time that no bytes explain
    (`Choice.waiting_s`), and so end at the time of the closed form on an idle network, and later beside other traffic.
    NVSwitches that add up are an edge from each GPU to the next, with what a GPU sends and receives.

    Parameters
    ----------
    collective
        ``"allreduce"``, ``"all-gather"``, ``"reduce-scatter"``, ``"broadcast"`` from the first GPU, or
        ``"all-to-all"``.
    size_bytes
        The largest buffer of a GPU.
    algorithm
        ``"auto"``, ``"ring"``, ``"tree"``, ``"nvls"``, ``"nvls-tree"`` or ``"collnet"``.
    sharp, every_switch
        Whether switches of the network add up: those with an aggregation node, or every one.
    pxn
        As of `nccl_all_to_all`.

    Raises
    ------
    HeddleError
        When the servers cannot do it so, or NCCL's tables have no figures for their GPUs.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("dgx-h100-48")
    >>> fabric = cluster.fabrics[0]
    >>> ends = [*simulate.traffic.rails_of_hosts(fabric).values()][:2]
    >>> servers = simulate.traffic.Servers(cluster.catalog.node("dgx-h100"), fabric, ends)
    >>> found = simulate.traffic.nccl_collective(servers, "allreduce", 8e9)
    >>> found.choice.algorithm, len(found.flows)
    ('nvls-tree', 48)
    """
    tuner = Tuner.of(servers, sharp=sharp)
    choice = tuner.choose(collective, size_bytes, algorithm)
    size = choice.moved_bytes
    match choice.algorithm:
        case "p2p":
            flows = nccl_all_to_all(servers, size, pxn=pxn)
        case "ring":
            flows = _ring_edges(servers, collective, size)
        case "tree":
            flows = _tree_edges(servers, nccl_trees(len(servers), servers.gpus), size, of_servers=False)
        case "collnet":
            # Each GPU gives the others their parts, and gets the parts of the sum.
            inner = _within(servers, size * 2 * (servers.gpus - 1) / servers.gpus)
            flows = concatenate([inner, _sharp_edges(servers, size, every_switch=every_switch)])
        case _:
            n = servers.gpus
            through = size / NVLS_EFFICIENCY[tuner.generation] / (TREE_EFFICIENCY if choice.algorithm != "nvls" else 1)
            parts = [_within(servers, through * (1 + 1 / n) if collective == "allreduce" else through)]
            if choice.algorithm == "nvls-tree":
                parts.append(_tree_edges(servers, double_binary_tree(len(servers)), size, of_servers=True))
            elif len(servers) > 1:
                parts.append(_sharp_edges(servers, size, every_switch=every_switch))
            flows = concatenate(parts)
    return TunedCollective(choice, flows.waiting_first(choice.waiting_s))


def _ring_edges(servers: Servers, collective: Tuned, size_bytes: float) -> Flows:
    """A flow from every GPU to the next one in the ring of each rail; a broadcast does not come back to its root."""
    rails = servers.working_rails.tolist()
    n = len(servers) * servers.gpus
    times = {"allreduce": 2 * (n - 1) / n, "broadcast": 1.0}.get(collective, (n - 1) / n)
    parts = []
    for rail in rails:
        order = servers.ranks_from(rail)
        order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))
        to = np.roll(order, -1)
        edges = slice(0, n - 1 if collective == "broadcast" else n)
        parts.append(Flows.of(*servers.between(order[edges], to[edges], rail), times * size_bytes / len(rails)))
    return concatenate(parts)


def _tree_edges(servers: Servers, trees: tuple[Tree, Tree], size_bytes: float, *, of_servers: bool) -> Flows:
    """A flow up and a flow down each edge of both trees on each rail, of GPUs or of the servers' GPUs at the rail."""
    rails = servers.working_rails.tolist()
    parts = []
    for rail in rails:
        order = servers.ranks_from(rail)
        order = order[:: servers.gpus] if of_servers else order
        for tree in trees:
            src, dst = _up_and_down(tree, order)
            parts.append(Flows.of(*servers.between(src, dst, rail), size_bytes / (2 * len(rails))))
    return concatenate(parts)


def _up_and_down(tree: Tree, places: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return where each edge of a tree over some places begins and ends, up and then down."""
    child = np.flatnonzero(tree >= 0)
    below, above = places[child], places[tree[child]]
    return np.concatenate([below, above]), np.concatenate([above, below])


def _within(servers: Servers, size_bytes: float) -> Flows:
    """What each GPU sends to NVSwitches and gets from them: a flow to the next GPU of its server."""
    rank = np.arange(len(servers) * servers.gpus)
    to: NDArray[np.int64] = rank // servers.gpus * servers.gpus + (rank + 1) % servers.gpus
    return Flows.of(*servers.between(rank, to), size_bytes)


def _sharp_edges(servers: Servers, size_bytes: float, *, every_switch: bool) -> Flows:
    """A flow up and a flow down each edge of the aggregation tree of each rail."""
    rails = servers.working_rails.tolist()
    parts = []
    for rail in rails:
        tree, ends = aggregation_tree(servers.fabric, servers.ends[:, rail], every_switch=every_switch)
        heads = servers.ranks_from(rail)[:: servers.gpus]
        places = np.concatenate([servers.gpu_at_adapter[:, :, rail].ravel()[heads], ends[len(servers) :]])
        src, dst = _up_and_down(tree, places)
        parts.append(Flows.of(src, dst, size_bytes / len(rails)))
    return concatenate(parts)


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
    return servers.between_gpus(Flows.of(src[moves], dst[moves], part_bytes, tag=step[moves], after=after), pxn=pxn)


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
