"""A job of a queue as a SimPy process: it waits for nodes, loads, computes, exchanges, checkpoints, fails and ends.

Steps are played in rounds: k steps as one that is k times as large. In a network of flows that is the same as long as
what goes on beside it stays the same, and what others see of a round is its mean. What `simulate.traffic.training`
plays message by message is here one flow a pair of nodes: the bytes that a ring or tree moves over each of its edges.
What a job has begun to send when it fails is still sent to its end.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray

from routing.lanes.policy import ASK
from simulate.cluster.queue import QueuedJob
from simulate.cluster.scheduler import Scheduler
from simulate.engines.simpy_bridge import NetworkEnvironment, Process
from simulate.traffic.collectives.trees import zone_trees
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate
from simulate.traffic.placement import zone_of
from simulate.traffic.servers import ComputeServers
from simulate.workload.storage import BulkStorage


@dataclass
class JobRecord:
    """What has become of a job so far."""

    name: str
    nodes: int
    compute_s: float
    """Computation of a step."""
    begin_s: float | None = None
    """When it had its nodes for the first time."""
    end_s: float | None = None
    waited_s: float = 0.0
    """Seconds without nodes since it was submitted."""
    steps: int = 0
    """Steps that count: those lost to failures do not."""
    trained_s: float = 0.0
    """Seconds of all rounds that were completed, and the steps of these."""
    trained_steps: int = 0
    failures: int = 0
    checkpoints: int = 0
    leaves: int = 0
    """Leaves on which its nodes stood last."""
    spanned_zones: bool = False
    """Whether it ever ran in several zones."""

    @property
    def step_s(self) -> float:
        """Mean of a step."""
        return self.trained_s / self.trained_steps if self.trained_steps else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        figures = asdict(self)
        compute_s = figures.pop("compute_s")
        return {**figures, "step_s": self.step_s, "compute_s": compute_s}


@dataclass(eq=False)
class JobProcess:
    """A job and its process.

    Parameters
    ----------
    round_s
        Seconds of computation that a round holds; at least one step.
    """

    env: NetworkEnvironment
    plan: QueuedJob
    scheduler: Scheduler
    servers: ComputeServers
    storage: BulkStorage | None
    rng: np.random.Generator
    round_s: float = 30.0
    record: JobRecord = field(init=False)
    process: simpy.Process = field(init=False)
    ends: NDArray[np.int32] | None = field(init=False, default=None)
    """The nodes that it runs on now, by the end ports that name them."""
    asked_s: float | None = field(init=False, default=None)
    """Since when it waits for nodes."""
    attempts: list[tuple[float, float, bool]] = field(init=False, default_factory=list)
    """Begin and end of each time that it had nodes, and whether a failure ended it."""
    granted_s: float = field(init=False, default=0.0)
    """When it got the nodes that it runs on now."""

    def __post_init__(self) -> None:
        self.record = JobRecord(self.plan.name, self.plan.nodes, self.plan.compute_s)
        self.process = self.env.process(self.run())

    def run(self) -> Process:
        """Wait for nodes and train, again after each failure, until all steps are done."""
        yield self.env.timeout(self.plan.submit)
        saved = _Saved()
        while self.record.end_s is None:
            self.asked_s = self.env.now
            self.ends = yield self.scheduler.request(self.plan.nodes)
            self.record.waited_s += self.env.now - self.asked_s
            self.asked_s, self.granted_s = None, self.env.now
            if self.record.begin_s is None:
                self.record.begin_s = self.env.now
            self.record.leaves = self.scheduler.count_leaves(self.ends)
            self.record.spanned_zones |= self.scheduler.spans_zones(self.ends)
            saved = _Saved(saved.steps)  # what an earlier attempt is still saving does not count
            try:
                yield from self.train(saved)
                self.record.end_s = self.env.now
            except simpy.Interrupt:
                self.record.failures += 1
                self.record.steps = saved.steps
            ends, self.ends = self.ends, None
            self.attempts.append((self.granted_s, self.env.now, self.record.end_s is None))
            self.scheduler.release(ends)

    def held(self, now_s: float) -> list[tuple[float, float, bool]]:
        """Return the same until now, with the time that has not ended."""
        return [*self.attempts, *([(self.granted_s, now_s, False)] if self.ends is not None else [])]

    def fail(self) -> None:
        """Let a node of the job fail: the job waits for nodes again, and resumes from its last checkpoint."""
        self.process.interrupt()

    def train(self, saved: _Saved) -> Process:
        """Train until all steps are done."""
        env, plan, record = self.env, self.plan, self.record
        exchange = _Exchange(self)
        saves = plan.checkpoint > 0 and self.storage is not None
        saved_s, step_s = env.now, plan.compute_s
        saving: simpy.Event | None = None
        yield from self.load(1)
        while record.steps < plan.steps:
            begin_s = env.now
            k = self.round_s / plan.compute_s
            if saves:  # even rounds, the last of which ends with the step nearest to when a checkpoint is due
                left_s = saved_s + plan.every - begin_s
                left = (left_s if left_s > step_s / 2 else plan.every) / step_s
                k = left / max(1, round(left / k))
            steps = max(1, min(round(k), plan.steps - record.steps))
            yield from self.round(steps, exchange)
            record.steps += steps
            record.trained_s += env.now - begin_s
            record.trained_steps += steps
            step_s = (env.now - begin_s) / steps
            due = saved_s + plan.every - env.now <= step_s / 2
            if saves and due and (saving is None or saving.processed):
                saved_s = env.now
                saving = env.process(self.save(saved))
        if saving is not None and not saving.processed:
            yield saving

    def round(self, k: int, exchange: _Exchange) -> Process:
        """Do k steps. Loading and activations overlap with all computation, gradients with the backward pass."""
        env, plan = self.env, self.plan
        beside = [env.process(self.load(k)), *exchange.begin(exchange.activations, k)]
        yield env.timeout(k * plan.forward)
        yield env.all_of(exchange.begin(exchange.tokens, k))
        beside += exchange.begin(exchange.gradients, k)
        yield env.timeout(k * plan.backward)
        yield env.all_of(beside)

    def load(self, k: int) -> Process:
        """Read what k steps need."""
        if self.plan.loaded and self.storage is not None and self.ends is not None:
            yield self.storage.read(self.ends, k * self.plan.loaded, self.rng)

    def save(self, saved: _Saved) -> Process:
        """Write a checkpoint of the steps done so far."""
        steps = self.record.steps
        if self.storage is not None and self.ends is not None:
            yield self.storage.write(self.ends, self.plan.checkpoint, self.rng)
        saved.steps = steps
        self.record.checkpoints += 1


@dataclass
class _Saved:
    """Steps that the last complete checkpoint holds."""

    steps: int = 0


class _Exchange:
    """What the nodes of a job send each other in a step, once they are known."""

    def __init__(self, job: JobProcess) -> None:
        plan, ends = job.plan, job.ends
        assert ends is not None
        self.job = job
        stages = ends.reshape(-1, plan.stages).T
        zones = zone_of(job.env.network.fabric, ends).reshape(stages.shape)
        if not job.scheduler.keeps_zones:
            zones = np.zeros_like(zones)  # who ignores zones builds one ring over all nodes
        sums = [_allreduce(row, zone, plan.gradients) for row, zone in zip(stages, zones, strict=True)]
        self.gradients = job.servers.spread(_moving(sums))
        forth = [Flows.of(here, there, plan.activations) for here, there in pairwise(stages)]
        back = [Flows.of(there, here, plan.activations) for here, there in pairwise(stages)]
        self.activations = job.servers.spread(_moving(forth + back))
        groups, shifts = ends.reshape(-1, plan.expert_nodes), range(1, plan.expert_nodes)
        share = 2 * plan.tokens / plan.expert_nodes  # there, and back
        tokens = [Flows.of(groups.ravel(), np.roll(groups, -shift, axis=1).ravel(), share) for shift in shifts]
        self.tokens = job.servers.spread(_moving(tokens))

    def begin(self, flows: Flows, k: int) -> list[simpy.Event]:
        """Begin the flows of k steps; nothing where there are none."""
        if not len(flows):
            return []
        env, plan = self.job.env, self.job.plan
        return [env.transfer_all(flows.src, flows.dst, flows.size_bytes * k, sl=ASK if plan.sl is None else plan.sl)]


def _allreduce(ends: NDArray[np.int32], zone: NDArray[np.int16], size_bytes: float) -> Flows:
    """Return what crosses each edge: a ring within a zone; over zones, trees that one pair of nodes joins."""
    n = len(ends)
    if n < 2:
        return concatenate([])
    if len(np.unique(zone)) == 1:
        return Flows.of(ends, np.roll(ends, -1), 2 * (n - 1) / n * size_bytes)
    edges = []
    for tree in zone_trees(zone):
        child = np.flatnonzero(tree >= 0)
        share = size_bytes / 2
        edges += [Flows.of(ends[child], ends[tree[child]], share), Flows.of(ends[tree[child]], ends[child], share)]
    return concatenate(edges)


def _moving(parts: list[Flows]) -> Flows:
    """Return the flows of all parts that move anything."""
    return concatenate([part for part in parts if part.size_bytes.any()])
