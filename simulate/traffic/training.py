"""A step of training as flows: what is computed, what is exchanged, and which waits for which.

Every family of traffic is a function that returns the flows of one step between ranks. Ranks compute in step, so that
one rank's computation stands for all; what they exchange is a collective that the caller chooses, a function from bytes
to flows such as ``lambda size: schedule("allreduce", "ring", n_ranks).flows(size)``. Compute times are given, not
derived: the network does not know what a GPU does. Where copies or collectives take cores of the GPU away from the
computation, nothing here shows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulate.traffic.flows import Flows
from simulate.traffic.graph import Graph
from topo.errors import HeddleError

BUCKET_BYTES = 25 * 2.0**20
"""Gradients that PyTorch's DistributedDataParallel sends at a time (``bucket_cap_mb``)."""

FlowsOfSize = Callable[[float], Flows]
"""Flows between ranks of a collective, by its bytes."""


@dataclass(frozen=True)
class Layer:
    """A part of a model, as its GPU sees it."""

    forward_s: float
    backward_s: float
    parameter_bytes: float
    """In the precision in which gradients, or parameters of FSDP, are sent."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (np.isfinite(value) and value >= 0):
                raise HeddleError(f"found a layer with {name} {value}; expected a number that is not negative")


def even_layers(count: int, forward_s: float, backward_s: float, parameter_bytes: float) -> tuple[Layer, ...]:
    """Return so many equal layers that together take the times and have the bytes given.

    Examples
    --------
    >>> import simulate
    >>> simulate.traffic.even_layers(4, 0.1, 0.2, 1e9)[0]
    Layer(forward_s=0.025, backward_s=0.05, parameter_bytes=250000000.0)
    """
    if count < 1:
        raise HeddleError(f"found {count} layers; expected at least one")
    return (Layer(forward_s / count, backward_s / count, parameter_bytes / count),) * count


def vgg16(compute_s: float) -> tuple[Layer, ...]:
    """Return VGG16 (Simonyan and Zisserman, arXiv 1409.1556, configuration D) for a step with so much compute.

    The time is divided among the layers by their multiplications, and within each a third is forward: the backward pass
    multiplies twice as often. Of its 138 million parameters 124 million are in the last three layers, which come first
    in the backward pass; so nearly all gradients are there early. A parameter has 4 bytes.
    """
    channels = [3, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]
    side = [224, 224, 112, 112, 56, 56, 56, 28, 28, 28, 14, 14, 14]
    weights = [9 * a * b for a, b in pairwise(channels)]
    products = [weight * width**2 for weight, width in zip(weights, side, strict=True)]
    dense = [(512 * 7 * 7, 4096), (4096, 4096), (4096, 1000)]
    parameters = [w + b for w, b in zip(weights, channels[1:], strict=True)] + [a * b + b for a, b in dense]
    products += [a * b for a, b in dense]
    share = np.array(products) / sum(products)
    return tuple(
        Layer(part * compute_s / 3, part * compute_s * 2 / 3, count * 4.0)
        for part, count in zip(share.tolist(), parameters, strict=True)
    )


def layer_groups(layers: Sequence[Layer], most_bytes: float) -> list[list[Layer]]:
    """Return neighbouring layers in groups of at most `most_bytes`, or of one layer, from the last layer to the first.

    So PyTorch fills buckets: in the order in which gradients are ready, whole parameters only.
    """
    if not most_bytes > 0:
        raise HeddleError(f"found buckets of {most_bytes} bytes; expected more than 0")
    groups: list[list[Layer]] = []
    for layer in reversed(layers):
        if groups and sum(one.parameter_bytes for one in groups[-1]) + layer.parameter_bytes <= most_bytes:
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return groups


def data_parallel(
    layers: Sequence[Layer],
    allreduce: FlowsOfSize,
    *,
    bucket_bytes: float = BUCKET_BYTES,
    overlap: bool = True,
    compression: float = 1.0,
    launch_s: float = 0.0,
) -> Flows:
    """Return a step of data parallel training: gradients are summed bucket after bucket, beside the backward pass.

    Parameters
    ----------
    layers
        The model, in the order of the forward pass.
    bucket_bytes
        The most that is summed at a time.
    overlap
        Whether a bucket is sent as soon as its gradients are there; else all wait for the end of the backward pass.
    compression
        Bytes sent for each byte of gradients; what it takes to compress is part of the compute times.
    launch_s
        What each bucket takes besides its bytes: to launch a kernel, to agree with the other ranks.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> layers = simulate.traffic.even_layers(4, 0.1, 0.2, 1e9)
    >>> ring = lambda size: simulate.allreduce(hosts, size).flows(fabric)
    >>> len(simulate.traffic.data_parallel(layers, ring))
    1932
    """
    if not 0 < compression <= 1:
        raise HeddleError(f"found compression to {compression} of the bytes; expected more than 0 and at most 1")
    graph = Graph()
    computed = graph.compute(0, sum(layer.forward_s for layer in layers))
    ready = []
    groups = layer_groups(layers, bucket_bytes)
    for group in groups:
        computed = graph.compute(0, sum(layer.backward_s for layer in group), [computed])
        ready.append(computed)
    sent: list[int] = []
    for group, gradients in zip(groups, ready, strict=True):
        size = sum(layer.parameter_bytes for layer in group) * compression
        if size > 0:
            flows = allreduce(size).waiting_first(launch_s)
            sent = [graph.add(flows, [gradients if overlap else computed, *sent])]
    return graph.flows()


def fsdp(
    layers: Sequence[Layer],
    all_gather: FlowsOfSize,
    reduce_scatter: FlowsOfSize,
    *,
    overlap: bool = True,
    launch_s: float = 0.0,
) -> Flows:
    """Return a step of fully sharded data parallel training, where each layer is a unit.

    A unit's parameters are gathered before its forward and again before its backward pass, and its gradients are
    scattered after. One collective runs at a time.

    Parameters
    ----------
    overlap
        Whether the parameters of the next unit are gathered while one is computed; else all take turns.

    Examples
    --------
    >>> import topo, simulate
    >>> fabric = topo.preset("lab-20").fabric
    >>> hosts = fabric.ends(role="compute")
    >>> layers = simulate.traffic.even_layers(4, 0.1, 0.2, 1e9)
    >>> gather = lambda size: simulate.collective("all-gather", hosts, size).flows(fabric)
    >>> scatter = lambda size: simulate.collective("reduce-scatter", hosts, size).flows(fabric)
    >>> len(simulate.traffic.fsdp(layers, gather, scatter))
    2904
    """
    graph = Graph()
    computed: list[int] = []
    sent: list[int] = []

    def exchange(collective: FlowsOfSize, size: float, after: list[int]) -> list[int]:
        flows = collective(size).waiting_first(launch_s)
        return [graph.add(flows, [*sent, *after, *([] if overlap else computed)])]

    for layer in layers:
        sent = exchange(all_gather, layer.parameter_bytes, [])
        computed = [graph.compute(0, layer.forward_s, computed + sent)]
    scattering: tuple[float, list[int]] | None = None
    for layer in reversed(layers):
        sent = exchange(all_gather, layer.parameter_bytes, [])
        gathered = sent
        if scattering is not None:  # the gradients of the unit before, behind the parameters that are wanted sooner
            sent = exchange(reduce_scatter, *scattering)
        computed = [graph.compute(0, layer.backward_s, computed + (gathered if overlap else sent))]
        scattering = layer.parameter_bytes, computed
    if scattering is not None:
        exchange(reduce_scatter, *scattering)
    return graph.flows()


def pipeline_parallel(
    stages: Sequence[Sequence[int]],
    micro_batches: int,
    forward_s: float,
    backward_s: float,
    activation_bytes: float,
    *,
    stagger_s: float = 0.0,
) -> Flows:
    """Return a step of pipelines that run beside each other, one micro-batch forward and one backward in turn.

    ``1F1B`` of PipeDream-Flush: stage s of p begins with p - s micro-batches forward, then takes one backward and one
    forward in turn.

    Parameters
    ----------
    stages : (n_pipelines, n_stages)
        Rank of each stage of each pipeline. Pipelines whose ranks share an adapter share its link: Fire-Flyer puts GPUs
        of a server into different data-parallel ranks, so that their sends do not collide on the one adapter.
    forward_s, backward_s
        Of a micro-batch on a stage.
    activation_bytes
        Of a micro-batch, from stage to stage, and as many gradients back.
    stagger_s
        How much later each pipeline begins than the one before.

    Examples
    --------
    >>> import simulate
    >>> len(simulate.traffic.pipeline_parallel([range(4)], 8, 0.01, 0.02, 1e6))  # one pipeline of four stages
    113
    """
    if micro_batches < 1 or not len(stages):
        raise HeddleError(f"found {len(stages)} pipelines of {micro_batches} micro-batches; expected at least one each")
    graph = Graph()
    for number, ranks in enumerate(stages):
        start = graph.compute(ranks[0], number * stagger_s)

        def run(stage: int, turn: Turn, after: list[int], ranks: Sequence[int] = ranks) -> int:
            return graph.compute(ranks[stage], backward_s if turn.backward else forward_s, after)

        def send(stage: int, to: int, done: int, ranks: Sequence[int] = ranks) -> int:
            return graph.add(Flows.of(ranks[stage], ranks[to], activation_bytes), [done])

        one_forward_one_backward(len(ranks), micro_batches, [[start]] * len(ranks), run, send)
    return graph.flows()


class Turn(NamedTuple):
    """What a stage of a pipeline does at a time."""

    backward: bool
    batch: int
    chunk: int
    """Of the layers of the stage."""


def one_forward_one_backward(
    stages: int,
    micro_batches: int,
    start: Sequence[list[int]],
    run: Callable[[int, Turn, list[int]], int],
    send: Callable[[int, int, int], int],
    chunks: int = 1,
) -> list[list[int]]:
    """Add one pipeline to a graph: each stage takes its turns in order, when what it needs has come.

    With several chunks, stage s has every p-th part of the model from part s on, and micro-batches go round the stages
    once a chunk (interleaved: Narayanan et al., arXiv 2104.04473, section 2.2).

    Parameters
    ----------
    start : (stages,)
        Operations that each stage waits for; those that end each stage are returned.
    run, send
        Add what a stage does in a turn, after operations, and what it sends to another, after one; return its number.
    """
    if chunks > 1 and micro_batches % stages:
        raise HeddleError(
            f"found {micro_batches} micro-batches on {stages} stages of {chunks} chunks; expected a multiple of stages"
        )
    queues = [deque(_turns(stage, stages, micro_batches, chunks)) for stage in range(stages)]
    busy = list(start)
    come: dict[tuple[bool, int, int], int] = {}
    """Operation that brings a micro-batch, forward or backward, to a part of the model."""
    while any(queues):
        for stage, queue in enumerate(queues):
            while queue:
                turn = queue[0]
                part = turn.chunk * stages + stage
                first = part == (stages * chunks - 1 if turn.backward else 0)
                if not first and (turn.backward, turn.batch, part) not in come:
                    break
                done = run(stage, turn, busy[stage] + ([] if first else [come[turn.backward, turn.batch, part]]))
                busy[stage] = [done]
                to = part + (-1 if turn.backward else 1)
                if 0 <= to < stages * chunks:
                    come[turn.backward, turn.batch, to] = send(stage, to % stages, done)
                queue.popleft()
    return busy


def _turns(stage: int, stages: int, micro_batches: int, chunks: int) -> list[Turn]:
    """Return what a stage does in order: some micro-batches forward, then one backward and one forward in turn."""
    total = micro_batches * chunks
    behind = stages - stage - 1
    ahead = min(1 + (behind if chunks == 1 else 2 * behind + (chunks - 1) * stages), total)
    turns = [(k // (stages * chunks) * stages + k % stages, k % (stages * chunks) // stages) for k in range(total)]
    forward = [Turn(False, batch, chunk) for batch, chunk in turns]
    backward = [Turn(True, batch, chunks - 1 - chunk) for batch, chunk in turns]
    order = forward[:ahead]
    for number, turn in enumerate(backward):
        order += [turn, *forward[ahead + number : ahead + number + 1]]
    return order


def exchanged_halves(layers: Sequence[Layer], collective: FlowsOfSize, size: float) -> Flows:
    """Return a step of layers of two halves, each of which ends with an exchange that the next half waits for.

    Tensor parallel (Shoeybi et al., "Megatron-LM", arXiv 1909.08053): each layer is split over the ranks, and an
    allreduce sums activations twice forward and gradients twice backward. Expert parallel (Lepikhin et al., "GShard",
    arXiv 2006.16668): an all-to-all brings tokens to their experts and back, forward and backward; experts are taken to
    be chosen evenly.
    """
    graph = Graph()
    before: list[int] = []
    times = [layer.forward_s for layer in layers] + [layer.backward_s for layer in reversed(layers)]
    for time_s in times:
        for _ in range(2):
            before = [graph.add(collective(size), [graph.compute(0, time_s / 2, before)])]
    return graph.flows()


def flat_parameter_servers(
    workers: ArrayLike, servers: ArrayLike, size_bytes: float, *, compute_s: float = 0.0, update_s: float = 0.0
) -> Flows:
    """Return a synchronous step: all workers push gradients to the servers that hold a part each, and pull it updated.

    Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014. Ranks may be workers and
    servers. A worker computes before it pushes; a server updates when it has all gradients.
    """
    worker, server = _ranks(workers, "workers"), _ranks(servers, "servers")
    if not (np.isfinite(size_bytes) and size_bytes >= 0):
        raise HeddleError(f"found {size_bytes} bytes of parameters; expected 0 or more")
    graph = Graph()
    computed = graph.compute(int(worker[0]), compute_s)
    part = size_bytes / len(server)
    for rank in server.tolist():
        pushed = graph.add(Flows.of(worker, np.full(len(worker), rank), part), [computed])
        updated = graph.compute(rank, update_s, [pushed])
        graph.add(Flows.of(np.full(len(worker), rank), worker, part), [updated])
    return graph.flows()


def hierarchical_parameter_servers(
    ranks: ArrayLike,
    size_bytes: float,
    *,
    cached: float = 0.0,
    cold: float = 0.0,
    ssd_bytes_s: float = np.inf,
    compute_s: float = 0.0,
) -> Flows:
    """Return a step where every host is a worker and a server.

    Each pulls the parameters of its batch from the hosts that own them, computes, and pushes their updates back. The
    part `cached` on its own GPUs does not move; the `cold` part of what a host sends is first read from its SSDs, and
    written back at the end. Zhao et al., "Distributed hierarchical GPU parameter server for massive scale deep learning
    ads systems", MLSys 2020, arXiv 2003.05622: parameters live on the SSDs of all servers, those of a batch in host
    memory, those in use on GPUs.
    """
    rank = _ranks(ranks, "hosts")
    for name, value in (("cached", cached), ("cold", cold)):
        if not 0 <= value <= 1:
            raise HeddleError(f"found a {name} part of {value}; expected 0 to 1")
    if not (ssd_bytes_s > 0 and np.isfinite(size_bytes) and size_bytes >= 0):
        raise HeddleError(
            f"found {size_bytes} bytes and SSDs of {ssd_bytes_s} bytes/s; expected 0 or more, and above 0"
        )
    n = len(rank)
    part = size_bytes * (1 - cached) / n
    ssd_s = part * n * cold / ssd_bytes_s
    graph = Graph()
    hosts = rank.tolist()
    read = [graph.compute(one, ssd_s) for one in hosts]

    def exchange(at: int, after: int) -> int:
        others = np.roll(rank, -at)[1:]
        return graph.add(Flows.of(np.full(n - 1, rank[at]), others, part), [after])

    pulls = [exchange(at, after) for at, after in enumerate(read)]
    computed = graph.compute(hosts[0], compute_s, pulls)
    pushes = [exchange(at, computed) for at in range(n)]
    for one in hosts:
        graph.compute(one, ssd_s, pushes)
    return graph.flows()


def _ranks(ranks: ArrayLike, what: str) -> NDArray[np.int64]:
    found = np.asarray(ranks, np.int64).ravel()
    if not len(found):
        raise HeddleError(f"found no {what} of parameters; expected at least one")
    return found
