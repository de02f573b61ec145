"""Ports of switches are conserved, whatever the shape."""

from collections import Counter, defaultdict
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import topo
from helpers.clusters import CATALOG, clusters
from helpers.strategies import examples, slow_but
from helpers.trees import grow_tree
from topo.catalog.load import load_catalog
from topo.cluster import parse
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.shapes.fat_tree import FatTree


@pytest.mark.parametrize(
    "name", ["lab-20", "torus", "dragonfly", "eflops-bigraph", "direct-zones", "hdr-on-ndr", "pgft"]
)
def test_every_port_is_counted_once(name: str) -> None:
    fabrics = topo.preset(name).fabrics
    classes = topo.count_ports(fabrics, CATALOG).classes
    assert sum(row.switches for row in classes) == sum(fabric.n_switches for fabric in fabrics)
    assert sum(row.ports for row in classes) == sum(fabric.first_adapter_port for fabric in fabrics)
    assert sum(row.free for row in classes) == sum(int(np.sum(f.peer[: f.first_adapter_port] < 0)) for f in fabrics)
    assert all(row.down + row.up + row.across + row.free == row.ports for row in classes)


@pytest.mark.parametrize(("servers", "free"), [(48, 0), (30, 18)])
def test_a_port_for_uplinks_alone_is_none_for_servers(servers: int, free: int) -> None:
    """An SN2201 has 48 ports of 1 Gb/s and 4 of 100 Gb/s; alone it uses none of the latter."""
    network = {"shape": "fat-tree", "switch": "SN2201"}
    spec = {"name": "m", "nodes": {"gpu": {"model": "dgx-h100", "count": servers}},
            "network": {"shape": "fat-tree", "switch": "QM9700"},
            "networks": {"mgmt": {"network": network, "adapters": {"gpu": 1}, "adapter": "BMC-1GE"}}}  # fmt: skip
    cluster = topo.parse(spec)
    (leaf,) = topo.count_ports(cluster.fabrics[-1:], cluster.catalog).classes
    assert (leaf.ports, leaf.down, leaf.free, leaf.free_uplinks) == (52, servers, free, 4)
    assert leaf.free_told == f"{free} of 52 (leaf SN2201; 4 others are for uplinks alone)"


def test_a_taper_is_that_of_the_spec() -> None:
    leaf, _ = topo.count_ports(topo.preset("tapered-three-to-one").fabrics, CATALOG).classes
    assert leaf.taper == pytest.approx(3.0, rel=0.1)


@pytest.mark.parametrize("name", ["lab-20", *slow_but(["fire-flyer-2", "direct-zones", "dragonfly"])])
def test_free_ports_of_zones_add_up(name: str) -> None:
    (fabric,) = topo.preset(name).fabrics
    for row in topo.count_ports([fabric], CATALOG).classes:
        mine = [s for s in range(fabric.n_switches) if topo.Role(int(fabric.role[s])).name.lower() == row.role]
        free = {
            zone: sum(
                int(np.count_nonzero(fabric.peer[fabric.port_offset[s] : fabric.port_offset[s + 1]] < 0))
                for s in mine
                if fabric.zone[s] == zone
            )
            for zone in {int(fabric.zone[s]) for s in mine}
        }
        assert row.free_by_zone == (free if len(free) > 1 else {})


@pytest.mark.parametrize("seed", range(5))
def test_each_slow_cable_is_counted_at_its_speed(seed: int) -> None:
    """Some cables between leaves and spines of a tree are made slow; counted again cable by cable."""
    fabric, rng = topo.preset("tapered-three-to-one").fabric, np.random.default_rng(seed)
    speed, found = fabric.speed.copy(), Counter[str]()
    inner = rng.permutation(fabric.inner_links)
    for a, b in inner[: rng.integers(1, 9)].tolist():
        name = str(rng.choice(["QDR", "EDR"]))
        speed[a if rng.random() < 0.5 else b] = topo.SPEEDS.index(name)  # a cable runs at the speed of its slower end
        found[name] += 1
    said = topo.slow_cables(replace(fabric, speed=speed))
    assert sorted(line.partition(":")[0] for line in said) == sorted(
        f"{count} of {len(inner)} cables between leaf and spine {verb} at 4x{name} beside 4xHDR"
        for name, count in found.items()
        for verb in ("run" if count > 1 else "runs",)
    )


@pytest.mark.parametrize("seed", range(8))
def test_switches_with_other_links_than_most_are_named(seed: int) -> None:
    """Some cables of a tree of three levels are pulled; links upwards are counted again, pod by pod, from edges."""
    rng = np.random.default_rng(seed)
    fabric = grow_tree((4, 8, 7), (1, 3, 4), (1, 2, 2))
    assert topo.uneven_links(fabric) == ()
    fabric = fabric.without(rng.choice(fabric.inner_links[:, 0], rng.integers(1, 4), replace=False))
    up = {switch: Counter[str]() for switch in range(fabric.n_switches)}
    for a, b in fabric.inner_links.tolist():
        low, high = sorted((int(fabric.port_node[port]) for port in (a, b)), key=lambda at: fabric.level[at])
        up[low][fabric.label(high)] += 1
    usual = {1: 6, 2: 8}
    fewer = {at: links for at, links in up.items() if links.total() < usual.get(int(fabric.level[at]), 0)}
    said = topo.uneven_links(fabric)
    assert {line.partition(" has ")[0] for line in said} == {fabric.label(at) for at in fewer}
    for at, links in fewer.items():
        (line,) = (line for line in said if line.startswith(f"{fabric.label(at)} has "))
        assert f"has {links.total()} link" in line and f" peers have {usual[int(fabric.level[at])]}" in line
        least = [name for name, count in links.items() if count == 1]
        assert all(f"1 instead of 2 to {name}" in line for name in least)


def test_as_many_are_named_as_are_asked_for() -> None:
    """Ten of 24 switches miss a cable, and ten cables are narrow: three of each are named, or all."""
    fabric = grow_tree((4, 24), (1, 6), (1, 2))
    leaves, first = np.unique(fabric.port_node[fabric.inner_links].min(axis=1), return_index=True)
    assert len(leaves) == 24
    pulled = fabric.inner_links[first[:10], 0]
    said = topo.uneven_links(fabric.without(pulled))
    assert len(said) == 4 and said[-1] == "7 more of these 24 differ from the 14"
    assert len(topo.uneven_links(fabric.without(pulled), 99)) == 10
    width = fabric.width.copy()
    width[fabric.inner_links[first[:10]]] = 1
    (some,), (every,) = (topo.slow_cables(replace(fabric, width=width), *most) for most in ((), (99,)))
    assert (some.count(" to "), every.count(" to ")) == (3, 10) and some.endswith(" and 7 more")


@examples(15)
@given(gpus=st.integers(1, 40), stores=st.integers(1, 9), zones=st.integers(1, 3), taper=st.sampled_from([1.0, 3.0]))
@example(gpus=30, stores=3, zones=2, taper=1.0)
def test_a_network_has_figures_of_its_own(gpus: int, stores: int, zones: int, taper: float) -> None:
    """Beside another network it has the ports, the taper and the zones that it has alone: recounted port by port."""
    tree = {"switch": "QM8700"}
    first = {"shape": "fat-tree", **tree}
    if zones > 1:
        joints = {"switch": "QM8700", "count": 1, "ports": 4}
        first = {"shape": "zones", "zones": zones, "tree": tree, "joints": joints}
    cluster = topo.parse(
        {
            "name": "two",
            "nodes": {"gpu": {"model": "dgx-a100", "count": gpus}, "store": {"model": "storage-3fs", "count": stores}},
            "network": first,
            "networks": {
                "storage": {
                    "network": {"shape": "fat-tree", **tree, "oversubscription": taper},
                    "adapters": {"gpu": 1, "store": 2},
                }
            },
        }
    )
    expected: Counter[tuple[str, str, str]] = Counter()
    tapers: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for fabric in cluster.fabrics:
        for switch in range(fabric.n_switches):
            role = topo.Role(int(fabric.role[switch])).name.lower()
            own: Counter[str] = Counter()
            for port in fabric.ports_of(switch):
                far = int(fabric.peer_node[port])
                if far < 0:
                    way = "free"
                elif topo.Role.JOINT in fabric.role[[switch, far]] and far < fabric.n_switches:
                    way = "down" if fabric.role[switch] == topo.Role.JOINT else "across"
                elif far >= fabric.n_switches or fabric.level[far] < fabric.level[switch]:
                    way = "down"
                else:
                    way = "up" if fabric.level[far] > fabric.level[switch] else "across"
                expected[fabric.name, role, way] += 1
                own[way] += 1
            if own["up"]:
                tapers[fabric.name, role].append(own["down"] / own["up"])
    rows = topo.count_ports(cluster.fabrics, cluster.catalog).classes
    found = {
        (row.network, row.role, way): getattr(row, way) for row in rows for way in ("down", "up", "across", "free")
    }
    assert {key: number for key, number in found.items() if number} == dict(expected)
    for row in rows:
        fullest = max(tapers[row.network, row.role], default=None)
        assert row.taper == (None if fullest is None else pytest.approx(fullest))
    assert cluster.counts.zones == zones


@examples(15)
@given(
    units=st.integers(1, 4),
    unit=st.integers(1, 32),
    left_out=st.integers(0, 31),
    model=st.sampled_from(["dgx-h100", "dgx-a100"]),
)
def test_a_default_tree_carries_all_and_has_the_fewest_spines(units: int, unit: int, left_out: int, model: str) -> None:
    """No leaf is tapered, one link fewer to each spine is tapered, and one spine fewer is refused or tapered."""
    count = max(units * unit - left_out, 1)
    switch = "QM9700" if model == "dgx-h100" else "Q3400"

    def build(**keys: int) -> Fabric:
        tree = {"switch": switch, "levels": 2, **keys}
        network = {"shape": "rail", "unit_nodes": unit, "tree": tree}
        return parse({"name": "r", "nodes": {"gpu": {"model": model, "count": count}}, "network": network}).fabric

    def worst(fabric: Fabric) -> float:
        leaves = [n for n in range(fabric.n_switches) if fabric.role[n] == Role.LEAF]
        shares = []
        for leaf in leaves:
            ports = [p for p in range(fabric.n_ports) if fabric.port_node[p] == leaf and fabric.peer[p] >= 0]
            up = sum(fabric.rate_gbps[p] for p in ports if fabric.peer_node[p] < fabric.n_switches)
            down = sum(fabric.rate_gbps[p] for p in ports if fabric.peer_node[p] >= fabric.n_switches)
            shares.append(down / up)
        return max(shares)

    plain = build()
    spines = int(sum(plain.role[: plain.n_switches] == Role.SPINE))
    if not spines:  # all in one switch
        return
    leaves = int(sum(plain.role[: plain.n_switches] == Role.LEAF))
    parallel = len(plain.inner_links) // leaves // spines
    assert worst(plain) <= 1 + 1e-9
    assert parallel == 1 or worst(build(spines=spines, parallel=parallel - 1)) > 1
    if spines > 2:
        for links in range(1, 33):
            try:
                narrower = build(spines=spines - 1, parallel=links)
            except DesignError:
                continue
            assert worst(narrower) > 1


def test_slow_adapters_need_fewer_uplinks() -> None:
    """20 adapters of 200 Gb/s send what five uplinks of 800 Gb/s carry: two spines with three links to each leaf."""
    network = {"shape": "rail", "unit_nodes": 20, "tree": {"switch": "Q3400"}}
    spec = {"name": "slow", "nodes": {"gpu": {"model": "dgx-a100", "count": 40}}, "network": network}
    assert len(parse(spec).fabric.inner_links) == 16 * 2 * 3


def test_the_rails_of_a_b300_pod_have_an_uplink_for_each_port() -> None:
    network = {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "Q3400"}}
    fabric = parse({"name": "pod", "nodes": {"gpu": {"model": "dgx-b300", "count": 64}}, "network": network}).fabric
    assert (len(fabric.ends()), len(fabric.inner_links), fabric.n_switches) == (512, 512, 20)


@examples(15)
@given(ports=st.integers(1, 1_600), taper=st.sampled_from([1.0, 1.5, 3.0]))
def test_uplinks_by_need_are_no_more_and_taper_as_asked_on_any_levels(ports: int, taper: float) -> None:
    """On two and three levels no leaf is tapered more than the spec says, and nothing costs more than all uplinks."""
    for levels in (2, 3):
        keys = {"switch": "QM8700", "levels": levels, "oversubscription": taper}
        spec = {"name": "t", "nodes": {"gpu": {"model": "pcie-a100", "count": ports}}}
        try:
            fabric = parse({**spec, "network": {"shape": "fat-tree", **keys}}).fabric
        except DesignError:
            continue
        full = FatTree(**keys).size(ports, load_catalog())
        assert (fabric.n_switches, len(fabric.inner_links)) <= (full.switches, full.switch_links)
        for leaf in (n for n in range(fabric.n_switches) if fabric.role[n] == Role.LEAF):
            far = fabric.peer_node[fabric.ports_of(leaf)]
            down, up = int((far >= fabric.n_switches).sum()), int(((far >= 0) & (far < fabric.n_switches)).sum())
            assert down <= up * taper + 1e-9


@given(clusters())
def test_who_can_run_the_subnet_manager_is_told(cluster: topo.Cluster) -> None:
    """By names of hosts and cables, one by one."""
    for fabric in cluster.fabrics:
        hung = {fabric.names[node] for node in range(fabric.n_switches, fabric.n_nodes)}
        others = {name for name in hung if not name.startswith("gpu")}
        leaves = {int(fabric.peer_node[fabric.port_offset[node]]) for node in range(fabric.n_switches, fabric.n_nodes)}
        free = sum(int(fabric.peer[port]) < 0 for leaf in leaves for port in fabric.ports_of(leaf))
        said = topo.lacks_manager(fabric)
        assert bool(said) == (not others)
        if said:
            assert said.startswith(f"all {len(hung)} host ports")
            assert ("no port of a leaf" in said) == (free == 0) and (free < 2 or f" {free:,} ports" in said)


@examples(15)
@given(gpus=st.integers(1, 900), levels=st.sampled_from([2, 3]), zones=st.integers(1, 2))
def test_cores_and_spines_that_no_pair_of_servers_needs_are_named(gpus: int, levels: int, zones: int) -> None:
    """A graph of cables without them, by networkx, still connects every two servers."""
    tree = {"switch": "QM8700", "levels": levels}
    network: dict[str, object] = {"shape": "fat-tree", **tree}
    if zones > 1:
        network = {
            "shape": "zones",
            "zones": zones,
            "tree": tree,
            "joints": {"switch": "QM8700", "count": 1, "ports": 4},
        }
    spec = {"name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": gpus}}, "network": network}
    try:
        fabric = parse(spec).fabric
    except DesignError:
        return

    def connected(gone: set[Role]) -> bool:
        kept = [n for n in range(fabric.n_nodes) if n >= fabric.n_switches or fabric.role[n] not in gone]
        graph = nx.Graph(fabric.port_node[fabric.links].tolist()).subgraph(kept)
        hosts = [n for n in kept if n >= fabric.n_switches]
        return len({frozenset(nx.node_connected_component(graph, host)) for host in hosts}) == 1

    roles = set(fabric.role[: fabric.n_switches].tolist())
    upper = {Role.CORE, Role.JOINT}
    idle = [role for role, above in ((Role.CORE, upper), (Role.SPINE, upper | {Role.SPINE}))
            if role in roles and connected(above)]  # fmt: skip
    said = topo.idle_level(fabric)
    assert bool(said) == bool(idle)
    if idle:
        names = topo.expand(said.partition(" carry")[0])
        assert {*names} == {fabric.label(n) for n in range(fabric.n_switches) if fabric.role[n] == idle[0]}


def test_rails_go_by_the_names_of_adapters_in_whatever_order_they_stand() -> None:
    network = {"shape": "rail", "unit_nodes": 6, "tree": {"switch": "QM9700"}}
    fabric = parse({"name": "r", "nodes": {"gpu": {"model": "dgx-h100", "count": 12}}, "network": network}).fabric
    adapters = fabric.n_switches + np.random.default_rng(5).permutation(fabric.n_nodes - fabric.n_switches)
    order = np.concatenate([np.arange(fabric.n_switches), adapters])
    names = tuple(fabric.names[node] for node in order)
    rail = topo.rail_numbers(replace(fabric, names=names, host=fabric.host[order]))
    of_server: dict[str, list[tuple[int, int]]] = {}
    for end in fabric.ends().tolist():
        server, device = names[fabric.end_node[end]].split()
        of_server.setdefault(server, []).append((int(device.removeprefix("mlx5_")), int(rail[end])))
    assert len(of_server) == 12
    assert all([number for _, number in sorted(ports)] == [*range(8)] for ports in of_server.values())
    assert set(rail[: fabric.n_switches].tolist()) == {-1}
