"""Rank orders of 200 fragmented jobs on dumps of three real machines: the table of docs/validation/ranks.md.

Run from the repository: HEDDLE_FABRICS=folder python benchmarks/quality/compare_ranks.py [JOBS]. The folder has the
dumps as tests/helpers/twins.py names them. A job is given in the order of the names of its nodes, as a scheduler lists
them.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

import routing
import simulate
import topo
from routing.tables import tree_order

MACHINES = {
    "qdr-directors": ("janus_is5600_2014", 1),
    "edr-frames": ("lassen_cs7500_2019", 2),
    "a100-superpod": ("clova_superpod_a100_2022", 8),
}
"""Folder of each dump, and the adapter ports of a node."""
MEAN_RUN = 6
"""Nodes side by side that are free or taken together, on average."""


def fragmented(routed: routing.Routed, size: int, rails: int, rng: np.random.Generator) -> tuple[list[str], np.ndarray]:
    """Names and end ports of the first free nodes of a machine that is half taken, in runs, along the tree."""
    fabric = routed.fabric
    ports = {host: ends for host, ends in simulate.traffic.rails_of_hosts(fabric).items() if len(ends) == rails}
    first = np.array([ends[0] for ends in ports.values()], np.int32)
    host_of = {int(ends[0]): host for host, ends in ports.items()}
    hosts = [host_of[end] for end in tree_order(fabric, first).tolist()]
    begins = rng.random(len(hosts)) < 1 / MEAN_RUN
    free = rng.random(len(hosts))[np.maximum.accumulate(np.where(begins, np.arange(len(hosts)), 0))] < 0.5
    start = rng.integers(len(hosts))
    around = np.roll(np.arange(len(hosts)), -start)
    taken = [*around[np.roll(free, -start)], *around[~np.roll(free, -start)]][:size]
    named = sorted((fabric.hosts[hosts[at]], hosts[at]) for at in taken)
    return [name for name, _ in named], np.array([ports[host] for _, host in named])


def main(jobs: int) -> None:
    """Print one row for each machine, size and algorithm."""
    rng = np.random.default_rng(0)
    networks = {}
    for name, (folder, _) in MACHINES.items():
        fabric = topo.read_fabric(Path(os.environ["HEDDLE_FABRICS"]) / folder / "ibnetdiscover.gz")
        networks[name] = routing.route(fabric, "balanced")
    rows: dict[tuple[str, str, str], list[tuple[float, ...]]] = {}
    for job in range(jobs):
        name = list(MACHINES)[job % len(MACHINES)]
        routed, rails = networks[name], MACHINES[name][1]
        most = min(512, sum(len(ends) == rails for ends in simulate.traffic.rails_of_hosts(routed.fabric).values()))
        size = round(np.exp(rng.uniform(np.log(32), np.log(most))))
        names, ends = fragmented(routed, size, rails, rng)
        network = simulate.Network.of(routed, lane_weights=1, latency_s=0)
        for algorithm in simulate.traffic.PATTERNS:
            begin = time.process_time()
            found = simulate.order_ranks(network, ends, algorithm, names=names)
            spent = time.process_time() - begin
            sizes = "32-127" if size < 128 else "128-512"
            mean = [float(loads.fullest.mean()) for loads in (found.before, found.after)]
            row = (found.before.worst, found.after.worst, *mean, found.before.time_s / found.after.time_s,
                   found.after.time_s / found.bound_s, spent, found.optimal)  # fmt: skip
            rows.setdefault((name, sizes, algorithm), []).append(row)
    print(
        "| machine | nodes | algorithm | jobs | fullest link | mean of steps | faster | most | over bound | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for key in sorted(rows):
        part = np.array(rows[key])
        mean = part.mean(axis=0)
        print(
            f"| {' | '.join(key)} | {len(part)} | {mean[0]:.1f} to {mean[1]:.1f} | {mean[2]:.2f} to {mean[3]:.2f} | "
            f"{mean[4]:.2f} | {part[:, 4].max():.2f} | {mean[5]:.2f} | {part[:, 6].max():.1f} |"
        )
    every = np.array([row for part in rows.values() for row in part])
    print(f"{len(every)} orders, {int(every[:, 7].sum())} at their bound, at most {every[:, 6].max():.1f} s of CPU")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
