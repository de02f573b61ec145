"""The budget of a whole command: CPU seconds and memory, by the limits of the operating system."""

from __future__ import annotations

import os
import resource

from topo import HeddleError, budgets

GIB = 2**30
LEAST = GIB // 4
"""Bytes of memory without which libraries end, or hang, as they are imported."""


def impose(cpu_s: int | None = None, memory_gib: float | None = None) -> None:
    """Let this process take no more than its budget; limits of the shell that are lower stay.

    Beyond its CPU seconds it gets SIGXCPU, by which `plan.signals` ends it; beyond its memory, MemoryError.

    Parameters
    ----------
    cpu_s
        Seconds of CPU of all threads; the budget `command-cpu` when left out.
    memory_gib
        Memory that is asked of the system, in GiB; the budget `command-memory` when left out.

    Raises
    ------
    HeddleError
        When the shell allows less memory than any command needs.
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
