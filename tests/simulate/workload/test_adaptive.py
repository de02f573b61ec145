"""Jobs beside adaptive routing: closed forms, laws, and what is lost found packet by packet."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
import topo
from helpers.strategies import examples, fabrics
from helpers.trees import grow_tree
from routing.hashed import SPRAY, Hashed
from routing.studies.adaptive import AdaptiveTables, legal_tables, manager_groups
from simulate import Fluid, Network, preset
from simulate.traffic.flows import Flows
from simulate.workload import bare_flows, play_beside_adaptive
from simulate.workload.adaptive import ALL
from topo.errors import HeddleError
from topo.fabric import Fabric


def between(fabric: Fabric, seed: int, size: float = 1e9) -> Flows:
    """Flows between random hosts, all at once."""
    rng, ends = np.random.default_rng(seed), fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    return Flows.of(rng.choice(ends, 12), rng.choice(ends, 12), size)


def ways(fabric: Fabric, tables: AdaptiveTables, dest: int) -> "nx.DiGraph[int]":
    """Switches, and where each may send packets to a destination by cables that are there."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(fabric.n_switches))
    allowed = tables.allowed(fabric, 0, tables.lid[[dest]].astype(np.int64))[0]
    for port in fabric.inner.tolist():
        if allowed[port] and fabric.port_node[port] != fabric.end_switch[dest]:
            graph.add_edge(int(fabric.port_node[port]), int(fabric.peer_node[port]))
    return graph


@pytest.mark.slow
@examples(25)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1
                                                      and len(one.inner) > 0), seed=st.integers(0, 99))  # fmt: skip
def test_lost_flows_are_those_whose_packets_have_no_way_or_may_meet_a_dead_end(fabric: Fabric, seed: int) -> None:
    routed = routing.route(fabric, "balanced", lanes=1)
    tables, _ = manager_groups(routed)
    rng = np.random.default_rng(seed)
    down = rng.choice(fabric.inner, min(2, len(fabric.inner)), replace=False)
    left = fabric.without(down)
    flows = between(fabric, seed)
    moved = [(a, b) for a, b in zip(flows.src.tolist(), flows.dst.tolist(), strict=True) if a != b]
    lost = {"static, before repair": 0, "adaptive, no switch told": 0, "adaptive, neighbours told": 0, "repaired": 0}
    whole = nx.Graph(left.to_networkx().subgraph(range(left.n_switches)))
    for a, b in moved:
        near, home = int(fabric.end_switch[a]), int(fabric.end_switch[b])
        lost["static, before repair"] += routing.trace(replace(routed, fabric=left), a, b).fault is not None
        lost["repaired"] += not nx.has_path(whole, near, home)
        graph = ways(left, tables, b)
        lost["adaptive, neighbours told"] += not nx.has_path(graph, near, home)
        lost["adaptive, no switch told"] += any(
            not graph.out_degree(here) and here != home for here in {near, *nx.descendants(graph, near)}
        )
    found = play_beside_adaptive(routed, bare_flows(flows, "flows.csv"), down=down, draws=2)
    counts = {row.paths.partition(": ")[2]: row.lost for row in found.rows}
    assert counts["static, before repair"] == lost["static, before repair"]
    assert counts["static, repaired"] == lost["repaired"]
    assert counts["adaptive, no switch told"] == lost["adaptive, no switch told"]
    assert counts.get("adaptive, neighbours told", 0) == lost["adaptive, neighbours told"]
    assert all((row.time_s is None) == (row.lost > 0) for row in found.rows if "no choice" not in row.paths)


@examples(20)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1),
       seed=st.integers(0, 99))  # fmt: skip
def test_groups_of_the_static_port_alone_play_as_tables_do_and_nothing_beats_the_bound(
    fabric: Fabric, seed: int
) -> None:
    routed = routing.route(fabric, "balanced", lanes=1)
    tables = legal_tables(routed)
    alone = replace(tables, lft=routed.tables.lft[None], group=np.full_like(tables.group, -1))
    flows, network = between(fabric, seed), Network.of(routed, latency_s=0)
    chosen = replace(network, tables=Hashed(fabric, SPRAY, groups=alone.groups(fabric)))
    assert Fluid(chosen).play(flows).finish_s == pytest.approx(Fluid(network).play(flows).finish_s, rel=1e-9)
    rows = {
        row.paths: row.time_s for row in play_beside_adaptive(network, bare_flows(flows, "flows.csv"), draws=2).rows
    }
    least = rows.pop("no such choice of ports is faster than")
    del rows["static"]  # whose ports need not be among these
    assert least is None or all(time_s >= least * (1 - 1e-6) for time_s in rows.values() if time_s is not None)


def test_a_tree_without_one_cable_loses_pairs_by_static_tables_and_none_once_neighbours_know() -> None:
    """Leaves of 4 hosts, 4 spines, one cable to each: all 4 flows from leaf 1 to leaf 0 have 3 spines left of 4."""
    fabric = grow_tree((4, 4), (1, 4), (1, 1))
    routed = routing.route(fabric)
    ends, leaf = fabric.ends(), fabric.end_switch[fabric.ends()]
    homes = np.unique(leaf)
    flows = Flows.of(ends[leaf == homes[1]], ends[leaf == homes[0]], 1e9)
    down = next(port for port in fabric.ports_of(int(homes[0])) if fabric.peer_node[port] < fabric.n_switches)
    found = play_beside_adaptive(
        Network.of(routed, latency_s=0), bare_flows(flows, "flows.csv"), down=np.array([down]), draws=3
    )
    rows = {row.paths: row for row in found.rows}
    alone = rows["static"].time_s
    assert rows["adaptive, split evenly"].time_s == pytest.approx(alone)
    assert rows["adaptive, one port a flow by a hash"].time_s >= alone * (1 - 1e-9)
    assert rows["no such choice of ports is faster than"].time_s == pytest.approx(alone)
    assert rows["1 cable down: static, before repair"].lost == 1
    assert rows["1 cable down: static, repaired"].time_s == pytest.approx(2 * alone)
    assert rows["1 cable down: adaptive, no switch told"].lost == 4
    assert rows["1 cable down: adaptive, neighbours told"].time_s == pytest.approx(alone * 4 / 3)
    assert found.table.columns[1].values[0] == "static" and found.to_dict()["groups"] == "4 roots"


def test_all_jobs_share_what_no_choice_of_ports_divides_any_better() -> None:
    """Of 4 flows between two leaves with 2 spines each job has 2: a gigabyte a spine alone, and two for both jobs."""
    fabric = grow_tree((4, 2), (1, 2), (1, 1))
    ends = fabric.ends()
    one = bare_flows(Flows.of(ends[:4], ends[4:], 1e9, start_s=np.array([0, 0, 0.01, 0.01])), "flows.csv")
    jobs = tuple(replace(one.jobs[0], spec=one.jobs[0].spec.model_copy(update={"name": name})) for name in "ab")
    both = replace(one, jobs=jobs, job=np.array([0, 0, 1, 1]))
    network = Network.of(routing.route(fabric), latency_s=0)
    found = play_beside_adaptive(network, both, draws=3)
    alone_s = 1e9 / network.capacity_bytes_s.min()
    times = {(row.job, row.paths): row.time_s for row in found.rows}
    least = "no such choice of ports is faster than"
    assert [times[job, least] for job in ("a", "b", ALL)] == pytest.approx([alone_s, alone_s, 2 * alone_s])
    assert times[ALL, "adaptive, split evenly"] == pytest.approx(2 * alone_s, rel=1e-3)
    for paths in ("static", "adaptive, one port a flow by a hash"):
        time_s = times[ALL, paths]
        assert time_s is not None and time_s >= 2 * alone_s * (1 - 1e-9)
    assert list(found.table.columns[0].values) == ["a"] * 4 + ["b"] * 4 + [ALL] * 4


def test_classes_of_service_keep_their_lanes_on_groups() -> None:
    """Three flows of one level and one of another leave a port: the lanes share it in halves, not the flows in four."""
    routed = routing.route(topo.preset("lab-20").fabric)
    network, ends = Network.of(routed, latency_s=0), routed.fabric.ends(role="compute")
    lanes = routed.lanes.sl2vl
    other = next(level for level, lane in enumerate(lanes) if lane != lanes[0] and lane < len(network.lane_weight))
    assert network.lane_weight[lanes[0]] == network.lane_weight[lanes[other]]
    flows = Flows.of(np.full(4, ends[0]), ends[[8, 9, 10, 11]], 25e9, sl=np.array([0, 0, 0, other]))
    rows = play_beside_adaptive(network, bare_flows(flows, "flows.csv"), draws=1).rows
    groups, _ = manager_groups(routed)
    spread = Hashed(routed.fabric, SPRAY, groups=groups.groups(routed.fabric), lanes=routed.lanes)
    finish = Fluid(replace(network, tables=spread)).play(flows).finish_s
    assert finish == pytest.approx([4.0, 4.0, 4.0, 2.0])
    assert [row.time_s for row in rows] == pytest.approx([4.0] * 4)
    with pytest.raises(HeddleError, match="expected 1, for the lanes that hashed paths have"):
        Network.of(Hashed(routed.fabric), lane_weights=[1, 1])


def test_paths_by_hashes_are_refused() -> None:
    routed = routing.route(topo.preset("lab-20").fabric)
    network = replace(Network.of(routed), tables=Hashed(routed.fabric))
    with pytest.raises(HeddleError, match="expected forwarding tables"):
        play_beside_adaptive(network, preset("allreduce", routed.fabric))
