"""The workloads that ship fit on the clusters that ship."""

from pathlib import Path

import numpy as np
import pytest

from simulate.traffic.placement import leaf_of, zone_of
from simulate.workload.place import Workload
from simulate.workload.read import read_workload
from simulate.workload.spec import WorkloadSpec
from topo.cluster import read

CONFIGS = Path(__file__).parents[3] / "configs"


@pytest.fixture(scope="module")
def three_jobs() -> tuple[Workload, list[np.ndarray], list[np.ndarray]]:
    cluster = read(CONFIGS / "fire-flyer-2.yaml")
    (fabric,) = cluster.fabrics
    workload = read_workload(CONFIGS / "workloads" / "three-jobs.yaml", fabric)
    zones = [zone_of(fabric, job.ends) for job in workload.jobs]
    return workload, zones, [leaf_of(fabric, job.ends) for job in workload.jobs]


def test_jobs_stand_where_the_rules_say(three_jobs: tuple[Workload, list[np.ndarray], list[np.ndarray]]) -> None:
    workload, zones, leaves = three_jobs

    assert np.bincount(zones[0]).tolist() == [256, 256]
    assert len(np.unique(zones[1])) == 1
    assert len(np.unique(leaves[2])) == 1
    ends = np.concatenate([job.ends for job in workload.jobs])
    assert len(np.unique(ends)) == len(ends) == 512 + 64 + 4


def test_one_pair_of_nodes_talks_across_the_zones(
    three_jobs: tuple[Workload, list[np.ndarray], list[np.ndarray]],
) -> None:
    workload, zones, _ = three_jobs
    job = workload.jobs[0]
    zone = dict(zip(job.ends.tolist(), zones[0].tolist(), strict=True))
    mine = workload.job == 0
    pairs = set(zip(workload.flows.src[mine].tolist(), workload.flows.dst[mine].tolist(), strict=True))

    assert len({frozenset(pair) for pair in pairs if zone[pair[0]] != zone[pair[1]]}) == 1


def test_bytes_that_nobody_asks_for_are_not_sent() -> None:
    """Keys of bytes, of every kind of job: what is left out is nothing."""
    schema = WorkloadSpec.model_json_schema()
    asked = [
        (part, key, value["default"])
        for part, model in schema["$defs"].items()
        for key, value in model.get("properties", {}).items()
        if key in ("activations", "gradients", "tokens", "loaded", "checkpoint", "parameters") and "default" in value
    ]
    assert asked and [one for one in asked if one[2] not in (0, None)] == []
