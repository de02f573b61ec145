"""Jobs on parts of a cluster, played on the tables of each engine: the table of docs/validation/jobs.md.

Run from the repository: python benchmarks/quality/compare_jobs.py [PRESET or FABRIC or SEED ...]

A seed is that of a random fabric (`helpers.random_fabrics.draw`), of which only the tables are compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "tests")]

import numpy as np

import routing
import simulate
import topo
from helpers.random_fabrics import draw
from routing.tables import tree_order
from topo.fabric import Fabric, Role

ENGINES = ("balanced", "minhop", "dfsssp")
LANES = {"dfsssp": 1}
SIZE = "64 MiB"
"""That each rank sends, in all."""


def jobs(fabric: Fabric) -> dict[str, tuple[np.ndarray, str, str]]:
    """Return the ranks, the collective and the algorithm of each job."""
    most = np.bincount(fabric.role[fabric.end_node[fabric.ends()]]).argmax()
    ranks = tree_order(fabric, fabric.ends(role=Role(most)))
    switch = fabric.end_switch[ranks]
    first = ranks[np.unique(switch, return_index=True)[1]]
    found = {f"all-to-all, every {step}th": (ranks[::step], "all-to-all", "shift") for step in (5, 8, 10)}
    found["all-to-all, one host a leaf"] = (tree_order(fabric, first), "all-to-all", "shift")
    power = 1 << int(np.log2(len(ranks)))
    found[f"halving-doubling of {power}"] = (ranks[:power], "allreduce", "halving-doubling")
    found["double tree"] = (ranks, "allreduce", "double-binary-tree")
    found["ring"] = (ranks, "allreduce", "ring")
    return found


def main() -> None:
    for name in sys.argv[1:] or ["fire-flyer-2"]:
        if name.isdigit():
            fabric = draw(int(name))
        else:
            fabric = topo.read_fabric(name) if Path(name).exists() else topo.preset(name).fabric
        routed = {engine: routing.route(fabric, engine, lanes=LANES.get(engine)) for engine in ENGINES}
        proofs = {engine: routing.prove(tables) for engine, tables in routed.items()}
        print(f"| {fabric.name} | {' | '.join(ENGINES)} |\n|---|{'--:|' * len(ENGINES)}")
        print("| credit loops | " + " | ".join(f"{proof.credit_loops:,}" for proof in proofs.values()) + " |")
        print("| fullest link, pairs | " + " | ".join(f"{proof.max_load:,}" for proof in proofs.values()) + " |")
        shares = [routing.measure(tables, proof=proofs[engine]).ebb for engine, tables in routed.items()]
        print("| effective bisection | " + " | ".join(f"{share:.3f}" for share in shares) + " |", flush=True)
        for job, (ranks, kind, algorithm) in () if name.isdigit() else jobs(fabric).items():
            times = [
                simulate.play(tables, simulate.collective(kind, ranks, SIZE, algorithm)).makespan_s
                for tables in routed.values()
            ]
            print(f"| {job}, ms | " + " | ".join(f"{1e3 * time:.1f}" for time in times) + " |", flush=True)


if __name__ == "__main__":
    main()
