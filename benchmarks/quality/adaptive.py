"""Static tables beside adaptive routing: the table of docs/validation/adaptive.md, for presets and dumps of fabrics.

    python benchmarks/quality/adaptive.py fire-flyer-2 dgx-h100-48 some.ibnetdiscover.gz

Groups are those of all ports up and down from the best roots, as NVIDIA's manager may make them, where they reach every
pair; else those that the static tables make legal.
"""

from __future__ import annotations

import sys
from pathlib import Path

import routing
import topo
from routing.studies import adaptive


def fabrics_of(name: str) -> list[topo.Fabric]:
    """Return the fabrics of a preset, or of a dump."""
    return [topo.read_fabric(name)] if Path(name).is_file() else list(topo.preset(name).fabrics)


def main(names: list[str]) -> None:
    """Print a row for each pattern of each fabric."""
    print("| fabric | groups | flows | static | spread | slowest: static | slowest: spread | at most |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for name in names:
        for fabric in fabrics_of(name):
            routed = routing.route(fabric, lanes=1)
            roots, proof = adaptive.choose_roots(routed)
            kind = topo.plural(len(roots), "root") if proof.holds else "legal"
            groups = proof.tables if proof.holds else adaptive.legal_tables(routed)
            for row in adaptive.compare_shares(routed, groups).rows:
                rates = (row.static, row.spread, row.static_least, row.spread_least, row.at_most)
                print(f"| {fabric.name} | {kind} | {row.pattern} |", " | ".join(f"{rate:.2f}" for rate in rates), "|")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
