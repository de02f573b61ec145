"""A step of training as flows: what is computed, what is exchanged, and which waits for which.

Every family of traffic is a function that returns the flows of one step between ranks. Ranks compute in step, so that
one rank's computation stands for all; what they exchange is a collective that the caller chooses, a function from bytes
to flows::

    ring = lambda size: schedule("allreduce", "ring", n_ranks).flows(size)
    flows = data_parallel(layers, ring, bucket_bytes=25 * MIB)
    step_s = fluid.play(network, flows.placed(ends)).makespan_s

Compute times are given, not derived: the network does not know what a GPU does. Where copies or collectives take cores
of the GPU away from the computation, nothing here shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from simulate.traffic.flows import Flows
from simulate.traffic.operation_graph import OperationGraph
from topo.errors import HeddleError

BUCKET_BYTES = 25 * 2.0**20
"""Gradients that PyTorch's DistributedDataParallel sends at a time (``bucket_cap_mb``)."""

Collective = Callable[[float], Flows]
"""Flows between ranks of a collective of so many bytes."""


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
    """Return so many equal layers that together take the times and have the bytes given."""
    if count < 1:
        raise HeddleError(f"found {count} layers; expected at least one")
    return (Layer(forward_s / count, backward_s / count, parameter_bytes / count),) * count


def vgg16(compute_s: float, bytes_a_parameter: float = 4.0) -> tuple[Layer, ...]:
    """Return VGG16 (Simonyan and Zisserman, arXiv 1409.1556, configuration D) for a step with so much compute.

    The time is dealt over the layers by their multiplications, and within each a third is forward: the backward pass
    multiplies twice as often. Of its 138 million parameters 124 million are in the last three layers, which come first
    in the backward pass; so nearly all gradients are there early.
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
        Layer(part * compute_s / 3, part * compute_s * 2 / 3, count * bytes_a_parameter)
        for part, count in zip(share.tolist(), parameters, strict=True)
    )


def layer_groups(layers: Sequence[Layer], most_bytes: float) -> list[list[Layer]]:
    """Return neighbouring layers in groups of at most so many bytes, or of one layer; from the last layer to the first.

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
    allreduce: Collective,
    *,
    bucket_bytes: float = BUCKET_BYTES,
    overlap: bool = True,
    compression: float = 1.0,
    launch_s: float = 0.0,
) -> Flows:
    """Return a step of data parallel training: gradients are summed bucket after bucket, beside the backward pass.

    Parameters
    ----------
    overlap
        Whether a bucket is sent as soon as its gradients are there; else all wait for the end of the backward pass.
    compression
        Bytes sent for each byte of gradients; what it takes to compress is part of the compute times.
    launch_s
        What each bucket takes besides its bytes: to launch a kernel, to agree with the other ranks.
    """
    if not 0 < compression <= 1:
        raise HeddleError(f"found compression to {compression} of the bytes; expected more than 0, and 1 at most")
    graph = OperationGraph()
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


def search_bucket(
    step_s: Callable[[float], float], least_bytes: float, most_bytes: float, *, tries: int = 5, rounds: int = 3
) -> dict[float, float]:
    """Search the bucket size with the shortest step; return the steps that were tried, by bucket size, in order.

    Sizes in equal ratios are tried; then, round after round, as many between the neighbours of the best. Steps fall
    and rise with the bucket size, but not smoothly, since buckets hold whole layers: the best found may be one of
    several, and a search that looks at gradients would be led astray.

    Parameters
    ----------
    step_s
        Seconds of a step with a bucket size in bytes.
    """
    if not 0 < least_bytes < most_bytes or tries < 3:
        raise HeddleError(
            f"found buckets from {least_bytes} to {most_bytes} bytes in {tries} tries; expected a rising range, 3 tries"
        )
    found: dict[float, float] = {}
    for _ in range(rounds):
        for size in np.geomspace(least_bytes, most_bytes, tries).round().tolist():
            if size not in found:
                found[size] = step_s(size)
        sizes = sorted(found)
        best = sizes.index(min(sizes, key=lambda size: found[size]))
        least_bytes, most_bytes = sizes[max(best - 1, 0)], sizes[min(best + 1, len(sizes) - 1)]
    return dict(sorted(found.items()))


def fsdp(
    layers: Sequence[Layer],
    all_gather: Collective,
    reduce_scatter: Collective,
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
    """
    graph = OperationGraph()
    computed: list[int] = []
    sent: list[int] = []

    def exchange(collective: Collective, size: float, after: list[int]) -> list[int]:
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
    """
    if micro_batches < 1 or not len(stages):
        raise HeddleError(f"found {len(stages)} pipelines of {micro_batches} micro-batches; expected at least one each")
    graph = OperationGraph()
    for number, ranks in enumerate(stages):
        offset = graph.compute(ranks[0], number * stagger_s)
        _one_pipeline(graph, list(ranks), micro_batches, forward_s, backward_s, activation_bytes, offset)
    return graph.flows()


def _one_pipeline(
    graph: OperationGraph,
    ranks: list[int],
    micro_batches: int,
    forward_s: float,
    backward_s: float,
    activation_bytes: float,
    offset: int,
) -> None:
    """Add the operations of one pipeline: each stage takes its turns in order, when what it needs has come."""
    n = len(ranks)
    turns = [_turns(micro_batches, min(n - stage, micro_batches)) for stage in range(n)]
    taken = [0] * n
    busy: list[list[int]] = [[offset]] * n
    come: dict[tuple[bool, int, int], int] = {}
    """Operation that brings a micro-batch, forward or backward, to a stage."""
    left = sum(map(len, turns))
    while left:
        for stage in range(n):
            while taken[stage] < len(turns[stage]):
                backward, batch = turns[stage][taken[stage]]
                first = stage == (n - 1 if backward else 0)
                if not first and (backward, batch, stage) not in come:
                    break
                needs = busy[stage] + ([] if first else [come[backward, batch, stage]])
                done = graph.compute(ranks[stage], backward_s if backward else forward_s, needs)
                busy[stage] = [done]
                to = stage + (-1 if backward else 1)
                if 0 <= to < n:
                    send = Flows.of(ranks[stage], ranks[to], activation_bytes)
                    come[backward, batch, to] = graph.add(send, [done])
                taken[stage] += 1
                left -= 1


def _turns(micro_batches: int, ahead: int) -> list[tuple[bool, int]]:
    """Return the order of a stage: (backward, micro-batch)."""
    order = [(False, batch) for batch in range(ahead)]
    for batch in range(micro_batches):
        order.append((True, batch))
        if batch + ahead < micro_batches:
            order.append((False, batch + ahead))
    return order


def tensor_parallel(layers: Sequence[Layer], allreduce: Collective, activation_bytes: float) -> Flows:
    """Return a step where each layer is split over ranks: two sums of activations forward, two of gradients backward.

    Shoeybi et al., "Megatron-LM", arXiv 1909.08053. Nothing overlaps: the next layer needs the sum.
    """
    return _with_exchanges(layers, allreduce, activation_bytes)


def expert_parallel(layers: Sequence[Layer], all_to_all: Collective, token_bytes: float) -> Flows:
    """Return a step of mixtures of experts: tokens go out to their experts and come back, forward and backward.

    Lepikhin et al., "GShard", arXiv 2006.16668; experts are taken to be chosen evenly.
    """
    return _with_exchanges(layers, all_to_all, token_bytes)


def _with_exchanges(layers: Sequence[Layer], collective: Collective, size: float) -> Flows:
    """Return layers of two halves, each of which ends with an exchange."""
    graph = OperationGraph()
    before: list[int] = []
    times = [layer.forward_s for layer in layers] + [layer.backward_s for layer in reversed(layers)]
    for time_s in times:
        for _ in range(2):
            before = [graph.add(collective(size), [graph.compute(0, time_s / 2, before)])]
    return graph.flows()
