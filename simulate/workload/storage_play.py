"""Plays a workload in which clients of storage act, beside jobs whose flows are known."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import simpy

from routing.lanes.policy import ASK
from simulate.engines.environment import NetworkEnvironment
from simulate.network import Network
from simulate.outcome.outcome import Outcome
from simulate.workload.place import RunningJob, Workload
from simulate.workload.spec import StorageJob, StorageSpec
from simulate.workload.storage import Client, File, Storage, StorageOptions
from topo.fabric import frozen
from topo.hardware.models import NodeModel

STEPS_A_LOOK = 10_000
"""Events between two reports of progress."""


def play_with_storage(
    network: Network,
    workload: Workload,
    model: NodeModel,
    *,
    n_bins: int = 0,
    progress: Callable[[int, float], None] = lambda ended, time_s: None,
) -> tuple[Workload, Outcome]:
    """Play a workload until all jobs have ended.

    Parameters
    ----------
    model
        What the storage servers are.
    progress
        Called now and then with the flows that have ended and the simulated time.

    Returns
    -------
    tuple
        The workload with the flows that came about, each with the time at which it began in place of what it waited
        for, and the number of its job as its tag; and what became of them.

    Raises
    ------
    HeddleError
        When the fabric has no storage servers, or they cannot be set up so.
    """
    env = NetworkEnvironment(network, n_bins=n_bins)
    storage = Storage(env, model, _options(workload.storage))
    rng = np.random.default_rng(0)
    files = [storage.file(rng) for _ in range(workload.storage.files)]
    ends: list[simpy.Event] = []
    for number, job in enumerate(workload.jobs):
        if isinstance(job.spec, StorageJob):
            ends += [env.process(process) for process in _clients(storage, files, job, number)]
        else:
            mine = workload.span(number)
            flows = workload.flows.part(mine.start, mine.stop)
            ends.append(env.play(replace(flows, tag=np.full(len(flows), number, np.int32))))
    over = env.all_of(ends)
    steps = 0
    while not over.processed:
        env.step()
        steps += 1
        if steps % STEPS_A_LOOK == 0:
            progress(env.n_ended, env.now)
    played = env.outcome()
    order = np.argsort(played.flows.tag, kind="stable")
    flows = replace(
        played.flows,
        **{name: getattr(played.flows, name)[order] for name in ("src", "dst", "size_bytes", "start_s", "sl", "tag")},
    )
    outcome = replace(
        played,
        flows=flows,
        routes=network.routes(flows.src, flows.dst, flows.sl),
        **{name: getattr(played, name)[order] for name in ("start_s", "finish_s", "bottleneck")},
    )
    return replace(workload, flows=flows, job=frozen(flows.tag)), outcome


def _options(spec: StorageSpec) -> StorageOptions:
    return StorageOptions(replicas=spec.replicas, chunk_bytes=spec.chunk, stripe=spec.stripe, senders=spec.senders)


def _clients(
    storage: Storage, files: list[File], job: RunningJob, number: int
) -> list[Generator[simpy.Event, Any, None]]:
    spec = job.spec
    assert isinstance(spec, StorageJob)
    rngs = np.random.default_rng(job.seed).spawn(len(job.ends))
    clients = [
        Client(storage, end, rng, sl=ASK if spec.sl is None else spec.sl, tag=number)
        for end, rng in zip(job.ends.tolist(), rngs, strict=True)
    ]
    reads = [_load(client, files, spec) for client in clients for _ in range(spec.loaders if spec.batches else 0)]
    writes = [_save(client, files[at % len(files)], spec) for at, client in enumerate(clients) if spec.checkpoint]
    return reads + writes


def _load(client: Client, files: list[File], spec: StorageJob) -> Generator[simpy.Event, Any, None]:
    yield client.env.timeout(spec.start)
    yield from client.load(files, spec.batch, spec.sample, batches=spec.batches)


def _save(client: Client, file: File, spec: StorageJob) -> Generator[simpy.Event, Any, None]:
    yield client.env.timeout(spec.start)
    for number in range(1, spec.checkpoints + 1):
        begin_s = client.env.now
        yield from client.save(file, spec.checkpoint)
        if number < spec.checkpoints:
            yield client.env.timeout(max(0.0, begin_s + spec.every - client.env.now))
