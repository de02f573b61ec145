"""What a command prints as JSON and writes is what the function of its name in `plan` returns and writes."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import plan
from plan.cli import run
from topo import config_root
from topo.errors import HeddleError

LAB = config_root() / "lab-20.yaml"
Printed = Callable[..., dict]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def command(*words: object, status: int = 0) -> dict:
        capsys.readouterr()
        assert run([*map(str, words), "--json"]) == status
        return json.loads(capsys.readouterr().out)

    return command


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plans") / "lab"
    plan.build(LAB, folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_verify(built: Path, printed: Printed, tmp_path: Path) -> None:
    asked = plan.Questions(paths=(("gpu00", "gpu09"),), over=("leaf0:21",), without=("spine1",), groups=True)
    words = ["--path", "gpu00", "gpu09", "--over", "leaf0:21", "--without", "spine1", "--groups"]
    assert plan.verify(built, asked=asked).to_dict() == printed("verify", built, *words)
    other = tmp_path / "other"
    plan.route(built, other, options=plan.Options(engine="minhop"))
    found = plan.verify(built, expect=other / "opensm" / "lfts")
    assert not found.holds and found.proof.holds and found.differing
    assert found.to_dict() == printed("verify", built, "--expect", other / "opensm" / "lfts", status=1)
    with pytest.raises(HeddleError, match=r"found a folder without plan\.json"):
        plan.verify(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("loads", ["none", "tables", "simulation"])
def test_draw(loads: str, built: Path, printed: Printed, tmp_path: Path) -> None:
    played = tmp_path / "played"
    plan.simulate(LAB, "allreduce", output=played)
    words = {"none": {}, "tables": {"tables": built}, "simulation": {"simulation": played}}[loads]
    drawn = plan.draw(LAB, tmp_path / "a.svg", **words)
    options = [word for name, value in words.items() for word in (f"--{name}", value)]
    command = printed("draw", LAB, "-o", tmp_path / "b.svg", *options)
    assert drawn.to_dict() == command | {"file": str(tmp_path / "a.svg")}
    assert (tmp_path / "a.svg").read_text() == (tmp_path / "b.svg").read_text() == drawn.drawing.svg
    assert (drawn.drawing.svg == plan.draw(LAB).drawing.svg) is (loads == "none")


def test_simulate(built: Path, printed: Printed, tmp_path: Path) -> None:
    played = plan.simulate(
        built, "allreduce", latency_ns=500.0, why=True, output=tmp_path / "a", trace=tmp_path / "a.csv"
    )
    words = ["-w", "allreduce", "--latency-ns", 500, "--why", "-o", tmp_path / "b", "--trace", tmp_path / "b.csv"]
    assert json.loads(json.dumps(played.to_dict())) == printed("simulate", built, *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert played.to_dict()["inputs"]["hop_latency_ns"] is None, "those of the catalog"
    with pytest.raises(HeddleError, match="two files would be written there"):
        plan.simulate(built, "allreduce", trace=tmp_path / "c.csv", goal=tmp_path / "c.csv")


QUEUE = """
failures_a_node_day: 40
jobs:
- {name: ring, nodes: 4, steps: 3000, forward: 0.1 s, backward: 0.2 s, gradients: 3 GB}
- {name: tokens, nodes: 4, steps: 2000, forward: 0.1 s, backward: 0.2 s, expert_nodes: 4, tokens: 2 GB, copies: 2}
"""


@pytest.mark.slow
def test_operate_resumes_to_the_same_end(
    built: Path, printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulate.cluster.run.LOOK_S", 0.0)  # else a fast machine is done before it asks
    queue, times = tmp_path / "queue.yaml", []
    queue.write_text(QUEUE)

    def note(message: str, done: float | None = None) -> None:
        times.extend([] if done is None else [done])

    whole = plan.operate(built, str(queue), hours=0.2, output=tmp_path / "a")
    part = plan.operate(built, str(queue), hours=0.2, state=tmp_path / "state", step=note,
                        stop=lambda: bool(times) and times[-1] > 0.3)  # fmt: skip
    assert not part.finished and part.to_dict()["stopped"] and (tmp_path / "state").is_file()
    rest = plan.operate(built, str(queue), hours=0.2, state=tmp_path / "state")
    assert rest.finished
    assert rest.to_dict() == whole.to_dict()
    command = printed("operate", built, "-q", queue, "--hours", 0.2, "-o", tmp_path / "b")
    assert json.loads(json.dumps(whole.to_dict())) == command
    assert contents(tmp_path / "a") == contents(tmp_path / "b")


def test_order_ranks(built: Path, printed: Printed, tmp_path: Path) -> None:
    found = plan.order_ranks(built, "gpu[00-07]", ["ring", "tree"], output=tmp_path / "a", ranks_per_node=8)
    words = ["--nodes", "gpu[00-07]", "--for", "ring", "--for", "tree", "-o", tmp_path / "b", "--ranks-per-node", 8]
    assert json.loads(json.dumps(found.to_dict())) == printed("ranks", built, *words)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    with pytest.raises(HeddleError, match=r"--nodes gpu00: found 1 name; expected two nodes"):
        plan.order_ranks(built, "gpu00")


def test_export_files(built: Path, printed: Printed, tmp_path: Path) -> None:
    files = plan.export_files(LAB, "slurm", tmp_path / "a")
    assert printed("export", LAB, "slurm", "-o", tmp_path / "b")["files"] == sorted(files)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert plan.export_files(built, "slurm") == {name: text.encode() for name, text in files.items()}
    with pytest.raises(HeddleError, match="Did you mean `slurm`"):
        plan.export_files(LAB, "slrum")
