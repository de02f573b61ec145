"""NCCL's collectives of GPUs, as its tuner takes them.

Messages go straight from GPU to GPU, and between servers from GPU to adapter to adapter to GPU, so that host memory has
no part in it. There is a ring, and a pair of trees, for each rail that works: it enters a server through the rail's
adapter at the GPU next to it, goes around all GPUs, and leaves through the same adapter (`simulate.traffic.node` says
how). Every GPU sends and receives ``2 (n - 1) / n`` of its buffer around rings of n GPUs; the paper on Fire-Flyer AI-
HPC (An et al., SC'24, arXiv 2408.14158, section IV-B1) writes ``(2 n - 1) / n``.

The bytes of every edge of a ring or tree are on the network at once, behind the latency that the tuner counts: what a
pipeline of small chunks does once it is full.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.trees import Tree, aggregation_tree
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.node import Servers
from simulate.traffic.tuner import NVLS_EFFICIENCY, TREE_EFFICIENCY, Choice, Tuned, Tuner
from topo.budget import FLOWS
from topo.errors import HeddleError
from topo.graphs import double_binary_tree


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
    groups: ArrayLike | None = None,
    sharp: bool = False,
    every_switch: bool = False,
    pxn: bool = True,
) -> TunedCollective:
    """Return a collective of GPUs by the algorithm and protocol that NCCL's tuner takes, or by one algorithm.

    Each edge of the algorithm is one flow, of the bytes that pass there. All begin after the time that no bytes explain
    (`Choice.waiting_s`), and so end at the time of the closed form on an idle network, and later beside other traffic.
    NVSwitches that add up are an edge from each GPU to the next, with what a GPU sends and receives.

    Parameters
    ----------
    collective
        A broadcast is from the first GPU.
    size_bytes
        The largest buffer of a GPU.
    algorithm
        ``"auto"``, ``"ring"``, ``"tree"``, ``"nvls"``, ``"nvls-tree"`` or ``"collnet"``.
    groups : (K, N), optional
        Ranks of K communicators that do the collective at once, each among its N GPUs; all GPUs together when left out.
        GPU g of server s is rank ``s G + g``.
    sharp, every_switch
        Whether switches of the network add up: those with an aggregation node, or every one.
    pxn
        Whether what an all-to-all sends leaves its server on the rail of its receiver, so that it never crosses rails
        in the network; else through the adapter next to its sender, as with ``NCCL_PXN_DISABLE=1``.

    Raises
    ------
    HeddleError
        When the servers cannot do it so, a group has other numbers of GPUs on some servers than on others, the messages
        are too many, or NCCL's tables have no figures for their GPUs.

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

    Among the GPUs of each server:

    >>> found = simulate.traffic.nccl_collective(servers, "allreduce", 8e9, groups=[range(8), range(8, 16)])
    >>> found.choice.algorithm, len(found.flows)
    ('nvls', 16)
    """
    on = _Communicators.of(servers, groups)
    tuner = replace(
        Tuner.of(servers, sharp=sharp), servers=on.ranks.shape[1], gpus=on.ranks.shape[2], rails=on.rails.shape[1]
    )
    choice = tuner.choose(collective, size_bytes, algorithm)
    size = choice.moved_bytes
    match choice.algorithm:
        case "p2p":
            flows = on.all_to_all(size, pxn=pxn)
        case "ring":
            flows = on.rings(collective, size)
        case "tree":
            flows = on.trees(nccl_trees(tuner.servers, tuner.gpus), on.orders(), size)
        case "collnet":
            # Each GPU gives the others their parts, and gets the parts of the sum.
            inner = on.within(size * 2 * (tuner.gpus - 1) / tuner.gpus)
            flows = concatenate([inner, on.sharp_trees(size, every_switch=every_switch)])
        case _:
            n = tuner.gpus
            through = size / NVLS_EFFICIENCY[tuner.generation] / (TREE_EFFICIENCY if choice.algorithm != "nvls" else 1)
            parts = [on.within(through * (1 + 1 / n) if collective == "allreduce" else through)]
            if choice.algorithm == "nvls-tree":
                parts.append(on.trees(double_binary_tree(tuner.servers), on.orders()[..., :: tuner.gpus], size))
            elif tuner.servers > 1:
                parts.append(on.sharp_trees(size, every_switch=every_switch))
            flows = concatenate(parts)
    return TunedCollective(choice, flows.waiting_first(choice.waiting_s))


def nccl_send(servers: Servers, src: ArrayLike, dst: ArrayLike, size_bytes: float) -> Flows:
    """Return a message from each rank in `src` to that in `dst`, as ``ncclSend`` does, behind the latency of a step."""
    ranks = [np.asarray(side) for side in (src, dst)]
    inside = bool((ranks[0] // servers.gpus == ranks[1] // servers.gpus).all())
    pair = replace(Tuner.of(servers), servers=1 if inside else 2, gpus=2 if inside else 1, rails=1)
    choice = pair.choose("all-to-all", 2 * size_bytes)  # of which half goes to the other
    return servers.between_gpus(Flows.of(ranks[0], ranks[1], choice.moved_bytes / 2)).waiting_first(choice.waiting_s)


@dataclass(frozen=True)
class _Communicators:
    """K groups of GPUs that do the same at once: g GPUs on each of m servers, over R rails."""

    servers: Servers
    ranks: NDArray[np.int64]
    """(K, m, g)."""
    rails: NDArray[np.int64]
    """(K, R) all that work for whole servers, else those next to the GPUs."""

    @classmethod
    def of(cls, servers: Servers, groups: ArrayLike | None) -> _Communicators:
        gpus = servers.gpus
        every = np.arange(len(servers) * gpus)
        rows = np.sort(np.atleast_2d(every if groups is None else np.asarray(groups, np.int64)), axis=1)
        if not rows.size or rows[0, 0] < 0 or rows.max() >= len(every):
            raise HeddleError(f"found groups of {rows.size} ranks; expected ranks from 0 to {len(every) - 1}")
        each = int(np.count_nonzero(rows[0] // gpus == rows[0, 0] // gpus))
        ranks = rows.reshape(len(rows), -1, each) if rows.shape[1] % each == 0 else rows[:, None]
        at = ranks // gpus
        if (at != at[..., :1]).any() or (np.diff(at[..., 0], axis=1) <= 0).any():
            raise HeddleError(
                f"found a group with {each} GPUs on its first server, and another number elsewhere; expected as many "
                "on each server, as NCCL's tuner has them"
            )
        if each == gpus:
            return cls(servers, ranks, np.tile(servers.working_rails, (len(rows), 1)))
        near = [np.unique(row) for row in servers.rail_of_gpu[ranks[:, 0] % gpus]]
        fewest = min(map(len, near))
        return cls(servers, ranks, np.array([row[:fewest] for row in near]))

    def orders(self) -> NDArray[np.int64]:
        """(R, K, n) the ranks of each group by server, in each around from the GPU next to a rail's adapter."""
        gpus, each = self.servers.gpus, self.ranks.shape[2]
        first = self.servers.gpu_of(self.rails.T)[..., None, None]
        turn = ((self.ranks % gpus - first) % gpus).argmin(axis=-1)[..., None] + np.arange(each)
        around = np.take_along_axis(np.broadcast_to(self.ranks, turn.shape), turn % each, axis=-1)
        return around.reshape(*around.shape[:2], -1)

    def flows(self, src: NDArray[np.int64], dst: NDArray[np.int64], size_bytes: float) -> Flows:
        """Return flows of (R, K, ...) ranks over their rails."""
        rail = np.broadcast_to(self.rails.T.reshape(*self.rails.T.shape, *[1] * (src.ndim - 2)), src.shape)
        return Flows.of(*self.servers.between(src.ravel(), dst.ravel(), rail.ravel()), size_bytes / len(src))

    def rings(self, collective: Tuned, size_bytes: float) -> Flows:
        """A flow from every GPU to the next in the ring of each rail; a broadcast does not come back to its root."""
        order = self.orders()
        n = order.shape[-1]
        root = (order == self.ranks[:, 0, :1]).argmax(axis=-1)[..., None]
        order = np.take_along_axis(order, (root + np.arange(n)) % n, axis=-1)
        edges = slice(0, n - 1 if collective == "broadcast" else n)
        times = {"allreduce": 2 * (n - 1) / n, "broadcast": 1.0}.get(collective, (n - 1) / n)
        return self.flows(order[..., edges], np.roll(order, -1, axis=-1)[..., edges], times * size_bytes)

    def trees(self, trees: Iterable[Tree], places: NDArray[np.int64], size_bytes: float) -> Flows:
        """A flow up and a flow down each edge of both trees of each rail, over the (R, K, n) ranks at its places."""
        ends = [_up_and_down(tree, places) for tree in trees]
        src, dst = (np.concatenate(side, axis=-1) for side in zip(*ends, strict=True))
        return self.flows(src, dst, size_bytes / 2)

    def within(self, size_bytes: float) -> Flows:
        """What each GPU sends to NVSwitches and gets from them: a flow to the next GPU of its server."""
        to = np.roll(self.ranks, -1, axis=-1)
        return Flows.of(*self.servers.between(self.ranks.ravel(), to.ravel()), size_bytes)

    def sharp_trees(self, size_bytes: float, *, every_switch: bool) -> Flows:
        """A flow up and a flow down each edge of the aggregation tree of each rail."""
        on, parts = self.servers, []
        for order, rail in zip(self.orders().reshape(-1, self.ranks[0].size), self.rails.T.ravel(), strict=True):
            heads = order[:: self.ranks.shape[2]]
            tree, ends = aggregation_tree(on.fabric, on.ends[heads // on.gpus, rail], every_switch=every_switch)
            places = np.concatenate([on.gpu_at_adapter[:, :, rail].ravel()[heads], ends[len(heads) :]])
            parts.append(Flows.of(*_up_and_down(tree, places), size_bytes / self.rails.shape[1]))
        return concatenate(parts)

    def all_to_all(self, size_bytes: float, *, pxn: bool) -> Flows:
        """A flow from every GPU to every other of its group, of its part of the buffer.

        A GPU sends to all GPUs of the server d further on before it sends to those of the server behind that, as NCCL
        arranges what it sends and receives (``src/enqueue.cc``); what stays in the server goes beside it.
        """
        k, m, g = self.ranks.shape
        if k * (m * g) ** 2 > FLOWS.limit:
            raise HeddleError(f"the all-to-all has {k * (m * g) ** 2:,} messages; expected {FLOWS}: fewer GPUs")
        group, step, server, sender, receiver = np.indices((k, m, m, g, g))
        src, dst = self.ranks[group, server, sender], self.ranks[group, (server + step) % m, receiver]
        moves = src != dst
        number = np.cumsum(moves).reshape(src.shape) - 1
        after = (number[:, 2:].ravel(), number[:, 1:-1].ravel())  # steps 0 and 1 begin at once
        flows = Flows.of(src[moves], dst[moves], size_bytes / (m * g), tag=step[moves], after=after)
        return self.servers.between_gpus(flows, pxn=pxn)


def _up_and_down(tree: Tree, places: NDArray[np.integer]) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return where each edge of a tree over some places begins and ends, up and then down; places are the last axis."""
    child = np.flatnonzero(tree >= 0)
    below, above = places[..., child], places[..., tree[child]]
    return np.concatenate([below, above], axis=-1), np.concatenate([above, below], axis=-1)


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
