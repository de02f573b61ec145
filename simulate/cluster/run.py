"""A cluster at work, for hours or days: jobs come, wait for nodes, train, lose nodes and end; all on one network."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from routing.lanes.policy import ASK
from simulate.cluster.resumable import Arrays, ResumableEnvironment
from simulate.cluster.scheduler import Scheduler
from simulate.cluster.training_job import JobPlan, JobRecord, TrainingJob
from simulate.network import Network
from simulate.workload.storage import BulkStorage
from topo.errors import Finding, HeddleError, SpecError
from topo.fabric import Role

FAILURES_A_NODE_DAY = 292 / 1250 / 183
"""Table VII of An et al., SC'24, arXiv 2408.14158: 292 failures of main memory, network and GPUs from October 2023 to
March 2024, of some 1,250 nodes."""

DAY_S = 86_400.0
STEPS_A_LOOK = 500
"""Events between two reports of progress."""


@dataclass(frozen=True)
class ClusterPlan:
    """What there is to do, and by which rules."""

    jobs: tuple[JobPlan, ...]
    cross_zone_jobs: int | None = 1
    """Jobs that may span zones at a time; None draws nodes from all that are free."""
    ordered: bool = True
    """Whether neighbours in a job are neighbours in the fabric, see `simulate.cluster.scheduler`."""
    failures_a_node_day: float = FAILURES_A_NODE_DAY
    repair_s: float = 4 * 3600.0
    """From the failure of a node until it can be given again; an assumption."""
    round_s: float = 30.0
    """Computation that is played at a time, see `simulate.cluster.training_job`."""
    storage_streams: int = 4
    storage_sl: int = ASK
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.jobs:
            raise HeddleError("found a cluster without jobs; expected at least one")
        names = [job.name for job in self.jobs]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise HeddleError(f"found {names.count(twice)} jobs with the name {twice}; expected a name for each")
        for name in ("failures_a_node_day", "repair_s"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise HeddleError(f"found {name} {value}; expected a number that is not negative")
        if not self.round_s > 0:
            raise HeddleError(f"found rounds of {self.round_s} s; expected more than 0")


class ClusterRun:
    """The compute nodes of a fabric under a plan.

    ::

        run = ClusterRun(network, plan)
        if not run.play(86_400, stop=lambda: pressed):
            saved = run.save()                            # ... later ...
            run = ClusterRun(network, plan, saved)

    Parameters
    ----------
    saved
        What `save` gave of a run of the same plan on the same network; it goes on from there.

    Raises
    ------
    HeddleError
        When a job cannot have as many nodes as it wants (with its place), or what was saved is of another plan or
        network.
    """

    def __init__(self, network: Network, plan: ClusterPlan, saved: Arrays | None = None) -> None:
        self.plan = plan
        if saved is not None and bytes(saved.get("plan", np.zeros(0, np.uint8))) != repr(plan).encode():
            raise HeddleError("a saved run is of another plan; go on with the one that it was saved from")
        self.env = ResumableEnvironment(network, saved)
        fabric = network.fabric
        ends = np.arange(fabric.n_switches, fabric.n_end_ports)
        able = (fabric.role[fabric.end_node[ends]] == Role.COMPUTE) & (fabric.end_switch[ends] >= 0)
        ends = ends[able]
        if not len(ends):
            raise HeddleError(f"{fabric.name} has no compute nodes")
        rng = np.random.default_rng(plan.seed)
        for_nodes, for_failures, *for_jobs = rng.spawn(2 + len(plan.jobs))
        self.scheduler = Scheduler(
            self.env, fabric, ends, for_nodes, cross_zone_jobs=plan.cross_zone_jobs, ordered=plan.ordered
        )
        most = self.scheduler.most_nodes
        findings = [
            Finding(
                job.where or f"job {job.name}", f"{job.nodes:,} nodes", f"at most {most:,}, as many as a job can have"
            )
            for job in plan.jobs
            if job.nodes > most
        ]
        if findings:
            raise SpecError(list(dict.fromkeys(findings)))
        stores = bool(np.any(fabric.role == Role.STORAGE))
        storage = BulkStorage(self.env, streams=plan.storage_streams, sl=plan.storage_sl) if stores else None
        self.jobs = [
            TrainingJob(self.env, job, self.scheduler, storage, of_job, plan.round_s)
            for job, of_job in zip(plan.jobs, for_jobs, strict=True)
        ]
        self._ended = self.env.all_of([job.process for job in self.jobs])
        if plan.failures_a_node_day > 0:
            self.env.process(self._fail(for_failures))

    @property
    def records(self) -> tuple[JobRecord, ...]:
        """What has become of each job so far."""
        return tuple(job.record for job in self.jobs)

    def play(
        self,
        until_s: float,
        *,
        progress: Callable[[float], None] = lambda now_s: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Play until all jobs have ended, or what comes next is later than this; return whether that is so.

        Parameters
        ----------
        progress
            Is told the simulated time now and then.
        stop
            Is asked now and then whether to stop before; `play` may be called again, and `save`, unless the run still
            catches up with what was saved.
        """
        steps = 0
        while not self._ended.processed and self.env.settle() <= until_s:
            self.env.step()
            steps += 1
            if steps % STEPS_A_LOOK == 0:
                progress(self.env.now)
                if stop():
                    return False
        return True

    def save(self) -> Arrays:
        """Return all that is needed to go on from here, as arrays."""
        return {"plan": np.frombuffer(repr(self.plan).encode(), np.uint8), **self.env.snapshot()}

    def _fail(self, rng: np.random.Generator) -> Generator[simpy.Event, Any, None]:
        """Let nodes fail one by one, at random, each for as long as its repair takes."""
        ends = self.scheduler.ends
        mean_s = DAY_S / (self.plan.failures_a_node_day * len(ends))
        while True:
            yield self.env.timeout(rng.exponential(mean_s))
            end = int(rng.choice(ends))
            if not self.scheduler.is_up(end):
                continue
            self.scheduler.take_down(end)
            self.env.process(self._repair(end))
            for job in self.jobs:
                if job.ends is not None and end in job.ends:
                    job.fail()

    def _repair(self, end: int) -> Generator[simpy.Event, Any, None]:
        yield self.env.timeout(self.plan.repair_s)
        self.scheduler.repair(end)
