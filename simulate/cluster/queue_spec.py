"""What a queue's YAML may say: jobs that come over hours or days, and the rules under which they get their nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from routing.lanes.policy import ASK
from simulate.cluster.run import FAILURES_A_NODE_DAY, ClusterPlan
from simulate.cluster.training_job import JobPlan
from topo.errors import Finding, SpecError
from topo.formats.yaml import Document, Node, read_yaml
from topo.spec.base import Name, SpecModel
from topo.spec.units import Bytes, Seconds
from topo.spec.validation import validate

MAX_JOBS = 10_000
"""Jobs of a queue, copies counted."""

SomeSeconds = Annotated[Seconds, Field(gt=0)]


class QueuedJob(SpecModel):
    """A training job, or several alike; bytes and times are those of a node and a step."""

    name: Name
    """Name of the job; of several, followed by their number."""
    nodes: Annotated[int, Field(ge=1, le=49_151)]
    """Nodes that it runs on."""
    steps: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """Steps until it ends."""
    forward: Seconds
    """Computation of the forward pass."""
    backward: Seconds
    """Computation of the backward pass, beside which gradients are summed."""
    gradients: Bytes = 0
    """Summed over the nodes that hold the same part of the model."""
    stages: Annotated[int, Field(ge=1, le=49_151)] = 1
    """Stages of pipelines; each pipeline stands on neighbours."""
    activations: Bytes = 0
    """Sent to the next stage, and as many gradients back, beside the computation."""
    expert_nodes: Annotated[int, Field(ge=1, le=49_151)] = 1
    """Nodes among which tokens travel to their experts."""
    tokens: Bytes = 0
    """Sent to all of them together between the passes, while nothing is computed."""
    loaded: Bytes = 0
    """Read for the next step."""
    checkpoint: Bytes = 0
    """Written `every` so often, beside the steps."""
    every: SomeSeconds = 300.0
    """From the begin of a checkpoint to the next."""
    submit: Seconds = 0.0
    """When it comes."""
    copies: Annotated[int, Field(ge=1, le=1_000)] = 1
    """How many jobs like this come."""
    apart: Seconds = 0.0
    """How long after one another."""
    sl: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of what its nodes send each other; when left out, what the subnet manager gives to the path."""

    @field_validator("backward")
    @classmethod
    def _computes(cls, backward: float, info: ValidationInfo) -> float:
        if backward + info.data.get("forward", 1.0) <= 0:
            expected = "more than 0 s of computation, `forward` and `backward` together"
            raise PydanticCustomError("computes", "{expected}", {"expected": expected})
        return backward

    @field_validator("stages", "expert_nodes")
    @classmethod
    def _divides(cls, parts: int, info: ValidationInfo) -> int:
        nodes = info.data.get("nodes", 0)
        if nodes % parts:
            context = {"expected": f"a number that divides the {nodes} nodes of the job"}
            raise PydanticCustomError("divides", "{expected}", context)
        return parts

    def plans(self, where: str) -> list[JobPlan]:
        """Return the jobs."""
        return [
            JobPlan(
                name=self.name if self.copies == 1 else f"{self.name}-{number}",
                nodes=self.nodes,
                steps=self.steps,
                forward_s=self.forward,
                backward_s=self.backward,
                gradient_bytes=float(self.gradients),
                stages=self.stages,
                activation_bytes=float(self.activations),
                expert_nodes=self.expert_nodes,
                token_bytes=float(self.tokens),
                loaded_bytes=float(self.loaded),
                checkpoint_bytes=float(self.checkpoint),
                checkpoint_every_s=self.every,
                submit_s=self.submit + number * self.apart,
                sl=ASK if self.sl is None else self.sl,
                where=where,
            )
            for number in range(self.copies)
        ]


class QueueSpec(SpecModel):
    """Jobs and rules."""

    jobs: Annotated[tuple[QueuedJob, ...], Field(max_length=1000, strict=False)]
    """The jobs, in the order in which they stand when they come at one time."""
    cross_zone_jobs: Annotated[int, Field(ge=0)] | None = 1
    """Jobs that may span zones at a time; `null` draws nodes from all that are free, wherever they are."""
    ordered: bool = True
    """Whether a job's nodes follow each other zone after zone and leaf after leaf; else in any order."""
    failures_a_node_day: Annotated[float, Field(ge=0, le=1000, strict=False)] = FAILURES_A_NODE_DAY
    """Failures of a node in a day; the published rate of Fire-Flyer 2, when left out."""
    repair: Seconds = 4 * 3600.0
    """From the failure of a node until it is given again."""
    round: SomeSeconds = 30.0
    """Computation that is played at a time: steps of a job that are shorter are taken together."""
    storage_streams: Annotated[int, Field(ge=1, le=1_000)] = 4
    """Servers among which a node's reads and writes of a round are dealt."""
    storage_sl: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of storage; that of the path when left out."""

    @field_validator("jobs")
    @classmethod
    def _some(cls, jobs: tuple[QueuedJob, ...]) -> tuple[QueuedJob, ...]:
        if not jobs:
            raise PydanticCustomError("no_job", "{expected}", {"expected": "at least one job"})
        return jobs


def read_queue(path: Path, seed: int) -> ClusterPlan:
    """Read a queue's YAML.

    Raises
    ------
    SpecError
        With every finding, at its file, line and column.
    """
    document = read_yaml(path)
    return cluster_plan(validate(QueueSpec, document), document, seed)


def cluster_plan(spec: QueueSpec, document: Document, seed: int) -> ClusterPlan:
    """Return what a queue says as a plan for a cluster.

    Raises
    ------
    SpecError
        When there are too many jobs, or two of one name: with the line and column of the second.
    """
    jobs: dict[str, JobPlan] = {}
    for job, node in zip(spec.jobs, _entries(document), strict=True):
        where = document.where(node)
        for plan in job.plans(where):
            if plan.name in jobs:
                raise SpecError([Finding(where, f"a second job with the name {plan.name}", "a name for each job")])
            jobs[plan.name] = plan
        if len(jobs) > MAX_JOBS:
            raise SpecError([Finding(where, f"{len(jobs):,} jobs up to here", f"at most {MAX_JOBS:,}")])
    return ClusterPlan(
        tuple(jobs.values()),
        cross_zone_jobs=spec.cross_zone_jobs,
        ordered=spec.ordered,
        failures_a_node_day=spec.failures_a_node_day,
        repair_s=spec.repair,
        round_s=spec.round,
        storage_streams=spec.storage_streams,
        storage_sl=ASK if spec.storage_sl is None else spec.storage_sl,
        seed=seed,
    )


def _entries(document: Document) -> list[Node]:
    """Return the places of the jobs."""
    root = document.root.value
    jobs = root["jobs"].value if isinstance(root, dict) else []
    return jobs if isinstance(jobs, list) else []
