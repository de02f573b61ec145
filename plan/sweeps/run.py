"""Runs a sweep: the files are its state, and whatever computes the points can be lost.

A point is a file that is written aside and renamed, by one process alone. Joblib computes points on this machine, the
workers of a Dask scheduler on others, which get all files that a point reads. What a crash leaves is never a half
point.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from plan.files import write_file
from plan.pipeline import Progress, silent
from plan.sweeps.point import Task, compute
from topo import HeddleError, ToolError

POINTS = "points"
PATIENCE = 5
"""Times that a cluster may be lost without a point between."""
PAUSE_S = 2.0
AHEAD = 10_000
"""Points that a scheduler knows at a time: it keeps a record of each."""
CONNECT_S = 10
"""Seconds until a scheduler that does not answer counts as lost."""


@dataclass(frozen=True)
class Ran:
    """How a run went."""

    computed: int
    """Points that this run computed."""
    found: int
    """Points that were there."""
    own_s: float
    """What the points took themselves, all together."""
    wall_s: float
    whole: bool
    """Whether no point is missing."""


def point_file(folder: Path, name: str) -> Path:
    """Return where a point is kept."""
    return folder / POINTS / name[:2] / f"{name}.json"


def read_point(folder: Path, name: str) -> dict[str, Any] | None:
    """Return a point; None where there is none, or no whole one, as after a loss of power."""
    try:
        document = json.loads(point_file(folder, name).read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) and "point" in document else None


def write_point(folder: Path, name: str, content: bytes) -> None:
    """Keep a point; HeddleError if there is no room on the device, for example."""
    path = point_file(folder, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HeddleError(f"{path.parent}: cannot be written ({error.strerror})") from None
    write_file(path, content)


def run_sweep(
    folder: Path,
    tasks: Sequence[Task],
    *,
    jobs: int = 1,
    scheduler: str | None = None,
    again: bool = False,
    step: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Ran:
    """Compute every point that has no file in the folder yet, in ``jobs`` processes here or on a Dask cluster.

    Points that have failed are tried ``again`` if so asked; ``stop`` is asked whether to leave off. ToolError if the
    scheduler or the processes are lost again and again.
    """
    begin, own_s, computed = time.perf_counter(), 0.0, 0
    by_name = {task.name: task for task in tasks}
    there = {name: point for name in by_name if (point := read_point(folder, name)) is not None}
    left = {name: by_name[name] for name in by_name if name not in there or (again and "error" in there[name])}
    found, lost = len(by_name) - len(left), 0
    step(f"{len(by_name):,} points", found / max(len(by_name), 1))
    while left and not stop():
        before = len(left)
        try:
            todo = list(left.values())
            with closing(_computed_here(todo, jobs) if scheduler is None else _on_cluster(todo, scheduler)) as results:
                for name, seconds, content in results:
                    write_point(folder, name, content)
                    del left[name]
                    own_s, computed = own_s + seconds, computed + 1
                    step(f"{len(by_name):,} points", 1 - len(left) / len(by_name))
                    if stop():
                        break
        except HeddleError:
            raise
        except Exception as error:  # whatever a lost cluster is reported as: the files say what is left
            lost = 0 if len(left) < before else lost + 1
            if lost >= PATIENCE:
                where = scheduler or "the processes of this machine"
                raise ToolError(f"{where}: lost {lost} times without a point between ({error}); {len(left):,} points "
                                "are left; repeat the command to continue") from error  # fmt: skip
            time.sleep(PAUSE_S)
    return Ran(computed, found, own_s, time.perf_counter() - begin, not left)


def _computed_here(tasks: list[Task], jobs: int) -> Generator[tuple[str, float, bytes], None, None]:
    from joblib import Parallel, delayed

    yield from Parallel(n_jobs=jobs, return_as="generator_unordered")(delayed(compute)(task) for task in tasks)


def _on_cluster(tasks: list[Task], scheduler: str) -> Generator[tuple[str, float, bytes], None, None]:
    """Compute points on the workers of a Dask scheduler, however few, with the files that the points read."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise HeddleError("--scheduler: found no Dask; install the extra `cluster`") from None
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what is lost is told by the command
    files = {path: Path(path).read_bytes() for path in tasks[0].files}
    waiting = iter(tasks)
    client = distributed.Client(scheduler, timeout=CONNECT_S)
    try:
        kept = client.scatter(files, broadcast=True, hash=False) if files else {}
        there = distributed.as_completed(
            client.submit(compute, task, kept, pure=False) for task in islice(waiting, AHEAD)
        )
        for future in there:
            yield future.result()
            there.update([client.submit(compute, task, kept, pure=False) for task in islice(waiting, 1)])
    finally:
        client.close(timeout=2)
