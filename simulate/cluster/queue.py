"""What a queue's YAML may say: jobs that come over hours or days, and the rules under which they get their nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationInfo, field_validator

from simulate.cluster.policies import Placement
from topo.budget import QUEUE_JOBS
from topo.errors import plural, refusal
from topo.files.yaml import Document, given_document, read_yaml
from topo.spec.base import JobName, SpecModel, mismatch
from topo.spec.units import Bytes, Seconds
from topo.spec.validation import validate
from topo.table import Brief

FAILURES_A_NODE_DAY = 292 / 1250 / 183
"""Table VII of An et al., SC'24, arXiv 2408.14158: 292 failures of main memory, network and GPUs from October 2023 to
March 2024, of some 1,250 nodes."""

SomeSeconds = Annotated[Seconds, Field(gt=0)]


class QueuedJob(SpecModel):
    """A training job, or several alike; bytes and times are those of a node and a step."""

    name: JobName
    """Name of the job; copies get a number after it."""
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
    """Written after each time of `every`, beside the steps."""
    every: SomeSeconds = 300.0
    """Time from the start of a checkpoint to the next."""
    submit: Seconds = 0.0
    """Arrival time."""
    copies: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of identical jobs."""
    apart: Seconds = 0.0
    """Time between their arrivals."""
    sl: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of what its nodes send each other; when left out, what the subnet manager gives to the path."""

    @field_validator("backward")
    @classmethod
    def _computes(cls, backward: float, info: ValidationInfo) -> float:
        if backward + info.data.get("forward", 1.0) <= 0:
            expected = "more than 0 s of computation, `forward` and `backward` together"
            raise mismatch(expected)
        return backward

    @field_validator("stages", "expert_nodes")
    @classmethod
    def _divides(cls, parts: int, info: ValidationInfo) -> int:
        nodes = info.data.get("nodes", 0)
        if nodes % parts:
            raise mismatch(f"a number that divides the {nodes} nodes of the job")
        return parts

    @property
    def compute_s(self) -> float:
        """Computation of a step."""
        return self.forward + self.backward


class QueueSpec(SpecModel):
    """Jobs and rules."""

    jobs: Annotated[tuple[QueuedJob, ...], Field(max_length=1000, strict=False)]
    """The jobs; those with the same arrival time are queued in this order."""
    placement: Placement = "zone"
    """Placement policy: the zone rule of Fire-Flyer 2, or that of another scheduler."""
    cross_zone_jobs: Annotated[int, Field(ge=0)] = 1
    """Jobs that may span zones at the same time, with the placement `zone`."""
    ordered: bool = True
    """Whether a job's nodes follow each other zone after zone and leaf after leaf; else in any order."""
    failures_a_node_day: Annotated[float, Field(ge=0, le=1000, strict=False)] = FAILURES_A_NODE_DAY
    """Failures of a node in a day; by default the published rate of Fire-Flyer 2."""
    repair: Seconds = 4 * 3600.0
    """Time from the failure of a node until it can be used again."""
    round: SomeSeconds = 30.0
    """Computation that is simulated at once: shorter steps of a job are combined, until a checkpoint is due."""
    storage_streams: Annotated[int, Field(ge=1, le=1_000)] = 4
    """Servers over which a node's reads and writes of a round are spread."""
    storage_sl: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of storage; that of the path when left out."""

    @field_validator("cross_zone_jobs")
    @classmethod
    def _rules(cls, jobs: int, info: ValidationInfo) -> int:
        if (placement := info.data.get("placement", "zone")) != "zone":
            raise mismatch(f"nothing here with `placement: {placement}`, which has no rule on zones")
        return jobs

    @field_validator("jobs")
    @classmethod
    def _some(cls, jobs: tuple[QueuedJob, ...]) -> tuple[QueuedJob, ...]:
        if not jobs:
            raise mismatch("at least one job")
        return jobs


@dataclass(frozen=True)
class Queue(Brief):
    """Jobs, one by one, the rules, and the seed of all that is drawn."""

    rules: QueueSpec
    """Every job of it is one that comes: several alike are spelled out."""
    seed: int = 0
    where: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """Place of each job, as ``file:line:column``; nothing where there is no file."""

    @classmethod
    def of(cls, spec: QueueSpec, seed: int = 0, where: Sequence[str] = ()) -> Queue:
        """Return what a queue says, with several jobs alike spelled out.

        `where` is the place of each entry of the spec, where there is a file.

        Raises
        ------
        SpecError
            When there are too many jobs, or two of one name: with the place of the second.
        """
        jobs: dict[str, QueuedJob] = {}
        located: list[str] = []
        for entry, at in zip(spec.jobs, where or [f"job {job.name}" for job in spec.jobs], strict=True):
            for number in range(entry.copies):
                name = entry.name if entry.copies == 1 else f"{entry.name}-{number}"
                if name in jobs:
                    raise refusal(at, f"a second job with the name {name}", "a name for each job")
                own = {"name": name, "submit": entry.submit + number * entry.apart, "copies": 1}
                jobs[name] = entry.model_copy(update=own)
                located.append(at)
            if len(jobs) > QUEUE_JOBS.limit:
                raise refusal(at, f"{len(jobs):,} jobs up to here", str(QUEUE_JOBS))
        return cls(spec.model_copy(update={"jobs": tuple(jobs.values())}), seed, tuple(located))

    def _brief(self) -> str:
        return plural(len(self.rules.jobs), "job")

    @property
    def jobs(self) -> tuple[QueuedJob, ...]:
        """The jobs that come."""
        return self.rules.jobs

    def under(self, **rules: Any) -> Queue:
        """Return the same jobs under other rules, by the names of `QueueSpec`."""
        return replace(self, rules=self.rules.model_copy(update=rules))


def read_queue(path: str | Path, seed: int = 0) -> Queue:
    """Read a queue's YAML file.

    Parameters
    ----------
    seed
        Of placements at random, failures, and what jobs draw.

    Raises
    ------
    SpecError
        With every finding, at its file, line and column.

    Examples
    --------
    >>> import simulate, topo
    >>> len(simulate.cluster.read_queue(topo.config_root() / "queues" / "day.yaml").jobs)
    30
    """
    return _queue(read_yaml(Path(path)), seed)


def parse_queue(spec: str | Mapping[str, Any], seed: int = 0) -> Queue:
    """Make a queue of a spec that is given as YAML text or as a mapping of plain values.

    Raises
    ------
    SpecError
        With every finding: at its line and column in a text, at its path of keys in a mapping.

    Examples
    --------
    >>> import simulate
    >>> job = {"name": "vision", "nodes": 4, "steps": 10, "forward": "1 s", "backward": "2 s", "copies": 2}
    >>> [job.name for job in simulate.cluster.parse_queue({"jobs": [job]}).jobs]
    ['vision-0', 'vision-1']
    """
    return _queue(given_document(spec, "queue", "simulate.cluster.read_queue"), seed)


def _queue(document: Document, seed: int) -> Queue:
    spec = validate(QueueSpec, document)
    return Queue.of(spec, seed, [document.where("jobs", number) for number in range(len(spec.jobs))])
