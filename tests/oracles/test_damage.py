"""What random failures leave of jobs, by a graph of servers and switches."""

from functools import partial

import networkx as nx
import numpy as np
import pytest

from helpers.random_fabrics import draw
from helpers.strategies import nightly, slow_but
from simulate.cluster.degradation import Degradation, SteadyJob
from topo.fabric import Fabric, Kind
from topo.failures.reach import Failed, Reach


def graph_of(fabric: Fabric, switches: list[int], links: list[int], servers: set[str]) -> nx.Graph:
    """Servers by name, switches by number, and the cables between what works."""
    graph = nx.Graph()
    graph.add_nodes_from({fabric.server_of(node) for node in range(fabric.n_nodes) if fabric.kind[node] == Kind.HCA})
    for number, link in enumerate(fabric.port_node[fabric.links].tolist()):
        ends = [node if node < fabric.n_switches else fabric.server_of(node) for node in link]
        if number not in links and not set(switches) & set(link) and not servers & set(map(str, ends)):
            graph.add_edge(*ends)
    return graph


def meet(graph: nx.Graph, switches: set[int], a: str, b: str) -> bool:
    """Whether packets get from one to the other: servers forward none."""
    inside = graph.subgraph([*switches, a, b])
    return nx.has_path(inside, a, b)


@pytest.mark.parametrize("seed", [*slow_but(range(12), 0, 2), *(nightly(seed) for seed in range(12, 300))])
def test_servers_that_cannot_work(seed: int) -> None:
    rng, number = np.random.default_rng(seed), seed
    while (fabric := draw(number)).n_switches > 30 or len(fabric.hosts) > 60:
        number += 1009
    reach = Reach([fabric])
    degradation = Degradation(reach, ())
    order, size = rng.permutation(np.flatnonzero(reach.computes)), int(rng.integers(2, 6))
    most = 3 + fabric.n_switches // 3
    jobs = [SteadyJob(order[first : first + size], (), ()) for first in range(0, len(order), size)]
    for _ in range(6):
        switches = rng.choice(fabric.n_switches, int(rng.integers(most)), replace=False).tolist()
        links = rng.choice(len(fabric.links), int(rng.integers(0, 6)), replace=False).tolist()
        servers = set(rng.choice(reach.names, int(rng.integers(0, 3)), replace=False).tolist())
        reached = reach.without(Failed({0: switches}, {0: links}, frozenset(servers)))
        graph = graph_of(fabric, switches, links, servers)
        working = set(range(fabric.n_switches)) - set(switches)
        names = reach.names
        reaches = partial(meet, graph, working)
        alone = {a for a in names if not any(reaches(a, b) for b in names if b != a)}
        for job in jobs:
            mine = [names[server] for server in job.servers]
            there = [name for name in mine if name not in alone]
            apart = any(not reaches(a, b) for a in there for b in there if a != b)
            assert degradation.idle(job, reached) == (len(mine) if apart else len(mine) - len(there))
