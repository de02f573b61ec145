"""Hashed paths beside plain walks, exact distributions, and a second splitting of flows over groups."""

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise, product
from math import comb

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

import routing
import topo
from helpers.random_fabrics import draw
from helpers.strategies import examples, fabrics
from routing.hashed import SPRAY, Hashed
from routing.studies.side_by_side import join_fabrics
from simulate.traffic.placement import rails_of_hosts
from topo.errors import HeddleError
from topo.fabric import Fabric
from topo.hostlist import natural_order


def tree(hosts: int, leaves: int, spines: int, cores: int = 0, switch: str = "QM8700") -> Fabric:
    network: dict[str, object] = {"shape": "fat-tree", "switch": switch, "leaves": leaves, "spines": spines}
    network |= {"levels": 3, "cores": cores, "leaves_per_pod": 2} if cores else {"levels": 2}
    nodes = {"gpu": {"model": "storage-3fs", "count": hosts}}
    return topo.parse({"name": "tree", "nodes": nodes, "network": network}).fabric


def graph_of(fabric: Fabric) -> "nx.Graph[int]":
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(fabric.n_switches))
    graph.add_edges_from((int(fabric.port_node[p]), int(fabric.peer_node[p])) for p in fabric.inner)
    return graph


def levels(fabric: Fabric, channel: int) -> tuple[int, int]:
    """Levels of the two ends of a channel."""
    return int(fabric.level[fabric.port_node[channel]]), int(fabric.level[fabric.peer_node[channel]])


def by_pair(hashed: Hashed, src: np.ndarray, dst: np.ndarray) -> list[dict[int, float]]:  # type: ignore[type-arg]
    """Channels and shares of each pair."""
    offset, channel, share = hashed.paths(src, dst)
    assert len(offset) == len(src) + 1
    return [dict(zip(channel[a:b].tolist(), share[a:b].tolist(), strict=True))
            for a, b in pairwise(offset)]  # fmt: skip


def pairs_of(fabric: Fabric, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    ends = fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    rng = np.random.default_rng(seed)
    return rng.choice(ends, count).astype(np.int32), rng.choice(ends, count).astype(np.int32)


@examples(60)
@given(fabric=fabrics(connected=True, ports=2), seed=st.integers(0, 99), queue_pairs=st.integers(1, 5))
def test_each_queue_pair_goes_one_of_the_shortest_ways(fabric: Fabric, seed: int, queue_pairs: int) -> None:
    if not (fabric.end_switch[fabric.ends()] >= 0).any():
        return
    graph = graph_of(fabric)
    src, dst = pairs_of(fabric, 6, seed)
    for a, b, used in zip(src, dst, by_pair(Hashed(fabric, queue_pairs, seed), src, dst), strict=True):
        if a == b:
            assert not used
            continue
        far = nx.shortest_path_length(graph, int(fabric.end_switch[a]), int(fabric.end_switch[b]))
        assert sum(used.values()) == pytest.approx(far + 2)  # each of the parts of one crosses so many links
        assert all(share * queue_pairs == pytest.approx(round(share * queue_pairs)) for share in used.values())
        balance: dict[int, float] = defaultdict(float)
        for port, share in used.items():
            balance[int(fabric.port_node[port])] -= share
            balance[int(fabric.peer_node[port])] += share
        ends = {int(fabric.end_node[a]): -1.0, int(fabric.end_node[b]): 1.0}
        if len(ends) == 2:  # of two ports of one adapter, what leaves comes back
            assert {n: v for n, v in balance.items() if abs(v) > 1e-9} == pytest.approx(ends)


@examples(60)
@given(seed=st.integers(0, 400))
@pytest.mark.slow
def test_spraying_divides_as_a_split_over_groups_of_all_shortest_next_hops(seed: int) -> None:
    fabric = draw(seed)
    src, dst = pairs_of(fabric, 5, seed)
    graph = graph_of(fabric)
    keep = [
        i
        for i in range(5)
        if src[i] != dst[i] and nx.has_path(graph, int(fabric.end_switch[src[i]]), int(fabric.end_switch[dst[i]]))
    ]
    src, dst = src[keep], dst[keep]
    inner = set(fabric.inner.tolist())
    for a, b, used in zip(src, dst, by_pair(Hashed(fabric, SPRAY), src, dst), strict=True):
        hops = nx.single_source_shortest_path_length(graph, int(fabric.end_switch[b]))
        expected: dict[int, float] = {}
        part = dict.fromkeys(hops, 0.0) | {int(fabric.end_switch[a]): 1.0}
        for here in sorted(hops, key=lambda one: -hops[one]):
            ports = [p for p in fabric.ports_of(here) if p in inner and hops[int(fabric.peer_node[p])] < hops[here]]
            for port in ports if part[here] else []:
                expected[port] = part[here] / len(ports)
                part[int(fabric.peer_node[port])] += part[here] / len(ports)
        assert {c: s for c, s in used.items() if c in inner} == pytest.approx(expected)


@pytest.mark.parametrize("fabric", [tree(16, 4, 4), tree(24, 4, 2, cores=2)], ids=["two levels", "three levels"])
def test_spraying_of_all_to_all_loads_links_of_one_kind_alike(fabric: Fabric) -> None:
    ends = fabric.ends()
    src, dst = (grid.ravel() for grid in np.meshgrid(ends, ends))
    load = np.zeros(fabric.n_ports)
    for used in by_pair(Hashed(fabric, SPRAY), src, dst):
        for channel, share in used.items():
            load[channel] += share
    level = fabric.level
    kinds = Counter((int(level[fabric.port_node[p]]), int(level[fabric.peer_node[p]])) for p in fabric.inner)
    for below, above in kinds:
        of = [
            load[p] for p in fabric.inner if (level[fabric.port_node[p]], level[fabric.peer_node[p]]) == (below, above)
        ]
        assert of == pytest.approx([of[0]] * len(of))


def fullest(balls: int, bins: int) -> dict[int, Fraction]:
    """Probability of each number of balls in the fullest of some bins, exactly."""
    ways: Counter[tuple[int, int]] = Counter({(0, 0): 1})  # balls that are placed, and the most in one bin
    for _ in range(bins):
        then: Counter[tuple[int, int]] = Counter()
        for (placed, most), count in ways.items():
            for more in range(balls - placed + 1):
                then[placed + more, max(most, more)] += count * comb(balls - placed, more)
        ways = then
    return {most: Fraction(count, bins**balls) for (placed, most), count in ways.items() if placed == balls}


def test_flows_over_equal_links_are_balls_in_bins() -> None:
    """Two leaves with 10 spines between them, two cables to each: 8 flows from one to the other, for 1,000 seeds."""
    fabric = tree(16, 2, 10)
    leaf = fabric.end_switch[fabric.ends()]
    src, dst = fabric.ends()[leaf == 0][:8], fabric.ends()[leaf == 1][:8]
    hashed, found, first = Hashed(fabric), Counter[int](), Counter[int]()
    up = [p for p in fabric.inner.tolist() if fabric.port_node[p] == 0]
    spines = sorted(set(fabric.peer_node[up].tolist()))
    for seed in range(1000):
        channel = hashed.drawn(seed).paths(src, dst).channel
        load = Counter(int(fabric.peer_node[c]) for c in channel if c in set(up))
        assert load.total() == 8
        found[max(load.values())] += 1
        first[load[spines[0]]] += 1
    chance = fullest(8, 10)
    few = [most for most in chance if 1000 * chance[most] < 5]  # too few for the test, counted together
    kinds = [most for most in chance if most not in few]
    seen = [found[most] for most in kinds] + [sum(found[most] for most in few)]
    wanted = [1000 * float(chance[most]) for most in kinds] + [1000 * float(sum(chance[most] for most in few))]
    assert chisquare(seen, wanted).pvalue > 0.001
    binomial = [1000 * comb(8, n) * 0.1**n * 0.9 ** (8 - n) for n in range(5)]
    assert chisquare([first[n] for n in range(4)] + [sum(first[n] for n in range(4, 9))],
                     [*binomial[:4], 1000 - sum(binomial[:4])]).pvalue > 0.001  # fmt: skip


def test_queue_pairs_of_one_connection_are_balls_in_bins_too() -> None:
    """Two queue pairs over 10 spines meet on one with probability 1/10: of 400 seeds 40, give or take 18 (3 sigma)."""
    fabric = tree(16, 2, 10)
    leaf = fabric.end_switch[fabric.ends()]
    src, dst = fabric.ends()[leaf == 0][:1], fabric.ends()[leaf == 1][:1]
    met = 0
    for seed in range(400):
        (used,) = by_pair(Hashed(fabric, 2, seed), src, dst)
        spines = {int(fabric.peer_node[c]) for c in used if levels(fabric, c) == (1, 2)}
        met += len(spines) == 1
    assert 22 <= met <= 58


def test_the_exact_distribution_is_that_of_all_ways_to_throw() -> None:
    thrown = Counter(max(Counter(way).values()) for way in product(range(3), repeat=5))
    assert {most: Fraction(n, 3**5) for most, n in thrown.items()} == fullest(5, 3)


def test_one_hash_on_all_switches_leaves_ports_idle_and_a_hash_each_does_not() -> None:
    """The flows that come to a spine from one leaf chose alike there, and so they do again among as many cores."""
    fabric = tree(24, 4, 2, cores=2)
    leaf = fabric.end_switch[fabric.ends()]
    far = [s for s, hops in enumerate(Hashed(fabric).hops[0]) if hops == 4]
    grid = np.meshgrid(fabric.ends()[leaf == 0], fabric.ends()[np.isin(leaf, far)])
    used, ways = {}, {p for p in fabric.inner.tolist() if levels(fabric, p) == (2, 3)}
    for one_hash in (True, False):
        channels = Hashed(fabric, one_hash=one_hash).paths(grid[0].ravel(), grid[1].ravel()).channel
        used[one_hash] = ways & set(channels.tolist())
    of_pod = {p for p in ways if fabric.port_node[p] in {fabric.port_node[c] for c in used[False]}}
    assert used[False] == of_pod and len(used[True]) <= len(of_pod) / 2


def test_the_ports_of_a_bond_lead_to_all_leaves_of_the_other_bond() -> None:
    """Two adapters of each server on two leaves: with bonds of two, a flow takes either, and arrives by either."""
    network = {"shape": "planes", "planes": 2, "tree": {"switch": "QM8700"}}
    planes = topo.parse({"name": "dual", "nodes": {"gpu": {"model": "dgx-a100", "count": 4}}, "network": network})
    fabric = join_fabrics(planes.fabrics, "dual")
    ends = fabric.ends(role="compute")
    host = fabric.host[fabric.end_node[ends]]
    src, dst = ends[host == host[0]][:1], ends[host == host[-1]][:1]
    own = fabric.port_of(rails_of_hosts(fabric)[int(host[0])][:2]).tolist()
    assert fabric.peer_node[own[0]] != fabric.peer_node[own[1]] and own[0] == fabric.port_of(src)[0]
    (alone,) = by_pair(Hashed(fabric), src, dst)
    assert alone[own[0]] == 1.0
    first = {next(iter(by_pair(Hashed(fabric, seed=seed, bond=2), src, dst)[0])) for seed in range(64)}
    assert first == set(own)
    (spread,) = by_pair(Hashed(fabric, SPRAY, bond=2), src, dst)
    assert [spread[port] for port in own] == [0.5, 0.5]


def test_what_is_out_of_bounds_is_refused() -> None:
    fabric = topo.preset("lab-20").fabric
    for wrong in ({"queue_pairs": -1}, {"queue_pairs": 129}, {"bond": 0}):
        with pytest.raises(HeddleError, match="expected"):
            Hashed(fabric, **wrong)  # type: ignore[arg-type]
    cut = fabric.without(np.flatnonzero(fabric.port_node == 0))
    ends = fabric.ends()
    lost = ends[fabric.end_switch[ends] == 0]
    assert len(Hashed(cut).paths(ends[-1:], lost[:1]).offset) == 1


def test_too_many_channels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from routing import hashed

    fabric = topo.preset("lab-20").fabric
    monkeypatch.setattr(hashed, "PATH_LINKS", replace(hashed.PATH_LINKS, limit=100))
    ends = np.repeat(fabric.ends(), 30)
    with pytest.raises(HeddleError, match="path-links"):
        routing.Hashed(fabric).paths(ends, np.roll(ends, 100))


@given(fabric=fabrics(), bond=st.integers(1, 3))
def test_a_bond_is_the_next_ports_of_a_server_and_a_switch_has_none(fabric: Fabric, bond: int) -> None:
    try:
        bonds = Hashed(fabric, bond=bond)._bonds
    except HeddleError:
        nodes = fabric.end_node[fabric.n_switches :].tolist()
        ports_of = Counter(int(fabric.host[node]) for node in nodes if fabric.host[node] >= 0)
        assert bond > 1 and (
            any(count > 1 and count % bond for count in ports_of.values())
            or all(count % bond for count in ports_of.values())
        )
        return
    assert bonds.offset[0] == 0 and bonds.offset[-1] == len(bonds.port) == len(bonds.row)
    by_server: dict[str, list[int]] = defaultdict(list)
    for end in range(fabric.n_switches, fabric.n_end_ports):
        node = int(fabric.end_node[end])
        by_server[fabric.server_of(node)].append(end)
    for server in by_server.values():
        if bond > 1:
            server.sort(key=lambda end: (natural_order(fabric.names[int(fabric.end_node[end])]), end))
        for first in range(0, len(server), bond):
            together = server[first : first + bond]
            ports = [int(fabric.port_of(np.array([end]))[0]) for end in together if fabric.end_switch[end] >= 0]
            for end in together:
                assert sorted(bonds.port[bonds.offset[end] : bonds.offset[end + 1]].tolist()) == sorted(ports)
    assert not np.diff(bonds.offset[: fabric.n_switches + 1]).any()


@examples(40)
@given(fabric=fabrics(connected=True, ports=1), seed=st.integers(0, 99), queue_pairs=st.integers(1, 5))
def test_over_groups_each_queue_pair_goes_one_way_that_they_allow(fabric: Fabric, seed: int, queue_pairs: int) -> None:
    if (fabric.end_switch[fabric.ends()] >= 0).sum() < 2:
        return
    tables = routing.studies.adaptive.legal_tables(routing.route(fabric, "balanced", lanes=1))
    src, dst = pairs_of(fabric, 6, seed)
    hashed = Hashed(fabric, queue_pairs, seed, groups=tables.groups(fabric))
    spread = by_pair(Hashed(fabric, SPRAY, groups=tables.groups(fabric)), src, dst)
    for a, b, used, every in zip(src, dst, by_pair(hashed, src, dst), spread, strict=True):
        assert set(used) <= set(every) and (a == b) == (not used)
        allowed = tables.allowed(fabric, 0, tables.lid[[b]].astype(np.int64))[0]
        assert all(allowed[port] for port in used if port in set(fabric.inner.tolist()))
        for parts in (used, every):
            balance: dict[int, float] = defaultdict(float)
            for port, share in parts.items():
                balance[int(fabric.port_node[port])] -= share
                balance[int(fabric.peer_node[port])] += share
            ends = {int(fabric.end_node[a]): -1.0, int(fabric.end_node[b]): 1.0} if a != b else {}
            assert {n: v for n, v in balance.items() if abs(v) > 1e-9} == pytest.approx(ends)
        assert all(share * queue_pairs == pytest.approx(round(share * queue_pairs)) for share in used.values())


def test_groups_that_lead_round_or_nowhere_are_no_path_and_have_no_bonds() -> None:
    fabric = topo.preset("lab-20").fabric
    groups = routing.studies.adaptive.legal_tables(routing.route(fabric)).groups(fabric)
    a, b = fabric.ends()[:1], fabric.ends()[-1:]
    with pytest.raises(HeddleError, match="expected 1 where groups are given"):
        Hashed(fabric, groups=groups, bond=2)
    near = int(fabric.end_switch[a[0]])
    down = next(port for port in fabric.ports_of(2) if fabric.peer_node[port] == near)
    for port in (None, down):  # a spine without a port, and one that sends back
        found = groups.group.copy()
        found[groups.row[b[0]], 2] = -1 if port is None else found[groups.row[a[0]], 2]
        broken = groups._replace(group=found)
        assert len(Hashed(fabric, SPRAY, groups=broken).paths(a, b).offset) == 1


@pytest.mark.parametrize(("bond", "refused"), [(2, False), (3, True), (4, True)])
def test_bonds_that_the_ports_of_servers_do_not_make_are_refused(bond: int, refused: bool) -> None:
    fabric = tree(8, 2, 2)  # servers of two ports
    if refused:
        with pytest.raises(HeddleError, match=f"with 2 ports in bonds of {bond}"):
            Hashed(fabric, bond=bond)
    else:
        assert Hashed(fabric, bond=bond).bond == bond
