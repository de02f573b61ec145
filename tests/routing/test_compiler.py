"""What kernels take from the library: each function of NumPy on arrays costs a first command its compilation."""

import dis
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from types import CodeType

import numpy as np

import routing
import simulate
from routing.machine_code import Kernel

ON_ARRAYS = {
    "empty": 19, "zeros": 25, "full": 5, "ones": 1, "copy": 6, "view": 7,
    "cumsum": 2, "diff": 1, "flatnonzero": 1, "searchsorted": 1, "sum": 2, "max": 1,
}  # fmt: skip
"""What NumPy and Numba have to compile for kernels, and how many kernels call it."""
NUMBERS = {"ceil", "rint", "log2"}
"""Functions of one number."""


def kernels() -> Iterator[Kernel]:
    for package in (routing, simulate):
        for found in walk_packages(package.__path__, f"{package.__name__}."):
            for value in vars(import_module(found.name)).values():
                if isinstance(value, Kernel) and value.__module__ == found.name:
                    yield value


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
    more = {name: number for name, number in called.items() if number > ON_ARRAYS.get(name, 0) and name not in NUMBERS}
    assert not more, "write a loop, or say here what it is worth"
