"""Every published point of Fire-Flyer 2, computed and published: rewrites docs/validation/fire-flyer.md.

Run from the repository, some minutes: python benchmarks/published/compare_fire_flyer.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from compare_storage import compute_ends, dealt
from compare_training import gpt2_medium
from fire_flyer import MIB, Cluster
from scipy.stats import norm

import costmodel
from plan.inputs import read_routed_argument
from routing.routed import Routed
from simulate import play
from simulate.traffic.hfreduce import CHUNK_BYTES, HFReduce
from simulate.traffic.nccl import nccl_collective
from simulate.traffic.network import Network
from simulate.traffic.node import Servers
from simulate.traffic.training import data_parallel, fsdp, pipeline_parallel, vgg16
from simulate.workload.spec import StorageSpec
from simulate.workload.storage import steady_reads
from topo.catalog.load import load_catalog

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "fire-flyer.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
SIZE = 186 * MIB
PLACEMENTS = 5
"""Random choices of servers: Fig. 7 is computed on all, and the median counts; training on the first."""
GRID_CHUNK_MIB = (4.0, 5.0, 6.0, 7.0, 8.0)
GRID_PORT = (32.0, 32.5, 33.0, 33.5, 34.0)


class Unknowns(NamedTuple):
    """What no source publishes."""

    chunk_mib: float
    """What HFReduce moves at a time."""
    port: float
    """GB/s of the root port that two GPUs share, both directions together."""
    spread_s: float
    """Standard deviation of the time that servers compute in a step."""


@dataclass(frozen=True)
class Point:
    """What was published."""

    table: str
    system: str
    gpus: int
    value: float
    used: bool = False
    """Whether a number is calibrated on it."""

    @property
    def group(self) -> str:
        if self.table.startswith("Fig. 7"):
            return "nccl" if self.system == "nccl" else "across zones" if "zones" in self.table else self.system
        return self.table


USED = {("Fig. 7", "hfreduce", "16"), ("Fig. 7", "hfreduce", "1440"), ("Fig. 8a", "hfreduce", "512")}
"""Points on which the three numbers are calibrated, in the order of root port, chunk and spread."""

FIRST = {"Fig. 8a": ("hfreduce", 32), "Fig. 8b": ("haiscale", 16), "Fig. 9a": ("llama-13b", 64)} | {
    "Fig. 9b": ("deepseek-moe-16b", 40)
}
"""Points from which the time of computation is taken: it is published nowhere, and no number of the cluster."""


def published() -> list[Point]:
    points = []
    for name in ("hfreduce", "training"):
        for (table, system, gpus), value in costmodel.published(name).values.items():
            if table.startswith("Fig."):
                points.append(Point(table, system, int(gpus), value, (table, system, gpus) in USED))
    return sorted(points, key=lambda point: (point.table, point.system, point.gpus))


@cache
def cluster() -> Cluster:
    return Cluster.compiled()


def servers_of(point: Point, seed: int = 0) -> np.ndarray:
    """Random servers of zone 0, where a scheduler finds them free; across zones half of them in each."""
    fabric, count = cluster().fabric, -(-point.gpus // 8)
    ends = compute_ends(fabric)
    zone = fabric.zone[fabric.end_node[ends]]
    parts = [(0, count // 2), (1, count - count // 2)] if point.group == "across zones" else [(0, count)]
    rng = np.random.default_rng(seed)
    chosen = []
    for number, share in parts:
        chosen.append(rng.choice(ends[zone == number], share, replace=False))
    return np.concatenate(chosen).astype(np.int32)


def network(servers: Servers) -> Network:
    routed = Routed(cluster().fabric, cluster().tables)
    return Network.of(
        routed, lane_weights=1, devices=servers.devices, hop_latency_s=cluster().hop_latency_s, latency_s=0
    )


class Machines:
    """Servers with the unknowns filled in."""

    def __init__(self, unknowns: Unknowns) -> None:
        self.unknowns = unknowns
        self.model = replace(cluster().model, root_port_gbyte_per_s=unknowns.port)

    def hfreduce(self, ends: np.ndarray, *, nvlink: bool = False) -> tuple[HFReduce, Servers]:
        reduce = HFReduce(nvlink=nvlink, chunk_bytes=self.unknowns.chunk_mib * MIB)
        return reduce, reduce.servers(self.model, cluster().fabric, ends)

    def plain(self, ends: np.ndarray) -> Servers:
        return Servers(self.model, cluster().fabric, ends)

    def waiting_s(self, gpus: int) -> float:
        """How much longer the slowest of the servers computes than the mean (Blom, 1958: normal order statistics)."""
        n = gpus / 8
        return self.unknowns.spread_s * float(norm.ppf((n - 0.375) / (n + 0.25)))


@cache
def allreduce_s(unknowns: Unknowns, point: Point, seed: int) -> float:
    """Seconds of an allreduce of Fig. 7 on one placement."""
    machines, ends = Machines(unknowns), servers_of(point, seed)
    if point.system == "nccl":
        servers = machines.plain(ends)
        return play(network(servers), nccl_collective(servers, "allreduce", SIZE).flows).makespan_s
    reduce, servers = machines.hfreduce(ends, nvlink=point.system == "hfreduce-nvlink")
    return play(network(servers), reduce.flows(servers, SIZE)).makespan_s


def bandwidths(unknowns: Unknowns, point: Point) -> list[float]:
    """GB/s of an allreduce of Fig. 7 on each placement; of NCCL, which is bound inside servers, on one."""
    placements = 1 if point.system == "nccl" else PLACEMENTS
    return [SIZE / allreduce_s(unknowns, point, seed) / 1e9 for seed in range(placements)]


def linear(function: Callable[[float], float], low: float, high: float, at: float) -> float:
    """What is linear beyond a beginning, at a value too large to play."""
    if at <= high:
        return function(at)
    first, second = function(low), function(high)
    return second + (second - first) * (at - high) / (high - low)


@dataclass(frozen=True)
class Pipelines:
    """A model that is trained by pipelines, whose GPUs of a server are in different pipelines."""

    parameters: float
    stages: int
    batch: int
    activation_bytes: float
    """Of a sequence of 16-bit numbers, from stage to stage."""


MODELS = {
    # Touvron et al., arXiv 2302.13971: 13.0e9 parameters, width 5,120. Dai et al., arXiv 2401.06066: 16.4e9, 2,048.
    "llama-13b": Pipelines(13.0e9, 4, 4096, 2048 * 5120 * 2),
    "deepseek-moe-16b": Pipelines(16.4e9, 10, 4608, 4096 * 2048 * 2),
}
GRADIENT_BYTES = 2.0
"""Of a parameter; the paper does not give it."""


def pipelines_s(machines: Machines, point: Point, gpu_s: float, gradient_bytes: float = GRADIENT_BYTES) -> float:
    """A step: micro-batches of one sequence through the pipelines of a column of servers, then HFReduce of each stage.

    What grows linearly is played for few micro-batches and few bytes.
    """
    model, ends = MODELS[point.system], servers_of(point)
    replicas = point.gpus // model.stages
    batches = model.batch // replicas
    each_s = (gpu_s / point.gpus + machines.waiting_s(point.gpus)) / batches
    host = np.arange(point.gpus).reshape(model.stages, replicas) // 8
    column = np.flatnonzero(host[0] == 0)
    servers = machines.plain(ends)

    def pipeline_s(count: float) -> float:
        # They begin one behind the other, so that what they send does not collide on the adapter (section V-B).
        apart = {"stagger_s": each_s / len(column)}
        pipelines = host[:, column].T
        flows = pipeline_parallel(pipelines, int(count), each_s / 3, each_s * 2 / 3, model.activation_bytes, **apart)
        return play(network(servers), flows.placed(ends)).makespan_s

    reduce, group = machines.hfreduce(ends[np.unique(host[0])])

    def reduce_s(size: float) -> float:
        return play(network(group), reduce.flows(group, size)).makespan_s

    size = model.parameters / model.stages * gradient_bytes
    passed_s = linear(pipeline_s, 2 * model.stages, 4 * model.stages, batches)
    return passed_s + linear(reduce_s, 0.5e9, 1e9, size)


def training_s(machines: Machines, point: Point, compute_s: float) -> float:
    """A step of Fig. 8 or 9."""
    if point.table.startswith("Fig. 9"):
        return pipelines_s(machines, point, compute_s)
    ends, slowest_s = servers_of(point), compute_s + machines.waiting_s(point.gpus)
    if point.table == "Fig. 8a":
        reduce, servers = machines.hfreduce(ends)
        if point.system == "hfreduce":
            flows = data_parallel(vgg16(slowest_s), lambda size: reduce.flows(servers, size))
        else:
            servers = machines.plain(ends)
            flows = data_parallel(
                vgg16(slowest_s), lambda size: nccl_collective(servers, "allreduce", size).flows, overlap=False
            )
    else:
        servers = machines.plain(ends)
        flows = fsdp(
            gpt2_medium(slowest_s),
            lambda size: nccl_collective(servers, "all-gather", size).flows,
            lambda size: nccl_collective(servers, "reduce-scatter", size).flows,
            overlap=point.system == "haiscale",
        )
    return play(network(servers), flows).makespan_s


def computation_s(machines: Machines, table: str, points: list[Point]) -> float:
    """The time of computation with which the first point of a figure is met: of a GPU, in Fig. 9 of all together."""
    system, gpus = FIRST[table]
    (first,) = (point for point in points if (point.table, point.system, point.gpus) == (table, system, gpus))
    share = gpus if table.startswith("Fig. 9") else 1
    compute_s = first.value * share
    for _ in range(2):
        compute_s -= (training_s(machines, first, compute_s) - first.value) * share
    return compute_s


def computed(unknowns: Unknowns, points: list[Point]) -> dict[Point, float]:
    """What is computed for each point: GB/s in Fig. 7, seconds in the others."""
    machines = Machines(unknowns)
    compute = {table: computation_s(machines, table, points) for table in FIRST}
    return {
        point: float(np.median(bandwidths(unknowns, point)))
        if point.table.startswith("Fig. 7")
        else training_s(machines, point, compute[point.table])
        for point in points
    }


def error(unknowns: Unknowns, point: Point) -> float:
    return float(np.median(bandwidths(unknowns, point))) / point.value - 1


def fit_hfreduce(known: Unknowns, points: list[Point]) -> Unknowns:
    """The chunk and the root port of the grid with the least mean error on points."""
    grid = [known._replace(chunk_mib=chunk, port=port) for chunk in GRID_CHUNK_MIB for port in GRID_PORT]
    return min(grid, key=lambda unknowns: np.mean([abs(error(unknowns, point)) for point in points]))


def fit_spread(known: Unknowns, points: list[Point], on: Point) -> Unknowns:
    """The spread with which a step of VGG16 takes as long as measured."""
    spread_s = 0.0
    for _ in range(4):
        found = known._replace(spread_s=spread_s)
        machines = Machines(found)
        off = training_s(machines, on, computation_s(machines, on.table, points)) - on.value
        first = FIRST[on.table][1]
        one = Machines(known._replace(spread_s=1.0))
        spread_s = max(0.0, spread_s - off / (one.waiting_s(on.gpus) - one.waiting_s(first)))
    return known._replace(spread_s=spread_s)


def data_sheets() -> Unknowns:
    model = cluster().model
    assert model.root_port_gbyte_per_s is not None
    return Unknowns(CHUNK_BYTES / MIB, model.root_port_gbyte_per_s, 0.0)


def calibrated(points: list[Point]) -> Unknowns:
    used = [point for point in points if point.used]
    known = fit_hfreduce(data_sheets(), [point for point in used if point.group == "hfreduce"])
    return fit_spread(known, points, next(point for point in used if point.table == "Fig. 8a"))


def is_first(point: Point) -> bool:
    return FIRST.get(point.table) == (point.system, point.gpus)


def points_table(points: list[Point], sheets: dict[Point, float], fitted: dict[Point, float], found: Unknowns) -> str:
    lines = [
        "| figure | system | GPUs | published | from data sheets | error | calibrated | error | over placements |",
        "|---|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for point in points:
        used = " (used)" if point.used else " (computation taken)" if is_first(point) else ""
        interval = "-"
        if point.table.startswith("Fig. 7") and point.system != "nccl":
            values = bandwidths(found, point)
            interval = f"{min(values):.2f} to {max(values):.2f}"
        a, b = sheets[point], fitted[point]
        lines.append(
            f"| {point.table} | {point.system} | {point.gpus}{used} | {point.value:g} | {a:.4g} "
            f"| {a / point.value - 1:+.1%} | {b:.4g} | {b / point.value - 1:+.1%} | {interval} |"
        )
    return "\n".join(lines) + "\n"


GROUPS = {
    "HFReduce, 16 to 1,440 GPUs": (8, lambda point: point.group == "hfreduce"),
    "HFReduce with NVLink, 16 to 1,024 GPUs": (8, lambda point: point.group == "hfreduce-nvlink"),
    "HFReduce with NVLink across zones": (12, lambda point: point.group == "across zones"),
    "NCCL to 512 GPUs": (15, lambda point: point.group == "nccl" and point.gpus <= 512),
    "NCCL, 1,024 and 1,440 GPUs": (None, lambda point: point.group == "nccl" and point.gpus > 512),
    "VGG16, HFReduce": (10, lambda point: (point.table, point.system) == ("Fig. 8a", "hfreduce")),
    "VGG16, PyTorch": (10, lambda point: (point.table, point.system) == ("Fig. 8a", "torch-ddp")),
    "GPT2-medium, HaiScale": (10, lambda point: (point.table, point.system) == ("Fig. 8b", "haiscale")),
    "GPT2-medium, PyTorch": (10, lambda point: (point.table, point.system) == ("Fig. 8b", "torch-fsdp")),
    "LLaMA-13B": (10, lambda point: point.table == "Fig. 9a"),
    "DeepSeekMoE-16B": (10, lambda point: point.table == "Fig. 9b"),
}


def summary(points: list[Point], sheets: dict[Point, float], fitted: dict[Point, float]) -> str:
    lines = [
        "| points that no number was taken from | count | data sheets | calibrated | goal |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, (goal, inside) in GROUPS.items():
        judged = [point for point in points if inside(point) and not point.used and not is_first(point)]
        means = [np.mean([abs(values[point] / point.value - 1) for point in judged]) for values in (sheets, fitted)]
        beside = "-" if goal is None else f"below {goal} %"
        lines.append(f"| {name} | {len(judged)} | {means[0]:.1%} | {means[1]:.1%} | {beside} |")
    return "\n".join(lines) + "\n"


def left_out(points: list[Point], found: Unknowns) -> Iterator[tuple[Point, float, str]]:
    """Every point of HFReduce in Fig. 7 predicted by numbers that are fitted to all the others."""
    hfreduce = [point for point in points if point.table.startswith("Fig. 7") and point.system != "nccl"]
    for point in hfreduce:
        fit = fit_hfreduce(found, [other for other in hfreduce if other != point])
        yield point, error(fit, point), f"{fit.chunk_mib:g} MiB, {fit.port:g} GB/s"


def left_out_table(points: list[Point], found: Unknowns) -> str:
    rows = list(left_out(points, found))
    lines = ["| left out | GPUs | error | fitted to all others |", "|---|---:|---:|---|"]
    lines += [f"| {point.group} | {point.gpus} | {off:+.1%} | {fit} |" for point, off, fit in rows]
    lines.append(f"| mean | | {np.mean([abs(off) for _, off, _ in rows]):.1%} | |")
    return "\n".join(lines) + "\n"


def sensitivity(points: list[Point], found: Unknowns) -> str:
    """Per cent of bandwidth for one per cent of each number."""
    names = {"chunk_mib": "chunk", "port": "root port"}
    lines = ["| | GPUs | " + " | ".join(names.values()) + " |", "|---|---:" + "|---:" * len(names) + "|"]
    for point in points:
        if not point.table.startswith("Fig. 7") or point.gpus not in (16, 128, 512):
            continue
        cells = []
        for name in names:
            value = getattr(found, name)
            more, less = (allreduce_s(found._replace(**{name: value * times}), point, 0) for times in (1.1, 1 / 1.1))
            cells.append(f"{np.log(less / more) / (2 * np.log(1.1)):+.2f}")
        lines.append(f"| {point.group} | {point.gpus} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def storage() -> str:
    lanes = Network.of(read_routed_argument(ROOT / "configs" / "fire-flyer-2.yaml"), latency_s=0)
    known = costmodel.published("storage")
    clients = dealt(lanes.fabric, compute_ends(lanes.fabric), int(known.value("VI-B", "3fs", "clients")))
    measured, later = (known.value(table, "3fs", "read_tbyte_per_s") for table in ("VI-B", "README"))
    lines = [
        "| requests of 128 KiB of a client at a time | computed TB/s | beside 8 TB/s | beside 7.26 TB/s, later |",
        "|---:|---:|---:|---:|",
    ]
    model, setup = load_catalog().node("storage-3fs"), StorageSpec(senders=None)
    for batch in (32, 64):
        found = steady_reads(
            lanes, clients, model, setup, sample_bytes=128 * 1024.0, warm_s=1e-3, time_s=1e-3, loaders=2, batch=batch
        )
        value = found.bytes_s / 1e12
        lines.append(f"| {2 * batch} | {value:.2f} | {value / measured - 1:+.0%} | {value / later - 1:+.0%} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    points = published()
    found = calibrated(points)
    sheets, fitted = computed(data_sheets(), points), computed(found, points)
    twice = Machines(found)
    doubled = []
    for table in ("Fig. 9a", "Fig. 9b"):
        last = max((point for point in points if point.table == table), key=lambda point: point.gpus)
        gpu_s = computation_s(twice, table, points)
        more = pipelines_s(twice, last, gpu_s, 2 * GRADIENT_BYTES) / last.value - 1
        doubled.append(f"{last.system} on {last.gpus} GPUs {more:+.1%}")
    sheet = data_sheets()
    numbers = (
        "| number | data sheets | calibrated | on |\n|---|---:|---:|---|\n"
        f"| chunk of HFReduce, MiB | {sheet.chunk_mib:g} | {found.chunk_mib:g} | Fig. 7a, 1,440 GPUs |\n"
        f"| root port of two GPUs, both directions, GB/s | {sheet.port:g} | {found.port:g} | Fig. 7a, 16 GPUs |\n"
        f"| spread of the servers' times, ms | 0 | {found.spread_s * 1e3:.1f} | Fig. 8a, HFReduce, 512 GPUs |\n"
    )
    sections = (
        ("## The three numbers", numbers),
        ("## Means", summary(points, sheets, fitted)),
        ("## Every point of Figures 7, 8 and 9", points_table(points, sheets, fitted, found)),
        ("## Each point left out", left_out_table(points, found)),
        ("## Sensitivity", sensitivity(points, found)),
        ("## 3FS", storage()),
    )
    computed_text = "\n".join(f"{title}\n\n{text}" for title, text in sections)
    computed_text += f"\nWith gradients of four bytes: {', '.join(doubled)}.\n"
    print(computed_text)
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed_text + text[text.index(END) :], encoding="utf-8")


if __name__ == "__main__":
    main()
