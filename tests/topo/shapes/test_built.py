"""What people build: split node ports, rails with planes and several adapters a node, groups of different sizes."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import topo
from helpers.strategies import examples
from topo.errors import DesignError
from topo.fabric import Fabric


def cluster(network: dict[str, object], **nodes: tuple[str, int]) -> topo.Cluster:
    groups = {name: {"model": model, "count": count} for name, (model, count) in nodes.items()}
    return topo.parse({"name": "x", "nodes": groups, "network": network})


def ends_of(fabric: Fabric) -> dict[str, tuple[str, int]]:
    """Name and number of the switch that each adapter hangs on."""
    found = {}
    for end in fabric.ends().tolist():
        node, port = int(fabric.end_node[end]), int(fabric.port_of(np.array([end]))[0])
        found[fabric.names[node]] = (fabric.label(int(fabric.peer_node[port])), int(fabric.peer[port]))
    return found


@examples(30)
@given(
    switch=st.sampled_from(["QM8700", "QM9700"]),
    count=st.integers(1, 300),
    spines=st.integers(1, 8),
    parallel=st.integers(1, 4),
)
def test_node_ports_are_split_and_uplinks_stay_whole(switch: str, count: int, spines: int, parallel: int) -> None:
    tree = {"shape": "fat-tree", "switch": switch, "split": "nodes", "spines": spines, "parallel": parallel}
    model = {"QM8700": "storage-3fs", "QM9700": "storage-ndr"}[switch]
    made = cluster(tree, node=(model, count))
    whole, radix = (200.0, 40) if switch == "QM8700" else (400.0, 64)
    try:
        fabric = made.fabric
    except DesignError:
        assume(False)
        raise
    for node in range(fabric.n_switches):
        ports = np.array(list(fabric.ports_of(node)))
        used = ports[fabric.peer[ports] >= 0]
        to_switch = fabric.peer_node[used] < fabric.n_switches
        rates = fabric.rate_gbps[used]
        assert (rates[to_switch] == whole).all()
        assert (rates[~to_switch] == whole / 2).all()
        # As many ports of the panel as it has: two halves are one.
        assert to_switch.sum() + -(-int((~to_switch).sum()) // 2) <= radix
    (panel,) = topo.panels([fabric], made.catalog)
    for port in range(fabric.n_ports):
        half = "/" in panel.labels[port] and fabric.port_node[port] < fabric.n_switches
        if switch == "QM8700" and fabric.peer[port] >= 0 and fabric.port_node[port] < fabric.n_switches:
            assert half == (fabric.rate_gbps[port] == whole / 2), (
                "split ports are labelled as halves, whole ones are not"
            )


@examples(20)
@given(
    planes=st.sampled_from([1, 2, 4]),
    rails=st.sampled_from([None, 1, 2]),
    nodes=st.integers(1, 40),
    unit=st.integers(1, 16),
)
def test_an_adapter_is_in_its_plane_and_on_its_rail(planes: int, rails: int | None, nodes: int, unit: int) -> None:
    """Counted apart from the compiler: r modulo planes is the plane, r // planes modulo rails the rail."""
    network = {"shape": "rail", "planes": planes, "unit_nodes": unit, "tree": {"switch": "QM9700"}}
    made = cluster(network | ({"rails": rails} if rails else {}), gpu=("dgx-h100", nodes))
    try:
        fabrics = made.fabrics
    except DesignError as refused:
        assert "a unit of" in str(refused) or "do not divide" in str(refused) or "two levels" in str(refused)
        return
    assert len(fabrics) == planes
    of_rail: dict[tuple[int, int, int], set[str]] = {}
    for plane, fabric in enumerate(fabrics):
        for name, (leaf, _) in ends_of(fabric).items():
            host, _, device = name.partition(" mlx5_")
            r = int(device)
            assert r % planes == plane
            rail = r // planes % (rails or 8 // planes)
            of_rail.setdefault((plane, rail, int(host.removeprefix("gpu")) // unit), set()).add(leaf)
    assert all(len(leaves) == 1 for leaves in of_rail.values()), "one leaf for each rail and unit"
    leaves = [leaf for key, (leaf,) in of_rail.items()]
    assert len(set(zip((plane for plane, *_ in of_rail), leaves, strict=True))) == len(of_rail)


@examples(30)
@given(
    plus=st.booleans(),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6)), min_size=1, max_size=3),
    parallel=st.integers(1, 3),
    between=st.none() | st.integers(1, 4),
    split=st.sampled_from([False, "nodes"]),
)
def test_groups_of_different_sizes(plus, sizes, parallel, between, split) -> None:
    """Each two groups are linked equally often, each two switches inside ``parallel`` times."""
    assume(sum(count for count, *_ in sizes) > 1)
    kinds = [
        {"groups": count, "hosts": 2, "global_links": links, "parallel": parallel}
        | ({"leaves": size, "spines": size} if plus else {"switches": size})
        for count, size, links in sizes
    ]
    first, *others = kinds
    network = {"shape": "dragonfly+" if plus else "dragonfly", "switch": "QM8700", "split": split, **first}
    network |= {"others": [{"nodes": [f"n{'abc'[at]}"], **kind} for at, kind in enumerate(others)]}
    names = {"n": ("pcie-a100", 1)} | {f"n{'abc'[at]}": ("pcie-a100", 1) for at in range(len(others))}
    try:
        fabric = cluster(network | ({"between": between} if between else {}), **names).fabric
    except DesignError as refused:
        assert "others" in str(refused)
        return
    ends = fabric.port_node[fabric.inner_links]
    zones = fabric.zone[ends]
    apart = zones[:, 0] != zones[:, 1]
    pairs = Counter(tuple(sorted(pair)) for pair in zones[apart].tolist())
    groups = sum(count for count, *_ in sizes)
    per_group = [size * links for count, size, links in sizes for _ in range(count)]
    least = min(per_group) // (groups - 1)
    assert len(pairs) == groups * (groups - 1) // 2
    if between or len(set(per_group)) > 1:
        assert set(pairs.values()) == {between or least}
    else:
        assert set(pairs.values()) <= {least, least + 1}
    inside = Counter(tuple(sorted(pair)) for pair in ends[~apart].tolist())
    assert set(inside.values()) <= {parallel}
    in_groups = sum(count * (size * size if plus else size * (size - 1) // 2) for count, size, _ in sizes)
    assert len(inside) == in_groups


def test_a_rack_of_trays_has_four_rails() -> None:
    """72 adapters of a rack on four rails, 18 on each; by default they would be 72 rails of one adapter."""
    four = cluster({"shape": "rail", "rails": 4, "unit_nodes": 1, "tree": {"switch": "QM9700"}}, r=("gb200-nvl72", 2))
    assert Counter(leaf for leaf, _ in ends_of(four.fabric).values()) == {f"leaf{leaf}": 18 for leaf in range(8)}
    with pytest.raises(DesignError, match=r"72 adapters, which do not divide over 5 rails: .* would do"):
        _ = cluster(
            {"shape": "rail", "rails": 5, "unit_nodes": 1, "tree": {"switch": "QM9700"}}, r=("gb200-nvl72", 2)
        ).fabric


def test_a_tree_with_directors_on_top_is_routed_and_proven() -> None:
    import routing

    network = {"shape": "fat-tree", "switch": "QM8700", "split": "nodes", "spine_switch": "CS8500", "spines": 2}
    fabric = cluster(network | {"parallel": 9}, n=("pcie-a100", 90)).fabric
    assert fabric.n_switches == 3 + 2 * 60
    assert routing.prove(routing.route(fabric, "fat-tree")).holds
