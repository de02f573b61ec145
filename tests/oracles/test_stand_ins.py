"""What a failed rack takes from the others, by a graph of servers and switches: switches that stand in are apart."""

from itertools import combinations

import networkx as nx
import numpy as np
import pytest

import plan
import topo
from helpers.strategies import nightly, slow_but
from plan.render.verdict import verdict_line
from topo.fabric import Kind
from topo.floor.racks import FloorPlan, Layout


def random_cluster(rng: np.random.Generator) -> topo.Cluster:
    """Servers with two adapters in a tree, rails beside a storage network, or two joined zones, in some room."""
    kind = rng.choice(["tree", "rail", "zones"])
    nodes = {"gpu": {"model": "dgx-h100", "count": int(rng.integers(8, 40))}}
    networks: dict[str, object] = {}
    if kind == "tree":
        leaves = int(rng.integers(-(-nodes["gpu"]["count"] * 8 // 30), 16)) if nodes["gpu"]["count"] < 20 else None
        network: dict[str, object] = {"shape": "fat-tree", "switch": "QM9700", "levels": 2}
        network |= {"leaves": max(leaves, 8)} if leaves else {}
    elif kind == "rail":
        network = {"shape": "rail", "unit_nodes": int(rng.integers(8, 33)), "tree": {"switch": "QM9700"}}
        nodes["storage"] = {"model": "storage-ndr", "count": int(rng.integers(2, 10))}
        tree = {"shape": "fat-tree", "switch": "QM9700", "leaves": 4, "spines": 2}
        networks["storage"] = {"network": tree, "adapters": {"gpu": 2, "storage": 2}}
    else:
        nodes = {"gpu": {"model": "dgx-a100", "count": 2 * int(rng.integers(4, 12))}}
        joints = {"switch": "QM8700", "count": 2, "ports": 2 * int(rng.integers(4, 9))}
        network = {"shape": "zones", "zones": 2, "tree": {"switch": "QM8700", "leaves": 10}, "joints": joints}
    floor = {
        "rack_units": int(rng.integers(30, 53)),
        "switches": str(rng.choice(["servers", "middle", "end"])),
        **({"rack_power": "45 kW"} if rng.random() < 0.5 and "storage" not in nodes else {}),
        **({"rows": int(rng.integers(1, 4))} if rng.random() < 0.5 else {}),
    }
    return topo.parse({"name": "x", "nodes": nodes, "network": network, "networks": networks, "floor": floor})


def left_of(cluster: topo.Cluster, layout: Layout, rack: int) -> tuple[nx.Graph, list[str]]:
    """Servers and switches outside a rack with their cables, and the names of these servers."""
    graph, servers = nx.Graph(), set()
    for subnet, fabric in enumerate(cluster.fabrics):
        stands = layout.rack[layout.node_device[subnet]]
        for node in np.flatnonzero((fabric.kind == Kind.HCA) & (stands != rack)).tolist():
            servers.add(fabric.server_of(node))
        for ends in fabric.port_node[fabric.links].tolist():
            if rack not in stands[ends]:
                graph.add_edge(
                    *((subnet, node) if node < fabric.n_switches else fabric.server_of(node) for node in ends)
                )
    return graph, sorted(servers)


@pytest.mark.parametrize("seed", [*slow_but(range(16), 0, 1, 2, 3), *(nightly(seed) for seed in range(16, 300))])
def test_a_rack_takes_only_its_own_servers(seed: int) -> None:
    """Servers forward no packet: those outside must meet over switches that still run."""
    cluster = random_cluster(np.random.default_rng(seed))
    layout = cluster.layout
    assert layout is not None
    if layout.n_racks == 1:
        return
    for rack in range(layout.n_racks):
        graph, servers = left_of(cluster, layout, rack)
        switches = [node for node in graph if not isinstance(node, str)]
        whole = nx.Graph(graph.subgraph(switches))
        number = {node: at for at, part in enumerate(nx.connected_components(whole)) for node in part}
        on = {name: {number[node] for node in graph[name]} if name in graph else set() for name in servers}
        assert all(on[a] & on[b] for a, b in combinations(servers, 2)), layout.rack_name(rack)
    losses = topo.find_losses(cluster.fabrics, cluster.catalog, layout)
    assert [check.verdict for check in losses.survived(["rack"])] == ["holds"]


@pytest.mark.parametrize("seed", range(8))
def test_half_of_the_spines_of_a_leaf_stand_in_a_rack_at_most(seed: int) -> None:
    cluster = random_cluster(np.random.default_rng(seed))
    layout = cluster.layout
    assert layout is not None
    for subnet, fabric in enumerate(cluster.fabrics):
        stands = layout.rack[layout.node_device[subnet]]
        for leaf in range(fabric.n_switches):
            above = {
                int(far) for far in fabric.peer_node[fabric.ports_of(leaf)] if fabric.level[far] > fabric.level[leaf]
            }
            for role in {int(fabric.role[far]) for far in above}:
                racks = [int(stands[far]) for far in above if fabric.role[far] == role]
                most = max(map(racks.count, racks))
                assert most <= -(-len(racks) // 2) or layout.n_racks == 1


def test_a_room_too_small_for_them_is_refused_and_together_they_fit_and_the_verdict_has_the_cure() -> None:
    """Two racks hold 8 servers and one all switches."""
    floor: dict[str, object] = {"rack_units": 36, "rows": 1, "racks_per_row": 3, "switches": "end"}
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-h100", "count": 8}},
        "network": {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700"}},
    }
    with pytest.raises(topo.HeddleError, match=r"4 racks are needed.*short of 1.*`stand_ins: together`"):
        _ = topo.parse(spec | {"floor": floor}).layout
    for more, racks, line in (
        ({"stand_ins": "together"}, 3, "one rack separates 28 pairs of other servers (cure: `floor.stand_ins: apart`)"),
        ({"racks_per_row": 4}, 4, "any one switch, link or rack may fail"),
    ):
        found = plan.check(topo.parse(spec | {"floor": floor | more}))
        assert found.layout is not None
        assert found.layout.n_racks == racks
        assert line in verdict_line(found)


@pytest.mark.parametrize("seed", range(12))
def test_rows_fill_evenly(seed: int) -> None:
    """As many racks in each row as in the fullest, but the last, and as many rows as their length leaves."""
    rng = np.random.default_rng(seed)
    rows, most = int(rng.integers(1, 5)), int(rng.integers(12, 30))
    spec = {
        "name": "x",
        "nodes": {"gpu": {"model": "dgx-h100", "count": int(rng.integers(8, 48))}},
        "network": {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}},
        "floor": {"rows": rows, "racks_per_row": most, "rack_units": 48},
    }
    layout = topo.parse(spec).layout
    assert layout is not None
    each = np.bincount(layout.row)
    long = -(-layout.n_racks // rows)
    assert each.tolist() == [long] * (layout.n_racks // long) + [layout.n_racks % long] * (layout.n_racks % long > 0)


def served(seed: int) -> topo.Cluster:
    """Rails with storage, heads and a management network in which every server has one port."""
    rng = np.random.default_rng(seed)
    nodes = {
        "gpu": {"model": "dgx-h100", "count": int(rng.integers(16, 49))},
        "st": {"model": "storage-ndr", "count": int(rng.integers(2, 9))},
        "head": {"model": "management-ndr", "count": int(rng.integers(2, 5))},
    }
    tree = {"shape": "fat-tree", "switch": "QM9700", "leaves": 4, "spines": 2}
    mgmt = {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C", "leaves": 2}
    networks = {
        "storage": {"network": tree, "adapters": {"gpu": 2, "st": 2, "head": 2}},
        "mgmt": {"network": mgmt, "adapters": dict.fromkeys(nodes, 1), "adapter": "BMC-1GE"},
    }
    floor = {
        "rack_units": int(rng.integers(36, 53)),
        "switches": str(rng.choice(["servers", "middle", "end"])),
        "rows": int(rng.integers(1, 4)),
    }
    network = {"shape": "rail", "unit_nodes": 32, "tree": {"switch": "QM9700"}}
    return topo.parse({"name": "x", "nodes": nodes, "network": network, "networks": networks, "floor": floor})


@pytest.mark.parametrize("seed", [*slow_but(range(8), 0, 1, 2), *(nightly(seed) for seed in range(8, 60))])
def test_what_no_other_replaces_is_spread_where_that_takes_no_rack(seed: int, monkeypatch) -> None:
    """Recounted by rack; with as many racks as without the wish, and never more beyond half of a group."""

    def most(cluster: topo.Cluster) -> tuple[int, int]:
        layout = cluster.layout
        assert layout is not None
        racks: dict[str, list[int]] = {"st": [], "head": [], "mgmt-leaf": []}
        for device, rack in zip(layout.devices, layout.rack.tolist(), strict=True):
            if (stem := device.name.rstrip("0123456789")) in racks:
                racks[stem].append(rack)
        return layout.n_racks, sum(max(max(map(one.count, one)) - -(-len(one) // 2), 0) for one in racks.values())

    racks, over = most(spread := served(seed))
    monkeypatch.setattr("topo.floor.racks._wishes", lambda *given: [])
    before, crowded = most(gathered := served(seed))
    assert racks == before
    assert over <= crowded
    assert spread.layout is not None and gathered.layout is not None
    for device, now, then in zip(spread.layout.devices, spread.layout.rack, gathered.layout.rack, strict=True):
        assert now == then or device.name.rstrip("0123456789") in ("st", "head", "mgmt-leaf"), "no other device moves"
    units: set[tuple[int, int]] = set()
    for device, rack, unit in zip(spread.layout.devices, spread.layout.rack, spread.layout.unit, strict=True):
        mine = {(int(rack), int(unit) + height) for height in range(device.rack_units)}
        assert not mine & units
        units |= mine


def test_both_leaves_of_a_management_network_stand_apart_in_the_hall() -> None:
    """64 DGX H100 in two rows: half of the servers of a group at most, and half of the ports for management."""
    cluster = served(0)
    floor = FloorPlan(rows=2, rack_units=48, switches="middle")
    wide = topo.Cluster(cluster.spec.model_copy(update={"floor": floor}), cluster.catalog)
    losses = topo.find_losses(wide.fabrics, wide.catalog, wide.layout)
    servers = len(topo.Reach(wide.fabrics).names)
    assert max(loss.off for loss in losses.worst if loss.kind == "rack") <= -(-servers // 2)
