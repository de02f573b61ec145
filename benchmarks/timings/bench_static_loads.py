"""Time the count of flows on channels beside ibutils' ibdmsh: 800 hosts under 40 leaves and 20 spines, same tables.

python benchmarks/timings/bench_static_loads.py     all 799 shifts, and 799 random permutations

Both follow every path through the tables and find the most loaded channel of each permutation; neither time holds
start-up, reading files or, for us, compiling. ibdmsh's is its own clock, in Tcl, from the first path to the last.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from routing.engines.base import ENGINES
from routing.quality.figures import congestion, permutations, shifts
from routing.routed import Routed
from routing.tables import RoutingTables, select_endpoints
from tests.helpers.ibdmchk import write_ibdmchk_inputs
from tests.helpers.ibdmsh import TIMES, Judgement, format_stages, parse_judgement
from topo.cluster import parse
from topo.fabric import Fabric

SPEC = """\
name: zone
nodes: {gpu: {model: pcie-a100, count: 800}}
network: {shape: fat-tree, switch: QM8700, leaves: 40, spines: 20}
"""
REPEAT = 5


def zone() -> tuple[Fabric, RoutingTables]:
    (fabric,) = parse(SPEC).fabrics
    return fabric, ENGINES["fat-tree"].route(fabric)


def ours(fabric: Fabric, tables: RoutingTables, ranks: np.ndarray, partners: np.ndarray) -> tuple[np.ndarray, float]:
    """Most loaded channel of each phase, and the best of several times."""
    congestion(Routed(fabric, tables), ranks, partners[:1])  # compiled or read from Numba's cache
    seconds = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        most, _, _ = congestion(Routed(fabric, tables), ranks, partners)
        seconds.append(time.perf_counter() - start)
    return most, min(seconds)


def theirs(fabric: Fabric, tables: RoutingTables, lid: np.ndarray, partners: np.ndarray) -> Judgement:
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_ibdmchk_inputs(folder, fabric, tables)
        (folder / "stages").write_text(format_stages([np.stack([lid, lid[to]], axis=1)[to >= 0] for to in partners]))
        (folder / "script.tcl").write_text(TIMES)
        runs = [
            subprocess.run(["ibdmsh", "script.tcl"], cwd=folder, capture_output=True, text=True, check=False).stdout
            for _ in range(REPEAT)
        ]
    return min(map(parse_judgement, runs), key=lambda run: run.seconds)


def main() -> None:
    fabric, tables = zone()
    ranks = select_endpoints(fabric, tables)
    n = len(ranks)
    cases = {"shifts": shifts(n, n), "random permutations": permutations(n, n - 1, np.random.default_rng(0))}
    for name, partners in cases.items():
        most, seconds = ours(fabric, tables, ranks, partners)
        paths = np.count_nonzero(partners >= 0)
        print(f"{len(partners)} {name} of {n} hosts, {paths:,} paths; most loaded channel {most.min()} to {most.max()}")
        print(f"  ours:   {seconds * 1e3:,.2f} ms, {paths / seconds / 1e6:,.0f} million paths a second")
        if shutil.which("ibdmsh") is None:
            print("  ibdmsh: not installed (ibutils)")
            continue
        judged = theirs(fabric, tables, tables.lid[ranks], partners)
        worst, count = np.unique(most, return_counts=True)
        same = judged.stages == dict(zip(worst.tolist(), count.tolist(), strict=True))
        print(f"  ibdmsh: {judged.seconds * 1e3:,.0f} ms; says the same: {same}")
        print(f"  {judged.seconds / seconds:,.0f} times as fast as ibdmsh")


if __name__ == "__main__":
    main()
