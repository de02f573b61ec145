from dataclasses import replace
from itertools import combinations, pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.optimise.search import Search, optimise
from costmodel.optimise.stages import _installed, _items, _temporary_links, _with_links
from helpers.clusters import CATALOG
from helpers.needs import needs
from helpers.networks import HDR, Plain
from helpers.strategies import fabrics
from topo.amounts import Verdict
from topo.changes.growth import plan_growth
from topo.cluster import Cluster
from topo.fabric import Fabric, Kind
from topo.speeds import SPEEDS


@pytest.mark.slow
@pytest.mark.parametrize("family", ["fat-tree", "hyperx", "zones"])
@pytest.mark.parametrize("money", [{}, {"currency": "USD", "quotes": {"4xHDR": 250}}])
def test_stages_hold_one_another_and_the_last_is_the_winner(family: str, money: dict[str, object]) -> None:
    asked = needs(150, job={"nodes": 50, "bisection": 0.5}, stages=[0.2, 0.5], families=[family], **money)
    found = optimise(asked, CATALOG)
    assert found.winner is not None
    assert [stage.servers for stage in found.winner.stages] == [30, 75, 150]
    for less, more in pairwise(found.winner.stages):
        assert less.switches <= more.switches
        assert less.cables < more.cables
        assert less.price <= more.price
    last = found.winner.stages[-1]
    assert last.price == pytest.approx(found.winner.price)
    assert last.job_bisection.share == pytest.approx(found.winner.job_bisection.share)
    (fabric,) = Cluster(found.winner.spec, CATALOG).fabrics
    assert (last.switches, last.cables) == (fabric.n_switches, len(fabric.links))
    assert len(found.stage_table) == 3


@pytest.mark.parametrize(
    ("family", "model", "switch"),
    [("rail", "dgx-h100", "QM9700"), ("fat-tree", "pcie-a100", "QM8700"), ("planes", "hgx-h800", "QM9700")],
)
@pytest.mark.parametrize("servers", [24, 90])
def test_the_spec_of_a_stage_grows_into_the_whole_by_what_the_table_says(
    family: str, model: str, switch: str, servers: int
) -> None:
    """No cable moves, and as many switches and cables come as the stages differ by."""
    nodes = {"gpu": {"model": model, "count": servers}}
    asked = needs(servers, nodes=nodes, switches=[switch], families=[family], stages=[0.5], job={"nodes": servers // 2})
    found = optimise(asked, CATALOG)
    assert found.winner is not None
    down, up = 0, 0
    for fabric in Cluster(found.winner.spec, CATALOG).fabrics:
        ends = fabric.port_node[fabric.links]
        down += int((ends >= fabric.n_switches).any(axis=1).sum())
        up += int((ends < fabric.n_switches).all(axis=1).sum())
    assert found.winner.taper == pytest.approx(down / up) if up else found.winner.taper is None
    assert found.winner.local == (found.winner.bisection.share < 1.0 - 1e-9)
    assert ("for jobs of servers side by side" in found.certificate) == found.winner.local
    first, last = found.winner.stages
    (spec,) = found.stage_specs
    assert not isinstance(spec, str)
    assert spec.nodes["gpu"].count == first.servers
    parts, whole = Cluster(spec, CATALOG).fabrics, Cluster(found.winner.spec, CATALOG).fabrics
    growths = [plan_growth(*pair) for pair in zip(parts, whole, strict=True)]
    works = [work.do for growth in growths for work in growth.works]
    assert works == ["plug"] * (last.cables - first.cables)
    new = [name for growth in growths for name in growth.new if " " not in name]
    assert len(new) == last.switches - first.switches


@pytest.mark.slow
def test_two_levels_begin_with_their_first_leaves_and_all_spines() -> None:
    found = optimise(needs(100, stages=[0.2], families=["fat-tree"], switches=["QM8700"]), CATALOG)
    assert found.winner is not None
    first, last = found.winner.stages
    assert first.switches < last.switches
    assert first.job_bisection.share == pytest.approx(1.0)


@pytest.mark.slow
def test_cables_are_moved_where_that_has_a_price_and_no_more_than_a_stage_lacks() -> None:
    """Two of five switches of a mesh stand at first, 20 servers on each: half of their rate asks for 10 links of 5."""
    asked = {"job": {"nodes": 100, "bisection": 0.5}, "stages": [0.4], "families": ["hyperx"]}
    moved = optimise(needs(100, moving=0.01, **asked), CATALOG).winner
    assert moved is not None
    assert moved.name.startswith("HyperX 5, 5 links each")
    assert [stage.moved for stage in moved.stages] == [5, 0]
    assert moved.stages[0].job_bisection.share == pytest.approx(0.5)
    assert moved.price == pytest.approx(15 + 5 * 0.01)
    for more in ({}, {"moving": 10.0}):
        kept = optimise(needs(100, **more, **asked), CATALOG)
        assert kept.winner is not None
        assert kept.proven
        assert kept.winner.price == 21  # on six switches 8 links would leave one with 17 servers
        assert not any(stage.moved for stage in kept.winner.stages)
        assert all(stage.job_bisection.share >= 0.5 for stage in kept.winner.stages)
        assert isinstance(kept.stage_specs[0], str), "no spec describes a part of a mesh"


@pytest.mark.slow
def test_the_room_decides_too() -> None:
    room = {"racks_per_row": 6, "rack_typical_power": "12 kW"}
    asked = {"job": {"nodes": 30, "bisection": 0.5}, "families": ["fat-tree"]}

    def found(**keys: object) -> Search:
        return optimise(needs(30, **(asked | {"floor": room} | keys)), CATALOG)

    winner = found(reach="40 m").winner
    assert winner is not None
    assert {check.what for check in winner.checks} >= {"typical rack power", "reach"}
    layout = Cluster(winner.spec, CATALOG).layout
    assert layout is not None
    assert layout.n_racks > 1
    assert winner.cost == winner.compared  # units have no prices of cables
    short, weak = found(reach="3 m"), found(floor={**room, "rack_typical_power": "2 kW"})
    assert "3.0 m are allowed" in short.tried[0].reasons[0]
    assert (short.winner, short.verdict) == (None, Verdict.CANNOT_TELL)
    assert short.ended == "40 designs meet all other needs but do not fit the floor"  # no bound considers the floor
    assert "gpu (pcie-a100) draws" in weak.refused[0] and "a rack may draw 2,000 W" in weak.refused[0]
    assert (weak.winner, weak.verdict, weak.looked_at) == (None, Verdict.EXCEEDED, 0)


def first_part(fabric: Fabric, kept: set[str]) -> tuple[set[int], Fabric]:
    """Nodes of these servers, their switches, and those without servers that lead to them; and the part they make."""
    servers = {node for node in range(fabric.n_nodes) if fabric.host[node] >= 0}
    graph = nx.Graph(fabric.port_node[fabric.links].tolist())
    graph.add_nodes_from(range(fabric.n_nodes))
    empty = {node for node in range(fabric.n_switches) if not servers & set(graph[node])}
    there = {node for node in servers if fabric.hosts[fabric.host[node]] in kept}
    there |= {far for node in there for far in graph[node]}
    for part in nx.connected_components(graph.subgraph(empty)):
        if any(there & set(graph[node]) for node in part):
            there |= part
    links = fabric.links
    gone = [
        port for port, node in zip(links[:, 0], fabric.port_node[links].tolist(), strict=True) if not set(node) <= there
    ]
    return there, fabric.without(np.array(gone, int))


@given(fabrics(), st.data())
def test_a_stage_is_its_servers_their_switches_and_what_leads_to_these(fabric: Fabric, data: st.DataObject) -> None:
    kept = data.draw(st.sets(st.sampled_from(fabric.hosts)))
    there, _ = first_part(fabric, kept)
    assert set(np.flatnonzero(_installed(fabric, kept)).tolist()) == there
    assert all(fabric.kind[node] in (Kind.HCA, Kind.SWITCH) for node in there)


@given(fabrics(max_switches=6), st.data())
def test_each_temporary_cable_joins_the_switches_with_fewest_cables_between_them(
    fabric: Fabric, data: st.DataObject
) -> None:
    """Laid one by one, and looked at each time: between two others there are no fewer, or as few and fewer ports."""
    kept = data.draw(st.sets(st.sampled_from(fabric.hosts), min_size=1))
    _, part = first_part(fabric, kept)
    n, cabled = fabric.n_switches, {int(node) for node in part.port_node[part.links].ravel()}
    free = {node: set[int]() for node in range(n)}
    for port in range(fabric.first_adapter_port):
        peer = int(fabric.peer[port])
        if part.peer[port] < 0 <= peer and fabric.port_node[peer] < n and int(fabric.port_node[port]) in cabled:
            free[int(fabric.port_node[port])].add(port)
    joined = _temporary_links(fabric, part)
    for number, pair in enumerate(joined.tolist()):
        now = _with_links(part, joined[:number])

        def between(a: int, b: int, now: Fabric = now) -> tuple[int, int]:
            links = now.port_node[now.links].tolist()
            return sum({*link} == {a, b} for link in links), -len(free[a]) - len(free[b])

        a, b = (int(fabric.port_node[port]) for port in pair)
        assert between(a, b) == min(between(*two) for two in combinations([x for x in free if free[x]], 2))
        for node, port in ((a, pair[0]), (b, pair[1])):
            free[node].remove(port)
    assert sum(bool(ports) for ports in free.values()) < 2


def test_temporary_cables_count_those_that_are_there() -> None:
    """Switch 3 comes later, and each of the others has a port for it: two have three cables already, the third one."""
    cables = ((0, 1), (0, 1), (0, 1), (0, 2), (1, 2), (0, 3), (1, 3), (2, 3))
    fabric = Plain(4, tuple((a, b, HDR) for a, b in cables), (1, 1, 1, 1)).fabric()
    _, part = first_part(fabric, set(fabric.hosts[:3]))
    (pair,) = fabric.port_node[_temporary_links(fabric, part)].tolist()
    assert 2 in pair


@given(fabrics(), st.integers(0, 1_000_000))
def test_a_cable_has_the_speed_of_its_slower_end(fabric: Fabric, seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, speed = rng.choice([1, 2, 4], fabric.n_ports), rng.integers(2, len(SPEEDS), fabric.n_ports)
    fabric = replace(fabric, width=width.astype(fabric.width.dtype), speed=speed.astype(fabric.speed.dtype))
    assert list(_items(fabric, fabric.links)) == [
        f"{min(width[a], width[b])}x{SPEEDS[min(speed[a], speed[b])]}" for a, b in fabric.links.tolist()
    ]
