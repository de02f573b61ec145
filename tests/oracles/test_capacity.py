"""Capacity of small networks for random needs, judged by all sets of switches, linear programs and a graph."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, product

import networkx as nx
import numpy as np
import pytest

from costmodel import Needs
from costmodel.optimise.capacity import COMPUTE, JOB, measure_capacity
from costmodel.optimise.problem import Problem
from helpers.clusters import CATALOG
from helpers.networks import Plain, halves_of, plain
from helpers.strategies import nightly, slow_but
from topo.amounts import Verdict
from topo.fabric import Role

RATE = 200.0
SHARES = (0.0, 0.2, 0.25, 1 / 3, 0.4, 0.5, 0.6, 0.75, 1.0)
"""Some are met by no more than what these networks have, which is a quotient of small numbers."""


def drawn(seed: int) -> tuple[list[Plain], Needs]:
    """One or two subnets with the same servers, and needs of all kinds."""
    rng, first = np.random.default_rng(seed), plain(seed, most_hosts=6)
    stores = int(rng.integers(0, 5))

    def subnet(network: Plain, hosts: tuple[int, ...]) -> Plain:
        on = np.bincount(rng.integers(0, network.n, stores), minlength=network.n)
        return replace(network, hosts=hosts, storage=tuple(on.tolist()))

    networks, servers = [subnet(first, first.hosts)], sum(first.hosts)
    if rng.random() < 0.4:
        other = plain(seed + 1)
        at = np.bincount(rng.integers(0, other.n, servers), minlength=other.n)
        networks.append(subnet(other, tuple(at.tolist())))
    sizes = rng.choice([*range(1, servers + 1), servers, servers], 2).tolist()
    mix = [{"size": size, "share": 0.5} for size in sizes] if sizes[0] != sizes[1] and rng.random() < 0.3 else sizes[0]
    has = {
        "compute": min(network.worst_share() for network in networks),
        "storage": sum(map(stores_send, networks)) / 8,
    }
    asked: dict[str, float | str] = {}
    for role in ["compute", "storage"][: 1 + bool(stores)]:
        if (turn := int(rng.integers(4))) == 1:
            asked[role] = float(rng.choice(SHARES))
        elif turn == 2:  # a half of all servers at this rate
            asked[role] = f"{12.5 * int(rng.integers(1, 9))} GB/s"
        elif turn == 3:  # what there is, or too much
            more = float(rng.choice([1.0, 1.01]))
            asked[role] = min(1.0, has[role] * more) if role == "compute" else f"{has[role] * more:g} GB/s"
    needs = {
        "name": "a",
        "nodes": {"host": {"model": "pcie-a100", "count": servers}}
        | ({"st": {"model": "storage-3fs", "count": stores}} if stores else {}),
        "switches": ["QM8700"],
        "job": {
            "nodes": mix,
            "bisection": float(rng.choice(SHARES)),
            "with_storage": bool(rng.random() < 0.5),
            "alone": bool(rng.random() < 0.3),
        },
        "bandwidth": asked,
        "survives_a_switch": bool(rng.random() < 0.5),
    }
    return networks, Needs.model_validate(needs)


def windows(servers: int, needs: Needs) -> list[range]:
    """Jobs of each size side by side, on its share of the servers; a size of more servers than these have is theirs."""
    found, first = [], 0
    for size, share in needs.job.sizes.items():
        room = min(round(servers * share), servers - first)
        size = min(size, room)
        while size > 1 and room >= size:
            found.append(range(first, first + size))
            first, room = first + size, room - size
        first += room
    return found


def least_share(network: Plain, jobs: list[np.ndarray]) -> float:
    """The least quotient over all sets of switches of what leaves a set and what the worst halves ask of that."""
    least = 1.0
    for inside in (np.array(side, float) for side in product([0, 1], repeat=network.n)):
        leaving = (inside @ network.gbps * (1 - inside)).sum()
        asked = sum(max((abs((one - other) @ inside) for one, other in halves_of(each)), default=0.0) for each in jobs)
        least = min(least, leaving / asked if asked > 1e-6 else 1.0)
    return least


def job_share(networks: list[Plain], needs: Needs) -> float:
    """Jobs at once, or each alone; the storage sends and receives beside them as one more job."""
    shares = [1.0]
    jobs = windows(sum(networks[0].hosts), needs)
    for at_once in [[job] for job in jobs] if needs.job.alone else [jobs] * bool(jobs):
        for network in networks:
            stores = [np.eye(network.n)[at] * RATE for at, count in enumerate(network.storage) for _ in range(count)]
            beside = [np.array(stores)] if stores and needs.job.with_storage else []
            shares.append(least_share(network, [network.servers[list(job)] for job in at_once] + beside))
    return min(shares)


def stores_send(network: Plain) -> float:
    """The most that all storage servers together get to all compute servers, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from(["from", "to"])
    for switch in range(network.n):
        graph.add_edge("from", switch, capacity=RATE * network.storage[switch])
        graph.add_edge(switch, "to", capacity=RATE * network.hosts[switch])
    for a, b in product(range(network.n), repeat=2):
        if network.gbps[a, b]:
            graph.add_edge(a, b, capacity=network.gbps[a, b])
    return float(nx.maximum_flow_value(graph, "from", "to"))


def pairs(networks: list[Plain], lost: tuple[int, int] | None = None) -> set[frozenset[tuple[str, int]]]:
    """Pairs of servers with a compute server that some subnet connects; lost is a subnet and one of its switches."""
    found = set()
    for number, network in enumerate(networks):
        graph = nx.Graph()
        graph.add_nodes_from(range(network.n))
        graph.add_edges_from((a, b) for a, b, _ in network.cables)
        if lost is not None and lost[0] == number:
            graph.remove_node(lost[1])
        for part in nx.connected_components(graph):
            here = {one for one, switch in on(network) if switch in part}
            found |= {frozenset(pair) for pair in combinations(sorted(here), 2) if "host" in {pair[0][0], pair[1][0]}}
    return found


def on(network: Plain) -> Iterator[tuple[tuple[str, int], int]]:
    for role, counts in (("host", network.hosts), ("store", network.storage)):
        for number, switch in enumerate(at for at, count in enumerate(counts) for _ in range(count)):
            yield (role, number), switch


def parts_servers(networks: list[Plain]) -> bool:
    """Whether the loss of a switch parts a pair of servers, both with a port elsewhere."""
    whole = pairs(networks)
    for number, network in enumerate(networks):
        for switch in range(network.n):
            elsewhere = {
                one for at, each in enumerate(networks) for one, has in on(each) if (at, has) != (number, switch)
            }
            if any(pair <= elsewhere for pair in whole - pairs(networks, (number, switch))):
                return True
    return False


@pytest.mark.parametrize("seed", [*slow_but(range(60), *range(12)), *(nightly(seed) for seed in range(60, 1000))])
def test_each_need_is_met_or_missed_as_a_plain_count_has_it(seed: int) -> None:
    networks, needs = drawn(seed)
    fabrics = [replace(network.fabric(), name=f"rail{at}") for at, network in enumerate(networks)]
    capacity = measure_capacity(fabrics, Problem(needs, CATALOG))
    servers, stores = sum(networks[0].hosts), sum(networks[0].storage)
    wanted = {JOB: job_share(networks, needs) >= needs.job.bisection - 1e-9}
    compute, storage = needs.bandwidth.compute, needs.bandwidth.storage
    if compute:
        share = min(network.worst_share() for network in networks)
        wanted[COMPUTE] = share >= compute.share_of(RATE * len(networks) * servers / 2) - 1e-9
    if storage and not storage.gbps:
        sent = [
            network.carried(RATE * np.array(network.storage), RATE * np.array(network.hosts), at_most=True)
            for network in networks
        ]
        wanted["bandwidth of storage"] = min(sent) >= storage.share - 1e-7
    if storage:
        sent_gbps = sum(map(stores_send, networks))
        assert capacity.serving_gbps == {Role.STORAGE: pytest.approx(sent_gbps)}
        if storage.gbps:
            wanted["bandwidth of storage"] = sent_gbps >= storage.gbps - 1e-6
    if needs.survives_a_switch:
        wanted["survives a switch"] = not parts_servers(networks)
    words = {True: Verdict.HOLDS, False: Verdict.EXCEEDED}
    assert {check.what: check.verdict for check in capacity.checks} == {
        what: words[met] for what, met in wanted.items()
    }
    assert capacity.verdict is words[all(wanted.values())]
    assert stores or not needs.bandwidth.storage
