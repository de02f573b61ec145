"""Workloads on a fabric: every job placed, and all of their flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from routing.lanes.policy import ASK
from simulate.traffic.collectives.algorithms import Collective, groups_of
from simulate.traffic.flows import Flows
from simulate.traffic.graph import concatenate, repeated
from simulate.traffic.hfreduce import HFReduce
from simulate.traffic.nccl import TunedCollective, nccl_collective, nccl_send
from simulate.traffic.network import NO_DEVICES, Devices
from simulate.traffic.node import Servers, join_devices, ports_of_adapters
from simulate.traffic.placement import GROUPS, MAPPINGS, EndPortNames, rails_of_hosts, zone_of
from simulate.traffic.serving import inference
from simulate.traffic.tuner import Choice, Tuned
from simulate.workload.simai import SimaiWorkload, flows_of_simai
from simulate.workload.spec import (
    XML,
    CollectiveJob,
    FlowsJob,
    GpuCollectiveJob,
    GpuJob,
    GpuTrainingJob,
    InferenceJob,
    Job,
    Messaging,
    PlacedJob,
    RankedJob,
    RankJob,
    ServerJob,
    SimaiJob,
    StorageJob,
    StorageSpec,
    TrainingJob,
    WorkloadSpec,
)
from simulate.workload.storage import storage_adapters
from simulate.workload.training import exchanges, flows_of_training
from topo.budget import FLOWS, STORAGE_ACTS
from topo.catalog.models import NodeModel
from topo.errors import Finding, HeddleError, SpecError, did_you_mean, plural, refusal
from topo.fabric import Fabric, Role, frozen
from topo.files.yaml import Document, describe
from topo.graphs import turns_in_groups
from topo.table import Brief


@dataclass(frozen=True, eq=False)
class RunningJob:
    """A job, and the end ports that it runs on."""

    spec: Job
    where: str
    """Its place, as ``file:line:column``; for bare flows, the file of the flows."""
    ends: NDArray[np.int32]
    """(n_ranks,) end port of each rank; all adapters of each server, for GPUs; all that take part, for bare flows."""
    n_ranks: int
    """Ranks that take part: GPUs, or end ports."""
    seed: int = 0
    """Of what the clients of a storage job draw."""
    servers: Servers | None = None
    """Those whose inside is simulated."""
    choice: Choice | None = None
    """What NCCL's tuner takes."""
    left_out: int = 0
    """Servers, or adapter ports where each is a rank, that it would have if a failure had left them a link."""


@dataclass(frozen=True, eq=False)
class Workload(Brief):
    """All jobs of a workload on one fabric."""

    jobs: tuple[RunningJob, ...]
    flows: Flows
    """The flows of all jobs, job after job; a flow's tag is its step in its collective, or its tag in its trace."""
    job: NDArray[np.int32]
    """(F,) number of the job that each flow belongs to, never falling."""
    storage: StorageSpec = field(default_factory=StorageSpec)
    """The file system of its storage jobs, whose flows come about as it is played."""
    storage_server: NodeModel | None = None
    """What the storage servers are; None without storage jobs."""
    devices: Devices = NO_DEVICES
    """The inside of servers whose GPUs take part; the flows of such jobs are between these devices."""
    in_rounds: Collective | None = None
    """The only job, where its messages are too many to be played: the flows are those of its first round."""

    def _brief(self) -> str:
        return f"{plural(len(self.jobs), 'job')}, {plural(len(self.flows), 'flow')}"

    @property
    def acts(self) -> bool:
        """Whether there are jobs whose flows are not known before it is played."""
        return any(isinstance(job.spec, StorageJob) for job in self.jobs)

    @property
    def looks_inside(self) -> bool:
        """Whether anything depends on what the catalog says of servers."""
        return bool(len(self.devices.end_port)) or self.storage_server is not None

    def alone(self, number: int) -> Workload:
        """Return one of the jobs without the others."""
        mine = self.span(number)
        flows = self.flows.part(mine.start, mine.stop)
        return replace(self, jobs=(self.jobs[number],), flows=flows, job=frozen(np.zeros(len(flows), np.int32)))

    def span(self, number: int) -> slice:
        """Return where the flows of a job stand among all flows."""
        first, last = np.searchsorted(self.job, (number, number + 1)).tolist()
        return slice(first, last)


def place_workload(
    spec: WorkloadSpec,
    document: Document,
    fabric: Fabric,
    traces: Mapping[str, Flows],
    rng: np.random.Generator,
    models: Mapping[str, NodeModel] = MappingProxyType({}),
    simai: Mapping[str, SimaiWorkload] = MappingProxyType({}),
) -> Workload:
    """Return a workload's flows on a fabric.

    Jobs are placed in their order. Jobs that name their nodes take those; every other takes free adapter ports.

    Parameters
    ----------
    traces
        By the job's name: flows between ranks of a GOAL or Chakra job, flows between end ports of a job of bare flows.
    models
        Servers by name, for jobs of their GPUs and of storage.
    simai
        By the job's name, what its file of SimAI says.

    Raises
    ------
    SpecError
        When a job names what is not there, does not fit, or breaks the rule on zones: with its place in the document.
    """
    entries = [_Entry(document, number, job) for number, job in enumerate(spec.jobs)]
    placer = _Placer(entries, fabric, models)
    inside: list[Devices] = []
    shared: list[tuple[Servers, int]] = []  # servers on whose GPUs several jobs may run, and devices before them
    jobs: list[RunningJob] = []
    parts: list[Flows] = []
    in_rounds = None
    for entry, job in zip(entries, spec.jobs, strict=True):
        servers, choice, place, left_out = None, None, entry.finding((), "", "").where, 0
        if isinstance(job, FlowsJob) and job.rank is None:
            flows = traces[job.name]
            ends = ends_of(flows)
            place = str(Path(document.path).parent / job.file)
        else:
            size: int | None
            if isinstance(job, RankedJob):
                size = n_ranks = job.ranks
            else:
                size = n_ranks = simai[job.name].ranks if isinstance(job, SimaiJob) else _ranks(traces[job.name])
            if isinstance(job, ServerJob) and job.whole_servers:
                if n_ranks is not None and isinstance(job, RankJob | SimaiJob):
                    size = -(-max(n_ranks, 1) // placer.model(entry, job).gpus)
                ends = placer.place(entry, job, size, rng)
                behind = before = sum(len(part.end_port) for part in inside)
                if isinstance(job, GpuJob):
                    servers, flows, choice = _gpu_job(entry, placer, job, ends, simai)
                    devices = servers.devices if job.algorithm == "hfreduce" else servers.tuned_devices
                else:
                    on = next((known for known in shared if np.isin(ends, known[0].ends).all()), None)
                    if on is None:
                        on = placer.servers(entry, job, ends), before
                        shared.append(on)
                    servers, behind = on
                    gpu = servers.gpus_at(ends)[:n_ranks]
                    flows = _flows(entry, job, fabric, servers.end_of_gpu[gpu], traces)
                    flows = servers.between_gpus(flows.placed(gpu))
                    devices = servers.devices
                if behind == before:
                    inside.append(devices)
                own = fabric.n_end_ports + behind + np.arange(len(devices.end_port))
                flows = flows.placed(np.append(np.arange(fabric.n_end_ports), own))
            else:
                ends = placer.place(entry, job, size, rng)
                task = _collective(job, ends) if isinstance(job, CollectiveJob) else None
                if task is not None and task.is_too_large and len(spec.jobs) == 1:
                    in_rounds, flows = task, task.first_round(fabric)
                else:
                    flows = _flows(entry, job, fabric, ends, traces)
                    flows = flows.placed(ends if task is None else task.ends(fabric))
            flows = flows.in_order(job.order) if isinstance(job, Messaging) else flows
            if job.sl is not None or not isinstance(job, FlowsJob):
                flows = flows.on_level(ASK if job.sl is None else job.sl)
            left_out = placer.left_out(job, ends) if size is None else 0
        if servers is None:
            n_ranks = len(ends)
        elif n_ranks is None or isinstance(job, GpuCollectiveJob | GpuTrainingJob):
            n_ranks = len(servers.gpus_at(ends))
        seed = int(rng.integers(2**31)) if isinstance(job, StorageJob) else 0
        jobs.append(RunningJob(job, place, frozen(ends), n_ranks or 0, seed, servers, choice, left_out))
        parts.append(flows.delayed(job.start))
        if sum(map(len, parts)) > FLOWS.limit:
            raise entry.refusal((), f"more than {FLOWS.limit:,} flows", f"{FLOWS}: fewer, or smaller, jobs")
    _check_zones(spec, entries, fabric, jobs)
    storage_server = _check_storage(spec.storage, entries, placer, jobs)
    of_job = frozen(np.repeat(np.arange(len(jobs), dtype=np.int32), [len(part) for part in parts]))
    joined = join_devices(inside) if inside else NO_DEVICES
    return Workload(tuple(jobs), concatenate(parts), of_job, spec.storage, storage_server, joined, in_rounds)


def ends_of(flows: Flows) -> NDArray[np.int32]:
    """Return the end ports that flows are between, each once, in order."""
    return frozen(np.unique(np.concatenate([flows.src, flows.dst])))


def _ranks(flows: Flows) -> int:
    return int(max(flows.src.max(initial=-1), flows.dst.max(initial=-1))) + 1


@dataclass(frozen=True)
class _Entry:
    """A job of the spec, and its place in the document."""

    document: Document
    number: int
    job: Job

    def finding(self, path: tuple[str | int, ...], found: str, expected: str, hint: str = "") -> Finding:
        """Return a finding at a place in the job; what stands there is what was found, unless said otherwise."""
        at = ("jobs", self.number, *path)
        return Finding(self.document.where(*at), found or describe(self.document.reach(*at)[1]), expected, hint)

    def refusal(self, path: tuple[str | int, ...], found: str, expected: str, hint: str = "") -> SpecError:
        return SpecError([self.finding(path, found, expected, hint)])

    @property
    def by_adapter(self) -> str:
        """What to write where the GPUs of servers are not what the ranks of a file are."""
        said = isinstance(self.job, RankJob) and self.job.whole_servers
        return "Write `rank: adapter` if each rank is an adapter port" if said else ""

    @contextmanager
    def refusing(self, path: tuple[str | int, ...], found: str, expected: str) -> Iterator[None]:
        """Give errors that come up within a place in the job."""
        try:
            yield
        except HeddleError as error:
            hint = str(error)
            raise self.refusal(path, found, expected, hint if hint.endswith((".", "?")) else f"{hint}.") from None


class _Placer:
    """The adapter ports of a fabric, and which of them are taken."""

    def __init__(self, entries: Sequence[_Entry], fabric: Fabric, models: Mapping[str, NodeModel]) -> None:
        self.fabric, self.models = fabric, models
        self.free = np.zeros(fabric.n_end_ports, bool)
        self.free[fabric.n_switches :] = fabric.end_switch[fabric.n_switches :] >= 0
        self.looked_into = np.zeros(fabric.n_end_ports, bool)
        """End ports of servers whose inside is part of the network."""
        self.placed: dict[str, NDArray[np.int32]] = {}
        """End ports of the jobs that have a place."""
        names = EndPortNames(fabric)
        self.named = [_look_up(entry, names) for entry in entries]
        self.adapters = rails_of_hosts(fabric)
        for ends in self.named:
            if ends is not None:
                self.free[ends] = False

    def place(self, entry: _Entry, job: PlacedJob, size: int | None, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return the end port of each rank of a job, and mark them taken."""
        named = self.named[entry.number]
        if job.beside is not None:
            if job.nodes is not None:
                raise entry.refusal(("beside",), "both `nodes` and `beside`", "one of them")
            if job.beside not in self.placed:
                names = ", ".join(self.placed) or "none"
                raise entry.refusal(("beside",), "", f"a placed job that stands before it: {names}")
            named = self.placed[job.beside]
        whole = job.whole_servers
        if named is not None and whole:
            if np.any(self.fabric.host[self.fabric.end_node[named]] < 0):
                raise entry.refusal(("nodes",), "adapters that name no server", "adapters called after their servers")
            self.adapters = dict(self.adapters) | self.by_host(named)
            named = np.array([ends[0] for ends in self.by_host(named).values()], np.int32)
        if named is not None:
            if len(named) < (size or 1):
                found = f"{len(named)} servers" if whole else f"{len(named)} names"
                expected = f"{size or 1}" if whole else f"{size or 1}, one a rank"
                raise entry.refusal(("nodes",), found, expected)
            chosen = named[:size]
            self.check_within(entry, job, chosen)
        else:
            chosen = self.choose(entry, job, size)
        try:
            chosen = MAPPINGS[job.mapping](self.fabric, chosen, rng)
        except HeddleError as error:
            raise entry.refusal(("mapping",), "", f"a mapping that fits. {error}") from None
        if whole:  # a server is placed by its first adapter, and takes all of them
            hosts = self.fabric.host[self.fabric.end_node[chosen]].tolist()
            chosen = np.concatenate([self.adapters[host] for host in hosts])
        self.free[chosen] = False
        self.placed[job.name] = chosen
        return chosen

    def by_host(self, ends: NDArray[np.int32]) -> dict[int, NDArray[np.int32]]:
        """Return end ports by the host that they belong to, in the order of the first of each host."""
        host = self.fabric.host[self.fabric.end_node[ends]]
        return {int(number): ends[host == number] for number in dict.fromkeys(host.tolist())}

    def choose(self, entry: _Entry, job: PlacedJob, size: int | None) -> NDArray[np.int32]:
        """Return free end ports for a job, in order; the first of each server for a job of whole servers."""
        fabric = self.fabric
        ends = np.flatnonzero(self._able(job)).astype(np.int32)
        most = len(ends)
        if job.within != "fabric":
            group = GROUPS[job.within](fabric, ends)
            names, room = np.unique(group, return_counts=True)
            most = int(room.max(initial=0))
            fits = names[room >= (most if size is None else size)]
            ends = ends[group == fits[0]] if len(fits) else ends[:0]
        if most == 0 or len(ends) < (size or 1):
            where = "the fabric" if job.within == "fabric" else f"any {job.within}"
            if job.zone is not None:
                where = f"zone {job.zone}" if job.within != "leaf" else f"any leaf of zone {job.zone}"
            what = f"{job.role.name.lower()} servers"
            what = f"{what} with all their adapters" if job.whole_servers else f"adapters of {what}"
            free = f"at most {most:,}: no more {what} are free in {where}"
            ranked = isinstance(job, RankedJob)
            if ranked and most and job.within == "fabric":
                free += "; without this key the job takes these"
            found = plural(size or 1, "server" if job.whole_servers else "rank")
            raise entry.refusal(("ranks" if ranked else "file",), found, free, entry.by_adapter)
        if size is None or size == len(ends):
            return ends
        if job.spread is not None:
            group = GROUPS[job.spread](fabric, ends)
            ends = ends[np.lexsort((group, turns_in_groups(group)))]
        return np.sort(ends[:size])

    def left_out(self, job: PlacedJob, ends: NDArray[np.int32]) -> int:
        """Return the servers or adapter ports without a link that a job of all free ones would have taken as well."""
        fabric = self.fabric
        if job.nodes is not None or job.beside is not None or job.within == "leaf":
            return 0  # those that are named must have a link, and what has none is on no leaf
        down = np.flatnonzero((fabric.end_switch < 0) & (fabric.role[fabric.end_node] == job.role)).astype(np.int32)
        if job.zone is not None or job.within == "zone":
            down = down[np.isin(zone_of(fabric, down), zone_of(fabric, ends))]
        if not job.whole_servers:
            return len(down)
        return len(self.by_host(down).keys() - rails_of_hosts(fabric))

    def _able(self, job: PlacedJob) -> NDArray[np.bool_]:
        """Return which end ports a job may take: free ones; the first of each server for a job of whole servers."""
        fabric = self.fabric
        able: NDArray[np.bool_] = self.free & (fabric.role[fabric.end_node] == job.role)
        if job.whole_servers:
            firsts = [ends[0] for ends in self.adapters.values() if able[ends].all()]
            able = np.isin(np.arange(fabric.n_end_ports), firsts)
        if job.zone is not None:
            able &= fabric.zone[fabric.end_node] == job.zone
        return able

    def check_within(self, entry: _Entry, job: PlacedJob, ends: NDArray[np.int32]) -> None:
        """Refuse named nodes that break the job's own rule."""
        if job.within != "fabric" and (spans := len(np.unique(GROUPS[job.within](self.fabric, ends)))) > 1:
            found = f"adapters in {spans} {'leaves' if job.within == 'leaf' else 'zones'}"
            raise entry.refusal(("nodes",), found, f"all within one {job.within}")
        zones = np.unique(zone_of(self.fabric, ends)).tolist()
        if job.zone is not None and zones != [job.zone]:
            found = f"adapters in zone {', '.join(map(str, zones))}"
            raise entry.refusal(("nodes",), found, f"all in zone {job.zone}")

    def model(self, entry: _Entry, job: ServerJob) -> NodeModel:
        """Return what the servers are on which a job of GPUs may be placed."""
        named = self.named[entry.number]
        if named is None:
            named = self.placed.get(job.beside or "", np.flatnonzero(self._able(job)).astype(np.int32))
        with self._looking(entry, job, named):
            model = _model_of(self.fabric, named, job.server, self.models)
            if model.gpus < 1:
                raise HeddleError(f"{model.name} has no GPU")
        return model

    def servers(
        self,
        entry: _Entry,
        job: ServerJob,
        ends: NDArray[np.int32],
        make: Callable[[NodeModel, Fabric, NDArray[np.int32]], Servers] = Servers,
    ) -> Servers:
        """Return the servers of a job of GPUs, made of their model and the (H, R) end ports of their adapters."""
        with self._looking(entry, job, ends):
            model = _model_of(self.fabric, ends, job.server, self.models)
        if self.looked_into[ends].any():
            found = "servers that another job looks into already"
            raise entry.refusal((), found, "servers of its own, for each job of this kind")
        self.looked_into[ends] = True
        every = rails_of_hosts(self.fabric, unplugged=True)  # those behind a failed leaf too
        plugged = self.fabric.end_switch >= 0
        rows = [
            every[host] if plugged[every[host]].sum() == len(row) else row for host, row in self.by_host(ends).items()
        ]
        key, what = ("kind", "a job of GPUs")
        if isinstance(job, GpuJob) and "algorithm" in job.model_fields_set:
            key, what = "algorithm", job.algorithm
        found = f"{what} on {plural(len(rows), 'server')}"
        with entry.refusing((key,), found, "servers that can play it, with the figures of their inside"):
            whole = len(rows[0]) if ports_of_adapters(model, self.fabric, rows[0]) else model.adapters
            odd = next((row for row in rows if len(row) != whole), None)
            if odd is not None:
                host = self.fabric.hosts[self.fabric.host[self.fabric.end_node[odd[0]]]]
                raise HeddleError(
                    f"{host} has {plural(len(odd), 'adapter port')} in this fabric, and "
                    f"{model.name} has {model.adapters}. If it is one of several planes, play all of them with "
                    "--subnet '*plane*'. If an adapter has failed, leave the server out, or take a fabric that still "
                    "lists it, as `plan repair FABRIC --down LEAF -o OUT` writes"
                )
            return make(model, self.fabric, np.stack(rows))

    @contextmanager
    def _looking(self, entry: _Entry, job: ServerJob, ends: NDArray[np.int32]) -> Iterator[None]:
        key, found = (("server",), "") if job.server else ((), f"{len(self.by_host(ends)):,} servers")
        with entry.refusing(key, found, "servers whose inside is known"):
            try:
                yield
            except HeddleError as error:
                raise HeddleError(" ".join(filter(None, (f"{error}.".replace("..", "."), entry.by_adapter)))) from None


def _gpu_job(
    entry: _Entry, placer: _Placer, job: GpuJob, ends: NDArray[np.int32], simai: Mapping[str, SimaiWorkload]
) -> tuple[Servers, Flows, Choice | None]:
    """Return the servers of a job of GPUs, flows between their devices, and what the tuner takes for the only one."""
    reduce = None
    if isinstance(job, GpuCollectiveJob) and job.algorithm == "hfreduce":
        reduce = HFReduce(nvlink=bool(job.nvlink), chunk_bytes=job.chunk)
        servers = placer.servers(entry, job, ends, reduce.servers)
    else:
        nvlink = job.nvlink if isinstance(job, GpuCollectiveJob) else None
        servers = placer.servers(entry, job, ends, partial(Servers, nvlink=nvlink))

    def exchange(collective: Tuned, groups: NDArray[np.int64] | None, size_bytes: float) -> TunedCollective:
        algorithm = "auto" if collective == "all-to-all" else job.algorithm
        adds = {"sharp": job.sharp, "every_switch": job.every_switch}
        return nccl_collective(servers, collective, size_bytes, algorithm, groups=groups, pxn=job.pxn, **adds)

    choice = None
    with entry.refusing(
        ("algorithm",), f"{job.algorithm} of {plural(len(servers), 'server')}", "an algorithm for such servers"
    ):
        match job:
            case GpuCollectiveJob():
                if reduce is not None:
                    once = reduce.flows(servers, job.size)
                else:
                    choice, once = exchange(job.collective, None, job.size)
                _check_repeat(entry, job.repeat, len(once))
                return servers, repeated(once.waiting_first(job.compute), job.repeat), choice
            case GpuTrainingJob():
                flows = flows_of_training(
                    job, len(servers) * servers.gpus, lambda name: lambda size: exchange(name, None, size).flows
                )
            case SimaiJob():
                flows = flows_of_simai(
                    simai[job.name],
                    lambda collective, groups, size: exchange(collective, groups, size).flows,
                    partial(nccl_send, servers),
                )
    return servers, flows, choice


def _model_of(fabric: Fabric, ends: NDArray[np.int32], said: str | None, models: Mapping[str, NodeModel]) -> NodeModel:
    """Return what the servers of end ports are, as the fabric knows; as the workload says, where it does not."""
    host = fabric.host[fabric.end_node[ends]]
    numbers = np.where(host >= 0, fabric.host_model[host], -1) if len(fabric.host_model) else np.full(len(ends), -1)
    known = sorted(fabric.models[number] for number in np.unique(numbers[numbers >= 0]).tolist())
    if len(known) > 1:
        raise HeddleError(f"The servers are of several models ({', '.join(known)}); choose those of one")
    if said is not None and known and known != [said] and not said.endswith(XML):
        raise HeddleError(f"The servers of this fabric are {known[0]}, not {said}: leave `server` out")
    if said is None and np.any(numbers < 0):
        raise HeddleError(
            "The model of the servers is unknown, because a dump does not contain it; name a model of the catalog as "
            "`server`"
        )
    name = said or known[0]
    if name not in models:
        raise HeddleError(f"The catalog has no server {name}. {did_you_mean(name, models)}".strip())
    return models[name]


def _look_up(entry: _Entry, names: EndPortNames) -> NDArray[np.int32] | None:
    """Return the end ports that a job names, None when it names none."""
    job = entry.job
    if not isinstance(job, PlacedJob) or job.nodes is None:
        return None
    findings: list[Finding] = []
    seen: dict[int, int] = {}
    for at, name in enumerate(job.nodes):
        found = names.find(name)
        if not found or (len(found) > 1 and not job.whole_servers):
            findings.append(entry.finding(("nodes", at), "", *names.advice(name)))
        elif found[0] in seen:
            hint = f"It is rank {seen[found[0]]} already."
            findings.append(entry.finding(("nodes", at), "", "each adapter port once", hint))
        else:
            seen |= dict.fromkeys(found, at)
    if findings:
        raise SpecError(findings)
    return np.array([*seen], np.int32)


def _collective(job: CollectiveJob, ends: NDArray[np.int32]) -> Collective:
    return Collective(
        *(job.collective, ends, job.size, job.algorithm, job.played_chunks, job.group, job.repeat),
        compute_s=job.compute,
        eager_bytes=job.eager,
        every_switch=job.every_switch,
    )


def _flows(
    entry: _Entry, job: PlacedJob, fabric: Fabric, near: NDArray[np.int32], traces: Mapping[str, Flows]
) -> Flows:
    """Return the flows between the ranks of a job, each near an end port; none of storage, which come in play."""
    if isinstance(job, CollectiveJob):
        found = f"{job.collective} by {job.algorithm} of {plural(len(near), 'rank')}"
        task = _collective(job, near)
        with entry.refusing(("algorithm",), found, "what the algorithm can take"):
            messages = task.schedule(fabric)
        _check_repeat(entry, job.repeat, len(messages))
        return task.between_ranks(fabric, messages)
    if isinstance(job, TrainingJob):
        if job.parallel == "parameter-server" and job.servers >= len(near):
            found = f"`servers: {job.servers}` with {plural(len(near), 'rank')}"
            raise entry.refusal(("servers",), found, "fewer servers than ranks, so that a worker is left")
        found = f"{job.parallel} parallel training of {plural(len(near), 'rank')}"
        with entry.refusing(("parallel",), found, "what the ranks can do"):
            groups = groups_of(fabric, near, job.algorithm, job.group)
            return flows_of_training(job, len(near), exchanges(job, len(near), groups))
    if isinstance(job, InferenceJob):
        found = f"inference on {plural(len(near), 'rank')}, {job.prefill} of which prefill"
        with entry.refusing(("prefill",), found, "ranks that prefill, and others that decode"):
            return inference(
                job.prefill,
                len(near) - job.prefill,
                requests=job.requests,
                rounds=job.rounds,
                layers=job.layers,
                prompt_s=job.prompt,
                cache_bytes=job.cache,
                tokens=job.tokens,
                token_s=job.token,
                expert_bytes=job.experts,
                eager_bytes=job.eager,
            )
    return Flows.of([], [], []) if isinstance(job, StorageJob) else traces[job.name]


def _check_repeat(entry: _Entry, repeat: int, messages: int) -> None:
    if messages * repeat > FLOWS.limit:
        found = f"{messages:,} messages, {repeat:,} times"
        raise entry.refusal(("repeat",), found, str(FLOWS))


def _check_zones(spec: WorkloadSpec, entries: Sequence[_Entry], fabric: Fabric, jobs: Sequence[RunningJob]) -> None:
    """Refuse more jobs across zones than the workload's rule allows."""
    limit = spec.cross_zone_jobs
    placed = [(entry, job) for entry, job in zip(entries, jobs, strict=True) if isinstance(job.spec, PlacedJob)]
    across = [entry for entry, job in placed if len(np.unique(zone_of(fabric, job.ends))) > 1]
    if limit is not None and len(across) > limit:
        found = f"{len(across)} jobs that span zones ({', '.join(entry.job.name for entry in across)})"
        hint = "Keep jobs together with `within: zone`."
        raise across[limit].refusal((), found, f"at most {limit} (`cross_zone_jobs`)", hint)


def _check_storage(
    setup: StorageSpec, entries: Sequence[_Entry], placer: _Placer, jobs: Sequence[RunningJob]
) -> NodeModel | None:
    """Return what the storage servers are, None without storage jobs.

    Refuse such jobs where nobody stores or nothing is to do, and more replicas or reads than there can be.
    """
    acts = 0
    server = None
    for entry, job in zip(entries, jobs, strict=True):
        spec = job.spec
        if not isinstance(spec, StorageJob):
            continue
        try:
            servers, ends = len(storage_adapters(placer.fabric)), placer.fabric.ends(role=Role.STORAGE)
            server = server or _model_of(placer.fabric, ends, setup.server, placer.models)
        except HeddleError as error:
            raise entry.refusal(("kind",), "", f"storage servers. {error}.") from None
        if setup.replicas > servers:
            found, expected = f"{setup.replicas} replicas", f"at most {servers:,}, one a storage server"
            raise refusal(entry.document.where("storage", "replicas"), found, expected)
        if not spec.batches and not spec.checkpoint:
            raise entry.refusal((), "nothing to do", "`batches` to read, or a `checkpoint`")
        if spec.batches and spec.sample > setup.chunk:
            found, expected = f"samples of {spec.sample:,} bytes", f"at most the {setup.chunk:,} bytes of a chunk"
            raise entry.refusal(("sample",), found, expected, "A larger one is `chunk` under `storage`.")
        chunks = -(-spec.checkpoint // setup.chunk) * setup.replicas * spec.checkpoints
        acts += len(job.ends) * (spec.loaders * spec.batches * spec.batch + chunks)
        if acts > STORAGE_ACTS.limit:
            expected = f"{STORAGE_ACTS}: fewer batches, or larger samples and chunks"
            raise entry.refusal((), f"{acts:,} reads and writes up to here", expected)
    return server
