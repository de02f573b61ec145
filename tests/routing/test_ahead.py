"""What is compiled ahead is what the kernels need: callees first, by helpers that may die."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from routing import ahead
from routing.ahead import Crew, Task, read_type
from routing.machine_code import Kernel


def test_all_that_is_listed_is_there_and_takes_as_many_arguments() -> None:
    """Else: make kernels."""
    listed = ahead._listed()
    assert {name for names in listed["commands"] for name in names} <= set(listed["functions"])
    for name, signatures in listed["functions"].items():
        task = Task(name, signatures)
        assert isinstance(task.kernel, Kernel)
        n_parameters = len(inspect.signature(task.kernel.py_func).parameters)
        assert all(len(signature) == n_parameters for signature in task.signatures), name


def test_types_are_those_of_values() -> None:
    from numba import typeof

    from simulate.engines.fluid import state

    fixed = np.zeros((2, 2), np.uint8)
    fixed.flags.writeable = False
    name, record = next((name, kind) for name, kind in vars(state).items() if isinstance(kind, np.dtype))
    for said, value in {
        "int64": 1,
        "float64": 1.0,
        "bool": True,
        "uint8": np.uint8(1),
        "array(int32, 1d, C)": np.zeros(2, np.int32),
        "array(int32, 1d, A)": np.zeros(4, np.int32)[::2],
        "readonly array(uint8, 2d, C)": fixed,
        f"array({state.__name__}.{name}, 1d, C)": np.zeros(1, record),
    }.items():
        assert read_type(said) == typeof(value), said


@pytest.mark.parametrize("seed", range(20))
def test_what_is_called_comes_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calls = np.triu(rng.random((30, 30)) < 0.1, 1)
    reach = np.linalg.matrix_power(np.eye(30) + calls, 30) > 0
    functions = [object() for _ in range(30)]
    tasks = [
        SimpleNamespace(
            name=str(caller),
            work=int(rng.integers(1, 9)),
            kernel=SimpleNamespace(py_func=functions[caller]),
            called={functions[callee] for callee in np.flatnonzero(reach[caller]) if callee != caller},
        )
        for caller in range(30)
    ]
    crew = Crew([tasks[at] for at in rng.permutation(30)])  # type: ignore[arg-type]
    order = []
    while (task := crew._take()) is not None:
        order.append(task)
        crew._finish(task)
    place = {task.kernel.py_func: at for at, task in enumerate(order)}
    assert len(place) == 30
    assert all(place[callee] < place[task.kernel.py_func] for task in tasks for callee in task.called)


def test_helpers_compile_what_all_commands_call_of_one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """That a command plays packets and then fluid flows is no reason to compile both."""
    first, second, third = "routing.a.first", "routing.b.second", "routing.a.third"
    fluid, packets = "simulate.engines.fluid.events.advance", "simulate.engines.packets.steps.run"
    commands = [[first, second, third], [first, second, fluid], [fluid, packets]]
    asked: list[frozenset[str]] = []
    monkeypatch.setattr(ahead, "_listed", lambda: {"commands": commands})
    monkeypatch.setattr(ahead, "_compile", asked.append)

    def task(name: str, _: object) -> SimpleNamespace:
        return SimpleNamespace(kernel=SimpleNamespace(family=name.partition(".engines.")[2].partition(".")[0]))

    monkeypatch.setattr(ahead, "Task", task)
    for name in (first, third, fluid, packets, "routing.a.another"):
        ahead.compile_ahead(name)
    assert asked == [{first, second}, {first, second, third}, {fluid}, {packets}]


PROGRAM = """\
import logging, sys
from routing import ahead
logging.basicConfig(level=logging.INFO, format="%(message)s")
ahead.STARTING, ahead.FORESEEN, ahead.HELPER = 1, 0, sys.argv[1] or ahead.HELPER
ahead.os.sched_getaffinity = lambda _: range(2)
name = "routing.opensm.lft_text.scan_lfts"
ahead.compile_ahead(name)
task = ahead.Task(name, ahead._listed()["functions"][name])
print(task.kernel.compiled.has_code, len(task.kernel.compiled.overloads))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("helper", "said"), [("", "True 0"), ("raise SystemExit", "False 0")])
def test_helpers_compile_for_all_and_may_die(helper: str, said: str, repository: Path, tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", PROGRAM, helper]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
    lines = [line.split(":")[0] for line in done.stderr.splitlines()]
    assert lines == [
        f"compiling {n} of {len(lines)} functions, once for this machine" for n in range(1, len(lines) + 1)
    ]
    assert len(lines) == (0 if helper else 7)
