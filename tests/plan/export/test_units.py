"""Units of compute nodes: equal to groups of equal leaf sets on intact fabrics, and unmoved by what is not theirs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import topo
from plan.export.units import find_units, group_alike
from topo import Fabric, Role
from topo.dumps.ibnetdiscover import format_ibnetdiscover

Partition = set[frozenset[str]]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Fabric, ...]:
    """Trees, rails and planes, some with storage in the same network or in one of its own."""
    kind, count = draw(st.sampled_from(["tree", "rails", "planes"])), draw(st.integers(2, 24))
    models = {"tree": "pcie-a100", "rails": "dgx-h100", "planes": "hgx-h800"}
    nodes = {"gpu": {"model": models[kind], "count": count}}
    tree: dict[str, object] = {"switch": "QM8700" if kind == "tree" else "QM9700"}
    network: dict[str, object] = {"shape": "planes", "planes": 8, "tree": tree | {"leaves": 3, "spines": 2}}
    if kind == "tree":
        network = {"shape": "fat-tree", **tree, "leaves": draw(st.integers(2, 4)), "spines": draw(st.integers(2, 3))}
        if draw(st.booleans()):
            nodes["storage"] = {"model": "storage-3fs", "role": "storage", "count": 2}
    elif kind == "rails":
        network = {"shape": "rail", "unit_nodes": draw(st.integers(3, 8)), "tree": tree}
    try:
        return topo.parse({"name": "x", "nodes": nodes, "network": network}).fabrics
    except topo.HeddleError:
        assume(False)
        raise


def partition(fabrics: tuple[Fabric, ...]) -> Partition:
    return {frozenset(unit.nodes) for unit in find_units(fabrics)}


def by_leaf_sets(fabrics: tuple[Fabric, ...]) -> Partition:
    """Nodes with the same leaves, said plainly."""
    leaves: dict[str, set[tuple[str, int]]] = {}
    for fabric in fabrics:
        for port in range(fabric.first_adapter_port, fabric.n_ports):
            node = int(fabric.port_node[port])
            if fabric.role[node] == Role.COMPUTE and fabric.peer[port] >= 0:
                host = fabric.hosts[fabric.host[node]]
                leaves.setdefault(host, set()).add((fabric.name, int(fabric.peer_node[port])))
    return {frozenset(a for a in leaves if leaves[a] == leaves[b]) for b in leaves}


@given(clusters())
def test_units_of_an_intact_fabric_share_all_their_leaves(fabrics: tuple[Fabric, ...]) -> None:
    assert partition(fabrics) == by_leaf_sets(fabrics)


@given(clusters(), st.data())
def test_a_missing_cable_moves_no_node(fabrics: tuple[Fabric, ...], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(fabrics) - 1))
    link = data.draw(st.integers(0, len(fabrics[at].links) - 1))
    whole = find_units(fabrics)
    damaged = tuple(
        fabric.without(fabric.links[link]) if number == at else fabric for number, fabric in enumerate(fabrics)
    )
    still = {node for unit in by_leaf_sets(damaged) for node in unit}
    left = [(unit.name, tuple(node for node in unit.nodes if node in still), unit.above) for unit in whole]
    found = [(unit.name, unit.nodes, unit.above) for unit in find_units(damaged)]
    gone = len({node for unit in whole for node in unit.nodes} - still)
    if gone:  # the only cable of a node, perhaps of a whole unit, whose number then is free
        assert {nodes for _, nodes, _ in found} == {nodes for _, nodes, _ in left if nodes}
    else:
        assert found == left


@pytest.mark.slow
@given(clusters(), st.integers(1, 4))
def test_a_second_network_moves_no_node(fabrics: tuple[Fabric, ...], leaves: int) -> None:
    """It is as fast as the first at most, and has storage in it."""
    assume(not any(host.startswith("storage") for fabric in fabrics for host in fabric.hosts))
    hosts = sorted({node for unit in find_units(fabrics) for node in unit.nodes})
    group = {"model": "pcie-a100", "count": len(hosts)}
    network = {"shape": "fat-tree", "switch": "QM8700", "leaves": leaves + 1, "spines": 2}
    try:
        (other,) = topo.parse({"name": "other", "nodes": {"gpu": group, "storage": {
            "model": "storage-3fs", "role": "storage", "count": 2}}, "network": network}).fabrics  # fmt: skip
    except topo.HeddleError:
        assume(False)
        raise
    names = iter(hosts)
    of_host = {name: next(names) if name.startswith("gpu") else name for name in other.hosts}
    second = replace(other, name="storage-net", hosts=tuple(of_host[name] for name in other.hosts))
    assert find_units((*fabrics, second)) == find_units(fabrics)
    assert partition((second, *fabrics)) == partition(fabrics)


@given(clusters(), st.randoms(use_true_random=False))
def test_shuffled_names_shuffle_the_same_units(fabrics: tuple[Fabric, ...], rng: object) -> None:
    hosts = sorted({host for fabric in fabrics for host in fabric.hosts})
    to = dict(zip(hosts, rng.sample(hosts, len(hosts)), strict=True))  # type: ignore[attr-defined]
    shuffled = tuple(replace(fabric, hosts=tuple(to[host] for host in fabric.hosts)) for fabric in fabrics)
    assert partition(shuffled) == {frozenset(to[node] for node in unit) for unit in partition(fabrics)}


@pytest.mark.parametrize("preset", ["lab-20", "k-ary-tree", "dgx-b200-superpod", "direct-zones"])
def test_a_dump_has_the_units_of_its_plan(preset: str, tmp_path: Path) -> None:
    (fabric,) = topo.preset(preset).fabrics
    path = tmp_path / "x.ibnetdiscover"
    path.write_text(format_ibnetdiscover(fabric, np.arange(1, fabric.n_end_ports + 1)), encoding="utf-8")
    dump = topo.read_fabric(path)
    others = fabric.node_guid[np.isin(fabric.role, (Role.STORAGE, Role.MANAGEMENT))]
    storage = np.isin(dump.node_guid, others)
    told = replace(dump, role=np.where(storage, Role.STORAGE, dump.role).astype(np.uint8))
    assert partition((told,)) == partition((fabric,))


def test_tiers_of_a_tree_of_three_levels_are_pods_and_zones() -> None:
    units = find_units(topo.preset("k-ary-tree").fabrics)
    assert [unit.above for unit in units] == [(f"zone{at // 4}", "fabric") for at in range(16)]
    assert {unit.above for unit in find_units(topo.preset("torus").fabrics)} == {("fabric",)}
    assert len({unit.above for unit in find_units(topo.preset("dragonfly").fabrics)}) == 9


def test_storage_moves_no_unit_of_a_preset() -> None:
    """Fourteen uneven groups before the storage network was told apart."""
    assert [len(unit.nodes) for unit in find_units(topo.preset("dgx-a100-superpod").fabrics)] == [20] * 7


def test_a_chain_of_overlapping_sets_stays_apart() -> None:
    sets = {f"n{at}": frozenset({(0, at), (0, at + 1)}) for at in range(6)}
    assert len(group_alike(sets)) == 6
    sets |= {f"m{at}": sets[f"n{at}"] for at in range(6)} | {"lame": frozenset({(0, 0)})}
    groups = group_alike(sets)
    assert len(groups) == 6
    assert next(group for group in groups if "lame" in group.members).members == ["m0", "n0", "lame"]
