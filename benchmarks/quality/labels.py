"""How far labels alter tables: random fabrics as they are and under other labels. For docs/validation/tables.md.

python benchmarks/quality/labels.py                      24 fabrics under four labellings each
python benchmarks/quality/labels.py --first 1 --count 5

Labels are the order of switches, adapters and ports, names, GUIDs and LIDs. In the columns of `same ranks`, jobs number
the same hosts alike under all of them, so that the score is of the same traffic; in the others, labels also say which
hosts come first. Each cell is the largest less the least score, and the largest over the least fullest link.
"""

from __future__ import annotations

import argparse

import numpy as np

from helpers.random_fabrics import draw
from helpers.relabel import relabelled, renamed
from routing.engines import balanced
from routing.order.channel_order import taken_channels
from routing.search.search import search_of
from topo.fabric import Fabric

MOST_HOSTS = 450
"""Larger fabrics are left out: they take seconds each."""


def worth(fabric: Fabric) -> tuple[float, float]:
    """Return the score and the fullest link of all pairs."""
    tables = balanced.route(fabric)
    search, _ = search_of(fabric, tables.lid)
    found = search.worth(taken_channels(search.order, tables.lft))
    return found.score, float(found.fullest[search.of_pairs].max())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=40126, help="first seed of helpers.random_fabrics.draw")
    parser.add_argument("--count", type=int, default=24, help="fabrics")
    options = parser.parse_args()
    print("| fabric | hosts | score, same ranks | fullest link | score | fullest link |\n|---|--:|--:|--:|--:|--:|")
    seed, found = options.first, []
    while len(found) < options.count:
        fabric, seed = draw(seed), seed + 1
        if len(fabric.ends()) > MOST_HOSTS:
            continue
        row, first = [], worth(fabric)
        for same_ranks in (True, False):
            every = [first]
            for label in range(3):
                rng = np.random.default_rng(label)
                every.append(worth(renamed(relabelled(fabric, rng, same_ranks=same_ranks).fabric, rng)))
            score, fullest = np.array(every).T
            row += [float(np.ptp(score)), float(fullest.max() / fullest.min() - 1)]
        found.append(row)
        cells = f"{row[0]:.3f} | {row[1]:.1%} | {row[2]:.3f} | {row[3]:.1%}"
        print(f"| {fabric.name} | {len(fabric.ends())} | {cells} |", flush=True)
    for name, of in (("median", np.median), ("worst", np.max)):
        a, b, c, d = of(np.array(found), axis=0)
        print(f"| {name} | | {a:.3f} | {b:.1%} | {c:.3f} | {d:.1%} |")


if __name__ == "__main__":
    main()
