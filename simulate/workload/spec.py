"""What a workload's YAML may say: jobs that run at the same time, and where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple, Self, get_args

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import InitErrorDetails

from simulate.traffic.collectives.algorithms import ALGORITHMS, BUILT_IN, GROUPED, WHOLE_BLOCKS, Group, default_chunks
from simulate.traffic.collectives.trees import SHARP
from simulate.traffic.flows import EAGER_BYTES, Order
from simulate.traffic.tuner import TUNED_ALGORITHMS, Tuned, TunedAlgorithm
from topo.errors import did_you_mean
from topo.fabric import Role
from topo.spec.base import JobName, ServerRole, SpecModel, mismatch
from topo.spec.units import Bytes, GigabitsPerSecond, Seconds

Mapping = Literal["as-placed", "by-leaf", "by-zone", "halving-doubling", "random"]


class Use(NamedTuple):
    """What a key has an effect with, for a person, and whether a job has that."""

    key: str
    given: bool
    only: str


class JobBase(SpecModel):
    """What every job has."""

    name: JobName
    """Name of the job, for reports."""
    start: Seconds = 0.0
    """Start time, such as ``20 ms``."""

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from ()

    @model_validator(mode="after")
    def _says_nothing_in_vain(self) -> Self:
        vain = [
            InitErrorDetails(type=mismatch(f"nothing here: `{key}` has an effect only {only}"), loc=(key,), input=said)
            for key, given, only in self.uses()
            if not given and (said := getattr(self, key)) != type(self).model_fields[key].default
        ]
        if vain:
            raise ValidationError.from_exception_data(type(self).__name__, vain)
        return self


class PlacedJob(JobBase):
    """A job whose ranks are placed on adapter ports, one each."""

    sl: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of its messages; without one, that of the traffic class of the servers that they are between."""
    nodes: Annotated[tuple[str, ...], Field(max_length=49_151, strict=False)] | None = None
    """Servers by name, in order, or adapters where each is a rank; jobs that name the same ones share them. Without
    this, free ones are taken."""
    beside: JobName | None = None
    """A job before it, whose servers or adapters it shares in their order; all else of its place is that job's."""
    role: Annotated[ServerRole, Field(json_schema_extra={"default": "compute"})] = Role.COMPUTE
    """Role of the servers whose adapters the job may use."""
    within: Literal["leaf", "zone", "fabric"] = "fabric"
    """What the job must not leave: it is put on the first leaf or in the first zone with room for all of it."""
    zone: Annotated[int, Field(ge=0, le=32_767)] | None = None
    """The zone in which it must run."""
    spread: Group | None = None
    """Spread the ranks evenly over leaves or zones; without this, adapters are taken in order."""
    mapping: Mapping = "as-placed"
    """Which ranks run on which of the servers or adapters."""

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        free = self.nodes is None and self.beside is None
        yield Use("role", free, "without `nodes` and `beside`")
        if not free:
            yield Use("spread", free, "without `nodes` and `beside`")
        elif self.spread == "leaf":
            yield Use("spread", self.within != "leaf", "where a job may have several leaves, without `within: leaf`")
        else:
            several = self.within == "fabric" and self.zone is None
            yield Use("spread", several, "where a job may have several zones, without `zone` and `within`")

    @property
    def whole_servers(self) -> bool:
        """Whether it takes whole servers, not single adapter ports."""
        return False


class RankedJob(PlacedJob):
    """A job of as many ranks as it is asked to have."""

    ranks: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Number of ranks; by default those of all servers or adapters that are named or free."""

    @field_validator("nodes", mode="before")
    @classmethod
    def _named(cls, nodes: object) -> object:
        if isinstance(nodes, int):
            raise mismatch("names, one a rank; how many is `ranks`")
        return nodes


class Messaging(SpecModel):
    """How the messages of a job are sent."""

    order: Order = "peer"
    """Which messages are sent one after another: those from one rank to another, all of a rank, or none."""
    eager: Bytes = EAGER_BYTES
    """Larger messages wait until their receiver is ready, which takes two more latencies."""


XML = ".xml"
"""Suffix of a file that describes a server."""


class ServerJob(PlacedJob):
    """A job among the GPUs of whole servers: GPU g of the s-th server is rank s G + g, with G GPUs in each."""

    server: str | None = None
    """Model of the catalog that the servers are, for a fabric that does not know it, such as a dump; or an ``.xml``,
    relative to this file, that NCCL wrote of a server (``NCCL_TOPO_DUMP_FILE``), whatever the fabric says."""

    @property
    def whole_servers(self) -> bool:
        """Whether it takes whole servers, not single adapter ports."""
        return True


class GpuJob(ServerJob):
    """A job whose GPUs exchange as NCCL does, or by HFReduce."""

    algorithm: Literal["auto", TunedAlgorithm, "hfreduce"] = "auto"
    """What NCCL's tuner takes, or one of its algorithms, with the tuner's latencies; HFReduce for one collective."""
    sharp: bool = False
    """Whether switches of the network add up for ``auto``, ``nvls`` and ``collnet``: ``NCCL_COLLNET_ENABLE=1``."""
    every_switch: bool = False
    """Whether every switch adds up; without it those whose aggregation node a dump names."""
    pxn: bool = True
    """Whether an all-to-all leaves each server on the rail of its receiver, over NVLink where need be."""

    @property
    def exchanges(self) -> set[Tuned]:
        """Collectives that it may have."""
        return set(TUNED_ALGORITHMS)

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        adds = "allreduce" in self.exchanges and self.algorithm in ("auto", "nvls", "collnet")
        yield Use("algorithm", self.exchanges != {"all-to-all"}, "in a collective that is no all-to-all")
        yield Use("sharp", adds, "in an allreduce by `auto`, `nvls` or `collnet`")
        yield Use("every_switch", self.sharp, "with `sharp: true`")
        yield Use("pxn", "all-to-all" in self.exchanges, "in an all-to-all")


class RankJob(ServerJob):
    """A job whose ranks are GPUs, or adapter ports."""

    rank: Annotated[Literal["gpu", "adapter"] | None, Field(validate_default=True)] = None
    """What the numbers ``src`` and ``dst`` are: GPUs, server after server, or adapter ports. When left out, ``src`` and
    ``dst`` are names of adapters, and the job has no place of its own."""

    @field_validator("rank")
    @classmethod
    def _placed(cls, rank: str | None, info: ValidationInfo) -> str | None:
        own = [name for name in ServerJob.model_fields if name not in JobBase.model_fields]
        said = [name for name in own if info.data.get(name) != ServerJob.model_fields[name].default]
        if rank == "adapter" and "server" in said:
            raise mismatch("gpu, since `server` says what the GPUs are in")
        if rank is None and said:
            raise mismatch("a `rank`, gpu or adapter: flows that name their adapters have a place", f"`{said[0]}`")
        return rank

    @property
    def whole_servers(self) -> bool:
        """Whether a rank is a GPU."""
        return self.rank == "gpu"


class MessageJob(RankJob, Messaging):
    """A job whose ranks send messages to one another, numbered from 0."""

    rank: Literal["gpu", "adapter"] = "gpu"
    """What a rank is: a GPU, server after server, or an adapter port of its own, as for processes of MPI."""


class TraceJob(MessageJob):
    """A job whose file has what its ranks do."""

    file: str
    """File with what the ranks do, relative to this one."""


class CollectiveJob(RankedJob, MessageJob):
    """A collective, over and over."""

    kind: Literal["collective"]
    """A collective."""
    collective: Literal["allreduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all", "pipeline"]
    """What the ranks do together."""
    algorithm: Annotated[str, Field(validate_default=True)] = ""
    """Algorithm; by default the ring, if the collective has one."""
    size: Annotated[Bytes, Field(gt=0)]
    """Largest buffer that a rank holds, such as ``186 MiB``; of a pipeline, all micro-batches together."""
    chunks: Annotated[int, Field(ge=1, le=65_536)] | None = None
    """Pieces in which a block travels; micro-batches of a pipeline. By default 64 for trees, ``sharp``, broadcast and
    reduce, where a rank passes on what it has received while the rest is on its way; 1 for others."""
    group: Group | None = None
    """Groups of two-level algorithms: zones for ``zone-tree``, leaves for ``hierarchical``, when left out."""
    every_switch: bool = False
    """Whether every switch adds up for ``sharp``; without it those whose aggregation node a dump names."""
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of repetitions."""
    compute: Seconds = 0.0
    """Computation of each rank before each repetition."""

    @field_validator("algorithm")
    @classmethod
    def _known(cls, algorithm: str, info: ValidationInfo) -> str:
        collective = info.data.get("collective", "")
        names = [*ALGORITHMS.get(collective, {}), *([SHARP] if collective == "allreduce" else [])]
        if names and algorithm and algorithm not in names:
            raise mismatch(f"one of {', '.join(names)}", hint=did_you_mean(algorithm, names))
        if algorithm == SHARP and info.data.get("rank") == "gpu":
            raise mismatch("`rank: adapter` with it, or `kind: gpu-collective` with `sharp: true`", SHARP)
        return algorithm or next(iter(names), "")

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        yield Use("chunks", self.algorithm not in WHOLE_BLOCKS, "by an algorithm that divides blocks")
        yield Use("group", _has_groups(self.collective, self.algorithm), f"with `algorithm: {' or '.join(GROUPED)}`")
        yield Use("every_switch", self.algorithm == SHARP, f"with `algorithm: {SHARP}`")

    @property
    def played_chunks(self) -> int:
        """`chunks`, or their default."""
        return self.chunks or default_chunks(self.collective, self.algorithm)


class GpuCollectiveJob(RankedJob, GpuJob):
    """A collective of all GPUs of servers, with what happens inside them; `ranks` counts servers here."""

    kind: Literal["gpu-collective"]
    """A collective of GPUs, over PCIe, host memory and NVLink."""
    collective: Tuned = "allreduce"
    """What the GPUs do together."""
    size: Annotated[Bytes, Field(gt=0)]
    """Buffer of each GPU, the larger one of two."""
    chunk: Annotated[Bytes, Field(gt=0)] = 2**19
    """Largest piece that ``hfreduce`` sends at once."""
    nvlink: bool | None = None
    """Whether bridges of NVLink are plugged in; none are when left out. NVSwitches always are."""
    repeat: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Number of repetitions."""
    compute: Seconds = 0.0
    """Computation before each repetition."""

    @field_validator("collective")
    @classmethod
    def _able(cls, collective: Tuned, info: ValidationInfo) -> Tuned:
        algorithm = info.data.get("algorithm", "auto")
        able = [name for name, by in TUNED_ALGORITHMS.items() if algorithm in ("auto", *by)] or ["allreduce"]
        if collective not in able:
            raise mismatch(f"one of {', '.join(able)}, by {algorithm}", collective)
        return collective

    @property
    def exchanges(self) -> set[Tuned]:
        """Collectives that it may have."""
        return {self.collective}

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        yield Use("chunk", self.algorithm == "hfreduce", "with `algorithm: hfreduce`")


class GoalJob(TraceJob):
    """A GOAL schedule."""

    kind: Literal["goal"]
    """A schedule as LogGOPSim reads it, in a text file, or a binary one whose name ends in ``.bin``."""


class SimaiJob(GpuJob):
    """A workload of SimAI, whose ranks are GPUs."""

    kind: Literal["simai"]
    """Layers of a training step, as SimAI's AICB writes them."""
    file: str
    """Text file of the workload, relative to this one."""
    gpus: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """GPUs that train, for a file that does not say so (``all_gpus``)."""
    algorithm: Literal["auto", TunedAlgorithm] = "auto"
    """What NCCL's tuner takes for each exchange, or one of its algorithms; an all-to-all takes none."""


class ChakraJob(TraceJob):
    """Chakra execution traces, one file a rank."""

    kind: Literal["chakra"]
    """A training run, as MLCommons' Chakra records it, or PyTorch's profiler."""
    file: str
    """Beginning of the files' names, relative to this one: ``trace`` stands for ``trace.0.et``, ``trace.1.et``, ..., or
    ``trace.0.json`` and so on; ``runs.tgz/trace`` for those in an archive."""
    flops: Annotated[float, Field(gt=0, strict=False)] | None = None
    """Operations a second of a rank, for nodes that tell their operations and no duration, such as 312e12."""
    memory: Annotated[GigabitsPerSecond, Field(gt=0)] | None = None
    """Rate of a rank's memory, such as ``2 TB/s``, for the same nodes and for sums; they take no time without it."""
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
                raise mismatch(wanted, found)
        return algorithms


KEYS_OF_TRAINING = {
    "data": {
        "model",
        "layers",
        "parameters",
        "bucket",
        "overlap",
        "compression",
        "launch",
        "algorithm",
        "group",
        "eager",
    },
    "sharded": {"layers", "parameters", "overlap", "launch", "algorithm"},
    "tensor": {"layers", "activations", "algorithm", "group", "eager"},
    "expert": {"layers", "activations", "algorithm"},
    "pipeline": {"micro_batches", "activations"},
    "parameter-server": {"servers", "parameters"},
    "hierarchical-parameter-server": {"parameters", "cached", "cold", "ssd"},
}
"""Keys that have an effect in training of some patterns only, by pattern."""


def _uses_of_training(job: TrainingJob | GpuTrainingJob) -> Iterator[Use]:
    fields = type(job).model_fields
    known = get_args(fields["parallel"].annotation)
    for key in sorted(set().union(*KEYS_OF_TRAINING.values()) & fields.keys()):
        patterns = [pattern for pattern in known if key in KEYS_OF_TRAINING[pattern]]
        yield Use(key, job.parallel in patterns, f"with `parallel: {' or '.join(patterns)}`")
    if job.model != "even" and job.parallel == "data":
        for key in ("layers", "parameters"):
            yield Use(key, False, "with `model: even`")


def _has_groups(collective: str, algorithm: str) -> bool:
    """Whether an algorithm asks for the zone or leaf of each rank, as any of somebody else's may."""
    return algorithm in GROUPED or (collective, algorithm) not in {*BUILT_IN, ("allreduce", SHARP)}


class TrainingSteps(SpecModel):
    """What ranks that train in step compute and exchange."""

    model: Literal["even", "vgg16"] = "even"
    """Layers that are all alike, or those of VGG16, where most parameters are in the last ones."""
    layers: Annotated[int, Field(ge=1, le=10_000)] = 24
    """Layers of an even model; units that are sharded, halves of which are exchanged in tensor and expert parallel."""
    forward: Seconds
    """Computation of a step, forward; of a micro-batch on a stage, in a pipeline."""
    backward: Seconds
    """Computation of a step, backward; VGG16 takes the sum of both."""
    parameters: Bytes = 0
    """Gradients of a rank, or parameters that are sharded or served; VGG16 has its own."""
    activations: Bytes = 0
    """Exchanged in tensor and expert parallel after each half of a layer; of a micro-batch, sent on in a pipeline."""
    bucket: Annotated[Bytes, Field(gt=0)] = 25 * 2**20
    """Gradients that are summed at a time, in data parallel."""
    overlap: bool = True
    """Whether gradients are summed beside the backward pass, or parameters gathered beside the computation."""
    compression: Annotated[float, Field(gt=0, le=1, strict=False)] = 1.0
    """Bytes sent for each byte of gradients, in data parallel."""
    launch: Seconds = 0.0
    """What each bucket or shard takes besides its bytes."""
    steps: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many, one after another."""


class TrainingJob(RankedJob, MessageJob, TrainingSteps):
    """Steps of training; all ranks compute in step."""

    kind: Literal["training"]
    """Steps of training among ranks."""
    parallel: Literal["data", "tensor", "pipeline", "parameter-server", "hierarchical-parameter-server"]
    """How the ranks divide the work, which determines their traffic."""
    micro_batches: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Of a pipeline, whose stages are the ranks in their order."""
    servers: Annotated[int, Field(ge=1, le=49_151)] = 1
    """Ranks that serve parameters, the first ones; the others are workers. In a hierarchy every rank is both."""
    cached: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    """Part of the parameters that a rank has on its own GPUs, in a hierarchy of parameter servers."""
    cold: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    """Part of what it serves that it reads from its SSDs first, and writes back, likewise."""
    ssd: Annotated[GigabitsPerSecond, Field(gt=0)] | None = None
    """Rate of all SSDs of a rank, such as ``27 GB/s``; they take no time when left out."""
    algorithm: str = "ring"
    """Algorithm of the allreduce in data and tensor parallelism."""
    group: Group | None = None
    """Groups of two-level algorithms, as of a collective."""

    @field_validator("algorithm")
    @classmethod
    def _known(cls, algorithm: str) -> str:
        names = ALGORITHMS["allreduce"]
        if algorithm not in names:
            raise mismatch(f"one of {', '.join(names)}", hint=did_you_mean(algorithm, names))
        return algorithm

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        yield from _uses_of_training(self)
        if self.parallel in ("data", "tensor"):
            yield Use("group", _has_groups("allreduce", self.algorithm), f"with `algorithm: {' or '.join(GROUPED)}`")
        elif self.parallel == "hierarchical-parameter-server":
            yield Use("cold", self.ssd is not None, "with `ssd`")
            yield Use("ssd", self.cold > 0, "with `cold`")


class GpuTrainingJob(RankedJob, GpuJob, TrainingSteps):
    """Steps of training, each rank a GPU; `ranks` counts servers here. Exchanges are NCCL's, among all GPUs."""

    kind: Literal["gpu-training"]
    """Steps of training among GPUs, with what happens inside servers."""
    parallel: Literal["data", "sharded", "tensor", "expert"]
    """How the GPUs divide the work, which determines their traffic."""
    algorithm: Literal["auto", TunedAlgorithm] = "auto"
    """What NCCL's tuner takes for each exchange, or one of its algorithms."""

    @property
    def exchanges(self) -> set[Tuned]:
        """Collectives that it may have."""
        if self.parallel == "sharded":
            return {"all-gather", "reduce-scatter"}
        return {"all-to-all"} if self.parallel == "expert" else {"allreduce"}

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        yield from _uses_of_training(self)


class InferenceJob(RankedJob, MessageJob):
    """Prefill on some ranks, and decoding over experts on the others."""

    kind: Literal["inference"]
    """Requests that are prefilled on the first ranks and decoded on the others, round after round."""
    prefill: Annotated[int, Field(ge=1, le=49_151)]
    """Ranks that prefill, the first ones."""
    requests: Annotated[int, Field(ge=1, le=1_000_000)]
    """Requests of a round, assigned to the ranks in turn."""
    rounds: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of rounds; the next one is prefilled while one is decoded."""
    layers: Annotated[int, Field(ge=1, le=10_000)]
    """Layers of the model: a request's cache is sent, and experts are asked, layer by layer."""
    prompt: Seconds
    """Time to prefill one request on one rank."""
    cache: Bytes
    """Keys and values of a request, sent from the rank that prefills to the one that decodes."""
    tokens: Annotated[int, Field(ge=0, le=1_000_000)]
    """Tokens that are decoded for each request."""
    token: Seconds
    """Time to compute one token of all requests of a rank."""
    experts: Bytes = 0
    """Sent by a rank to experts in each layer for one token of its requests, and as many back."""


class StorageJob(RankedJob):
    """Clients of the storage servers, one a rank."""

    kind: Literal["storage"]
    """Reads of random samples, and writes of checkpoints."""
    batches: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Batches that each loader reads, one after another."""
    batch: Annotated[int, Field(ge=1, le=100_000)] = 32
    """Samples that are requested at once."""
    sample: Bytes = 2**20
    """Bytes of a sample, within one chunk."""
    loaders: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Loaders of a client, side by side."""
    checkpoint: Bytes = 0
    """Written by each client at the start of the job, and again after each time of `every`."""
    every: Seconds = 300.0
    """Time from the start of a checkpoint to the next; a checkpoint that takes longer delays the next one."""
    checkpoints: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many."""

    def uses(self) -> Iterator[Use]:
        """Yield the keys that have an effect in some jobs of the kind only."""
        yield from super().uses()
        for key in ("batch", "sample", "loaders"):
            yield Use(key, self.batches > 0, "with `batches`")
        yield Use("checkpoints", self.checkpoint > 0, "with `checkpoint`")
        yield Use(
            "every", self.checkpoint > 0 and self.checkpoints > 1, "with a `checkpoint` and several `checkpoints`"
        )

    @property
    def client_bytes(self) -> int:
        """What a client reads and writes in all."""
        return self.loaders * self.batches * self.batch * self.sample + self.checkpoints * self.checkpoint


class StorageSpec(SpecModel):
    """How the file system of all storage jobs is set up."""

    server: str | None = None
    """Model of the catalog that the storage servers are, for a fabric that does not know it, such as a dump."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 2  # the paper's mirror redundancy
    """Servers that hold a chunk."""
    chunk: Annotated[Bytes, Field(gt=0)] = 2**20  # the example of 3FS's deployment guide
    """Chunk of a file."""
    stripe: Annotated[int, Field(ge=1, le=1_000_000)] = 200  # "in production" by the design notes
    """Chains that a file is striped over."""
    files: Annotated[int, Field(ge=1, le=10_000)] = 144
    """Files that samples are drawn from."""
    senders: Annotated[int, Field(ge=1, le=100_000)] | None = 64  # 3FS's default of ``max_concurrent_transmission``
    """Servers that may send to a client at a time; `null` for no limit, and no asking."""
    message: Seconds = 3e-6  # 2.8 us on one leaf and 3.7 us across, arXiv 2505.09343
    """A message without payload from host to host."""


class FlowsJob(RankJob):
    """Flows between adapters that they name, or between ranks."""

    kind: Literal["flows"]
    """Single flows, for example in the background."""
    file: str
    """CSV file with ``start_s,src,dst,bytes[,sl]``, relative to this one."""


Job = Annotated[
    CollectiveJob
    | GpuCollectiveJob
    | TrainingJob
    | GpuTrainingJob
    | InferenceJob
    | StorageJob
    | GoalJob
    | SimaiJob
    | ChakraJob
    | FlowsJob,
    Field(discriminator="kind"),
]


class WorkloadSpec(SpecModel):
    """Jobs that run at the same time."""

    jobs: Annotated[tuple[Job, ...], Field(max_length=1000, strict=False)]
    """The jobs, in the order in which they are placed."""
    cross_zone_jobs: Annotated[int, Field(ge=0)] | None = None
    """How many jobs may span zones, like a scheduler's rule; Fire-Flyer allows 1."""
    storage: StorageSpec = StorageSpec()
    """The file system of storage jobs."""

    @field_validator("storage")
    @classmethod
    def _stores(cls, storage: StorageSpec, info: ValidationInfo) -> StorageSpec:
        if not any(isinstance(job, StorageJob) for job in info.data.get("jobs", [])) and "jobs" in info.data:
            raise mismatch("nothing here: `storage` has an effect only beside a job of `kind: storage`")
        return storage

    @field_validator("jobs")
    @classmethod
    def _each_name_once(cls, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        if not jobs:
            raise mismatch("at least one job")
        name, times = Counter(job.name for job in jobs).most_common(1)[0]
        if times > 1:
            raise mismatch("a name for each job", f"{times} jobs with the name {name}")
        return jobs
