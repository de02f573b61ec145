"""Times loads from 10^4 to 10^7 flows on 780 to 32,768 hosts, one process a row, and prints them as a table.

python benchmarks/bench_scale.py                  the rows that end within a minute each
python benchmarks/bench_scale.py --all            up to 10^7 flows: an hour, 10 GB of memory

``incast``: all hosts send to one, at twice its rate. ``uniform``: random pairs at 20 % of what all hosts can send; on
Fire-Flyer 2 half of them cross the joints between its zones, which are full then.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

import numpy as np
from fluid_loads import zone
from trees import modulo_tables, three_level_tree

import routing
import simulate
import topo
from routing.routed import Routed

MEAN = 8e6
"""Bytes of a flow; sizes are exponential."""

RATE = 25e9
"""Bytes a second of a host."""

ROWS = {
    "incast 780": (10**4, 10**5, 10**6, 10**7),
    "uniform 780": (10**4, 10**5, 10**6, 10**7),
    "joints 1380": (10**4, 10**5, 10**6),
    "uniform 8192": (10**4, 10**5, 10**6),
    "uniform 32768": (10**4, 10**5, 10**6, 10**7),
}
QUICK = 10**6
"""Flows of the largest row without ``--all``."""


def make_network(hosts: int) -> simulate.Network:
    """Return a network with so many hosts: a zone of two levels, Fire-Flyer 2, or three levels."""
    if hosts == 780:
        return zone(39, 20, 20)
    if hosts == 1380:
        return simulate.Network.of(routing.route(topo.preset("fire-flyer-2").fabric))
    half, pods = (32, 8) if hosts == 8192 else (32, 32)
    tree = three_level_tree(half, pods, 2)
    return simulate.Network.of(Routed(tree, modulo_tables(tree, half, pods, 2)))


def make_flows(load: str, network: simulate.Network, n: int) -> simulate.Flows:
    """Return the flows of a load; the seed is always the same."""
    rng = np.random.default_rng(7)
    ends = network.fabric.ends(role="compute")
    size = np.ceil(rng.exponential(MEAN, n))
    if load == "incast":
        start = np.sort(rng.uniform(0, n * MEAN / (2 * RATE), n))
        return simulate.Flows.of(rng.choice(ends[1:], n), ends[0], size, start_s=start)
    src = rng.integers(0, len(ends), n)
    dst = (src + rng.integers(1, len(ends), n)) % len(ends)
    start = np.sort(rng.uniform(0, n * MEAN / (0.2 * len(ends) * RATE), n))
    return simulate.Flows.of(ends[src], ends[dst], size, start_s=start)


def row(load: str, n: int) -> str:
    kind, hosts = load.split()
    network = make_network(int(hosts))
    simulate.play(network, make_flows(kind, network, 1000))  # compiled or read from the cache
    flows = make_flows(kind, network, n)
    begin = time.process_time()
    outcome = simulate.play(network, flows)
    seconds = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    fit = seconds / (n * np.log2(n)) * 1e9
    return f"| {load} | {n:,} | {outcome.n_events:,} | {seconds:.2f} | {fit:.0f} | {peak:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="rows of 10^7 flows too")
    parser.add_argument("--row", nargs=2, metavar=("LOAD", "FLOWS"), help="this one alone")
    options = parser.parse_args()
    if options.row:
        print(row(options.row[0], int(options.row[1])), flush=True)
        return
    print("| load and hosts | flows | instants | s of CPU | ns / (n log2 n) | peak memory, GiB |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    for load, sizes in ROWS.items():
        for n in sizes:
            if options.all or n < QUICK:
                subprocess.run([sys.executable, __file__, "--row", load, str(n)], check=True)


if __name__ == "__main__":
    main()
