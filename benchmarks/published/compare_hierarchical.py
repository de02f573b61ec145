"""Hierarchical allreduce beside a flat ring over 25 Gb/s: rewrites docs/validation/hierarchical.md.

Run from the repository: python benchmarks/published/compare_hierarchical.py
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

import costmodel
from routing.engines.base import ENGINES
from routing.routed import Routed
from simulate import play
from simulate.traffic.collectives.algorithms import schedule
from simulate.traffic.collectives.schedule import Schedule
from simulate.traffic.network import Network
from simulate.traffic.node import Servers
from topo.catalog.load import config_root
from topo.cluster import read

SERVERS = 4
ADAPTER_GBPS = 25.0
SIZE = 100 * 2.0**20
ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "hierarchical.md"
BEGIN, END = "<!-- computed -->\n", "<!-- /computed -->\n"


def seconds(plan: Schedule, bridged: int) -> float:
    """Play a collective of all GPUs of the first servers of lab-20, with slow adapters; TCP itself costs nothing."""
    source = read(config_root() / "lab-20.yaml")
    (fabric,) = source.fabrics
    tables = ENGINES["fat-tree"].route(fabric)
    model = replace(source.catalog.node("pcie-a100"), nvlink_gpus=bridged)
    servers = Servers(model, fabric, np.arange(fabric.n_switches, fabric.n_switches + SERVERS), nvlink=bridged > 1)
    network = Network.of(
        Routed(fabric, tables), lane_weights=1, devices=servers.devices, host_gbps=ADAPTER_GBPS, latency_s=0
    )
    return play(network, servers.between_gpus(plan.flows(SIZE))).makespan_s


def table() -> str:
    claim = costmodel.published("hfreduce").value("claim", "hierarchical", "gain_25g_tcp")
    ranks = SERVERS * 8
    flat = schedule("allreduce", "ring", ranks)
    hierarchical = schedule("allreduce", "hierarchical", ranks, groups=np.arange(ranks) // 8)
    lines = ["| GPUs of a server joined by | flat ring | hierarchical | gain | claimed |", "|---|---|---|---|---|"]
    for name, bridged in (("PCIe", 1), ("NVLink, all eight", 8)):
        before, after = seconds(flat, bridged), seconds(hierarchical, bridged)
        lines.append(
            f"| {name} | {before * 1e3:.1f} ms | {after * 1e3:.1f} ms | {before / after - 1:.0%} | {claim:.0%} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    computed = table()
    print(computed)
    text = PAGE.read_text()
    PAGE.write_text(text[: text.index(BEGIN) + len(BEGIN)] + computed + text[text.index(END) :])
