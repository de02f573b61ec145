"""From one plan to a larger one, on random growths: every step is played on a graph of names and looked at there."""

import re
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from topo.changes.growth import Growth, _Live, plan_growth
from topo.errors import DesignError, HeddleError
from topo.fabric import Fabric


def spec(gpus: int, storage: int, network: dict[str, object]) -> Fabric:
    nodes = {"gpu": {"model": "pcie-a100", "count": gpus}, "store": {"model": "storage-3fs", "count": storage}}
    return topo.parse({"name": "x", "nodes": {k: v for k, v in nodes.items() if v["count"]}, "network": network}).fabric


SPANS = {"gpus": (2, 40), "storage": (0, 6), "leaves": (2, 5), "spines": (1, 4), "zones": (1, 3)}
MORE = {"gpus": [0, 1, 7, 20, -1], "storage": [0, 0, 1, 2], "leaves": [0, 0, 1, 2, -1], "spines": [0, 0, 1, 2],
        "zones": [0, 0, 1, 2, -1]}  # fmt: skip
growths = st.tuples(
    st.fixed_dictionaries({name: st.integers(*span) for name, span in SPANS.items()}),
    st.fixed_dictionaries({name: st.sampled_from(steps) for name, steps in MORE.items()}),
)
"""A tree or zones, and more of something: hosts, leaves, spines, zones; rarely less of it."""


def fabric_of(numbers: dict[str, int]) -> Fabric:
    tree = {"switch": "QM8700", "leaves": numbers["leaves"], "spines": numbers["spines"]}
    if numbers["zones"] < 2:
        return spec(numbers["gpus"], numbers["storage"], {"shape": "fat-tree", **tree})
    joints = {"switch": "QM8700", "count": 1, "ports": 2}
    zones = {"shape": "zones", "zones": numbers["zones"], "tree": tree, "joints": joints}
    return spec(numbers["gpus"], numbers["storage"], zones)


def cables(fabric: Fabric) -> list[frozenset[str]]:
    return [frozenset(map(fabric.port_label, link)) for link in fabric.links.tolist()]


def replayed(growth: Growth) -> set[frozenset[str]]:
    """Play the works on names, and check each step; return the cables that are there in the end."""
    old, grown = growth.old, growth.grown
    new_name = {old.label(was): grown.label(node) for node, was in enumerate(growth.was.tolist()) if was >= 0}
    gone = {name: f"{name} (gone)" for name in growth.gone}

    def now(port: str) -> str:
        node, _, number = port.rpartition(":")
        return f"{new_name.get(node) or gone[node]}:{number}"

    said = {old.port_label(port): now(old.port_label(port)) for link in old.links.tolist() for port in link}
    plugged = {frozenset(said[port] for port in cable) for cable in cables(old)}
    hosts = {grown.label(node) for node, was in enumerate(growth.was.tolist()) if was >= 0 and node >= grown.n_switches}
    alive = {port.rpartition(":")[0] for cable in plugged for port in cable} & hosts

    def apart() -> set[str]:
        graph = nx.Graph([[port.rpartition(":")[0] for port in cable] for cable in plugged])
        graph.add_nodes_from(hosts)
        most = max((part & hosts for part in nx.connected_components(graph)), key=len, default=set())
        return hosts - most

    before = apart()
    for step in range(1, growth.steps + 1):
        works = [work for work in growth.works if work.step == step]
        assert [work.do for work in works] == sorted((work.do for work in works), reverse=True)  # unplug, then plug
        busy: Counter[str] = Counter()
        for work in works:
            ends = [work.a, work.b]
            if work.do == "unplug":
                ends = [now(end) for end in ends]  # they have the names of the old fabric
                assert frozenset(ends) in plugged
                plugged.remove(frozenset(ends))
                nodes = [end.rpartition(":")[0] for end in ends]
                busy.update(node.partition(" ")[0] if node.startswith("store") else node for node in nodes)
                named = {new_name[name] for other in works for name in other.cut}
                assert apart() - before <= named
            else:
                assert not {port for cable in plugged for port in cable} & set(ends)  # both ports are free
                plugged.add(frozenset(ends))
        assert max(busy.values(), default=0) <= 1
        before = apart()
    assert alive >= hosts - before or not growth.works
    return plugged


@pytest.mark.slow
@examples(40)
@given(growths)
def test_each_step_leaves_all_hosts_connected_but_those_named(pair: tuple[dict[str, int], dict[str, int]]) -> None:
    numbers, more = pair
    try:
        old, target = fabric_of(numbers), fabric_of({name: numbers[name] + more[name] for name in numbers})
    except DesignError:
        return
    growth = plan_growth(old, target)
    assert replayed(growth) == set(cables(growth.grown))
    # The grown fabric is the target with other ports.
    pairs = [Counter(tuple(sorted(ends)) for ends in fabric.port_node[fabric.links].tolist())
             for fabric in (growth.grown, target)]  # fmt: skip
    assert pairs[0] == pairs[1]
    # As many cables stay as two graphs with these nodes have in common.
    place = {was: node for node, was in enumerate(growth.was.tolist()) if was >= 0}
    nodes = [[place.get(node, -1) for node in pair] for pair in old.port_node[old.links].tolist()]
    had = Counter(tuple(sorted(pair)) for pair in nodes if -1 not in pair)
    wanted = Counter(tuple(sorted(pair)) for pair in target.port_node[target.links].tolist())
    assert growth.kept == (had & wanted).total()


@examples(15)
@given(growths)
def test_works_name_the_part_and_the_transceivers_of_their_own_cable(
    pair: tuple[dict[str, int], dict[str, int]],
) -> None:
    """Each cable is called by its two nodes, and each transceiver by its node, in the plan that has the cable."""
    before, more = pair
    after = {name: max(1 if name != "storage" else 0, before[name] + step) for name, step in more.items()}
    try:
        old, target = fabric_of(before), fabric_of(after)
    except DesignError:
        assume(False)

    def parts(fabric: Fabric) -> list[tuple[str, str]]:
        nodes = [fabric.label(node) for node in fabric.port_node.tolist()]
        ends = zip(nodes, fabric.peer.tolist(), strict=True)
        return [("|".join(sorted((mine, nodes[peer]))) if peer >= 0 else "", mine) for mine, peer in ends]

    for work in plan_growth(old, target, parts=(parts(old), parts(target))).works:
        assert work.part == "|".join(sorted((work.a_transceiver, work.b_transceiver)))
        if work.do == "plug":
            assert (work.a_transceiver, work.b_transceiver) == (work.a.rpartition(":")[0], work.b.rpartition(":")[0])


def test_nothing_moves_where_nothing_changes() -> None:
    fabric = topo.preset("lab-20").fabric
    growth = plan_growth(fabric, fabric)
    assert (growth.works, growth.new, growth.gone, growth.kept) == ((), [], [], len(fabric.links))


def test_a_second_zone_moves_no_cable() -> None:
    tree = {"switch": "QM8700", "leaves": 3, "spines": 2}
    joints = {"switch": "QM8700", "count": 1, "ports": 3, "placement": "spread"}
    one = spec(20, 0, {"shape": "fat-tree", **tree})
    two = spec(40, 0, {"shape": "zones", "zones": 2, "tree": tree, "joints": joints})
    growth = plan_growth(one, two)
    assert growth.cut == []
    assert replayed(growth) == set(cables(growth.grown))


@examples(12)
@given(
    model=st.sampled_from(["dgx-h100", "dgx-a100", "dgx-b300-planes"]),
    unit=st.integers(1, 6),
    counts=st.lists(st.integers(1, 24), min_size=2, max_size=3).map(sorted),
    spines=st.integers(1, 3),
    parallel=st.integers(1, 2),
    planes=st.sampled_from([1, 2]),
    levels=st.sampled_from([2, 2, 3]),
)
def test_units_that_are_added_to_rails_move_no_cable(
    model: str, unit: int, counts: list[int], spines: int, parallel: int, planes: int, levels: int
) -> None:
    """In several stages, with the spines of the last from the start: unit by unit, or in the midst of one.

    The cables of each stage are recounted by the numbers in the names of their ends, and are all in the next; on three
    levels, where a rail fits below its spines, all but those of cores.
    """
    assume(levels == 2 or -(-counts[-1] // unit) * parallel <= 32)
    tree = {"switch": "QM9700", "levels": levels, "spines": spines, "parallel": parallel}
    network = {"shape": "rail", "unit_nodes": unit, "planes": planes, "tree": tree}
    stages = []
    for count in counts:
        nodes = {"gpu": {"model": model, "count": count}}
        try:
            stages.append(topo.parse({"name": "x", "nodes": nodes, "network": network}).fabrics)
        except DesignError:  # more leaves than a spine has ports
            break
    for before, after in pairwise(stages):
        for old, larger in zip(before, after, strict=True):
            growth = plan_growth(old, larger)
            assert all("core" in work.a + work.b for work in growth.works if work.do == "unplug")
            assert levels == 3 or growth.kept == len(old.links)
            assert all("core" in "".join(ends) for ends in numbered_cables(old) - numbered_cables(larger))


def numbered_cables(fabric: Fabric) -> Counter[tuple[str, ...]]:
    """Count the cables between each two nodes, called as they are without leading zeros."""
    labels = [re.sub(r"(?<=[a-z])0+(?=[0-9])", "", fabric.label(node)) for node in range(fabric.n_nodes)]
    ends = fabric.port_node[fabric.links].tolist()
    return Counter(tuple(sorted((labels[a], labels[b]))) for a, b in ends)


@pytest.mark.slow
@examples(8)
@given(
    unit=st.integers(1, 16),
    units=st.integers(1, 3),
    rails=st.sampled_from([2, 4, 8]),
    spines=st.sampled_from([2, 4]),
    more=st.integers(1, 20),
)
def test_further_units_of_rails_unplug_nothing(unit: int, units: int, rails: int, spines: int, more: int) -> None:
    """Spines and links as they stay: what is there stays, leaf by leaf and port by port; recounted from the names."""

    def grown(count: int) -> Fabric:
        tree = {"switch": "QM9700", "spines": spines, "parallel": 16 // spines}
        network = {"shape": "rail", "unit_nodes": unit, "rails": rails, "tree": tree}
        nodes = {"gpu": {"model": "dgx-h100", "count": count}}
        return topo.parse({"name": "x", "nodes": nodes, "network": network}).fabric

    try:
        old, target = grown(unit * units), grown(unit * units + more)
    except DesignError:
        return
    found = plan_growth(old, target)
    assert not [work for work in found.works if work.do == "unplug"]
    assert found.kept == len(old.links)
    hangs = {  # server, number of its adapter: number of its leaf
        (target.server_of(node), topo.device_number(target.label(node).split()[1])): int(
            target.label(far).removeprefix("leaf")
        )
        for node in range(target.n_switches, target.n_nodes)
        for far in target.peer_node[target.ports_of(node)].tolist()
    }
    for (server, device), leaf in hangs.items():
        assert leaf == int(server.removeprefix("gpu")) // unit * rails + device % rails


def test_plans_without_a_common_switch_are_refused() -> None:
    with pytest.raises(HeddleError, match="no switch"):
        plan_growth(topo.preset("lab-20").fabric, topo.preset("deepseek-v3-planes").fabrics[0])


@pytest.mark.parametrize("seed", range(4))
def test_servers_stay_on_their_switches_whatever_they_are_called(seed: int) -> None:
    """The same plan with the names of its servers in another order: nothing is plugged anew."""
    old, rng = (
        spec(30, 3, {"shape": "fat-tree", "switch": "QM8700", "leaves": 3, "spines": 2}),
        np.random.default_rng(seed),
    )
    host, names = old.host.copy(), list(old.names)
    for kind in range(2):  # servers of one model take names of each other
        mine = [node for node in range(old.n_switches, old.n_nodes) if (old.role[node] == old.role[-1]) == kind]
        servers = list(dict.fromkeys(old.host[mine].tolist()))
        called = dict(zip(servers, rng.permutation(servers).tolist(), strict=True))
        for node in mine:
            host[node] = called[int(old.host[node])]
            names[node] = names[node].replace(old.hosts[old.host[node]], old.hosts[host[node]])
    target = replace(old, host=host, names=tuple(names))
    growth = plan_growth(old, target)
    assert (growth.works, growth.new, growth.gone, growth.kept) == ((), [], [], len(old.links))
    leaf = {
        target.label(node): target.peer_node[target.port_offset[node]] for node in range(old.n_switches, old.n_nodes)
    }
    for node in range(old.n_switches, old.n_nodes):
        name, mine = old.label(node), old.peer_node[old.port_offset[node]]
        assert leaf[dict(growth.renamed).get(name, name)] == mine
        assert leaf[name] != mine or name not in dict(growth.renamed)  # who may keep a name keeps it


@pytest.mark.parametrize("seed", range(12))
def test_hosts_that_a_cable_holds_beside_a_plain_search(seed: int) -> None:
    """Random cables, many of them parallel, come and go: the parts are found anew from the list each time."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 8))
    node_of = {port: int(node) for port, node in enumerate(np.repeat(np.arange(n), 12))}
    hosts = set(rng.choice(n, int(rng.integers(1, n + 1)), replace=False).tolist())
    free = {node: list(range(12 * node, 12 * node + 12)) for node in range(n)}
    every = []
    for _ in range(int(rng.integers(1, 3 * n))):
        a, b = rng.choice(n, 2, replace=False).tolist()
        if free[a] and free[b]:
            every.append((free[a].pop(), free[b].pop()))

    def parts(cables: list[tuple[int, int]]) -> list[set[int]]:
        found = [{node} for node in range(n)]
        for a, b in cables:
            joined = [part for part in found if part & {node_of[a], node_of[b]}]
            found = [part for part in found if part not in joined] + [set().union(*joined)]
        return found

    there = every[: len(every) // 2]
    live = _Live(node_of, there, hosts)
    apart = set(live.disconnected)
    most = max(parts(there), key=lambda part: len(part & hosts))
    assert apart <= hosts and len(hosts - apart) == len(most & hosts)
    for _ in range(20):
        cable = every[int(rng.integers(len(every)))]
        (live.remove if cable in there else live.add)(cable)
        there = [one for one in there if one != cable] if cable in there else [*there, cable]
        assert live.cables == set(there)
        assert live.largest() in [part & hosts for part in parts(there)]
        assert len(live.largest()) == max(len(part & hosts) for part in parts(there))
        for one in there:
            without = parts([other for other in there if other != one])
            sides = [next(part & hosts for part in without if node_of[port] in part) for port in one]
            least = min(len(side) for side in sides)
            held = (
                [side - apart for side in sides if len(side) == least] if len(without) > len(parts(there)) else [set()]
            )
            assert live.disconnected_by(one) in held
