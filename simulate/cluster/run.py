"""A cluster at work for hours or days: jobs arrive, wait for nodes, train, lose nodes and end, all on one network."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from routing.lanes.policy import ASK
from simulate.cluster.failures import DAY_S
from simulate.cluster.job import JobProcess, JobRecord
from simulate.cluster.queue import Queue
from simulate.cluster.resumable import Arrays, ResumableEnvironment
from simulate.cluster.scheduler import Scheduler
from simulate.engines.outcome import LinkClass, link_classes, links_table
from simulate.engines.simpy_bridge import Process
from simulate.traffic.network import Network
from simulate.traffic.servers import ComputeServers
from simulate.workload.storage import BulkStorage
from topo.amounts import percent
from topo.budget import QUEUE_FLOWS, QUEUE_ROUNDS
from topo.errors import Finding, HeddleError, SpecError, plural
from topo.table import Shown, Table

COPIES = 2
"""Storage servers that keep what is written, as 3FS does."""
LOOK_S = 0.1
"""Seconds between two reports of progress."""


class ClusterRun(Shown):
    """The compute servers of a fabric under the jobs of a queue; a server is a node, whatever ports it has.

    ::

        run = ClusterRun(network, queue)
        if not run.play(86_400, stop=lambda: pressed):
            saved = run.save()                            # ... later ...
            run = ClusterRun(network, queue, saved)

    Parameters
    ----------
    saved
        What `save` gave of a run of the same queue on the same network; it goes on from there.

    Raises
    ------
    HeddleError
        When a job cannot have as many nodes as it wants, or the storage that it needs (with its place), or what was
        saved is of another queue or network.
    """

    def __init__(self, network: Network, queue: Queue, saved: Arrays | None = None) -> None:
        self.queue = queue
        if saved is not None and bytes(saved.get("plan", np.zeros(0, np.uint8))) != _in_full(queue):
            raise HeddleError("a saved run is of another plan; continue with the plan from which it was saved")
        self.env = ResumableEnvironment(network, saved)
        fabric, rules = network.fabric, queue.rules
        nodes = ComputeServers.of(fabric)
        for_nodes, for_failures, *for_jobs = np.random.default_rng(queue.seed).spawn(2 + len(queue.jobs))
        self.scheduler = Scheduler(
            self.env, fabric, nodes.ends, for_nodes, rules.placement, rules.cross_zone_jobs, rules.ordered
        )
        most = self.scheduler.most_nodes
        findings = [
            Finding(where, plural(job.nodes, "node"), f"at most {most:,}, as many as a job can have")
            for job, where in zip(queue.jobs, queue.where, strict=True)
            if job.nodes > most
        ]
        findings += [
            Finding(where, f"{flows:,} flows of a step", str(QUEUE_FLOWS))
            for job, where in zip(queue.jobs, queue.where, strict=True)
            if (flows := job.nodes * (nodes.rails.shape[1] * (job.expert_nodes + 3) + rules.storage_streams))
            > QUEUE_FLOWS.limit
        ]
        servers = len(nodes.stores)
        for job, where in zip(queue.jobs, queue.where, strict=True):
            wants = next((key for key in ("checkpoint", "loaded") if getattr(job, key)), None)
            if wants and not servers:
                expected = f"storage servers on the subnets that are played, or a job without `{wants}`"
                findings.append(Finding(where, f"`{wants}` and no storage server in {fabric.name}", expected))
            elif wants and not nodes.to_storage.shape[1]:
                expected = "a subnet with a port of every compute server and every storage server"
                findings.append(Finding(where, f"`{wants}` and storage that not all nodes can reach", expected))
            elif job.checkpoint and servers < COPIES:
                expected = f"{COPIES} or more, which keep a copy each of what is written"
                findings.append(Finding(where, "1 storage server", expected))
        if findings:
            raise SpecError(list(dict.fromkeys(findings)))
        storage = None
        if nodes.to_storage.shape[1]:
            sl = ASK if rules.storage_sl is None else rules.storage_sl
            storage = BulkStorage(self.env, nodes, streams=rules.storage_streams, replicas=min(COPIES, servers), sl=sl)
        self.jobs = [
            JobProcess(self.env, job, self.scheduler, nodes, storage, of_job, rules.round)
            for job, of_job in zip(queue.jobs, for_jobs, strict=True)
        ]
        self.now_s = 0.0
        """Time until which it has been played."""
        self._ended = self.env.all_of([job.process for job in self.jobs])
        if rules.failures_a_node_day > 0:
            self.env.process(self._fail(for_failures))

    @property
    def records(self) -> tuple[JobRecord, ...]:
        """What has become of each job so far."""
        waits = [0.0 if job.asked_s is None else self.now_s - job.asked_s for job in self.jobs]
        return tuple(
            replace(job.record, waited_s=job.record.waited_s + wait) for job, wait in zip(self.jobs, waits, strict=True)
        )

    @property
    def utilisation(self) -> float:
        """The part of the time until now that a node was a job's, mean over all nodes."""
        return self.scheduler.granted_s(self.now_s) / (len(self.scheduler.ends) * self.now_s or 1.0)

    @property
    def link_classes(self) -> tuple[LinkClass, ...] | None:
        """Mean load of each class of links until now, all lanes together; None while what was saved is replayed.

        Flows that are under way are not in it.
        """
        if self.env.replaying:
            return None
        network = self.env.network
        return link_classes(network, self.env.engine.loads()[None, : network.fabric.n_ports], self.now_s)

    @property
    def links(self) -> Table | None:
        """The same as a table."""
        classes = self.link_classes
        return None if classes is None else links_table(classes, self.env.network.fabric)

    @property
    def table(self) -> Table:
        """What has become of each job so far."""

        def hours(time_s: float | None) -> float | None:
            return None if time_s is None else time_s / 3600

        # Hundredths of hours, or of what the first digit of a shorter run stands for.
        digits = f".{max(2, 2 - math.floor(math.log10(max(self.now_s, 1.0) / 3600)))}f"
        return Table.of(
            f"after {self.now_s / 3600:{digits}} h, nodes in use {percent(self.utilisation)} of the time",
            self.records,
            (lambda job: f"{job.name} (over zones)" if job.spanned_zones else job.name, "job"),
            "nodes",
            (lambda job: job.leaves or None, "leaves"),
            (lambda job: hours(job.waited_s), "waited", "h", digits),
            (lambda job: hours(job.begin_s), "began", "h", digits),
            (lambda job: hours(job.end_s), "ended", "h", digits),
            "steps",
            (lambda job: job.step_s if job.trained_steps else None, "step", "s", ".3f"),
            (lambda job: job.step_s / job.compute_s if job.trained_steps else None, "of computation", "", ".2f"),
            *("failures", "checkpoints"),
        )

    def play(
        self,
        until_s: float,
        *,
        progress: Callable[[float], None] = lambda now_s: None,
        stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """Play until all jobs have ended or the next event is later than `until_s`; return False if stopped before.

        Parameters
        ----------
        progress
            Progress callback, called as ``progress(simulated time in seconds)``.
        stop
            Called now and then; the run stops when it returns true. `play` may be called again, and `save` unless the
            run is still replaying what was saved.

        Raises
        ------
        HeddleError
            When there may be more rounds of computation until then than `topo.budget.QUEUE_ROUNDS`.
        """
        self._check_rounds(until_s)
        look_s = time.monotonic() + LOOK_S
        while not self._ended.processed and self.env.settle() <= until_s:
            self.env.step()
            self.now_s = self.env.now
            if time.monotonic() >= look_s:
                look_s = time.monotonic() + LOOK_S
                progress(self.now_s)
                if stop():
                    return False
        if not self._ended.processed:
            self.now_s = until_s
        return True

    def _check_rounds(self, until_s: float) -> None:
        """Refuse what would go on for ever: the jobs have rounds of so many steps, on so many nodes at a time."""
        rounds, most_a_second = 0.0, 0.0
        for job in self.queue.jobs:
            steps = max(1, min(round(self.queue.rules.round / job.compute_s), job.steps))
            saves_a_second = 1 / job.every if job.checkpoint else 0.0
            a_second = min(1 / job.compute_s, 1 / (steps * job.compute_s) + saves_a_second)  # each ends a round
            rounds += min(job.steps * job.compute_s, max(0.0, until_s - job.submit)) * a_second
            most_a_second = max(most_a_second, a_second / job.nodes)
        most = min(rounds, most_a_second * until_s * len(self.scheduler.ends))
        if most > QUEUE_ROUNDS.limit:
            raise HeddleError(
                f"found {most:,.0f} rounds of computation in {until_s / 3600:g} h; expected {QUEUE_ROUNDS}: play fewer "
                "hours, or more steps in a `round`"
            )

    def save(self) -> Arrays:
        """Return all that is needed to resume from here, as arrays."""
        return {"plan": np.frombuffer(_in_full(self.queue), np.uint8), **self.env.snapshot()}

    def _fail(self, rng: np.random.Generator) -> Process:
        """Let nodes fail one by one at random, each until it is repaired."""
        ends = self.scheduler.ends
        mean_s = DAY_S / (self.queue.rules.failures_a_node_day * len(ends))
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

    def _repair(self, end: int) -> Process:
        yield self.env.timeout(self.queue.rules.repair)
        self.scheduler.repair(end)


def _in_full(queue: Queue) -> bytes:
    """Return what a saved run is compared by: all that a queue says."""
    return f"Queue(rules={queue.rules!r}, seed={queue.seed})".encode()
