"""The budget of a whole command: CPU seconds and memory, by the limits of the operating system."""

from __future__ import annotations

import resource

from topo import budgets

GIB = 2**30


def impose(cpu_s: int | None = None, memory_gib: float | None = None) -> None:
    """Let this process take no more than its budget; limits of the shell that are lower stay.

    Beyond its CPU seconds it gets SIGXCPU, by which `plan.signals` ends it; beyond its memory, MemoryError.

    Parameters
    ----------
    cpu_s
        Seconds of CPU of all threads; the budget `command-cpu` when left out.
    memory_gib
        Memory that is asked of the system, in GiB; the budget `command-memory` when left out.
    """
    cpu = budgets()["command-cpu"].limit if cpu_s is None else cpu_s
    memory = budgets()["command-memory"].limit if memory_gib is None else int(memory_gib * GIB)
    for kind, most in ((resource.RLIMIT_CPU, cpu), (resource.RLIMIT_DATA, memory)):
        soft, hard = resource.getrlimit(kind)
        stated = [limit for limit in (most, soft, hard) if limit != resource.RLIM_INFINITY]
        resource.setrlimit(kind, (min(stated), hard))
