"""The engine for any topology: complete and free of credit loops on whatever is wired, and better than it started."""

from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.clusters import CATALOG, gpus
from helpers.random_fabrics import Draft, draw, two_levels
from helpers.strategies import examples, fabrics, nightly
from helpers.trees import grow_tree, worst_shift
from routing.engines import balanced, dfsssp
from routing.proof import prove
from routing.routed import Routed
from routing.tables import RoutingTables
from topo.builder import FabricBuilder
from topo.dumps.levels import find_levels
from topo.fabric import Fabric, Role
from topo.shapes.fat_tree import FatTree
from topo.shapes.zones import Direct, Zones
from topo.speeds import LinkSpeed

HDR = LinkSpeed(4, "HDR")


def dependencies(fabric: Fabric, tables: RoutingTables) -> nx.DiGraph:
    """Channel dependencies of all delivered paths from any switch to any LID, by walking each one: the slow oracle."""
    graph = nx.DiGraph()
    for end in np.flatnonzero(tables.lid).tolist():
        for switch in range(fabric.n_switches):
            channels = []
            while switch != fabric.end_switch[end] and (port := int(tables.lft[switch, tables.lid[end]])) != 255:
                channels.append(fabric.port_id(switch, port))
                switch = int(fabric.peer_node[channels[-1]])
                assert len(channels) <= fabric.n_switches
            graph.add_nodes_from(channels)
            graph.add_edges_from(pairwise(channels))
    return graph


def mesh(edges: list[tuple[int, int]], n_switches: int, hosts: int = 2) -> Fabric:
    """Switches wired as a graph says, each with hosts."""
    builder = FabricBuilder("mesh")
    keys = [builder.switch(f"s{i}", model="s", radix=64, role=Role.SWITCH, level=-1) for i in range(n_switches)]
    ports = [hosts] * n_switches
    for i, key in enumerate(keys):
        for port in range(1, hosts + 1):
            adapter = builder.adapter(f"h{i}-{port}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
            builder.link(adapter, 1, key, port, HDR)
    for a, b in edges:
        ports[a] += 1
        ports[b] += 1
        builder.link(keys[a], ports[a], keys[b], ports[b], HDR)
    return builder.build()


@pytest.mark.slow
@examples(100)
@given(fabrics(max_switches=12, max_adapters=14))
def test_any_wiring_routes_completely_without_credit_loops_switches_included(fabric: Fabric) -> None:
    tables = balanced.route(fabric)
    proof = prove(Routed(fabric, tables), "all")
    assert proof.missing == proof.disconnected
    assert nx.is_directed_acyclic_graph(dependencies(fabric, tables))


def test_hosts_of_one_switch_leave_nothing_to_relieve() -> None:
    builder = FabricBuilder("one of two")
    keys = [builder.switch(f"s{i}", model="s", radix=8, role=Role.LEAF, level=1) for i in range(2)]
    builder.link(keys[0], 8, keys[1], 8, HDR)
    for port in (1, 2, 3):
        adapter = builder.adapter(f"h{port}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
        builder.link(adapter, 1, keys[0], port, HDR)
    fabric = builder.build()
    assert prove(Routed(fabric, balanced.route(fabric)), "all").holds


@pytest.mark.slow
@given(st.integers(3, 20), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_random_regular_graphs_are_no_trees_and_route_all_the_same(n: int, degree: int, seed: int) -> None:
    degree = min(degree, n - 1)
    graph = nx.random_regular_graph(degree, n + n * degree % 2, seed=seed)
    fabric = mesh(sorted(graph.edges), len(graph))
    tables = balanced.route(fabric)
    proof = prove(Routed(fabric, tables), "all")
    assert proof.missing == proof.disconnected
    assert proof.credit_loops == 0
    assert nx.is_directed_acyclic_graph(dependencies(fabric, tables))


@pytest.mark.parametrize(
    "shape", [((4, 8), (1, 4), (1, 1)), ((3, 3, 6), (1, 3, 3), (1, 1, 1)), ((4, 4, 4), (1, 4, 2), (1, 1, 2))]
)
def test_a_whole_tree_keeps_its_shifts_free_of_contention(shape: tuple[tuple[int, ...], ...]) -> None:
    """Nothing can be gained there, so a placement that moved any host would have lost something."""
    fabric = grow_tree(*shape)
    assert worst_shift(fabric, balanced.route(fabric)) == 1


@pytest.mark.parametrize("seed", range(4))
def test_shifts_are_free_of_contention_whatever_the_roles_and_the_count_of_hosts(seed: int) -> None:
    """Uplinks to spare, hosts of two roles, parallel cables: ranks follow ports alone, and wrap around at the end."""
    rng, draft = np.random.default_rng(seed), Draft()
    spines, trunk = int(rng.integers(2, 5)), int(rng.integers(1, 4))
    low, _ = two_levels(draft, int(rng.integers(3, 8)), spines, trunk)
    hosts = int(rng.integers(2, spines * trunk + 1))
    for leaf in low:
        for host in range(hosts):
            draft.host(leaf, role=Role.STORAGE if host < hosts // 4 else Role.COMPUTE)
    fabric = draft.build("row", rng)
    assert worst_shift(fabric, balanced.route(fabric)) == 1


@pytest.mark.parametrize("seed", [3, 22, 25, 38])
@pytest.mark.slow
def test_a_leaf_with_hosts_that_leads_on_to_other_zones_takes_its_share(seed: int) -> None:
    """Cables of two joints fill one leaf and some ports of the next: by levels, only the first one is above spines."""
    rng, draft = np.random.default_rng(seed), Draft()
    zones, spines, hosts = int(rng.integers(2, 4)), int(rng.integers(3, 7)), int(rng.integers(6, 13))
    joints, each = draft.add(2), int(rng.integers(hosts // 2 + 1, hosts))
    for _ in range(zones):
        low, _ = two_levels(draft, int(rng.integers(6, 12)), spines)
        for port in range(2 * each):
            draft.cable(joints[port // each], low[port // hosts])
        for leaf in low[1:]:
            for _ in range(2 * hosts - 2 * each if leaf == low[1] else hosts):
                draft.host(leaf)
    fabric = find_levels(draft.build("spilled", rng))
    found = prove(Routed(fabric, balanced.route(fabric)))
    plain = prove(Routed(fabric, dfsssp.route(fabric, lanes=1)))
    assert found.missing == found.credit_loops == 0
    assert found.load[fabric.inner].max() <= plain.load[fabric.inner].max(), "though these have credit loops"


@pytest.mark.slow
def test_paths_that_got_shorter_do_not_send_the_parting_of_shifts_in_circles() -> None:
    # The switches behind a destination were not the nearest first any more, and one waited for those behind itself.
    assert prove(routing.route(draw(107), "balanced")).credit_loops == 0


def test_the_same_fabric_gives_the_same_bytes() -> None:
    fabric = mesh(sorted(nx.random_regular_graph(4, 20, seed=1).edges), 20)
    assert balanced.route(fabric).lft.tobytes() == balanced.route(fabric).lft.tobytes()


def test_slow_cables_carry_their_share() -> None:
    """A leaf with one cable of 4xHDR and one of 1xHDR to two spines: the slow one carries a fifth, not half."""
    builder = FabricBuilder("slow")
    leaves = [builder.switch(f"leaf{i}", model="s", radix=22, role=Role.LEAF, level=1) for i in range(2)]
    spines = [builder.switch(f"spine{i}", model="s", radix=2, role=Role.SPINE, level=2) for i in range(2)]
    for i, leaf in enumerate(leaves):
        for port in range(1, 21):
            adapter = builder.adapter(f"h{i}-{port}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
            builder.link(adapter, 1, leaf, port, HDR)
        builder.link(leaf, 21, spines[0], i + 1, HDR)
        builder.link(leaf, 22, spines[1], i + 1, LinkSpeed(1, "HDR"))
    fabric = builder.build()
    load = prove(Routed(fabric, balanced.route(fabric))).load
    fast, slow = (int(load[fabric.port_id(0, port)]) for port in (21, 22))
    assert fast + slow == 400
    assert slow == 400 // 5


def test_islands_are_routed_each_for_itself() -> None:
    fabric = mesh([(0, 1), (2, 3), (3, 4), (4, 2)], 6)
    proof = prove(Routed(fabric, balanced.route(fabric)), "all")
    assert proof.missing == proof.disconnected > 0
    assert proof.credit_loops == 0


def test_hosts_on_spines_and_aggregation_nodes_reach_everything() -> None:
    fabric = grow_tree((3, 3, 6), (1, 3, 3), (1, 1, 1))
    peer = fabric.peer.copy()
    spine = int(np.flatnonzero(fabric.level == 2)[0])
    core_port = int(np.flatnonzero((fabric.port_node == spine) & (fabric.level[fabric.peer_node] == 3))[0])
    host_port = fabric.first_adapter_port
    for port in (core_port, host_port):  # the host moves from its leaf to the place of a core on a spine
        peer[peer[port]] = -1
    peer[core_port], peer[host_port] = host_port, core_port
    fabric = replace(fabric, peer=peer)
    proof = prove(Routed(fabric, balanced.route(fabric)), "all")
    assert proof.missing == 0 and proof.credit_loops == 0


def bigraph(n: int, hosts: int) -> Fabric:
    """Two rows of switches, each linked to all of the other row, hosts on both."""
    return mesh([(a, n + b) for a in range(n) for b in range(n)], 2 * n, hosts)


def test_a_bigraph_turns_everywhere_on_one_lane() -> None:
    """Rows meet in each other's switches; up*/down* would send a whole row's traffic through a single one."""
    fabric = bigraph(6, 3)
    proof = prove(Routed(fabric, balanced.route(fabric)))
    assert proof.holds and proof.stretch == 0 and proof.lanes == 1
    load = proof.load[: fabric.first_adapter_port]
    assert load.max() <= 2 * load[load > 0].mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "hosts", "parallel"),
    [(4, 2, 1), (4, 6, 1), (6, 3, 1), (6, 6, 2), nightly(16, 16, 1)],
)
def test_a_bigraph_is_as_even_as_its_shortest_paths_allow(n: int, hosts: int, parallel: int) -> None:
    """All shortest paths together, over all channels: no peak can be lower. It takes one lane."""
    edges = [(a, n + b) for a in range(n) for b in range(n) for _ in range(parallel)]
    fabric = mesh(edges, 2 * n, hosts)
    proof = prove(Routed(fabric, balanced.route(fabric)))
    assert proof.holds and proof.stretch == 0 and proof.lanes == 1
    pairs = n * hosts * (n * hosts + 2 * (n - 1) * hosts)  # to the other side over one channel, to one's own over two
    load = proof.load[: fabric.first_adapter_port][fabric.peer_node[: fabric.first_adapter_port] < fabric.n_switches]
    assert load.max() == pairs // (n * n * parallel)
    assert load.max() * n * n * parallel == pairs


@pytest.mark.slow
@given(st.integers(3, 6), st.integers(0, 2**32 - 1))
def test_a_bigraph_without_some_cables(n: int, seed: int) -> None:
    keep = np.random.default_rng(seed).random((n, n)) < 0.9
    fabric = mesh([(a, n + b) for a in range(n) for b in range(n) if keep[a, b]], 2 * n)
    proof = prove(Routed(fabric, balanced.route(fabric)), "all")
    assert proof.missing == proof.disconnected and proof.credit_loops == 0


@pytest.mark.slow
@pytest.mark.nightly  # by day `direct-zones` is routed
def test_zones_that_cables_join_use_all_of_them() -> None:
    """Three zones of 36-port switches, two leaves of each without hosts: all cables carry nearly as much."""
    shape = Zones(
        shape="zones",
        zones=3,
        tree=FatTree(switch="SB7800", leaves=36, spines=18),
        direct=Direct(ports=36, placement="border"),
    )
    (fabric,) = shape.compile([gpus(1200)], CATALOG, "direct")
    proof = prove(Routed(fabric, balanced.route(fabric)))
    assert proof.holds and proof.stretch == 0 and proof.lanes == 1
    ports = np.arange(fabric.first_adapter_port)
    joining = (fabric.peer_node[ports] >= 0) & (
        fabric.zone[fabric.peer_node[ports]] != fabric.zone[fabric.port_node[ports]]
    )
    assert np.count_nonzero(joining) == 3 * 36
    load = proof.load[ports[joining]]
    assert load.max() - load.mean() < 2 * 400, "400 hosts of another zone send to each destination"


def test_more_lanes_are_taken_where_they_spare_detours() -> None:
    """A ring of five: on one lane no path may pass every switch both ways round; on two all are shortest."""
    fabric = mesh([(i, (i + 1) % 5) for i in range(5)], 5)
    one, two = prove(Routed(fabric, balanced.route(fabric))), prove(Routed(fabric, balanced.route(fabric, lanes=2)))
    assert (one.lanes, one.credit_loops) == (1, 0) and one.stretch > 0
    assert (two.lanes, two.credit_loops, two.stretch, two.missing) == (2, 0, 0, 0)
    inner = slice(0, fabric.first_adapter_port)
    assert two.load[inner].max() < one.load[inner].max()
    tree = grow_tree((4, 8), (1, 4), (1, 1))
    assert prove(Routed(tree, balanced.route(tree, lanes=8))).lanes == 1, "nothing to gain"


def test_peaks_are_worn_off_where_a_leaf_lacks_a_cable() -> None:
    """Four hosts over three cables: placed whole, two of them share one; split by source, none has to."""
    fabric = grow_tree((4, 8), (1, 4), (1, 1))
    peer = fabric.peer.copy()
    port = int(np.flatnonzero((fabric.level[fabric.port_node] == 1) & (fabric.level[fabric.peer_node] == 2))[0])
    peer[peer[port]] = -1
    peer[port] = -1
    fabric = replace(fabric, peer=peer)
    load = prove(Routed(fabric, balanced.route(fabric))).load[: fabric.first_adapter_port]
    # 28 sources to each of the 4 hosts over 3 cables are 37.3; two hosts over one cable would be 56.
    down = load[(fabric.peer_node[: fabric.first_adapter_port] == 0)]
    assert down.max() <= 44


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
def test_a_joined_pair_of_trees_without_some_cables_and_a_spine(seed: int) -> None:
    """Zones without labels: joints look like spines of a few leaves. A dead spine is an island."""
    builder = FabricBuilder("zones")
    joints = [builder.switch(f"joint{i}", model="s", radix=8, role=Role.SPINE, level=2) for i in range(2)]
    plugs = [0, 0]
    for zone in range(2):
        leaves = [builder.switch(f"leaf{zone}-{i}", model="s", radix=8, role=Role.LEAF, level=1) for i in range(4)]
        spines = [builder.switch(f"spine{zone}-{i}", model="s", radix=8, role=Role.SPINE, level=2) for i in range(3)]
        for i, leaf in enumerate(leaves):
            for port in range(1, 4):
                host = builder.adapter(f"h{zone}-{i}-{port}", "mlx5_0", model="h", host_model="h", role=Role.COMPUTE)
                builder.link(host, 1, leaf, port, HDR)
            for j, spine in enumerate(spines):
                builder.link(leaf, 4 + j, spine, 1 + i, HDR)
            if i < 2:
                plugs[i] += 1
                builder.link(leaf, 7, joints[i], plugs[i], HDR)
    fabric = builder.build()
    rng = np.random.default_rng(seed)
    between = fabric.links[(fabric.port_node[fabric.links] < fabric.n_switches).all(axis=1)]
    dead = rng.integers(fabric.n_switches)
    peer = fabric.peer.copy()
    peer[between[rng.random(len(between)) < 0.05]] = -1
    peer[between[(fabric.port_node[between] == dead).any(axis=1)]] = -1
    fabric = replace(fabric, peer=peer)
    proof = prove(Routed(fabric, balanced.route(fabric)), "all")
    assert proof.missing == proof.disconnected
    assert proof.credit_loops == 0


def gathered_zones(seed: int) -> Fabric:
    """Two zones with all cables to the joints at the first leaves; where these are full, at the next."""
    rng, draft = np.random.default_rng(seed), Draft()
    spines, leaves, ports = int(rng.integers(6, 13)), int(rng.integers(3, 6)), int(rng.integers(6, 16))
    joints = draft.add(int(rng.integers(2, 4)))
    for _ in range(2):
        low, _ = two_levels(draft, leaves, spines)
        free = [leaf for leaf in low for _ in range(40 - spines)]
        for joint in joints:
            for _ in range(ports):
                draft.cable(joint, free.pop(0))
        hosts = int(rng.integers(30, 80))
        for place in sorted(rng.permutation(len(free))[:hosts]):
            draft.host(free[place])
    return draft.build("gathered", rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 8, *(nightly(seed) for seed in (0, 1, 3, 6, 7, 10))])
def test_shifts_are_as_good_as_those_of_plain_shortest_paths_where_these_are_safe(seed: int) -> None:
    """On these, all orders but those grown for plain shortest paths leave twice as many flows on a link of a shift."""
    fabric = gathered_zones(seed)
    ours, plain = Routed(fabric, balanced.route(fabric)), Routed(fabric, dfsssp.route(fabric, lanes=1))
    assert prove(plain).credit_loops == 0
    found, least = routing.measure(ours, max_shifts=400), routing.measure(plain, max_shifts=400)
    assert found.max_load <= least.max_load
    assert found.ebb >= 0.96 * least.ebb
    assert found.shift.bandwidth >= 0.97 * least.shift.bandwidth
    assert found.shift.max_load_mean <= 1.1 * least.shift.max_load_mean


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "fullest", "bisection", "shifts"), [
    (150, 1056, 0.5803, 0.3547),
    (244, 847, 0.625, 0.544),
    nightly(33, 8072, 0.4361, 0.2186),
    nightly(90, 2819, 0.5035, 0.3368),
    nightly(224, 9544, 0.4027, 0.2864),
    nightly(225, 7067, 0.4715, 0.3299),
    nightly(238, 920, 0.7856, 0.9),
])  # fmt: skip
def test_it_is_no_more_behind_the_safe_engines_of_opensm_where_it_was(
    seed: int, fullest: int, bisection: float, shifts: float
) -> None:
    """Joined zones whose zones cannot be found, and trees with more hosts at leaves than uplinks.

    The figures are those of OpenSM's safe engines, each of the one that is best in it, at fair rates; but for shifts of
    244 and 238, where `ftree` has 5 and 6 % more, with links that are half as full again and nearly twice as full. Two
    per cent of random halves are given to other traffic.
    """
    fabric = draw(seed)
    quality = routing.measure(Routed(fabric, balanced.route(fabric)))
    assert quality.max_load <= fullest
    assert quality.ebb >= 0.98 * bisection
    assert quality.shift.bandwidth >= shifts


def test_a_switch_between_zones_that_sees_no_plane_above_it_is_routed() -> None:
    """It has a link to its like, and one up: an index modulo its planes was a division by zero."""
    draft = Draft()
    draft.add(7)
    for a, b in [(0, 4), (0, 1), (0, 6), (1, 4), (1, 5), (1, 2), (2, 3), (2, 4), (2, 5), (5, 6)]:
        draft.cable(a, b)
    draft.host(2)
    draft.host(5)
    assert prove(routing.route(draft.build("seven", np.random.default_rng(0)), "balanced")).holds
