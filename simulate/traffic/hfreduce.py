"""HFReduce: allreduce of GPUs over host memory, as the paper on Fire-Flyer AI-HPC describes it.

An et al., SC'24, arXiv 2408.14158, section IV. Gradients are cut into chunks, and each chunk passes through

1. the copy from every GPU to host memory (Algorithm 1); of bridged GPUs one adds up what all have, and copies the sum;
2. the sum of these copies by the processor;
3. the reduction up one of two binary trees over the servers, and the broadcast down it, by RDMA writes between host
   memories (Algorithm 2); chunks take the two trees in turn. Where the servers stand in several zones, both trees have
   a part in each, and one pair of servers joins two parts (section IV-B), so that a chunk crosses once each way;
4. the copy to every GPU, where bridged GPUs get a part each and gather the rest from one another.

Every stage takes its chunks in order, and works on one while others work on those before and behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.collectives.trees import Tree, tree_allreduce, zone_trees
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.node import Servers
from simulate.traffic.placement import zone_of
from topo.budget import FLOWS
from topo.catalog.models import NodeModel
from topo.errors import HeddleError, plural
from topo.fabric import Fabric

CHUNK_BYTES = 2.0**19
"""What NCCL moves at a time: a buffer of 4 MiB (default of ``NCCL_BUFFSIZE``) in 8 steps (``NCCL_STEPS``)."""


class Stage(IntEnum):
    """What a flow of HFReduce does; the tag of the flow."""

    ADD_BRIDGED = 0
    """Over NVLink: GPUs send their gradients to the one of them that adds them up and copies the sum."""
    COPY_IN = 1
    """From GPUs to host memory."""
    SUM = 2
    """By the processor, of what the GPUs of a server have copied in."""
    UP = 3
    """From a server to the one above it in the tree, which adds it to its own."""
    DOWN = 4
    """The sum, from a server to those below it."""
    COPY_OUT = 5
    """From host memory to GPUs."""
    GATHER_BRIDGED = 6
    """Over NVLink: each GPU sends the others its part of the sum."""


class MemoryOperations(NamedTuple):
    """Reads and writes of host memory for each byte that a flow moves, as section IV-D3 counts them."""

    copy_in: float
    """A write."""
    sum: float
    """A read of every copy, and a write."""
    send: float
    """A read."""
    receive: float
    """A write."""
    receive_and_add: float
    """A write and a read: the sum stays where the processor has its own share at hand."""
    copy_out: float
    """A read. With GDRCopy one for all GPUs of a socket: they are written from the processor's cache (section IV-A)."""


@dataclass(frozen=True)
class HFReduce:
    """How HFReduce is set up.

    Examples
    --------
    >>> import topo, simulate
    >>> cluster = topo.preset("lab-20")
    >>> hosts = cluster.fabric.ends(role="compute")[:2]
    >>> reduce = simulate.traffic.HFReduce()
    >>> len(reduce.flows(reduce.servers(cluster.catalog.node("pcie-a100"), cluster.fabric, hosts), 2**23))
    576
    """

    nvlink: bool = False
    """Whether GPUs bridged by NVLink add up their gradients first (section IV-C)."""
    gdrcopy: bool = True
    """Whether copies to GPUs read host memory once a socket, not once a GPU."""
    chunk_bytes: float = CHUNK_BYTES
    """The most that is moved at a time. The paper publishes none; this is NCCL's, whose trees HFReduce takes."""

    def operations(self, model: NodeModel) -> MemoryOperations:
        """Return the memory operations per byte on servers of a model.

        Raises
        ------
        HeddleError
            When the model has no GPU or several adapters, or the catalog does not know its sockets.
        """
        if model.gpus < 1:
            raise HeddleError(f"{model.name} has no GPU; HFReduce sums what GPUs have")
        if model.adapters > 1:
            raise HeddleError(f"{model.name} has {model.adapters} adapters; HFReduce is known on servers with one")
        if model.sockets is None:
            raise HeddleError(f"The catalog has no sockets of {model.name}; copies with GDRCopy are counted by socket")
        bridged = (model.nvlink_gpus or 1) if self.nvlink else 1
        copies = model.gpus / bridged
        return MemoryOperations(1, copies + 1, 1, 1, 2, model.sockets / copies if self.gdrcopy else 1)

    def servers(self, model: NodeModel, fabric: Fabric, ends: ArrayLike) -> Servers:
        """Return the servers whose adapters are the end ports given, with all that HFReduce needs of them."""
        return Servers(model, fabric, np.asarray(ends), self.operations(model), self.nvlink)

    def flows(self, servers: Servers, size_bytes: float, trees: Sequence[Tree] | None = None) -> Flows:
        """Return the flows of one allreduce of all GPUs of the servers, among the devices of the servers.

        Trees over the servers share the chunks: those of `zone_trees` when left out, a double binary tree in each zone.

        Raises
        ------
        HeddleError
            When there is nothing to reduce, the chunks are too many, or the servers are set up for something else.
        """
        if not (0 < size_bytes < np.inf and self.chunk_bytes > 0):
            raise HeddleError(f"found {size_bytes} bytes in chunks of {self.chunk_bytes}; expected both above 0")
        operations = self.operations(servers.model)
        if servers.nvlink != self.nvlink or not {*operations} <= {*servers.operations}:
            raise HeddleError("found servers that were made for something else; expected those of `HFReduce.servers`")
        trees = zone_trees(zone_of(servers.fabric, servers.ends[:, 0])) if trees is None else trees
        in_turn = ceil(size_bytes / self.chunk_bytes / len(trees))
        most = in_turn * len(trees) * len(servers) * (2 * servers.gpus * servers.bridged + 3)
        if most > FLOWS.limit:
            raise HeddleError(
                f"{size_bytes:.3g} bytes in chunks of {self.chunk_bytes:.3g} on {plural(len(servers), 'server')} are "
                f"some {most:,} flows; expected {FLOWS}: take larger chunks"
            )
        return _Schedule(operations, servers, size_bytes, trees, in_turn).flows()


@dataclass(eq=False)
class _Schedule:
    """The flows as they are put together. Arrays of their numbers have the axes chunk, server, GPU, bridged GPU."""

    operations: MemoryOperations
    servers: Servers
    size_bytes: float
    trees: Sequence[Tree]
    in_turn: int
    """Chunks that each tree takes."""

    def __post_init__(self) -> None:
        self.chunks = len(self.trees) * self.in_turn
        self.chunk_bytes = self.size_bytes / self.chunks
        self.parts: list[Flows] = []
        self.n_flows = 0
        self.waits: list[NDArray[np.int64]] = []

    def flows(self) -> Flows:
        copy_in = self.copies_in()
        copy_out = self.copies_out()
        sums = self.sums(copy_in)
        self.trees_between(sums, copy_out)
        return concatenate(self.parts).waiting(*np.concatenate(self.waits, axis=1)).queued()

    def copies_in(self) -> NDArray[np.int64]:
        """Add the copies to host memory, one from each group of bridged GPUs; return (C, H, groups)."""
        servers = self.servers
        memory = servers.memory(self.operations.copy_in)[:, None]
        copier = servers.copiers
        copies = self.add(Stage.COPY_IN, servers.gpu_over_host[:, copier], memory, self.chunk_bytes)
        if servers.bridged > 1:
            bridge = servers.gpu_over_nvlink
            given = self.add(
                Stage.ADD_BRIDGED, bridge[:, self.peers()[copier]], bridge[:, copier, None], self.chunk_bytes
            )
            self.wait(copies[:, :, :, None], given)
        return copies

    def sums(self, copies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Add the sums within each server; return (C, H)."""
        memory = self.servers.memory(self.operations.sum)
        sums = self.add(Stage.SUM, memory, self.servers.processor, self.chunk_bytes)
        self.wait(sums[:, :, None], copies)
        return sums

    def copies_out(self) -> NDArray[np.int64]:
        """Add the copies to the GPUs; return (C, H, G)."""
        servers, share = self.servers, self.chunk_bytes / self.servers.bridged
        memory = servers.memory(self.operations.copy_out)[:, None]
        copies = self.add(Stage.COPY_OUT, memory, servers.gpu_over_host, share, turns=len(self.trees))
        if servers.bridged > 1:
            bridge = servers.gpu_over_nvlink
            parts = self.add(Stage.GATHER_BRIDGED, bridge[:, :, None], bridge[:, self.peers()], share, len(self.trees))
            self.wait(parts, copies[:, :, :, None])
        return copies

    def trees_between(self, sums: NDArray[np.int64], copy_out: NDArray[np.int64]) -> None:
        """Add the messages between servers: what they wait for, and the copies that wait for them."""
        plan = tree_allreduce(self.trees, self.in_turn)
        tree, turn = np.divmod(plan.block, np.int32(self.in_turn))
        chunk = turn * len(self.trees) + tree
        parent = np.stack(self.trees)
        memory, operations = self.servers.memory, self.operations
        adds = np.where(plan.reduce, memory(operations.receive_and_add)[plan.dst], memory(operations.receive)[plan.dst])
        stage = np.where(plan.reduce, Stage.UP, Stage.DOWN)
        message = self.n_flows + np.arange(len(plan))
        self.append(Flows.of(memory(operations.send)[plan.src], adds, self.chunk_bytes, tag=stage))
        self.wait(message[plan.waiter], message[plan.awaited])
        # A server sends up its own share too, and the root turns what is complete with its own.
        own = plan.reduce | (parent[tree, plan.src] < 0)
        self.wait(message[own], sums[chunk[own], plan.src[own]])
        # The sum is there with the message from above; at the root, with the last from below and its own.
        done = ~plan.reduce | (parent[tree, plan.dst] < 0)
        self.wait(copy_out[chunk[done], plan.dst[done]], message[done, None])
        for number, root in enumerate(parent.argmin(axis=1)):
            self.wait(copy_out[number :: len(self.trees), root], sums[number :: len(self.trees), root, None])

    def peers(self) -> NDArray[np.int64]:
        """(G, bridged - 1) the GPUs that each one is bridged to."""
        size = self.servers.bridged
        gpu, step = np.arange(self.servers.gpus)[:, None], np.arange(1, size)
        return gpu // size * size + (gpu + step) % size

    def add(self, stage: Stage, src: ArrayLike, dst: ArrayLike, size_bytes: float, turns: int = 1) -> NDArray[np.int64]:
        """Add a flow for every chunk from each source to each target; return their numbers, chunks first.

        Each waits for the one `turns` chunks before it.
        """
        source, target = np.broadcast_arrays(src, dst)
        shape = (self.chunks, *source.shape)
        numbers = self.n_flows + np.arange(self.chunks * source.size).reshape(shape)
        every = [np.broadcast_to(side, shape).ravel() for side in (source, target)]
        self.append(Flows.of(every[0], every[1], size_bytes, tag=stage))
        self.wait(numbers[turns:], numbers[:-turns])
        return numbers

    def append(self, flows: Flows) -> None:
        self.parts.append(flows)
        self.n_flows += len(flows)

    def wait(self, waiter: NDArray[np.int64], awaited: NDArray[np.int64]) -> None:
        """Let flows wait for others, arrays that broadcast against each other."""
        self.waits.append(np.stack([side.ravel() for side in np.broadcast_arrays(waiter, awaited)]))
