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


@dataclass(frozen=True)
class Point:
    """One allreduce or all-to-all of 8 GB, computed and published."""

    model: str
    asked: str
    """``auto`` where NCCL chose, or where the source does not say."""
    algorithm: str
    """What was played."""
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
    for (asked, name, figure), published in costmodel.published("nccl-tests").values.items():
        servers, adapters = map(int, re.findall(r"\d+", figure))
        algorithm, computed, binds = busbw(name, asked, servers, adapters)
        yield Point(name, asked, algorithm, servers, adapters, published, computed, binds)


def busbw(name: str, asked: str, count: int, adapters: int, size_bytes: float = 8 * GB) -> tuple[str, float, str]:
    """Return what NCCL takes, its bus bandwidth in GB/s, and the fullest resource."""
    catalog = topo.load_catalog()
    model = replace(catalog.node(name), adapters=adapters)
    catalog = replace(catalog, nodes={**catalog.nodes, name: model})
    tree = {"switch": "QM8700" if name == "dgx-a100" else "QM9700"}
    network = {"shape": "rail", "unit_nodes": 8, "tree": tree} if adapters <= 32 else {"shape": "fat-tree", **tree}
    spec = topo.parse({"name": "pod", "nodes": {"gpu": {"model": name, "count": count}}, "network": network}).spec
    fabric = topo.compile(spec, catalog).fabric
    servers = simulate.traffic.Servers(model, fabric, np.stack([*simulate.traffic.rails_of_hosts(fabric).values()]))
    collective, algorithm = ("all-to-all", "auto") if asked == "all-to-all" else ("allreduce", asked)
    choice, flows = simulate.traffic.nccl_collective(servers, collective, size_bytes, algorithm)
    network = simulate.Network.of(routing.route(fabric), devices=servers.tuned_devices)
    outcome = simulate.play(network, flows)
    n = count * model.gpus
    times = (1 if collective == "all-to-all" else 2) * (n - 1) / n
    fullest = int(np.argmax(outcome.utilisation))
    label = outcome.network.resource_label(fullest)
    binds = "link" if fullest < fabric.n_ports else re.sub(r"^\S+ | (GPU )?\d+.*", "", label)
    return choice.algorithm, times * size_bytes / outcome.makespan_s / GB, binds


def table(found: list[Point]) -> str:
    """Computed beside published bandwidths."""
    lines = [
        "| servers | model | adapters of each | asked | played | computed GB/s | published GB/s | error | bottleneck |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {point.servers} | {point.model} | {point.adapters} | {point.asked} | {point.algorithm} "
            f"| {point.computed:.1f} | {point.published:g} | {point.error:+.1%} | {point.binds} |"
            for point in found
        ),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    computed = table([*points()])
    print(computed)
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :])
