"""Rails, and what is offered where they cannot be built."""

import re
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import topo
from helpers.clusters import CATALOG
from helpers.strategies import examples
from topo.errors import DesignError
from topo.shapes.rail import pod_size


def rails(model: str, count: int, network: dict[str, object]) -> topo.Cluster:
    return topo.parse({"name": "x", "nodes": {"gpu": {"model": model, "count": count}}, "network": network})


@examples(5)
@given(
    model=st.sampled_from(["gb200-nvl72", "dgx-h100", "dgx-b300"]),
    count=st.integers(1, 120),
    unit=st.integers(1, 20),
    switch=st.sampled_from(["QM9700", "QM8700"]),
)
def test_each_way_that_is_offered_can_be_built(model: str, count: int, unit: int, switch: str) -> None:
    tree = {"switch": switch}
    rail = {"shape": "rail", "unit_nodes": unit, "tree": tree}
    said = ""
    try:
        _ = rails(model, count, rail).fabrics
    except topo.HeddleError as error:
        said = str(error)
    assume("leaves, and a spine of" in said)
    assert "spines with more ports" in said
    for key, number in re.findall(r"`(unit_nodes|planes|rails): (\d+)`", said):
        other = rail | {key: int(number)} if key != "planes" else {"shape": key, key: int(number), "tree": tree}
        assert rails(model, count, other).fabrics
    if "`tree.levels: 3`" in said:
        assert rails(model, count, rail | {"tree": tree | {"levels": 3}}).fabrics


def test_nvl72_on_rails_of_64_ports_is_offered_planes() -> None:
    with pytest.raises(topo.HeddleError, match=r"72 rails x 1 unit = 72 leaves.*`shape: planes` with `planes: 2`"):
        _ = rails("gb200-nvl72", 8, {"shape": "rail", "unit_nodes": 8, "tree": {"switch": "QM9700"}}).fabrics


@pytest.mark.parametrize("protocol", ["ethernet", "infiniband"])
def test_only_tables_of_infiniband_bound_the_ports_of_a_switch(protocol: str) -> None:
    """A forwarding table has a byte for a port; what has no tables may have more ports than that."""
    split = replace(CATALOG.switch("SN5600"), split_radix=256, protocol=protocol)
    catalog = replace(CATALOG, switches={**CATALOG.switches, "SN5600": split})
    spec = {"name": "x", "nodes": {"gpu": {"model": "dgx-b300-spectrum", "count": 30}},
            "network": {"shape": "fat-tree", "switch": "SN5600", "split": True}}  # fmt: skip
    cluster = topo.Cluster(topo.parse(spec).spec, catalog)
    if protocol == "ethernet":
        assert cluster.fabric.n_switches == 1
        assert not cluster.subnets
    else:
        with pytest.raises(DesignError, match=r"leaf0 would have 256 ports.*at most 254"):
            _ = cluster.fabrics


@pytest.mark.parametrize("models", [("dgx-h100", "pcie-a100"), ("pcie-a100", "dgx-h100")])
def test_servers_of_unlike_numbers_of_adapters_are_told_the_most(models: tuple[str, str]) -> None:
    nodes = {name: {"model": model, "count": 4} for name, model in zip("ab", models, strict=True)}
    rail = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9700"}}
    with pytest.raises(DesignError, match="need the same number of adapters, 8 here"):
        _ = topo.parse({"name": "x", "nodes": nodes, "network": rail}).fabrics


@given(
    radix=st.integers(4, 64),
    below=st.integers(1, 32),
    up=st.integers(1, 32),
    parallel=st.integers(1, 3),
    units=st.integers(1, 40),
)
def test_a_pod_is_the_largest_equal_part_of_a_rail_that_fits_below_a_spine(
    radix: int, below: int, up: int, parallel: int, units: int
) -> None:
    """One that fits has no more than the share of a spine's ports that lead down, in whole cables to each leaf."""
    assume(below >= up)
    down = radix * below // (below + up)
    assume(down >= parallel)
    parts = {part for part in range(1, units + 1) if units % part == 0 and part * parallel <= down}
    assert pod_size(radix, ceil(below / up * 1e6) / 1e6, parallel, units) == max(parts)


@examples(20)
@given(
    rails=st.sampled_from([1, 2, 4, 8]), units=st.integers(1, 6), unit=st.integers(1, 4), levels=st.sampled_from([2, 3])
)
def test_adapter_r_of_a_server_is_on_rail_r_of_its_unit(rails: int, units: int, unit: int, levels: int) -> None:
    """Leaf ``rails x unit + rail``; and on three levels, leaves of two rails have no spine in common."""
    network = {"shape": "rail", "rails": rails, "unit_nodes": unit, "tree": {"switch": "QM9700", "levels": levels}}
    cluster = rails_of_eight(units * unit, network)
    fabric = cluster.fabric
    on = {}
    for node in range(fabric.n_switches, fabric.n_nodes):
        server, adapter = re.fullmatch(r"gpu(\d+) mlx5_(\d+)", fabric.label(node)).groups()
        leaf = fabric.label(int(fabric.peer_node[fabric.ports_of(node)[0]]))
        on[int(server), int(adapter)] = int(leaf.removeprefix("leaf"))
    assert on == {(server, r): server // unit * rails + r % rails for server in range(units * unit) for r in range(8)}
    spines = [
        {int(fabric.peer_node[port]) for port in fabric.ports_of(leaf)} & set(range(fabric.n_switches))
        for leaf in range(rails * units)
    ]
    if levels == 3:
        assert all(not (spines[a] & spines[b]) or a % rails == b % rails for a in range(len(spines)) for b in range(a))


def rails_of_eight(count: int, network: dict[str, object]) -> topo.Cluster:
    return rails("dgx-h100", count, network)
