"""At every system call with which a command writes: a kill, a signal or a full disk leaves an older or newer result.

Each command is warmed up once; a copy of the process does it again with a fault at one of its calls.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import sleep

import pytest
from hypothesis import settings

from helpers.faults import ENDS, find_calls, traced

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
import plan.cli

def do(words, stop):
    if child := os.fork():
        print(child, flush=True)
        status = os.waitpid(child, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
        return
    sys.stdout = open("said", "w")
    os.dup2(sys.stdout.fileno(), 2)
    if stop:
        os.kill(os.getpid(), signal.SIGSTOP)
    plan.cli.main(words)

plan.cli.run([word for word in sys.argv[1].split()])
print("warm", flush=True)
for line in sys.stdin:
    stop, *words = line.split()
    do(words, stop == "stop")
"""


@dataclass
class Command:
    """A command that is warm."""

    folder: Path
    words: str
    process: subprocess.Popen[str]

    def run(self, turn: int, *tracer: str) -> int:
        """Do it for the older (0) or newer (1) result, perhaps traced; return its status."""
        words = self.words.replace("SPEC", f"spec{3 + turn}.yaml").replace("NEEDS", f"needs{3 + turn}.yaml")
        words = words.replace("HOURS", str(0.002 + 0.001 * turn))
        assert self.process.stdin and self.process.stdout
        print("stop" if tracer else "go", words, file=self.process.stdin, flush=True)
        child = int(self.process.stdout.readline())
        if tracer:
            status = Path("/proc", str(child), "status")
            while "State:\tT" not in status.read_text():
                sleep(0.005)
            with subprocess.Popen([*tracer, "-p", str(child)], stderr=subprocess.DEVNULL) as attached:
                while "TracerPid:\t0\n" in status.read_text():
                    assert attached.poll() is None
                    sleep(0.005)
                os.kill(child, signal.SIGCONT)
                return int(self.process.stdout.readline())
        return int(self.process.stdout.readline())

    def result(self) -> dict[str, bytes]:
        """Return what is there, by path."""
        out = self.folder / self.words.split()[-1]
        if out.is_file():
            return {"": out.read_bytes()}
        return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}

    def clear(self) -> None:
        """Take the result away."""
        subprocess.run(["rm", "-rf", self.words.split()[-1]], cwd=self.folder, check=True)


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
    warm = words.replace("SPEC", "spec4.yaml").replace("NEEDS", "needs4.yaml").replace("HOURS", "0.002")
    environment = os.environ | {"PYTHONPATH": str(repository)}
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, warm.replace(" out", " warm")],
        cwd=folder, env=environment, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout and process.stdin
        while process.stdout.readline() not in ("warm\n", ""):
            pass
        yield Command(folder, words, process)
        process.stdin.close()


@pytest.mark.slow
@pytest.mark.peer("strace")
def test_an_end_at_a_system_call(command: Command) -> None:
    """At one call for each way to end; at all of them every night."""
    older: dict[str, bytes] = {}
    if command.words not in NEW:
        assert command.run(0) == 0
        older = command.result()
    if "HOURS" not in command.words:
        command.clear()
    assert command.run(1, *traced(command.folder / "log")) == 0
    newer = command.result()
    assert newer and older != newer and bool(older) == (command.words not in NEW)
    calls = find_calls(command.folder / "log")
    assert len(calls) > 10
    every = settings().max_examples > settings.get_profile("ci").max_examples
    beside = {path.name for path in command.folder.iterdir()} | {"said"}
    for number_of_end, (end, (what, statuses)) in enumerate(ENDS.items()):
        chosen = calls if every else [calls[(date.today().toordinal() * 7 + number_of_end * 13) % len(calls)]]
        for name, number in chosen:
            command.clear()
            assert not older or command.run(0) == 0
            inject = ["-e", f"inject={name}:{what}:when={number}"]
            status = command.run(1, *traced(command.folder / "log", *inject))
            said = (command.folder / "said").read_text()
            place = (name, number, end, said)
            assert status in {*statuses, 0} and "Traceback" not in said, place
            assert status != 0 or command.result() == newer, place  # runs are saved by the clock: it made fewer calls
            assert command.result() in ((older,) if status == 2 and "output:" not in said else (older, newer)), place
            if {path.name for path in command.folder.iterdir()} != beside:  # the next command clears what a fault left
                if command.words in NEW:
                    command.clear()
                assert command.run(1) == 0, place
                assert {path.name for path in command.folder.iterdir()} == beside, place
