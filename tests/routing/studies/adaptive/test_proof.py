"""Adaptive tables against an adversary who chooses the port at every hop, by a search over packets one by one."""

from collections.abc import Callable
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import routing
from helpers.random_fabrics import draw
from helpers.strategies import examples, fabrics, ring, seeds, slow_but
from helpers.trees import grow_tree
from routing.studies.adaptive import AdaptiveTables, LidState, legal_tables, prove_adaptive
from routing.tables import EndpointSet
from topo.fabric import Fabric


def ports_of(fabric: Fabric, tables: AdaptiveTables, table: int, switch: int, lid: int) -> list[int]:
    """Ports that a switch may take: read off the tables, one entry."""
    found = {int(tables.lft[table, switch, lid])} - {0, 255}
    group = int(tables.group[table, switch, lid])
    if group >= 0:
        found |= set(np.flatnonzero(tables.members[group]).tolist())
    first, last = int(fabric.port_offset[switch]), int(fabric.port_offset[switch + 1])
    return [first + n - 1 for n in found if first + n - 1 < last and fabric.peer[first + n - 1] >= 0]


def may_drop(fabric: Fabric, tables: AdaptiveTables, table: int, switch: int, lid: int) -> bool:
    """Whether a packet may find no port: there is none, or the entry is static and its port has no cable."""
    port, first = int(tables.lft[table, switch, lid]), int(fabric.port_offset[switch])
    plugged = 0 < port <= int(fabric.port_offset[switch + 1]) - first and fabric.peer[first + port - 1] >= 0
    static = tables.state[table, switch, lid] == LidState.STATIC
    return not ports_of(fabric, tables, table, switch, lid) or (static and not plugged)


def on_cycles(graph: nx.DiGraph) -> set[object]:
    """Nodes that lie on cycles."""
    parts = nx.strongly_connected_components(graph)
    return {one for part in parts for one in part if len(part) > 1 or graph.has_edge(one, one)}


def play(fabric: Fabric, tables: AdaptiveTables, endpoints: EndpointSet = "hca") -> tuple[int, int, int]:
    """Pairs that an adversary can lose, channels in cycles of what waits for what, most switches passed."""
    waits, lost, longest = nx.DiGraph(), 0, 0
    ends = [end for end in fabric.ends().tolist() if fabric.end_switch[end] >= 0]
    ends += range(fabric.n_switches) if endpoints == "all" else ()
    for end in ends:
        lid, last = int(tables.lid[end]), -1
        if end >= fabric.n_switches:
            last = int(fabric.peer[fabric.port_of(np.array([end]))[0]])
        walks = nx.DiGraph()
        waiting, seen = [int(fabric.end_switch[other]) for other in ends if other != end], set()
        starts = list(waiting)
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            if here == end:  # a switch that is the destination itself
                walks.add_edge(here, "arrived")
                continue
            ports = {port for t in range(tables.n_tables) for port in ports_of(fabric, tables, t, here, lid)}
            if any(may_drop(fabric, tables, t, here, lid) for t in range(tables.n_tables)):
                walks.add_edge(here, "lost")
            for port in ports:
                there = int(fabric.peer_node[port])
                if there >= fabric.n_switches:
                    walks.add_edge(here, "arrived" if port == last else "lost")
                    continue
                walks.add_edge(here, there)
                waits.add_node(port)
                for t in range(tables.n_tables):
                    for then in ports_of(fabric, tables, t, there, lid) if there != end else ():
                        if fabric.peer_node[then] < fabric.n_switches:
                            waits.add_edge(port, then)
                waiting.append(there)
        doomed = {"lost", *on_cycles(walks)}
        bad = doomed.union(*(nx.ancestors(walks, end) for end in doomed if end in walks)) & seen
        lost += sum(start in bad for start in starts)
        whole = walks.subgraph(set(walks) - bad - {"lost"})
        for start in set(starts) - bad:
            reach = whole.subgraph(nx.descendants(whole, start) | {start})
            longest = max(longest, nx.dag_longest_path_length(reach))
    return lost, len(on_cycles(waits)), longest


def judged(fabric: Fabric, tables: AdaptiveTables, endpoints: EndpointSet = "hca") -> tuple[int, int, int]:
    proof = prove_adaptive(fabric, tables, endpoints)
    count = {fault.kind: fault.count for fault in proof.faults}
    return count.get("lost", 0), count.get("loops", 0), proof.max_hops


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Fabric, AdaptiveTables]:
    """A small fabric whose groups are those of its tables, with some entries and groups replaced at random."""
    fabric = draw(fabrics(connected=True, ports=1).filter(lambda one: (one.end_switch[one.ends()] >= 0).sum() > 1))
    routed = routing.route(fabric, "balanced", lanes=1)
    tables = legal_tables(routed)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_tables = draw(st.integers(1, 2))
    members = tables.members.copy()
    lft, group, state = (np.repeat(part, n_tables, axis=0) for part in (tables.lft, tables.group, tables.state))
    for _ in range(draw(st.integers(0, 3))):
        if len(members):
            row = rng.integers(len(members))
            members[row, rng.integers(1, members.shape[1])] ^= True
    for _ in range(draw(st.integers(0, 2))):
        where = (rng.integers(n_tables), rng.integers(fabric.n_switches), int(rng.choice(tables.lid[fabric.ends()])))
        kind = rng.random()
        if kind < 0.4:
            lft[where] = rng.choice([255, 0, 1, 2, 3])
        elif kind < 0.6:
            state[where] = rng.choice([LidState.FREE, LidState.STATIC])
        elif kind < 0.7:
            lft[where], group[where], state[where] = 255, -1, LidState.ABSENT
        elif len(members):
            group[where] = rng.choice([-1, int(rng.integers(len(members)))])
    return fabric, replace(tables, members=members, lft=lft, group=group, state=state)


@pytest.mark.slow
@examples(200)
@given(case=spoilt())
def test_what_an_adversary_can_lose_or_lock_up_is_what_the_proof_counts(case: tuple[Fabric, AdaptiveTables]) -> None:
    assert judged(*case) == play(*case)


@pytest.mark.parametrize("seed", seeds(6))
def test_legal_groups_hold_on_fabrics_that_nobody_drew(seed: int) -> None:
    routed = routing.route(draw(seed), "balanced", lanes=1)
    proof = prove_adaptive(routed.fabric, legal_tables(routed))
    assert proof.holds
    assert {fault.kind for fault in proof.faults} <= {"outside", "mixed", "narrow"}


def lab(kind: str = "tree") -> tuple[Fabric, AdaptiveTables]:
    """Groups of a tree of four leaves and three spines, whose first leaf lost a cable; or of a ring."""
    fabric = ring(5).fabric if kind == "ring" else grow_tree((2, 4), (1, 3), (1, 1))
    fabric = fabric.without(fabric.inner[:1]) if kind == "tree" else fabric
    return fabric, legal_tables(routing.route(fabric, "balanced", lanes=1))


def one_entry(fabric: Fabric, tables: AdaptiveTables) -> tuple[int, int]:
    """A leaf with a group of several ports towards a host elsewhere, and the LID of that host."""
    lids = tables.lid[fabric.ends()].tolist()
    wide = np.append(tables.members.sum(axis=1), 0)[tables.group[0]] > 1
    switch, at = np.argwhere(wide[:, lids])[0].tolist()
    return switch, lids[at]


def edited(tables: AdaptiveTables, switch: int, lid: int, ports: list[int], **more: int) -> AdaptiveTables:
    """The tables with a group of its own for one entry, and other values of it."""
    members = np.vstack([tables.members, np.isin(np.arange(tables.members.shape[1]), ports)])
    group = tables.group.copy()
    group[0, switch, lid] = len(tables.members)
    arrays = {name: getattr(tables, name).copy() for name in more}
    for name, value in more.items():
        arrays[name][0, switch, lid] = value
    return replace(tables, members=members, number=np.append(tables.number, 99), **{"group": group, **arrays})


def ports_to(fabric: Fabric, switch: int, test: Callable[[int], bool]) -> list[int]:
    """Ports of a switch whose other end passes a test."""
    return [int(fabric.port_number[p]) for p in fabric.ports_of(switch) if test(int(fabric.peer_node[p]))]


def members_of(tables: AdaptiveTables, switch: int, lid: int) -> list[int]:
    return np.flatnonzero(tables.members[tables.group[0, switch, lid]]).tolist()


def alone(tables: AdaptiveTables, switch: int, lid: int) -> AdaptiveTables:
    """One port of the group alone."""
    port = members_of(tables, switch, lid)[0]
    return edited(tables, switch, lid, [port], lft=port)


def wrong(fabric: Fabric, switch: int) -> list[int]:
    """Ports of a switch to hosts."""
    return ports_to(fabric, switch, lambda node: node >= fabric.n_switches)


SPOILS: dict[str, tuple[str, Callable[[Fabric, AdaptiveTables, int, int], AdaptiveTables]]] = {
    "no entry at all": ("lost", lambda _, t, s, lid: edited(t, s, lid, [], lft=255, group=-1, state=255)),
    "a group without ports": ("undefined", lambda _, t, s, lid: edited(t, s, lid, [], lft=255)),
    "a static port that leads nowhere": (
        "lost",
        lambda _, t, s, lid: edited(t, s, lid, members_of(t, s, lid), lft=255, state=2),
    ),
    "ports to other hosts": ("lost", lambda f, t, s, lid: edited(t, s, lid, wrong(f, s))),
    "a static port to another host": (
        "lost",
        lambda f, t, s, lid: edited(t, s, lid, members_of(t, s, lid), lft=wrong(f, s)[0]),
    ),
    "a port without a cable": (
        "unplugged",
        lambda f, t, s, lid: edited(t, s, lid, [*members_of(t, s, lid), ports_to(f, s, lambda node: node < 0)[0]]),
    ),
    "a static port beside the group": (
        "outside",
        lambda _, t, s, lid: edited(t, s, lid, members_of(t, s, lid)[1:], lft=members_of(t, s, lid)[0]),
    ),
    "a group that is too small": ("narrow", lambda _, t, s, lid: alone(t, s, lid)),
    "a group unlike a neighbour's": ("uneven", lambda _, t, s, lid: alone(t, s, lid)),
    "adaptive here, static there": ("mixed", lambda _, t, s, lid: edited(t, s, lid, members_of(t, s, lid), state=2)),
}


@pytest.mark.parametrize("name", SPOILS)
def test_each_kind_of_spoilt_group_is_found(name: str) -> None:
    fabric, tables = lab()
    before = prove_adaptive(fabric, tables)
    assert before.holds
    assert not before.faults
    kind, spoil = SPOILS[name]
    after = prove_adaptive(fabric, spoil(fabric, tables, *one_entry(fabric, tables)))
    fault = {fault.kind: fault for fault in after.faults}[kind]
    assert fault.count >= 1
    assert fabric.label(one_entry(fabric, tables)[0]) in fault.example or kind == "mixed"
    assert after.holds == ("lost" not in {fault.kind for fault in after.faults})


def test_a_port_back_up_after_a_hop_down_leads_round_about() -> None:
    fabric, tables = lab()
    _, lid = one_entry(fabric, tables)
    spine = int(fabric.level[: fabric.n_switches].argmax())
    spoilt = edited(tables, spine, lid, ports_to(fabric, spine, lambda n: 0 <= n < fabric.n_switches))
    proof = prove_adaptive(fabric, spoilt)
    assert proof.verdict is False
    fault = next(fault for fault in proof.faults if fault.kind == "lost")
    assert fault.example.endswith("round about")
    assert fabric.label(spine) in fault.example


def test_shortest_groups_on_a_ring_deliver_and_can_lock_up() -> None:
    fabric, _ = lab("ring")
    lft = ring(5).tables.lft[None]
    groups = np.full(lft.shape, -1, np.int32)
    tables = AdaptiveTables(
        ring(5).tables.lid, lft, np.full(lft.shape, LidState.STATIC, np.uint8), groups, np.zeros((0, 9), bool),
        np.zeros(0, np.int32),
    )  # fmt: skip
    proof = prove_adaptive(fabric, tables)
    assert proof.verdict is False
    assert {fault.kind for fault in proof.faults} >= {"loops"}
    assert proof.static_loops == next(fault.count for fault in proof.faults if fault.kind == "loops")


def test_two_private_tables_of_which_one_is_empty_cannot_be_told() -> None:
    fabric, tables = lab()
    both = replace(
        tables,
        lft=np.concatenate([tables.lft, np.full_like(tables.lft, 255)]),
        state=np.concatenate([tables.state, np.full_like(tables.state, LidState.ABSENT)]),
        group=np.concatenate([tables.group, np.full_like(tables.group, -1)]),
    )
    assert prove_adaptive(fabric, both).holds, "no packet meets a table that is empty everywhere"
    leaf, lid = one_entry(fabric, tables)
    twice = {name: np.repeat(getattr(tables, name), 2, axis=0) for name in ("lft", "state", "group")}
    for name, nothing in (("lft", 255), ("state", LidState.ABSENT), ("group", -1)):
        twice[name][1, leaf, lid] = nothing
    hole = prove_adaptive(fabric, replace(tables, **twice))
    assert hole.verdict is None and hole.count("lost") > 0, "a hole in one table is not filled by another"
    spine = int(fabric.level[: fabric.n_switches].argmax())
    spoilt = edited(tables, spine, lid, ports_to(fabric, spine, lambda n: 0 <= n < fabric.n_switches))
    members, number = spoilt.members, spoilt.number
    mixed = replace(
        tables,
        lft=np.concatenate([tables.lft, spoilt.lft]),
        state=np.concatenate([tables.state, spoilt.state]),
        group=np.concatenate([tables.group, spoilt.group]),
        members=members,
        number=number,
    )
    assert prove_adaptive(fabric, mixed).verdict is None


@pytest.mark.parametrize("endpoints", ["hca", "all"])
@pytest.mark.parametrize("seed", slow_but(range(12), 0, 1, 2))
def test_an_adversary_on_a_few_switches_in_a_ring(seed: int, endpoints: EndpointSet) -> None:
    """Groups of any ports, so that packets are led past their switch, round about and to other hosts."""
    rng, case = np.random.default_rng(seed), ring(4)
    members = rng.random((6, 5)) < 0.6
    members[:, 0] = False
    lft = case.tables.lft[None].copy()
    group = np.where(rng.random(lft.shape) < 0.7, rng.integers(6, size=lft.shape), -1).astype(np.int32)
    group[:, np.arange(4), case.tables.lid[case.fabric.end_switch >= 0][-4:]] = -1  # the last hop is a host's own
    state = np.full(lft.shape, LidState.FREE, np.uint8)
    tables = AdaptiveTables(case.tables.lid, lft, state, group, members, np.arange(6, dtype=np.int32))
    assert judged(case.fabric, tables, endpoints) == play(case.fabric, tables, endpoints)
