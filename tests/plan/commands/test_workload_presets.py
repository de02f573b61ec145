"""Every workload that ships is played by its name's file, on a small Fire-Flyer 2 and with as many ranks as it has."""

import json
import re
from pathlib import Path

import pytest

from plan.cli import run
from topo.catalog.load import config_root

WORKLOADS = sorted((config_root() / "workloads").glob("*.yaml"))
ISSUE = {
    "HFReduce": "hfreduce",
    "HFReduce with NVLink": "hfreduce-nvlink",
    "NCCL as its tuner plays it": "nccl",
    "NCCL's all-to-all": "nccl-all-to-all",
    "3FS": "storage-reads",
    "3FS without its limit": "storage-reads-no-limit",
    "incast": "storage-incast",
    "checkpoint": "storage-checkpoint",
    "storage beside an allreduce": "storage-beside-allreduce",
    "data parallel": "training-vgg16",
    "sharded": "training-sharded",
    "pipeline": "training-pipeline",
    "tensor parallel": "training-tensor",
    "expert parallel": "training-experts",
    "parameter servers": "parameter-servers",
    "a hierarchy of parameter servers": "parameter-servers-hierarchical",
}
"""What the workloads are to show, each by a preset."""

NODES = 48
RANKS = 6


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two zones with joints and the lanes of Fire-Flyer 2, of 48 GPU servers and 20 storage servers."""
    text = (config_root() / "fire-flyer-2.yaml").read_text(encoding="utf-8")
    for old, new in (("count: 1200", f"count: {NODES}"), ("count: 180", "count: 20"), ("leaves: 40", "leaves: 4")):
        assert old in text
        text = text.replace(old, new)
    text = re.sub(r"^budget:.*", "", text, flags=re.MULTILINE | re.DOTALL)
    path = tmp_path_factory.mktemp("small") / "small.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def reduced(text: str) -> str:
    """The same jobs with as many ranks as a small fabric has, and less of what takes time."""
    text = re.sub(r"ranks: (\d+)", lambda found: f"ranks: {min(int(found[1]), RANKS)}", text)
    text = re.sub(r"servers: (\d+)", lambda found: f"servers: {min(int(found[1]), 2)}", text)
    return text.replace("checkpoint: 256 MiB", "checkpoint: 16 MiB")


@pytest.mark.slow
@pytest.mark.parametrize("path", WORKLOADS, ids=lambda path: path.stem)
def test_is_played(path: Path, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = tmp_path / path.name
    workload.write_text(reduced(path.read_text(encoding="utf-8")), encoding="utf-8")
    for other in path.parent.glob(f"{path.stem}.csv"):
        rows = re.sub(
            r"(gpu|storage)0*(\d+)", lambda it: f"{it[1]}{int(it[2]) % 20:02}", other.read_text(encoding="utf-8")
        )
        (tmp_path / other.name).write_text(rows, encoding="utf-8")
    capsys.readouterr()
    assert run(["simulate", str(small), "-w", str(workload), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["makespan_s"] > 0
    assert all(job["flows"] > 0 and job["time_s"] > 0 for job in found["jobs"])
    assert all(0 < link["max"] <= 1 + 1e-9 and link["mean"] <= link["max"] + 1e-12 for link in found["links"])


def test_each_kind_has_a_preset() -> None:
    names = {path.stem for path in WORKLOADS}
    assert set(ISSUE.values()) <= names


def test_the_manual_lists_them_all(repository: Path) -> None:
    manual = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|", manual, re.MULTILINE)
    listed = [name for name in rows if not name.startswith("-")]
    assert sorted(listed) == sorted(path.stem for path in WORKLOADS)
