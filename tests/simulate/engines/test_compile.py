"""What is interpreted is what is compiled, to the last bit; and what is small is interpreted."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.random_fabrics import draw
from routing import machine_code
from routing.engines.base import route
from routing.machine_code import Kernel
from simulate import Flows, Network, PacketModel, play


def compile_it(kernel: Kernel, *given: object) -> object:
    """Call a kernel without interpreting it."""
    return kernel.compiled(*given)


def interpret(kernel: Kernel, *given: object) -> object:
    """Call a kernel without compiling it."""
    interpreter = machine_code._interpreter
    return kernel.py_func(*given) if interpreter.at_work else interpreter.run(kernel.py_func, kernel.readable(given))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("engine", [None, PacketModel(), PacketModel(adaptive=True)], ids=str)
def test_what_is_interpreted_is_what_is_compiled(
    seed: int, engine: PacketModel | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fabric, rng = draw(seed), np.random.default_rng(seed)
    network, ends = Network.of(route(fabric), hop_latency_s=150e-9, latency_s=0), fabric.ends(role="compute")
    src, dst = rng.choice(ends, (2, 60))
    later = np.arange(20, 60)
    flows = Flows.of(src, dst, rng.integers(0, 100_000, 60), after=(later, rng.integers(0, later)))
    outcomes = []
    for call in (compile_it, interpret):
        monkeypatch.setattr(Kernel, "__call__", call)
        outcomes.append(play(network, flows, n_bins=20, **({"engine": engine} if engine else {})))
    compiled, interpreted = outcomes
    assert compiled.makespan_s > 0
    assert compiled.finish_s.tobytes() == interpreted.finish_s.tobytes()
    assert compiled.resource_bytes.tobytes() == interpreted.resource_bytes.tobytes()
    assert compiled.n_events == interpreted.n_events


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--engine", "packets"]], ids=["fluid", "packets"])
def test_a_first_simulation_of_twenty_servers_compiles_nothing(
    repository: Path, tmp_path: Path, more: list[str]
) -> None:
    """An allreduce of 186 MiB: 480 flows, or 3.2 million packets over a link."""
    program = (
        "import collections, math, sys, logging, plan.cli, routing.machine_code as code\n"
        "code.Interpreter.spent_s = collections.defaultdict(lambda: -math.inf)  # a busy machine needs longer\n"
        "logging.basicConfig(level=logging.INFO)\n"
        "assert plan.cli.run(['simulate', sys.argv[1], '-w', 'allreduce', *sys.argv[2:]]) == 0"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", program, repository / "configs" / "lab-20.yaml", *more]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "compiling" not in done.stderr, done.stderr
