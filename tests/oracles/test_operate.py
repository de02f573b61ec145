"""Queues of jobs that only compute, played again with nothing but counts of nodes."""

from fractions import Fraction

import numpy as np
import pytest

import simulate
from helpers.clusters import zoned
from helpers.fluids import routed
from helpers.strategies import nightly, slow_but
from routing.routed import Routed
from simulate.cluster.queue import Queue, QueuedJob, QueueSpec
from simulate.cluster.run import ClusterRun

NODES = 24
FABRIC = zoned(leaves=4, spines=2, n_gpus=NODES, n_storage=4, joints=1, ports=1)
NETWORK = simulate.Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)


def queued(rng: np.random.Generator) -> list[QueuedJob]:
    """In quarters of a second, which floats hold exactly; some come together, some are alike."""
    return [
        QueuedJob(
            name=f"job{at}",
            nodes=int(rng.integers(1, NODES + 1)),
            steps=int(rng.integers(1, 40)),
            forward=f"{rng.integers(1, 8) / 4} s",
            backward=f"{rng.integers(0, 8) / 4} s",
            submit=f"{rng.integers(0, 200) // 4} s",
            copies=int(rng.integers(1, 4)),
            apart=f"{rng.integers(0, 3)} s",
        )
        for at in range(6)
    ]


def by_counting(jobs: list[QueuedJob]) -> dict[str, tuple[Fraction, Fraction]]:
    """When each job begins and ends: whoever waits longest goes first, but whoever fits need not wait for another."""
    comes = []
    for job in jobs:
        for number in range(job.copies):
            name = job.name if job.copies == 1 else f"{job.name}-{number}"
            takes = job.steps * Fraction(job.forward + job.backward)
            comes.append((Fraction(job.submit) + number * Fraction(job.apart), len(comes), name, job.nodes, takes))
    comes.sort()
    waiting, running, free, times = [], [], NODES, {}
    while comes or running:
        now = min([job[0] for job in comes[:1]] + [end for end, _ in running])
        free += sum(nodes for end, nodes in running if end == now)
        running = [(end, nodes) for end, nodes in running if end > now]
        waiting += [job for job in comes if job[0] == now]
        comes = [job for job in comes if job[0] > now]
        for job in list(waiting):
            _, _, name, nodes, takes = job
            if nodes <= free:
                waiting.remove(job)
                free -= nodes
                running.append((now + takes, nodes))
                times[name] = now, now + takes
    return times


def sizes(jobs: list[QueuedJob]) -> dict[str, int]:
    return {name: job.nodes for job in jobs for name in (job.name, *(f"{job.name}-{n}" for n in range(job.copies)))}


@pytest.mark.parametrize("placement", ["random", "compact", "slurm-tree"])
@pytest.mark.parametrize("seed", [*slow_but(range(8), 0, 1), *(nightly(seed) for seed in range(8, 300))])
def test_jobs_begin_and_end_when_nodes_are_free(seed: int, placement: str) -> None:
    """And node hours are conserved: those that jobs had are those that the run counts."""
    rng = np.random.default_rng(seed)
    jobs = queued(rng)
    rules = {
        "jobs": tuple(jobs),
        "placement": placement,
        "failures_a_node_day": 0.0,
        "round": f"{rng.integers(1, 9)} s",
    }
    run = ClusterRun(NETWORK, Queue.of(QueueSpec(**rules), seed))
    expected, nodes = by_counting(jobs), sizes(jobs)
    assert run.play(1e9)
    found = {record.name: (record.begin_s, record.end_s) for record in run.records}
    assert found.keys() == expected.keys()
    submit = {record.name: record.begin_s - record.waited_s for record in run.records}
    for name, (begin, end) in expected.items():
        assert found[name] == pytest.approx((float(begin), float(end)))
        assert submit[name] == pytest.approx(
            next(float(job.submit) + (int(name.rpartition("-")[2]) if job.copies > 1 else 0) * job.apart
                 for job in jobs if name.partition("-")[0] == job.name)
        )  # fmt: skip
    node_s = sum(nodes[name] * (end - begin) for name, (begin, end) in expected.items())
    last = max(end for _, end in expected.values())
    assert run.now_s == pytest.approx(float(last))
    assert run.utilisation == pytest.approx(float(node_s / (NODES * last)))


@pytest.mark.parametrize("seed", range(6))
def test_a_day_that_ends_early_has_the_node_hours_until_then(seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs = queued(rng)
    expected, nodes = by_counting(jobs), sizes(jobs)
    until = Fraction(int(rng.integers(10, 120)), 2)
    run = ClusterRun(NETWORK, Queue.of(QueueSpec(jobs=tuple(jobs), placement="random", failures_a_node_day=0.0), seed))
    run.play(float(until))
    until = min(until, max(end for _, end in expected.values()))
    assert run.now_s == pytest.approx(float(until))
    had = sum(nodes[name] * (min(end, until) - begin) for name, (begin, end) in expected.items() if begin < until)
    assert run.utilisation == pytest.approx(float(had / (NODES * until)))
    for record in run.records:
        begin, end = expected[record.name]
        assert (record.begin_s is None) == (begin > until), record
        assert (record.end_s is None) == (end > until), record
