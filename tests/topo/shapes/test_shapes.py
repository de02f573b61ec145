"""Every family: published counts, closed forms, and refusals with their arithmetic."""

import re
from contextlib import suppress

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from helpers.clusters import CATALOG, NDR, gpus, nodes, storage, tree, zoned
from helpers.strategies import slow_but
from topo.errors import DesignError
from topo.fabric import Fabric, Kind, Role
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.shapes.grid import HyperX, Torus
from topo.shapes.groups import BiGraph, Dragonfly, DragonflyPlus
from topo.shapes.pgft import KaryTree, Pgft
from topo.shapes.rail import Planes, Rail
from topo.shapes.slim_fly import SlimFly


def build(shape, *groups: HostGroup) -> tuple[Fabric, ...]:
    return shape.compile(groups, CATALOG, "test")


def roles(fabric: Fabric) -> tuple[int, int, int]:
    """Leaves, spines and cores."""
    count = np.bincount(fabric.role, minlength=9)
    return int(count[Role.LEAF]), int(count[Role.SPINE]), int(count[Role.CORE])


def switch_graph(fabric: Fabric) -> nx.Graph:
    graph = nx.Graph(fabric.to_networkx())
    return graph.subgraph(range(fabric.n_switches))


def between_switches(fabric: Fabric) -> int:
    return int((fabric.port_node[fabric.links] < fabric.n_switches).all(axis=1).sum())


def check_consistent(fabric: Fabric) -> None:
    """Every link has two ends that know each other, and every adapter hangs somewhere."""
    plugged = np.flatnonzero(fabric.peer >= 0)
    assert (fabric.peer[fabric.peer[plugged]] == plugged).all()
    assert (fabric.width[plugged] == fabric.width[fabric.peer[plugged]]).all()
    assert (fabric.speed[plugged] == fabric.speed[fabric.peer[plugged]]).all()
    assert (fabric.end_switch[fabric.n_switches :] >= 0).all()
    assert len(set(fabric.node_guid.tolist())) == len(set(fabric.names)) == fabric.n_nodes
    assert nx.is_connected(nx.Graph(fabric.to_networkx()))


@pytest.mark.parametrize(
    ("points", "shape", "expected"),
    [
        pytest.param(800, {}, (40, 20, 0), id="one zone of Fire-Flyer"),
        pytest.param(1600, {"levels": 3}, (80, 80, 40), id="PCIe nodes on one tree: 200"),
        pytest.param(
            10_000, {"levels": 3, "cores": 320}, (500, 500, 320), id="DGX as published: 1,320", marks=pytest.mark.slow
        ),
        pytest.param(10_000, {"levels": 3}, (500, 500, 250), id="DGX by arithmetic: 1,250", marks=pytest.mark.slow),
        pytest.param(2048, {"switch": "QM9700"}, (64, 32, 0), id="FT2 of DeepSeek-V3: 96"),
        pytest.param(600, {"oversubscription": 3.0}, (20, 5, 0), id="tapered 3:1"),
    ],
)
def test_published_and_closed_counts(points, shape, expected):
    fabric = tree(points, **shape)

    assert roles(fabric) == expected
    check_consistent(fabric)


@pytest.mark.parametrize("units", slow_but([2, 4, 8, 16, 32, 64], 2, 4, 8))
@pytest.mark.slow
def test_dgx_b200_superpod(units):
    """NVIDIA's DGX B200 SuperPOD reference architecture: nodes to leaves, spines, cores and cables of each tier."""
    nodes_, leaf, spine, core = {
        2: (64, 16, 8, 0), 4: (128, 32, 16, 0), 8: (256, 64, 32, 0),
        16: (512, 128, 128, 64), 32: (1024, 256, 256, 128), 64: (2048, 512, 512, 256),
    }[units]  # fmt: skip
    levels = 3 if core else 2
    shape = Rail(shape="rail", unit_nodes=32, tree=FatTree(switch="QM9700", levels=levels))
    (fabric,) = build(shape, nodes(nodes_, model="dgx-b200", speed=NDR))

    assert roles(fabric) == (leaf, spine, core)
    assert between_switches(fabric) == (levels - 1) * nodes_ * 8
    check_consistent(fabric)


def test_seven_units_of_dgx_a100_superpod():
    """RA-09950-001, recalled; a real one of 140 nodes has these leaves and spines."""
    shape = Rail(shape="rail", unit_nodes=20, tree=FatTree(switch="QM8790", levels=3))
    (fabric,) = build(shape, nodes(140))

    assert roles(fabric) == (56, 80, 28)


def test_a_rail_hangs_on_one_leaf_of_its_unit():
    (fabric,) = build(Rail(shape="rail", unit_nodes=20, tree=FatTree(switch="QM8700")), nodes(50))
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    node, leaf = fabric.end_node[ends], fabric.end_switch[ends]
    rail = np.array([int(fabric.names[n].rpartition("_")[2]) for n in node])
    unit = fabric.host[node] // 20

    assert len(set(zip(rail.tolist(), unit.tolist(), strict=True))) == 24
    assert len(set(zip(rail.tolist(), unit.tolist(), leaf.tolist(), strict=True))) == 24


def test_storage_on_a_fabric_of_its_own():
    shape = Rail(shape="rail", unit_nodes=20, tree=FatTree(switch="QM8700"), storage=FatTree(switch="QM8700"))
    compute, apart = build(shape, nodes(40), storage(10))

    assert int((compute.kind == Kind.HCA).sum()) == 320
    assert int((apart.kind == Kind.HCA).sum()) == 40 * 1 + 10 * 2
    assert "gpu00 mlx5_8" in apart.names


@pytest.mark.slow
@pytest.mark.parametrize(
    ("planes", "switch", "split", "per_node", "points", "switches", "links"),
    [
        pytest.param(8, "QM9700", False, 8, 16_384, 768, 16_384, id="MPFT of DeepSeek-V3"),
        pytest.param(4, "SN5600", True, 8, 32_768, 768, 32_768, id="4 planes of 128 x 400G: 32,768 GPUs"),
    ],
)
def test_planes(planes, switch, split, per_node, points, switches, links):
    shape = Planes(shape="planes", planes=planes, tree=FatTree(switch=switch, split=split))
    fabrics = build(shape, nodes(points // per_node, per_node, "dgx-b200", NDR))

    assert len(fabrics) == planes
    assert sum(fabric.n_end_ports - fabric.n_switches for fabric in fabrics) == points
    assert sum(fabric.n_switches for fabric in fabrics) == switches
    assert sum(between_switches(fabric) for fabric in fabrics) == links


def test_a_frame_is_the_same_tree_as_its_boxes():
    boxes, frame = tree(800), tree(800, switch="CS8500")

    assert roles(frame) == roles(boxes) == (40, 20, 0)
    assert (frame.peer == boxes.peer).all()


@pytest.mark.slow
@given(k=st.integers(2, 20).map(lambda half: 2 * half))
def test_two_levels_of_radix_k_hold_half_k_squared(k):
    fabric = build(KaryTree(shape="k-ary-n-tree", switch="QM8700", k=k // 2, n=2), gpus(1))[0]
    full = build(Pgft(shape="pgft", switch="QM8700", m=(k // 2, k), w=(1, k // 2)), gpus(k * k // 2))[0]

    assert roles(fabric) == (k // 2, k // 2, 0)
    assert roles(full) == (k, k // 2, 0), "3k/2 switches"
    assert between_switches(full) == k * k // 2
    check_consistent(full)


@given(adapters=st.integers(2, 8), more=st.integers(1, 5))
def test_servers_that_two_levels_hold_are_told_apart_from_their_ports(adapters: int, more: int) -> None:
    """20 ports down on 40 leaves: as many servers as the message says fit, and no more."""
    with pytest.raises(DesignError) as refused:
        build(FatTree(switch="QM8700"), nodes(800 // adapters + more, adapters))
    (most,) = re.findall(r"800 adapter ports, that is (\d+) of these servers,", str(refused.value))
    assert 800 - adapters < int(most) * adapters <= 800
    (fabric,) = build(FatTree(switch="QM8700"), nodes(int(most), adapters))
    assert len(fabric.hosts) == int(most)


@given(k=st.integers(1, 5).map(lambda half: 2 * half))
def test_three_levels_of_radix_k_hold_a_quarter_of_k_cubed(k):
    half = k // 2
    full = build(Pgft(shape="pgft", switch="QM8700", m=(half, half, k), w=(1, half, half)), gpus(half * half * k))[0]

    assert len(full.hosts) == k**3 // 4
    assert 4 * full.n_switches == 5 * k * k
    assert between_switches(full) == k**3 // 2
    check_consistent(full)


@given(k=st.integers(2, 4), n=st.integers(1, 4))
def test_k_ary_n_trees(k, n):
    """n k^(n-1) switches, k^n hosts (Petrini and Vanneschi, 1997)."""
    fabric = build(KaryTree(shape="k-ary-n-tree", switch="QM8700", k=k, n=n), gpus(k**n))[0]

    assert fabric.n_switches == n * k ** (n - 1)
    assert between_switches(fabric) == (n - 1) * k**n
    check_consistent(fabric)


@given(
    m=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    w=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    p=st.lists(st.integers(1, 3), min_size=3, max_size=3),
)
def test_pgft_switch_and_link_counts(m, w, p):
    h = len(m)
    w, p = [1, *w][:h], [1, *p][:h]
    hosts = int(np.prod(m))
    fabric = build(Pgft(shape="pgft", switch="QM8700", m=tuple(m), w=tuple(w), p=tuple(p)), gpus(hosts))[0]
    at_level = [int(np.prod(m[level:]) * np.prod(w[:level])) for level in range(h + 1)]

    assert np.bincount(fabric.level[: fabric.n_switches], minlength=h + 1).tolist() == [0, *at_level[1:]]
    assert between_switches(fabric) == sum(at_level[level] * w[level] * p[level] for level in range(1, h))
    check_consistent(fabric)


@given(side=st.integers(1, 12), parallel=st.integers(1, 3))
def test_bigraph_is_complete_and_bipartite(side, parallel):
    fabric = build(BiGraph(shape="bigraph", switch="QM8700", side=side, parallel=parallel), gpus(2))[0]

    assert nx.is_isomorphic(switch_graph(fabric), nx.complete_bipartite_graph(side, side))
    assert between_switches(fabric) == side * side * parallel


@pytest.mark.parametrize("q", slow_but([3, 4, 5, 7, 8, 9, 11, 13, 16], 3, 4, 5, 7))
def test_slim_fly_is_a_moore_like_graph(q):
    """2q^2 switches of degree (3q - d)/2 and diameter 2 (Besta and Hoefler, SC'14)."""
    fabric = build(SlimFly(shape="slim-fly", switch="QM8700", q=q, hosts=1), gpus(2 * q * q))[0]
    graph = switch_graph(fabric)
    delta = {0: 0, 1: 1, 3: -1}[q % 4]

    assert fabric.n_switches == 2 * q * q
    assert {degree for _, degree in graph.degree} == {(3 * q - delta) // 2}
    assert nx.diameter(graph) == 2


@pytest.mark.parametrize(("groups", "switches", "links"), [(9, 4, 2), (5, 4, 2), (3, 2, 1), (2, 3, 2), (1, 4, 1)])
def test_dragonfly_links_groups_evenly(groups, switches, links):
    shape = Dragonfly(shape="dragonfly", switch="QM8700", groups=groups, switches=switches, hosts=2, global_links=links)
    fabric = build(shape, gpus(2 * groups * switches))[0]
    pairs = fabric.zone[fabric.port_node[fabric.links]]
    across = pairs[pairs[:, 0] != pairs[:, 1]]

    assert len(across) == (groups * switches * links // 2 if groups > 1 else 0)
    assert len(set(np.unique(np.sort(across, axis=1), axis=0, return_counts=True)[1].tolist())) <= 1
    check_consistent(fabric)


@given(groups=st.integers(2, 12), switches=st.integers(1, 5), links=st.integers(1, 6))
def test_uneven_dragonflies_use_every_global_port_but_one_that_finds_no_other(groups, switches, links):
    """What a pair of groups has differs by one link at most, whatever the numbers are, and no group has fewer."""
    if switches * links < groups - 1:
        return
    shape = Dragonfly(shape="dragonfly", switch="QM8700", groups=groups, switches=switches, hosts=2, global_links=links)
    fabric = build(shape, gpus(2 * groups * switches))[0]
    pairs = fabric.zone[fabric.port_node[fabric.links]]
    across = pairs[pairs[:, 0] != pairs[:, 1]]
    times = np.unique(np.sort(across, axis=1), axis=0, return_counts=True)[1]

    assert len(times) == groups * (groups - 1) // 2 and times.max() - times.min() <= 1
    assert len(set(np.bincount(across.ravel(), minlength=groups).tolist())) == 1, "all groups are alike"
    assert 0 <= groups * switches * links - 2 * len(across) <= (groups if groups % 2 else 0)
    check_consistent(fabric)


@pytest.mark.slow
@pytest.mark.nightly
def test_a_dragonfly_of_511_groups_compiles():
    """Kim et al., ISCA 2008: groups of 32 switches with 16 global links each allow 513 groups, and any number below."""
    shape = Dragonfly(shape="dragonfly", switch="QM9700", groups=511, switches=32, hosts=1, global_links=16)
    fabric = build(shape, gpus(2))[0]
    assert fabric.n_switches == 511 * 32
    assert len(fabric.links) == 2 + 511 * 32 * 31 // 2 + 511 * 510 // 2 + 511


def test_dragonfly_plus_links_spines():
    shape = DragonflyPlus(shape="dragonfly+", switch="QM8700", groups=5, leaves=4, spines=4, hosts=8, global_links=2)
    fabric = build(shape, gpus(160))[0]

    assert roles(fabric) == (20, 20, 0)
    assert between_switches(fabric) == 5 * 16 + 5 * 8 // 2
    check_consistent(fabric)


@given(sizes=st.lists(st.integers(2, 5), min_size=1, max_size=3))
def test_hyperx_and_torus_are_products_of_lines(sizes):
    hyperx = build(HyperX(shape="hyperx", switch="QM8700", sizes=tuple(sizes), hosts=1), gpus(1))[0]
    torus = build(Torus(shape="torus", switch="QM8700", sizes=tuple(sizes), hosts=1), gpus(1))[0]
    full, ring = nx.empty_graph(1), nx.empty_graph(1)
    for size in sizes:
        full = nx.cartesian_product(full, nx.complete_graph(size))
        ring = nx.cartesian_product(ring, nx.cycle_graph(size) if size > 2 else nx.path_graph(2))

    assert nx.faster_could_be_isomorphic(switch_graph(hyperx), full)
    assert between_switches(hyperx) == full.number_of_edges()
    assert nx.faster_could_be_isomorphic(switch_graph(torus), ring)
    assert between_switches(torus) == ring.number_of_edges()


REFUSALS = {
    "a zone that does not close": (lambda: zoned(n_gpus=1250), ["625 gpu + 180 storage", "800", "short of 25"]),
    "storage that fills the ports": (lambda: zoned("spread", n_storage=200), ["600 gpu + 200 storage", "short of 20"]),
    "too few leaves": (lambda: tree(1000, leaves=40), ["1,000 gpu", "40 leaves x 20 = 800", "50 leaves"]),
    "two levels that are too small": (lambda: tree(1000), ["50 leaves", "800", "levels: 3"]),
    "cores that do not close": (lambda: tree(10_000, levels=3, cores=249), ["249 cores", "250"]),
    "more pods than a core has ports": (
        lambda: tree(820, levels=3, leaves_per_pod=1, spines=20, parallel=1),
        ["41 pods", "no number of cores would do"],
    ),
    "uplinks that do not divide": (lambda: tree(800, spines=7), ["20 uplinks", "7 spines", "20 would do"]),
    "not a power of a prime": (
        lambda: build(SlimFly(shape="slim-fly", switch="QM8700", q=21), gpus(1)),
        ["q = 21", "19 or 23"],
    ),
    "radix of a Slim Fly": (
        lambda: build(SlimFly(shape="slim-fly", switch="SB7800", q=23), gpus(1)),
        ["35 links", "36"],
    ),
    "groups of a Dragonfly": (
        lambda: build(
            Dragonfly(shape="dragonfly", switch="QM8700", groups=12, switches=4, hosts=2, global_links=2), gpus(1)
        ),
        ["8 of a group are global", "11 others", "short of 3", "at most 9"],
    ),
    "adapters over planes": (
        lambda: build(Planes(shape="planes", planes=3, tree=FatTree(switch="QM9700")), nodes(8)),
        ["8 adapters", "3 planes", "1, 2, 4, 8"],
    ),
    "hosts of a BiGraph": (
        lambda: build(BiGraph(shape="bigraph", switch="QM8700", side=40), gpus(1)),
        ["40 ports", "at most 39"],
    ),
    "children of a PGFT": (
        lambda: build(Pgft(shape="pgft", switch="QM8700", m=(30, 40), w=(1, 20)), gpus(1)),
        ["30 children", "50 ports", "m1 = 20"],
    ),
    "a rail unit": (
        lambda: build(Rail(shape="rail", unit_nodes=32, tree=FatTree(switch="QM8700")), nodes(64)),
        ["unit of 32", "20"],
    ),
    "joints": (lambda: zoned(ports=21), ["21 leaf ports", "2 joints", "20 or 22"]),
    "joint radix": (lambda: zoned(joints=1, ports=40), ["2 zones x 40 = 80", "40 ports", "2 joints"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_close_is_refused_with_the_arithmetic(case):
    attempt, words = REFUSALS[case]

    with pytest.raises(DesignError) as refusal:
        attempt()

    for word in words:
        assert word in str(refusal.value)


@given(st.integers(1, 20), st.integers(2, 4), st.integers(1, 3))
def test_no_leaf_of_rails_holds_two_adapters_of_a_storage_server(servers: int, adapters: int, units: int) -> None:
    shape = Rail(shape="rail", unit_nodes=4, tree=FatTree(shape="fat-tree", switch="QM8700"))
    (fabric,) = build(shape, nodes(4 * units), storage(servers, adapters))
    ends = fabric.ends(role="storage")
    pairs = np.stack([fabric.host[fabric.end_node[ends]], fabric.end_switch[ends]])
    assert np.unique(pairs, axis=1).shape[1] == servers * adapters


@pytest.mark.parametrize(("count", "stores", "asked"), [(24, 80, 31), (64, 4, 32), (62, 20, 31), (96, 8, 32)])
def test_the_unit_of_rails_that_takes_fewest_switches_is_named(count: int, stores: int, asked: int) -> None:
    """Of all units that leave ports for the others, by brute force; and the group without ports is named."""

    def unit(size: int) -> Fabric:
        shape = Rail(shape="rail", unit_nodes=size, tree=FatTree(shape="fat-tree", switch="QM9700"))
        return build(shape, nodes(count), storage(stores))[0]

    with pytest.raises(DesignError, match=r"short of \d+.*list `storage` in the `adapters`") as refused:
        unit(asked)
    switches = {}
    for size in range(1, asked):
        with suppress(DesignError):
            switches[size] = unit(size).n_switches
    named = int(re.search(r"`unit_nodes: (\d+)` \(", str(refused.value))[1])
    assert switches[named] == min(switches.values())


@given(
    count=st.integers(5, 40),
    unit=st.integers(5, 36),
    others=st.integers(1, 3),
    rail=st.booleans(),
    model=st.sampled_from(["ufm-appliance", "management"]),
)
def test_links_of_two_speeds_share_a_cage_only_where_ports_are_short(
    count: int, unit: int, others: int, rail: bool, model: str
) -> None:
    """Cage by cage, as the panel numbers them: no transceiver runs at two speeds."""
    tree = {"switch": "Q3400"}
    network = {"shape": "rail", "unit_nodes": unit, "tree": tree} if rail else {"shape": "fat-tree", **tree}
    groups = {"gpu": {"model": "dgx-b300", "count": count}, "other": {"model": model, "count": others}}
    cluster = topo.parse({"name": "x", "nodes": groups, "network": network})
    try:
        (fabric,) = cluster.fabrics
    except DesignError:
        return
    (panel,) = topo.panels([fabric], cluster.catalog)
    rates: dict[int, set[float]] = {}
    hosts = {int(fabric.peer[port]) for node in range(fabric.n_switches, fabric.n_nodes)
             for port in fabric.ports_of(node) if fabric.peer[port] >= 0}  # fmt: skip
    for port in hosts:
        rates.setdefault(int(panel.cage[port]), set()).add(float(fabric.rate_gbps[port]))
    mixed = [cage for cage, found in rates.items() if len(found) > 1]
    leaves = {int(fabric.port_node[port]) for port in hosts}
    free = sum(int(fabric.peer[port]) < 0 for leaf in leaves for port in fabric.ports_of(leaf))
    assert not mixed or free <= 2 * len(leaves)
