"""The flows of a workload's training job between its ranks."""

from __future__ import annotations

from collections.abc import Callable

from numpy.typing import ArrayLike

from simulate.collectives import schedule
from simulate.flows import Flows, chain
from simulate.parameter_server import flat_parameter_servers
from simulate.training import (
    Collective,
    data_parallel,
    even_layers,
    expert_parallel,
    fsdp,
    pipeline_parallel,
    tensor_parallel,
    vgg16,
)
from simulate.workload_spec import TrainingJob
from topo.errors import HeddleError

__all__ = ["flows_of_training"]


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


def _collective(name: str, algorithm: str, n_ranks: int, groups: ArrayLike) -> Collective:
    return schedule(name, algorithm, n_ranks, groups=groups).flows


def _data(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    compute_s = job.forward + job.backward
    even = even_layers(job.layers, job.forward, job.backward, job.parameters)
    return data_parallel(
        vgg16(compute_s) if job.model == "vgg16" else even,
        _collective("allreduce", job.algorithm, n_ranks, groups),
        bucket_bytes=job.bucket,
        overlap=job.overlap,
        compression=job.compression,
        launch_s=job.launch,
    )


def _sharded(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    gather, scatter = (_collective(name, "ring", n_ranks, groups) for name in ("all-gather", "reduce-scatter"))
    layers = even_layers(job.layers, job.forward, job.backward, job.parameters)
    return fsdp(layers, gather, scatter, overlap=job.overlap, launch_s=job.launch)


def _tensor(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    layers = even_layers(job.layers, job.forward, job.backward, 0.0)
    return tensor_parallel(layers, _collective("allreduce", job.algorithm, n_ranks, groups), job.activations)


def _expert(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    layers = even_layers(job.layers, job.forward, job.backward, 0.0)
    return expert_parallel(layers, _collective("all-to-all", "shift", n_ranks, groups), job.activations)


def _pipeline(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    return pipeline_parallel([range(n_ranks)], job.micro_batches, job.forward, job.backward, job.activations)


def _parameter_server(job: TrainingJob, n_ranks: int, groups: ArrayLike) -> Flows:
    if job.servers >= n_ranks:
        raise HeddleError(f"{job.servers} of {n_ranks} ranks would be servers, which leaves no worker")
    workers, servers = range(job.servers, n_ranks), range(job.servers)
    return flat_parameter_servers(workers, servers, job.parameters, compute_s=job.forward + job.backward)


_STEPS: dict[str, Callable[[TrainingJob, int, ArrayLike], Flows]] = {
    "data": _data,
    "sharded": _sharded,
    "tensor": _tensor,
    "expert": _expert,
    "pipeline": _pipeline,
    "parameter-server": _parameter_server,
}
