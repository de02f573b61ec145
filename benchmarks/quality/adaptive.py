"""Static tables beside adaptive routing: the tables of docs/validation/adaptive.md, for presets and dumps of fabrics.

    python benchmarks/quality/adaptive.py fire-flyer-2 dgx-h100-48 some.ibnetdiscover.gz
    python benchmarks/quality/adaptive.py presets tests/fabrics

A folder stands for the dumps in it and below, and ``presets`` for all that ship and have InfiniBand of up to 2,400
hosts; of planes that are alike the first.
Groups are those of all ports up and down from the best roots, as NVIDIA's manager may make them, where they reach every
pair; else those that the static tables make legal.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import routing
import topo
from routing.hashed import SPRAY
from routing.quality.figures import fair_rates, permutations
from routing.studies import adaptive, hashed_rates

MOST_HOSTS = 2_400
VARIABLES = 40_000
"""Of a linear program: those of Fire-Flyer 2 have 35,000."""


def fabrics_of(name: str) -> Iterator[topo.Fabric]:
    """Yield the fabrics of a preset, of a dump, of all dumps of a folder, or of all presets."""
    if Path(name).is_dir():
        for path in sorted(Path(name).rglob("*ibnetdiscover*")):
            if "raw" not in path.name:
                yield topo.read_fabric(path)
    elif Path(name).is_file():
        yield topo.read_fabric(name)
    else:
        every = name == "presets"
        for preset in sorted(path.stem for path in topo.config_root().glob("*.yaml")) if every else [name]:
            few = [one for one in topo.preset(preset).subnets if not every or len(one.ends()) <= MOST_HOSTS]
            yield from {(one.n_switches, len(one.ends())): one for one in reversed(few)}.values()


def compare(fabric: topo.Fabric) -> tuple[list[str], str]:
    """Return rows of rates by pattern, and the row of the fabric without its fullest link."""
    if len(fabric.ends()) < 3:
        raise topo.HeddleError(f"{len(fabric.ends())} hosts make no pattern")
    routed = routing.route(fabric, lanes=1)
    tables, kind = adaptive.manager_groups(routed)
    rows = []
    for row in adaptive.compare_shares(routed, tables, limit=VARIABLES).rows:
        rates = (row.static, row.spread, row.static_least, row.at_least, row.spread_least, row.at_most)
        rows.append(f"| {fabric.name} | {kind} | {row.pattern} | " + " | ".join(f"{rate:.2f}" for rate in rates) + " |")
    try:
        judged = adaptive.beside_adaptive(routed).candidates
    except topo.HeddleError as error:  # more pairs at once than the budget of links on their paths
        print(f"{fabric.name}: all-to-alls of jobs: {error}", file=sys.stderr)
        return rows, failed(routed, tables)
    static = next(row for row in judged if row.engine == routed.tables.engine)
    even, most, least = judged[-3:]
    if even.jobs is not None:
        rates = (static.jobs, even.jobs, *(one.slowest_job for one in (static, least, even, most)))
        shown = " | ".join(f"{rate:.2f}" for rate in rates if rate is not None)
        rows.append(f"| {fabric.name} | {kind} | all-to-alls of jobs | {shown} |")
    return rows, failed(routed, tables)


def failed(routed: routing.Routed, tables: adaptive.AdaptiveTables) -> str:
    """Return the row of a fabric whose fullest link is down."""
    fabric = routed.fabric
    load = routing.prove(routed).load
    port = int(fabric.inner[np.argmax(load[fabric.inner])])
    left = fabric.without(np.array([port]))
    ends = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    phases = permutations(len(ends), 10, np.random.default_rng(0))
    lost = routing.prove(routing.Routed(left, routed.tables)).missing
    untold = adaptive.prove_adaptive(left, tables).count("lost")
    whole, mended = (fair_rates(one, ends, phases) for one in (
        routed, routing.repairs.repair(routed, np.array([port])).after))  # fmt: skip
    cells = [f"{lost:,}", f"{untold:,}", f"{whole[1].mean():.3f}", f"{mended[1].mean():.3f}"]
    for one in (fabric, left):
        hashed = routing.Hashed(one, SPRAY, groups=tables.groups(one))
        try:
            cells.append(f"{np.mean([hashed_rates(hashed, ends, phase).min() for phase in phases]):.3f}")
        except topo.HeddleError:
            cells.append("lost")
    return f"| {fabric.name} | {fabric.channel_label(port)} | " + " | ".join(cells) + " |"


def main(names: list[str]) -> None:
    """Print a row for each pattern of each fabric, and then one for each fabric without its fullest link."""
    print("| fabric | groups | flows | static | spread | slowest: static | at least | spread | at most |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    without = []
    for name in names:
        for fabric in fabrics_of(name):
            try:
                rows, one = compare(fabric)
            except topo.HeddleError as error:
                rows, one = [f"| {fabric.name} | none: {error} |"], ""
            print(*rows, sep="\n", flush=True)
            without += [one] if one else []
    print("\n| fabric | link down | pairs lost: static | adaptive, nobody told "
          "| slowest of a permutation: static | repaired | adaptive | without the link |")  # fmt: skip
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    print(*without, sep="\n")


if __name__ == "__main__":
    main(sys.argv[1:])
