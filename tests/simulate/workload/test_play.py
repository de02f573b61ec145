"""Storage beside other jobs: the same bytes each time, every flow with its job, and shares by lanes."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.clusters import CATALOG, tree, zoned
from helpers.fluids import routed
from routing.lanes.policy import ASK
from routing.routed import Routed
from simulate import allreduce, collective, parse_workload, play
from simulate.engines.outcome import Outcome
from simulate.traffic.collectives.algorithms import default_chunks, schedule
from simulate.traffic.network import Network
from simulate.workload.place import Workload, place_workload
from simulate.workload.play import job_results, play_with_storage
from simulate.workload.spec import WorkloadSpec
from topo.errors import HeddleError, SpecError
from topo.files.text import config_root
from topo.files.yaml import parse_yaml, read_yaml
from topo.spec.validation import validate

FABRIC = zoned(leaves=4, spines=2, n_gpus=12, n_storage=8, joints=1, ports=1)
NETWORK = Network.of(Routed(FABRIC, routed(FABRIC)), latency_s=0)
MODEL = CATALOG.node("storage-3fs")

BOTH = """
storage: {senders: 4, files: 3}
jobs:
- {name: reads, kind: storage, ranks: 4, within: zone, batches: 3, batch: 8, start: 1 ms}
- {name: writes, kind: storage, beside: reads, start: 1 ms, checkpoint: 5 MiB, checkpoints: 2, every: 20 ms, sl: 1}
- {name: sum, kind: collective, rank: adapter, collective: allreduce, size: 20 MB, beside: reads, repeat: 2, sl: 1}
"""


def placed(text: str, seed: int = 0) -> Workload:
    document = parse_yaml(text, "w.yaml")
    return place_workload(
        validate(WorkloadSpec, document), document, FABRIC, {}, np.random.default_rng(seed), CATALOG.nodes
    )


def run(text: str, seed: int = 0, network: Network = NETWORK) -> tuple[Workload, Outcome]:
    return play_with_storage(network, placed(text, seed), MODEL, n_bins=8)


def test_every_flow_has_its_job() -> None:
    workload, outcome = run(BOTH)
    reads, writes, total = job_results(workload, outcome)

    assert reads.bytes == 4 * 3 * 8 * 2**20
    assert reads.storage_gbytes_per_s == pytest.approx(reads.bytes / (reads.finish_s - 1e-3) / 1e9)
    assert writes.storage_gbytes_per_s == pytest.approx(4 * 2 * 5 * 2**20 / (writes.finish_s - 1e-3) / 1e9)  # once
    assert total.storage_gbytes_per_s is None
    assert writes.bytes == 4 * 2 * 2 * 5 * 2**20  # twice, and each on two servers
    assert total.bytes == pytest.approx(2 * 2 * 3 * 20e6)
    assert reads.start_s == 1e-3
    assert writes.finish_s > 20e-3
    assert set(workload.flows.sl[workload.job == 0].tolist()) == {ASK}
    assert set(workload.flows.sl[workload.job > 0].tolist()) == {1}
    assert outcome.resource_bytes.sum() == pytest.approx(
        (workload.flows.size_bytes * np.diff(outcome.routes.offset)[outcome.routes.route]).sum()
    )


def test_a_read_begins_with_its_request() -> None:
    """Ask, read the SSD, be asked, answer: three messages and the SSD pass before the first byte, and count."""
    workload, outcome = run("jobs: [{name: read, kind: storage, ranks: 1, batches: 1, batch: 1, start: 5 ms}]")
    (read,) = job_results(workload, outcome)
    ssd_s = MODEL.ssd_read_latency_us * 1e-6 + 2**20 / (MODEL.ssd_read_gbyte_per_s * 1e9)
    assert read.start_s == 5e-3
    assert read.time_s == pytest.approx(3 * 3e-6 + ssd_s + 2**20 / 25e9)


def test_same_seed_same_bytes() -> None:
    times = [run(BOTH, seed)[1].finish_s.tobytes() for seed in (1, 1, 2)]
    assert times[0] == times[1] != times[2]


def test_a_job_without_storage_beside_it_takes_its_time() -> None:
    text = (
        BOTH
        + "- {name: far, kind: collective, rank: adapter, collective: allreduce, size: 20 MB, zone: 1, within: zone}\n"
    )
    workload, outcome = run(text)
    far = placed(text).alone(3)
    assert job_results(workload, outcome)[3].finish_s == pytest.approx(play(NETWORK, far.flows).makespan_s)


@pytest.mark.slow
def test_lanes_keep_shares() -> None:
    """A client's port, full of reads by eight servers, and one message: 1 / 9 of it on one lane, half on its own."""
    text = """
storage: {senders: 8}
jobs:
- {name: reads, kind: storage, ranks: 2, within: leaf, batches: 40, batch: 32, loaders: 4, sl: 0}
- {name: shift, kind: collective, rank: adapter, collective: all-to-all,
   size: 60 MB, ranks: 2, beside: reads, sl: %d, start: 2 ms}
"""
    tables = replace(routed(FABRIC), sl2vl=(0, 1) + (0,) * 14)
    lanes = Network.of(Routed(FABRIC, tables), lane_weights=[1, 1], latency_s=0)
    times = []
    for network, sl in ((NETWORK, 1), (lanes, 1)):
        workload, outcome = run(text % sl, network=network)
        times.append(job_results(workload, outcome)[1].time_s)
    assert times[1] <= 2 * 30e6 / 25e9 * (1 + 1e-9)  # never less than half
    assert times[0] > 3 * times[1]


def test_refuses_what_cannot_be_set_up() -> None:
    with pytest.raises(HeddleError, match=r"w\.yaml:2:.*: found 9 replicas; expected at most 8, one a storage server"):
        run(BOTH.replace("senders: 4", "replicas: 9"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOTH.replace("batches: 3", "batches: 1000000"), "w.yaml:4:3: found 32,000,000 reads and writes up to here"),
        (
            BOTH.replace("batch: 8", "batch: 100000, loaders: 1000"),
            "reads and writes up to here; expected at most 10,000,000",
        ),
        (BOTH.replace("checkpoint: 5 MiB", "checkpoint: 900 TB"), "w.yaml:5:3: found"),
        (BOTH.replace("files: 3", "files: 3, chunk: 0 B"), "expected more than 0"),
        (BOTH.replace("files: 3", "files: 99999"), "expected at most 10,000"),
    ],
)
def test_refuses_what_nobody_can_wait_for(text: str, says: str) -> None:
    with pytest.raises(SpecError) as refusal:
        placed(text)
    assert says in str(refusal.value)


def test_refuses_storage_where_nobody_stores() -> None:
    document = parse_yaml("jobs: [{name: reads, kind: storage, batches: 1}]", "w.yaml")
    fabric = tree(40, leaves=2, spines=2)
    with pytest.raises(SpecError, match=r"w\.yaml:1:28: found .* expected storage servers"):
        place_workload(validate(WorkloadSpec, document), document, fabric, {}, np.random.default_rng(0), CATALOG.nodes)


def test_plays_flows_collectives_and_workloads_alike() -> None:
    hosts = FABRIC.ends(role="compute")
    job = {"name": "sum", "kind": "collective", "rank": "adapter", "collective": "allreduce", "size": "10 MB", "sl": 0}
    simulation = play(NETWORK, parse_workload({"jobs": [job]}, FABRIC), alone=True)
    task = allreduce(hosts, "10 MB")
    flows = play(NETWORK, task.flows(FABRIC))

    assert play(NETWORK, task).makespan_s == flows.makespan_s == simulation.makespan_s
    assert simulation.jobs[0].slowdown == 1.0
    assert simulation.outcome.timeline is not None
    assert flows.timeline is None


@pytest.mark.parametrize(
    ("kind", "algorithm", "shares", "chunks"),
    [
        ("broadcast", "ring", (64 + 6) / 64, 64),
        ("reduce", "ring", (64 + 6) / 64, 64),
        ("allreduce", "sharp", None, 64),
        ("allreduce", "double-binary-tree", None, 64),
        ("allreduce", "ring", 2 * 7 / 8, 1),
        ("all-gather", "recursive-doubling", None, 1),
    ],
)
def test_chunks_are_the_same_by_every_door(kind: str, algorithm: str, shares: float | None, chunks: int) -> None:
    """Along a chain of n ranks in c chunks a buffer takes (c + n - 2) / c of its time on one link."""
    ends, size = FABRIC.ends(role="compute")[:8], 80e6
    job = {"name": "a", "kind": "collective", "rank": "adapter", "collective": kind, "algorithm": algorithm}
    job |= {"size": "80 MB", "ranks": 8, "order": "none"} | ({"every_switch": True} if algorithm == "sharp" else {})
    found = play(NETWORK, parse_workload({"jobs": [job]}, FABRIC))
    task = collective(kind, ends, "80 MB", algorithm, every_switch=True)
    assert (found.jobs[0].chunks, task.chunks) == (chunks, chunks)
    assert (f"in {chunks} chunks" in found.jobs[0].what) == (chunks > 1) == (f"in {chunks} chunks" in repr(task))
    assert play(NETWORK, task).makespan_s == pytest.approx(found.makespan_s)
    if algorithm != "sharp":
        assert default_chunks(kind, algorithm) == chunks
        assert len(schedule(kind, algorithm, 8)) == len(schedule(kind, algorithm, 8, chunks=chunks))
    if shares is not None:
        assert found.makespan_s == pytest.approx(shares * size / 25e9)


def test_a_simulation_shows_itself() -> None:
    job = {
        "name": "sum",
        "kind": "collective",
        "rank": "adapter",
        "collective": "allreduce",
        "size": "10 MB",
        "ranks": 4,
    }
    simulation = play(NETWORK, parse_workload({"jobs": [job]}, FABRIC))
    headings = [column.heading for column in simulation.table.columns]
    assert headings == ["job", "what", "ranks", "each", "servers", "time", "algbw (GB/s)", "busbw (GB/s)"]
    assert next(simulation.table.rows())[:3] == ("sum", "allreduce by ring", 4)
    assert next(simulation.flow_table.rows())[:2] == ("sum", 24)
    assert "busbw (GB/s)" in simulation._repr_html_()
    found = simulation.to_dict()
    assert [*found] == ["fabric", "makespan_s", "flows", "events", "caveats", "jobs", "links", "inside"]
    json.dumps(found)


def test_refuses_an_engine_of_another_name() -> None:
    with pytest.raises(HeddleError, match="found the engine 'packet'; expected one of fluid"):
        play(NETWORK, allreduce(FABRIC.ends(role="compute"), 1e6), engine="packet")


@pytest.mark.parametrize(
    ("job", "ranks", "rank"),
    [
        ("kind: collective, rank: adapter, collective: allreduce, size: 1 MB, ranks: 4", 4, "adapter"),
        ("kind: training, rank: adapter, parallel: data, forward: 1 us, backward: 1 us, ranks: 4", 4, "adapter"),
        ("kind: collective, collective: allreduce, size: 1 MB, ranks: 30", 30, "gpu"),
        ("kind: training, parallel: data, forward: 1 us, backward: 1 us, ranks: 32", 32, "gpu"),
        (
            "kind: inference, ranks: 25, prefill: 8, requests: 17, layers: 1, prompt: 1 us, cache: 1 kB, tokens: 1, "
            "token: 1 us",
            25,
            "gpu",
        ),
        ("kind: gpu-collective, size: 1 MB, ranks: 4", 32, "gpu"),
        ("kind: gpu-training, parallel: data, forward: 1 us, backward: 1 us, ranks: 4", 32, "gpu"),
    ],
)
def test_a_result_says_what_a_rank_is(job: str, ranks: int, rank: str) -> None:
    """Servers of Fire-Flyer 2 have one adapter and eight GPUs."""
    result = play(NETWORK, parse_workload(f"jobs: [{{name: a, {job}}}]", FABRIC))
    assert (result.jobs[0].ranks, result.jobs[0].rank) == (ranks, rank)
    assert result.to_dict()["jobs"][0]["rank"] == rank
    assert rank in next(iter(result.table.rows()))
    assert result.table.to_dict()["servers"] == [4]


SMALL = {"size": "1 MiB", "parameters": "1 MB", "cache": "1 MB", "activations": "1 MB", "experts": "64 kB"} | {
    "checkpoint": "4 MiB", "sample": "64 KiB", "bucket": "1 MB", "forward": "1 us", "backward": "2 us", "layers": 2,
    "prompt": "1 us", "token": "1 us", "requests": 8, "repeat": 1, "steps": 1, "batches": 1, "loaders": 1, "prefill": 2,
    "servers": 2, "chunks": 4, "micro_batches": 2, "compute": "1 us",
}  # fmt: skip
"""What shipped workloads have, made small."""


@pytest.mark.parametrize("path", sorted((config_root() / "workloads").glob("*.yaml")), ids=lambda path: path.stem)
@pytest.mark.slow
def test_packets_play_every_workload_that_fluid_flows_play(path: Path, tmp_path: Path) -> None:
    """In no less than the fullest part needs, and, but for storage, whose clients act on what they see, the same."""
    spec = read_yaml(path).value
    for job in spec["jobs"]:
        job |= {key: value for key, value in SMALL.items() if key in job}
        if job["kind"] != "flows":
            job["ranks"] = 2 if job.get("within") == "leaf" else 4
        else:
            rows = "".join(f"0,storage{at} mlx5_0,gpu00,1e6\n" for at in range(2))
            (tmp_path / job["file"]).write_text(f"start_s,src,dst,bytes\n{rows}")
    workload = parse_workload(spec, FABRIC, folder=tmp_path)
    network = Network.of(Routed(FABRIC, routed(FABRIC)))
    fluid, packets = (play(network, workload, engine=engine) for engine in ("fluid", "packets"))
    outcome = packets.outcome
    least_s = (outcome.resource_bytes / outcome.network.capacity_bytes_s).max()
    assert outcome.makespan_s >= least_s * (1 - 1e-3)
    assert np.isfinite(outcome.finish_s).all()
    if not workload.acts:
        assert outcome.resource_bytes == pytest.approx(fluid.outcome.resource_bytes)
        assert outcome.makespan_s <= 2 * fluid.makespan_s
    assert {*fluid.outcome.keywords} - {"fluid flows"} <= {*outcome.keywords}
