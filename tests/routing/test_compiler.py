"""What kernels take from the library: each function of NumPy on arrays costs a first command its compilation."""

import dis
import os
import subprocess
import sys
from collections import Counter
from types import CodeType

import numpy as np
import pytest
from numba import config

from helpers.kernels import kernels
from routing import compiler

COSTLY = {"full": 5, "ones": 1, "copy": 6, "view": 7, "cumsum": 2, "diff": 1, "flatnonzero": 1, "searchsorted": 1}
COSTLY |= {"sum": 2, "max": 1}
"""What NumPy and Numba have to compile for kernels, and how many kernels call it."""
CHEAP = {"empty", "zeros", "ceil", "rint", "log2"}
"""What is compiled once for all kernels, and functions of one number."""


def from_the_library(code: CodeType) -> set[str]:
    """Names of functions of NumPy, and of methods of arrays, in a function and those inside it."""
    found, before = set(), None
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD") and before is not None:
            of_numpy = before.opname == "LOAD_GLOBAL" and before.argval == "np"
            what = getattr(np if of_numpy else np.ndarray, one.argval, None)
            if callable(what) and not isinstance(what, type) and (of_numpy or before.opname != "LOAD_GLOBAL"):
                found.add(one.argval)
        before = one
    inside = (value for value in code.co_consts if isinstance(value, CodeType))
    return found.union(*map(from_the_library, inside))


def test_what_is_in_a_function_is_found() -> None:
    def sorts(numbers: np.ndarray) -> object:
        return [np.argsort(other, kind="stable") for other in numbers], numbers.cumsum(), np.int64(len(numbers))

    assert from_the_library(sorts.__code__) == {"argsort", "cumsum"}


def test_no_costly_function_of_the_library_comes_back_into_kernels() -> None:
    """Sorts, reductions and slices were a fifth of what a first build compiled; as loops they are nothing beside it."""
    called = Counter(name for kernel in kernels() for name in from_the_library(kernel.py_func.__code__))
    more = {name: number for name, number in called.items() if number > COSTLY.get(name, 0) and name not in CHEAP}
    assert not more, "write a loop, or say here what it is worth"


DIGESTS = """
from helpers.kernels import kernels
from routing.compiler import digest_of_reach
for kernel in kernels():
    print(kernel.name, digest_of_reach(kernel.py_func, kernel.options).hex())
"""


@pytest.mark.slow
def test_every_process_knows_the_code_that_another_kept() -> None:
    """Whatever the order of its sets: half of all commands compiled what another half had kept."""
    said = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.splitlines())
    assert len(said[0]) > 100
    assert said[0] == said[1]


def test_a_folder_that_is_given_is_the_only_place_of_compiled_code(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    assert compiler.Places(from_the_library)._locator_classes == [compiler.GIVEN, compiler.ReadOnlyGiven]
    monkeypatch.setattr(config, "CACHE_DIR", "")
    first, *_, last = compiler.Places(from_the_library)._locator_classes
    assert (first, last) == (compiler.BESIDE, compiler.ReadOnlyBeside)
