"""A cluster at work: a queue of jobs is played on a routed fabric for hours or days, and becomes figures."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from plan.render.progress import Step
from simulate.cluster.job import JobRecord
from simulate.cluster.run import ClusterRun


@dataclass(frozen=True)
class Operation:
    """What has become of a queue."""

    jobs: tuple[JobRecord, ...]
    now_s: float
    stopped: bool
    """Whether somebody stopped it before its time."""

    def document(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        return {"time_s": self.now_s, "stopped": self.stopped, "jobs": [job.to_dict() for job in self.jobs]}


def operate_until(run: ClusterRun, until_s: float, step: Step) -> Operation:
    """Play until all jobs have ended, it is so late, or somebody stops it by an interrupt or SIGTERM."""

    def progress(now_s: float) -> None:
        catching_up = run.env.replaying
        step("catching up" if catching_up else "playing", run.env.replayed if catching_up else now_s / until_s)

    with stopping() as stopped:
        finished = run.play(until_s, progress=progress, stop=lambda: bool(stopped))
    all_ended = all(job.end_s is not None for job in run.records)
    now_s = until_s if finished and not all_ended else run.env.now
    return Operation(run.records, now_s, stopped=not finished)


@contextmanager
def stopping() -> Iterator[list[int]]:
    """Give a list that gets the first signal of each kind to stop; the second one does what it always does."""
    caught: list[int] = []

    def catch(number: int, frame: FrameType | None) -> None:
        caught.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
