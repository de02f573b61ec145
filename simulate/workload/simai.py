"""SimAI's workloads: the layers of a training step with tensor, expert and data parallel ranks, and flows of them.

Wang et al., "SimAI: unifying architecture design and performance tuning for large-scale large language model training
with scalability and precision", NSDI 2025; the files are those that its AICB writes. All ranks go through the layers in
step: forward, each computation and what it exchanges; then from the last layer back, the gradients of the input
likewise, and those of the weights, whose exchange the next layer does not wait for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.collectives.algorithms import ALGORITHMS, schedule
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.flows import EAGER_BYTES, Flows
from simulate.traffic.graph import Graph, concatenate
from topo.budget import FLOWS
from topo.errors import HeddleError

EXCHANGE_KINDS = {
    "ALLREDUCE": "allreduce",
    "ALLGATHER": "all-gather",
    "REDUCESCATTER": "reduce-scatter",
    "ALLTOALL": "all-to-all",
}
"""Our name of each exchange; behind it may stand ``_EP`` or ``_DP_EP``, the ranks that take part."""


class Exchange(NamedTuple):
    """A computation, and what is exchanged after it."""

    compute_s: float
    collective: str
    """A value of `EXCHANGE_KINDS`, or nothing."""
    among: str
    """``TP``, ``EP``, ``DP`` or ``DP_EP``."""
    size_bytes: int
    """Largest buffer that a rank holds."""


@dataclass(frozen=True)
class SimaiWorkload:
    """A step of training."""

    ranks: int
    tensor: int
    """Ranks that share each layer: neighbours."""
    expert: int
    """Ranks that hold different experts, among those with the same part of a layer."""
    layers: tuple[tuple[Exchange, Exchange, Exchange], ...]
    """Of each layer: forward, gradients of the input, gradients of the weights."""


def groups_of_ranks(workload: SimaiWorkload, among: str) -> NDArray[np.int64]:
    """Return the (groups, members) ranks of all groups of a kind, as Megatron numbers them: tensor, expert, data.

    Examples
    --------
    >>> groups_of_ranks(SimaiWorkload(8, 2, 2, ()), "EP").tolist()
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """
    rank = np.arange(workload.ranks).reshape(-1, workload.expert, workload.tensor)  # data, expert, tensor
    match among:
        case "TP":
            return rank.reshape(-1, workload.tensor)
        case "EP":
            return rank.transpose(0, 2, 1).reshape(-1, workload.expert)
        case "DP":
            return rank.reshape(-1, workload.tensor).T
        case _:
            return rank.transpose(1, 2, 0).reshape(workload.expert * workload.tensor, -1)


def flows_of_simai(workload: SimaiWorkload, eager_bytes: float = EAGER_BYTES) -> Flows:
    """Return the flows of a step between ranks; each exchange runs in all groups at once, by the default algorithm.

    Raises
    ------
    HeddleError
        When the flows are too many.
    """

    @cache
    def messages(collective: str, among: str) -> int:
        groups = groups_of_ranks(workload, among)
        return len(groups) * len(plan(collective, groups.shape[1])) if groups.shape[1] > 1 else 0

    @cache
    def plan(collective: str, n_ranks: int) -> Schedule:
        return schedule(collective, next(iter(ALGORITHMS[collective])), n_ranks)

    @cache
    def exchanged(collective: str, among: str, size: int) -> Flows:
        groups = groups_of_ranks(workload, among)
        once = plan(collective, groups.shape[1]).flows(size, eager_bytes)
        return concatenate([once.placed(group) for group in groups])

    parts = [part for layer in workload.layers for part in layer if part.collective and part.size_bytes]
    if (most := sum(messages(part.collective, part.among) for part in parts)) > FLOWS.limit:
        raise HeddleError(f"{most:,} messages are too many; expected {FLOWS}: fewer layers, or fewer ranks")
    graph = Graph()
    before: list[int] = []

    def passed(part: Exchange) -> None:
        nonlocal before
        before = [graph.compute(0, part.compute_s, before)]
        if part.collective and part.size_bytes and messages(part.collective, part.among):
            before = [graph.add(exchanged(part.collective, part.among, part.size_bytes), before)]

    for forward, _, _ in workload.layers:
        passed(forward)
    sent: list[int] = []
    for _, of_input, of_weights in reversed(workload.layers):
        passed(of_input)
        computed = before = [graph.compute(0, of_weights.compute_s, before)]
        if of_weights.collective and of_weights.size_bytes and messages(of_weights.collective, of_weights.among):
            flows = exchanged(of_weights.collective, of_weights.among, of_weights.size_bytes)
            sent = [graph.add(flows, [*computed, *sent])]
    return graph.flows()
