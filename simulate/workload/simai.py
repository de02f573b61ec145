"""SimAI's workloads: the layers of a training step with tensor, expert and data parallel ranks, and flows of them.

Wang et al., "SimAI: unifying architecture design and performance tuning for large-scale large language model training
with scalability and precision", NSDI 2025; the files are those that its AICB writes. All ranks go through the layers in
step: forward, each computation and what it exchanges; then from the last layer back, the gradients of the input
likewise, and those of the weights, whose exchange the next layer does not wait for. Stages of a pipeline take
micro-batches forward and backward in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulate.traffic.flows import Flows
from simulate.traffic.graph import Graph
from simulate.traffic.training import Turn, one_forward_one_backward
from simulate.traffic.tuner import Tuned
from topo.budget import FLOWS
from topo.errors import HeddleError

EXCHANGE_KINDS: dict[str, Tuned] = {
    "ALLREDUCE": "allreduce", "ALLGATHER": "all-gather", "REDUCESCATTER": "reduce-scatter", "ALLTOALL": "all-to-all",
    "BROADCAST": "broadcast",
}  # fmt: skip
"""Our name of each exchange; behind it may stand ``_EP`` or ``_DP_EP``, the ranks that take part."""


class Exchange(NamedTuple):
    """A computation, and what is exchanged after it."""

    compute_s: float
    collective: Tuned | None
    """A value of `EXCHANGE_KINDS`, if any."""
    among: str
    """``TP``, ``EP``, ``DP`` or ``DP_EP``."""
    size_bytes: int
    """Largest buffer that a rank holds."""


SimaiLayer = tuple[Exchange, Exchange, Exchange]
"""Forward, gradients of the input, gradients of the weights."""


@dataclass(frozen=True)
class SimaiWorkload:
    """A step of training; every stage of a pipeline does the same."""

    ranks: int
    tensor: int
    """Ranks that share each layer: neighbours."""
    expert: int
    """Ranks that hold different experts, among those with the same part of a layer."""
    micro_batches: tuple[tuple[SimaiLayer, ...], ...]
    """Layers of each micro-batch; without a pipeline all layers are those of one."""
    before: tuple[SimaiLayer, ...] = ()
    """What a stage does before its first micro-batch; gradients after its last."""
    after: tuple[SimaiLayer, ...] = ()
    """What it does after its last micro-batch."""
    stages: int = 1
    chunks: int = 1
    """Parts into which the layers of a stage are cut, of as many lines each."""
    sent_bytes: int = 0
    """From each rank of a stage to the one in its place in the next, for a micro-batch; as much goes back."""


def groups_of_ranks(workload: SimaiWorkload, among: str, stage: int = 0) -> NDArray[np.int64]:
    """Return the (groups, members) ranks of all groups of a kind, as Megatron numbers them, with stages outermost.

    Examples
    --------
    >>> groups_of_ranks(SimaiWorkload(8, 2, 2, ()), "EP").tolist()
    [[0, 2], [1, 3], [4, 6], [5, 7]]
    """
    each = workload.ranks // workload.stages
    rank = (stage * each + np.arange(each)).reshape(-1, workload.expert, workload.tensor)  # data, expert, tensor
    match among:
        case "TP":
            return rank.reshape(-1, workload.tensor)
        case "EP":
            return rank.transpose(0, 2, 1).reshape(-1, workload.expert)
        case "DP":
            return rank.reshape(-1, workload.tensor).T
        case _:
            return rank.transpose(1, 2, 0).reshape(workload.expert * workload.tensor, -1)


def flows_of_simai(
    workload: SimaiWorkload,
    exchange: Callable[[Tuned, NDArray[np.int64], float], Flows],
    send: Callable[[NDArray[np.int64], NDArray[np.int64], float], Flows],
) -> Flows:
    """Return the flows of a step; each exchange runs in all groups at once.

    Parameters
    ----------
    exchange
        Flows of a collective among (groups, members) ranks, of a size.
    send
        Flows of a message from each rank to another.
    """
    graph, made = Graph(), 0
    each = workload.ranks // workload.stages
    sent: list[list[int]] = [[] for _ in range(workload.stages)]
    """The last sum of gradients of each stage."""

    def add(flows: Flows, after: list[int]) -> int:
        nonlocal made
        made += len(flows)
        if made > FLOWS.limit:
            raise HeddleError(
                f"at least {made:,} messages are too many; expected {FLOWS}: fewer layers, or fewer ranks"
            )
        return graph.add(flows, after)

    @cache
    def exchanged(collective: Tuned, among: str, size: int, stage: int) -> Flows:
        return exchange(collective, groups_of_ranks(workload, among, stage), size)

    def passed(part: Exchange, stage: int, after: list[int]) -> list[int]:
        """Add a computation and its exchange."""
        done = [graph.compute(0, part.compute_s, after)]
        if not part.collective or not part.size_bytes or groups_of_ranks(workload, part.among).shape[1] < 2:
            return done
        return [add(exchanged(part.collective, part.among, part.size_bytes, stage), done)]

    def forward(layers: Sequence[SimaiLayer], stage: int, after: list[int]) -> list[int]:
        for layer in layers:
            after = passed(layer[0], stage, after)
        return after

    def backward(layers: Sequence[SimaiLayer], stage: int, after: list[int]) -> list[int]:
        for _, of_input, of_weights in reversed(layers):
            after = passed(of_input, stage, after)
            after = computed = [graph.compute(0, of_weights.compute_s, after)]
            summed = passed(of_weights._replace(compute_s=0.0), stage, [*computed, *sent[stage]])
            if of_weights.collective:
                sent[stage] = summed
        return after

    parts = [
        [batch[first:last] for first, last in pairwise(len(batch) * np.arange(workload.chunks + 1) // workload.chunks)]
        for batch in workload.micro_batches
    ]

    def run(stage: int, turn: Turn, after: list[int]) -> int:
        go = backward if turn.backward else forward
        (*_, last) = go(parts[turn.batch][turn.chunk], stage, after) or [graph.compute(0, 0.0, after)]
        return last

    ranks = np.arange(each)
    ended = one_forward_one_backward(
        workload.stages,
        len(parts),
        [forward(workload.before, stage, []) for stage in range(workload.stages)],
        run,
        lambda stage, to, done: add(send(stage * each + ranks, to * each + ranks, workload.sent_bytes), [done]),
        workload.chunks,
    )
    for stage, done in enumerate(ended):
        done = backward(workload.after, stage, forward(workload.after, stage, done))
        backward(workload.before, stage, done)
    return graph.flows()
