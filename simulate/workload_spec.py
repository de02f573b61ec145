"""What a workload's YAML may say: jobs that run at the same time, and where."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from simulate.collectives import ALGORITHMS
from topo.fabric import Role
from topo.formats.spec_yaml import Document, read_yaml
from topo.nearest import did_you_mean
from topo.spec import ServerRole
from topo.spec_model import SpecModel
from topo.spec_names import Name
from topo.units import Bytes, Seconds
from topo.validation import validate

__all__ = [
    "ChakraJob",
    "CollectiveJob",
    "FlowsJob",
    "GoalJob",
    "Job",
    "PlacedJob",
    "WorkloadSpec",
    "read_workload_spec",
    "validate_workload",
]

Group = Literal["leaf", "zone"]
Mapping = Literal["as-placed", "by-leaf", "by-zone", "halving-doubling", "random"]

GROUPED = ("zone-tree", "hierarchical")
"""Algorithms that need to know where the ranks are, which a trace is read without."""


class JobBase(SpecModel):
    """What every job has."""

    name: Name
    """Name of the job, for reports."""
    start: Seconds = 0.0
    """When it begins, such as ``20 ms``."""


class PlacedJob(JobBase):
    """A job whose ranks are placed on adapter ports, one each."""

    sl: Annotated[int, Field(ge=0, le=15)] = 0
    """Service level of its messages."""
    nodes: Annotated[tuple[str, ...], Field(max_length=49_151, strict=False)] | None = None
    """Adapters by name, rank after rank; jobs that name the same ones share them. Without this, free ones are taken."""
    role: ServerRole = Role.COMPUTE
    """What the servers are for whose adapters may be taken."""
    within: Literal["leaf", "zone", "fabric"] = "fabric"
    """What the job must not leave: it is put on the first leaf or in the first zone with room for all of it."""
    zone: Annotated[int, Field(ge=0, le=32_767)] | None = None
    """The zone that it must run in, where that matters."""
    spread: Group | None = None
    """Deal the ranks evenly over leaves or zones; without this, adapters are taken in order."""
    mapping: Mapping = "as-placed"
    """Which rank runs on which of the adapters."""


class CollectiveJob(PlacedJob):
    """A collective, over and over."""

    kind: Literal["collective"]
    """A collective."""
    collective: Literal["allreduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "pipeline"]
    """What the ranks do together."""
    algorithm: Annotated[str, Field(validate_default=True)] = ""
    """How they do it; the ring where there is one, when left out."""
    size: Bytes
    """Largest buffer that a rank holds, such as ``186 MiB``; of a pipeline, all micro-batches together."""
    ranks: Annotated[int, Field(ge=1, le=49_151)] | None = None
    """How many take part; all that are named or free, when left out."""
    chunks: Annotated[int, Field(ge=1, le=65_536)] = 1
    """Pieces in which a block travels; micro-batches of a pipeline."""
    group: Group | None = None
    """Groups of two-level algorithms: zones for ``zone-tree``, leaves for ``hierarchical``, when left out."""
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How often, one after another."""
    compute: Seconds = 0.0
    """What each rank computes before it begins, each time."""

    @field_validator("algorithm")
    @classmethod
    def _known(cls, algorithm: str, info: ValidationInfo) -> str:
        names = ALGORITHMS.get(info.data.get("collective", ""), {})
        if names and algorithm and algorithm not in names:
            context = {"expected": f"one of {', '.join(names)}", "hint": did_you_mean(algorithm, names)}
            raise PydanticCustomError("algorithm", "{expected}", context)
        return algorithm or next(iter(names), "")


class GoalJob(PlacedJob):
    """A GOAL schedule."""

    kind: Literal["goal"]
    """A schedule as LogGOPSim reads it."""
    file: str
    """File of the schedule, relative to this one."""


class ChakraJob(PlacedJob):
    """Chakra execution traces, one file a rank."""

    kind: Literal["chakra"]
    """A training run, as MLCommons' Chakra records it."""
    file: str
    """Beginning of the files' names, relative to this one: ``trace`` stands for ``trace.0.et``, ``trace.1.et``, ..."""
    algorithms: dict[str, str] = Field(default_factory=dict)
    """Algorithm of a collective in it, such as ``allreduce: double-binary-tree``; else the ring, or what there is."""

    @field_validator("algorithms")
    @classmethod
    def _known(cls, algorithms: dict[str, str]) -> dict[str, str]:
        for collective, algorithm in algorithms.items():
            names = [name for name in ALGORITHMS.get(collective, {}) if name not in GROUPED]
            if algorithm not in names:
                found = f"{collective}: {algorithm}"
                wanted = f"{collective}: {', '.join(names)}" if names else f"a collective: {', '.join(ALGORITHMS)}"
                raise PydanticCustomError("algorithm", "{expected}", {"found": found, "expected": wanted})
        return algorithms


class FlowsJob(JobBase):
    """Flows that name their hosts."""

    kind: Literal["flows"]
    """Bare flows, in the background for instance."""
    file: str
    """CSV file with ``start_s,src,dst,bytes[,sl]``, relative to this one."""


Job = Annotated[CollectiveJob | GoalJob | ChakraJob | FlowsJob, Field(discriminator="kind")]


class WorkloadSpec(SpecModel):
    """Jobs that run at the same time."""

    jobs: Annotated[tuple[Job, ...], Field(max_length=1000, strict=False)]
    """The jobs, in the order in which they are placed."""
    cross_zone_jobs: Annotated[int, Field(ge=0)] | None = None
    """How many of the placed jobs may span zones, as a scheduler's rule; Fire-Flyer's allows 1."""

    @field_validator("jobs")
    @classmethod
    def _each_name_once(cls, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        if not jobs:
            raise PydanticCustomError("no_job", "{expected}", {"expected": "at least one job"})
        name, times = Counter(job.name for job in jobs).most_common(1)[0]
        if times > 1:
            context = {"found": f"{times} jobs with the name {name}", "expected": "a name for each job"}
            raise PydanticCustomError("twice", "{found}; expected {expected}", context)
        return jobs


def read_workload_spec(path: Path) -> tuple[WorkloadSpec, Document]:
    """Read a workload's YAML; the files that it names are not read.

    Raises
    ------
    SpecError
        With every finding, at its file, line and column.
    """
    document = read_yaml(path)
    return validate_workload(document), document


def validate_workload(document: Document) -> WorkloadSpec:
    """Return what a document says of a workload.

    Raises
    ------
    SpecError
        With every finding, at its line and column.
    """
    return validate(WorkloadSpec, document)
