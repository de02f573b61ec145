"""Times the engines on whole three-level trees; with --peer, OpenSM's engines on the same fabric, over ibsim.

python benchmarks/timings/bench_engines.py             8,000 hosts, 1,000 switches
python benchmarks/timings/bench_engines.py --peer      ftree beside `fat-tree`, dfsssp beside `balanced`: six minutes
python benchmarks/timings/bench_engines.py --largest   all 49,151 LIDs of a subnet: seconds and memory

Ours are timed warm, compiled before: several times, before and after OpenSM's turn, of which the median counts.
OpenSM's seconds are those of its own log, from finding itself master to tables on all switches.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from trees import three_level_tree

from plan.opensm_lab.ibsim import as_simulated, simulated
from plan.opensm_lab.trials import LIMIT_S, LISTS, PEERS
from routing.engines.base import ENGINES
from routing.opensm.files import opensm_files
from routing.proof import prove
from routing.routed import Routed
from topo.fabric import Fabric

SIZES = {"small": (4, 4, 1), "8,000 hosts": (20, 20, 2), "largest": (32, 44, 1, 255)}
BESIDE = {"fat-tree": "ftree", "balanced": "dfsssp"}
TURNS = 3


def seconds_of(engine: str, fabric: Fabric, turns: int) -> list[float]:
    route = ENGINES[engine].route
    times = []
    for _ in range(turns):
        start = time.perf_counter()
        route(fabric, None)
        times.append(time.perf_counter() - start)
    return times


def beside_opensm(fabric: Fabric) -> None:
    """Print our seconds, OpenSM's, and how many times as long it takes."""
    twin = as_simulated(fabric)
    lists = opensm_files(Routed(twin, ENGINES["fat-tree"].route(twin)))
    with TemporaryDirectory(prefix="heddle-") as folder, simulated(fabric, Path(folder)) as subnet:
        for ours, theirs in BESIDE.items():
            times = seconds_of(ours, fabric, TURNS)
            given = {name: lists[name] for name in LISTS if lists[name]}
            run = subnet.opensm(theirs, given, options=PEERS[theirs], timeout_s=LIMIT_S)
            median = statistics.median(times + seconds_of(ours, fabric, TURNS))
            print(f"  {ours}: {median:.3f} s; OpenSM's {theirs}: {run.seconds:.1f} s, {run.seconds / median:.0f} times")


def largest() -> None:
    fabric = three_level_tree(*SIZES["largest"])
    for engine in BESIDE:
        start = time.perf_counter()
        tables = ENGINES[engine].route(fabric)
        routed = time.perf_counter()
        proof = prove(Routed(fabric, tables))
        proven = time.perf_counter()
        print(f"{engine}: {fabric.n_switches:,} switches, {len(proof.ends):,} hosts, {int(tables.lid.max()):,} LIDs")
        print(f"  tables {routed - start:.1f} s, proof of {proof.pairs:,} pairs {proven - routed:.1f} s")
        print(f"  {proof.missing} missing, {proof.credit_loops} channels in credit loops")
        print(f"  peak memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", action="store_true", help="the largest subnet there can be")
    parser.add_argument("--peer", action="store_true", help="run OpenSM too")
    options = parser.parse_args()
    small = three_level_tree(*SIZES["small"])
    for engine in BESIDE:
        prove(Routed(small, ENGINES[engine].route(small)))  # compiled or read from Numba's cache, once a machine
    if options.largest:
        largest()
        return
    fabric = three_level_tree(*SIZES["8,000 hosts"])
    print(f"{fabric.n_switches:,} switches, {fabric.n_end_ports - fabric.n_switches:,} hosts")
    if options.peer:
        beside_opensm(fabric)
        return
    for engine in BESIDE:
        print(f"  {engine}: {statistics.median(seconds_of(engine, fabric, TURNS)):.3f} s")


if __name__ == "__main__":
    main()
