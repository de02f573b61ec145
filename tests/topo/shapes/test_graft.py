"""Slow subtrees on fast trees, and zones that cables alone join: counts, where cables go, refusals."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from helpers.clusters import CATALOG, HDR, gpus, storage
from topo.errors import DesignError
from topo.fabric import Fabric, Role
from topo.shapes.base import HostGroup
from topo.shapes.fat_tree import FatTree
from topo.shapes.graft import Graft
from topo.shapes.rail import Planes, Rail
from topo.shapes.zones import Direct, Joints, Zones
from topo.speeds import parse_link_speed

EDR = parse_link_speed("EDR")
NDR = parse_link_speed("NDR")


def build(shape, *groups: HostGroup) -> Fabric:
    return shape.compile(groups, CATALOG, "test")[0]


def old(count: int, name: str = "old", adapters: int = 1) -> HostGroup:
    return HostGroup(name, count, "management", Role.COMPUTE, adapters, "MCX653105A-HDAT", HDR)


def grafted(*grafts: dict, switch: str = "QM8700", **tree: object) -> FatTree:
    listed = tuple(Graft(**{"nodes": ("old",), "switch": "QM8700"} | graft) for graft in grafts)
    return FatTree(switch=switch, grafts=listed, **tree)


def switches(fabric: Fabric, stem: str) -> list[int]:
    return [node for node in range(fabric.n_switches) if fabric.label(node).startswith(stem)]


def hosts_on(fabric: Fabric, switch: int) -> list[str]:
    ends = np.arange(fabric.n_switches, fabric.n_end_ports)
    on = ends[fabric.end_switch[ends] == switch]
    return [fabric.names[fabric.end_node[end]] for end in on]


def uplinks(fabric: Fabric, switch: int) -> list[int]:
    """Ports of a switch with switches behind them."""
    ports = np.arange(fabric.port_offset[switch], fabric.port_offset[switch + 1])
    return ports[(fabric.peer_node[ports] >= 0) & (fabric.peer_node[ports] < fabric.n_switches)].tolist()


def check_legal_paths(fabric: Fabric) -> None:
    """Between any two switches with hosts there is a path that climbs and then descends by levels."""
    n = fabric.n_switches
    up = nx.DiGraph()
    up.add_nodes_from(range(n))
    for a, b in fabric.port_node[fabric.links].tolist():
        if max(a, b) < n:
            assert abs(fabric.level[a] - fabric.level[b]) == 1
            up.add_edge(*sorted((a, b), key=lambda node: fabric.level[node]))
    leaves = sorted({int(switch) for switch in fabric.end_switch[n:]})
    above = [{leaf} | nx.descendants(up, leaf) for leaf in leaves]
    assert all(a & b for a in above for b in above)


def test_hdr100_on_the_spines():
    """30 leaves leave 10 ports on each of 20 spines; a leaf with 8 uplinks has 32 ports for 64 halves."""
    fabric = build(grafted({"uplinks": 8, "split": True}, leaves=30, spines=20), gpus(600), old(128))
    slow = switches(fabric, "graft0-leaf")

    assert fabric.n_switches == 30 + 20 + 2
    assert [len(hosts_on(fabric, leaf)) for leaf in slow] == [64, 64]
    assert {name[:3] for leaf in slow for name in hosts_on(fabric, leaf)} == {"old"}
    assert {name[:3] for leaf in switches(fabric, "leaf") for name in hosts_on(fabric, leaf)} == {"gpu"}
    for leaf in slow:
        ports = np.arange(fabric.port_offset[leaf], fabric.port_offset[leaf + 1])
        assert fabric.rate_gbps[ports].tolist() == [100.0] * 64 + [200.0] * 8
        assert {fabric.role[fabric.peer_node[port]] for port in uplinks(fabric, leaf)} == {Role.SPINE}
    check_legal_paths(fabric)


def test_older_leaves_on_leaf_ports():
    """Two EDR leaves take 2 x 12 ports of 40 leaves, a leaf each; the tree rises by a level to stand above them."""
    shape = grafted({"switch": "SB7800", "uplinks": 12, "onto": "leaves"}, leaves=40, spines=20)
    fabric = build(shape, gpus(776), old(48))
    slow = switches(fabric, "graft0-leaf")

    assert len(slow) == 2
    for leaf in slow:
        peers = [int(fabric.peer_node[port]) for port in uplinks(fabric, leaf)]
        assert len(set(peers)) == len(peers) == 12
        assert {int(fabric.role[peer]) for peer in peers} == {Role.LEAF}
        assert {float(fabric.rate_gbps[port]) for port in uplinks(fabric, leaf)} == {100.0}
        assert fabric.level[leaf] == 1
    assert {int(fabric.level[leaf]) for leaf in switches(fabric, "leaf")} == {2}
    assert {int(fabric.level[spine]) for spine in switches(fabric, "spine")} == {3}
    assert sum(len(hosts_on(fabric, leaf)) for leaf in switches(fabric, "leaf")) == 776
    check_legal_paths(fabric)


def test_hdr_leaves_on_ndr_spines():
    """Mixed generations: each link runs at what both its ends know."""
    shape = grafted({"uplinks": 20}, switch="QM9700", leaves=16)
    fabric = build(shape, HostGroup("gpu", 64, "dgx-b200", Role.COMPUTE, 8, "ConnectX-7-400G", NDR), old(20))
    (slow,) = switches(fabric, "graft0-leaf")

    assert {float(fabric.rate_gbps[port]) for port in uplinks(fabric, slow)} == {200.0}
    assert set(fabric.rate_gbps[fabric.peer >= 0].tolist()) == {200.0, 400.0}
    assert (fabric.rate_gbps[fabric.peer >= 0] == fabric.rate_gbps[fabric.peer[fabric.peer >= 0]]).all()
    check_legal_paths(fabric)


@given(
    leaves=st.integers(2, 12),
    spines=st.sampled_from([1, 2, 4, 5, 10, 20]),
    counts=st.lists(st.integers(0, 60), min_size=1, max_size=3),
    ups=st.lists(st.integers(1, 24), min_size=3, max_size=3),
    onto=st.lists(st.sampled_from(["spines", "leaves"]), min_size=3, max_size=3),
    split=st.booleans(),
)
def test_any_graft_is_connected_by_climbing_and_descending_or_is_refused(leaves, spines, counts, ups, onto, split):
    groups = [old(count, f"old-{'abc'[index]}") for index, count in enumerate(counts)]
    grafts = [
        {"nodes": (group.name,), "uplinks": up, "onto": where, "split": split}
        for group, up, where in zip(groups, ups, onto, strict=False)
    ]
    try:
        fabric = build(grafted(*grafts, leaves=leaves, spines=spines), gpus(leaves), *groups)
    except DesignError:
        return
    assert len(fabric.hosts) == leaves + sum(counts)
    assert (fabric.end_switch[fabric.n_switches :] >= 0).all()
    check_legal_paths(fabric)


def test_three_levels_take_grafts_in_the_pods_with_room():
    """The last of three pods has 4 leaves less, so each of its spines has 4 free ports."""
    shape = grafted({"uplinks": 20}, levels=3, leaves=56, leaves_per_pod=20)
    fabric = build(shape, gpus(56 * 20), old(40))
    slow = switches(fabric, "graft0-leaf")
    pods = {int(fabric.peer_node[port]) for leaf in slow for port in uplinks(fabric, leaf)}

    assert len(slow) == 2
    assert sorted(fabric.label(spine) for spine in pods) == [f"spine{number}" for number in range(40, 60)]
    check_legal_paths(fabric)


def test_zones_planes_and_rails_carry_grafts_too():
    tree = grafted({"uplinks": 6}, leaves=20, spines=20)
    joints = Joints(switch="QM8700", count=2, ports=20)
    zones = build(Zones(shape="zones", zones=2, tree=tree, joints=joints), gpus(700), old(50))
    plane = build(Planes(shape="planes", planes=2, tree=tree), old(30, "gpu", 2), old(40, adapters=2))
    shape = Rail(shape="rail", unit_nodes=20, tree=grafted({"nodes": ("storage",), "uplinks": 16}))
    rail = build(shape, HostGroup("gpu", 20, "dgx-a100", Role.COMPUTE, 8, "MCX653105A-HDAT", HDR), storage(4))

    assert [len(hosts_on(zones, leaf)) for leaf in switches(zones, "z1-graft0-leaf")] == [25]
    assert [len(hosts_on(plane, leaf)) for leaf in switches(plane, "p0-graft0-leaf")] == [20, 20]
    assert [len(hosts_on(rail, leaf)) for leaf in switches(rail, "graft0-leaf")] == [8]


def direct(ports: int, zones: int = 2, placement: str = "border") -> Fabric:
    tree = FatTree(switch="QM8700", leaves=10, spines=20)
    between = Direct(ports=ports, placement=placement)
    return build(Zones(shape="zones", zones=zones, tree=tree, direct=between), gpus(100 * zones))


@pytest.mark.parametrize("placement", ["border", "spread"])
@pytest.mark.parametrize(("zones", "ports"), [(2, 20), (2, 7), (3, 20), (4, 12)])
def test_cables_join_each_pair_of_zones_equally(zones, ports, placement):
    fabric = direct(ports, zones, placement)
    ends = fabric.port_node[fabric.links]
    zone = fabric.zone[ends]
    across = np.sort(zone[zone[:, 0] != zone[:, 1]], axis=1)
    leaf, given_ = np.unique(ends[zone[:, 0] != zone[:, 1]], return_counts=True)

    assert fabric.n_switches == zones * 30, "no switch between"
    assert {int(role) for role in fabric.role[leaf]} == {Role.LEAF}
    pairs, times = np.unique(across, axis=0, return_counts=True)
    assert len(pairs) == zones * (zones - 1) // 2
    assert set(times.tolist()) == {ports // (zones - 1)}
    assert np.bincount(fabric.zone[leaf], given_).tolist() == [ports] * zones
    assert nx.is_connected(nx.Graph(fabric.to_networkx()))


@pytest.mark.parametrize("both", [True, False])
def test_zones_are_joined_in_exactly_one_way(both):
    ways = {"joints": Joints(switch="QM8700", count=2, ports=20), "direct": Direct(ports=20)} if both else {}
    with pytest.raises(ValidationError, match="both `joints` and `direct`" if both else "neither `joints` nor"):
        Zones(shape="zones", zones=2, tree=FatTree(switch="QM8700"), **ways)


REFUSALS = {
    "spines without a free port": (
        lambda: build(grafted({"uplinks": 20}, leaves=40, spines=20), gpus(800), old(20)),
        ["1 leaves x 20 = 20 links", "0 ports free", "onto: leaves"],
    ),
    "spines with too few": (
        lambda: build(grafted({"uplinks": 20}, leaves=38, spines=20), gpus(760), old(60)),
        ["3 leaves x 20 = 60 links", "20 spines x 2 = 40 ports free"],
    ),
    "leaves that must share spines": (
        lambda: build(grafted({"uplinks": 4}, leaves=38, spines=20), gpus(760), old(108)),
        ["3 leaves x 4 = 12 links", "20 spines x 2", "the same ones", "2 such leaves fit", "more than 10 uplinks"],
    ),
    "a frame has no spare spine port": (
        lambda: build(grafted({"uplinks": 8}, switch="CS8500"), gpus(700), old(20)),
        ["8 links", "0 ports free"],
    ),
    "one level has no spines": (
        lambda: build(grafted({"uplinks": 1}, levels=1), gpus(20), old(1)),
        ["one level has no spines", "onto: leaves"],
    ),
    "too few grafted leaves": (
        lambda: build(grafted({"uplinks": 8, "leaves": 1}, leaves=10, spines=20), gpus(20), old(40)),
        ["graft 0", "40 old", "1 leaves x 32 = 32", "short of 8", "2 leaves"],
    ),
    "no port for nodes": (
        lambda: build(grafted({"uplinks": 40}), gpus(20), old(1)),
        ["40 uplinks + 1 port for nodes = 41", "40 ports", "at most 39"],
    ),
    "ports that cannot be split": (
        lambda: build(grafted({"uplinks": 4, "switch": "SB7800", "split": True}), gpus(20), old(1)),
        ["SB7800 cannot be split"],
    ),
    "leaf ports taken by nodes": (
        lambda: build(grafted({"uplinks": 12, "onto": "leaves"}, leaves=40, spines=20), gpus(790), old(20)),
        ["790 gpu + 12 for grafts", "= 802", "short of 2"],
    ),
    "a group on two grafts": (
        lambda: build(grafted({"uplinks": 4}, {"uplinks": 4}), gpus(20), old(1)),
        ["old", "graft 0 and on graft 1"],
    ),
    "direct cables that do not divide": (lambda: direct(7, 3), ["7 leaf ports", "2 other zones", "6 or 8"]),
    "a zone without room for direct cables": (
        lambda: build(
            Zones(shape="zones", zones=2, tree=FatTree(switch="QM8700", leaves=40, spines=20), direct=Direct(ports=20)),
            gpus(1562),
        ),
        ["781 gpu + 20 direct ports", "= 801", "short of 1"],
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_does_not_close_is_refused_with_the_arithmetic(case):
    attempt, words = REFUSALS[case]

    with pytest.raises(DesignError) as refusal:
        attempt()

    for word in words:
        assert word in str(refusal.value)
