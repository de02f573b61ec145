"""Several networks in one plan: what hangs where, one set of names, and tables for those with a subnet manager only."""

import csv
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import topo
from costmodel.bills import bill
from helpers import recount
from helpers.strategies import examples
from plan.cli import run
from plan.cures import _network
from plan.export.registry import EXPORTS
from plan.pipeline import DESIGN, Plan, run_passes

TREE = {"shape": "fat-tree", "switch": "QM9790"}
ETHERNET = {"shape": "fat-tree", "switch": "SN5600", "split": True}
NODES = {
    "gpu": {"model": "dgx-h100", "count": 6},
    "st": {"model": "storage-ndr", "count": 3},
    "head": {"model": "management-ndr", "count": 2},
}


def cluster(networks: dict[str, object], **more: object) -> topo.Cluster:
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}}
    return topo.parse({"name": "pod", "nodes": NODES, "network": network, "networks": networks} | more)


@given(
    st.dictionaries(
        st.sampled_from(["storage", "in-band", "leaf", "x"]),
        st.tuples(
            st.dictionaries(st.sampled_from(sorted(NODES)), st.integers(1, 3), min_size=1),
            st.sampled_from([TREE, ETHERNET]),
        ),
        max_size=3,
    )
)
def test_every_adapter_hangs_in_one_network_and_has_a_number_of_its_own(networks):
    specs = {name: {"network": shape, "adapters": adapters} for name, (adapters, shape) in networks.items()}
    found = cluster(specs)
    adapters = Counter(name for fabric in found.fabrics for name in fabric.names[fabric.n_switches :])
    switches = Counter(fabric.label(node) for fabric in found.fabrics for node in range(fabric.n_switches))
    elsewhere = {group for own, _ in networks.values() for group in own}
    per_server = {"gpu": 8, "st": 0 if "st" in elsewhere else 2, "head": 0 if "head" in elsewhere else 1}
    for own, _ in networks.values():
        for group, count in own.items():
            per_server[group] += count
    wanted = {
        f"{group}{number} mlx5_{device}"
        for group, count in per_server.items()
        for number in range(NODES[group]["count"])
        for device in range(count)
    }

    assert set(adapters) == wanted and max(adapters.values()) == 1
    assert max(switches.values()) == 1
    assert [fabric in found.subnets for fabric in found.fabrics] == sorted(
        (fabric in found.subnets for fabric in found.fabrics), reverse=True
    )
    assert len(found.fabrics) - len(found.subnets) == sum(shape is ETHERNET for _, shape in networks.values())
    assert bill(found).count("adapter") == len(wanted)
    assert found.counts.gpu_nodes == 6 and found.counts.storage_nodes == 3


@pytest.mark.parametrize(
    "shape",
    [
        {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}},
        {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}, "storage": {"switch": "QM9790"}},
        {"shape": "planes", "planes": 2, "tree": {"switch": "QM9790"}},
        {"shape": "zones", "zones": 2, "tree": {"switch": "QM9790"}, "shared": ["gpu"], "direct": {"ports": 2}},
    ],
    ids=lambda shape: shape["shape"],
)
def test_adapters_are_numbered_on_whatever_shape_a_further_network_has(shape: dict[str, object]) -> None:
    more = {"a": {"network": shape, "adapters": {"gpu": 2}}, "b": {"network": TREE, "adapters": {"gpu": 1}}}
    found = cluster(more, nodes={"gpu": NODES["gpu"]})
    adapters = [name for fabric in found.fabrics for name in fabric.names[fabric.n_switches :]]
    each = 13 if "storage" in shape else 11
    assert sorted(adapters) == sorted(f"gpu{server} mlx5_{device}" for server in range(6) for device in range(each))


@pytest.mark.slow
def test_a_plan_of_several_networks_has_tables_for_its_subnets_and_one_cable_list(tmp_path: Path) -> None:
    spec = {
        "name": "pod", "nodes": NODES, "network": {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}},
        "networks": {
            "storage": {"network": TREE, "adapters": {"gpu": 2, "st": 2}},
            "in-band": {"network": ETHERNET, "adapters": {"gpu": 2, "st": 1, "head": 1}},
        },
        "floor": {"rack_units": 48},
    }  # fmt: skip
    (tmp_path / "pod.yaml").write_text(json.dumps(spec))
    out = tmp_path / "out"
    assert run(["build", str(tmp_path / "pod.yaml"), "-o", str(out)]) in (0, 3)
    document = json.loads((out / "plan.json").read_text())
    lines = (out / "cables.csv").read_text().splitlines()

    assert [subnet["name"] for subnet in document["subnets"]] == ["pod", "pod-storage"]
    assert document["without_tables"] == ["pod-in-band"]
    assert not (out / "pod-in-band").exists()
    assert len(lines) - 1 == document["counts"]["links"]
    assert any(",in-band-leaf0," in line for line in lines)


OUT_OF_BAND = {"shape": "fat-tree", "switch": "SN2201", "spine_switch": "SN4600C"}


@pytest.mark.slow
@examples(12)
@given(
    st.integers(1, 60), st.integers(1, 150), st.sampled_from([{}, {"spines": 2}, {"spines": 4},
    {"spines": 2, "parallel": 1}, {"spines": 3, "parallel": 1}, {"spines": 1, "parallel": 3}]), st.booleans(),
)  # fmt: skip
def test_out_of_band_networks_plug_nodes_into_copper_and_uplinks_into_the_other_ports(heads, more, size, floor):
    nodes = {"head": {"model": "management-ndr", "count": heads, "role": "compute"},
             "pdu": {"model": "management-ndr", "count": more}}  # fmt: skip
    spec = {
        "name": "pod", "nodes": nodes, "network": TREE,
        "networks": {"oob": {"network": OUT_OF_BAND | size, "adapters": dict.fromkeys(nodes, 1), "adapter": "BMC-1GE"}},
    } | ({"floor": {"rack_units": 48}} if floor else {})  # fmt: skip
    found = topo.parse(spec)
    fabric, panel = found.fabrics[-1], topo.panels(found.fabrics, found.catalog)[-1]
    wanted = heads + more
    leaves = -(-wanted // 48)
    up = size["spines"] * size["parallel"] if "parallel" in size else 4
    ends = [{panel.connector[port] for port in link} for link in fabric.links.tolist()]

    assert Counter(fabric.models[model] for model in fabric.model[: fabric.n_switches].tolist())["SN2201"] == leaves
    assert Counter(map(tuple, ends)) == Counter({("RJ45",): wanted, ("QSFP28",): leaves * up})
    assert set(fabric.rate_gbps[fabric.links[:, 0]].tolist()) == {1.0, 100.0}
    assert fabric not in found.subnets
    (leaf, *_) = topo.count_ports([fabric], found.catalog).classes
    assert (leaf.down, leaf.up, leaf.free) == (wanted, leaves * up, leaves * 48 - wanted)
    assert leaf.free_uplinks == leaves * (4 - up), "ports of 100G, which take no server"
    fullest = max((fabric.peer_node[fabric.ports_of(s)] >= fabric.n_switches).sum() for s in range(fabric.n_switches))
    assert leaf.taper == pytest.approx(fullest / (up * 100))
    parts = bill(found)
    if floor:
        copper = Counter()
        for line in parts.of("cable").lines:
            copper[found.catalog.cables[line.item].kind, str(found.catalog.cables[line.item].speed)] += line.count
        assert copper["TP", "1xGE"] == wanted
        assert copper["DAC", "4xEDR"] + copper["AOC", "4xEDR"] == leaves * up
        rows = list(
            csv.DictReader(io.StringIO(EXPORTS["cables"].make(run_passes(Plan("pod", found), DESIGN))["cables.csv"]))
        )
        models = {name: fabric.models[model] for name, model in zip(fabric.hosts, fabric.host_model, strict=True)}
        switches = ((net, node) for net in found.fabrics for node in range(net.n_switches))
        models |= {net.label(node): net.models[net.model[node]] for net, node in switches}
        assert not recount.faults(rows, models)
        assert max(Counter((row["b_device"], row["b_port"]) for row in rows).values()) == 1
    else:
        assert sum(line.count for line in parts.lines if line.item == "1xGE") == wanted


def test_a_switch_of_two_kinds_of_ports_is_a_leaf() -> None:
    nodes = {"pdu": {"model": "management-ndr", "count": 60}}

    def of(**network: object) -> topo.Cluster:
        return topo.parse({"name": "x", "nodes": nodes, "network": {"shape": "fat-tree", "switch": "SN2201"} | network})

    with pytest.raises(topo.DesignError, match=r"48 of 1xGE and 4 of 4xEDR.*spine_switch"):
        _ = of().fabrics
    with pytest.raises(topo.DesignError, match=r"3 spines x 2 links = 6 ports, and a SN2201 has 4 for uplinks"):
        _ = of(spine_switch="SN4600C", spines=3, parallel=2).fabrics
    with pytest.raises(topo.DesignError, match=r"ports of two kinds"):
        _ = of(shape="torus", sizes=[2, 2], hosts=15).fabrics
    assert of(spine_switch="SN4600C").counts.leaf == 2


def test_a_leaf_of_two_kinds_of_ports_is_grafted_on_a_fast_tree() -> None:
    nodes = {"st": {"model": "storage-ndr", "count": 40}, "pdu": {"model": "management-ndr", "count": 90}}
    graft = {"nodes": ["pdu"], "switch": "SN2201", "uplinks": 2}
    network = {"shape": "fat-tree", "switch": "SN4600C", "levels": 2, "leaves": 3, "grafts": [graft]}
    fabric = topo.parse({"name": "x", "nodes": nodes, "network": network}).fabric
    grafted = [node for node in range(fabric.n_switches) if "graft" in fabric.names[node]]
    assert [int(fabric.port_offset[node + 1] - fabric.port_offset[node]) for node in grafted] == [52, 52]
    uplinks = [port for node in grafted for port in range(*fabric.port_offset[node : node + 2].tolist())
               if fabric.rate_gbps[port] == 100 and fabric.peer[port] >= 0]  # fmt: skip
    assert [int(fabric.port_number[port]) for port in uplinks] == [49, 50] * 2


def test_ethernet_alone_is_a_plan_without_tables(tmp_path: Path, capsys) -> None:
    spec = {"name": "eth", "nodes": {"gpu": {"model": "dgx-b300-spectrum", "count": 4}},
            "network": {"shape": "fat-tree", "switch": "SN5600"}}  # fmt: skip
    (tmp_path / "eth.yaml").write_text(json.dumps(spec))
    assert run(["build", str(tmp_path / "eth.yaml"), "-o", str(tmp_path / "out")]) in (0, 3)
    assert "no subnet manager" in capsys.readouterr().out
    assert run(["export", str(tmp_path / "eth.yaml"), "opensm", "-o", str(tmp_path / "x")]) == 2
    assert "found Ethernet only" in capsys.readouterr().err


def test_switches_of_two_protocols_are_not_linked() -> None:
    network = {"shape": "fat-tree", "switch": "QM9790", "spine_switch": "SN5600", "levels": 2}
    nodes = {"gpu": {"model": "dgx-h100", "count": 6}}
    with pytest.raises(topo.DesignError, match="QM9790 of InfiniBand and SN5600 of Ethernet"):
        _ = topo.parse({"name": "x", "nodes": nodes, "network": network}).fabrics


def test_gigabit_ports_are_not_linked_to_infiniband() -> None:
    with pytest.raises(topo.DesignError, match=r"bmc:1 is gigabit Ethernet.*pod-oob are of InfiniBand"):
        _ = cluster({"oob": {"network": TREE, "adapters": {"gpu": 1}, "adapter": "BMC-1GE"}}).fabrics


def test_what_is_wrong_with_a_network_says_which() -> None:
    bad = {"storage": {"network": TREE | {"levels": 1, "spines": 2}, "adapters": {"gpu": 1}}}
    with pytest.raises(topo.DesignError, match=r"networks\.storage: `spines`"):
        _ = cluster(bad).fabrics
    with pytest.raises(topo.SpecError, match=r"networks\.storage\.adapters"):
        cluster({"storage": {"network": TREE, "adapters": {"nobody": 1}}})


def test_a_twin_of_the_first_network_is_the_same_network() -> None:
    """Cables of the first network are where they were, whatever stands beside it."""
    alone = cluster({}, nodes={"gpu": NODES["gpu"]}).fabrics[0]
    beside = cluster({"storage": {"network": TREE, "adapters": {"gpu": 2, "st": 2, "head": 1}}}).fabrics[0]
    assert np.array_equal(alone.peer, beside.peer) and alone.names == beside.names


@pytest.mark.parametrize("planes", [1, 2])
def test_the_first_network_has_the_name_that_the_spec_gives_it_and_differs_in_nothing_else(planes: int) -> None:
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}, "planes": planes}
    storage = {"storage": {"network": TREE, "adapters": {"gpu": 2, "st": 2, "head": 1}}}
    plain, named = (cluster(storage, network=network, **more) for more in ({}, {"network_name": "compute"}))
    for before, after in zip(plain.fabrics, named.fabrics, strict=True):
        assert after.name == before.name.replace("pod", "pod-compute", "storage" not in before.name)
        assert after.is_copy_of(before) and after.names == before.names
    with pytest.raises(topo.DesignError, match="as an entry of `networks`"):
        _ = cluster(storage, network_name="storage").fabrics
    loss = next(one for one in topo.find_losses(named.fabrics, named.catalog).worst if "compute" in one.network)
    assert _network(named, loss.network)[0] == ["network"]


@pytest.mark.parametrize(("own", "other"), [("storage-a", "storage"), ("a", "a-b"), (None, "rail"), (None, "p")])
def test_a_subnet_is_of_the_network_whose_name_it_has_however_alike_they_are(own: str | None, other: str) -> None:
    network = {"shape": "rail", "unit_nodes": 4, "tree": {"switch": "QM9790"}, "planes": 2}
    storage = {other: {"network": TREE, "adapters": {"gpu": 2, "st": 2, "head": 1}}}
    found = cluster(storage, network=network, **({"network_name": own} if own else {}))
    assert [found.network_of(fabric.name) for fabric in found.fabrics] == [None, None, other]
    assert [_network(found, fabric.name)[0][0] for fabric in found.fabrics] == ["network", "network", "networks"]
