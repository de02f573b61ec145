"""EFLOPS' claim, played over real tables: with the rank mapping no link carries two flows at any step."""

import numpy as np
import pytest

from helpers.clusters import CATALOG, gpus
from helpers.strategies import nightly
from routing.engines.base import route
from routing.tables import RoutingTables
from simulate.traffic.collectives.algorithms import Schedule, schedule
from simulate.traffic.placement import MAPPINGS
from topo.fabric import Fabric
from topo.shapes.groups import BiGraph


def flows_of_steps(fabric: Fabric, tables: RoutingTables, plan: Schedule, ends: np.ndarray) -> list[int]:
    """Most flows on any channel between switches at each step: every flow is walked through the tables."""
    worst = []
    for step in range(plan.n_steps):
        now = plan.step == step
        at, goal = fabric.end_switch[ends[plan.src[now]]].copy(), ends[plan.dst[now]]
        flows = np.zeros(fabric.n_ports, int)
        while (moving := np.flatnonzero(at != fabric.end_switch[goal])).size:
            port = fabric.port_offset[at[moving]] + tables.lft[at[moving], tables.lid[goal[moving]]].astype(int) - 1
            np.add.at(flows, port, 1)
            at[moving] = fabric.peer_node[port]
        worst.append(int(flows.max()))
    return worst


LARGEST = nightly(1024, 32, 16)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "dfsssp"])
@pytest.mark.parametrize(("hosts", "side", "each"), [(16, 4, 2), (64, 8, 4), (256, 16, 8), LARGEST])
def test_one_flow_a_link_with_the_mapping_and_more_without(hosts, side, each, engine):
    """Partners then stand on opposite sides, with one shortest path between them, and no other pair takes it."""
    (fabric,) = BiGraph(shape="bigraph", switch="QM9700", side=side).compile([gpus(hosts)], CATALOG, "test")
    tables = route(fabric, engine).tables
    ends, rng = np.arange(fabric.n_switches, fabric.n_end_ports), np.random.default_rng(0)
    plan = schedule("allreduce", "halving-doubling", hosts)
    mapped = flows_of_steps(fabric, tables, plan, MAPPINGS["halving-doubling"](fabric, ends, rng))
    placed = flows_of_steps(fabric, tables, plan, ends)

    assert np.bincount(fabric.end_switch[ends]).tolist() == [each] * (2 * side)
    assert mapped == [1] * (2 * (hosts.bit_length() - 1))
    assert max(placed) > 1
    assert max(flows_of_steps(fabric, tables, plan, rng.permutation(ends))) > 1
