"""Flows of Chakra traces: computations become delays, collectives the messages of an algorithm of choice."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.algorithms import ALGORITHMS, schedule
from simulate.traffic.collectives.schedule import last_of_each_rank
from simulate.traffic.flows import EAGER_BYTES, Flows, find_cycle, grouped_dependencies
from simulate.traffic.graph import concatenate
from topo.budget import FLOWS
from topo.errors import FormatError, HeddleError, plural
from topo.graphs import rows_of

COMM_TYPES = {
    0: "allreduce", 1: "reduce", 2: "all-gather", 5: "broadcast", 6: "all-to-all", 7: "reduce-scatter",
    8: "reduce-scatter", 9: "barrier",
}  # fmt: skip
"""Collectives by ``CollectiveCommType``. Gather (3) and scatter (4) are not supported."""


class NodeType(IntEnum):
    """Types of nodes. Those that are not listed (memory, storage, metadata) count as computation."""

    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


ATTRIBUTES = frozenset(
    {"comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name", "is_cpu_op", "num_ops", "tensor_size"}
)
"""Attributes of nodes that flows depend on; profiles of PyTorch have ``pg_size``, too. The many others are not kept."""

SUM_PASSES = 3
"""Memory accesses for each byte of a sum: two reads and a write, as ASTRA-sim counts them (``PacketBundle``)."""


@dataclass(frozen=True, slots=True)
class ChakraNode:
    """One node of a trace."""

    id: int
    name: str
    type: int
    """`NodeType`, or another number."""
    deps: tuple[int, ...]
    """Ids of the nodes that it depends on."""
    duration_us: float
    attributes: dict[str, int | float | bool | str]
    """Those of `ATTRIBUTES` that the node has."""


@dataclass(frozen=True)
class Roofline:
    """Speed of a rank, for nodes that have operations and no duration."""

    flops: float | None = None
    """Operations a second; None where it is unknown."""
    memory_bytes_s: float = np.inf
    """Bytes a second of its memory; a sum needs `SUM_PASSES` for each of its bytes."""

    def time_s(self, operations: float, size_bytes: float) -> float:
        """Return max(operations / flops, size_bytes / memory_bytes_s), as ASTRA-sim does.

        Williams, Waterman and Patterson, "Roofline: an insightful visual performance model for multicore
        architectures", 2009.
        """
        assert self.flops is not None
        return max(operations / self.flops, size_bytes / self.memory_bytes_s)


def flows_of_chakra(
    traces: Sequence[Sequence[ChakraNode]],
    algorithms: Mapping[str, str] | None = None,
    path: str = "",
    *,
    roofline: Roofline = Roofline(),
    eager_bytes: float = EAGER_BYTES,
    port_bytes_s: float = np.inf,
) -> Flows:
    """Return the traffic of all ranks of a run, as flows between ranks.

    - *Computation* takes its duration; without one, the time of its operations by the roofline (``num_ops`` on
      ``tensor_size`` bytes), and then the nodes of a rank run one at a time. A node of the host that launches traffic
      (``is_cpu_op``) is computation: the traffic has a node of its own.
    - A *send* and a *receive* match by source, destination and tag, in order. A message of more than `eager_bytes`
      waits for both.
    - The k-th *collective* of a process group (``pg_name``; without one, of all ranks) at one member is the k-th at
      every other. It begins at each rank when the node of that rank may begin; a message of more than `eager_bytes`
      also waits for the node of its receiver. The collectives of a group run one at a time. The algorithm is the one
      that `algorithms` names, else the first of `simulate.traffic.collectives.ALGORITHMS`.
    - ``comm_size`` is the input of a rank: its own part for an all-gather, the whole buffer for others. The schema does
      not define it. PyTorch's converter writes it (``pytorch_node.py``: the sizes of the inputs) and ASTRA-sim reads it
      (``Ring.cc``) in this way.

    Flows of collectives have their step as tag, others 0. The rate of a rank's port, `port_bytes_s`, decides the order
    of nodes that share a unit. `path` is the common beginning of the names of the files, for messages.

    Raises
    ------
    FormatError
        Naming file, rank and node: when a dependency is missing or circular, a message has no other side, members of a
        group disagree, a collective is unknown, or a node has operations and the operations a second are unknown.
    """
    builder = _Builder(traces, algorithms or {}, path, roofline, eager_bytes, port_bytes_s)
    for rank, trace in enumerate(traces):
        for node in trace:
            builder.add(rank, node)
    builder.join_messages()
    builder.join_collectives()
    builder.join_dependencies()
    builder.take_turns()
    return builder.finish()


class _Joined(NamedTuple):
    """A collective that joins ranks."""

    group: int
    gates: NDArray[np.int64]
    ends: NDArray[np.int64]
    """Flows that begin and end its nodes, in the order of the ranks."""
    taken_s: float
    """Time of the rank that receives and adds most, alone on its port."""


@dataclass(eq=False)
class _Builder:
    """Flows so far. The *gate* of a node is the flow that waits for its dependencies, its *end* that which ends it."""

    traces: Sequence[Sequence[ChakraNode]]
    algorithms: Mapping[str, str]
    path: str
    roofline: Roofline
    eager_bytes: float
    port_bytes_s: float

    def __post_init__(self) -> None:
        self.src: list[int] = []
        self.dst: list[int] = []
        self.size: list[float] = []
        self.delay: list[float] = []
        self.node: list[tuple[int, int]] = []  # rank and node of each flow, for error messages
        self.waits: list[tuple[int, int]] = []
        self.gate: list[dict[int, int]] = [{} for _ in self.traces]
        self.end: list[dict[int, int]] = [{} for _ in self.traces]
        self.sends: dict[tuple[int, int, int], deque[tuple[int, int]]] = {}
        self.recvs: list[tuple[tuple[int, int, int], int, int]] = []
        self.groups: dict[str, dict[int, list[ChakraNode]]] = {}
        self.expanded: list[Flows] = []  # messages of collectives, numbered behind all other flows
        self.n_expanded = 0
        self.computing: set[int] = set()  # flows whose time is that of the roofline
        self.joined: list[_Joined] = []

    def add(self, rank: int, node: ChakraNode) -> None:
        traffic = node.attributes.get("is_cpu_op") is not True
        moves = traffic and node.type in (NodeType.COMM_SEND, NodeType.COMM_RECV, NodeType.COMM_COLL)
        flow = self.flow(rank, rank, 0, 0.0 if moves else self.duration_s(rank, node), rank, node.id)
        if not moves and not node.duration_us and self.delay[flow]:
            self.computing.add(flow)
        self.gate[rank][node.id] = self.end[rank][node.id] = flow
        if not moves:
            return
        tag = self.whole(rank, node, "comm_tag", 2**32, 0)
        if node.type == NodeType.COMM_SEND:
            to = self.whole(rank, node, "comm_dst", len(self.traces) - 1)
            message = self.flow(rank, to, self.whole(rank, node, "comm_size", 2**53), 0.0, rank, node.id)
            self.waits.append((message, flow))
            if self.size[message] > self.eager_bytes:
                self.end[rank][node.id] = message
            self.sends.setdefault((rank, to, tag), deque()).append((message, node.id))
        elif node.type == NodeType.COMM_RECV:
            source = self.whole(rank, node, "comm_src", len(self.traces) - 1)
            self.recvs.append(((source, rank, tag), flow, node.id))
        else:
            self.end[rank][node.id] = self.flow(rank, rank, 0, 0.0, rank, node.id)
            name = str(node.attributes.get("pg_name", ""))
            self.groups.setdefault(name, {}).setdefault(rank, []).append(node)

    def flow(self, src: int, dst: int, size: float, delay: float, rank: int, node: int) -> int:
        self.src.append(src)
        self.dst.append(dst)
        self.size.append(size)
        self.delay.append(delay)
        self.node.append((rank, node))
        return len(self.src) - 1

    def duration_s(self, rank: int, node: ChakraNode) -> float:
        operations = self.whole(rank, node, "num_ops", 2**63, 0)
        if node.duration_us or not operations:
            return node.duration_us * 1e-6
        if self.roofline.flops is None:
            found = f"{operations:,} operations and no duration"
            raise self.refusal(rank, node.id, found, "`flops` of the job: how many a second a rank does")
        return self.roofline.time_s(operations, self.whole(rank, node, "tensor_size", 2**63, 0))

    def join_messages(self) -> None:
        """Let each receive wait for its message, and large messages for their receive."""
        for key, flow, node in self.recvs:
            queue = self.sends.get(key)
            if not queue:
                raise self.refusal(key[1], node, f"a receive from rank {key[0]} with tag {key[2]}", "a send for it")
            message = queue.popleft()[0]
            if self.size[message] > self.eager_bytes:
                self.waits.append((message, flow))
                self.end[key[1]][node] = message
            else:
                self.waits.append((flow, message))
        for (rank, to, tag), queue in self.sends.items():
            if queue:
                raise self.refusal(rank, queue[0][1], f"a send to rank {to} with tag {tag}", "a receive for it")

    def join_collectives(self) -> None:
        """Expand every collective of every group between the gates and ends of its nodes."""
        for number, (name, members) in enumerate(self.groups.items()):
            ranks = sorted(members) if name else list(range(len(self.traces)))
            counts = {rank: len(members.get(rank, [])) for rank in ranks}
            for turn in range(max(counts.values())):
                missing = [rank for rank in ranks if counts[rank] <= turn]
                present = next(rank for rank in ranks if counts[rank] > turn)
                first = members[present][turn]
                group = f"process group {name}" if name else "the group of all ranks"
                if missing:
                    expected = f"as many at rank {missing[0]}, which has {counts[missing[0]]}"
                    raise self.refusal(present, first.id, f"collective {turn + 1} of {group}", expected)
                nodes = [members[rank][turn] for rank in ranks]
                if len(ranks) != (size := first.attributes.get("pg_size") or len(ranks)):
                    expected = f"a trace of each; it is in {plural(len(ranks), 'trace')}"
                    raise self.refusal(present, first.id, f"a process group of {size} ranks", expected)
                for key in ("comm_type", "comm_size"):
                    for rank, node in zip(ranks, nodes, strict=True):
                        value, other = node.attributes.get(key, 0), first.attributes.get(key, 0)
                        if value != other:
                            expected = f"{other}, as at rank {present} (node {first.id})"
                            raise self.refusal(rank, node.id, f"{key} {value} in {group}", expected)
                self.expand(number, ranks, nodes)

    def expand(self, group: int, ranks: list[int], nodes: list[ChakraNode]) -> None:
        kind = self.whole(ranks[0], nodes[0], "comm_type", 2**31, 0)
        collective = COMM_TYPES.get(kind)
        if collective is None:
            raise self.refusal(ranks[0], nodes[0].id, f"comm_type {kind}", f"one of {', '.join(map(str, COMM_TYPES))}")
        gates = np.array([self.gate[rank][node.id] for rank, node in zip(ranks, nodes, strict=True)])
        ends = np.array([self.end[rank][node.id] for rank, node in zip(ranks, nodes, strict=True)])
        self.waits += zip(ends.tolist(), gates.tolist(), strict=True)
        if collective == "barrier":
            plan, size = schedule("allreduce", "halving-doubling", len(ranks)), 0
        else:
            algorithm = self.algorithms.get(collective) or next(iter(ALGORITHMS[collective]))
            size = self.whole(ranks[0], nodes[0], "comm_size", 2**53)
            size *= len(ranks) if collective == "all-gather" else 1
            try:
                plan = schedule(collective, algorithm, len(ranks))
            except HeddleError as error:
                found = f"{collective} by {algorithm} of {plural(len(ranks), 'rank')}"
                raise self.refusal(ranks[0], nodes[0].id, found, f"what the algorithm can take: {error}") from None
        added = SUM_PASSES * plan.reduce * plan.count * (size / plan.n_blocks / self.roofline.memory_bytes_s)
        brought = plan.dst[plan.awaited] == plan.src[plan.waiter]
        summed_s = np.bincount(plan.waiter, added[plan.awaited] * brought, minlength=len(plan)).astype(np.float64)
        number = len(self.src) + self.n_expanded + np.arange(len(plan))
        self.n_expanded += len(plan)
        if self.n_expanded + len(self.src) > FLOWS.limit:
            raise self.refusal(ranks[0], nodes[0].id, f"more than {FLOWS.limit:,} flows", str(FLOWS))
        messages = plan.flows(size, self.eager_bytes)
        taken = np.bincount(plan.dst, added + messages.size_bytes / self.port_bytes_s, minlength=1)
        self.joined.append(_Joined(group, gates, ends, float(taken.max())))
        # The first messages that a rank sends wait for its gate, with all that are queued behind them. Large ones that
        # wait for no other also wait for that of their receiver. The node ends when the last messages to the rank have
        # arrived and its last large ones have been sent; a small one is in a buffer as soon as the messages that it
        # waits for have arrived.
        large = messages.size_bytes > self.eager_bytes
        waiter = messages.waiter
        repeated = waiter[plan.src[waiter] == plan.src[messages.dep]]
        first = np.setdiff1d(np.arange(len(plan)), repeated)
        opening = np.setdiff1d(np.flatnonzero(large), waiter)
        self.waits += zip(number[first].tolist(), gates[plan.src[first]].tolist(), strict=True)
        self.waits += zip(number[opening].tolist(), gates[plan.dst[opening]].tolist(), strict=True)
        message, rank = last_of_each_rank(plan)
        goes = (plan.src[message] == rank) & ~large[message]
        count, before = rows_of(np.searchsorted(plan.waiter, np.arange(len(plan) + 1)), message[goes])
        message = np.concatenate([message[~goes], plan.awaited[before]])
        rank = np.concatenate([rank[~goes], np.repeat(rank[goes], count)])
        comes = plan.dst[message] == rank
        self.waits += zip(ends[rank].tolist(), number[message].tolist(), strict=True)
        for end, time_s in zip(ends[rank].tolist(), added[message] * comes, strict=True):
            self.delay[end] = max(self.delay[end], float(time_s))
        self.expanded.append(replace(messages, delay_s=summed_s).placed(ranks))

    def join_dependencies(self) -> None:
        for rank, trace in enumerate(self.traces):
            gate, end = self.gate[rank], self.end[rank]
            for node in trace:
                for dep in node.deps:
                    if dep not in end:
                        raise self.refusal(rank, node.id, f"a dependency on node {dep}", "a node of this rank")
                    self.waits.append((gate[node.id], end[dep]))

    def take_turns(self) -> None:
        """Let computations of a rank, and collectives of a group, run one at a time: first those that may begin first.

        Computations are those with the time of the roofline; of several that may begin, the one with the least id is
        first. The order is taken from one event simulation of all nodes of all ranks in which each message has a port
        of its own. So the dependencies that it adds close no cycle.
        """
        n, n_ranks = len(self.src), len(self.traces)
        turn = {at: (self.src[at], self.node[at][1]) for at in self.computing}
        turn |= {n + at: (n_ranks + one.group, at) for at, one in enumerate(self.joined)}
        waiting: dict[int, list[tuple[int, int]]] = {unit: [] for unit, _ in turn.values()}
        if len(waiting) == len(turn):
            return
        pairs = np.array(self.waits, np.int64).reshape(-1, 2)
        hub = np.repeat(n + np.arange(len(self.joined)), [len(one.gates) for one in self.joined])
        gates, ends = (
            np.concatenate([np.zeros(0, np.int64), *column])
            for column in ([one.gates for one in self.joined], [one.ends for one in self.joined])
        )
        edges = np.concatenate([pairs[(pairs < n).all(axis=1)], np.stack([hub, gates], 1), np.stack([ends, hub], 1)])
        n_all = n + len(self.joined)
        offset, waiters = (column.tolist() for column in grouped_dependencies(n_all, edges[:, 1], edges[:, 0]))
        left = np.bincount(edges[:, 0], minlength=n_all).tolist()
        own_s = np.array(self.delay) + np.array(self.size) / self.port_bytes_s
        taken = own_s.tolist() + [one.taken_s for one in self.joined]
        running: dict[int, bool] = {}
        last: dict[int, int] = {}
        events = [(0.0, False, at) for at in range(n_all) if not left[at]]  # when, whether it is over, what
        while events:
            now, units = events[0][0], set[int]()
            while events and events[0][0] == now:
                _, over, at = heappop(events)
                if at in turn:
                    unit, first = turn[at]
                    units.add(unit)
                    if not over:
                        heappush(waiting[unit], (first, at))
                        continue
                    running[unit] = False
                elif taken[at] and not over:
                    heappush(events, (now + taken[at], True, at))
                    continue
                for waiter in waiters[offset[at] : offset[at + 1]]:
                    left[waiter] -= 1
                    if not left[waiter]:
                        heappush(events, (now, False, waiter))
            for unit in sorted(units):
                if waiting[unit] and not running.get(unit):
                    at = heappop(waiting[unit])[1]
                    if unit in last and at < n:
                        self.waits.append((at, last[unit]))
                    elif unit in last:
                        before, after = self.joined[last[unit] - n].ends, self.joined[at - n].gates
                        self.waits += zip(after.tolist(), before.tolist(), strict=True)
                    running[unit], last[unit] = True, at
                    heappush(events, (now + taken[at], True, at))

    def finish(self) -> Flows:
        asks = np.array(self.size) > self.eager_bytes
        own = Flows.of(self.src, self.dst, self.size, delay_s=self.delay, rendezvous=asks)
        every = concatenate([own, *self.expanded])
        waits = np.array(self.waits, np.int64).reshape(-1, 2)
        self.refuse_circle(np.concatenate([waits, np.stack([every.waiter, every.dep], axis=1)]))
        return every.waiting(*waits.T)

    def refuse_circle(self, pairs: NDArray[np.int64]) -> None:
        circle = find_cycle(*grouped_dependencies(len(self.src) + self.n_expanded, pairs[:, 0], pairs[:, 1]))
        named = list(dict.fromkeys(self.node[flow] for flow in circle.tolist() if flow < len(self.src)))
        if named:
            shown = " waits for ".join(f"node {node} of rank {rank}" for rank, node in [*named[:5], named[0]])
            at, node_at = named[0]
            large = max(self.size) > self.eager_bytes
            expected = f"an order{', or a larger `eager` if messages wait in buffers of receivers' * large}"
            raise self.refusal(at, node_at, f"nodes that wait for each other in a circle: {shown}", expected)

    def whole(self, rank: int, node: ChakraNode, key: str, high: int, default: int | None = None) -> int:
        """Return an attribute that is a whole number from 0 to a bound."""
        value = node.attributes.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= high:
            found = f"no {key}" if value is None else f"{key} {str(value)[:40]}"
            raise self.refusal(rank, node.id, found, f"{key} from 0 to {high:,}")
        return value

    def refusal(self, rank: int, node: int, found: str, expected: str) -> FormatError:
        where = f"{self.path}.{rank}" if self.path else ""
        return FormatError(f"rank {rank}, node {node}: found {found}; expected {expected}", where)
