"""Plays traffic on a network: flows, or a workload with its clients of storage, and each job alone if asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, overload

import numpy as np
import simpy

from routing.lanes.policy import ASK
from routing.routed import Routed
from simulate.engines.base import Engine
from simulate.engines.charts import draw_timeline
from simulate.engines.fluid.engine import Fluid
from simulate.engines.outcome import Caveated, Outcome
from simulate.engines.packets.engine import PacketModel
from simulate.engines.simpy_bridge import NetworkEnvironment, Process
from simulate.traffic.collectives.algorithms import Collective, algorithm_gbytes_per_s, bus_factor
from simulate.traffic.flows import Flows
from simulate.traffic.network import Network
from simulate.traffic.placement import leaf_of, zone_of
from simulate.workload.caveats import caveats_of_jobs, measured_s
from simulate.workload.formats.flows_csv import line_of_flow
from simulate.workload.place import RunningJob, Workload
from simulate.workload.rounds import prove_rounds
from simulate.workload.spec import CollectiveJob, FlowsJob, GpuCollectiveJob, StorageJob
from simulate.workload.storage import Client, File, Storage
from topo.budget import FLOWS
from topo.catalog.models import NodeModel
from topo.errors import FlowError, HeddleError, plural, whole
from topo.fabric import frozen
from topo.table import Record, Table, format_seconds

if TYPE_CHECKING:
    from topo.drawing import Drawing

Step = Callable[[str, float | None], None]

Make = Callable[..., Engine]
"""Makes an engine of a network and ``n_bins``."""

ENGINES: dict[str, Make] = {"fluid": Fluid, "packets": PacketModel()}
"""Engines by name; a `PacketModel` of your own makes one as well."""

BINS = 200
"""Bins of the timeline: at least half of them hold the time until the last flow ends."""

MAX_CELLS = 2**24
"""Bins of all channels and lanes together, 128 MB: large fabrics have fewer bins."""

STEPS_A_LOOK = 10_000
"""Events between two reports of progress."""

PERCENTILES = (50.0, 90.0, 99.0, 99.9, 100.0)
"""Percentiles of the times of flows that are reported; the last is the longest."""


@dataclass(frozen=True)
class JobResult(Record):
    """What became of a job."""

    name: str
    kind: str
    """``collective``, ``gpu-collective``, ``training``, ``storage``, ``goal``, ``chakra`` or ``flows``."""
    ranks: int
    """Ranks that take part."""
    rank: str
    """What a rank is: ``gpu``, or ``adapter`` for an adapter port."""
    servers: int
    """Servers that take part, as what follows."""
    leaves: int
    zones: tuple[int, ...]
    left_out: int
    """Servers, or adapter ports where each is a rank, that a failure has left without a link, so that a job of all
    does without them."""
    flows: int
    """Flows that cross the network; those of a rank to itself, which stand for compute, do not count."""
    bytes: float
    """What these flows move: of what is written to storage, every copy."""
    storage_bytes: float | None
    """What clients of storage read and write, each byte once however many copies are kept; None of other jobs."""
    start_s: float
    """The earliest time at which the job may begin."""
    finish_s: float
    """When its last flow has ended."""
    alone_s: float | None
    """What it takes when no other job runs; None when that was not played."""
    collective: str | None
    """None for other kinds of jobs, as what follows."""
    algorithm: str | None
    chunks: int | None
    """Pieces in which blocks travel; None where NCCL's tuner or ``hfreduce`` divides them."""
    protocol: str | None
    """Of NCCL, where its tuner chose; as what follows."""
    channels: int | None
    closed_form_s: float | None
    """What one repetition takes on an idle network by the tuner's formula."""
    size_bytes: float | None
    """Buffer of a rank."""
    failed_rails: int
    """Rails that its GPUs leave out, since a server has no link there."""
    once_s: float | None
    """Mean time of one repetition, without what is computed before it."""
    measured_s: tuple[float, float] | None
    """What one repetition takes by what was measured, the least and the most: `once_s`, which is computed from data
    sheets, by the cited ratio. None where no measurement is known."""
    flow_s: tuple[float, ...]
    """Durations of its flows, each from its own begin: the `PERCENTILES`, empty when none crosses the network. Each
    percentile is the duration of one flow, never a mean of two."""

    _derived = ("time_s", "slowdown", "algorithm_gbytes_per_s", "bus_gbytes_per_s", "storage_gbytes_per_s")

    @property
    def what(self) -> str:
        """What it does, for a person."""
        said = f"{self.collective} by {self.algorithm}" if self.collective else self.kind
        said += f" in {self.chunks} chunks" if self.chunks and self.chunks > 1 else ""
        said += f" ({self.protocol})" if self.protocol else ""
        return f"{said}, {plural(self.failed_rails, 'rail')} down" if self.failed_rails else said

    @property
    def measured(self) -> str:
        """`measured_s` for a person, such as ``118 to 120 ms``."""
        if self.measured_s is None:
            return "not measured"
        return " to ".join(f"{time_s * 1e3:,.3g}" for time_s in self.measured_s) + " ms"

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

    @property
    def storage_gbytes_per_s(self) -> float | None:
        """What the clients of a storage job read and write in the mean, from its start to its end."""
        return self.storage_bytes / self.time_s * 1e-9 if self.storage_bytes is not None and self.time_s else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        times = {"max" if p == 100 else f"p{p:g}": at for p, at in zip(PERCENTILES, self.flow_s, strict=False)}
        return {**super().to_dict(), "flow_s": times}


@dataclass(frozen=True, eq=False)
class Simulation(Caveated):
    """A workload that was played."""

    workload: Workload
    outcome: Outcome
    jobs: tuple[JobResult, ...]

    def _brief(self) -> str:
        name, jobs = self.outcome.network.fabric.name, plural(len(self.jobs), "job")
        brief = f"{name}: {jobs}, {plural(self.outcome.n_flows, 'flow')} in {format_seconds(self.makespan_s)}"
        return "; ".join([brief, *self.keywords])

    def _shown(self) -> tuple[Table, ...]:
        met = self.outcome.congestion
        tables = self.table, self.place_table, self.flow_table, self.outcome.links
        return (*tables, *((met.table,) if met else ()), self.caveat_table)

    @cached_property
    def caveats(self) -> tuple[str, ...]:
        """Those of single jobs, and those of the outcome."""
        return (*caveats_of_jobs(self.workload, self.outcome), *self.outcome.caveats)

    @property
    def place_table(self) -> Table:
        """Where the jobs run; with their zones, where there are several."""
        zoned = [(lambda job: ", ".join(map(str, job.zones)), "zones")]
        several = self.outcome.network.fabric.zone.max(initial=0) > 0
        return Table.of("where jobs run", self.jobs, ("name", "job"), "servers", "leaves", *(zoned if several else []))

    @property
    def makespan_s(self) -> float:
        """When the last flow ended."""
        return self.outcome.makespan_s

    @property
    def table(self) -> Table:
        """Time and bandwidth of each job."""
        slowdown = [("slowdown", "slowdown", "", ".2f")] if any(job.alone_s is not None for job in self.jobs) else []
        rates = {"algorithm_gbytes_per_s": "algbw", "bus_gbytes_per_s": "busbw", "storage_gbytes_per_s": "storage"}
        last = None if any(job.kind == "storage" for job in self.jobs) else -1
        bandwidths = [(rate, name, "GB/s", ".2f") for rate, name in [*rates.items()][:last]]
        time = ("time_s", "time", "s", "time")
        tuned = any(job.closed_form_s is not None for job in self.jobs)
        idle = [("closed_form_s", "closed form", "s", "time")] if tuned else []
        known = any(job.measured_s for job in self.jobs)
        measured = [(lambda job: job.measured, "as measured")] if known else []
        ranks = ("ranks", ("rank", "each"), "servers")
        return Table.of(
            "jobs", self.jobs, ("name", "job"), "what", *ranks, time, *measured, *idle, *bandwidths, *slowdown
        )

    @property
    def flow_table(self) -> Table:
        """Durations of the flows of each job."""
        names = ("p50", "p90", "p99", "p99.9", "longest")
        rows = [(job.name, job.flows, *(job.flow_s or (None,) * len(names))) for job in self.jobs]
        times = [(itemgetter(at), name, "s", "time") for at, name in enumerate(names, 2)]
        return Table.of("durations of flows", rows, (itemgetter(0), "job"), (itemgetter(1), "flows"), *times)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values, ready for JSON."""
        outcome, fabric = self.outcome, self.outcome.network.fabric
        return {
            "fabric": {"name": fabric.name, "switches": fabric.n_switches, "engine": outcome.network.tables.engine},
            "makespan_s": outcome.makespan_s,
            "flows": outcome.n_flows,
            "events": outcome.n_events,
            **({} if outcome.rounds is None else {"rounds": outcome.n_rounds}),
            "caveats": list(self.caveats),
            "jobs": [job.to_dict() for job in self.jobs],
            "links": [item.to_dict(fabric.channel_label(item.hottest)) for item in outcome.link_classes],
            "inside": outcome.inside.to_dict(),
            **({} if outcome.congestion is None else {"packets": outcome.congestion.to_dict()}),
        }

    def draw(self) -> Drawing:
        """Draw the jobs as bars over time, and below them the load of the classes of links."""
        return draw_timeline(self.outcome, self.spans)

    @property
    def spans(self) -> list[tuple[str, float, float]]:
        """Name, begin and duration in seconds of each job."""
        return [(job.name, job.start_s, job.time_s) for job in self.jobs]


@overload
def play(
    on: Network | Routed,
    traffic: Flows | Collective,
    *,
    engine: str | Make = ...,
    n_bins: int | None = ...,
    step: Step = ...,
) -> Outcome: ...


@overload
def play(
    on: Network | Routed,
    traffic: Workload,
    *,
    engine: str | Make = ...,
    n_bins: int | None = ...,
    alone: bool = ...,
    step: Step = ...,
) -> Simulation: ...


def play(
    on: Network | Routed,
    traffic: Flows | Collective | Workload,
    *,
    engine: str | Make = "fluid",
    n_bins: int | None = None,
    alone: bool = False,
    step: Step = lambda message, part: None,
) -> Outcome | Simulation:
    """Play traffic from time 0 until the last flow has ended.

    Parameters
    ----------
    on
        A routed fabric, or the network of one where latencies or lanes are to be others (`Network.of`).
    engine
        What moves the bytes: ``"fluid"``, max-min fair rates without packets; ``"packets"``, or a `PacketModel`,
        packets that wait for credits. A ring or an all-to-all of more messages than the budget of flows takes the
        first, which plays one round for all where `simulate.workload.rounds` proves that they are alike.
    n_bins
        Bins of the timeline of loads, an even number; by default 0 for flows, and for a workload so many that at least
        100 of them hold the time until the last flow ends, or as many as fit into 128 MB.
    alone
        Whether to play each job of a workload without the others too, to say how much they slow it down.
    step
        Progress callback, called as ``step(message, part)`` with the part that is done, None where it is unknown.

    Returns
    -------
    Outcome
        Of flows and collectives.
    Simulation
        Of a workload: the outcome of all flows, and what became of each job.

    Raises
    ------
    HeddleError
        When there is no such engine, the tables do not connect two hosts of a flow, or its service level has no lane:
        with the place of its job.

    Examples
    --------
    >>> import topo, routing, simulate
    >>> routed = routing.route(topo.preset("lab-20").fabric)
    >>> hosts = routed.fabric.ends(role="compute")
    >>> outcome = simulate.play(routed, simulate.allreduce(hosts, "186 MiB"))
    >>> f"{outcome.makespan_s * 1e3:.2f} ms"
    '14.72 ms'
    >>> simulate.play(routed, simulate.preset("allreduce", routed.fabric)).jobs[0].algorithm
    'ring'
    """
    if isinstance(engine, str) and engine not in ENGINES:
        raise HeddleError(f"found the engine {engine!r}; expected one of {', '.join(ENGINES)}")
    if not isinstance(cast(object, traffic), Flows | Collective | Workload):
        made = "`simulate.allreduce(hosts, size)` or `simulate.preset(name, fabric)`"
        found = f"a value of type {type(traffic).__name__}"
        raise HeddleError(f"found {found} as traffic; expected Flows, a Collective or a Workload, as {made} returns")
    n_bins = None if n_bins is None else whole("n_bins", n_bins, 0)
    make = ENGINES[engine] if isinstance(engine, str) else engine
    network = on if isinstance(on, Network) else Network.of(on)

    def move(network: Network, flows: Flows, text: str, n_bins: int) -> Outcome:
        total = max(len(flows), 1)
        step(text, 0.0)
        return make(network, n_bins=n_bins).play(flows, lambda ended, _: step(text, ended / total))

    def move_first(network: Network, task: Collective, flows: Flows) -> Outcome:
        if make is not Fluid:
            raise HeddleError(f"found {task.messages:,} messages; expected {FLOWS}, or the fluid engine")
        step("comparing rounds", None)
        rounds = prove_rounds(network, task, flows)
        return replace(move(network, flows, "playing one round", 0), rounds=rounds)

    if not isinstance(traffic, Workload):
        if isinstance(traffic, Collective) and traffic.is_too_large:
            return move_first(network, traffic, traffic.first_round(network.fabric))
        flows = traffic if isinstance(traffic, Flows) else traffic.flows(network.fabric)
        return move(network, flows, f"playing {plural(len(flows), 'flow')}", n_bins or 0)
    if len(traffic.devices.end_port):
        network = network.with_devices(traffic.devices)
    if n_bins is None:
        rows = max(len(network.capacity_bytes_s), 1) * len(network.lane_weight)
        n_bins = max(2, min(BINS, MAX_CELLS // rows) // 2 * 2)

    def jobs(workload: Workload, text: str, n_bins: int) -> tuple[Workload, Outcome]:
        if workload.in_rounds is not None:
            try:
                return workload, move_first(network, workload.in_rounds, workload.flows)
            except HeddleError as error:
                raise HeddleError(f"{workload.jobs[0].where}: {error}") from None
        if workload.storage_server is None or not workload.acts:
            return workload, move(network, workload.flows, text, n_bins)
        step(text, None)

        def tell(ended: int, time_s: float) -> None:
            step(f"{text}: {plural(ended, 'flow')}, {time_s:.4g} s", None)

        return play_with_storage(network, workload, workload.storage_server, make=make, n_bins=n_bins, progress=tell)

    try:
        text = "playing" if traffic.acts else f"playing {plural(len(traffic.flows), 'flow')}"
        played, outcome = jobs(traffic, text, n_bins)
    except FlowError as error:
        raise _located(traffic, error) from None
    ends = None
    if alone and len(traffic.jobs) == 1:
        ends = [outcome.makespan_s]
    elif alone:
        ends = [
            jobs(traffic.alone(number), f"playing {job.spec.name} alone", 0)[1].makespan_s
            for number, job in enumerate(traffic.jobs)
        ]
    return Simulation(played, outcome, job_results(played, outcome, ends))


def play_with_storage(
    network: Network,
    workload: Workload,
    model: NodeModel,
    *,
    make: Make = Fluid,
    n_bins: int = 0,
    progress: Callable[[int, float], None] = lambda ended, time_s: None,
) -> tuple[Workload, Outcome]:
    """Play a workload in which clients of storage act, beside jobs whose flows are known, until all jobs have ended.

    Parameters
    ----------
    progress
        Progress callback, called as ``progress(flows that have ended, simulated time in seconds)``.

    Returns
    -------
    tuple
        The workload with the flows that came about, each with the time at which it began in place of what it waited
        for, and the number of its job as its tag; and what became of them.
    """
    env = NetworkEnvironment(network, make=make, n_bins=n_bins)
    storage = Storage(env, model, workload.storage)
    rng = np.random.default_rng(0)
    files = [storage.file(rng) for _ in range(workload.storage.files)]
    ends: list[simpy.Event] = []
    for number, job in enumerate(workload.jobs):
        if isinstance(job.spec, StorageJob):
            ends += [env.process(process) for process in _clients(storage, files, job, job.spec, number)]
        else:
            mine = workload.span(number)
            ends.append(env.play(workload.flows.part(mine.start, mine.stop).tagged(number)))
    over = env.all_of(ends)
    steps = 0
    while not over.processed:
        env.step()
        steps += 1
        if steps % STEPS_A_LOOK == 0:
            progress(env.n_ended, env.now)
    played = env.outcome()
    order = np.argsort(played.flows.tag, kind="stable")
    flows = replace(
        played.flows,
        **{name: getattr(played.flows, name)[order] for name in ("src", "dst", "size_bytes", "start_s", "sl", "tag")},
    )
    outcome = replace(
        played,
        flows=flows,
        routes=network.routes(flows.src, flows.dst, flows.sl),
        **{name: getattr(played, name)[order] for name in ("start_s", "finish_s", "bottleneck")},
    )
    return replace(workload, flows=flows, job=frozen(flows.tag)), outcome


def _clients(storage: Storage, files: list[File], job: RunningJob, spec: StorageJob, number: int) -> list[Process]:
    """Return the processes of a storage job: loaders first, then writers of checkpoints."""

    def load(client: Client) -> Process:
        yield client.env.timeout(spec.start)
        yield from client.load(files, spec.batch, spec.sample, batches=spec.batches)

    def save(client: Client, file: File) -> Process:
        yield client.env.timeout(spec.start)
        for turn in range(1, spec.checkpoints + 1):
            begin_s = client.env.now
            yield from client.save(file, spec.checkpoint)
            if turn < spec.checkpoints:
                yield client.env.timeout(max(0.0, begin_s + spec.every - client.env.now))

    rngs = np.random.default_rng(job.seed).spawn(len(job.ends))
    clients = [
        Client(storage, end, rng, sl=ASK if spec.sl is None else spec.sl, tag=number)
        for end, rng in zip(job.ends.tolist(), rngs, strict=True)
    ]
    reads = [load(client) for client in clients for _ in range(spec.loaders if spec.batches else 0)]
    return reads + [save(client, files[at % len(files)]) for at, client in enumerate(clients) if spec.checkpoint]


def _located(workload: Workload, error: FlowError) -> HeddleError:
    number = int(workload.job[error.flow])
    job = workload.jobs[number]
    if isinstance(job.spec, FlowsJob) and job.spec.rank is None:
        flow = error.flow - workload.span(number).start
        # A pipe cannot be read again to count its lines.
        where = f"{line_of_flow(job.where, flow)}: a flow" if Path(job.where).is_file() else f" flow {flow + 1}"
        return HeddleError(f"{job.where}:{where} that {error.reason}")
    return HeddleError(f"{job.where}: job {job.spec.name} has a flow that {error.reason}")


def job_results(
    workload: Workload, outcome: Outcome, alone_finish_s: Sequence[float] | None = None
) -> tuple[JobResult, ...]:
    """Return what became of each job.

    Parameters
    ----------
    alone_finish_s
        When the last flow of each job ended as its flows were played on the same network without the others.
    """
    results = []
    flows, fabric = workload.flows, outcome.network.fabric
    for number, job in enumerate(workload.jobs):
        mine = workload.span(number)
        moves = flows.src[mine] != flows.dst[mine]
        stored = job.spec if isinstance(job.spec, StorageJob) else None
        # The first flow of a storage job comes after a request and an SSD, which are part of its time.
        start = float(flows.start_s[mine].min()) if len(moves) and not stored else job.spec.start
        finish = outcome.after_rounds(float(outcome.finish_s[mine].max(initial=start)))
        lasted = (outcome.finish_s[mine] - outcome.start_s[mine])[moves]
        spec = job.spec if isinstance(job.spec, (CollectiveJob, GpuCollectiveJob)) else None
        once = (finish - start) / spec.repeat - spec.compute if spec else None
        host, leaf, zone = fabric.host[fabric.end_node[job.ends]], leaf_of(fabric, job.ends), zone_of(fabric, job.ends)
        results.append(
            JobResult(
                name=job.spec.name,
                kind=job.spec.kind,
                ranks=job.n_ranks,
                rank="gpu" if job.spec.whole_servers else "adapter",
                servers=len(np.unique(host[host >= 0])) + int(np.count_nonzero(host < 0)),
                leaves=len(np.unique(leaf[leaf >= 0])),
                zones=tuple(np.unique(zone[zone >= 0]).tolist()),
                left_out=job.left_out,
                flows=outcome.n_rounds * int(np.count_nonzero(moves)),
                bytes=outcome.n_rounds * float(flows.size_bytes[mine][moves].sum()),
                storage_bytes=float(job.n_ranks * stored.client_bytes) if stored else None,
                start_s=start,
                finish_s=finish,
                alone_s=None if alone_finish_s is None else max(0.0, alone_finish_s[number] - start),
                collective=spec.collective if spec else None,
                algorithm=job.choice.algorithm if job.choice else spec.algorithm if spec else None,
                chunks=spec.played_chunks if isinstance(spec, CollectiveJob) else None,
                protocol=job.choice.protocol.label if job.choice else None,
                channels=job.choice.channels if job.choice else None,
                closed_form_s=job.choice.time_s if job.choice else None,
                size_bytes=spec.size if spec else None,
                failed_rails=job.servers.rails - len(job.servers.working_rails) if job.servers else 0,
                once_s=once,
                measured_s=None if once is None else measured_s(job, once),
                flow_s=tuple(np.percentile(lasted, PERCENTILES, method="inverted_cdf").tolist()) if len(lasted) else (),
            )
        )
    return tuple(results)
