"""Workloads on a fabric: every job placed, and all of their flows.

`read_workload` is the rim: it opens the YAML and the files that its jobs name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from routing.lanes.policy import ASK
from simulate.network import NO_DEVICES, Devices
from simulate.traffic.collectives.algorithms import Collective, groups_of
from simulate.traffic.flows import Flows, concatenate, repeated
from simulate.traffic.hfreduce import HFReduce
from simulate.traffic.nccl import nccl_ring, nccl_tree
from simulate.traffic.node import Servers, join_devices
from simulate.traffic.placement import MAPPINGS, leaf_of, zone_of
from simulate.workload.chakra import read_chakra
from simulate.workload.chakra_flows import flows_of_chakra
from simulate.workload.end_ports import EndPortNames
from simulate.workload.flows_csv import read_flows_csv
from simulate.workload.goal import read_goal
from simulate.workload.goal_flows import flows_of_goal
from simulate.workload.spec import (
    ChakraJob,
    CollectiveJob,
    FlowsJob,
    GoalJob,
    GpuAllreduceJob,
    Job,
    PlacedJob,
    RankedJob,
    StorageJob,
    StorageSpec,
    TrainingJob,
    WorkloadSpec,
    read_workload_spec,
)
from simulate.workload.storage import storage_adapters
from simulate.workload.training import flows_of_training
from topo.errors import Finding, HeddleError, SpecError, did_you_mean, refusal
from topo.fabric import Fabric, frozen
from topo.formats.yaml import Document, describe
from topo.hardware.catalog import load_catalog
from topo.hardware.models import NodeModel

MAX_FLOWS = 2**26
"""Flows of a workload, repetitions counted; some 4 GB of arrays."""

MAX_ACTS = 10_000_000
"""Reads and writes of the storage jobs of a workload, each remembered; hours of work."""


@dataclass(frozen=True, eq=False)
class RunningJob:
    """A job, and the end ports that it runs on."""

    spec: Job
    where: str
    """Its place, as ``file:line:column``; for bare flows, the file of the flows."""
    ends: NDArray[np.int32]
    """(n_ranks,) end port of each rank; all that take part, for bare flows."""
    seed: int = 0
    """Of what the clients of a storage job draw."""
    gpus: int = 1
    """Ranks on each end port: the GPUs of a server that is looked into."""

    @property
    def n_ranks(self) -> int:
        """Ranks that take part."""
        return len(self.ends) * self.gpus


@dataclass(frozen=True, eq=False)
class Workload:
    """All jobs of a workload on one fabric."""

    jobs: tuple[RunningJob, ...]
    flows: Flows
    """The flows of all jobs, job after job; a flow's tag is its step in its collective, or its tag in its trace."""
    job: NDArray[np.int32]
    """(F,) number of the job that each flow belongs to, never falling."""
    storage: StorageSpec = field(default_factory=StorageSpec)
    """The file system of its storage jobs, whose flows come about as it is played."""
    devices: Devices = NO_DEVICES
    """The inside of servers that jobs look into; their flows are between these devices."""

    @property
    def acts(self) -> bool:
        """Whether there are jobs whose flows are not known before it is played."""
        return any(isinstance(job.spec, StorageJob) for job in self.jobs)

    def alone(self, number: int) -> Workload:
        """Return one of the jobs without the others."""
        mine = self.span(number)
        flows = self.flows.part(mine.start, mine.stop)
        return replace(self, jobs=(self.jobs[number],), flows=flows, job=frozen(np.zeros(len(flows), np.int32)))

    def span(self, number: int) -> slice:
        """Return where the flows of a job stand among all flows."""
        first, last = np.searchsorted(self.job, (number, number + 1)).tolist()
        return slice(first, last)


def read_workload(path: Path, fabric: Fabric, rng: np.random.Generator) -> Workload:
    """Read a workload and the files that it names, and place it on a fabric.

    Raises
    ------
    SpecError, FormatError
        With the place of what cannot be read or placed.
    """
    spec, document = read_workload_spec(path)
    traces: dict[str, Flows] = {}
    for job in spec.jobs:
        if isinstance(job, GoalJob):
            traces[job.name] = flows_of_goal(read_goal(path.parent / job.file))
        elif isinstance(job, ChakraJob):
            traces[job.name] = flows_of_chakra(read_chakra(path.parent / job.file), job.algorithms)
        elif isinstance(job, FlowsJob):
            traces[job.name] = read_flows_csv(path.parent / job.file, fabric)
    models = load_catalog().nodes if any(isinstance(job, GpuAllreduceJob) for job in spec.jobs) else {}
    return place_workload(spec, document, fabric, traces, rng, models)


def bare_flows(flows: Flows, path: str) -> Workload:
    """Return flows between end ports as a workload of one job, called ``flows``, from a file."""
    job = RunningJob(FlowsJob(name="flows", kind="flows", file=path), path, _ends(flows))
    return Workload((job,), flows, frozen(np.zeros(len(flows), np.int32)))


def place_workload(
    spec: WorkloadSpec,
    document: Document,
    fabric: Fabric,
    traces: Mapping[str, Flows],
    rng: np.random.Generator,
    models: Mapping[str, NodeModel] = MappingProxyType({}),
) -> Workload:
    """Return a workload's flows on a fabric.

    Jobs are placed in their order. Jobs that name their nodes take those; every other takes free adapter ports.

    Parameters
    ----------
    document
        What the spec was read from, to say where a fault stands.
    traces
        By the job's name: flows between ranks of a GOAL or Chakra job, flows between end ports of a job of bare flows.
    rng
        For random mappings.
    models
        Servers by name, for jobs that look into them.

    Raises
    ------
    SpecError
        When a job names what is not there, does not fit, or breaks the rule on zones: with its line and column.
    """
    placer = _Placer(spec, document, fabric)
    inside: list[Devices] = []
    jobs: list[RunningJob] = []
    parts: list[Flows] = []
    for number, job in enumerate(spec.jobs):
        gpus = 1
        if isinstance(job, FlowsJob):
            flows = traces[job.name]
            ends = _ends(flows)
        elif isinstance(job, GpuAllreduceJob):
            ends = placer.place(number, job, job.ranks, rng)
            servers, flows = placer.gpu_allreduce(number, job, ends, models)
            behind = sum(len(part.end_port) for part in inside)
            flows = flows.placed(np.arange(fabric.n_end_ports + len(servers.devices.end_port)) + behind)
            inside.append(servers.devices)
            gpus = servers.gpus
        else:
            size = job.ranks if isinstance(job, RankedJob) else _ranks(traces[job.name])
            ends = placer.place(number, job, size, rng)
            flows = placer.flows(number, job, ends, traces)
        place = placer.finding(number, (), "", "").where
        if isinstance(job, FlowsJob):
            place = str(Path(document.path).parent / job.file)
        else:
            flows = flows.on_level(ASK if job.sl is None else job.sl)
        seed = int(rng.integers(2**31)) if isinstance(job, StorageJob) else 0
        jobs.append(RunningJob(job, place, frozen(ends), seed, gpus))
        parts.append(flows.delayed(job.start))
        if sum(map(len, parts)) > MAX_FLOWS:
            raise SpecError([placer.finding(number, (), f"more than {MAX_FLOWS:,} flows", "fewer, or smaller, jobs")])
    placer.check_zones(jobs)
    placer.check_storage(jobs)
    counts = [len(part) for part in parts]
    of_job = frozen(np.repeat(np.arange(len(jobs), dtype=np.int32), counts))
    devices = join_devices(inside) if inside else NO_DEVICES
    return Workload(tuple(jobs), concatenate(parts), of_job, spec.storage, devices)


def _ends(flows: Flows) -> NDArray[np.int32]:
    return frozen(np.unique(np.concatenate([flows.src, flows.dst])))


def _ranks(flows: Flows) -> int:
    return int(max(flows.src.max(initial=-1), flows.dst.max(initial=-1))) + 1


class _Placer:
    """The adapter ports of a fabric, and which of them are taken."""

    def __init__(self, spec: WorkloadSpec, document: Document, fabric: Fabric) -> None:
        self.spec = spec
        self.document = document
        self.fabric = fabric
        self.names = EndPortNames(fabric)
        self.free = np.zeros(fabric.n_end_ports, bool)
        self.free[fabric.n_switches :] = fabric.end_switch[fabric.n_switches :] >= 0
        self.looked_into = np.zeros(fabric.n_end_ports, bool)
        """End ports of servers whose inside is part of the network."""
        self.placed: dict[str, NDArray[np.int32]] = {}
        """End ports of the jobs that have a place."""
        self.named = [
            self.look_up(number, job) if isinstance(job, PlacedJob) and job.nodes is not None else None
            for number, job in enumerate(spec.jobs)
        ]
        for ends in self.named:
            if ends is not None:
                self.free[ends] = False

    def look_up(self, number: int, job: PlacedJob) -> NDArray[np.int32]:
        """Return the end ports that a job names."""
        ends, findings = [], []
        seen: dict[int, int] = {}
        for at, name in enumerate(job.nodes or ()):
            found = self.names.find(name)
            if len(found) != 1:
                findings.append(self.finding(number, ("nodes", at), "", *self.names.advice(name)))
            elif found[0] in seen:
                hint = f"It is rank {seen[found[0]]} already."
                findings.append(self.finding(number, ("nodes", at), "", "each adapter port once", hint))
            else:
                seen[found[0]] = at
                ends.append(found[0])
        if findings:
            raise SpecError(findings[:20])
        return np.array(ends, np.int32)

    def place(self, number: int, job: PlacedJob, size: int | None, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return the end port of each rank of a job, and mark them taken."""
        key = "ranks" if isinstance(job, RankedJob) else "file"
        named = self.named[number]
        if job.beside is not None:
            named = self.beside(number, job)
        if named is not None:
            if len(named) < (size or 1):
                raise SpecError([self.finding(number, ("nodes",), f"{len(named)} names", f"{size or 1}, one a rank")])
            chosen = named[:size]
            self.check_within(number, job, chosen)
        else:
            chosen = self.choose(number, job, size, key)
            self.free[chosen] = False
        try:
            self.placed[job.name] = MAPPINGS[job.mapping](self.fabric, chosen, rng)
            return self.placed[job.name]
        except HeddleError as error:
            raise SpecError([self.finding(number, ("mapping",), "", f"a mapping that fits. {error}")]) from None

    def beside(self, number: int, job: PlacedJob) -> NDArray[np.int32]:
        """Return the end ports of the job that another one shares them with."""
        if job.nodes is not None:
            raise SpecError([self.finding(number, ("beside",), "both `nodes` and `beside`", "one of them")])
        if job.beside not in self.placed:
            names = ", ".join(self.placed) or "none"
            raise SpecError([self.finding(number, ("beside",), "", f"a placed job that stands before it: {names}")])
        return self.placed[job.beside]

    def choose(self, number: int, job: PlacedJob, size: int | None, key: str) -> NDArray[np.int32]:
        """Return free end ports for a job, in order."""
        fabric = self.fabric
        able = self.free & (fabric.role[fabric.end_node] == job.role)
        if job.zone is not None:
            able &= fabric.zone[fabric.end_node] == job.zone
        ends = np.flatnonzero(able).astype(np.int32)
        if job.within != "fabric":
            group = zone_of(fabric, ends) if job.within == "zone" else leaf_of(fabric, ends)
            names, room = np.unique(group, return_counts=True)
            most = int(room.max(initial=0))
            fits = names[room >= (most if size is None else size)]
            ends = ends[group == fits[0]] if len(fits) else ends[:0]
        else:
            most = len(ends)
        if most == 0 or len(ends) < (size or 1):
            where = "the fabric" if job.within == "fabric" else f"any {job.within}"
            if job.zone is not None:
                where = f"zone {job.zone}" if job.within != "leaf" else f"any leaf of zone {job.zone}"
            free = f"at most {most:,}: no more adapters of {job.role.name.lower()} servers are free in {where}"
            raise SpecError([self.finding(number, (key,), f"{size or 1:,} ranks", free)])
        if size is None or size == len(ends):
            return ends
        if job.spread is not None:
            group = zone_of(fabric, ends) if job.spread == "zone" else leaf_of(fabric, ends)
            order = np.argsort(group, kind="stable")
            starts = np.concatenate([[0], np.flatnonzero(np.diff(group[order])) + 1])
            turn = np.empty(len(ends), np.int64)
            turn[order] = np.arange(len(ends)) - np.repeat(starts, np.diff(np.append(starts, len(ends))))
            ends = ends[np.lexsort((group, turn))]
        return np.sort(ends[:size])

    def check_within(self, number: int, job: PlacedJob, ends: NDArray[np.int32]) -> None:
        """Refuse named nodes that break the job's own rule."""
        zones, leaves = np.unique(zone_of(self.fabric, ends)), np.unique(leaf_of(self.fabric, ends))
        spans = len(leaves) if job.within == "leaf" else len(zones) if job.within == "zone" else 1
        if spans > 1:
            found = f"adapters in {spans} {'leaves' if job.within == 'leaf' else 'zones'}"
            raise SpecError([self.finding(number, ("nodes",), found, f"all within one {job.within}")])
        if job.zone is not None and zones.tolist() != [job.zone]:
            found = f"adapters in zone {', '.join(map(str, zones.tolist()))}"
            raise SpecError([self.finding(number, ("nodes",), found, f"all in zone {job.zone}")])

    def flows(self, number: int, job: PlacedJob, ends: NDArray[np.int32], traces: Mapping[str, Flows]) -> Flows:
        """Return the flows of a job between its end ports; none of storage, which come about as it is played."""
        if isinstance(job, CollectiveJob):
            return self.collective(number, job, ends)
        if isinstance(job, TrainingJob):
            return self.training(number, job, ends)
        if isinstance(job, StorageJob):
            return Flows.of([], [], [])
        return traces[job.name].placed(ends)

    def gpu_allreduce(
        self, number: int, job: GpuAllreduceJob, ends: NDArray[np.int32], models: Mapping[str, NodeModel]
    ) -> tuple[Servers, Flows]:
        """Return the servers of a job that looks into them, and its flows between their devices."""
        if job.server not in models:
            hint = did_you_mean(job.server, models)
            expected = "a server of the catalog with GPUs"
            raise SpecError([self.finding(number, ("server",), "", expected, hint)])
        if self.looked_into[ends].any():
            found = "servers that another job looks into already"
            raise SpecError([self.finding(number, (), found, "servers of its own, for each job of this kind")])
        self.looked_into[ends] = True
        reduce = HFReduce(nvlink=job.nvlink, chunk_bytes=job.chunk)
        try:
            if job.algorithm == "hfreduce":
                servers = reduce.servers(models[job.server], self.fabric, ends)
                once = reduce.flows(servers, job.size)
            else:
                servers = Servers(models[job.server], self.fabric, ends, nvlink=job.nvlink)
                once = (nccl_ring if job.algorithm == "nccl-ring" else nccl_tree)(servers, job.size, job.chunk)
        except HeddleError as error:
            found = f"{job.algorithm} of {len(ends):,} servers"
            finding = self.finding(number, ("algorithm",), found, "what the servers can do", f"{error}.")
            raise SpecError([finding]) from None
        self.check_repeat(number, job, len(once))
        return servers, repeated(once.waiting_first(job.compute), job.repeat)

    def training(self, number: int, job: TrainingJob, ends: NDArray[np.int32]) -> Flows:
        """Return the flows of a training job between its end ports."""
        try:
            return flows_of_training(job, len(ends), groups_of(self.fabric, ends, job.algorithm, job.group)).placed(
                ends
            )
        except HeddleError as error:
            found = f"{job.parallel} parallel training of {len(ends):,} ranks"
            finding = self.finding(number, ("parallel",), found, "what the ranks can do", f"{error}.")
            raise SpecError([finding]) from None

    def collective(self, number: int, job: CollectiveJob, ends: NDArray[np.int32]) -> Flows:
        """Return the flows of a collective job between its end ports."""
        task = Collective(
            job.collective, ends, job.size, job.algorithm, job.chunks, job.group, job.repeat, compute_s=job.compute
        )
        try:
            messages = task.schedule(self.fabric)
        except HeddleError as error:
            found = f"{job.collective} by {job.algorithm} of {len(ends):,} ranks"
            finding = self.finding(number, ("algorithm",), found, "what the algorithm can take", f"{error}.")
            raise SpecError([finding]) from None
        self.check_repeat(number, job, len(messages))
        return task.flows(self.fabric, messages)

    def check_repeat(self, number: int, job: CollectiveJob | GpuAllreduceJob, messages: int) -> None:
        """Refuse more flows than there may be."""
        if messages * job.repeat > MAX_FLOWS:
            found = f"{messages:,} messages, {job.repeat:,} times"
            raise SpecError([self.finding(number, ("repeat",), found, f"at most {MAX_FLOWS:,} flows")])

    def check_zones(self, jobs: list[RunningJob]) -> None:
        """Refuse more jobs across zones than the workload's rule allows."""
        limit = self.spec.cross_zone_jobs
        if limit is None:
            return
        across = [
            number
            for number, job in enumerate(jobs)
            if isinstance(job.spec, PlacedJob) and len(np.unique(zone_of(self.fabric, job.ends))) > 1
        ]
        if len(across) > limit:
            names = ", ".join(self.spec.jobs[number].name for number in across)
            found = f"{len(across)} jobs that span zones ({names})"
            hint = "Keep jobs together with `within: zone`."
            raise SpecError([self.finding(across[limit], (), found, f"at most {limit} (`cross_zone_jobs`)", hint)])

    def check_storage(self, jobs: list[RunningJob]) -> None:
        """Refuse storage jobs where nobody stores or nothing is to do, and more replicas or reads than there can be."""
        acts, setup = 0, self.spec.storage
        for number, job in enumerate(jobs):
            spec = job.spec
            if not isinstance(spec, StorageJob):
                continue
            try:
                servers = len(storage_adapters(self.fabric))
            except HeddleError as error:
                raise SpecError([self.finding(number, ("kind",), "", f"storage servers. {error}.")]) from None
            if setup.replicas > servers:
                found, expected = f"{setup.replicas} replicas", f"at most {servers:,}, one a storage server"
                raise refusal(self.document.where("storage", "replicas"), found, expected)
            if not spec.batches and not spec.checkpoint:
                raise SpecError([self.finding(number, (), "nothing to do", "`batches` to read, or a `checkpoint`")])
            chunks = -(-spec.checkpoint // setup.chunk) * setup.replicas * spec.checkpoints
            acts += len(job.ends) * (spec.loaders * spec.batches * spec.batch + chunks)
            if acts > MAX_ACTS:
                expected = f"at most {MAX_ACTS:,}: fewer batches, or larger samples and chunks"
                raise SpecError([self.finding(number, (), f"{acts:,} reads and writes up to here", expected)])

    def finding(self, number: int, path: tuple[str | int, ...], found: str, expected: str, hint: str = "") -> Finding:
        """Return a finding at a place in a job; what stands there is what was found, unless said otherwise."""
        at = ("jobs", number, *path)
        return Finding(self.document.where(*at), found or describe(self.document.reach(*at)[1]), expected, hint)
