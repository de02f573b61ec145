"""HFReduce and NCCL on Fire-Flyer 2 beside the published bandwidths: the table of docs/hfreduce.md, which it rewrites.

Run from the repository: python benchmarks/compare_hfreduce.py
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from nccl_latency import ring_latency_s

import costmodel
from costmodel import Published
from routing.engines.base import ENGINES
from routing.routed import Routed
from routing.tables import RoutingTables
from simulate import play
from simulate.network import Network
from simulate.traffic.flows import Flows
from simulate.traffic.hfreduce import HFReduce
from simulate.traffic.nccl import CHUNK_BYTES, nccl_ring, nccl_tree
from simulate.traffic.node import Servers
from topo.cluster import read
from topo.fabric import Fabric, Role
from topo.hardware.models import NodeModel

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "hfreduce.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
GPUS = (16, 64, 128, 512, 1440)
MIB = 2.0**20


@dataclass(frozen=True)
class Cluster:
    """Fire-Flyer 2, routed."""

    fabric: Fabric
    tables: RoutingTables
    model: NodeModel
    hop_latency_s: float

    @classmethod
    def compiled(cls) -> "Cluster":
        source = read(ROOT / "configs" / "fire-flyer-2.yaml")
        (fabric,) = source.fabrics
        latency_ns = source.catalog.switch("QM8700").latency_ns or 0.0
        model = source.catalog.node("pcie-a100")
        return cls(fabric, ENGINES["balanced"].route(fabric), model, latency_ns * 1e-9)

    def ends(self, servers: int) -> np.ndarray:
        """The first servers of zone 0."""
        ends = np.arange(self.fabric.n_switches, self.fabric.n_end_ports, dtype=np.int32)
        node = self.fabric.end_node[ends]
        return ends[(self.fabric.zone[node] == 0) & (self.fabric.role[node] == Role.COMPUTE)][:servers]


@dataclass(frozen=True)
class Point:
    """One allreduce."""

    system: str
    gpus: int
    time_s: float
    size_bytes: float
    binds: str
    """What held the critical path back for longest, and for which part of it."""

    @property
    def gbyte_per_s(self) -> float:
        return self.size_bytes / self.time_s / 1e9


def run(cluster: Cluster, system: str, gpus: int, size_bytes: float, chunk_bytes: float = CHUNK_BYTES) -> Point:
    """Play one allreduce by ``hfreduce``, ``hfreduce-nvlink``, ``nccl`` (its ring) or ``nccl-tree``."""
    ends = cluster.ends(gpus // cluster.model.gpus)
    servers, flows = prepare(cluster, system, ends, size_bytes, chunk_bytes)
    fabric = cluster.fabric
    network = Network.of(
        Routed(fabric, cluster.tables), lane_weights=1, devices=servers.devices, hop_latency_s=cluster.hop_latency_s
    )
    outcome = play(network, flows)

    def kind(resource: int) -> str:
        if resource < 0:
            return "nothing"
        if resource < fabric.n_ports:
            return "network"
        return network.resource_label(resource).split(" ", 1)[1].split(" GPU ")[0]

    name, time_s = next(iter(outcome.time_by_bottleneck(kind).items()))
    return Point(system, gpus, outcome.makespan_s, size_bytes, f"{name}, {time_s / outcome.makespan_s:.0%}")


def prepare(
    cluster: Cluster, system: str, ends: np.ndarray, size_bytes: float, chunk_bytes: float
) -> tuple[Servers, Flows]:
    if system.startswith("nccl"):
        servers = Servers(cluster.model, cluster.fabric, ends)
        return servers, (nccl_tree if system == "nccl-tree" else nccl_ring)(servers, size_bytes, chunk_bytes)
    reduce = HFReduce(nvlink=system == "hfreduce-nvlink", chunk_bytes=chunk_bytes)
    servers = reduce.servers(cluster.model, cluster.fabric, ends)
    return servers, reduce.flows(servers, size_bytes)


def table(points: list[Point], published: Published) -> str:
    """Computed beside published bandwidths, each with its error, and their mean."""
    lines = [
        "| | GPUs | computed GB/s | published GB/s | error | bottleneck, share of the time |",
        "|---|---|---|---|---|---|",
    ]
    for system in dict.fromkeys(point.system for point in points):
        errors = []
        for point in (point for point in points if point.system == system):
            known = published.values.get(("Fig. 7", system.removesuffix("-tree"), str(point.gpus)))
            beside = "| - | - " if known is None else f"| {known:.2f} | {point.gbyte_per_s / known - 1:+.0%} "
            errors += [] if known is None else [abs(point.gbyte_per_s / known - 1)]
            lines.append(f"| {system} | {point.gpus} | {point.gbyte_per_s:.2f} {beside}| {point.binds} |")
        if errors:
            lines.append(f"| {system} | mean of all | | | {np.mean(errors):.0%} | |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    published = costmodel.published("hfreduce")
    cluster = Cluster.compiled()
    size_bytes = published.value("IV-B1", "hfreduce", "size_mib") * MIB
    systems = ("hfreduce", "hfreduce-nvlink", "nccl", "nccl-tree")
    points = [run(cluster, system, gpus, size_bytes) for system in systems for gpus in GPUS]
    chunks = (0.125, 0.5, 2.0, 8.0)
    by_chunk = [run(cluster, "hfreduce", GPUS[-1], size_bytes, chunk * MIB) for chunk in chunks]
    slow = [point for point in points if point.system == "nccl"][-1]
    latency = ring_latency_s(slow.gpus // 8, 8)
    computed = table(points, published) + (
        f"\nWith chunks of {', '.join(f'{chunk:g}' for chunk in chunks)} MiB, HFReduce reaches "
        f"{', '.join(f'{point.gbyte_per_s:.2f}' for point in by_chunk)} GB/s on {GPUS[-1]} GPUs.\n"
        f"\nWith the {latency * 1e3:.1f} ms that NCCL's tuner adds for the steps of a ring of {slow.gpus} GPUs, its "
        f"{slow.gbyte_per_s:.2f} GB/s would be {size_bytes / (slow.time_s + latency) / 1e9:.2f}.\n"
    )
    print(computed)
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :])
