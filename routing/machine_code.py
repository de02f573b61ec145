"""Kernels: functions on arrays that are interpreted where that is sooner done, and compiled where it is not.

To load Numba and the code that it keeps takes a second, to compile what a plan needs half a minute. What is small is
interpreted until that has taken as long as what it saves: at most twice the time of who had known.
"""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from time import thread_time
from typing import Any, ClassVar, Protocol, TypeVar, cast

import numpy as np

F = TypeVar("F")

SMALL = 2**13
"""Elements of an array up to which a kernel may be interpreted."""
LOADING_S = 1.0
"""CPU time that a process interprets for before it loads Numba: what that takes, with LLVM and the first kernels."""
PATIENCE_S = 4.0
"""CPU time that a process interprets for before it compiles, since there is more of the kind."""


class Kernel:
    """A function that is interpreted where that is sooner done: all arrays are small, and no code of it is loaded.

    Parameters
    ----------
    function : callable
        On arrays, numbers, and tuples of them.
    options
        How Numba compiles it.
    """

    small = SMALL
    patience_s = PATIENCE_S

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.name = f"{function.__module__}.{function.__name__}"
        self.family = family_of(function)
        self.py_func = function
        self.options = options
        update_wrapper(self, function)

    @cached_property
    def compiled(self) -> Any:
        """The `routing.compiler.Compiled` that calls the machine code of the function, or makes it."""
        from routing.compiler import Compiled  # it takes half a second, and what is small does without

        return Compiled(self.py_func, self.options, self.family)

    @property
    def _numba_type_(self) -> Any:
        """What Numba takes its name for in the body of another."""
        return self.compiled._numba_type_

    def __call__(self, *given: Any) -> Any:
        """Call the function, compiled or interpreted."""
        if _interpreter.at_work:
            return self.py_func(*given)
        if self.is_interpreted(given):
            return _interpreter.run(self.py_func, self.readable(given), self.family)
        return self.compiled(*given)

    def is_interpreted(self, given: tuple[Any, ...]) -> bool:
        """Whether to interpret the function for these arguments, and not load or compile it."""
        spent_s = Interpreter.spent_s[self.family]
        if spent_s > self.patience_s:
            return False
        loads = "numba" in sys.modules or spent_s > LOADING_S
        if loads and (self.compiled.has_begun or self.compiled.has_code):  # asked first: arguments take longer
            return False
        return is_small(given, self.small)

    def readable(self, given: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments as they are interpreted."""
        return given


class Interpreter(threading.local):
    """Interprets a kernel with all that it calls."""

    at_work = False
    spent_s: ClassVar[dict[str, float]] = defaultdict(float)
    """By family, of all threads: a command that routes begins new ones, and would be patient in each."""

    def run(self, function: Callable[..., Any], given: tuple[Any, ...], family: str = "") -> Any:
        """Call a function; a division by zero and an integer that does not fit are errors, never other numbers."""
        begin, self.at_work = thread_time(), True
        try:
            with np.errstate(all="raise", under="ignore"):
                return function(*given)
        finally:
            self.at_work = False
            Interpreter.spent_s[family] += thread_time() - begin


_interpreter = Interpreter()


def family_of(function: Callable[..., Any]) -> str:
    """Return what is interpreted, or compiled, together: an engine of the simulation, or all else.

    Fair rates for what packets took seconds to play are interpreted in half a second.
    """
    folder = function.__module__.rpartition(".")[0]
    return folder if folder.startswith("simulate.engines.") else ""


def is_small(given: tuple[Any, ...], most: int) -> bool:
    """Whether no array of the arguments of a kernel, or of tuples among them, has more than so many elements."""
    for value in given:
        if isinstance(value, np.ndarray) and value.size > most:
            return False
        if isinstance(value, tuple) and not is_small(value, most):
            return False
    return True


class Decorator(Protocol):
    """Makes a kernel of a function, to be called like it."""

    def __call__(self, function: F, /) -> F:
        """Return the kernel."""


UNCOUNTED: dict[str, Any] = {"_nrt": False, "no_cfunc_wrapper": True}
"""For functions that make and return no arrays: Numba's reference counts, an atomic addition for each array of each
argument at every call and return, took up to nine tenths of the time of what was called often."""

INNER: dict[str, Any] = {**UNCOUNTED, "no_cpython_wrapper": True}
"""For those of them that only kernels call: to compile how Python would call them takes longer than the rest."""

kernel = cast("Decorator", partial(Kernel, _nrt=True, no_cfunc_wrapper=True))
"""For functions on flat arrays; they hold no lock of Python's, so that a signal can end a command while they run."""

making = cast("Decorator", partial(Kernel, _nrt=True, no_cfunc_wrapper=True, no_cpython_wrapper=True))
"""For functions that only kernels call, and that make arrays."""

inner = cast("Decorator", partial(Kernel, **INNER))
"""For functions that only kernels call, and that make and return no arrays."""

inlined = cast("Decorator", partial(Kernel, **INNER, forceinline=True))
"""For those of them that are called where the time goes: a tuple of arrays is passed word by word, some hundreds of
them, which takes longer than what a short function does."""
