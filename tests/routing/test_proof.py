"""The proof against a plain walk of every pair, closed forms, and tables that are spoilt on purpose."""

from collections import Counter, defaultdict
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import Case, cases, past_switch_0_on_lane_5, ring, shortest_path_tables, spoil, tree
from helpers.walks import plain_walk
from routing.proof import check_certificate, prove
from routing.routed import Routed
from routing.tables import RoutingTables
from routing.trace import Fault, trace
from topo.builder import FabricBuilder
from topo.errors import RoutingError
from topo.fabric import Fabric, Kind, Role

SETS = ("hca", "adapters", "all")


@given(case=cases(), endpoints=st.sampled_from(SETS))
def test_a_plain_walk_of_every_pair_agrees(case: Case, endpoints: str) -> None:
    fabric, tables = case.fabric, case.tables
    proof = prove(Routed(fabric, tables), endpoints)
    kinds = {"hca": {Kind.HCA}, "adapters": set(Kind) - {Kind.SWITCH}, "all": set(Kind)}[endpoints]
    ends = [end for end in range(fabric.n_end_ports) if tables.lid[end] and fabric.kind[fabric.end_node[end]] in kinds]
    switches = nx.Graph(fabric.to_networkx().subgraph(range(fabric.n_switches)))
    distance = dict(nx.all_pairs_shortest_path_length(switches))
    missing, disconnected, stretch, load, hops = 0, 0, 0, defaultdict(Counter), Counter()
    waits = defaultdict(nx.DiGraph)
    for source in ends:
        for dest in ends:
            if source == dest:
                continue
            here, there = int(fabric.end_switch[source]), int(fabric.end_switch[dest])
            path, lane = plain_walk(fabric, tables, source, dest)
            if path is None:
                missing += 1
                disconnected += here < 0 or there < 0 or there not in distance[here]
                continue
            role = Role(fabric.role[fabric.end_node[dest]])
            load[role].update(path)
            inner = [c for c in path if fabric.port_node[c] < fabric.n_switches > fabric.peer_node[c]]
            hops[len(inner) + 1] += 1
            stretch = max(stretch, len(inner) - distance[here][there])
            nx.add_path(waits[lane], inner)
    assert (proof.pairs, proof.missing) == (len(ends) * max(len(ends) - 1, 0), missing)
    assert proof.disconnected == disconnected
    assert dict(enumerate(proof.hops.tolist())) == {i: hops[i] for i in range(max(hops, default=0) + 1)}
    assert proof.max_hops == max(hops, default=0)
    assert proof.stretch == stretch
    assert proof.virtual_lanes == tuple(sorted(waits))
    for role, carried in proof.load_by_role.items():
        assert {c: n for c, n in enumerate(carried.tolist()) if n} == +load[role]
    assert sum(proof.load_by_role.values(), np.zeros(fabric.n_ports, np.int64)).tolist() == proof.load.tolist()
    looping = [c for graph in waits.values() for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert proof.credit_loops == sum(map(len, looping))
    assert bool(proof.loop) == bool(looping)
    if proof.loop:
        circle = list(zip(proof.loop, (*proof.loop[1:], proof.loop[0]), strict=True))
        assert any(all(graph.has_edge(*edge) for edge in circle) for graph in waits.values())
        assert len(set(proof.loop)) == len(proof.loop)
    for lane, order in zip(proof.virtual_lanes, proof.order, strict=True):
        assert all(order[a] < order[b] for a, b in waits[lane].edges if order[a] >= 0 and order[b] >= 0)
        placed = [c for c in range(fabric.n_ports) if order[c] >= 0]
        assert len({int(order[c]) for c in placed}) == len(placed)
        assert set(placed) <= set(waits[lane]), "a channel that is not used has a place in the order"
        assert looping or set(placed) == set(waits[lane])
    assert check_certificate(Routed(fabric, tables), proof) == (not looping)
    assert bool(proof.examples) == (missing > 0)
    for example in proof.examples:
        assert plain_walk(fabric, tables, example.source, example.destination)[0] is None
        assert example.fault is not None
        assert example.describe()


@given(case=cases())
def test_packets_that_do_not_arrive_hold_channels_too(case: Case) -> None:
    fabric, tables = case.fabric, case.tables
    proof = prove(Routed(fabric, tables), "adapters")
    ends = [end for end in range(fabric.n_switches, fabric.n_end_ports) if tables.lid[end]]
    waits, delivered = defaultdict(nx.DiGraph), defaultdict(nx.DiGraph)
    for source in ends:
        for dest in set(ends) - {source}:
            path, lane = plain_walk(fabric, tables, source, dest)
            if path is not None:
                inner = [c for c in path if fabric.port_node[c] < fabric.n_switches > fabric.peer_node[c]]
                nx.add_path(waits[lane], inner)
                nx.add_path(delivered[lane], inner)
            elif 0 <= lane < 15:
                nx.add_path(waits[lane], held_channels(fabric, tables, source, dest))

    def looping(graphs: dict[int, nx.DiGraph]) -> set[tuple[int, int]]:
        cycles = ((lane, c) for lane, graph in graphs.items() for c in nx.strongly_connected_components(graph))
        return {(lane, c) for lane, part in cycles for c in part if len(part) > 1 or graphs[lane].has_edge(c, c)}

    assert proof.credit_loops == len(looping(delivered))
    assert proof.undelivered_loops == len(looping(waits) - looping(delivered))
    assert bool(proof.undelivered_loop) == (proof.undelivered_loops > 0)
    if circle := proof.undelivered_loop:
        edges = list(zip(circle, (*circle[1:], circle[0]), strict=True))
        assert any(all(graph.has_edge(*edge) for edge in edges) for graph in waits.values())


def held_channels(fabric: Fabric, tables: RoutingTables, source: int, dest: int) -> list[int]:
    """Channels between switches that a packet takes which does not arrive; of a loop, each once and the first again."""
    node, lid, path = int(fabric.end_switch[source]), int(tables.lid[dest]), []
    while lid < tables.lft.shape[1]:
        number = int(tables.lft[node, lid])
        if not 0 < number <= fabric.port_offset[node + 1] - fabric.port_offset[node]:
            break
        port = int(fabric.port_offset[node]) + number - 1
        if not 0 <= fabric.peer_node[port] < fabric.n_switches:
            break
        path.append(port)
        if port in path[:-1]:
            break
        node = int(fabric.peer_node[port])
    return path


def test_a_ring_with_all_traffic_clockwise_has_a_credit_loop() -> None:
    case = ring()
    proof = prove(Routed(case.fabric, case.tables))
    assert (proof.missing, proof.credit_loops, proof.max_hops, proof.stretch) == (0, 4, 4, 2)
    names = [case.fabric.channel_label(channel) for channel in proof.loop]
    assert names == ["sw0:1 -> sw1:2", "sw1:1 -> sw2:2", "sw2:1 -> sw3:2", "sw3:1 -> sw0:2"]
    assert not check_certificate(Routed(case.fabric, case.tables), proof)


def test_a_second_lane_for_paths_past_one_switch_breaks_the_loop_of_a_ring() -> None:
    case = past_switch_0_on_lane_5(ring())
    proof = prove(Routed(case.fabric, case.tables))
    assert (proof.missing, proof.credit_loops, proof.virtual_lanes, proof.lanes) == (0, 0, (2, 5), 2)
    assert check_certificate(Routed(case.fabric, case.tables), proof)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_the_load_of_a_two_level_tree_is_the_closed_form(k: int) -> None:
    """Uplink j of a leaf carries k hosts to host j of each of k - 1 other leaves; downlinks likewise."""
    case = tree(k, storage=1)
    proof = prove(Routed(case.fabric, case.tables))
    inner = (case.fabric.port_node < 2 * k) & (case.fabric.peer_node < 2 * k)
    assert set(proof.load[inner].tolist()) == {k * (k - 1)}
    assert set(proof.load[~inner].tolist()) == {k * k - 1}
    assert proof.hops.tolist() == [0, k * k * (k - 1), 0, k * k * k * (k - 1)]
    assert (proof.missing, proof.credit_loops, proof.stretch, proof.lanes) == (0, 0, 0, 1)
    assert check_certificate(Routed(case.fabric, case.tables), proof)
    assert proof.to_dict() == {
        "pairs": k * k * (k * k - 1),
        "missing": 0,
        "disconnected": 0,
        "credit_loops": 0,
        "undelivered_loops": 0,
        "lanes": 1,
        "max_hops": 3,
        "stretch": 0,
        "hops": {"1": k * k * (k - 1), "3": k * k * k * (k - 1)},
        "load": {
            "max": k * (k - 1),
            "mean": k * (k - 1),
            "classes": [
                {
                    "levels": levels,
                    "role": role,
                    "channels": k * k,
                    "used": used,
                    "max": k * (k - 1),
                    "mean": k * (k - 1),
                }
                for levels in ([1, 2], [2, 1])
                for role, used in (("all", k * k), ("compute", k * (k - 1)), ("storage", k))
            ],
        },
    }


def test_a_certificate_that_was_tampered_with_is_refused() -> None:
    case = tree(3)
    proof = prove(Routed(case.fabric, case.tables))
    flat = replace(proof, order=np.where(proof.order >= 0, 0, -1).astype(np.int32))
    assert not check_certificate(Routed(case.fabric, case.tables), flat)
    backwards = replace(proof, order=np.where(proof.order >= 0, proof.order.max() - proof.order, -1).astype(np.int32))
    assert not check_certificate(Routed(case.fabric, case.tables), backwards)
    assert not check_certificate(Routed(case.fabric, case.tables), replace(proof, virtual_lanes=(1,)))
    assert check_certificate(Routed(case.fabric, case.tables), proof)


def test_tables_that_address_nobody_hold_nothing() -> None:
    case = tree(3)
    proof = prove(Routed(case.fabric, replace(case.tables, lid=case.tables.lid * 0)))
    assert (proof.pairs, proof.missing, proof.holds) == (0, 0, False)


# In a tree of 3: leaves are 0 to 2, spines 3 to 5, host j of leaf i is end port 6 + 3 i + j on port 1 + j.
@pytest.mark.parametrize(
    ("entry", "fault", "missing", "place"),
    [
        ((0, 9, 255), Fault.NO_ENTRY, 3, "leaf0 has no entry"),
        ((5, 11, 255), Fault.NO_ENTRY, 6, "spine2 has no entry"),
        ((0, 9, 200), Fault.NO_SUCH_PORT, 3, "leaf0 has ports 1 to 6, and its entry says 200"),
        ((0, 9, 1), Fault.WRONG_END, 3, "port 1 of leaf0 hands it to host0-0 mlx5_0:1"),
        ((0, 9, 0), Fault.WRONG_END, 3, "port 0 of leaf0 hands it to leaf0"),
        ((3, 9, 1), Fault.LOOP, 6, "forwarding loop leaf0 -> spine0 -> leaf0"),
    ],
    ids=["no entry", "no entry at a spine", "port beyond the radix", "wrong host", "switch itself", "loop"],
)
def test_a_spoilt_entry_is_found_and_named(entry: tuple[int, int, int], fault: Fault, missing: int, place: str) -> None:
    case = spoil(tree(3), entry)
    proof = prove(Routed(case.fabric, case.tables))
    assert proof.missing == missing
    assert [example.fault for example in proof.examples] == [fault]
    assert place in proof.examples[0].describe()
    assert not proof.holds


def test_an_entry_to_a_dead_port_is_found_and_named() -> None:
    case = tree(3)
    peer = case.fabric.peer.copy()
    port = case.fabric.port_id(0, 4)  # leaf 0 to spine 0
    peer[[port, peer[port]]] = -1
    fabric = replace(case.fabric, peer=peer)
    proof = prove(Routed(fabric, case.tables))
    assert proof.missing == 2 * 3 + 2 * 3  # hosts 0 of other leaves from leaf 0, host 0 of leaf 0 from others
    texts = " ".join(example.describe() for example in proof.examples)
    assert "leaf0 says port 4, where nothing is plugged in" in texts
    assert "spine0 says port 1, where nothing is plugged in" in texts
    assert proof.disconnected == 0


def test_a_credit_loop_through_two_leaves_is_found_and_named() -> None:
    """Detours down-up through leaf 1 (spine 0 to 1, toward leaf 2) and through leaf 2 (spine 1 to 0, toward leaf 1)."""
    # Host 0 of leaf 2 is end port 12: leaf 0 -> spine 0 -> leaf 1 -> spine 1 -> leaf 2.
    # Host 1 of leaf 1 is end port 10: leaf 0 -> spine 1 -> leaf 2 -> spine 0 -> leaf 1.
    case = spoil(tree(3), (3, 12, 2), (1, 12, 5), (4, 10, 3), (2, 10, 4))
    proof = prove(Routed(case.fabric, case.tables))
    assert (proof.missing, proof.stretch, proof.credit_loops) == (0, 2, 4)
    names = {case.fabric.channel_label(channel) for channel in proof.loop}
    assert names == {"spine0:2 -> leaf1:4", "leaf1:5 -> spine1:2", "spine1:3 -> leaf2:5", "leaf2:4 -> spine0:3"}
    assert not check_certificate(Routed(case.fabric, case.tables), proof)


def test_one_detour_that_turns_at_a_leaf_is_no_loop() -> None:
    case = spoil(tree(3), (3, 12, 2), (1, 12, 5))
    proof = prove(Routed(case.fabric, case.tables))
    assert (proof.missing, proof.stretch, proof.credit_loops) == (0, 2, 0)
    assert check_certificate(Routed(case.fabric, case.tables), proof)


def test_faults_of_each_kind_are_shown_before_a_second_of_one() -> None:
    case = spoil(tree(5), *[(0, 10 + 5 * leaf + j, 255) for leaf in range(1, 5) for j in range(5)], (1, 10, 77))
    faults = [example.fault for example in prove(Routed(case.fabric, case.tables)).examples]
    assert set(faults) == {Fault.NO_ENTRY, Fault.NO_SUCH_PORT}


def test_a_trace_names_every_channel_of_a_path() -> None:
    case = tree(2)
    path = trace(Routed(case.fabric, case.tables), 4, 7)
    assert [case.fabric.channel_label(channel) for channel in path.channels] == [
        "host0-0 mlx5_0:1 -> leaf0:1",
        "leaf0:4 -> spine1:1",
        "spine1:2 -> leaf1:4",
        "leaf1:2 -> host1-1 mlx5_0:1",
    ]
    assert path.fault is None
    assert "arrives over 3 switches" in path.describe()


def test_tables_of_another_fabric_are_refused() -> None:
    case, other = tree(2), tree(3)
    with pytest.raises(RoutingError, match="another fabric"):
        prove(Routed(case.fabric, other.tables))
    with pytest.raises(RoutingError, match="expected one of hca, adapters, all"):
        prove(Routed(case.fabric, case.tables), "gpus")
    with pytest.raises(RoutingError, match="expected 16 numbers"):
        prove(Routed(case.fabric, replace(case.tables, sl2vl=(0, 1))))
    with pytest.raises(RoutingError, match="service levels of shape"):
        prove(Routed(case.fabric, replace(case.tables, path_sl=np.zeros((1, 3), np.uint8))))


def test_end_ports_can_be_chosen_one_by_one() -> None:
    case = tree(3)
    proof = prove(Routed(case.fabric, case.tables), np.array([6, 9, 12], np.int32))
    assert (proof.endpoints, proof.pairs, proof.missing) == ("chosen", 6, 0)
    assert prove(Routed(case.fabric, case.tables), np.zeros(0, np.int32)).pairs == 0


def test_shortest_paths_on_a_fabric_without_cables() -> None:
    builder = FabricBuilder("loose")
    builder.switch("sw0", model="m", radix=4, role=Role.LEAF, level=1)
    fabric = builder.build()
    proof = prove(Routed(fabric, shortest_path_tables(fabric)), "all")
    assert (proof.pairs, proof.missing, proof.max_hops, proof.lanes) == (0, 0, 0, 0)
