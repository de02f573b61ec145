"""How the cost of a sweep grows: cheap points here, in processes, and on a Dask cluster of separate processes.

Run from the repository: python benchmarks/timings/bench_sweep.py [POINTS ...]. What is printed is wall time over what
the points took themselves, over the number of processes, and microseconds that a point costs besides. In the end a
worker of the cluster is killed half way and its scheduler killed and started anew, and all files are compared with
those of one process.
"""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from plan.sweeps.point import Task
from plan.sweeps.result import tasks_of
from plan.sweeps.run import POINTS, Ran, run_sweep
from plan.sweeps.spec import read_sweep
from topo import config_root

WORKERS = 2


def sweep(folder: Path, count: int, stages: str) -> Path:
    """A sweep of so many points of a lab; seeds make them different."""
    file = folder / "sweep.yaml"
    base, span = config_root() / "lab-20.yaml", f"{{low: 0, high: {count - 1}, steps: {count}}}"
    file.write_text(f"base: {base}\nstages: {stages}\nparameters: {{seed: {span}}}\n")
    return file


def report(what: str, count: int, workers: int, ran: Ran) -> None:
    """Print one line."""
    ideal = ran.own_s / workers
    each = (ran.wall_s - ideal) / count * 1e6
    print(
        f"{what:28} {count:7,} points {ran.wall_s:8.1f} s, {ran.wall_s / ideal - 1:7.1%} over, {each:8.0f} us a point"
    )


def start(port: int, *, scheduler: bool) -> subprocess.Popen[bytes]:
    """Start a scheduler, or a worker of one that may not be there yet."""
    words = ["dask_scheduler", "--port", str(port)]
    if not scheduler:
        words = ["dask_worker", f"tcp://127.0.0.1:{port}", "--nthreads", "1", "--no-nanny", "--death-timeout", "120"]
    command = [sys.executable, "-m", f"distributed.cli.{words[0]}", *words[1:], "--no-dashboard"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def lose(out: Path, tasks: list[Task], port: int, processes: list[subprocess.Popen[bytes]]) -> Ran:
    """Run a sweep on a cluster whose first worker, and then whose scheduler, are killed half way."""
    killed: list[str] = []

    def tell(done: int, of: int) -> None:
        if 2 * done >= of and not killed:
            processes[1].kill()
            killed.append("a worker")
        elif 3 * done >= 2 * of and len(killed) == 1:
            processes[0].kill()
            processes[0].wait()
            killed.append("the scheduler")
            processes.extend(start(port, scheduler=number == 0) for number in range(WORKERS + 1))

    ran = run_sweep(out, tasks, scheduler=f"tcp://127.0.0.1:{port}", tell=tell)
    print(f"killed with SIGKILL half way: {' and '.join(killed)}")
    return ran


def compare(tasks: list[Task], one: Path, other: Path) -> None:
    """Say whether each point is there once, and with the same bytes."""
    found, expected = ({path.name: path.read_bytes() for path in (out / POINTS).rglob("*.json")}
                       for out in (other, one))  # fmt: skip
    same = sum(found.get(name) == content for name, content in expected.items())
    print(f"{len(tasks):,} points: {len(found):,} files, {same:,} as one process wrote them")


def main(counts: list[int]) -> None:
    """Measure this process, several, and a cluster."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    processes = [start(port, scheduler=number == 0) for number in range(WORKERS + 1)]
    try:
        for stages, numbers in (("[design]", counts), ("[design, route]", [min(200, *counts)])):
            for count in numbers:
                with tempfile.TemporaryDirectory() as name:
                    folder = Path(name)
                    tasks = tasks_of(*read_sweep(sweep(folder, count, stages)))
                    for what, workers, options in (
                        ("this process", 1, {}),
                        (f"{WORKERS} processes", WORKERS, {"jobs": WORKERS}),
                        (f"Dask, {WORKERS} workers", WORKERS, {"scheduler": f"tcp://127.0.0.1:{port}"}),
                    ):
                        report(f"{stages} {what}", count, workers, run_sweep(folder / what, tasks, **options))
                    if stages == "[design]" and count == min(counts):
                        lost = lose(folder / "lost", tasks, port, processes)
                        report(f"{stages} Dask, lost twice", count, WORKERS, lost)
                        compare(tasks, folder / "this process", folder / "lost")
    finally:
        for process in processes:
            process.kill()


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(Path(__file__).parents[2]))
    main([int(word) for word in sys.argv[1:]] or [100, 1000, 10_000])
