"""Machine code is kept while nothing changes, and nothing that happens to it stops a command or alters a result."""

import os
import subprocess
import sys
from collections import defaultdict
from math import inf
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite.binding import get_host_cpu_features

import routing
from helpers.random_fabrics import draw
from helpers.strategies import fabrics
from routing import compiler, machine_code
from routing.compiler import CheckedFile, KernelCache
from routing.machine_code import Interpreter, Kernel
from topo.errors import HeddleError
from topo.fabric import Fabric

MODULE = """\
from routing.machine_code import kernel
{imports}
@kernel
def {name}(numbers):
    return {result}
"""
PROGRAM = """\
import resource, sys
import numpy as np
from kernels_of_a_test.caller import double
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
print(double(np.zeros(10**5)), sum(double.compiled.stats.cache_hits.values()))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with a kernel that calls one in another file."""
    folder = tmp_path / "kernels_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    imports = "from kernels_of_a_test.callee import number"
    (folder / "caller.py").write_text(MODULE.format(imports=imports, name="double", result="2 * number(numbers)"))
    write_callee(folder, 1)
    return folder


def write_callee(folder: Path, number: int) -> None:
    (folder / "callee.py").write_text(MODULE.format(imports="", name="number", result=number))


def run(folder: Path, *, room: int = -1, says: str = "", **variables: str) -> list[int]:
    """Return what the kernel says in a process of its own, and how often its code was there already."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    # Without bytecode of Python's own, which is stale where a file changes within a second and keeps its size.
    environment |= {"PYTHONPATH": os.pathsep.join([str(folder.parent), *sys.path]), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= variables
    command = [sys.executable, "-c", PROGRAM, str(room)]
    done = subprocess.run(command, env=environment, cwd=folder.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert all(says in line for line in lines)
    assert len(lines) == bool(says), "said once"
    return [int(word) for word in done.stdout.split()]


@pytest.mark.slow
def test_no_stale_code_runs(folder: Path) -> None:
    assert run(folder) == [2, 0]
    assert run(folder) == [2, 1]
    write_callee(folder, 21)
    assert run(folder) == [42, 0]
    assert run(folder) == [42, 1]


@pytest.mark.slow
def test_what_no_code_is_made_from_makes_none_stale(folder: Path) -> None:
    """A comment, another function, other lines."""
    assert run(folder) == [2, 0]
    callee = folder / "callee.py"
    lines = callee.read_text().splitlines()
    lines[1:1] = ["# a comment", "def beside(number):", "    return number + 1"]
    callee.write_text("\n".join([*lines[:-1], "    # another", lines[-1]]))
    assert run(folder) == [2, 1]


CONSTANTS = """\
from enum import IntEnum
from routing.machine_code import kernel
LIMIT = {limit}
class Colour(IntEnum):
    RED = {red}
@kernel
def number(numbers):
    return LIMIT + Colour.RED + {own}
"""


@pytest.mark.slow
def test_a_constant_anywhere_below_makes_code_stale(folder: Path) -> None:
    values, result = {"limit": 1, "red": 1, "own": 1}, 6
    for change in ({}, {"limit": 2}, {"red": 2}, {"own": 2}):
        values |= change
        (folder / "callee.py").write_text(CONSTANTS.format(**values))
        assert run(folder) == [result, 0]
        result += 2
    assert run(folder) == [result - 2, 1]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flip(data: bytes) -> bytes:
    return data[:-900] + bytes([data[-900] ^ 1]) + data[-899:]


@pytest.mark.slow
def test_damaged_code_is_compiled_anew(folder: Path) -> None:
    """Another index, no index, half of the code, one bit."""
    damages = (("*.nbi", lambda data: b"junk"), ("*.nbi", lambda data: b""), ("*.nbc", cut), ("*.nbc", flip))
    for files, damage in damages:
        for file in (folder / "__pycache__").glob(files):
            file.write_bytes(damage(file.read_bytes()))
        assert run(folder) == [2, 0]
    assert run(folder) == [2, 1]


@pytest.mark.slow
def test_where_nothing_can_be_kept_nothing_is_and_it_is_said(folder: Path) -> None:
    assert run(folder, says="cannot be kept in /proc/nowhere", NUMBA_CACHE_DIR="/proc/nowhere") == [2, 0]
    assert run(folder, room=100, says="File too large") == [2, 0], "as a full disk"
    assert run(folder) == [2, 0]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["given", "beside"])
def test_code_that_can_only_be_read_is_used(folder: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in an image: by another user, who cannot write, and has no home."""
    given = {"NUMBA_CACHE_DIR": str(folder / "given")} if place == "given" else {}
    assert run(folder, **given) == [2, 0]
    program = (
        "import os, tempfile\ndef refuse(*_, **__): raise OSError(30, 'Read-only file system')\n"
        "tempfile.TemporaryFile = refuse\n"
    )  # by which Numba finds out; tests may run as root, who may write
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", program + PROGRAM)
    assert run(folder, HOME="/proc/nowhere", **given) == [2, 1]


FIND_SHIPPED = """\
from pathlib import Path
from routing import compiler
compiler.SHIPPED = Path({shipped!r})
"""


@pytest.mark.slow
def test_code_that_was_installed_is_used_while_it_fits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made for another processor, in another place; not used when damaged, or made from something else."""
    if not all(get_host_cpu_features().get(name) for name in compiler.FEATURES):
        pytest.skip("the processor is older than the one that code is shipped for")
    processor = {"NUMBA_CPU_NAME": compiler.PROCESSOR, "NUMBA_CPU_FEATURES": ""}
    assert run(folder, **processor) == [2, 0]
    shipped = folder.parent / "shipped"
    for name in ("caller", "callee"):
        target = shipped / compiler.PROCESSOR / f"kernels_of_a_test.{name}"
        target.mkdir(parents=True)
        for file in (folder / "__pycache__").glob(f"{name}.*.nb?"):
            file.rename(target / file.name)
    monkeypatch.setattr(sys.modules[__name__], "PROGRAM", FIND_SHIPPED.format(shipped=str(shipped)) + PROGRAM)
    assert run(folder) == [2, 1]
    assert not list((folder / "__pycache__").glob("*.nbc")), "nothing was compiled"
    assert run(folder, **processor) == [2, 0], "who names a processor gets code for it"
    write_callee(folder, 21)
    assert run(folder) == [42, 0]
    write_callee(folder, 1)
    for file in (folder / "__pycache__").glob("*.nb?"):
        file.unlink()
    assert run(folder) == [2, 1]
    for file in (*folder.glob("__pycache__/*.nb?"), *shipped.rglob("*.nbc")):
        file.write_bytes(flip(file.read_bytes()))
    assert run(folder) == [2, 0]


MAKING = """\
from routing.machine_code import kernel, making
@making
def third(number):
    if number < 0:
        raise ValueError("below zero", number)
    return number // 3
@kernel
def thirds(numbers):
    return third(numbers[0]) + third(numbers[1])
"""
CALLS = """\
import numba, numpy as np
from collections import defaultdict
from kernels_of_a_test.callee import third, thirds
from routing.machine_code import Interpreter
Interpreter.spent_s = defaultdict(lambda: float("inf"))
print(thirds(np.array([7, 12])))
try:
    thirds(np.array([7, -2]))
except ValueError as error:
    print(*error.args)
for kernel in (thirds, third):
    print(*(made.library._is_made for made in kernel.compiled.overloads.values()), kernel.compiled._cache.is_filled())
# What others compile with Numba in the same process: called from Python, from C, element by element, and at once.
@numba.njit
def least(numbers):
    return np.sort(numbers)[0]
@numba.cfunc("float64(float64)")
def half(number):
    return number / 2
@numba.vectorize(["int64(int64)"])
def fourth(number):
    return third(number) - 1
@numba.njit(no_cpython_wrapper=True)
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)
@numba.njit
def twice(n):
    return 2 * factorial(n)
print(least(np.array([3, 2])), half.ctypes(5.0), fourth(np.array([9, 12])), twice(5))
"""


@pytest.mark.slow
def test_what_only_kernels_call_has_no_machine_code(folder: Path) -> None:
    """Compiled, and then from the cache: the same results and errors. Numba serves others as ever."""
    (folder / "callee.py").write_text(MAKING)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"PYTHONPATH": os.pathsep.join([str(folder.parent), *sys.path])}
    for made in (["True True", "False True"], ["False True", "True"]):
        command = [sys.executable, "-c", CALLS]
        done = subprocess.run(command, env=environment, cwd=folder.parent, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == ["6", "below zero -2", *made, "2 2.5 [2 3] 240"]


def test_code_is_not_taken_for_that_of_another_signature(tmp_path: Path) -> None:
    """Two processes compiled at once and took the same name for their files."""
    first, second = (CheckedFile(str(tmp_path), "kernel", lambda: b"stamp") for _ in range(2))
    first.save("int", "code of int")
    (tmp_path / "kernel.nbi").unlink()
    second.save("float", "code of float")
    assert second.load("float") == "code of float"
    (tmp_path / "kernel.1.nbc").unlink()
    first._save_data("kernel.1.nbc", ("int", "code of int"))
    assert second.load("float") is None


def test_a_user_without_a_home_gets_no_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    monkeypatch.setattr(Path, "expanduser", lambda path: path)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: open("/proc/nowhere/x", "wb"))  # noqa: PTH123, SIM115
    cache = KernelCache(run, {})
    assert Path(cache.cache_path) == Path(__file__).parent / "__pycache__"
    assert list(tmp_path.iterdir()) == []


def test_patience_is_that_of_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that routes begins new ones each time; ten commands of one process were patient ten times."""
    monkeypatch.setattr(Interpreter, "spent_s", defaultdict(float))
    monkeypatch.setattr(machine_code, "thread_time", iter((1.0, 4.0, 1.0, 3.0)).__next__)
    for _ in range(2):
        thread = Thread(target=Interpreter().run, args=(int, ()))
        thread.start()
        thread.join()
    assert Interpreter.spent_s == {"": 5.0}


@pytest.mark.parametrize(
    ("spent_s", "loaded", "kept", "begun", "interpreted"),
    [
        (0.0, False, True, False, True),  # to load Numba takes longer
        (2.0, False, True, False, False),
        (0.0, True, True, False, False),  # it is loaded already
        (2.0, False, False, False, True),  # to compile takes longer than to load
        (5.0, False, False, False, False),
        (0.0, True, False, True, False),  # something is compiled anyway
        (-inf, False, True, False, True),
    ],
)
def test_what_is_small_is_interpreted_for_as_long_as_the_other_would_take(
    spent_s: float, loaded: bool, kept: bool, begun: bool, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Kernel(len)
    one.compiled = SimpleNamespace(has_code=kept, has_begun=begun)
    monkeypatch.setattr(Interpreter, "spent_s", {"": spent_s, "simulate.engines.fluid": 9.0})
    monkeypatch.delitem(sys.modules, "numba")
    if loaded:
        monkeypatch.setitem(sys.modules, "numba", SimpleNamespace())
    assert one.is_interpreted((np.zeros(3),)) == interpreted
    assert not one.is_interpreted((np.zeros(one.small + 1),))


def test_engines_are_families_of_their_own() -> None:
    """What packets waited for in vain does not make the fair rates that they are compared with wait."""
    from routing.pairs import walk_pairs
    from simulate.engines.fluid.events import advance
    from simulate.engines.packets.steps import run

    kernels: list[Any] = [advance, run, walk_pairs]
    assert [kernel.family for kernel in kernels] == ["simulate.engines.fluid", "simulate.engines.packets", ""]


def call_compiled(kernel: Kernel, *given: object) -> object:
    return kernel.compiled(*given)


def call_interpreted(kernel: Kernel, *given: object) -> object:
    return Interpreter().run(kernel.py_func, given)


@pytest.mark.slow
def test_what_is_interpreted_is_what_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, with no warning: sums in the order of the array, sorts that are stable."""
    fabric = draw(2)
    compiled = routing.route(fabric, "balanced")
    with monkeypatch.context() as patch:
        patch.setattr(Kernel, "__call__", call_interpreted)
        interpreted = routing.route(fabric, "balanced")
        assert str(routing.prove(interpreted)) == str(routing.prove(compiled))
    assert np.array_equal(interpreted.tables.lft, compiled.tables.lft)


@pytest.mark.slow
@pytest.mark.nightly
@settings(max_examples=30)
@given(fabrics(max_switches=10, max_adapters=14, connected=True), st.sampled_from(["minhop", "balanced", "dfsssp"]))
def test_what_is_interpreted_is_what_is_compiled_at_random(fabric: Fabric, engine: str) -> None:
    found = []
    for call in (
        lambda self, *given: self.compiled(*given),
        lambda self, *given: Interpreter().run(self.py_func, given),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Kernel, "__call__", call)
            try:
                routed = routing.route(fabric, engine)
            except HeddleError as error:
                found.append([str(error)])
            else:
                found.append([routed.tables.lft.tobytes(), str(routing.prove(routed))])
    assert found[0] == found[1]


@pytest.mark.slow
def test_a_first_plan_of_twenty_servers_compiles_nothing(repository: Path, tmp_path: Path) -> None:
    program = (
        "import sys, logging, plan.cli\nlogging.basicConfig(level=logging.INFO)\n"
        "assert plan.cli.run(['build', sys.argv[1], '-o', 'out']) == 0"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(repository)}
    command = [sys.executable, "-c", program, repository / "configs" / "lab-20.yaml"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "compiling" not in done.stderr, done.stderr


SIGNATURES = """
import sys
from collections import defaultdict
import plan.cli
from numba.core.types import Integer
from routing.machine_code import Interpreter, Kernel
Interpreter.spent_s = defaultdict(lambda: float("inf"))
for line in sys.argv[1].strip().splitlines():
    assert plan.cli.run(line.split()) == 0, line
def alike(kind):
    return ("int" if kind.signed else "uint") if isinstance(kind, Integer) else str(kind)
functions = {value for module in list(sys.modules.values()) for value in vars(module).values()
             if isinstance(value, Kernel)}
assert len(functions) > 50
for function in functions:
    signatures = [tuple(map(alike, signature)) for signature in function.compiled.overloads]
    if len(set(signatures)) < len(signatures):
        print(function.__module__, function.__name__, *function.compiled.overloads, sep="\\n    ", file=sys.stderr)
        sys.exit(1)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_no_function_is_compiled_twice_for_integers(repository: Path, tmp_path: Path) -> None:
    """For two widths of them, or for a constant: the commands that need most kernels, one after another."""
    commands = """
        build LAB -o lab
        simulate lab -w allreduce
        simulate lab -w allreduce --engine packets
        route LAB -o route
        repair lab --down leaf0:27 -o repaired
        ranks lab --nodes gpu[00-07] --for ring --for tree
        optimise NEEDS
    """
    configs = repository / "configs"
    commands = commands.replace("LAB", str(configs / "lab-20.yaml"))
    commands = commands.replace("NEEDS", str(min((configs / "needs").glob("*.yaml"))))
    command = [sys.executable, "-c", SIGNATURES, commands]
    environment = os.environ | {"PYTHONPATH": str(repository)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
