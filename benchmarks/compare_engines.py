"""What `plan route` makes of real and damaged fabrics beside the engines of a real OpenSM: docs/routing-compared.md.

Run from the repository, with opensm, ibsim-utils and the rest installed (scripts/install-test-tools):

    python benchmarks/compare_engines.py > docs/routing-compared.md     half an hour
    python benchmarks/compare_engines.py Lassen torus                   some of them

Real fabrics are read from HEDDLE_FABRICS, or from shared/fabrics beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from plan.opensm_comparison import Contender, compare_with_opensm
from plan.subnet import route_subnet
from topo.compile import compile_cluster
from topo.fabric import Fabric, Kind
from topo.formats.fabric_file import read_fabric
from topo.levels import find_levels
from topo.spec import read_spec

REPOSITORY = Path(__file__).parents[1]
FOLDER = Path(os.environ.get("HEDDLE_FABRICS") or REPOSITORY.parent / "shared" / "fabrics")

REAL = {
    "Azure HDR pod, 2021": "azure_sat11_2021/ibnetdiscover.gz",
    "DGX A100 SuperPOD, 2022": "clova_superpod_a100_2022/ibnetdiscover.gz",
    "two CS8500 frames, 2021": "kr_dual_cs8500_2021/ibnetdiscover.gz",
    "Lassen, 2019": "lassen_cs7500_2019/ibnetdiscover.gz",
    "Janus, 2014": "janus_is5600_2014/ibnetdiscover.gz",
    "NDR DGX pod, 2025": "ndr_dgx_2025/ibnetdiscover.gz",
    "Tartu, 2014": "tartu_fdr10_2014/ibnetdiscover.gz",
}

HEAD = """# Our routing beside OpenSM's

Made by `benchmarks/compare_engines.py`: every fabric is simulated by ibsim, a real OpenSM routes it with each of its
engines, and their tables are judged exactly as ours are, HCAs being the endpoints and all on one virtual lane.

- *missing*: ordered pairs that do not arrive; *loops*: channels in credit loops on one lane; *lanes*: how many the
  engine asks for to have none.
- *max load*: pairs over the most loaded channel between switches; *bisection*: effective bisection bandwidth, the mean
  over random bisections of 1 / (flows on the fullest channel of a flow's path); *shift*: flows on the fullest channel
  of the median and of the worst shift permutation, ranks counted along the tree.
- *switches*: on the longest path; *s*: seconds of routing, OpenSM's by its own log.
- In the verdicts, an engine is *complete* when no pair is missing, whether its tables have credit loops or not.
"""


def from_spec(name: str) -> Fabric:
    source = read_spec(REPOSITORY / "configs" / f"{name}.yaml")
    return compile_cluster(source.spec, source.catalog)[0]


def damaged(fabric: Fabric, share: float, dead_level: int, seed: int = 1) -> Fabric:
    """Cut a share of the links between switches, and all links of one switch of a level."""
    n = fabric.n_switches
    between = fabric.links[(fabric.port_node[fabric.links] < n).all(axis=1)]
    rng = np.random.default_rng(seed)
    cut = rng.choice(len(between), round(share * len(between)), replace=False)
    dead = rng.choice(np.flatnonzero(fabric.level[:n] == dead_level))
    dark = between[np.union1d(cut, np.flatnonzero((fabric.port_node[between] == dead).any(axis=1)))]
    peer = fabric.peer.copy()
    peer[dark] = -1
    return replace(fabric, peer=peer, name=f"{fabric.name}, damaged")


OWN: dict[str, Callable[[], Fabric]] = {
    "Fire-Flyer 2": lambda: from_spec("fire-flyer-2"),
    "Fire-Flyer 2 without 3% of its links and a spine": lambda: damaged(from_spec("fire-flyer-2"), 0.03, 2),
    "three-level tree (DGX A100 SuperPOD as planned)": lambda: from_spec("dgx-a100-superpod"),
    "the same without 3% of its links and a core": lambda: damaged(from_spec("dgx-a100-superpod"), 0.03, 3),
    "three-level tree with storage": lambda: from_spec("pcie-three-level"),
    "slow subtrees": lambda: from_spec("slow-subtrees"),
    "zones that cables alone join": lambda: from_spec("direct-zones"),
    "BiGraph": lambda: from_spec("eflops-bigraph"),
    "Dragonfly+": lambda: from_spec("dragonfly-plus"),
    "Dragonfly": lambda: from_spec("dragonfly"),
    "HyperX": lambda: from_spec("hyperx"),
    "torus": lambda: from_spec("torus"),
    "Slim Fly": lambda: from_spec("slim-fly"),
}


def table(rows: list[Contender]) -> list[str]:
    lines = [
        "| engine | missing | loops | lanes | switches | max load | bisection | shift | s |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        if row.proof is None or row.quality is None:
            lines.append(f"| {row.engine} | {row.failure.splitlines()[0]} ||||||||")
            continue
        shift = row.quality.shift
        cells = (
            row.engine,
            f"{row.proof.missing:,}",
            f"{row.proof.credit_loops:,}",
            str(row.lanes),
            str(row.proof.max_hops),
            f"{row.quality.max_load:,}",
            f"{row.quality.ebb:.3f}",
            f"{shift.max_load_median:g} / {shift.max_load_worst}",
            "" if row.seconds is None else f"{row.seconds:.2f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def verdict(rows: list[Contender]) -> str:
    """Say how ours compares with the best of the complete ones in each respect."""
    ours, *others = (row for row in rows if row.proof is not None and row.quality is not None)
    complete = [row for row in others if row.proof and row.proof.missing == 0]
    assert ours.proof and ours.quality
    if not complete:
        return "No engine of OpenSM connects every pair."
    said = []
    load = min(complete, key=lambda row: row.quality.max_load if row.quality else 0)
    ebb = max(complete, key=lambda row: row.quality.ebb if row.quality else 0)
    assert load.quality and ebb.quality
    ratio = ours.quality.max_load / load.quality.max_load
    said.append(f"most loaded link {_compared(-round(100 * (ratio - 1), 1))} than `{load.engine}`")
    gain = round(100 * (ours.quality.ebb / ebb.quality.ebb - 1), 1)
    said.append(f"effective bisection {_compared(gain)} than `{ebb.engine}`")
    free = [row for row in complete if row.proof and row.proof.credit_loops == 0]
    loops = (
        ""
        if len(free) == len(complete)
        else (f" Free of loops on one lane are {', '.join(f'`{row.engine}`' for row in free) or 'none of OpenSM’s'}.")
    )
    return f"Beside the best complete engine in each respect: {'; '.join(said)}.{loops}"


def _compared(gain: float) -> str:
    return f"{gain:.1f}% better" if gain > 0 else f"**{-gain:.1f}% worse**" if gain < 0 else "no better and no worse"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the names of the fabrics to compare; all when left out")
    words = parser.parse_args().words
    real = {name: lambda path=path: find_levels(read_fabric(FOLDER / path).fabric) for name, path in REAL.items()}
    print(HEAD)
    for name, make in ((real if FOLDER.is_dir() else {}) | OWN).items():
        if words and not any(word in name for word in words):
            continue
        print(name, file=sys.stderr, flush=True)
        fabric = make()
        subnet = route_subnet(fabric, in_tree_order=True)
        rows = compare_with_opensm(subnet, in_tree_order=True, step=lambda text: print(" ", text, file=sys.stderr))
        hosts = int(np.count_nonzero(fabric.kind == Kind.HCA))
        print(f"## {name}\n\n{fabric.n_switches} switches, {hosts:,} HCAs. Chosen: {subnet.why}.\n")
        print("\n".join(table(rows)), f"\n{verdict(rows)}\n", sep="\n", flush=True)


if __name__ == "__main__":
    main()
