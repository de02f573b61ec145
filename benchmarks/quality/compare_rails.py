"""How long NCCL's all-to-all takes on random networks of rails, by the tables of each engine.

    python benchmarks/quality/compare_rails.py [--fabrics 12] [--seed 1]

Networks have 24 to 64 servers with eight adapters, in units that are rarely full, with fewer, as many or more uplinks
than servers of a unit; of every second one, 1 % of the cables between switches are missing. Jobs are all servers, every
second one, and the first half. Times are those of the fluid engine, as a multiple of what the fastest engine reaches on
that job.
"""

from __future__ import annotations

import argparse

import numpy as np

import routing
import simulate
import topo
from topo.errors import HeddleError

ENGINES = ("auto", "balanced", "fat-tree", "minhop", "dfsssp")
SIZE = 2**28


def draw(rng: np.random.Generator) -> topo.Cluster | None:
    """Return a random network of rails; None where it cannot be cabled."""
    count, unit = int(rng.integers(24, 65)), int(rng.integers(10, 33))
    parallel = int(rng.integers(1, 5))
    spines = max(2, round(unit * rng.choice([0.5, 0.7, 0.9, 1.0, 1.1]) / parallel))
    tree = {"switch": "QM9700", "spines": spines, "parallel": parallel}
    network = {"shape": "rail", "unit_nodes": unit, "tree": tree}
    spec = {"name": f"r{count}-{unit}-{spines}x{parallel}", "nodes": {"gpu": {"model": "dgx-h100", "count": count}}}
    try:
        cluster = topo.parse(spec | {"network": network})
        return cluster if cluster.fabric.inner.any() and count > unit else None
    except HeddleError:
        return None


def all_to_all_s(routed: routing.Routed, model: topo.NodeModel, servers: slice) -> float:
    """Return what an all-to-all takes by tables."""
    rows = np.stack([*simulate.traffic.rails_of_hosts(routed.fabric).values()])[servers]
    inside = simulate.traffic.Servers(model, routed.fabric, rows)
    _, flows = simulate.traffic.nccl_collective(inside, "all-to-all", SIZE)
    network = simulate.Network.of(routed, devices=inside.tuned_devices, latency_s=0)
    return simulate.play(network, flows).makespan_s


def main() -> None:
    """Print a row a network, and means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--fabrics", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rows: list[list[float]] = []
    print("network (servers-unit-spines x parallel), cables missing;", *ENGINES, sep="  ")
    while len(rows) < 3 * asked.fabrics:
        cluster = draw(rng)
        if cluster is None:
            continue
        fabric = cluster.fabric
        missing = len(rows) % 6 == 0
        if missing:
            fabric = fabric.without(rng.choice(fabric.inner, max(1, len(fabric.inner) // 100), replace=False))
        count = len(fabric.hosts)
        tables = [routing.route(fabric, engine=engine) for engine in ENGINES]
        model = cluster.catalog.node("dgx-h100")
        for servers in (slice(None), slice(None, None, 2), slice(0, count // 2)):
            times = [all_to_all_s(one, model, servers) for one in tables]
            rows.append([time / min(times) for time in times])
        print(cluster.name, missing, *(f"{time:.2f}" for row in rows[-3:] for time in row), flush=True)
    print("mean", *np.round(np.exp(np.log(rows).mean(axis=0)), 3))
    print("worst", *np.round(np.max(rows, axis=0), 2))


if __name__ == "__main__":
    main()
