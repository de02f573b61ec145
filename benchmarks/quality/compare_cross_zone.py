"""An allreduce across the zones of Fire-Flyer 2: the last table of docs/validation/simulated-routings.md.

Run from the repository: python benchmarks/quality/compare_cross_zone.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plan.inputs import read_routed_argument
from simulate import play
from simulate.traffic.collectives.algorithms import algorithm_gbytes_per_s, bus_gbytes_per_s, schedule
from simulate.traffic.network import Network
from simulate.traffic.placement import zone_of
from topo.fabric import Role

SPEC = Path(__file__).parents[2] / "configs" / "fire-flyer-2.yaml"
SIZE = 186 * 2**20
CHUNKS = 64
BINS = 400
ROWS = (
    ("time (ms)", "{time:.2f}"),
    ("algorithm bandwidth (GB/s)", "{algbw:.2f}"),
    ("bus bandwidth (GB/s)", "{busbw:.2f}"),
    ("pairs of nodes that talk across", "{pairs}"),
    ("buffers that cross, each way", "{buffers}"),
    ("joint links in use, each way", "{used}"),
    ("load of the hottest joint link, mean", "{mean:.0%}"),
    ("load of the hottest joint link, peak", "{peak:.0%}"),
    ("load of the hottest link between leaf and spine, mean", "{inner:.0%}"),
)
CASES = {
    "plain double binary tree": "double-binary-tree",
    "zone-aware tree": "zone-tree",
    "ring": "ring",
}


def figures(network: Network, algorithm: str) -> dict[str, float | str]:
    """Play one algorithm over all compute nodes, zone after zone."""
    fabric = network.fabric
    ends = np.flatnonzero((fabric.role[fabric.end_node] == Role.COMPUTE) & (fabric.end_switch >= 0))
    zone = zone_of(fabric, ends)
    ends, zone = ends[np.argsort(zone, kind="stable")], np.sort(zone)
    plan = schedule("allreduce", algorithm, len(ends), chunks=1 if algorithm == "ring" else CHUNKS, groups=zone)
    flows = plan.flows(SIZE).placed(ends)
    outcome = play(network, flows, n_bins=BINS)
    across = zone[plan.src] != zone[plan.dst]
    pairs = np.unique(np.sort(np.stack([plan.src, plan.dst])[:, across], axis=0), axis=1).shape[1]
    forth, back = (float(flows.size_bytes[across & (zone[plan.src] == side)].sum() / SIZE) for side in (0, 1))
    sender, receiver = fabric.role[fabric.port_node], fabric.role[np.maximum(fabric.peer_node, 0)]
    plugged = fabric.peer >= 0
    joint = np.flatnonzero(plugged & (receiver == Role.JOINT))  # one side: what enters a joint leaves it too
    inner = np.flatnonzero(
        plugged & np.isin(sender, (Role.LEAF, Role.SPINE)) & np.isin(receiver, (Role.LEAF, Role.SPINE))
    )
    capacity = network.capacity_bytes_s
    time, n = outcome.makespan_s, len(ends)
    return {
        "time": time * 1e3,
        "algbw": algorithm_gbytes_per_s(SIZE, time),
        "busbw": bus_gbytes_per_s("allreduce", n, SIZE, time),
        "pairs": f"{pairs}",
        "buffers": f"{forth:.3g}" if abs(forth - back) < 1e-9 else f"{forth:.3g} and {back:.3g}",
        "used": f"{np.count_nonzero(outcome.resource_bytes[joint]) // 2} of {len(joint) // 2}",
        "mean": outcome.utilisation[joint].max(),
        "peak": (outcome.timeline.load_bytes_s[joint] / capacity[joint, None]).max(),
        "inner": outcome.utilisation[inner].max(),
    }


def main() -> None:
    network = Network.of(read_routed_argument(SPEC), latency_s=0)
    found = {name: figures(network, algorithm) for name, algorithm in CASES.items()}
    print(f"| | {' | '.join(found)} |\n|---|{'---:|' * len(found)}")
    for label, text in ROWS:
        print(f"| {label} | {' | '.join(text.format(**values) for values in found.values())} |")


if __name__ == "__main__":
    main()
