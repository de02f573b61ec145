"""Times the engines on trees, joined zones and a dragonfly; with --peer, OpenSM's on the same fabrics, over ibsim.

python benchmarks/timings/bench_engines.py             four fabrics
python benchmarks/timings/bench_engines.py --peer      ftree beside `fat-tree`, dfsssp beside `balanced`
python benchmarks/timings/bench_engines.py --largest   all 49,151 LIDs of a subnet: CPU time and memory

All is CPU time, since a busy machine stretches any other. Ours are timed warm, compiled before: once before and
once after OpenSM's turn, of which the mean counts. OpenSM's is that of its whole process: it finds the fabric,
computes tables, and writes them over ibsim.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from trees import three_level_tree

import topo
from plan.opensm_lab.ibsim import as_simulated, simulated
from plan.opensm_lab.trials import LIMIT_S, LISTS, PEERS
from routing.engines.base import ENGINES
from routing.opensm.files import opensm_files
from routing.proof import prove
from routing.routed import Routed
from topo.errors import RoutingError
from topo.fabric import Fabric

SMALL, LARGEST = (4, 4, 1), (32, 44, 1, 255)
BESIDE = {"fat-tree": "ftree", "balanced": "dfsssp"}


def fabrics() -> dict[str, Fabric]:
    """Return what is timed: a whole tree, one of which a hundredth of the cables miss, zones and a dragonfly."""
    tree = three_level_tree(20, 20, 2)
    network = {"shape": "dragonfly", "switch": "QM8700", "groups": 33, "switches": 8, "hosts": 4, "global_links": 4}
    nodes = {"gpu": {"model": "pcie-a100", "count": 1056}}
    dragonfly = topo.parse({"name": "dragonfly-1056", "nodes": nodes, "network": network}).fabric
    return {
        "8,000 hosts, whole": tree,
        "joined zones, 1 % of the cables missing": without_cables(topo.preset("fire-flyer-2").fabric, 0.01),
        "dragonfly of 1,056 hosts": dragonfly,
        "8,000 hosts, 1 % of the cables missing": without_cables(tree, 0.01),
    }


def without_cables(fabric: Fabric, share: float) -> Fabric:
    """Return a fabric in which a share of the cables between switches, drawn at random, is not plugged in."""
    links, peer = fabric.inner_links, fabric.peer.copy()
    peer[links[np.random.default_rng(1).random(len(links)) < share]] = -1
    return replace(fabric, peer=peer)


def seconds_of(engine: str, fabric: Fabric) -> float:
    start = time.process_time()
    ENGINES[engine].route(fabric)
    return time.process_time() - start


def engines_for(fabric: Fabric) -> dict[str, str]:
    """Return our engines that take a fabric, and OpenSM's beside them."""
    try:
        ENGINES["fat-tree"].route(fabric)
    except RoutingError:
        return {"balanced": BESIDE["balanced"]}
    return BESIDE


def beside_opensm(fabric: Fabric) -> None:
    """Print our seconds, OpenSM's, and how many times as long it takes."""
    twin = as_simulated(fabric)
    lists = opensm_files(Routed(twin, ENGINES["minhop"].route(twin)))
    with TemporaryDirectory(prefix="heddle-") as folder, simulated(fabric, Path(folder)) as subnet:
        for ours, theirs in engines_for(fabric).items():
            time_before, before = seconds_of(ours, fabric), os.times()
            given = {name: lists[name] for name in LISTS if lists[name]}
            subnet.opensm(theirs, given, options=PEERS[theirs], timeout_s=LIMIT_S)
            taken = os.times().children_user + os.times().children_system
            taken -= before.children_user + before.children_system
            mean = (time_before + seconds_of(ours, fabric)) / 2
            print(f"  {ours}: {mean:.2f} s; OpenSM's {theirs}: {taken:.2f} s, {taken / mean:.1f} times", flush=True)


def largest() -> None:
    fabric = three_level_tree(*LARGEST)
    for engine in BESIDE:
        start = time.process_time()
        tables = ENGINES[engine].route(fabric)
        routed = time.process_time()
        proof = prove(Routed(fabric, tables))
        proven = time.process_time()
        print(f"{engine}: {fabric.n_switches:,} switches, {len(proof.ends):,} hosts, {int(tables.lid.max()):,} LIDs")
        print(f"  tables {routed - start:.1f} s, proof of {proof.pairs:,} pairs {proven - routed:.1f} s")
        print(f"  {proof.missing} missing, {proof.credit_loops} channels in credit loops")
        print(f"  peak memory so far: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--largest", action="store_true", help="the largest subnet there can be")
    parser.add_argument("--peer", action="store_true", help="run OpenSM too")
    options = parser.parse_args()
    small = three_level_tree(*SMALL)
    for engine in BESIDE:
        prove(Routed(small, ENGINES[engine].route(small)))  # compiled or read from Numba's cache, once a machine
    if options.largest:
        largest()
        return
    for name, fabric in fabrics().items():
        print(f"{name}: {fabric.n_switches:,} switches", flush=True)
        if options.peer:
            beside_opensm(fabric)
        else:
            for engine in engines_for(fabric):
                print(f"  {engine}: {seconds_of(engine, fabric):.2f} s", flush=True)


if __name__ == "__main__":
    main()
