"""How the cost of a sweep grows: cheap points here, in processes, and on a Dask cluster of separate processes.

Run from the repository: python benchmarks/bench_sweep.py [POINTS ...]. What is printed is wall time over what the
points took themselves, over the number of processes, and microseconds that a point costs besides.
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from plan.commands.sweep import tasks_of
from plan.sweep.run import Ran, run_sweep
from plan.sweep.spec import read_sweep
from topo import config_root

WORKERS = 2


def sweep(folder: Path, count: int, stages: str) -> Path:
    """A sweep of so many points of a lab; seeds make them different."""
    file = folder / "sweep.yaml"
    base = config_root() / "lab-20.yaml"
    file.write_text(f"base: {base}\nstages: {stages}\nparameters: {{seed: {list(range(count))}}}\n")
    return file


def report(what: str, count: int, workers: int, ran: Ran) -> None:
    """Print one line."""
    ideal = ran.own_s / workers
    each = (ran.wall_s - ideal) / count * 1e6
    print(
        f"{what:28} {count:7,} points {ran.wall_s:8.1f} s, {ran.wall_s / ideal - 1:7.1%} over, {each:8.0f} us a point"
    )


def main(counts: list[int]) -> None:
    """Measure this process, several, and a cluster."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    command = [sys.executable, "-m"]
    address, quiet = f"tcp://127.0.0.1:{port}", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    processes = [subprocess.Popen([*command, "distributed.cli.dask_scheduler", "--port", str(port)], **quiet)]
    worker = [*command, "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
    processes += [subprocess.Popen(worker, **quiet) for _ in range(WORKERS)]
    try:
        for stages, numbers in (("[design]", counts), ("[design, route]", [min(counts)])):
            for count in numbers:
                with tempfile.TemporaryDirectory() as name:
                    folder = Path(name)
                    tasks = tasks_of(*read_sweep(sweep(folder, count, stages)))
                    for what, workers, options in (
                        ("this process", 1, {}),
                        (f"{WORKERS} processes", WORKERS, {"jobs": WORKERS}),
                        (f"Dask, {WORKERS} workers", WORKERS, {"scheduler": address}),
                    ):
                        report(f"{stages} {what}", count, workers, run_sweep(folder / what, tasks, **options))
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[1]))
    main([int(word) for word in sys.argv[1:]] or [100, 1000, 10_000])
