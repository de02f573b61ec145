"""SimAI's examples beside the bandwidths of its tutorial: rewrites tables of docs/validation/nccl.md and ethernet.md.

Run from the repository, a minute: python benchmarks/published/compare_simai.py

The workloads are written here from the parameters of the tutorial, and read as files of SimAI are; none of its files is
needed. Its figures are those of its own simulator (ns-3), not of machines: configs/published/simai.csv.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import costmodel
import routing
import simulate
import topo
from simulate.traffic.collectives.algorithms import bus_factor

PAGES = Path(__file__).parents[2] / "docs" / "validation"
BEGIN, END = "<!-- simai -->\n", "<!-- /simai -->\n"
DRAWS = 20
"""Seeds of the hash."""
MIB = 2**20
ADAPTER_GBYTE_S = 50.0
"""400 Gb/s; SimAI takes nothing off but the heads of its packets."""
HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 vpp: 8 ga: 1"
RAIL = {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}}
TREE = {"shape": "rail", "rails": 1, "unit_nodes": 4, "tree": {"switch": "QM9700"}}


@dataclass(frozen=True)
class Example:
    """An example of the tutorial, of DGX H100 with other rates."""

    name: str
    """As in the table."""
    gpus: int
    """Of each group."""
    servers: int
    nvlink_gbps: float
    network: dict[str, Any]
    algorithm: str
    layer: str
    """What is exchanged, of {size} bytes."""


WITHIN = "embedding_layer -1 556000 ALLREDUCE {size} 1 NONE 0 1 NONE 0 1"
AMONG = "embedding_layer -1 556000 NONE 0 1 NONE 0 1 ALLREDUCE {size} 1"
EXAMPLES = (
    Example("RING", 8, 4, 1440, RAIL, "ring", WITHIN),
    Example("NVLS", 8, 4, 1360, RAIL, "nvls", WITHIN),
    Example("Spectrum-X", 32, 32, 2880, RAIL, "ring", AMONG),
    Example("DCN-SingleToR", 32, 32, 2880, TREE, "ring", AMONG),
)


def busbw(example: Example, size_bytes: int, queue_pairs: int | None = None) -> float:
    """Return the bus bandwidth of an exchange in GB/s: the time of the step less its computation.

    On forwarding tables; with queue pairs, the median over hashed paths.
    """
    catalog = topo.load_catalog()
    model = replace(
        catalog.node("dgx-h100"),
        nvlink_used_gbyte_per_s=example.nvlink_gbps / 8,
        gpu_adapter_gbyte_per_s=ADAPTER_GBYTE_S,
    )
    catalog = replace(catalog, nodes={**catalog.nodes, model.name: model})
    nodes = {"gpu": {"model": model.name, "count": example.servers}}
    spec = topo.parse({"name": "simai", "nodes": nodes, "network": example.network}).spec
    fabric = topo.compile(spec, catalog).fabric
    ways: Sequence[Any] = [routing.route(fabric)]
    if queue_pairs is not None:
        ways = [routing.Hashed(fabric, queue_pairs, seed) for seed in range(DRAWS)]
    with tempfile.TemporaryDirectory() as folder:
        layer = example.layer.format(size=size_bytes)
        text = f"{HEAD} all_gpus: {8 * example.servers}\n1\n{layer}\n"
        (Path(folder) / "w.txt").write_text(text, encoding="utf-8")
        job = {"name": "step", "kind": "simai", "file": "w.txt", "algorithm": example.algorithm}
        workload = simulate.parse_workload({"jobs": [job]}, fabric, folder=folder, catalog=catalog)
    took_s = median(simulate.play(way, workload).jobs[0].time_s for way in ways) - computed_s(example.layer)
    return bus_factor("allreduce", example.gpus) * size_bytes / took_s / 1e9


def computed_s(layer: str) -> float:
    """What a layer computes: its times, in nanoseconds."""
    return sum(map(int, layer.split()[2:11:3])) * 1e-9


def rows() -> Iterator[tuple[Example, int, float, float]]:
    """Each example and size, with its bandwidth by SimAI and by Heddle."""
    printed = costmodel.published("simai")
    for example in EXAMPLES:
        for mib in (16, 32, 64, 128, 256, 512):
            yield example, mib, printed.value("busbw", example.name, str(mib)), busbw(example, mib * MIB)


def table() -> str:
    """The part of the page."""
    lines = [
        "| example | groups | MiB | SimAI GB/s | Heddle GB/s | Heddle / SimAI - 1 |",
        "|---|---|--:|--:|--:|--:|",
    ]
    for example, mib, published, computed in rows():
        groups = f"{8 * example.servers // example.gpus} of {example.gpus} GPUs"
        figures = f"{published:.1f} | {computed:.1f} | {computed / published - 1:+.0%}"
        lines.append(f"| {example.name} | {groups} | {mib} | {figures} |")
    return "\n".join(lines) + "\n"


def hashed_table() -> str:
    """The part of the page on hashed paths: what one switch for all adapters of a server gives on them."""
    counts = (1, 2, 4, 8)
    heads = "".join(f" {count} {'queue pair' if count == 1 else 'queue pairs'} |" for count in counts)
    lines = [f"| MiB | SimAI GB/s | tables |{heads}", "|--:|--:|--:|" + "--:|" * len(counts)]
    for example, mib, published, on_tables in rows():
        if example.network is TREE:
            found = [on_tables, *(busbw(example, mib * MIB, count) for count in counts)]
            figures = " | ".join(f"{one:.1f} ({one / published - 1:+.0%})" for one in found)
            lines.append(f"| {mib} | {published:.1f} | {figures} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    for page, computed in (("nccl.md", table()), ("ethernet.md", hashed_table())):
        print(computed)
        text = (PAGES / page).read_text(encoding="utf-8")
        whole = text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :]
        (PAGES / page).write_text(whole, encoding="utf-8")
