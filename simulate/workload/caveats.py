"""What a reader of a workload's times must know of single jobs: a failure, what limits them, what was measured."""

from __future__ import annotations

from typing import NamedTuple

from simulate.engines.critical_path import critical_segments, time_by_kind
from simulate.engines.outcome import Outcome
from simulate.traffic.hfreduce import CHUNK_BYTES
from simulate.workload.place import RunningJob, Workload
from simulate.workload.spec import GpuCollectiveJob, GpuJob
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

    def __str__(self) -> str:
        return (
            f"from data sheets, the bandwidth of an allreduce by {self.system} on {SERVER} is {self.error[0]:+} to "
            f"{self.error[1]:+} % off what was published for {self.gpus[0]:,} to {self.gpus[1]:,} GPUs "
            "(docs/validation/fire-flyer.md)"
        )


MEASURED = (
    Deviation("HFReduce", (16, 1440), (15.1, 44.5)),
    Deviation("HFReduce with NVLink", (16, 1024), (-4.6, 41.3)),
    Deviation("NCCL", (16, 512), (-13.8, 27.6)),
    Deviation("NCCL", (1024, 1440), (141.2, 144.1)),
)
"""On servers of that model: the tables of docs/validation/fire-flyer.md."""


def caveats_of_jobs(workload: Workload, outcome: Outcome) -> tuple[str, ...]:
    """Return what holds for some jobs alone, each as ``keyword: explanation``, as `Outcome.caveats` for all."""
    jobs: dict[str, list[str]] = {}
    for number, job in enumerate(workload.jobs):
        for said in (_left_out(job), "" if workload.acts else _limit(job, workload.span(number), outcome), _error(job)):
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


def _error(job: RunningJob) -> str:
    """Return what was measured on servers like these, where a job is played from data sheets."""
    spec, servers = job.spec, job.servers
    if not isinstance(spec, GpuJob) or servers is None or servers.model.name != SERVER:
        return ""
    system = "NCCL"
    if isinstance(spec, GpuCollectiveJob):
        source = servers.model.sources.get("root_port_gbyte_per_s")
        if spec.algorithm == "hfreduce":
            system = "HFReduce with NVLink" if spec.nvlink else "HFReduce"
            if spec.chunk != CHUNK_BYTES and source is not None and source.confidence == "own":
                return ""  # both numbers that the page calibrates are the user's own
        elif spec.collective != "allreduce":
            return ""
    rows = [row for row in MEASURED if row.system == system]
    return f"measured: {next((row for row in rows if job.n_ranks <= row.gpus[1]), rows[-1])}"
