"""NCCL on servers with NVSwitches beside published results: rewrites docs/validation/nccl.md.

Run from the repository: python benchmarks/published/compare_nccl_tests.py
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import costmodel
import routing
import simulate
import topo

PAGE = Path(__file__).parents[2] / "docs" / "validation" / "nccl.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"
GB = 1e9
ALGORITHMS = {"ring": simulate.traffic.nccl_ring, "tree": simulate.traffic.nccl_tree}


@dataclass(frozen=True)
class Point:
    """One allreduce or all-to-all of 8 GB, computed and published."""

    model: str
    algorithm: str
    servers: int
    adapters: int
    published: float
    """Bus bandwidth in GB/s."""
    computed: float
    binds: str
    """The fullest resource."""

    @property
    def error(self) -> float:
        return self.computed / self.published - 1


def points() -> Iterator[Point]:
    """Play what was published, each on one unit of a rail fabric of NDR or HDR."""
    for (algorithm, name, figure), published in costmodel.published("nccl-tests").values.items():
        servers, adapters = map(int, re.findall(r"\d+", figure))
        computed, binds = busbw(name, algorithm, servers, adapters)
        yield Point(name, algorithm, servers, adapters, published, computed, binds)


def busbw(name: str, algorithm: str, count: int, adapters: int, size_bytes: float = 8 * GB) -> tuple[float, str]:
    """Return bus bandwidth in GB/s, and the fullest resource."""
    catalog = topo.load_catalog()
    model = replace(catalog.node(name), adapters=adapters)
    catalog = replace(catalog, nodes={**catalog.nodes, name: model})
    tree = {"switch": "QM8700" if name == "dgx-a100" else "QM9700"}
    network = {"shape": "rail", "unit_nodes": 8, "tree": tree} if adapters <= 32 else {"shape": "fat-tree", **tree}
    spec = topo.parse({"name": "pod", "nodes": {"gpu": {"model": name, "count": count}}, "network": network}).spec
    fabric = topo.compile(spec, catalog).fabric
    servers = simulate.traffic.Servers(model, fabric, np.stack([*simulate.traffic.rails_of_hosts(fabric).values()]))
    if algorithm == "all-to-all":
        flows, times = simulate.traffic.nccl_all_to_all(servers, size_bytes), 1
    else:
        # Chunks as large as blocks of a ring; 64 of a tree keep its levels busy at once.
        chunk_bytes = size_bytes / (1 if algorithm == "ring" else 2 * servers.rails * 64)
        flows, times = ALGORITHMS[algorithm](servers, size_bytes, chunk_bytes), 2
    outcome = simulate.play(simulate.Network.of(routing.route(fabric), devices=servers.devices, latency_s=0), flows)
    n = count * model.gpus
    fullest = int(np.argmax(outcome.utilisation))
    label = outcome.network.resource_label(fullest)
    binds = "link" if fullest < fabric.n_ports else re.sub(r"^\S+ | (GPU )?\d+.*", "", label)
    return times * (n - 1) / n * size_bytes / outcome.makespan_s / GB, binds


def table(found: list[Point]) -> str:
    """Computed beside published bandwidths."""
    lines = [
        "| servers | model | adapters of each | algorithm | computed GB/s | published GB/s | error | bottleneck |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {point.servers} | {point.model} | {point.adapters} | {point.algorithm} | {point.computed:.1f} "
            f"| {point.published:g} | {point.error:+.1%} | {point.binds} |"
            for point in found
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    computed = table([*points()])
    print(computed)
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :])
