"""Jobs that train on one network: closed forms of a round, failures, and the same bytes after a stop."""

from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from helpers.clusters import zoned
from helpers.fluids import routed
from routing.routed import Routed
from simulate.cluster.job import JobRecord
from simulate.cluster.queue import FAILURES_A_NODE_DAY, Queue, QueuedJob, QueueSpec
from simulate.cluster.run import ClusterRun
from simulate.traffic.network import Network
from simulate.traffic.placement import zone_of
from topo.errors import HeddleError
from topo.fabric import Role

FABRIC = zoned(leaves=4, spines=20, n_gpus=24, n_storage=8, joints=2, ports=4)
NETWORK = Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)
RATE = 25e9
FIGURES = {"name": "job", "nodes": 4, "steps": 100, "forward": "100 ms", "backward": "200 ms"}
JOB = QueuedJob.model_validate(FIGURES)


def replace(job: QueuedJob, **figures: Any) -> QueuedJob:
    """The job with other figures, of any size."""
    return job.model_copy(update=figures)


def queue(jobs: tuple[QueuedJob, ...], seed: int = 0, **rules: Any) -> Queue:
    return Queue.of(QueueSpec(jobs=(JOB,)).model_copy(update={"jobs": jobs, **rules}), seed)


def run(*jobs: QueuedJob, until_s: float = 1e9, **options: Any) -> ClusterRun:
    result = ClusterRun(NETWORK, queue(jobs, **{"failures_a_node_day": 0.0, **options}))
    assert result.play(until_s)
    return result


def only(*jobs: QueuedJob, **options: Any) -> JobRecord:
    return run(*jobs, **options).records[0]


@pytest.mark.parametrize("round_s", [0.1, 3.0, 1e6])
def test_computation_alone(round_s: float) -> None:
    record = only(replace(JOB, submit=5.0), round=round_s)
    assert (record.begin_s, record.end_s) == pytest.approx((5.0, 35.0))
    assert record.steps == record.trained_steps == 100
    assert record.step_s == pytest.approx(0.3)


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0, 100.0, 1e4])
def test_times_of_short_runs_are_shown(scale: float) -> None:
    job = replace(JOB, submit=10.0 * scale, forward=0.2 / 3 * scale, backward=0.4 / 3 * scale)
    columns = {column.name: column for column in run(job, round=scale).table.columns}
    assert columns["ended"].values[0] == pytest.approx(30.0 * scale / 3600)
    assert all(
        float(columns[name].text(0)) == pytest.approx(columns[name].values[0], rel=0.02) for name in ("began", "ended")
    )


@pytest.mark.parametrize("round_s", [0.1, 3.0])
def test_gradients_are_summed_beside_the_backward_pass(round_s: float) -> None:
    for share, exposed in ((0.15, 0.0), (0.4, 0.2)):  # ring of four on one leaf: 2 (n - 1) / n of the gradients
        record = only(replace(JOB, nodes=3, gradients=share * RATE * 3 / 4), round=round_s)
        assert record.step_s == pytest.approx(0.3 + exposed, rel=1e-6)


def test_tokens_are_exposed_and_activations_are_not() -> None:
    tokens = replace(JOB, nodes=2, expert_nodes=2, tokens=0.1 * RATE)
    assert only(tokens).step_s == pytest.approx(0.4)  # half of them leave the node, and come back
    sends = replace(JOB, nodes=2, stages=2, activations=0.25 * RATE)
    assert only(sends).step_s == pytest.approx(0.3)
    assert only(replace(sends, activations=0.5 * RATE)).step_s == pytest.approx(0.5)


def test_loading_is_hidden_until_it_takes_longer() -> None:
    assert only(replace(JOB, nodes=1, loaded=0.1 * RATE)).step_s == pytest.approx(0.3)
    assert only(replace(JOB, nodes=1, loaded=0.6 * RATE)).step_s == pytest.approx(0.6)


def test_a_job_over_zones_has_one_pair_across() -> None:
    wide = run(replace(JOB, nodes=24, gradients=1e6))
    assert wide.records[0].spanned_zones
    carried = wide.env.engine.loads()[: FABRIC.n_ports]
    zone = FABRIC.zone[FABRIC.port_node]
    crossing = np.flatnonzero((zone >= 0) & (FABRIC.zone[np.maximum(FABRIC.peer_node, 0)] == -1) & (FABRIC.peer >= 0))
    # Both trees cross on the same pair: half of the gradients each, up and down.
    assert np.sort(carried[crossing])[-2:] == pytest.approx([100e6, 100e6])
    assert np.count_nonzero(carried[crossing]) == 2


def test_a_job_over_zones_has_its_pipelines_within_them() -> None:
    """24 nodes, twelve a zone, in stages of four: three pipelines a zone, and nothing but sums crosses."""
    wide = run(replace(JOB, nodes=24, stages=4, activations=1e6))
    assert wide.records[0].spanned_zones
    carried = wide.env.engine.loads()[: FABRIC.n_ports]
    joint = (FABRIC.role[FABRIC.port_node] == Role.JOINT) & (FABRIC.peer >= 0)
    assert carried.sum() > 0
    assert carried[joint].sum() == 0


@pytest.mark.parametrize(
    ("rules", "crossings"),
    [
        ({}, range(1)),  # the rule: within a zone
        ({"placement": "random"}, range(1, 2)),  # from anywhere, zone after zone
        ({"placement": "random", "ordered": False}, range(2, 7)),  # from anywhere, as they come
    ],
)
def test_what_a_ring_over_zones_costs(rules: dict[str, object], crossings: range) -> None:
    """One link joins the zones, and all edges of a ring that cross share it."""
    fabric = zoned(leaves=4, spines=20, n_gpus=24, n_storage=8, joints=1, ports=1)
    plan = queue((replace(JOB, nodes=12, gradients=0.3 * RATE * 12 / 22),), failures_a_node_day=0.0, **rules)
    cluster = ClusterRun(Network.of(Routed(fabric, routed(fabric)), latency_s=0), plan)
    cluster.play(20.0)
    zone = zone_of(fabric, cluster.jobs[0].ends)
    across = np.count_nonzero((zone == 0) & (np.roll(zone, -1) == 1))
    assert across in crossings
    cluster.play(1e9)
    assert cluster.records[0].step_s == pytest.approx(0.1 + 0.3 * max(across, 1))


def test_checkpoints_every_five_minutes() -> None:
    record = only(replace(JOB, steps=10_000, checkpoint=1e9))
    assert record.checkpoints == 10
    assert record.step_s == pytest.approx(0.3)
    assert record.end_s is not None
    assert 3000 < record.end_s < 3001  # the last one is waited for


@pytest.mark.parametrize("round_s", [0.3, 7.0, 30.0, 1000.0])
def test_checkpoints_are_as_many_in_rounds_of_any_length(round_s: float) -> None:
    """5,000 s, every 12 s. Steps take .5 s by their gradients, not the .3 s of their computation."""
    job = replace(JOB, nodes=3, steps=10_000, gradients=0.4 * RATE * 3 / 4, checkpoint=1e7, every=12.0)
    assert only(job, round=round_s).checkpoints == pytest.approx(5000 / 12, abs=2)


def test_a_failure_costs_what_was_not_saved() -> None:
    job = replace(JOB, nodes=24, steps=20_000, checkpoint=1e9)
    record = only(job, failures_a_node_day=2.0, repair=600.0, seed=3)
    assert record.failures > 1
    assert record.steps == 20_000
    lost = record.trained_steps - record.steps
    assert 0 < lost <= record.failures * 1100  # five minutes, and a round
    assert record.end_s is not None
    assert record.end_s > 6000 + 600 * record.failures  # all nodes are needed, so it waits for the repair


def mix(**options: Any) -> Queue:
    jobs = (
        replace(JOB, name="ring", nodes=9, steps=3000, gradients=3e9, checkpoint=2e9, loaded=1e8),
        replace(JOB, name="tokens", nodes=8, steps=2000, expert_nodes=4, tokens=2e9, submit=100.0),
        replace(JOB, name="stages", nodes=12, steps=2500, stages=3, activations=1e9, gradients=1e9),
        replace(JOB, name="late", nodes=5, steps=500, submit=700.0),
    )
    return queue(jobs, failures_a_node_day=20.0, repair=60.0, **options)


def fingerprint(run: ClusterRun) -> bytes:
    return repr(run.records).encode() + run.env.engine.loads().tobytes()


@pytest.mark.slow
def test_a_stopped_run_ends_with_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulate.cluster.run.LOOK_S", 0.0)  # by events and not by time, which differs
    looks: list[None] = []
    whole = ClusterRun(NETWORK, mix(round=2.0))
    assert whole.play(1e9, stop=lambda: bool(looks.append(None)))
    assert sum(record.failures for record in whole.records) > 0

    saved = None
    finished = False
    stops = 0
    while not finished:
        part = ClusterRun(NETWORK, mix(round=2.0), saved)
        left = iter(range(len(looks)))
        finished = part.play(
            1e9,
            stop=lambda part=part, left=left: not part.env.replaying and next(left) == len(looks) // 3,  # type: ignore[misc]
        )
        saved = part.save()
        stops += 1
    assert stops > 2
    assert fingerprint(part) == fingerprint(whole)


@pytest.mark.slow
def test_same_seed_same_bytes() -> None:
    first, again, other = (ClusterRun(NETWORK, mix(seed=seed)) for seed in (1, 1, 2))
    for one in (first, again, other):
        one.play(1500.0)
    assert fingerprint(first) == fingerprint(again) != fingerprint(other)


@pytest.mark.slow
def test_time_passes_and_progress_is_told() -> None:
    told: list[float] = []
    late = ClusterRun(NETWORK, mix(round=2.0))
    assert late.play(900.0, progress=told.append)
    assert len(told) > 1
    assert told == sorted(told)
    assert any(record.end_s is None for record in late.records)


@pytest.mark.parametrize("until_s", [4.9, 20.0, 35.5])
def test_nothing_happens_after_the_time(until_s: float) -> None:
    part = run(replace(JOB, submit=5.0), until_s=until_s, round=3.0)
    assert part.env.now <= until_s
    (record,) = part.records
    assert record.steps == max(0, int((until_s - 5.0 + 1e-6) / 3.0)) * 10 if until_s < 35 else 100
    assert (record.end_s is None) == (until_s < 35)


def test_the_rate_of_failures_is_the_published_one() -> None:
    a_day = 1200 * FAILURES_A_NODE_DAY  # on 1,200 nodes
    assert a_day == pytest.approx(1.53, abs=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 0}, "nodes"),
        ({"nodes": 5, "stages": 2}, "divides the 5 nodes"),
        ({"forward": "-1 s"}, "forward"),
        ({"forward": "0 s", "backward": "0 s"}, "more than 0 s of computation"),
    ],
)
def test_refuses_jobs(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        QueuedJob.model_validate(FIGURES | change)


def test_refuses_plans() -> None:
    with pytest.raises(ValidationError, match="at least one job"):
        QueueSpec(jobs=())
    with pytest.raises(HeddleError, match="a second job with the name job"):
        queue((JOB, JOB))
    with pytest.raises(ValidationError, match="greater than 0"):
        QueueSpec.model_validate({"jobs": (JOB,), "round": "0 s"})
    with pytest.raises(HeddleError, match="job job: found 25 nodes; expected at most 24"):
        run(replace(JOB, nodes=25))
    saved = run(JOB).save()
    with pytest.raises(HeddleError, match="another plan"):
        ClusterRun(NETWORK, queue((replace(JOB, steps=3),)), saved)
