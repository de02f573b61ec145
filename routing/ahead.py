"""Compiles kernels side by side in helper processes, before they are called: Numba compiles one at a time in each.

A kernel is compiled together with all that it calls, so what is called is compiled first, and kept where the others
find it. Which types the kernels of a command take is known from `SIGNATURES`, which ``scripts/make_kernels.py`` writes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, cached_property
from importlib import import_module
from itertools import chain
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np
from numba.core import types
from numba.np.numpy_support import from_dtype

from routing.compiler import LOG, find_reached

SIGNATURES = Path(__file__).with_name("signatures.json")
"""``commands``: the kernels that some commands call, each; ``functions``: the types of the arguments of those, and of
all that they call; ``tuples``: class and types of each kind of named tuple among these."""
ARRAY = re.compile(r"(readonly )?array\((\S+), (\d)d, (\w)\)")
"""How an array is spelled."""
HELPER = "import routing.ahead; routing.ahead.help_out()"
STARTING = 3
"""Functions that are compiled in the time that a helper takes to start: .4 s for each, 1.2 s for Numba and modules."""
MACHINE_CODE = 1 / 3
"""Time to make machine code of a byte of bytecode, by that for all before it. Least squares over the 158 functions of a
build and a simulation by packets say 0.34: 0.24 and 0.08 ms a byte, with a correlation of 0.97."""
FORESEEN = 0.1
"""Part of the work after which it is said how long all of it will take."""

_lock = threading.Lock()


class Task:
    """A function to be compiled for some signatures."""

    def __init__(self, name: str, signatures: Sequence[Sequence[Any]]) -> None:
        module, _, attribute = name.rpartition(".")
        self.name = name
        self.signatures = [tuple(map(read_type, signature)) for signature in signatures]
        self.kernel = getattr(import_module(module), attribute)
        self.work = len(self.kernel.py_func.__code__.co_code)
        """Bytes of bytecode, by which the time to compile a function goes; `MACHINE_CODE` of all that it calls, too."""
        if not self.kernel.options.get("no_cpython_wrapper"):
            reached = find_reached(self.kernel.py_func)
            self.work += round(MACHINE_CODE * sum(len(one.__code__.co_code) for one in reached))

    @cached_property
    def called(self) -> set[Any]:
        """All functions that are compiled with this one."""
        return set(find_reached(self.kernel.py_func)[1:])

    def compile(self) -> None:
        """Compile what is not kept."""
        for signature in self.signatures:
            self.kernel.compiled.compile(signature)


def read_type(said: str | int) -> Any:
    """Return a type of Numba's as `SIGNATURES` spells it: a number stands for a named tuple."""
    if isinstance(said, int):
        name, fields = _listed()["tuples"][said]
        return types.BaseTuple.from_types([read_type(field) for field in fields], _named(name))
    if match := ARRAY.fullmatch(said):
        readonly, dtype, n_dims, layout = match.groups()
        kind: Any = types.Array
        return kind(read_type(dtype), int(n_dims), layout, readonly=bool(readonly))
    return from_dtype(_named(said) if "." in said else np.dtype(said))


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


@cache
def _listed() -> Any:
    return json.loads(SIGNATURES.read_text("utf-8"))


def compile_ahead(name: str) -> None:
    """Compile what is not kept of all that is called by every command that calls a kernel, if two helpers are worth it.

    Of one family: others may be interpreted.

    Where a helper cannot start, or ends, nothing is said: what is missing then is compiled when it is called.
    """
    with _lock:
        common = [frozenset(names) for names in _listed()["commands"] if name in names]
        if common:
            together, family = frozenset.intersection(*common), Task(name, ()).kernel.family
            _compile(frozenset(other for other in together if Task(other, ()).kernel.family == family))


@cache
def _compile(names: frozenset[str]) -> None:
    listed = _listed()["functions"]
    called = {function for name in names for function in Task(name, ()).called}
    names |= {f"{function.__module__}.{function.__name__}" for function in called}
    tasks = [Task(name, listed[name]) for name in sorted(names & listed.keys())]
    due = [task for task in tasks if not task.kernel.compiled.has_code]
    helpers = min(len(os.sched_getaffinity(0)), len(due) // (2 * STARTING))
    if helpers > 1 and all(task.kernel.compiled.can_be_kept for task in due):
        Crew(due).work(helpers)


class Crew:
    """Helpers that share tasks: a function after what it calls, and first what the longest chain waits for."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks
        self.left = list(tasks)
        self.done: list[Task] = []
        self.changed = threading.Condition()
        self.begin = inf
        self.chain: dict[str, int] = {}
        """Work of each task, and of the longest chain of tasks that wait for it."""
        for task in sorted(tasks, key=lambda task: len(task.called), reverse=True):  # callers first
            callers = [self.chain[other.name] for other in tasks if task.kernel.py_func in other.called]
            self.chain[task.name] = task.work + max(callers, default=0)

    def work(self, helpers: int) -> None:
        """Do all tasks."""
        with ThreadPoolExecutor(helpers) as pool:
            list(pool.map(self._lead, range(helpers)))

    def _lead(self, _: int) -> None:
        """Give tasks to one helper until none is left, or it is gone."""
        try:
            with suppress(OSError), self._helper() as helper:
                helper.stdout.readline()  # type: ignore[union-attr]
                self.begin = min(self.begin, monotonic())
                while (task := self._take()) is not None:
                    print(task.name, file=helper.stdin, flush=True)
                    if not helper.stdout.readline():  # type: ignore[union-attr]
                        return
                    self._finish(task)
        finally:
            with self.changed:
                self.left.clear()
                self.changed.notify_all()

    def _helper(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", HELPER],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def _take(self) -> Task | None:
        """Return the next task, as soon as there is one; None when all are taken."""
        with self.changed:
            while self.left:
                due = {task.kernel.py_func for task in self.tasks if task not in self.done}
                ready = [task for task in self.left if not task.called & due]
                if ready:
                    task = max(ready, key=lambda task: self.chain[task.name])
                    self.left.remove(task)
                    return task
                self.changed.wait()
            return None

    def _finish(self, task: Task) -> None:
        with self.changed:
            self.done.append(task)
            self.changed.notify_all()
            part = sum(task.work for task in self.done) / sum(task.work for task in self.tasks)
        if part >= FORESEEN:
            text = "compiling %d of %d functions, once for this machine: about %.0f s in all"
            LOG.info(text, len(self.done), len(self.tasks), (monotonic() - self.begin) / part)


def help_out() -> None:
    """Say that all is loaded; compile the functions that are named on standard input, and say so after each."""
    for line in chain("\n", sys.stdin):
        if name := line.strip():
            Task(name, _listed()["functions"][name]).compile()
        sys.stdout.write(line)
        sys.stdout.flush()
