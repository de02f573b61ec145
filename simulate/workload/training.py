"""The flows of a workload's training job between its ranks."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.flows import Flows
from simulate.traffic.graph import chain
from simulate.traffic.network import GBPS
from simulate.traffic.training import (
    FlowsOfSize,
    data_parallel,
    even_layers,
    exchanged_halves,
    flat_parameter_servers,
    fsdp,
    hierarchical_parameter_servers,
    layer_groups,
    pipeline_parallel,
    vgg16,
)
from simulate.workload.spec import TrainingJob
from topo.budget import FLOWS
from topo.errors import HeddleError


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
    once = _step(job, n_ranks, groups)
    return chain([once] * job.steps) if job.steps > 1 and len(once) else once


def _step(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    """Return the flows of one step."""
    compute_s = job.forward + job.backward

    def check(messages: int) -> None:
        """Refuse steps that would not fit into memory, before they are made."""
        if messages * job.steps > FLOWS.limit:
            raise HeddleError(f"{messages:,} messages a step, {job.steps:,} times, are too many; expected {FLOWS}")

    def collective(name: str, algorithm: str, times: int) -> FlowsOfSize:
        """Return a collective that each step has so many times."""
        plan = schedule(name, algorithm, n_ranks, groups=groups)
        check(times * len(plan))
        return partial(plan.flows, eager_bytes=job.eager)

    match job.parallel:
        case "data":
            if not job.bucket:
                raise HeddleError("buckets of 0 bytes hold no gradient; expected more")
            even = even_layers(job.layers, job.forward, job.backward, job.parameters)
            layers = vgg16(compute_s) if job.model == "vgg16" else even
            return data_parallel(
                layers,
                collective("allreduce", job.algorithm, len(layer_groups(layers, job.bucket))),
                bucket_bytes=job.bucket,
                overlap=job.overlap,
                compression=job.compression,
                launch_s=job.launch,
            )
        case "sharded":
            gather = collective("all-gather", "ring", 2 * job.layers)
            scatter = collective("reduce-scatter", "ring", job.layers)
            layers = even_layers(job.layers, job.forward, job.backward, job.parameters)
            return fsdp(layers, gather, scatter, overlap=job.overlap, launch_s=job.launch)
        case "tensor" | "expert":
            kind = ("allreduce", job.algorithm) if job.parallel == "tensor" else ("all-to-all", "shift")
            exchange = collective(*kind, 4 * job.layers)
            return exchanged_halves(even_layers(job.layers, job.forward, job.backward, 0.0), exchange, job.activations)
        case "pipeline":
            check(4 * n_ranks * job.micro_batches)
            return pipeline_parallel([range(n_ranks)], job.micro_batches, job.forward, job.backward, job.activations)
        case "parameter-server":
            if job.servers >= n_ranks:
                raise HeddleError(f"{job.servers} of {n_ranks} ranks would be servers, which leaves no worker")
            check(2 * job.servers * (n_ranks - job.servers))
            workers, servers = range(job.servers, n_ranks), range(job.servers)
            return flat_parameter_servers(workers, servers, job.parameters, compute_s=compute_s)
        case "hierarchical-parameter-server":
            check(2 * n_ranks**2)
            return hierarchical_parameter_servers(
                range(n_ranks),
                job.parameters,
                cached=job.cached,
                cold=job.cold,
                ssd_bytes_s=np.inf if job.ssd is None else job.ssd * GBPS,
                compute_s=compute_s,
            )
