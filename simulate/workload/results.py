"""What the flows of a job amount to: its time, its bandwidth as the field reports it, how long its flows took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from simulate.outcome.outcome import Outcome
from simulate.traffic.collectives.algorithms import algorithm_gbytes_per_s, bus_factor
from simulate.workload.place import Workload
from simulate.workload.spec import CollectiveJob, GpuAllreduceJob

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
"""Percentiles of the times of flows that are reported; the last is the longest."""


@dataclass(frozen=True)
class JobResult:
    """What became of a job."""

    name: str
    kind: str
    """``collective``, ``gpu-allreduce``, ``training``, ``storage``, ``goal``, ``chakra`` or ``flows``."""
    ranks: int
    """End ports that take part; GPUs, where servers are looked into."""
    flows: int
    """Flows that cross the network; those of a rank to itself, which stand for compute, do not count."""
    bytes: float
    """What these flows move."""
    start_s: float
    """The earliest time at which the job may begin."""
    finish_s: float
    """When its last flow has ended."""
    alone_s: float | None
    """What it takes when no other job runs; None when that was not played."""
    collective: str | None
    """None for other kinds of jobs, as what follows."""
    algorithm: str | None
    size_bytes: float | None
    """Buffer of a rank."""
    once_s: float | None
    """Mean time of one repetition, without what is computed before it."""
    flow_s: tuple[float, ...]
    """How long its flows took, each from its own begin: the `PERCENTILES` of it, empty when none crosses the network.
    With so many numbers as flows, each percentile is the time of a flow, never a mean of two."""

    @property
    def time_s(self) -> float:
        """From the start of the job to its end."""
        return self.finish_s - self.start_s

    @property
    def slowdown(self) -> float | None:
        """How many times longer it takes beside the other jobs than alone."""
        return self.time_s / self.alone_s if self.alone_s else None

    @property
    def algorithm_gbytes_per_s(self) -> float | None:
        """The ``algbw`` of nccl-tests; None when it is no collective, or moves nothing."""
        return algorithm_gbytes_per_s(self.size_bytes, self.once_s) if self.size_bytes and self.once_s else None

    @property
    def bus_gbytes_per_s(self) -> float | None:
        """The ``busbw`` of nccl-tests."""
        bandwidth = self.algorithm_gbytes_per_s
        if bandwidth is None or self.collective is None:
            return None
        return bandwidth * bus_factor(self.collective, self.ranks)

    def summary(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        times = {_percentile(p): value for p, value in zip(PERCENTILES, self.flow_s, strict=False)}
        derived = {
            name: getattr(self, name) for name in ("time_s", "slowdown", "algorithm_gbytes_per_s", "bus_gbytes_per_s")
        }
        return {**asdict(self), **derived, "flow_s": times}


def job_results(
    workload: Workload, outcome: Outcome, alone_finish_s: Sequence[float] | None = None
) -> tuple[JobResult, ...]:
    """Return what became of each job.

    Parameters
    ----------
    outcome
        Of all flows of the workload on one network.
    alone_finish_s
        When the last flow of each job ended as its flows were played on the same network without the others.
    """
    results = []
    flows = workload.flows
    for number, job in enumerate(workload.jobs):
        mine = workload.span(number)
        moves = flows.src[mine] != flows.dst[mine]
        start = float(flows.start_s[mine].min(initial=np.inf))
        start = start if np.isfinite(start) else job.spec.start
        finish = float(outcome.finish_s[mine].max(initial=start))
        times = (outcome.finish_s[mine] - outcome.start_s[mine])[moves]
        alone = None if alone_finish_s is None else max(0.0, alone_finish_s[number] - start)
        spec = job.spec if isinstance(job.spec, (CollectiveJob, GpuAllreduceJob)) else None
        results.append(
            JobResult(
                name=job.spec.name,
                kind=job.spec.kind,
                ranks=job.n_ranks,
                flows=int(np.count_nonzero(moves)),
                bytes=float(flows.size_bytes[mine][moves].sum()),
                start_s=start,
                finish_s=finish,
                alone_s=alone,
                collective=getattr(spec, "collective", "allreduce") if spec else None,
                algorithm=spec.algorithm if spec else None,
                size_bytes=spec.size if spec else None,
                once_s=(finish - start) / spec.repeat - spec.compute if spec else None,
                flow_s=tuple(np.percentile(times, PERCENTILES, method="inverted_cdf").tolist()) if len(times) else (),
            )
        )
    return tuple(results)


def _percentile(value: float) -> str:
    return "max" if value == 100 else f"p{value:g}"
