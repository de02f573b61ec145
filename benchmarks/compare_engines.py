"""What `plan route` makes of real and damaged fabrics beside the engines of a real OpenSM: docs/routing-compared.md.

Run from the repository, with opensm, ibsim-utils and the rest installed (scripts/install-test-tools):

    python benchmarks/compare_engines.py > docs/routing-compared.md     half an hour
    python benchmarks/compare_engines.py Lassen torus                   some of them

Real fabrics are read from HEDDLE_FABRICS, or from shared/fabrics beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import routing
from plan.opensm_lab.comparison import Contender, compare_with_opensm
from routing.lanes.classes import DATA_LANES
from routing.lanes.fit import fit_lanes
from routing.proof import prove
from routing.routed import Routed
from topo.cluster import parse, read
from topo.fabric import Fabric, Kind
from topo.formats.fabric_file import read_fabric

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

`benchmarks/compare_engines.py` writes this page. ibsim simulates every fabric, and a real OpenSM routes it with each of
its engines. OpenSM's tables are judged exactly as ours are: the endpoints are HCAs, and all traffic is on one
virtual lane.

- *missing*: ordered pairs that do not arrive. *loops*: channels in credit loops on one lane. *lanes*: the number of
  lanes that the engine needs to have none.
- *max load*: pairs over the most loaded channel between switches.
- *bisection*: effective bisection bandwidth, the mean over random bisections of 1 / (flows on the fullest channel of a
  flow's path).
- *shift*: flows on the fullest channel in the median shift permutation and in the worst one, ranks numbered along the
  tree.
- *switches*: the number of switches on the longest path. *s*: seconds of routing, for OpenSM according to its log.
- Where one lane excludes shortest paths, a second row of ours gives the result of `--lanes 8`.
- In the verdicts, an engine is *complete* if no pair is missing, whether or not its tables have credit loops. The last
  section summarises the verdicts.
"""


SUMMARY = """## All at a glance

Each row compares ours with the complete engine of OpenSM that is best in the respective column, whether or not its
tables have loops. The last column lists the engines of OpenSM that connect every pair without a loop on one lane, as
all of ours on one lane do.

| fabric | lanes | max load | best of OpenSM | | bisection | best of OpenSM | | loop-free there |
|---|--:|--:|--:|---|--:|--:|---|---|"""


def from_spec(name: str) -> Fabric:
    source = read(REPOSITORY / "configs" / f"{name}.yaml")
    return source.fabrics[0]


def joined_zones(between: str) -> Fabric:
    """Three zones of 36-port switches, joined."""
    text = f"""
name: three-zones
nodes: {{gpu: {{model: pcie-a100, count: 1200}}}}
network:
  shape: zones
  zones: 3
  tree: {{switch: SB7800, leaves: 36, spines: 18}}
  {between}
"""
    return parse(text).fabrics[0]


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
    "three zones of 36-port switches, three joints": lambda: joined_zones(
        "joints: {switch: SB7800, count: 3, ports: 36, placement: spread}"
    ),
    "three zones of 36-port switches, joined by cables": lambda: joined_zones("direct: {ports: 36, placement: border}"),
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
            why = re.sub(r"0x[0-9a-f]+ ?", "", row.failure.splitlines()[0].split(" / ")[0])
            lines.append(f"| {row.engine} | {why} ||||||||")
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


def on_lanes(fabric: Fabric) -> list[Contender]:
    """Return what we make of a fabric with all lanes, where that takes several; judged on one, as the others are."""
    wide = routing.route(fabric, fabric.engine, lanes=DATA_LANES)
    lanes = prove(wide).lanes
    if lanes == 1:
        return []
    on_one = prove(Routed(fabric, fit_lanes(fabric, wide.tables, 1)))
    quality = routing.measure(wide)
    return [Contender(f"{wide.tables.engine}, ours, --lanes", None, lanes, on_one, quality)]


def verdict(ours: Contender, others: list[Contender]) -> tuple[str, str]:
    """Say how ours compares with the best of the complete ones in each respect: in words, and as cells of a table."""
    complete = [row for row in others if row.proof and row.quality and row.proof.missing == 0]
    if not complete:
        return "No engine of OpenSM connects every pair.", "| none is complete | | | | | "
    load = min(complete, key=lambda row: row.quality.max_load if row.quality else 0)
    ebb = max(complete, key=lambda row: row.quality.ebb if row.quality else 0)
    assert ours.quality and load.quality and ebb.quality
    ratio = ours.quality.max_load / load.quality.max_load
    less = _compared(-round(100 * (ratio - 1), 1))
    more = _compared(round(100 * (ours.quality.ebb / ebb.quality.ebb - 1), 1))
    free = [row.engine for row in complete if row.proof and row.proof.credit_loops == 0]
    return (
        f"most loaded link {less} {_than(less)} `{load.engine}`; "
        f"effective bisection {more} {_than(more)} `{ebb.engine}`. "
        f"Free of loops on one lane: {', '.join(f'`{name}`' for name in free) or 'none of them'}.",
        f"{ours.quality.max_load:,} | {load.quality.max_load:,}, `{load.engine}` | {less} "
        f"| {ours.quality.ebb:.3f} | {ebb.quality.ebb:.3f}, `{ebb.engine}` | {more} "
        f"| {', '.join(f'`{name}`' for name in free) or 'none'}",
    )


def _compared(gain: float) -> str:
    return f"{gain:.1f}% better" if gain > 0 else f"**{-gain:.1f}% worse**" if gain < 0 else "equal"


def _than(words: str) -> str:
    return "to" if words == "equal" else "than"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="of the names of the fabrics to compare; all when left out")
    wanted = parser.parse_args().words
    summary: list[str] = []
    real = {name: lambda path=path: read_fabric(FOLDER / path) for name, path in REAL.items()}
    print(HEAD)
    for name, make in ((real if FOLDER.is_dir() else {}) | OWN).items():
        if wanted and not any(word in name for word in wanted):
            continue
        print(name, file=sys.stderr, flush=True)
        fabric = make()
        routed = routing.route(fabric, fabric.engine)
        proof, quality = prove(routed), routing.measure(routed)
        ours, *theirs = compare_with_opensm(routed, proof, quality, step=lambda text: print(" ", text, file=sys.stderr))
        laned = on_lanes(fabric) if proof.stretch else []
        hosts = int(np.count_nonzero(fabric.kind == Kind.HCA))
        print(f"## {name}\n\n{fabric.n_switches} switches, {hosts:,} HCAs. Chosen: {routed.why}.\n")
        print("\n".join(table([ours, *laned, *theirs])))
        words, cells = verdict(ours, theirs)
        print(f"\nCompared with the best complete engine in each respect: {words}\n")
        summary.append(f"| {name} | {ours.lanes} | {cells} |")
        for row in laned:
            words, cells = verdict(row, theirs)
            print(f"On {row.lanes} lanes: {words}\n")
            summary.append(f"| {name} | {row.lanes} | {cells} |")
        sys.stdout.flush()
    print(SUMMARY, *summary, sep="\n")


if __name__ == "__main__":
    main()
