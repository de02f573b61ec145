"""Groups of ports for adaptive routing against every choice of every switch, one by one."""

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from hypothesis import given

import routing
from helpers.random_fabrics import draw
from helpers.strategies import Case, examples, fabrics, ring, seeds, tree
from helpers.trees import grow_tree
from routing.engines.multipath import legal_order
from routing.proof import prove
from routing.routed import Routed
from routing.studies.adaptive.groups import port_groups
from routing.studies.adaptive.study import study_adaptive
from topo.fabric import Fabric


def groups_of(routed: Routed, kind: str) -> dict[int, dict[int, list[int]]]:
    """Ports that each switch may take to each switch with hosts."""
    fabric = routed.fabric
    order = legal_order(fabric, prove(routed, "all"))
    targets = np.unique(fabric.end_switch[fabric.ends()]).astype(np.int32)
    found: dict[int, dict[int, list[int]]] = {}
    for target, row in zip(targets.tolist(), port_groups(order, targets, kind == "legal"), strict=True):
        found[target] = defaultdict(list)
        for channel in np.flatnonzero(row).tolist():
            sender = int(order.sender[channel])
            found[target][sender].append(int(fabric.port_offset[sender] + order.number[channel] - 1))
    return found


@pytest.mark.slow
@examples(60)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1))
def test_every_choice_of_every_switch_delivers_and_the_proof_counts_what_they_wait_for(fabric: Fabric) -> None:
    routed = routing.route(fabric, "balanced", lanes=1)
    study = study_adaptive(routed)
    hosts = np.bincount(fabric.end_switch[fabric.ends()], minlength=fabric.n_switches).tolist()
    switches = nx.Graph(fabric.to_networkx().subgraph(range(fabric.n_switches)))
    distance = dict(nx.all_pairs_shortest_path_length(switches))
    assert [row.kind for row in study.rows] == ["tables", "legal", "shortest"]
    for row in study.rows[1:]:
        waits, load = nx.DiGraph(), defaultdict(Fraction)

        def follow(home: int, here: int, share: Fraction, path: list[int], groups=None, waits=waits, load=load) -> None:  # type: ignore[no-untyped-def]
            if here == home:
                return
            ports = groups[here]
            assert ports, "no packet ends at a switch without a port"
            assert len(path) < fabric.n_switches, "no packet is led round about"
            for port in ports:
                waits.add_node(port)
                if path:
                    waits.add_edge(path[-1], port)
                load[port] += share / len(ports)
                follow(home, int(fabric.peer_node[port]), share / len(ports), [*path, port], groups)

        for home, groups in groups_of(routed, row.kind).items():
            for source, count in enumerate(hosts):
                if count:
                    follow(home, source, Fraction(count * hosts[home]), [], groups)
                for port in groups[source]:
                    if row.kind == "shortest":
                        assert distance[int(fabric.peer_node[port])][home] == distance[source][home] - 1
        looping = sum(len(part) for part in nx.strongly_connected_components(waits) if len(part) > 1)
        assert (row.stuck, row.credit_loops) == (0, looping)
        assert row.max_load == pytest.approx(float(max(load.values(), default=0)))
        if row.kind == "legal":
            assert nx.is_directed_acyclic_graph(waits)
            assert row.lanes == 1
        assert row.lanes == (2 if looping else 1)
        if row.lanes == 2:  # the escape lane: from every switch to every host, and no cycle of its own
            escape = prove(routed, "all")
            assert (escape.missing, escape.credit_loops) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(15))
def test_on_fabrics_that_nobody_has_drawn_both_kinds_are_proven(seed: int) -> None:
    routed = routing.route(draw(seed), "balanced", lanes=1)
    tables, legal, shortest = study_adaptive(routed).rows
    assert (tables.lanes, legal.lanes, legal.credit_loops) == (1, 1, 0)
    assert shortest.lanes == (2 if shortest.credit_loops else 1)
    assert legal.ports >= 1
    assert tables.max_load == prove(routed).max_load


@pytest.mark.slow
def test_in_a_whole_tree_all_shortest_ports_are_legal_and_loads_even() -> None:
    fabric = grow_tree((2, 4), (1, 2), (1, 1))
    tables, legal, shortest = study_adaptive(routing.route(fabric)).rows
    assert replace(legal, kind="shortest") == shortest
    assert shortest.lanes == 1
    assert legal.max_load <= tables.max_load


def test_tables_that_are_incomplete_are_no_escape() -> None:
    case: Case = ring(6)
    routed = routing.route(case.fabric, "balanced", lanes=1)
    assert study_adaptive(routed).rows[-1].lanes == 2
    lft = routed.tables.lft.copy()
    lft[0, routed.tables.lid[-1]] = routing.NO_PATH
    found = study_adaptive(replace(routed, tables=replace(routed.tables, lft=lft)))
    assert [row.lanes for row in found.rows] == [None, 1, None]
    looping = study_adaptive(Routed(case.fabric, case.tables)).rows
    assert [(row.kind, row.lanes, row.credit_loops) for row in looping] == [("tables", None, 6), ("shortest", None, 12)]
    assert study_adaptive(Routed(tree(3).fabric, tree(3).tables)).rows[1].lanes == 1
