"""Our engines beside those of a real OpenSM on real and damaged fabrics: docs/validation/routing-compared.md.

Run from the repository, with opensm, ibsim-utils and the rest installed (scripts/install-test-tools):

    python benchmarks/opensm/tournament.py --save games.jsonl
    python benchmarks/opensm/compare_engines.py --save opensm.json --games games.jsonl > routing-compared.md

They take half an hour on two free cores. `tournament.py --again` routes the saved fabrics anew by us alone.

Real fabrics are read from HEDDLE_FABRICS, or from shared/fabrics beside the checkout.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tournament import EQUAL, Game, report

import routing
from plan.opensm_lab.trials import Contender, compare_with_opensm
from routing.lanes.classes import DATA_LANES
from topo.cluster import parse, read
from topo.dumps.fabric_file import read_fabric
from topo.fabric import Fabric

REPOSITORY = Path(__file__).parents[2]
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

HEAD = """# Routings compared: Heddle, OpenSM, and the bounds

`benchmarks/opensm/compare_engines.py` writes this page. ibsim simulates every fabric, and a real OpenSM routes it
with minhop, updn, ftree, dfsssp and nue; their tables are judged exactly as ours are, between HCAs. Ours are those of
`--engine auto`, which are complete and without credit loops on one lane on every fabric here; where more lanes give
shorter paths, a second row gives `--lanes 8`.

- *fullest link*: ordered pairs of hosts over the most loaded channel between switches. *bisection*: effective bisection
  bandwidth, the mean over random halves of a flow's max-min fair rate, as a share of its hosts' links. *worst shift*:
  flows on the fullest channel in the worst shift permutation, ranks numbered along the tree.
- *bound*: what no routing by destination can beat on the same cables (`routing.studies.bound`), computed from cuts,
  from whole destinations at a leaf, and from the lengths of paths.
- *safe*: the best engine of OpenSM that connects every pair without a credit loop on one lane. *any*: the best that
  connects every pair, if it needs more lanes than one to be free of loops and is better than the safe ones.
- Bold: OpenSM is ahead by more than .5 %.
"""

RANDOM = """## Random fabrics

`python benchmarks/opensm/tournament.py --first 20261229` draws 100 fabrics by seed: joined zones, trees of two and
three levels, BiGraphs, HyperX, tori, random regular graphs, dragonflies and real machines, units joined at spines, thin
cores, cables and hosts of uneven speeds, leaves of several sizes, whole and damaged. No seed had been looked at before
the search was done. `helpers.random_fabrics.draw(seed, WIDER)` makes one again: the number behind its
family is the seed.

All are judged by the figures that `plan route` shows ([routes](../route.md)); rates are max-min fair. Each figure is
compared with the engine of OpenSM that is best in it, and seldom is one best in all: *ours / best* is above 1 where
ours is better, and its mean is geometric. A figure within .5 % is equal. The slowest job is one of some 30, on which
one of five engines may be lucky.

Tables with credit loops on one lane need several to be safe, as `dfsssp` asks for. The third table therefore lets ours
take several, too (`--lanes 8`).
"""

TITLES = (
    "| fabric | switches | hosts | engine | lanes | fullest link: bound | ours | safe | any | bisection: bound | ours "
    "| safe | any | worst shift: ours | safe | any |"
)


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


FIGURES = {"fullest link": -1, "bisection": 1, "worst shift": -1}
"""What is compared, and whether more of it is better."""


def lead(figure: str, ours: float, theirs: float) -> float:
    """Return the part of the better one of two by which ours is better; negative where it is worse."""
    over, under = (ours, theirs) if FIGURES[figure] > 0 else (theirs, ours)
    ratio = over / under if under else 1.0
    return ratio - 1 if ratio < 1 else 1 - 1 / ratio


def ours(routed: routing.Routed) -> dict[str, Any]:
    """Return what tables of ours are worth."""
    proof = routing.prove(routed)
    return worth(Contender(f"{routed.tables.engine}, ours", None, proof.lanes, proof, routing.measure(routed)))


def worth(row: Contender) -> dict[str, Any]:
    """Return what an engine's tables are worth."""
    if row.proof is None or row.quality is None:
        return {"engine": row.engine, "failure": row.failure}
    return {
        "engine": row.engine,
        "lanes": row.lanes,
        "missing": row.proof.lost,
        "loops": row.proof.credit_loops,
        "fullest link": row.quality.max_load,
        "bisection": row.quality.ebb,
        "worst shift": row.quality.shift.max_load_worst,
    }


def play(fabric: Fabric, theirs: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Return what our tables and those of OpenSM are worth, and the bounds; theirs may be known already."""
    routed = routing.route(fabric, "auto")
    proof, quality = routing.prove(routed), routing.measure(routed)
    rows = [worth(Contender(f"{routed.tables.engine}, ours", None, proof.lanes, proof, quality))]
    if proof.stretch and (wide := ours(routing.route(fabric, "auto", lanes=DATA_LANES)))["lanes"] > 1:
        rows.append(wide)
    if theirs is None:
        theirs = [worth(row) for row in compare_with_opensm(routed, proof, quality)[1:]]
    bounds = routing.studies.bound(fabric, reached=quality.max_load, exact=True)
    return {
        "switches": fabric.n_switches,
        "hosts": len(fabric.ends()),
        "bounds": [bounds.max_load, bounds.ebb],
        "ours": rows,
        "opensm": theirs,
    }


def rows(name: str, game: dict[str, Any]) -> Iterator[str]:
    """Yield the rows of a fabric: one for each number of lanes."""
    for row in game["ours"]:
        cells = [name, f"{game['switches']:,}", f"{game['hosts']:,}", row["engine"].removesuffix(", ours")]
        cells.append(str(row["lanes"]))
        for figure, digits, bound in (
            ("fullest link", ",.0f", game["bounds"][0]),
            ("bisection", ".3f", game["bounds"][1]),
            ("worst shift", ",.0f", None),
        ):
            cells += [] if bound is None else [f"{bound:{digits}}"]
            cells += [f"{row[figure]:{digits}}", *rivals(figure, digits, row, game["opensm"])]
        yield f"| {' | '.join(cells)} |"


def rivals(figure: str, digits: str, of_us: dict[str, Any], theirs: list[dict[str, Any]]) -> tuple[str, str]:
    """Return the best safe one of OpenSM's engines as text, and the best of all where it is better."""
    sign = FIGURES[figure]
    complete = sorted((row for row in theirs if row.get("missing") == 0), key=lambda row: -sign * row[figure])
    safe = next((row for row in complete if row["loops"] == 0), None)
    texts = []
    for row in (safe, complete[0] if complete and complete[0]["loops"] else None):
        lost = row is not None and lead(figure, of_us[figure], row[figure]) < -EQUAL
        mark = "**" if lost else ""
        texts.append(f"{mark}{row[figure]:{digits}} {row['engine']}{mark}" if row else "")
    if safe and complete[0]["loops"] and safe[figure] == complete[0][figure]:
        texts[1] = ""
    return texts[0], texts[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--save", type=Path, help="file for what OpenSM makes: it is not asked again")
    parser.add_argument("--games", type=Path, help="what benchmarks/opensm/tournament.py saved, for the last section")
    wish = parser.parse_args()
    known = json.loads(wish.save.read_text()) if wish.save and wish.save.exists() else {}
    real = {name: lambda path=path: read_fabric(FOLDER / path) for name, path in REAL.items()}
    print(f"{HEAD}\n{TITLES}\n|---|--:|--:|---|--:|--:|--:|---|---|--:|--:|---|---|--:|---|---|")
    for name, make in ((real if FOLDER.is_dir() else {}) | OWN).items():
        print(name, file=sys.stderr, flush=True)
        game = play(make(), known.get(name))
        known[name] = game["opensm"]
        print(*rows(name, game), sep="\n", flush=True)
        if wish.save:
            wish.save.write_text(json.dumps(known))
    if wish.games:
        print(f"\n{RANDOM}")
        print(*report([Game.of(json.loads(line)) for line in wish.games.read_text().splitlines()]), sep="\n")


if __name__ == "__main__":
    main()
