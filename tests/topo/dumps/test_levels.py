"""Levels, zones and joints from the wiring: against planned fabrics, damaged ones, and what real ones are called."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from helpers.clusters import tree, zoned
from helpers.random_fabrics import Draft, draw, two_levels
from helpers.relabel import relabelled
from helpers.strategies import fabrics, slow_but
from helpers.trees import HDR, grow_tree
from helpers.twins import twin
from topo.builder import FabricBuilder
from topo.dumps.levels import _spread, find_levels
from topo.fabric import Fabric, Kind, Role

PLANNED = {
    "fire-flyer-2, border": lambda: zoned("border"),
    "fire-flyer-2, spread": lambda: zoned("spread"),
    "three zones of 36 ports": lambda: zoned(
        zones=3, leaves=36, spines=18, switch="SB7800", n_gpus=1500, n_storage=40, joints=3, ports=36
    ),
    "small zones": lambda: zoned("spread", zones=3, leaves=6, spines=4, n_gpus=60, n_storage=6, joints=3, ports=6),
    "one tree": tree,
    "one tree, a third of it empty": lambda: tree(530, leaves=40, spines=20),
    "three levels": lambda: tree(3000, levels=3),
    "two pods of unequal size": lambda: tree(500, levels=3, leaves_per_pod=20),
    "four levels": lambda: grow_tree((3, 3, 3, 3), (1, 3, 3, 3), (1, 1, 1, 1)),
    "parallel cables": lambda: grow_tree((4, 4, 2), (1, 2, 2), (1, 2, 2)),
    "oversubscribed": lambda: tree(900, oversubscription=3.0),
}


def without_levels(fabric: Fabric) -> Fabric:
    """Return the fabric as if it were discovered, its switches without level, zone, role and name."""
    n = fabric.n_switches
    return replace(
        fabric,
        level=np.where(np.arange(fabric.n_nodes) < n, -1, 0).astype(np.int8),
        zone=np.full(fabric.n_nodes, -1, np.int16),
        role=np.where(np.arange(fabric.n_nodes) < n, np.uint8(Role.SWITCH), fabric.role),
        names=("",) * fabric.n_nodes,
    )


def between_switches(fabric: Fabric) -> np.ndarray:
    links = fabric.links
    return links[(fabric.port_node[links] < fabric.n_switches).all(axis=1)]


def assert_found(fabric: Fabric, truth: Fabric, switches: np.ndarray | None = None) -> None:
    found = find_levels(without_levels(fabric))
    of = np.arange(fabric.n_switches) if switches is None else switches
    for field in ("level", "role", "zone"):
        assert getattr(found, field)[of].tolist() == getattr(truth, field)[of].tolist(), field
    hung = fabric.end_switch[fabric.n_switches :]
    owner = fabric.end_node[fabric.n_switches :]
    single = hung >= 0
    assert found.zone[owner[single]].tolist() == truth.zone[hung[single]].tolist()
    assert np.array_equal(found.role[fabric.n_switches :], fabric.role[fabric.n_switches :])


@pytest.mark.parametrize("name", slow_but(PLANNED, *list(PLANNED)[:4]))
def test_planned_fabrics_are_recognised(name: str) -> None:
    fabric = PLANNED[name]()
    assert_found(fabric, with_one_zone(fabric))


def with_one_zone(fabric: Fabric) -> Fabric:
    """Return the fabric as it is found: a single tree is zone 0, and all above the spines are cores."""
    if (fabric.role == Role.JOINT).any():
        return fabric
    role = np.where(fabric.level > 2, np.uint8(Role.CORE), fabric.role)
    return replace(fabric, zone=np.zeros_like(fabric.zone), role=role)


@pytest.mark.parametrize("placement", ["border", "spread"])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.slow
def test_fire_flyer_2_is_recognised_with_links_and_a_spine_missing(placement: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = zoned(placement)
    links = between_switches(fabric)
    lost = links[rng.permutation(len(links))[: len(links) * 3 // 100], 0]
    spine = rng.choice(np.flatnonzero(fabric.role == Role.SPINE))
    damaged = fabric.without(np.concatenate([lost, np.flatnonzero(fabric.port_node == spine)]))
    assert_found(damaged, fabric, np.setdiff1d(np.arange(fabric.n_switches), spine))
    assert find_levels(without_levels(damaged)).level[spine] == -1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three levels", "two pods of unequal size", "three zones of 36 ports"])
@pytest.mark.parametrize("seed", range(3))
def test_trees_are_recognised_with_links_missing_and_misplugged(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fabric = PLANNED[name]()
    links = rng.permutation(between_switches(fabric))
    few = len(links) * 3 // 100
    damaged = fabric.without(links[:few, 0])
    peer = damaged.peer.copy()
    for (a, b), (c, d) in zip(links[few : few + 4], links[few + 4 : few + 8], strict=True):
        peer[[a, d, c, b]] = [d, a, b, c]
    assert_found(replace(damaged, peer=peer), with_one_zone(fabric))


@pytest.mark.parametrize("name", ["fire-flyer-2, border", "three levels", "small zones"])
def test_the_order_of_the_switches_does_not_matter(name: str) -> None:
    fabric = PLANNED[name]()
    truth = find_levels(without_levels(fabric))
    order = np.concatenate([
        np.random.default_rng(1).permutation(fabric.n_switches), np.arange(fabric.n_switches, fabric.n_nodes)
    ])  # fmt: skip
    found = find_levels(without_levels(reordered(fabric, order)))
    assert np.array_equal(found.level, truth.level[order])
    assert np.array_equal(found.role, truth.role[order])
    # Zones are numbered by their first switch.
    pairs = set(zip(found.zone.tolist(), truth.zone[order].tolist(), strict=True))
    assert len(pairs) == len(set(truth.zone.tolist()))


def reordered(fabric: Fabric, order: np.ndarray) -> Fabric:
    radix = np.diff(fabric.port_offset)
    offset = np.concatenate([[0], np.cumsum(radix[order])]).astype(np.int32)
    ports = np.concatenate([np.arange(fabric.port_offset[n], fabric.port_offset[n + 1]) for n in order])
    place = np.empty(fabric.n_ports + 1, np.int32)
    place[ports] = np.arange(fabric.n_ports)
    place[-1] = -1
    return replace(
        fabric, kind=fabric.kind[order], role=fabric.role[order], port_offset=offset, peer=place[fabric.peer[ports]]
    )


# What the switches of real machines are called says what they are; the code never looks at it.
TRUTH = {
    "hdr-pod": [(r";leaf\d+:MQM8700/", 1, 160), (r":MCS8500/L", 2, 160), (r":MCS8500/S", 3, 80)],
    "a100-superpod": [(r"^leaf", 1, 56), (r"^spine", 2, 80), (r"^core", 3, 70)],
    "two-frames": [(r"^leaf", 1, 72), (r":MCS8500/L", 2, 80), (r":MCS8500/S", 3, 40)],
    "edr-frames": [(r"^leaf", 1, 84), (r":CS7500/L", 2, 54), (r":CS7500/S", 3, 36)],
    "qdr-directors": [(r"^leaf", 1, 79), (r":IS5600/L", 2, 81), (r":IS5600/S", 3, 54)],
    "ndr-pod": [(r";leaf", 1, 31), (r";spine", 2, 9)],
    "fdr10-mesh": [(r";leaf", 1, 6), (r";spine", 2, 2)],
}


@pytest.mark.parametrize("name", TRUTH)
def test_real_fabrics_are_what_they_are_called(name: str) -> None:
    fabric = twin(name)
    for pattern, level, count in TRUTH[name]:
        named = [i for i in range(fabric.n_switches) if re.search(pattern, fabric.names[i])]
        assert len(named) == count
        assert set(fabric.level[named].tolist()) == {level}, pattern
    assert set(fabric.zone[: fabric.n_switches].tolist()) == {0}
    assert set(fabric.level[fabric.n_switches :].tolist()) == {0}


def test_a_bare_frame_shows_its_chips() -> None:
    fabric = twin("frame")
    assert np.bincount(fabric.level[:60]).tolist() == [0, 40, 20]
    assert np.bincount(find_levels(fabric.without(np.arange(fabric.first_adapter_port, fabric.n_ports))).level[:60])[
        1:
    ].tolist() == [40, 20]


def test_the_two_zone_model() -> None:
    fabric = twin("two-zones")
    wanted = {"leaf": Role.LEAF, "spin": Role.SPINE, "join": Role.JOINT}
    for name, role, zone in zip(fabric.names[:122], fabric.role, fabric.zone, strict=False):
        assert role == wanted[name.removeprefix("zA-").removeprefix("zB-")[:4]]
        assert zone == {"zA": 0, "zB": 1, "jo": -1}[name[:2]]
    gpu = [i for i, name in enumerate(fabric.names) if name.startswith("zB-gpu")]
    assert set(fabric.zone[gpu].tolist()) == {1}


def test_cables_from_leaf_to_leaf_join_zones_too() -> None:
    fabric = zoned("spread", leaves=6, spines=4, n_gpus=60, n_storage=6, joints=2, ports=4)
    joints = np.flatnonzero(fabric.role == Role.JOINT)
    ends = fabric.peer[np.isin(fabric.port_node, joints)]
    ends = ends[ends >= 0]
    zone = fabric.zone[fabric.port_node[ends]]
    bare = fabric.without(ends)
    peer = bare.peer.copy()
    peer[ends[zone == 0]], peer[ends[zone == 1]] = ends[zone == 1], ends[zone == 0]
    assert_found(replace(bare, peer=peer), fabric, np.setdiff1d(np.arange(fabric.n_switches), joints))


def test_management_hosts_on_a_spine_and_aggregation_nodes_everywhere_change_nothing() -> None:
    fabric = tree(500, leaves=30, spines=20)
    n = fabric.n_switches
    spine = int(np.flatnonzero(fabric.role == Role.SPINE)[3])
    free = [p for p in range(fabric.port_offset[spine], fabric.port_offset[spine + 1]) if fabric.peer[p] < 0]
    peer = fabric.peer.copy()
    for port, host in zip(free, range(n, n + 9), strict=False):
        own = fabric.port_offset[host]
        peer[peer[own]], peer[own], peer[port] = -1, port, own
    moved = replace(fabric, peer=peer)
    assert_found(moved, with_one_zone(replace(fabric, zone=np.zeros_like(fabric.zone))))
    # The HCAs of every switch turned into its aggregation nodes: what has none left is told by its wiring alone.
    kind = fabric.kind.copy()
    kind[n + 200 :] = Kind.AGGREGATION
    assert_found(replace(fabric, kind=kind), with_one_zone(fabric))


@pytest.mark.parametrize("n", [4, 9])
def test_a_torus_is_no_tree(n: int) -> None:
    builder = FabricBuilder("torus")
    grid = {
        (x, y): builder.switch(f"s{x}-{y}", model="", radix=8, role=Role.SWITCH, level=-1)
        for x in range(n)
        for y in range(n)
    }
    for (x, y), key in grid.items():
        builder.link(key, 1, grid[(x + 1) % n, y], 2, HDR)
        builder.link(key, 3, grid[x, (y + 1) % n], 4, HDR)
        host = builder.adapter(f"h{x}-{y}", "mlx5_0", model="", host_model="", role=Role.COMPUTE)
        builder.link(host, 1, key, 5, HDR)
    found = find_levels(builder.build())
    assert set(found.level[: n * n].tolist()) == {1}
    assert set(found.zone.tolist()) == {0}


@pytest.mark.parametrize("hosts", [2, 12])
def test_a_bigraph_is_one_zone(hosts: int) -> None:
    builder = FabricBuilder("bigraph")
    sides = [
        [builder.switch(f"{side}{i}", model="", radix=20, role=Role.SWITCH, level=-1) for i in range(6)]
        for side in ("upper", "lower")
    ]
    for i, upper in enumerate(sides[0]):
        for j, lower in enumerate(sides[1]):
            builder.link(upper, 1 + j, lower, 1 + i, HDR)
    for key in (*sides[0], *sides[1]):
        for i in range(hosts):
            host = builder.adapter(f"h{key}-{i}", "mlx5_0", model="", host_model="", role=Role.COMPUTE)
            builder.link(host, 1, key, 7 + i, HDR)
    found = find_levels(builder.build())
    assert found.level[:12].tolist() == [1] * 12
    assert set(found.zone.tolist()) == {0}


def test_slow_leaves_with_few_uplinks_are_leaves() -> None:
    fabric = zoned("border")
    slow = np.flatnonzero(fabric.role == Role.LEAF)[[3, 17, 60]]
    up = np.flatnonzero(np.isin(fabric.port_node, slow) & (fabric.peer_node >= 0) & (fabric.peer_node < 122))
    assert_found(fabric.without(up[fabric.port_number[up] % 5 != 0]), fabric)


def test_a_line_of_switches_is_as_high_as_it_is_long() -> None:
    builder = FabricBuilder("line")
    keys = [builder.switch(f"s{i}", model="", radix=3, role=Role.SWITCH, level=-1) for i in range(300)]
    for near, far in pairwise(keys):
        builder.link(near, 2, far, 1, HDR)
    for i in range(2):
        host = builder.adapter(f"h{i}", "mlx5_0", model="", host_model="", role=Role.COMPUTE)
        builder.link(host, 1, keys[0], 1 + 2 * i, HDR)
    found = find_levels(builder.build())
    assert found.level[:300].tolist() == [min(i + 1, 127) for i in range(300)]


def test_adapters_without_a_switch_have_no_zone() -> None:
    builder = FabricBuilder("back to back")
    hosts = [builder.adapter(f"h{i}", "mlx5_0", model="", host_model="", role=Role.COMPUTE) for i in range(2)]
    builder.link(hosts[0], 1, hosts[1], 1, HDR)
    assert find_levels(builder.build()).zone.tolist() == [-1, -1]


def test_an_empty_pod_is_a_pod() -> None:
    fabric = grow_tree((4, 4, 3), (1, 4, 4), (1, 1, 1))
    leaves = np.flatnonzero(fabric.level[: fabric.n_switches] == 1)[-4:]
    hosts = np.flatnonzero(np.isin(fabric.peer_node, leaves) & (fabric.port_node >= fabric.n_switches))
    assert_found(fabric.without(hosts), with_one_zone(fabric))


@given(fabrics())
def test_any_wiring_gets_levels(fabric: Fabric) -> None:
    found = find_levels(fabric)
    n = fabric.n_switches
    level, zone, role = found.level[:n], found.zone[:n], found.role[:n]
    assert np.array_equal(level == -1, role == Role.SWITCH)
    assert np.all((zone >= 0) | (role == Role.JOINT) | (role == Role.SWITCH) | hangs_on_joints_alone(found))
    hung = fabric.end_switch[n:]
    assert np.all(level[hung[hung >= 0]] > 0)
    assert np.array_equal(found.role[n:], fabric.role[n:])


def hangs_on_joints_alone(fabric: Fabric) -> np.ndarray:
    n = fabric.n_switches
    near, far = fabric.port_node, fabric.peer_node
    links = (near < n) & (far >= 0) & (far < n)
    placed = fabric.zone[far[links]] >= 0
    return np.bincount(near[links], weights=placed, minlength=n) == 0


def crowded_zones(seed: int) -> tuple[Fabric, dict[str, tuple[int, Role]]]:
    """Zones whose joints hang on as few leaves as can be, one of which may hold no host; and what each switch is.

    Of two leaves of one zone without hosts, which share a joint, some are taken for cores.
    """
    rng, draft = np.random.default_rng(seed), Draft()
    n_zones, n_spines, n_leaves = (int(rng.integers(*bounds)) for bounds in ((2, 5), (6, 16), (4, 13)))
    down, n_joints, width = int(rng.integers(4, 25)), int(rng.integers(1, 4)), int(rng.integers(2, 11))
    width = min(width, n_leaves * down // 3 // n_joints, (2 * down - 1) // n_joints)
    joints = draft.add(n_joints)
    truth = {f"s{joint}": (2, Role.JOINT) for joint in joints}
    for _ in range(n_zones):
        leaves, spines = two_levels(draft, n_leaves, n_spines)
        truth |= {f"s{leaf}": (1, Role.LEAF) for leaf in leaves} | {f"s{spine}": (2, Role.SPINE) for spine in spines}
        free = [leaf for leaf in leaves for _ in range(down)]
        for joint in joints:
            for _ in range(width):
                draft.cable(joint, free.pop(0))
        for leaf in free:
            draft.host(leaf)
    draft.cables = [cable for cable in draft.cables if cable[0] in joints or rng.random() >= rng.choice([0.0, 0.03])]
    return draft.build(f"crowded-{seed}", rng), truth


@given(seed=st.integers(0, 1 << 30))
def test_joints_are_equal_however_few_leaves_they_hang_on(seed: int) -> None:
    found, truth = crowded_zones(seed)
    n = found.n_switches
    seen = {name: (int(found.level[i]), Role(int(found.role[i]))) for i, name in enumerate(found.names[:n])}
    assert seen == {name: truth[name] for name in seen}


def stable_colours(fabric: Fabric) -> list[int]:
    """Colours of the switches by hosts and, again and again, by the colours of their neighbours, as plain tuples."""
    n = fabric.n_switches
    hosts = np.bincount(fabric.end_switch[fabric.ends(kind=Kind.HCA)], minlength=n).tolist()
    near = [[fabric.peer_node[p] for p in fabric.inner[fabric.port_node[fabric.inner] == i]] for i in range(n)]
    colour = hosts
    for _ in range(n):
        told = [(colour[i], tuple(sorted(colour[j] for j in near[i] if j != i))) for i in range(n)]
        names = {key: number for number, key in enumerate(sorted(set(told)))}
        if len(names) == len(set(colour)):
            break
        colour = [names[key] for key in told]
    return colour


@pytest.mark.slow
@given(seed=st.integers(0, 1 << 30), of=st.sampled_from([draw, lambda seed: crowded_zones(seed)[0]]))
def test_levels_do_not_depend_on_labels_and_are_equal_where_the_structure_is(seed: int, of: Callable) -> None:
    fabric = without_levels(of(seed))
    found, n = find_levels(fabric), fabric.n_switches
    mixed = relabelled(fabric, np.random.default_rng(seed))
    again, back = find_levels(mixed.fabric), mixed.node[:n]
    np.testing.assert_array_equal(again.level[:n], found.level[back])
    np.testing.assert_array_equal(again.role[:n], found.role[back])
    zones = set(zip(again.zone[:n].tolist(), found.zone[back].tolist(), strict=True))
    assert len(zones) == len({one for one, _ in zones}) == len({other for _, other in zones})
    if n < 100:  # the plain colours take a minute for a large machine
        kinds = set(zip(stable_colours(fabric), found.level[:n].tolist(), strict=True))
        assert len(kinds) == len({colour for colour, _ in kinds})


@pytest.mark.parametrize("spines", [2, 3, 5])
@pytest.mark.parametrize("empty", [1, 2, 3])
def test_leaves_without_hosts_are_leaves(spines: int, empty: int) -> None:
    """They hang on the spines like any other, also where several are alike; nothing stands above the spines."""
    draft = Draft()
    leaves, _ = two_levels(draft, 6, spines)
    for leaf in leaves[empty:]:
        draft.host(leaf)
    fabric = draft.build("empty", np.random.default_rng(0))
    found = find_levels(without_levels(fabric))
    degree = np.bincount(fabric.port_node[fabric.inner], minlength=fabric.n_switches)
    assert found.level[: fabric.n_switches].tolist() == np.where(degree == spines, 1, 2).tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_switch_without_a_zone_joins_that_of_most_of_its_cables(seed: int) -> None:
    """Round by round, in dictionaries: on a tie the zone of the lower kind; joints and what has no level stay out."""
    rng, n = np.random.default_rng(seed), 12
    some = np.triu(rng.integers(0, 4, (n, n)) * (rng.random((n, n)) < 0.25), 1)
    cables, kind = some + some.T, rng.permutation(n)
    zone = rng.choice([-1, -1, 2, 5, 9], n)
    zone[:2] = 5, 2
    level, joint = rng.choice([-1, 1, 2, 2], n), rng.random(n) < 0.2
    wiring = SimpleNamespace(cables=sparse.csr_array(cables), kind=kind)
    found = _spread(wiring, zone, level, joint)  # type: ignore[arg-type]

    number = {each: at for at, each in enumerate(sorted({*zone.tolist()} - {-1}))}
    first = {at: min(kind[zone == each]) for each, at in number.items()}
    mine = {switch: number[each] for switch, each in enumerate(zone.tolist()) if each >= 0}
    while True:
        joins = {}
        for switch in set(range(n)) - set(mine):
            votes = {at: sum(cables[switch, far] for far, of in mine.items() if of == at) for at in first}
            best = max(votes, key=lambda at: (votes[at], -first[at]))
            if votes[best] and not joint[switch] and level[switch] >= 0:
                joins[switch] = best
        if not joins:
            break
        mine |= joins
    assert found.tolist() == [mine.get(switch, -1) for switch in range(n)]
