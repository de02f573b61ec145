"""`plan operate`: closed forms through the command, a stop and a going on that nobody can tell, and refusals."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import plan.signals
import simulate.cluster.run
from helpers.strategies import nightly
from plan.cli import run
from plan.inputs import find_preset
from plan.report.page import read_report
from simulate.cluster.queue import read_queue
from simulate.cluster.run import ClusterRun
from topo.catalog.load import config_root

LAB = config_root() / "lab-20.yaml"
RATE = 25e9

ONE = """
failures_a_node_day: 0
jobs:
- {name: one, nodes: 8, steps: 1000, forward: 0.1 s, backward: 0.2 s, gradients: 5 GB, submit: 10 s}
"""

MIX = """
failures_a_node_day: 40
repair: 1 min
round: 2 s
jobs:
- {name: ring, nodes: 4, steps: 3000, forward: 0.1 s, backward: 0.2 s, gradients: 3 GB, checkpoint: 2 GB, loaded: 1 MB}
- {name: tokens, nodes: 4, steps: 2000, forward: 0.1 s, backward: 0.2 s, expert_nodes: 4, tokens: 2 GB, copies: 2}
- {name: stages, nodes: 6, steps: 2500, forward: 0.1 s, backward: 0.2 s, stages: 3, activations: 1 GB, submit: 5 min}
"""

Captured = pytest.CaptureFixture[str]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def operate(capsys: Captured, *arguments: str | Path, status: int = 0) -> dict:
    capsys.readouterr()
    assert run(["operate", *map(str, arguments), "--json"]) == status
    return json.loads(capsys.readouterr().out)


def refused(capsys: Captured, *arguments: str | Path) -> str:
    capsys.readouterr()
    assert run(["operate", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    return said.err


# What it says


@pytest.mark.slow
def test_a_job_takes_what_its_steps_take(tmp_path: Path, capsys: Captured) -> None:
    found = operate(capsys, LAB, "-q", written(tmp_path / "q.yaml", ONE))
    step_s = 0.1 + 2 * 7 / 8 * 5e9 / RATE  # the ring of eight takes longer than the backward pass
    (job,) = found["jobs"]
    assert job["step_s"] == pytest.approx(step_s)
    assert job["compute_s"] == pytest.approx(0.3)
    assert (job["begin_s"], job["end_s"]) == pytest.approx((10.0, 10.0 + 1000 * step_s))
    assert found["time_s"] == pytest.approx(job["end_s"])
    assert found["stopped"] is False


@pytest.mark.slow
def test_steps_take_the_latencies_of_the_catalog_of_the_spec_and_of_its_folder(
    tmp_path: Path, capsys: Captured
) -> None:
    (tmp_path / "own").mkdir()
    row = "model,latency_ns,source,date,confidence\nQM8700,50000000,mine,2026-11-22,own\n"
    written(tmp_path / "own" / "switches.csv", row)
    spec = written(tmp_path / "s.yaml", f"catalog: own\n{LAB.read_text(encoding='utf-8')}")
    assert run(["build", str(spec), "-o", str(tmp_path / "out")]) == 0
    queue = written(tmp_path / "q.yaml", ONE)
    usual, slow, folder = (
        operate(capsys, fabric, "-q", queue)["jobs"][0]["step_s"] for fabric in (LAB, spec, tmp_path / "out")
    )
    assert usual < slow == folder


TRAINING = "forward: 1 s, backward: 2 s, gradients: 1600 GB"
RAILS = config_root() / "dgx-h100-48.yaml"


@pytest.mark.slow
def test_a_job_has_servers_with_all_their_rails_and_storage_on_a_subnet_of_its_own(
    tmp_path: Path, capsys: Captured
) -> None:
    """Eight rails of 50 GB/s carry the ring of eight servers; node hours are those that jobs had, no more, no less."""
    text = (
        f"failures_a_node_day: 0\nround: 1 s\njobs:\n- {{name: one, nodes: 8, steps: 100, {TRAINING}, loaded: 1 GB}}\n"
        "- {name: wide, nodes: 48, steps: 50, forward: 1 s, backward: 2 s, checkpoint: 10 GB, every: 1 min}\n"
    )
    found = operate(capsys, RAILS, "-q", written(tmp_path / "q.yaml", text))
    one, wide = found["jobs"]
    assert one["step_s"] == pytest.approx(1.0 + 2 * 7 / 8 * 1600 / 8 / 50, rel=1e-3)
    assert wide["begin_s"] == one["end_s"]  # all servers that there are
    assert wide["checkpoints"] == 2
    node_s = sum(job["nodes"] * (job["end_s"] - job["begin_s"]) for job in (one, wide))
    assert found["utilisation"] * 48 * found["time_s"] == pytest.approx(node_s)
    carried = {(row["sender"], row["receiver"]): row["bytes"] for row in found["links"]}
    copied = 2 * 48 * 10e9  # checkpoints, from the first server of a chain to the second
    assert carried["storage", "leaf"] == pytest.approx(8 * 101 * 1e9 + copied)  # a step is loaded ahead
    assert carried["leaf", "storage"] == pytest.approx(2 * copied)


DAY = """
failures_a_node_day: 0.2
jobs:
- {name: llm, nodes: 32, steps: 20000, forward: 1 s, backward: 1 s, gradients: 2 GB, checkpoint: 9 GB, loaded: 16 MiB}
- {name: one, nodes: 8, steps: 9000, forward: 1 s, backward: 1 s, checkpoint: 1 GB, loaded: 9 MB, copies: 4, apart: 2 h}
"""


@pytest.mark.slow
@pytest.mark.parametrize("hours", [0.5, nightly(24)])
def test_a_day_of_rails_and_storage_conserves_node_hours(tmp_path: Path, capsys: Captured, hours: float) -> None:
    """Servers fail and jobs begin anew: what jobs did not wait for, they had."""
    found = operate(capsys, RAILS, "-q", written(tmp_path / "q.yaml", DAY), "--hours", str(hours))
    submit = {"llm": 0.0} | {f"one-{at}": 7200.0 * at for at in range(4)}
    had = 0.0
    for job in found["jobs"]:
        end = found["time_s"] if job["end_s"] is None else job["end_s"]
        had += job["nodes"] * max(end - submit[job["name"]] - job["waited_s"], 0.0)
    assert found["utilisation"] * 48 * found["time_s"] == pytest.approx(had)
    assert hours < 24 or any(job["failures"] for job in found["jobs"])
    carried = {(row["sender"], row["receiver"]): row["bytes"] for row in found["links"]}
    assert carried["storage", "leaf"] > sum(job["nodes"] * job["trained_steps"] * 9e6 for job in found["jobs"])


@pytest.mark.parametrize("key", ["checkpoint", "loaded"])
def test_storage_that_is_not_there_is_an_error(tmp_path: Path, capsys: Captured, key: str) -> None:
    queue = written(tmp_path / "q.yaml", f"jobs:\n- {{name: one, nodes: 8, steps: 10, {TRAINING}, {key}: 1 GB}}\n")
    said = refused(capsys, RAILS, "-q", queue, "--subnet", "dgx-h100-48")
    assert said.startswith(f"{queue}:2:3: found `{key}` and no storage server in dgx-h100-48; expected storage servers")


@pytest.mark.slow
def test_a_flow_without_a_path_is_told_and_no_traceback(tmp_path: Path, capsys: Captured) -> None:
    """Tables that lost a server's entries: what the network says reaches the user through SimPy."""
    out = tmp_path / "lab"
    assert run(["build", str(LAB), "-o", str(out)]) == 0
    lfts = out / "opensm" / "lfts"
    lines = lfts.read_text().splitlines(keepends=True)
    written(tmp_path / "lfts", "".join(line for line in lines if not line.startswith("0x0008")))
    said = refused(capsys, out, "-q", written(tmp_path / "q.yaml", ONE), "--tables", tmp_path / "lfts")
    assert "has no path" in said


def test_says_how_long_jobs_waited_and_how_full_nodes_and_links_were(tmp_path: Path, capsys: Captured) -> None:
    """Two jobs that cannot run side by side on 16 nodes, and a third that never ends."""
    queue = """
failures_a_node_day: 0
jobs:
- {name: first, nodes: 12, steps: 100, forward: 1 s, backward: 1 s, gradients: 1 GB}
- {name: second, nodes: 8, steps: 50, forward: 1 s, backward: 1 s, submit: 20 s}
- {name: third, nodes: 16, steps: 1, forward: 1 s, backward: 1 s, submit: 30 s}
"""
    found = operate(capsys, LAB, "-q", written(tmp_path / "q.yaml", queue), "--hours", "0.075")
    assert [job["waited_s"] for job in found["jobs"]] == pytest.approx([0, 180, 240])
    assert found["time_s"] == pytest.approx(270)
    assert found["utilisation"] == pytest.approx((12 * 200 + 8 * 70) / (16 * 270))
    (sent,) = [row for row in found["links"] if (row["sender"], row["receiver"]) == ("compute", "leaf")]
    assert sent["bytes"] == pytest.approx(12 * 100 * 2 * 11 / 12 * 1e9)  # a ring of twelve


@pytest.mark.slow
def test_killed_without_warning_it_goes_on_from_the_last_save(tmp_path: Path, capsys: Captured) -> None:
    queue = written(tmp_path / "q.yaml", MIX)
    state = tmp_path / "state"
    asked = [str(LAB), "-q", str(queue), "--state", str(state), "--save-every", "0"]
    with subprocess.Popen([sys.executable, "-m", "plan", "operate", *asked], stdout=subprocess.DEVNULL) as child:
        while not state.exists() and child.poll() is None:
            time.sleep(0.01)
        child.kill()
    whole = operate(capsys, LAB, "-q", queue)
    assert operate(capsys, LAB, "-q", queue, "--state", state) == whole


def test_ends_when_the_hours_are_over(tmp_path: Path, capsys: Captured) -> None:
    found = operate(capsys, LAB, "-q", written(tmp_path / "q.yaml", ONE), "--hours", "0.1")
    (job,) = found["jobs"]
    assert found["time_s"] == pytest.approx(360.0)
    assert job["end_s"] is None
    assert 0 < job["steps"] <= 350 / job["step_s"]


@pytest.mark.nightly
def test_its_folder_is_the_same_after_a_stop_and_can_be_reported(tmp_path: Path, capsys: Captured) -> None:
    queue, state = written(tmp_path / "q.yaml", MIX), tmp_path / "state"
    operate(capsys, LAB, "-q", queue, "--hours", "0.5", "-o", tmp_path / "whole")
    operate(capsys, LAB, "-q", queue, "--hours", "0.1", "--state", state, "-o", tmp_path / "parts")
    operate(capsys, LAB, "-q", queue, "--hours", "0.5", "--state", state, "-o", tmp_path / "parts")
    files = {path.name: path.read_bytes() for path in (tmp_path / "whole").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    assert set(files) == {"report.html", "operate.json", "jobs.csv", "timeline.svg", "SHA256SUMS"}
    assert run(["report", str(tmp_path / "whole"), "-o", str(tmp_path / "day.html")]) == 0
    assert "over time" in read_report(tmp_path / "whole").simulations[0].charts[0][0]


def test_prints_a_table(tmp_path: Path, capsys: Captured) -> None:
    assert run(["operate", str(LAB), "-q", str(written(tmp_path / "q.yaml", ONE))]) == 0
    text = capsys.readouterr().out
    assert "after 0.128 h" in text
    assert "one" in text
    assert "1,000" in text


def test_the_day_is_thirty_jobs() -> None:
    plan = read_queue(find_preset("queues", "day", "--queue"), 0)
    assert len(plan.jobs) == 30
    assert plan.rules.cross_zone_jobs == 1
    assert max(job.nodes for job in plan.jobs) > 600  # one that no zone of Fire-Flyer 2 holds


@pytest.mark.slow
def test_the_day_begins_on_fire_flyer(capsys: Captured) -> None:
    """Its first three minutes: three jobs, each in a zone, and steps that take what they compute but for tokens."""
    found = operate(capsys, config_root() / "fire-flyer-2.yaml", "--hours", "0.05")
    begun = {job["name"]: job for job in found["jobs"] if job["begin_s"] is not None}
    assert set(begun) == {"vision-0", "language-0", "experts-0"}
    for job in begun.values():
        assert not job["spanned_zones"]
        assert 1 - 1e-9 < job["step_s"] / job["compute_s"] < 1.1
    tokens_s = 2 * 3 / 4 * 6e9 / RATE  # three quarters leave the node, and come back
    assert begun["experts-0"]["step_s"] == pytest.approx(6.9 + tokens_s, rel=0.02)


@pytest.mark.slow
def test_same_seed_same_bytes(tmp_path: Path, capsys: Captured) -> None:
    queue = written(tmp_path / "q.yaml", MIX)
    texts = [operate(capsys, LAB, "-q", queue, "--hours", "0.2", "--seed", seed) for seed in ("1", "1", "2")]
    assert json.dumps(texts[0]) == json.dumps(texts[1]) != json.dumps(texts[2])


# Stopped and gone on with


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What `plan.cli.main` does about signals, with all the time to leave off."""
    monkeypatch.setattr(plan.signals, "GRACE_S", 600)
    with plan.signals.watching():
        yield


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
def test_stopped_by_a_signal_and_gone_on_with(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signals of both kinds, at looks that differ; the end and the file of the end are those of a run of one piece."""
    queue = written(tmp_path / "q.yaml", MIX)
    whole = operate(capsys, LAB, "-q", queue, "--state", tmp_path / "whole")
    assert sum(job["failures"] for job in whole["jobs"]) > 0
    assert sum(job["checkpoints"] for job in whole["jobs"]) > 0

    play = ClusterRun.play
    looks = iter([(40, signal.SIGINT), (120, signal.SIGTERM), (80, signal.SIGINT)])

    def interrupted(self: ClusterRun, until_s: float, *, progress, stop):  # type: ignore[no-untyped-def]
        left, number = next(looks, (10**9, signal.SIGINT))

        def look(now_s: float) -> None:
            nonlocal left
            progress(now_s)
            left -= not self.env.replaying
            if left == 0:
                os.kill(os.getpid(), number)
                time.sleep(0.1)  # until it is known

        return play(self, until_s, progress=look, stop=stop)

    monkeypatch.setattr(ClusterRun, "play", interrupted)
    monkeypatch.setattr(simulate.cluster.run, "LOOK_S", 0)
    times = []
    for status in (130, 143, 130):
        part = operate(capsys, LAB, "-q", queue, "--state", tmp_path / "state", status=status)
        assert part["stopped"] is True
        times.append(part["time_s"])
    assert 0 < times[0] < times[1] < times[2] < whole["time_s"]
    assert operate(capsys, LAB, "-q", queue, "--state", tmp_path / "state") == whole
    assert (tmp_path / "state").read_bytes() == (tmp_path / "whole").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"q.yaml", "state", "whole"}


@pytest.mark.slow
@pytest.mark.usefixtures("signals")
def test_stopped_while_it_catches_up(tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written then: the file has gone further."""
    queue, state = written(tmp_path / "q.yaml", MIX), tmp_path / "state"
    operate(capsys, LAB, "-q", queue, "--hours", "0.1", "--state", state)
    before = state.read_bytes()
    play = ClusterRun.play

    def interrupted(self: ClusterRun, until_s: float, *, progress, stop):  # type: ignore[no-untyped-def]
        def look(now_s: float) -> None:
            assert self.env.replaying
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.1)  # until it is known
            monkeypatch.setattr(os, "kill", lambda *_: None)

        return play(self, until_s, progress=look, stop=stop)

    monkeypatch.setattr(ClusterRun, "play", interrupted)
    monkeypatch.setattr(simulate.cluster.run, "LOOK_S", 0)
    assert operate(capsys, LAB, "-q", queue, "--state", state, status=130)["stopped"] is True
    assert state.read_bytes() == before


@pytest.mark.slow
def test_hours_may_be_added(tmp_path: Path, capsys: Captured) -> None:
    queue = written(tmp_path / "q.yaml", MIX)
    whole = operate(capsys, LAB, "-q", queue, "--hours", "0.2")
    for hours in ("0.05", "0.1301"):
        operate(capsys, LAB, "-q", queue, "--hours", hours, "--state", tmp_path / "state")
    assert operate(capsys, LAB, "-q", queue, "--hours", "0.2", "--state", tmp_path / "state") == whole
    # Less than has been played: what was at that time, and the file keeps what it has.
    before = (tmp_path / "state").read_bytes()
    early = operate(capsys, LAB, "-q", queue, "--hours", "0.05", "--state", tmp_path / "state")
    assert early | {"links": ...} == operate(capsys, LAB, "-q", queue, "--hours", "0.05") | {"links": ...}
    assert early["links"] is None  # what was sent until then is not in the file
    assert (tmp_path / "state").read_bytes() == before


@pytest.mark.slow
def test_an_interrupt_at_a_terminal(tmp_path: Path, capsys: Captured) -> None:
    """A process as a person runs it: it shows how far it is, and Ctrl-C stops it so that it can go on."""
    queue = written(tmp_path / "q.yaml", MIX.replace("steps: ", "steps: 1"))
    asked = [str(LAB), "-q", str(queue), "--hours", "1"]
    command = [sys.executable, "-m", "plan", "operate", *asked, "--state", str(tmp_path / "state")]
    leader, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal, text=True) as child:
        os.close(terminal)
        shown = b""
        end = time.monotonic() + 120
        while b"playing" not in shown and time.monotonic() < end:
            shown += os.read(leader, 4096)
        assert b"%" in shown
        child.send_signal(signal.SIGINT)
        shown = drain(leader)
        assert child.wait(60) == 130
    os.close(leader)
    assert b"plan: stopped after" in shown
    assert b"Traceback" not in shown

    rest = operate(capsys, *asked, "--state", tmp_path / "state")
    assert rest == operate(capsys, *asked)


def drain(terminal: int) -> bytes:
    """What a terminal shows until who writes to it has gone."""
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # EIO, on Linux
            return shown
        if not part:
            return shown
        shown += part


# What is refused


def test_a_checkpoint_wants_two_storage_servers(tmp_path: Path, capsys: Captured) -> None:
    spec = written(
        tmp_path / "spec.yaml",
        "name: one\nnodes: {gpu: {model: pcie-a100, count: 4}, storage: {model: storage-3fs, count: 1}}\n"
        "network: {shape: fat-tree, switch: QM8700, leaves: 2, spines: 1}\n",
    )
    job = "jobs:\n- {name: a, nodes: 2, steps: 2, forward: 1 s, backward: 1 s, gradients: 1 GB, loaded: 1 MB"
    assert operate(capsys, spec, "-q", written(tmp_path / "reads.yaml", f"{job}}}"), "--hours", "0.01")
    queue = written(tmp_path / "writes.yaml", f"{job}, checkpoint: 1 GB}}")
    assert refused(capsys, spec, "-q", queue).startswith(f"{queue}:2:3: found 1 storage server; expected 2 or more")


@pytest.mark.slow
def test_refuses_saved_runs_of_others(tmp_path: Path, capsys: Captured) -> None:
    queue, state = written(tmp_path / "q.yaml", MIX), tmp_path / "state"
    operate(capsys, LAB, "-q", queue, "--hours", "0.02", "--state", state)
    saved = state.read_bytes()
    other = written(tmp_path / "other.yaml", MIX.replace("2000", "2001"))
    spec = written(tmp_path / "lab.yaml", LAB.read_text().replace("leaves: 2\n  spines: 2", "leaves: 2\n  spines: 1"))
    mine = ("--hours", "0.03", "--state", state)
    assert "another plan" in refused(capsys, LAB, "-q", other, *mine)
    assert "another plan" in refused(capsys, LAB, "-q", queue, "--seed", "1", *mine)
    assert "another plan" in refused(capsys, LAB, "-q", queue, "--placement", "random", *mine)
    assert "another fabric, or of other tables" in refused(capsys, spec, "-q", queue, *mine)
    for spoilt in (saved[:-1], saved[:1000], b"", saved[:5000] + bytes([saved[5000] ^ 1]) + saved[5001:]):
        state.write_bytes(spoilt)
        assert str(state) in refused(capsys, LAB, "-q", queue, *mine)
        assert state.read_bytes() == spoilt
    notes = written(tmp_path / "notes", "mine")
    assert "no saved run" in refused(capsys, LAB, "-q", queue, "--state", notes)
    assert notes.read_text() == "mine"
    assert "found a folder" in refused(capsys, LAB, "-q", queue, "--state", tmp_path)
    assert "cannot be written" in refused(capsys, LAB, "-q", queue, "--state", tmp_path / "no" / "state")


def test_refuses_queues(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "q.yaml"
    written(path, ONE.replace("nodes: 8", "nodes: 17"))
    assert f"{path}:4:3: found 17 nodes; expected at most 16" in refused(capsys, LAB, "-q", path)
    written(path, ONE.replace("nodes: 8", "nodes: eight"))
    assert f"{path}:4:22:" in refused(capsys, LAB, "-q", path)
    assert "Did you mean `day`?" in refused(capsys, LAB, "-q", "dya")
    assert "no such file" in refused(capsys, LAB, "-q", tmp_path / "none.yaml")
    for hours in ("nan", "inf", "0", "-1"):
        assert "--hours" in refused(capsys, LAB, "--hours", hours)


@pytest.mark.slow
def test_refuses_a_fabric_that_nobody_computes_on(tmp_path: Path, capsys: Captured) -> None:
    roles = written(tmp_path / "roles", "storage gpu*\n")
    out = tmp_path / "out"
    assert run(["build", str(LAB), "-o", str(out)]) == 0
    assert "no compute nodes" in refused(capsys, out, "--roles", roles)
