"""Keys of jobs: what has no effect is refused at its place, and what is refused so has none."""

from typing import get_args

import pytest

import routing
import topo
from simulate import parse_workload, play
from simulate.workload.spec import Job, JobBase
from topo.errors import SpecError
from topo.fabric import Fabric

FABRIC = topo.preset("lab-20").fabric
DGX = topo.parse(
    {
        "name": "dgx",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 2}},
        "network": {"shape": "fat-tree", "switch": "QM9700"},
    }
)
JOBS: dict[str, type[JobBase]] = {
    get_args(job.model_fields["kind"].annotation)[0]: job for job in get_args(get_args(Job)[0])
}
SUM = "kind: collective, rank: adapter, collective: allreduce, size: 1 MB, ranks: 4"
TRAINED = "kind: training, rank: adapter, ranks: 4, forward: 1 ms, backward: 1 ms, parallel"
TUNED = "kind: gpu-training, ranks: 2, layers: 2, forward: 1 ms, backward: 1 ms, parallel"

IN_VAIN = [
    (SUM, "group: leaf"),
    (SUM, "every_switch: true"),
    (f"{SUM}, algorithm: halving-doubling", "chunks: 4"),
    (f"{SUM}, within: leaf", "spread: leaf"),
    (f"{SUM}, zone: 0", "spread: zone"),
    (f"{SUM}, nodes: [gpu03, gpu02, gpu01, gpu00]", "spread: leaf"),
    (f"{SUM}, nodes: [gpu03, gpu02, gpu01, gpu00]", "role: storage"),
    *((f"{TRAINED}: data, parameters: 1 MB", key) for key in ("micro_batches: 3", "servers: 3", "cached: 0.5")),
    *((f"{TRAINED}: data, model: vgg16", key) for key in ("layers: 3", "parameters: 1 GB", "activations: 1 MB")),
    *((f"{TRAINED}: pipeline, activations: 1 MB", key) for key in ("eager: 0 B", "layers: 3", "algorithm: zone-tree")),
    (f"{TRAINED}: tensor, layers: 2, activations: 1 MB", "bucket: 1 B"),
    (f"{TRAINED}: parameter-server, parameters: 1 MB", "cold: 0.5"),
    (f"{TRAINED}: hierarchical-parameter-server, parameters: 1 MB", "cold: 0.5"),
    (f"{TRAINED}: hierarchical-parameter-server, parameters: 1 MB", "ssd: 1 GB/s"),
    ("kind: storage, ranks: 2, batches: 2", "checkpoints: 2"),
    ("kind: storage, ranks: 2, checkpoint: 1 MB", "every: 3 s"),
    ("kind: storage, ranks: 2, checkpoint: 1 MB", "sample: 3 MiB"),
]
ON_DGX = [
    *((f"kind: gpu-collective, size: 1 MB, algorithm: {by}", "chunk: 1 B") for by in ("auto", "ring")),
    ("kind: gpu-collective, size: 1 MB", "every_switch: true"),
    ("kind: gpu-collective, size: 1 MB, algorithm: ring", "sharp: true"),
    ("kind: gpu-collective, size: 1 MB", "pxn: false"),
    (f"{TUNED}: expert, activations: 1 MB", "algorithm: ring"),
    (f"{TUNED}: sharded, parameters: 1 MB", "sharp: true"),
    (f"{TUNED}: tensor, activations: 1 MB", "launch: 1 s"),
]


def times(job: str, fabric: Fabric) -> tuple[list[int], list[float]]:
    """Where a job runs, and when its flows end."""
    workload = parse_workload(f"jobs: [{{name: a, {job}}}]", fabric)
    return workload.jobs[0].ends.tolist(), play(routing.route(fabric, "minhop"), workload).outcome.finish_s.tolist()


@pytest.mark.parametrize(("job", "key"), [*IN_VAIN, *ON_DGX])
def test_a_key_is_refused_where_it_changes_nothing(job: str, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fabric = DGX.fabric if (job, key) in ON_DGX else FABRIC
    name = key.partition(":")[0]
    with pytest.raises(SpecError, match=rf"^workload:1:\d+: found .*; expected nothing here: `{name}` has an effect "):
        times(f"{job}, {key}", fabric)
    monkeypatch.setattr(JOBS[job.split(",")[0].removeprefix("kind: ")], "uses", JobBase.uses)
    assert times(f"{job}, {key}", fabric) == times(job, fabric)


def test_what_stores_is_there() -> None:
    with pytest.raises(SpecError, match="`storage` has an effect only beside a job of `kind: storage`"):
        parse_workload(f"jobs: [{{name: a, {SUM}}}]\nstorage: {{senders: 2}}", FABRIC)
    with pytest.raises(SpecError, match="samples of 2,097,152 bytes; expected at most the 1,048,576 bytes of a chunk"):
        parse_workload("jobs: [{name: a, kind: storage, batches: 1, sample: 2 MiB}]", FABRIC)


@pytest.mark.parametrize(
    ("job", "said"), [(SUM.replace("1 MB", "0 MiB"), "0 MiB"), (f"{TRAINED}: data, bucket: 0 B", "0 B")]
)
def test_collectives_and_buckets_have_a_size(job: str, said: str) -> None:
    text = f"jobs: [{{name: a, {job}}}]"
    place = f"workload:1:{text.index(said) + 1}"
    with pytest.raises(SpecError, match=f'^{place}: found the text "{said}"; expected more than 0$'):
        parse_workload(text, FABRIC)
