"""What a reader of a workload's times must know of single jobs: a failure, what limits them, what was measured."""

from __future__ import annotations

from typing import NamedTuple

from simulate.engines.critical_path import critical_segments, time_by_kind
from simulate.engines.outcome import Outcome
from simulate.traffic.hfreduce import CHUNK_BYTES
from simulate.workload.place import RunningJob, Workload
from simulate.workload.spec import CollectiveJob, GpuCollectiveJob, GpuJob
from topo.errors import plural

SHOWN_JOBS = 3
"""Jobs that a caveat names."""
SERVER = "pcie-a100"


class Deviation(NamedTuple):
    """How far bandwidths computed from data sheets are from published ones: 186 MiB, Fig. 7 of arXiv 2408.14158v2."""

    system: str
    gpus: tuple[int, int]
    """The least and the most."""
    error: tuple[float, float]
    """The least and the most, computed / published - 1, in per cent."""

    @property
    def ratios(self) -> tuple[float, float]:
        """Measured time / computed time, the least and the most."""
        return 1 + self.error[0] / 100, 1 + self.error[1] / 100

    def __str__(self) -> str:
        return (
            f"the time is computed from data sheets; measured, an allreduce of 186 MiB by {self.system} on {SERVER} "
            f"took {self.ratios[0]:.2f} to {self.ratios[1]:.2f} times as long, on {self.gpus[0]:,} to "
            f"{self.gpus[1]:,} GPUs (docs/validation/fire-flyer.md)"
        )


MEASURED = (
    Deviation("HFReduce", (16, 1440), (15.1, 44.5)),
    Deviation("HFReduce with NVLink", (16, 1024), (-4.6, 41.3)),
    Deviation("NCCL", (16, 512), (-13.8, 27.6)),
    Deviation("NCCL", (1024, 1440), (141.2, 144.1)),
)
"""On servers of that model: the tables of docs/validation/fire-flyer.md."""
MEASURED_BYTES = 186 * 2**20
CALIBRATE = (
    "; calibrate with `chunk: 6 MiB` in the job, and in figures.csv of `catalog` the lines "
    "`model,figure,value,source,date,confidence` and `pcie-a100,root_port_gbyte_per_s,33,calibrated,2024-08-31,own`"
)
"""Fitted to two points of HFReduce: "Use the calibrated numbers" of that page. NCCL has no such numbers."""
BETWEEN_ADAPTERS = (
    "between adapters alone: what GPUs do inside their servers is left out; `kind: gpu-collective` has it"
)
OF_ONE_SCHEDULE = (
    "one schedule of messages between GPUs, without what NCCL adds (a ring or tree for each adapter, its protocols); "
    "`kind: gpu-collective` has it"
)


def caveats_of_jobs(workload: Workload, outcome: Outcome) -> tuple[str, ...]:
    """Return what holds for some jobs alone, each as ``keyword: explanation``, as `Outcome.caveats` for all."""
    jobs: dict[str, list[str]] = {}
    for number, job in enumerate(workload.jobs):
        for said in (
            _left_out(job),
            "" if workload.acts else _limit(job, workload.span(number), outcome),
            (OF_ONE_SCHEDULE if job.servers else BETWEEN_ADAPTERS) if isinstance(job.spec, CollectiveJob) else "",
            _error(job),
        ):
            jobs.setdefault(said, []).append(job.spec.name)
    jobs.pop("", None)
    named = {said: ", ".join(names[:SHOWN_JOBS]) for said, names in jobs.items()}
    more = {said: f" and {len(names) - SHOWN_JOBS:,} more" for said, names in jobs.items() if len(names) > SHOWN_JOBS}
    return tuple(f"{said} [{names}{more.get(said, '')}]" for said, names in named.items())


def _left_out(job: RunningJob) -> str:
    """Return what a job has to do without that takes all servers."""
    what = plural(job.left_out, "server" if job.spec.whole_servers else "adapter port")
    return f"smaller after a failure: {what} without a link to the network left out" if job.left_out else ""


def _limit(job: RunningJob, span: slice, outcome: Outcome) -> str:
    """Return what holds a job back for the longest time, where no link of the network is on its critical path.

    Packets are left out, of which the engine does not know what held each back from first to last.
    """
    n_links = outcome.network.fabric.n_ports
    path = critical_segments(outcome, span) if job.servers and outcome.congestion is None else []
    if not path or any(0 <= segment.resource < n_links for segment in path):
        return ""
    what = next(iter(time_by_kind(path)))
    return f"not the network: no link of it is on the critical path; the most of that is {what} (--why shows all)"


def measured_s(job: RunningJob, time_s: float) -> tuple[float, float] | None:
    """Return what an allreduce takes by what was measured, the least and the most; None where it was not.

    It is the computed time by the cited ratio. Of an allreduce that the user has calibrated in part it is unknown, and
    so is that of an algorithm which NCCL does not choose, or of more GPUs than were measured.
    """
    spec, found = job.spec, _deviation(job)
    if found is None or not isinstance(spec, GpuCollectiveJob) or spec.size != MEASURED_BYTES or _own(job):
        return None
    if job.n_ranks > found.gpus[1] or (found.system == "NCCL" and spec.algorithm != "auto"):
        return None
    return time_s * found.ratios[0], time_s * found.ratios[1]


def _own(job: RunningJob) -> int:
    """Return how many of the two numbers that the page calibrates are the user's own."""
    source = job.servers.model.sources.get("root_port_gbyte_per_s") if job.servers else None
    own_port = source is not None and source.confidence == "own"
    return own_port + (isinstance(job.spec, GpuCollectiveJob) and job.spec.chunk != CHUNK_BYTES)


def _deviation(job: RunningJob) -> Deviation | None:
    """Return what was measured on servers like these, where a job is played from data sheets."""
    spec, servers, system = job.spec, job.servers, "NCCL"
    if not isinstance(spec, GpuJob) or servers is None or servers.model.name != SERVER:
        return None
    if isinstance(spec, GpuCollectiveJob):
        if spec.algorithm == "hfreduce":
            system = "HFReduce with NVLink" if spec.nvlink else "HFReduce"
            if _own(job) == 2:
                return None
        elif spec.collective != "allreduce":
            return None
    rows = [row for row in MEASURED if row.system == system]
    return next((row for row in rows if job.n_ranks <= row.gpus[1]), rows[-1])


def _error(job: RunningJob) -> str:
    """Return how far what was measured is from what is computed, and how to calibrate that."""
    found = _deviation(job)
    if found is not None:
        beyond = f"; {job.n_ranks:,} GPUs are beyond these" if job.n_ranks > found.gpus[1] else ""
        return f"measured: {found}{beyond}{CALIBRATE * found.system.startswith('HFReduce')}"
    if isinstance(job.spec, GpuJob) and job.servers is not None and not _own(job):
        return (f"from data sheets, not measured on {job.servers.model.name}: how far times of GPUs are from measured "
                "ones elsewhere stands in docs/validation/accuracy.md")  # fmt: skip
    return ""
