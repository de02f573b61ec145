"""Multicast entries against a packet that is followed switch by switch."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.strategies import examples, fabrics
from helpers.trees import grow_tree
from routing.studies import MulticastStudy, parse_mcfdbs, plan_trees
from topo.errors import FormatError, HeddleError
from topo.fabric import Fabric


def dump(fabric: Fabric, entries: dict[int, set[int]]) -> str:
    """Return OpenSM's file of multicast tables: ports of each group, by switch."""
    lines = []
    for switch in range(fabric.n_switches):
        lines += [f"Switch 0x{int(fabric.node_guid[switch]):016x}", "LID    : Out Port(s)"]
        for mlid, ports in entries.items():
            numbers = [int(fabric.port_number[port]) for port in sorted(ports) if fabric.port_node[port] == switch]
            if numbers:
                lines.append(f"0x{mlid:04X} : {'  '.join(f'0x{number:03x}' for number in numbers)} ")
        lines.append("")
    return "\n".join(lines)


def heard(fabric: Fabric, ports: set[int], source: int) -> Counter[int]:
    """Members that a packet from one member reaches, each as often as it does; more than ten times means for ever."""
    found, waiting = Counter[int](), [(int(fabric.peer_node[source]), int(fabric.peer[source]))]
    while waiting and sum(found.values()) < 1000 and len(waiting) < 1000:
        here, came = waiting.pop()
        for port in fabric.ports_of(here):
            if port in ports and port != came and fabric.peer[port] >= 0:
                found[int(fabric.peer[port])] += 1
                if fabric.peer_node[port] < fabric.n_switches:
                    waiting.append((int(fabric.peer_node[port]), int(fabric.peer[port])))
    return Counter({port: times for port, times in found.items() if fabric.port_node[port] >= fabric.n_switches})


@st.composite
def groups(draw: st.DrawFn) -> tuple[Fabric, set[int]]:
    """A fabric, and ports of a group: those of a tree over all members, of which some are taken away or added."""
    fabric = draw(fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1))
    graph = nx.Graph(fabric.to_networkx().subgraph(range(fabric.n_switches)))
    graph.remove_edges_from(nx.selfloop_edges(graph))
    ports = {
        int(fabric.peer[fabric.port_of(np.array([end]))[0]]) for end in fabric.ends() if fabric.end_switch[end] >= 0
    }
    for a, b in nx.bfs_edges(graph, int(fabric.port_node[min(ports)])):
        port = next(port for port in fabric.ports_of(a) if fabric.peer_node[port] == b)
        ports |= {port, int(fabric.peer[port])}
    inner = fabric.inner.tolist()
    if inner and draw(st.booleans()):
        for port in draw(st.lists(st.sampled_from(inner), max_size=3)):
            ports ^= {port, int(fabric.peer[port])} if draw(st.booleans()) else {port}
    return fabric, ports


@examples(80)
@given(case=groups())
def test_a_group_holds_where_every_member_hears_every_packet_once(case: tuple[Fabric, set[int]]) -> None:
    fabric, ports = case
    members = [int(fabric.peer[port]) for port in ports if fabric.peer_node[port] >= fabric.n_switches]
    study = parse_mcfdbs(dump(fabric, {0xC001: ports}), fabric)
    (group,) = study.groups
    assert group.members == len(members)
    once = all(heard(fabric, ports, one) == Counter(set(members) - {one}) for one in members)
    if group.holds:
        assert once
    elif group.loops or group.parts == 1:
        assert not once or group.one_sided  # an end that is named alone may lead to where nobody is
    assert study.holds == group.holds


def test_depth_is_the_longest_path_and_the_fullest_switch_is_counted() -> None:
    fabric = grow_tree((2, 3), (1, 2), (1, 1))
    spine = int(fabric.level[: fabric.n_switches].argmax())
    ports = set(fabric.ports_of(spine))
    ports |= {int(fabric.peer[port]) for port in ports}
    ports |= {int(fabric.peer[fabric.port_of(np.array([end]))[0]]) for end in fabric.ends()}
    study = parse_mcfdbs(dump(fabric, {0xC000: ports, 0xC005: ports}), fabric)
    assert [(g.mlid, g.depth, g.members, g.switches) for g in study.groups] == [(0xC000, 3, 6, 4), (0xC005, 3, 6, 4)]
    assert study.most_per_switch == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0xC001 : 0x001", "below the switch"),
        ("Switch GUID\n0x0001 : 0x001", "a LID from 0xc000"),
        ("Switch GUID\n0xC001 : 0x0ff", "ports up to"),
        ("Switch GUID\nwhat", "a switch or an entry"),
        ("Switch 0x1\n0xC001 : 0x001", "no multicast table"),
        ("", "no multicast table"),
    ],
)
def test_what_cannot_be_is_refused(text: str, expected: str) -> None:
    fabric = grow_tree((2, 3), (1, 2), (1, 1))
    with pytest.raises(FormatError, match=expected):
        parse_mcfdbs(text.replace("GUID", f"0x{int(fabric.node_guid[0]):x}"), fabric)


def test_a_study_says_what_is_wrong_first() -> None:
    fabric = grow_tree((2, 3), (1, 2), (1, 1))
    ports = set(fabric.inner.tolist())
    study: MulticastStudy = parse_mcfdbs(dump(fabric, {0xC000: set(fabric.inner.tolist()[:1]), 0xC001: ports}), fabric)
    assert str(study).startswith("<MulticastStudy 2 multicast groups, 2 of them no tree")
    assert study.groups[1].loops == len(ports) // 2 - (fabric.n_switches - 1)
    assert study.groups[0].one_sided == 1


@examples(60)
@given(fabric=fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1),
       seed=st.integers(0, 99))  # fmt: skip
def test_planned_trees_serve_every_member_once_from_the_flattest_root(fabric: Fabric, seed: int) -> None:
    rng, ends = np.random.default_rng(seed), fabric.ends()[fabric.end_switch[fabric.ends()] >= 0]
    groups = {f"group {k}": rng.choice(ends, int(rng.integers(2, len(ends) + 1)), replace=False) for k in range(4)}
    plan = plan_trees(fabric, groups)
    assert parse_mcfdbs(plan.text, fabric).holds
    graph = nx.Graph(fabric.to_networkx().subgraph(range(fabric.n_switches)))
    carried: Counter[int] = Counter()
    for tree, members in zip(plan.trees, groups.values(), strict=True):
        own = {int(fabric.port_of(np.array([end]))[0]) for end in members}
        homes = {int(fabric.end_switch[end]) for end in members}
        for port in own:  # what one sends comes to each of the others once, and to nobody else
            assert heard(fabric, set(tree.ports), port) == Counter(own - {port})
        far = {root: max(nx.shortest_path_length(graph, root, home) for home in homes) for root in graph}
        assert far[tree.root] == min(far.values()) == tree.height
        carried.update(port for port in tree.ports if fabric.peer_node[port] < fabric.n_switches)
        assert all(int(fabric.peer[port]) in tree.ports for port in tree.ports & set(fabric.inner.tolist()))
    assert plan.fullest == max(carried.values(), default=0) >= plan.least


def test_groups_are_spread_over_the_roots_of_a_tree_until_no_cable_carries_two() -> None:
    fabric = grow_tree((4, 4), (1, 4), (1, 1))
    plan = plan_trees(fabric, {f"job {k}": fabric.ends() for k in range(4)})
    assert len({tree.root for tree in plan.trees}) == 4 and (plan.fullest, plan.least) == (1, 1)
    assert plan_trees(fabric, {f"job {k}": fabric.ends() for k in range(9)}).fullest == 3
    assert [(tree.name, tree.mlid) for tree in plan.trees] == [(f"job {k}", 0xC000 + k) for k in range(4)]


def test_members_without_cables_between_them_are_refused() -> None:
    fabric = grow_tree((2, 2), (1, 1), (1, 1))
    cut = fabric.without(fabric.inner[:1])
    with pytest.raises(HeddleError, match="group all: found no cables between some of its members"):
        plan_trees(cut, {"all": fabric.ends()})
