"""What a later picture of a fabric lacks, however its nodes are numbered."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.random_fabrics import draw
from helpers.relabel import relabelled
from helpers.strategies import fabrics, slow_but
from helpers.twins import twin
from topo.changes.differences import find_differences
from topo.changes.matching import Match, _Matcher, find_missing, match_keys, match_nodes
from topo.cluster import parse, preset
from topo.errors import HeddleError, plural
from topo.fabric import Fabric, Kind


@pytest.mark.parametrize("name", ["ndr-pod", "fdr10-mesh"])
def test_cables_are_found_whatever_the_order_of_nodes(name: str) -> None:
    whole, rng = twin(name), np.random.default_rng(3)
    for size in (0, 1, 7):
        gone = rng.choice(whole.links, size, replace=False)
        now = relabelled(whole.without(gone[:, 0]), rng, ports=False).fabric
        missing = find_missing(whole, now)
        assert sorted(missing.ports.tolist()) == sorted(gone.ravel().tolist())
        assert (len(missing.moved), len(missing.replaced), len(missing.arrived)) == (0, 0, 0)
        assert missing.notes == ()


def test_what_is_new_is_told() -> None:
    whole = twin("ndr-pod")
    gone = whole.links[:2].ravel()
    missing = find_missing(whole.without(gone), whole)
    assert len(missing.ports) == 0
    adapters = int(np.count_nonzero(whole.kind[whole.port_node[gone]] == Kind.HCA))
    assert len(missing.arrived) == adapters
    assert adapters == 2 or f"has {plural(2 - adapters, 'cable')} and 0 switches" in missing.notes[0]


def with_new_guids(fabric: Fabric, nodes: np.ndarray) -> Fabric:
    """The fabric with other hardware in some places: GUIDs of nodes and of their ports change, names stay."""
    shift = np.zeros(fabric.n_nodes, np.uint64)
    shift[nodes] = 1 << 40
    return replace(fabric, node_guid=fabric.node_guid + shift, port_guid=fabric.port_guid + shift[fabric.port_node])


@pytest.mark.parametrize("name", ["ndr-pod", "fdr10-mesh", "zone"])
@pytest.mark.parametrize("seed", slow_but(range(4), 0))
def test_what_was_replaced_is_known_by_its_place(name: str, seed: int) -> None:
    """Switches and adapters at random get new GUIDs while cables elsewhere fail: each is found, and nothing else."""
    whole, rng = twin(name), np.random.default_rng(seed)
    nodes = rng.choice(whole.n_nodes, int(rng.integers(1, 4)), replace=False)
    nodes = nodes[whole.kind[nodes] != Kind.AGGREGATION]
    far = whole.links[~np.isin(whole.port_node[whole.links], nodes).any(axis=1)]
    gone = rng.choice(far, 2, replace=False)
    now = relabelled(with_new_guids(whole.without(gone[:, 0]), nodes), rng, ports=False).fabric
    missing = find_missing(whole, now)
    assert sorted(missing.replaced[:, 0].tolist()) == sorted(nodes.tolist())
    assert [now.names[there] for there in missing.replaced[:, 1]] == [
        whole.names[node] for node in missing.replaced[:, 0]
    ]
    lost = np.isin(whole.port_node, nodes) | np.isin(whole.peer_node, nodes)
    assert set(missing.ports.tolist()) == set(gone.ravel().tolist()) | set(np.flatnonzero(lost & (whole.peer >= 0)))
    assert (len(missing.moved), len(missing.arrived), missing.notes) == (0, 0, ())
    match = match_nodes(whole, now)
    assert sorted(match.replaced.tolist()) == sorted(nodes.tolist())
    assert find_missing(match.adopted, now).ports.tolist() == missing.ports[~lost[missing.ports]].tolist()
    found = find_differences(whole, now)
    assert sum(one.kind == "replaced" for one in found.found) == len(nodes)
    assert len(match_nodes(whole, with_new_guids(whole, np.arange(whole.n_nodes))).replaced) == 0  # none is known


def test_what_was_replaced_is_known_by_its_cables_alone() -> None:
    """Without names, and a known switch that takes the place of another is none that was replaced."""
    whole = twin("fdr10-mesh")
    nameless = replace(whole, names=("",) * whole.n_nodes)
    now = with_new_guids(nameless, np.array([3]))
    assert match_nodes(nameless, now).replaced.tolist() == [3]
    guid, port_guid = whole.node_guid.copy(), whole.port_guid.copy()
    guid[3], guid[4] = guid[4], 1 << 62
    port_guid[whole.port_node == 3] = guid[3]
    port_guid[whole.port_node == 4] = guid[4]
    moved = replace(nameless, node_guid=guid, port_guid=port_guid)
    moved = moved.without(np.flatnonzero((whole.port_node == 4) & (whole.peer >= 0)))
    match = match_nodes(nameless, moved)
    assert match.node[3] == 3 and 3 not in match.replaced


def test_an_adapter_under_the_guid_of_its_port_is_the_same() -> None:
    """Some formats tell no node GUID of adapters."""
    whole = twin("ndr-pod")
    guid = whole.node_guid.copy()
    for node in range(whole.n_switches, whole.n_nodes):
        guid[node] = whole.port_guid[whole.port_offset[node]]
    other = replace(whole, node_guid=guid)
    assert len(match_nodes(whole, other).replaced) == len(match_nodes(other, whole).replaced) == 0


def test_another_fabric_is_refused() -> None:
    with pytest.raises(HeddleError, match="no node GUID"):
        find_missing(preset("lab-20").fabric, twin("ndr-pod"))


@given(st.lists(st.sampled_from(["", "a", "b", "c", "d"])), st.lists(st.sampled_from(["", "a", "b", "c", "d"])))
def test_keys_match_where_both_sides_have_them_once(keys: list[str], others: list[str]) -> None:
    for key, place in zip(keys, match_keys(keys, others).tolist(), strict=True):
        once = key != "" and sum(one == key for one in keys) == 1 == sum(one == key for one in others)
        assert place == (others.index(key) if once else -1)


def stripped(fabric: Fabric, seed: int, *, switches: bool, adapters: bool) -> tuple[Fabric, np.ndarray]:
    """The fabric as found: other GUIDs, an order of its own, and only names of these; and where each node stands."""
    rng = np.random.default_rng(seed)
    made = relabelled(with_new_guids(fabric, np.arange(fabric.n_nodes)), rng, ports=False)
    kept = [switches] * fabric.n_switches + [adapters] * (fabric.n_nodes - fabric.n_switches)
    names = tuple(name if keep else "" for name, keep in zip(made.fabric.names, kept, strict=True))
    place = np.empty(fabric.n_nodes, np.int64)
    place[made.node] = np.arange(fabric.n_nodes)
    return replace(made.fabric, names=names), place


@given(fabrics(connected=True), st.integers(0, 1_000_000))
def test_the_names_of_one_side_and_the_cables_tell_all_other_nodes(fabric: Fabric, seed: int) -> None:
    """Where nothing is plugged otherwise each vote is right: servers tell all switches, and switches all servers."""
    alone = np.array([(fabric.peer[fabric.ports_of(node)] < 0).all() for node in range(fabric.n_nodes)])
    held = {int(fabric.kind[node]) for node in np.flatnonzero(~alone)}
    for switches, adapters in ((True, False), (False, True)):
        found, place = stripped(fabric, seed, switches=switches, adapters=adapters)
        match = match_nodes(fabric, found)
        named = (
            np.arange(fabric.n_nodes) < fabric.n_switches
            if switches
            else np.arange(fabric.n_nodes) >= fabric.n_switches
        )
        if adapters and Kind.HCA not in held:
            continue
        assert match.node[~alone].tolist() == place[~alone].tolist()
        assert match.named.tolist() == np.where(named, place, -1).tolist()
        assert set(match.agreeing[~alone]) <= {1.0}


@given(fabrics(connected=True), st.integers(0, 1_000_000))
def test_cables_alone_find_places_where_each_is_as_planned(fabric: Fabric, seed: int) -> None:
    """No name is known: switches that look the same may take each other's place, but then all cables agree."""
    found, _ = stripped(fabric, seed, switches=False, adapters=False)
    match = match_nodes(fabric, found)
    port = match.port
    cabled = np.flatnonzero((fabric.peer >= 0) & (fabric.port_node != fabric.peer_node))
    if len(fabric.inner):  # a lone switch with its servers is no more than any other
        assert found.peer[port[cabled]].tolist() == port[fabric.peer[cabled]].tolist()
    check_places(match)


def check_places(match: Match) -> None:
    """Nodes of one kind stand in each other's place, none twice; the share of cables is counted one by one."""
    plan, found = match.plan, match.found
    places = {x: y for x, y in enumerate(match.node.tolist()) if y >= 0}
    assert len(set(places.values())) == len(places)
    assert all((x < plan.n_switches) == (y < found.n_switches) for x, y in places.items())
    for x in range(plan.n_nodes):
        if x not in places:
            assert np.isnan(match.agreeing[x])
            continue
        y, planned, same = places[x], 0, 0
        there = [port for port in found.ports_of(y) if found.peer[port] >= 0 and found.peer_node[port] != y]
        for port in plan.ports_of(x):
            if plan.peer[port] < 0 or plan.peer_node[port] == x:
                continue
            planned += 1
            here = [one for one in there if found.port_number[one] == plan.port_number[port]]
            if here and found.port_number[found.peer[here[0]]] == plan.port_number[plan.peer[port]]:
                a, b = int(plan.peer_node[port]), int(found.peer_node[here[0]])
                unknown = a not in places and a >= plan.n_switches and b not in places.values()
                same += places.get(a) == b or unknown
        cables = max(planned, 1 if there else 0)
        assert match.agreeing[x] == same / cables if cables else np.isnan(match.agreeing[x])


@given(fabrics(), fabrics(), st.sampled_from([(True, True), (True, False), (False, True), (False, False)]))
def test_any_two_fabrics_share_each_place_once(plan: Fabric, found: Fabric, named: tuple[bool, bool]) -> None:
    check_places(match_nodes(plan, stripped(found, 1, switches=named[0], adapters=named[1])[0]))


@given(fabrics(), st.integers(0, 1_000_000), st.booleans(), st.booleans())
def test_a_plan_takes_guids_and_lids_of_what_stands_in_its_places(
    plan: Fabric, seed: int, planned: bool, told: bool
) -> None:
    """Looked up one end port at a time; without any LID in the fabric the plan keeps its own."""
    rng = np.random.default_rng(seed)
    lids = rng.permutation(np.arange(1, 500))[: plan.n_end_ports].astype(np.uint16)
    plan = replace(plan, discovered_lid=lids, lmc=1) if planned else plan
    other = replace(plan, discovered_lid=lids[::-1].copy(), lmc=2) if told else replace(plan, discovered_lid=lids[:0])
    found, _ = stripped(other, seed, switches=True, adapters=bool(seed % 2))
    match = match_nodes(plan, found)
    adopted = match.adopted
    port = match.port
    for node, there in enumerate(match.node.tolist()):
        assert adopted.node_guid[node] == (plan.node_guid[node] if there < 0 else found.node_guid[there])
    for here in range(plan.n_ports):
        assert adopted.port_guid[here] == (plan.port_guid[here] if port[here] < 0 else found.port_guid[port[here]])
    if not told:
        assert (adopted.discovered_lid.tolist(), adopted.lmc) == (plan.discovered_lid.tolist(), plan.lmc)
        return
    assert adopted.lmc == 2
    for end in range(plan.n_end_ports):
        if end < plan.n_switches:
            place = int(match.node[end])
        else:
            at = int(port[plan.port_of(np.array([end]))[0]])
            place = int(found.end_of(np.array([at]))[0]) if at >= 0 else -1
        assert adopted.discovered_lid[end] == (found.discovered_lid[place] if place >= 0 else 0)


@pytest.mark.parametrize("seed", range(12))
def test_a_nameless_server_in_a_wrong_port_is_known_where_it_is_the_only_one(seed: int) -> None:
    """Servers move to free ports of their own switch or another: one in a switch, or one in all, can be told."""
    plan, rng = preset("lab-20").fabric, np.random.default_rng(seed)
    within = bool(seed % 2)
    moved = rng.choice(np.arange(plan.n_switches, plan.n_nodes), int(rng.integers(1, 4)), replace=False).tolist()
    home = {node: int(plan.peer_node[plan.port_offset[node]]) for node in moved}
    leaves = sorted({int(leaf) for leaf in plan.peer_node[plan.first_adapter_port :]})
    free = {leaf: [port for port in plan.ports_of(leaf) if plan.peer[port] < 0] for leaf in leaves}
    peer, now = plan.peer.copy(), {}
    for node in moved:
        now[node] = home[node] if within else leaves[(leaves.index(home[node]) + 1) % len(leaves)]
        here, there = int(plan.port_offset[node]), free[now[node]].pop()
        peer[peer[here]] = -1
        peer[[here, there]] = there, here
    found, place = stripped(replace(plan, peer=peer), seed, switches=True, adapters=False)
    match = match_nodes(plan, found)
    for node in range(plan.n_nodes):
        only = sum(home[other] == home[node] for other in moved) == 1 if node in moved and within else len(moved) == 1
        if node not in moved or only:
            assert match.node[node] == place[node]
        elif within:
            assert match.node[node] == -1


def test_named_servers_hold_the_place_of_their_only_switch() -> None:
    """No other switch can say where a nameless one stands: the servers do, in the last word too."""
    network = {"shape": "fat-tree", "switch": "QM8700", "levels": 1}
    plan = parse({"name": "t", "nodes": {"gpu": {"model": "pcie-a100", "count": 5}}, "network": network}).fabric
    found, place = stripped(plan, 0, switches=False, adapters=True)
    assert match_nodes(plan, found).node.tolist() == place.tolist()


@pytest.mark.parametrize("both", [False, True])
def test_the_only_nameless_adapter_is_the_only_one_missing_wherever_it_hangs(both: bool) -> None:
    """It has another GUID and no name, and hangs on another switch; with ``both``, one more moved on its own switch."""
    plan = parse({
        "name": "x", "nodes": {"gpu": {"model": "pcie-a100", "count": 9}},
        "network": {"shape": "fat-tree", "switch": "QM8700", "leaves": 3, "spines": 1, "parallel": 4},
    }).fabric  # fmt: skip
    leaf = plan.port_node[plan.peer[plan.first_adapter_port :]]
    moved = [plan.first_adapter_port + int(np.flatnonzero(leaf == at)[0]) for at in np.unique(leaf)]
    peer, nodes = plan.peer.copy(), []
    for port, to in [(moved[0], int(leaf.max())), *([(moved[1], int(np.unique(leaf)[1]))] if both else [])]:
        free = int(np.flatnonzero((plan.port_node == to) & (peer < 0))[0])
        peer[peer[port]], peer[port], peer[free] = -1, free, port
        nodes.append(int(plan.port_node[port]))
    names = [f"localhost mlx5_{node}" if node in nodes else name for node, name in enumerate(plan.names)]
    now = with_new_guids(replace(plan, peer=peer, names=tuple(names)), np.array(nodes))
    assert match_nodes(plan, now).node[nodes].tolist() == nodes


@pytest.mark.parametrize("seed", slow_but(range(30), *range(6)))
def test_the_first_guess_is_a_switch_whose_cables_fewest_share(seed: int) -> None:
    """Counted anew: of each cable the switches that have one from the same port to the same port of the same kind."""
    rng, whole = np.random.default_rng(seed), draw(seed)
    found = whole.without(rng.choice(whole.inner, len(whole.inner) // 4, replace=False))

    def cables(fabric: Fabric, node: int) -> list[tuple[int, int, int]]:
        ports = [port for port in np.flatnonzero(fabric.port_node == node) if fabric.peer[port] >= 0]
        far = [int(fabric.peer[port]) for port in ports]
        return [
            (int(fabric.port_number[a]), int(fabric.port_number[b]), int(fabric.kind[fabric.port_node[b]]))
            for a, b in zip(ports, far, strict=True)
        ]

    lone = [node for node in range(whole.n_switches) if cables(whole, node)]
    free = [node for node in range(found.n_switches) if cables(found, node)]
    shared = Counter(cable for node in free for cable in cables(found, node))
    rarity = {node: np.mean([shared[cable] for cable in cables(whole, node)]) for node in lone}
    pairs = _Matcher(whole, found)._alike(lone, free)
    assert rarity[pairs[0][0]] == min(value for value in rarity.values() if value)
