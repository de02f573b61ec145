"""Ends the command when a signal asks for it, or its budget of CPU seconds or memory is used up.

Python runs a signal's handler between two instructions of the main thread. A kernel that works for minutes holds it up,
and an exception that a handler raises can come out of Numba's dispatcher as a different one, or be lost in a callback.
So no handler of ours does anything. The interpreter also writes the number of each signal to a pipe, at once and
whatever the main thread does (`signal.set_wakeup_fd`); a thread reads it and ends the process.

This is sound because all that the command writes is whole or is not there at every moment (`plan.staging`).
"""

from __future__ import annotations

import math
import os
import resource
import select
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import RLock, Thread
from time import monotonic

from topo import HeddleError, budgets

GRACE_S = 0.9
"""How long a command may take to leave off by itself after a signal, where it asks for that, or to end a whole step."""

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGXCPU)

BEYOND = "took more CPU than it may (budget command-cpu); give more with `plan --cpu`"

UNDIVIDED = RLock()
"""Held during steps that a signal must not divide. Who asks for it while the command ends waits for ever."""

_tidying: list[Callable[[], None]] = []
_asking: list[Callable[[int], None]] = []


@contextmanager
def watching() -> Iterator[None]:
    """Let the signals of `ENDING` end the process, with 128 + their number; in the main thread only.

    SIGXCPU says that the budget of CPU seconds is used up: status 2. One that was ignored, as by ``nohup``, stays so.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    found = {number: signal.getsignal(number) for number in ENDING}
    before = {number: handler for number, handler in found.items() if handler not in (signal.SIG_IGN, None)}
    listener = Thread(target=_listen, args=(reading,), daemon=True)
    listener.start()
    wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in before:
        signal.signal(number, lambda number, frame: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(writing)  # ends the listener
        listener.join()
        os.close(reading)


@contextmanager
def tidied(tidy: Callable[[], None]) -> Iterator[None]:
    """Let a signal that ends the command do this before, once, as long as the block lasts."""
    _tidying.append(tidy)
    try:
        yield
    finally:
        with UNDIVIDED:
            _tidying.remove(tidy)


@contextmanager
def asked() -> Iterator[list[int]]:
    """Give a list that gets the first signal; the block may leave off by itself, within `GRACE_S`.

    A second signal ends the command at once.
    """
    caught: list[int] = []
    _asking.append(caught.append)
    try:
        yield caught
    finally:
        _asking.clear()


def _listen(reading: int) -> None:
    """Wait for signals and end the process."""
    while number := os.read(reading, 1):
        with suppress(BaseException):  # whatever fails, for want of memory say, the process ends
            if _asking:
                _asking.pop()(number[0])
                if select.select([reading], [], [], GRACE_S)[0]:
                    continue
            _tidy(number[0])
        os._exit(HeddleError.exit_code if number[0] == signal.SIGXCPU else 128 + number[0])


def _tidy(number: int) -> None:
    """Leave nothing half done: wait for a step that must not be divided, tidy up, and say what ends the command."""
    limit = monotonic() + GRACE_S
    if UNDIVIDED.acquire(timeout=GRACE_S):  # else the device hangs, and a kill leaves nothing worse
        for tidy in reversed(_tidying):
            if monotonic() < limit:
                with suppress(Exception):
                    tidy()
    name = signal.Signals(number).name
    shown = {"SIGINT": "interrupted", "SIGXCPU": BEYOND}.get(name, f"ended by {name}")
    with suppress(Exception):
        if sys.stderr.isatty():
            os.write(2, b"\r\x1b[K\x1b[?25h")  # no line of progress stays, and the cursor comes back
        os.write(2, f"plan: {shown}\n".encode())


def renew() -> None:
    """Let a command that runs for ever take its budget of CPU seconds anew, from now on."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    limit = math.ceil(used.ru_utime + used.ru_stime) + budgets()["command-cpu"].limit
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


GIB = 2**30
LEAST = GIB // 4
"""Bytes of memory without which libraries end, or hang, as they are imported."""


def impose(cpu_s: int | None = None, memory_gib: float | None = None) -> None:
    """Let this process take no more than its budget; limits of the shell that are lower stay.

    Beyond its seconds of CPU of all threads (the budget `command-cpu` when left out) it gets SIGXCPU, by which
    `watching` ends it; beyond its memory (`command-memory`), MemoryError. HeddleError if the shell allows less memory
    than any command needs.
    """
    # NumPy's and SciPy's threads would take 40 MB for each core of the machine, and nothing here is work for them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    cpu = budgets()["command-cpu"].limit if cpu_s is None else cpu_s
    memory = budgets()["command-memory"].limit if memory_gib is None else int(memory_gib * GIB)
    limits = (
        (resource.RLIMIT_CPU, cpu, 0),
        (resource.RLIMIT_DATA, memory, LEAST),
        (resource.RLIMIT_AS, resource.RLIM_INFINITY, 4 * LEAST),  # what libraries map counts, too
    )
    for kind, most, least in limits:
        soft, hard = resource.getrlimit(kind)
        limit = min((given for given in (most, soft, hard) if given != resource.RLIM_INFINITY), default=most)
        if limit != resource.RLIM_INFINITY and limit < least:
            found = f"found a limit of {limit // 2**20:,} MiB on memory; expected {least // 2**20:,} or more"
            raise HeddleError(f"plan: {found}. See `ulimit -a` of the shell")
        resource.setrlimit(kind, (limit, hard))


def lift_memory() -> None:
    """Let this process take what memory the shell allows: it ends, and must have room to say why."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
