"""The flows of a workload's training jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from simulate.traffic import training
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.graph import repeated
from simulate.traffic.network import GBPS
from simulate.traffic.training import FlowsOfSize
from simulate.traffic.tuner import Tuned
from simulate.workload.spec import GpuTrainingJob, TrainingJob
from topo.budget import FLOWS
from topo.errors import HeddleError


def exchanges(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Callable[[Tuned], FlowsOfSize]:
    """Return the collectives of ranks by name, by the algorithm of the job; `groups` as of `schedule`."""
    return lambda name: partial(schedule(name, job.algorithm, n_ranks, groups=groups).flows, eager_bytes=job.eager)


def flows_of_training(
    job: TrainingJob | GpuTrainingJob, n_ranks: int, exchange: Callable[[Tuned], FlowsOfSize]
) -> Flows:
    """Return the flows of all steps; `exchange` gives those of a collective by its name."""
    once = _step(job, n_ranks, exchange)
    return repeated(once, job.steps) if len(once) else once


def _step(job: TrainingJob | GpuTrainingJob, n_ranks: int, exchange: Callable[[Tuned], FlowsOfSize]) -> Flows:
    compute_s, made = job.forward + job.backward, 0
    layers = training.even_layers(job.layers, job.forward, job.backward, job.parameters)

    def check(messages: int) -> None:
        """Refuse steps that would not fit into memory, before they are made."""
        nonlocal made
        made += messages
        if made * job.steps > FLOWS.limit:
            raise HeddleError(f"at least {made:,} messages a step, {job.steps:,} times, are too many; expected {FLOWS}")

    def collective(name: Tuned) -> FlowsOfSize:
        """Return a collective whose flows are counted."""
        flows_of = exchange(name)

        def counted(size_bytes: float) -> Flows:
            flows = flows_of(size_bytes)
            check(len(flows))
            return flows

        return counted

    match job.parallel:
        case "data":
            return training.data_parallel(
                training.vgg16(compute_s) if job.model == "vgg16" else layers,
                collective("allreduce"),
                bucket_bytes=job.bucket,
                overlap=job.overlap,
                compression=job.compression,
                launch_s=job.launch,
            )
        case "sharded":
            gather, scatter = collective("all-gather"), collective("reduce-scatter")
            return training.fsdp(layers, gather, scatter, overlap=job.overlap, launch_s=job.launch)
        case "tensor" | "expert":
            exchanged = collective("allreduce" if job.parallel == "tensor" else "all-to-all")
            return training.exchanged_halves(layers, exchanged, job.activations)
        case "pipeline":
            check(4 * n_ranks * job.micro_batches)
            times = job.forward, job.backward
            return training.pipeline_parallel([range(n_ranks)], job.micro_batches, *times, job.activations)
        case "parameter-server":
            check(2 * job.servers * (n_ranks - job.servers))
            workers, servers = range(job.servers, n_ranks), range(job.servers)
            return training.flat_parameter_servers(workers, servers, job.parameters, compute_s=compute_s)
        case "hierarchical-parameter-server":
            check(2 * n_ranks**2)
            return training.hierarchical_parameter_servers(
                range(n_ranks),
                job.parameters,
                cached=job.cached,
                cold=job.cold,
                ssd_bytes_s=np.inf if job.ssd is None else job.ssd * GBPS,
                compute_s=compute_s,
            )
