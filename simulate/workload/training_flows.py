"""The flows of a workload's training job between its ranks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from simulate.traffic.collectives.algorithms import MAX_MESSAGES, schedule
from simulate.traffic.flows import Flows, chain
from simulate.traffic.parameter_server import flat_parameter_servers, hierarchical_parameter_servers
from simulate.traffic.training import (
    Collective,
    data_parallel,
    even_layers,
    expert_parallel,
    fsdp,
    layer_groups,
    pipeline_parallel,
    tensor_parallel,
    vgg16,
)
from simulate.workload.spec import TrainingJob
from topo.errors import HeddleError

GBPS = 1e9 / 8
"""Bytes a second of 1 Gb/s."""


def flows_of_training(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    """Return the flows of all steps.

    Parameters
    ----------
    groups : (n_ranks,)
        Zone or leaf of each rank, for algorithms of two levels.

    Raises
    ------
    HeddleError
        When the ranks are too few, or the algorithm cannot take them.
    """
    once = _STEPS[job.parallel](job, n_ranks, groups)
    return chain([once] * job.steps) if job.steps > 1 and len(once) else once


def _collective(job: TrainingJob, times: int, name: str, algorithm: str, n_ranks: int, groups: ArrayLike) -> Collective:
    """Return a collective that each step has so many times."""
    plan = schedule(name, algorithm, n_ranks, groups=groups)
    _check(job, times * len(plan))
    return plan.flows


def _check(job: TrainingJob, messages: int) -> None:
    """Refuse steps that would not fit into memory, before they are made."""
    if messages * job.steps > MAX_MESSAGES:
        raise HeddleError(
            f"{messages:,} messages a step, {job.steps:,} times, are too many; expected at most {MAX_MESSAGES:,}"
        )


def _data(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    if not job.bucket:
        raise HeddleError("buckets of 0 bytes hold no gradient; expected more")
    even = even_layers(job.layers, job.forward, job.backward, job.parameters)
    layers = vgg16(job.forward + job.backward) if job.model == "vgg16" else even
    buckets = len(layer_groups(layers, job.bucket))
    return data_parallel(
        layers,
        _collective(job, buckets, "allreduce", job.algorithm, n_ranks, groups),
        bucket_bytes=job.bucket,
        overlap=job.overlap,
        compression=job.compression,
        launch_s=job.launch,
    )


def _sharded(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    gather = _collective(job, 2 * job.layers, "all-gather", "ring", n_ranks, groups)
    scatter = _collective(job, job.layers, "reduce-scatter", "ring", n_ranks, groups)
    layers = even_layers(job.layers, job.forward, job.backward, job.parameters)
    return fsdp(layers, gather, scatter, overlap=job.overlap, launch_s=job.launch)


def _tensor(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    layers = even_layers(job.layers, job.forward, job.backward, 0.0)
    sums = _collective(job, 4 * job.layers, "allreduce", job.algorithm, n_ranks, groups)
    return tensor_parallel(layers, sums, job.activations)


def _expert(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    layers = even_layers(job.layers, job.forward, job.backward, 0.0)
    exchange = _collective(job, 4 * job.layers, "all-to-all", "shift", n_ranks, groups)
    return expert_parallel(layers, exchange, job.activations)


def _pipeline(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    _check(job, 4 * n_ranks * job.micro_batches)
    return pipeline_parallel([range(n_ranks)], job.micro_batches, job.forward, job.backward, job.activations)


def _parameter_server(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    if job.servers >= n_ranks:
        raise HeddleError(f"{job.servers} of {n_ranks} ranks would be servers, which leaves no worker")
    _check(job, 2 * job.servers * (n_ranks - job.servers))
    workers, servers = range(job.servers, n_ranks), range(job.servers)
    return flat_parameter_servers(workers, servers, job.parameters, compute_s=job.forward + job.backward)


def _hierarchical_parameter_server(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    _check(job, 2 * n_ranks**2)
    return hierarchical_parameter_servers(
        range(n_ranks),
        job.parameters,
        cached=job.cached,
        cold=job.cold,
        ssd_bytes_s=np.inf if job.ssd is None else job.ssd * GBPS,
        compute_s=job.forward + job.backward,
    )


_STEPS: dict[str, Callable[[TrainingJob, int, ArrayLike], Flows]] = {
    "data": _data,
    "sharded": _sharded,
    "tensor": _tensor,
    "expert": _expert,
    "pipeline": _pipeline,
    "parameter-server": _parameter_server,
    "hierarchical-parameter-server": _hierarchical_parameter_server,
}
