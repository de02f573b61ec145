"""Times repairs, in seconds of CPU, on a whole tree of 8,000 hosts beside routing anew; with --peer, OpenSM beside it.

python benchmarks/timings/bench_repair.py                       20 random links, one at a time, and 1 % of all
python benchmarks/timings/bench_repair.py --peer                OpenSM over ibsim beside it: minutes
python benchmarks/timings/bench_repair.py --faults faults.png   quality by share of links removed, CSV and plot
python benchmarks/timings/bench_repair.py --quality             1 % of links removed, many fabrics: minutes
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

sys.path.append(str(Path(__file__).parents[2] / "tests"))

import numpy as np
from trees import modulo_tables, three_level_tree

from helpers.random_fabrics import draw
from helpers.trees import fullest
from helpers.twins import twin
from plan.opensm_lab.ibsim import simulated
from routing.engines.base import route
from routing.proof import prove
from routing.quality.figures import measure
from routing.repairs.basis import prepare_repair
from routing.repairs.repair import repair, route_anew
from routing.routed import Routed
from topo.cluster import preset
from topo.errors import HeddleError, ToolError
from topo.fabric import Fabric

T = TypeVar("T")
ENGINES = ("minhop", "updn", "ftree", "dfsssp")
WITHIN = 1.02
"""How much fuller than anew the fullest link may be."""


def timed(work: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()  # others may be at work
    return work(), time.process_time() - start


def time_repairs(engine: str, peer: bool) -> None:
    """Print the seconds of repairs, and of their rivals on the same failure."""
    fabric = three_level_tree(20, 20, 2)
    tables = modulo_tables(fabric, 20, 20, 2) if engine == "modulo" else route(fabric, engine).tables
    basis, seconds = timed(lambda: prepare_repair(Routed(fabric, tables)))
    print(
        f"{fabric.n_end_ports - fabric.n_switches:,} hosts, {fabric.n_switches:,} switches; prepared in {seconds:.2f} s"
    )
    rng = np.random.default_rng(1)
    links = fabric.inner_links[:, 0]
    sets = {
        "one link": [rng.choice(links, 1) for _ in range(20)],
        "1 % of the links": [links[rng.random(len(links)) < 0.01]],
    }
    repair(basis, links[:1])  # compiles
    for name, failures in sets.items():
        done = [timed(lambda down=down: repair(basis, down)) for down in failures]  # type: ignore[misc]
        took = np.array([seconds for _, seconds in done])
        changed = [len(one.changed) for one, _ in done]
        hows = sorted({one.how for one, _ in done})
        print(f"{name}: median {1e3 * np.median(took):.1f} ms, longest {1e3 * took.max():.1f} ms; {hows}; "
              f"entries {min(changed):,} to {max(changed):,}")  # fmt: skip
    left = fabric.without(sets["one link"][0])
    for rival in ("fat-tree", "balanced"):
        try:
            tables, _ = timed(lambda rival=rival: route(left, rival).tables)  # type: ignore[misc]
            seconds = min(timed(lambda rival=rival: route(left, rival))[1] for _ in range(3))  # type: ignore[misc]
            _, proved = timed(lambda tables=tables: prove(Routed(left, tables)))  # type: ignore[misc]
            print(f"routed anew by {rival}: {seconds:.2f} s; proved in {proved:.2f} s")
        except HeddleError as error:
            print(f"routed anew by {rival}: {error}")
    if peer:
        with TemporaryDirectory() as folder, simulated(left, Path(folder), timeout_s=900.0) as subnet:
            for rival in ("ftree", "updn", "minhop"):
                try:
                    print(f"OpenSM, {rival}: {subnet.opensm(rival, timeout_s=3600.0).seconds:.2f} s", flush=True)
                except ToolError as error:
                    print(error)


def quality_under_faults(out: Path, draws: int, peer: bool) -> None:
    """Write what is left of bisection, shifts and permutations on Fire-Flyer 2 when links are removed at random."""
    fabric = preset("fire-flyer-2").fabric
    basis = prepare_repair(route(fabric, "balanced"))
    links, rows = fabric.inner_links[:, 0], []
    for share in (0.0, 0.005, 0.01, 0.02, 0.05, 0.1):
        for seed in range(draws):
            rng = np.random.default_rng(seed)
            down = rng.choice(links, round(share * len(links)), replace=False)
            done = repair(basis, down)
            states = {"repaired": done.after, "routed anew": route(done.after.fabric, "balanced")}
            if peer:
                with TemporaryDirectory() as folder, simulated(done.after.fabric, Path(folder)) as subnet:
                    for engine in ENGINES:
                        states[f"OpenSM {engine}"] = Routed(done.after.fabric, subnet.opensm(engine).tables)
            for name, state in states.items():
                quality = measure(state)
                rows.append((share, seed, name, quality.ebb, quality.max_load))
                print(*rows[-1], flush=True)
    lines = ["share,draw,tables,bisection,fullest_link", *(",".join(map(str, row)) for row in rows)]
    out.with_suffix(".csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    for name in dict.fromkeys(row[2] for row in rows):
        mine = [(row[0], row[3]) for row in rows if row[2] == name]
        shares = sorted({share for share, _ in mine})
        means = [np.mean([value for at, value in mine if at == share]) for share in shares]
        axes.plot([100 * share for share in shares], means, marker="o", label=name)
    axes.set_xlabel("links removed, %")
    axes.set_ylabel("effective bisection bandwidth")
    axes.legend()
    figure.savefig(out)


def without_one_percent(fabric: Fabric, draws: int) -> Iterator[tuple[int, str, float, int, int]]:
    """Yield of each draw the cables removed, how, the fullest link to that anew, entries that change, and anew."""
    basis, links = prepare_repair(route(fabric, "balanced")), fabric.inner_links[:, 0]
    for seed in range(draws):
        rng = np.random.default_rng(seed)
        down = rng.choice(links, max(1, round(0.01 * len(links))), replace=False)
        done = repair(basis, down)
        anew = route_anew(done)
        yield len(down), done.how, fullest(done.after) / fullest(anew.after), len(done.changed), len(anew.changed)


def quality_beside_anew(draws: int) -> None:
    """Print what repaired tables are worth beside new ones: the rows of docs/validation/repairs.md."""

    def span(values: list[int] | list[float], form: str) -> str:
        return " to ".join(dict.fromkeys((f"{min(values):{form}}", f"{max(values):{form}}")))

    fabrics = {
        "Fire-Flyer 2": preset("fire-flyer-2").fabric,
        "one zone of 60 switches": twin("zone"),
        "an NDR pod of rails": twin("ndr-pod"),
        "two frames with their leaves": twin("two-frames"),
        "a SuperPOD": twin("a100-superpod"),
        "two EDR frames with their leaves": twin("edr-frames"),
        "three levels, 8 pods": three_level_tree(8, 8, 1),
    }
    for name, fabric in fabrics.items():
        found = list(without_one_percent(fabric, draws))
        for how in sorted({row[1] for row in found}):
            ratios, ours, anew = (list(one) for one in zip(*(row[2:] for row in found if row[1] == how), strict=True))
            print(f"| {name}, {how} ({len(ours)} of {draws}) | {span(ratios, '.2f')} | {span(ours, ',')} | "
                  f"{span(anew, ',')} |", flush=True)  # fmt: skip
    small = [fabric for fabric in map(draw, range(15)) if not fabric.name.startswith("real")]
    rows = [(fabric.name, *row) for fabric in small for row in without_one_percent(fabric, 3)]
    for what in ("one cable", "several cables"):
        some = [row for row in rows if (row[1] == 1) == (what == "one cable")]
        behind = [f"{name} {ratio:.2f}" for name, _, _, ratio, *_ in some if ratio > WITHIN]
        print(f"random fabrics, {what} down: {len(some) - len(behind)} of {len(some)} sets within 2 %; "
              f"others: {', '.join(behind) or 'none'}", flush=True)  # fmt: skip


def main() -> None:
    """Run what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="modulo", help="engine of the tables; modulo: d mod k")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--faults", type=Path)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--draws", type=int, default=4)
    options = parser.parse_args()
    if options.quality:
        quality_beside_anew(options.draws)
    elif options.faults:
        quality_under_faults(options.faults, options.draws, options.peer)
    else:
        time_repairs(options.engine, options.peer)


if __name__ == "__main__":
    main()
