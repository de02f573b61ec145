"""Speeds and absent nodes of random fabrics, judged one by one."""

from dataclasses import replace

import numpy as np
import pytest

from helpers.random_fabrics import draw
from helpers.strategies import nightly
from topo.builder import FabricBuilder
from topo.changes.differences import find_differences
from topo.cluster import preset
from topo.fabric import Fabric, Kind, Role
from topo.speeds import SPEEDS, parse_link_speed

RATES = [(lanes, SPEEDS.index(name)) for lanes, name in ((4, "HDR"), (2, "HDR"), (4, "EDR"), (1, "HDR"), (2, "EDR"))]
"""Some are as fast as others on other lanes."""
SEEDS = [*range(6), *(nightly(seed) for seed in range(6, 200))]


def with_speeds(fabric: Fabric, rng: np.random.Generator) -> Fabric:
    width, speed = fabric.width.copy(), fabric.speed.copy()
    for link in fabric.links.tolist():
        if rng.random() < 0.5:
            width[link], speed[link] = RATES[rng.integers(len(RATES))]
    return replace(fabric, width=width, speed=speed)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cable_is_slow_if_and_only_if_its_rate_is_below_the_planned(seed: int) -> None:
    rng, number = np.random.default_rng(seed), seed
    while len((fabric := draw(number)).links) > 300:
        number += 1009
    plan, there = with_speeds(fabric, rng), with_speeds(fabric, rng)
    wanted = set()
    for a, b in plan.links.tolist():
        if there.rate_gbps[a] < plan.rate_gbps[a]:
            wanted.add(("degraded" if there.width[a] < plan.width[a] else "slow", frozenset((a, b))))
    assert {(one.kind, frozenset(one.ports)) for one in find_differences(plan, there).found} == wanted


def two_planes(rng: np.random.Generator) -> Fabric:
    """Leaves on a spine, and adapters with a port on two leaves each."""
    build, speed = FabricBuilder("planes"), parse_link_speed("4xHDR")
    spine = build.switch("spine", model="m", radix=8, role=Role.SPINE, level=2)
    leaves = [build.switch(f"leaf{at}", model="m", radix=16, role=Role.LEAF, level=1) for at in range(4)]
    used = dict.fromkeys(leaves, 0)
    for at, leaf in enumerate(leaves):
        build.link(leaf, 16, spine, at + 1, speed)
    for host in range(8):
        adapter = build.adapter(f"host{host}", "mlx5_0", model="", host_model="", role=Role.COMPUTE, ports=2)
        for port, leaf in enumerate(rng.choice(len(leaves), 2, replace=False).tolist()):
            used[leaves[leaf]] += 1
            build.link(adapter, port + 1, leaves[leaf], used[leaves[leaf]], speed)
    return build.build()


@pytest.mark.parametrize("seed", SEEDS)
def test_an_adapter_is_counted_with_its_switches_only_if_all_are_absent(seed: int) -> None:
    rng = np.random.default_rng(seed)
    plan = two_planes(rng)
    gone = set(rng.choice(plan.n_nodes, 6, replace=False).tolist()) - {0}
    there = without_nodes(plan, gone)
    told = set()
    for node in gone:
        leaves = {int(far) for far in plan.peer_node[plan.ports_of(node)] if far >= 0}
        if plan.kind[node] != Kind.HCA or not leaves <= gone:
            told.add(node)
    found = [one for one in find_differences(plan, there).found if one.kind == "absent"]
    assert {one.nodes[0] for one in found} == told


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_not_planned_is_told_once_with_the_ports_that_it_holds(seed: int) -> None:
    """Nodes that the plan lacks, perhaps with a cable to one another: each with its first cable, and how many more."""
    rng = np.random.default_rng(seed)
    there = two_planes(rng)
    extra = sorted(set(rng.choice(there.n_nodes, int(rng.integers(1, 6)), replace=False).tolist()) - {0})
    plan = without_nodes(there, set(extra))
    own = {plan.port_label(port): port for port in range(plan.n_ports)}
    told = {}
    for node in extra:
        cables = [port for port in there.ports_of(node) if there.peer[port] >= 0]
        fars = sorted(there.port_label(int(there.peer[port])) for port in cables)
        known = [far for far in fars if far in own]
        if cables:
            name, more = there.label(node), len(cables) - 1
            counted = f" and {more} cable{'s' * (more > 1)} more" if more else ""
            ports = tuple(sorted(own[far] for far in known))
            told[name] = (f"{(known or fars)[0]} - {name}", f"{name}{counted}", ports)
    found = find_differences(plan, there).found
    assert {one.kind for one in found} <= {"unplanned"}
    assert sorted((one.where, one.found, tuple(sorted(one.ports))) for one in found) == sorted(told.values())
    assert all(one.planned == "nothing" for one in found)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_difference_names_the_cables_that_are_planned_and_those_that_are_there(seed: int) -> None:
    """Plugs are pulled and exchanged at random: of the cables that only one of the two has each is named once."""
    rng, plan = np.random.default_rng(seed), preset("lab-20").fabric
    peer = plan.peer.copy()
    chosen = rng.choice(plan.links, 9, replace=False)
    peer[chosen.ravel()] = -1
    free = [port for port in np.flatnonzero(peer[: plan.first_adapter_port] < 0).tolist() if rng.random() < 0.3]
    loose = rng.permutation(np.concatenate([chosen.ravel(), [port for port in free if port not in chosen]])).tolist()
    for a, b in zip(loose[0:12:2], loose[1:12:2], strict=True):
        if plan.port_node[a] != plan.port_node[b] and min(a, b) < plan.first_adapter_port:
            peer[a], peer[b] = b, a
    there = replace(plan, peer=peer)
    sides = [{frozenset(map(plan.port_label, link)) for link in one.links.tolist()} for one in (plan, there)]
    named: tuple[list[frozenset[str]], list[frozenset[str]]] = ([], [])
    for one in find_differences(plan, there).found:
        ports = [plan.port_label(port) for port in one.ports]
        if one.kind in ("missing", "extra"):
            named[one.kind == "extra"].append(frozenset(ports))
            continue
        assert one.kind in ("swapped", "rotated", "moved", "tangled")
        both = [[frozenset(cable.split(" to ")) for cable in text.split(", ")] for text in (one.planned, one.found)]
        assert {*ports} == set().union(*both[0], *both[1])
        assert abs(len(both[0]) - len(both[1])) == (len(ports) % 2 == 0 and one.kind == "tangled")
        for mine, cables in zip(named, both, strict=True):
            mine += cables
    for mine, own, other in ((named[0], *sides), (named[1], *sides[::-1])):
        assert sorted(map(sorted, mine)) == sorted(map(sorted, own - other))


def without_nodes(fabric: Fabric, gone: set[int]) -> Fabric:
    """The fabric as a tool lists it that does not see some nodes."""
    build, speed = FabricBuilder(fabric.name), parse_link_speed("4xHDR")
    key = {}
    for node in range(fabric.n_nodes):
        if node in gone:
            continue
        name, size = fabric.names[node], len(fabric.ports_of(node))
        if node < fabric.n_switches:
            key[node] = build.switch(name, model="m", radix=size, role=Role.SWITCH, level=-1)
        else:
            host, _, device = name.partition(" ")
            key[node] = build.adapter(host, device, model="", host_model="", role=Role.COMPUTE, ports=size)
    for a, b in fabric.links.tolist():
        x, y = (int(fabric.port_node[port]) for port in (a, b))
        if x in key and y in key:
            build.link(key[x], int(fabric.port_number[a]), key[y], int(fabric.port_number[b]), speed)
    return build.build()
