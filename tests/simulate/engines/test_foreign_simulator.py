"""Engines as the network of others: the program of the manual, and processes of plain SimPy, by three calls alone."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import simpy

from helpers.fluids import hosts, routed
from helpers.trees import grow_tree
from routing.routed import Routed
from simulate import Fluid, Packets, play
from simulate.engines.base import Engine
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network


def test_the_program_of_the_manual_takes_what_its_messages_take(repository: Path) -> None:
    (program, _), said = programs(repository, "python"), dict[str, object]()
    with redirect_stdout(StringIO()) as out:
        exec(program, said)
    engine = said["engine"]
    assert isinstance(engine, Fluid)
    src, dst = said["a"], said["b"]
    alone = play(engine.network, Flows.of(src, dst, 1e6)).makespan_s
    assert out.getvalue() == f"10 messages in {(10 * alone + 9 * 10e-6) * 1e6:.1f} us\n"


def programs(repository: Path, language: str) -> list[str]:
    """What the manual says of the seam, in a language."""
    text = (repository / "docs" / "simulate.md").read_text(encoding="utf-8")
    section = text.partition("## As the network of another simulator")[2].partition("\n## ")[0]
    return re.findall(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.mark.slow
@pytest.mark.peer("cc")
def test_the_program_in_c_takes_as_long(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled as the manual says; each message takes what it takes alone, behind 10 us of thought."""
    for name, text in zip(("heddle.h", "pingpong.c"), programs(repository, "c"), strict=True):
        (tmp_path / name).write_text(text)
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", "pingpong.so", "pingpong.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.chdir(tmp_path)
    said: dict[str, object] = {}
    with redirect_stdout(StringIO()) as out:
        exec(programs(repository, "python")[1], said)
    engine = said["engine"]
    assert isinstance(engine, Fluid)
    alone = play(engine.network, Flows.of(said["a"], said["b"], 1e6)).makespan_s
    assert out.getvalue() == f"10 messages in {(10 * alone + 9 * 10e-6) * 1e6:.1f} us\n"


class Driver:
    """A network for SimPy's own environment, as a stranger would write it: `begin`, `next_event_s`, `advance`."""

    def __init__(self, env: simpy.Environment, engine: Engine) -> None:
        self.env, self.engine, self.waiting = env, engine, dict[int, simpy.Event]()
        self.begun = env.event()
        env.process(self.run())

    def send(self, src: int, dst: int, size: float) -> simpy.Event:
        arrived = self.env.event()
        self.waiting[self.engine.begin(src, dst, size, at_s=self.env.now)] = arrived
        self.begun.succeed()
        self.begun = self.env.event()
        return arrived

    def run(self) -> Iterator[simpy.Event]:
        while True:
            upcoming = self.env.timeout(max(0.0, self.engine.next_event_s - self.env.now)) if self.waiting else None
            yield self.begun | upcoming if upcoming else self.begun
            for done in self.engine.advance(self.env.now):
                self.waiting.pop(done.flow).succeed(done.finish_s)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", [Fluid, Packets])
def test_processes_of_simpy_meet_on_it_as_in_a_batch(make: type[Engine], seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = grow_tree((4, 4), (1, 3), (1, 1))
    network = Network.of(Routed(fabric, routed(fabric)), latency_s=1e-6, hop_latency_s=0)
    ends = hosts(network)
    env = simpy.Environment()
    driver = Driver(env, make(network))
    starts, sizes = np.sort(rng.uniform(0, 1e-4, 12)), rng.integers(1, 40, 12) * 4096.0
    pairs = [rng.choice(ends, 2, replace=False) for _ in starts]
    ended: dict[int, float] = {}

    def client(number: int) -> Iterator[simpy.Event]:
        yield env.timeout(float(starts[number]))
        ended[number] = yield driver.send(*map(int, pairs[number]), float(sizes[number]))

    for number in range(len(starts)):
        env.process(client(number))
    env.run(until=1.0)
    src, dst = np.array(pairs).T
    batch = make(network).play(Flows.of(src, dst, sizes, start_s=starts))
    assert [ended[number] for number in range(len(starts))] == pytest.approx(batch.finish_s.tolist(), rel=1e-12)
