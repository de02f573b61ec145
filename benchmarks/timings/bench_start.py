"""How long small commands take once everything is compiled and kept: CPU time, and beside that of ``import numpy``.

    python benchmarks/timings/bench_start.py

User and system time of the process and its children, the least of ten runs, in turn so that a busy machine slows all.
The first run of each command, which may compile, is not counted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

RUNS = 10
LAB = str(Path(__file__).parents[2] / "configs" / "lab-20.yaml")
COMMANDS = (
    ("-c", "import numpy"),
    ("-m", "plan", "--help"),
    ("-m", "plan", "check", LAB),
    ("-m", "plan", "simulate", LAB, "-w", "allreduce"),
)


def cpu_s(command: tuple[str, ...]) -> float:
    """Return the CPU seconds of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Print a line for each command."""
    best = dict.fromkeys(COMMANDS, float("inf"))
    for run in range(RUNS + 1):
        for command in COMMANDS:
            seconds = cpu_s(command)
            if run:
                best[command] = min(best[command], seconds)
    for command, seconds in best.items():
        said = " ".join(command[1:]).replace(LAB, "lab-20.yaml")
        print(f"{said:45} {seconds:5.2f} s {seconds / best[COMMANDS[0]]:6.1f}")


if __name__ == "__main__":
    main()
