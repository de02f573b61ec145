"""Permutations and shifts on a Clos network of 512 hosts, beside what Geoffray and Hoefler measured on one.

    python benchmarks/published/adaptive_clos.py

Three levels of switches with 16 ports (Myrinet): 64 leaves of 8 hosts. Fluid flows are at max-min fair rates; packets
move messages of 4 MiB, all at once, and a flow's rate is its bytes by its time.
"""

from __future__ import annotations

import numpy as np

import routing
import simulate
import topo
from routing.hashed import SPRAY
from routing.quality.figures import fair_rates, permutations, shifts
from routing.studies import adaptive, hashed_rates

PHASES = 5
SIZE = 4 << 20


def clos() -> topo.Fabric:
    """Return the network: 8 pods of 8 leaves and 8 spines, and 64 cores."""
    return topo.parse({
        "name": "clos-512",
        "nodes": {"node": {"model": "pcie-a100", "count": 512}},
        "network": {"shape": "k-ary-n-tree", "switch": "QM8700", "k": 8, "n": 3},
    }).fabric  # fmt: skip


def main() -> None:
    """Print mean and least rate of the flows of each pattern, by what chooses the ports."""
    fabric = clos()
    routed, ends = routing.route(fabric, lanes=1), fabric.ends()
    groups = adaptive.manager_groups(routed)[0].groups(fabric)
    network = simulate.Network.of(routed)
    rate = float(network.capacity_bytes_s[fabric.port_of(ends)].min())
    tables = f"tables of `{routed.tables.engine}`"
    print("| flows | ports chosen by | engine | mean | slowest flow |\n|---|---|---|--:|--:|")
    drawn = permutations(len(ends), PHASES, np.random.default_rng(0))
    for pattern, phases in (("random permutations", drawn), ("shifts", shifts(len(ends), PHASES))):

        def show(what: str, engine: str, rates: list[np.ndarray], pattern: str = pattern) -> None:  # type: ignore[type-arg]
            means = [float(np.mean([pick(rate) for rate in rates])) for pick in (np.mean, np.min)]
            print(f"| {pattern} | {what} | {engine} | {means[0]:.2f} | {means[1]:.2f} |", flush=True)

        mean, least = fair_rates(routed, ends, phases)
        print(f"| {pattern} | {tables} | fluid | {mean.mean():.2f} | {least.mean():.2f} |")
        for what, queue_pairs in (("a hash, one port a flow", 1), ("an even split", SPRAY)):
            hashed = routing.Hashed(fabric, queue_pairs, groups=groups)
            show(what, "fluid", [hashed_rates(hashed, ends, partners) for partners in phases])
        for what, chooses in ((tables, False), ("the least loaded port, each packet", True)):
            rates = []
            for partners in phases:
                sends = np.flatnonzero(partners >= 0)
                flows = simulate.Flows.of(ends[sends], ends[partners[sends]], SIZE)
                outcome = simulate.play(network, flows, engine=simulate.PacketModel(adaptive=chooses))
                rates.append(SIZE / (outcome.finish_s - outcome.start_s) / rate)
            show(what, "packets", rates)


if __name__ == "__main__":
    main()
