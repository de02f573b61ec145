"""At every system call with which a command writes: a kill, a signal or a full disk leaves an older or newer result.

Each command is warmed up once; a copy of the process does it again with a fault at one of its calls.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import sleep

import pytest

from helpers.faults import ENDS, find_calls, traced
from helpers.strategies import is_nightly

SPEC = """name: tiny
nodes: {gpu: {model: pcie-a100, count: COUNT}, storage: {model: storage-3fs, count: 2}}
network: {shape: fat-tree, switch: QM8700, leaves: 2, spines: 1}
"""
NEEDS = """name: tiny
nodes: {gpu: {model: pcie-a100, count: COUNT}}
job: {nodes: 2, bisection: 1.0}
switches: [QM8700]
"""
QUEUE = "jobs: [{name: a, nodes: 2, steps: 9, forward: 1 s, backward: 1 s, gradients: 1 GB}]"
COMMANDS = {
    "build": "build SPEC -o out",
    "route": "route SPEC -o out",
    "simulate": "simulate SPEC -w allreduce -o out",
    "flows": "simulate SPEC -w allreduce --trace out.csv",
    "operate": "operate spec4.yaml -q queue.yaml --hours HOURS --state out",
    "draw": "draw SPEC -o out",
    "optimise": "optimise NEEDS -o out",
    "export": "export SPEC netbox -o out",
    "export a file": "export SPEC dot -o out",
}
"""What is older has three servers and what is newer four; a run goes on."""

BY_DAY = {"build", "export a file"}
NEW = {COMMANDS["optimise"]}
"""What replaces no older file."""

SERVER = """
import os, signal, sys
import plan.cli, plan.files, plan.staging
from plan.signals import UNDIVIDED, watching

answers = os.fdopen(os.dup(1), "w")
sys.stdin = os.fdopen(os.dup(0))
warm, older, newer = (words.split() for words in sys.argv[1:])

def answer(what):
    print(what, file=answers, flush=True)

def say():
    os.dup2(os.open("said", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)

def copied(line):
    if child := os.fork():
        answer(child)
        status = os.waitpid(child, 0)[1]
        answer(os.waitstatus_to_exitcode(status))
        return False
    say()
    if line == "stop\\n":
        os.kill(os.getpid(), signal.SIGSTOP)
    return True

watch = watching()

def waiting(parent):
    sys.stdout.flush()
    answer("ready")
    for line in sys.stdin:
        if copied(line):
            plan.files.open_staging = plan.staging.open_staging
            watch.__enter__()
            return plan.staging.open_staging(parent)
    os._exit(0)

say()
plan.cli.run(warm)
answer("warm")
for line in sys.stdin:
    if line == "newer\\n":
        break
    if copied(line):
        plan.cli.main(older)
plan.files.open_staging = waiting
status = plan.cli.run(newer)
sys.stdout.flush()
with UNDIVIDED:
    os._exit(status)
"""


@dataclass
class Command:
    """A command that is warm."""

    folder: Path
    words: str
    process: subprocess.Popen[str]

    def tell(self, line: str) -> None:
        assert self.process.stdin
        print(line, file=self.process.stdin, flush=True)

    def told(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def run(self, *tracer: str) -> int:
        """Do what it is ready for, perhaps traced; return its status."""
        self.tell("stop" if tracer else "go")
        child = int(self.told())
        if not tracer:
            return int(self.told())
        status = Path("/proc", str(child), "status")
        while "State:\tT" not in status.read_text():
            sleep(0.005)
        with subprocess.Popen([*tracer, "-p", str(child)], stderr=subprocess.DEVNULL) as attached:
            while "TracerPid:\t0\n" in status.read_text():
                assert attached.poll() is None
                sleep(0.005)
            os.kill(child, signal.SIGCONT)
            return int(self.told())

    def result(self) -> dict[str, bytes]:
        """Return what is there, by path."""
        out = self.folder / self.words.split()[-1]
        if out.is_file():
            return {"": out.read_bytes()}
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def put(self, what: str) -> None:
        """Put in place what was kept under a name, or nothing."""
        out = self.words.split()[-1]
        subprocess.run(["rm", "-rf", out], cwd=self.folder, check=True)
        if what:
            subprocess.run(["cp", "-a", what, out], cwd=self.folder, check=True)


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in BY_DAY else pytest.mark.nightly) for name in COMMANDS],
)
def command(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repository: Path
) -> Iterator[Command]:
    folder = tmp_path_factory.mktemp("faults")
    (folder / "queue.yaml").write_text(QUEUE)
    for count in (3, 4):
        (folder / f"spec{count}.yaml").write_text(SPEC.replace("COUNT", str(count)))
        (folder / f"needs{count}.yaml").write_text(NEEDS.replace("COUNT", str(count)))
    words = COMMANDS[request.param]

    def of(count: int) -> str:
        hours = 0.001 * (count - 1)
        return (
            words.replace("SPEC", f"spec{count}.yaml")
            .replace("NEEDS", f"needs{count}.yaml")
            .replace("HOURS", f"{hours}")
        )

    with subprocess.Popen(
        [sys.executable, "-c", SERVER, of(4).replace(" out", " warm"), of(3), of(4)],
        cwd=folder, env=os.environ | {"PYTHONPATH": str(repository)}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        command = Command(folder, words, process)
        assert command.told() == "warm"
        yield command
        assert process.stdin
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.peer("strace")
def test_an_end_at_a_system_call(command: Command) -> None:
    """At one call for each way to end; at all of them every night."""
    older: dict[str, bytes] = {}
    if command.words not in NEW:
        assert command.run() == 0
        older = command.result()
        subprocess.run(["cp", "-a", command.words.split()[-1], "kept"], cwd=command.folder, check=True)
    kept = "kept" if older else ""
    command.tell("newer")
    assert command.told() == "ready"
    log = command.folder / "log"
    assert command.run(*traced(log)) == 0
    newer = command.result()
    assert newer and older != newer and bool(older) == (command.words not in NEW)
    calls = find_calls(log)
    assert len(calls) > 10
    beside = {path.name for path in command.folder.iterdir()}
    for number_of_end, (end, (what, statuses)) in enumerate(ENDS.items()):
        chosen = calls if is_nightly() else [calls[number_of_end * 13 % len(calls)]]
        for name, number in chosen:
            command.put(kept)
            status = command.run(*traced(log, "-e", f"inject={name}:{what}:when={number}"))
            said = (command.folder / "said").read_text()
            place = (name, number, end, said)
            assert status in {*statuses, 0} and "Traceback" not in said, place
            assert status != 0 or command.result() == newer, place  # the next call was the first after the end
            assert command.result() in (older, newer), place
            assert status != 2 or "output:" in said or command.result() == older, place
            if {path.name for path in command.folder.iterdir()} - {"out"} != beside - {"out"}:
                command.put("")  # the next command clears what a fault left
                assert command.run() == 0, place
                assert {path.name for path in command.folder.iterdir()} == beside, place
