"""Tables for servers with rails, judged by NCCL's all-to-all as the simulator plays it."""

import numpy as np
import pytest

import routing
import simulate
import topo
from helpers.strategies import nightly


def all_to_all_s(routed: routing.Routed, cluster: topo.Cluster, servers: slice) -> float:
    fabric = routed.fabric
    rows = np.stack([*simulate.traffic.rails_of_hosts(fabric).values()])[servers]
    inside = simulate.traffic.Servers(cluster.catalog.node("dgx-h100"), fabric, rows)
    _, flows = simulate.traffic.nccl_collective(inside, "all-to-all", 2**28)
    return simulate.play(simulate.Network.of(routed, devices=inside.tuned_devices, latency_s=0), flows).makespan_s


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "spines", "parallel"), [
    nightly(32, 10, 3), (32, 15, 2), nightly(22, 15, 2), (32, 8, 4),
])  # fmt: skip
def test_an_all_to_all_is_about_as_fast_as_under_the_best_plain_tables(unit: int, spines: int, parallel: int) -> None:
    """Some uplinks are missing, so no tables are free of contention; it took twice as long when rails were unknown."""
    tree = {"switch": "QM9700", "spines": spines, "parallel": parallel}
    network = {"shape": "rail", "unit_nodes": unit, "tree": tree}
    cluster = topo.parse({"name": "r", "nodes": {"gpu": {"model": "dgx-h100", "count": 64}}, "network": network})
    for servers in (slice(None), slice(None, None, 2)):
        ours, *plain = (
            all_to_all_s(routing.route(cluster.fabric, engine=engine), cluster, servers)
            for engine in ("auto", "fat-tree", "minhop")
        )
        assert ours <= 1.25 * min(plain)
